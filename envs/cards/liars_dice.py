"""LiarsDice: bids on hidden dice, and challenges."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from agentgym.envs.cards import duel
from agentgym.envs.cards.bidding import (
    FACES,
    LIAR,
    SIMPLE,
    Hand,
    State,
    bid_name,
    choice,
    duel_answer,
    is_true,
    look_ahead,
    policy,
    usual_bid,
)
from agentgym.envs.cards.duel_form import DuelForm
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.rendering import Scene, hand, table
from agentgym.tasks import Tasks, task_draws
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain
from agentgym.utils.marks import undressed

FORESEEN = 4
"""Largest number of later rounds whose dice a critic reads."""


class LiarsDice(TextGame):
    """Liar's dice: players bid on hidden dice until one challenges the last bid.

    ## Description
    Every player rolls its dice in secret. The players act in turn. Each bids how many dice of all
    players show a face. A bid must be higher than the last one: more dice of any face, or as many
    dice of a higher face. A player who calls the last bid a lie ends the round, and all dice are
    revealed. If there are at least as many dice of the face as bid, the challenger loses a die,
    otherwise the bidder does. The player who lost the die starts the next round, for which all dice
    are rolled again. The last player with dice wins. No face is wild.

    ## Action Space
    Text: a bid, from `1 one`, `1 two` to `4 sixes`, or `liar`. With `action_mode="discrete"`: its
    index.

    ## Observation Space
    Text: the agent's dice, the number of dice of each player, the bids of the round with their
    bidders, and whose turn it is, preceded by the result of the last round.

    ## Rewards
    Term `task`: -1 for a player who loses its last die, which the remaining players share equally
    as a gain. With two players: 1 for a win, -1 for a loss. Zero-sum. An invalid action costs
    `invalid_penalty`.

    ## Starting State
    The task, for example `train/0` or `test/0`, determines the rolls of all rounds and the player
    who starts. Few starts exist with one die each, 72 for two players, and the splits share them.

    ## Episode End
    - Termination: one player is left. For a player without dice: at once.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid actions in a row a random action is taken.

    ## Information
    The common keys. `success`: the agent wins. `progress`: the share of the opponents' dice that
    are lost.

    ## Arguments
    - `num_players` (int, default 2): number of players, from 2 to 6.
    - `dice` (int, default 2): number of dice per player at the start, from 1 to 5.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a random one.

    As a single seat:

    - `seat` (str or None, default None): the agent's name, such as "player_0", or None to sample
      one at each reset.
    - `opponents` (str or dict, default "timid"): the opponents' policy.
        - "random": uniformly random actions.
        - "timid": challenges a bid that is more likely false than true given its own dice,
          otherwise makes the lowest bid.
        - "honest": makes the bid that is most likely true, or challenges if the last bid is more
          likely false than that bid is true.
        - "shrewd": infers hands from the bids of honest players and looks ahead to the next
          player's response. With one die against one it plays an equilibrium.

    ## Notes
    The expert is "shrewd" with knowledge of the opponents' policies. With one die against one it is
    a best response. With more players a step of a single seat is slower, because it includes the
    turns of all opponents.

    ## References
    Neller and Hnath, Approximating Optimal Dudo Play with Fixed-Strategy Iteration Counterfactual
    Regret Minimization (2011): the game with a wild face, and its solution by regret minimisation.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(2, 7)
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "few dice have few deals: bids make games new",
        "semantic.duplicate_tasks": "few dice have few deals",
    }
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
            f"You are one of {len(self.possible_agents)} players in a game of liar's dice. Each "
            f"starts with {dice} {'die' if dice == 1 else 'dice'}. Be the last player with dice.\n"
            "Rules:\n"
            "- In every round all players roll their dice. You see only your own dice.\n"
            "- A bid is a claim about the dice of all players: 3 fives means that at least three "
            "dice show a five. No face is wild.\n"
            "- Players act in turn. The first player makes a bid. Each next player makes a higher "
            "bid or calls the last bid a lie. A higher bid has more dice of any face, or as many "
            "dice of a higher face.\n"
            "- When a bid is called a lie, all dice are shown. If the bid is true, the player who "
            "called it a lie loses a die. Otherwise the bidder loses a die.\n"
            "- The player who lost the die starts the next round. A player without dice is out.\n"
            "Actions:\n"
            "- a bid, for example: 1 two, or: 2 sixes\n"
            "- liar: call the last bid a lie\n"
            "Scoring: a player who is out loses 1 point, which the remaining players share."
        )

    def _start(self, task: str) -> None:
        count = len(self.possible_agents)
        mover = task_draws(task).below(count)
        self.state = State([(0,) * self.dice] * count, mover)
        self._roll(task)

    def _roll(self, task: str) -> None:
        """Rolls the remaining dice. The task determines all rolls of the game."""
        rolled = self._rolled(task, self.state.number)
        self.state.hands = [tuple(sorted(hand)) for hand in rolled]

    def _rolled(self, task: str, number: int) -> list[Hand]:
        """Returns the dice of a round. A player with fewer dice gets the first of its dice."""
        draws, hands = task_draws(task, f"round {number}"), self.state.hands
        rolled = [[draws.below(FACES) for _ in range(self.dice)] for _ in hands]
        return [tuple(row[: len(hand)]) for row, hand in zip(rolled, hands, strict=True)]

    def _present(self) -> tuple[str, ...]:
        hands = self.state.hands
        if all(hands):
            return self.possible_agents
        return tuple(a for a, hand in zip(self.possible_agents, hands, strict=True) if hand)

    def _acting(self) -> tuple[str, ...]:
        alone = len(self._present()) == 1
        return () if alone else (self.possible_agents[self.state.mover],)

    def _admissible_actions(self, agent: str) -> tuple[str, ...]:
        state = self.state
        higher = self.actions[state.last + 2 : state.total * FACES + 1]
        return (*higher, LIAR) if state.bids else higher

    def _frame(self, agent: str | None) -> Scene:
        state = self.state
        rows = []
        for name, dice in zip(self.possible_agents, state.hands, strict=True):
            shown = agent in (None, name)
            rows.append(hand(name, [str(face + 1) if shown else None for face in dice]))
        bid = bid_name(state.last) if state.bids else "no bid yet"
        return table(rows, f"last bid: {bid}", columns=1 + self.dice)

    def _look(self, agent: str) -> TimeStep:
        state, agents = self.state, self.possible_agents
        me = agents.index(agent)
        total = state.total
        left = total - len(state.hands[me])
        progress = 1 - left / (self.dice * (len(agents) - 1))
        if not state.hands[me]:
            return TimeStep("You are out.", progress=progress)
        if not left:
            return TimeStep("You win: no other player has dice.", success=True, progress=1.0)
        dice = _shown(state.hands[me])
        has = ", ".join([f"{a} {len(h)}" for a, h in zip(agents, state.hands, strict=True)])
        if state.mover != me:
            asks = f"It is {agents[state.mover]}'s turn."
        elif state.bids:
            asks = f"It is your turn: make a higher bid, or call: {LIAR}."
        else:
            asks = "It is your turn: make the first bid."
        text = (
            f"You are {agent}. Your dice: {dice}.\n"
            f"Dice left: {has} ({total} in total).\n"
            f"Bids: {self._told() or 'none yet'}.\n{asks}"
        )
        return TimeStep(
            f"Round {state.number + 1}. {text}",
            progress=progress,
            admissible=self._admissible_actions(agent),
            state_key=text,
        )

    def _told(self) -> str:
        """Returns the bids of the round with their bidders."""
        bids = zip(self.state.bidders, self.state.bids, strict=True)
        return ", ".join(f"{self.possible_agents[i]}: {bid_name(bid)}" for i, bid in bids)

    def privileged_text(self, agent: str) -> str:
        """Returns all dice, those of the next rounds, the bids and the player to act.

        In later rounds, a player that has lost a die has the first of the dice that are listed.
        """
        state, task = self.state, self._episode.task
        most = min(FORESEEN, state.total - 2) if self.acting else 0  # each round costs a die
        later = [self._dice(self._rolled(task, state.number + 1 + i)) for i in range(most)]
        return (
            f"You are {agent}. Dice: {self._dice(state.hands)}. Bids: {self._told() or 'none'}. "
            f"Turn: {', '.join(self.acting) or 'nobody'}. Next dice: {'; '.join(later) or 'none'}."
        )

    def _dice(self, hands: list[Hand]) -> str:
        named = zip(self.possible_agents, hands, strict=True)
        return ", ".join(f"{name}: {_shown(hand) or 'out'}" for name, hand in named)

    def _parse(self, agent: str, action: str) -> str:
        if action not in self.actions:
            usual = usual_bid(plain(undressed(action)))
            action = usual if usual in self.actions else action
        return super()._parse(agent, action)

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
        """Shows all dice, removes one from the loser and starts a new round."""
        state, agents = self.state, self.possible_agents
        playing = [i for i, hand in enumerate(state.hands) if hand]
        true = is_true(state.last, state.hands)
        loser = doubter if true else bidder
        dice = "; ".join(f"{agents[i]} {_shown(state.hands[i])}" for i in playing)
        state.hands[loser] = state.hands[loser][1:]
        out = not state.hands[loser]
        self._tell(
            f"Round {state.number + 1} is over: {agents[doubter]} calls {agents[bidder]}'s bid of "
            f"{bid_name(state.last)} a lie. Dice: {dice}. The bid is "
            f"{'true' if true else 'a lie'}: "
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

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state = self.state
        if level in SIMPLE:
            return self._say(choice(level, state.hands[state.mover], state.total, state.last))
        if self._is_duel():
            return self._duel(duel.equilibrium(), rng)
        return self._say(look_ahead(state, ["honest"] * len(state.hands)))

    def _say(self, choice: int) -> str:
        """Returns the action of a choice. After a bid, choice 0 is to call it a lie."""
        said = self.state.last + choice + (not self.state.bids)
        return bid_name(said) if said > self.state.last else LIAR

    def _is_duel(self) -> bool:
        """Returns whether two players with one die each remain."""
        return self.state.total == 2 == len(self._present())

    def _chances(self, table: duel.Table) -> np.ndarray:
        """Returns the probabilities of the player to move in a strategy for duels."""
        state = self.state
        earlier = sum(1 << bid for bid in state.bids[:-1])
        return table[state.last + 1][earlier, state.hands[state.mover][0]]

    def script_probabilities(self, level: str, agent: str) -> np.ndarray:
        """Returns the probabilities of a scripted player's actions, in order of `admissible`."""
        state = self.state
        if level in SIMPLE:
            chances = policy(level, state.hands[state.mover], state.total, state.last)
        elif self._is_duel():
            chances = self._chances(duel.equilibrium())
        else:
            return super().script_probabilities(level, agent)
        return np.roll(chances, -bool(state.bids))  # calling a lie is first, but listed last

    def exact_form(self) -> DuelForm:
        """Returns the information sets of a duel, for exact evaluation.

        Raises:
            ConfigError: if there are more than two players or more than one die each.
        """
        if self.dice > 1 or len(self.possible_agents) > 2:
            raise ConfigError(
                "Exact evaluation of LiarsDice needs two players with one die each: "
                "LiarsDice-Duel-v0."
            )
        return DuelForm(self)

    def _duel(self, table: duel.Table, rng: np.random.Generator) -> str:
        """Samples the action of the player to move from a strategy for duels."""
        chances = self._chances(table)
        return self._say(
            int(np.searchsorted(chances.cumsum(), rng.random() * chances.sum(), "right"))
        )

    def expert(self, agent: str) -> str | None:
        """Responds to the opponents' policies if they are known, otherwise plays as "shrewd".

        In a duel with one die each this is a best response. Otherwise it looks one action ahead.
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


def _shown(hand: Hand) -> str:
    return " ".join(str(face + 1) for face in hand)


env, raw_env, parallel_env = make_pettingzoo(LiarsDice)
