"""TextGeneration: scores, disjoint prompts, words as actions, rewards of the user."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.generation.lexicon import CLASS_OF, VOCABULARY, grammar, rouge_l, words_of
from agentgym.envs.generation.prompts import KINDS, Prompt, prompt_of, score
from agentgym.envs.generation.text_generation import TextGeneration
from agentgym.errors import ConfigError

WITH_WORDS = Prompt("words", "", ("dog", "saw", "river"), "", 10, "the dog saw a river")
GLOOMY = Prompt("tone", "", ("dog", "river"), "gloomy", 10, "the sad dog saw a dark river")
PAGE = Prompt("summary", "", (), "", 6, "Velmora is a town")


def test_no_word_needs_another_article_and_no_word_is_the_end():
    described = [word for word in VOCABULARY if CLASS_OF[word] in ("noun", "adjective")]
    assert not any(word[0] in "aeiou" for word in described)
    assert "end" not in VOCABULARY


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("The dog saw a river.", 1),
        ("the big brown dog saw a river near the house", 1),
        ("dog saw a river", 4 / 5),
        ("dog saw river", 1 / 2),
        ("the dog saw a xylophone", 4 / 6),
        ("the dog", 0),
        ("the dog saw the dog", 0),
        ("the dog saw a cat saw a bird", 0),
        ("the big big dog saw a river", 0),
        ("", 0),
    ],
)
def test_grammar_is_the_share_of_possible_neighbours(text: str, share: float):
    assert grammar(words_of(text)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("prompt", "text", "expected"),
    [
        (WITH_WORDS, "The dog saw a river.", 1),
        (WITH_WORDS, "The dog saw a tree.", 2 / 3),
        (WITH_WORDS, "the dog saw a river near the tree beside the house", 0),  # too long
        (GLOOMY, "the sad dog saw a dark river", 1),
        (GLOOMY, "the sad dog saw a river", 1 / 2),
        (GLOOMY, "the sad dog saw a bright river", 0),
        (PAGE, "Velmora is a town.", 1),
        (PAGE, "Velmora, a town", 6 / 7),
        (PAGE, "Velmora is a town in the north", 0),
        (PAGE, "?!", 0),
    ],
)
def test_scores(prompt: Prompt, text: str, expected: float):
    assert score(prompt, text) == pytest.approx(expected)


def longest(one: str, other: str) -> int:
    """Returns the length of the longest common subsequence, by its definition."""
    if not one or not other:
        return 0
    if one[0] == other[0]:
        return 1 + longest(one[1:], other[1:])
    return max(longest(one[1:], other), longest(one, other[1:]))


@settings(deadline=None, max_examples=60)
@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_rouge_l_follows_its_definition(one: str, other: str):
    common = longest(one, other)
    expected = 2 * common / (len(one) + len(other)) if common else 0.0
    assert rouge_l(list(one), list(other)) == pytest.approx(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_references_have_the_score_1_and_every_required_word_counts(kind: str):
    for i in range(60):
        prompt = prompt_of(f"train/{i}", kind)
        assert score(prompt, prompt.reference) == 1
        for word in prompt.words:
            shorter = " ".join(w for w in prompt.reference.split() if w != word)
            assert score(prompt, shorter) < 1


@pytest.mark.parametrize("kind", KINDS)
def test_no_prompt_is_in_both_splits(kind: str):
    train, test = ({prompt_of(f"{s}/{i}", kind) for i in range(300)} for s in ("train", "test"))
    assert len(train) > 250 and not train & test


def test_the_instructions_show_the_form_of_a_summary():
    instructions = TextGeneration(kind="summary").instructions
    shown = words_of(instructions.partition("of the form: ")[2].partition(".")[0])
    for i in range(20):
        reference = words_of(prompt_of(f"train/{i}", "summary").reference)
        assert len(shown) == len(reference)
        assert sum(a != b for a, b in zip(shown, reference, strict=True)) <= 4


def test_words_are_added_until_the_end_or_the_limit():
    env = TextGeneration(words=True, kind="words")
    observation, info = env.reset(seed=0)
    assert "Text so far: (empty)" in observation and "end" in info["admissible"]
    observation, *_ = env.step("The")
    assert "Text so far: the" in observation
    assert not env.step("xylophone")[-1]["valid"]
    assert env.step("END")[1:3] == (0.0, True)
    env.reset(seed=0)
    for _ in range(env.prompt.limit - 1):
        assert not env.step("the")[2]
    assert env.step("the")[2]


def test_a_function_replaces_the_reward():
    env = TextGeneration(reward=lambda prompt, text: len(text) / 100)
    env.reset(seed=0)
    assert env.step("x" * 25)[1] == 0.25
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\], got 2.0"):
        env.step("x" * 200)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConfigError, match="kind must be one of"):
        TextGeneration(kind="poem")
