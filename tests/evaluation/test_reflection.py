"""Failed episodes that a language model criticises and plays again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.cli.main import main
from agentgym.data.episode import RecordedEpisode
from agentgym.data.reading import read_episodes
from agentgym.evaluation import evaluate, reflection
from agentgym.evaluation.reflection import DONE, read_advice
from agentgym.registration.making import make_env

from ..helpers.chat_server import ChatServer, Messages, chat_server

KWARGS: dict[str, Any] = {"size": 8, "max_turns": 4}


class Tutor:
    """Names a turn as that of the mistake, and walks to the target if it has read the advice."""

    def __init__(self, turn: int):
        self.turn = turn

    def __call__(self, messages: Messages) -> str:
        system, text = messages[0]["content"], messages[-1]["content"]
        if system.startswith("You help an agent to learn"):
            assert "the task was not solved" in text and "Turn 4" in text
            return f"<think>turn: 9</think>\n**turn: {self.turn}**\nadvice: Walk to the target."
        assert "Advice from an earlier attempt at this task: Walk to the target." in system
        position, target = map(int, re.findall(r"\d+", text)[:2])
        return "+" if position < target else "-"


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    file = tmp_path / "failed.jsonl"
    evaluate("NumberLine-v0", "random", tasks=24, env_kwargs=KWARGS, save=file)
    return file


@pytest.fixture
def served(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with chat_server(Tutor(request.param)) as server:
        yield server


def export(failed: Path, out: Path, *words: str) -> int:
    return main(["export", str(failed), "--failures", "repair", "--out", str(out), *words])


@pytest.mark.parametrize("served", [1, 2, 4], indirect=True)
def test_a_model_plays_on_from_the_mistake(served: ChatServer, failed: Path, tmp_path: Path):
    out, turn = tmp_path / "out.jsonl", served.reply.turn  # type: ignore[attr-defined]
    source = f"chat:m@{served.url}"
    assert export(failed, out, "--reflector", source, "--format", "own") == 0
    before = {(e.task, e.seed): e for e in read_episodes(failed)}
    after = read_episodes(out)
    better = [episode for episode in after if episode.agent == "random reflected"]
    assert better and all(episode.success for episode in after)
    kinds = set()
    for episode in better:
        old = before[episode.task, episode.seed]
        kept = [each.weight for each in episode.turns].count(0.0)
        kinds.add(kept - turn)
        assert kept in (turn - 1, turn) and not old.success
        weights = [each.weight for each in episode.turns]
        assert weights == [0.0] * kept + [1.0] * (len(weights) - kept) and weights[-1] == 1
        pairs = zip(episode.turns[:kept], old.turns, strict=False)
        assert all(a.action == b.action and a.observation == b.observation for a, b in pairs)
        assert "Advice" not in (episode.instructions or "")
    assert kinds == ({-1} if turn == 4 else {-1, 0} if turn == 2 else kinds)


class Lost:
    """Gives advice, and then waits forever."""

    def __call__(self, messages: Messages) -> str:
        reflects = messages[0]["content"].startswith("You help an agent to learn")
        return "turn: 2\nadvice: Wait." if reflects else "?"


def test_attempts_without_a_turn_limit_end(
    failed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(reflection, "MANY_TURNS", 20)
    [episode, *_] = [each for each in read_episodes(failed) if not each.success]
    with chat_server(Lost()) as server:
        env = make_env("NumberLine-v0", size=8, max_turns=None)
        assert reflection.reflected(episode, env, f"chat:m@{server.url}") is None
        assert len(server.requests) == 1 + 2 * 20


def test_a_reflector_needs_failures_to_repair(failed: Path, tmp_path: Path, capsys: Any):
    assert export(failed, tmp_path / "a", "--reflector", "expert") == 2
    assert "--reflector takes chat:MODEL@URL" in capsys.readouterr().err
    words = ["--failures", "condition", "--reflector", "chat:m@http://127.0.0.1:9/v1"]
    assert main(["export", str(failed), "--out", str(tmp_path / "b"), *words]) == 2
    assert "needs --failures repair or hindsight" in capsys.readouterr().err


def tell(messages: Messages) -> str:
    """Names the number at which an episode ends, and nothing for episodes that end at 3."""
    assert messages[0]["content"] == DONE
    number = re.findall(r"You are at (\d+)", messages[-1]["content"])[-1]
    return "none" if number == "3" else f"Be at\u2028{number} in the end. "


def solved(episode: RecordedEpisode) -> float:
    """Judges whether an episode ends at the number of its goal."""
    goal = re.findall(r"Be at (\d+)", episode.instructions or "")[-1]
    return float(f"You are at {goal}." in episode.last_observation)


def test_what_an_episode_did_becomes_its_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    failed, out = tmp_path / "failed.jsonl", tmp_path / "out.jsonl"
    evaluate("NumberLine-v0", "random", tasks=24, split="train", env_kwargs=KWARGS, save=failed)
    with chat_server(tell) as server:
        words = ["--failures", "hindsight", "--reflector", f"chat:m@{server.url}"]
        assert main(["export", str(failed), "--out", str(out), "--format", "own", *words]) == 0
    told = [each for each in read_episodes(out) if each.agent == "random instructed"]
    before = {(each.task, each.seed): each for each in read_episodes(failed) if not each.success}
    last = [each.last_observation for each in before.values()]
    assert len(told) == sum("You are at 3." not in each for each in last) > 0
    # Each is the episode that the wrapper plays, and a judge agrees.
    env = make_env("NumberLine-v0", wrap=[f"WrittenGoal:judge={__name__}:solved"], **KWARGS)
    for episode in told:
        task, _, goal = episode.task.partition(" goal: ")
        assert re.fullmatch(r"Be at \d in the end\.", goal)
        observation, info = env.reset(seed=episode.seed, options={"task": episode.task})
        for turn in episode.turns:
            assert turn.observation == observation
            observation, reward, _, _, info = env.step(turn.action)
            assert reward == turn.reward and info["reward_terms"] == turn.reward_terms
        assert info["success"] and episode.success and observation == episode.last_observation
        old = before[task, episode.seed]
        assert [each.action for each in old.turns] == [each.action for each in episode.turns]


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("turn: 3\nadvice: Go left.", (3, "Go left.")),
        ("The mistake:\n- **Turn**: 1\n- **Advice**: Take the key.", (1, "Take the key.")),
        ("<think>turn: 2</think>turn: 1\nadvice: x\nturn: 2\nadvice: y", (2, "y")),
        ("turn: 5\nadvice: Go left.", None),
        ("turn: 0\nadvice: Go left.", None),
        ("turn: 3", None),
        ("advice: Go left.", None),
        ("turn: three\nadvice: Go left.", None),
        ("", None),
    ],
)
def test_advice_is_read_with_its_turn(reply: str, found: tuple[int, str] | None):
    assert read_advice(reply, 4) == found
