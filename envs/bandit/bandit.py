"""Bandit: find the best of several arms while pulling them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from agentgym.core import TextEnv, TimeStep, TurnLimit
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks, task_rng

COLOURS = (
    "red", "blue", "green", "yellow", "orange", "purple", "white", "black", "brown", "pink",
    "grey", "gold", "silver", "cyan", "magenta", "olive", "navy", "teal", "lime", "maroon",
)  # fmt: skip
GAPS = {"easy": 0.5, "hard": 0.2}
"""How much better the best arm's mean is than the others' (EVOLvE: Bernoulli bandits)."""


@dataclass
class State:
    """The arms and what they have given.

    Attributes:
        means: mean reward of each arm.
        pulls: how often each was pulled.
        sums: what each has given in all.
        last: the arm pulled last, and what it gave; None before the first pull.
        regret: what the best arm would have given more, in expectation.
    """

    means: list[float]
    pulls: list[int]
    sums: list[float]
    last: tuple[int, float] | None = None
    regret: float = 0.0
    order: list[int] = field(default_factory=list)


def ucb(pulls: list[int], sums: list[float], width: float = 0.25) -> int:
    """Returns the arm with the highest upper confidence bound, mean + sqrt(width ln(t) / n).

    UCB1 (Auer, Cesa-Bianchi and Fischer, 2002) has width 2, which holds for any rewards in [0, 1]
    but explores far too long for games of this length.
    """
    for arm, count in enumerate(pulls):
        if not count:
            return arm
    bonus = width * math.log(sum(pulls))
    scores = [s / n + math.sqrt(bonus / n) for s, n in zip(sums, pulls, strict=True)]
    return scores.index(max(scores))


class Bandit(TextEnv):
    """Pull one of several buttons, again and again, and find out which pays best.

    ## Description
    A Bernoulli bandit as in EVOLvE: one arm pays 1 with probability 0.5 + gap / 2, the others with
    0.5 - gap / 2; gap is 0.5 (easy) or 0.2 (hard). Arms are buttons with the names of colours.

    ## Action Space
    Text: the colour of a button.

    ## Observation Space
    Text: the last result and, for each button, how often it was pressed and its mean (`summary`),
    or all results in order.

    ## Rewards
    Term `task`: what the button paid, 0 or 1, divided by `rounds`.

    ## Starting State
    Which button is best is drawn by the task's name; what buttons pay, by the episode's seed.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns`.

    ## Information
    The common keys. `success`: at the end, the regret - what the best button would have paid more,
    in expectation - is below half of that of pressing at random. `progress`: 1 minus the
    regret as a share of that of pressing at random, once all rounds are played; before that, of
    the rounds played so far.

    ## Arguments
    `arms`: 2 to 20. `difficulty`: "easy" or "hard". `rounds`: default 50. `summary`: whether counts
    and means are shown. `max_turns`: default twice the rounds.

    ## Example Transcript
    ```
    Round 2 of 50. red: pressed 1 time, mean 1.00. blue: never pressed.
    > red
    ```

    ## Baselines
    200 test tasks, mean return and success: `Bandit-v0` random 0.35, 0 %; expert 0.61, 88 % (at
    best 0.75). `Bandit-Hard-v0` random 0.42, 0 %; expert 0.49, 36 % (at best 0.60).

    ## Registered Configurations
    `Bandit-v0`: 5 arms, easy. `Bandit-Hard-v0`: 10 arms, hard, 300 rounds.

    ## References
    EVOLvE (arXiv 2410.06238): arms, gaps, the raw and the summarised history. The expert follows
    upper confidence bounds.

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(
        self,
        *,
        arms: int = 5,
        difficulty: str = "easy",
        rounds: int = 50,
        summary: bool = True,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if not 2 <= arms <= len(COLOURS):
            raise ValueError(f"arms must be in [2, {len(COLOURS)}], got {arms}.")
        if difficulty not in GAPS:
            hint = did_you_mean(difficulty, GAPS)
            raise ValueError(f"difficulty must be easy or hard, got {difficulty!r}.{hint}")
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}.")
        super().__init__(max_turns=2 * rounds if max_turns == "auto" else max_turns, **kwargs)
        self.names = COLOURS[:arms]
        self.gap, self.rounds, self.summary = GAPS[difficulty], rounds, summary
        self.tasks = Tasks.generated()
        self.instructions = (
            f"There are {arms} buttons: {', '.join(self.names)}. Each pays 1 or 0 when pressed, "
            "with a probability of its own that never changes; one is better than all others. You "
            f"have {rounds} rounds. Earn as much as you can. Each round, say a button's colour."
        )

    def _start(self, task: str) -> TimeStep:
        arms = len(self.names)
        best = int(task_rng(task, "bandit").integers(arms))
        means = [0.5 + self.gap / 2 if arm == best else 0.5 - self.gap / 2 for arm in range(arms)]
        self.state = State(means, [0] * arms, [0.0] * arms)
        return self._look(0.0)

    def _advance(self, action: str) -> TimeStep:
        if action not in self.names:
            return self._invalid(f"Say one of: {', '.join(self.names)}.")
        state, arm = self.state, self.names.index(action)
        paid = float(self.np_random.random() < state.means[arm])
        regret = max(state.means) - state.means[arm]
        state.pulls[arm] += 1
        state.sums[arm] += paid
        state.last, state.regret = (arm, paid), state.regret + regret
        state.order.append(2 * arm + int(paid))
        return self._look(paid)

    def _look(self, paid: float) -> TimeStep:
        state = self.state
        played = len(state.order)
        over = played >= self.rounds
        chance = max(state.means) - sum(state.means) / len(state.means)  # regret of a random press
        return TimeStep(
            text=f"{'The game is over' if over else f'Round {played + 1} of {self.rounds}'}. "
            + (self._summary() if self.summary else self._history()),
            rewards={"task": paid / self.rounds},
            terminated=over,
            success=over and state.regret < chance * self.rounds / 2,
            progress=max(0.0, 1 - state.regret / (chance * played)) if played else 0.0,
            admissible=() if over else self.names,
        )

    def _summary(self) -> str:
        state, parts = self.state, []
        for name, count, total in zip(self.names, state.pulls, state.sums, strict=True):
            times = f"pressed {count} time{'s' * (count > 1)}, mean {total / max(count, 1):.2f}"
            parts.append(f"{name}: {times if count else 'never pressed'}.")
        last = state.last
        head = "" if last is None else f"{self.names[last[0]]} paid {last[1]:.0f}. "
        return head + " ".join(parts)

    def _history(self) -> str:
        found = [f"{self.names[code // 2]} paid {code % 2}" for code in self.state.order]
        return "So far: " + (", ".join(found) or "nothing") + "."

    def expert(self) -> str | None:
        """Returns the button with the highest upper confidence bound."""
        return self.names[ucb(self.state.pulls, self.state.sums)]
