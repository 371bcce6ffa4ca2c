"""ResourceTrading: two players trade goods that have different values for each of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.envs.negotiation.acceptance import accepts_in_words
from agentgym.envs.negotiation.trading import (
    CHEAPEST,
    DEAREST,
    GOODS,
    LEAST,
    MOST,
    PRICES,
    STRICTNESS,
    Offer,
    Pieces,
    accepts,
    beliefs,
    best_swap,
    describe,
    draw_values,
    has,
    judge,
    lacks_brackets,
    offer_in,
    simple_offer,
    swaps,
    to_offer,
    written,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

MAX_MESSAGE = 400
DENY = "[Deny]"
ACCEPT = "[Accept]"


@dataclass
class Answer:
    """An answered offer: its maker, the net change for the co-player, and whether it accepted."""

    maker: int
    net: Pieces
    taken: bool


@dataclass
class State:
    """State of an episode.

    Attributes:
        values: private values of both players.
        stock: current pieces of both players.
        start: pieces of both players at the start.
        mover: player who sends the next message.
        offer: offer that this player has to answer, if any.
        talk: all messages, each with its sender.
        answers: all answers to offers.
    """

    values: tuple[Pieces, Pieces]
    stock: tuple[Pieces, Pieces]
    start: tuple[Pieces, Pieces]
    mover: int
    offer: Offer | None = None
    talk: list[tuple[int, str]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def worth(self, player: int, pieces: Pieces) -> int:
        """Returns the value of pieces to a player."""
        return sum(v * n for v, n in zip(self.values[player], pieces, strict=True))

    def gain(self, player: int) -> int:
        """Returns the increase in the value of a player's goods since the start."""
        return self.worth(player, self.stock[player]) - self.worth(player, self.start[player])

    def trade(self) -> None:
        """Exchanges the goods of the offer."""
        assert self.offer is not None
        for player, sign in ((self.mover, 1), (1 - self.mover, -1)):
            for i, n in enumerate(self.offer.net()):
                self.stock[player][i] += sign * n


class ResourceTrading(TextGame):
    """Two players trade goods that have different values for each of them.

    ## Description
    Both players have 5 to 25 pieces each of salt, grain, cloth, copper and silver. The usual values
    per piece are 5, 10, 15, 25 and 40. The private values of each player differ from them by up to
    a fifth (between 5 and 40). Neither player knows the other's goods or values. The players send
    messages in turn. A message can offer an exchange, which the other player accepts or rejects in
    its next message. The player with the larger gain from trade wins. Both players can gain from a
    trade, so each trade also decides how the surplus is divided.

    ## Action Space
    Text: any message, which is put on one line and cut after 400 characters. The effective tags are
    `[Offer: 3 salt, 1 silver -> 2 copper]` (given -> wanted), `[Accept]`, and `[Deny]`, which is
    implied by a message without `[Accept]`. A message can accept or deny an offer and then make a
    new one.

    ## Observation Space
    Text: the agent's goods and their values, all messages, and the offer to be answered.

    ## Rewards
    Term `task`, at the end. With `reward="win"`: 1 for the player with the larger gain, -1 for the
    other player, 0 for equal gains. Zero-sum. With `reward="gain"`: the player's gain, divided by
    the value of its goods at the start. An invalid action costs `invalid_penalty`.

    ## Starting State
    The task, for example `train/0` or `test/0`, determines goods, values and the player who speaks
    first.

    ## Episode End
    - Termination: all messages are used.
    - Truncation: after `max_turns` turns.

    Invalid actions are an offer with a wrong format, two offers, a tag behind a denial or with a
    condition ("[Accept] if ..."), an offer of goods that the player does not
    have, and accepting without an offer or without the wanted goods. After `max_invalid` of them in
    a row the player denies.

    ## Information
    The common keys. `success`: the agent gains more than the other player (with `reward="gain"`:
    anything). `progress`: 0.5 if the agent's goods have the same value as at the start, 1 if they
    have at least one and a half times that value.

    ## Arguments
    - `turns` (int, default 10): number of messages of both players together.
    - `reward` (str, default "win"): "win" or "gain".
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a denial.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "naive"): the co-player's policy.
        - "naive": accepts any offer that increases the value of its goods.
        - "wary": also counts the co-player's gain at usual prices as its own loss.
        - "trader": infers the co-player's values from its offers and answers, and makes the offer
          with the highest expected gain.
        - "random": random offers and answers.

    ## Notes
    The expert is "trader" with knowledge of whether the co-player is "naive" or "wary". Random text
    trades nothing.

    ## References
    TextArena (Guertler et al., arXiv:2504.11442), SimpleNegotiation: numbers, values and offers.
    There, a rejected offer can be accepted later, and an invalid message loses the game.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    State = State
    state: State
    levels = ("random", *STRICTNESS, "trader")
    expert_level = "trader"
    default_opponents = "naive"

    def __init__(self, *, turns: int = 10, reward: str = "win", **kwargs):
        if turns < 1:
            raise ConfigError(f"turns must be at least 1, got {turns}.")
        if reward not in ("win", "gain"):
            raise ConfigError(f"reward must be 'win' or 'gain', got {reward!r}.")
        super().__init__(**kwargs)
        self.turns, self.reward_kind = turns, reward
        self.zero_sum = reward == "win"  # type: ignore[misc]  # fixed by the argument
        prices = ", ".join(f"{good} {price}" for good, price in PRICES.items())
        aim = (
            "The player with the larger gain wins."
            if reward == "win"
            else "Gain as much as you can. The other player's gain does not matter."
        )
        self.instructions = (
            f"You and another player trade goods. {aim}\n"
            "Rules:\n"
            f"- Each player starts with {LEAST} to {MOST} pieces of each good. The usual values "
            f"per piece are: {prices}.\n"
            "- For each player, a piece is worth up to a fifth more or less than usual, but at "
            f"least {CHEAPEST} and at most {DEAREST}. Your goods and values are known only to "
            "you.\n"
            "- Your gain is the value of your goods at the end minus their value at the start.\n"
            f"- The players send messages in turn, {turns} in total, {MAX_MESSAGE} characters at "
            "most per message.\n"
            "Actions: any message. Only these tags have an effect:\n"
            "- [Offer: 3 salt, 1 silver -> 2 copper]: offer to give the goods on the left for the "
            "goods on the right. A message can have only one offer.\n"
            "- [Accept]: accept the other player's offer\n"
            "- [Deny], or a message without [Accept]: reject it\n"
            "A message can contain [Accept] or [Deny] and a new offer."
        )

    def _start(self, task: str) -> None:
        rng = task_rng(task)
        first, second = draw_values(rng, 2).tolist()
        mine, theirs = rng.integers(LEAST, MOST + 1, size=(2, len(GOODS))).tolist()
        self.state = State(
            (first, second), (mine, theirs), ([*mine], [*theirs]), int(rng.integers(2))
        )

    def _acting(self) -> tuple[str, ...]:
        over = len(self.state.talk) == self.turns
        return () if over else (self.possible_agents[self.state.mover],)

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        gain, start = state.gain(me), state.worth(me, state.start[me])
        goods = ", ".join(
            f"{n} {good} (worth {v} each)"
            for good, n, v in zip(GOODS, state.stock[me], state.values[me], strict=True)
        )
        lines = [f"You have: {goods}. Total value: {start + gain}, at the start {start}."]
        lines += [f"{'You' if i == me else 'Other player'}: {text}" for i, text in state.talk]
        progress = min(1.0, max(0.0, 0.5 + gain / start))
        if not self._acting():
            other = state.gain(1 - me)
            lines.append(f"The game is over. You gained {gain}, the other player {other}.")
            won = gain > (other if self.reward_kind == "win" else 0)
            return TimeStep("\n".join(lines), success=won, progress=progress)
        if state.mover != me:
            lines.append("It is the other player's turn.")
            return TimeStep("\n".join(lines), progress=progress)
        if state.offer is not None:
            lines.append(
                f"You are offered {describe(state.offer.gives)} for {describe(state.offer.wants)}."
            )
        lines.append(f"Send message {len(state.talk) + 1} of {self.turns}.")
        return TimeStep("\n".join(lines), progress=progress)

    def privileged_text(self, agent: str) -> str:
        """Returns the goods, values and gains of both players, and the gains from the offer."""
        state, me = self.state, self.possible_agents.index(agent)
        gains = f"{state.gain(me)} to {state.gain(1 - me)}"
        offer = "none"
        if state.offer is not None:
            mover = state.worth(state.mover, state.offer.net())
            maker = -state.worth(1 - state.mover, state.offer.net())
            offer = f"{mover} to {maker}" if state.mover == me else f"{maker} to {mover}"
        goods = "; ".join(
            ", ".join(
                f"{n} {good} at {v}"
                for good, n, v in zip(GOODS, state.stock[i], state.values[i], strict=True)
            )
            for i in (me, 1 - me)
        )
        return (
            f"Messages left: {self.turns - len(state.talk)}. Turn: "
            f"{', '.join(self.acting) or 'nobody'}. Gains of you and the other player: {gains}. "
            f"From the offer: {offer}. Goods: {goods}."
        )

    def _parse(self, agent: str, action: str) -> str:
        state, me = self.state, self.possible_agents.index(agent)
        message = clip(action, MAX_MESSAGE)
        stock = state.stock[me]
        try:
            taken = accepts(message)
        except ValueError as error:
            raise InvalidMove(f"It is unclear whether you accept: {error}.") from error
        if taken:
            if state.offer is None:
                raise InvalidMove("You cannot accept: there is no offer.")
            if not has(stock, state.offer.wants):
                wanted = describe(state.offer.wants)
                raise InvalidMove(f"You cannot accept: you do not have the wanted {wanted}.")
            stock = [a + b for a, b in zip(stock, state.offer.net(), strict=True)]
        try:
            offer = offer_in(message)
        except ValueError as error:
            raise InvalidMove(
                f"Invalid offer: {error}. Expected a format such as [Offer: 3 salt -> 2 copper]."
            ) from error
        if not taken and state.offer is not None and accepts_in_words(message):
            raise InvalidMove("To accept, write [Accept] with its brackets.")
        if offer is None and lacks_brackets(message):
            raise InvalidMove(
                "An offer needs brackets to have an effect, for example "
                "[Offer: 3 salt -> 2 copper]."
            )
        if offer is not None and not has(stock, offer.gives):
            raise InvalidMove(f"Invalid offer: you do not have {describe(offer.gives)}.")
        return message

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        ((_, message),) = moves.items()
        if state.offer is not None:
            taken = accepts(message)
            if taken:
                state.trade()
            state.answers.append(Answer(1 - state.mover, state.offer.net(), taken))
        state.offer = offer_in(message)
        state.talk.append((state.mover, message))
        state.mover = 1 - state.mover
        if len(state.talk) < self.turns:
            return {}
        gains = [state.gain(player) for player in (0, 1)]
        if self.reward_kind == "win":
            lead = float(np.sign(gains[0] - gains[1]))
            rewards = [lead, -lead]
        else:
            rewards = [gain / state.worth(i, state.start[i]) for i, gain in enumerate(gains)]
        return self._pay(rewards)

    def _fallback(self, agent: str) -> str:
        return DENY

    # Scripted players.

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        state, stock = self.state, np.array(self.state.stock[self.state.mover])
        if state.offer is not None and has(list(stock), state.offer.wants) and rng.random() < 0.5:
            return ACCEPT
        table = swaps()
        possible = table[(table >= -stock).all(axis=1)]
        choice = int(rng.integers(max(1, len(possible))))
        return written(to_offer(possible[choice]) if len(possible) else None)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        if level == "trader":
            return self._trade("wary")
        state, me = self.state, self.state.mover
        values, stock = state.values[me], state.stock[me]
        said = ""
        if state.offer is not None:
            net = np.array(state.offer.net())
            content = judge(level, np.array(values)) @ net > 0
            taken = bool(content) and has(stock, state.offer.wants)
            said = f"{ACCEPT} " if taken else f"{DENY} "
            stock = [n + taken * d for n, d in zip(stock, net.tolist(), strict=True)]
        return said + written(simple_offer(level, values, stock, rng))

    def _trade(self, level: str) -> str:
        """Infers the co-player's values from its actions and makes the offer with the best gain."""
        state, me = self.state, self.state.mover
        answers = [
            ([-n for n in a.net] if a.maker != me else a.net, a.taken or a.maker != me)
            for a in state.answers
        ]
        if state.offer is not None:
            answers.append(([-n for n in state.offer.net()], True))
        believed = values, weights = beliefs(level, answers)
        worth = np.array(state.values[me]) + values * (self.reward_kind == "win")
        stock, said = state.stock[me], ""
        if state.offer is not None:
            net = state.offer.net()
            taken = bool(weights @ worth @ np.array(net) > 0) and has(stock, state.offer.wants)
            said = f"{ACCEPT} " if taken else f"{DENY} "
            stock = [n + taken * d for n, d in zip(stock, net, strict=True)]
        given = [before - now for before, now in zip(state.start[me], stock, strict=True)]
        offer = best_swap(level, believed, worth, stock, given)
        return said + written(offer)

    def expert(self, agent: str) -> str | None:
        """Trades with the co-player's policy if it is known, otherwise as "trader"."""
        (other,) = (name for name in self.possible_agents if name != agent)
        level = self.opponents.get(other)
        if agent not in self.acting or level not in STRICTNESS:
            return super().expert(agent)
        return self._trade(level)


env, raw_env, parallel_env = make_pettingzoo(ResourceTrading)
