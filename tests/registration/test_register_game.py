"""`register_game`: a game of a user by its id, in everything that takes the id of a game."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, parallel_api_test

import agentgym
from agentgym import REGISTRY, Tasks, TextGame, TimeStep, make_env
from agentgym.cli.main import main
from agentgym.errors import ConfigError, UnknownArgumentError
from agentgym.evaluation import cross_play, evaluate, nashconv
from agentgym.multiagent.rules import Rewards
from agentgym.registration.registry import find

ID = "Mine/Shells-v0"
PREFIXED = f"{__name__}:{ID}"
CUPS = ("left", "right")


@dataclass
class State:
    hidden: str
    guess: str = ""


class Shells(TextGame):
    """One player hides a pea under one of two cups, and the other one guesses the cup."""

    instructions = "Guess the cup of the pea: left or right."
    tasks = Tasks(["left", "right"], ["left-again"])
    State = State
    state: State
    actions = CUPS
    zero_sum = True
    levels = ("random", "lefty")
    default_opponents = "lefty"

    def __init__(self, *, stake: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.stake = stake

    def _start(self, task: str) -> None:
        self.state = State("")

    def starts(self) -> Iterator[tuple[float, State]]:
        yield 1.0, State("")

    def _acting(self) -> tuple[str, ...]:
        seats = self.possible_agents
        return seats[:1] if not self.state.hidden else seats[1:] if not self.state.guess else ()

    def _look(self, agent: str) -> TimeStep:
        return TimeStep("Left or right?", admissible=CUPS)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        [move] = moves.values()
        if not self.state.hidden:
            self.state.hidden = move
            return {}
        self.state.guess = move
        gain = self.stake if move == self.state.hidden else -self.stake
        return self._pay((-gain, gain))

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        return "left"


def forget(*ids: str) -> None:
    for id in ids:
        REGISTRY.pop(id, None)
        gymnasium.registry.pop(id, None)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    agentgym.register_game(ID, Shells)
    yield
    forget(ID)


def test_the_id_makes_a_seat_and_pettingzoo_environments():
    env = gymnasium.make(ID, seat="player_1", opponents="lefty", stake=2.0)
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=0)
    assert env.step("left")[1] == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PettingZoo expects arrays
        api_test(agentgym.make_aec(ID, action_mode="discrete"), num_cycles=20)
    parallel_api_test(agentgym.make_parallel(ID), num_cycles=20)
    assert agentgym.make_aec(ID).unwrapped.game.stake == 1.0


@pytest.mark.parametrize("id", [ID, PREFIXED])
def test_agents_are_evaluated_by_the_id(id: str):
    greedy = evaluate(id, "random", tasks=6, env_kwargs={"opponents": "lefty"})
    assert len(greedy.episodes) == 6
    result = cross_play(id, ["lefty", "random"], episodes=3)
    assert result.env == ID and len(result.matches) == 12
    assert nashconv(id, "random").nashconv == pytest.approx(0)
    assert nashconv(id, "lefty").nashconv == pytest.approx(2)


def test_arguments_of_the_id_are_defaults():
    try:
        agentgym.register_game("Rich-v0", Shells, stake=5.0)
        assert agentgym.make_parallel("Rich-v0").game.stake == 5
        assert agentgym.make_parallel("Rich-v0", stake=3.0).game.stake == 3
        env: Any = make_env("Rich-v0", seat="player_1")
        env.reset(seed=0)
        assert env.step("left")[1] == 5
    finally:
        forget("Rich-v0")


def test_registering_again_replaces_the_class():
    class Shells2(Shells):
        instructions = "New rules."

    with pytest.warns(UserWarning, match="Overriding environment"):
        agentgym.register_game(ID, Shells2)
    assert agentgym.make_parallel(ID).game.instructions == "New rules."


def test_the_suite_is_unchanged_by_a_game_of_the_same_name():
    try:
        agentgym.register_game("Mine/KuhnPoker-v0", Shells)
        assert find("KuhnPoker-v0").id == "AgentGym/KuhnPoker-v0"
        assert find("Mine/KuhnPoker-v0").game is Shells
    finally:
        forget("Mine/KuhnPoker-v0")


class NoLevel(Shells):
    levels = ("lefty",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("AgentGym/Shells-v0", Shells), "outside of AgentGym/"),
        (("Mine/Shells", Shells), "with a version"),
        (("a b/Shells-v0", Shells), "Expected an id such as Mine/Nim-v0"),
        (("shells:Mine/Shells-v0", Shells), "Expected an id such as Mine/Nim-v0"),
        (("Mine/Shells-v1", "shells:Shells"), "must be a subclass of TextGame, got 'shells:Sh"),
        (("Mine/Shells-v1", TimeStep), "must be a subclass of TextGame"),
        (("Mine/Shells-v1", NoLevel), 'must start with "random"'),
    ],
)
def test_errors(arguments: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        agentgym.register_game(*arguments)
    assert arguments[0] not in REGISTRY and arguments[0] not in gymnasium.registry


def test_unknown_arguments_and_ids_are_named():
    with pytest.raises(UnknownArgumentError, match=r"'steak'.*Did you mean: stake"):
        agentgym.register_game("Mine/Shells-v1", Shells, steak=2.0)
    with pytest.raises(ConfigError, match=r"Did you mean.* Shells-v0"):
        agentgym.make_aec("Mine/Shell-v0")
    with pytest.raises(UnknownArgumentError, match=r"'steak'.*Did you mean: stake"):
        make_env(PREFIXED, steak=2.0)
    with pytest.raises(ConfigError, match="no module 'nowhere'"):
        agentgym.make_parallel("nowhere:Mine/Shells-v0")


def test_commands_import_the_module_of_the_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    forget(ID)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shells.py").write_text(
        f"import agentgym\nfrom {__name__} import Shells\nagentgym.register_game({ID!r}, Shells)\n"
    )
    words = ["--agents", "lefty", "random", "--episodes", "2", "--nashconv"]
    try:
        assert main(["eval", f"shells:{ID}", *words]) == 0
        assert main(["play", f"shells:{ID}", "--agent", "random", "--opponents", "lefty"]) == 0
    finally:
        sys.modules.pop("shells", None)
    shown = capsys.readouterr().out
    assert "NashConv" in shown and "Left or right?" in shown
