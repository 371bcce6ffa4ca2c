"""StagHunt: the iterated stag hunt, with or without messages."""

from __future__ import annotations

from typing import ClassVar

from agentgym.envs.matrix.iterated import IteratedGame, symmetric
from agentgym.errors import ConfigError
from agentgym.multiagent.pettingzoo import make_pettingzoo

STAG, HARE = CHOICES = ("stag", "hare")


def scripted(level: str, mine: list[str], theirs: list[str]) -> str:
    """Returns the next choice of a scripted player, given all previous choices."""
    if level == "tit_for_tat":
        return theirs[-1] if theirs else STAG
    if level == "wary":
        return theirs[-1] if theirs else HARE
    if level == "grim":
        return HARE if HARE in theirs else STAG
    return level


class StagHunt(IteratedGame):
    """Iterated stag hunt, optionally with cheap talk.

    ## Description
    In every round both players choose at the same time to hunt a stag or a hare. Hunting a stag
    pays most but succeeds only if both players do it. A hare can be caught alone. Two stag hunters
    and two hare hunters are both in equilibrium: the first pays more, the second is safer. With
    `messages`, both players send messages at the same time before they choose.

    ## Action Space
    Text: `stag` or `hare`. In the message phase any text, which is put on one line and cut after
    280 characters. With `action_mode="discrete"` (without messages only): the index of the choice.

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
    The common keys. `success`: all rounds are played and the mean payoff is at least that of
    hunting a hare while the co-player hunts a stag, the highest payoff of a hare. `progress`: the
    sum of payoffs so far, scaled to [0, 1] between the lowest and the highest possible sum at the
    end.

    `regret`: how much more the best single choice would have paid per round so far, against the
    co-player's choices as they were (external regret). It may be negative.

    ## Arguments
    - `stag` (float, default 4): payoff for hunting a stag together.
    - `hare` (float, default 3): payoff for hunting a hare when the other player hunts a stag.
    - `hares` (float, default 2): payoff if both players hunt a hare.
    - `alone` (float, default 0): payoff for hunting a stag alone.
    - `messages` (int, default 0): number of messages each player sends per round, before choosing.
    - `announce_rounds` (bool, default True): whether the observation shows the number of rounds.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a random
      choice.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "wary"): the co-player's policy.
        - "stag": always hunts a stag.
        - "hare": always hunts a hare.
        - "tit_for_tat": hunts a stag first, then repeats the co-player's last choice.
        - "wary": hunts a hare first, then repeats the co-player's last choice.
        - "grim": hunts a stag until the co-player hunts a hare, then always hunts a hare.
        - "best_response": infers which of these policies the co-player follows and plans against
          it.
        - "random": uniformly random choices.
        - "unknown": one of the levels except "random", sampled at each reset.

    ## Notes
    The expert is "best_response". It knows the co-player's level unless that is "unknown".
    Behaviour cloning alone matches the expert against the default co-player, with and without
    messages, and nearly so against an unknown one. To compare learning methods, use
    `Chicken-Unknown-v0`.

    ## References
    Rousseau, Discourse on Inequality (1755): the story. Skyrms, The Stag Hunt and the Evolution of
    Social Structure (2004): trust and communication.

    ## Version History
    v0: first version.
    """

    choices = CHOICES
    cooperative = "stag"
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
            "You and another player play several rounds. In each round both choose at the same "
            "time to hunt a stag or a hare. Get as many points as you can over all rounds.\n"
            "Points per round:\n"
            f"- Both hunt a stag: {stag:g} each.\n"
            f"- Both hunt a hare: {hares:g} each.\n"
            f"- Only one hunts a stag: {alone:g} for that player, {hare:g} for the other player."
        )
        super().__init__(payoff, rules, **kwargs)

    def _succeeds(self, gain: float) -> bool:
        return gain >= self.payoff[HARE, STAG][0] * self.state.rounds - 1e-9


env, raw_env, parallel_env = make_pettingzoo(StagHunt)
