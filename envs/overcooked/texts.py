"""Texts of observations and macro actions."""

from __future__ import annotations

from agentgym.envs.overcooked.kitchen import Layout, State, chopped, lies, visible

NUMBERS = ("first", "second")


def board_name(layout: Layout, number: int) -> str:
    """Returns "cutting board", with its number if there are several."""
    return f"{NUMBERS[number]} cutting board" if len(layout.boards) > 1 else "cutting board"


def action_text(layout: Layout, state: State, macro: str, radius: int) -> str:
    """Returns the text of a macro action, which depends on the held item and visible items."""
    if macro == "chop":
        there = next((lies(state, b) for b in layout.boards if _front(state, b)), "")
        return f"chop the {there}" if there in state.chops else "chop nothing"
    if macro == "deliver":
        return "serve the dish" if state.holding else "serve nothing"
    if macro == "get bowl":
        empty = not (state.bowl and visible(state, state.where["bowl"], radius))
        return "take the empty bowl" if len(layout.homes) > 2 and empty else "take the bowl"
    if macro.startswith("get "):
        name = macro.removeprefix("get ")
        return f"put the {name} in the bowl" if state.holding == "bowl" else f"pick up the {name}"
    if macro == "counter":
        held = state.holding
        return f"put the {held} on the counter" if held else "walk to the counter"
    name = board_name(layout, int(macro[-1]) - 1)
    if state.holding and not chopped(state, state.holding):
        return f"put the {state.holding} on the {name}"
    return f"walk to the {name}"


def describe(layout: Layout, state: State, radius: int, task: str) -> str:
    """Returns the observation text: visible items, held item and order."""
    boards = [board_name(layout, number) for number in range(len(layout.boards))]
    lines = [f"The kitchen has {_listed(['a ' + name for name in boards])}."]
    loose = [
        f"{_named(state, name)} on the counter"
        for name, there in state.where.items()
        if name != state.holding
        and name not in state.bowl
        and there not in (*layout.boards, layout.delivery)
        and visible(state, there, radius)
    ]
    lines.append(f"You see {_listed(loose)}." if loose else "You see nothing on the counters.")
    for name, square in zip(boards, layout.boards, strict=True):
        if visible(state, square, radius):
            there = lies(state, square)
            lines.append(f"On the {name} is {_named(state, there) if there else 'nothing'}.")
    held = f"You hold {_named(state, state.holding)}" if state.holding else "Your hands are empty"
    front = next((n for n, b in zip(boards, layout.boards, strict=True) if _front(state, b)), "")
    lines.append(held + (f", and you stand in front of the {front}." if front else "."))
    return " ".join(lines) + f" The order is: {task}."


def _front(state: State, board: tuple[int, int]) -> bool:
    return state.cook == (board[0], board[1] + 1)


def _named(state: State, name: str) -> str:
    if name == "bowl":
        inside = [f"chopped {food}" for food in state.bowl]
        return f"a bowl with {_listed(inside)}" if inside else "an empty bowl"
    return (
        f"a chopped {name}"
        if chopped(state, name)
        else f"{'an' if name == 'onion' else 'a'} {name}"
    )


def _listed(things: list[str]) -> str:
    return things[0] if len(things) == 1 else ", ".join(things[:-1]) + f" and {things[-1]}"
