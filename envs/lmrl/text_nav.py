"""TextNav: carry the stale food from one room's table into another room's fridge."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from agentgym.core import TextEnv
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
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain


@dataclass
class State:
    """The agent's room, the place of each item and the open containers (by place).

    `whole` is the number of commands of a shortest solution from the start.
    """

    room: str
    items: dict[str, str]
    opened: list[str]
    whole: int = 0


def room_of(place: str) -> str:
    """Returns the room that contains a place."""
    return place.partition("/")[0]


def plan(world: World, distances: Distances, state: State) -> tuple[int, str]:
    """Returns the length of a shortest solution and its first command ("" if there is none)."""
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
    """Returns the commands that have an effect now, each with (verb, thing, place)."""
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
    The text navigation task of LMRL-Gym, implemented natively instead of in TextWorld: eight rooms,
    three tables, a chest, a fridge and seven items. The agent must take the stale food from the
    table in the living room, put it into the fridge in the kitchen and close the fridge. Eating the
    stale food loses the game. Everything else is a distraction.

    ## Action Space
    Text, one command. Case and articles are ignored.
    - `go west`
    - `take bowl from table`, or `take bowl` from the floor
    - `drop bowl`
    - `put bowl on table`
    - `open fridge`, `close fridge`
    - `insert fruit into fridge`
    - `eat fruit`
    - `look`, `inventory`, `examine bowl`: valid, without effect, and not listed

    ## Observation Space
    Text: the result of the last command, the room's name and contents, its exits, the items
    carried, and the admissible commands. `location=False` omits the room's name and
    `inventory=False` the items carried.

    ## Rewards
    Term `task`: 1 when the stale food is in the closed fridge, else 0.

    ## Starting State
    In the original house, the task determines the room of the agent, and all items are in their
    places. In generated houses, the task determines the connections, the contents and the start.

    ## Episode End
    - Termination: the task is completed, or the stale food is eaten.
    - Truncation: after `max_turns` commands.

    ## Information
    The common keys.
    - `progress`: the share of a shortest solution that is done.
    - `state_key`: a digest of the full state, including parts that the agent does not observe.

    ## Arguments
    - `layout` (str, default "original"): "original" or "generated" (a new house per task).
    - `rooms` (int, default 8): number of rooms of a generated house, 2 to 16.
    - `location` (bool, default True): whether the observation names the room.
    - `inventory` (bool, default True): whether the observation lists the items carried.
    - `max_turns` (int or None, default 50): commands before truncation.

    ## Notes
    Behaviour cloning alone solves the original house on held-out tasks. It solves fewer than half
    of the generated houses. Use `TextNav-Random-v0` to compare learning methods.

    ## References
    - LMRL-Gym (arXiv 2311.18232), section on text navigation. By default, the original omits
      location and inventory.
    - TextWorld (arXiv 1806.11532), for the commands and their effects. The texts are our own.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are in a house. Put the stale food into the fridge in the kitchen and close the "
        "fridge. At the start, the stale food is on the table in the living room.\n"
        "Answer with exactly one command per turn, for example:\n"
        "- go north\n"
        "- take bowl from table, or take bowl (from the floor)\n"
        "- drop bowl\n"
        "- put bowl on table\n"
        "- open fridge, close fridge\n"
        "- insert bowl into fridge\n"
        "- eat fruit\n"
        "- look, inventory, examine bowl\n"
        "Rules:\n"
        "- A fridge or chest must be open before you can put something in or take it out.\n"
        "- Do not eat the stale food. If you do, the episode ends and you score 0.\n"
        "You score 1 when the stale food is in the closed fridge. The episode also ends after too "
        "many commands."
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
        command = re.sub(r"\b(the|a|an|some)\s+", "", plain(action[:200]))
        state = self.state
        done = commands(self._world(), state).get(command)
        if done is None:
            return self._idle(command)
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

    def _idle(self, command: str) -> TimeStep:
        """Plays a command without effect, or rejects an invalid one."""
        verb, _, thing = command.partition(" ")
        if command == "look":
            return self._look(feedback="You look around.")
        if command == "inventory":
            return self._look(feedback=carried(self.state))
        state, fixture = self.state, self._world().fixtures.get(self.state.room, "none")
        here = f"{state.room}/{fixture}"
        hidden = fixture in CONTAINERS and here not in state.opened
        places = {state.room, HELD} if hidden else {state.room, HELD, here}
        if verb == "examine" and (thing == fixture or state.items.get(thing) in places):
            return self._look(feedback=f"You see nothing special about the {thing}.")
        expected = "Answer with one of the listed commands."
        return self._invalid(f"That is not possible now: {command[:60]!r}. {expected}")

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
            feedback=feedback + (" You have completed the task!" * won),
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
        """Returns the first command of a shortest solution, or None if there is none any more."""
        return self._plan()[1] or None


@lru_cache(maxsize=512)
def known_distances(layout: str, task: str, rooms: int) -> Distances:
    """Returns the distances in the house of a task."""
    return Distances(ORIGINAL if layout == "original" else generated_world(task, rooms))


def listing(state: State, place: str) -> str:
    """Returns the items at a place, separated by commas."""
    return ", ".join(item for item, where in state.items.items() if where == place)


def carried(state: State) -> str:
    """Returns a sentence that lists the items carried."""
    return f"You carry: {listing(state, HELD) or 'nothing'}."


def describe(world: World, state: State, location: bool) -> str:
    """Returns the description of the agent's room."""
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
