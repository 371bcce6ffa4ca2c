"""The loop of a game in `agentgym.integrations.verifiers`, with a stub in place of `verifiers`."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections import deque
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agentgym.registration.games import make_parallel


class Anything:
    """Any class of verifiers: generic, with any arguments."""

    model_fields = tuple(f"player_{i}" for i in range(10))

    def __init__(self, *args: Any, **kwargs: Any):
        pass

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


class Stub(ModuleType):
    """A module with any name."""

    def __getattr__(self, name: str) -> Any:
        return Anything


class Conversation:
    """The conversation of a seat, whose replies are given."""

    def __init__(self, replies: deque[str]):
        self.replies, self.rewards = replies, {}
        self.trace = SimpleNamespace(
            info={}, record_reward=self.rewards.__setitem__, record_metric=lambda *_: None
        )

    def interaction(self, seat: Any) -> Any:
        return self

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: Any) -> None:
        pass

    async def turn(self, text: str) -> Any:
        return SimpleNamespace(terminated=False, last_reply=self.replies.popleft())


@pytest.fixture
def verifiers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The integration, imported with the stub."""
    names = ("verifiers", "verifiers.v1", "verifiers.v1.dialects", "verifiers.v1.dialects.chat")
    for name in names:
        monkeypatch.setitem(sys.modules, name, Stub(name))
    monkeypatch.setattr(sys.modules["verifiers"], "v1", sys.modules["verifiers.v1"], raising=False)
    name = "agentgym.integrations.verifiers"
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name)
    sys.modules.pop(name)


def test_an_eliminated_seat_is_not_paid_again(verifiers: Any):
    game = make_parallel("LiarsDice-Four-v0").game
    info = {"env": "LiarsDice-Four-v0", "seed": 1, "task": game.tasks.train[0]}
    game.reset(seed=info["seed"], task=info["task"])
    seats, rng = game.possible_agents, np.random.default_rng(0)
    replies: dict[str, deque[str]] = {seat: deque() for seat in seats}
    returns, late = dict.fromkeys(seats, 0.0), 0
    while game.acting:
        playing = [seat for seat in seats if not game.over(seat)]
        late += len(playing) < len(seats)
        actions = {seat: game.script(game.levels[-1], seat, rng) for seat in game.acting}
        for seat, action in actions.items():
            replies[seat].append(action)
        game.play(actions)
        for seat in playing:
            returns[seat] += game.reward(seat)
    assert late, "seats play on after the first one is out"
    agents = {seat: Conversation(replies[seat]) for seat in seats}
    task = SimpleNamespace(data=SimpleNamespace(info=info, name="", idx=0))
    asyncio.run(verifiers._play_game(game, task, SimpleNamespace(**agents)))
    assert {seat: agents[seat].rewards["return"] for seat in seats} == returns
