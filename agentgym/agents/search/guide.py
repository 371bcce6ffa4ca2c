"""The knowledge of a search: proposals of actions and values of states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from agentgym.agents.basic.random import RandomAgent, write_answer
from agentgym.agents.basic.view import View
from agentgym.agents.search.simulator import Node, Rehearsal
from agentgym.errors import ConfigError

Value = Literal["progress", "policy", "random", "critic", "judge", "code"]


@dataclass(frozen=True)
class Settings:
    """Settings of a search: see `SearchAgent`."""

    value: Value
    policy: Any
    judge: Any
    width: int | None
    rollouts: int
    exploration: float
    turns: float
    beams: int


@dataclass
class SearchGuide:
    """Proposes actions and values states of a search, see `tree.Guide`.

    Args:
        sim: the simulator of the search.
        settings: the settings.
        visited: keys of the states that the episode has passed.
        earned: sum of the rewards of the episode before the search.
    """

    sim: Rehearsal
    settings: Settings
    visited: set[str] = field(default_factory=set)
    earned: float = 0.0

    def __post_init__(self) -> None:
        """Reads the numbers of the algorithms."""
        settings = self.settings
        self.exploration, self.turns = settings.exploration, settings.turns
        self.beams = settings.beams

    def propose(self, node: Node) -> Sequence[str]:
        """Returns the admissible actions in random order, or those that the policy prefers.

        A policy's actions are the `width` most probable ones, or as many samples without
        duplicates where it has no probabilities.

        Raises:
            ConfigError: if the set of actions is open and there is no policy.
        """
        policy, view = self.settings.policy, self.sim.view_of(node)
        admissible = view.info["admissible"]
        if policy is None:
            if not admissible:
                raise ConfigError(
                    f"{view.env} lists no admissible actions at turn {view.info['turn']}: a search "
                    "needs a policy that proposes some, such as policy=FOLDER or "
                    "policy=chat:MODEL@URL."
                )
            order = view.rng.permutation(len(admissible))[: self.settings.width]
            return [write_answer(view, admissible[i]) for i in order]
        width = self.settings.width or 5
        if admissible and getattr(policy, "probabilities", None) is not None:
            [shares] = policy.probabilities([view])
            best = np.argsort(-shares, kind="stable")[:width]
            return [write_answer(view, admissible[i]) for i in best]
        return list(dict.fromkeys(policy.act([self.sim.view_of(node) for _ in range(width)])))

    def evaluate(self, nodes: Sequence[Node]) -> None:
        """Sets the values of states. An ended episode is worth its progress or its rewards."""
        kind = self.settings.value
        if kind == "progress":
            for node in nodes:
                node.value = float(node.info["progress"])
            return
        going_on = [node for node in nodes if not node.over]
        for node in nodes:
            node.value = node.reward
        for node, value in zip(going_on, _RETURNS[kind](self, going_on), strict=True):
            node.value = value

    def _rollouts(self, agent: Any, nodes: Sequence[Node]) -> list[float]:
        """Returns the mean return of episodes that an agent plays on, up to the budget."""
        count = self.settings.rollouts
        return [
            float(np.mean([self._play(agent, node).reward for _ in range(count)])) for node in nodes
        ]

    def _play(self, agent: Any, node: Node) -> Node:
        """Plays an episode on and returns its last state."""
        while not (node.over or self.sim.spent):
            [action] = agent.act([self.sim.view_of(node)])
            node = self.sim.step(node, action)
        return node

    def _critic(self, nodes: Sequence[Node]) -> list[float]:
        """Returns the rewards so far and the critic's value of the rest."""
        if not nodes:
            return []
        values = self.settings.policy.values(self.sim.views_of(nodes))
        return [node.reward + float(v) for node, v in zip(nodes, values, strict=True)]

    def _judge(self, nodes: Sequence[Node]) -> list[float]:
        """Returns the return from the search on that the judge expects after the last action.

        A score of the whole episode includes the rewards before the search. One of the rest leaves
        out those before the action. The state of the episode, without an action, has the value 0.
        """
        acted = [(node.parent, node) for node in nodes if node.parent is not None]
        if not acted:
            return [0.0] * len(nodes)
        views: list[View] = self.sim.views_of([parent for parent, _ in acted])
        whole = getattr(self.settings.judge, "whole", False)
        scores = self.settings.judge.scores(views, [node.action for _, node in acted])
        found = {
            id(node): float(score) + (-self.earned if whole else parent.reward)
            for (parent, node), score in zip(acted, scores, strict=True)
        }
        return [found.get(id(node), 0.0) for node in nodes]

    def _code(self, nodes: Sequence[Node]) -> list[float]:
        """Returns what a program finds in the observations."""
        return self.settings.judge.values([node.observation for node in nodes])


_RETURNS: dict[str, Callable[[SearchGuide, Sequence[Node]], list[float]]] = {
    "policy": lambda guide, nodes: guide._rollouts(guide.settings.policy, nodes),
    "random": lambda guide, nodes: guide._rollouts(RandomAgent(), nodes),
    "critic": SearchGuide._critic,
    "judge": SearchGuide._judge,
    "code": SearchGuide._code,
}
"""Kinds of values that estimate the return of the episode."""
