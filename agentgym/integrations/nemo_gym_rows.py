"""`nemo_gym_rows`: the data set of `agentgym.integrations.nemo_gym.AgentGymServer`."""

from __future__ import annotations

from typing import Any

from agentgym.registration.making import make_env, starts_of
from agentgym.utils.masking import masked

AGENT = "agentgym_gymnasium_agent"


def nemo_gym_rows(
    env: str, count: int, *, split: str = "train", agent: str = AGENT, **kwargs: Any
) -> list[dict[str, Any]]:
    """Returns rows for NeMo Gym, each with instructions, task and seed.

    Args:
        env: the id.
        count: number of rows. They cycle through the tasks of the split in order.
        split: "train" or "test".
        agent: name of the agent in NeMo Gym's configuration.
        **kwargs: arguments of the environment.

    Raises:
        ConfigError: for an unknown id, or a count below 1.
    """
    made = make_env(env, **kwargs)
    starts = starts_of(made, count, split)
    made.close()
    return [
        {
            "responses_create_params": {"input": [{"role": "system", "content": rules}]},
            "agent_ref": {"type": "responses_api_agents", "name": agent},
            "env": env,
            "env_kwargs": masked(kwargs),
            "task": task,
            "seed": seed,
        }
        for task, seed, rules in starts
    ]
