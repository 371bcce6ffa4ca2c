"""The rules of a household: commands, their preconditions and effects, and progress."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from agentgym.envs.household.levels import Level
from agentgym.envs.household.things import APPLIANCES, LAMP, OPENABLE, kind_of, kinds

HAND = "hand"
TREATED = {"clean": "clean", "heat": "hot", "cool": "cold"}
"""The state of a thing after each treatment."""

Command = tuple[str, str, str]
"""Verb, thing and receptacle ("" for an unused part)."""

_NAME = "([a-z]+ [0-9]{1,4})"
_PATTERNS = [
    (re.compile(pattern.replace("NAME", _NAME)), verb, order)
    for pattern, verb, order in (
        ("(?:go|walk) to NAME", "go", " 1"),
        ("open NAME", "open", " 1"),
        ("close NAME", "close", " 1"),
        ("(?:take|pick up|grab) NAME from NAME", "take", "12"),
        ("(?:put|move|place) NAME (?:in/on|in|on|to|into|onto) NAME", "put", "12"),
        ("clean NAME (?:with|using|in) NAME", "clean", "12"),
        ("heat NAME (?:with|using|in) NAME", "heat", "12"),
        ("cool NAME (?:with|using|in) NAME", "cool", "12"),
        ("(?:use|toggle|turn on|turn off) NAME(?: NAME)?", "use", "1 "),
        ("(?:examine|look at) NAME", "examine", "1 "),
        ("look(?: around)?", "look", "  "),
        ("inventory", "inventory", "  "),
        ("help", "help", "  "),
    )
]


@dataclass
class State:
    """The variable state of a household.

    Attributes:
        at: receptacle where the agent is, "" in the middle of the room.
        places: receptacle of each thing, or `HAND`.
        opened: receptacles that are open.
        treated: things with each treatment ("cool" undoes "heat").
        lit: lamps that are on.
        checked: receptacles whose contents the agent has seen.
    """

    at: str
    places: dict[str, str]
    opened: set[str] = field(default_factory=set)
    treated: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in TREATED})
    lit: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)

    @property
    def held(self) -> str:
        """The thing in the agent's hand, or ""."""
        return next((thing for thing, place in self.places.items() if place == HAND), "")

    def closed(self, place: str) -> bool:
        """Whether a receptacle is closed."""
        return kind_of(place) in OPENABLE and place not in self.opened

    def inside(self, place: str) -> list[str]:
        """The things in or on a receptacle."""
        return [thing for thing, there in self.places.items() if there == place]

    def seen(self) -> list[str]:
        """The things that are visible to the agent."""
        return [] if not self.at or self.closed(self.at) else self.inside(self.at)

    def copy(self) -> State:
        """Returns a copy that shares nothing that changes."""
        treated = {name: set(things) for name, things in self.treated.items()}
        places, opened, lit = dict(self.places), set(self.opened), set(self.lit)
        return State(self.at, places, opened, treated, lit, set(self.checked))


def parse(action: str) -> Command | None:
    """Parses an action into a command, possible or not. Returns None if it is no command."""
    if len(action) > 200:
        return None
    words = [
        word for word in action.strip().rstrip(".").lower().split() if word not in ("a", "the")
    ]
    text = " ".join(words)
    for pattern, verb, order in _PATTERNS:
        match = pattern.fullmatch(text)
        if match:
            thing, place = ("" if slot == " " else match[int(slot)] for slot in order)
            return verb, thing, place
    return None


def refusal(level: Level, state: State, command: Command) -> str:
    """Returns why a command is impossible in the state, "" if it is possible."""
    verb, thing, place = command
    if place and place not in level.home.receptacles:
        return f"There is no {place} in this room."
    if place and verb != "go" and place != state.at:
        return f"You are not at {place}: go there first."
    if verb in ("open", "close"):
        if kind_of(place) not in OPENABLE:
            return f"The {kind_of(place)} cannot be opened or closed."
        if (place in state.opened) == (verb == "open"):
            return f"{place} is already {'open' if verb == 'open' else 'closed'}."
    elif verb == "take":
        if state.held:
            return f"Your hand is full: you are holding {state.held}."
        if thing not in state.seen():
            return f"{place} is closed." if state.closed(place) else f"There is no {thing} here."
        if kind_of(thing) == LAMP:
            return "The desklamp cannot be moved."
    elif verb == "use" and (thing not in state.seen() or kind_of(thing) != LAMP):
        return f"You cannot use {thing} here."
    elif verb == "examine" and thing not in (state.at, state.held, *state.seen()):
        return f"There is no {thing} here."
    elif verb == "put" or verb in APPLIANCES:
        return _hand_refusal(state, command)
    return ""


def _hand_refusal(state: State, command: Command) -> str:
    """Returns why a command with the thing in hand is impossible, "" if it is possible."""
    verb, thing, place = command
    if thing != state.held or not thing:
        return f"You are not holding {thing}."
    if verb == "put":
        if state.closed(place):
            return f"{place} is closed."
        if kind_of(place) not in kinds()[kind_of(thing)].fits:
            return f"The {kind_of(thing)} does not belong there."
    elif kind_of(place) != APPLIANCES[verb]:
        return f"You {verb} things with a {APPLIANCES[verb]}."
    elif verb not in kinds()[kind_of(thing)].treatments:
        return f"You cannot {verb} a {kind_of(thing)}."
    return ""


def apply(state: State, command: Command) -> str:
    """Applies a possible command to the state and returns the feedback."""
    verb, thing, place = command
    feedback = ""
    if verb == "go":
        state.at = place
    elif verb == "open":
        state.opened.add(place)
        feedback = f"You open {place}."
    elif verb == "close":
        state.opened.discard(place)
        feedback = f"You close {place}."
    elif verb == "take":
        state.places[thing] = HAND
        feedback = f"You take {thing} from {place}."
    elif verb == "put":
        state.places[thing] = place
        feedback = f"You put {thing} {preposition(place)} {place}."
    elif verb in APPLIANCES:
        state.treated[verb].add(thing)
        if verb != "clean":
            state.treated["heat" if verb == "cool" else "cool"].discard(thing)
        feedback = f"You {verb} {thing} with {place}."
    elif verb == "use":
        state.lit ^= {thing}
        feedback = f"You turn {thing} {'on' if thing in state.lit else 'off'}."
    if state.at and not state.closed(state.at):
        state.checked.add(state.at)
    return feedback


def preposition(place: str) -> str:
    """Returns "in" or "on", for a receptacle or a kind of receptacle."""
    kind = kind_of(place) or place
    hollow = kind in OPENABLE or kind.endswith(("basin", "can", "toaster"))
    return "in" if hollow else "on"


def say(command: Command) -> str:
    """Returns the action text of a command."""
    verb, thing, place = command
    if verb == "go":
        return f"go to {place}"
    if verb == "take":
        return f"take {thing} from {place}"
    if verb == "put":
        return f"put {thing} in/on {place}"
    if verb in APPLIANCES:
        return f"{verb} {thing} with {place}"
    return f"{verb} {thing or place}".strip()


def commands(level: Level, state: State) -> list[Command]:
    """Returns the possible commands that ALFWorld lists too, except `help`.

    Going to the current receptacle and examining a thing that is not in hand are possible, but not
    listed.
    """
    at, held, seen = state.at, state.held, state.seen()
    found = [("go", "", place) for place in level.home.receptacles if place != at]
    if at:
        if kind_of(at) in OPENABLE:
            found.append(("close" if at in state.opened else "open", "", at))
        if not held:
            found += [("take", thing, at) for thing in seen if kind_of(thing) != LAMP]
        else:
            hand = [(verb, held, at) for verb in ("put", *APPLIANCES)]
            found += [command for command in hand if not _hand_refusal(state, command)]
        found += [("use", thing, "") for thing in seen if kind_of(thing) == LAMP]
        found.append(("examine", at, ""))
    if held:
        found.append(("examine", held, ""))
    return [*found, ("inventory", "", ""), ("look", "", "")]


def progress(level: Level, state: State) -> float:
    """Returns the share of the required steps that is done, 1 if the chore is done."""
    family, target = level.family, level.target
    mine = [thing for thing in state.places if kind_of(thing) == level.kind]
    held = state.held in mine
    if family == "look":
        light = bool(state.at) and any(state.places[lamp] == state.at for lamp in state.lit)
        return (held + (held and light)) / 2
    put = [thing for thing in mine if kind_of(state.places[thing]) == target]
    if family == "pick2":
        most = max(Counter(state.places[thing] for thing in put).values(), default=0)
        return min(1.0, (2 * most + held) / 4)
    if family == "pick":
        return 1.0 if put else held / 2
    treated = state.treated[family]
    if any(thing in treated for thing in put):
        return 1.0
    return max((((state.places[t] == HAND) + (t in treated)) / 3 for t in mine), default=0.0)
