"""Observations of TextWorld games, generated from the facts of the world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Fact = tuple[str, ...]
"""A predicate and its arguments: ("on", "f_1", "s_0")."""
DIRECTIONS = ("north", "south", "east", "west")
STATES = (
    *("open", "closed", "locked"),
    *("raw", "needs_cooking", "fried", "roasted", "grilled", "burned"),
    *("uncut", "sliced", "diced", "chopped"),
)
WORDS = {"needs_cooking": "raw"}


def listed(names: Iterable[str]) -> str:
    """Returns the sorted names with commas, "nothing" if there are none."""
    return ", ".join(sorted(names)) or "nothing"


def describe(facts: Iterable[Fact], names: Mapping[str, str]) -> str:
    """Returns a description of the room, its contents, the exits and the inventory.

    Args:
        facts: all facts of the world.
        names: display names of rooms and things, by their names in the facts.
    """
    facts = sorted(facts)
    here = next(fact[2] for fact in facts if fact[:2] == ("at", "P"))
    states: dict[str, list[str]] = {}
    for fact in facts:
        if len(fact) == 2 and fact[0] in STATES:
            states.setdefault(fact[1], []).append(fact[0])
    shown = {}
    for thing, name in names.items():
        words = [WORDS.get(s, s) for s in sorted(states.get(thing, ()), key=STATES.index)]
        shown[thing] = f"{name} ({', '.join(words)})" if words else name
    placed: dict[str, list[str]] = {}
    for fact in facts:
        if fact[0] in ("at", "on", "in") and fact[1] != "P" and len(fact) == 3:
            placed.setdefault(fact[2], []).append(fact[1])
    lines = [f"You are in the {names[here]}."]
    furniture = placed.get(here, [])
    lines.append(f"Here: {listed(shown[thing] for thing in furniture)}.")
    for thing in sorted(furniture, key=lambda thing: shown[thing]):
        inside = placed.get(thing, [])
        if inside and not {"closed", "locked"} & set(states.get(thing, ())):
            where = "On" if any(("on", other, thing) in facts for other in inside) else "In"
            lines.append(f"{where} the {names[thing]}: {listed(shown[x] for x in inside)}.")
    lines.append(f"Exits: {listed(_exits(facts, here, shown))}.")
    lines.append(f"You carry: {listed(shown[thing] for thing in placed.get('I', ()))}.")
    return "\n".join(lines)


def _exits(facts: list[Fact], here: str, shown: Mapping[str, str]) -> list[str]:
    doors = {fact[3]: fact[2] for fact in facts if fact[:2] == ("link", here)}
    exits = []
    for fact in facts:
        direction = fact[0].removesuffix("_of")
        if direction in DIRECTIONS and fact[2] == here:
            door = doors.get(fact[1])
            exits.append(f"{direction} through the {shown[door]}" if door else direction)
    return exits


def recipe(ingredients: Iterable[Iterable[str]]) -> str:
    """Returns the text of a recipe from (name, way of cooking, way of cutting) per ingredient."""
    steps = []
    for name, *ways in ingredients:
        todo = [way for way in ways if way not in ("raw", "uncut")]
        steps.append(f"{name} ({', '.join(todo)})" if todo else name)
    return f"Recipe: {'; '.join(steps)}. Then prepare the meal in the kitchen and eat it."
