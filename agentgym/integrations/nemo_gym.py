"""Environments of AgentGym as a resources server of NeMo Gym, for its `gymnasium_agent`.

The module is imported from NeMo Gym's tree, by `resources_servers/agentgym/app.py`:

    from agentgym.integrations.nemo_gym import AgentGymServer

    if __name__ == "__main__":
        AgentGymServer.run_webserver()

`nemo_gym_rows` (`agentgym.integrations.nemo_gym_rows`) writes the rows of its data set.
"""

from __future__ import annotations

import json
from typing import Any

from agentgym.registration.making import TextGym, make_env
from agentgym.snapshots import restore_snapshot, snapshot_of

try:
    from resources_servers.gymnasium import GymnasiumServer, extract_text  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    if error.name not in ("resources_servers", "resources_servers.gymnasium"):
        raise
    raise ImportError(
        "agentgym.integrations.nemo_gym needs NeMo Gym: import it in a checkout or environment of "
        "NeMo Gym, where `resources_servers.gymnasium` can be imported."
    ) from error


class AgentGymServer(GymnasiumServer):
    """Plays an environment per session, with the texts of the model's messages as actions.

    A row of the data set names the environment (`env`, `env_kwargs`), the task and the seed.
    Rewards are those of each step, which the agent sums up. Checkpoints of sessions are exact
    snapshots, with the state of wrappers.
    """

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode and returns its first observation and info."""
        await self.close_session(session_id)
        env = _made(metadata)
        text, info = env.reset(seed=metadata.get("seed"), options={"task": metadata["task"]})
        self.session_state[session_id] = (env, metadata)
        return text, _json(info)

    async def step(
        self, action: Any, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes the text of the model's messages as an action."""
        env, _ = self.session_state[session_id]
        text, reward, terminated, truncated, info = env.step(extract_text(action))
        return text, float(reward), bool(terminated), bool(truncated), _json(info)

    async def close_session(self, session_id: str | None) -> None:
        """Ends an episode."""
        env, _ = self.session_state.pop(session_id, (None, None))
        if env is not None:
            env.close()

    def serialize_session_state(self, state: Any) -> dict[str, Any]:
        """Returns the row and the snapshot of a session as JSON values."""
        env, metadata = state
        return _json({"row": metadata, "snapshot": snapshot_of(env)})

    def deserialize_session_state(self, state: dict[str, Any]) -> Any:
        """Returns the session of a row and a snapshot."""
        env = _made(state["row"])
        env.reset(seed=0, options={"task": state["row"]["task"]})
        restore_snapshot(env, state["snapshot"])
        return env, state["row"]


def _made(row: dict[str, Any]) -> TextGym:
    return make_env(row["env"], **row.get("env_kwargs") or {})


def _json(value: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value, default=str))
