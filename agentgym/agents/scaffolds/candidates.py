"""`CandidatesAgent`: plays whole candidates on snapshots, verifies them, and plays the best."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import Program, ScaffoldAgent, check_counts, transcript
from agentgym.agents.search.simulator import Node, Simulator
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.errors import ConfigError

TEST = (
    "Write a program that tests whether a solution of the task is right, for this attempt and for "
    "others. It runs before a solution is handed in. Its output must hold the line `passed: N of "
    "M`, with the numbers of tests that pass and of all tests. Reply with the program alone, in a "
    "code block."
)
UNKNOWN = 0.5
"""Score of a candidate that the judge cannot read."""
LEAST = 3
"""Candidates that the judge leaves to the tests, at least."""
_PASSED = re.compile(r"passed\W{0,3}(\d{1,6})\s*(?:of|/)\s*(\d{1,6})", re.IGNORECASE)


class Verified(NamedTuple):
    """The scores in [0, 1] of a candidate.

    Attributes:
        judged: by the judge.
        checked: share of the tests of `check` that pass.
        tested: share of the written tests that pass.
    """

    judged: float = UNKNOWN
    checked: float = 0.0
    tested: float = 0.0


class CandidatesAgent(ScaffoldAgent):
    """Plays several whole candidates on snapshots, verifies each, and plays the best.

    The hybrid verifier of "R2E-Gym: Procedural Environments and Hybrid Verifiers for Scaling
    Open-Weights SWE Agents" (arXiv 2504.07164): the better half of the candidates by the judge, at
    least three, goes to the tests, which decide, and the judge decides between equal ones. Tests
    run in the state before the last action of a candidate. Neither they nor the judge learn the
    outcome of the episode or its last observation.

    A candidate that has not ended after `steps`, or takes another course than before, is followed
    by new ones. The agent inside must sample its actions, or all candidates are equal. `View.costs`
    counts `candidates`, `search_steps` (environment steps on snapshots) and `unread_values`
    (candidates that the judge cannot read).

    Args:
        agent: the agent that plays the candidates.
        n: number of candidates.
        steps: environment steps of a candidate, at most.
        check: an action of the environment that tests a solution and whose observation says how
            many tests have passed, as in "Public tests passed: 3 of 4" (`test` in `BugFix-v0`). One
            that ends the episode tests nothing.
        tests: an action that runs a program, whose text follows on the next line, for tests that
            the agent writes once it has played a candidate. Empty: it writes none.
        judge: judge of whole episodes, see `agentgym.judges.make_judge`.
        name: name in reports.

    Raises:
        ConfigError: if a number is below 1, or nothing verifies the candidates.
    """

    kind = "candidates"

    def __init__(
        self,
        agent: Agent,
        *,
        n: int = 4,
        steps: int = 30,
        check: str = "",
        tests: str = "run",
        judge: Callable[[Sequence[RecordedEpisode]], Sequence[Any]] | None = None,
        name: str | None = None,
    ):
        super().__init__(agent, name=name)
        check_counts(n=n, steps=steps)
        if not (check or tests or judge):
            raise ConfigError(
                "Nothing verifies the candidates: set check to an action that tests a solution, "
                "such as check=test, tests to one that runs a program, such as tests=run, or judge."
            )
        self.rehearses, self.n, self.steps = True, n, steps
        self.check, self.tests, self.judge = check, tests, judge

    def program(self, view: View) -> Program[None]:
        """Plays the best candidates, one after another."""
        while True:
            best = yield from self._best(view)
            for node in best.path:
                yield node.action
                if view.observation != node.observation:
                    break

    def _best(self, view: View) -> Program[Node]:
        """Returns the last state of the best candidate."""
        written = ""
        with Simulator(view, self.n * (self.steps + 2)) as sim:
            found: dict[tuple[str, ...], Node] = {}
            for _ in range(self.n):
                node = yield from self._candidate(view, sim)
                found.setdefault(tuple(each.action for each in node.path), node)
            nodes = list(found.values())
            if self.tests and len(nodes) > 1:
                written = yield from self._write_tests(view, nodes[0])
            judged = self._judge(view, nodes)
            scores = [
                Verified(score, passed(sim, node, self.check), passed(sim, node, written))
                for score, node in zip(judged, nodes, strict=True)
            ]
        view.costs["search_steps"] += sim.steps
        view.costs["candidates"] += self.n
        return nodes[select(scores)]

    def _candidate(self, view: View, sim: Simulator) -> Program[Node]:
        """Plays a candidate on snapshots and returns its last state."""
        node, own = sim.root, sim.view_of(sim.root)
        while node is sim.root or not (node.over or node.depth == self.steps):
            action = yield self.agent, own
            node = sim.step(node, action)
            own.history.append((own.observation, action))
            own.observation, own.info = node.observation, node.info
        view.costs.update(own.costs)
        return node

    def _write_tests(self, view: View, node: Node) -> Program[str]:
        """Returns the action that runs tests, which are written after a candidate."""
        turns = [(each.parent.observation, each.action) for each in node.path if each.parent]
        attempt = transcript(turns[:-1], solution(node).observation)
        written = yield from self.write(view, "An attempt:", attempt, TEST)
        return f"{self.tests}\n{written}"

    def _judge(self, view: View, nodes: Sequence[Node]) -> list[float]:
        if self.judge is None:
            return [UNKNOWN] * len(nodes)
        verdicts = self.judge([recorded(view, node) for node in nodes])
        view.costs["unread_values"] += sum(each.score is None for each in verdicts)
        return [UNKNOWN if each.score is None else each.score for each in verdicts]


def solution(node: Node) -> Node:
    """Returns the state of a candidate that is tested: that before an action that has ended it."""
    return node.parent if node.over and node.parent is not None else node


def passed(sim: Simulator, node: Node, action: str) -> float:
    """Returns the share of the tests of an action that a candidate passes, 0 if none are named.

    An action that ends the episode, as one that hands the solution in, tells the outcome. It is no
    test.
    """
    if not action:
        return 0.0
    tested = sim.step(solution(node), action)
    found = _PASSED.search(tested.observation)
    if found is None or tested.terminated:
        return 0.0
    return min(int(found[1]) / max(int(found[2]), 1), 1.0)


def recorded(view: View, node: Node) -> RecordedEpisode:
    """Returns a candidate as a judge reads it, without rewards and outcome."""
    before = [RecordedTurn(observation, action) for observation, action in view.history]
    turns = [RecordedTurn(n.parent.observation, n.action) for n in node.path if n.parent]
    last = "" if node.over else node.observation
    return RecordedEpisode(
        [*before, *turns],
        view.instructions,
        task=view.info.get("task", ""),
        terminated=node.terminated,
        last_observation=last,
    )


def select(scores: Sequence[Verified]) -> int:
    """Returns the index of the best candidate, the first of equal ones."""
    order = sorted(range(len(scores)), key=lambda i: scores[i], reverse=True)
    top = order[: max(LEAST, len(scores) // 2)]
    return max(top, key=lambda i: (scores[i].checked, scores[i].tested, scores[i].judged))
