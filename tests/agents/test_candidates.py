"""Whole candidates, verified by tests and a judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import View, make_agent
from agentgym.agents.scaffolds import CandidatesAgent
from agentgym.agents.scaffolds.base import WRITER
from agentgym.agents.scaffolds.candidates import LEAST, UNKNOWN, Verified, select
from agentgym.data.episode import RecordedEpisode
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate

SHARE = st.sampled_from((0.0, 0.5, 1.0))
SCORES = st.lists(st.builds(Verified, SHARE, SHARE, SHARE), min_size=1, max_size=9)


@settings(deadline=None)
@given(SCORES)
def test_tests_decide_among_those_that_the_judge_leaves(scores: list[Verified]):
    best = scores[select(scores)]
    better = [each for each in scores if each.judged > best.judged]
    left = max(LEAST, len(scores) // 2)
    assert len(better) < left
    if len(scores) <= left:
        assert best[1:] == max(each[1:] for each in scores)
    assert not [each for each in better if each[1:] >= best[1:]]


def shortest(episode: RecordedEpisode) -> float:
    """A judge that prefers short episodes, and sees no outcome."""
    assert not (episode.success or episode.reward or episode.last_observation)
    return 1 / len(episode.turns)


class Wandering:
    """Walks to the goal of NumberLine, with a detour of another length in each candidate."""

    name = "wandering"

    def __init__(self) -> None:
        self.begun = -1

    def act(self, views: Sequence[View]) -> list[str]:
        return [self.reply(view) for view in views]

    def reply(self, view: View) -> str:
        if view.instructions == WRITER:
            return "print('passed: 1 of 1')"
        self.begun += not view.history
        detour = 2 * ((self.begun + 1) % 4)  # 2, 4, 6 and 0 turns
        if len(view.history) < detour:
            return "+-"[len(view.history) % 2]
        return view.env.unwrapped.expert()  # type: ignore[attr-defined]


KWARGS: dict[str, Any] = {"tasks": 4, "env_kwargs": {"size": 8}, "num_envs": 1}


def test_the_best_candidate_by_the_judge_is_played():
    agent = make_agent("candidates:random", judge=f"{__name__}:shortest", tests="")
    assert isinstance(agent, CandidatesAgent)
    agent.agent = agent.writer = Wandering()
    found = evaluate("NumberLine-v0", agent, **KWARGS)
    expert = evaluate("NumberLine-v0", "expert", **KWARGS)
    assert [each.turns for each in found.episodes] == [each.turns for each in expert.episodes]
    for each in found.episodes:
        assert each.costs["candidates"] == 4
        assert each.costs["search_steps"] == 4 * each.turns + 2 + 4 + 6


def test_candidates_that_a_judge_cannot_read_are_counted():
    agent = CandidatesAgent(
        Wandering(), judge=lambda episodes: [type("V", (), {"score": None})] * len(episodes)
    )
    report = evaluate("NumberLine-v0", agent, **KWARGS)
    assert [each.costs["unread_values"] for each in report.episodes] == [4] * 4
    assert UNKNOWN == Verified().judged


def test_candidates_that_do_not_end_are_followed_by_new_ones():
    agent = CandidatesAgent(Wandering(), n=1, steps=2)
    report = evaluate("NumberLine-v0", agent, **KWARGS)
    for each in report.episodes:
        assert each.success and each.costs["candidates"] == -(-each.turns // 2)
        assert each.costs["search_steps"] == each.turns and "questions" not in each.costs


class Coder:
    """Repairs the program in every other candidate, and hands it in unchanged in the others."""

    name = "coder"

    def __init__(self) -> None:
        self.begun = 0

    def act(self, views: Sequence[View]) -> list[str]:
        return [self.reply(view) for view in views]

    def reply(self, view: View) -> str:
        if view.instructions == WRITER:
            assert "Hidden tests passed" not in view.observation  # of a submission
            return "```python\nprint('passed: 0 of 0')\n```"
        self.begun += not view.history
        return "submit" if self.begun % 2 else view.env.unwrapped.expert()  # type: ignore[attr-defined]


def misled(episode: RecordedEpisode) -> float:
    """A judge that prefers programs that nobody has changed."""
    return float(len(episode.turns) == 1)


def test_public_tests_correct_the_judge():
    pytest.importorskip("sandlock", reason="needs the extra code")
    options: dict[str, Any] = {"n": 2, "judge": f"{__name__}:misled"}
    success = []
    for check in ("", "test", "submit"):  # the last one would tell the outcome
        agent = make_agent("candidates:random", check=check, **options)
        assert isinstance(agent, CandidatesAgent)
        agent.agent = agent.writer = Coder()
        report = evaluate("BugFix-v0", agent, tasks=2, num_envs=1)
        success.append([bool(each.success) for each in report.episodes])
    assert success == [[False, False], [True, True], [False, False]]


def test_a_verifier_is_needed():
    with pytest.raises(ConfigError, match="Nothing verifies the candidates: set check"):
        make_agent("candidates,tests=,n=2:random")
    with pytest.raises(ConfigError, match="n must be at least 1, got 0"):
        make_agent("candidates,n=0:random")
