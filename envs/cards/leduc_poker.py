"""LeducPoker: two-player poker with two betting rounds and a community card."""

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
    """Returns an equilibrium with exploitability below 0.001 chips per hand. Cached."""
    return solver.equilibrium(tree(RULES), RULES.ranks, ITERATIONS)


class LeducPoker(LimitPoker):
    """Leduc hold'em for two players: six cards, two betting rounds and a community card.

    ## Description
    Both players put one chip into the pot and get one card of two jacks, two queens and two kings.
    In a betting round a player checks or bets. A bet is called, raised at most once, or the player
    folds. Bets and raises are 2 chips in the first round and 4 in the second. Between the rounds a
    community card is revealed. If nobody folds, a card of the same rank as the community card wins,
    otherwise the higher card. Equal ranks split the pot. The players alternate in acting first,
    which costs 0.086 chips per hand with perfect play.

    ## Action Space
    Text: `check`, `bet`, `call`, `raise` or `fold`, if admissible. With `action_mode="discrete"`:
    its index.

    ## Observation Space
    Text: the number of the hand, the agent's card, the community card if it is revealed, the pot
    and the previous actions of the hand, preceded by the result of the last hand.

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
    - `opponents` (str or dict, default "tight"): the opponent's policy.
        - "random": uniformly random actions.
        - "caller": never bets and never folds.
        - "maniac": always bets or raises and never folds.
        - "tight": bets, raises and calls only with a king or a pair.
        - "equilibrium": an approximate equilibrium, computed with CFR+ at its first use.

    ## Notes
    The expert is a best response to the opponent.

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
            f"You play {hands} hand{'s' * (hands > 1)} of Leduc poker against an opponent. Win as "
            "many chips as you can.\n"
            "Rules of a hand:\n"
            "- Both players put 1 chip into the pot and get one card from two jacks (J), two "
            "queens (Q) and two kings (K).\n"
            "- There are two betting rounds. Between them, a community card is revealed.\n"
            "- In each round, the first player checks or bets. After a check, the opponent checks "
            "(ends the round) or bets.\n"
            "- After a bet, the opponent calls (matches it, ends the round), raises (matches it "
            "and bets again, once per round) or folds (loses the pot).\n"
            "- A bet or raise is 2 chips in the first round and 4 in the second.\n"
            "- If nobody folds, a card of the community card's rank wins the pot. If nobody has "
            "one, the higher card wins. Equal cards split the pot.\n"
            "- The players alternate in acting first. The first player of a hand acts first in "
            "both rounds.\n"
            "Actions: check, bet, call, raise or fold"
        )

    def _equilibrium(self) -> Strategy:
        return leduc_equilibrium()


env, raw_env, parallel_env = make_pettingzoo(LeducPoker)
