"""Texts of snapshots: forged, damaged and foreign ones are refused, and nothing else changes."""

from __future__ import annotations

import base64
import json
import zlib
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.cli.main import main
from agentgym.registration.making import make_env
from agentgym.serving import seal as seal_module
from agentgym.serving.about import about, refusal_of_mcp
from agentgym.serving.protocol import ProtocolError
from agentgym.serving.seal import Seal
from agentgym.serving.session import Session, fork_seeds

KEY = b"a key of this server, for tests."
HISTORY = "HistoryObservation:k=2"
LINE = partial(make_env, "NumberLine-v0", size=6)


def session(make: Any = LINE, key: bytes = KEY, longest: int = 1 << 20) -> Session:
    return Session(make, seal=Seal(make(), key, longest))


def started(**options: Any) -> Session:
    found = session(**options)
    found.reset({"seed": 1, "task": "train/4"})
    found.step({"text": "+"})
    return found


def text_of(some: Session) -> str:
    return some.snapshot()["snapshot"]


TEXT = text_of(started())


def refused(some: Session, data: dict[str, Any], message: str) -> None:
    """Checks that a restore is refused and changes nothing."""
    before = some.snapshot()
    with pytest.raises(ProtocolError, match=message) as caught:
        some.restore(data)
    assert caught.value.code == "VALIDATION_ERROR"
    assert some.snapshot() == before


def damaged() -> st.SearchStrategy[str]:
    """Texts of a snapshot in which characters are replaced, removed or added, or of anything."""
    place, letter = st.integers(0, len(TEXT) - 1), st.sampled_from("Aa0+/=-é\n\ud800")
    return (
        st.builds(lambda i, c: TEXT[:i] + c + TEXT[i + 1 :], place, letter)
        | st.builds(lambda i, c: TEXT[:i] + c + TEXT[i:], place, letter)
        | st.builds(lambda i, j: TEXT[: min(i, j)] + TEXT[max(i, j) + 1 :], place, place)
        | st.builds(lambda i: TEXT[:i], place)
        | st.builds(lambda i: TEXT[i:] + TEXT[:i], place)
        | st.text(max_size=80)
        | st.binary(max_size=80).map(lambda raw: base64.b64encode(raw).decode())
    )


@settings(deadline=None, max_examples=300)
@given(damaged())
def test_damaged_texts_are_refused(text: str):
    if text != TEXT:
        refused(started(), {"snapshot": text}, "damaged, or of a server with another key")


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(st.sampled_from(["id", "snapshot", "version", "x"]), st.integers()))
def test_forged_contents_are_refused_without_reading_them(content: dict[str, Any]):
    """Also those of a client that knows the format: it has no key."""
    raw = base64.b64decode(TEXT)
    packed = zlib.compress(json.dumps(content).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seal_module.zlib, "decompressobj", lambda: pytest.fail("it was unpacked"))
        for digest in (raw[:32], bytes(32)):
            forged = base64.b64encode(digest + packed).decode()
            refused(started(), {"snapshot": forged}, "damaged")


def test_a_text_that_unpacks_to_much_more_is_refused(monkeypatch: pytest.MonkeyPatch):
    """A server with the same key could have sealed it."""
    some, seal = started(), Seal(LINE(), KEY, 1 << 20)
    big = seal.write({"task": "", "state": "x" * 500_000}, {})["snapshot"]
    assert len(big) < 5000
    monkeypatch.setattr(seal_module, "MOST_JSON_BYTES", 100_000)
    refused(some, {"snapshot": big}, "too large")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": b"another key of another server..."}, "AGENTGYM_SNAPSHOT_KEY"),
        ({"make": partial(make_env, "NumberLine-v0", size=7)}, "other arguments"),
        ({"make": partial(make_env, "NumberLine-v0", size=6, wrap=[HISTORY])}, "other"),
        ({"make": partial(make_env, "Wordle-v0")}, "Expected a snapshot of AgentGym/Wordle-v0"),
    ],
)  # fmt: skip
def test_texts_of_other_servers_are_refused(options: dict[str, Any], message: str):
    other = session(**options)
    other.reset({"seed": 1})
    refused(other, {"snapshot": TEXT}, message)


def test_texts_of_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(seal_module, "__version__", "9.9")
    refused(started(), {"snapshot": TEXT}, r"Expected a snapshot of AgentGym 9\.9")


def test_a_server_of_the_same_key_continues():
    there = session()
    start = there.restore({"snapshot": TEXT})
    here = started()
    assert (start["reward"], start["done"]) == (None, False)
    assert start["observation"]["instructions"]
    for action in ("+", "-", "hop"):
        assert there.step({"text": action}) == here.step({"text": action})
    assert there.state()["task"] == "train/4" and there.state()["step_count"] == 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "snapshot must be a text"),
        ({"snapshot": None}, "snapshot must be a text"),
        ({"snapshot": "x" * 2_000_000}, "at most 1,048,576 characters, got 2,000,000"),
        ({"snapshot": 3}, "snapshot must be str"),
        ({"snapshot": TEXT, "seed": -1}, "seed must be in"),
        ({"snapshot": TEXT, "seed": True}, "seed must be int"),
        ({"snapshot": TEXT, "seed": 2**63}, "seed must be in"),
        ({"snapshot": TEXT, "task": "train/1"}, "restore takes snapshot, seed"),
    ],
)
def test_wrong_requests_to_restore(data: dict[str, Any], message: str):
    refused(started(), data, message)


def test_there_is_no_snapshot_before_the_first_reset():
    some = session()
    for _ in range(2):
        with pytest.raises(ProtocolError, match="reset") as caught:
            some.snapshot()
        assert caught.value.code == "EXECUTION_ERROR"
        with pytest.raises(ProtocolError, match="damaged"):  # no reset in secret
            some.restore({"snapshot": "x"})
    some.restore({"snapshot": TEXT})
    assert some.step({"text": "+"})["observation"]["turn"] == 2


def test_a_snapshot_that_no_message_could_hold_is_refused():
    with pytest.raises(
        ProtocolError, match="snapshots of this environment cannot be sent"
    ) as error:
        text_of(started(longest=100))
    assert error.value.code == "EXECUTION_ERROR"


def test_the_end_of_an_episode_is_kept():
    some = session(partial(make_env, "NumberLine-v0", max_turns=1))
    some.reset({"seed": 0, "task": "train/4"})
    end = some.step({"text": "hop"})
    assert end["done"] and end["observation"]["truncated"]
    again = some.restore({"snapshot": text_of(some)})
    assert again["done"] and again["observation"]["truncated"]
    with pytest.raises(ProtocolError) as caught:
        some.step({"text": "+"})
    assert caught.value.code == "EXECUTION_ERROR"


def test_equal_states_have_equal_digests_whatever_the_turn():
    some = started()
    first, seen = some.snapshot(), {some.snapshot()["state"]}
    some.step({"text": "+"})
    seen.add(some.snapshot()["state"])
    some.step({"text": "-"})
    again = some.snapshot()
    assert again["state"] == first["state"] and again["snapshot"] != first["snapshot"]
    assert len(seen) == 2
    assert started(key=b"another key of another server...").snapshot()["state"] not in seen


def test_observations_and_states_hold_no_snapshot():
    """They are what an agent sees. The text, which holds the hidden word, is for its trainer."""
    some = session(partial(make_env, "Wordle-v0"))
    plain = Session(partial(make_env, "Wordle-v0"))
    start = {"seed": 2, "episode_id": "x"}
    assert some.reset(start) == plain.reset(start)
    assert some.step({"text": "crane"}) == plain.step({"text": "crane"})
    assert some.state() == plain.state()
    some.restore({"snapshot": text_of(some)})
    assert some.step({"text": "slate"}) == plain.step({"text": "slate"})


def test_a_session_without_a_seal_knows_no_snapshots():
    for kind in ("snapshot", "restore", "fork"):
        with pytest.raises(ProtocolError) as caught:
            Session(LINE).answer({"type": kind, "data": {}})
        assert caught.value.code == "UNKNOWN_TYPE"


def test_the_capability_is_announced_and_no_tool_of_mcp():
    pages = about("NumberLine-v0", LINE())
    assert pages["/metadata"]["capabilities"] == ["snapshot", "restore", "fork"]
    assert {"/snapshot", "/restore", "/fork"} <= pages["/openapi.json"]["paths"].keys()
    for name in ("tools/list", "tools/call", "snapshot"):
        assert "error" in refusal_of_mcp({"method": name})


def test_tools_whose_state_is_elsewhere_have_no_capability():
    env = make_env("Todo-v0")
    assert about("Todo-v0", env)["/metadata"]["capabilities"]
    tool: Any = next(iter(env.unwrapped.tools.values()))  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(tool), "external", True)
        pages = about("Todo-v0", env)
    assert pages["/metadata"]["capabilities"] == []
    assert not {"/snapshot", "/restore", "/fork"} & pages["/openapi.json"]["paths"].keys()


def test_copies_have_given_seeds_or_new_ones():
    assert fork_seeds({"seeds": [3, 4]}, 8) == [3, 4]
    assert fork_seeds({"count": 2, "seeds": [3, 3]}, 8) == [3, 3]
    drawn = fork_seeds({"count": 8}, 8)
    assert len(set(drawn)) == 8 and fork_seeds({"seeds": drawn}, 8) == drawn


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({}, "VALIDATION_ERROR"),
        ({"count": 0}, "VALIDATION_ERROR"),
        ({"count": "2"}, "VALIDATION_ERROR"),
        ({"count": 2, "seeds": [1]}, "VALIDATION_ERROR"),
        ({"seeds": []}, "VALIDATION_ERROR"),
        ({"seeds": [None]}, "VALIDATION_ERROR"),
        ({"seeds": [True]}, "VALIDATION_ERROR"),
        ({"seeds": [-1]}, "VALIDATION_ERROR"),
        ({"seeds": ["1"]}, "VALIDATION_ERROR"),
        ({"count": 1, "seed": 3}, "VALIDATION_ERROR"),
        ({"count": 10**12}, "CAPACITY_REACHED"),
    ],
)
def test_wrong_numbers_and_seeds_of_copies(data: dict[str, Any], code: str):
    with pytest.raises(ProtocolError) as caught:
        fork_seeds(data, 8)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("key", "token", "message"),
    [("planted", "", "is too short"), ("a" * 32, "a" * 32, "is the token")],
)
def test_keys_that_clients_know_or_guess_are_refused(
    key: str, token: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    pytest.importorskip("starlette", reason="needs the extra `serve`")
    monkeypatch.setenv("AGENTGYM_SNAPSHOT_KEY", key)
    assert main(["serve", "NumberLine-v0", "--port", "0", "--token", token]) == 2
    error = capsys.readouterr().err
    assert message in error and "openssl rand -hex 32" in error and key not in error
