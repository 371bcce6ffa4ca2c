"""Loads the members of a pool of opponents as one agent (`load_league`)."""

from __future__ import annotations

from pathlib import Path

from agentgym.agents import MixedAgent
from agentgym.errors import CheckpointError
from agentgym.trainers.players.league import member_name
from agentgym.trainers.players.pool import Pool
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.loading import load_agent
from agentgym.trainers.policy_agent.role_agent import RoleAgent


def load_league(
    folder: str,
    *,
    temperature: float | None = None,
    constrain: bool | None = None,
    max_new_tokens: int | None = None,
    device: str = "cpu",
) -> MixedAgent:
    """Loads the average policy of a run with a pool of opponents.

    A member of the pool is sampled at the start of an episode: from the meta-strategy of `psro`,
    otherwise uniformly. Members play as opponents in training do. A judge (`BestOf`) belongs to the
    last policy, so they have none.

    Args:
        folder: the folder of the run.
        temperature: overrides the saved value.
        constrain: overrides the saved value.
        max_new_tokens: overrides the saved value.
        device: device of the models.

    Raises:
        CheckpointError: if the folder contains no policy or no pool, or a member is damaged.
        ConfigError: if the device does not exist or a value is out of range.
    """
    agent = load_agent(
        folder,
        temperature=temperature,
        constrain=constrain,
        max_new_tokens=max_new_tokens,
        device=device,
    )
    if isinstance(agent, RoleAgent):
        raise CheckpointError(
            f"{folder} holds policies of roles, and no pool of opponents: leave out league:."
        )
    pool = Pool(Path(folder), agent.policy.requires_grad_(False))
    weights = {number: weight for number, weight in pool.read_mixture().items() if weight > 0}
    members = [
        PolicyAgent(
            policy,
            agent.settings,
            agent.sampling,
            constrain=agent.constrain,
            name=member_name(number),
            wrap=agent.wrap,
        )
        for number, policy in pool.load(weights).items()
    ]
    return MixedAgent(
        members, [weights[n] for n in sorted(weights)], name=f"league of {agent.name}"
    )
