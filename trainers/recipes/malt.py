"""MALT: supervised and preference learning from a tree of the actions of a team.

"MALT: Improving Reasoning with Multi-Agent LLM Training" (arXiv 2412.01928). A generator answers, a
verifier criticises the answer and a refiner answers anew. Each of them is sampled n times for each
output before, which gives a tree with n^3 final answers. The value of an output is the mean outcome
(0 or 1) of the answers below it:

    V(refiner's) = outcome,    V(verifier's) = mean V(its refinements),    V(generator's) = likewise

An output is positive if V > 0.5. A role learns by imitation from its positive outputs, and by DPO
(see `dpo`) from pairs of a positive and a negative one with the same prompt, so that a verifier
learns which remarks help:

    -log sigmoid(beta [log pi/ref (positive) - log pi/ref (negative)]) - sft_coef log pi (positive)

with the mean over the tokens in the second term. The team is `Team-Countdown-v0`, a policy for each
role is `roles adapters` (theirs) or `separate`.

Kept: the tree, n = 3 (`group_size`), values, the threshold, pairs within a prompt. Changed: both
losses are minimised together, for all roles, on a tree of the current policy in every iteration
(theirs: imitation first, once, on trees of the base model); there is no majority vote over several
answers at test time. In other games and environments, the tree branches at the first `depth`
actions, and the outcome is the success of the episode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agentgym.trainers.algorithm import Algorithm, Preference
from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.trees import Node, grow, roots
from agentgym.trainers.rollout.branches import single_turn
from agentgym.trainers.settings import (
    Fraction,
    GroupRolloutConfig,
    NonNegative,
    Positive,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import PreferenceConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(PreferenceConfig):
    """Settings of MALT."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig, group_size=3, episodes_per_iteration=24)
    depth: Positive = 3
    """First actions of an episode at which the tree branches. A tree has `group_size` to this power
    episodes."""
    threshold: Fraction = 0.5
    """Value above which an output is positive."""
    sft_coef: NonNegative = 1.0
    """Coefficient of the imitation of positive outputs."""


def value(node: Node, agent: str) -> float:
    """Returns the mean outcome of an agent below a node."""
    return node.mean(lambda members: float(next(e.success for e in members if e.agent == agent)))


class Output(NamedTuple):
    """An output of an agent in a tree.

    Attributes:
        trajectory: the output, as a trajectory of one turn.
        family: number of its prompt.
        value: its value.
    """

    trajectory: Trajectory
    family: int
    value: float


class Trees(RecipeHooks):
    """Grows a tree from the episodes of each start, and learns from the outputs in it.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns a trajectory of one turn for each output in the trees."""
        levels = [roots(fresh)]
        for depth in range(1, self.config.depth):
            parents = [node for family in levels[-1] for node in family]
            key, size = (iteration, depth), self.config.rollout.group_size
            children = grow(self.trainer, parents, size, key)
            levels.append(children)
        families = [family for level in levels for family in level]
        outputs = [
            Output(single_turn(each, place), number, value(node, each.agent))
            for number, family in enumerate(families)
            for node in family
            for each, place in node.outputs()
        ]
        return self._learn([each for each in outputs if not math.isnan(each.value)])

    def _learn(self, outputs: Sequence[Output]) -> Learn:
        """Returns outputs with their pairs and the weights of those that are imitated.

        A weight is minus the derivative of the loss of imitation, times the outputs.
        """
        found = [each.trajectory for each in outputs]
        positive = np.array([each.value > self.config.threshold for each in outputs])
        self.metrics = {"outputs": float(len(positive)), "positive": float(positive.mean())}
        lengths = np.array([turn.stop - turn.start for each in found for turn in each.turns])
        share = self.config.sft_coef * len(positive) / max(1, positive.sum())
        imitated = share * positive / np.maximum(lengths, 1)  # there is one turn in each
        return Learn(found, imitated, pairs(outputs, self.config.threshold))


def pairs(outputs: Sequence[Output], threshold: float) -> list[Pair]:
    """Returns all pairs of outputs of one prompt with values above and up to a threshold."""
    families: dict[tuple[int, str], list[int]] = {}
    for number, each in enumerate(outputs):
        families.setdefault((each.family, each.trajectory.agent), []).append(number)
    return [
        Pair(a, b)
        for family in families.values()
        for a in family
        for b in family
        if outputs[a].value > threshold >= outputs[b].value
    ]


def build(config: Config) -> Algorithm:
    """Returns the parts of MALT."""
    signal = Preference(config.beta, thought_coef=config.loss.thought_coef)
    return Algorithm(
        signal, seats="mirror", replays=True, hooks=lambda trainer: Trees(trainer, config)
    )
