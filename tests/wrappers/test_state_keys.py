"""The `state_key` of wrapped environments: it holds what a wrapper remembers."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest

from agentgym import wrappers
from agentgym.envs.numbers.number_line import NumberLine

from .test_every_wrapper import WRAPPERS

ACTIONS = (
    *("+", "-", "ask", "remember: a", "remember: b", "forget 1", "go up", "+\n+", "+\n-\n-"),
    *('{"name": "get_x", "arguments": {"a": "c"}}', '{"name": "other", "arguments": {}}'),
    *("```python\nx = act('+')\n```", "```python\nx = 1\nprint(x)\n```"),
)
HISTORIES = (wrappers.HistoryObservation, wrappers.EncodeObservation, wrappers.TokenAction)
"""Their observations show how a state was reached, which is no part of the state."""
MORE: dict[str, Any] = {
    "limited": lambda env: wrappers.ToolRules(env, limit={"get_*": 2}),
    "ordered": lambda env: wrappers.ToolRules(env, after={"get_*": ["other"]}),
    "bonus": lambda env: wrappers.Subgoals(env, f"{__name__}:side", bonus=0.5),
    "noted": lambda env: wrappers.MultiTrial(wrappers.Memory(env, 2, turns=2), 3),
}


def side(env: gymnasium.Env[Any, Any]) -> str:
    """A subgoal that depends on the position alone."""
    state = env.unwrapped.state  # pyright: ignore[reportAttributeAccessIssue]
    return f"leave {'the lower' if state.position < 3 else 'the upper'} half"


class Tools(NumberLine):
    """Reads calls of tools as moves, so that rules over calls have calls to count."""

    def _parse(self, action: str) -> str:
        return "+" if action.startswith("{") else super()._parse(action)


class Seen(NamedTuple):
    """A state of a wrapped environment."""

    inner: tuple[str, ...]
    outer: tuple[Any, ...]
    key: str
    snapshot: dict[str, Any]


def make(name: str) -> gymnasium.Env[Any, Any]:
    return (WRAPPERS | MORE)[name](Tools(size=6, max_turns=4, invalid_penalty=0.25))


def seen(env: gymnasium.Env[Any, Any], observation: Any, info: dict[str, Any]) -> Seen:
    inside: Any = env.unwrapped
    raw = inside._info(inside._last)
    inner = inside._last.observation, raw["state_key"], str(raw["admissible"])
    outer = repr(observation), str(info["admissible"])
    return Seen(inner, outer, info["state_key"], env.get_wrapper_attr("snapshot")())


def states(env: gymnasium.Env[Any, Any], episodes: int = 20, turns: int = 10) -> list[Seen]:
    """Plays episodes of one task with random actions."""
    found, rng = [], np.random.default_rng(0)
    text = isinstance(env.action_space, gymnasium.spaces.Text)
    for _ in range(episodes):
        found.append(seen(env, *env.reset(seed=5, options={"task": "train/4"})))
        for _ in range(turns):
            action = rng.choice(ACTIONS) if text else rng.integers(env.action_space.n)  # pyright: ignore
            step = env.step(str(action) if text else int(action))
            if step[2] or step[3]:
                break
            found.append(seen(env, step[0], step[4]))
    return found


@pytest.fixture(params=sorted((WRAPPERS | MORE).keys() - {"tool-tasks"}))  # it has other tasks
def env(request: pytest.FixtureRequest) -> gymnasium.Env[Any, Any]:
    return make(request.param)


def layers(env: gymnasium.Env[Any, Any]) -> list[gymnasium.Env[Any, Any]]:
    found = [env]
    while isinstance(found[-1], gymnasium.Wrapper):
        found.append(found[-1].env)
    return found


def test_states_that_a_wrapper_shows_differently_have_different_keys(
    env: gymnasium.Env[Any, Any],
):
    shown: dict[Any, set[Any]] = defaultdict(set)
    for state in states(env):
        shown[state.inner, state.key].add(state.outer)
    if not any(isinstance(layer, HISTORIES) for layer in layers(env)):
        assert all(len(outer) == 1 for outer in shown.values()), shown


def test_states_of_one_key_react_alike(env: gymnasium.Env[Any, Any]):
    """Rewards, ends and validity of the next action, whatever the wrapper remembers."""
    if isinstance(env, wrappers.TokenAction):
        pytest.skip("within an action, the key is that of the start of the turn")
    alike: dict[Any, dict[str, Seen]] = defaultdict(dict)
    for state in states(env):
        alike[state.inner, state.key].setdefault(json.dumps(state.snapshot), state)
    text = isinstance(env.action_space, gymnasium.spaces.Text)
    for group in alike.values():
        for action in ACTIONS if text else (0, 1):
            results = set()
            for state in itertools.islice(group.values(), 3):
                env.get_wrapper_attr("restore")(state.snapshot)
                _, reward, terminated, _, info = env.step(action)
                results.add((reward, terminated, info["valid"]))
            assert len(results) == 1, (action, results)


def test_equal_states_and_restored_snapshots_have_equal_keys(env: gymnasium.Env[Any, Any]):
    keys: dict[str, str] = {}
    for state in states(env):
        assert keys.setdefault(json.dumps(state.snapshot), state.key) == state.key
    for snapshot, key in keys.items():
        observation, info = env.get_wrapper_attr("restore")(json.loads(snapshot))
        assert seen(env, observation, info).key == key


def test_keys_recur_where_the_memory_is_the_same(env: gymnasium.Env[Any, Any]):
    if isinstance(env, wrappers.Dream | wrappers.Evidence):
        pytest.skip("all turns are the state: a world model reads them, or they can be cited")
    found = states(env)
    assert len({state.key for state in found}) < len(found) / 2
