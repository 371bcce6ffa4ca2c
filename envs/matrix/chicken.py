"""Chicken: the iterated game of chicken, with or without messages."""

from __future__ import annotations

from typing import ClassVar

from agentgym.envs.matrix.iterated import IteratedGame, symmetric
from agentgym.errors import ConfigError
from agentgym.multiagent.pettingzoo import make_pettingzoo

SWERVE, STRAIGHT = CHOICES = ("swerve", "straight")


def scripted(level: str, mine: list[str], theirs: list[str]) -> str:
    """Returns the next choice of a scripted player, given all previous choices."""
    if level == "tit_for_tat":
        return theirs[-1] if theirs else SWERVE
    if level == "grim":
        return STRAIGHT if STRAIGHT in theirs else SWERVE
    if level == "bully":
        return SWERVE if theirs[-1:] == [STRAIGHT] else STRAIGHT
    return level


class Chicken(IteratedGame):
    """Iterated game of chicken, optionally with cheap talk.

    ## Description
    In every round both players choose at the same time to swerve or to go straight. A player who
    goes straight while the other swerves gets the highest payoff. If both go straight, they crash
    and get the lowest. Each pure equilibrium of a round favours one of the players. With
    `messages`, both players send messages at the same time before they choose.

    ## Action Space
    Text: `swerve` or `straight`. In the message phase any text, which is put on one line and cut
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
    The common keys. `success`: all rounds are played and the mean payoff is at least that of both
    swerving. `progress`: the sum of payoffs so far, scaled to [0, 1] between the lowest and the
    highest possible sum at the end.

    `regret`: how much more the best single choice would have paid per round so far, against the
    co-player's choices as they were (external regret). It may be negative.

    ## Arguments
    - `dare` (float, default 5): payoff for going straight when the other player swerves.
    - `swerves` (float, default 3): payoff if both players swerve.
    - `chicken` (float, default 1): payoff for swerving when the other player goes straight.
    - `crash` (float, default 0): payoff if both players go straight.
    - `messages` (int, default 0): number of messages each player sends per round, before choosing.
    - `announce_rounds` (bool, default True): whether the observation shows the number of rounds.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a random
      choice.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "bully"): the co-player's policy.
        - "swerve": always swerves.
        - "straight": always goes straight.
        - "tit_for_tat": swerves first, then repeats the co-player's last choice.
        - "grim": swerves until the co-player goes straight, then always goes straight.
        - "bully": goes straight unless the co-player went straight in the last round.
        - "best_response": infers which of these policies the co-player follows and plans against
          it.
        - "random": uniformly random choices.
        - "unknown": one of the levels except "random", sampled at each reset.

    ## Notes
    The expert is "best_response". It knows the co-player's level unless that is "unknown".
    Behaviour cloning alone matches the expert against the default co-player, with and without
    messages. To compare learning methods, use `Chicken-Unknown-v0`.

    ## References
    Rapoport and Chammah, The Game of Chicken, American Behavioral Scientist 10 (1966).

    ## Version History
    v0: first version.
    """

    choices = CHOICES
    cooperative = "swerve"
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
            "You and another player drive towards each other in several rounds. In each round "
            "both choose at the same time to swerve or to go straight. Get as many points as you "
            "can over all rounds.\n"
            "Points per round:\n"
            f"- Both swerve: {swerves:g} each.\n"
            f"- Both go straight and crash: {crash:g} each.\n"
            f"- Only one swerves: {chicken:g} for that player, {dare:g} for the other player."
        )
        super().__init__(payoff, rules, **kwargs)

    def _succeeds(self, gain: float) -> bool:
        return gain >= self.payoff[SWERVE, SWERVE][0] * self.state.rounds - 1e-9


env, raw_env, parallel_env = make_pettingzoo(Chicken)
