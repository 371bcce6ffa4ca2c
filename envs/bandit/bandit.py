"""Bandit: multi-armed bandits with named buttons as arms."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from agentgym.core import TextEnv, TurnLimit
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

COLOURS = (
    "red", "blue", "green", "yellow", "orange", "purple", "white", "black", "brown", "pink",
    "grey", "gold", "silver", "cyan", "magenta", "olive", "navy", "teal", "lime", "maroon",
)  # fmt: skip
GAPS = {"easy": 0.5, "hard": 0.2}
"""Gap between the mean of the best arm and that of the others (EVOLvE: Bernoulli bandits)."""
SPREADS = {"easy": 1.0, "hard": 3.0}
"""Standard deviation of the arms' means and of their payoffs (EVOLvE: Gaussian bandits)."""


_SUPPORT = (
    "The score of a button is its mean payoff plus a bonus, which is larger the less often the "
    "button was pressed (inf: never). A good rule is to press the button with the highest score."
)
EXAMPLE_ROUNDS = 20
"""Length of an example game in the instructions."""


@dataclass
class State:
    """The arms and the history of pulls.

    Attributes:
        means: mean payoff of each arm.
        pulls: number of pulls of each arm.
        sums: total payoff of each arm.
        regret: cumulative expected regret.
        history: the pulled arms with their payoffs, in order.
    """

    means: list[float]
    pulls: list[int]
    sums: list[float]
    regret: float = 0.0
    history: list[tuple[int, float]] = field(default_factory=list)


def ucb(pulls: list[int], sums: list[float], width: float = 0.25) -> int:
    """Returns the arm with the highest upper confidence bound, mean + sqrt(width ln(t) / n).

    The default width is the variance of a fair coin. UCB1 (Auer, Cesa-Bianchi and Fischer, 2002)
    uses 2, which is valid for all rewards in [0, 1] but explores too long for short episodes.
    """
    added = zip(sums, pulls, bonuses(pulls, width), strict=True)
    scores = [total / max(count, 1) + bonus for total, count, bonus in added]
    return scores.index(max(scores))


def bonuses(pulls: list[int], width: float = 0.25) -> list[float]:
    """Returns the exploration bonus sqrt(width ln(t) / n) of each arm, infinite at n = 0."""
    rounds = max(sum(pulls), 1)
    return [math.sqrt(width * math.log(rounds) / n) if n else math.inf for n in pulls]


def thompson(pulls: list[int], sums: list[float], spread: float, rng: np.random.Generator) -> int:
    """Returns the best arm under means sampled from the posterior (Thompson sampling).

    Args:
        pulls: number of pulls of each arm.
        sums: total payoff of each arm.
        spread: standard deviation of means and payoffs. 0 for Bernoulli arms with a uniform prior.
        rng: source of randomness.
    """
    counts, totals = np.array(pulls), np.array(sums)
    if spread:
        means = rng.normal(totals / (counts + 1), spread / np.sqrt(counts + 1))
    else:
        means = rng.beta(1 + totals, 1 + counts - totals)
    return int(means.argmax())


class Bandit(TextEnv):
    """A multi-armed bandit: press one of several buttons per round and find the best one.

    ## Description
    A bandit as in EVOLvE. Arms are buttons with the names of colours.

    - Bernoulli: the best arm pays 1 with probability 0.5 + gap / 2, the others with 0.5 - gap / 2.
      The gap is 0.5 (easy) or 0.2 (hard).
    - Gaussian: the means of the arms are sampled from a normal distribution with mean 0 and
      standard deviation 1 (easy) or 3 (hard). Payoffs are sampled with the same standard deviation
      around the mean of the arm.

    ## Action Space
    Text: the colour of a button, such as `red`.

    ## Observation Space
    Text: the last payoff and, per button, the number of presses and the mean payoff (`summary`), or
    all payoffs in order.

    ## Rewards
    Term `task`: the payoff of the button (0 or 1, Gaussian: a number with two decimals), divided by
    `rounds`.

    ## Starting State
    The best button (Gaussian: all means) is determined by the task, the payoffs by the seed of the
    episode. Few starts exist, as many as buttons (Gaussian: any number), and the splits share them:
    training and test tasks differ in name only.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns`.

    ## Information
    The common keys.

    - `success`: at the end, the regret is below half of the expected regret of random presses.
      Regret is the expected gain that the best button would have added.
    - `progress`: 1 minus the ratio of the regret to that of random presses.
    - `regret`: the regret so far.

    ## Arguments
    - `arms` (int, default 5): number of buttons, from 2 to 20 (EVOLvE: 5 and 20).
    - `difficulty` ("easy" or "hard", default "easy"): size of the gap or of the deviations.
    - `pays` ("bernoulli" or "gaussian", default "bernoulli"): distribution of the payoffs.
    - `rounds` (int, default 50): number of presses.
    - `summary` (bool, default True): show counts and means instead of the history.
    - `support` (bool, default False): show the exploration bonus of each button under UCB, and the
      sum of mean and bonus (EVOLvE: algorithm-guided support). It needs `summary`.
    - `demonstrations` (int, default 0): number of example games of the expert with 20 rounds in the
      instructions, on buttons of other tasks (EVOLvE: few-shot demonstrations).
    - `advice` ("ucb" or "thompson", default "ucb"): algorithm of the expert.
    - `max_turns` (int, default twice the rounds): turns before truncation.

    ## Notes
    The expert is a strong baseline, not an upper bound. With small gaps and many arms, no policy
    can identify the best arm early.

    ## References
    EVOLvE (arXiv 2410.06238): arms, gaps, variances, the raw and the summarised history,
    algorithm-guided support and demonstrations. The expert uses upper confidence bounds (Auer et
    al., 2002) or Thompson sampling (Thompson, 1933).

    ## Version History
    v0: first version.
    """

    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "a task is one of few best arms: the seed does the rest",
        "semantic.duplicate_tasks": "a task is the best arm, of which there are few",
    }
    stationary = True
    """Actions pay alike in every turn, so that evaluations measure exploration."""

    def __init__(
        self,
        *,
        arms: int = 5,
        difficulty: str = "easy",
        pays: str = "bernoulli",
        rounds: int = 50,
        summary: bool = True,
        support: bool = False,
        demonstrations: int = 0,
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
        if support and not summary:
            raise ValueError("support needs summary=True.")
        if not 0 <= demonstrations <= 10:
            raise ValueError(f"demonstrations must be in [0, 10], got {demonstrations}.")
        super().__init__(max_turns=2 * rounds if max_turns == "auto" else max_turns, **kwargs)
        self.names = COLOURS[:arms]
        self.gap, self.rounds, self.summary = GAPS[difficulty], rounds, summary
        self.spread = SPREADS[difficulty] if pays == "gaussian" else 0.0
        self.advice, self.support = advice, support
        self.tasks = Tasks.generated()
        pays = (
            f"a random amount with a fixed mean of its own (standard deviation {self.spread:g})"
            if self.spread
            else "1 with a fixed probability of its own, else 0"
        )
        self.instructions = (
            f"Find the best of {arms} buttons and earn as much as you can in {rounds} rounds.\n"
            "\n"
            "Rules:\n"
            "- Each round, you press one button.\n"
            f"- Each button pays {pays}.\n"
            "- One button is better than all others.\n"
            "\n"
            f"Action: only the colour of a button, for example {self.names[0]}. Buttons: "
            f"{', '.join(self.names)}.\n"
            "\n"
            "Score: the mean payoff."
        )
        if support:
            self.instructions += f"\n\n{_SUPPORT}"
        for number in range(demonstrations):
            game = self._example(f"example/{number}")
            self.instructions += f"\n\nExample of a good player, with other payoffs: {game}."

    def _start(self, task: str) -> TimeStep:
        self.state = self._drawn(task)
        return self._look(0.0)

    def _drawn(self, task: str) -> State:
        """Returns the arms of a task."""
        arms, rng = len(self.names), task_rng(task, "bandit")
        if self.spread:
            means = rng.normal(0, self.spread, arms).tolist()
        else:
            best = int(rng.integers(arms))
            means = [0.5 + self.gap / 2 * (1 if arm == best else -1) for arm in range(arms)]
        return State(means, [0] * arms, [0.0] * arms)

    def _example(self, task: str) -> str:
        """Returns the presses and payoffs of the expert in a game of its own."""
        state, rng = self._drawn(task), task_rng(task, "bandit payoffs")
        for _ in range(EXAMPLE_ROUNDS):
            arm = self._best(state, task)
            self._press(state, arm, rng)
        return ", ".join(self._told(*press) for press in state.history)

    def _advance(self, action: str) -> TimeStep:
        if action not in self.names:
            return self._invalid(f"Answer with the colour of one button: {', '.join(self.names)}.")
        return self._look(self._press(self.state, self.names.index(action), self.np_random))

    def _press(self, state: State, arm: int, rng: np.random.Generator) -> float:
        """Presses a button. Returns the payoff."""
        if self.spread:
            paid = round(float(rng.normal(state.means[arm], self.spread)), 2)
        else:
            paid = float(rng.random() < state.means[arm])
        state.pulls[arm] += 1
        state.sums[arm] += paid
        state.regret += max(state.means) - state.means[arm]
        state.history.append((arm, paid))
        return paid

    def _look(self, paid: float) -> TimeStep:
        state = self.state
        played = len(state.history)
        over = played >= self.rounds
        chance = max(state.means) - sum(state.means) / len(
            state.means
        )  # expected regret of a random press
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
            parts.append(f"{name}: {times if count else 'never pressed'}")
        if self.support:
            for arm, bonus in enumerate(bonuses(state.pulls, self.width)):
                score = state.sums[arm] / max(state.pulls[arm], 1) + bonus
                parts[arm] += f", bonus {bonus:.2f}, score {score:.2f}"
        head = [f"{self._told(*state.history[-1])}."] if state.history else []
        return " ".join([*head, *(f"{part}." for part in parts)])

    def _history(self) -> str:
        found = [self._told(arm, paid) for arm, paid in self.state.history]
        return "So far: " + (", ".join(found) or "nothing") + "."

    def _told(self, arm: int, paid: float) -> str:
        return f"{self.names[arm]} paid {paid:.{2 if self.spread else 0}f}"

    def privileged_text(self) -> str:
        """Returns the rounds left and, per button, the mean, the presses and the sum paid."""
        state = self.state
        buttons = [
            f"{name} {mean:.2f}, pressed {count}, paid {paid:.2f}"
            for name, mean, count, paid in zip(
                self.names, state.means, state.pulls, state.sums, strict=True
            )
        ]
        return f"Rounds left: {self.rounds - len(state.history)}. Means: {'; '.join(buttons)}."

    def expert(self) -> str | None:
        """Returns the button chosen by UCB or Thompson sampling."""
        return self.names[self._best(self.state, self.task)]

    @property
    def width(self) -> float:
        """The factor of the exploration bonus: the variance of the payoffs."""
        return self.spread**2 or 0.25

    def _best(self, state: State, task: str) -> int:
        if self.advice == "thompson":
            # A separate generator: that of the episode determines the next payoff.
            rng = task_rng(task, f"thompson {state.history}")
            return thompson(state.pulls, state.sums, self.spread, rng)
        return ucb(state.pulls, state.sums, self.width)
