"""`training_trace`: an episode as OpenEnv's `TrainingTrace`, which holds each call whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentgym.trainers.gateway.traces import TracedCall


def training_trace(calls: Iterable[TracedCall], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an episode as OpenEnv's `TrainingTrace` (openenv 0.10, `core/harness/capture`).

    It holds the calls with a weight. Rewards, versions and supports have no place in it.

    Args:
        calls: the calls.
        facts: facts of the trace file, such as model and sampling.
    """
    model, sampling = str(facts.get("model") or ""), facts.get("sampling")
    turns = []
    for index, call in enumerate(each for each in calls if each.weight > 0):
        choice = {"index": 0, "message": dict(call.reply), "finish_reason": call.finish}
        turns.append(
            {
                "node_id": str(call.id),
                "prompt_token_ids": call.prompt.tolist(),
                "completion_token_ids": call.tokens.tolist(),
                "per_token_logps": [min(0.0, float(value)) for value in call.logprobs],
                "loss_mask": [0] * len(call.prompt) + [1] * len(call.tokens),
                "request": {"messages": list(call.messages), "tools": list(call.tools)},
                "response": {"choices": [choice]},
                "metadata": {
                    "node_id": str(call.id),
                    "index": index,
                    "model": model,
                    "n_tools": len(call.tools),
                    "harness_session_id": None,
                    "sampling_params": dict(sampling) if isinstance(sampling, Mapping) else {},
                    "requested_sampling_params": dict(call.overridden),
                },
            }
        )
    return {"schema_version": 1, "turns": turns}
