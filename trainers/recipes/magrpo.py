"""MAGRPO: joint returns of a team relative to its group, turn by turn, without a critic.

"LLM Collaboration With Multi-Agent Reinforcement Learning" (arXiv 2508.04652). The episodes of a
group begin in the same state, and in turn t of episode g all agents of the team share

    A_t = R_t - mean over the group of R_t,    R_t = r_t + gamma R_{t+1}

with the reward r of the team, the mean over its agents. There is no standard deviation. In a turn
that only some episodes of the group reach, these are compared.

With `depth` > 0, each group is a tree, as in the authors' code. In each of the first `depth` turns
of the game, the K = `group_size` branches of a state are compared with each other, and each leads
to a state with K branches of its own:

    R(state, j) = r + gamma mean over the branches j' of the next state of R(next state, j').

Later turns are played once and not trained. The tree has K^depth episodes. `joint` combines the
actions of N agents that act at once. The j-th actions of all of them are branch j if it is
"aligned". If it is "cross", all K^N combinations are branches, so the tree has up to K^(N depth)
episodes, and an action's advantage is the mean of A over the combinations that contain it, by which
the other agents' actions average out.

Kept: the joint return, the baseline for each turn, trees, aligned and cross joint actions. Changed:
by default episodes of a group are independent (theirs: `depth 2`, `group_size 4`, `gamma 0.9`), an
action's advantage is the mean over its combinations (theirs: the sum, which scales the step),
ratios are clipped (theirs: one step per batch, without ratios), all agents share one policy
(theirs: `roles separate`), a tree does not stop growing at a mean reward, and the end token is
trained, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.group import members_of
from agentgym.trainers.credit.joint import JointReturns, returns_by_order
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.trees import Node, grow, play, roots
from agentgym.trainers.rollout.branches import samples_of, single_turn
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.seats import GameSpec
from agentgym.trainers.settings import (
    Count,
    Fraction,
    GroupRolloutConfig,
    LossConfig,
    RewardConfig,
    RolloutConfig,
    When,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import RewardedConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

TREES = When("depth", of="trees of joint actions", remedy="depth to 1 or more")


@dataclass
class Config(RewardedConfig):
    """Settings of MAGRPO."""

    conditions: ClassVar[Mapping[str, When]] = dict.fromkeys(
        all_but(RewardConfig), When("depth", (0,))
    )

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    gamma: Fraction = 1.0
    """Discount between turns of the environment."""
    scale: bool = False
    """Divide by the group's standard deviation."""
    depth: Count = 0
    """Turns of the game at which each group branches as a tree (0: independent episodes)."""
    joint: Annotated[Literal["aligned", "cross"], TREES] = "aligned"
    """Joint actions in a state of a tree: the j-th actions of all agents, or all combinations."""


class JointTrees(RecipeHooks):
    """Grows a tree of joint actions from the episodes of each start, and compares them.

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
        """Returns a trajectory of one turn for each action in the trees."""
        families, compared = roots(fresh), []
        for depth in range(self.config.depth):
            if depth:
                parents = [node for family in families for node in family]
                key, size = (iteration, 2 * depth), self.config.rollout.group_size
                families = grow(self.trainer, parents, size, key)
            compared += [(family, len(family)) for family in families]
            if self.config.joint == "cross":
                self._cross(families, (iteration, 2 * depth + 1))
        self.metrics = {
            "states": float(len(compared)),
            "joint_actions": float(sum(len(family) for family, _ in compared)),
        }
        found = [each for family, size in compared for each in self._outputs(family, size)]
        return Learn([each for each, _ in found], [advantage for _, advantage in found])

    def _cross(self, families: Sequence[list[Node]], key: tuple[int, ...]) -> None:
        """Adds the combinations of the sampled actions of several agents to the branches."""
        seed = self.trainer.config.run.seed
        missing = [(family, choice) for family in families for choice in _choices(family)]
        requests = [
            self._combined(family, choice, stream(seed, "trees", *key, number))
            for number, (family, choice) in enumerate(missing)
        ]
        played = play(self.trainer, requests)
        for (family, _), members in zip(missing, played, strict=True):
            family.append(Node(members, family[0].order))

    def _combined(
        self, family: Sequence[Node], choice: Sequence[int], key: tuple[int, ...]
    ) -> EpisodeSpec:
        """Returns the request to play an action of each agent, taken from several branches."""
        request = self.trainer.lineup.branch(family[0].members, family[0].order, key)
        assert isinstance(request, GameSpec)
        openings = dict(request.openings)
        for agent, branch in enumerate(choice):
            trajectory, place = [*family[branch].outputs()][agent]
            openings[trajectory.agent] = samples_of(trajectory, place + 1)
        return replace(request, openings=openings)

    def _outputs(self, family: Sequence[Node], size: int) -> list[tuple[Trajectory, float]]:
        """Returns the actions in a state, each as a trajectory, with their advantages.

        Args:
            family: the branches of the state.
            size: number of them that were sampled. The others combine their actions.
        """
        gamma, order = self.config.gamma, family[0].order
        means = [n.mean(lambda each: returns_by_order(each, gamma)[order]) for n in family]
        returns = np.array(means, np.float64)
        judged = ~np.isnan(returns)  # the others have the advantage 0
        group, advantages = members_of(np.zeros(judged.sum(), np.int64)), np.zeros(len(family))
        advantages[judged] = group.compare(returns[judged], scale=self.config.scale, epsilon=1e-6)
        sampled = family[:size]
        choices = [(j,) * len([*node.outputs()]) for j, node in enumerate(sampled)]
        if len(family) > size:  # of several agents, there may be very many combinations
            choices += _choices(sampled)
        found = []
        for j, node in enumerate(sampled):
            for i, (trajectory, place) in enumerate(node.outputs()):
                shown = judged & np.array([choice[i] == j for choice in choices])
                if shown.any():
                    mean = advantages[shown].mean()
                    found.append((single_turn(trajectory, place), float(mean)))
        return found


def _choices(family: Sequence[Node]) -> list[tuple[int, ...]]:
    """Returns the combinations of the agents' actions in several branches, but for their own."""
    every = product(range(len(family)), repeat=len([*family[0].outputs()]))
    return [choice for choice in every if len(set(choice)) > 1]


def build(config: Config) -> Algorithm:
    """Returns the parts of MAGRPO."""
    if config.depth:
        return Algorithm(
            PolicyGradient(Given()),
            seats="mirror",
            replays=True,
            outcomes="team",
            hooks=lambda trainer: JointTrees(trainer, config),
        )
    credit = JointReturns(config.gamma, config.scale)
    return Algorithm(PolicyGradient(credit), outcomes="team")
