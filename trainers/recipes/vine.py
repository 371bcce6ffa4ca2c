"""VinePPO: turn-level PPO with Monte-Carlo values from continuations instead of a critic.

"VinePPO: Refining Credit Assignment in RL Training of LLMs" (Kazemnejad et al., ICML 2025, arXiv
2410.01679). The policy continues K times from the state before each turn. The mean return of the
continuations is the value of the state, without bias, and an action is credited with

    A_t = r_t + gamma V(o_{t+1}) - V(o_t)

Kept: values from on-policy continuations, no discount, one-step advantages, the clipped ratio of
tokens. Changed: a step is a turn instead of a sentence of a chain of thought. K is 4 (theirs: 9).
The turn limit ends an episode with value 0, so values and returns have the same horizon. A
continuation repeats the actions before it in its environment, which equals a snapshot and works
with any wrapper. It draws the same random numbers as the episode after them. As they do not depend
on the action, the gradient stays unbiased, with less variance. The logged explained variance of a
stochastic environment therefore includes its luck. States that a group shares are continued once.
Continuations without a readable verdict of a judge are left out. If none of a state remains, its
value is the return of the episode that passes it. There is no KL penalty (theirs: `kl_coef` 1e-4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.returns import observed_returns
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import FloatArray, Trajectory, is_judged
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.branches import (
    discounted,
    episodes_of,
    orders,
    orders_of,
    state_of,
    turns_before,
)
from agentgym.trainers.settings import Fraction, Positive
from agentgym.trainers.settings.kinds import PolicyGradientConfig
from agentgym.trainers.update.metrics import explained_variance

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(PolicyGradientConfig):
    """Settings of VinePPO."""

    continuations: Positive = 4
    """Continuations per state, K."""
    gamma: Fraction = 1.0
    """Discount between turns."""
    lambda_turn: Fraction = 0.0
    """GAE lambda between turns. 0: the paper's one-step advantage."""


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

    def __init__(self, trainer: Run, *, count: int, gamma: float, lambda_turn: float):
        super().__init__()
        self.trainer, self.count, self.gamma = trainer, count, gamma
        self.gae = two_clock.turn(gamma, lambda_turn)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the trajectories, with the advantages from the values of their turns."""
        states: dict[tuple[object, ...], tuple[list[Trajectory], int]] = {}
        for members in episodes_of(fresh):
            for order in orders_of(members):
                states.setdefault(state_of(members, order), (members, order))
        episodes, seed = [], self.trainer.config.run.seed
        for members, order in states.values():
            for _ in range(self.count):
                key = stream(seed, "continuations", iteration, len(episodes))
                episodes.append(self.trainer.lineup.branch(members, order, key))
        played = episodes_of(self.trainer.play(episodes))
        values: dict[tuple[object, ...], float] = {}
        spread = []
        for number, (state, (members, order)) in enumerate(states.items()):
            runs = played[self.count * number : self.count * (number + 1)]
            runs = [*filter(is_judged, runs)] or [members]  # which went on from there, too
            for acting in (each for each in members if order in orders(each)):
                skip = turns_before(acting, order)
                mine = [each for run in runs for each in run if each.agent == acting.agent]
                returns = [discounted(each, skip, self.gamma) for each in mine]
                values[acting.agent, *state] = float(np.mean(returns))
                spread.append(np.std(returns))
        of_turns = {
            id(each): [values[each.agent, *state_of(members, order)] for order in orders(each)]
            for members in episodes_of(fresh)
            for each in members
        }
        turns = sum(len(each.turns) for run in played for each in run)
        new = turns - sum(episode.replayed for episode in episodes)
        self.metrics = {
            "continuations": float(len(played)),
            "continuation_turns": new / len(played),
            "continuation_std": float(np.mean(spread)),
        }
        return Learn(fresh, self._advantages(fresh, [of_turns[id(each)] for each in fresh]))

    def _advantages(self, fresh: list[Trajectory], values: list[list[float]]) -> FloatArray:
        """Returns the GAE over turns with these values, the same for all tokens of an action [K].

        The turn limit ends an episode with value 0, as it ends the continuations.

        Args:
            fresh: the trajectories.
            values: the values of the turns of each.
        """
        batch, turns = Batch.of(fresh), np.concatenate(values).astype(np.float32)
        ends = np.zeros(len(fresh), np.float32)
        credit = self.gae(batch, Values(tokens=None, turns=turns, bootstrap=ends))
        returns = observed_returns(self.gae, batch)
        if returns is not None:
            self.metrics["explained_variance"] = explained_variance(turns, returns)
        return credit.advantages


def build(config: Config) -> Algorithm:
    """Returns the parts of VinePPO."""
    return Algorithm(
        PolicyGradient(Given()),
        seats="mirror",
        replays=True,
        hooks=lambda trainer: Continuations(
            trainer,
            count=config.continuations,
            gamma=config.gamma,
            lambda_turn=config.lambda_turn,
        ),
    )
