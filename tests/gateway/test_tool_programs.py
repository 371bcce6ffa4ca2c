"""Programs with tools, also one that asks for a title and a summary: tokens, and learning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.trainers import train
from agentgym.trainers.gateway import flat
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.gateway.wire import Message
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from tests.gateway.episodes import ask
from tests.helpers.chat_models import chat_model

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("left", "right")]
SYSTEM = {"role": "system", "content": "Move."}


def moves(task: Task, text: str) -> tuple[dict[str, Any], float]:
    """The reply to a request with tools, and 1 if it calls `left`."""
    reply = ask(task, [SYSTEM, {"role": "user", "content": text}], tools=TOOLS)
    called = [call["function"]["name"] for call in reply.get("tool_calls") or ()]
    return reply, float(called == ["left"])


def calls(task: Task) -> float:
    """Moves once."""
    return moves(task, task.observation)[1]


def compacts(task: Task) -> float:
    """Asks for a title, moves, and moves again after a summary in place of the history."""
    ask(task, [{"role": "user", "content": f"A title for: {task.observation}"}])
    reply, first = moves(task, task.observation)
    said = {"role": "assistant", "content": json.dumps(reply.get("tool_calls"))}
    ask(task, [SYSTEM, {"role": "user", "content": task.observation}, said,
               {"role": "user", "content": "Sum up."}], tools=TOOLS)  # fmt: skip
    return (first + moves(task, "Go on.")[1]) / 2


def files(folder: Path) -> tuple[Path, Path]:
    """A file of tasks, and one of dialogues in which either tool is called."""
    tasks, data = folder / "tasks.jsonl", folder / "data.jsonl"
    tasks.write_text('{"prompt": "Go on."}\n{"prompt": "Go on."}')
    system = flat.instructions([Message("system", SYSTEM["content"])], TOOLS)
    rows = [
        [
            {"role": "system", "content": system},
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": f'{{"name": "{name}", "arguments": {{}}}}'},
        ]
        for name in ("left", "right")
    ]
    data.write_text("\n".join(json.dumps({"messages": each}) for each in 8 * rows))
    return tasks, data


@pytest.mark.slow
@pytest.mark.parametrize("program", [calls, compacts])
def test_a_reward_for_a_tool_call_makes_it_likely(program: Callable[[Task], float], tmp_path: Path):
    tasks, data = files(tmp_path)
    before, after = train(
        "rloo", harness=program, tasks=str(tasks), data=[str(data)], model="nano", bc_lr=3e-3,
        bc_epochs=20, max_new_tokens=40, iterations=6, episodes_per_iteration=16, num_envs=16,
        group_size=8, lr=3e-4, eval_episodes=32, eval_temperature=1.0, seed=0, device="cpu",
        threads=1, log_with=(), quiet=True, run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    first, last = (report.aggregate()["reward"].mean for report in (before, after))
    assert 0.3 < first < 0.7
    assert last > first + 0.2


def test_titles_and_summaries_leave_each_sampled_token_in_one_turn():
    with Gateway(Policy(*chat_model("base")), Sampling(max_new_tokens=6)) as gateway:
        with gateway.session("train/0", key=(1,)) as session:
            compacts(session.task)
        trajectory = session.trajectory(reward=1.0)
        samples = [call.sample for call in session.record.turns()]
    assert trajectory is not None
    assert [turn.weight for turn in trajectory.turns] == [0.0, 1.0, 1.0, 1.0]
    counts = [np.zeros(len(segment.tokens), int) for segment in trajectory.segments]
    for turn, sample in zip(trajectory.turns, samples, strict=True):
        assert sample is not None
        tokens = trajectory.segments[turn.segment].tokens[turn.start : turn.stop]
        np.testing.assert_array_equal(tokens, sample.tokens)
        counts[turn.segment][turn.start : turn.stop] += 1
    assert max(each.max() for each in counts) == 1
    assert sum(each.sum() for each in counts) == sum(len(s.tokens) for s in samples if s)
