"""Episodes in a house, and who believes what: people move things, look and talk."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.utils.fast_pcg64 import Draws

NAMES = ("Anna", "Ben", "Cara", "David", "Emma", "Felix", "Greta", "Hugo")
ROOMS = ("kitchen", "hall", "garden", "attic", "cellar", "study")
COLORS = ("red", "blue", "green", "white", "black", "yellow")
CONTAINERS = ("box", "bag", "drawer", "basket", "chest", "jar")
THINGS = ("ball", "key", "apple", "ring", "letter", "watch", "coin", "scarf")
UNKNOWN = "unknown"
"""The belief of a person who found a thing missing."""

Believer = tuple[str, ...]
"""(Anna,): Anna's belief. (Anna, Ben): Anna's belief about Ben's belief."""


@dataclass
class House:
    """An episode so far.

    Attributes:
        rooms: room of each person.
        containers: room of each container.
        places: container of each thing.
        beliefs: container in which each believer believes each thing.
        story: one line per event.
        first: container of each thing at the start.
    """

    rooms: dict[str, str]
    containers: dict[str, str]
    places: dict[str, str]
    beliefs: dict[Believer, dict[str, str]] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)
    first: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Tells where everything is, which all people see."""
        self.first = {**self.places}
        where = [f"the {thing} is in the {place}" for thing, place in self.places.items()]
        boxes = [f"the {name} is in the {room}" for name, room in self.containers.items()]
        people = [f"{name} is in the {room}" for name, room in self.rooms.items()]
        self.story = [
            f"Everyone knows at the start: {'; '.join(boxes)}.",
            f"Everyone has seen that {' and '.join(where)}.",
            f"{'; '.join(people)}.",
        ]
        for name in self.rooms:
            self.beliefs[(name,)] = {**self.places}
            for other in self.rooms:
                if other != name:
                    self.beliefs[name, other] = {**self.places}

    def present(self, room: str) -> list[str]:
        """Returns the people in a room."""
        return [name for name, place in self.rooms.items() if place == room]

    def go(self, name: str, room: str) -> None:
        """A person goes to another room."""
        self.rooms[name] = room
        self.story.append(f"{name} goes to the {room}.")

    def move(self, name: str, thing: str, to: str) -> None:
        """A person moves a thing to another container of the room, seen by all in the room."""
        self.story.append(f"{name} moves the {thing} from the {self.places[thing]} to the {to}.")
        self.places[thing] = to
        self._learn(self.present(self.rooms[name]), thing, to)

    def look(self, name: str, container: str) -> None:
        """A person opens a container, so that all in the room see all things in it."""
        inside = [thing for thing, place in self.places.items() if place == container]
        found = " and ".join(f"the {thing}" for thing in inside) or "nothing"
        self.story.append(f"{name} opens the {container} and shows {found} in it to the room.")
        seen = self.present(self.rooms[name])
        for thing in self.places:
            if thing in inside:
                self._learn(seen, thing, container)
            else:
                self._miss(seen, thing, container)

    def tell(self, name: str, thing: str, place: str) -> None:
        """A person claims where a thing is. All others in the room believe it."""
        self.story.append(f'{name} says: "The {thing} is in the {place}."')
        heard = [other for other in self.present(self.rooms[name]) if other != name]
        for person in heard:
            self.beliefs[(person,)][thing] = place
            self.beliefs[person, name][thing] = place
            self.beliefs[name, person][thing] = place
            for other in heard:
                if other != person:
                    self.beliefs[person, other][thing] = place

    def _learn(self, seen: list[str], thing: str, place: str) -> None:
        """All who are present see where a thing is, and that the others see it."""
        for person in seen:
            self.beliefs[(person,)][thing] = place
            for other in seen:
                if other != person:
                    self.beliefs[person, other][thing] = place

    def _miss(self, seen: list[str], thing: str, container: str) -> None:
        """All who are present see that a thing is not in a container."""
        for believer, belief in self.beliefs.items():
            if set(believer) <= set(seen) and belief[thing] == container:
                belief[thing] = UNKNOWN


def pick(rng: Draws, options: list[str] | tuple[str, ...], count: int) -> list[str]:
    """Returns different options in random order."""
    left, found = [*options], []
    for _ in range(count):
        found.append(left.pop(rng.below(len(left))))
    return found


def played(rng: Draws, people: int, events: int) -> House:
    """Returns an episode of random people in a random house.

    Half of the claims are lies: the speaker names another place than it believes in.

    Args:
        rng: the random numbers.
        people: number of people.
        events: number of events.
    """
    rooms = pick(rng, ROOMS, 2)
    names = [
        f"{a} {b}" for a, b in zip(pick(rng, COLORS, 4), pick(rng, CONTAINERS, 4), strict=True)
    ]
    containers = {name: rooms[number % 2] for number, name in enumerate(names)}
    house = House(
        {name: rooms[rng.below(2)] for name in pick(rng, NAMES, people)},
        containers,
        {thing: names[rng.below(4)] for thing in pick(rng, THINGS, 2)},
    )
    house.begin()
    while len(house.story) < events + 3:
        _event(house, rng, rooms)
    return house


def _event(house: House, rng: Draws, rooms: list[str]) -> None:
    """Plays one random event, or none if the one that is drawn is not possible."""
    people = [*house.rooms]
    name = people[rng.below(len(people))]
    room, kind = house.rooms[name], rng.below(10)
    here = [container for container, place in house.containers.items() if place == room]
    if kind < 4:
        house.go(name, rooms[1 - rooms.index(room)])
    elif kind < 7:
        things = [thing for thing, place in house.places.items() if place in here]
        if things:
            thing = things[rng.below(len(things))]
            others = [place for place in here if place != house.places[thing]]
            house.move(name, thing, others[rng.below(len(others))])
    elif kind < 8:
        house.look(name, here[rng.below(len(here))])
    elif len(house.present(room)) > 1:
        thing = [*house.places][rng.below(len(house.places))]
        places = [*house.containers]
        believed = house.beliefs[(name,)][thing]
        lies = rng.below(2) == 1 or believed == UNKNOWN
        others = [place for place in places if place != believed]
        house.tell(name, thing, others[rng.below(len(others))] if lies else believed)
