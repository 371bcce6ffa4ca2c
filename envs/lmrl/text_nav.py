"""TextNav: carry the stale food from one room's table into another room's fridge."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from agentgym.core import TextEnv, TimeStep
from agentgym.envs.lmrl.houses import (
    CONTAINERS,
    EATEN,
    FOODS,
    GOAL,
    HELD,
    ORIGINAL,
    ROOMS,
    TARGET,
    Distances,
    World,
    generated_world,
)
from agentgym.tasks import Tasks


@dataclass
class State:
    """Where the agent is, the place of each thing, which containers are open (by place).

    `whole` is the number of commands that the task takes from the start.
    """

    room: str
    items: dict[str, str]
    opened: list[str]
    whole: int = 0


def room_of(place: str) -> str:
    """Returns the room of a place that is in one."""
    return place.partition("/")[0]


def plan(world: World, distances: Distances, state: State) -> tuple[int, str]:
    """Returns how many commands the task still takes, and the first of them ("" if none does)."""
    place = state.items[GOAL]
    if place == EATEN or (place == TARGET and TARGET not in state.opened):
        return 0, ""
    kitchen = room_of(TARGET)
    way: list[tuple[str, int, str]]
    if place == TARGET:
        way = [(kitchen, 1, "close fridge")]
    else:
        carry = (kitchen, 2, f"insert {GOAL} into fridge")
        way = [carry] if TARGET in state.opened else [(kitchen, 1, "open fridge"), carry]
        if place != HELD:
            fixture = place.partition("/")[2]
            take = (room_of(place), 1, f"take {GOAL}" + (f" from {fixture}" if fixture else ""))
            way.insert(0, take)
            if fixture in CONTAINERS and place not in state.opened:
                way.insert(0, (room_of(place), 1, f"open {fixture}"))
    left, here = 0, state.room
    for room, commands, _ in way:
        left += distances.steps[room][here] + commands
        here = room
    room, _, command = way[0]
    return left, command if room == state.room else f"go {distances.first[state.room][room]}"


def commands(world: World, state: State) -> dict[str, tuple[str, str, str]]:
    """Returns the commands that do something now, each with (verb, thing, place)."""
    room = state.room
    found = {f"go {d}": ("go", d, there) for d, there in world.exits[room].items()}
    fixture = world.fixtures.get(room, "")
    there = f"{room}/{fixture}" if fixture else ""
    closed = fixture in CONTAINERS and there not in state.opened
    if fixture in CONTAINERS:
        verb = "open" if closed else "close"
        found[f"{verb} {fixture}"] = (verb, fixture, there)
    for item, place in state.items.items():
        if place == room:
            found[f"take {item}"] = ("take", item, HELD)
        elif place == there and not closed:
            found[f"take {item} from {fixture}"] = ("take", item, HELD)
        elif place == HELD:
            found[f"drop {item}"] = ("drop", item, room)
            if item in FOODS:
                found[f"eat {item}"] = ("eat", item, EATEN)
            if fixture and not closed:
                put = f"insert {item} into" if fixture in CONTAINERS else f"put {item} on"
                found[f"{put} {fixture}"] = ("put", item, there)
    return found


class TextNav(TextEnv):
    """Carry the stale food from the living room's table into the kitchen's fridge.

    ## Description
    The text navigation game of LMRL-Gym, which runs on TextWorld there, written natively: eight
    rooms, three tables, a chest, a fridge and seven things. Take the stale food from the table in
    the living room, put it into the fridge in the kitchen and close the fridge. Whoever eats the
    stale food has lost; all else is distraction.

    ## Action Space
    Text commands: `go west`, `take bowl from table`, `take bowl` (off the floor), `drop bowl`,
    `put bowl on table`, `open fridge`, `close fridge`, `insert fruit into fridge`, `eat fruit`.
    `look`, `inventory` and `examine bowl` are understood and change nothing; they are not listed.
    Case and articles do not matter.

    ## Observation Space
    Text: the room's name, what is in it, its exits, what the agent carries, the admissible
    commands; before that, what the last command did. `location=False` leaves the name out and
    `inventory=False` the things carried.

    ## Rewards
    1 (term `task`) when the stale food is in the closed fridge, else 0.

    ## Starting State
    The original house: a room of the task's name, everything at its place. Generated houses:
    connections, contents and start are drawn by the task's name.

    ## Episode End
    Termination: the task is done, or the stale food eaten. Truncation: after `max_turns`.

    ## Information
    The common keys; `progress` is the share of the commands of a shortest solution that is done.
    `state_key` names the whole state, also what the agent does not see.

    ## Arguments
    `layout`: "original" or "generated" (another house each task). `rooms`: of a generated house,
    2 to 16, default 8. `location`, `inventory`: whether the observation tells them (default True).
    `max_turns`: default 50.

    ## Example Transcript
    ```
    Kitchen. Here is a fridge (open). In it: fruit. Exits: east, north, west.
    You carry: stale food.
    Commands: close fridge, drop stale food, ...
    > insert stale food into fridge
    You put the stale food into the fridge.
    ```

    ## Baselines
    Mean return (and success) on the test split, n = 200 episodes each: random 0.00, expert (a
    shortest solution, sees everything) 1.00, for each of the registered configurations. Imitation
    alone learns the original house (1.00 on held-out tasks, told or not, from 300 demonstrations),
    generated ones by less than half (0.46): to compare learning methods take those.

    ## Registered Configurations
    `TextNav-v0`: the original house, location and inventory told. `TextNav-Partial-v0`: neither
    told, as in the original by default. `TextNav-Random-v0`: generated houses, both told.

    ## References
    LMRL-Gym (arXiv 2311.18232), section on text navigation; TextWorld (arXiv 1806.11532) for the
    commands and what they do. The texts are our own.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are in a house. Take the stale food that lies on the table in the living room, put "
        "it into the fridge in the kitchen, and close the fridge. Do not eat the stale food: that "
        "loses the game. Answer with one command a turn. Commands: go north/south/east/west; "
        "take THING from table; take THING (from the floor); drop THING; put THING on table; open "
        "fridge; close fridge; insert THING into fridge; eat THING; look; inventory; examine "
        "THING. The fridge and any chest must be open to put something in or take it out."
    )
    State = State

    def __init__(
        self,
        *,
        layout: str = "original",
        rooms: int = 8,
        location: bool = True,
        inventory: bool = True,
        max_turns: int | None = 50,
        **kwargs,
    ):
        if layout not in ("original", "generated"):
            raise ValueError(f"layout must be 'original' or 'generated', got {layout!r}.")
        if not 2 <= rooms <= len(ROOMS):
            raise ValueError(f"rooms must be 2 to {len(ROOMS)}, got {rooms}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.layout = layout
        self.rooms = rooms
        self.location = location
        self.inventory = inventory
        starts = [f"original/{room}" for room in ORIGINAL.exits]
        held_out = [starts[0], starts[5], starts[7]]
        self.tasks = Tasks.generated()
        if layout == "original":
            self.tasks = Tasks([task for task in starts if task not in held_out], held_out)

    def _start(self, task: str) -> TimeStep:
        world = self._world()
        start = task.partition("/")[2] if self.layout == "original" else world.start
        self.state = State(start, dict(world.items), [])
        self.state.whole = self._plan()[0]
        return self._look()

    def _world(self) -> World:
        original = self.layout == "original"
        return ORIGINAL if original else generated_world(self.task, self.rooms)

    def _advance(self, action: str) -> TimeStep:
        said = re.sub(r"\b(the|a|an|some)\s+", "", " ".join(action[:200].lower().split()))
        state = self.state
        done = commands(self._world(), state).get(said)
        if done is None:
            return self._idle(said)
        verb, thing, place = done
        if verb == "go":
            state.room = place
            return self._look(feedback=f"You go {thing}.")
        if verb == "open":
            state.opened.append(place)
        elif verb == "close":
            state.opened.remove(place)
        else:
            state.items[thing] = place
        fixture = place.partition("/")[2]
        onto = "into" if fixture in CONTAINERS else "on"
        where = {"put": f" {onto} the {fixture}", "drop": " on the floor"}.get(verb, "")
        return self._look(feedback=f"You {verb} the {thing}{where}.")

    def _idle(self, said: str) -> TimeStep:
        """Plays a command that changes nothing, or is none."""
        verb, _, thing = said.partition(" ")
        if said == "look":
            return self._look(feedback="You look around.")
        if said == "inventory":
            return self._look(feedback=carried(self.state))
        state, fixture = self.state, self._world().fixtures.get(self.state.room, "none")
        here = f"{state.room}/{fixture}"
        hidden = fixture in CONTAINERS and here not in state.opened
        places = {state.room, HELD} if hidden else {state.room, HELD, here}
        if verb == "examine" and (thing == fixture or state.items.get(thing) in places):
            return self._look(feedback=f"Nothing is special about the {thing}.")
        return self._invalid(f"That is not possible now: {said[:60]!r}.")

    def _look(self, feedback: str = "") -> TimeStep:
        state, world = self.state, self._world()
        won = state.items[GOAL] == TARGET and TARGET not in state.opened
        over = won or state.items[GOAL] == EATEN
        admissible = () if over else tuple(sorted(commands(world, state)))
        lines = [describe(world, state, self.location)]
        if self.inventory:
            lines.append(carried(state))
        lines.append("The game is over." if over else f"Commands: {', '.join(admissible)}.")
        return TimeStep(
            text="\n".join(lines),
            rewards={"task": float(won)},
            terminated=over,
            success=won,
            progress=float(won) if over else max(0.0, 1 - self._plan()[0] / state.whole),
            admissible=admissible,
            state_key=self._key(),
            feedback=feedback + (" That was the task: done!" * won),
        )

    def _plan(self) -> tuple[int, str]:
        distances = known_distances(self.layout, self.task, self.rooms)
        return plan(self._world(), distances, self.state)

    def _key(self) -> str:
        state = self.state
        house = "" if self.layout == "original" else self.task
        opened = ",".join(sorted(state.opened))
        return f"{house}|{state.room}|{'|'.join(state.items.values())}|{opened}"

    def expert(self) -> str | None:
        """Returns the first command of a shortest solution; None where it has become impossible."""
        return self._plan()[1] or None


@lru_cache(maxsize=512)
def known_distances(layout: str, task: str, rooms: int) -> Distances:
    """Returns the distances in the house of a task."""
    return Distances(ORIGINAL if layout == "original" else generated_world(task, rooms))


def listing(state: State, place: str) -> str:
    """Returns the things at a place, separated by commas."""
    return ", ".join(item for item, where in state.items.items() if where == place)


def carried(state: State) -> str:
    """Returns a sentence about what the agent carries."""
    return f"You carry: {listing(state, HELD) or 'nothing'}."


def describe(world: World, state: State, location: bool) -> str:
    """Returns what is to be seen in the room."""
    room, fixture = state.room, world.fixtures.get(state.room)
    parts = [f"{room.capitalize()}."] if location else []
    if fixture:
        place = f"{room}/{fixture}"
        shut = fixture in CONTAINERS and place not in state.opened
        how = f" ({'closed' if shut else 'open'})" if fixture in CONTAINERS else ""
        parts.append(f"Here is a {fixture}{how}.")
        if not shut:
            inside = "In it" if fixture in CONTAINERS else "On it"
            parts.append(f"{inside}: {listing(state, place) or 'nothing'}.")
    if floor := listing(state, room):
        parts.append(f"On the floor: {floor}.")
    parts.append(f"Exits: {', '.join(world.exits[room])}.")
    return " ".join(parts)
