from __future__ import annotations

import copy
import inspect
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import agentgym
from agentgym import Tasks, TextEnv, TimeStep
from agentgym.core import UnreadableAction
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, SnapshotError, UnknownTaskError
from agentgym.time_step import INFO_KEYS, state_digest, step_info
from agentgym.wrappers.base import TextWrapper

from .helpers.echo import Echo, State
from .helpers.named import Named


def test_names_that_are_imported_on_first_access_are_listed():
    assert {"Team", "TextEnv", "evaluate", "make_env", "wrappers"} <= set(dir(agentgym))


def test_reset_and_step_report_the_same_keys_and_types():
    env = Echo(invalid_penalty=0.5)
    _, start = env.reset(seed=0)
    _, _, _, _, later = env.step("nonsense")
    assert tuple(start) == tuple(later) == INFO_KEYS
    assert [type(x) for x in start.values()] == [type(x) for x in later.values()]


def test_an_invalid_action_costs_its_penalty_and_keeps_the_state():
    env = Echo(invalid_penalty=0.5)
    env.reset(seed=0)
    observation, _, _, _, before = env.step("hello")
    feedback, reward, terminated, truncated, info = env.step("nonsense")
    assert feedback == f"That was nonsense.\n\n{observation}"
    assert (reward, terminated, truncated) == (-0.5, False, False)
    assert info["reward_terms"] == {"task": 0.0, "invalid": -0.5}
    assert not info["valid"]
    assert info["state_key"] == before["state_key"]
    assert info["turn"] == before["turn"] + 1


def test_the_state_key_of_an_info_is_a_digest_that_every_process_computes_alike():
    assert state_digest("bread 1:countertop 1") == "197dc83277b7d7ac"
    step = TimeStep("You see nothing.", state_key="bread 1:countertop 1")
    assert step_info(step, "train/0", 0, (), 0.0)["state_key"] == state_digest(step.state_key)
    hidden = step_info(TimeStep("You see nothing."), "train/0", 0, (), 0.0)["state_key"]
    assert hidden == state_digest("You see nothing.") != state_digest("You see bread.")
    assert len(state_digest("lone surrogate \ud800")) == 16


def test_no_penalty_is_zero_and_not_minus_zero():
    env = Echo()
    env.reset(seed=0)
    assert str(env.step("nonsense")[1]) == "0.0"


def test_an_unreadable_action_is_invalid_even_where_all_actions_are_allowed():
    env = Echo()
    env.reset(seed=0)
    action = pickle.loads(pickle.dumps(UnreadableAction("blah", "Write <action>.")))
    assert (action, action.feedback) == ("blah", "Write <action>.")
    observation, _, _, _, info = env.step(action)
    assert observation.startswith("Write <action>.\n\n")
    assert not info["valid"]
    assert env.state.said == []


def test_the_limit_of_turns_truncates_and_an_end_of_the_game_terminates():
    env = Echo(max_turns=2)
    env.reset(seed=0)
    assert env.step("a")[2:4] == (False, False)
    assert env.step("b")[2:4] == (False, True)
    env.reset(seed=0)
    env.step("a")
    assert env.step("stop")[2:4] == (True, False)


def test_before_the_start_and_after_the_end_a_reset_is_asked_for():
    env = Echo(max_turns=1)
    for call in (lambda: env.step("a"), env.render, env.snapshot):
        with pytest.raises(ResetNeeded):
            call()
    env.reset(seed=0)
    env.step("a")
    with pytest.raises(ResetNeeded):
        env.step("b")


def test_a_state_is_there_after_the_first_reset():
    env = NumberLine()
    with pytest.raises(AttributeError, match="NumberLine has no state yet: call reset"):
        env.expert()
    with pytest.raises(AttributeError, match="'NumberLine' object has no attribute 'stat'"):
        _ = env.stat  # type: ignore[attr-defined]
    env.reset(seed=0)
    assert env.expert() in ("+", "-")


def test_an_action_that_is_no_text_is_the_callers_error():
    env = Echo()
    env.reset(seed=0)
    with pytest.raises(TypeError, match="An action must be a str, got int: 3"):
        env.step(3)  # type: ignore[arg-type]
    env.step(np.str_("a numpy text"))
    assert type(env.state.said[0]) is str


def test_same_task_and_seed_same_start_however_the_task_was_chosen():
    drawn, info = Echo().reset(seed=11)
    given, again = Echo().reset(seed=11, options={"task": info["task"]})
    assert (drawn, info) == (given, again)


def test_seedless_resets_continue_the_stream():
    one, two = Echo(), Echo()
    starts = [env.reset(seed=1 if i == 0 else None) for i in range(5) for env in (one, two)]
    assert starts[::2] == starts[1::2]
    assert len({info["task"] for _, info in starts}) == 5


def test_the_split_decides_which_tasks_are_drawn():
    for split in ("train", "test"):
        assert Echo(split=split).reset(seed=0)[1]["task"].startswith(split)
    assert Echo(split="train").reset(options={"task": "test/3"})[1]["task"] == "test/3"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"max_turns": 0}, "max_turns must be None or at least 1, got 0"),
        ({"split": "valid"}, "split must be 'train' or 'test', got 'valid'"),
        ({"render_mode": "rgb_array"}, "render_mode must be None or one of"),
    ],
)
def test_wrong_arguments_are_refused(kwargs: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Echo(**kwargs)


def test_wrong_reset_options_are_refused_with_a_suggestion():
    with pytest.raises(UnknownTaskError, match="Unknown task 'train/100'"):
        Echo().reset(options={"task": "train/100"})
    with pytest.raises(ValueError, match=r"'task', 'max_turns'\)\. Did you mean: task"):
        Echo().reset(options={"tasks": "train/0"})
    with pytest.raises(TypeError, match=r"such as {\"task\": \"train/0\"}, got 'train/0'"):
        Echo().reset(options="train/0")  # type: ignore[arg-type]
    for options in ([], "", False, 0):
        with pytest.raises(TypeError, match="options must be a mapping"):
            Echo().reset(options=options)  # type: ignore[arg-type]
    for limit in (0, -1, 2.5, "3", True):
        with pytest.raises(ValueError, match="max_turns must be None or at least 1"):
            Echo().reset(options={"max_turns": limit})


@pytest.mark.parametrize(
    "arguments", [{"task": "train/100"}, {"max_turns": 0}, {"tasks": "train/0"}, {"task": ["x"]}]
)
def test_a_refused_reset_changes_nothing(arguments: dict[str, Any]):
    env = Echo()
    env.reset(seed=0)
    env.step("hello")
    before = env.snapshot()
    for seed in (None, 3):
        with pytest.raises(ValueError):
            env.reset(seed=seed, options=arguments)
        assert env.snapshot() == before
    with pytest.raises(gymnasium.error.Error):
        env.reset(seed=-1)
    assert env.snapshot() == before


@pytest.mark.parametrize("kind", [Named, np.str_])
def test_strings_of_any_class_are_read_by_their_letters(kind: Callable[[str], str]):
    env, other = Echo(), Echo()
    for word in ("hello", "nonsense"):
        start = env.reset(seed=0, options={"task": "train/0"})
        found = other.reset(seed=0, options={"task": kind("train/0")})
        assert found == start and type(found[1]["task"]) is str
        assert env.step(word) == other.step(kind(word))
        assert repr(env.snapshot()) == repr(other.snapshot())
        assert str(UnreadableAction(kind(word))) == word


def test_the_turn_limit_of_an_episode_is_an_option_of_reset():
    def length(env: Echo) -> int:
        turns = 1
        while not env.step("x")[3]:
            turns += 1
        return turns

    env = Echo(max_turns=5)
    env.reset(seed=0, options={"max_turns": 2})
    snapshot = env.snapshot()
    assert length(env) == 2
    env.reset(seed=0)
    assert length(env) == 5
    twin = Echo(max_turns=5)
    twin.restore(snapshot)
    assert length(twin) == 2


def test_human_prints_and_ansi_returns(capsys: pytest.CaptureFixture[str]):
    env = Echo(render_mode="human")
    env.reset(seed=0)
    env.step("seen")
    assert env.render() is None
    assert capsys.readouterr().out.splitlines()[-1] == "seen"
    ansi = Echo(render_mode="ansi")
    ansi.reset(seed=0)
    ansi.step("seen")
    assert ansi.render() == "seen"
    assert capsys.readouterr().out == ""


def test_restore_continues_bit_exactly():
    env = Echo()
    env.reset(seed=2)
    env.step("东西")
    env.np_random.integers(10, dtype=np.uint32)  # leaves half a word buffered in the generator
    snapshot = json.loads(json.dumps(env.snapshot()))
    other = Echo()
    observation, info = other.restore(snapshot)
    assert (observation, info) == ("东西", env._info(env._last))  # type: ignore[arg-type]
    assert other.step("nonsense") == env.step("nonsense")
    assert other.reset() == env.reset()
    assert other.np_random_seed == env.np_random_seed == 2


def test_restore_continues_in_another_process_whatever_its_hash_seed():
    env = Echo()
    env.reset(seed=2)
    env.step("\ud800 东西")
    script = (
        "import json, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from tests.helpers.echo import Echo\n"
        "env = Echo()\n"
        "print(json.dumps([env.restore(json.load(sys.stdin)), env.step('x'), env.reset()]))\n"
    )
    root = str(__import__("pathlib").Path(__file__).parents[1])
    for hash_seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", script, root],
            input=json.dumps(env.snapshot()),
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": hash_seed},
            check=True,
        )
        twin = copy.deepcopy(env)
        expected = [twin.restore(env.snapshot()), twin.step("x"), twin.reset()]
        assert json.loads(done.stdout) == json.loads(json.dumps(expected))


def test_a_snapshot_shares_nothing_with_the_environment():
    env = Echo()
    env.reset(seed=0)
    snapshot = env.snapshot()
    before = json.dumps(snapshot)
    env.step("more")
    assert json.dumps(snapshot) == before
    env.restore(snapshot)
    env.step("more")
    assert json.dumps(snapshot) == before


def test_snapshots_that_do_not_fit_are_refused_and_change_nothing():
    env = Echo()
    env.reset(seed=0)
    env.step("here")
    good = env.snapshot()
    damages: list[tuple[dict[str, Any], str]] = [
        ({"env": "Chess"}, "Expected a snapshot of Echo, got one of 'Chess'"),
        ({"state": {"said": 3}}, "damaged"),
        ({"rng": {"bit_generator": "MT19937"}}, "damaged"),
        ({"last": {}}, "damaged"),
        ({"task": "level/1"}, "other arguments"),
    ]
    for damage, message in damages:
        with pytest.raises(SnapshotError, match=message):
            env.restore({**good, **damage})
    with pytest.raises(SnapshotError, match="damaged"):
        env.restore({"env": "Echo"})
    wrong: Any
    for wrong in ({"a": 1}, "x", None):
        for each in (env, TextWrapper(env)):
            with pytest.raises(SnapshotError, match=rf", got {re.escape(repr(wrong))}\."):
                each.restore(wrong)
    assert env.snapshot() == good


def test_pickle_and_deepcopy_continue_alike():
    env = Echo(max_turns=9)
    env.reset(seed=4)
    env.step("a")
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert twin.snapshot() == env.snapshot()
        assert twin.step("b") == copy.deepcopy(env).step("b")


def test_checked_and_global_generators_untouched(global_rng_untouched: None):
    env = Echo(max_turns=5, render_mode="ansi")
    check_env(env, skip_render_check=True)


class Broken(Echo):
    """An environment whose rules return a value set by the test."""

    returned: Any = None

    def _advance(self, action: str) -> TimeStep:
        return self.returned


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (("text", 1.0), "Broken._advance must return a TimeStep, got tuple"),
        (None, "Broken._advance must return a TimeStep, got NoneType"),
        (TimeStep(b"x"), "whose text is a str, got bytes"),  # type: ignore[arg-type]
        (TimeStep("x", terminated=np.True_), "is a bool, got numpy.bool"),  # type: ignore[arg-type]
        (TimeStep("x", admissible=["a"]), "whose admissible is a tuple, got list"),  # type: ignore[arg-type]
        (TimeStep("x", admissible=(1, 2)), r"admissible actions are str, got int: 1"),  # type: ignore[arg-type]
        (TimeStep("x", rewards=1.0), "whose rewards is a Mapping, got float"),  # type: ignore[arg-type]
        (TimeStep("x", progress=1.5), r"progress must lie in \[0, 1\], got 1.5"),
        (TimeStep("x", progress=float("nan")), r"progress must lie in \[0, 1\], got nan"),
        *(
            (
                TimeStep("x", rewards={"task": x}),  # type: ignore[arg-type]
                r"Broken\._advance returned .* term 'task'\. .*finite",
            )
            for x in (float("nan"), float("inf"), -1e101, np.float32("nan"), 10**400, "1", None)
        ),
        (TimeStep("x", rewards={"taks": 1.0}), r"'taks', which .* Did you mean: task\?"),
    ],
)
def test_an_authors_mistake_is_named(returned: Any, message: str):
    env = Broken()
    env.reset(seed=0)
    env.returned = returned
    with pytest.raises((TypeError, ValueError), match=message):
        env.step("a")


@pytest.mark.parametrize("penalty", [float("nan"), float("inf"), -float("inf"), np.float64("nan")])
def test_a_penalty_is_finite(penalty: float):
    with pytest.raises(ConfigError, match="'invalid_penalty' of Echo must be finite"):
        Echo(invalid_penalty=penalty)


def test_a_penalty_is_at_most_a_reward():
    with pytest.raises(ConfigError, match=r"must be at most 1e\+100, got -1e\+300"):
        Echo(invalid_penalty=-1e300)
    with pytest.raises(ConfigError, match=r"must be at most 1e\+100, got 10000.*0000\."):
        Echo(invalid_penalty=10**400)
    for penalty in (1e100, np.float32(0.5)):
        env = Echo(invalid_penalty=penalty)
        env.reset(seed=0)
        env.step("")


@pytest.mark.parametrize(
    "reward", [0, 1e100, -1e100, np.float64(2.5), np.int64(3), np.float32(0.5)]
)
def test_rewards_of_all_numeric_types_count(reward: Any):
    env = Broken()
    env.reset(seed=0)
    env.returned = TimeStep("x", rewards={"task": reward})
    assert env.step("a")[1] == reward
    assert json.loads(json.dumps(env.snapshot()))["last"]["rewards"] == {"task": reward}
    other = Broken()
    assert other.restore(env.snapshot())[1] == env.restore(env.snapshot())[1]


def test_what_an_author_must_set_is_named():
    class Bare(TextEnv):
        """Sets nothing."""

    with pytest.raises(TypeError, match="Bare must set `instructions`"):
        Bare().reset()

    class Listed(TextEnv):
        """Lists the tasks without their splits."""

        instructions = "none"
        State = State
        tasks = ["one"]  # type: ignore[assignment]  # noqa: RUF012

    with pytest.raises(TypeError, match=r"Listed\.tasks must be an agentgym\.Tasks, got list"):
        Listed().reset()

    class NoState(TextEnv):
        """Forgets the state."""

        instructions = "none"
        State = State
        tasks = Tasks.generated(1)

        def _start(self, task: str) -> TimeStep:
            return TimeStep("start")

    with pytest.raises(TypeError, match=r"NoState._start must leave a State in self\.state"):
        NoState().reset()

    class Reserved(Echo):
        """Lists a term that is always added."""

        reward_names = ("task", "invalid")

    with pytest.raises(TypeError, match="must not list 'invalid'"):
        Reserved().reset()

    class OneName(Echo):
        """Forgets the comma of a tuple of one name."""

        reward_names = "task"  # type: ignore[assignment]

    with pytest.raises(TypeError, match=r"OneName\.reward_names must be a tuple of names, got str"):
        OneName().reset()

    class Numbered(Echo):
        """Has instructions that are no text."""

        instructions = 3  # type: ignore[assignment]

    with pytest.raises(TypeError, match=r"Numbered\.instructions must be a str, got int"):
        Numbered().reset()


def test_a_state_that_json_cannot_hold_is_named():
    @dataclass
    class Arrays:
        """A state with an array."""

        board: Any

    class WithArray(Echo):
        """Keeps an array."""

        State = Arrays

        def _start(self, task: str) -> TimeStep:
            self.state = Arrays(np.zeros(2))
            return TimeStep("start")

    env = WithArray()
    env.reset(seed=0)
    with pytest.raises(TypeError, match="got ndarray"):
        env.snapshot()


@pytest.mark.parametrize("key", [5, None, (1, 2), "tsk"])
def test_unknown_reset_options_of_any_type_are_named(key: Any):
    with pytest.raises(ValueError, match="Unknown reset option"):
        Echo().reset(options={key: 1})


def test_a_class_shows_the_arguments_of_its_bases():
    class Shop(TextEnv):
        def __init__(self, *, products: int = 3, **options: Any):
            super().__init__(**options)

    shown = inspect.signature(Shop).parameters
    assert [*shown] == ["products", *inspect.signature(TextEnv).parameters]
    assert shown["products"].default == 3 and "render_mode" in shown and "options" not in shown
    game = inspect.signature(agentgym.TextGame).parameters
    assert {"num_players", "max_invalid"} < {*game}
