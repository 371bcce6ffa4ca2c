"""RockPaperScissors: find out what the other will show, and hide what you will."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from agentgym.envs.matrix.iterated import IteratedGame, Plan, exploit, symmetric
from agentgym.multiagent.pettingzoo import make_pettingzoo

ROCK, PAPER, SCISSORS = CHOICES = ("rock", "paper", "scissors")
EDGE = 0.05
"""Below this expected gain in a round, the best player would rather not be guessed itself."""


def beats(choice: str) -> str:
    """Returns what beats a choice."""
    return CHOICES[(CHOICES.index(choice) + 1) % 3]


def scripted(level: str, mine: list[str], theirs: list[str]) -> str:
    """Returns what a simple player shows after these choices in the rounds so far."""
    if level == "cycle":
        return CHOICES[len(mine) % 3]
    if level == "rock" or not theirs:
        return ROCK
    if level == "copy":
        return theirs[-1]
    return beats(theirs[-1] if level == "counter" else max(CHOICES, key=theirs.count))


class RockPaperScissors(IteratedGame):
    """Iterated rock, paper, scissors, optionally with cheap talk.

    ## Description
    In every round both players show rock, paper or scissors at the same time: paper beats rock,
    scissors beat paper, rock beats scissors. Who shows each equally often at random cannot be
    beaten, but wins nothing from a player with a habit. With `messages`, both can say something to
    each other, at the same time, before they choose.

    ## Action Space
    Text: `rock`, `paper` or `scissors`; in the talking phase any text (put on one line and cut
    after 280 characters). With `action_mode="discrete"` (without messages only): the index of the
    choice.

    ## Observation Space
    Text: the round, all choices so far, and what was said in this round.

    ## Rewards
    Term `task`, after each round: 1 for a win, -1 for a loss, 0 for a draw, divided by the number
    of rounds, so that the return is the mean gain of a round. Zero-sum. An invalid action costs
    `invalid_penalty`.

    ## Starting State
    Nothing has been played. The task is the number of rounds: `rounds/4`; even numbers from 4 to 20
    are for training, odd ones from 5 to 19 for testing.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns` turns. After `max_invalid`
    invalid actions in a row the choice is made at random.

    ## Information
    The common keys; `success`: all is played and more rounds are won than lost; `progress`: wins
    less losses so far between their possible extremes at the end.

    ## Arguments
    `messages`: how many times per round both may speak; default 0. `announce_rounds`: whether the
    number of rounds is told; default true. `max_turns`: default None. As a single seat: `seat` and
    `opponents`: "rock" (always), "cycle" (rock, paper, scissors, rock, ...), "copy" (what the other
    showed last), "counter" (the default: what beats that), "frequency" (what beats the other's
    most frequent choice), "best_response" (guesses which of these the other is, and beats that; at
    random if it has no idea) or "random". All start with rock.

    ## Example Transcript
    ```
    Round 2 of 4. Choose: rock, paper or scissors.
    Round 1: you show rock, the other shows paper.
    > scissors
    ```

    ## Baselines
    Mean return (share of successes) of a single seat without messages, 300 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | -0.01 (0.40) | 0.00 (0.42) |
    | rock | 0.00 (0.44) | 1.00 (1.00) |
    | cycle | 0.04 (0.48) | 1.00 (1.00) |
    | copy | 0.02 (0.46) | 1.00 (1.00) |
    | counter | -0.03 (0.37) | 1.00 (1.00) |
    | frequency | 0.01 (0.44) | 1.00 (1.00) |
    | unknown | 0.00 (0.42) | 0.74 (0.90) |

    The expert is "best_response", told who the other is unless it is "unknown".

    Imitation alone (300 demonstrations) plays as the expert does against the default opponent, who
    counters the last throw: to compare learning methods take
    `RockPaperScissors-Unknown-v0` (0.31 of 0.75).

    ## Registered Configurations
    `RockPaperScissors-v0`: no talk. `RockPaperScissors-Talk-v0`: one message each per round.
    `RockPaperScissors-Unknown-v0`: the opponent is drawn anew in every episode; one has to find
    out who it is.

    ## References
    Billings, The First International RoShamBo Programming Competition, ICGA Journal 23 (2000):
    predictable players and those that exploit them.

    ## Version History
    v0: first version.
    """

    choices = CHOICES
    phrases: ClassVar = {choice: (f"show {choice}", f"shows {choice}") for choice in CHOICES}
    promise = "I will show rock."
    strategy = staticmethod(scripted)
    zero_sum = True
    levels = ("random", "rock", "cycle", "copy", "counter", "frequency", "best_response")
    default_opponents = "counter"

    def __init__(self, **kwargs):
        payoff = symmetric(
            {(a, b): (a == beats(b)) - (b == beats(a)) for a in CHOICES for b in CHOICES}
        )
        rules = (
            "You and another player show rock, paper or scissors at the same time, round after "
            "round. Paper beats rock, scissors beat paper, rock beats scissors. A round won counts "
            "1, a round lost -1, a draw 0."
        )
        super().__init__(payoff, rules, **kwargs)

    def _succeeds(self, gain: float) -> bool:
        return gain > 0

    def _plans(self, left: int) -> list[Plan]:
        return [exploit(scripted, model, CHOICES, self.payoff) for model in self.models[:-1]]

    def _respond(
        self, models: Sequence[str], mine: list[str], theirs: list[str], rng: np.random.Generator
    ) -> str:
        choice, gain = self._best(models, mine, theirs)
        return choice if gain > EDGE else CHOICES[int(rng.integers(3))]


env, raw_env, parallel_env = make_pettingzoo(RockPaperScissors)
