"""A small planner: typed STRIPS domains, their grounding, A*.

A domain is data: action schemas and one sentence per predicate. A fact is a tuple, such as
("on", "b1", "b2"). A state is the set of facts that hold.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product

from agentgym.utils.marks import ARTICLES, undressed, without_bold, without_note

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
        also: other texts of equal meaning, for example "stack {x} on top of {y}". They may name
            parameters that `text` leaves out, which then have to hold.
    """

    text: str
    parameters: str
    when: str
    then: str
    also: tuple[str, ...] = ()


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


_CALLED = re.compile(r"([a-z][a-z _-]{0,30}?) ?\(([^()]{1,99})\)")
_JOINED = {f"{verb}{mark}{way}": f"{verb} {way}" for verb, way in (("pick", "up"), ("put", "down"))
           for mark in ("-", "_", "")}  # fmt: skip


class World:
    """A domain with its objects, shared by all tasks.

    Args:
        domain: the domain.
        objects: names by type.
        fixed: facts that no action changes.

    Attributes:
        actions: every action that is possible in some state.
        named: actions by text. If several share a text, the state decides which one applies.
        worded: actions by each of their texts, without articles and words for kinds of objects.
    """

    def __init__(
        self, domain: Domain, objects: Mapping[str, Sequence[str]], fixed: Iterable[Fact] = ()
    ):
        self.domain = domain
        self.fixed = frozenset(fixed)
        self._order = {predicate: i for i, predicate in enumerate(domain.sentences)}
        changing = {fact[0] for s in domain.schemas for sign in (1, 0) for fact in _then(s, sign)}
        grounded = [
            each
            for schema in domain.schemas
            for each in _ground(schema, objects, changing, self.fixed)
        ]
        self.actions = tuple(action for action, _ in grounded)
        names = {name.removeprefix("the ") for kind in objects.values() for name in kind}
        names_pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        kinds = "|".join(re.escape(kind) for kind in ("object", *objects) if kind not in names)
        self._kinds = re.compile(
            rf"\b(?:{kinds}) (?=(?:{names_pattern})\b)|(?<![\w-])({names_pattern}) (?:{kinds})\b"
        )
        self.named: dict[str, list[Action]] = {}
        self.worded: dict[str, list[Action]] = {}
        for action, texts in grounded:
            self.named.setdefault(action.text, []).append(action)
            for text in dict.fromkeys(map(self._plain, texts)):
                self.worded.setdefault(text, []).append(action)

    def read(self, text: str) -> list[Action]:
        """Returns the actions that a text names, whether or not they are possible.

        A note in parentheses behind the action is left out, unless it names another one.
        """
        plain = self._plain(text)
        if plain not in self.worded:
            plain = self._plain(without_note(text, (*self.named, *self.worded)))
        return self.worded.get(plain, [])

    def _plain(self, text: str) -> str:
        text = undressed(without_bold(text.replace("`", "").strip().rstrip(".,;:"))).lower()
        text = " ".join(text.split()).rstrip(".,;:!")
        if called := _CALLED.fullmatch(text):  # "stack(b1, b2)"
            text = f"{called[1]} {called[2].replace(',', ' ')}"
        words = text.split()
        words[:1] = [_JOINED.get(word, word) for word in words[:1]]
        text = " ".join(word for word in words if word not in ARTICLES)
        return self._kinds.sub(lambda found: found[1] or "", text)

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
) -> Iterable[tuple[Action, list[str]]]:
    """Yields the groundings of a schema, and their texts."""
    typed = [parameter.split(":") for parameter in schema.parameters.split()]
    for chosen in product(*(objects[kind] for _, kind in typed)):
        if len(set(chosen)) < len(chosen):
            continue
        of = {name: value for (name, _), value in zip(typed, chosen, strict=True)}

        def bind(facts: Iterable[Fact], of: dict[str, str] = of) -> Facts:
            return frozenset((fact[0], *(of.get(x, x) for x in fact[1:])) for fact in facts)

        needs = bind(_facts(schema.when))
        if all(fact[0] in changing or fact in fixed for fact in needs):
            texts = [form.format(**of) for form in (schema.text, *schema.also)]
            action = Action(
                text=texts[0],
                needs=frozenset(fact for fact in needs if fact[0] in changing),
                adds=bind(_then(schema, 1)),
                deletes=bind(_then(schema, 0)),
            )
            yield action, texts


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
