"""`nemo_gym_rows`: the data set of `agentgym.integrations.nemo_gym.AgentGymServer`."""

from __future__ import annotations

from typing import Any

from agentgym.errors import ConfigError
from agentgym.making import make_env, tasks_of

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
    if count < 1:
        raise ConfigError(f"count must be at least 1, got {count}.")
    made = make_env(env, **kwargs)
    tasks, rules = tasks_of(made).split(split), made.get_wrapper_attr("instructions")
    made.close()
    return [
        {
            "responses_create_params": {"input": [{"role": "system", "content": rules}]},
            "agent_ref": {"type": "responses_api_agents", "name": agent},
            "env": env,
            "env_kwargs": kwargs,
            "task": str(tasks[i % len(tasks)]),
            "seed": i,
        }
        for i in range(count)
    ]
