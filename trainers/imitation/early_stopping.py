"""Early stopping of behaviour cloning, by the loss on demonstrations that are not fitted."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.update.updater import Updater

HELD_OUT = 0.1
"""Share of the demonstrations that are held out."""


def split(
    trajectories: Sequence[Trajectory], rng: np.random.Generator
) -> tuple[list[Trajectory], list[Trajectory]]:
    """Returns the demonstrations to fit and those to hold out, a random tenth, at least one.

    Raises:
        ConfigError: if there are fewer than two demonstrations.
    """
    if len(trajectories) < 2:
        raise ConfigError(
            "bc_patience holds out a tenth of the demonstrations, which needs at least 2, got "
            f"{len(trajectories)}: use more demonstrations, or leave bc_patience at None."
        )
    order = rng.permutation(len(trajectories))
    held_out = max(1, round(HELD_OUT * len(order)))
    return [trajectories[i] for i in order[held_out:]], [trajectories[i] for i in order[:held_out]]


class EarlyStopping:
    """Keeps the weights with the lowest loss on held-out demonstrations.

    Args:
        updater: holds the policy.
        held_out: demonstrations that are not fitted.
        patience: number of epochs in a row without a lower loss that end the training.
        state: `state` of an interrupted training. None: a new start.

    Attributes:
        state: the epoch with the lowest loss, this loss and the weights, as tensors and plain
            Python values.

    Raises:
        ConfigError: if the weights are sharded.
    """

    def __init__(
        self,
        updater: Updater,
        held_out: Sequence[Trajectory],
        patience: int,
        state: dict[str, Any] | None = None,
    ):
        if updater.module is not updater.trained:
            raise ConfigError(
                "bc_patience keeps the weights of the best epoch, which is not supported with "
                "weights that are sharded over GPUs: leave bc_patience at None."
            )
        # The loss that is fitted does not depend on the temperature of the rollouts.
        self._updater = copy.copy(updater)
        self._updater.sampling = replace(updater.sampling, temperature=1.0)
        self._batch, self._patience = Batch.of(held_out), patience
        self.state = state or {"epoch": 0, "loss": math.inf, "weights": {}}

    def observe(self, epoch: int) -> float:
        """Returns the mean loss of an action token after an epoch, and keeps the best weights."""
        batch = self._batch
        logprobs = self._updater.evaluate_actions(batch, reference=False).logprobs
        weight = np.array([turn.weight for turn in batch.turns])[batch.token_turn]
        loss = -float((logprobs * weight).sum() / (weight.sum() or 1.0))
        if loss < self.state["loss"]:
            weights = self._updater.policy.own_weights()
            kept = {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
            self.state = {"epoch": epoch, "loss": loss, "weights": kept}
        return loss

    def over(self, epoch: int) -> bool:
        """Returns whether training ends after this epoch."""
        return epoch - self.state["epoch"] >= self._patience

    def restore(self) -> None:
        """Loads the best weights into the policy."""
        if self.state["weights"]:
            self._updater.policy.load_own_weights(self.state["weights"])
