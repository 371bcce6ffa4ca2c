from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.recipes import vine
from agentgym.trainers.recipes.vine import Continuations
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.trainer import Trainer

from ...helpers.worlds import trajectory

SIZE, TURNS = 4, 5


@cache
def random_walk(position: int, target: int, left: int) -> float:
    """The probability that a random walk reaches the target in the turns that are left."""
    if position == target:
        return 1.0
    if not left:
        return 0.0
    ends = [min(max(position + step, 0), SIZE - 1) for step in (-1, 1)]
    return sum(random_walk(end, target, left - 1) for end in ends) / 2


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    config = vine.Config.of(
        env_kwargs={"size": SIZE, "max_turns": TURNS}, model="nano", context="current",
        temperature=1e4, continuations=100, constrain=True, iterations=0, eval_episodes=0,
        device="cpu", quiet=True, run_dir=str(tmp_path_factory.mktemp("run")),
    )  # fmt: skip
    trainer = Trainer("vine", config, vine.build(config))
    trainer.run()  # makes the hooks
    return trainer


@pytest.mark.slow
def test_values_are_the_mean_returns_of_the_policy_from_each_state(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
):
    hooks = trainer.hooks
    assert isinstance(hooks, Continuations)
    episodes = [EpisodeSpec(f"train/{i // 2}", i // 2, (0, i)) for i in range(6)]
    values: list[list[float]] = []
    advantages = hooks._advantages
    monkeypatch.setattr(
        hooks, "_advantages", lambda fresh, found: values.extend(found) or advantages(fresh, found)
    )
    fresh = hooks.on_rollout_end(trainer.play(episodes), 0, np.random.default_rng(0)).trajectories
    errors, states = [], set()
    for played, found in zip(fresh, values, strict=True):
        assert len(found) == len(played.turns)
        for number, turn in enumerate(played.turns):
            position, target = (
                int(w.strip(".")) for w in np.take(turn.observation.split(), [3, 6])
            )
            exact = random_walk(position, target, TURNS - number)
            errors.append(found[number] - exact)
            states.add((played.seed, *(t.action for t in played.turns[:number])))
    assert np.abs(errors).max() < 4 * 0.5 / 100**0.5
    assert hooks.metrics["continuations"] == 100 * len(states)
    for a, b in zip(values[::2], values[1::2], strict=True):  # a group shares its first state
        assert a[0] == b[0]


@pytest.mark.parametrize("lambda_turn", [0.0, 0.8])
def test_an_advantage_is_that_of_a_critic_with_these_values(trainer: Trainer, lambda_turn: float):
    hooks = Continuations(trainer, count=1, gamma=0.9, lambda_turn=lambda_turn)
    played = [trajectory([2, 1, 3], [0.0, 0.5, 1.0]), trajectory([1], [0.0], terminated=False)]
    advantages = hooks._advantages(played, [[0.9, 1.2, 0.7], [0.25]])
    last, middle = 1.0 - 0.7, 0.5 + 0.9 * 0.7 - 1.2
    middle += 0.9 * lambda_turn * last
    first = 0.9 * 1.2 - 0.9 + 0.9 * lambda_turn * middle
    expected = np.repeat([first, middle, last, -0.25], [2, 1, 3, 1])
    assert advantages == pytest.approx(expected, abs=1e-6)


def test_continuations_are_part_of_the_cost(trainer: Trainer, monkeypatch: pytest.MonkeyPatch):
    sampled: list[Sample] = []
    act = trainer.policy.act

    def watched(*args: Any, **options: Any) -> list[Sample]:
        sampled.extend(found := act(*args, **options))
        return found

    monkeypatch.setattr(trainer.policy, "act", watched)
    hooks = trainer.hooks
    trainer.rollouts.spent()
    own = trainer.play([EpisodeSpec("train/0", 0, (1,))])
    hooks.on_rollout_end(own, 1, np.random.default_rng(0))
    metrics = hooks.metrics
    turns, tokens = trainer.rollouts.spent()
    continued = round(metrics["continuations"] * metrics["continuation_turns"])
    assert turns == len(sampled) == len(own[0].turns) + continued > 100
    assert tokens == sum(len(each.tokens) for each in sampled)
    assert isinstance(hooks, Continuations)
