"""Macro actions: sequences of primitive moves that walk to a target and act there."""

from __future__ import annotations

from agentgym.envs.overcooked.kitchen import (
    CHOPS,
    STAY,
    STEPS,
    Layout,
    Rewards,
    Square,
    State,
    chopped,
    lies,
    primitive,
    visible,
    way,
)


def look(layout: Layout, state: State, radius: int) -> None:
    """Updates the beliefs of the cook with its current observation."""
    for name, there in state.where.items():
        if visible(state, there, radius):
            state.believed[name] = there
        elif visible(state, state.believed[name], radius):
            # Not at its remembered square: assume that it is back at its origin.
            state.believed[name] = layout.homes[name]


def run(
    layout: Layout, state: State, macro: str, task: str, rewards: Rewards, radius: int, gamma: float
) -> tuple[float, int]:
    """Runs a macro action to its end. Returns its discounted reward and primitive steps."""
    total, steps, chops = 0.0, 0, 0
    while True:
        move, done = choose(layout, state, macro, chops, radius)
        total += gamma**steps * primitive(layout, state, move, task, rewards)
        look(layout, state, radius)
        steps += 1
        chops += macro == "chop" and move != STAY
        if done or state.served:
            return total, steps


def choose(layout: Layout, state: State, macro: str, chops: int, radius: int) -> tuple[int, bool]:
    """Returns the next primitive move of a macro action, and whether it is the last."""
    if macro == "chop":
        for square in layout.boards:
            there = lies(state, square)
            if there in state.chops and not chopped(state, there):
                step = square[0] - state.cook[0], square[1] - state.cook[1]
                if step in STEPS:
                    return STEPS.index(step), chops + 1 >= CHOPS
        return STAY, True
    if macro.startswith("get "):
        return _get(layout, state, macro.removeprefix("get "), radius)
    if macro == "counter":
        return _counter(layout, state)
    target = layout.delivery if macro == "deliver" else layout.boards[int(macro[-1]) - 1]
    move = way(layout.floor, state.cook, target)
    beside = _beside(state, target)
    if not beside:
        # With empty hands, stop beside the target.
        after = state.cook[0] + STEPS[move][0], state.cook[1] + STEPS[move][1]
        arrives = abs(after[0] - target[0]) + abs(after[1] - target[1]) == 1
        return move, move == STAY or (arrives and not state.holding)
    return (move, True) if state.holding else (STAY, True)


def _get(layout: Layout, state: State, name: str, radius: int) -> tuple[int, bool]:
    seen = visible(state, state.where[name], radius)
    if state.holding == name or (name in state.bowl and seen):
        return STAY, True
    target = state.believed[name]
    move = way(layout.floor, state.cook, target)
    if not _beside(state, target):
        after = state.cook[0] + STEPS[move][0], state.cook[1] + STEPS[move][1]
        arrives = abs(after[0] - target[0]) + abs(after[1] - target[1]) == 1
        raw = target in layout.boards and name != "bowl" and not chopped(state, name)
        return move, move == STAY or (arrives and raw)
    if target in layout.boards and name != "bowl" and not chopped(state, name):
        return STAY, True
    if name == "bowl" and chopped(state, state.holding):
        return move, False  # the food goes in first, then the bowl is taken
    return move, True


def _counter(layout: Layout, state: State) -> tuple[int, bool]:
    """Walks to the first counter of the wall that is free according to the beliefs of the cook."""
    taken = set(state.believed.values())
    target = next((square for square in layout.wall if square not in taken), None)
    if target is None:
        return STAY, True
    return way(layout.floor, state.cook, target), _beside(state, target)


def _beside(state: State, target: Square) -> bool:
    return abs(state.cook[0] - target[0]) + abs(state.cook[1] - target[1]) == 1
