"""Settings of an environment that a language model proposes, and that are tried."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym.cli.main import main
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, DataError
from agentgym.evaluation import variants
from agentgym.evaluation.variants import PROMPT, write_variants
from agentgym.registration.making import make_env, split_id

from ..helpers.chat_server import ChatServer, Messages, chat_server

RATES = {"NumberLine-v0:size=40": 0.05, "NumberLine-v0:size=4": 1.0}
FIRST = """Here are some:
1. `size=4`
- size=1, max_turns=9
* size=90, max_turns=1
2) size=10,  max_turns=30.
size=401, max_turns=999
speed=3"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def propose(messages: Messages) -> str:
        text = messages[-1]["content"]
        assert messages[0]["content"] == PROMPT and "integers on the line" in text
        assert "- NumberLine-v0:size=40: 5%" in text
        if "Propose 2 settings." not in text:
            return "I cannot."
        if "Propose 1 settings." not in text:
            return FIRST
        for problem in (
            "size=4: it is known already",
            "size must be from 2",
            "size must be from -400 to 400, got 401",
            "the expert solves none",
            "Did you mean" if "Did you mean" in text else "speed=3: ",
        ):
            assert problem in text
        assert "Proposed so far:\nNumberLine-v0:size=10,max_turns=30" in text
        return "<think>size=9</think>size=20"

    with chat_server(propose) as running:
        yield running


def test_settings_that_do_not_work_are_named_and_replaced(server: ChatServer):
    source = f"chat:m@{server.url}"
    found = write_variants(source, RATES, count=2)
    assert found == ["NumberLine-v0:size=10,max_turns=30", "NumberLine-v0:size=20"]
    assert len(server.requests) == 2
    assert write_variants(source, RATES, count=2) == found and len(server.requests) == 2
    for setting in found:
        id, arguments = split_id(setting)
        make_env(id, **arguments)
    with pytest.raises(DataError, match="no setting of NumberLine-v0 that works"):
        write_variants(source, RATES, count=1, attempts=2)


def test_rates_are_of_one_environment():
    for rates in ({}, {"NumberLine-v0": 0.5, "Maze-v0": 0.1}):
        with pytest.raises(ConfigError, match="of one id"):
            write_variants("chat:m@http://127.0.0.1:9/v1", rates)


NAMES = (
    ("GeneratedWorlds-v0", f"reward={__name__}:called"),
    ("NumberLine-v0", f'size=9,wrap=["RewardFunction:function={__name__}:called"]'),
    ("GeneratedWorlds-v0", "dynamics=rules.json"),
    ("GeneratedWorlds-v0", "dynamics=/etc/passwd"),
    ("NumberLine-v0", 'size={"/etc/passwd":1}'),
)


@pytest.mark.parametrize(("id", "arguments"), NAMES)
def test_a_model_may_name_no_file_and_no_function(
    id: str, arguments: str, monkeypatch: pytest.MonkeyPatch
):
    def made(*args: object, **kwargs: object) -> None:
        raise AssertionError("no environment is made")

    monkeypatch.setattr(variants, "make_env", made)
    assert "may name no file, model or function" in variants._problem(f"{id}:{arguments}")


JSON = st.recursive(
    st.integers() | st.floats() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


def numbers(value: Any) -> list[float]:
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, (list, dict)):
        return [number for part in parts for number in numbers(part)]
    return [value] if type(value) in (int, float) else []


@example(value=[float("nan")], name="size")
@given(value=JSON, name=st.sampled_from(["size", "max_turns"]))
def test_no_environment_is_made_with_a_number_far_beyond_the_known_ones(value: Any, name: str):
    most = {"size": 400.0}  # ten times that of the rates
    with pytest.MonkeyPatch.context() as patch:
        made: list[Any] = []
        patch.setattr(variants, "_tried", lambda id, arguments: made.append(arguments) or "")
        problem = variants._problem(
            f"NumberLine-v0:{name}={json.dumps(value, separators=(',', ':'))}", most
        )
    bound = most.get(name, variants.LARGEST)
    small = all(-bound <= number <= bound for number in numbers(value))
    assert bool(made) == small, problem
    assert small or re.match(rf"{name} must be from -{bound:g} to {bound:g}, got ", problem)


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        (RATES, {"size": 400, "invalid_penalty": 10}),
        (["SearchQA-Long-v0"], {"hops": 30, "chains": 200, "max_turns": 1200, "misleading": 10}),
        (["TicTacToe-v0"], {"invalid_penalty": 10}),
        (["ConnectFour-v0:max_turns=7"], {"max_turns": 70}),
    ],
)
def test_the_known_numbers_are_those_of_settings_and_defaults(settings: Any, known: Any):
    found = variants._bounds(settings)
    assert known.items() <= found.items()


def test_levels_that_cannot_be_drawn_are_a_problem(monkeypatch: pytest.MonkeyPatch):
    def fails(*args: object, **kwargs: object) -> None:
        raise DataError("No level.")

    monkeypatch.setattr(NumberLine, "reset", fails)
    assert variants._problem("NumberLine-v0:size=9") == "No level."


def test_an_expert_that_goes_on_forever_solves_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(NumberLine, "expert", lambda self: "?")
    problem = variants._problem("NumberLine-v0:size=9,max_turns=null")
    assert problem == "the expert solves none of 3 tasks"


@pytest.mark.slow
def test_a_policy_trains_in_the_proposed_settings(server: ChatServer, tmp_path: Path):
    pytest.importorskip("torch")
    ids = write_variants(f"chat:m@{server.url}", RATES, count=2)
    words = ["train", "poad", "--env-id", *ids, "--eval-env-id", next(iter(RATES))]
    words += ["--iterations", "1", "--episodes-per-iteration", "4", "--eval-episodes", "2"]
    words += ["--model", "nano", "--bc-demonstrations", "4", "--threads", "1", "--device", "cpu"]
    words += ["--curriculum", "levels", "--run-dir", str(tmp_path / "run")]
    assert main(words) == 0
