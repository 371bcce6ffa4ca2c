"""PrisonersDilemma: the iterated prisoner's dilemma, with or without messages."""

from __future__ import annotations

from typing import ClassVar

from agentgym.envs.matrix.iterated import IteratedGame, Plan, imitate, switch, symmetric
from agentgym.errors import ConfigError
from agentgym.multiagent.pettingzoo import make_pettingzoo

CHOICES = ("cooperate", "defect")


def scripted(level: str, mine: list[str], theirs: list[str]) -> str:
    """Returns the next choice of a classic strategy, given all previous choices."""
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
    """Iterated prisoner's dilemma, optionally with cheap talk.

    ## Description
    In every round both players choose at the same time to cooperate or to defect. Defection is the
    dominant choice of a single round, but mutual cooperation pays more than mutual defection. With
    `messages`, both players send messages at the same time before they choose.

    ## Action Space
    Text: `cooperate` or `defect`. In the message phase any text, which is put on one line and cut
    after 280 characters. With `action_mode="discrete"` (without messages only): the index of the
    choice.

    ## Observation Space
    Text: the round, all previous choices, and the messages of the current round.

    ## Rewards
    Term `task`, after each round: the payoff divided by the number of rounds, so that the return is
    the mean payoff per round. An invalid action costs `invalid_penalty`.

    ## Starting State
    No rounds have been played. The task is the number of rounds, for example `rounds/4`. Even
    numbers from 4 to 20 are training tasks, odd numbers from 5 to 19 are test tasks.

    ## Episode End
    - Termination: all rounds are played.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid actions in a row the choice is sampled at random.

    ## Information
    The common keys. `success`: all rounds are played and the mean payoff is at least that of mutual
    cooperation. `progress`: the sum of payoffs so far, scaled to [0, 1] between the lowest and the
    highest possible sum at the end.

    `regret`: how much more the best single choice would have paid per round so far, against the
    co-player's choices as they were (external regret). It may be negative.

    ## Arguments
    - `temptation` (float, default 5): payoff for defecting when the other player cooperates.
    - `reward` (float, default 3): payoff for mutual cooperation.
    - `punishment` (float, default 1): payoff for mutual defection.
    - `sucker` (float, default 0): payoff for cooperating when the other player defects.
    - `messages` (int, default 0): number of messages each player sends per round, before choosing.
    - `announce_rounds` (bool, default True): whether the observation shows the number of rounds.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a random
      choice.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "grim"): the co-player's policy.
        - "cooperate": always cooperates.
        - "defect": always defects.
        - "tit_for_tat": cooperates first, then repeats the co-player's last choice.
        - "grim": cooperates until the co-player defects, then always defects.
        - "win_stay": cooperates if both made the same choice in the last round, otherwise defects.
        - "best_response": infers which of these policies the co-player follows and plans against
          it.
        - "random": uniformly random choices.
        - "unknown": one of the levels except "random", sampled at each reset.

    ## Notes
    The expert is "best_response". It knows the co-player's level unless that is "unknown".
    Behaviour cloning alone matches the expert against an unknown co-player, but not against the
    default one.

    ## References
    Axelrod and Hamilton, The Evolution of Cooperation, Science 211 (1981): the payoffs and tit for
    tat. Nowak and Sigmund, Nature 364 (1993): win-stay, lose-shift.

    ## Version History
    v0: first version.
    """

    choices = CHOICES
    cooperative = "cooperate"
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
            "You and another player play several rounds. In each round both choose at the same "
            "time to cooperate or to defect. Get as many points as you can over all rounds.\n"
            "Points per round:\n"
            f"- Both cooperate: {reward:g} each.\n"
            f"- Both defect: {punishment:g} each.\n"
            f"- Only one defects: {temptation:g} for the defector, {sucker:g} for the other player."
        )
        super().__init__(payoff, rules, **kwargs)

    def _succeeds(self, gain: float) -> bool:
        return gain >= self.payoff["cooperate", "cooperate"][0] * self.state.rounds - 1e-9

    def _plans(self, left: int) -> list[Plan]:
        # No plan defects first and cooperates later: two such players would both lose by it.
        switches = [switch("cooperate", "defect", rounds) for rounds in range(left, -1, -1)]
        return [*switches, imitate(scripted, "tit_for_tat")]


env, raw_env, parallel_env = make_pettingzoo(PrisonersDilemma)
