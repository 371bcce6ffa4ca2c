"""Monte-Carlo state values: the mean return of several continuations from the same state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.returns import observed_returns
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.branches import (
    episodes_of,
    orders,
    orders_of,
    state_of,
    turns_before,
)

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.update.learner import ForwardPass

CONTINUATIONS = 1 << 21
"""Offset that separates the seeds of continuations from those of other episodes."""
VALUES = "continuation_values"
"""Key of the values of a trajectory's turns in its `extras`."""


class Continuations(RecipeHooks):
    """Values the state before every turn by continuations of the current policy.

    A continuation takes over the actions before the turn and ends as the policy ends it. States
    with the same actions before them in one group, above all the first one, share theirs. In a
    game, all agents go on from there, and the agents that act value the state by their own returns.

    Args:
        trainer: the trainer of the policy.
        count: continuations per state, K.
        gamma: discount between turns.
        lambda_turn: GAE lambda between turns.
    """

    branches = True

    def __init__(self, trainer: Run, *, count: int, gamma: float, lambda_turn: float):
        super().__init__()
        self.trainer, self.count, self.gamma = trainer, count, gamma
        self.gae = two_clock.turn(gamma, lambda_turn)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the trajectories, with a value per turn in their `extras`."""
        states: dict[tuple[object, ...], tuple[list[Trajectory], int]] = {}
        for members in episodes_of(fresh):
            for order in orders_of(members):
                states.setdefault(state_of(members, order), (members, order))
        episodes = []
        for members, order in states.values():
            for _ in range(self.count):
                key = (self.trainer.config.run.seed, CONTINUATIONS + iteration, len(episodes))
                episodes.append(self.trainer.lineup.branch(members, order, key))
        played = episodes_of(self.trainer.play(episodes))
        values: dict[tuple[object, ...], float] = {}
        spread = []
        for number, (state, (members, order)) in enumerate(states.items()):
            runs = played[self.count * number : self.count * (number + 1)]
            for acting in (each for each in members if order in orders(each)):
                skip = turns_before(acting, order)
                mine = [each for run in runs for each in run if each.agent == acting.agent]
                returns = [discounted(each, skip, self.gamma) for each in mine]
                values[acting.agent, *state] = float(np.mean(returns))
                spread.append(np.std(returns))
        for members in episodes_of(fresh):
            for each in members:
                states_of = [state_of(members, order) for order in orders(each)]
                each.extras[VALUES] = [values[each.agent, *state] for state in states_of]
        turns = sum(len(each.turns) for run in played for each in run)
        new = turns - sum(episode.replayed for episode in episodes)
        self.metrics = {
            "continuations": float(len(played)),
            "continuation_turns": new / len(played),
            "continuation_std": float(np.mean(spread)),
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
        returns = observed_returns(self.gae, batch)
        if returns is None:
            return Credit(credit.advantages)
        from agentgym.trainers.update.metrics import explained_variance

        explained = explained_variance(turns, returns)
        return Credit(credit.advantages, metrics={"explained_variance": explained})


def discounted(trajectory: Trajectory, first: int, gamma: float) -> float:
    """Returns the discounted return from turn `first` on, 0 if there is no such turn."""
    rewards = [turn.reward for turn in trajectory.turns[first:]]
    return float(np.dot(rewards, gamma ** np.arange(len(rewards))))
