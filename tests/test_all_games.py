"""Every multi-agent id satisfies the contracts of PettingZoo and AgentGym.

`pytest -k golden --update-golden` writes the golden transcripts. Review the diff.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from pettingzoo.test import api_test, max_cycles_test, parallel_api_test, seed_test

import agentgym
from agentgym.core import UnreadableAction
from agentgym.errors import SnapshotError, UnknownTaskError
from agentgym.multiagent.aec import AECGame
from agentgym.multiagent.game import GAME_INFO_KEYS
from agentgym.multiagent.parallel import ParallelGame
from agentgym.utils.word_hash import WordHash

GOLDEN = Path(__file__).parent / "golden"
ENTRIES = [  # ids that only differ in the single seat share a game
    e for e in agentgym.REGISTRY.values() if e.multi_agent and e.extra is None and not e.seat
]
IDS = [entry.id for entry in ENTRIES]
NUMBERED = [id for id in IDS if agentgym.make_parallel(id).game.actions]
FACES = [(id, "text") for id in IDS] + [(id, "discrete") for id in NUMBERED]
GARBAGE = ["", " ", "x" * 10_000, "naïve 东西 🙂", "\0\x1b[2J\n\n", "\ud800", "{}", "9" * 400, "-1"]
TALKS = [
    id
    for id in IDS
    if any(name in id for name in ("Talk", "Commons", "PublicGoods", "TrustAndSplit"))
]
"""Games with messages that can commit their sender to a move."""
INFO_TYPES = (str, int, bool, bool, float, tuple, str, dict, bool)
DIGEST = re.compile("[0-9a-f]{16}")

by_id = pytest.mark.parametrize("id", IDS)
by_face = pytest.mark.parametrize(("id", "mode"), FACES)


def raw_aec(id: str, **kwargs: Any) -> AECGame:
    return agentgym.make_aec(id, **kwargs).unwrapped


def choice(env: AECGame | ParallelGame, agent: str, seed: int) -> Any:
    """Returns an action that depends only on turn, agent and seed. Some are nonsense."""
    game = env.game
    assert game.episode is not None
    rng = random.Random(f"{seed} {agent} {game.episode.turn}")
    admissible = game.steps[agent].admissible
    said = rng.choice(admissible) if admissible else f"Hello {rng.randrange(100)}"
    if rng.random() < 0.2:
        said = rng.choice(GARBAGE)
    if env.action_mode == "discrete":
        return game.actions.index(said) if said in game.actions else 10**9
    return said


def play_aec(env: AECGame, seed: int, cycles: int = 400) -> list[tuple[Any, ...]]:
    """Plays to the end. Returns the inputs of every agent at each of its turns."""
    seen: list[tuple[Any, ...]] = []
    for agent in env.agent_iter(cycles):
        observation, reward, terminated, truncated, info = env.last()
        assert observation is not None
        assert env.observation_space(agent).contains(observation)
        assert not (terminated and truncated)
        seen.append((agent, observation["text"], reward, terminated, truncated, info))
        env.step(None if terminated or truncated else choice(env, agent, seed))
    return seen


def play_parallel(env: ParallelGame, seed: int, turns: int = 400) -> dict[str, list[float]]:
    rewards: dict[str, list[float]] = defaultdict(list)
    for _ in range(turns):
        if not env.agents:
            break
        actions = {agent: choice(env, agent, seed) for agent in env.game.acting}
        observations, gained, _, _, _ = env.step(actions)
        for agent, reward in gained.items():
            assert env.observation_space(agent).contains(observations[agent])
            rewards[agent].append(reward)
    return rewards


@by_face
def test_pettingzoo_conformance(id, mode):
    harmless = ("space for each agent probably should be", "is not a NumPy array", "all zeros")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        api_test(agentgym.make_aec(id, action_mode=mode), num_cycles=200)
        parallel_api_test(agentgym.make_parallel(id, action_mode=mode), num_cycles=200)
        seed_test(lambda: agentgym.make_aec(id, action_mode=mode), num_cycles=200)
    for warning in caught:
        assert any(words in str(warning.message) for words in harmless), warning.message


@pytest.mark.parametrize("id", NUMBERED)
@pytest.mark.filterwarnings("ignore:.*(probably should be|all zeros|not a NumPy array)")
def test_observations_as_arrays(id):
    shown = {"action_mode": "discrete", "observation_size": 32}
    api_test(agentgym.make_aec(id, **shown), num_cycles=50)
    parallel_api_test(agentgym.make_parallel(id, **shown), num_cycles=50)
    arrays, texts = raw_aec(id, **shown), raw_aec(id, action_mode="discrete")
    for env in (arrays, texts):
        env.reset(seed=0)
    for agent in texts.agent_iter(6):
        seen, read = arrays.observe(agent), texts.observe(agent)
        assert arrays.observation_space(agent).contains(seen)
        assert seen["observation"] == pytest.approx(WordHash(32).text(read["text"]))
        assert (seen["action_mask"] == read["action_mask"]).all()
        assert all(isinstance(value, int | float) for value in arrays.infos[agent].values())
        if texts.terminations[agent]:
            break
        action = int(read["action_mask"].argmax())
        for env in (arrays, texts):
            env.step(action)


@pytest.mark.parametrize("id", NUMBERED)
def test_max_cycles(id):
    if not all_may_do_anything_in_every_turn(id):
        assert play_turn_limit(id) == 2  # PettingZoo's test plays all actions in every turn
        return
    makers = {"env": agentgym.make_aec, "parallel_env": agentgym.make_parallel}
    module = {
        name: lambda max_cycles, make=make: make(id, action_mode="discrete", max_turns=max_cycles)
        for name, make in makers.items()
    }
    max_cycles_test(SimpleNamespace(**module))


def all_may_do_anything_in_every_turn(id: str) -> bool:
    env, rng = agentgym.make_parallel(id), random.Random(0)
    env.reset(seed=0)
    for _ in range(10):
        if len(env.game.acting) < len(env.agents):
            return False
        steps = env.game.steps
        if any(set(steps[agent].admissible) != {*env.game.actions} for agent in env.agents):
            return False
        env.step({agent: rng.choice(steps[agent].admissible) for agent in env.agents})
    return True


def play_turn_limit(id: str) -> int:
    env = agentgym.make_parallel(id, max_turns=2)
    env.reset(seed=0)
    for turns in range(1, 10):
        actions = {agent: env.game.steps[agent].admissible[0] for agent in env.game.acting}
        _, _, terminations, truncations, infos = env.step(actions)
        if not env.agents:
            assert all(truncations.values()) and not any(terminations.values())
            assert not any(info["acting"] or info["admissible"] for info in infos.values())
            return turns
    return 0


@by_face
def test_determinism_over_many_steps_and_untouched_global_rng(id, mode):
    random.seed(1)
    np.random.seed(1)
    before = (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]
    one, two = raw_aec(id, action_mode=mode), raw_aec(id, action_mode=mode)
    for episode in range(8):
        one.reset(seed=episode if episode < 4 else None)
        play_aec(two, 99) if two.agents else None  # interleaved, and not even finished
        two.reset(seed=episode if episode < 4 else None)
        assert data_equivalence(play_aec(one, episode, 100), play_aec(two, episode, 100))
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]


@by_face
def test_same_choices_give_the_same_in_both_faces(id, mode):
    for seed in range(6):
        aec, parallel = raw_aec(id, action_mode=mode), agentgym.make_parallel(id, action_mode=mode)
        aec.reset(seed=seed)
        parallel.reset(seed=seed)
        totals: dict[str, float] = defaultdict(float)
        for agent, _, reward, *_ in play_aec(aec, seed):
            totals[agent] += reward
        rewards = play_parallel(parallel, seed)
        assert totals.keys() == rewards.keys()
        for agent, values in rewards.items():
            assert totals[agent] == pytest.approx(sum(values))
        assert aec.game.episode == parallel.game.episode
        assert aec.game.state == parallel.game.state


@by_id
def test_infos_have_the_same_keys_and_types_always(id):
    env = agentgym.make_parallel(id, invalid_penalty=0.25)
    _, infos = env.reset(seed=3)
    for _ in range(60):
        for agent, info in infos.items():
            assert tuple(info)[: len(GAME_INFO_KEYS)] == GAME_INFO_KEYS
            assert tuple(info) == tuple(next(iter(infos.values())))
            types = tuple(type(value) for value in info.values())
            assert types[: len(INFO_TYPES)] == INFO_TYPES
            assert set(types[len(INFO_TYPES) :]) <= {float}
            assert DIGEST.fullmatch(info["state_key"])
            assert 0 <= info["progress"] <= 1
            assert all(type(term) is float for term in info["reward_terms"].values())
            assert info["acting"] == (agent in env.game.acting)
        if not env.agents:
            break
        again = {agent: env.game.info(agent) for agent in env.agents}
        assert again == {agent: infos[agent] for agent in env.agents}
        assert all(again[a]["reward_terms"] is not infos[a]["reward_terms"] for a in env.agents)
        actions = {agent: choice(env, agent, 3) for agent in env.game.acting}
        _, rewards, _, _, infos = env.step(actions)
        for agent, reward in rewards.items():
            assert type(reward) is float
            assert sum(infos[agent]["reward_terms"].values()) == pytest.approx(reward)
            assert (infos[agent]["reward_terms"]["invalid"] == -0.25) == (not infos[agent]["valid"])


@by_id
def test_zero_sum_where_the_game_says_so(id):
    for seed in range(10):
        env = agentgym.make_parallel(id)
        env.reset(seed=seed)
        rewards = play_parallel(env, seed)
        if env.game.zero_sum:
            assert sum(map(sum, rewards.values())) == pytest.approx(0)


TEAMS = (
    "CoWriting", "EinsteinPuzzle", "Hanabi", "Overcooked", "ReferentialGame", "Team",
    "TwentyQuestions", "WatchAndHelp",
)  # fmt: skip


@by_id
def test_a_common_reward_where_the_game_says_so(id):
    name = id.partition("/")[2]
    for seed in range(10):
        env = agentgym.make_parallel(id)
        assert env.game.common_reward == (name.partition("-")[0] in TEAMS)
        env.reset(seed=seed)
        while env.game.common_reward and env.agents:
            asked = choice if seed % 2 else lambda env, agent, _: env.game.expert(agent)
            actions = {agent: asked(env, agent, seed) for agent in env.game.acting}
            _, rewards, _, _, infos = env.step(actions)
            paid = {rewards[a] - infos[a]["reward_terms"]["invalid"] for a in rewards}
            assert len(paid) <= 1, paid


@by_face
def test_garbage_never_raises(id, mode):
    garbage = GARBAGE if mode == "text" else [-1, 10**12, np.int32(-7), np.int64(10**9)]
    for env in (raw_aec(id, action_mode=mode), agentgym.make_aec(id, action_mode=mode)):
        env.reset(seed=0)
        for i, agent in enumerate(env.agent_iter(300)):
            assert env.observation_space(agent).contains(env.observe(agent))
            dead = env.terminations[agent] or env.truncations[agent]
            env.step(None if dead else garbage[i % len(garbage)])


@by_id
def test_who_is_never_understood_promises_nothing(id):
    game = agentgym.make_parallel(id, max_invalid=2, max_turns=100).game
    game.reset(seed=0)
    while game.acting:
        talk = {agent: not game.seen(agent).admissible for agent in game.acting}
        agents = game.acting
        game.play({agent: UnreadableAction("{", "Say it in other words.") for agent in agents})
        for agent in agents:
            line = game.seen(agent).feedback
            assert "Say it in other words." in line and not game.seen(agent).valid
            if id in TALKS and talk[agent] and "last attempt" in line:
                assert "Your move is now: \n" in f"{line}\n"


@by_id
def test_what_is_seen_late_or_never_is_the_same(id):
    """Observations are built lazily. The time of access must not matter."""
    for seed in range(3):
        early, late = (agentgym.make_parallel(id, max_turns=60).game for _ in range(2))
        rng = random.Random(seed)
        for game in (early, late):
            game.reset(seed=seed)
        while early.acting:
            seen = early.steps
            for agent in rng.sample(early.possible_agents, 1):
                assert late.seen(agent) == seen[agent]
                assert late.info(agent) == early.info(agent)
            said = {}
            for agent in early.acting:
                admissible = seen[agent].admissible
                some = rng.sample(admissible, min(len(admissible), len(GARBAGE)))
                said[agent] = rng.choice([*GARBAGE, *some])
            for game in (early, late):
                game.play(said)
        assert late.steps == early.steps and late.snapshot() == early.snapshot()


@by_id
def test_what_a_caller_does_wrong_does_raise(id):
    env = raw_aec(id)
    for act in (lambda: env.step("x"), env.snapshot, lambda: env.observe("player_0")):
        with pytest.raises(gymnasium.error.ResetNeeded):
            act()
    env.reset(seed=0)
    with pytest.raises(TypeError):
        env.step(1)
    parallel = agentgym.make_parallel(id)
    parallel.reset(seed=0)
    with pytest.raises(ValueError, match="must act now"):
        parallel.step({})
    with pytest.raises(UnknownTaskError):
        parallel.reset(options={"task": "nonsense"})


PLAY_ON = """
import json, sys
sys.path.insert(0, sys.argv[1])
import test_all_games as t
for id, aec, parallel in json.load(sys.stdin):
    env = t.raw_aec(id, invalid_penalty=0.5)
    env.restore(aec)
    seen = t.play_aec(env, 7)
    env = t.agentgym.make_parallel(id)
    env.restore(parallel)
    print(json.dumps([seen, t.play_parallel(env, 7)]))
"""


@pytest.mark.slow
def test_snapshots_continue_in_another_process():
    snapshots, expected = [], []
    for id in IDS:
        for steps in range(6):
            env, parallel = raw_aec(id, invalid_penalty=0.5), agentgym.make_parallel(id)
            env.reset(seed=steps)
            play_aec(env, 1, steps)
            parallel.reset(seed=steps)
            play_parallel(parallel, 1, steps)
            snapshots.append((id, env.snapshot(), parallel.snapshot()))
            expected.append([play_aec(env, 7), play_parallel(parallel, 7)])
    result = subprocess.run(
        [sys.executable, "-c", PLAY_ON, str(Path(__file__).parent)],
        input=json.dumps(snapshots),
        env={**os.environ, "PYTHONHASHSEED": "123"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    got = [json.loads(line) for line in result.stdout.splitlines()]
    assert got == json.loads(json.dumps(expected))


@by_id
def test_a_bad_snapshot_is_refused_and_changes_nothing(id):
    env = raw_aec(id)
    env.reset(seed=0)
    good = json.loads(json.dumps(env.snapshot()))
    for path in (("game", "env"), ("game", "episode", "task"), ("game", "rng"), ("selection",)):
        bad = json.loads(json.dumps(good))
        inner = bad
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        with pytest.raises(SnapshotError):
            env.restore(bad)
        assert json.loads(json.dumps(env.snapshot())) == good


@by_id
def test_tasks_are_disjoint_and_decide_the_start(id):
    game = agentgym.make_parallel(id).game
    train, test = (game.tasks.split(name) for name in ("train", "test"))
    assert not set(train[:1000]) & set(test[:1000])
    for split in ("train", "test"):
        env = agentgym.make_parallel(id, split=split)
        _, infos = env.reset(seed=5)
        task = infos["player_0"]["task"]
        assert task in env.game.tasks.split(split)
        other = agentgym.make_parallel(id, split="test" if split == "train" else "train")
        other.reset(seed=5, options={"task": task})
        assert env.game.state == other.game.state
        for agent in env.possible_agents:
            assert env.game.role(agent) in env.game.possible_roles(agent)


@by_id
def test_render(id, capsys):
    env = raw_aec(id, render_mode="ansi")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.render()
    env.reset(seed=0)
    assert isinstance(env.render(), str) and env.render()
    env = agentgym.make_aec(id, render_mode="human")
    env.reset(seed=0)
    assert capsys.readouterr().out and env.render() is None
    env.close()


@by_id
def test_every_scripted_level_plays_whole_games(id):
    game = agentgym.make_parallel(id, max_turns=300).game
    for level in game.levels:
        game.reset(seed=1)
        while game.acting:
            agents = game.acting
            game.play({agent: game.script(level, agent, game.np_random) for agent in agents})
            assert all(game.steps[agent].valid for agent in agents), level
    with pytest.raises(ValueError, match="Unknown level"):
        game.script("nobody", "player_0", game.np_random)


@by_id
def test_single_seat_passes_the_checker(id):
    check_env(gymnasium.make(id).unwrapped)


@by_id
def test_single_seat_snapshots_and_determinism(id):
    levels = agentgym.make_parallel(id).game.levels
    for seed in range(6):
        level = levels[-(seed % 2)]
        envs: list[Any] = [gymnasium.make(id, opponents=level).unwrapped for _ in range(3)]
        assert envs[0].reset(seed=seed) == envs[1].reset(seed=seed)
        over = False
        while not over:
            envs[2].restore(json.loads(json.dumps(envs[0].snapshot())))
            rng = random.Random(f"{seed} {envs[0]._turn}")
            action = envs[0].expert() if rng.random() < 0.5 else rng.choice(GARBAGE)
            first, second, third = (env.step(action or "hello") for env in envs)
            assert first == second == third
            assert sum(first[4]["reward_terms"].values()) == pytest.approx(first[1])
            over = first[2] or first[3]


def transcript(id: str) -> str:
    """Returns an episode of weakest against strongest players, with a first nonsensical action."""
    env = raw_aec(id)
    env.reset(seed=0)
    game = env.game
    rng = np.random.Generator(np.random.PCG64(0))
    lines = [f"{id}, seed 0, task {env.infos['player_0']['task']}", game.instructions]
    for i, agent in enumerate(env.agent_iter(400)):
        observation, reward, terminated, truncated, info = env.last()
        assert observation is not None
        ends = " terminated" * terminated + " truncated" * truncated
        says = {key: info[key] for key in ("turn", "valid", "success", "progress", "admissible")}
        lines += ["", f"--- {agent} {reward:+g}{ends} {json.dumps(says)}", observation["text"]]
        if terminated or truncated:
            env.step(None)
            continue
        level = game.levels[0 if agent == "player_0" else -1]
        action = "nonsense" if i == 0 else game.script(level, agent, rng)
        lines.append(f"> {action}")
        env.step(action)
    return "\n".join(lines) + "\n"


def golden_path(id: str) -> Path:
    return GOLDEN / f"{agentgym.REGISTRY[id].name}.aec.txt"


@by_id
def test_a_single_seat_does_not_play_against_chance_by_default(id):
    game = agentgym.make_parallel(id).game
    assert game.levels[0] == "random"
    assert game.default_opponents in game.levels[1:], (
        "a game of the suite needs a scripted level: add one to levels, write _script, and name it "
        "as default_opponents"
    )


@by_id
def test_golden_transcript(id, golden):
    golden(golden_path(id), transcript(id))
