"""A program that asks for a title and puts a summary in place of its history."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from tests.gateway.episodes import ask
from tests.helpers.chat_models import chat_model

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("left", "right")]


def compacts(task: Task) -> None:
    """Asks for a title, acts, asks for a summary, and goes on from it alone."""
    start = {"role": "user", "content": "Move."}
    ask(task, [{"role": "user", "content": "A title, please."}])
    history = [start, ask(task, [start], tools=TOOLS), {"role": "user", "content": "Sum up."}]
    summary = ask(task, history, tools=TOOLS)["content"]
    ask(task, [{"role": "user", "content": f"So far: {summary}"}], tools=TOOLS)


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
