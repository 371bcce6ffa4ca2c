"""Rewards of every id: nonsense does not pay, and no cycle of actions pays again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from agentgym.core import TextEnv
from agentgym.registration.registry import find
from tests.test_all_envs import bare, every, single

NONSENSE = "zzz"
TURNS, EPISODES = 250, 60
"""Limits of the turns and episodes that an agent plays in an environment."""
ERRORS = 4.0
"""Standard errors by which nonsense may exceed another agent by chance."""
TINY = 1e-6
MOST = 300
"""Tasks of a split that are compared."""

Choose = Callable[[TextEnv, dict[str, Any], np.random.Generator], str]


def nonsense(env: TextEnv, info: dict[str, Any], rng: np.random.Generator) -> str:
    return NONSENSE


def at_random(env: TextEnv, info: dict[str, Any], rng: np.random.Generator) -> str:
    admissible = info["admissible"]
    return admissible[int(rng.integers(len(admissible)))] if admissible else NONSENSE


def expert(env: TextEnv, info: dict[str, Any], rng: np.random.Generator) -> str:
    return env.expert() or NONSENSE


def most_turns(id: str) -> int:
    """Returns the number of turns to play. The engines of extras are slow."""
    return TURNS // 5 if find(id).extra else TURNS


def returns(id: str, choose: Choose) -> np.ndarray:
    """Returns the return and the success of each episode of an agent in test tasks."""
    env, rng, rows, turns = bare(id, split="test"), np.random.default_rng(0), [], 0
    limit = most_turns(id) * (3 if choose is nonsense else 1)  # three attempts per move of a game
    while turns < limit and len(rows) < EPISODES:
        _, info = env.reset(seed=len(rows))
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, info = env.step(choose(env, info, rng))
            total, over, turns = total + reward, terminated or truncated, turns + 1
        rows.append((total, info["success"]))
    return np.array(rows, dtype=float)


def exceeds(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether the mean of one sample is above that of another one by more than chance."""
    error = np.sqrt(one.var() / len(one) + other.var() / len(other))
    return bool(one.mean() > other.mean() + ERRORS * error + TINY)


@every
def test_nonsense_earns_no_more_than_chance_or_the_expert(id: str):
    gained = returns(id, nonsense)
    for other in (at_random, expert):
        earned = returns(id, other)
        for column, name in enumerate(("return", "success")):
            assert not exceeds(gained[:, column], earned[:, column]), (
                f"nonsense has a {name} of {gained[:, column].mean():.3f} in {id}, "
                f"{other.__name__} has {earned[:, column].mean():.3f}"
            )


@single
def test_an_invalid_action_costs_at_least_as_much_as_the_cheapest_valid_one(id: str):
    env, rng = bare(id), np.random.default_rng(0)
    _, info = env.reset(seed=0)
    for turn in range(12):
        snapshot, admissible = env.snapshot(), list(info["admissible"])
        some = [admissible[i] for i in rng.permutation(len(admissible))[:6]]
        best = env.expert() or (some[0] if some else NONSENSE)
        paid = []
        for action in (*some, best):
            env.restore(snapshot)
            _, reward, _, _, tried = env.step(action)
            paid += [reward] * tried["valid"]
        env.restore(snapshot)
        _, reward, _, _, tried = env.step(NONSENSE)
        assert tried["valid"] or not paid or reward <= max(paid) + TINY, (id, turn, reward, paid)
        env.restore(snapshot)
        _, _, terminated, truncated, info = env.step(some[0] if some and turn % 2 else best)
        if terminated or truncated:
            _, info = env.reset()


NODES = 100
"""States that a search for a cycle of positive reward visits."""


def pays_again(env: TextEnv, snapshot: dict[str, Any], around: list[str]) -> bool:
    """Whether a cycle of actions pays twice more from its end."""
    env.restore(snapshot)
    for _ in range(2):
        gain = 0.0
        for action in around:
            _, reward, terminated, truncated, info = env.step(action)
            gain += reward
            if terminated or truncated or info["success"]:
                return False
        if gain <= TINY:
            return False
    return True


def expert_words(env: TextEnv, tasks: int = 3, most: int = 12) -> list[str]:
    """Returns actions that the expert takes, for environments with an open set of actions."""
    words: dict[str, None] = {}
    for seed in range(tasks):
        env.reset(seed=seed)
        over = False
        while not over and len(words) < most:
            action = env.expert() or NONSENSE
            words[action] = None
            _, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated or info["turn"] == 30
    return list(words)


def ways(
    env: TextEnv, words: list[str], info: dict[str, Any], nodes: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any], float, list[str]]]:
    """Yields states around the current one, breadth first: snapshot, info, reward, actions."""
    queue = deque([(env.snapshot(), info, 0.0, list[str]())])
    known = {info["state_key"]}
    while queue:
        yield (reached := queue.popleft())
        snapshot, seen, gain, way = reached
        for action in seen["admissible"] or words:
            if (nodes := nodes - 1) < 0:
                return
            env.restore(snapshot)
            _, reward, terminated, truncated, after = env.step(action)
            over = terminated or truncated or after["success"]
            if not over and after["state_key"] not in known:
                known.add(after["state_key"])
                queue.append((env.snapshot(), after, gain + reward, [*way, action]))


def farm(env: TextEnv, choose: Choose, words: list[str], nodes: int) -> list[str] | None:
    """Returns a cycle of actions that leads back to a state and pays again and again, or None.

    It follows an agent for an episode. After rewards before the end, it searches for a way back to
    an earlier state of the episode that costs less than was gained since.
    """
    rng, searches = np.random.default_rng(0), 3
    _, info = env.reset(seed=0)
    path: list[str] = []
    passed = {info["state_key"]: (0, 0.0)}
    total, over = 0.0, False
    while not over and len(path) < 60 and searches:
        action = choose(env, info, rng)
        _, reward, terminated, truncated, info = env.step(action)
        path.append(action)
        total, over = total + reward, terminated or truncated or info["success"]
        if reward > TINY and not over:
            here, searches = env.snapshot(), searches - 1
            for snapshot, seen, gain, way in ways(env, words, info, nodes):
                at, before = passed.get(seen["state_key"], (0, np.inf))
                cycle = [*path[at:], *way]
                if total + gain > before + TINY and pays_again(env, snapshot, cycle):
                    return cycle
            env.restore(here)
        passed.setdefault(info["state_key"], (len(path), total))
    return None


@every
def test_no_cycle_of_actions_pays_again_and_again(id: str):
    env = bare(id)
    words, nodes = expert_words(env), NODES // 5 if find(id).extra else NODES
    for choose in (expert, at_random):
        cycle = farm(env, choose, words, nodes)
        assert cycle is None, f"{cycle} pays again and again"


FEW, SHARED = "Few starts exist", "splits share"
"""Docstrings declare with these words that tests repeat each other, and training tasks."""


def transcript(env: TextEnv, task: str) -> tuple[str, int]:
    """Returns the expert's episode in a task, with the hidden state, and its number of turns."""
    observation, info = env.reset(seed=0, options={"task": task})
    lines, over = [env.instructions, observation, env.privileged_text() or ""], False
    while not over and info["turn"] < 60:
        action = env.expert() or NONSENSE
        observation, reward, terminated, truncated, info = env.step(action)
        lines += [action, observation, f"{reward:.6f}"]
        over = terminated or truncated
    return "\n".join(lines), info["turn"]


@every
def test_test_tasks_are_new_and_many_or_the_docstring_says_that_few_starts_exist(id: str):
    env, turns, found = bare(id), 0, {"train": [], "test": []}
    tasks = {split: islice(env.tasks.split(split), MOST) for split in found}
    for pair in zip_longest(tasks["train"], tasks["test"]):
        for split, task in zip(found, pair, strict=True):
            if task is not None and turns < most_turns(id):
                text, played = transcript(env, task)
                found[split].append(text)
                turns += played
    both, different = {*found["train"]} & {*found["test"]}, len({*found["test"]})
    declared = " ".join((env.__doc__ or "").split())
    if FEW not in declared:
        assert different > 0.7 * len(found["test"]), f"{different} of {len(found['test'])} differ"
    if SHARED not in declared:
        assert not both, f"{len(both)} are training tasks, such as {min(both)[-1500:]}"
