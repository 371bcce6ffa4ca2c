"""LeducPoker: two rounds of betting, six cards, and one laid open between the rounds."""

from __future__ import annotations

from functools import cache

from agentgym.envs.cards import solver
from agentgym.envs.cards.poker import LimitPoker, Rules, tree
from agentgym.envs.cards.solver import Strategy
from agentgym.multiagent.pettingzoo import make_pettingzoo

RULES = Rules(ranks=3, copies=2, bets=(2, 4), most=2)
ITERATIONS = 600


@cache
def leduc_equilibrium() -> Strategy:
    """Returns an equilibrium up to 0.001 chips a hand; computed at its first use, in 2 seconds."""
    return solver.equilibrium(tree(RULES), RULES.ranks, ITERATIONS)


class LeducPoker(LimitPoker):
    """Leduc hold'em: six cards, two rounds of betting, a card laid open between them.

    ## Description
    Two players put one chip each into the pot and get one card each of two jacks, two queens and
    two kings. In a round of betting a player checks or bets; a bet is called, raised once, or the
    player folds. A bet, and a raise beyond it, is 2 chips in the first round and 4 in the second.
    Between the rounds a card is laid open. If nobody folds, a card of the open card's rank wins,
    else the higher card; equal ranks share the pot. The players take turns at being first, which
    costs 0.086 chips per hand if both play perfectly.

    ## Action Space
    Text: `check`, `bet`, `call`, `raise` or `fold`, as far as possible. With
    `action_mode="discrete"`: its index.

    ## Observation Space
    Text: the hand, one's card, the open card if there is one, the pot, the moves so far; above it
    how the last hand ended.

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
    `seat` and `opponents`: "random", "caller" (never bets, never folds), "maniac" (always bets and
    raises, never folds), "tight" (the default: bets, raises and calls with a king or a pair only)
    or "equilibrium" (computed with CFR+ at its first use; a best response wins less than 0.001
    chips a hand from it).

    ## Example Transcript
    ```
    Hand 2 of 10. Your card is K. The open card is Q.
    You have put 3 into the pot, the other 7.
    So far you check, the other bets, you call, a card is laid open, you check, the other bets.
    Say call, raise or fold.
    > call
    ```

    ## Baselines
    Mean return (share of successes) of a single seat, 500 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | 0.00 (0.47) | 2.31 (0.91) |
    | caller | -0.03 (0.49) | 1.45 (0.87) |
    | maniac | -1.84 (0.16) | 2.31 (0.81) |
    | tight | -1.02 (0.20) | 0.70 (0.72) |
    | equilibrium | -0.69 (0.31) | 0.04 (0.49) |

    The expert is a best response to the opponent (exact means: 2.37, 1.47, 2.37, 0.70, 0.00).

    ## Registered Configurations
    `LeducPoker-v0`.

    ## References
    Southey et al., Bayes' Bluff: Opponent Modelling in Poker (UAI 2005, arXiv:1207.1411): the game.
    Tammelin, Solving Large Imperfect Information Games Using CFR+ (arXiv:1407.5042).

    ## Version History
    v0: first version.
    """

    default_opponents = "tight"

    def __init__(self, *, hands: int = 10, **kwargs):
        super().__init__(RULES, hands=hands, **kwargs)
        self.instructions = (
            f"You play {hands} hands of a small poker against one other player. In each hand both "
            "put 1 chip into the pot and get one card; there are two jacks (J), two queens (Q) and "
            "two kings (K). After a first round of betting one of the other cards is laid open; a "
            "second round follows. In a round, who is first to act checks or bets. After a check "
            "the other checks, which ends the round, or bets. After a bet the other calls (pays as "
            "much, which ends the round), raises (pays as much and bets once more; once a round) "
            "or folds (loses the pot). A bet is 2 chips in the first round, 4 in the second. If "
            "nobody folds, a card of the open card's rank wins the pot; if nobody has one, the "
            "higher card does; two equal cards share it. You take turns at being first in a hand, "
            "and who is first in a hand is first in both rounds. Win as many chips as you can. On "
            "your turn, say only check, bet, call, raise or fold."
        )

    def _equilibrium(self) -> Strategy:
        return leduc_equilibrium()


env, raw_env, parallel_env = make_pettingzoo(LeducPoker)
