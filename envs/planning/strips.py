"""A small planner: typed STRIPS domains, their grounding, A*.

A domain is data: action schemas and one sentence per predicate. A fact is a tuple, such as
("on", "b1", "b2"). A state is the set of facts that hold.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product

Fact = tuple[str, ...]
Facts = frozenset[Fact]
Estimate = Callable[[Facts, Facts], int]
"""(facts, goal) -> a lower bound of the number of actions to the goal."""


@dataclass(frozen=True)
class Schema:
    """An action with parameters.

    Attributes:
        text: action text, for example "stack {x} on {y}".
        parameters: names and types, for example "x:block y:block". Two parameters never refer to
            the same object.
        when: preconditions, for example "holding x, clear y".
        then: effects, for example "on x y, clear x, empty, not holding x, not clear y".
    """

    text: str
    parameters: str
    when: str
    then: str


@dataclass(frozen=True)
class Domain:
    """Predicates and action schemas.

    Attributes:
        sentences: sentence per visible predicate, with one pair of braces per argument, in the
            order of display.
        schemas: the actions.
    """

    sentences: Mapping[str, str]
    schemas: Sequence[Schema]


@dataclass(frozen=True, eq=False)
class Action:
    """A grounded action."""

    text: str
    needs: Facts
    adds: Facts
    deletes: Facts

    def __call__(self, facts: Facts) -> Facts:
        """Returns the facts after the action."""
        return facts - self.deletes | self.adds


class World:
    """A domain with its objects, shared by all tasks.

    Args:
        domain: the domain.
        objects: names by type.
        fixed: facts that no action changes.

    Attributes:
        actions: every action that is possible in some state.
        named: actions by text. If several share a text, the state decides which one applies.
    """

    def __init__(
        self, domain: Domain, objects: Mapping[str, Sequence[str]], fixed: Iterable[Fact] = ()
    ):
        self.domain = domain
        self.fixed = frozenset(fixed)
        self._order = {predicate: i for i, predicate in enumerate(domain.sentences)}
        changing = {fact[0] for s in domain.schemas for sign in (1, 0) for fact in _then(s, sign)}
        self.actions = tuple(
            action
            for schema in domain.schemas
            for action in _ground(schema, objects, changing, self.fixed)
        )
        self.named: dict[str, list[Action]] = {}
        for action in self.actions:
            self.named.setdefault(action.text, []).append(action)

    def possible(self, facts: Facts) -> list[Action]:
        """Returns the actions with satisfied preconditions."""
        return [action for action in self.actions if action.needs <= facts]

    def sentence(self, fact: Fact) -> str:
        """Returns the sentence of a fact, or "" if it is not visible."""
        return self.domain.sentences.get(fact[0], "").format(*fact[1:])

    def describe(self, facts: Iterable[Fact]) -> str:
        """Returns the sentences of the facts in a fixed order, one line per predicate."""
        lines: dict[int, list[str]] = {}
        shown = [(self._order[fact[0]], fact) for fact in facts if fact[0] in self._order]
        for number, fact in sorted(shown):
            lines.setdefault(number, []).append(self.sentence(fact) + ".")
        return "\n".join(" ".join(line) for line in lines.values())


def _ground(
    schema: Schema, objects: Mapping[str, Sequence[str]], changing: set[str], fixed: Facts
) -> Iterable[Action]:
    """Yields the groundings of a schema."""
    typed = [parameter.split(":") for parameter in schema.parameters.split()]
    for chosen in product(*(objects[kind] for _, kind in typed)):
        if len(set(chosen)) < len(chosen):
            continue
        of = {name: value for (name, _), value in zip(typed, chosen, strict=True)}

        def bind(facts: Iterable[Fact], of: dict[str, str] = of) -> Facts:
            return frozenset((fact[0], *(of.get(x, x) for x in fact[1:])) for fact in facts)

        needs = bind(_facts(schema.when))
        if all(fact[0] in changing or fact in fixed for fact in needs):
            yield Action(
                text=schema.text.format(**of),
                needs=frozenset(fact for fact in needs if fact[0] in changing),
                adds=bind(_then(schema, 1)),
                deletes=bind(_then(schema, 0)),
            )


def _facts(text: str) -> list[Fact]:
    return [tuple(part.split()) for part in text.split(",")]


def _then(schema: Schema, sign: int) -> list[Fact]:
    """Returns the facts that a schema adds (1) or deletes (0)."""
    facts = _facts(schema.then)
    return [f for f in facts if f[0] != "not"] if sign else [f[1:] for f in facts if f[0] == "not"]


def search(
    world: World,
    facts: Facts,
    goal: Facts,
    estimate: Estimate,
    *,
    weight: int = 1,
    limit: int | None = None,
) -> list[tuple[Facts, Action]] | None:
    """Finds a plan by A*.

    Args:
        world: the actions.
        facts: initial state.
        goal: facts that must hold.
        estimate: lower bound of the number of actions to the goal.
        weight: factor of the estimate. 1 finds a shortest plan, larger values find longer plans
            faster.
        limit: maximum number of expanded states. None means no limit.

    Returns:
        States and the action to take in each, or None if there is no plan within the limit.
    """
    order = count()
    left = estimate(facts, goal)
    queue = [(weight * left, left, 0, next(order), facts)]
    best: dict[Facts, int] = {facts: 0}
    came: dict[Facts, tuple[Facts, Action]] = {}
    seen = 0
    while queue:
        _, _, depth, _, facts = heapq.heappop(queue)
        if depth > best[facts]:
            continue
        if goal <= facts:
            return _way(facts, came)
        seen += 1
        if seen == limit:
            return None
        for action in world.possible(facts):
            after = action(facts)
            if depth + 1 < best.get(after, depth + 2):
                best[after] = depth + 1
                came[after] = facts, action
                left = estimate(after, goal)
                # Ties go to the state closest to the goal.
                total = depth + 1 + weight * left
                heapq.heappush(queue, (total, left, depth + 1, next(order), after))
    return None


def _way(facts: Facts, came: Mapping[Facts, tuple[Facts, Action]]) -> list[tuple[Facts, Action]]:
    way = []
    while facts in came:
        facts, action = came[facts]
        way.append((facts, action))
    return way[::-1]


def plan(
    world: World, facts: Facts, goal: Facts, estimate: Estimate
) -> list[tuple[Facts, Action]] | None:
    """Returns a plan as `search` does, which is a shortest one unless the search is too long."""
    for weight, limit in ((1, 10_000), (2, 10_000), (5, None)):
        way = search(world, facts, goal, estimate, weight=weight, limit=limit)
        if way is not None:
            return way
    return None
