"""textify: all seats of games of PettingZoo and OpenSpiel, by `register_game`."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.utils.env_checker import check_env
from pettingzoo import AECEnv
from pettingzoo.test import api_test, parallel_api_test

import agentgym
from agentgym import REGISTRY
from agentgym.errors import ConfigError, SnapshotError
from agentgym.evaluation import cross_play, evaluate
from agentgym.registration.making import make_env
from agentgym.textify import all_seats

from . import test_textify as single
from .test_textify_open_spiel import Game
from .trainers.rollout.test_seats import Talker, play, specs_of

MOVES = ("rock", "paper", "scissors")


class Last(AECEnv):
    """Three players roll a die, each of whom may leave for a payment. The last one gets the rest.

    The game is truncated after five turns.
    """

    metadata = {"name": "last", "render_modes": []}  # noqa: RUF012
    possible_agents = ["a", "b", "c"]  # noqa: RUF012
    np_random: np.random.Generator

    def observation_space(self, agent: str) -> Discrete:
        return Discrete(100)

    def action_space(self, agent: str) -> Discrete:
        return Discrete(2, start=5)

    def observe(self, agent: str) -> int:
        return self.pot

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.pot, self.turns, self.agent_selection = 9, 0, "a"
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self._skip_agent_selection = None

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0
        self._clear_rewards()
        following = self.agents[(self.agents.index(agent) + 1) % len(self.agents)]
        self.turns += 1
        if action == 6:
            self.rewards[agent], self.terminations[agent] = 2, True
            self.pot -= 2
            if len(self.agents) == 2:
                self.rewards[following], self.terminations[following] = self.pot, True
        else:
            self.rewards[following] = -1
            self.pot += int(self.np_random.integers(1, 4))
        if self.turns == 5:
            self.truncations = {name: not self.terminations[name] for name in self.agents}
        self.agent_selection = following
        self._accumulate_rewards()
        self._deads_step_first()


class Tired(Last):
    """A player who leaves the two others is truncated."""

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        super().step(action)
        if action == 6 and len(self.agents) > 2:
            self.terminations[agent], self.truncations[agent] = False, True


def tictactoe() -> agentgym.TextEnv:
    return single.tictactoe()


def nim() -> agentgym.TextEnv:
    return single.nim()


def rock_paper_scissors() -> agentgym.TextEnv:
    pytest.importorskip("pygame")
    from pettingzoo.classic import rps_v2

    def describe(observation: Any, env: Any) -> str:
        return f"Last: {(*MOVES, 'nothing')[int(observation)]}."

    return agentgym.textify(rps_v2.env(max_cycles=4), describe=describe, actions=MOVES)


def pot(observation: Any, env: Any) -> str:
    return f"The pot holds {observation}."


def last() -> agentgym.TextEnv:
    return agentgym.textify(Last(), describe=pot, actions=["stay", "leave"], instructions="Last.")


def tired() -> agentgym.TextEnv:
    return agentgym.textify(Tired(), describe=pot, actions=["stay", "leave"])


def at_once() -> agentgym.TextEnv:
    return agentgym.textify(Game())


def in_turn() -> agentgym.TextEnv:
    return agentgym.textify(Game(at_once=False))


ZOO = (tictactoe, rock_paper_scissors, nim, last, tired)
zoo = pytest.mark.parametrize("make", ZOO)
every = pytest.mark.parametrize("make", [*ZOO, at_once, in_turn])


@pytest.fixture
def register() -> Iterator[Callable[..., str]]:
    """Registers a function, and returns the id."""

    def added(make: Callable[[], Any], **kwargs: Any) -> str:
        ids.append(f"Mine/{make.__name__}-v0")
        agentgym.register_game(ids[-1], make, **kwargs)
        return ids[-1]

    ids: list[str] = []
    yield added
    for id in ids:
        REGISTRY.pop(id, None)
        gymnasium.registry.pop(id, None)


def played(game: Any, rng: np.random.Generator, turns: int = 100) -> list[Any]:
    """Plays random actions, some invalid, in an AEC game. Returns what each agent observed."""
    found = []
    for _ in range(turns):
        if not game.agents:
            break
        observation, reward, terminated, truncated, info = game.last()
        found.append((game.agent_selection, observation, reward, terminated, truncated, info))
        action = None
        if not (terminated or truncated):
            choices = info["admissible"]
            action = choices[int(rng.integers(len(choices)))] if rng.random() < 0.8 else "hop"
        game.step(action)
    return found


@zoo
def test_turns_rewards_and_endings_are_those_of_the_game(make: Any, register: Callable[..., str]):
    game, plain = agentgym.make_aec(register(make)), make().env
    assert tuple(game.possible_agents) == tuple(plain.possible_agents)
    names = game.unwrapped.game.actions
    first = plain.action_space(plain.possible_agents[0]).start
    cuts = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        game.reset(seed=seed)
        plain.reset(seed=seed)
        plain.unwrapped.np_random = np.random.default_rng(game.unwrapped.game.state.seed)
        while any(not (plain.terminations[a] or plain.truncations[a]) for a in plain.agents):
            _, reward, terminated, truncated, _ = plain.last()
            if terminated or truncated:
                assert game.agent_selection == plain.agent_selection
                assert game.last()[1:4] == (reward, terminated, truncated)
                game.step(None)
                plain.step(None)
                continue
            assert game.agent_selection == plain.agent_selection
            assert game.last()[1:4] == (reward, False, False)
            choices = game.last()[4]["admissible"]
            move = choices[int(rng.integers(len(choices)))]
            game.step(move)
            plain.step(first + names.index(move))
        for name in ("agents", "terminations", "truncations", "_cumulative_rewards"):
            assert getattr(game.unwrapped, name) == getattr(plain, name)
        cuts += any(plain.truncations.values())
    assert (cuts > 0) == (make in (rock_paper_scissors, last, tired))


@every
def test_the_contract(make: Any, register: Callable[..., str], global_rng_untouched: None):
    id = register(make)
    check_env(gymnasium.make(id).unwrapped, skip_render_check=True)
    for mode in ("text", "discrete") if make in ZOO else ("text",):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PettingZoo expects arrays
            if mode == "discrete":
                api_test(agentgym.make_aec(id, action_mode=mode), num_cycles=30)
            parallel_api_test(agentgym.make_parallel(id, action_mode=mode), num_cycles=30)
    one, other = (agentgym.make_aec(id, max_invalid=2) for _ in range(2))
    for seed in range(10):
        results = []
        for game in (one, other):
            game.reset(seed=seed)
            results.append(played(game, np.random.default_rng(seed)))
        assert results[0] == results[1]
        for _, observation, *_, info in results[0]:
            assert info["valid"] or observation["text"].startswith("Invalid action 'hop'")


@every
def test_snapshots_and_copies_continue_alike(make: Any, register: Callable[..., str]):
    id = register(make)
    game = agentgym.make_aec(id)
    for seed in range(14):
        rng = np.random.default_rng(seed)
        game.reset(seed=seed)
        played(game, rng, seed)
        raw = game.unwrapped
        snapshot = json.loads(json.dumps(raw.snapshot()))
        other = agentgym.make_aec(id)
        other.reset()
        other.unwrapped.restore(snapshot)
        twins = [other, copy.deepcopy(game)]
        if make in (last, at_once, in_turn):
            twins.append(pickle.loads(pickle.dumps(raw)))
        branch = raw.game.copy()
        continued = [played(each, copy.deepcopy(rng)) for each in (*twins, game)]
        assert all(each == continued[0] for each in continued)
        if not branch.acting:
            continue
        branch.play({agent: branch.admissible(agent)[0] for agent in branch.acting})
        raw.restore(snapshot)
        raw.game.play({agent: raw.game.admissible(agent)[0] for agent in raw.game.acting})
        assert branch.steps == raw.game.steps


def test_a_foreign_snapshot_is_refused_and_changes_nothing(register: Callable[..., str]):
    game = agentgym.make_parallel(register(nim)).game
    game.reset(seed=0)
    game.play({"a": "take two"})
    before = game.snapshot()
    other = agentgym.make_parallel(register(last)).game
    other.reset(seed=0)
    changed = [
        other.snapshot(),
        before | {"state": {"seed": 0, "played": [9, "x"]}},
        before | {"state": {"seed": 0, "played": [0]}},
    ]
    for snapshot in changed:
        with pytest.raises(SnapshotError):
            game.restore(snapshot)
        assert game.snapshot() == before
    game.play({"b": "take two"})
    assert game.seen("a").text == "3 sticks."


def test_an_agent_that_is_truncated_alone_has_not_terminated(register: Callable[..., str]):
    """The others play on. In training, the value of its last observation is bootstrapped."""
    id = register(tired)
    seat = gymnasium.make(id, seat="a")
    seat.reset(seed=0)
    assert seat.step("leave")[1:4] == (2.0, False, True)
    [[one, two]] = play(id, specs_of(id, [0]), Talker(lambda request: "leave"))
    assert (one.terminated, one.truncated, one.bootstrap) == (False, True, 0)
    assert (two.terminated, two.truncated, two.bootstrap) == (True, False, None)


def test_chance_that_follows_from_the_seed_is_not_sampled_anew(register: Callable[..., str]):
    """As in a single seat of `textify`: a search would know the dice, and an audit see one roll."""
    env = make_env(register(last), seat="a")
    env.reset(seed=0)
    before = env.unwrapped.snapshot()  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="A search needs future=known here"):
        env.unwrapped.reseed(1)  # type: ignore[attr-defined]
    assert env.unwrapped.snapshot() == before  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="future=known"):
        evaluate(lambda: env, "search:mcts", tasks=1)


def test_invalid_actions_lead_to_a_random_move(register: Callable[..., str]):
    seat: Any = gymnasium.make(register(nim), seat="a", max_invalid=2, invalid_penalty=0.5)
    assert seat.reset(seed=0)[0] == "7 sticks."
    text, reward, *_, info = seat.step("take all")
    assert reward == -0.5 and not info["valid"] and "take one, take two" in text
    assert "This was your last attempt" in seat.step("")[0]


def test_success_is_that_of_each_agent(register: Callable[..., str]):
    game = agentgym.make_parallel(register(nim, zero_sum=True)).game
    assert game.zero_sum
    game.reset(seed=0)
    turns = ["take two", "take two", "take two", "take one"]
    for turn in turns:
        game.play({game.acting[0]: turn})
    assert [game.reward(agent) for agent in ("a", "b")] == [-1, 1]
    assert [game.seen(agent).success for agent in ("a", "b")] == [False, True]
    assert [game.seen(agent).progress for agent in ("a", "b")] == [0, 1]
    game = agentgym.make_parallel("Mine/nim-v0", max_turns=2).game
    game.reset(seed=0)
    game.play({"a": "take one"})
    game.play({"b": "take one"})
    assert game.truncated("a") and not game.terminated("b")


def test_agents_of_open_spiel_act_at_once_or_in_turn(register: Callable[..., str]):
    for make, bids in (
        (at_once, [("player_0", "player_1")]),
        (in_turn, [("player_0",), ("player_1",)]),
    ):
        game = agentgym.make_parallel(register(make)).game
        assert game.zero_sum and game.instructions.startswith("Bids Each turn")
        game.reset(seed=3)
        prize = game.inner._position.prize
        moves = {"player_0": "bid 3", "player_1": "Bid 1"}
        for acting in bids:
            assert game.acting == acting
            assert game.seen(acting[0]).text.endswith("Actions: Bid 1, Bid 2, Bid 3")
            game.play({agent: moves[agent] for agent in acting})
        assert [game.reward(agent) for agent in moves] == [prize, -prize]
        assert game.seen("player_1").text.startswith("Prize ")
        assert "You have [2, 3]" in game.seen("player_1").text


def test_games_that_cannot_be_registered_are_named(register: Callable[..., str]):
    def lake() -> Any:
        return single.lake()

    def nothing() -> Any:
        return None

    class Uneven(Last):
        def action_space(self, agent: str) -> Discrete:
            return Discrete(2 if agent == "a" else 3)

    def uneven() -> Any:
        return agentgym.textify(Uneven(), describe=pot, actions=["stay", "leave"])

    for make, message in (
        (lake, r"textify\(game\) for a PettingZoo .* got TextifiedEnv"),
        (nothing, "got NoneType: None"),
        (uneven, "have different actions"),
    ):
        with pytest.raises(ConfigError, match=message):
            agentgym.make_aec(register(make))
    with pytest.raises(ConfigError, match="max_turns must be None or at least 1, got 0"):
        agentgym.make_aec(register(nim), max_turns=0)
    with pytest.raises(ConfigError, match="give a function that returns"):
        agentgym.register_game("Mine/Nim-v0", 3)  # type: ignore[arg-type]
    assert all_seats.all_seats(nim, "nim") is all_seats.all_seats(nim, "nim")


def test_agents_play_each_other(register: Callable[..., str]):
    result = cross_play(
        register(nim, zero_sum=True), ["search:mcts,budget=60", "random"], episodes=6
    )
    assert result.zero_sum and result.matrix()[0][1].mean > 0


@pytest.mark.parametrize("make", [tictactoe, at_once])
def test_a_policy_learns_in_all_seats(make: Any, register: Callable[..., str], tmp_path: Path):
    pytest.importorskip("torch")
    from agentgym.trainers import Callback, train

    if make is tictactoe:
        pytest.importorskip("pygame")

    class Played(Callback):
        def on_rollout_end(self, trainer: Any, trajectories: Any) -> None:
            self.trajectories = trajectories

    seen = Played()
    settings = {
        "env_id": register(make, zero_sum=True), "opponents": "mirror", "model": "nano",
        "context": "current", "instructions": False, "constrain": True, "iterations": 1,
        "episodes_per_iteration": 4, "num_envs": 2, "epochs": 1, "minibatches": 1,
        "eval_episodes": 0, "device": "cpu", "threads": 1, "quiet": True, "log_with": (),
    }  # fmt: skip
    train("rae", **settings, callbacks=[seen], run_dir=str(tmp_path))
    agents = list(make().agents)
    assert [t.agent for t in seen.trajectories] == agents * 4
    assert {t.opponent for t in seen.trajectories} == {"self"}
    assert all(t.turns for t in seen.trajectories)
    for first, second in zip(seen.trajectories[::2], seen.trajectories[1::2], strict=True):
        assert first.episode_return == -second.episode_return


@pytest.mark.parametrize("name", ["kuhn_poker", "tic_tac_toe", "goofspiel", "leduc_poker"])
def test_games_of_open_spiel(name: str, register: Callable[..., str]):
    pyspiel = pytest.importorskip("pyspiel", reason="needs open_spiel")

    def spiel() -> agentgym.TextEnv:
        return agentgym.textify(pyspiel.load_game(name))

    game = agentgym.make_parallel(register(spiel)).game
    rng, moved = np.random.default_rng(0), 0.0
    for seed in range(20):
        game.reset(seed=seed)
        total = dict.fromkeys(game.possible_agents, 0.0)
        while game.acting:
            position, choices = game.inner._position, {}
            if position.is_simultaneous_node():
                assert game.acting == game.possible_agents
            else:
                assert game.acting == (game.possible_agents[position.current_player()],)
            for agent in game.acting:
                listed = game.admissible(agent)
                choices[agent] = listed[int(rng.integers(len(listed)))]
            snapshot = json.loads(json.dumps(game.snapshot()))
            game.play(choices)
            after = game.snapshot()
            game.restore(snapshot)
            game.play(choices)
            assert game.snapshot() == after
            for agent in total:
                total[agent] += game.reward(agent)
        assert [*total.values()] == pytest.approx(game.inner._position.returns())
        moved += abs(total["player_0"])
    assert game.zero_sum and moved > 0
