"""Alarms of self-play: causes for which a policy gets worse while its returns show nothing."""

from __future__ import annotations

from agentgym.trainers.data.run_state import SelfPlayHistory
from agentgym.trainers.run.exploitability import Measured

RISING, WORSE, CYCLING, BEATEN = "rising", "worse than random", "cycling", "beaten"
PATIENCE = 3
"""Evaluations before the first alarm."""
LARGEST_RISE = 0.2
"""Rise of exploitability above its lowest value, as a share of it, without an alarm."""
MARGIN = 0.01
"""Difference without an alarm, as a share of the range of returns."""
LEAST_ENTROPY = 0.05
"""Entropy below which a policy is deterministic, as a share of the largest of the run."""
REMEDIES = (
    "Remedies: a reference that moves (--kl-coef 0.2 --kl-reference moving:10), a larger "
    "--entropy-coef, or past opponents (--opponents mirror=0.7 past:5=0.3, or mirror past:5=auto)."
)


def self_play_alarms(history: SelfPlayHistory, measured: Measured) -> dict[str, str]:
    """Adds an evaluation to the history, and returns the warnings of the causes that hold.

    Values of a lower bound differ if they are more than 2 standard errors apart.

    Args:
        history: the evaluations before.
        measured: the exploitability of the policy.
    """
    history.exploitability.append(measured.exploitability.mean)
    history.errors.append(measured.error)
    found = {
        RISING: _rising(history, measured),
        WORSE: _worse_than_random(history, measured),
        CYCLING: _cycling(history, measured),
        BEATEN: _beaten(history, measured),
    }
    return {cause: text for cause, text in found.items() if text is not None}


def _rising(history: SelfPlayHistory, measured: Measured) -> str | None:
    *before, now = (max(0.0, value) for value in history.exploitability)
    if len(history.exploitability) < PATIENCE or not measured.zero_sum:
        return None
    lowest = min(range(len(before)), key=before.__getitem__)
    error = (history.errors[lowest] ** 2 + history.errors[-1] ** 2) ** 0.5
    bound = max(LARGEST_RISE * before[lowest], 2 * error, MARGIN * measured.scale)
    if now - before[lowest] <= bound:
        return None
    return (
        f"Exploitability has risen from {before[lowest]:.3f} to {now:.3f}. The returns of a policy "
        f"against itself are 0 by construction in this game, and do not show it. {REMEDIES}"
    )


def _worse_than_random(history: SelfPlayHistory, measured: Measured) -> str | None:
    last = [*zip(history.exploitability, history.errors, strict=True)][-PATIENCE:]
    bound = measured.random + MARGIN * measured.scale
    if len(last) < PATIENCE or min(value - 2 * error for value, error in last) <= bound:
        return None
    return (
        f"The policy is more exploitable ({last[-1][0]:.3f}) than a random agent "
        f"({measured.random:.3f}), for {PATIENCE} evaluations. A larger --entropy-coef helps, or a "
        "smaller --lr. With --eval-temperature 0, try 1: greedy actions are easy to exploit."
    )


def _cycling(history: SelfPlayHistory, measured: Measured) -> str | None:
    last, entropy = history.exploitability[-PATIENCE:], history.entropy
    if len(last) < PATIENCE or entropy is None:
        return None
    high = min(last) - 2 * max(history.errors[-PATIENCE:]) > MARGIN * measured.scale
    flat = max(last) - min(last) < LARGEST_RISE * max(last)
    if not (high and flat and entropy < LEAST_ENTROPY * history.largest_entropy):
        return None
    return (
        f"The policy is almost deterministic (entropy {entropy:.3f} nats per token), and its "
        f"exploitability stays at {last[-1]:.3f}: self-play may cycle. A larger --entropy-coef "
        "helps, and the average policy (opponent past:20=0, agent league:RUN) may be less "
        "exploitable."
    )


def _beaten(history: SelfPlayHistory, measured: Measured) -> str | None:
    if not measured.zero_sum:
        return None
    least, winners = MARGIN * measured.scale, []
    for number, margin in measured.margins.items():
        low, high = (margin.mean if end is None else end for end in (margin.low, margin.high))
        if high < -least and number not in history.beaten:
            history.beaten.append(number)
        if low > least and number in history.beaten:
            winners.append(number)
    if not winners:
        return None
    return (
        f"The policy loses to its snapshot of iteration {winners[0]}, which an earlier one has "
        f"beaten: strength is not transitive here, and the newest policy not the best. {REMEDIES}"
    )
