"""Chicken: the iterated game of chicken: who gives way?"""

from __future__ import annotations

from typing import ClassVar

from agentgym.envs.matrix.iterated import IteratedGame, symmetric
from agentgym.errors import ConfigError
from agentgym.multiagent.pettingzoo import make_pettingzoo

SWERVE, STRAIGHT = CHOICES = ("swerve", "straight")


def scripted(level: str, mine: list[str], theirs: list[str]) -> str:
    """Returns the next choice of a simple driver after these choices in the rounds so far."""
    if level == "tit_for_tat":
        return theirs[-1] if theirs else SWERVE
    if level == "grim":
        return STRAIGHT if STRAIGHT in theirs else SWERVE
    if level == "bully":
        return SWERVE if theirs[-1:] == [STRAIGHT] else STRAIGHT
    return level


class Chicken(IteratedGame):
    """The iterated game of chicken, optionally with cheap talk.

    ## Description
    In every round both players drive at each other and choose at the same time to swerve or to go
    straight. Who goes straight while the other swerves gets most; if both go straight, they crash
    and get least. Each equilibrium of a round favours one of them. With `messages`, both can say
    something to each other, at the same time, before they choose.

    ## Action Space
    Text: `swerve` or `straight`; in the talking phase any text (put on one line and cut after 280
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
    The common keys; `success`: all is played and the mean payoff is at least that of both swerving;
    `progress`: the sum of payoffs so far between its possible extremes at the end.

    ## Arguments
    `dare`, `swerves`, `chicken`, `crash`: the payoffs for (straight, swerve), (swerve, swerve),
    (swerve, straight) and (straight, straight); default 5, 3, 1, 0. `messages`: how many times per
    round both may speak; default 0. `announce_rounds`: whether the number of rounds is told;
    default true. `max_turns`: default None. As a single seat: `seat` and `opponents`: "swerve",
    "straight", "tit_for_tat" (swerves first, then does what the other did last), "grim" (swerves
    until the other goes straight, then goes straight for ever), "bully" (the default: goes straight
    unless the other just did), "best_response" (guesses which of these the other is, and plans
    against that) or "random".

    ## Example Transcript
    ```
    Round 2 of 4. Choose: swerve or straight.
    Round 1: you go straight, the other goes straight.
    > straight
    ```

    ## Baselines
    Mean return (share of successes) of a single seat without messages, 300 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | 2.22 (0.09) | 2.49 (0.29) |
    | swerve | 4.02 (1.00) | 5.00 (1.00) |
    | straight | 0.49 (0.00) | 1.00 (0.00) |
    | tit_for_tat | 2.38 (0.09) | 3.19 (1.00) |
    | grim | 1.17 (0.01) | 3.19 (1.00) |
    | bully | 2.13 (0.08) | 4.52 (1.00) |
    | unknown | 1.88 (0.19) | 2.82 (0.65) |

    The expert is "best_response", told who the other is unless it is "unknown".

    Imitation alone (300 demonstrations) plays as the expert does against the default opponent, who
    is a bully, with and without talk: to compare learning methods take `Chicken-Unknown-v0`
    (2.31 of 2.84).

    ## Registered Configurations
    `Chicken-v0`: no talk. `Chicken-Talk-v0`: one message each per round.
    `Chicken-Unknown-v0`: the opponent is drawn anew in every episode; one has to find
    out who it is.

    ## References
    Rapoport and Chammah, The Game of Chicken, American Behavioral Scientist 10 (1966).

    ## Version History
    v0: first version.
    """

    choices = CHOICES
    phrases: ClassVar = {
        SWERVE: ("swerve", "swerves"),
        STRAIGHT: ("go straight", "goes straight"),
    }
    promise = "I will go straight, so you had better swerve."
    strategy = staticmethod(scripted)
    levels = ("random", "swerve", "straight", "tit_for_tat", "grim", "bully", "best_response")
    default_opponents = "bully"

    def __init__(
        self,
        *,
        dare: float = 5,
        swerves: float = 3,
        chicken: float = 1,
        crash: float = 0,
        **kwargs,
    ):
        if not dare > swerves > chicken > crash:
            raise ConfigError(
                "A game of chicken needs dare > swerves > chicken > crash, got "
                f"{dare}, {swerves}, {chicken}, {crash}."
            )
        payoff = symmetric(
            {
                (SWERVE, SWERVE): swerves,
                (SWERVE, STRAIGHT): chicken,
                (STRAIGHT, SWERVE): dare,
                (STRAIGHT, STRAIGHT): crash,
            }
        )
        rules = (
            "You and another player drive at each other and choose at the same time, round after "
            f"round, to swerve or to go straight. If both swerve, each gets {swerves:g}; if both "
            f"go straight, they crash and each gets {crash:g}; if only one swerves, that one gets "
            f"{chicken:g} and the other {dare:g}."
        )
        super().__init__(payoff, rules, **kwargs)

    def _succeeds(self, gain: float) -> bool:
        return gain >= self.payoff[SWERVE, SWERVE][0] * self.state.rounds - 1e-9


env, raw_env, parallel_env = make_pettingzoo(Chicken)
