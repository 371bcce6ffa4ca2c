"""textify: games of OpenSpiel."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import agentgym


class Bids:
    """A position of a game in the form of OpenSpiel: a prize is dealt, and two players bid for it.

    The higher bid wins the prize, and a card can be bid once. Bids are simultaneous or in turn.
    """

    def __init__(self, game: Game):
        self.game, self.prize, self.bids = game, 0, []
        self.paid, self.left = [0.0, 0.0], [[1, 2, 3], [1, 2, 3]]

    def is_terminal(self) -> bool:
        return len(self.left[0]) < 2 and not self.bids

    def is_chance_node(self) -> bool:
        return not self.prize and not self.is_terminal()

    def chance_outcomes(self) -> list[tuple[int, float]]:
        return [(1, 0.5), (5, 0.5)]

    def is_simultaneous_node(self) -> bool:
        return self.game.at_once and not self.is_chance_node() and not self.is_terminal()

    def current_player(self) -> int:
        return len(self.bids)

    def apply_action(self, action: int) -> None:
        if self.is_chance_node():
            self.prize = action
        else:
            self.bids.append(action)
            if len(self.bids) == 2:
                bids, self.bids = self.bids, []
                self.apply_actions(bids)

    def apply_actions(self, actions: list[int]) -> None:
        for left, action in zip(self.left, actions, strict=True):
            left.remove(action)
        gain = float(self.prize * np.sign(actions[0] - actions[1]))
        self.paid = [self.paid[0] + gain, self.paid[1] - gain]
        self.prize = 0

    def returns(self) -> list[float]:
        return list(self.paid)

    def legal_actions(self, player: int) -> list[int]:
        return list(self.left[player])

    def action_to_string(self, player: int, action: int) -> str:
        return f"Bid {action}"

    def observation_string(self, player: int) -> str:
        return f"Prize {self.prize}. You have {self.left[player]}. Paid {self.paid[player]:g}."

    information_state_string = observation_string


class Game:
    """The game of `Bids`."""

    def __init__(self, at_once: bool = True, shown: bool = True, dynamics: str = "SEQUENTIAL"):
        self.at_once, self.shown, self.dynamics = at_once, shown, dynamics

    def new_initial_state(self) -> Bids:
        return Bids(self)

    def num_players(self) -> int:
        return 2

    def get_parameters(self) -> dict[str, Any]:
        return {}

    def get_type(self) -> Any:
        return SimpleNamespace(
            short_name="bids", long_name="Bids", dynamics=self.dynamics,
            provides_observation_string=self.shown, provides_information_state_string=False,
            utility="Utility.ZERO_SUM",
        )  # fmt: skip


def low(observation: str, legal: np.ndarray, rng: np.random.Generator) -> int:
    """Bids the lowest card."""
    assert observation.startswith("Prize ")
    return int(legal.min())


@pytest.mark.parametrize("at_once", [True, False])
def test_rewards_are_the_returns_since_the_last_action(at_once: bool):
    env = agentgym.textify(Game(at_once), opponent=low)
    observation, info = env.reset(seed=3)
    prize = int(observation.split()[1].rstrip("."))
    assert info["admissible"] == ("Bid 1", "Bid 2", "Bid 3")
    assert observation.endswith("Actions: Bid 1, Bid 2, Bid 3")
    observation, reward, terminated, _, info = env.step("bid 2")
    assert (reward, terminated) == (prize, False) and "You have [1, 3]" in observation
    second = int(observation.split()[1].rstrip("."))
    *_, info = env.step("Bid 2")
    assert not info["valid"]
    observation, reward, terminated, _, info = env.step("Bid 1")
    assert (reward, terminated) == (-second, True) and info["admissible"] == ()


def test_actions_that_differ_in_capitals_alone_are_different():
    class Chess(Bids):
        def action_to_string(self, player: int, action: int) -> str:
            return ("", "bxc3", "Bxc3", "a4")[action]  # captures of a pawn and of a bishop

    class Captures(Game):
        def new_initial_state(self) -> Bids:
            return Chess(self)

    env = agentgym.textify(Captures(), opponent=low)
    for number, action in enumerate(("bxc3", "Bxc3"), 1):
        env.reset(seed=0)
        assert not env.step("BXC3")[-1]["valid"]
        env.step(action)
        assert env.state.played[0] == number


@pytest.mark.parametrize("seat", ["player_0", "player_1"])
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*")
def test_the_contract_and_snapshots(seat: str):
    check_env(agentgym.textify(Game(), seat=seat), skip_render_check=True)
    env, other = (agentgym.textify(Game(), seat=seat) for _ in range(2))
    for seed in range(10):
        first, _ = env.reset(seed=seed)
        assert first == other.reset(seed=seed)[0]
        snapshot = json.loads(json.dumps(env.step("Bid 3") and env.snapshot()))
        end = env.step("Bid 2")
        other.restore(snapshot)
        assert other.step("Bid 2") == end


def test_what_cannot_be_textified_is_said():
    with pytest.raises(
        ValueError, match=r"seat must be one of \['player_0', 'player_1'\], got 'x'"
    ):
        agentgym.textify(Game(), seat="x")
    with pytest.raises(ValueError, match="Those of OpenSpiel have texts"):
        agentgym.textify(Game(), actions=["a"])
    with pytest.raises(TypeError, match="bids gives no text of what a player sees"):
        agentgym.textify(Game(shown=False))
    with pytest.raises(TypeError, match="mean-field game"):
        agentgym.textify(Game(dynamics="Dynamics.MEAN_FIELD"))


@pytest.mark.parametrize("name", ["kuhn_poker", "tic_tac_toe", "goofspiel", "leduc_poker"])
def test_games_of_open_spiel(name: str):
    pyspiel = pytest.importorskip("pyspiel", reason="needs open_spiel")
    env = agentgym.textify(pyspiel.load_game(name), seat="player_1")
    rng, total = np.random.default_rng(0), 0.0
    for seed in range(20):
        _, info = env.reset(seed=seed)
        over = not info["admissible"]
        while not over:
            choices = info["admissible"]
            _, reward, over, truncated, info = env.step(choices[int(rng.integers(len(choices)))])
            total += abs(reward)
            assert not truncated
    assert total > 0


def test_chance_that_open_spiel_samples_follows_from_the_seed():
    pyspiel = pytest.importorskip("pyspiel", reason="needs open_spiel")
    env, other = (agentgym.textify(pyspiel.load_game("negotiation")) for _ in range(2))
    starts = [env.reset(seed=seed)[0] for seed in range(10)]
    assert len(set(starts)) > 1
    assert [other.reset(seed=seed)[0] for seed in range(10)] == starts
    other.reset(seed=1)
    assert other.restore(env.snapshot())[0] == starts[-1]
