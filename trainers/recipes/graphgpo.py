"""GraphGPO: turns compared by the distance from the next state to a success.

"Beyond Trajectory-Level Attribution: Graph-Based Credit Assignment for Agentic Reinforcement
Learning" (ICML 2026, arXiv 2605.26684). No critic. The turns of a group, failures included, are the
edges of a graph of states (`info["state_key"]`). A turn is compared with the group's other turns in
its state:

    R_t  = omega^d(s_{t+1})      d: turns of the shortest observed path to a success
    A(t) = A_E + (R_t - mean in the state) / F

A_E compares the episode with its group, as in GRPO. Without a success in the group, both are 0. The
credit points to the shortest path that was ever taken. Where chance, other players or a simulated
user decide about it, this path may be a gamble, and a run warns if equal actions led to different
states (`credit/graph/forked`): `gagpo` weighs the odds. Rewards do not enter R_t, and a partial
success is none.

With `distance = "expert"`, d is the number of turns that the scripted expert needs from the state
on, for which episodes are played again, and groups without a success have credit too. This is
information that no agent has, as that of `shape_progress`: an upper bound of the method, not to be
compared with recipes that learn from outcomes alone. Its environment steps count.

Kept: the graph, the reward, both comparisons with weight 1, the KL penalty of 0.01 to the policy
before RL. Changed: an episode counts once in the statistics of its group (theirs: once per turn).
States are exact (theirs may merge similar texts). There is no penalty of an invalid action (theirs:
a hundredth of a success), which leads back to its state. omega is 0.8, as in their Sokoban (0.1 in
ALFWorld, 0.2 in WebShop): larger ones follow a gamble less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.graph import GraphGPO
from agentgym.trainers.hooks.expert_distance import ExpertDistance, ExpertTable
from agentgym.trainers.settings import (
    Fraction,
    GroupRolloutConfig,
    LossConfig,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import SHAPING, RewardedConfig


@dataclass
class Config(RewardedConfig):
    """Settings of GraphGPO."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING,)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", kl_coef=0.01)
    omega: Fraction = 0.8
    """Factor of the turn-level reward for every turn between the next state and a success."""
    scale: bool = True
    """Divide by the standard deviation, by which a state far from a success weighs as much as a
    decisive one."""
    distance: Literal["graph", "expert"] = "graph"
    """Distance to a success: along turns of the group, or the turns that the scripted expert needs
    from the state on, an upper bound of what graphs of states can give."""


def build(config: Config) -> Algorithm:
    """Returns the parts of GraphGPO."""
    if config.distance == "graph":
        return Algorithm(PolicyGradient(GraphGPO(config.omega, config.scale)), outcomes="group")
    table = ExpertTable()
    return Algorithm(
        PolicyGradient(GraphGPO(config.omega, config.scale, table)),
        seats="one",
        outcomes="group",
        hooks=lambda run: ExpertDistance(run, table),
    )
