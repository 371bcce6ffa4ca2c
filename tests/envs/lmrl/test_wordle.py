from __future__ import annotations

import gzip
import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core import UnreadableAction
from agentgym.envs.lmrl.wordle import (
    CODES,
    TRIES,
    Vocabulary,
    Wordle,
    as_letters,
    load_vocabulary,
    mark_codes,
)
from agentgym.envs.lmrl.words import COMMON
from agentgym.errors import DataError

SHARED = Path(__file__).parents[4] / "shared"
GOLDEN = SHARED / "golden" / "lmrl_wordle.jsonl.gz"


def marks(guess: str, hidden: str, letter_counts: bool = False) -> str:
    return CODES[mark_codes(guess, as_letters([hidden]), letter_counts)[0]]


class DrawnAsInTheOriginal(Wordle):
    """Samples words with the original's generator."""

    def start(self, seed: int) -> str:
        self.original = random.Random(seed)
        return self.reset(seed=0)[0]

    def _draw(self, count: int) -> int:
        return self.original.choice(range(count))


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
def test_the_original_plays_the_same():
    records = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()]
    assert len(records) == 30
    for record in records:
        path = SHARED / "data" / "lmrl" / record["vocab"]
        env = DrawnAsInTheOriginal(vocabulary=str(path))
        assert len(env.vocabulary.words) == record["n_vocab"]
        env.start(record["seed"])
        for step in record["steps"]:
            observation, reward, terminated, truncated, info = env.step(step["guess"])
            assert (reward, terminated, truncated) == (step["reward"], step["done"], False)
            if step["obs"] == "\n":
                assert not info["valid"]
            else:
                spelled = " ".join(step["guess"])
                assert observation.split("\n")[-1] == f"{spelled}: {step['obs'].strip()}"
            assert len(env.vocabulary.consistent(env.state.history)) == step["remaining"]
            assert info["success"] == (step["reward"] == 0)


@pytest.mark.parametrize(
    ("guess", "hidden", "plain", "counted"),
    [
        ("crane", "crane", "ggggg", "ggggg"),
        ("crane", "moldy", "bbbbb", "bbbbb"),
        ("nacre", "crane", "yyyyg", "yyyyg"),
        ("geese", "eagle", "yyybg", "yybbg"),
        ("eerie", "eagle", "gybbg", "gbbbg"),
        ("allow", "lolly", "bygyb", "bygyb"),
        ("lolly", "label", "gbyyb", "gbybb"),
    ],
)
def test_marks(guess: str, hidden: str, plain: str, counted: str):
    assert marks(guess, hidden) == plain
    assert marks(guess, hidden, letter_counts=True) == counted


def finish(env: Wordle, action: str | None = None) -> tuple[int, float, dict[str, Any]]:
    """Plays given actions, then the expert, to the end. Returns turns, return, info."""
    turns, total = 0, 0.0
    while True:
        _, reward, terminated, _, info = env.step(action or env.expert() or "")
        turns, total = turns + 1, total + reward
        if terminated:
            return turns, total, info


def slow_marks(guess: str, hidden: str, letter_counts: bool) -> str:
    out = ["b"] * 5
    left = list(hidden)
    for i in range(5):
        if guess[i] == hidden[i]:
            out[i] = "g"
            left.remove(guess[i])
    for i in range(5):
        if out[i] == "b" and guess[i] in (left if letter_counts else hidden):
            out[i] = "y"
            if letter_counts:
                left.remove(guess[i])
    return "".join(out)


short = st.text("abc", min_size=5, max_size=5)


@given(short, short, st.booleans())
def test_marks_are_those_of_a_plain_loop(guess: str, hidden: str, letter_counts: bool):
    assert marks(guess, hidden, letter_counts) == slow_marks(guess, hidden, letter_counts)


@given(st.lists(st.sampled_from(COMMON), max_size=3), st.sampled_from(COMMON), st.booleans())
def test_words_left_are_those_that_would_be_marked_alike(
    guesses: list[str], hidden: str, letter_counts: bool
):
    vocabulary = load_vocabulary("common", letter_counts)
    history = tuple((guess, slow_marks(guess, hidden, letter_counts)) for guess in guesses)
    left = [COMMON[i] for i in vocabulary.consistent(history)]
    assert left == [
        word
        for word in COMMON
        if all(slow_marks(guess, word, letter_counts) == said for guess, said in history)
    ]
    assert hidden in left


def test_the_own_vocabulary():
    assert len(COMMON) == len(set(COMMON)) == 893
    assert all(len(word) == 5 and word.islower() and word.isascii() for word in COMMON)


def test_a_game_with_a_fixed_word():
    env = Wordle(fixed_secret=True)
    env.reset(options={"task": "eagle"})
    observation, reward, terminated, _, info = env.step("A G R E E")
    assert (reward, terminated, info["success"]) == (-1.0, False, False)
    assert observation == "Guesses left: 5.\na g r e e: y y b y g"
    observation, reward, terminated, _, info = env.step("eagle\n")
    assert (reward, terminated, info["success"], info["progress"]) == (0.0, True, True, 1.0)
    assert observation.endswith("e a g l e: g g g g g")
    assert info["admissible"] == ()


def test_what_is_no_word_uses_up_a_guess():
    env = Wordle(fixed_secret=True)
    env.reset(options={"task": "eagle"})
    for left, action in enumerate(["", "abc", "qqqqq", "cranes", "cran3", UnreadableAction("?")]):
        observation, reward, terminated, truncated, info = env.step(action)
        assert (reward, info["valid"]) == (-1.0, False)
        assert f"Guesses left: {TRIES - 1 - left}." in observation
        assert terminated == (left == 5) and not truncated
        assert not info["success"]


def test_six_wrong_guesses_lose():
    env = Wordle(fixed_secret=True)
    env.reset(options={"task": "eagle"})
    turns, total, info = finish(env, "about")
    assert (turns, total, info["success"]) == (TRIES, -6.0, False)


def test_drawn_marks_are_distributed_as_if_a_word_were_fixed():
    drawn, fixed = Wordle(), Wordle(fixed_secret=True)
    rng = np.random.default_rng(0)
    counts = []
    for env in (drawn, fixed):
        turns = []
        for seed in range(600):
            options = {"task": COMMON[rng.integers(len(COMMON))]} if env.fixed_secret else None
            env.reset(seed=seed, options=options)
            turns.append(finish(env)[0])
        counts.append(np.mean(turns))
    assert counts[0] == pytest.approx(counts[1], abs=0.15)


@pytest.mark.parametrize("fixed", [False, True])
def test_the_expert_wins(fixed: bool):
    env = Wordle(fixed_secret=fixed, letter_counts=fixed, split="test")
    wins = 0
    for seed in range(100):
        env.reset(seed=seed)
        wins += finish(env)[2]["success"]
    assert wins >= 97


def test_large_vocabularies_are_marked_without_tables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.envs.lmrl.wordle.CACHED_BYTES", 0)
    one, other = Vocabulary("common", False), load_vocabulary("common", False)
    history = (("crane", "bbybb"), ("about", "yybbb"))
    assert one.consistent(history).tolist() == other.consistent(history).tolist()
    assert not one._rows


def test_the_list_limit():
    assert Wordle(list_limit=893).reset(seed=0)[1]["admissible"][0] == " ".join(COMMON[0])
    assert Wordle(list_limit=892).reset(seed=0)[1]["admissible"] == ()


def test_vocabularies_of_files(tmp_path: Path):
    path = tmp_path / "words.txt"
    path.write_text("\ufeffcrane\r\n trace\ntoolong\nabc\ncrane\nCRATE\nslate\nbrave\ngrave\n")
    env = Wordle(vocabulary=str(path))
    assert env.vocabulary.words == ("crane", "trace", "slate", "brave", "grave")
    copy: Any = pickle.loads(pickle.dumps(env.vocabulary))
    assert isinstance(copy, Vocabulary) and copy is env.vocabulary
    path.write_text("abc")
    load_vocabulary.cache_clear()
    with pytest.raises(DataError, match="at least 5 words"):
        Wordle(vocabulary=str(path))
    with pytest.raises(DataError, match="cannot be read"):
        Wordle(vocabulary=str(tmp_path / "none.txt"))


@pytest.mark.parametrize("form", ["Guess: {}", "My guess is {}.", "**Guess 1:** {}", "[{}]"])
def test_a_guess_may_have_a_label(form: str):
    env = Wordle()
    env.reset(seed=0)
    for word, shown in (("tears", "t e a r s: "), ("C R A N E", "c r a n e: ")):
        text, _, _, _, info = env.step(form.format(word))
        assert info["valid"] and shown in text
    assert not env.step(form.format("tears or crane"))[4]["valid"]
