"""Search algorithms: best-first search, A*, beam search and Monte-Carlo tree search (MCTS).

Each one takes a `Rehearsal` and a `Guide`, and returns the states of its plan, in order.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from agentgym.agents.search.simulator import Node, Rehearsal


class Guide(Protocol):
    """The knowledge of a search.

    Attributes:
        visited: keys of the states that the episode has passed.
        exploration: the constant c of MCTS.
        turns: turns from progress 0 to the goal, which A* expects.
        beams: states that beam search keeps.
    """

    visited: set[str]
    exploration: float
    turns: float
    beams: int

    def propose(self, node: Node) -> Sequence[str]:
        """Returns the actions to try in a state, the most promising first."""
        ...

    def evaluate(self, nodes: Sequence[Node]) -> None:
        """Sets the values of states."""
        ...


def best_first(sim: Rehearsal, guide: Guide) -> list[Node]:
    """Expands the state with the highest value first.

    "Tree Search for Language Model Agents" (arXiv 2407.01476).
    """
    return _graph_search(sim, guide, lambda node: -node.value)


def astar(sim: Rehearsal, guide: Guide) -> list[Node]:
    """Expands the state with the lowest f = g + h first.

    g is the number of actions so far, and h = turns (1 - value) the number that is left. As in
    "ToolChain*" (arXiv 2310.13227), h is an estimate, so that the first plan need not be the
    shortest.
    """
    return _graph_search(
        sim, guide, lambda node: node.depth + guide.turns * max(0.0, 1.0 - node.value)
    )


def _graph_search(sim: Rehearsal, guide: Guide, priority: Callable[[Node], float]) -> list[Node]:
    """Expands the states in order of priority, the lowest number first, each state once.

    A state that is reached again by fewer actions takes the place of the earlier one.
    """
    number = count()
    frontier = [(0.0, next(number), sim.root)]
    depths = {sim.root.key: 0}
    found: list[Node] = []
    while frontier and not sim.spent:
        _, _, node = heapq.heappop(frontier)
        children = list(_children(sim, guide, node))
        fresh = []
        for child in children:
            if child.depth < depths.get(child.key, math.inf):
                depths[child.key] = child.depth
                fresh.append(child)
        guide.evaluate(fresh)
        found += fresh or children[:1]
        for child in fresh:
            if child.solved:
                return child.path
            if not child.over:
                heapq.heappush(frontier, (priority(child), next(number), child))
    return best_plan(found, guide.visited)


def beam(sim: Rehearsal, guide: Guide) -> list[Node]:
    """Expands the best states of each depth, each state once.

    With a judge as the value, it is the step-level beam search of "AgentRM: Enhancing Agent
    Generalization with Reward Modeling" (arXiv 2502.18407).
    """
    level, keys = [sim.root], {sim.root.key}
    found: list[Node] = []
    while level and not sim.spent:
        children = [child for node in level for child in _children(sim, guide, node)]
        fresh = list({child.key: child for child in children if child.key not in keys}.values())
        keys |= {child.key for child in fresh}
        guide.evaluate(fresh)
        found += fresh or children[:1]
        for child in fresh:
            if child.solved:
                return child.path
        going_on = [child for child in fresh if not child.over]
        level = sorted(going_on, key=lambda node: -node.value)[: guide.beams]
    return best_plan(found, guide.visited)


def _children(sim: Rehearsal, guide: Guide, node: Node) -> Iterator[Node]:
    """Yields the states after the proposed actions, up to a solution or the end of the budget."""
    for action in guide.propose(node):
        if sim.stopped:
            return
        child = sim.step(node, action)
        yield child
        if child.solved:
            return


def best_plan(found: Sequence[Node], visited: set[str]) -> list[Node]:
    """Returns the path to the best of the states that were found.

    States that the episode has not passed come first, dead ends last: ends of the episode that are
    no better than another state. Then the value decides, and then the depth, so that a search in a
    plateau moves on.
    """
    floor = max((node.value for node in found if not node.over), default=-math.inf)

    def rank(node: Node) -> tuple[int, float, int]:
        dead_end = node.over and not node.solved and node.value <= floor
        kind = 0 if dead_end else 1 if node.key in visited else 2
        return kind, node.value, node.depth

    return max(found, key=rank).path


@dataclass(eq=False, slots=True)
class Edge:
    """An action in a state of the tree.

    Attributes:
        action: the action.
        visits: number of simulations through it.
        total: sum of their values.
        outcomes: the states that it has led to, by key.
        closed: whether further simulations through it cannot find anything new.
    """

    action: str
    visits: int = 0
    total: float = 0.0
    outcomes: dict[str, State] = field(default_factory=dict)
    closed: bool = False

    @property
    def certain(self) -> State | None:
        """The state that the action always leads to, None if it depends on chance or is unknown."""
        return next((state for state in self.outcomes.values() if not state.node.chance), None)


@dataclass(eq=False, slots=True)
class State:
    """A state of the tree of MCTS.

    Attributes:
        node: the state.
        edges: its actions. None: not proposed yet.
    """

    node: Node
    edges: list[Edge] | None = None

    def select(self, exploration: float) -> Edge | None:
        """Returns the open edge with the highest bound, None if there is none."""
        bound = self._bound(exploration)
        return max((edge for edge in self.edges or () if not edge.closed), key=bound, default=None)

    def choose(self, exploration: float) -> Edge:
        """Returns the edge with the highest lower bound. The value of a closed edge is exact."""
        lower, exact = self._bound(-exploration), self._bound(0.0)
        tried = [edge for edge in self.edges or () if edge.visits]
        return max(tried, key=lambda edge: exact(edge) if edge.closed else lower(edge))

    def _bound(self, exploration: float) -> Callable[[Edge], float]:
        """Returns Q + c sqrt(ln N / (1 + n)) of edges.

        Q of an action that was not tried is the mean value of the others.
        """
        edges = self.edges or []
        visits = sum(edge.visits for edge in edges)
        mean = sum(edge.total for edge in edges) / max(visits, 1)
        spread = math.log(max(visits, 1))

        def bound(edge: Edge) -> float:
            q = edge.total / edge.visits if edge.visits else mean
            return q + exploration * math.sqrt(spread / (1 + edge.visits))

        return bound


@dataclass(eq=False, slots=True)
class Tree:
    """The tree of MCTS.

    Attributes:
        root: the state of the episode.
        found: the other states, by key.
    """

    root: State
    found: dict[str, Node] = field(default_factory=dict)

    @property
    def exhausted(self) -> bool:
        """Whether no simulation can find anything new."""
        return self.root.edges is not None and all(edge.closed for edge in self.root.edges)

    @property
    def solution(self) -> Node | None:
        """The newest state, if it is a success without chance events on the way."""
        last = next(reversed(self.found.values()))
        return last if last.solved and not any(node.chance for node in last.path) else None


def mcts(sim: Rehearsal, guide: Guide) -> list[Node]:
    """Monte-Carlo tree search with UCT (Kocsis & Szepesvari, 2006), one new state per simulation.

    An action whose outcome depends on chance is played anew in every simulation, so that its value
    is a mean over outcomes. States that are in the tree already are not expanded twice. Without
    chance, the plan leads to the best state of the tree. With chance, it is the action whose value
    has the highest lower bound, Q - c sqrt(ln N / (1 + n)).
    """
    tree = Tree(State(sim.root))
    while not (sim.spent or tree.exhausted):
        _simulate(sim, guide, tree.root, tree.found)
        if (solution := tree.solution) is not None:
            return solution.path
    if not sim.chance:
        return best_plan(list(tree.found.values()), guide.visited)
    return [next(iter(tree.root.choose(guide.exploration).outcomes.values())).node]


def _simulate(sim: Rehearsal, guide: Guide, root: State, found: dict[str, Node]) -> None:
    """Walks down the tree to a new state, or to an end, and backs up its value."""
    state, path = root, list[Edge]()
    while True:
        if state.edges is None:
            state.edges = [] if state.node.over else [Edge(a) for a in guide.propose(state.node)]
        edge = state.select(guide.exploration)
        if edge is None:  # nothing is left to try here
            break
        path.append(edge)
        if edge.certain is not None:
            state = edge.certain
            continue
        if sim.stopped:
            path.pop()
            break
        child = sim.step(state.node, edge.action)
        if child.key in edge.outcomes:
            state = edge.outcomes[child.key]
            continue
        guide.evaluate([child])
        state = edge.outcomes[child.key] = State(child)
        known = child.key in found or child.key == sim.root.key
        edge.closed = not child.chance and (known or child.over)
        found.setdefault(child.key, child)
        break
    if path and state.edges is not None and all(e.closed for e in state.edges):
        path[-1].closed |= path[-1].certain is not None
    for edge in path:
        edge.visits += 1
        edge.total += state.node.value
