"""Messages of OpenEnv's protocol, without a network: no message is left without a JSON reply."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import gymnasium
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.registration.making import make_env
from agentgym.serving.protocol import ProtocolError, read_message
from agentgym.serving.session import Session
from agentgym.time_limits import TIMED_OUT
from agentgym.time_step import UNJUDGED, TimeStep

NUMBER_LINE = partial(make_env, "NumberLine-v0", size=6)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
fields = st.sampled_from(["seed", "task", "max_turns", "episode_id", "text", "metadata", "x"])
kinds = st.sampled_from(["reset", "step", "state", "reset", "step", "wave", 3, None])
messages = st.fixed_dictionaries(
    {"type": kinds, "data": st.dictionaries(fields, json_values) | json_values}
)


def replies(session: Session, message: dict) -> dict | None:
    try:
        return session.answer(read_message(json.dumps(message)))
    except ProtocolError as error:
        return error.reply()


@settings(max_examples=40)
@given(st.lists(messages, max_size=8))
@example([{"type": "reset", "data": {"seed": 10**30}}])
@example([{"type": "reset", "data": {}}, {"type": "step", "data": {"text": "\ud800"}}])
@example([{"type": "reset", "data": {"task": "test/0", "max_turns": 10**9}}])
def test_any_messages_get_replies_and_leave_a_usable_session(some):
    session = Session(NUMBER_LINE)
    for message in some:
        reply = replies(session, message)
        assert reply is not None and reply["type"] in ("observation", "state", "error")
        json.loads(json.dumps(reply))
    start = replies(session, {"type": "reset", "data": {"seed": 1, "task": "train/2"}})
    assert start is not None and start["type"] == "observation"


@given(st.binary(max_size=60) | st.text(max_size=60))
@example("[" * 100_000)
@example("9" * 10_000)
def test_any_bytes_are_a_message_or_a_protocol_error(data):
    try:
        assert isinstance(read_message(data), dict)
    except ProtocolError as error:
        assert error.code in ("INVALID_JSON", "VALIDATION_ERROR")


@pytest.mark.parametrize("key", [TIMED_OUT, UNJUDGED])
def test_a_session_sends_why_an_episode_has_no_outcome(key: str):
    class Without(NumberLine):
        def _info(self, step: TimeStep) -> dict[str, Any]:
            return super()._info(step) | ({key: True} if self._turn == 1 else {})

    session = Session(Without)
    for message in ({"type": "reset", "data": {}}, {"type": "step", "data": {"text": "+"}}):
        reply = replies(session, message)
        assert reply is not None
        assert reply["data"]["observation"].get(key, False) == (message["type"] == "step")


def test_a_session_plays_as_the_environment_does():
    session, env = Session(NUMBER_LINE), NUMBER_LINE()
    text, info = env.reset(seed=3, options={"task": "train/4"})
    reply = replies(session, {"type": "reset", "data": {"seed": 3, "task": "train/4"}})
    assert reply is not None and reply["data"]["observation"]["text"] == text
    assert reply["data"]["observation"]["instructions"] == env.get_wrapper_attr("instructions")
    over = False
    while not over:
        action = env.get_wrapper_attr("expert")()
        text, reward, terminated, truncated, info = env.step(action)
        reply = replies(session, {"type": "step", "data": {"text": action}})
        assert reply is not None
        seen, over = reply["data"]["observation"], terminated or truncated
        assert (seen["text"], reply["data"]["reward"]) == (text, reward)
        assert (reply["data"]["done"], seen["success"]) == (over, info["success"])
    reply = replies(session, {"type": "step", "data": {"text": "left"}})
    assert reply is not None and reply["data"]["code"] == "EXECUTION_ERROR"
    state = replies(session, {"type": "state"})
    assert state is not None and state["data"]["task"] == "train/4"


def test_an_episode_that_ends_at_a_time_limit_is_not_truncated():
    session = Session(
        partial(gymnasium.make, "AgentGym/NumberLine-v0", size=6, max_episode_steps=1)
    )
    for task in range(9):
        reply = replies(session, {"type": "reset", "data": {"seed": 0, "task": f"train/{task}"}})
        reply = replies(session, {"type": "step", "data": {"text": "+"}})
        assert reply is not None and reply["data"]["done"]
        seen = reply["data"]["observation"]
        assert seen["terminated"] == seen["success"] == (not seen["truncated"])
        if seen["success"]:
            return
    pytest.fail("no task was solved in one step")


@pytest.mark.parametrize(
    ("message", "code", "named"),
    [
        ({"type": "reset", "data": {"seed": True}}, "VALIDATION_ERROR", "seed must be int"),
        ({"type": "reset", "data": {"seed": -1}}, "VALIDATION_ERROR", r"\[0, 2\*\*63\)"),
        ({"type": "reset", "data": {"sed": 1}}, "VALIDATION_ERROR", "reset takes seed"),
        ({"type": "reset", "data": {"task": "no"}}, "VALIDATION_ERROR", "Unknown task"),
        ({"type": "step", "data": {"text": "left"}}, "EXECUTION_ERROR", "reset"),
        ({"type": "step", "data": {"txt": "left"}}, "VALIDATION_ERROR", "An action is"),
        ({"type": "fly"}, "UNKNOWN_TYPE", "fly"),
    ],
)
def test_errors_have_the_codes_of_openenv(message, code, named):
    with pytest.raises(ProtocolError, match=named) as caught:
        Session(NUMBER_LINE).answer(message)
    assert caught.value.code == code


def test_a_closed_session_closes_its_environment(monkeypatch):
    closed: list[bool] = []
    monkeypatch.setattr(gymnasium.Env, "close", lambda self: closed.append(True))
    Session(NUMBER_LINE).close()
    assert closed
