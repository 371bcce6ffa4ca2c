"""BabaIsAI: reach the object that is win, and push the blocks that form the rules."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym.core import TextEnv
from agentgym.envs.baba.board import Board, move
from agentgym.envs.baba.levels import GROUPS, KINDS, Level, level_of
from agentgym.envs.baba.solver import solution
from agentgym.envs.grid.moves import DIRECTIONS, Square
from agentgym.errors import ConfigError
from agentgym.rendering import Cell, Scene
from agentgym.rendering.scene import BLUE, BROWN, DARK, GOLD, INK, RED
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

IDLE = "idle"
_ACTIONS = (*DIRECTIONS, IDLE)


OBJECTS = {
    "baba": Cell(shape="disc", color=RED),
    "wall": Cell(DARK),
    "ball": Cell(shape="disc", color=BLUE),
    "key": Cell(shape="star", color=GOLD),
    "door": Cell(shape="box", color=BROWN),
}
"""The cells of the objects in the picture."""


class BabaIsAI(TextEnv):
    """Win small levels of Baba Is You, in which blocks with words form the rules.

    ## Description
    Three blocks in a row or column, such as `key`, `is` and `win`, are an active rule. Blocks can
    be pushed, so the agent can break rules, make new ones, and become another object. A level has
    one room, or two rooms with a wall between them that the rule "wall is stop" closes.

    ## Action Space
    Text: `left`, `down`, `right` or `up` (one step of everything that is you) or `idle`.

    ## Observation Space
    Text: the active rules, the objects and blocks with their distances from the object that is you,
    and the distances to the edges of the map.

    ## Rewards
    1 (term `task`) if an object that is you reaches one that is win, else 0. An invalid action
    costs `invalid_penalty`.

    ## Starting State
    A level sampled from the task name, which the expert can win. Half of the levels have an object
    and half have a block that are not needed. Training and test tasks share no levels.

    ## Episode End
    Termination: the level is won, or no object is you. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is 1 if the level is won, else 0, as in BALROG. `admissible` lists
    all actions.

    ## Arguments
    - `kind` (str, default "mixed"): "goto_win", "make_win", "two_room-goto_win",
      "two_room-make_win", "two_room-break_stop-goto_win", "two_room-break_stop-make_win",
      "two_room-make_you", "two_room-make_you-make_win" or "two_room-make_wall_win". "mixed" samples
      one of the first five, "hard" one of the other four.
    - `max_turns` (int or None, default 100): turn limit.

    ## References
    Baba Is AI (Cloos et al., arXiv 2407.13729), played as text as in BALROG (arXiv 2411.13543): the
    same kinds of levels, actions and descriptions. Differences: edges are described, a level
    without an object that is you ends instead of starting anew, objects have no colours, the
    reward does not fall with the turns, and rules change before a win is checked, as in Baba Is
    You.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Win a level of the puzzle game Baba Is You.\n"
        "Each turn, reply with one action:\n"
        "- left, down, right or up (one step of everything that is you)\n"
        "- idle (wait)\n"
        "Rules:\n"
        "- Three blocks in a row or column form an active rule, read from left to right or from "
        "top to bottom, such as `baba` `is` `you`.\n"
        "- Walk into a block to push it, with the blocks behind it. This can break and make "
        "rules.\n"
        "- You control the objects that are you. If nothing is you, the level is lost.\n"
        "- Nothing can enter the square of an object that is stop, or leave the map.\n"
        "- You can walk onto other objects.\n"
        "- A rule such as `ball` `is` `key` turns every ball into a key.\n"
        "Reaching an object that is win ends the episode with a reward of 1."
    )
    State = Board
    state: Board

    def __init__(self, *, kind: str = "mixed", max_turns: int | None = 100, **kwargs):
        known = (*GROUPS, *KINDS)
        if kind not in known:
            raise ConfigError(f"kind must be one of {known}, got {kind!r:.80}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.kind = kind
        self.tasks = Tasks.generated()

    @property
    def level(self) -> Level:
        """The level of the task, which snapshots do not contain."""
        return level_of(self.task, self.kind)

    def _start(self, task: str) -> TimeStep:
        self.state = level_of(task, self.kind).board
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        if action not in _ACTIONS:
            known = ", ".join(_ACTIONS)
            return self._invalid(f"Invalid action {action[:40]!r}. Valid actions: {known}.")
        if action != IDLE:
            self.state = move(self.state, DIRECTIONS[action])
        return self._look()

    def _look(self) -> TimeStep:
        board = self.state
        won, lost = board.won, board.lost
        rules = "\n".join(f"{noun} is {word}" for noun, word in board.rules)
        text = f"Active rules:\n{rules or 'none'}"
        if lost:
            text += "\n\nNothing is you. The level is lost."
        else:
            text += "\n".join(["\n\nObjects on the map:", *_described(board)])
        return TimeStep(
            text=text + "\n\nYou win!" * won,
            rewards={"task": float(won)},
            terminated=won or lost,
            success=won,
            progress=float(won),
            admissible=() if won or lost else _ACTIONS,
        )

    def _restored(self) -> None:
        board, start = self.state, self.level.board
        if (board.rows, board.columns) != (start.rows, start.columns):
            raise ValueError("the board is one of another task")
        if [word for word, _ in board.blocks] != [word for word, _ in start.blocks]:
            raise ValueError("the blocks are those of another task")

    def _frame(self) -> Scene:
        board = self.state
        objects = {square: OBJECTS[name] for name, square in board.objects}
        blocks = {square: word for word, square in board.blocks}
        rows = [
            [
                Cell(INK, color="#ffffff", label=blocks[row, column])
                if (row, column) in blocks
                else objects.get((row, column), Cell())
                for column in range(board.columns)
            ]
            for row in range(board.rows)
        ]
        return Scene(rows, "Active rules: " + ", ".join(" is ".join(rule) for rule in board.rules))

    def expert(self) -> str | None:
        """Makes and breaks the rules of the level's plan, or waits if that is not possible."""
        moves = solution(self.state, self.level.plan)
        return moves[0] if moves else IDLE


def _described(board: Board) -> Iterator[str]:
    """Yields a line for each object and block, and one for the edges."""
    you = board.squares("you")[0]
    names = {noun for noun, word in board.rules if word == "you"}
    first = next(i for i, (name, _) in enumerate(board.objects) if name in names)
    yield f"{board.objects[first][0]}: you"
    for i, (name, square) in enumerate(board.objects):
        if i != first:
            yield f"{name}{' (you, too)' * (name in names)} {_away(you, square)}"
    for word, square in board.blocks:
        yield f"rule `{word}` {_away(you, square)}"
    row, column = you
    yield (
        f"edges of the map {board.columns - 1 - column} to the right, {column} to the left, "
        f"{board.rows - 1 - row} down and {row} up"
    )


def _away(you: Square, square: Square) -> str:
    """Returns a relative position, such as "1 step to the right and 2 steps up"."""
    down, right = square[0] - you[0], square[1] - you[1]
    parts = [
        f"{abs(way)} step{'s' * (abs(way) > 1)} {names[way < 0]}"
        for way, names in ((right, ("to the right", "to the left")), (down, ("down", "up")))
        if way
    ]
    return " and ".join(parts) or "here"
