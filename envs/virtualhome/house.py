"""Base class of VirtualHome's chores: a finite automaton over a house of four rooms."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from agentgym.core import TextEnv
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.serialization import to_json

ROOMS = ("living room", "kitchen", "bathroom", "bedroom")

Move = tuple[str, str]
"""A verb and its target ("" if the verb has a single target)."""


@cache
def ways(
    apply: Callable[[Any, str, str], Any], moves: tuple[Move, ...], start: Any
) -> dict[Any, tuple[int, Move]]:
    """Returns the distance to the goal and an optimal move for every reachable state.

    Args:
        apply: transition function, None for an impossible move.
        moves: all moves.
        start: initial state.
    """
    before: dict[Any, list[tuple[Any, Move]]] = {start: []}
    queue = deque(before)
    while queue:
        state = queue.popleft()
        for move in () if state.done else moves:
            after = apply(state, *move)
            if after is None:
                continue
            if after not in before:
                before[after] = []
                queue.append(after)
            before[after].append((state, move))
    left: dict[Any, tuple[int, Move]] = {state: (0, ("", "")) for state in before if state.done}
    queue.extend(left)
    while queue:
        state = queue.popleft()
        for earlier, move in before[state]:
            if earlier not in left:
                left[earlier] = (left[state][0] + 1, move)
                queue.append(earlier)
    return left


class Chore(TextEnv):
    """Base class of the chores: a subclass defines the automaton and its observations.

    The table `ways` maps each state to the number of moves left and an optimal move.

    `State` is a frozen dataclass with a `room` and a property `done`. Its default is the initial
    state of the reference.

    Args:
        names: action text of each move, in the order of `moves`.
        chore: the chore, as in "Your chore: ...".
        rules: further rules for the instructions.
        kwargs: arguments of `TextEnv`.
    """

    moves: ClassVar[tuple[Move, ...]]

    def __init__(
        self, names: Mapping[Move, str], chore: str, rules: Sequence[str], /, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.names = dict(names)
        self.known = {name.lower(): move for move, name in names.items()}
        self.menu = ", ".join(names.values())
        self.chore = chore
        self.tasks = Tasks(
            train=("start/kitchen", "start/living room"), test=("start/bathroom", "start/bedroom")
        )
        self.instructions = "\n".join(
            (
                f"You are in a house with four rooms: {', '.join(ROOMS[:-1])} and {ROOMS[-1]}. "
                f"Your chore: {chore}.",
                "",
                "Rules:",
                *(f"- {rule}" for rule in rules),
                "- You get a reward of 1 when the chore is done.",
                "- The episode ends when the chore is done or you run out of turns.",
                "",
                "Actions:",
                *(f"- {name}" for name in names.values()),
                "",
                "Reply with exactly one of these actions.",
            )
        )
        self.ways = ways(self.apply, self.moves, self.State())
        self._views: dict[Any, TimeStep] = {}

    @staticmethod
    def apply(state: Any, verb: str, target: str) -> Any:
        """Returns the state after a move, None if the move is impossible."""
        raise NotImplementedError

    @staticmethod
    def offered(state: Any) -> list[Move]:
        """Returns the reference's admissible moves, some of which may have no effect."""
        raise NotImplementedError

    def describe(self, state: Any) -> str:
        """Returns the observation of a state."""
        raise NotImplementedError

    def _start(self, task: str) -> TimeStep:
        self.state = self.State(room=task.removeprefix("start/"))
        return self._view()

    def _advance(self, action: str) -> TimeStep:
        action = action.strip().lower()
        move = self.known.get(action)
        if move is None:
            return self._invalid(f"Unknown action. Reply with one of: {self.menu}.")
        after = self.apply(self.state, *move)
        if after is not None:
            self.state = after
            return self._view()
        if move in self.offered(self.state):
            return replace(self._view(), feedback="Nothing happens.")
        return self._invalid("That is not possible right now.")

    def _view(self) -> TimeStep:
        state = self.state
        if state not in self._views:
            left, whole = self.ways[state][0], self.ways[self.State(room="bathroom")][0]
            self._views[state] = TimeStep(
                text=f"{self.describe(state)} Your chore: {self.chore}.",
                rewards={"task": float(state.done)},
                terminated=state.done,
                success=state.done,
                progress=max(0.0, 1 - left / whole),
                admissible=() if state.done else tuple(self.names[m] for m in self.offered(state)),
                state_key=repr(to_json(state)),
            )
        return self._views[state]

    def expert(self) -> str | None:
        """Returns the first action of a shortest solution."""
        return None if self.state.done else self.names[self.ways[self.state][1]]
