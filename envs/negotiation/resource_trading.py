"""ResourceTrading: two players exchange goods that are not worth the same to both."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TimeStep
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
    offer_in,
    simple_offer,
    swaps,
    to_offer,
    written,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import InvalidMove, Rewards, TextGame
from agentgym.multiagent.messages import clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks, task_rng

MAX_MESSAGE = 400
DENY = "[Deny]"
ACCEPT = "[Accept]"


@dataclass
class Answer:
    """An offer that was answered: who made it, what it brought the other, whether that took it."""

    maker: int
    net: Pieces
    taken: bool


@dataclass
class State:
    """What the goods are worth to both, what both have, and what was said and traded.

    `mover` speaks next; `offer` is what the other offers it; `start` is what both had at first.
    """

    values: tuple[Pieces, Pieces]
    stock: tuple[Pieces, Pieces]
    start: tuple[Pieces, Pieces]
    mover: int
    offer: Offer | None = None
    talk: list[tuple[int, str]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def worth(self, player: int, pieces: Pieces) -> int:
        """Returns what pieces are worth to a player."""
        return sum(v * n for v, n in zip(self.values[player], pieces, strict=True))

    def gain(self, player: int) -> int:
        """Returns how much more a player's goods are worth to it than at the start."""
        return self.worth(player, self.stock[player]) - self.worth(player, self.start[player])

    def trade(self) -> None:
        """Exchanges the goods of the offer."""
        assert self.offer is not None
        for player, sign in ((self.mover, 1), (1 - self.mover, -1)):
            for i, n in enumerate(self.offer.net()):
                self.stock[player][i] += sign * n


class ResourceTrading(TextGame):
    """Two players trade goods that are not worth the same to both.

    ## Description
    Both have 5 to 25 pieces each of salt, grain, cloth, copper and silver. A piece is usually worth
    5, 10, 15, 25 and 40; to each player it is worth up to a fifth more or less (between 5 and 40).
    Nobody knows what the other has and what it is worth to it. The players speak in turn; a message
    can offer an exchange, which the other takes or refuses in its next message. Who gains more by
    trading wins. Since every exchange may gain both something, the question is who gains more.

    ## Action Space
    Text: anything (put on one line and cut after 400 characters). What counts in it is
    `[Offer: 3 salt, 1 silver -> 2 copper]` (given -> wanted), `[Accept]`, and `[Deny]`, which goes
    without saying. A message can accept or deny, and then offer.

    ## Observation Space
    Text: one's goods and what they are worth, all that was said, the offer to be answered.

    ## Rewards
    Term `task`, at the end. With `reward="win"`: 1 for who gained more, -1 for the other, 0 if both
    gained the same; zero-sum. With `reward="gain"`: what the player gained, divided by the worth of
    what it had at the start. An invalid action costs `invalid_penalty`.

    ## Starting State
    The task decides goods, values and who speaks first: `train/0`, `test/0`, ...

    ## Episode End
    Termination: all messages are used up. Truncation: after `max_turns` turns. Invalid are an offer
    that is not understood or of what one does not have, and accepting where there is no offer or
    one lacks what is wanted; after `max_invalid` of them in a row the player denies.

    ## Information
    The common keys; `success`: one gained more than the other (with `reward="gain"`: anything);
    `progress`: 0.5 if one's goods are worth as much as at the start, 1 if half as much again.

    ## Arguments
    `turns`: messages of both together, default 10. `reward`: "win" or "gain", default "win".
    `max_turns`: default None. `max_invalid`: default 3. As a single seat: `seat` and `opponents`:
    "naive" (the default: takes what is worth more to it than what it gives), "wary" (counts the
    other's gain at usual prices as its own loss), "trader" (guesses the other's values from its
    offers and answers, and offers what pays most) or "random".

    ## Example Transcript
    ```
    You have: 12 salt (worth 6 each), 7 grain (worth 9 each), 9 cloth (worth 15 each), 20 copper
    (worth 21 each), 6 silver (worth 38 each). In all 918, at the start 918.
    The other: Anything for grain! [Offer: 3 copper -> 5 grain]
    You are offered 3 copper for 5 grain.
    Message 2 of 10: say something.
    > [Accept] And now copper for silver? [Offer: 13 copper -> 8 silver]
    ```

    ## Baselines
    Mean return (share of successes) of a single seat, 300 test episodes. Random words trade
    nothing:

    | | opponents | random | expert |
    |---|---|---|---|
    | v0 | random | 0.00 (0.00) | 0.82 (0.86) |
    | | naive | 0.00 (0.00) | 0.80 (0.85) |
    | | wary | 0.00 (0.00) | 0.69 (0.79) |
    | | trader | 0.00 (0.00) | -0.01 (0.25) |
    | Gain | random | 0.00 (0.00) | 0.14 (0.93) |
    | | naive | 0.00 (0.00) | 0.04 (0.95) |
    | | wary | 0.00 (0.00) | 0.04 (0.96) |
    | | trader | 0.00 (0.00) | 0.04 (0.91) |

    The expert is "trader", told which of "naive" and "wary" the other is.

    ## Registered Configurations
    `ResourceTrading-v0`: who gains more wins. `ResourceTrading-Gain-v0`: one's own gain counts.

    ## References
    TextArena (Guertler et al., arXiv:2504.11442), SimpleNegotiation: numbers, values and offers.
    There, a refused offer can be accepted later on, and an invalid message loses the game.

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
            "Who gains more wins: make more of your goods than the other does."
            if reward == "win"
            else "Gain as much as you can; what the other gains does not matter."
        )
        self.instructions = (
            f"You and another player have some goods, {LEAST} to {MOST} pieces of each: "
            f"{prices}. These are usual values of a piece; to each of you it is worth up to a "
            f"fifth more or less, but never less than {CHEAPEST} or more than {DEAREST}. What it "
            "is worth to you and how much you have, only you know. By trading you can gain: what "
            "you gain is how much more your goods are worth to you at the end than at the start. "
            f"{aim} You speak in turn, {turns} messages of both together, each of {MAX_MESSAGE} "
            "characters at most. "
            "Say what you like; these words in square brackets count: "
            "[Offer: 3 salt, 1 silver -> 2 copper] offers to give what stands left of the arrow "
            "for what stands right of it. [Accept] takes the other's offer. [Deny], or a message "
            "without [Accept], refuses it. After an [Accept] or [Deny] you can make an offer in "
            "the same message."
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
        lines = [f"You have: {goods}. In all {start + gain}, at the start {start}."]
        lines += [f"{'You' if i == me else 'The other'}: {said}" for i, said in state.talk]
        progress = min(1.0, max(0.0, 0.5 + gain / start))
        if not self._acting():
            other = state.gain(1 - me)
            lines.append(f"The game is over. You gained {gain}, the other {other}.")
            won = gain > (other if self.reward_kind == "win" else 0)
            return TimeStep("\n".join(lines), success=won, progress=progress)
        if state.mover != me:
            lines.append("It is the other's turn.")
            return TimeStep("\n".join(lines), progress=progress)
        if state.offer is not None:
            lines.append(
                f"You are offered {describe(state.offer.gives)} for {describe(state.offer.wants)}."
            )
        lines.append(f"Message {len(state.talk) + 1} of {self.turns}: say something.")
        return TimeStep("\n".join(lines), progress=progress)

    def _read(self, agent: str, said: str) -> str:
        state, me = self.state, self.possible_agents.index(agent)
        message = clip(said, MAX_MESSAGE)
        stock = state.stock[me]
        if accepts(message):
            if state.offer is None:
                raise InvalidMove("There is no offer to accept.")
            if not has(stock, state.offer.wants):
                raise InvalidMove(f"You do not have the {describe(state.offer.wants)} asked for.")
            stock = [a + b for a, b in zip(stock, state.offer.net(), strict=True)]
        try:
            offer = offer_in(message)
        except ValueError as error:
            raise InvalidMove(f"Your offer is not understood: {error}.") from error
        if offer is not None and not has(stock, offer.gives):
            raise InvalidMove(f"You do not have the {describe(offer.gives)} that you offer.")
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

    # The scripted players.

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
        """Guesses the other's values from its offers and answers, and offers what pays most."""
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
        """Trades with whoever has the other seat, where that is known; else as "trader"."""
        (other,) = (name for name in self.possible_agents if name != agent)
        level = self.opponents.get(other)
        if agent not in self.acting or level not in STRICTNESS:
            return super().expert(agent)
        return self._trade(level)


env, raw_env, parallel_env = make_pettingzoo(ResourceTrading)
