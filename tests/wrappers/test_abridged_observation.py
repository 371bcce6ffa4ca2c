"""AbridgedObservation: lines go that were shown, or that a function or a model does not keep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.agents.scaffolds import ExamplesAgent
from agentgym.core import TextEnv
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.wrappers import AbridgedObservation
from agentgym.wrappers.abridged_observation import read_lines

from ..helpers.chat_server import ChatServer, Messages, chat_server


class Shelf(TextEnv):
    """Shows a menu, three shelves, of which the action names the only full one, and a footer."""

    instructions = "Name the full shelf: 1, 2 or 3."
    State = dict
    turns = 3

    def __init__(self, **kwargs):
        super().__init__(max_turns=self.turns, **kwargs)
        self.tasks = Tasks.generated(4)

    def _start(self, task: str) -> TimeStep:
        self.state = {"full": 1}
        return TimeStep("Find the book.\nMenu")

    def _advance(self, action: str) -> TimeStep:
        self.state = {"full": int(action)}
        shelves = [f"Shelf {i}: {'a book' if action == str(i) else 'nothing'}" for i in (1, 2, 3)]
        return TimeStep("\n".join(["Menu", *shelves, "Footer"]))


def books(first: str, observation: str) -> str:
    assert first == "Find the book.\nMenu"
    return next(line for line in observation.split("\n") if "book" in line)


def number(first: str, observation: str) -> int:
    return 3


def played(by: str = "repeated", *actions: str) -> list[tuple[str, int]]:
    env = AbridgedObservation(Shelf(), by)
    observation, info = env.reset(seed=0)
    assert (observation, info["left_out"]) == ("Find the book.\nMenu", 0)
    found = []
    for action in actions or ("2", "2", "3"):
        observation, *_, info = env.step(action)
        found.append((observation, info["left_out"]))
    return found


def test_lines_of_the_last_observation_are_left_out():
    assert played() == [
        ("...\nShelf 1: nothing\nShelf 2: a book\nShelf 3: nothing\nFooter", 1),
        ("...", 5),
        ("...\nShelf 2: nothing\nShelf 3: a book\n...", 3),
    ]


def test_a_function_says_what_is_shown():
    assert played(f"{__name__}:books", "1") == [("Shelf 1: a book", 4)]
    with pytest.raises(ConfigError, match="must return a text, got 3"):
        played(f"{__name__}:number")
    for wrong in ("changes", "agentgym:none", "chat:m"):
        with pytest.raises(ConfigError):
            AbridgedObservation(Shelf(), wrong)


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("2", [1]),
        ("1-3, 5", [0, 1, 2, 4]),
        (" 3-3,1. ", [0, 2]),
        ("all", None),
        ("", None),
        ("0", None),
        ("4-2", None),
        ("6", None),
        ("2; 3", None),
    ],
)
def test_lines_are_named_by_numbers_and_ranges(reply: str, found: list[int] | None):
    assert read_lines(reply, 5) == found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def choose(messages: Messages) -> str:
        """Keeps the line with the book, but everything when it is on the last shelf."""
        text = messages[-1]["content"]
        assert "Name the full shelf" in text and "First observation: Find the book." in text
        lines = text.partition("Lines:\n")[2].split("\n")
        found = next(line for line in lines if "book" in line)
        return "I keep all." if "Shelf 3" in found else found.partition(".")[0]

    with chat_server(choose) as running:
        yield running


def test_a_model_names_the_lines_and_its_answers_repeat(server: ChatServer):
    source = f"chat:m@{server.url}"
    found = played(source)
    assert found[:2] == [("...\nShelf 2: a book\n...", 4)] * 2
    assert found[2][1] == 0 and "Footer" in found[2][0]
    asked = len(server.requests)
    assert asked == 2 and played(source) == found and len(server.requests) == asked


def test_examples_are_abridged_too(tmp_path: Path):
    agent = ExamplesAgent(Expert(), data=str(tmp_path / "kept.jsonl"))
    wrap = [f"AbridgedObservation:by={__name__}:short"]
    evaluate("NumberLine-v0", agent, tasks=2, num_envs=1, env_kwargs={"wrap": wrap})
    assert agent.episodes
    for episode in agent.episodes:
        assert all(turn.observation.startswith("at ") for turn in episode.turns[1:])


def short(first: str, observation: str) -> str:
    return observation.removeprefix("You are ")


class Expert:
    """Walks to the target, whatever the observation."""

    name = "walker"

    def act(self, views):
        return [str(view.env.get_wrapper_attr("expert")()) for view in views]


def test_snapshots_repeat_what_was_shown():
    env = AbridgedObservation(NumberLine(size=9))
    env.reset(seed=0)
    shown = env.step("+")[0]
    assert env.restore(env.snapshot())[0] == shown
