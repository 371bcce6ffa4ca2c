"""An expert for household chores that searches with only the knowledge of an agent."""

from __future__ import annotations

from agentgym.envs.household.levels import Level
from agentgym.envs.household.rules import Command, State, refusal
from agentgym.envs.household.things import APPLIANCES, LAMP, OPENABLE, kind_of, kinds


def next_command(level: Level, state: State) -> Command:
    """Returns the next command of the chore, based on the observations so far."""
    held, kind = state.held, level.kind
    if held and kind_of(held) != kind:
        return put_away(level, state)
    if level.family == "look" and held:
        return _light(level, state)
    if held:
        treatment = level.family
        if treatment in APPLIANCES and held not in state.treated[treatment]:
            place = level.home.of(APPLIANCES[treatment])[0]
            return at_place(state, (treatment, held, place))
        return at_place(state, ("put", held, _goal(level, state)))
    goal = _goal(level, state) if level.family == "pick2" else ""
    known = [
        thing
        for thing, place in state.places.items()
        if kind_of(thing) == kind and place in state.checked and place != goal
    ]
    if not known:
        return search(level, state, kind)
    thing = min(known, key=lambda thing: state.places[thing] != state.at)
    return at_place(state, ("take", thing, state.places[thing]))


def at_place(state: State, command: Command) -> Command:
    """Returns the command, or first a command to go to the place or to open it."""
    verb, _, place = command
    if state.at != place:
        return ("go", "", place)
    if verb not in APPLIANCES and state.closed(place):
        return ("open", "", place)
    return command


def _goal(level: Level, state: State) -> str:
    """Returns the target receptacle: the one with most of the things, else here, else open."""
    mine = [place for thing, place in state.places.items() if kind_of(thing) == level.kind]
    known = [place for place in mine if place in state.checked]
    return min(
        level.home.of(level.target),
        key=lambda place: (-known.count(place), place != state.at, state.closed(place)),
    )


def _light(level: Level, state: State) -> Command:
    """Returns the next command to look at the thing in hand under a lamp."""
    lamps = [name for name in state.places if kind_of(name) == LAMP]
    known = [lamp for lamp in lamps if state.places[lamp] in state.checked]
    if not known:
        return search(level, state, LAMP)
    place = state.places[known[0]]
    return ("use", known[0], "") if state.at == place else ("go", "", place)


def put_away(level: Level, state: State) -> Command:
    """Returns the next command to put away a thing that is not needed."""
    fits = kinds()[kind_of(state.held)].fits
    places = [name for name in level.home.receptacles if kind_of(name) in fits]
    place = min(places, key=lambda name: (name != state.at, state.closed(name)))
    return at_place(state, ("put", state.held, place))


def search(level: Level, state: State, kind: str) -> Command:
    """Returns the next command to search the likeliest place that was not searched yet."""
    fits = kinds()[kind].fits

    def unlikely(place: str) -> tuple[bool, int, bool]:
        where = kind_of(place)
        rank = fits.index(where) if where in fits else len(fits)
        return (place != state.at, rank, where in OPENABLE)

    left = [place for place in level.home.receptacles if place not in state.checked]
    place = min(left, key=unlikely)
    command = ("go", "", place) if state.at != place else ("open", "", place)
    assert not refusal(level, state, command)
    return command
