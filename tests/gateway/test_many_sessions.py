"""64 programs at once, over HTTP, get what they would get alone."""

from __future__ import annotations

import threading

import pytest

from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.sessions import Batching
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from tests.gateway.episodes import ask
from tests.helpers.chat_models import chat_model

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

SESSIONS, TURNS, SECONDS = 64, 4, 120


def played(policy: Policy, batching: Batching) -> dict[int, list[int]]:
    """The tokens of each session. Its length is that of one conversation of all turns."""
    tokens: dict[int, list[int]] = {}
    with Gateway(policy, Sampling(max_new_tokens=4), batching=batching) as gateway:

        def program(number: int) -> None:
            with gateway.session(f"task {number}", key=(number,)) as session:
                messages = [{"role": "user", "content": f"go {number % 7}"}]
                for _ in range(TURNS):
                    reply = ask(session.task, messages)
                    messages += [reply, {"role": "user", "content": "go on"}]
            trajectory = session.trajectory(reward=1.0)
            assert trajectory is not None and len(trajectory.turns) == TURNS
            [segment] = trajectory.segments
            tokens[number] = segment.tokens.tolist()

        threads = [threading.Thread(target=program, args=(n,)) for n in range(SESSIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    return tokens


def test_64_programs_at_once_lose_no_call_and_get_their_own_replies():
    policy = Policy(*chat_model("base"))
    together, alone = played(policy, "continuous"), played(policy, "single")
    assert len(together) == SESSIONS and together == alone
