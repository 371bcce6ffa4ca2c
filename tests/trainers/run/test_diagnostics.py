"""Warnings about runs that learn nothing: each cause once, and none without a cause."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.registration.making import make_env
from agentgym.registration.mixture import Mixture
from agentgym.trainers import train
from agentgym.trainers.data.run_state import RunState
from agentgym.trainers.run.diagnostics import (
    CRITIC_PATIENCE,
    LARGEST_GAP,
    LARGEST_KL,
    PATIENCE,
    Watch,
    poor_clone,
)
from agentgym.trainers.run.environment import has_expert
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.learning import CloningConfig

from ...helpers.echo import Echo

line = partial(make_env, "NumberLine-v0")
FINE = {"rollout/return": 0.5, "rollout/success": 0.5, "rollout/valid": 1.0}


def watched(rows: list[dict[str, float]]) -> list[list[str]]:
    """Returns the warnings after each row."""
    watch = Watch()
    return [watch.warnings(row) for row in rows]


def test_a_run_that_learns_gives_no_warning():
    rows = [
        {"rollout/return": i / 30, "rollout/success": 0.0, "losses/explained_variance": 0.3}
        for i in range(3 * PATIENCE)
    ]
    assert watched(rows) == [[]] * len(rows)


def test_replies_without_an_action_have_a_remedy_of_their_own():
    failing = {"rollout/return": 0.0, "rollout/success": 0.0, "rollout/valid": 0.1}
    watch = Watch(replies=True)
    [*_, [warning]] = [watch.warnings(failing) for _ in range(PATIENCE)]
    assert "10% of the replies" in warning and "format_reward" in warning
    assert "--constrain" not in warning  # refused with ExtractAction


def test_iterations_whose_advantages_are_all_zero_are_reported_once():
    fine, equal = (FINE | {"credit/advantage_std": std} for std in (0.3, 0.0))
    found = watched([fine] * PATIENCE + [fine, equal] * (2 * PATIENCE))
    assert [i for i, warnings in enumerate(found) if warnings] == [2 * PATIENCE - 1]
    [warning] = found[2 * PATIENCE - 1]
    assert f"In {PATIENCE // 2} of {PATIENCE} iterations" in warning
    assert "--entropy-coef" in warning


@pytest.mark.parametrize("success", [0.0, 1.0])
def test_equal_outcomes_are_no_fault_where_all_succeed_or_the_return_is_constant(success: float):
    rows = [FINE | {"credit/advantage_std": 0.0, "rollout/success": success}] * 2
    assert all("compared" not in text for found in watched(rows * PATIENCE) for text in found)


@pytest.mark.parametrize("name", ["rollout/context_overflows", "rollout/observations_cut"])
def test_a_context_that_overflows_is_reported_once(name: str):
    found = watched([FINE, FINE | {name: 3.0}, FINE | {name: 5.0}, FINE])
    assert [len(warnings) for warnings in found] == [0, 1, 0, 0]
    assert "3 " in found[1][0]
    assert "--context" in found[1][0]


def test_a_constant_return_is_reported_once_after_some_iterations():
    failing = {"rollout/return": 0.0, "rollout/success": 0.0, "rollout/valid": 1.0}
    found = watched([failing] * (3 * PATIENCE))
    assert [i for i, warnings in enumerate(found) if warnings] == [PATIENCE - 1]
    [warning] = found[PATIENCE - 1]
    assert f"{PATIENCE} iterations" in warning
    assert "--bc-demonstrations" in warning


def test_the_expert_is_named_only_where_there_is_one():
    failing = {"rollout/return": 0.0, "rollout/success": 0.0, "rollout/valid": 1.0}
    for expert in (True, False):
        for rows in (failing, failing | {"rollout/valid": 0.1}):
            for replies in (True, False):
                watch = Watch(replies=replies, expert=lambda expert=expert: expert)
                [*_, [warning]] = [watch.warnings(rows) for _ in range(PATIENCE)]
                assert ("--bc-demonstrations" in warning) == expert
                assert ("--data" in warning) == (not expert)


def test_an_expert_is_asked_in_each_environment_of_a_run():
    assert has_expert(line) and has_expert(partial(make_env, "TicTacToe-v0"))
    assert not has_expert(Echo)
    assert has_expert(lambda: Mixture({"A": line(), "B": line()}))
    assert not has_expert(lambda: Mixture({"A": line(), "B": Echo()}))
    assert not has_expert(partial(make_env, "NumberLine-v0", wrap=("NoSuchWrapper",)))


@pytest.mark.parametrize("slow", [1, 3])
def test_an_environment_that_does_not_begin_in_time_does_not_stop_the_question(slow: int):
    begun: list[int] = []

    class Waits(NumberLine):
        def reset(self, **kwargs: Any) -> Any:
            begun.append(1)
            if len(begun) <= slow:
                threading.Event().wait()
            return super().reset(**kwargs)

    assert has_expert(Waits, 0.2) == (slow == 1)


def test_the_remedy_depends_on_the_share_of_valid_actions():
    failing = {"rollout/return": -0.1, "rollout/success": 0.0}
    rows = {share: [failing | {"rollout/valid": share}] * PATIENCE for share in (0.2, 0.9)}
    [few], [many] = (watched(found)[-1] for found in rows.values())
    assert "20% of the actions are valid" in few
    assert "--constrain" in few
    assert "--constrain" not in many
    assert "--curriculum" in many


@pytest.mark.parametrize(
    "change",
    [{"rollout/success": 0.1}, {"rollout/return": 0.01}],
    ids=["an episode succeeds", "the return changes"],
)
def test_a_sign_of_learning_puts_the_warning_off(change: dict[str, float]):
    failing = {"rollout/return": 0.0, "rollout/success": 0.0}
    rows = [failing] * (PATIENCE - 1) + [failing | change]
    assert watched(rows) == [[]] * PATIENCE


def test_a_return_that_stays_constant_with_success_is_no_cause():
    assert watched([FINE] * (2 * PATIENCE)) == [[]] * (2 * PATIENCE)


def test_a_critic_that_explains_nothing_is_reported_once():
    rows = [FINE | {"losses/explained_variance": x} for x in (0.1, *[-0.2] * 12)]
    found = watched(rows)
    assert [i for i, warnings in enumerate(found) if warnings] == [CRITIC_PATIENCE]
    assert "explained variance" in found[CRITIC_PATIENCE][0]


def test_one_good_iteration_of_the_critic_puts_the_warning_off():
    values = [-0.2] * (CRITIC_PATIENCE - 1) + [0.1] + [-0.2] * (CRITIC_PATIENCE - 1)
    found = watched([FINE | {"losses/explained_variance": x} for x in values])
    assert found == [[]] * len(values)


def test_an_iteration_without_the_metric_neither_counts_nor_resets():
    rows = [FINE | {"losses/explained_variance": -0.2}, FINE] * CRITIC_PATIENCE
    found = watched(rows)
    assert [i for i, warnings in enumerate(found) if warnings] == [2 * CRITIC_PATIENCE - 2]
    good = [FINE | {"losses/explained_variance": x} for x in (-0.2, -0.2, -0.2, 0.1)]
    assert watched([*good, FINE, *good[:3]]) == [[]] * 8


def test_causes_are_independent():
    row = {
        "rollout/return": 0.0,
        "rollout/success": 0.0,
        "rollout/context_overflows": 1.0,
        "losses/explained_variance": 0.0,
    }
    found = watched([row] * PATIENCE)
    assert [len(warnings) for warnings in found] == [1, 0, 0, 0, 1, 0, 0, 0, 0, 1]


def test_evaluations_do_not_count():
    failing = {"rollout/return": 0.0, "rollout/success": 0.0}
    evaluation = {"eval/reward": 0.0, "eval/success": 0.0}
    rows = [row for _ in range(PATIENCE) for row in (failing, evaluation)]
    found = watched(rows)
    assert [i for i, warnings in enumerate(found) if warnings] == [2 * PATIENCE - 2]


def test_a_run_prints_the_warning_once(tmp_path, capsys):
    settings: dict[str, Any] = {
        "env_id": "NumberLine-v0", "env_kwargs": {"size": 60, "max_turns": 1}, "model": "nano",
        "context": "current", "constrain": True, "iterations": PATIENCE + 2,
        "episodes_per_iteration": 2, "num_envs": 2, "group_size": 2, "epochs": 1,
        "minibatches": 1, "eval_episodes": 0, "device": "cpu", "threads": 1, "log_with": (),
        "save_every": 100, "run_dir": str(tmp_path), "train_tasks": 1,
    }  # fmt: skip
    train("rloo", **settings)
    shown = capsys.readouterr().out
    assert shown.count("warning: The return has not changed") == 1


def test_an_update_that_moves_the_policy_far_is_reported_once():
    near, far = (FINE | {"losses/kl": kl} for kl in (0.5 * LARGEST_KL, 3.4 * LARGEST_KL))
    found = watched([near, far, near, far])
    assert [len(warnings) for warnings in found] == [0, 1, 0, 0]
    assert "0.34 nats" in found[1][0] and "--lr" in found[1][0]


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize(("held_out", "played"), [(1.0, 0.5), (0.46, 1.0), (0.6, 0.5)])
def test_greedy_play_that_is_far_from_sampled_play_is_reported(greedy, held_out, played):
    watch, held = Watch(greedy=greedy), {"eval/success": held_out, "eval/reward": 0.0}
    assert watch.warnings(held) == []  # nothing was sampled yet
    watch.warnings(FINE | {"rollout/success": played})
    found = watch.warnings(held)
    assert len(found) == (greedy and abs(held_out - played) > LARGEST_GAP)
    assert all(f"{held_out:.0%}" in text and f"{played:.0%}" in text for text in found)
    assert watch.warnings(held) == []


@pytest.mark.parametrize("cloned", [False, True])
def test_a_policy_that_falls_behind_its_clone_is_reported_once(cloned: bool):
    watch = Watch(cloned=cloned)
    found = [watch.warnings({"eval/success": x}) for x in (0.94, 0.9, 0.51, 0.4)]
    assert [len(warnings) for warnings in found] == [0, 0, int(cloned), 0]
    if cloned:
        assert "51%" in found[2][0] and "94%" in found[2][0] and "--lr" in found[2][0]


@pytest.mark.parametrize("cloned", [False, True])
def test_the_remedy_knows_whether_the_expert_was_cloned(cloned: bool):
    failing = {"rollout/return": 0.0, "rollout/success": 0.0, "rollout/valid": 0.1}
    watch = Watch(cloned=cloned)
    [*_, [warning]] = [watch.warnings(failing) for _ in range(PATIENCE)]
    assert ("clone better" in warning) == cloned
    assert ("clone the expert first" in warning) == (not cloned)
    assert "--constrain" in warning


class Stopping(Echo):
    """Its expert stops at once."""

    def expert(self) -> str:
        return "stop"


def test_a_clone_is_compared_with_its_demonstrations_and_a_random_agent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    few: dict[str, Any] = {
        "model": "nano", "threads": 1, "iterations": 0, "eval_episodes": 10, "log_with": (),
        "device": "cpu", "bc_demonstrations": 10,
    }  # fmt: skip
    for lr, poor in ((1e-3, False), (0.0, True)):
        env = Stopping(max_turns=2)
        train("poad", env=env, **few, bc_lr=lr, run_dir=str(tmp_path / str(lr)))
        shown = " ".join(capsys.readouterr().out.split())
        clone = f"The clone succeeds in {0 if poor else 100}% of held-out tasks"
        assert f"{clone} (its demonstrations: 100%, a random agent: 0%)." in shown
        assert ("More of them help most (--bc-demonstrations 40)" in shown) == poor


def test_a_resumed_run_knows_its_clone():
    config = TrainConfig.of(bc_demonstrations=8)
    watch = Watch.of(config, RunState(cloned=0.9), line)
    [warning] = watch.warnings({"eval/success": 0.3})
    assert "30%" in warning and "its clone did in 90%" in warning


@pytest.mark.parametrize(
    ("low", "high", "lost"),
    [(0.87, 0.97, True), (0.9, 1.0, False), (0.92, 0.92, False)],
)
def test_a_small_loss_is_reported_where_the_intervals_are_apart(
    low: float, high: float, lost: bool
):
    watch = Watch(cloned=True)
    start = {"eval/success": 1.0, "eval/reward_low": 0.99, "eval/reward_high": 1.0}
    later = {"eval/success": 0.92, "eval/reward_low": low, "eval/reward_high": high}
    assert watch.warnings(start) == []
    assert bool(watch.warnings(later)) == lost


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"bc_demonstrations": 300}, "--bc-demonstrations 1200"),
        ({"data": ("a.jsonl",)}, "--data"),
        ({"bc_share": 0.1}, "--bc-share"),
    ],
)
def test_a_poor_clone_needs_more_of_its_demonstrations(settings: dict[str, Any], remedy: str):
    assert f"({remedy})" in poor_clone(CloningConfig(**settings))


@pytest.mark.parametrize(
    ("settings", "compared"),
    [({}, True), ({"opponents": "mirror"}, False), ({"curriculum": "window"}, False)],
)
def test_only_equal_tasks_are_compared(settings: dict[str, Any], compared: bool):
    watch = Watch.of(TrainConfig.of(**settings), RunState(), line)
    watch.warnings(FINE)
    assert bool(watch.warnings({"eval/success": 1.0})) == compared


def test_few_turns_with_a_peer_are_reported_once():
    found = watched([FINE | {"credit/anchor/alone": x} for x in (0.7, 0.72, 0.9, 0.9)])
    assert [len(warnings) for warnings in found] == [0, 1, 0, 0]
    assert "In 28% of the turns" in found[1][0] and "--group-size" in found[1][0]


def test_repeated_actions_with_several_outcomes_are_reported_once():
    found = watched([FINE | {"credit/graph/forked": x} for x in (0.0, 0.3, 0.5)])
    assert [len(warnings) for warnings in found] == [0, 1, 0]
    assert "30% of the actions" in found[1][0] and "gagpo" in found[1][0]
