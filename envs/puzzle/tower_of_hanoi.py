"""TowerOfHanoi: move all disks to rod C, never a larger disk onto a smaller one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentgym.core import TextEnv, TurnLimit
from agentgym.rendering import Cell, Scene
from agentgym.rendering.scene import BLUE, GOLD, GREEN, PURPLE, RED
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain
from agentgym.utils.marks import undressed

RODS = "ABC"
MOVE = re.compile(
    r"\(?(?:move\s+)?(?:(?:the\s+)?(?:top\s+)?disk\s+(?:(?P<disk>\d{1,2})\s+)?)?(?:from\s+)?"
    r"(?:rod\s+)?(?P<source>[abc])\s*(?:(?:on)?to\b|[-=]>|,)?\s*(?:rod\s+)?(?P<target>[abc])\)?",
    re.IGNORECASE,
)


@dataclass
class State:
    """The rod of each disk, smallest first, and the length of the optimal solution."""

    rods: list[int]
    least: int


def top(rods: list[int], rod: int) -> int | None:
    """Returns the smallest disk on a rod, or None if it is empty."""
    return next((disk for disk, where in enumerate(rods) if where == rod), None)


def moves(rods: list[int]) -> list[tuple[int, int]]:
    """Returns the legal moves as pairs (from, to)."""
    found = []
    for source in range(3):
        disk = top(rods, source)
        for target in range(3):
            other = top(rods, target)
            if disk is not None and source != target and (other is None or disk < other):
                found.append((source, target))
    return found


def next_move(rods: list[int], goal: int) -> tuple[int, int] | None:
    """Returns the first optimal move towards a rod, or None at the goal."""
    move = None
    for disk in reversed(range(len(rods))):
        if rods[disk] != goal:
            move = rods[disk], goal
            goal = 3 - rods[disk] - goal  # the smaller disks must move to the third rod
    return move


def moves_left(rods: list[int], goal: int) -> int:
    """Returns the minimum number of moves to bring all disks to a rod."""
    total = 0
    for disk in reversed(range(len(rods))):
        if rods[disk] != goal:
            total += 2**disk
            goal = 3 - rods[disk] - goal
    return total


def shown(rods: list[int]) -> list[str]:
    """Returns a line per rod with its disks, from bottom to top."""
    lines = []
    for rod, letter in enumerate(RODS):
        disks = [str(i + 1) for i in reversed(range(len(rods))) if rods[i] == rod]
        lines.append(f"{letter}: {' '.join(disks) or 'empty'}")
    return lines


def _disk(column: list[int], place: int, count: int) -> Cell:
    """Returns the cell of a rod at a place counted from its foot, which is -1."""
    if -place > len(column):
        return Cell()
    disk = column[place]
    color = (RED, GOLD, GREEN, BLUE, PURPLE)[disk % 5]
    return Cell(shape="bar", color=color, label=str(disk + 1), width=(disk + 2) / (count + 1))


class TowerOfHanoi(TextEnv):
    """Move all disks to rod C, one at a time, never a larger disk onto a smaller one.

    ## Description
    There are three rods, A, B and C, and `disks` disks of different sizes. Tasks start from any
    legal position, so memorising one sequence is not enough.

    ## Action Space
    Text: a move, such as `A to C`.

    ## Observation Space
    Text: the disks on each rod, from bottom to top. 1 is the smallest disk.

    ## Rewards
    1 (term `task`) when all disks are on rod C, else 0.

    ## Starting State
    The task is a position, `rods/AACB` for the rods of disks 1, 2, 3, ... Every fourth position is
    a test task. The classic position, `rods/AAAA`, is a training task.

    ## Episode End
    Termination: all disks are on rod C. Truncation: after `max_turns`.

    ## Information
    The common keys. `progress`: 1 minus the number of moves left divided by the number at the
    start, for optimal play.

    ## Arguments
    - `disks` (int, default 4): number of disks, from 2 to 8.
    - `max_turns` (int, default twice the length of the longest optimal solution): turns before
      truncation.

    ## Notes
    Behaviour cloning nearly solves four disks from a few hundred demonstrations. Use six disks to
    compare learning methods.

    ## References
    Lucas, Recreations mathematiques, 1883. Optimal solutions from any position: Hinz, 1989.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Solve the Tower of Hanoi. Three rods, A, B and C, hold disks of different sizes. Move all "
        "disks to rod C.\n"
        "\n"
        "Rules:\n"
        "- Each turn, you move the top disk of one rod to another rod.\n"
        "- You cannot put a disk onto a smaller disk.\n"
        "- The disks of a rod are listed from bottom to top. Disk 1 is the smallest.\n"
        "\n"
        "Action: ROD to ROD, for example: A to C"
    )
    State = State

    def __init__(self, *, disks: int = 4, max_turns: TurnLimit = "auto", **kwargs):
        if not 2 <= disks <= 8:
            raise ValueError(f"disks must be in [2, 8], got {disks}.")
        super().__init__(
            max_turns=2 * (2**disks - 1) if max_turns == "auto" else max_turns, **kwargs
        )
        names = [_name(number, disks) for number in range(3**disks - 1)]
        self.tasks = Tasks(
            train=tuple(name for i, name in enumerate(names) if i % 4 != 3), test=tuple(names[3::4])
        )

    def _start(self, task: str) -> TimeStep:
        rods = [RODS.index(letter) for letter in task.removeprefix("rods/")]
        self.state = State(rods, moves_left(rods, 2))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        found = MOVE.fullmatch(plain(undressed(action[:100].replace("\u2192", "->"))))
        if found is None:
            return self._invalid(
                f"{action[:40]!r} is not a move. Answer with a move, for example: A to C"
            )
        source, target = (RODS.index(found[rod].upper()) for rod in ("source", "target"))
        rods = self.state.rods
        if found["disk"] and top(rods, source) != int(found["disk"]) - 1:
            disk, rod = found["disk"], RODS[source]
            return self._invalid(f"Not possible: disk {disk} is not the top disk of rod {rod}.")
        if (source, target) not in moves(rods):
            disk = top(rods, source)
            reason = f"rod {RODS[source]} is empty" if disk is None else "that disk is larger"
            reason = "both rods are the same" if source == target else reason
            return self._invalid(f"Not possible: {reason}.")
        disk = top(rods, source)
        assert disk is not None
        rods[disk] = target
        return self._look()

    def _look(self) -> TimeStep:
        rods = self.state.rods
        left = moves_left(rods, 2)
        possible = [] if left == 0 else moves(rods)
        return TimeStep(
            text="\n".join(shown(rods)),
            rewards={"task": float(left == 0)},
            terminated=left == 0,
            success=left == 0,
            progress=max(0.0, 1 - left / self.state.least),
            admissible=tuple(f"{RODS[a]} to {RODS[b]}" for a, b in possible),
        )

    def privileged_text(self) -> str:
        """Returns the number of moves to the goal, and the disks on each rod."""
        rods = self.state.rods
        return f"Moves to the goal: {moves_left(rods, 2)}. {', '.join(shown(rods))}."

    def _frame(self) -> Scene:
        rods, count = self.state.rods, len(self.state.rods)
        columns = [[disk for disk in range(count) if rods[disk] == rod] for rod in range(3)]
        rows = [[_disk(column, row - count, count) for column in columns] for row in range(count)]
        return Scene([*rows, [Cell(label=letter) for letter in "ABC"]], lines=False)

    def expert(self) -> str | None:
        """Returns the next move of an optimal solution."""
        move = next_move(self.state.rods, 2)
        return None if move is None else f"{RODS[move[0]]} to {RODS[move[1]]}"


def _name(number: int, disks: int) -> str:
    """Returns the position with an index: the rods of the disks as digits of base 3."""
    letters = []
    for _ in range(disks):
        number, digit = divmod(number, 3)
        letters.append(RODS[digit])
    return f"rods/{''.join(letters)}"
