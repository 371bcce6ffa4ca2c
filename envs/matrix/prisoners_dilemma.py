"""PrisonersDilemma: the iterated prisoner's dilemma, with or without talking before each choice."""

from __future__ import annotations

from typing import ClassVar

from agentgym.envs.matrix.iterated import IteratedGame, Plan, imitate, switch, symmetric
from agentgym.errors import ConfigError
from agentgym.multiagent.pettingzoo import make_pettingzoo

CHOICES = ("cooperate", "defect")


def scripted(level: str, mine: list[str], theirs: list[str]) -> str:
    """Returns the next choice of a classic strategy after these choices in the rounds so far."""
    if level == "defect":
        return "defect"
    if level == "tit_for_tat":
        return theirs[-1] if theirs else "cooperate"
    if level == "grim":
        return "defect" if "defect" in theirs else "cooperate"
    if level == "win_stay":
        return "cooperate" if mine[-1:] == theirs[-1:] else "defect"
    return "cooperate"


class PrisonersDilemma(IteratedGame):
    """The iterated prisoner's dilemma, optionally with cheap talk.

    ## Description
    In every round both players choose at the same time to cooperate or to defect. Defecting pays
    more whatever the other does, but mutual cooperation pays more than mutual defection. With
    `messages`, both can say something to each other, at the same time, before they choose.

    ## Action Space
    Text: `cooperate` or `defect`; in the talking phase any text (put on one line and cut after 280
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
    The common keys; `success`: all is played and the mean payoff is at least that of mutual
    cooperation; `progress`: the sum of payoffs so far between its possible extremes at the end.

    ## Arguments
    `temptation`, `reward`, `punishment`, `sucker`: the payoffs for (defect, cooperate), (cooperate,
    cooperate), (defect, defect), (cooperate, defect); default 5, 3, 1, 0. `messages`: how many
    times per round both may speak; default 0. `announce_rounds`: whether the number of rounds is
    told; default true. `max_turns`: default None. As a single seat: `seat` and `opponents`:
    "cooperate", "defect", "tit_for_tat", "grim" (defects for ever once it was defected),
    "win_stay" (cooperates if both chose alike in the last round), "best_response" (guesses which of
    these the other is, and plans against that) or "random". The default is "grim".

    ## Example Transcript
    ```
    Round 2 of 4. Choose: cooperate or defect.
    Round 1: you cooperate, the other defects.
    > defect
    ```

    ## Baselines
    Mean return (share of successes) of a single seat without messages, 300 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | 2.25 (0.09) | 2.99 (0.49) |
    | cooperate | 4.02 (1.00) | 5.00 (1.00) |
    | defect | 0.51 (0.00) | 1.00 (0.00) |
    | tit_for_tat | 2.40 (0.05) | 3.19 (1.00) |
    | grim | 1.19 (0.02) | 3.19 (1.00) |
    | win_stay | 2.45 (0.15) | 3.19 (1.00) |
    | unknown | 1.80 (0.17) | 2.53 (0.51) |

    The expert is "best_response", told who the other is unless it is "unknown".

    Imitation alone (300 demonstrations) plays as the expert does against an unknown opponent (2.52
    of 2.51), not against the default one (2.61 of 3.20).

    ## Registered Configurations
    `PrisonersDilemma-v0`: no talk. `PrisonersDilemma-Talk-v0`: one message each per round.
    `PrisonersDilemma-Unknown-v0`: the opponent is drawn anew in every episode; one has to find
    out who it is.

    ## References
    Axelrod and Hamilton, The Evolution of Cooperation, Science 211 (1981): the payoffs and tit for
    tat. Nowak and Sigmund, Nature 364 (1993): win-stay, lose-shift.

    ## Version History
    v0: first version.
    """

    choices = CHOICES
    phrases: ClassVar = {"cooperate": ("cooperate", "cooperates"), "defect": ("defect", "defects")}
    promise = "Let us both cooperate."
    strategy = staticmethod(scripted)
    levels = (
        "random", "cooperate", "defect", "tit_for_tat", "grim", "win_stay", "best_response"
    )  # fmt: skip
    default_opponents = "grim"

    def __init__(
        self,
        *,
        temptation: float = 5,
        reward: float = 3,
        punishment: float = 1,
        sucker: float = 0,
        **kwargs,
    ):
        if not (temptation > reward > punishment > sucker and 2 * reward > temptation + sucker):
            raise ConfigError(
                "A prisoner's dilemma needs temptation > reward > punishment > sucker and "
                f"2 reward > temptation + sucker, got "
                f"{temptation}, {reward}, {punishment}, {sucker}."
            )
        c, d = CHOICES
        payoff = symmetric({(c, c): reward, (c, d): sucker, (d, c): temptation, (d, d): punishment})
        rules = (
            "You and another player choose at the same time, round after round, to cooperate or to "
            f"defect. If both cooperate, each gets {reward:g}; if both defect, each gets "
            f"{punishment:g}; if only one defects, that one gets {temptation:g} and the other "
            f"{sucker:g}."
        )
        super().__init__(payoff, rules, **kwargs)

    def _succeeds(self, gain: float) -> bool:
        return gain >= self.payoff["cooperate", "cooperate"][0] * self.state.rounds - 1e-9

    def _plans(self, left: int) -> list[Plan]:
        # None that defects first and makes up for it: two who plan so are both worse off.
        switches = [switch("cooperate", "defect", rounds) for rounds in range(left, -1, -1)]
        return [*switches, imitate(scripted, "tit_for_tat")]


env, raw_env, parallel_env = make_pettingzoo(PrisonersDilemma)
