"""The rules and the action format of `Cooks`, as its agents read them."""

from __future__ import annotations

from agentgym.envs.overcooked.brigade import Layout
from agentgym.envs.overcooked.kitchen import CHOPS, Rewards

MAX_MESSAGE = 200
"""Maximum number of characters of a message."""


def instructions(
    layout: Layout,
    rewards: Rewards,
    *,
    cooks: int,
    horizon: int,
    radius: int,
    errands: bool,
    talk: bool,
) -> str:
    """Returns the rules and the action format of `Cooks`.

    Args:
        layout: the kitchen.
        rewards: the rewards of the primitive steps.
        cooks: number of cooks.
        horizon: limit of primitive steps.
        radius: visibility radius. 0 means full visibility.
        errands: whether actions are errands. If False, they are primitive moves.
        talk: whether actions can carry a message.
    """
    parts = [
        f"You are one of {cooks} cooks who make one salad together. Every food "
        f"of the order has to be chopped on a cutting board ({CHOPS} chops) and put into one bowl. "
        "The bowl, with nothing else in it, has to be served at the delivery.",
        "Kitchen (# counter, . floor, 1 and 2 cutting boards, D delivery):",
        plan_of(layout),
        "Squares are (row,column), counted from 0.",
        "All cooks get the same reward:",
        f"- {rewards.served:g} for serving the right dish, which ends the episode",
        f"- {rewards.chopped:g} for each food of the order when it is chopped"
        + " the first time" * (not rewards.again),
        f"- {rewards.wrong:g} for serving anything else, which returns to its place, unchopped",
        f"- {rewards.step:g} per step. There are {horizon} steps.",
        "Rules:",
        "- Cooks cannot pass through each other, but two cooks who walk towards each other swap "
        "places.",
        "- A food on a board must be chopped before it can be taken.",
    ]
    if radius:
        parts.append(f"- You see {radius} squares around you.")
    parts += _errand_rules(layout) if errands else _move_rules()
    if talk:
        parts.append(
            f"You can add a message of up to {MAX_MESSAGE} characters to the other cooks after a "
            f"bar, for example: {'get tomato | I take the tomato' if errands else 'up | Hi'}. "
            "They read it when they act next."
        )
    return "\n".join(parts)


def plan_of(layout: Layout) -> str:
    """Returns the kitchen as a map: # counter, . floor, 1 and 2 boards, D delivery."""
    rows = [
        ["." if (row, column) in layout.floor else "#" for column in range(layout.size)]
        for row in range(layout.size)
    ]
    for symbol, (row, column) in zip("12D", (*layout.boards, layout.delivery), strict=True):
        rows[row][column] = symbol
    return "\n".join("".join(row) for row in rows)


def _errand_rules(layout: Layout) -> list[str]:
    counter = (
        "- go to counter: put the item you hold on the wall, where cooks on the other side can "
        "take it."
    )
    return [
        "- Actions walk to their target and take one or more steps. You act again when your action "
        "is done.",
        "Reply with one action:",
        "- get tomato, get lettuce, get onion, get bowl 1, get bowl 2: take the item. If you hold "
        "a bowl, a chopped food goes into it. If you hold a chopped food, getting a bowl puts the "
        "food into it and takes the bowl.",
        "- go to board 1, go to board 2: put the item you hold on the board. With empty hands, "
        "stop beside it.",
        f"- chop: chop the food on the board beside you {CHOPS} times.",
        "- deliver: serve the item you hold.",
        *[counter] * bool(layout.wall),
        "- right, down, left, up: walk one step.",
        "- stay: wait one step.",
    ]


def _move_rules() -> list[str]:
    return [
        "- All cooks move at the same time, one step per turn.",
        "- Walk into a counter to take the item on it, or to put the item you hold on it.",
        "- Walk into a board to put the item you hold on it. With empty hands, you chop the raw "
        "food on it once or take a chopped food or a bowl.",
        "- Walk into the delivery to serve the item you hold.",
        "- A chopped food goes into a bowl if you hold one of them and walk into the other.",
        "Reply with one action: right, down, left, up or stay.",
    ]
