"""The macro actions of BabyAI-Text that the things in view allow."""

from __future__ import annotations

from agentgym.envs.babyai.view import (
    DROP,
    EMPTY,
    FORWARD,
    LEFT,
    NAMES,
    PICKUP,
    RIGHT,
    SOLID,
    TOGGLE,
    Map,
    Scene,
    Thing,
    Ways,
    places_before,
    places_on,
    things_in,
)

CHECK = "check available actions"
PORTABLE = ("key", "ball", "box")


def look(grid: Map, view: bytes, original: bool) -> Scene:
    """Returns the things in view and the admissible actions.

    Args:
        grid: the map with the agent.
        view: the agent's view of the map.
        original: as in the reference, number only things that can be reached in actions, and do
            not allow boxes to be opened.
    """
    things, barrier, solid = things_in(view, grid)
    goals = {thing.position: places_before(thing.position, grid.width) for thing in things}
    doors = [thing for thing in things if thing.name.endswith("open door")]
    # Each open door is two goals: standing in front of it, and (negative) standing on it.
    goals |= {-door.position: list(places_on(door.position)) for door in doors}
    ways = Ways(grid, solid, goals)
    scene = Scene(things, barrier, {"turn left": [LEFT], "turn right": [RIGHT]})
    actions = scene.actions
    if barrier is None or barrier[1] > 1:
        actions["move forward"] = [FORWARD]
    if grid.carrying == EMPTY:
        portable = [thing for thing in things if thing.name.endswith(PORTABLE)]
        _name_each(scene, "pickup", portable, ways, original, [PICKUP])
    elif grid.cells[grid.ahead] not in SOLID:
        actions["drop"] = [DROP]
    for door in things:
        if door.name.endswith("door"):
            _door(scene, door, ways, grid.carrying)
    facing = next((t for t in things if t.position == grid.ahead), None)
    if not original and facing is not None and facing.name.endswith("box"):
        actions["toggle"] = [TOGGLE]
    _name_each(scene, "go to", things, ways, original, [])
    actions[CHECK] = []
    return scene


def _name_each(
    scene: Scene, verb: str, things: list[Thing], ways: Ways, original: bool, then: list[int]
) -> None:
    """Adds the action "verb thing number" for each thing that can be reached."""
    counts: dict[str, int] = {}
    for thing in things:
        way = ways.to(thing.position)
        if way is not None:
            counts[thing.name] = counts.get(thing.name, 0) + 1
            number = counts[thing.name] if original else thing.number
            scene.actions[f"{verb} {thing.name} {number}"] = way + then


def _door(scene: Scene, door: Thing, ways: Ways, carrying: int) -> None:
    name = f"{door.name} {door.number}"
    if " open " in name:
        way = ways.to(-door.position)
        if way is not None:
            scene.actions[f"go through {name}"] = way
        return
    if " locked " in name and not fits(carrying, door):
        return
    way = ways.to(door.position)
    if way is not None:
        scene.actions[f"toggle and go through {name}"] = [*way, TOGGLE, FORWARD]
        if not way:
            scene.actions["toggle"] = [TOGGLE]


def fits(carrying: int, door: Thing) -> bool:
    """Returns whether the thing carried is a key of the door's colour."""
    return NAMES[carrying] == f"{door.name.split()[0]} key"


def describe(scene: Scene, carrying: int) -> str:
    """Returns the scene as text."""
    lines = ["You see:" if scene.things else "You see nothing but the room."]
    for thing in scene.things:
        side = f", {abs(thing.right)} {'right' if thing.right > 0 else 'left'}"
        lines.append(
            f"- {thing.name} {thing.number}: {thing.ahead} ahead{side * bool(thing.right)}"
        )
    if scene.barrier is not None:
        lines.append(f"Straight ahead, {scene.barrier[1]} away: a {scene.barrier[0]}.")
    lines.append(f"You carry {'nothing' if carrying == EMPTY else f'a {NAMES[carrying]}'}.")
    lines.append(f"Actions: {', '.join(scene.actions)}.")
    return "\n".join(lines)


def objection(action: str, scene: Scene, carrying: int) -> str:
    """Returns the reason why an action is not admissible, as feedback for the agent."""
    if action == "move forward":
        return "You cannot move forward: something is in the way."
    if action == "drop":
        if carrying == EMPTY:
            return "You cannot drop anything: you carry nothing."
        return "You cannot drop anything here: the cell in front of you is not empty."
    for verb in ("toggle and go through", "go through", "go to", "pickup"):
        name = action.removeprefix(f"{verb} ")
        thing = next((t for t in scene.things if f"{t.name} {t.number}" == name), None)
        if name == action or thing is None:
            continue
        if verb == "pickup" and carrying != EMPTY:
            return "You cannot pick up anything: you already carry something."
        if verb == "go through" and " open " not in name:
            return f"The {name} is not open: toggle it first."
        if verb.startswith("toggle") and " locked " in name and not fits(carrying, thing):
            return f"You carry no key for the {name}."
        return f"You cannot {verb} the {name}: no path in view leads there."
    return f"{action[:40]!r} is not an available action. Answer with one of the listed actions."
