"""LiarsDice: hidden dice, rising bids on what lies under all cups, and somebody who doubts."""

from __future__ import annotations

import numpy as np

from agentgym.core import TimeStep
from agentgym.envs.cards import duel
from agentgym.envs.cards.bidding import (
    FACES,
    SIMPLE,
    State,
    bid_name,
    duel_answer,
    is_true,
    look_ahead,
    policy,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks, task_rng

LIAR = "liar"


class LiarsDice(TextGame):
    """Liar's dice: bids on how many dice show a face, until somebody doubts one.

    ## Description
    Every player rolls its dice in secret. In turn the players bid how many dice of all players show
    a face, each bid higher than the last: more dice of any face, or as many of a higher face. Who
    calls the last bid a lie has all dice shown: if there are at least as many as bid, the doubter
    loses a die, else the bidder; it begins the next round, for which all roll anew. The last player
    with dice wins. No face is wild.

    ## Action Space
    Text: a bid, from `1 one`, `1 two` to `4 sixes`, or `liar`. With `action_mode="discrete"`: its
    index.

    ## Observation Space
    Text: one's dice, how many dice everybody has, the bids of the round with their bidders, and who
    is to act; above it how the last round ended.

    ## Rewards
    Term `task`: -1 for who loses its last die; the players that are left share it as a gain. With
    two players: 1 for a win, -1 for a loss. Zero-sum. An invalid action costs `invalid_penalty`.

    ## Starting State
    The task decides the rolls of all rounds and who begins: `train/0`, `test/0`, ...

    ## Episode End
    Termination: one player is left; for a player, once it is out. Truncation: after `max_turns`
    turns. After `max_invalid` invalid actions in a row a player doubts the bid, or bids the least.

    ## Information
    The common keys; `success` is a win; `progress`: the share of the others' dice that are lost.

    ## Arguments
    `num_players`: from 2 to 6, default 2. `dice`: of each player, from 1 to 5, default 2.
    `max_turns`: default None. `max_invalid`: default 3. As a single seat: `seat` and `opponents`:
    "random", "timid" (the default: doubts what is more likely a lie than not, given its own dice,
    else bids the least it can), "honest" (bids what is most likely true, or doubts if that is
    better) or "shrewd" (reads the bids of honest players and looks ahead to the next player's
    answer; with one die against one it plays an equilibrium).

    ## Example Transcript
    ```
    Round 2. You are player_0. Your dice: 6.
    Dice left: player_0 1, player_1 2 (3 in all).
    Bids: player_1: 1 two.
    It is your turn: bid more, or say liar.
    > 2 sixes
    ```

    ## Baselines
    Mean return (share of successes) of a single seat, 300 test episodes:

    | | opponents | random | expert |
    |---|---|---|---|
    | v0 | random | -0.02 (0.49) | 0.95 (0.98) |
    | | timid | -0.93 (0.03) | 1.00 (1.00) |
    | | honest | -0.97 (0.01) | 0.49 (0.75) |
    | | shrewd | -1.00 (0.00) | 0.09 (0.54) |
    | Duel | random | -0.03 (0.49) | 0.85 (0.92) |
    | | timid | -0.81 (0.10) | 0.83 (0.91) |
    | | honest | -0.89 (0.06) | 0.14 (0.57) |
    | | shrewd | -0.87 (0.07) | -0.05 (0.47) |
    | Four | random | 0.05 (0.26) | 1.77 (0.97) |
    | | timid | -0.98 (0.00) | 1.45 (0.84) |
    | | honest | -0.99 (0.00) | 0.87 (0.58) |
    | | shrewd | -0.99 (0.00) | -0.07 (0.22) |

    The expert is "shrewd", but reads the bids of who really has the other seats. In a duel it is a
    best response (exact means: 0.88, 0.86, 0.17, 0.00).

    ## Registered Configurations
    `LiarsDice-v0`: two players with two dice each. `LiarsDice-Duel-v0`: two players with one die
    each. `LiarsDice-Four-v0`: four players with two dice each (as a single seat slower than 5,000
    steps a second, since a step plays the turns of the three others too).

    ## References
    Neller and Hnath, Approximating Optimal Dudo Play with Fixed-Strategy Iteration Counterfactual
    Regret Minimization (2011): the game with a wild face, and its solution by regrets.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(2, 7)
    State = State
    state: State
    zero_sum = True
    levels = (*SIMPLE, "shrewd")
    expert_level = "shrewd"
    default_opponents = "timid"

    def __init__(self, *, dice: int = 2, **kwargs):
        if not 1 <= dice <= 5:
            raise ConfigError(f"dice must be from 1 to 5, got {dice}.")
        super().__init__(**kwargs)
        self.dice = dice
        most = dice * len(self.possible_agents)
        self.actions = (LIAR, *map(bid_name, range(most * FACES)))
        self.instructions = (
            f"You are one of {len(self.possible_agents)} players with {dice} dice each, rolled "
            "anew every round and seen only by their owner. The players speak in turn. Who begins "
            "bids how many dice of all players show some face at least, such as: 3 fives. The next "
            "player makes a higher bid (more dice of any face, or as many of a higher face; ones "
            "are the lowest, sixes the highest) or says that the last bid is a lie. Then all dice "
            "are shown: if the bid was true, who doubted it loses a die, else who made it. Who "
            "loses a die begins the next round. Who has no dice left is out and loses a point, "
            "which the players left share. The last one with dice wins. On your turn, say only "
            "your bid, such as: 1 two, 2 sixes, or: liar."
        )

    def _start(self, task: str) -> None:
        count = len(self.possible_agents)
        mover = int(task_rng(task).integers(count))
        self.state = State([(0,) * self.dice] * count, mover)
        self._roll(task)

    def _roll(self, task: str) -> None:
        """Rolls the dice that are left; the task decides all rolls of the game."""
        state = self.state
        rolled = task_rng(task, f"round {state.number}").integers(
            FACES, size=(len(state.hands), self.dice)
        )
        state.hands = [
            tuple(sorted(map(int, row[: len(hand)])))
            for row, hand in zip(rolled, state.hands, strict=True)
        ]

    def _present(self) -> tuple[str, ...]:
        hands = self.state.hands
        return tuple(a for a, hand in zip(self.possible_agents, hands, strict=True) if hand)

    def _acting(self) -> tuple[str, ...]:
        alone = len(self._present()) == 1
        return () if alone else (self.possible_agents[self.state.mover],)

    def _look(self, agent: str) -> TimeStep:
        state, agents = self.state, self.possible_agents
        me = agents.index(agent)
        left = state.total - len(state.hands[me])
        progress = 1 - left / (self.dice * (len(agents) - 1))
        if not state.hands[me]:
            return TimeStep("You are out.", progress=progress)
        if not left:
            return TimeStep("You win: nobody else has dice left.", success=True, progress=1.0)
        dice = " ".join(str(face + 1) for face in state.hands[me])
        has = ", ".join(f"{a} {len(h)}" for a, h in zip(agents, state.hands, strict=True))
        told = [
            f"{agents[i]}: {bid_name(bid)}"
            for i, bid in zip(state.bidders, state.bids, strict=True)
        ]
        if state.mover != me:
            asks = f"It is {agents[state.mover]}'s turn."
        elif told:
            asks = f"It is your turn: bid more, or say {LIAR}."
        else:
            asks = "It is your turn: make the first bid."
        text = (
            f"You are {agent}. Your dice: {dice}.\n"
            f"Dice left: {has} ({state.total} in all).\n"
            f"Bids: {', '.join(told) or 'none yet'}.\n{asks}"
        )
        possible = self.actions[state.last + 2 : state.total * FACES + 1]
        return TimeStep(
            f"Round {state.number + 1}. {text}",
            progress=progress,
            admissible=(*possible, LIAR) if told else possible,
            state_key=text,
        )

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        ((_, said),) = moves.items()
        if said != LIAR:
            state.bids.append(self.actions.index(said) - 1)
            state.bidders.append(state.mover)
            state.mover = state.after(state.mover)
            return {}
        return self._show(state.mover, state.bidders[-1])

    def _show(self, doubter: int, bidder: int) -> Rewards:
        """Shows all dice; who was wrong loses one, and a new round begins."""
        state, agents = self.state, self.possible_agents
        playing = [i for i, hand in enumerate(state.hands) if hand]
        true = is_true(state.last, state.hands)
        loser = doubter if true else bidder
        dice = "; ".join(
            f"{agents[i]} {' '.join(str(face + 1) for face in state.hands[i])}" for i in playing
        )
        state.hands[loser] = state.hands[loser][1:]
        out = not state.hands[loser]
        self._tell(
            f"Round {state.number + 1} is over: {agents[doubter]} doubts {agents[bidder]}'s bid, "
            f"{bid_name(state.last)}. The dice: {dice}. The bid is {'true' if true else 'a lie'}: "
            f"{agents[loser]} loses a die" + " and is out" * out + ".",
            [agents[i] for i in playing],
        )
        state.bids, state.bidders = [], []
        state.number += 1
        state.mover = state.after(loser) if out else loser
        if len(playing) - out > 1:
            self._roll(self._episode.task)
        if not out:
            return {}
        share = 1 / (len(playing) - 1)
        return {agents[i]: {"task": -1.0 if i == loser else share} for i in playing}

    def _fallback(self, agent: str) -> str:
        return LIAR if self.state.bids else self.actions[1]

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state = self.state
        if level in SIMPLE:
            return self._say(
                int(policy(level, state.hands[state.mover], state.total, state.last).argmax())
            )
        if self._is_duel():
            return self._duel(duel.equilibrium(), rng)
        return self._say(look_ahead(state, ["honest"] * len(state.hands)))

    def _say(self, choice: int) -> str:
        """Returns a choice in words; after a bid, choice 0 is to doubt it."""
        said = self.state.last + choice + (not self.state.bids)
        return bid_name(said) if said > self.state.last else LIAR

    def _is_duel(self) -> bool:
        """Returns whether two players are left, with one die each."""
        return self.state.total == 2 == len(self._present())

    def _duel(self, table: duel.Table, rng: np.random.Generator) -> str:
        """Draws what the mover says from a strategy for duels."""
        state = self.state
        earlier = sum(1 << bid for bid in state.bids[:-1])
        chances = table[state.last + 1][earlier, state.hands[state.mover][0]]
        return self._say(
            int(np.searchsorted(chances.cumsum(), rng.random() * chances.sum(), "right"))
        )

    def expert(self, agent: str) -> str | None:
        """Plays against who has the other seats, where that is known; else as "shrewd".

        In a duel with one die each this is a best response, else it looks ahead one answer.
        """
        if agent not in self.acting or not self.opponents:
            return super().expert(agent)
        state, agents = self.state, self.possible_agents
        levels = [self.opponents[name] for name in agents]
        if not self._is_duel():
            return self._say(look_ahead(state, [x if x in SIMPLE else "honest" for x in levels]))
        me = len(state.bids) % 2
        return self._duel(
            duel_answer(levels[state.after(state.mover)], me), np.random.default_rng(0)
        )


env, raw_env, parallel_env = make_pettingzoo(LiarsDice)
