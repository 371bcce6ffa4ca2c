"""`MixedAgent`: its actions, and its exact evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from agentgym.agents import MixedAgent, RandomAgent, ScriptedAgent, View
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate, nashconv
from agentgym.evaluation.exploitability import action_probabilities


class Fixed:
    """Takes the admissible action of one number, or the last one."""

    def __init__(self, number: int):
        self.number, self.name = number, f"fixed {number}"

    def act(self, views):
        return [view.info["admissible"][self.number] for view in views]

    def probabilities(self, views):
        return [np.eye(len(view.info["admissible"]))[self.number] for view in views]


def views(count: int) -> list[View]:
    return [View.of_text("", "", info={"admissible": ("a", "b")}, seed=i) for i in range(count)]


def test_an_episode_has_one_member_sampled_by_weight():
    agent = MixedAgent([Fixed(0), Fixed(1)], [1, 3])
    episodes = views(400)
    first = agent.act(episodes)
    assert agent.act(episodes[::-1]) == first[::-1]
    assert Counter(first)["b"] / 400 == pytest.approx(0.75, abs=0.08)


@pytest.mark.parametrize("weights", [[1], [1, -1], [0, 0], [1, np.inf]])
def test_weights_that_are_no_distribution_are_explained(weights):
    with pytest.raises(ConfigError, match="Expected 2 weights"):
        MixedAgent([Fixed(0), Fixed(1)], weights)


def test_a_mixture_plays_with_the_wrappers_of_its_members():
    class Tagged(RandomAgent):
        wrap = ("ExtractAction:format=tags",)

    agent = MixedAgent([Tagged(), Tagged()], [1, 1])
    report = evaluate("TicTacToe-v0", agent, tasks=2)
    assert report.env_kwargs["wrap"] == [*Tagged.wrap]
    assert report.aggregate()["valid"].mean == 1
    with pytest.raises(ConfigError, match="'mixed' needs the wrappers ExtractAction"):
        nashconv("KuhnPoker-v0", agent)
    with pytest.raises(ConfigError, match="need different wrappers"):
        MixedAgent([Tagged(), RandomAgent()], [1, 1])


def test_a_mixture_of_one_member_has_its_values():
    for level in ("random", "maniac"):
        alone = nashconv("KuhnPoker-v0", level)
        twice = MixedAgent([ScriptedAgent(level), ScriptedAgent("random")], [1, 0])
        mixed = nashconv("KuhnPoker-v0", twice)
        assert mixed.values == pytest.approx(alone.values)
        assert mixed.nashconv == pytest.approx(alone.nashconv)


def test_values_of_a_mixture_are_means_over_pairs_of_members():
    """The first player checks or bets for the whole hand: its turns are not independent."""
    members, weights = [Fixed(0), Fixed(1), ScriptedAgent("equilibrium")], [0.5, 0.3, 0.2]
    mixed = nashconv("KuhnPoker-v0", MixedAgent(members, weights))
    pairs = [
        p * q * np.array(nashconv("KuhnPoker-v0", [a, b]).values)
        for a, p in zip(members, weights, strict=True)
        for b, q in zip(members, weights, strict=True)
    ]
    assert mixed.values == pytest.approx(sum(pairs))
    one = nashconv("KuhnPoker-v0", [MixedAgent(members, weights), ScriptedAgent("equilibrium")])
    against = [nashconv("KuhnPoker-v0", [a, "equilibrium"]).values[0] for a in members]
    assert one.values[0] == pytest.approx(np.dot(weights, against))


def test_a_mixture_within_a_mixture_keeps_its_member_too():
    inner = MixedAgent([Fixed(0), Fixed(1)], [1, 3])
    nested = nashconv("KuhnPoker-v0", MixedAgent([inner, ScriptedAgent("maniac")], [1, 1]))
    flat = MixedAgent([Fixed(0), Fixed(1), ScriptedAgent("maniac")], [1, 3, 4])
    assert nested.best_responses == pytest.approx(nashconv("KuhnPoker-v0", flat).best_responses)


def test_sampled_actions_do_not_share_what_an_agent_remembers():
    class Moody:
        name = "moody"

        def act(self, views: Sequence[View]) -> list[str]:
            """Acts as the first one of an episode does, which is random."""
            moods = [view.memory.setdefault("mood", view.rng.integers(2)) for view in views]
            return [view.info["admissible"][mood] for view, mood in zip(views, moods, strict=True)]

    [shares] = action_probabilities(Moody(), views(1), samples=400)
    assert shares == pytest.approx([0.5, 0.5], abs=0.08)
