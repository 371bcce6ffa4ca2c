"""`RecordedEpisode`: an episode as data, in common to all file formats."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from agentgym.errors import DataError, UnknownTaskError


@dataclass
class RecordedTurn:
    """One turn of a recorded episode.

    Attributes:
        observation: the observation before the action.
        action: the action.
        reward: the reward of the action.
        reward_terms: components of the reward, by name.
        valid: whether the environment accepted the action.
        progress: progress after the action, in [0, 1].
        weight: weight of the action in losses. 0 masks a wrong step: it is read, but not imitated.
        admissible: the admissible actions, empty if they were not recorded.
    """

    observation: str
    action: str
    reward: float = 0.0
    reward_terms: dict[str, float] = field(default_factory=dict)
    valid: bool = True
    progress: float = 0.0
    weight: float = 1.0
    admissible: tuple[str, ...] = ()


@dataclass
class RecordedEpisode:
    """An episode that was played or written elsewhere.

    Attributes:
        turns: the turns, at least one.
        instructions: the system prompt. None: that of the environment, to be completed.
        env: id of the environment, "" if it is unknown.
        agent: name of the agent.
        task: name of the task.
        seed: seed of the episode.
        seat: the agent of a game that acted, "" if it follows from the seed.
        success: whether the task was solved.
        decided: whether that was recorded. Otherwise it is unknown, and `success` is False.
        terminated: whether the episode reached a terminal state.
        last_observation: the observation after the last action.
        rewarded: whether the rewards were recorded.
        env_kwargs: arguments of the environment, and its wrappers as "wrap", if they were recorded.
        judged: score of a judge in [0, 1]. None: it was not judged.
        unjudged: whether a judge should have decided the outcome, and its verdict is unreadable.
            Success and rewards then mean nothing.
    """

    turns: list[RecordedTurn]
    instructions: str | None = ""
    env: str = ""
    agent: str = ""
    task: str = ""
    seed: int = 0
    seat: str = ""
    success: bool = False
    decided: bool = field(default=True, compare=False)
    terminated: bool = True
    last_observation: str = ""
    rewarded: bool = False
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    judged: float | None = None
    unjudged: bool = False

    def complete(self, env: gymnasium.Env[Any, Any]) -> None:
        """Takes missing instructions from the environment that the episode was played in.

        Raises:
            DataError: if the environment has no such task or seat.
        """
        if self.instructions is None:
            try:
                env.reset(seed=self.seed, options={"task": self.task})
            except UnknownTaskError as error:
                raise DataError(
                    f"An episode of {self.env or 'an unknown environment'} holds no instructions, "
                    f"and the environment to take them from has no such task: {error}"
                ) from error
            if self.seat:
                self._show_seat(env.unwrapped)
            self.instructions = str(env.get_wrapper_attr("instructions"))

    def _show_seat(self, single: Any) -> None:
        """Makes a `SingleSeat` show the instructions of the episode's seat until its next reset."""
        game: Any = getattr(single, "game", None)
        if self.seat not in getattr(game, "possible_agents", ()):
            raise DataError(
                f"An episode was played in seat {self.seat!r}, and {single} has no such seat: read "
                "it in the environment that it was played in."
            )
        single.instructions = game.instructions_for(self.seat)

    @property
    def reward(self) -> float:
        """The sum of the rewards, undiscounted. Their order makes no difference by rounding."""
        return math.fsum(turn.reward for turn in self.turns)

    @property
    def value(self) -> float:
        """The score of a judge, the return without one."""
        return self.reward if self.judged is None else self.judged


def judged_episodes(episodes: Sequence[RecordedEpisode]) -> list[RecordedEpisode]:
    """Returns the episodes without those with an unreadable verdict, whose number a warning names.

    Raises:
        DataError: if none remains.
    """
    found = [episode for episode in episodes if not episode.unjudged]
    if episodes and not found:
        raise DataError(
            f"Expected episodes with an outcome, and the verdict of the judge on each of "
            f"{len(episodes)} is unreadable. Play them again with another judge."
        )
    if len(found) < len(episodes):
        left_out = len(episodes) - len(found)
        warnings.warn(
            f"{left_out} of {len(episodes)} episodes are left out: the verdict of their judge is "
            "unreadable.",
            RuntimeWarning,
            stacklevel=2,
        )
    return found
