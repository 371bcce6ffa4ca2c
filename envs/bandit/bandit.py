"""Bandit: find the best of several arms while pulling them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.core import TextEnv, TimeStep, TurnLimit
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks, task_rng

COLOURS = (
    "red", "blue", "green", "yellow", "orange", "purple", "white", "black", "brown", "pink",
    "grey", "gold", "silver", "cyan", "magenta", "olive", "navy", "teal", "lime", "maroon",
)  # fmt: skip
GAPS = {"easy": 0.5, "hard": 0.2}
"""How much better the best arm's mean is than the others' (EVOLvE: Bernoulli bandits)."""
SPREADS = {"easy": 1.0, "hard": 3.0}
"""Standard deviation of the arms' means and of what each pays (EVOLvE: Gaussian bandits)."""


@dataclass
class State:
    """The arms and what they have given.

    Attributes:
        means: mean reward of each arm.
        pulls: how often each was pulled.
        sums: what each has given in all.
        regret: what the best arm would have given more, in expectation.
        history: every arm pulled, in order, and what it gave.
    """

    means: list[float]
    pulls: list[int]
    sums: list[float]
    regret: float = 0.0
    history: list[tuple[int, float]] = field(default_factory=list)


def ucb(pulls: list[int], sums: list[float], width: float = 0.25) -> int:
    """Returns the arm with the highest upper confidence bound, mean + sqrt(width ln(t) / n).

    The width is the variance of a fair coin's pay. UCB1 (Auer, Cesa-Bianchi and Fischer, 2002) has
    2, which holds for any rewards in [0, 1] but explores far too long for games of this length.
    """
    for arm, count in enumerate(pulls):
        if not count:
            return arm
    bonus = width * math.log(sum(pulls))
    scores = [s / n + math.sqrt(bonus / n) for s, n in zip(sums, pulls, strict=True)]
    return scores.index(max(scores))


def thompson(pulls: list[int], sums: list[float], spread: float, rng: np.random.Generator) -> int:
    """Returns the arm that is best in a world drawn from what the pulls leave possible.

    Args:
        pulls: how often each arm was pulled.
        sums: what each has given in all.
        spread: standard deviation of means and pays; 0: pays are 0 or 1, by a uniform chance.
        rng: draws the world.
    """
    counts, totals = np.array(pulls), np.array(sums)
    if spread:
        means = rng.normal(totals / (counts + 1), spread / np.sqrt(counts + 1))
    else:
        means = rng.beta(1 + totals, 1 + counts - totals)
    return int(means.argmax())


class Bandit(TextEnv):
    """Pull one of several buttons, again and again, and find out which pays best.

    ## Description
    A bandit as in EVOLvE. Bernoulli: one arm pays 1 with probability 0.5 + gap / 2, the others with
    0.5 - gap / 2; gap is 0.5 (easy) or 0.2 (hard). Gaussian: the arms' means are drawn from a
    normal distribution about 0 with standard deviation 1 (easy) or 3 (hard), and every pay is drawn
    about the arm's mean with that deviation. Arms are buttons with the names of colours.

    ## Action Space
    Text: the colour of a button.

    ## Observation Space
    Text: the last result and, for each button, how often it was pressed and its mean (`summary`),
    or all results in order.

    ## Rewards
    Term `task`: what the button paid (0 or 1; Gaussian: a number of two decimals), divided by
    `rounds`.

    ## Starting State
    Which button is best (Gaussian: all means) is drawn by the task's name; what buttons pay, by the
    episode's seed.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns`.

    ## Information
    The common keys. `success`: at the end, the regret - what the best button would have paid more,
    in expectation - is below half of that of pressing at random. `progress`: 1 minus the
    regret as a share of that of pressing at random in the rounds played. `regret`: itself, so far.

    ## Arguments
    `arms`: 2 to 20 (EVOLvE: 5 and 20). `difficulty`: "easy" or "hard". `pays`: "bernoulli" or
    "gaussian". `rounds`: default 50. `summary`: whether counts and means are shown. `advice`: what
    the expert follows, "ucb" or "thompson". `max_turns`: default twice the rounds.

    ## Example Transcript
    ```
    Round 2 of 50. red: pressed 1 time, mean 1.00. blue: never pressed.
    > red
    ```

    ## Baselines
    200 test tasks, mean return and success: `Bandit-v0` random 0.35, 0 %; expert 0.61, 88 % (at
    best 0.75). `Bandit-Hard-v0` random 0.42, 0 %; expert 0.49, 36 % (at best 0.60): nobody can
    tell 0.6 from 0.4 sooner. `Bandit-v0` with `pays="gaussian"`: random -0.01, 0 %; expert 0.92,
    93 %; with `advice="thompson"` the expert has 0.57, 66 %.

    ## Registered Configurations
    `Bandit-v0`: 5 arms, easy. `Bandit-Hard-v0`: 10 arms, hard, 300 rounds.

    ## References
    EVOLvE (arXiv 2410.06238): arms, gaps, variances, the raw and the summarised history. The expert
    follows upper confidence bounds (Auer et al., 2002) or samples (Thompson, 1933).

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(
        self,
        *,
        arms: int = 5,
        difficulty: str = "easy",
        pays: str = "bernoulli",
        rounds: int = 50,
        summary: bool = True,
        advice: str = "ucb",
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if not 2 <= arms <= len(COLOURS):
            raise ValueError(f"arms must be in [2, {len(COLOURS)}], got {arms}.")
        for name, word, known in (
            ("difficulty", difficulty, tuple(GAPS)),
            ("pays", pays, ("bernoulli", "gaussian")),
            ("advice", advice, ("ucb", "thompson")),
        ):
            if word not in known:
                hint = did_you_mean(word, known)
                raise ValueError(f"{name} must be {' or '.join(known)}, got {word!r}.{hint}")
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}.")
        super().__init__(max_turns=2 * rounds if max_turns == "auto" else max_turns, **kwargs)
        self.names = COLOURS[:arms]
        self.gap, self.rounds, self.summary = GAPS[difficulty], rounds, summary
        self.spread = SPREADS[difficulty] if pays == "gaussian" else 0.0
        self.advice = advice
        self.tasks = Tasks.generated()
        paid = (
            f"a number when pressed, about a mean of its own that never changes (the standard "
            f"deviation is {self.spread:g})"
            if self.spread
            else "1 or 0 when pressed, with a probability of its own that never changes"
        )
        self.instructions = (
            f"There are {arms} buttons: {', '.join(self.names)}. Each pays {paid}; one is better "
            f"than all others. You have {rounds} rounds. Earn as much as you can. Each round, say "
            "a button's colour."
        )

    def _start(self, task: str) -> TimeStep:
        arms, rng = len(self.names), task_rng(task, "bandit")
        if self.spread:
            means = rng.normal(0, self.spread, arms).tolist()
        else:
            best = int(rng.integers(arms))
            means = [0.5 + self.gap / 2 * (1 if arm == best else -1) for arm in range(arms)]
        self.state = State(means, [0] * arms, [0.0] * arms)
        return self._look(0.0)

    def _advance(self, action: str) -> TimeStep:
        if action not in self.names:
            return self._invalid(f"Say one of: {', '.join(self.names)}.")
        state, arm = self.state, self.names.index(action)
        if self.spread:
            paid = round(float(self.np_random.normal(state.means[arm], self.spread)), 2)
        else:
            paid = float(self.np_random.random() < state.means[arm])
        regret = max(state.means) - state.means[arm]
        state.pulls[arm] += 1
        state.sums[arm] += paid
        state.regret += regret
        state.history.append((arm, paid))
        return self._look(paid)

    def _look(self, paid: float) -> TimeStep:
        state = self.state
        played = len(state.history)
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

    def _info(self, step: TimeStep) -> dict[str, Any]:
        return {**super()._info(step), "regret": self.state.regret}

    def _summary(self) -> str:
        state, parts = self.state, []
        for name, count, total in zip(self.names, state.pulls, state.sums, strict=True):
            times = f"pressed {count} time{'s' * (count > 1)}, mean {total / max(count, 1):.2f}"
            parts.append(f"{name}: {times if count else 'never pressed'}.")
        head = [f"{self._told(*state.history[-1])}."] if state.history else []
        return " ".join([*head, *parts])

    def _history(self) -> str:
        found = [self._told(arm, paid) for arm, paid in self.state.history]
        return "So far: " + (", ".join(found) or "nothing") + "."

    def _told(self, arm: int, paid: float) -> str:
        return f"{self.names[arm]} paid {paid:.{2 if self.spread else 0}f}"

    def expert(self) -> str | None:
        """Returns the button with the highest upper confidence bound, or Thompson's sample."""
        state = self.state
        if self.advice == "thompson":
            # Its own dice: those of the episode decide what is paid next.
            rng = task_rng(self.task, f"thompson {state.history}")
            return self.names[thompson(state.pulls, state.sums, self.spread, rng)]
        return self.names[ucb(state.pulls, state.sums, self.spread**2 or 0.25)]
