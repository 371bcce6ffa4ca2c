"""Properties of all wrappers."""

from __future__ import annotations

import copy
import functools
import importlib
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env, data_equivalence

from agentgym import wrappers
from agentgym.agents import Outcome, View
from agentgym.data.episode import RecordedEpisode
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, SnapshotError
from agentgym.evaluation import evaluate
from agentgym.time_step import INFO_KEYS
from agentgym.tools.env import action_readers

from ..helpers.solved_tools import solved, todo
from ..helpers.tokenizers import LATIN

Make = Callable[[gymnasium.Env[Any, Any]], gymnasium.Env[Any, Any]]


def same_reward(step: wrappers.Transition) -> dict[str, float]:
    return {"custom": step.reward}


def next_step(env: gymnasium.Env[Any, Any]) -> str:
    return str(env.get_wrapper_attr("expert")() or "")


def never(episode: RecordedEpisode) -> float:
    return 0.0


def dreamed(view: View, action: str) -> Outcome:
    return Outcome(f"{len(view.history)} {action}", 0.25, 0.5, action == "+", True, ("+", "-"))


def think(rules: str, seen: str, way: list[str], block: str, others: list[str]) -> str:
    return "+" if block == "answer" else f"{block} {len(way)}"


SMALL: dict[str, Any] = {"max_turns": 4, "invalid_penalty": 0.25, "size": 4}
FOLDER = tempfile.TemporaryDirectory()


@functools.cache
def recorded() -> str:
    """A file of random episodes, several of each task that the seeds below sample."""
    file, env = Path(FOLDER.name) / "own.jsonl", NumberLine(**SMALL)
    tasks = [env.reset(seed=seed)[1]["task"] for seed in range(9)]
    evaluate("NumberLine-v0", "random", tasks=tasks * 4, env_kwargs=SMALL, save=file)
    return str(file)


WRAPPERS: dict[str, Make] = {
    "token": lambda env: wrappers.TokenAction(env, LATIN, max_action_tokens=3, max_tokens=400),
    "token-constrained": lambda env: wrappers.TokenAction(env, LATIN, constrain=True, gamma=0.9),
    "admissible": lambda env: wrappers.AdmissibleAction(env, 4),
    "hashed": lambda env: wrappers.EncodeObservation(env, size=32),
    "hashed-actions": lambda env: wrappers.EncodeObservation(env, size=32, max_actions=3),
    "ids": lambda env: wrappers.EncodeObservation(env, LATIN, size=20),
    "history": lambda env: wrappers.HistoryObservation(env),
    "history-1": lambda env: wrappers.HistoryObservation(env, 1, keep_first=True),
    "extract": lambda env: wrappers.ExtractAction(env, "tags"),
    "extract-penalty": lambda env: wrappers.ExtractAction(env, "tool_call", format_penalty=0.5),
    "privileged": lambda env: wrappers.PrivilegedText(env),
    "abridged": lambda env: wrappers.AbridgedObservation(env),
    "dream": lambda env: wrappers.Dream(env, f"{__name__}:dreamed", max_turns=5),
    "evidence": lambda env: wrappers.Evidence(env, f"{__name__}:never"),
    "partial": lambda env: wrappers.PartialObservation(env, 0.4),
    "swap": lambda env: wrappers.SwapWords(env, {"+": "-", "at": "blicket"}),
    "swap-actions": lambda env: wrappers.SwapWords(env, {"+": "-"}, where="actions"),
    "reward": lambda env: wrappers.RewardFunction(env, same_reward),
    "reward-success": lambda env: wrappers.RewardFunction(env, "success"),
    "reward-progress": lambda env: wrappers.RewardFunction(env, "progress"),
    "weighted": lambda env: wrappers.WeightedReward(env, {"task": 2.0, "invalid": 0.5}),
    "subgoals": lambda env: wrappers.Subgoals(env, f"{__name__}:next_step", bonus=0.0),
    "trials": lambda env: wrappers.MultiTrial(env, 3),
    "trials-transcripts": lambda env: wrappers.MultiTrial(
        env, 2, transcripts=True, stop_on_success=False
    ),
    "trials-fresh": lambda env: wrappers.MultiTrial(env, 3, fresh=True),
    "monologue": lambda env: wrappers.Monologue(env, 12),
    "memory": lambda env: wrappers.Memory(env, 2, length=20, turns=3),
    "outcome": lambda env: wrappers.Outcome(env, False),
    "ask": lambda env: wrappers.AskExpert(env, cost=0.1, budget=2),
    "expert-start": lambda env: wrappers.ExpertStart(env, share=1.0, last=3),
    "own-start": lambda env: wrappers.OwnStart(env, recorded(), share=1.0),
    "reflector": lambda env: wrappers.Reflector(env, "random", trials=3),
    "thoughts": lambda env: wrappers.ThoughtGraph(env, f"{__name__}:think", budget=9),
    "tool-rules": lambda env: wrappers.ToolRules(env, allow=["get_*"], deny={"get_x": {"a": "b"}}),
    "tool-tasks": lambda env: wrappers.ToolTasks(todo(), solved(FOLDER.name)),
    "verb-rules": lambda env: wrappers.ToolRules(env, follow={"": ["left"]}, verbs=True),
    "written-goal": lambda env: wrappers.WrittenGoal(env, f"{__name__}:never"),
    "plan": lambda env: wrappers.WholePlan(env, 2),
    "compose": lambda env: wrappers.Compose(env, 2),
    "compose-ids": lambda env: wrappers.Compose(env, 2, ids=["NumberLine-v0"], ordered=False),
    "code": lambda env: wrappers.CodeAction(env),
    "stack": lambda env: wrappers.AdmissibleAction(
        wrappers.EncodeObservation(
            wrappers.WeightedReward(
                wrappers.MultiTrial(wrappers.HistoryObservation(env, 2), 2), {"task": 1.0}
            ),
            size=16,
            max_actions=2,
        ),
        2,
    ),
}


def make(name: str, *, bare: bool = False) -> gymnasium.Env[Any, Any]:
    env = NumberLine(**SMALL) if bare else gymnasium.make("AgentGym/NumberLine-v0", **SMALL)
    return WRAPPERS[name](env)


every = pytest.mark.parametrize("name", WRAPPERS)


def play(env: gymnasium.Env[Any, Any], seed: int, steps: int) -> list[Any]:
    """Plays random actions, with a new episode after each end."""
    env.action_space.seed(seed)
    results: list[Any] = [env.reset(seed=seed)]
    ended = False
    for _ in range(steps):
        results.append(env.reset() if ended else env.step(env.action_space.sample()))
        ended = len(results[-1]) == 5 and (results[-1][2] or results[-1][3])
    return results


@every
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*")
def test_checked_by_gymnasium(name: str, global_rng_untouched: None):
    check_env(make(name, bare=True), skip_render_check=True)


@every
def test_steps_are_deterministic_and_in_the_space(name: str, global_rng_untouched: None):
    env = make(name)
    one, two = play(env, 5, 60), play(make(name), 5, 60)
    assert data_equivalence(one, two, exact=True)
    assert all(result[0] in env.observation_space for result in one)


@every
def test_info_keys_and_types_are_constant_and_terms_sum_to_the_reward(name: str):
    results = play(make(name), 3, 60)
    first = results[0][-1]
    assert set(first) >= set(INFO_KEYS)
    for result in results:
        info = result[-1]
        assert {k: type(v) for k, v in info.items()} == {k: type(v) for k, v in first.items()}
        if len(result) == 5:
            assert type(result[1]) is float
            assert result[1] == pytest.approx(sum(info["reward_terms"].values()))
            assert not (result[2] and result[3])


def restorable(name: str, steps: int = 7) -> gymnasium.Env[Any, Any]:
    env = make(name)
    env.action_space.seed(1)
    env.reset(seed=8)
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    return env


@every
def test_snapshots_continue_exactly(name: str):
    env = restorable(name)
    snapshot = json.loads(json.dumps(env.get_wrapper_attr("snapshot")()))
    other = make(name)
    other.reset()
    observation, info = other.get_wrapper_attr("restore")(snapshot)
    assert observation in env.observation_space
    assert set(info) >= set(INFO_KEYS)
    for _ in range(30):
        action = env.action_space.sample()
        left, right = env.step(action), other.step(action)
        assert data_equivalence(left, right, exact=True)
        if left[2] or left[3]:
            assert data_equivalence(env.reset(), other.reset(), exact=True)


@pytest.mark.slow
def test_snapshots_continue_in_another_process():
    script = (
        "import json, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from tests.wrappers.test_every_wrapper import make\n"
        "for line in sys.stdin:\n"
        "    name, snapshot, action = json.loads(line)\n"
        "    env = make(name)\n"
        "    env.reset()\n"
        "    env.restore(snapshot)\n"
        "    print(repr(env.step(action)))\n"
    )
    lines, expected = [], []
    for name in WRAPPERS:
        env = restorable(name)
        action = env.action_space.sample()
        action = action if isinstance(action, str) else int(action)
        lines.append(json.dumps([name, env.get_wrapper_attr("snapshot")(), action]))
        expected.append(repr(env.step(action)))
    done = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parents[2])],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": "7"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "\n".join(expected).strip()


@every
def test_snapshots_of_others_are_refused(name: str):
    env = make(name)
    env.reset(seed=0)
    with pytest.raises(SnapshotError, match="Expected a snapshot of"):
        env.get_wrapper_attr("restore")({"wrapper": "Another", "env": {}, "memory": {}})
    with pytest.raises(SnapshotError):
        env.get_wrapper_attr("restore")(NumberLine().reset(seed=0)[1])


@every
def test_pickle_and_deepcopy(name: str):
    env = restorable(name)
    action = env.action_space.sample()
    twins = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    expected = env.step(action)
    assert all(data_equivalence(twin.step(action), expected, exact=True) for twin in twins)


@every
def test_the_arguments_are_recorded_so_that_the_spec_makes_it_again(name: str):
    env = make(name)
    assert env.spec is not None
    again = gymnasium.make(env.spec)
    assert data_equivalence(env.reset(seed=1), again.reset(seed=1), exact=True)


def test_wrappers_of_plain_arguments_make_a_spec_of_json():
    for name in ("admissible", "hashed", "history", "extract", "weighted", "trials", "stack"):
        spec = make(name).spec
        assert spec is not None
        assert EnvSpec.from_json(spec.to_json()) == spec


@every
def test_vector_environments(name: str):
    envs = gymnasium.vector.SyncVectorEnv([lambda: make(name)] * 2)
    observations, _ = envs.reset(seed=4)
    assert observations in envs.observation_space
    envs.action_space.seed(0)
    for _ in range(6):
        assert envs.step(envs.action_space.sample())[0] in envs.observation_space


def exported() -> dict[str, type]:
    """Returns the concrete wrappers of `agentgym.wrappers` by name."""
    found = {name: getattr(wrappers, name) for name in wrappers.__all__ if name != "TextWrapper"}
    return {name: cls for name, cls in found.items() if issubclass(cls, gymnasium.Wrapper)}


def test_all_are_exported_and_documented():
    for name, wrapper in exported().items():
        for heading in ("**actions**", "**observations**", "**rewards**", "**info**", "args:"):
            assert heading in str(wrapper.__doc__).lower(), (name, heading)
    for path in Path(wrappers.__path__[0]).glob("[!_]*.py"):
        module = importlib.import_module(f"agentgym.wrappers.{path.stem}")
        for name, cls in vars(module).items():
            if isinstance(cls, type) and issubclass(cls, gymnasium.Wrapper):
                assert name in wrappers.__all__ or name[0] == "_", f"export {name}"


def test_all_are_in_the_table_above():
    tested: set[type] = set()
    for name in WRAPPERS:
        env = make(name, bare=True)
        while isinstance(env, gymnasium.Wrapper):
            tested.add(type(env))
            env = env.env
    untested = set(exported().values()) - tested
    assert not untested, f"add a line to WRAPPERS for {untested}"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("AdmissibleAction", {"max_actions": "two"}),
        ("EncodeObservation", {"size": 2.0}),
        ("ExtractAction", {"format": 5}),
        ("HistoryObservation", {"k": 1.5}),
        ("MultiTrial", {"n": 2.5}),
        ("TokenAction", {"tokenizer": LATIN, "max_tokens": None}),
    ],
)
def test_an_argument_of_another_type_is_named(name: str, arguments: dict[str, Any]):
    with pytest.raises(ConfigError, match=rf"Argument '\w+' of {name} is (int|str)"):
        getattr(wrappers, name)(NumberLine(), **arguments)


def test_the_wrong_order_is_named():
    numbers = wrappers.EncodeObservation(NumberLine())
    for make_outer in (
        lambda: wrappers.TokenAction(numbers, LATIN),
        lambda: wrappers.HistoryObservation(numbers),
        lambda: wrappers.MultiTrial(numbers, 2),
        lambda: wrappers.EncodeObservation(numbers),
        lambda: wrappers.ExtractAction(wrappers.AdmissibleAction(NumberLine(), 2)),
    ):
        with pytest.raises(ConfigError, match=r"needs an environment whose \w+ are text,"):
            make_outer()


@pytest.mark.parametrize(
    "name", [name for name in WRAPPERS if name not in ("reflector", "thoughts", "dream")]
)
def test_the_experts_actions_pass_through(name: str):
    env = make(name)
    for seed in range(5):
        env.reset(seed=seed)
        total, ended, info = 0.0, False, {}
        while not ended:
            action = env.get_wrapper_attr("expert")()
            assert action is not None
            _, reward, terminated, truncated, info = env.step(action)
            total += float(reward)
            ended = terminated or truncated
        assert info["success"], name
        assert total == pytest.approx({"weighted": 2.0, "trials-transcripts": 2.0}.get(name, 1.0))


OWN_FORMS = (
    "+",
    "ask",
    "2: +",
    "remember[x]",
    "<action>+</action>",
    "```python\nx\n```",
    "+\n-",
    "",
)
"""Actions, some in the forms of wrappers."""


def layers(env: gymnasium.Env[Any, Any]) -> list[gymnasium.Env[Any, Any]]:
    """Returns an environment and all that it wraps."""
    return [env, *layers(env.env)] if isinstance(env, gymnasium.Wrapper) else [env]


def are_read(
    env: gymnasium.Env[Any, Any], texts: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> list[bool]:
    """Returns whether the environment inside gets each text as it is, as the first action."""
    read = list[Any]()
    inner = type(env.unwrapped)
    step = inner.step

    def recorded_step(self: gymnasium.Env[Any, Any], action: Any) -> Any:
        read.append(action)
        return step(self, action)

    monkeypatch.setattr(inner, "step", recorded_step)
    same = []
    for number, text in enumerate(texts):
        env.reset(seed=number)
        read.clear()
        try:
            env.step(text)
        except TypeError:  # actions are numbers
            assert not isinstance(env.action_space, gymnasium.spaces.Text)
        same.append(read == [text])
    return same


@every
def test_an_environment_reads_all_actions_unless_a_wrapper_has_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    env = make(name, bare=True)
    same = are_read(env, OWN_FORMS, monkeypatch)
    own = any(getattr(layer, "own_actions", False) for layer in layers(env))
    assert own or all(same)


# A world model reads the actions of a dream.
@pytest.mark.parametrize("name", sorted(WRAPPERS.keys() - {"dream"}))
def test_a_call_is_passed_on_unless_a_wrapper_reads_actions_in_its_place(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    env = make(name, bare=True)
    [same] = are_read(env, ['{"name": "move", "arguments": {"by": 1}}'], monkeypatch)
    assert same or not all(passes for _, passes in action_readers(env))
