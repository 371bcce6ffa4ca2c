"""The rules of Crafter for the player: actions, and the needs that grow with time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from agentgym.envs.crafter.creatures import balance, move_creatures
from agentgym.envs.crafter.state import (
    ACTIONS,
    COLLECT,
    DIRECTIONS,
    MAKE,
    MOST,
    PLACE,
    RIPE,
    SAPLING_CHANCE,
    State,
)
from agentgym.envs.crafter.world import HEALTH, WALKABLE, Creature


def luck(rng: np.random.Generator) -> Iterator[float]:
    """Yields random numbers in [0, 1), which are drawn in blocks."""
    while True:
        yield from rng.random(64).tolist()


def possible(state: State) -> tuple[str, ...]:
    """Returns the actions that have an effect. Doing nothing always has one."""
    if state.sleeping:
        return ACTIONS[:1]
    material, creature = state.material(state.front), state.creature(state.front)
    actions = list(ACTIONS[:5])
    if creature is not None:
        useful = creature.kind != "arrow" and (creature.kind != "plant" or creature.timer > RIPE)
    else:
        found = COLLECT.get(material)
        useful = found is not None and (not found[1] or found[1] in state.items)
    if useful:
        actions.append("do")
    if state.items["energy"] < MOST:
        actions.append("sleep")
    for name, (uses, where, _) in PLACE.items():
        if creature is None and material and material in where and state.has(uses):
            actions.append(f"place {name}")
    around = state.near()
    for name, (uses, nearby) in MAKE.items():
        if state.has(uses) and all(thing in around for thing in nearby):
            actions.append(f"make {name}")
    return tuple(actions)


def turn(state: State, action: str, rng: np.random.Generator) -> None:
    """Plays one turn of the player, then one of each creature that is near."""
    dice = luck(rng)
    state.clock += 1
    state.before = state.items["health"]
    woke = _rest(state)
    if not state.sleeping and not woke:
        _act(state, action, dice)
    _live(state)
    move_creatures(state, dice)
    if state.clock % 10 == 0:
        balance(state, dice)
    if state.items["health"] < state.before:
        state.sleeping = False


def _rest(state: State) -> bool:
    """Ends the player's sleep at full energy, and returns whether it does."""
    if not state.sleeping or state.items["energy"] < MOST:
        return False
    state.sleeping = False
    state.achieve("wake up")
    return True


def _act(state: State, action: str, dice: Iterator[float]) -> None:
    """Applies an action of the player. An action that is not possible has no effect."""
    verb, _, name = action.partition(" ")
    if verb == "move":
        state.dx, state.dy = DIRECTIONS[name]
        material = state.material(state.front)
        if material and material in WALKABLE + "l" and state.creature(state.front) is None:
            state.x, state.y = state.front
            if material == "l":
                state.items["health"] = 0
    elif action not in possible(state):
        return
    elif verb == "do":
        creature = state.creature(state.front)
        if creature is not None:
            _touch(state, creature)
        else:
            _collect(state, dice)
    elif verb == "sleep":
        state.sleeping = True
    elif verb in ("place", "make"):
        uses = PLACE[name][0] if verb == "place" else MAKE[name][0]
        for item, count in uses.items():
            state.gain(item, -count)
        if verb == "make":
            state.gain(name, 1)
        elif name == "plant":
            state.creatures.append(Creature(name, *state.front, HEALTH[name]))
        else:
            state.put(state.front, PLACE[name][2])
        state.achieve(action)


def _touch(state: State, creature: Creature) -> None:
    """Eats a ripe plant, or strikes a creature."""
    if creature.kind == "plant":
        creature.timer = 0
        state.gain("food", 4)
        state.achieve("eat plant")
        return
    swords = {"iron sword": 5, "stone sword": 3, "wood sword": 2}
    creature.health -= next((d for sword, d in swords.items() if sword in state.items), 1)
    if creature.health > 0:
        return
    if creature.kind == "cow":
        state.gain("food", 6)
        state.hunger = 0
        state.achieve("eat cow")
    else:
        state.achieve(f"defeat {creature.kind}")


def _collect(state: State, dice: Iterator[float]) -> None:
    """Collects the material in front."""
    material = state.material(state.front)
    item, _, leaves = COLLECT[material]
    if material == "w":
        state.thirst = 0
    if material != "." or next(dice) <= SAPLING_CHANCE:
        state.gain(item, 1)
        state.achieve(f"collect {item}")
    if leaves != material:
        state.put(state.front, leaves)


def _live(state: State) -> None:
    """Lets hunger, thirst, fatigue and health change with time."""
    pace = 0.5 if state.sleeping else 1.0
    state.hunger += pace
    state.thirst += pace
    state.fatigue = min(state.fatigue - 1, 0) if state.sleeping else state.fatigue + 1
    if state.hunger > 25:
        state.hunger = 0
        state.gain("food", -1)
    if state.thirst > 20:
        state.thirst = 0
        state.gain("drink", -1)
    if state.fatigue < -10 or state.fatigue > 30:
        state.gain("energy", 1 if state.fatigue < 0 else -1)
        state.fatigue = 0
    fine = state.items["food"] and state.items["drink"]
    if fine and (state.items["energy"] or state.sleeping):
        state.recover += 2 if state.sleeping else 1
    else:
        state.recover -= pace
    if state.recover > 25 or state.recover < -15:
        if state.items["health"]:  # not after a step into lava
            state.gain("health", 1 if state.recover > 0 else -1)
        state.recover = 0
