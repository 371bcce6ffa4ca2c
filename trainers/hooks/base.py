"""`RecipeHooks`: hooks of a recipe into an iteration.

Replay, learned rewards and preferences change the same four places of an iteration: the
trajectories to learn from, the rewards and the values that credit is assigned from, and the
advantages that enter the loss. The trainer calls the hooks and keeps their state in checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory

if TYPE_CHECKING:
    from torch import nn

    from agentgym.trainers.policy_agent.agent import PolicyAgent
    from agentgym.trainers.update.learner import ForwardPass


class RecipeHooks:
    """Hooks that do nothing. A recipe overrides the ones it needs.

    With several processes, the hooks run in all of them, on the same trajectories. The main
    process's results and the weights of its `modules` replace those of the others after each hook.

    An error in a hook, such as an environment's or a judge's, saves the finished iterations if the
    hooks have neither a state nor modules, which it may have left between two iterations.

    Attributes:
        metrics: numbers of the last iteration to log under `credit/`.
        env_steps: environment steps of the last iteration that the policy did not play (experts,
            searches, trial actions).
    """

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.env_steps = 0

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the trajectories to learn from, with their credit if the hooks assign it.

        Args:
            fresh: the trajectories of this iteration, none if the data are fixed.
            iteration: the number of finished iterations.
            rng: randomness of the hooks in this iteration.
        """
        return Learn(fresh)

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Returns the batch with the rewards that credit is assigned from, or with weights.

        This is the place for weights that need the forward pass (see `Batch.with_given`).
        """
        return batch

    def on_values(self, batch: Batch, values: Values) -> Values:
        """Returns the values that credit is assigned from, given those of the recipe's critic.

        Args:
            batch: the trajectories, with the rewards that credit is assigned from.
            values: the values of the critic.
        """
        return values

    def on_advantages(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Returns the credit that enters the loss, after normalisation."""
        return credit

    def modules(self) -> Sequence[nn.Module]:
        """Returns the modules that the hooks train, besides the trainer's updates."""
        return ()

    def agent(self, policy: PolicyAgent) -> PolicyAgent:
        """Returns the agent that plays evaluations: the policy, or a variant with learned parts.

        Policy folders hold everything that the agent's `save` writes.
        """
        return policy

    def publish(self, folder: Path) -> None:
        """Writes learned models to the folder of the run at its end, for later use."""

    def close(self) -> None:
        """Frees what the hooks hold beside the trainer, at the end of a run or after an error."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as tensors and plain Python values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""

    def frozen_state(self) -> dict[str, Any]:
        """Returns the state that never changes. It is written once per run, not per checkpoint."""
        return {}

    def load_frozen_state(self, state: dict[str, Any]) -> None:
        """Restores `frozen_state`."""
