"""`TimeStep`: the result of one turn. Its info and its checks."""

from __future__ import annotations

import functools
import hashlib
import numbers
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.errors import did_you_mean

INFO_KEYS = (
    "task",
    "turn",
    "valid",
    "success",
    "progress",
    "admissible",
    "state_key",
    "reward_terms",
)

UNJUDGED = "unjudged"
"""Key of `info` that is True at the end of an episode whose outcome a judge should have decided, if
its reply is unreadable. Otherwise it is absent. Training leaves the episode out."""
UNREADABLE = "unreadable"
"""Key in the `metadata` of an action for a server: the feedback of an `UnreadableAction`."""
LARGEST_REWARD = 1e100
"""Largest absolute value of a reward term: sums and squares of smaller ones stay finite."""


# Frozen for type checkers only: at run time, a frozen one takes four times as long to make.
@dataclass(frozen=TYPE_CHECKING, slots=True)
class TimeStep:
    """The result of one turn, as returned by the rules of a game.

    Attributes:
        text: the next observation, without feedback.
        rewards: reward terms of this turn by name. Missing terms are 0.
        terminated: whether the episode terminated.
        valid: whether the action was valid.
        success: whether the task is solved.
        progress: progress on the task, in [0, 1]. In games in which `success` means a win and
            progress is the share of the possible gain, success may come with progress < 1.
        admissible: the admissible actions. Empty if the set is open.
        state_key: two states have the same key iff they are the same state for the agent. Empty:
            the text is the key. It may name hidden facts: infos hold its digest.
        feedback: message about the last action, shown before the text. Not part of the state.
    """

    text: str
    rewards: Mapping[str, float] = field(default_factory=dict)
    terminated: bool = False
    valid: bool = True
    success: bool = False
    progress: float = 0.0
    admissible: tuple[str, ...] = ()
    state_key: str = ""
    feedback: str = ""

    @property
    def observation(self) -> str:
        """The observation: the feedback, if any, followed by the text."""
        return f"{self.feedback}\n\n{self.text}" if self.feedback else self.text


_FIELDS = (
    ("text", str, str),
    ("rewards", dict, Mapping),
    ("terminated", bool, bool),
    ("valid", bool, bool),
    ("success", bool, bool),
    ("progress", float, float | int),
    ("admissible", tuple, tuple),
    ("state_key", str, str),
    ("feedback", str, str),
)
"""Name of a field, the type that most values have, and the type that all values have."""
_values = operator.attrgetter(*(name for name, _, _ in _FIELDS))
_USUAL = [usual for _, usual, _ in _FIELDS]


@functools.lru_cache(4096)  # most fast environments have few states
def state_digest(key: str) -> str:
    """Returns the digest of a state's key: 16 hexadecimal digits, the same in every process.

    Equal keys have equal digests. Hidden facts that a key names cannot be read from its digest.
    """
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def step_info(
    step: TimeStep, task: str, turn: int, reward_names: tuple[str, ...], invalid_penalty: float
) -> dict[str, Any]:
    """Returns a new dictionary with the info of a step (see `INFO_KEYS`).

    Args:
        step: the result of the turn.
        task: name of the task.
        turn: number of turns played.
        reward_names: the reward terms of the rules.
        invalid_penalty: penalty of an invalid action.
    """
    terms = {name: float(step.rewards.get(name, 0.0)) for name in reward_names}
    terms["invalid"] = 0.0 if step.valid else 0.0 - invalid_penalty
    return {
        "task": task,
        "turn": turn,
        "valid": step.valid,
        "success": step.success,
        "progress": float(step.progress),
        "admissible": step.admissible,
        "state_key": state_digest(step.state_key or step.text),
        "reward_terms": terms,
    }


def storable(step: TimeStep) -> TimeStep:
    """Returns the step with rewards that JSON can hold, in place of numbers of NumPy."""
    if any(isinstance(value, np.generic) for value in step.rewards.values()):
        return replace(
            step, rewards={name: np.asarray(x).item() for name, x in step.rewards.items()}
        )
    return step


def check_step(where: str, step: Any, reward_names: tuple[str, ...]) -> None:
    """Checks the result of a turn, as returned by the rules of an environment.

    Args:
        where: the method that returned it, for messages.
        step: the result.
        reward_names: the reward terms of the rules.

    Raises:
        TypeError: for a value of a wrong type.
        ValueError: for a value out of range.
    """
    if not isinstance(step, TimeStep):
        raise TypeError(f"{where} must return a TimeStep, got {type(step).__name__}.")
    # The tests of `_FIELDS` one by one are slow, and those for `Mapping` and unions even more so.
    for name, _, kind in () if [*map(type, _values(step))] == _USUAL else _FIELDS:
        value = getattr(step, name)
        if not isinstance(value, kind):
            given = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
            raise TypeError(
                f"{where} must return a TimeStep whose {name} is a "
                f"{getattr(kind, '__name__', kind)}, got {given}: {value!r:.80}."
            )
    # The first one only: they are many, and of one type.
    if step.admissible and not isinstance(step.admissible[0], str):
        given = step.admissible[0]
        raise TypeError(
            f"{where} must return a TimeStep whose admissible actions are str, got "
            f"{type(given).__name__}: {given!r:.80}."
        )
    if not 0 <= step.progress <= 1:
        raise ValueError(f"{where}: progress must lie in [0, 1], got {step.progress!r}.")
    check_reward_terms(where, step.rewards, reward_names)


def check_reward_terms(
    where: str, terms: Mapping[str, float], reward_names: tuple[str, ...]
) -> None:
    """Checks the reward terms returned by the rules of an environment or game.

    Raises:
        TypeError: if the terms are no mapping.
        ValueError: for a term that is not declared, or is not a finite number with an absolute
            value of at most `LARGEST_REWARD`.
    """
    if not isinstance(terms, (dict, Mapping)):  # not only the latter, which is slow
        raise TypeError(f"{where} must return reward terms by name, got {terms!r:.80}.")
    for name, value in terms.items():
        if name not in reward_names:
            raise ValueError(
                f"{where} returned the reward term {name!r}, which reward_names "
                f"{reward_names} does not list.{did_you_mean(name, reward_names)}"
            )
        if not _fits(value):
            raise ValueError(
                f"{where} returned {value!r:.80} for the reward term {name!r}. Expected a finite "
                f"number of at most {LARGEST_REWARD:g}."
            )


def _fits(value: Any) -> bool:
    if isinstance(value, (float, int)):  # may be too large for a float; a union is slow
        return abs(value) <= LARGEST_REWARD
    return isinstance(value, numbers.Real) and abs(float(value)) <= LARGEST_REWARD
