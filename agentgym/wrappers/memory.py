"""`Memory`: notes that the agent edits and that every observation shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.utils.note_edits import EDIT, apply_edit
from agentgym.wrappers.base import TextWrapper


class Memory(TextWrapper):
    """Gives the agent notes, as its memory in a short context.

    With `context=current` or a window, the notes are all that is left of earlier turns, so that a
    policy has to learn which facts to keep. Memory as actions: MemAct ("Memory as Action",
    arXiv 2510.12635) and Memory-R1 (arXiv 2508.19828).

    **Actions**: text. `remember: TEXT` adds a note, `remember 2: TEXT` replaces note 2, `forget 2`
    deletes it, and `remember` alone notes the current observation. Several edits, one per line, may
    precede an action of the environment. An action of edits alone takes no turn in the environment.
    An edit of a note that does not exist is an invalid action.

    **Observations**: text. The numbered notes, if there are any, precede the observation.

    **Rewards**: unchanged, and 0 for edits alone.

    **Info**: `notes` (tuple of str) is added. If the environment lists admissible actions, the
    edits without a text are added to them: `remember`, `forget 1`, `forget 2` and so on.

    Apply `MultiTrial` on the inside, so that notes survive from one attempt to the next.

    Args:
        env: an environment with text observations and actions.
        size: maximum number of notes. If there are more, the oldest is lost.
        length: maximum number of characters of a note, which is cut at its end.
        turns: maximum number of actions per episode that only edit notes. Further ones are invalid
            actions.

    Raises:
        ConfigError: if observations or actions are not text, or a number is below 1.
    """

    own_actions = "also"

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        size: int = 8,
        *,
        length: int = 200,
        turns: int = 100,
    ):
        super().__init__(env, size=size, length=length, turns=turns)
        self._need_text("observations")
        self._need_text("actions")
        for name, number in {"size": size, "length": length, "turns": turns}.items():
            if number < 1:
                raise ConfigError(f"{name} must be at least 1, got {number}.")
        self.size, self.length, self.turns = size, length, turns
        self._begin()
        self._over = True  # until `reset`

    @property
    def instructions(self) -> str:
        """The environment's instructions, followed by those for notes."""
        return f"{self.env.get_wrapper_attr('instructions')}\n\n{_HINT.format(size=self.size)}"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Edits the notes, and plays the rest of the action: see `TextEnv.step`."""
        self._check_turn(action)
        rest = self._edit(action)
        if rest is not None:
            result = super().step(rest)
            self._over = result[2] or result[3]
            return result
        observation, info = self._current
        observation, info = self._shown(observation, self._idle(info))
        return observation, 0.0, False, False, info

    def _edit(self, action: str) -> str | None:
        """Applies the edits at the beginning of an action. Returns the rest, None if it is empty.

        An edit that is not possible makes the whole action unreadable.
        """
        if isinstance(action, UnreadableAction):
            return action
        lines = action.strip().split("\n")
        found = (EDIT.fullmatch(line.strip()) for line in lines)
        edits = [edit for edit in takewhile(bool, found) if edit is not None]
        if not edits:
            return action
        rest = "\n".join(lines[len(edits) :])
        if not rest.strip() and self._used == self.turns:
            return UnreadableAction(action, "No more turns for notes: take another action.")
        notes = list(self._notes)
        for edit in edits:
            problem = apply_edit(
                edit, notes, size=self.size, length=self.length, default=self._current[0]
            )
            if problem:
                return UnreadableAction(action, problem)
        self._notes = notes
        if rest.strip():
            return rest
        self._used += 1
        return None

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._current = observation, self._kept(info)
        return self._shown(observation, info)

    def _shown(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        notes = self._notes
        admissible = tuple(info.get("admissible", ()))
        editable = self._used < self.turns
        if admissible and editable:
            forget = [f"forget {number}" for number in range(1, len(notes) + 1)]
            admissible = (*admissible, "remember", *forget)
        if notes:
            observation = f"{_listed(notes)}\n\n{observation}"
        info = {**info, "admissible": admissible, "notes": tuple(notes)}
        return observation, self._keyed(info, notes, editable)

    def _begin(self) -> None:
        self._notes: list[str] = []
        self._used, self._over = 0, False
        self._current: tuple[str, dict[str, Any]] = "", {}

    def _memory(self) -> dict[str, Any]:
        return {"notes": list(self._notes), "used": self._used, "over": self._over}

    def _remember(self, memory: dict[str, Any]) -> None:
        notes, used = [str(note) for note in memory["notes"]], memory["used"]
        if len(notes) > self.size or type(used) is not int or not 0 <= used <= self.turns:
            raise ValueError(f"expected at most {self.size} notes, got {len(notes)}, used {used!r}")
        self._notes, self._used, self._over = notes, used, bool(memory["over"])


def _listed(notes: Sequence[str]) -> str:
    return "\n".join(["Notes:", *(f"{i}. {note}" for i, note in enumerate(notes, 1))])


_HINT = (
    "You have notes, at most {size}, which are shown every turn. Earlier turns may not be. These "
    "replies edit them without a turn in the environment:\n"
    "- remember: TEXT (add a note)\n"
    "- remember 2: TEXT (replace note 2)\n"
    "- remember (note the current observation)\n"
    "- forget 2 (delete note 2)\n"
    "They may also precede an action, one per line."
)
