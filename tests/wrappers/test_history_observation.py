from __future__ import annotations

import pytest

from agentgym.errors import ConfigError
from agentgym.wrappers import HistoryObservation

from ..helpers.echo import Echo


def last(env: HistoryObservation, *actions: str) -> tuple[str, str]:
    start, _ = env.reset(seed=0)
    seen = start
    for action in actions:
        seen = env.step(action)[0]
    return start, seen


def test_the_whole_history_is_shown():
    start, seen = last(HistoryObservation(Echo()), "a", "b")
    assert seen == f"{start}\n\n> a\n\na\n\n> b\n\nb"


@pytest.mark.parametrize(
    ("k", "shown"), [(0, "c"), (1, "b\n\n> c\n\nc"), (2, "a\n\n> b\n\nb\n\n> c\n\nc")]
)
def test_the_last_turns_are_shown(k: int, shown: str):
    assert last(HistoryObservation(Echo(), k), "a", "b", "c")[1] == shown


def test_the_first_observation_can_be_kept():
    start, seen = last(HistoryObservation(Echo(), 1, keep_first=True), "a", "b", "c")
    assert seen == f"{start}\n\nb\n\n> c\n\nc"
    start, seen = last(HistoryObservation(Echo(), 1, keep_first=True), "a")
    assert seen == f"{start}\n\n> a\n\na"


def test_an_invalid_action_is_part_of_the_history():
    seen = last(HistoryObservation(Echo(), 1), "a", "nonsense", "b")[1]
    assert seen == "That was nonsense.\n\na\n\n> b\n\nb"


def test_a_reset_forgets():
    env = HistoryObservation(Echo())
    last(env, "a")
    assert last(env)[1].startswith("start")


@pytest.mark.parametrize("k", [-1, "all"])
def test_wrong_arguments_are_refused(k: int | str):
    with pytest.raises(ConfigError, match="k must be 'full' or a number of turns"):
        HistoryObservation(Echo(), k)
