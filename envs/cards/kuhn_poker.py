"""KuhnPoker: the smallest poker, one card each and at most one bet."""

from __future__ import annotations

import numpy as np

from agentgym.envs.cards.poker import LimitPoker, Rules
from agentgym.envs.cards.solver import Strategy
from agentgym.multiagent.pettingzoo import make_pettingzoo

RULES = Rules(ranks=3, copies=1, bets=(1,), most=1)
BLUFF = 1 / 3


def kuhn_equilibrium(bluff: float = BLUFF) -> Strategy:
    """Returns Kuhn's equilibrium: rows jack, queen, king; columns check, bet or call, fold.

    Args:
        bluff: how often who is first bets the jack, from 0 to 1/3: each gives an equilibrium.
    """
    return {
        "": np.array([[1 - bluff, bluff], [1, 0], [1 - 3 * bluff, 3 * bluff]]),
        "k": np.array([[2 / 3, 1 / 3], [1, 0], [0, 1]]),
        "b": np.array([[0, 1], [1 / 3, 2 / 3], [1, 0]]),
        "kb": np.array([[0, 1], [1 / 3 + bluff, 2 / 3 - bluff], [1, 0]]),
    }


class KuhnPoker(LimitPoker):
    """Kuhn's poker: three cards, one each, and at most one bet.

    ## Description
    Two players put one chip each into the pot and get one card each: jack, queen or king. Who is
    first checks or bets one more chip. After a bet the other calls it or folds; after a check the
    other checks too or bets, which the first then calls or folds. If nobody folds, the higher card
    wins the pot. The players take turns at being first; who is first loses 1/18 of a chip per hand
    if both play perfectly, and perfect play must bluff.

    ## Action Space
    Text: `check`, `bet`, `call` or `fold`, as far as possible. With `action_mode="discrete"`: its
    index.

    ## Observation Space
    Text: the hand, one's card, the pot, the moves so far; above it how the last hand ended.

    ## Rewards
    Term `task`, after each hand: the chips won or lost, divided by the number of hands, so that the
    return is the mean gain of a hand. Zero-sum. An invalid action costs `invalid_penalty`.

    ## Starting State
    The task decides the cards of all hands: `train/0`, `test/0`, ...; player_0 is first in the
    first hand.

    ## Episode End
    Termination: all hands are played. Truncation: after `max_turns` turns. After `max_invalid`
    invalid actions in a row the player checks, or folds if it cannot.

    ## Information
    The common keys; `success`: chips were won in all; `progress`: the chips won so far between the
    most one could lose and win (0.5: even).

    ## Arguments
    `hands`: default 10. `max_turns`: default None. `max_invalid`: default 3. As a single seat:
    `seat` and `opponents`: "random", "caller" (never bets, never folds), "maniac" (the default:
    always bets, never folds), "tight" (bets and calls with the king only) or "equilibrium" (Kuhn's
    solution in which the jack is bet once in three times).

    ## Example Transcript
    ```
    Hand 2 of 10. Your card is K.
    You have put 1 into the pot, the other 2.
    So far you check, the other bets.
    Say call or fold.
    > call
    ```

    ## Baselines
    Mean return (share of successes) of a single seat, 500 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | -0.01 (0.46) | 0.45 (0.80) |
    | caller | 0.00 (0.46) | 0.34 (0.78) |
    | maniac | -0.36 (0.19) | 0.34 (0.72) |
    | tight | -0.04 (0.40) | 0.23 (0.73) |
    | equilibrium | -0.16 (0.31) | 0.01 (0.47) |

    The expert is a best response to the opponent (exact means: 0.46, 0.33, 0.33, 0.25, 0.00).

    Imitation alone (300 demonstrations) plays as the expert does against the maniac;
    `LeducPoker-v0` is harder.

    ## Registered Configurations
    `KuhnPoker-v0`.

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
            f"You play {hands} hands of a small poker against one other player. In each hand both "
            "put 1 chip into the pot and get one card from a jack (J), a queen (Q) and a king (K). "
            "Who is first to act checks or bets 1 more chip. After a bet, the other calls (puts in "
            "1 chip too) or folds (loses the pot). After a check, the other checks or bets, and "
            "then the first calls or folds. If nobody folds, the cards are shown and the higher "
            "one wins the pot. You take turns at being first. Win as many chips as you can. On "
            "your turn, say only check, bet, call or fold."
        )

    def _equilibrium(self) -> Strategy:
        return kuhn_equilibrium()


env, raw_env, parallel_env = make_pettingzoo(KuhnPoker)
