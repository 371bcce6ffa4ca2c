"""RockPaperScissors: iterated rock, paper, scissors, with or without messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from agentgym.envs.matrix.iterated import IteratedGame, Plan, exploit, symmetric
from agentgym.multiagent.pettingzoo import make_pettingzoo

ROCK, PAPER, SCISSORS = CHOICES = ("rock", "paper", "scissors")
EDGE = 0.05
"""Below this expected gain per round, the best response plays at random to be unpredictable."""


def beats(choice: str) -> str:
    """Returns the choice that beats a choice."""
    return CHOICES[(CHOICES.index(choice) + 1) % 3]


def scripted(level: str, mine: list[str], theirs: list[str]) -> str:
    """Returns the next choice of a scripted player, given all previous choices."""
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
    In every round both players show rock, paper or scissors at the same time. Paper beats rock,
    scissors beat paper, rock beats scissors. The uniformly random strategy cannot be beaten, but it
    does not exploit a predictable opponent. With `messages`, both players send messages at the same
    time before they choose.

    ## Action Space
    Text: `rock`, `paper` or `scissors`. In the message phase any text, which is put on one line and
    cut after 280 characters. With `action_mode="discrete"` (without messages only): the index of
    the choice.

    ## Observation Space
    Text: the round, all previous choices, and the messages of the current round.

    ## Rewards
    Term `task`, after each round: 1 for a win, 0 for a draw, -1 for a loss, divided by the number
    of rounds, so that the return is the mean score per round. Zero-sum. An invalid action costs
    `invalid_penalty`.

    ## Starting State
    No rounds have been played. The task is the number of rounds, for example `rounds/4`. Even
    numbers from 4 to 20 are training tasks, odd numbers from 5 to 19 are test tasks.

    ## Episode End
    - Termination: all rounds are played.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid actions in a row the choice is sampled at random.

    ## Information
    The common keys. `success`: all rounds are played and more rounds are won than lost. `progress`:
    wins minus losses so far, scaled to [0, 1] between the lowest and the highest possible
    difference at the end.

    `regret`: how much more the best single choice would have paid per round so far, against the
    co-player's choices as they were (external regret). It may be negative.

    ## Arguments
    - `messages` (int, default 0): number of messages each player sends per round, before choosing.
    - `announce_rounds` (bool, default True): whether the observation shows the number of rounds.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a random
      choice.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "counter"): the co-player's policy.
        - "rock": always shows rock.
        - "cycle": rock, paper, scissors, rock, ...
        - "copy": repeats the co-player's last choice.
        - "counter": beats the co-player's last choice.
        - "frequency": beats the co-player's most frequent choice.
        - "best_response": infers which of these policies the co-player follows and plans against
          it.
        - "random": uniformly random choices.
        - "unknown": one of the levels except "random", sampled at each reset.

    ## Notes
    The expert is "best_response". It knows the co-player's level unless that is "unknown". It plays
    at random if no policy is likely enough. All policies but "random" and "best_response" start
    with rock. Behaviour cloning alone matches the expert against the default opponent. To compare
    learning methods, use `RockPaperScissors-Unknown-v0`.

    ## References
    Billings, The First International RoShamBo Programming Competition, ICGA Journal 23 (2000):
    predictable players and players that exploit them.

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
            "You and another player play several rounds of rock, paper, scissors. In each round "
            "both choose at the same time. Get as many points as you can over all rounds.\n"
            "Rules:\n"
            "- Paper beats rock, scissors beat paper, rock beats scissors.\n"
            "- Points per round: 1 for a win, 0 for a draw, -1 for a loss."
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

    def script_probabilities(self, level: str, agent: str) -> np.ndarray:
        """Returns the probabilities of a scripted player's choices, exactly."""
        if level == self.expert_level and not self._talking():
            choice, gain = self._best(self.models, *self._choices_of(agent))
            if gain <= EDGE:
                return np.full(3, 1 / 3)
            return np.array([float(each == choice) for each in CHOICES])
        return super().script_probabilities(level, agent)


env, raw_env, parallel_env = make_pettingzoo(RockPaperScissors)
