"""Overcooked with one cook and macro actions."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, ClassVar

from agentgym.core import TextEnv
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
from agentgym.envs.overcooked.picture import picture
from agentgym.envs.overcooked.texts import action_text, board_name, describe
from agentgym.errors import did_you_mean
from agentgym.rendering import Scene
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

KITCHENS = {
    "tomato salad": "1111131 6000001 1000001 7000001 1000001 1000001 1111151",
    "lettuce-tomato salad": "1111131 6000004 6000008 7000001 1000001 1000001 1111151",
}
"""Rows: 0 floor, 1 counter, 3 tomato, 4 lettuce, 5 bowl, 6 board, 7 delivery, 8 onion."""
ITEMS = {"3": "tomato", "4": "lettuce", "8": "onion", "5": "bowl"}
WALL: tuple[Square, ...] = ((3, 3), (2, 3), (4, 3), (1, 3))
START: Square = (1, 4)
REWARDS = {"twosome": Rewards(), "original": Rewards(-0.1, 10.0, 200.0, -5.0, again=True)}
HORIZON = 200
LONG_WALK = 10
"""Primitive steps of a walk through the whole kitchen."""


@cache
def layout_of(recipe: str, kitchen: str, start: Square) -> Layout:
    """Returns a kitchen: map "A" is open, "C" has a wall with a gap at the bottom."""
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
    """Make and serve a salad as a single cook with macro actions.

    ## Description
    The kitchen of TWOSOME and POAD: one cook on a 7 x 7 grid with a visibility radius of two
    squares. A macro action, such as "pick up the tomato", walks and acts until it is done and takes
    as many primitive steps as needed. Its text depends on the held item and the visible items.

    ## Action Space
    Text: one of 5 ("tomato salad") or 8 ("lettuce-tomato salad") admissible actions, plus one for
    the counters of the wall in kitchen "C". The actions are:

    - `pick up the tomato`: walk to an ingredient and take it. With the bowl in hand:
      `put the tomato in the bowl`.
    - `take the bowl` or `take the empty bowl`. A chopped ingredient in hand goes into the bowl.
    - `walk to the cutting board`. With an unchopped ingredient in hand:
      `put the tomato on the cutting board`.
    - `chop the tomato`, or `chop nothing` if no board with an ingredient is in front of the cook.
    - `serve the dish`, or `serve nothing` with empty hands.
    - `walk to the counter`. With an item in hand: `put the tomato on the counter`.

    ## Observation Space
    Text: the boards, the visible items on counters and boards, the held item and the order. As in
    the reference, the position and the memory of the cook are hidden. The remaining steps are
    hidden unless `clock` is set.

    ## Rewards
    Term `task`: the sum of the primitive rewards of a macro action, discounted by `gamma` per
    primitive step.

    | event | `rewards="twosome"` | `rewards="original"` |
    |---|---|---|
    | primitive step | -0.001 | -0.1 |
    | ingredient of the order is chopped, the first time | 0.2 | 10 |
    | right dish is served | 1 | 200 |
    | anything else is served | -0.1 | -5 |

    A wrongly served item returns to its initial place, unchopped. With `rewards="original"`, as in
    the references, chopping it again pays again. Serving chopped ingredients and chopping them
    again is then profitable without end, and the expert, which serves the dish at once, is no
    upper bound. An invalid action takes no time and costs `invalid_penalty`.

    ## Starting State
    All items are at their initial places. The task names the initial square of the cook. Task
    `start/1,4`, the first training task, is the only initial state of the reference. Few starts
    exist, and the splits share episodes: as the position is hidden, the same actions with the same
    observations solve most tasks.

    ## Episode End
    Termination: the right dish is served, or 200 primitive steps are used up. A macro action in
    progress is finished first. Truncation: after `max_turns` turns.

    ## Information
    The common keys, and:

    - `macro_action_steps`: primitive steps of the last action. Its successor states are discounted
      by `gamma` to this power.
    - `primitive_steps`: primitive steps so far.

    `state_key` identifies the full state except for the number of steps, including hidden parts.
    `progress` is the fraction of completed work: chops, ingredients in the bowl and serving, with
    equal weights per ingredient.

    ## Arguments
    - `recipe` (str, default "tomato salad"): "tomato salad" or "lettuce-tomato salad".
    - `kitchen` (str, default "A"): "A" (open) or "C" (a wall with a gap). Map "B" is divided by a
      wall and needs two cooks, as in `Overcooked-Cooks-v0`.
    - `radius` (int, default 2): visibility radius. 0 means full visibility.
    - `clock` (bool, default False): whether observations include the remaining steps.
    - `rewards` (str, default "twosome"): "twosome" or "original".
    - `gamma` (float, default 0.99): discount per primitive step within a macro action.
    - `invalid_penalty` (float or None, default None): cost of an invalid action. None: as much as
      10 primitive steps, a walk through the whole kitchen.
    - `max_turns` (int or None, default 50): turn limit.

    ## Notes
    - Behaviour cloning alone solves the tomato salad and most episodes of the lettuce-tomato
      salad. To compare learning methods, use the latter with fewer demonstrations, or
      `Overcooked-Cooks-v0`.
    - From the initial state of the reference, the expert takes the minimal number of primitive
      steps.

    ## References
    TWOSOME (arXiv 2401.14151) and POAD (arXiv 2405.15821). Rewards, episode ends, transitions,
    durations and action texts equal those of the reference on all recorded macro steps, except
    that an ingredient pays only the first time it is chopped.
    Observations are worded differently, and two observations are equal if and only if they are
    equal in the reference.

    ## Version History
    v0: first version.
    """

    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "a kitchen has few starts, of which some look alike",
        "semantic.duplicate_tasks": "a kitchen has few starts, of which some look alike",
    }

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
        invalid_penalty: float | None = None,
        **kwargs,
    ):
        if kitchen == "B":
            raise ValueError(
                'kitchen "B" is divided by a wall, so a single cook cannot serve there. Use "A" or '
                '"C", or AgentGym/Overcooked-Cooks-v0 with two cooks.'
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
        penalty = LONG_WALK * -REWARDS[rewards].step if invalid_penalty is None else invalid_penalty
        super().__init__(max_turns=max_turns, invalid_penalty=penalty, **kwargs)
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
        self.instructions = self._rules(layout)

    def _rules(self, layout: Layout) -> str:
        board, reward = board_name(layout, 0), self.rewards
        bowl = "empty bowl" if len(layout.homes) > 2 else "bowl"
        sight = f"- You see items up to {self.radius} squares away.\n" if self.radius else ""
        return (
            "You are a cook. Make the salad of the order and serve it.\n"
            "- Put each ingredient of the order on a cutting board, chop it and put it into the "
            "bowl.\n"
            "- If you hold a chopped ingredient, taking the bowl puts the ingredient into it.\n"
            "- Serve the bowl with exactly these ingredients. Anything else returns to its place, "
            "unchopped.\n"
            "- Actions walk to their target and take one or more steps. You have "
            f"{HORIZON} steps.\n{sight}"
            f"- Rewards: {reward.served:g} for the right dish, which ends the episode, "
            f"{reward.chopped:g} for each ingredient of the order when it is chopped"
            f"{'' if reward.again else ' the first time'}, {reward.wrong:g} for serving anything "
            f"else, {reward.step:g} per step, {-self.invalid_penalty:g} for an invalid action.\n"
            "Each turn, reply with one admissible action and nothing else, for example:\n"
            f"- pick up the tomato\n- put the tomato on the {board}\n- chop the tomato\n"
            f"- take the {bowl}\n- put the tomato in the bowl\n- serve the dish"
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
        """Returns the macro actions by text."""
        layout, state = self.layout, self.state
        return {action_text(layout, state, m, self.radius): m for m in self.macros}

    def _advance(self, action: str) -> TimeStep:
        actions = self._actions()
        macro = actions.get(action)
        if macro is None:
            return self._invalid(
                f"Invalid action {action[:40]!r}. Admissible actions: {', '.join(actions)}."
            )
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

    def privileged_text(self) -> str:
        """Returns the progress of each ingredient, the item in hand and the steps left."""
        state = self.state
        parts = [
            "in the bowl" if name in state.bowl else f"chopped {min(state.chops[name], CHOPS)}"
            for name in self.needed
        ]
        wrong = sum(name not in self.needed for name in state.bowl)
        return (
            f"{', '.join(parts)}. Holding: {state.holding or 'nothing'}. Wrong: {wrong}. "
            f"Steps left: {max(0, HORIZON - state.steps)}."
        )

    def _frame(self) -> Scene:
        layout, state = self.layout, self.state
        away = (state.holding, *state.bowl)
        items = {name: square for name, square in state.where.items() if name not in away}
        cooks = [(state.cook, state.holding)]
        caption = f"{self.recipe}: in the bowl {', '.join(state.bowl) or 'nothing'}"
        parts = layout.floor, layout.boards, layout.delivery
        return picture(*parts, items, state.chops, cooks, caption)

    def expert(self) -> str:
        """Returns the next action of a shortest plan. Recovers from detours."""
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
                return "deliver"  # a wrongly served item returns home
            nearest = sorted(missing, key=lambda name: _steps(state.cook, state.where[name]))
            return f"get {nearest[0]}" if missing else "deliver"
        if junk and (not held or chopped(state, held)):  # raw food in the hands leaves no room
            return "get bowl"
        if held in missing:
            if chopped(state, held):
                return "get bowl" if not raw else "deliver"
            return f"board {on_board['']}" if "" in on_board else "deliver"
        if held:
            return "deliver"
        return self._fetch(on_board, raw, missing)

    def _fetch(self, on_board: dict[str, int], raw: list[str], missing: list[str]) -> str:
        """Returns the macro action of a cook with empty hands."""
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
            # A wrongly served item returns home. Raw food on a board can be taken once chopped.
            name = in_the_way[0]
            if name == "bowl" or chopped(state, name):
                return f"get {name}"
            return "chop" if name in in_front else f"board {on_board[name]}"
        if raw:
            return f"get {raw[0]}"
        # Carry a single missing ingredient to the bowl, or the bowl to several ingredients.
        return f"get {missing[0]}" if len(missing) == 1 else "get bowl"


def _steps(a: Square, b: Square) -> int:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])
