"""Every registered id satisfies the contracts of Gymnasium and AgentGym.

`pytest -k golden --update-golden` writes the golden transcripts. Review the diff.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

import agentgym
from agentgym.core import TextEnv
from agentgym.errors import ConfigError, UnknownArgumentError
from agentgym.registration.entry import Entry
from agentgym.registration.making import author_class
from agentgym.registration.registry import find
from agentgym.time_step import INFO_KEYS
from agentgym.utils.arguments import keyword_parameters

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden"
INFO_TYPES = (str, int, bool, bool, float, tuple, str, dict)
DIGEST = re.compile("[0-9a-f]{16}")
GARBAGE = [
    *(
        "",
        " ",
        "\n",
        "x" * 10_000,
        "naïve 东西 🙂 e\u0301",
        "\0\x1b[2J\x7f\r\n\u2028",
        "\ud800\udfff",
    ),
    *("{}", "[]", "[" * 500, "click[", "search[]", "a[b][c]", "9" * 5000, "-1", "1e999", "nan"),
    *("%s%n{0}{x}", "\\", "None", "../../etc/passwd", "<script>", "İ" * 50, "２", "٣"),
]
HEADINGS = (
    *("Description", "Action Space", "Observation Space", "Rewards", "Starting State"),
    *("Episode End", "Information", "Arguments", "References", "Version History"),
)


def available(entry: Entry) -> bool:
    installed = entry.package is None or importlib.util.find_spec(entry.package) is not None
    return installed and not entry.files


def parameter(entry: Entry) -> Any:
    # One process per module: its data are read once.
    marks = [pytest.mark.xdist_group(entry.entry_point)]
    if not available(entry):
        files = " and files" * entry.files
        marks.append(pytest.mark.skip(reason=f"needs the extra {entry.extra}{files}"))
    return pytest.param(entry.id, marks=marks)


ENTRIES = list(agentgym.REGISTRY.values())
every = pytest.mark.parametrize("id", [parameter(entry) for entry in ENTRIES])
FIRST = {entry.entry_point: entry for entry in reversed(ENTRIES)}
"""The first id of each class. The others only have other arguments."""
classes = pytest.mark.parametrize("id", [parameter(entry) for entry in FIRST.values()])
single = pytest.mark.parametrize("id", [parameter(e) for e in ENTRIES if not e.multi_agent])


def make(id: str, **kwargs: Any) -> gymnasium.Env[str, str]:
    return gymnasium.make(id, **kwargs)


def bare(id: str, **kwargs: Any) -> TextEnv:
    env = make(id, **kwargs).unwrapped
    assert isinstance(env, TextEnv)
    return env


Result = tuple[Any, ...]
RESET = ""
"""Marks a reset after the end of an episode in a list of actions."""


class Player:
    """Plays expert, random admissible and nonsensical actions, with a reset after each end."""

    def __init__(self, env: gymnasium.Env[str, str], seed: int):
        self.env = env
        self.rng = np.random.default_rng(seed)
        self.results: list[Result] = [env.reset(seed=seed)]
        self.actions: list[str] = []

    def ended(self) -> bool:
        return len(self.results[-1]) == 5 and (self.results[-1][2] or self.results[-1][3])

    def choose(self) -> str:
        admissible = self.results[-1][-1]["admissible"]
        kind = self.rng.random()
        expert = self.env.unwrapped.expert() if kind < 0.5 else None  # type: ignore[attr-defined]
        if expert is not None:
            return expert
        if admissible and kind < 0.9:
            return admissible[int(self.rng.integers(len(admissible)))]
        return GARBAGE[int(self.rng.integers(len(GARBAGE)))]

    def step(self) -> None:
        if self.ended():
            self.actions.append(RESET)
            self.results.append(self.env.reset())
        else:
            self.actions.append(self.choose())
            self.results.append(self.env.step(self.actions[-1]))


@cache
def played(id: str, seed: int = 0, steps: int = 50) -> tuple[list[str], list[Result]]:
    """Actions and results of a single environment. `results[i + 1]` belongs to `actions[i]`."""
    player = Player(make(id), seed)
    for _ in range(steps):
        player.step()
    return player.actions, player.results


@every
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*")
def test_checked_by_gymnasium(id: str):
    check_env(bare(id))
    check_env(make(id), skip_render_check=True)


@every
def test_every_result_keeps_the_contract(id: str, global_rng_untouched: None):
    played.cache_clear()
    actions, results = played(id)
    env = bare(id)
    terms = (*env.reward_names, "invalid")
    before: dict[str, Any] = {}
    for i, result in enumerate(results):
        observation, info = result[0], result[-1]
        assert type(observation) is str
        assert observation in env.observation_space
        assert tuple(info)[: len(INFO_KEYS)] == INFO_KEYS
        assert tuple(info) == tuple(results[0][-1])
        own = tuple(info.items())[len(INFO_KEYS) :]
        assert all(type(value) is type(results[0][-1][key]) in (int, float) for key, value in own)
        assert tuple(type(info[key]) for key in INFO_KEYS) == INFO_TYPES
        assert DIGEST.fullmatch(info["state_key"])
        assert 0 <= info["progress"] <= 1
        assert tuple(info["reward_terms"]) == terms
        assert all(type(term) is float for term in info["reward_terms"].values())
        assert all(type(action) is str for action in info["admissible"])
        assert len(set(info["admissible"])) == len(info["admissible"])
        assert info["task"] in env.tasks.train
        if len(result) == 2:
            assert (info["turn"], info["valid"], info["success"]) == (0, True, False)
            assert not any(info["reward_terms"].values())
        else:
            _, reward, terminated, truncated, _ = result
            assert [type(x) for x in result[1:4]] == [float, bool, bool]
            assert reward == pytest.approx(sum(info["reward_terms"].values()))
            assert not (terminated and truncated)
            assert info["turn"] == before["turn"] + 1
            assert not (terminated and info["admissible"]), "after the end nothing is admissible"
            if actions[i - 1] in before["admissible"]:
                assert info["valid"], f"{actions[i - 1]!r} was admissible"
            # In a game, a fallback move may replace an invalid one.
            if not info["valid"] and "Your move is now" not in observation:
                assert not any(info["reward_terms"][name] for name in env.reward_names)
        before = info


@every
def test_arguments_of_a_wrong_type_or_name_are_refused(id: str):
    entry = find(id)
    known = keyword_parameters(author_class(entry))
    for name in known.keys() - {"render_mode", "rules"}:  # Gymnasium's; a subclass's
        with pytest.raises(ConfigError, match=f"Argument '{name}' of .*; got 1j"):
            make(id, **{name: 1j})
    first = next(iter(known))
    message = f"unexpected keyword argument '{first}s': .* Did you mean: .*{first}"
    with pytest.raises(UnknownArgumentError, match=message):
        make(id, **{first + "s": None})


@every
def test_fifty_steps_are_deterministic_whatever_runs_beside_them(id: str):
    actions, results = played(id)
    one, other = Player(make(id), 0), Player(make(id), 1)
    for _ in actions:
        one.step()
        other.step()
    assert one.actions == actions
    assert data_equivalence(one.results, results, exact=True)


def vector_results(envs: VectorEnv[Any, Any, Any], actions: list[tuple[str, ...]]) -> list[Result]:
    results: list[Result] = [envs.reset(seed=0)]
    results += [envs.step(action) for action in actions]
    envs.close()
    return results


@every
def test_vector_environments_play_the_same(id: str, global_rng_untouched: None):
    envs = gymnasium.make_vec(id, 8, vectorization_mode="sync")
    assert isinstance(envs, SyncVectorEnv)
    check_vector(id, envs, steps=10)


@classes
@pytest.mark.slow  # starts processes
def test_vector_environments_of_processes_play_the_same(id: str, global_rng_untouched: None):
    envs = gymnasium.make_vec(id, 2, vectorization_mode="async")
    assert isinstance(envs, AsyncVectorEnv)
    check_vector(id, envs, steps=25)


def check_vector(id: str, envs: VectorEnv[Any, Any, Any], steps: int) -> None:
    """Checks that a vector environment plays as single ones do."""
    alone = [played(id, seed, steps) for seed in range(envs.num_envs)]
    actions = list(zip(*(actions for actions, _ in alone), strict=True))
    results = vector_results(envs, actions)
    for i, (_, expected) in enumerate(alone):
        for result, lone in zip(results, expected, strict=True):
            assert result[0][i] == lone[0]
            reset = len(lone) == 2
            if len(result) == 5:
                plain = (0.0, False, False) if reset else lone[1:4]
                assert tuple(part[i] for part in result[1:4]) == plain
            for key in INFO_KEYS[:-1]:
                assert result[-1][key][i] == lone[-1][key]
            for name, term in lone[-1]["reward_terms"].items():
                assert result[-1]["reward_terms"][name][i] == term


@every
def test_nonsense_never_raises(id: str):
    env = make(id)
    env.reset(seed=0)
    for action in [*GARBAGE, "word " * 200_000, "[" * 1_000_000, "\n" * 1_000_000, "1" * 1_000_000]:
        result = env.step(action)
        assert result[0] in env.observation_space
        json.dumps(env.unwrapped.snapshot())  # type: ignore[attr-defined]
        if result[2] or result[3]:
            env.reset()


@every
def test_other_digits_never_raise(id: str):
    env = make(id)
    env.reset(seed=0)
    for digit in ("\u00b9", "\u0663", "\u2167", "\u00bd", "\u4e09", "\U0001d7dc", "1\u0663"):
        known = env.unwrapped.expert() or "I take 1 book, 2 hats."  # type: ignore[attr-defined]
        for action in (digit, f"{known} {digit}", f"{digit} {known}", re.sub(r"\d", digit, known)):
            if any(env.step(action)[2:4]):
                env.reset()


@every
def test_nonsense_does_not_go_on_forever(id: str):
    env = make(id)
    env.reset(seed=0)
    # By default every episode ends, for any actions.
    assert any(any(env.step("nonsense")[2:4]) for _ in range(1000))


def test_ten_million_characters_do_not_raise():
    env = make("AgentGym/NumberLine-v0")
    env.reset(seed=0)
    observation, *_ = env.step("東" * 10_000_000)
    assert len(observation) < 1000


def halfway(id: str) -> Player:
    player = Player(make(id), 3)
    for _ in range(12):
        player.step()
    while player.ended():
        player.step()
    return player


def plays_on(env: gymnasium.Env[str, str], actions: Iterable[str]) -> list[Result]:
    """Returns the results of a player's actions. The first one is not a reset."""
    results: list[Result] = []
    for action in actions:
        ended = len(results) and len(results[-1]) == 5 and (results[-1][2] or results[-1][3])
        results.append(env.reset() if ended else env.step(action))
    return results


RESTORE = """
import json, sys, traceback
sys.path.insert(0, sys.argv[1])
from tests.test_all_envs import bare, plays_on
for line in sys.stdin:
    id, snapshot, actions = json.loads(line)
    try:
        env = bare(id)  # never reset: everything that matters is in the snapshot
        found = [env.restore(snapshot), plays_on(env, actions)]
    except Exception:
        found = traceback.format_exc()
    print(json.dumps(found), flush=True)
"""


@pytest.fixture(scope="session")  # the tests of an id run between those of other modules
def elsewhere() -> Iterator[Callable[[Any], Any]]:
    """Sends an id, a snapshot and actions to another process and returns its results.

    The process keeps nothing between requests: each has an environment of its own.
    """
    command = [sys.executable, "-c", RESTORE, str(ROOT)]
    env = {**os.environ, "PYTHONHASHSEED": "11"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env) as process:
        requests, answers = process.stdin, process.stdout
        assert requests is not None and answers is not None

        def ask(request: Any) -> Any:
            print(json.dumps(request), file=requests, flush=True)
            return json.loads(answers.readline())

        yield ask


@every
def test_a_snapshot_continues_elsewhere(id: str, elsewhere: Callable[[Any], Any]):
    player = halfway(id)
    snapshot = player.env.unwrapped.snapshot()  # type: ignore[attr-defined]
    start, done = player.results[-1], len(player.actions)
    for _ in range(12):
        player.step()
    here = [[start[0], start[-1]], player.results[done + 1 :]]
    there = elsewhere([id, snapshot, player.actions[done:]])
    assert not isinstance(there, str), there
    assert json.loads(json.dumps(here)) == there


@every
def test_pickle_and_deepcopy_continue_alike(id: str):
    player = halfway(id)
    twins = [pickle.loads(pickle.dumps(player.env)), copy.deepcopy(player.env)]
    done = len(player.actions)
    for _ in range(8):
        player.step()
    for twin in twins:
        assert plays_on(twin, player.actions[done:]) == player.results[done + 1 :]


@every
def test_the_spec_goes_through_json(id: str):
    env = make(id)
    assert env.spec is not None
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec
    assert gymnasium.make(spec).reset(seed=0) == env.reset(seed=0)


@every
def test_rendering(id: str, capsys: pytest.CaptureFixture[str]):
    env = make(id, render_mode="ansi")
    env.reset(seed=0)
    assert isinstance(env.render(), str)
    assert env.render()
    assert capsys.readouterr().out == ""
    human = make(id, render_mode="human")
    human.reset(seed=0)
    assert human.render() is None
    assert capsys.readouterr().out.strip() == str(env.render()).strip()
    human.step("?")
    assert capsys.readouterr().out.strip()


@every
def test_same_task_and_seed_start_alike_however_the_task_was_chosen(id: str):
    env = bare(id)
    drawn = env.reset(seed=6)
    chosen = {"task": drawn[1]["task"]}
    used = bare(id)
    used.reset(seed=1)
    used.step("?")
    for other in (used, env):
        assert other.reset(seed=6, options=chosen) == drawn
    task = {"task": env.tasks.test[0]}
    assert env.reset(seed=1, options=task) == used.reset(seed=1, options=task)


@every
def test_train_and_test_are_disjoint_and_drawn_from(id: str):
    env = bare(id)
    train, test = env.tasks.train, env.tasks.test
    assert len(train) > 0 and len(test) > 0
    rng = np.random.default_rng(0)
    for one, other in ((train, test), (test, train)):
        picked = range(len(one)) if len(one) <= 2000 else rng.integers(len(one), size=200).tolist()
        names = [one[i] for i in picked]
        assert all(type(name) is str and name in one and name not in other for name in names)
    assert bare(id, split="test").reset(seed=0)[1]["task"] in test


SPOKEN = {"agentgym.envs.overcooked.cooks": " | "}
"""Separator of an admissible errand and an added message, by entry point."""


@every
def test_the_experts_actions_are_listed_and_valid(id: str):
    env = make(id)
    between = SPOKEN.get(agentgym.REGISTRY[id].entry_point)
    for seed in range(3):
        _, info = env.reset(seed=seed)
        ended, turns = False, 0
        while not ended and turns < 100:
            action = env.unwrapped.expert()  # type: ignore[attr-defined]
            if action is None:
                break
            listed = action.partition(between)[0] if between else action
            assert not info["admissible"] or listed in info["admissible"], action
            _, _, terminated, truncated, info = env.step(action)
            assert info["valid"], action
            ended, turns = terminated or truncated, turns + 1


@every
def test_what_is_forgiven_is_forgiven_everywhere(id: str):
    env = bare(id)
    _, info = env.reset(seed=0)
    for _ in range(5):
        if not (listed := info["admissible"]):
            break
        action = listed[len(listed) // 2]
        said = action if env.cased else action.upper()
        before = env.snapshot()
        expected = env.step(action)
        env.restore(before)
        assert env.step(f'Action: "{said}".') == expected
        info = expected[-1]


@every
@pytest.mark.parametrize("form", ["Action: {}", "```\n{}\n```", "`{}`", " {}\n"])
def test_marks_around_an_action_that_is_not_listed_are_forgiven(id: str, form: str):
    env = bare(id)
    _, info = env.reset(seed=0)
    for _ in range(3):
        action = env.expert()
        if action is None or (form == "`{}`" and "\n" in action):
            break
        if "```" not in action and not info["admissible"]:
            before = env.snapshot()
            _, *_, info = expected = env.step(action)
            env.restore(before)
            _, *_, found = said = env.step(form.format(action))
            assert said[1:4] == expected[1:4]
            assert (found["valid"], found["success"]) == (info["valid"], info["success"])
            env.restore(before)
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break


@every
def test_the_docstring_has_the_standard_headings(id: str):
    env = bare(id)
    lines = (env.__doc__ or "").splitlines()
    found = [line.strip()[3:] for line in lines if line.strip().startswith("## ")]
    wrong = f"{type(env).__name__}'s docstring needs these headings, in this order: {HEADINGS}"
    assert [heading for heading in found if heading in HEADINGS] == list(HEADINGS), wrong
    assert lines and lines[0].strip(), "the docstring's first line says what it is"
    bodies = [i for i, line in enumerate(lines) if line.strip().startswith("## ")] + [len(lines)]
    for start, end in pairwise(bodies):
        assert any(line.strip() for line in lines[start + 1 : end]), f"{lines[start]} is empty"
    assert env.instructions.strip()


def transcript(id: str, turns: int = 8) -> str:
    """Returns an episode of the expert, or else of random admissible actions, as text."""
    env = bare(id)
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=0)
    lines = [f"{id}, seed 0, task {info['task']}", env.instructions, "", observation]
    for turn in range(turns):
        action = env.expert()
        if turn == 0:
            action = "nonsense"
        elif action is None:
            admissible = info["admissible"] or ("hello",)
            action = admissible[int(rng.integers(len(admissible)))]
        observation, reward, terminated, truncated, info = env.step(action)
        shown = {key: info[key] for key in ("turn", "valid", "success")}
        shown["progress"] = round(info["progress"], 9)
        terms = {name: round(term, 9) for name, term in info["reward_terms"].items()}
        lines += [f"> {action}", "", observation]
        lines.append(f"--- {reward:+.9g} {json.dumps(shown)} {json.dumps(terms)}")
        if terminated or truncated:
            lines.append("terminated" if terminated else "truncated")
            break
    return "\n".join(lines) + "\n"


def golden_file(id: str) -> Path:
    return GOLDEN / f"{id.partition('/')[2]}.txt"


@single
def test_the_transcript_is_the_golden_one(id: str, golden):
    golden(golden_file(id), transcript(id))


def test_no_golden_transcript_is_left_over():
    names = {golden_file(entry.id).name for entry in ENTRIES if not entry.multi_agent}
    found = {path.name for path in GOLDEN.glob("*.txt") if path.suffixes[-2:] != [".aec", ".txt"]}
    assert found <= names
