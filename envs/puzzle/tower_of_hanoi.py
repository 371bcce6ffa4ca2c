"""TowerOfHanoi: move a tower, one disk at a time, never a larger one onto a smaller."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentgym.core import TextEnv, TimeStep, TurnLimit
from agentgym.tasks import Tasks

RODS = "ABC"
MOVE = re.compile(r"\s*(?:move\s+)?([abc])\s*(?:to|->|,)?\s*([abc])\s*", re.IGNORECASE)


@dataclass
class State:
    """Where each disk is: `rods[i]` is the rod of disk i, the smallest first."""

    rods: list[int]
    least: int


def top(rods: list[int], rod: int) -> int | None:
    """Returns the smallest disk on a rod, None if it is empty."""
    return next((disk for disk, where in enumerate(rods) if where == rod), None)


def moves(rods: list[int]) -> list[tuple[int, int]]:
    """Returns the allowed moves, (from, to)."""
    found = []
    for source in range(3):
        disk = top(rods, source)
        for target in range(3):
            other = top(rods, target)
            if disk is not None and source != target and (other is None or disk < other):
                found.append((source, target))
    return found


def next_move(rods: list[int], goal: int) -> tuple[int, int] | None:
    """Returns the first move of the shortest way to have all disks on a rod; None at the goal."""
    move = None
    for disk in reversed(range(len(rods))):
        if rods[disk] != goal:
            move = rods[disk], goal
            goal = 3 - rods[disk] - goal  # the smaller ones have to get out of the way
    return move


def moves_left(rods: list[int], goal: int) -> int:
    """Returns the length of the shortest way to have all disks on a rod."""
    total = 0
    for disk in reversed(range(len(rods))):
        if rods[disk] != goal:
            total += 2**disk
            goal = 3 - rods[disk] - goal
    return total


class TowerOfHanoi(TextEnv):
    """Move all disks to rod C, one at a time, never a larger one onto a smaller.

    ## Description
    Three rods, A, B and C, and `disks` disks of different sizes. Tasks start from any legal
    position, so there is more to learn than one sequence.

    ## Action Space
    Text: `A to C` and the like.

    ## Observation Space
    Text: the disks on each rod, from bottom to top; 1 is the smallest.

    ## Rewards
    1 (term `task`) when all disks are on rod C, else 0.

    ## Starting State
    A task is a position, `rods/AACB` for the rods of disks 1, 2, 3, ...; every fourth is for
    testing. `rods/AAAA`, the classic one, is for training.

    ## Episode End
    Termination: all disks are on rod C. Truncation: after `max_turns`.

    ## Information
    The common keys; `progress`: the share of the shortest way that is behind.

    ## Arguments
    `disks`: 2 to 8. `max_turns`: default twice the longest way.

    ## Example Transcript
    ```
    A: 2
    B: empty
    C: 1
    > A to B
    A: empty
    B: 2
    C: 1
    ```

    ## Baselines
    200 test tasks, mean return and success: random 0.10, 10 %; expert (the shortest way) 1.00,
    100 %. Six disks: random 0.01; expert 1.00, in 41 moves. Four are learnt by imitation alone (95
    % of held-out positions from 300 demonstrations), six by two thirds: take these to compare
    learning methods.

    ## Registered Configurations
    `TowerOfHanoi-v0`: 4 disks. `TowerOfHanoi-Six-v0`: 6 disks.

    ## References
    Lucas, Recreations mathematiques, 1883. The shortest way from any position: Hinz, 1989.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Three rods, A, B and C, hold disks of different sizes. Move all disks to rod C, one at a "
        "time: take the top disk of a rod and put it on another one, never onto a smaller disk. 1 "
        "is the smallest disk; rods are listed from bottom to top. Each turn, say a move such as: "
        "A to C"
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
        found = MOVE.fullmatch(action[:100])
        if found is None:
            return self._invalid(f"Say a move such as: A to C. Not {action[:40]!r}.")
        source, target = (RODS.index(letter.upper()) for letter in found.groups())
        rods = self.state.rods
        if (source, target) not in moves(rods):
            disk = top(rods, source)
            what = f"rod {RODS[source]} is empty" if disk is None else "that disk is larger"
            return self._invalid(f"Not possible: {'nothing moves' if source == target else what}.")
        disk = top(rods, source)
        assert disk is not None
        rods[disk] = target
        return self._look()

    def _look(self) -> TimeStep:
        rods = self.state.rods
        left = moves_left(rods, 2)
        possible = [] if left == 0 else moves(rods)
        lines = []
        for rod, letter in enumerate(RODS):
            disks = [str(i + 1) for i in reversed(range(len(rods))) if rods[i] == rod]
            lines.append(f"{letter}: {' '.join(disks) or 'empty'}")
        return TimeStep(
            text="\n".join(lines),
            rewards={"task": float(left == 0)},
            terminated=left == 0,
            success=left == 0,
            progress=max(0.0, 1 - left / self.state.least),
            admissible=tuple(f"{RODS[a]} to {RODS[b]}" for a, b in possible),
        )

    def expert(self) -> str | None:
        """Returns the next move of the shortest way."""
        move = next_move(self.state.rods, 2)
        return None if move is None else f"{RODS[move[0]]} to {RODS[move[1]]}"


def _name(number: int, disks: int) -> str:
    """The position with this number: rods of the disks as digits of base 3, AAA... first."""
    letters = []
    for _ in range(disks):
        number, digit = divmod(number, 3)
        letters.append(RODS[digit])
    return f"rods/{''.join(letters)}"
