"""Two-player limit poker with one hidden card each: the rules of Kuhn and Leduc poker.

The betting history of a hand is a string: k (check), b (bet), c (call), r (raise), f (fold).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

import numpy as np

from agentgym.envs.cards import solver
from agentgym.envs.cards.solver import CHANCE, Node, Strategy
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.rules import Rewards
from agentgym.rendering import Scene, hand, table
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

RANKS = "A23456789TJQK"
WORDS = {"k": "check", "b": "bet", "c": "call", "r": "raise", "f": "fold"}
LETTERS = {word: letter for letter, word in WORDS.items()}
FORESEEN = 10
"""Largest number of hands whose cards a critic reads."""


@dataclass(frozen=True)
class Rules:
    """The size of the game.

    Attributes:
        ranks: number of different ranks. The highest is the king.
        copies: number of cards per rank.
        bets: size of a bet or raise in each betting round. A community card is revealed before the
            second round.
        most: maximum number of bets and raises per round.
    """

    ranks: int
    copies: int
    bets: tuple[int, ...]
    most: int

    def name(self, card: int) -> str:
        """Returns the name of a card's rank."""
        return RANKS[card - self.ranks]


@dataclass(frozen=True)
class Betting:
    """State of the betting after the moves of a hand.

    Attributes:
        round: current betting round, from 0. Equal to the number of rounds if all are over.
        player: player to act, 0 for the first player of the hand.
        paid: chips of both players in the pot.
        moves: legal moves. Empty if the hand is over.
    """

    round: int = 0
    player: int = 0
    paid: tuple[int, int] = (1, 1)
    moves: str = ""


@cache
def betting(rules: Rules, moves: str) -> Betting:
    """Returns the state of the betting after some moves. The ante is one chip each."""
    stage, player, raised, fresh, paid = 0, 0, 0, True, [1, 1]
    for move in moves:
        if move == "f":
            return Betting(stage, player, (paid[0], paid[1]))
        if move in "br":
            paid[player] = max(paid) + rules.bets[stage]
            raised += 1
        elif move == "c":
            paid[player] = max(paid)
        if move == "c" or (move == "k" and not fresh):
            stage, player, raised, fresh = stage + 1, 0, 0, True
        else:
            player, fresh = 1 - player, False
    if stage == len(rules.bets):
        return Betting(stage, player, (paid[0], paid[1]))
    possible = "c" + "r" * (raised < rules.most) + "f" if raised else "kb"
    return Betting(stage, player, (paid[0], paid[1]), possible)


def gain(rules: Rules, moves: str, cards: tuple[int, ...]) -> int:
    """Returns the gain of the first player in a finished hand.

    Args:
        rules: the size of the game.
        moves: all moves of the hand.
        cards: ranks of the first player's, the second player's and, if any, the community card.
    """
    end = betting(rules, moves)
    if moves[-1] == "f":
        return -end.paid[0] if end.player == 0 else end.paid[1]
    first, second, *board = cards
    if first == second:
        return 0
    wins = first > second if first not in board and second not in board else first in board
    return end.paid[1] if wins else -end.paid[0]


@cache
def tree(rules: Rules) -> Node:
    """Returns the public tree. Nodes are keyed by moves and, if revealed, the community card."""
    return _grow(rules, "", None)


def _grow(rules: Rules, moves: str, board: int | None) -> Node:
    now = betting(rules, moves)
    if not now.moves:
        return Node(payoffs=_payoffs(rules, moves, board))
    if now.round == 1 and board is None:
        return Node(
            player=CHANCE,
            children={str(card): _grow(rules, moves, card) for card in range(rules.ranks)},
        )
    children = {move: _grow(rules, moves + move, board) for move in now.moves}
    return Node(node_key(moves, board), now.player, children)


def node_key(moves: str, board: int | None) -> str:
    """Returns the key of a decision node: "kbc" or, with a community card of rank 2, "kbc2"."""
    return moves if board is None else f"{moves}{board}"


def _payoffs(rules: Rules, moves: str, board: int | None) -> np.ndarray:
    table = np.zeros((rules.ranks, rules.ranks))
    shown = () if board is None else (board,)
    for cards in product(range(rules.ranks), repeat=2):
        left, ways = rules.ranks * rules.copies, 1.0
        dealt: list[int] = []
        for card in (*cards, *shown):
            ways *= (rules.copies - dealt.count(card)) / left
            dealt.append(card)
            left -= 1
        table[cards] = ways * gain(rules, moves, (*cards, *shown))
    return table


LEVELS = ("random", "caller", "maniac", "tight", "equilibrium")


def scripted(level: str, now: Betting, good: bool) -> str:
    """Returns the move of a rule-based player.

    "caller" never bets and never folds. "maniac" bets whenever it can and never folds. "tight"
    plays like "maniac" with a good hand and otherwise checks or folds.
    """
    wanted = {"caller": "kc", "maniac": "brc", "tight": "brc" if good else "kf"}[level]
    return next(move for move in wanted if move in now.moves)


@cache
def simple_strategy(rules: Rules, level: str) -> Strategy:
    """Returns the strategy of "random" or of a rule of `scripted`.

    A hand is good if it has the king, or a pair with the community card.
    """
    strategy: Strategy = {}
    for node in tree(rules).decisions():
        options = list(node.children)
        if level == "random":
            strategy[node.key] = np.full((rules.ranks, len(options)), 1 / len(options))
            continue
        moves = node.key.rstrip("0123456789")
        board = node.key[len(moves) :]
        rows = np.zeros((rules.ranks, len(options)))
        for card in range(rules.ranks):
            good = card == rules.ranks - 1 or str(card) == board
            rows[card, options.index(scripted(level, betting(rules, moves), good))] = 1
        strategy[node.key] = rows
    return strategy


@cache
def story(rules: Rules, moves: str, me: int) -> str:
    """Describes the moves of a hand to player `me` (0: the first player)."""
    told, stage = [], 0
    for i, move in enumerate(moves):
        before = betting(rules, moves[:i])
        if before.round > stage:
            stage = before.round
            told.append("the community card is revealed")
        mine = before.player == me
        told.append(f"you {WORDS[move]}" if mine else f"your opponent {WORDS[move]}s")
    return ", ".join(told) or "none"


def chips(count: float) -> str:
    """Describes a gain or a loss to the player."""
    amount = f"{abs(count):g} chip" + "s" * (abs(count) != 1)
    return "You break even" if not count else f"You {'win' if count > 0 else 'lose'} {amount}"


@dataclass
class State:
    """State of an episode.

    Attributes:
        deals: cards of all hands as ranks from 0: first player, second player, community card.
        hand: number of the current hand, from 0.
        moves: moves of the current hand.
        won: chips player_0 has won so far.
    """

    deals: list[tuple[int, ...]]
    hand: int = 0
    moves: str = ""
    won: int = 0


class LimitPoker(TextGame):
    """Several hands of two-player limit poker. A subclass sets the rules and the equilibrium.

    Args:
        rules: the size of the game.
        hands: number of hands per episode.
        **kwargs: see `TextGame`.
    """

    tasks = Tasks.generated()
    State = State
    state: State
    zero_sum = True
    levels = LEVELS
    expert_level = "equilibrium"

    def __init__(self, rules: Rules, *, hands: int, **kwargs):
        if not 1 <= hands <= 100_000:
            raise ConfigError(f"hands must be from 1 to 100,000, got {hands}.")
        super().__init__(**kwargs)
        self.rules, self.hands = rules, hands
        self.stages = hands
        self.actions = tuple(WORDS[letter] for letter in ("kbcrf" if rules.most > 1 else "kbcf"))
        self._answers: dict[tuple[str, int], Strategy] = {}

    def _equilibrium(self) -> Strategy:
        """Returns a Nash equilibrium of one hand."""
        raise NotImplementedError

    def _start(self, task: str) -> None:
        rng, deck = task_rng(task), [*range(self.rules.ranks)] * self.rules.copies
        dealt = 1 + len(self.rules.bets)
        deals = [[deck[i] for i in rng.permutation(len(deck))[:dealt]] for _ in range(self.hands)]
        self.state = State([tuple(deal) for deal in deals])

    def starts(self) -> Iterator[tuple[float, State]]:
        """Yields the deals of the first hand."""
        deck = [*range(self.rules.ranks)] * self.rules.copies
        deals = Counter(permutations(deck, 1 + len(self.rules.bets)))
        for deal, count in deals.items():
            yield count / deals.total(), State([deal] * self.hands)

    def stage(self) -> int:
        """Returns the number of finished hands."""
        return self.state.hand

    def _seat(self, agent: str) -> int:
        """Returns 0 if the agent is the first player of this hand, otherwise 1."""
        return (self.possible_agents.index(agent) + self.state.hand) % 2

    def _now(self) -> Betting:
        return betting(self.rules, self.state.moves)

    def _board(self) -> int | None:
        return self.state.deals[self.state.hand][2] if self._now().round == 1 else None

    def _acting(self) -> tuple[str, ...]:
        if self.state.hand == self.hands:
            return ()
        return (self.possible_agents[(self._now().player + self.state.hand) % 2],)

    def _look(self, agent: str) -> TimeStep:
        state, rules = self.state, self.rules
        won = self._won(agent)
        most = self.hands * (1 + rules.most * sum(rules.bets))
        progress = 0.5 + won / (2 * most)
        if state.hand == self.hands:
            text = f"The game is over. {chips(won)} in total."
            return TimeStep(text, success=won > 0, progress=progress)
        me, now, board = self._seat(agent), self._now(), self._board()
        card = rules.name(state.deals[state.hand][me])
        opened = "" if board is None else f" The community card is {rules.name(board)}."
        told = story(rules, state.moves, me)
        options = tuple(WORDS[move] for move in now.moves)
        *most, last = options
        asks = "It is your opponent's turn."
        if now.player == me:
            asks = f"Your turn: {', '.join(most)} or {last}."
        text = (
            f"Hand {state.hand + 1} of {self.hands}. Your card is {card}.{opened}\n"
            f"Chips in the pot: {now.paid[me]} from you, {now.paid[1 - me]} from your opponent.\n"
            f"Moves so far: {told}.\n{asks}"
        )
        return TimeStep(text, progress=progress, admissible=options)

    def _frame(self, agent: str | None) -> Scene:
        state, rules = self.state, self.rules
        number = min(state.hand, self.hands - 1)
        over = state.hand == self.hands  # of the last hand, no cards are shown any more
        rows = []
        for name in self.possible_agents:
            card = state.deals[number][(self.possible_agents.index(name) + number) % 2]
            seen = agent in (None, name) and not over
            rows.append(hand(name, [rules.name(card) if seen else None]))
        if len(rules.bets) > 1:
            board = None if over else self._board()
            rows.append(hand("board", [None if board is None else rules.name(board)]))
        paid = (0, 0) if over else self._now().paid
        caption = f"hand {number + 1} of {self.hands}, {sum(paid)} chips in the pot"
        won = f"{self.possible_agents[0]} has won {state.won}"
        return table(rows, f"{caption}\n{won}")

    def privileged_text(self, agent: str) -> str:
        """Returns the cards of this hand and of the next ones, and the state of the betting."""
        state, first = self.state, self._seat(agent)
        cards = []
        for number, deal in enumerate(state.deals[state.hand :][:FORESEEN]):
            me = (first + number) % 2
            hand = (deal[me], deal[1 - me], *deal[2:])
            cards.append(" ".join(map(self.rules.name, hand)))
        order = "you, opponent" + ", community" * (len(self.rules.bets) > 1)
        return (
            f"Hands left: {self.hands - state.hand}. Chips won: {self._won(agent)}. First player: "
            f"{'opponent' if first else 'you'}. Moves: {story(self.rules, state.moves, first)}. "
            f"Cards of this and the next hands ({order}): {', '.join(cards) or 'none'}."
        )

    def _won(self, agent: str) -> int:
        """Returns the chips that an agent has won so far."""
        return self.state.won if agent == self.possible_agents[0] else -self.state.won

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state, rules = self.state, self.rules
        ((_, word),) = moves.items()
        state.moves += LETTERS[word]
        if betting(rules, state.moves).moves:
            return {}
        deal, played = state.deals[state.hand], state.moves
        gained = gain(rules, played, deal)
        order = sorted(self.possible_agents, key=self._seat)
        gains = dict(zip(order, (gained, -gained), strict=True))
        for me, agent in enumerate(order):
            ending = f"{story(rules, played, me)}."
            if played[-1] != "f":
                cards = [rules.name(card) for card in deal]
                opened = "".join(f" The community card is {card}." for card in cards[2:])
                ending += f"{opened} You show {cards[me]}, your opponent {cards[1 - me]}."
            text = f"Hand {state.hand + 1} is over: {ending} {chips(gains[agent])}."
            self._tell(text, [agent])
        state.won += gains[self.possible_agents[0]]
        state.moves = ""
        state.hand += 1
        return {agent: {"task": amount / self.hands} for agent, amount in gains.items()}

    def _strategy(self, level: str) -> Strategy:
        return self._equilibrium() if level == "equilibrium" else simple_strategy(self.rules, level)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        return self._play(self._strategy(level), agent, rng)

    def _play(self, strategy: Strategy, agent: str, rng: np.random.Generator) -> str:
        """Samples the agent's move from a strategy."""
        chances = self._chances(strategy, agent)
        choice = int(np.searchsorted(chances.cumsum(), rng.random() * chances.sum(), "right"))
        return WORDS[self._now().moves[choice]]

    def _chances(self, strategy: Strategy, agent: str) -> np.ndarray:
        """Returns the probabilities of the agent's moves in a strategy."""
        card = self.state.deals[self.state.hand][self._seat(agent)]
        return strategy[node_key(self.state.moves, self._board())][card]

    def script_probabilities(self, level: str, agent: str) -> np.ndarray:
        """Returns the probabilities of a scripted player's moves."""
        return np.asarray(self._chances(self._strategy(level), agent), float)

    def expert(self, agent: str) -> str | None:
        """Returns a best response to the opponent's policy if known, otherwise equilibrium play."""
        (other,) = (name for name in self.possible_agents if name != agent)
        if agent not in self.acting or other not in self.opponents:
            return super().expert(agent)
        question = self.opponents[other], self._seat(agent)
        if question not in self._answers:
            theirs = self._strategy(question[0])
            found, _ = solver.best_response(tree(self.rules), theirs, question[1], self.rules.ranks)
            self._answers[question] = found
        return self._play(self._answers[question], agent, np.random.default_rng(0))
