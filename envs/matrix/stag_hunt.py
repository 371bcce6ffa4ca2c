"""StagHunt: the iterated stag hunt: trust each other, or play safe."""

from __future__ import annotations

from typing import ClassVar

from agentgym.envs.matrix.iterated import IteratedGame, symmetric
from agentgym.errors import ConfigError
from agentgym.multiagent.pettingzoo import make_pettingzoo

STAG, HARE = CHOICES = ("stag", "hare")


def scripted(level: str, mine: list[str], theirs: list[str]) -> str:
    """Returns the next choice of a simple hunter after these choices in the rounds so far."""
    if level == "tit_for_tat":
        return theirs[-1] if theirs else STAG
    if level == "wary":
        return theirs[-1] if theirs else HARE
    if level == "grim":
        return HARE if HARE in theirs else STAG
    return level


class StagHunt(IteratedGame):
    """The iterated stag hunt, optionally with cheap talk.

    ## Description
    In every round both players choose at the same time to hunt a stag or a hare. A stag takes two,
    and pays most; who hunts it alone comes home with nothing. A hare can be caught alone. Both
    hunting stags and both hunting hares are equilibria: the first is better, the second safer. With
    `messages`, both can say something to each other, at the same time, before they choose.

    ## Action Space
    Text: `stag` or `hare`; in the talking phase any text (put on one line and cut after 280
    characters). With `action_mode="discrete"` (without messages only): the index of the choice.

    ## Observation Space
    Text: the round, all choices so far, and what was said in this round.

    ## Rewards
    Term `task`, after each round: one's payoff divided by the number of rounds, so that the return
    is the mean payoff of a round. An invalid action costs `invalid_penalty`.

    ## Starting State
    Nothing has been played. The task is the number of rounds: `rounds/4`; even numbers from 4 to 20
    are for training, odd ones from 5 to 19 for testing.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns` turns. After `max_invalid`
    invalid actions in a row the choice is made at random.

    ## Information
    The common keys; `success`: all is played and the mean payoff is at least that of a hare while
    the other hunts a stag, the most a hare can bring; `progress`: the sum of payoffs so far between
    its possible extremes at the end.

    ## Arguments
    `stag`, `hare`, `hares`, `alone`: the payoffs for (stag, stag), (hare, stag), (hare, hare) and
    (stag, hare); default 4, 3, 2, 0. `messages`: how many times per round both may speak; default
    0. `announce_rounds`: whether the number of rounds is told; default true. `max_turns`: default
    None. As a single seat: `seat` and `opponents`: "stag", "hare", "tit_for_tat" (hunts a stag
    first, then what the other hunted last), "wary" (the default: the same, but a hare first),
    "grim" (a stag until the other hunts a hare, then hares for ever), "best_response" (guesses
    which of these the other is, and plans against that) or "random".

    ## Example Transcript
    ```
    Round 2 of 4. Choose: stag or hare.
    Round 1: you hunt a stag, the other hunts a hare.
    > stag
    ```

    ## Baselines
    Mean return (share of successes) of a single seat without messages, 300 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | 2.27 (0.07) | 2.50 (0.01) |
    | stag | 3.49 (1.00) | 4.00 (1.00) |
    | hare | 1.02 (0.00) | 2.00 (0.00) |
    | tit_for_tat | 2.38 (0.10) | 4.00 (1.00) |
    | wary | 2.14 (0.02) | 3.61 (1.00) |
    | grim | 1.51 (0.03) | 4.00 (1.00) |
    | unknown | 2.13 (0.24) | 3.56 (0.83) |

    The expert is "best_response", told who the other is unless it is "unknown".

    Imitation alone (300 demonstrations) plays as the expert does against the default opponent, who
    is wary, with and without talk, and nearly so against an unknown one (3.55 of 3.58): to compare
    learning methods take `Chicken-Unknown-v0`.

    ## Registered Configurations
    `StagHunt-v0`: no talk. `StagHunt-Talk-v0`: one message each per round.
    `StagHunt-Unknown-v0`: the opponent is drawn anew in every episode; one has to find
    out who it is.

    ## References
    Rousseau, Discourse on Inequality (1755): the story. Skyrms, The Stag Hunt and the Evolution of
    Social Structure (2004): trust and talk in it.

    ## Version History
    v0: first version.
    """

    choices = CHOICES
    phrases: ClassVar = {
        STAG: ("hunt a stag", "hunts a stag"),
        HARE: ("hunt a hare", "hunts a hare"),
    }
    promise = "Let us both hunt a stag."
    strategy = staticmethod(scripted)
    levels = ("random", "hare", "stag", "wary", "tit_for_tat", "grim", "best_response")
    default_opponents = "wary"

    def __init__(
        self,
        *,
        stag: float = 4,
        hare: float = 3,
        hares: float = 2,
        alone: float = 0,
        **kwargs,
    ):
        if not stag > hare >= hares > alone:
            raise ConfigError(
                "A stag hunt needs stag > hare >= hares > alone, got "
                f"{stag}, {hare}, {hares}, {alone}."
            )
        payoff = symmetric(
            {(STAG, STAG): stag, (STAG, HARE): alone, (HARE, STAG): hare, (HARE, HARE): hares}
        )
        rules = (
            "You and another player choose at the same time, round after round, to hunt a stag or "
            f"a hare. If both hunt a stag, each gets {stag:g}; if both hunt a hare, each gets "
            f"{hares:g}; if only one hunts a stag, it gets {alone:g} and the other {hare:g}."
        )
        super().__init__(payoff, rules, **kwargs)

    def _succeeds(self, gain: float) -> bool:
        return gain >= self.payoff[HARE, STAG][0] * self.state.rounds - 1e-9


env, raw_env, parallel_env = make_pettingzoo(StagHunt)
