"""Overcooked: one cook, macro actions, a salad to be served."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from agentgym.core import TextEnv, TimeStep
from agentgym.envs.overcooked.kitchen import (
    CHOPS,
    FOODS,
    ORDER,
    Layout,
    Rewards,
    Square,
    State,
    chopped,
    fresh,
    lies,
)
from agentgym.envs.overcooked.macros import look, run
from agentgym.envs.overcooked.texts import action_text, describe
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks

KITCHENS = {
    "tomato salad": "1111131 6000001 1000001 7000001 1000001 1000001 1111151",
    "lettuce-tomato salad": "1111131 6000004 6000008 7000001 1000001 1000001 1111151",
}
"""Rows: 0 floor, 1 counter, 3 tomato, 4 lettuce, 5 bowl, 6 board, 7 delivery, 8 onion."""
ITEMS = {"3": "tomato", "4": "lettuce", "8": "onion", "5": "bowl"}
WALL: tuple[Square, ...] = ((3, 3), (2, 3), (4, 3), (1, 3))
START: Square = (1, 4)
REWARDS = {"twosome": Rewards(), "original": Rewards(-0.1, 10.0, 200.0, -5.0)}
HORIZON = 200


@cache
def layout_of(recipe: str, kitchen: str, start: Square) -> Layout:
    """Returns a kitchen: map "A" is open, "C" has a wall in the middle with a gap at the bottom."""
    rows = [list(row) for row in KITCHENS[recipe].split()]
    wall = WALL if kitchen == "C" else ()
    for row, column in wall:
        rows[row][column] = "1"
    squares = {(r, c): symbol for r, row in enumerate(rows) for c, symbol in enumerate(row)}
    homes = {ITEMS[symbol]: square for square, symbol in squares.items() if symbol in ITEMS}
    return Layout(
        floor=frozenset(square for square, symbol in squares.items() if symbol == "0"),
        boards=tuple(square for square, symbol in squares.items() if symbol == "6"),
        delivery=next(square for square, symbol in squares.items() if symbol == "7"),
        homes={name: homes[name] for name in (*FOODS, "bowl") if name in homes},
        start=start,
        wall=wall,
    )


class Salad(TextEnv):
    """Make a salad: fetch, chop, fill the bowl, serve - one macro action at a time.

    ## Description
    The kitchen of TWOSOME and POAD: one cook on a 7 x 7 grid, who sees two squares around. A macro
    action ("pick up the tomato") walks and acts until it is done and takes as many primitive steps
    as that needs; how it is called depends on what the cook holds and sees.

    ## Action Space
    Text: one of the admissible actions, 5 or 8 of them; in kitchen "C" also one that puts down what
    the cook holds on the wall.

    ## Observation Space
    Text: the boards, what lies on the counters in sight, what is on the boards in sight, what the
    cook holds, the order. As in the reference, neither where the cook stands nor what it remembers
    is told, nor, without `clock`, the steps left.

    ## Rewards
    Term `task`: the discounted sum of a macro action's primitive rewards, 0.99 a step: -0.001 a
    step, 0.2 when an ingredient of the order has been chopped, 1 for the right dish, -0.1 for
    anything else that is delivered (it goes back to where it came from, unchopped).
    `rewards="original"`: -0.1, 10, 200, -5.

    ## Starting State
    Everything in its place; the task names the square the cook starts on. Task `start/1,4`, the
    first training task, is the reference's only start.

    ## Episode End
    Termination: the right dish is served, or 200 primitive steps are used up; a macro action under
    way is finished first. Truncation: after `max_turns`.

    ## Information
    The common keys; `macro_action_steps`: the primitive steps that this action took (what comes
    after it is discounted by `gamma` to the power of that), `primitive_steps`: those so far.
    `state_key` names the whole state but the steps, also what the cook does not
    see. `progress`: chops made, ingredients in the bowl, and
    serving, weighed alike.

    ## Arguments
    `recipe`: "tomato salad" or "lettuce-tomato salad". `kitchen`: "A" or "C" (a wall with a gap);
    map B, which a wall cuts in two, takes two cooks: `Overcooked-Cooks-v0`. `radius`: how far the
    cook sees; 0: everything. `clock`: whether the steps left are told. `rewards`: "twosome" or
    "original". `gamma`: discount of a primitive step inside a macro action. `max_turns`: default
    50.

    ## Example Transcript
    ```
    The kitchen has a cutting board. You see a tomato on the counter. Your hands are empty. The
    order is: tomato salad.
    > pick up the tomato
    The kitchen has a cutting board. You see nothing on the counters. You hold a tomato. The order
    is: tomato salad.
    ```

    ## Baselines
    200 test episodes, mean return and success. `Overcooked-TomatoSalad-v0`: random -0.11, 28 %;
    expert 1.11, 100 %. `Overcooked-TomatoLettuceSalad-v0`: random -0.41, 0 %; expert 1.32, 100 %.
    From the reference's start the expert takes 28 and 45 primitive steps, the fewest possible.
    Imitation alone (300 demonstrations) learns the tomato salad, 1.11, and most of the other, 1.18;
    to compare learning methods take the other with fewer demonstrations, or
    `Overcooked-Cooks-v0`.

    ## Registered Configurations
    `Overcooked-TomatoSalad-v0`; `Overcooked-TomatoLettuceSalad-v0`: eight actions, an onion too
    many.

    ## References
    TWOSOME (arXiv 2401.14151), POAD (arXiv 2405.15821). Rewards, endings, transitions, durations
    and the texts of actions are the reference's, on all 1,833 recorded macro steps; observations
    are in other words, and equal exactly where the reference's are.

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(
        self,
        *,
        recipe: str = "tomato salad",
        kitchen: str = "A",
        radius: int = 2,
        clock: bool = False,
        rewards: str = "twosome",
        gamma: float = 0.99,
        max_turns: int | None = 50,
        **kwargs,
    ):
        if kitchen == "B":
            raise ValueError(
                'kitchen "B" is cut in two: a lone cook cannot serve there. Take "A" or "C", or '
                "AgentGym/Overcooked-Cooks-v0, in which two cooks hand things over the wall."
            )
        for name, value, known in (
            ("recipe", recipe, tuple(KITCHENS)),
            ("kitchen", kitchen, ("A", "C")),
            ("rewards", rewards, tuple(REWARDS)),
        ):
            if value not in known:
                hint = did_you_mean(value, known)
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}.{hint}")
        if radius < 0:
            raise ValueError(f"radius must be at least 0, got {radius}.")
        if not 0 < gamma <= 1:
            raise ValueError(f"gamma must be in (0, 1], got {gamma}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.recipe, self.kitchen, self.radius, self.gamma = recipe, kitchen, radius, gamma
        self.clock = clock
        self.rewards = REWARDS[rewards]
        layout = layout_of(recipe, kitchen, START)
        boards = [f"board {number + 1}" for number in range(len(layout.boards))]
        self.macros = [f"get {name}" for name in layout.homes] + [*boards, "deliver", "chop"]
        self.macros += ["counter"] * bool(layout.wall)
        self.needed = [name for name in reversed(ORDER) if name in recipe]
        squares = sorted(layout.floor - {START})
        names = [f"start/{row},{column}" for row, column in (START, *squares)]
        self.tasks = Tasks(
            train=tuple(name for i, name in enumerate(names) if i % 3 != 2), test=tuple(names[2::3])
        )
        self.instructions = (
            "You are a cook. Fill the order: fetch each ingredient it names, put it on a cutting "
            "board, chop it, put it into the bowl, and serve the bowl with nothing else in it. "
            f"A {CHOPS}-step chop makes one ingredient ready. With the bowl in your hands, an "
            "ingredient that is chopped goes into it; with a chopped ingredient in your hands, "
            "taking the bowl puts it in. You see only what is near. Actions walk by themselves and "
            f"take several of your {HORIZON} steps; serving anything else is a mistake. Answer "
            "with one of the actions offered, nothing else."
        )

    @property
    def layout(self) -> Layout:
        """The kitchen of the current task."""
        row, column = self.task.removeprefix("start/").split(",")
        return layout_of(self.recipe, self.kitchen, (int(row), int(column)))

    def _start(self, task: str) -> TimeStep:
        self.state = fresh(self.layout)
        look(self.layout, self.state, self.radius)
        return self._look(0.0)

    def _actions(self) -> dict[str, str]:
        """The macro action of each text."""
        layout, state = self.layout, self.state
        return {action_text(layout, state, m, self.radius): m for m in self.macros}

    def _advance(self, action: str) -> TimeStep:
        actions = self._actions()
        macro = actions.get(action)
        if macro is None:
            return self._invalid(f"Say one of: {', '.join(actions)}.")
        reward, self.state.took = run(
            self.layout, self.state, macro, self.recipe, self.rewards, self.radius, self.gamma
        )
        return self._look(reward)

    def _look(self, reward: float) -> TimeStep:
        state = self.state
        over = state.served or state.steps >= HORIZON
        text = describe(self.layout, state, self.radius, self.recipe)
        if self.clock:
            text += f" Steps left: {max(0, HORIZON - state.steps)}."
        ready = sum(min(state.chops[name], CHOPS) / CHOPS for name in self.needed)
        inside = sum(name in state.bowl for name in self.needed)
        return TimeStep(
            text=text,
            rewards={"task": reward},
            terminated=over,
            success=state.served,
            progress=(ready + inside + state.served) / (2 * len(self.needed) + 1),
            admissible=() if over else tuple(self._actions()),
            state_key=repr(dataclasses.replace(state, steps=0, took=0)),
        )

    def _info(self, step: TimeStep) -> dict[str, Any]:
        took = self.state.took if step.valid else 0
        return {
            **super()._info(step),
            "macro_action_steps": took,
            "primitive_steps": self.state.steps,
        }

    def expert(self) -> str:
        """Returns the next action of the shortest way from the start; recovers from detours."""
        return action_text(self.layout, self.state, self._plan(), self.radius)

    def _plan(self) -> str:
        layout, state = self.layout, self.state
        boards = [*enumerate(layout.boards, 1)]
        on_board = {lies(state, square): number for number, square in reversed(boards)}
        held = state.holding
        missing = [name for name in self.needed if name not in state.bowl]
        raw = [name for name in missing if not chopped(state, name)]
        junk = any(name not in self.needed for name in state.bowl)
        if held == "bowl":
            if junk or raw:
                return "deliver"  # what is delivered in error goes back where it came from
            nearest = sorted(missing, key=lambda name: _steps(state.cook, state.where[name]))
            return f"get {nearest[0]}" if missing else "deliver"
        if junk:
            return "get bowl"
        if held in missing:
            if chopped(state, held):
                return "get bowl" if not raw else "deliver"
            return f"board {on_board['']}" if "" in on_board else "deliver"
        if held:
            return "deliver"
        return self._fetch(on_board, raw, missing)

    def _fetch(self, on_board: dict[str, int], raw: list[str], missing: list[str]) -> str:
        """What to do with empty hands."""
        state = self.state
        in_front = [
            lies(state, square)
            for square in self.layout.boards
            if state.cook == (square[0], square[1] + 1)
        ]
        if any(name in raw for name in in_front):
            return "chop"
        waiting = [name for name in raw if name in on_board]
        if waiting:
            return f"board {on_board[waiting[0]]}"
        in_the_way = [name for name in on_board if name and name not in self.needed]
        if raw and "" not in on_board and in_the_way:
            # Whatever is delivered in error goes back home; raw food is taken once it is chopped.
            name = in_the_way[0]
            if name == "bowl" or chopped(state, name):
                return f"get {name}"
            return "chop" if name in in_front else f"board {on_board[name]}"
        if raw:
            return f"get {raw[0]}"
        # The last ingredient is carried to the bowl; for several, the bowl is carried to them.
        return f"get {missing[0]}" if len(missing) == 1 else "get bowl"


def _steps(a: Square, b: Square) -> int:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])
