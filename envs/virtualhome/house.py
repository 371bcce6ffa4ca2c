"""VirtualHome's chores: what one can do in a house of four rooms is a small finite automaton."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from agentgym.core import TextEnv, TimeStep
from agentgym.tasks import Tasks
from agentgym.utils.serialization import to_json

ROOMS = ("living room", "kitchen", "bathroom", "bedroom")

Move = tuple[str, str]
"""A verb and what it is done to; "" for the only thing there is."""


@cache
def ways(
    apply: Callable[[Any, str, str], Any], moves: tuple[Move, ...], start: Any
) -> dict[Any, tuple[int, Move]]:
    """Returns for each state that moves lead to how many are still needed, and a first one.

    Args:
        apply: the state after a move; None where it is impossible.
        moves: all moves.
        start: where the automaton starts.
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
    """Base of the chores: an author writes the automaton and what the agent reads.

    `ways` is its table: for each state the moves still needed and the first of a shortest way.

    `State` is a frozen dataclass with a `room` and a property `done`; its default is where the
    reference starts.

    Args:
        names: what the agent says for each move, in the order of `moves`.
        chore: the chore, as in "Your chore: ...".
        rules: what else the agent must know.
        kwargs: those of `TextEnv`.
    """

    moves: ClassVar[tuple[Move, ...]]

    def __init__(self, names: Mapping[Move, str], chore: str, rules: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.names = dict(names)
        self.known = {name.lower(): move for move, name in names.items()}
        self.menu = "; ".join(names.values())
        self.chore = chore
        self.tasks = Tasks(
            train=("start/kitchen", "start/living room"), test=("start/bathroom", "start/bedroom")
        )
        self.instructions = (
            f"You are at home, in a house with four rooms: {', '.join(ROOMS)}. "
            f"Your chore: {chore}. {rules} Actions: {self.menu}. "
            "Answer with one of them, nothing else."
        )
        self.ways = ways(self.apply, self.moves, self.State())
        self._views: dict[Any, TimeStep] = {}

    @staticmethod
    def apply(state: Any, verb: str, target: str) -> Any:
        """Returns the state after a move; None where it is impossible."""
        raise NotImplementedError

    @staticmethod
    def offered(state: Any) -> list[Move]:
        """Returns the reference's choice of what makes sense; some of it may do nothing."""
        raise NotImplementedError

    def describe(self, state: Any) -> str:
        """Returns what the agent reads of a state."""
        raise NotImplementedError

    def _start(self, task: str) -> TimeStep:
        self.state = self.State(room=task.removeprefix("start/"))
        return self._view()

    def _advance(self, action: str) -> TimeStep:
        action = action.strip().lower()
        move = self.known.get(action)
        if move is None:
            return self._invalid(f"Say one of: {self.menu}.")
        after = self.apply(self.state, *move)
        if after is not None:
            self.state = after
            return self._view()
        if move in self.offered(self.state):
            return replace(self._view(), feedback="Nothing happens.")
        return self._invalid("That is not possible now.")

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
        """Returns the first action of a shortest way."""
        return None if self.state.done else self.names[self.ways[self.state][1]]
