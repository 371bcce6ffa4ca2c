"""Hanabi: cooperative fireworks, in which players see all cards but their own."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from agentgym.envs.cards.hanabi_players import View, choose
from agentgym.envs.cards.hanabi_rules import COLORS, Card, Sizes, State, move, moves, over, start
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.rendering import TABLE, Cell, Scene, card, table
from agentgym.rendering.scene import BLUE, GOLD, GREEN, GREY, INK, RED
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep


def known(card: Card, sizes: Sizes) -> str:
    """Returns the holder's knowledge of a card in words."""
    colors = "any color" if len(card.colors) == sizes.colors else _either(COLORS, card.colors)
    ranks = "any rank" if len(card.ranks) == sizes.ranks else _either("12345", card.ranks)
    return f"{colors}, {ranks}"


def _hinted(card: Card, sizes: Sizes) -> str:
    """Returns a card with the knowledge of its holder, if there is any."""
    hinted = len(card.colors) < sizes.colors or len(card.ranks) < sizes.ranks
    return card.name() + f" ({known(card, sizes)})" * hinted


def _either(names: tuple[str, ...] | str, some: list[int]) -> str:
    return " or ".join(names[i] for i in some)


PAINT = (RED, GOLD, GREEN, GREY, BLUE)
"""The colours of the cards in the picture."""


def _as_seen(held: Card) -> Cell:
    return card(str(held.rank + 1), PAINT[held.color])


def _as_known(held: Card) -> Cell:
    """Returns a card by the hints that its holder has."""
    rank = str(held.ranks[0] + 1) if len(held.ranks) == 1 else "?"
    return card(rank, PAINT[held.colors[0]] if len(held.colors) == 1 else INK)


class Hanabi(TextGame):
    """Hanabi for two to five players: cooperation with hidden own hands and few hints.

    ## Description
    The players build a firework per color by playing its cards in ascending order. Nobody sees its
    own cards. In its turn a player plays a card, discards one, which returns a hint token, or
    spends a hint token to tell another player all its cards of a color or rank. A card that does
    not fit costs a fuse token. Of each color there are three 1s, one card of the highest rank and
    two of each other rank. Completing a firework returns a hint token.

    ## Action Space
    Text: `play 1`, `discard 1` (1 is the oldest card), `hint player_1 red` or `hint player_1 2`.
    With `action_mode="discrete"`: the index of the action.

    ## Observation Space
    Text: the tokens, the fireworks, the discarded cards, the agent's knowledge of its cards, the
    hands of the others with their knowledge, and the moves of the last round.

    ## Rewards
    - `task`: for all players, the change of the score divided by the perfect score. The score is
      the number of cards played, and 0 after the last fuse token is lost. The return is the final
      score divided by the perfect score.
    - `invalid`: minus `invalid_penalty` for an agent's own invalid action.

    ## Starting State
    The task, `train/N` or `test/N`, determines the order of the deck. `player_0` begins.

    ## Episode End
    Termination: all fireworks are complete, the last fuse token is lost, or each player had one
    more turn after the last card was dealt. Truncation: after `max_turns` turns. After
    `max_invalid` invalid actions in a row, a random move is made.

    ## Information
    The common keys.

    - `success`: the final score is at least `target`.
    - `progress`: the score divided by the perfect score.

    ## Arguments
    - `num_players` (int, default 2): from 2 to 5.
    - `colors` (int, default 5): number of colors, from 1 to 5.
    - `ranks` (int, default 5): number of ranks, from 2 to 5.
    - `hand` (int or None, default None): cards in a hand, from 1 to 5. None: 5 for two or three
      players, otherwise 4.
    - `hints` (int, default 8): hint tokens, at least 1.
    - `fuses` (int, default 3): fuse tokens, at least 1.
    - `lost` ("zero" or "keep", default "zero"): whether the score is 0 after the last fuse token is
      lost, as in the Hanabi Learning Environment, or kept.
    - `target` (int or None, default None): least score of a success. None: the perfect score.
    - `max_turns` (int or None, default None): turns before truncation.
    - `seat` (single seat only): the seat of the agent.
    - `opponents` (single seat only, default "piers"): the other players.
      - "random": random legal moves.
      - "cautious": plays only certain cards, hints at playable cards, otherwise discards.
      - "piers": also plays cards that are playable with a probability of 0.6 while it has a fuse
        token to spare, gambles after the deck is empty, and hints at useless cards.

    ## Notes
    `Hanabi-Small-v0` has the sizes of Hanabi-Small in the Hanabi Learning Environment: two colors,
    two cards per hand, three hint tokens and one fuse token. The scripted players use no
    conventions. The expert is "piers" and far from perfect.

    ## References
    - Bauza, Hanabi (2010).
    - Bard et al., The Hanabi Challenge (arXiv 1902.00506): the Hanabi Learning Environment, whose
      rules these are.
    - Walton-Rivers et al., Evaluating and Modelling Hanabi-Playing Agents (arXiv 1704.07069): the
      rule-based players. Here, a hint is chosen by the probability that the card is then playable.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(2, 6)
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.unsolvable_tasks": "success is the perfect score, which few players reach",
    }
    state: State
    common_reward = True
    levels = ("random", "cautious", "piers")
    expert_level = "piers"
    default_opponents = "piers"

    def __init__(
        self,
        *,
        colors: int = 5,
        ranks: int = 5,
        hand: int | None = None,
        hints: int = 8,
        fuses: int = 3,
        lost: str = "zero",
        target: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        count = len(self.possible_agents)
        hand = (5 if count < 4 else 4) if hand is None else hand
        for name, number, low, high in (
            ("colors", colors, 1, len(COLORS)),
            ("ranks", ranks, 2, 5),
            ("hand", hand, 1, 5),
            ("hints", hints, 1, 100),
            ("fuses", fuses, 1, 100),
            ("target", 1 if target is None else target, 1, colors * ranks),
        ):
            if not low <= number <= high:
                raise ConfigError(f"{name} must be from {low} to {high}, got {number}.")
        if lost not in ("zero", "keep"):
            raise ConfigError(f"lost must be 'zero' or 'keep', got {lost!r}.")
        self.sizes = sizes = Sizes(colors, ranks, hand, hints, fuses)
        cards = len(sizes.deck())
        if cards < count * hand:
            raise ConfigError(
                f"{count} hands of {hand} cards need {count * hand} cards, but the deck has "
                f"{cards}. Use more colors or ranks, or smaller hands."
            )
        self.lost, self.target = lost, sizes.best if target is None else target
        places, told = range(1, hand + 1), (*COLORS[:colors], *map(str, range(1, ranks + 1)))
        self.actions = (
            *(f"{kind} {place}" for kind in ("play", "discard") for place in places),
            *(f"hint {agent} {about}" for agent in self.possible_agents for about in told),
        )
        self.instructions = self._rules()

    def _rules(self) -> str:
        sizes, count = self.sizes, len(self.possible_agents)
        colors = COLORS[: sizes.colors]
        copies = ", ".join(f"{sizes.copies(r)} of rank {r + 1}" for r in range(sizes.ranks))
        return (
            f"Hanabi is a cooperative card game. {count} players build one firework per color "
            f"({', '.join(colors)}) by playing its cards in the order 1 to {sizes.ranks}. You "
            "see the cards of all other players, but not your own.\n"
            "\n"
            "Rules:\n"
            f"- Each color has these cards: {copies}. A hand has {sizes.hand} cards, numbered from "
            "1 (oldest).\n"
            "- Play a card: if it is the next card of its firework, it is added. Otherwise it is "
            f"discarded and a fuse token is lost. Fuse tokens at the start: {sizes.fuses}.\n"
            f"- Discard a card: a hint token is returned. With all {sizes.hints} hint tokens, you "
            "cannot discard.\n"
            "- Give a hint: spend a hint token and tell another player which of its cards have a "
            "color or a rank. At least one card must have it.\n"
            "- After playing or discarding, you draw a card. A complete firework returns a hint "
            "token.\n"
            "- The game ends when all fireworks are complete or no fuse token is left. After the "
            "last card is drawn, each player has one more turn.\n"
            "\n"
            f"Actions: play 1, discard 1, hint player_1 {colors[0]} or hint player_1 2\n"
            "\n"
            f"Score: the number of played cards divided by {sizes.best}, for all players."
            + " It is 0 if no fuse token is left."
            * (self.lost == "zero")
        )

    def _start(self, task: str) -> None:
        rng = task_rng(task, "hanabi")
        self.state = start(self.sizes, len(self.possible_agents), rng)

    def _acting(self) -> tuple[str, ...]:
        if over(self.state, self.sizes):
            return ()
        return (self.possible_agents[self.state.player],)

    def _score(self) -> int:
        """Returns the score if the game ended now."""
        state = self.state
        return 0 if state.fuses == 0 and self.lost == "zero" else sum(state.fireworks)

    def _frame(self, agent: str | None) -> Scene:
        state, sizes = self.state, self.sizes
        built = [card(str(n), PAINT[color]) for color, n in enumerate(state.fireworks)]
        rows = [[Cell(TABLE, color="#ffffff", label="built"), *built]]
        for name, cards in zip(self.possible_agents, state.hands, strict=True):
            shown = [_as_known(each) if name == agent else _as_seen(each) for each in cards]
            rows.append([Cell(TABLE, color="#ffffff", label=name), *shown])
        tokens = f"{state.hints} hints, {state.fuses} fuses, {len(state.deck)} cards in the deck"
        most = 1 + max(sizes.colors, sizes.hand)
        return table(rows, tokens, columns=most)

    def _look(self, agent: str) -> TimeStep:
        state, sizes, names = self.state, self.sizes, self.possible_agents
        me, ended = names.index(agent), over(self.state, self.sizes)
        asks = "It is your turn." if me == state.player else f"It is the turn of {self._turn()}."
        left = f"Cards in the deck: {len(state.deck)}."
        if not state.deck:
            left = f"The deck is empty. Turns left: {state.turns}."
        gone = ", ".join(f"{COLORS[c]} {r + 1}" for c, r in sorted(state.discards)) or "none"
        lines = [
            f"You are {agent}. {'The game is over.' if ended else asks}",
            f"Score: {self._score()} of {sizes.best}. Hint tokens: {state.hints} of {sizes.hints}. "
            f"Fuse tokens: {state.fuses} of {sizes.fuses}. {left}",
            f"Fireworks: {self._built()}.",
            f"Discarded: {gone}.",
            "Your cards, by the hints:",
            *(f"{i}: {known(card, sizes)}" for i, card in enumerate(state.hands[me], 1)),
        ]
        for other, name in enumerate(names):
            if other != me:
                lines.append(f"Cards of {name}, with its knowledge:")
                lines += [
                    f"{i}: {card.name()} ({known(card, sizes)})"
                    for i, card in enumerate(state.hands[other], 1)
                ]
        recent = state.log[-len(names) :]
        lines += ["Last moves:", *recent] if recent else []
        score = self._score()
        return TimeStep(
            text="\n".join(lines),
            success=ended and score >= self.target,
            progress=score / sizes.best,
            admissible=moves(state, sizes, names) if me == state.player and not ended else (),
        )

    def privileged_text(self, agent: str) -> str:
        """Returns the hands with the knowledge of their holders, and the deck in its order."""
        state, sizes = self.state, self.sizes
        hands = "; ".join(
            f"{name}: {', '.join(_hinted(card, sizes) for card in hand) or 'no cards'}"
            for name, hand in zip(self.possible_agents, state.hands, strict=True)
        )
        deck = ", ".join(f"{COLORS[c]} {r + 1}" for c, r in reversed(state.deck))
        return (
            f"You are {agent}. Turn: {', '.join(self.acting) or 'nobody'}. Score: {self._score()}. "
            f"Hint tokens: {state.hints}. Fuse tokens: {state.fuses}. Fireworks: {self._built()}. "
            f"Hands: {hands}. Turns after the last card: {state.turns}. Deck: {deck or 'empty'}."
        )

    def _built(self) -> str:
        return ", ".join(f"{COLORS[c]} {top}" for c, top in enumerate(self.state.fireworks))

    def _turn(self) -> str:
        return self.possible_agents[self.state.player]

    def _advance(self, moves: dict[str, str]) -> Rewards:
        ((_, words),) = moves.items()
        before = self._score()
        move(self.state, self.sizes, self.possible_agents, words)
        gain = (self._score() - before) / self.sizes.best
        return self._pay([gain] * len(self.possible_agents))

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state, sizes, names = self.state, self.sizes, self.possible_agents
        return choose(level, View(sizes, state, names, moves(state, sizes, names)), rng)


env, raw_env, parallel_env = make_pettingzoo(Hanabi)
