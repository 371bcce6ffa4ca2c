"""KuhnPoker: two-player poker with one card each and at most one bet."""

from __future__ import annotations

import numpy as np

from agentgym.envs.cards.poker import LimitPoker, Rules
from agentgym.envs.cards.solver import Strategy
from agentgym.multiagent.pettingzoo import make_pettingzoo

RULES = Rules(ranks=3, copies=1, bets=(1,), most=1)
BLUFF = 1 / 3


def kuhn_equilibrium(bluff: float = BLUFF) -> Strategy:
    """Returns Kuhn's equilibrium. Rows: jack, queen, king. Columns: check, bet or call, fold.

    Args:
        bluff: probability that the first player bets the jack. Each value from 0 to 1/3 gives an
            equilibrium.
    """
    return {
        "": np.array([[1 - bluff, bluff], [1, 0], [1 - 3 * bluff, 3 * bluff]]),
        "k": np.array([[2 / 3, 1 / 3], [1, 0], [0, 1]]),
        "b": np.array([[0, 1], [1 / 3, 2 / 3], [1, 0]]),
        "kb": np.array([[0, 1], [1 / 3 + bluff, 2 / 3 - bluff], [1, 0]]),
    }


class KuhnPoker(LimitPoker):
    """Kuhn poker for two players: three cards, one card each, and at most one bet.

    ## Description
    Both players put one chip into the pot and get one card: jack, queen or king. The first player
    checks or bets one more chip. After a bet the opponent calls or folds. After a check the
    opponent checks or bets, and the first player calls or folds. If nobody folds, the higher card
    wins the pot. The players alternate in acting first. With perfect play, which must bluff, the
    first player loses 1/18 of a chip per hand.

    ## Action Space
    Text: `check`, `bet`, `call` or `fold`, if admissible. With `action_mode="discrete"`: its index.

    ## Observation Space
    Text: the number of the hand, the agent's card, the pot and the previous actions of the hand,
    preceded by the result of the last hand.

    ## Rewards
    Term `task`, after each hand: the chips won or lost, divided by the number of hands, so that the
    return is the mean gain per hand. Zero-sum. An invalid action costs `invalid_penalty`.

    ## Starting State
    The task, for example `train/0` or `test/0`, determines the cards of all hands. `player_0` acts
    first in the first hand.

    ## Episode End
    - Termination: all hands are played.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid actions in a row a random action is taken.

    ## Information
    The common keys. `success`: the agent wins chips in total. `progress`: the chips won so far,
    scaled to [0, 1] between the largest possible loss and gain (0.5: even).

    ## Arguments
    - `hands` (int, default 10): number of hands.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a random
      one.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "maniac"): the opponent's policy.
        - "random": uniformly random actions.
        - "caller": never bets and never folds.
        - "maniac": always bets and never folds.
        - "tight": bets and calls only with the king.
        - "equilibrium": Kuhn's equilibrium in which the jack is bet with probability 1/3.

    ## Notes
    The expert is a best response to the opponent. Behaviour cloning alone matches the expert
    against the maniac. `LeducPoker-v0` is harder.

    ## References
    Kuhn, A Simplified Two-Person Poker, Contributions to the Theory of Games I (1950): the game and
    all its equilibria.

    ## Version History
    v0: first version.
    """

    default_opponents = "maniac"

    def __init__(self, *, hands: int = 10, **kwargs):
        super().__init__(RULES, hands=hands, **kwargs)
        self.instructions = (
            f"You play {hands} hand{'s' * (hands > 1)} of Kuhn poker against an opponent. Win as "
            "many chips as you can.\n"
            "Rules of a hand:\n"
            "- Both players put 1 chip into the pot and get one card from a jack (J), a queen (Q) "
            "and a king (K).\n"
            "- The first player checks or bets 1 chip.\n"
            "- After a bet, the second player calls (adds 1 chip) or folds (loses the pot).\n"
            "- After a check, the second player checks or bets. If it bets, the first player calls "
            "or folds.\n"
            "- If nobody folds, both cards are shown and the higher card wins the pot.\n"
            "- The players alternate in acting first.\n"
            "Actions: check, bet, call or fold"
        )

    def _equilibrium(self) -> Strategy:
        return kuhn_equilibrium()


env, raw_env, parallel_env = make_pettingzoo(KuhnPoker)
