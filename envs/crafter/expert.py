"""The scripted expert of Crafter, which knows the whole world."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agentgym.envs.crafter.rules import possible
from agentgym.envs.crafter.state import (
    COLLECT,
    DIRECTIONS,
    MAKE,
    MOST,
    PLACE,
    RIPE,
    WAYS,
    State,
)
from agentgym.envs.crafter.world import WALKABLE, Creature, Spot

_NAMES = {way: f"move {name}" for name, way in DIRECTIONS.items()}
_SOURCES = {item: material for material, (item, _, _) in COLLECT.items()}
_STEPS = (
    ("make wood pickaxe", "make wood sword"),
    ("place stone", "make stone pickaxe", "make stone sword"),
    ("collect coal", "collect iron"),
    ("place furnace", "make iron pickaxe", "make iron sword"),
    ("collect diamond",),
)
"""Achievements that need materials, in order."""
_SHELTER = 4
"""Largest number of squares of a place to sleep."""


def best_action(state: State) -> str:
    """Returns the next action: the first of safety, needs, achievements and patience."""
    if state.sleeping:
        return "noop"
    taken = {(c.x, c.y): c for c in state.creatures}
    map_ = _Map(state, taken)
    for choose in (_fight, _harvest, _needs, _plants, _achievements, _hunt, _wait):
        action = choose(map_)
        if action is not None:
            return action
    return "noop"


class _Map:
    """The world as the expert sees it in one turn."""

    def __init__(self, state: State, taken: dict[Spot, Creature]):
        self.state, self.taken = state, taken
        self.here = state.x, state.y
        self.items, self.achieved = state.items, state.achieved
        self.can = possible(state)
        self.digs = "s" if "wood pickaxe" in state.items else ""
        young = [c for c in state.creatures if c.kind == "plant" and c.timer <= RIPE]
        self.fence = {(c.x + dx, c.y + dy) for c in young for dx, dy in WAYS}

    def free(self, spot: Spot) -> bool:
        """Whether the player can move onto a square."""
        material = self.state.material(spot)
        return bool(material) and material in WALKABLE and spot not in self.taken

    def solid(self, spot: Spot) -> bool:
        """Whether nothing can walk onto a square."""
        material = self.state.material(spot)
        return not material or material not in WALKABLE

    def path(self, goal: Callable[[Spot], bool], *, onto: bool = False) -> str | None:
        """Returns the next action of a shortest way to a goal, through stone if possible.

        Args:
            goal: whether a square is a goal.
            onto: whether the player moves onto the goal. Otherwise it moves beside it and faces it.
        """
        came: dict[Spot, Spot | None] = {self.here: None}
        queue = deque([self.here])
        if onto and goal(self.here):
            return None
        while queue:
            spot = queue.popleft()
            for dx, dy in WAYS:
                following = spot[0] + dx, spot[1] + dy
                if following in came:
                    continue
                material = self.state.material(following)
                if not material:
                    continue
                if goal(following):
                    came[following] = spot
                    return self._first(came, following)
                digs = material in self.digs and following not in self.fence
                if (material in WALKABLE or digs) and following not in self.taken:
                    came[following] = spot
                    queue.append(following)
        return None

    def _first(self, came: dict[Spot, Spot | None], spot: Spot) -> str:
        while came[spot] != self.here:
            spot = came[spot]  # type: ignore[assignment]
        return self.approach(spot)

    def approach(self, spot: Spot) -> str:
        """Returns the action that turns to a neighbouring square, or digs or moves onto it."""
        way = spot[0] - self.here[0], spot[1] - self.here[1]
        facing = self.state.front == spot
        if facing and self.state.material(spot) in self.digs and spot not in self.taken:
            return "do"
        return _NAMES[way]

    def use(self, goal: Callable[[Spot], bool]) -> str | None:
        """Returns "do" if the player faces a goal, else the next action on the way to one."""
        return "do" if goal(self.state.front) else self.path(goal)

    def material(self, kind: str) -> Callable[[Spot], bool]:
        """Returns a test for squares of a material without a creature."""
        fence = self.fence if kind == "s" else ()
        return lambda spot: (
            self.state.material(spot) == kind and spot not in self.taken and spot not in fence
        )

    def kind(self, kind: str) -> Callable[[Spot], bool]:
        """Returns a test for squares with a creature."""
        return lambda spot: spot in self.taken and self.taken[spot].kind == kind

    def area(self, start: Spot, closed: Spot | None = None) -> int:
        """Returns the number of connected squares that can be walked on, at most `_SHELTER` + 1."""
        seen, queue = {start}, deque([start])
        while queue and len(seen) <= _SHELTER:
            x, y = queue.popleft()
            for dx, dy in WAYS:
                spot = x + dx, y + dy
                if spot not in seen and spot != closed and not self.solid(spot):
                    seen.add(spot)
                    queue.append(spot)
        return len(seen)


def _fight(map_: _Map) -> str | None:
    """Strikes a zombie beside the player, or a skeleton that blocks the way."""
    for way in (map_.state.dx, map_.state.dy), *WAYS:
        spot = map_.here[0] + way[0], map_.here[1] + way[1]
        creature = map_.taken.get(spot)
        if creature is not None and creature.kind in ("zombie", "skeleton"):
            return "do" if map_.state.front == spot else _NAMES[way]
    return None


def _harvest(map_: _Map) -> str | None:
    """Eats a ripe plant."""
    if "eat plant" in map_.achieved or map_.items["health"] <= 4:
        return None
    ripe = [(c.x, c.y) for c in map_.state.creatures if c.kind == "plant" and c.timer > RIPE]
    return map_.use(ripe.__contains__) if ripe else None


def _needs(map_: _Map) -> str | None:
    """Drinks, eats and sleeps in time."""
    items = map_.items
    if items["drink"] <= 4 or (items["drink"] < MOST and map_.material("w")(map_.state.front)):
        if action := map_.use(map_.material("w")):
            return action
    if items["food"] <= 4 and (action := map_.use(map_.kind("cow"))):
        return action
    shelter = map_.area(map_.here) <= _SHELTER
    night = map_.state.daylight < 0.3
    weak = items["health"] <= (7 if shelter else 4)
    if items["energy"] <= (7 if shelter or night else 4) or (night and map_.digs):
        return _sleep(map_)
    if weak and map_.digs:
        return "noop" if shelter else _hide(map_)
    return None


def _sleep(map_: _Map) -> str | None:
    """Sleeps in a shelter, or anywhere without energy."""
    if map_.area(map_.here) <= _SHELTER:
        return "sleep" if map_.items["energy"] < MOST else "noop"
    return _hide(map_) or ("sleep" if map_.items["energy"] <= 1 else None)


def _hide(map_: _Map) -> str | None:
    """Digs a tunnel of two squares and closes it with a stone. None if that is not possible."""
    state, here, items = map_.state, map_.here, map_.items
    front, way = state.front, (state.dx, state.dy)
    if "place stone" in map_.can and map_.area(here, front) <= _SHELTER:
        return "place stone"
    if "stone" in items:
        for dx, dy in WAYS:  # a step after which a stone in front closes the place
            to, beyond = (here[0] + dx, here[1] + dy), (here[0] + 2 * dx, here[1] + 2 * dy)
            if map_.free(to) and not map_.solid(beyond) and map_.area(to, beyond) <= _SHELTER:
                return _NAMES[dx, dy]
    if not map_.digs:
        return None
    beyond = front[0] + way[0], front[1] + way[1]
    if all(map_.solid(side) for side in (*_sides(here, way), *_sides(front, way), beyond)):
        if state.material(front) == "s" and front not in map_.fence:
            return "do"
        if map_.free(front):
            return _NAMES[way]
    if _burrow(map_, front, way):
        return "do" if state.material(front) == "s" else _NAMES[way]
    return map_.path(
        lambda spot: (
            any(_burrow(map_, (spot[0] + x, spot[1] + y), (x, y)) for x, y in WAYS)
            and map_.free(spot)
        ),
        onto=True,
    ) or _turn_to_burrow(map_)


def _turn_to_burrow(map_: _Map) -> str | None:
    """Turns to the stone in which a tunnel can begin."""
    for way in WAYS:
        spot = map_.here[0] + way[0], map_.here[1] + way[1]
        if _burrow(map_, spot, way):
            return _NAMES[way]
    return None


def _sides(spot: Spot, way: Spot) -> tuple[Spot, Spot]:
    """Returns the squares to the left and right of a square."""
    (x, y), (dx, dy) = spot, way
    return (x + dy, y + dx), (x - dy, y - dx)


def _burrow(map_: _Map, spot: Spot, way: Spot) -> bool:
    """Whether a tunnel of two squares in this direction has solid sides and a solid end."""
    second = spot[0] + way[0], spot[1] + way[1]
    end = second[0] + way[0], second[1] + way[1]
    first, free = map_.state.material(spot), map_.free(spot)
    if spot in map_.fence or second in map_.fence or map_.state.material(second) != "s":
        return False
    around = (*_sides(spot, way), *_sides(second, way), end)
    return (first == "s" or free) and all(map_.solid(side) for side in around)


def _plants(map_: _Map) -> str | None:
    """Places a sapling and fences it in with stones."""
    state, items = map_.state, map_.items
    plants = [c for c in state.creatures if c.kind == "plant"]
    if "place plant" in map_.can and ("place plant" not in map_.achieved or not plants):
        return "place plant"
    if "sapling" in items and not plants:
        return map_.path(map_.material("."))
    again = "eat plant" not in map_.achieved and "make iron sword" in map_.achieved
    if "sapling" not in items and (
        "collect sapling" not in map_.achieved or (again and not plants)
    ):
        return map_.use(map_.material("."))
    if plants and items.get("stone", 0) and "eat plant" not in map_.achieved:
        return _fence(map_, plants[0])
    return None


def _fence(map_: _Map, plant: Creature) -> str | None:
    """Places a stone on a free square beside the plant."""
    around = [(plant.x + dx, plant.y + dy) for dx, dy in WAYS]
    gaps = {spot for spot in around if not map_.solid(spot)}
    if not gaps or abs(plant.x - map_.here[0]) + abs(plant.y - map_.here[1]) > 15:
        return None
    if map_.state.front in gaps and "place stone" in map_.can:
        return "place stone"
    for dx, dy in WAYS:
        to = map_.here[0] + dx, map_.here[1] + dy
        beyond = to[0] + dx, to[1] + dy
        if beyond in gaps and map_.free(to) and map_.free(beyond):
            return _NAMES[dx, dy]

    def ready(spot: Spot) -> bool:
        return map_.free(spot) and any(
            (spot[0] + 2 * dx, spot[1] + 2 * dy) in gaps and map_.free((spot[0] + dx, spot[1] + dy))
            for dx, dy in WAYS
        )

    return map_.path(ready, onto=True)


def _achievements(map_: _Map) -> str | None:
    """Collects and crafts for the first step of `_STEPS` that is not complete."""
    if "collect drink" not in map_.achieved and map_.items["drink"] < MOST:
        near = map_.material("w")(map_.state.front)
        if near or "make wood sword" in map_.achieved:
            return map_.use(map_.material("w"))
    for step in _STEPS:
        left = [name for name in step if name not in map_.achieved]
        for name in left:
            if name in map_.can:
                return name
        for name in left:
            if action := _obtain(map_, name):
                return action
    return None


def _obtain(map_: _Map, name: str) -> str | None:
    """Returns the next action towards an achievement of `_STEPS`."""
    verb, _, thing = name.partition(" ")
    items = map_.items
    if verb == "collect":
        return _collect(map_, thing, items.get(thing, 0) + 1)
    uses, where = MAKE[thing] if verb == "make" else (PLACE[thing][0], "")
    uses = dict(uses)
    nearby = map_.state.near()
    if "T" in where and "T" not in nearby and not _table_is_near(map_):
        uses["wood"] = uses.get("wood", 0) + PLACE["table"][0]["wood"]
    if "F" in where and "F" not in nearby and "place furnace" in map_.achieved:
        uses["stone"] = uses.get("stone", 0) + PLACE["furnace"][0]["stone"]
    for item, count in uses.items():
        if items.get(item, 0) < count:
            return _collect(map_, item, min(count + 3 * (item in ("wood", "stone")), MOST))
    if "T" in where and "T" not in nearby:
        if _table_is_near(map_):
            return map_.path(map_.material("T"))
        return "place table" if "place table" in map_.can else _shift(map_)
    if "F" in where and "F" not in nearby:
        return "place furnace" if "place furnace" in map_.can else _shift(map_)
    return _shift(map_)


def _table_is_near(map_: _Map) -> bool:
    """Whether a table is at most twelve squares away."""
    x, y = map_.here
    rows = map_.state.rows[max(y - 6, 0) : y + 7]
    return any("T" in row[max(x - 6, 0) : x + 7] for row in rows)


def _shift(map_: _Map) -> str | None:
    """Turns to another square, so that a thing can be placed in front."""
    for way in WAYS:
        if way != (map_.state.dx, map_.state.dy):
            spot = map_.here[0] + way[0], map_.here[1] + way[1]
            if map_.free(spot) or map_.state.material(spot) in (*map_.digs,):
                return _NAMES[way]
    return None


def _collect(map_: _Map, item: str, count: int) -> str | None:
    """Returns the next action towards an amount of an item, or None if there is no way."""
    if map_.items.get(item, 0) >= count:
        return None
    source = _SOURCES[item]
    tool = COLLECT[source][1]
    if tool and tool not in map_.items:
        return _obtain(map_, f"make {tool}")
    return map_.use(map_.material(source))


def _hunt(map_: _Map) -> str | None:
    """Seeks the creatures that have not been defeated or eaten yet."""
    for kind, name, health in (
        ("cow", "eat cow", 1),
        ("zombie", "defeat zombie", 6),
        ("skeleton", "defeat skeleton", 7),
    ):
        strong = map_.items["health"] >= health
        if name not in map_.achieved and strong and (action := map_.use(map_.kind(kind))):
            return action
    if "wake up" not in map_.achieved and map_.items["energy"] < MOST:
        return _sleep(map_)
    return None


def _wait(map_: _Map) -> str | None:
    """Stays near the plant, in a shelter."""
    plants = [c for c in map_.state.creatures if c.kind == "plant"]
    if plants and "eat plant" not in map_.achieved:
        x, y = plants[0].x, plants[0].y

        def near(spot: Spot) -> bool:
            return abs(spot[0] - x) + abs(spot[1] - y) <= 8 and map_.free(spot)

        if not near(map_.here) and (action := map_.path(near, onto=True)):
            return action
    if map_.area(map_.here) <= _SHELTER:
        return "noop"
    return _hide(map_)
