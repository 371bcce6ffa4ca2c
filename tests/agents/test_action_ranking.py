"""Rankings of the actions of a state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import View
from agentgym.agents.action_ranking import ByChoice, make_ranking, read_choice, shares
from agentgym.errors import ConfigError

from ..helpers.chat_server import Messages, chat_server

SCORES = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True), max_size=4)


def length(view: View, action: str) -> float:
    return float(len(action))


def endless(view: View, action: str) -> float:
    return float("nan")


def best(texts: Sequence[str], counts: Sequence[int]) -> list[int]:
    """Chooses the action with the highest number."""
    parts = [text.split("\n\n")[-count:] for text, count in zip(texts, counts, strict=True)]
    return [max(range(len(some)), key=lambda k: int(some[k].split()[1])) for some in parts]


@settings(deadline=None)
@given(SCORES)
def test_repeated_choice_gives_the_ranks_of_the_scores_behind_it(scores: list[list[int]]):
    views = [View.of_text("rules", "here", [("there", "go")]) for _ in scores]
    rank = ByChoice(best)
    found = rank(views, [[str(score) for score in some] for some in scores])
    assert found == [shares(some) for some in scores]
    assert rank.asked == sum(len(some) - 1 for some in scores) and not rank.unread


def test_actions_after_an_unreadable_choice_share_their_rank():
    replies = iter([[1], [None]])
    rank = ByChoice(lambda texts, counts: next(replies))
    [found] = rank([View.of_text("", "here")], [["a", "b", "c"]])
    assert found == [0.25, 1.0, 0.25] and (rank.asked, rank.unread) == (2, 1)


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        *(("best: 2", 1), ("2", 1), ("**Best: 2.**", 1), ("The second helps.\nbest: 2", 1)),
        ("<think>best: 1</think>best: 3", 2),
        *(("", None), ("best: 0", None), ("best: 4", None), ("best: 1\nbest: 2", None)),
    ],
)
def test_a_choice_is_the_only_number_of_an_action(reply: str, choice: int | None):
    assert read_choice(reply, 3) == choice


def test_a_served_model_ranks_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))

    def reply(messages: Messages) -> str:
        actions = messages[-1]["content"].split("\n\n")[4:]
        return f"best: {1 + max(range(len(actions)), key=lambda k: len(actions[k]))}"

    view, actions = View.of_text("rules", "here", [("there", "go")]), ["bb", "a", "ccc"]
    with chat_server(reply) as server:
        for _ in range(2):
            assert make_ranking(f"chat:m@{server.url}")([view], [actions]) == [[0.5, 0.0, 1.0]]
        assert len(server.requests) == 2
        text = server.requests[0][-1]["content"]
        assert (
            text
            == "rules\n\nEarlier actions:\n\ngo\n\nObservation: here\n\n1. bb\n\n2. a\n\n3. ccc"
        )


def test_a_function_ranks_by_finite_numbers():
    view = View.of_text("", "here")
    assert make_ranking(f"{__name__}:length")([view], [["a", "bbb", "cc"]]) == [[0.0, 1.0, 0.5]]
    with pytest.raises(ConfigError, match="finite number, got nan"):
        make_ranking(f"{__name__}:endless")([view], [["a", "b"]])
    with pytest.raises(ConfigError, match="judge"):
        make_ranking("best")
