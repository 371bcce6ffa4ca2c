"""DealOrNoDeal: two players talk about how to split some items, then say what they take."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TimeStep
from agentgym.envs.negotiation.bargaining import (
    ASPIRATIONS,
    ITEMS,
    TOTAL,
    Three,
    aspiration,
    beliefs,
    best_offer,
    describe,
    draw,
    fair_worth,
    items_in,
    offer,
    proposal,
    rest,
    splits,
    worth,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import InvalidMove, Rewards, TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks, task_rng
from agentgym.utils.action_parsing import plain

DEAL = "deal"


@dataclass
class State:
    """The items, what they are worth to both, and what was said.

    `starter` speaks first. `closed` is the player who ended the talk with "deal", if one did.
    `takes` are what both say they take, once they have.
    """

    counts: Three
    values: tuple[Three, Three]
    starter: int
    talk: list[str] = field(default_factory=list)
    closed: int | None = None
    takes: list[Three] = field(default_factory=list)

    def offers(self, player: int) -> list[tuple[int, Three]]:
        """Returns what a player proposed to take, each with the number of the message."""
        own = range((player - self.starter) % 2, len(self.talk), 2)
        found = ((i, proposal(self.talk[i], self.counts)) for i in own)
        return [(i, take) for i, take in found if take is not None]

    def last_offer(self, player: int, before: int | None = None) -> Three | None:
        """Returns what a player last proposed to take (before a message), if anything."""
        made = [take for i, take in self.offers(player) if before is None or i < before]
        return made[-1] if made else None

    def standing(self) -> tuple[int, Three] | None:
        """Returns who made the last proposal of all, and what it would take."""
        made = [(i, player, take) for player in (0, 1) for i, take in self.offers(player)]
        return max(made)[1:] if made else None


class DealOrNoDeal(TextGame):
    """Deal or no deal: talk about how to split books, hats and balls, then take what was agreed.

    ## Description
    There are 1 to 4 books, hats and balls each, 5 to 7 in all. Each player values them differently
    and knows only its own values; all together are worth 10 to each. Somebody wants every item, and
    both want some. The players talk in turn, in any words, until one says "deal" or all messages
    are used up. Then both say at the same time what they take. Only if together they take exactly
    all items, there is a deal; nothing binds them to what they said.

    ## Action Space
    Text. In the talk: anything (put on one line and cut after 280 characters), or `deal`, which
    ends it. Then what one takes: `1 book, 0 hats, 2 balls`; items not named are not taken.

    ## Observation Space
    Text: the items, what one is worth to oneself, what was said, and what is asked for.

    ## Rewards
    Term `task`, at the end: with a deal the worth of what one takes, divided by 10, else 0. Not
    zero-sum. An invalid action costs `invalid_penalty`.

    ## Starting State
    The task decides the items, both players' values and who speaks first: `train/0`, `test/0`, ...

    ## Episode End
    Termination: both have said what they take. Truncation: after `max_turns` turns. After
    `max_invalid` invalid actions in a row a player takes something at random.

    ## Information
    The common keys; `success`: there is a deal and it is worth at least as much to the player as
    the split with the greatest product of both worths (Nash's solution); `progress`: the worth of
    one's share of a deal, divided by 10.

    ## Arguments
    `messages`: most messages of both together, default 10. `max_turns`: default None.
    `max_invalid`: default 3. As a single seat: `seat` and `opponents`: "soft", "steady" (the
    default) and "stubborn" first insist on items worth 8, 10, 10 to them and at their last message
    on 3, 5, 8, propose the kindest split that gives them so much, and keep a deal; "bargainer"
    guesses what the other values from its proposals and insists on all that it thinks the other
    will just accept; "random" says and takes anything. They understand proposals such as "I take 1
    book, 2 balls", "you get 1 hat" or "I take all hats".

    ## Example Transcript
    ```
    There are: 4 books, 2 hats, 1 ball.
    To you are worth: a book 1, a hat 1, a ball 4.
    The other: I take 0 books, 2 hats, 1 ball.
    Say something, or: deal (messages left, of both: 9).
    > The ball matters most to me. I take 2 books and 1 ball.
    ```

    ## Baselines
    Mean return (share of successes) of a single seat, 300 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | 0.01 (0.01) | 0.03 (0.03) |
    | soft | 0.03 (0.04) | 0.90 (1.00) |
    | steady | 0.03 (0.03) | 0.76 (0.89) |
    | stubborn | 0.02 (0.02) | 0.51 (0.35) |
    | bargainer | 0.01 (0.02) | 0.73 (0.75) |

    The expert is "bargainer", told how the other insists. Who knows the other's values too could
    get 0.89, 0.80 and 0.61 from the soft, the steady and the stubborn.

    ## Registered Configurations
    `DealOrNoDeal-v0`.

    ## References
    Lewis et al., Deal or No Deal? End-to-End Learning for Negotiation Dialogues (EMNLP 2017,
    arXiv:1706.05125): the game, with other items and dialogues of people.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    State = State
    state: State
    levels = ("random", *ASPIRATIONS, "bargainer")
    expert_level = "bargainer"
    default_opponents = "steady"

    def __init__(self, *, messages: int = 10, **kwargs):
        if messages < 1:
            raise ConfigError(f"messages must be at least 1, got {messages}.")
        super().__init__(**kwargs)
        self.messages = messages
        self.instructions = (
            "You and another player split some books, hats and balls. What each is worth to you is "
            f"told only to you, and other values to the other; all together are worth {TOTAL} to "
            f"each of you. First you talk in turn, {messages} messages of both at most, each of "
            f"{MAX_MESSAGE} characters at most. To propose a split, say what you would take, such "
            "as: I take 1 book, 2 balls. What you do not name is then for the other. To accept the "
            "other's last proposal and end the talk, say only: deal. Then both say at the same "
            "time what they take, such as: 1 book, 0 hats, 2 balls. If together you take exactly "
            f"all items, each gets the worth of what it takes, divided by {TOTAL}; otherwise both "
            "get nothing."
        )

    def _start(self, task: str) -> None:
        rng = task_rng(task)
        counts, first, second = draw(rng)
        self.state = State(counts, (first, second), int(rng.integers(2)))

    def _talking(self) -> bool:
        return self.state.closed is None and len(self.state.talk) < self.messages

    def _acting(self) -> tuple[str, ...]:
        state = self.state
        if state.takes:
            return ()
        if self._talking():
            return (self.possible_agents[(state.starter + len(state.talk)) % 2],)
        return self.possible_agents

    def _agreed(self) -> bool:
        takes = self.state.takes
        return bool(takes) and rest(self.state.counts, takes[0]) == takes[1]

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        mine = state.values[me]
        prices = ", ".join(f"a {item} {v}" for item, v in zip(ITEMS, mine, strict=True))
        lines = [f"There are: {describe(state.counts)}.", f"To you are worth: {prices}."]
        for i, message in enumerate(state.talk):
            lines.append(f"{'You' if (state.starter + i) % 2 == me else 'The other'}: {message}")
        if state.closed is not None:
            lines.append(f"{'You' if state.closed == me else 'The other'}: {DEAL}")
        if state.takes:
            taken = worth(mine, state.takes[me])
            ending = f"You get {taken}." if self._agreed() else "There is no deal: you get nothing."
            lines += [
                f"You took {describe(state.takes[me])}, the other {describe(state.takes[1 - me])}.",
                ending,
            ]
            gain = taken if self._agreed() else 0
            least = fair_worth(state.counts, mine, state.values[1 - me])
            return TimeStep(
                "\n".join(lines), success=self._agreed() and gain >= least, progress=gain / TOTAL
            )
        if not self._talking():
            most = zip(state.counts, ITEMS, strict=True)
            lines.append(f"Say what you take: {', '.join(f'0 to {n} {i}s' for n, i in most)}.")
            options = tuple(map(describe, splits(state.counts)))
            return TimeStep("\n".join(lines), admissible=options)
        left = self.messages - len(state.talk)
        if (state.starter + len(state.talk)) % 2 == me:
            lines.append(f"Say something, or: {DEAL} (messages left, of both: {left}).")
        else:
            lines.append("It is the other's turn to speak.")
        return TimeStep("\n".join(lines))

    def _read(self, agent: str, said: str) -> str:
        if self._talking():
            message = clip(said)
            return DEAL if plain(message) == DEAL else message
        take = proposal(clip(said), self.state.counts)
        if take is None:
            raise InvalidMove(
                f"{said[:40]!r} is not understood. Say how many of each item you take, of "
                f"{describe(self.state.counts)}."
            )
        return describe(take)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        if self._talking():
            ((agent, message),) = moves.items()
            if message == DEAL:
                state.closed = self.possible_agents.index(agent)
            else:
                state.talk.append(message)
            return {}
        for agent in self.possible_agents:
            take = items_in(moves[agent], state.counts)
            assert take is not None
            state.takes.append(take)
        if not self._agreed():
            return {}
        pairs = zip(state.values, state.takes, strict=True)
        return self._pay(worth(values, take) / TOTAL for values, take in pairs)

    # The scripted players.

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        if not self._talking():
            return super()._random(agent, rng)
        if rng.random() < 0.25:
            return DEAL
        options = splits(self.state.counts)
        return f"I take {describe(options[int(rng.integers(len(options)))])}."

    def _spoken(self, player: int, messages: int) -> int:
        """Returns how many of the first messages are a player's."""
        return (messages + (player == self.state.starter)) // 2

    def _chances(self, player: int) -> int:
        """Returns how many messages a player can send in all."""
        return self._spoken(player, self.messages)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        if level == "bargainer":
            return self._bargain(agent, "steady")
        state, me = self.state, self.possible_agents.index(agent)
        mine, theirs = state.values[me], state.last_offer(1 - me)
        if not self._talking():
            least = aspiration(level, self._chances(me), self._chances(me))
            return describe(self._settle(me, least))
        least = aspiration(level, self._spoken(me, len(state.talk)), self._chances(me))
        if theirs is not None and worth(mine, rest(state.counts, theirs)) >= least:
            return DEAL
        return f"I take {describe(offer(state.counts, mine, least, theirs))}."

    def _settle(self, me: int, least: float) -> Three:
        """Returns what to take at the end.

        A deal is kept. Where the talk ended without one, the last proposal of all counts if it is
        one's own or worth at least so much.
        """
        state, standing = self.state, self.state.standing()
        if standing is not None and standing[0] != me:
            left = rest(state.counts, standing[1])
            if state.closed == me or worth(state.values[me], left) >= least:
                return left
        return state.last_offer(me) or offer(state.counts, state.values[me], TOTAL, None)

    def _bargain(self, agent: str, level: str) -> str:
        """Guesses what the other values from its proposals; asks for what it will just accept."""
        state, me = self.state, self.possible_agents.index(agent)
        if not self._talking():
            return describe(self._settle(me, 1))
        mine, chances = state.values[me], self._chances(1 - me)
        claims = state.offers(1 - me)
        believed = beliefs(
            state.counts,
            mine,
            [take for _, take in claims],
            [aspiration(level, self._spoken(1 - me, i), chances) for i, _ in claims],
            [state.last_offer(me, before=i) for i, _ in claims],
        )
        said = len(state.talk)
        now = aspiration(level, self._spoken(1 - me, said), chances)
        last = aspiration(level, chances, chances) if said < self.messages - 2 else None
        take, hoped = best_offer(state.counts, mine, believed, now, last)
        if claims and worth(mine, rest(state.counts, claims[-1][1])) >= hoped - 1e-9:
            return DEAL
        return f"I take {describe(take)}."

    def expert(self, agent: str) -> str | None:
        """Bargains with whoever has the other seat, where that is known; else as "bargainer"."""
        (other,) = (name for name in self.possible_agents if name != agent)
        level = self.opponents.get(other)
        if agent not in self.acting or level not in ASPIRATIONS:
            return super().expert(agent)
        return self._bargain(agent, level)


env, raw_env, parallel_env = make_pettingzoo(DealOrNoDeal)
