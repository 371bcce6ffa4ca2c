"""MARFT: PPO for a team whose agents act one after another, with one critic of the team's return.

"MARFT: Multi-Agent Reinforcement Fine-Tuning" (arXiv 2504.16129). Agents i = 1..n act in this order
in a turn of the environment and see the actions before theirs. The advantage of a joint action is
the sum of theirs (multi-agent advantage decomposition), from values of what each agent observes:

    V(t,i) <- V(t,i+1),    V(t,n) <- r_t + gamma V(t+1,1)

with the reward r of the team, the mean over its agents. `level action` has a value per agent and
turn (the paper's action-level PPO), `level token` a value before every token.

Kept: the order of the agents in the credit, both levels, gamma 0.99, lambda 0.95, the clipped
ratio. Changed: the authors' code discounts every hop from an agent to the next by gamma, so that an
agent's credit depends on the number of agents after it (`gamma_hop 0.99 lambda_hop 0.95`), and it
ends the trace at the hops of the first turn after a reset, which loses the credit of all but its
last agent. Here no discount lies within a turn of the environment. Agents share one policy (theirs:
`roles adapters alternate N`), all of them are updated in each iteration, the epochs are 2 (theirs:
5), and ratios are per token (theirs of `level action`: of the whole action, `ratio turn_product`).
In a simultaneous game, each agent has the advantage of the joint action. In an environment with a
single agent this is `poad`, or `turn` with a ratio per token. Advantages that vary more than
returns lower the learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import joint, two_clock
from agentgym.trainers.settings import Fraction, When
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of MARFT."""

    conditions: ClassVar[Mapping[str, When]] = {"shape_progress": When("gamma_hop", (1.0,))}

    level: Literal["action", "token"] = "token"
    """Values and advantages of actions, or of their tokens."""
    gamma: Fraction = 0.99
    """Discount between turns of the environment."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns of the environment."""
    gamma_hop: Fraction = 1.0
    """Discount from an agent to the next one in the same turn of the environment."""
    lambda_hop: Fraction = 1.0
    """GAE lambda from an agent to the next one in the same turn of the environment."""


def build(config: Config) -> Algorithm:
    """Returns the parts of MARFT."""
    tokens = config.level == "token"
    gae = (two_clock.poad if tokens else two_clock.turn)(config.gamma, config.lambda_turn)
    return Algorithm(
        PolicyGradient(
            joint.JointGAE(gae, config.gamma_hop, config.lambda_hop),
            critic=value_head("tokens" if tokens else "turns", config),
        ),
        outcomes="team",
    )
