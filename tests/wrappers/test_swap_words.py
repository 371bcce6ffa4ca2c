"""`SwapWords`: a bijection of texts, the same task in other words, and inverted actions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core import UnreadableAction
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.wrappers import SwapWords
from agentgym.wrappers.swap_words import OPPOSITES

SIGNS = {"+": "-", "up": "tove"}
WORDS = st.from_regex(r"\w{1,4}|[+*#]", fullmatch=True)


@given(st.dictionaries(WORDS, WORDS, max_size=3), st.lists(WORDS), st.text())
def test_swapping_twice_restores_any_text(words: dict[str, str], said: list[str], other: str):
    try:
        env = SwapWords(NumberLine(), words)
    except ConfigError:
        return  # pairs that overlap
    for text in (other, " ".join([*words, *said, *words.values()]), "".join(said)):
        assert env.swapped(env.swapped(text)) == text


@pytest.mark.parametrize("env_id", ["Maze-v0", "Household-v0", "TextCraft-v0"])
def test_the_experts_episode_is_the_same_in_other_words(env_id: str):
    words = {**OPPOSITES, "go": "gyre", "you": "snark"}
    plain, env = make_env(env_id), SwapWords(make_env(env_id), words)
    assert env.swapped(env.instructions) == plain.get_wrapper_attr("instructions")
    one, other = plain.reset(seed=3), env.reset(seed=3)
    ended = False
    while not ended:
        assert env.swapped(other[0]) == one[0] and other[-1]["state_key"] == one[-1]["state_key"]
        action = plain.get_wrapper_attr("expert")()
        assert env.swapped(action) == env.expert()
        listed = other[-1]["admissible"]
        assert tuple(map(env.swapped, listed)) == one[-1]["admissible"]
        one, other = plain.step(action), env.step(env.expert() or "")
        assert one[1:4] == other[1:4]
        ended = one[2] or one[3]
    assert other[-1]["success"]


def test_inverted_actions_do_the_opposite_and_no_text_says_so():
    plain, env = NumberLine(size=99), SwapWords(NumberLine(size=99), SIGNS, where="actions")
    assert env.instructions == plain.instructions
    assert plain.reset(seed=1)[0] == env.reset(seed=1)[0]
    for action, opposite in ("+-", "-+", "+-", "+-"):
        assert plain.step(opposite)[0] == env.step(action)[0]
    assert env.privileged_text() == plain.privileged_text()


def test_forms_of_a_word_swap_with_each_other_and_parts_of_words_do_not():
    env = SwapWords(NumberLine(), {"north": "south"})
    text = "Go NORTH, North or northern, south_1?"
    assert env.swapped(text) == "Go SOUTH, South or northern, south_1?"


def test_the_feedback_of_an_unreadable_action_keeps_its_words():
    env = SwapWords(NumberLine(), {"reply": "mimsy"})
    env.reset(seed=0)
    feedback = "No mimsy. Please reply."
    assert feedback in env.step(UnreadableAction("x", feedback))[0]
    assert "Mimsy with" in env.step("dance")[0]


@pytest.mark.parametrize(
    "words", [{"a": "a"}, {"a": "b", "c": "b"}, {"a": "b", "B": "c"}, {"go up": "x"}, {"+": "x"}]
)
def test_pairs_that_are_no_bijection_are_refused(words: dict[str, Any]):
    with pytest.raises(ConfigError, match="got"):
        SwapWords(NumberLine(), words)


def test_it_is_written_on_the_command_line():
    env = make_env("NumberLine-v0", wrap=['SwapWords:words={"+": "-", "up": "down"},where=actions'])
    env.reset(seed=0)
    assert env.get_wrapper_attr("where") == "actions"
    assert env.step("+")[-1]["valid"]
