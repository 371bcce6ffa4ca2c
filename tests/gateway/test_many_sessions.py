"""64 programs at once, over HTTP, get what they would get alone, and leave nothing behind."""

from __future__ import annotations

import gc
import threading
import tracemalloc

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


@pytest.mark.slow
def test_64_sessions_of_20_turns_leave_nothing_in_memory():
    """A round of 16 sessions takes no more memory than the rounds before it."""
    kept = list[int]()
    tracemalloc.start()
    try:
        with Gateway(Policy(*chat_model("base")), Sampling(max_new_tokens=2)) as gateway:

            def program(number: int) -> None:
                with gateway.session(f"task {number}", key=(number,)) as session:
                    messages = [{"role": "user", "content": "go"}]
                    for _ in range(20):
                        messages += [ask(session.task, messages), {"role": "user", "content": "."}]
                    assert len(session.record.turns()) == 20

            for start in range(0, SESSIONS, 16):
                threads = [threading.Thread(target=program, args=(start + n,)) for n in range(16)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(SECONDS)
                    assert not thread.is_alive()
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert kept[-1] - kept[1] < 2 * 16 * 20 * 400, "fewer than the messages of a request take"
