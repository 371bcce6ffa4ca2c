"""The creatures of Crafter: their turns, and where they appear and disappear."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym.envs.crafter.state import WAYS, State
from agentgym.envs.crafter.world import HEALTH, SIZE, WALKABLE, Creature, Spot

NEAR = 18
"""Distance within which creatures act."""
CHUNK = 12
"""Side of the areas in which creatures appear and disappear."""

Taken = dict[Spot, Creature]


def move_creatures(state: State, dice: Iterator[float]) -> None:
    """Plays a turn of every creature that is near the player."""
    taken = {(c.x, c.y): c for c in state.creatures}
    for creature in list(state.creatures):
        if abs(creature.x - state.x) + abs(creature.y - state.y) >= NEAR:
            continue
        if creature.health > 0:
            _TURNS[creature.kind](state, creature, taken, dice)
        if creature.health <= 0:
            taken.pop((creature.x, creature.y), None)
    if any(c.health <= 0 for c in state.creatures):
        state.creatures = [c for c in state.creatures if c.health > 0]


def _step(state: State, creature: Creature, way: Spot, taken: Taken, ground: str) -> bool:
    """Moves a creature if the square is free, and returns whether it is."""
    spot = creature.x + way[0], creature.y + way[1]
    material = state.material(spot)
    if not material or material not in ground or spot in taken or spot == (state.x, state.y):
        return False
    taken.pop((creature.x, creature.y), None)
    creature.x, creature.y = spot
    taken[spot] = creature
    return True


def _toward(state: State, creature: Creature, long_axis: bool) -> Spot:
    """Returns the direction to the player along the longer or the shorter axis."""
    x, y = state.x - creature.x, state.y - creature.y
    if (abs(x) > abs(y)) == long_axis:
        return (x > 0) - (x < 0), 0
    return 0, (y > 0) - (y < 0)


def _away(state: State, creature: Creature) -> int:
    return abs(creature.x - state.x) + abs(creature.y - state.y)


def _anywhere(dice: Iterator[float]) -> Spot:
    return WAYS[int(4 * next(dice))]


def _cow(state: State, cow: Creature, taken: Taken, dice: Iterator[float]) -> None:
    if next(dice) < 0.5:
        _step(state, cow, _anywhere(dice), taken, WALKABLE)


def _zombie(state: State, zombie: Creature, taken: Taken, dice: Iterator[float]) -> None:
    if _away(state, zombie) <= 8 and next(dice) < 0.9:
        way = _toward(state, zombie, next(dice) < 0.8)
    else:
        way = _anywhere(dice)
    _step(state, zombie, way, taken, WALKABLE)
    if _away(state, zombie) > 1:
        return
    if zombie.timer:
        zombie.timer -= 1
    else:
        state.gain("health", -7 if state.sleeping else -2)
        zombie.timer = 5


def _skeleton(state: State, skeleton: Creature, taken: Taken, dice: Iterator[float]) -> None:
    skeleton.timer = max(0, skeleton.timer - 1)
    away = _away(state, skeleton)
    if away <= 3:
        x, y = _toward(state, skeleton, next(dice) < 0.6)
        if _step(state, skeleton, (-x, -y), taken, "p"):
            return
    if away <= 5 and next(dice) < 0.5:
        _shoot(state, skeleton, taken)
    elif away <= 8 and next(dice) < 0.3:
        _step(state, skeleton, _toward(state, skeleton, next(dice) < 0.6), taken, "p")
    elif next(dice) < 0.2:
        _step(state, skeleton, _anywhere(dice), taken, "p")


def _shoot(state: State, skeleton: Creature, taken: Taken) -> None:
    """Lets a skeleton shoot an arrow at the player every fourth turn at most."""
    way = _toward(state, skeleton, True)
    spot = skeleton.x + way[0], skeleton.y + way[1]
    material = state.material(spot)
    if skeleton.timer or spot in taken or spot == (state.x, state.y):
        return
    if material and material in WALKABLE + "wl":
        arrow = Creature("arrow", *spot, HEALTH["arrow"], 0, *way)
        state.creatures.append(arrow)
        taken[spot] = arrow
        skeleton.timer = 4


def _arrow(state: State, arrow: Creature, taken: Taken, dice: Iterator[float]) -> None:
    if _step(state, arrow, (arrow.dx, arrow.dy), taken, WALKABLE + "wl"):
        return
    spot = arrow.x + arrow.dx, arrow.y + arrow.dy
    arrow.health = 0
    if spot == (state.x, state.y):
        state.gain("health", -2)
    elif spot in taken:
        taken[spot].health -= 2
    elif state.material(spot) in ("T", "F"):
        state.put(spot, "p")


def _plant(state: State, plant: Creature, taken: Taken, dice: Iterator[float]) -> None:
    plant.timer += 1
    around = (taken.get((plant.x + x, plant.y + y)) for x, y in WAYS)
    if any(c is not None and c.kind in ("zombie", "skeleton", "cow") for c in around):
        plant.health = 0


_TURNS = {
    "cow": _cow,
    "zombie": _zombie,
    "skeleton": _skeleton,
    "arrow": _arrow,
    "plant": _plant,
}


def balance(state: State, dice: Iterator[float]) -> None:
    """Lets creatures appear and disappear in every area of 12 by 12 squares."""
    light = state.daylight
    groups: dict[tuple[int, int, str], list[Creature]] = {}
    for c in state.creatures:
        groups.setdefault((c.x // CHUNK, c.y // CHUNK, c.kind), []).append(c)
    for column in range(0, SIZE, CHUNK):
        for top in range(0, SIZE, CHUNK):
            area = [row[column : column + CHUNK] for row in state.rows[top : top + CHUNK]]
            grass, path = (sum([line.count(kind) for line in area]) for kind in ".p")
            dark = 3.5 - 3 * light
            for kind, ground, wanted, most, away, leave, chances in (
                ("zombie", ".", dark if grass >= 50 else 0, dark, 6, 0, (0.3, 0.4)),
                ("skeleton", "p", 1 if path >= 6 else 0, 2, 7, 7, (0.1, 0.1)),
                ("cow", ".", 1 if grass >= 30 else 0, 1.5 + light, 5, 5, (0.01, 0.1)),
            ):
                there = groups.get((column // CHUNK, top // CHUNK, kind), [])
                if len(there) < int(wanted) and next(dice) < chances[0]:
                    _appear(state, kind, ground, area, (column, top), away, dice)
                elif len(there) > int(most) and next(dice) < chances[1]:
                    gone = there[int(len(there) * next(dice))]
                    if _away(state, gone) >= leave:
                        state.creatures.remove(gone)


def _appear(
    state: State,
    kind: str,
    ground: str,
    area: list[str],
    corner: Spot,
    away: int,
    dice: Iterator[float],
) -> None:
    """Adds a creature on a random square of an area if it is free and not near the player."""
    places = [(x, y) for y, row in enumerate(area) for x, m in enumerate(row) if m == ground]
    x, y = places[int(len(places) * next(dice))]
    new = Creature(kind, corner[0] + x, corner[1] + y, HEALTH[kind])
    if _away(state, new) >= away and state.creature((new.x, new.y)) is None:
        state.creatures.append(new)
