"""Actions without a readable move, and options of a reset, in remote environments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from agentgym.integrations.remote import RemoteEnv
from agentgym.registration.making import make_env
from agentgym.time_limits import MOST_UNPLAYED
from agentgym.wrappers import ExtractAction

pytest.importorskip("uvicorn", reason="needs the extra `serve`")
pytest.importorskip("starlette", reason="needs the extra `serve`")
pytest.importorskip("websockets", reason="needs the extra `serve`")

from agentgym.serving.server import Limits

from .test_server import TOKEN, serving

ANSWERS = ("+", "I take <action>-</action>", "<action>", "-")
START: dict[str, Any] = {"seed": 1, "options": {"task": "test/0"}}


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    for url, _ in serving(Limits(), NumberLine=partial(make_env, "NumberLine-v0", max_turns=4)):
        yield url


def test_an_action_that_a_wrapper_cannot_read_is_not_played_on_the_server(served: str):
    envs = make_env("NumberLine-v0", max_turns=4), make_env("Remote-v0", url=served, token=TOKEN)
    here, there = (ExtractAction(env, format="tags") for env in envs)
    assert here.reset(**START) == there.reset(**START)
    for answer in ANSWERS:
        assert here.step(answer) == there.step(answer)


class Others:
    """The connection to a server of others, which counts the actions that it plays."""

    def __init__(self) -> None:
        self.played: list[str] = []

    def send(self, text: str) -> None:
        message = json.loads(text)
        if message["type"] == "reset":
            self.played.clear()
        else:
            self.played.append(message["data"]["text"])

    def recv(self, timeout: float) -> str:
        done = self.played[-1:] == ["stop"]
        seen = {"text": f"played {len(self.played)}"}
        return json.dumps({"type": "observation", "data": {"observation": seen, "done": done}})

    def close(self) -> None:
        pass


def test_a_server_of_others_plays_no_action_that_a_wrapper_cannot_read(
    monkeypatch: pytest.MonkeyPatch,
):
    others = Others()
    monkeypatch.setattr(RemoteEnv, "_tasks", lambda self: None)
    monkeypatch.setattr(RemoteEnv, "_connect", lambda self: others)
    env = ExtractAction(RemoteEnv("http://127.0.0.1:1"), format="tags")
    with pytest.raises(ResetNeeded):
        env.step("go")
    env.reset(seed=0)
    assert env.step("<action>go</action>")[0] == "played 1"
    text, reward, terminated, truncated, info = env.step("stop")
    assert text.startswith("No action was found") and text.endswith("\n\nplayed 1")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert not info["valid"] and info["turn"] == 2
    assert env.step("<action>stop</action>")[2] and others.played == ["go", "stop"]
    with pytest.raises(ResetNeeded):
        env.step("go")


@pytest.mark.parametrize(
    ("answer", "most", "turns"),
    [
        *(("?", None, MOST_UNPLAYED), ("?", 3, 3), ("?", 120, 120)),
        *(("<action>go</action>", 3, 3), ("<action>stop</action>", 1, 1)),
    ],
)
def test_an_episode_on_a_server_of_others_has_a_budget(
    answer: str, most: int | None, turns: int, monkeypatch: pytest.MonkeyPatch
):
    """Actions that are not sent do not count there, and `max_turns` is no word of its protocol."""
    monkeypatch.setattr(RemoteEnv, "_tasks", lambda self: None)
    monkeypatch.setattr(RemoteEnv, "_connect", lambda self: Others())
    env = ExtractAction(RemoteEnv("http://127.0.0.1:1"), format="tags")
    for _ in range(2):
        env.reset(seed=0, options={"max_turns": most})
        ends = [env.step(answer)[2:4] for _ in range(turns)]
        assert [any(each) for each in ends] == [False] * (turns - 1) + [True]
        assert ends[-1][0] == ("stop" in answer)
        with pytest.raises(ResetNeeded):
            env.step(answer)


@pytest.mark.parametrize(
    "options", [{"tsak": "test/0"}, {"max_turns": 0}, {"max_turns": True}, {"task": "no"}, ["task"]]
)
def test_options_are_refused_as_by_the_environment_itself(served: str, options: Any):
    here, there = make_env("NumberLine-v0"), make_env("Remote-v0", url=served, token=TOKEN)
    with pytest.raises(Exception) as expected:  # the same one
        here.reset(options=options)
    with pytest.raises(type(expected.value)) as found:
        there.reset(options=options)
    assert str(found.value) == str(expected.value)
