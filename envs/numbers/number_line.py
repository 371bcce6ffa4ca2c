"""NumberLine: walk along the number line to a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.core import TextEnv, TimeStep, TurnLimit
from agentgym.tasks import Tasks, task_rng

STEPS = {"+": 1, "-": -1}


@dataclass
class State:
    """Where the agent stands, where it must go, and how far that was at the start."""

    position: int
    target: int
    distance: int


def start_positions(task: str, size: int) -> State:
    """Returns the start of a task: two different numbers in [0, size), drawn by the task's name."""
    position, target = (int(x) for x in task_rng(task).choice(size, size=2, replace=False))
    return State(position, target, abs(position - target))


class NumberLine(TextEnv):
    """Walk to a target number, one step at a time.

    ## Description
    The agent stands on a whole number in [0, size) and must reach another one. It is the smallest
    environment in which acting well needs reading two words of the observation; a correct trainer
    solves it in seconds.

    ## Action Space
    Text: `+` (one up) or `-` (one down).

    ## Observation Space
    Text: "You are at 3. Go to 7."

    ## Rewards
    1 (term `task`) when the target is reached, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Position and target are different numbers drawn by the task's name. With 10 numbers there are
    only 90 starts: the test tasks are others by name, not by what they are.

    ## Episode End
    Termination: the target is reached. Truncation: after `max_turns` turns.

    ## Information
    The common keys; `progress` is the share of the way covered.

    ## Arguments
    `size`: how many numbers there are (2 or more). `max_turns`: default half as many
    again, at least 15.

    ## Example Transcript
    ```
    You are at 3. Go to 4.
    > +
    You are at 4. Go to 4. Done!
    ```

    ## Baselines
    1,000 test tasks: random 0.47 reward, 47 % success; expert 1.00, 100 %. Imitation alone nearly
    solves it (0.92 after 300 demonstrations): it is there to test trainers, not to compare them.

    ## Registered Configurations
    `NumberLine-v0`: 10 numbers.

    ## References
    The task is NumberLine of RL4VLM (arXiv 2405.10292), with text instead of pictures.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You stand on a number line. Each turn, say + to go one up or - to go one down, "
        "until you are at the target."
    )
    State = State

    def __init__(self, *, size: int = 10, max_turns: TurnLimit = "auto", **kwargs):
        if size < 2:
            raise ValueError(f"size must be at least 2, got {size}.")
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
            return self._invalid(f"Say + or -, not {action[:40]!r}.")
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
        """Returns the number reached, unless it is the one the episode began at or was to reach."""
        state = self.state
        begun = state.target - state.distance, state.target + state.distance
        return None if state.position in (*begun, state.target) else state.position

    def pursue(self, goal: int) -> tuple[str, dict[str, Any]]:
        """Makes this number the target of the episode that has just begun."""
        state = self.state
        state.target, state.distance = goal, abs(goal - state.position)
        self._last = self._look()
        return self._last.observation, self._info(self._last)

    def expert(self) -> str | None:
        """Returns the step towards the target."""
        return "+" if self.state.position < self.state.target else "-"
