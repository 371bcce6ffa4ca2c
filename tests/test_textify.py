"""textify: environments with numbered actions as text, equal to the original ones."""

from __future__ import annotations

import copy
import json
import re
import string
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.utils.env_checker import check_env
from pettingzoo import AECEnv

import agentgym
from agentgym.cli.main import main
from agentgym.errors import SnapshotError
from agentgym.evaluation.runner import evaluate
from agentgym.registration.making import make_env
from agentgym.time_step import INFO_KEYS

TAXI = ["south", "north", "east", "west", "pick up", "drop off"]
MOVES = ["left", "down", "right", "up"]

NEWEST_TAXI = max(id for id in gymnasium.registry if id.startswith("Taxi-"))


def taxi(**kwargs: Any) -> agentgym.TextEnv:
    def describe(observation: Any, env: Any) -> str:
        row, column, passenger, goal = env.unwrapped.decode(observation)
        return f"Taxi at {row},{column}; passenger {passenger}; goal {goal}."

    return agentgym.textify(gymnasium.make(NEWEST_TAXI), describe=describe, actions=TAXI, **kwargs)


def lake(**kwargs: Any) -> agentgym.TextEnv:
    def describe(at: Any, env: Any) -> str:
        return f"You are on square {at} of {env.observation_space.n}."

    kwargs = {"describe": describe, "actions": MOVES, **kwargs}
    return agentgym.textify(gymnasium.make("FrozenLake-v1"), **kwargs)


class Nim(AECEnv):
    """Players take one or two of seven sticks. The player that takes the last one wins."""

    metadata = {"name": "nim", "render_modes": []}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent: str) -> Dict:
        return Dict({"observation": Box(0, 7, (1,)), "action_mask": Box(0, 1, (2,), np.int8)})

    def action_space(self, agent: str) -> Discrete:
        return Discrete(2)

    def observe(self, agent: str) -> dict[str, Any]:
        mask = np.array([self.sticks > 0, self.sticks > 1], dtype=np.int8)
        return {"observation": np.array([self.sticks]), "action_mask": mask}

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.sticks = 7
        self.agent_selection = "a"
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0
        self.agent_selection = "b" if agent == "a" else "a"
        self.move(agent, self.agent_selection, int(action))
        self._accumulate_rewards()

    def move(self, agent: str, other: str, action: int) -> None:
        self.sticks -= action + 1
        assert self.sticks >= 0
        self.rewards = {agent: int(self.sticks == 0), other: -int(self.sticks == 0)}
        self.terminations = dict.fromkeys(self.agents, self.sticks == 0)


def nim(**kwargs: Any) -> agentgym.TextEnv:
    def describe(observation: Any, env: Any) -> str:
        return f"{int(observation['observation'][0])} sticks."

    return agentgym.textify(Nim(), describe=describe, actions=["take one", "take two"], **kwargs)


class Tolls(Nim):
    """Each move pays the other player 1. The game has as many moves as `moves`."""

    moves = 4

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        super().reset(seed, options)
        self.left = self.moves

    def move(self, agent: str, other: str, action: int) -> None:
        self.left -= 1
        self.rewards = {agent: 0, other: 1}
        self.terminations = dict.fromkeys(self.agents, self.left == 0)


def tictactoe(**kwargs: Any) -> agentgym.TextEnv:
    pytest.importorskip("pygame")
    from pettingzoo.classic import tictactoe_v3

    def describe(observation: Any, env: Any) -> str:
        mine, theirs = np.moveaxis(observation["observation"], 2, 0)
        signs = np.where(mine, "X", np.where(theirs, "O", "-")).T
        return "\n".join("".join(row) for row in signs)

    squares = [f"{column}{row}" for column in "abc" for row in "123"]
    return agentgym.textify(tictactoe_v3.env(), describe=describe, actions=squares, **kwargs)


EVERY = [taxi, lake, nim, tictactoe]
every = pytest.mark.parametrize("make", EVERY)


def played(env: agentgym.TextEnv, rng: np.random.Generator, result: Any, steps: int) -> list[Any]:
    """Returns the results of random actions, some nonsensical, with a reset after each end."""
    results = [result]
    for _ in range(steps):
        if len(results[-1]) == 5 and (results[-1][2] or results[-1][3]):
            results.append(env.reset())
            continue
        possible = results[-1][-1]["admissible"]
        said = possible[int(rng.integers(len(possible)))] if rng.random() < 0.9 else "hop"
        results.append(env.step(said))
    return results


def test_the_example_of_the_docstring():
    example = re.search(r"```python\n(.*?)```", str(agentgym.textify.__doc__), re.S)
    assert example is not None
    found: dict[str, Any] = {}
    exec("\n".join(line[4:] for line in example[1].splitlines()), found)
    assert found["observation"] == "You are in row 3, column 0. Go to row 3, column 11."
    env, reward, done, info = found["env"], 0.0, False, {}
    assert "up, right, down, left" in env.instructions
    for action in ["up", *["right"] * 11, "down"]:
        _, reward, done, _, info = env.step(action)
    assert done and reward == -1 and info["success"] and info["progress"] == 1


@every
def test_the_contract(make: Any, global_rng_untouched: None):
    env = make()
    check_env(env, skip_render_check=True)
    for result in played(env, np.random.default_rng(0), env.reset(seed=0), 60):
        info = result[-1]
        assert tuple(info) == INFO_KEYS and isinstance(result[0], str)
        if len(result) == 5:
            assert result[1] == sum(info["reward_terms"].values())
            assert not (result[2] and result[3])
            assert not (result[2] and info["admissible"])
            assert info["valid"] != ("There is no action 'hop'" in result[0])
    json.dumps(env.snapshot())


@every
def test_snapshots_and_copies_continue_alike(make: Any):
    env = make()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        before = played(env, rng, env.reset(seed=seed), 3 + seed)[-1]
        snapshot = json.loads(json.dumps(env.snapshot()))
        twin, other = copy.deepcopy(env), make()
        assert other.restore(snapshot) == (before[0], before[-1])
        continued = [played(e, copy.deepcopy(rng), before, 30) for e in (env, twin, other)]
        assert continued[0] == continued[1] == continued[2]
        assert env.restore(snapshot) == (before[0], before[-1])
        assert played(env, rng, before, 30) == continued[0]


@every
def test_a_task_is_a_level_and_a_seed_is_what_happens_there(make: Any):
    env = make(split="test")
    first = env.reset(seed=3)
    assert first[1]["task"] in env.tasks.test
    assert make().reset(seed=3, options={"task": first[1]["task"]}) == first


def test_rewards_and_endings_are_those_of_the_environment_inside():
    env, plain = taxi(), gymnasium.make(NEWEST_TAXI)
    rng = np.random.default_rng(0)
    text, info = env.reset(seed=0)
    observation, _ = plain.reset()
    plain.unwrapped.s = observation = env.env.unwrapped.s  # type: ignore[attr-defined]
    for turn in range(1, 201):
        advised = plain.unwrapped.action_mask(observation)  # type: ignore[attr-defined]
        assert info["admissible"] == tuple(TAXI[i] for i in np.flatnonzero(advised))
        action = int(rng.integers(5))  # never drops off: penalties, but no end
        observation, expected, done, cut, _ = plain.step(action)
        text, reward, terminated, truncated, info = env.step(TAXI[action].upper() + " ")
        row, column, passenger, goal = plain.unwrapped.decode(observation)  # type: ignore[attr-defined]
        assert text == f"Taxi at {row},{column}; passenger {passenger}; goal {goal}."
        assert (reward, terminated, truncated) == (expected, done, cut)
        assert info["valid"] and truncated == (turn == 200)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("south")


def test_nonsense_cannot_outlast_the_limit_of_the_environment():
    env = lake(invalid_penalty=0.5)
    env.reset(seed=0)
    results = [env.step("x" * 1000) for _ in range(100)]
    assert results[0][1] == -0.5 and "left, down, right, up" in results[0][0]
    assert [result[3] for result in results] == [False] * 99 + [True]


def test_an_inner_truncation_is_one():
    cut = gymnasium.wrappers.TimeLimit(gymnasium.make("CliffWalking-v1"), 3)
    cut_off = agentgym.textify(cut, describe=lambda at, env: str(at), actions=MOVES, max_turns=9)
    cut_off.reset(seed=0)
    assert [cut_off.step("up")[3] for _ in range(3)] == [False, False, True]
    assert cut_off.snapshot()["over"]


def test_the_slips_of_one_task_depend_on_the_seed():
    env = lake()
    ways = set()
    for seed in range(8):
        env.reset(seed=seed, options={"task": "train/1"})
        ways.add(tuple(env.step("down")[0] for _ in range(2)))
    assert len(ways) > 1


def test_success_and_progress_are_what_the_caller_says():
    env = lake(progress=lambda at, env: at / 15)
    env.env.unwrapped.P = {  # type: ignore[attr-defined]  # every way leads to the goal
        s: {a: [(1.0, 15, 1.0, True)] for a in range(4)} for s in range(16)
    }
    assert env.reset(seed=0)[1]["progress"] == 0
    info = env.step("up")[4]
    assert info["success"] and info["progress"] == 1 and info["admissible"] == ()


@pytest.mark.parametrize("seat", ["a", "b"])
def test_a_seat_of_a_game_is_rewarded_for_what_happens_until_its_next_turn(seat: str):
    def takes_one(observation: Any, legal: np.ndarray, rng: np.random.Generator) -> int:
        return int(legal[0])

    env = nim(seat=seat, opponent=takes_one)
    text, info = env.reset(seed=0)
    assert text == ("7 sticks." if seat == "a" else "6 sticks.")
    assert info["admissible"] == ("take one", "take two")
    # 7 -1 6 -1 5 -1 4 -1 3 -1 2 -1 1: with one stick left, taking two is illegal.
    results = [env.step("take one") for _ in range(3)]
    if seat == "a":
        assert [result[0] for result in results] == ["5 sticks.", "3 sticks.", "1 sticks."]
        text, _, _, _, info = env.step("take two")
        assert "not allowed now. Choose one of: take one" in text and not info["valid"]
        _, reward, done, _, info = env.step("take one")
        assert (reward, done, info["success"]) == (1.0, True, True)
    else:
        _, reward, done, _, info = results[-1]
        assert (reward, done, info["success"], info["progress"]) == (-1.0, True, False, 0.0)


@pytest.mark.parametrize(("moves", "total"), [(4, 2.0), (1, 1.0)])
def test_rewards_before_the_first_action_of_a_seat_belong_to_it(moves: int, total: float):
    game = Tolls()
    game.moves = moves  # with a single one, the game ends before the seat acts
    describe = lambda observation, env: "Your move."  # noqa: E731
    names = ["take one", "take two"]
    env = agentgym.textify(game, describe=describe, actions=names, seat="b")
    _, info = env.reset(seed=0)
    assert info["reward_terms"]["task"] == 0
    snapshot = json.loads(json.dumps(env.snapshot()))
    for _ in range(2):
        rewards, over = [], False
        while not over:
            _, reward, over, _, info = env.step("take one")
            rewards.append(reward)
            assert info["reward_terms"]["task"] == reward
        assert sum(rewards) == total
        env.restore(snapshot)


def test_the_opponent_of_a_game_is_random_by_the_seed():
    env = tictactoe(seat="player_2")
    boards = {env.reset(seed=seed)[0] for seed in range(20)}
    assert len(boards) > 3 and all(board.count("O") == 1 for board in boards)
    wins = 0.0
    for seed in range(30):
        results = played(env, np.random.default_rng(seed), env.reset(seed=seed), 5)
        wins += sum(result[1] for result in results if len(result) == 5)
    assert wins < 0, "moving second at random loses more than it wins"


def test_a_foreign_snapshot_is_refused():
    env = lake()
    env.reset(seed=0)
    env.step("down")
    other = taxi()
    other.reset(seed=0)
    for snapshot in (other.snapshot(), {**env.snapshot(), "state": {"seed": 0, "played": [99]}}):
        with pytest.raises(SnapshotError):
            env.restore(snapshot)


def test_what_cannot_be_textified_is_said():
    with pytest.raises(ValueError, match="4 different texts"):
        lake(actions=["left", "LEFT", "up", "down"])
    with pytest.raises(ValueError, match="4 different texts"):
        lake(actions=["left"])
    with pytest.raises(TypeError, match="texts, got int: 0"):
        lake(actions=range(4))
    with pytest.raises(ValueError, match="seat"):
        lake(seat="a")
    with pytest.raises(ValueError, match=r"\['a', 'b'\]"):
        nim(seat="c")
    with pytest.raises(TypeError, match="Discrete"):
        agentgym.textify(gymnasium.make("Pendulum-v1"), describe=lambda a, e: "", actions=["go"])
    with pytest.raises(TypeError, match=r"describe takes \(observation, environment\)"):
        lake(describe=lambda observation: "")
    pendulum = gymnasium.make("Pendulum-v1")
    for names in ({}, {"describe": lambda a, e: "", "actions": ["push"]}):
        with pytest.raises(TypeError, match=r"got Box\(.*ActionWrapper"):
            agentgym.textify(pendulum, **names)
    with pytest.raises(TypeError, match="parallel_to_aec"):
        agentgym.textify("Taxi-v4", describe=lambda a, e: "", actions=["go"])


class GuessNumber(gymnasium.Env[str, str]):
    """A plain Gymnasium environment: text in, text out, no tasks."""

    instructions = "Guess a number from 1 to 9."

    def __init__(self, hints: bool = True):
        self.hints = hints
        self.observation_space = gymnasium.spaces.Text(200, charset=string.printable)
        self.action_space = gymnasium.spaces.Text(20)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.secret = int(self.np_random.integers(1, 10))
        return "Guess.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == f"guess {self.secret}":
            return "Right.", 1.0, True, False, {}
        return "Higher or lower." if self.hints else "Wrong.", 0.0, False, False, {}


class Menu(GuessNumber):
    """GuessNumber that lists its actions, with an expert, a picture and a character set."""

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None):
        super().__init__()
        self.render_mode = render_mode
        self.action_space = gymnasium.spaces.Text(20, min_length=7, charset="gues 123456789")

    def _info(self, valid: bool = True) -> dict[str, Any]:
        listed = tuple(f"guess {i}" for i in range(1, 10))
        return {"admissible": listed, "valid": valid, "progress": 0.25}

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        return super().reset(**kwargs)[0], self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        *result, _ = super().step(action)
        return *result, self._info(action in self._info()["admissible"])  # type: ignore[return-value]

    def expert(self) -> str:
        return f"guess {self.secret}"

    def render(self) -> str:  # type: ignore[override]
        return "[picture]"


@pytest.fixture
def guessing() -> Any:
    gymnasium.register(
        "Guess-v0", entry_point=lambda **kwargs: GuessNumber(**kwargs), max_episode_steps=5
    )
    gymnasium.register("Menu-v0", entry_point=Menu, max_episode_steps=5)  # type: ignore[arg-type]
    yield
    del gymnasium.registry["Guess-v0"], gymnasium.registry["Menu-v0"]


class Guesser:
    """Counts up from 1."""

    name = "guesser"

    def act(self, views: Any) -> list[str]:
        return [f"guess {len(view.history) + 1}" for view in views]


@pytest.mark.parametrize("id", ["Guess-v0", "Menu-v0"])
def test_a_plain_text_environment_meets_the_contract(id: str, guessing: None):
    env = make_env(id)
    check_env(env, skip_render_check=True)
    assert env.get_wrapper_attr("instructions") == GuessNumber.instructions
    first = env.reset(seed=3, options={"task": "test/7"})
    assert make_env(id).reset(seed=3, options={"task": "test/7"}) == first
    assert tuple(first[1]) == INFO_KEYS
    env.step("guess 99")
    snapshot = json.loads(json.dumps(env.snapshot()))  # type: ignore[attr-defined]
    other = make_env(id)
    assert other.restore(snapshot)[0] == "Higher or lower."  # type: ignore[attr-defined]
    secret = env.env.unwrapped.secret  # type: ignore[attr-defined]
    for action in ("guess 88", f"guess {secret}"):
        assert env.step(action) == other.step(action)


def test_a_plain_text_environment_is_evaluated(guessing: None):
    report = evaluate("Guess-v0", Guesser(), tasks=60)
    solved = [episode for episode in report.episodes if episode.success]
    assert 0 < len(solved) < 60, "five guesses find some of nine numbers"
    for episode in report.episodes:
        assert episode.reward == episode.progress == float(episode.success)
        assert episode.truncated == (not episode.success)
        assert episode.turns <= 5
    assert report == evaluate("Guess-v0", Guesser(), tasks=60, num_envs=1)
    assert (
        report.episodes
        == evaluate(lambda: gymnasium.make("Guess-v0"), Guesser(), tasks=60).episodes
    )
    test, train = (evaluate("Guess-v0", Guesser(), tasks=5, split=s) for s in ("test", "train"))
    assert {e.task for e in test.episodes}.isdisjoint(e.task for e in train.episodes)


def test_arguments_reach_a_plain_text_environment(guessing: None):
    env = make_env("Guess-v0", hints=False)
    env.reset(seed=0, options={"task": "train/0"})
    assert {env.step(f"guess {i}")[0] for i in (1, 2)} <= {"Wrong.", "Right."}


def test_info_and_expert_of_a_plain_text_environment_are_used(guessing: None):
    env = make_env("Menu-v0")
    _, info = env.reset(seed=0)
    assert info["admissible"][0] == "guess 1" and info["progress"] == 0.25
    assert env.step("guess 12")[4]["valid"] is False
    too_short, wrong = env.step("guess")[0], env.step("guess four")[0]
    assert "at least 7 characters" in too_short and "'for'" in wrong
    assert "at most 20" in env.step("guess " * 9)[0]
    assert evaluate("Menu-v0", "expert", tasks=8).aggregate()["success"].mean == 1.0
    assert evaluate("Menu-v0", "random", tasks=8).aggregate()["valid"].mean == 1.0


def test_the_random_agent_samples_the_own_space_of_a_plain_text_environment():
    env = GuessNumber()
    env.action_space = gymnasium.spaces.Text(3, charset="0123456789")
    textified = agentgym.textify(env, max_turns=5)
    report = evaluate(lambda: textified, "random", tasks=4, num_envs=1)
    assert report.aggregate()["valid"].mean == 1.0


def test_actions_that_never_reach_an_environment_without_a_limit_end_the_episode():
    env = agentgym.textify(GuessNumber())
    env.reset(seed=0)
    for turn in range(1, 101):
        *_, truncated, info = env.step("far too long " * 9)
        assert truncated == (turn == 100) and not info["valid"]
        if turn == 50:
            env.restore(json.loads(json.dumps(env.snapshot())))
    env.reset(seed=0)
    assert not env.step("far too long " * 9)[3]


def told(**info: Any) -> agentgym.TextEnv:
    """Returns an environment of text whose info has more keys."""

    class Telling(GuessNumber):
        def reset(self, **kwargs: Any) -> Any:
            observation, known = super().reset(**kwargs)
            return observation, known | info

        def step(self, action: str) -> Any:
            *result, known = super().step(action)
            return *result, known | info

    return agentgym.textify(Telling())


def test_none_in_the_info_of_a_plain_text_environment_is_no_answer():
    plain, env = told(), told(success=None, progress=None, valid=None, admissible=None)
    assert env.reset(seed=0) == plain.reset(seed=0)
    secret = env.env.unwrapped.secret  # type: ignore[attr-defined]
    assert env.step("guess 88") == plain.step("guess 88")
    result = env.step(f"guess {secret}")
    assert result == plain.step(f"guess {secret}") and result[4]["success"]


@pytest.mark.parametrize("admissible", ["look", 3])
def test_admissible_actions_that_are_no_list_are_an_error(admissible: Any):
    with pytest.raises(TypeError, match="'admissible' must list actions"):
        told(admissible=admissible).reset(seed=0)


def test_a_plain_text_environment_is_played_in_the_shell(guessing: None, capsys: Any):
    assert main(["play", "Menu-v0", "--agent", "expert", "--task", "test/0"]) == 0
    assert "[picture]" in capsys.readouterr().out
    assert main(["play", "Guess-v0", "--agent", "random", "--task", "test/0"]) == 0
    shown = capsys.readouterr().out
    assert GuessNumber.instructions in shown and "Higher or lower." in shown
    assert main(["eval", "Guess-v0", "--episodes", "3"]) == 0


def test_textify_takes_text_actions():
    env = agentgym.textify(GuessNumber(), instructions="Guess!", success=lambda reward: False)
    assert env.instructions == "Guess!"
    env.reset(seed=0)
    secret = env.env.unwrapped.secret  # type: ignore[attr-defined]
    _, reward, done, _, info = env.step(f"guess {secret}")
    assert (reward, done, info["success"]) == (1.0, True, False)
    with pytest.raises(ValueError, match="takes text"):
        agentgym.textify(GuessNumber(), actions=["guess 1"])
    with pytest.raises(TypeError, match="`describe` and `actions`"):
        agentgym.textify(gymnasium.make("FrozenLake-v1"))


def test_an_observation_that_is_no_text_is_named():
    class Broken(GuessNumber):
        def reset(self, **kwargs: Any) -> Any:
            return 3, {}

    with pytest.raises(TypeError, match="observation of type int: 3"):
        evaluate(Broken, "random", tasks=1)
