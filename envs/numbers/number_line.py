"""NumberLine: walk along the number line to a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agentgym.core import TextEnv, TurnLimit
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

STEPS = {"+": 1, "-": -1}


@dataclass
class State:
    """The agent's position, its target and the initial distance between the two."""

    position: int
    target: int
    distance: int


def start_positions(task: str, size: int) -> State:
    """Returns the initial state of a task: two different numbers in [0, size)."""
    position, target = (int(x) for x in task_rng(task).choice(size, size=2, replace=False))
    return State(position, target, abs(position - target))


class NumberLine(TextEnv):
    """Walk to a target number, one step at a time.

    ## Description
    The agent stands on an integer in [0, size) and must reach another one. The optimal action
    depends on only two words of the observation, so a correct trainer solves the task in seconds.
    A move beyond either end of the line has no effect.

    ## Action Space
    Text, one of:

    - `+`: move up by one.
    - `-`: move down by one.

    ## Observation Space
    Text: the current position and the target, for example "You are at 3. Go to 7."

    ## Rewards
    1 (term `task`) when the target is reached, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Two different numbers sampled from the task name. Few starts exist, 90 with 10 numbers, and
    the splits share them: training and test tasks differ in name only.

    ## Episode End
    Termination: the target is reached. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the fraction of the initial distance covered.

    ## Arguments
    - `size` (int, default 10): number of integers on the line, from 2 to 10**9.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 1.5 times `size`, at
      least 15.

    ## Notes
    Behaviour cloning alone nearly solves this environment. It serves to test trainers, not to
    compare them.

    ## References
    NumberLine of RL4VLM (arXiv 2405.10292), with text observations instead of images.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You stand on a number line. Walk to the target.\n"
        "Each turn, reply with one action:\n"
        "- + (one up)\n"
        "- - (one down)\n"
        "Reaching the target ends the episode with a reward of 1."
    )
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "a short line has few levels: names are disjoint",
        "semantic.duplicate_tasks": "a short line has few levels",
    }

    def __init__(self, *, size: int = 10, max_turns: TurnLimit = "auto", **kwargs):
        if not 2 <= size <= 10**9:
            raise ValueError(f"size must be from 2 to 10**9, got {size}.")
        turns = max(15, size + size // 2) if max_turns == "auto" else max_turns
        super().__init__(max_turns=turns, **kwargs)
        self.size = size
        self.tasks = Tasks.generated()

    def _start(self, task: str) -> TimeStep:
        self.state = start_positions(task, self.size)
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        step = STEPS.get(action)
        if step is None:
            return self._invalid(f"Invalid action {action[:40]!r}. Reply with + or -.")
        self.state.position = min(max(self.state.position + step, 0), self.size - 1)
        return self._look()

    def _look(self) -> TimeStep:
        state = self.state
        done = state.position == state.target
        left = abs(state.position - state.target)
        return TimeStep(
            text=f"You are at {state.position}. Go to {state.target}." + " Done!" * done,
            rewards={"task": float(done)},
            terminated=done,
            success=done,
            progress=max(0.0, 1 - left / state.distance),
            admissible=() if done else tuple(STEPS),
        )

    def achieved(self) -> int | None:
        """Returns the current number, or None at the initial position or the target."""
        state = self.state
        begun = state.target - state.distance, state.target + state.distance
        return None if state.position in (*begun, state.target) else state.position

    def pursue(self, goal: int) -> tuple[str, dict[str, Any]]:
        """Replaces the target of an episode that has just begun."""
        state = self.state
        state.target, state.distance = goal, abs(goal - state.position)
        self._last = self._look()
        return self._last.observation, self._info(self._last)

    def privileged_text(self) -> str:
        """Returns the distance to the target."""
        return f"Steps to the target: {abs(self.state.target - self.state.position)}."

    def expert(self) -> str | None:
        """Returns the step towards the target."""
        return "+" if self.state.position < self.state.target else "-"
