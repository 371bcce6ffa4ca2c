"""Monte-Carlo state values: the mean return of several continuations from the same state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.trainers.credit import two_clock
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.collector import EpisodeSpec, samples_of
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Credit, Trajectory, Values
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.update_data import explained_variance

CONTINUATIONS = 1 << 21
"""Offset that separates the seeds of continuations from those of other episodes."""
VALUES = "continuation_values"
"""Key of the values of a trajectory's turns in its `extras`."""


class Continuations(RecipeHooks):
    """Values the state before every turn by continuations of the current policy.

    A continuation takes over the actions before the turn and ends as the policy ends it. States
    with the same actions before them in one group, above all the first one, share theirs.

    Args:
        trainer: the trainer of the policy.
        count: continuations per state, K.
        gamma: discount between turns.
        lambda_turn: GAE lambda between turns.
    """

    games = False

    def __init__(self, trainer: Trainer, *, count: int, gamma: float, lambda_turn: float):
        super().__init__()
        self.trainer, self.count, self.gamma = trainer, count, gamma
        self.gae = two_clock.turn(gamma, lambda_turn)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the trajectories, with a value per turn in their `extras`."""
        states: dict[tuple[object, ...], tuple[Trajectory, int]] = {}
        for trajectory in fresh:
            for turn, state in enumerate(_states(trajectory)):
                states.setdefault(state, (trajectory, turn))
        episodes = []
        for trajectory, turn in states.values():
            opening = samples_of(trajectory, turn)
            for _ in range(self.count):
                key = (self.trainer.config.run.seed, CONTINUATIONS + iteration, len(episodes))
                episodes.append(EpisodeSpec(trajectory.task, trajectory.seed, key, opening))
        played = self.trainer.play(episodes)
        taken = np.array([len(episode.opening) for episode in episodes])
        returns = [discounted(t, skip, self.gamma) for t, skip in zip(played, taken, strict=True)]
        table = np.reshape(returns, (len(states), self.count))
        values = dict(zip(states, table.mean(axis=1).tolist(), strict=True))
        for trajectory in fresh:
            trajectory.extras[VALUES] = [values[state] for state in _states(trajectory)]
        self.env_steps = int(sum(len(t.turns) for t in played) - taken.sum())
        self.metrics = {
            "continuations": float(len(played)),
            "continuation_turns": self.env_steps / len(played),
            "continuation_std": float(table.std(axis=1).mean()),
        }
        return fresh

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns the GAE over turns with these values, the same for all tokens of an action.

        The turn limit ends an episode with value 0, as it ends the continuations.
        """
        turns = np.concatenate([t.extras[VALUES] for t in batch.trajectories]).astype(np.float32)
        ends = np.zeros(len(batch.trajectories), np.float32)
        credit = self.gae(batch, Values(tokens=None, turns=turns, bootstrap=ends))
        returns = [
            discounted(trajectory, turn, self.gamma)
            for trajectory in batch.trajectories
            for turn in range(len(trajectory.turns))
        ]
        explained = explained_variance(turns, np.array(returns, np.float32))
        return Credit(credit.advantages, metrics={"explained_variance": explained})


def discounted(trajectory: Trajectory, first: int, gamma: float) -> float:
    """Returns the discounted return from turn `first` on, 0 if there is no such turn."""
    rewards = [turn.reward for turn in trajectory.turns[first:]]
    return float(np.dot(rewards, gamma ** np.arange(len(rewards))))


def _states(trajectory: Trajectory) -> Sequence[tuple[object, ...]]:
    """Returns a key per turn, equal for turns of a group with equal tokens before them."""
    said = [
        trajectory.segments[turn.segment].tokens[turn.start : turn.stop].tobytes()
        for turn in trajectory.turns
    ]
    return [(*trajectory.group, *said[:turn]) for turn in range(len(said))]
