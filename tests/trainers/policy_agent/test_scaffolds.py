"""A policy inside scaffolds: constrained actions, free texts, prompts with what was written."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.agents.scaffolds import SCAFFOLDS, PlanExecuteAgent, ReflexionAgent
from agentgym.agents.scaffolds.base import WRITER
from agentgym.evaluation import evaluate
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.rollout.context import ContextSettings

KWARGS = {"size": 6, "max_turns": 4}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("policy")
    return tiny_policy("NumberLine-v0", seed=0, size="nano", folder=folder, env_kwargs=KWARGS)


class Watched(PolicyAgent):
    """A greedy, constrained policy agent that keeps its requests."""

    def __init__(self, policy: Any):
        super().__init__(policy, ContextSettings(), Sampling(0.0, max_new_tokens=8), constrain=True)
        self.requests: list[tuple[str, bool, str]] = []

    def _request(self, view: Any, seen: Any, constrain: bool | None = None) -> Request:
        request = super()._request(view, seen, constrain)
        prompt = self.policy.decode(request.prompt)
        self.requests.append((view.instructions, request.candidates is not None, prompt))
        return request


@pytest.mark.parametrize("kind", SCAFFOLDS)
def test_actions_are_constrained_and_texts_are_not(kind: str, policy: Any):
    inner = Watched(policy)
    report = evaluate("NumberLine-v0", SCAFFOLDS[kind](inner), tasks=2, env_kwargs=KWARGS)
    assert all(episode.valid == 1 for episode in report.episodes)
    for instructions, constrained, prompt in inner.requests:
        assert constrained == (instructions != WRITER)
        assert instructions.partition("\n")[0] in prompt
    written = sum(instructions == WRITER for instructions, *_ in inner.requests)
    assert written == sum(episode.costs.get("questions", 0) for episode in report.episodes)


def test_an_attempt_is_an_episode_of_the_policy(policy: Any):
    plain, inner = Watched(policy), Watched(policy)
    tasks = ["test/1", "test/2", "test/3"]
    alone = evaluate("NumberLine-v0", plain, tasks=tasks, env_kwargs=KWARGS, num_envs=1)
    agent = ReflexionAgent(inner, trials=1)
    report = evaluate("NumberLine-v0", agent, tasks=tasks, env_kwargs=KWARGS, num_envs=1)
    assert [e.reward for e in report.episodes] == [e.reward for e in alone.episodes]
    assert inner.requests == plain.requests


def test_a_plan_is_in_every_prompt(policy: Any, monkeypatch: pytest.MonkeyPatch):
    inner = Watched(policy)
    agent = PlanExecuteAgent(inner)
    monkeypatch.setattr(agent, "writer", type("Writer", (), {"act": lambda _, views: ["Up."]})())
    evaluate("NumberLine-v0", agent, tasks=1, env_kwargs=KWARGS)
    assert len(inner.requests) > 1
    assert all("Your plan:\nUp." in prompt for *_, prompt in inner.requests)
