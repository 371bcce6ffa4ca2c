"""DealOrNoDeal: two players negotiate how to divide some items."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.envs.negotiation.acceptance import accepts_in_words
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
    without_seats,
    worth,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.tasks import Tasks, draw_level, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain

DEAL = "deal"


@dataclass
class State:
    """State of an episode.

    Attributes:
        counts: number of items of each kind.
        values: values of the items for both players.
        starter: player who speaks first.
        talk: all messages.
        closed: player who ended the negotiation with "deal", if any.
        takes: final choices of both players, once they are made.
    """

    counts: Three
    values: tuple[Three, Three]
    starter: int
    talk: list[str] = field(default_factory=list)
    closed: int | None = None
    takes: list[Three] = field(default_factory=list)

    def offers(self, player: int) -> list[tuple[int, Three]]:
        """Returns the shares a player proposed to take, each with its message index."""
        own = range((player - self.starter) % 2, len(self.talk), 2)
        found = ((i, proposal(self.talk[i], self.counts)) for i in own)
        return [(i, take) for i, take in found if take is not None]

    def last_offer(self, player: int, before: int | None = None) -> Three | None:
        """Returns the last share a player proposed to take (before a message), or None."""
        made = [take for i, take in self.offers(player) if before is None or i < before]
        return made[-1] if made else None

    def standing(self) -> tuple[int, Three] | None:
        """Returns the player and the share of the last proposal, or None."""
        made = [(i, player, take) for player in (0, 1) for i, take in self.offers(player)]
        return max(made)[1:] if made else None


class DealOrNoDeal(TextGame):
    """Deal or No Deal: two players with private values negotiate how to divide some items.

    ## Description
    There are 1 to 4 books, hats and balls each, 5 to 7 items in total. Each player has private
    values for the items, which sum to 10 over all items. Every item has a positive value for at
    least one player, and some item for both. The players exchange free-form messages in turn until
    one sends "deal" or all messages are used. Then both choose at the same time the items that they
    take. There is a deal only if the two choices together are exactly all items. Messages are not
    binding.

    ## Action Space
    Text. In the negotiation: any message, which is put on one line and cut after 280 characters, or
    `deal`, which ends it. So does a message right after a proposal that only accepts it in other
    words, such as "I accept your offer." Then the items to take: `1 book, 0 hats, 2 balls`. Items
    that are not named are not taken.

    ## Observation Space
    Text: the items, their values for the agent, all messages, and the decision that the agent
    faces.

    ## Rewards
    Term `task`, at the end: the value of the agent's items divided by 10 if there is a deal,
    otherwise 0. Not zero-sum. An invalid action costs `invalid_penalty`.

    ## Starting State
    The task, for example `train/0` or `test/0`, determines the items, both players' values and the
    player who speaks first. No items with the same two values are in both splits.

    ## Episode End
    - Termination: both players have chosen their items.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid actions in a row the player takes random items.

    ## Information
    The common keys. `success`: there is a deal, and its value for the agent is at least that of the
    split with the largest product of both values (Nash's bargaining solution). `progress`: the
    value of the agent's share of a deal, divided by 10.

    ## Arguments
    - `messages` (int, default 10): maximum number of messages of both players together.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a random
      choice.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "steady"): the co-player's policy.
        - "soft", "steady", "stubborn": demand items of value 8, 10 and 10 at first, and 3, 5 and 8
          at their last message. They propose the split with this value that is best for the
          co-player, and keep a deal.
        - "bargainer": infers the co-player's values from its proposals and demands as much as it
          expects the co-player to accept.
        - "random": random messages and choices.

    The scripted players understand proposals such as "I take 1 book, 2 balls", "you get the hat,
    the rest is mine", "everything except a book for me" or "3 hats for you and 2 books for me". A
    message of which they cannot read every word about items, as with "or" and "at least", is
    delivered, but it is no proposal to them. The same holds for final choices, which are then
    invalid.

    ## Notes
    The expert is "bargainer" with knowledge of the co-player's demands.

    ## References
    Lewis et al., Deal or No Deal? End-to-End Learning for Negotiation Dialogues (EMNLP 2017,
    arXiv:1706.05125): the game, with other items and human dialogues.

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
            "You and another player negotiate how to divide books, hats and balls. Get items that "
            "are worth as much as possible to you.\n"
            "Rules:\n"
            "- Each player has private values for the items. For each player, all items together "
            f"are worth {TOTAL}.\n"
            f"- First you exchange messages in turn, at most {messages} in total, "
            f"{MAX_MESSAGE} characters at most per message.\n"
            "- Then both players choose at the same time the items that they take.\n"
            "Actions:\n"
            "- In the negotiation: any message. To propose a split, name the items you would "
            "take, for example: I take 1 book, 2 balls. The other player gets the rest.\n"
            "- deal: accept the other player's last proposal and end the negotiation\n"
            "- At the end: the items you take, for example: 1 book, 0 hats, 2 balls\n"
            "Scoring: if the two choices together are exactly all items, each player scores the "
            f"value of its items divided by {TOTAL}. Otherwise both score 0."
        )

    def _start(self, task: str) -> None:
        rng = task_rng(task)
        counts, first, second = draw_level(task, lambda: draw(rng), without_seats)
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
        prices = ", ".join(f"{item} {v}" for item, v in zip(ITEMS, mine, strict=True))
        lines = [f"Items: {describe(state.counts)}.", f"Value of each item to you: {prices}."]
        for i, message in enumerate(state.talk):
            speaker = "You" if (state.starter + i) % 2 == me else "Other player"
            lines.append(f"{speaker}: {message}")
        if state.closed is not None:
            lines.append(f"{'You' if state.closed == me else 'Other player'}: {DEAL}")
        if state.takes:
            taken = worth(mine, state.takes[me])
            ending = "There is no deal. You get nothing."
            if self._agreed():
                ending = f"There is a deal. The value of your items is {taken}."
            lines += [
                f"You took {describe(state.takes[me])}.",
                f"The other player took {describe(state.takes[1 - me])}.",
                ending,
            ]
            gain = taken if self._agreed() else 0
            least = fair_worth(state.counts, mine, state.values[1 - me])
            return TimeStep(
                "\n".join(lines), success=self._agreed() and gain >= least, progress=gain / TOTAL
            )
        if not self._talking():
            pairs = zip(state.counts, ITEMS, strict=True)
            ranges = ", ".join(f"0 to {n} {item}{'s' * (n != 1)}" for n, item in pairs)
            lines.append(f"Choose the items you take: {ranges}.")
            options = tuple(map(describe, splits(state.counts)))
            return TimeStep("\n".join(lines), admissible=options)
        left = self.messages - len(state.talk)
        if (state.starter + len(state.talk)) % 2 == me:
            lines.append(
                f"Send a message, or accept with: {DEAL} (messages left in total: {left})."
            )
        else:
            lines.append("It is the other player's turn.")
        return TimeStep("\n".join(lines))

    def privileged_text(self, agent: str) -> str:
        """Returns the items, their values and those of the last proposals for both players."""
        state, me = self.state, self.possible_agents.index(agent)

        def worths(player: int) -> str:
            take = state.last_offer(player)
            if take is None:
                return "none"
            shares = {player: take, 1 - player: rest(state.counts, take)}
            return " to ".join(str(worth(state.values[i], shares[i])) for i in (me, 1 - me))

        mine, theirs = (" ".join(map(str, state.values[i])) for i in (me, 1 - me))
        left = self.messages - len(state.talk) if self._talking() else 0
        return (
            f"Items: {describe(state.counts)}. Values to you: {mine}. To the other player: "
            f"{theirs}. Values of your proposal: {worths(me)}. Of the other player's: "
            f"{worths(1 - me)}. Messages left: {left}. Turn: {', '.join(self.acting) or 'nobody'}."
        )

    def _parse(self, agent: str, action: str) -> str:
        if self._talking():
            message = clip(action)
            if plain(message) == DEAL:
                return message if "?" in message else DEAL
            talk, counts = self.state.talk, self.state.counts
            offered = bool(talk) and proposal(talk[-1], counts) is not None
            return DEAL if offered and accepts_in_words(message) else message
        take = proposal(plain(clip(action)), self.state.counts, final=True)
        if take is None:
            raise InvalidMove(
                f"Invalid choice {action[:40]!r}. Expected the number of each item you take, out "
                f"of {describe(self.state.counts)}, for example: {describe((1, 0, 1))}."
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

    # Scripted players.

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        if not self._talking():
            return super()._random(agent, rng)
        if rng.random() < 0.25:
            return DEAL
        options = splits(self.state.counts)
        return f"I take {describe(options[int(rng.integers(len(options)))])}."

    def _spoken(self, player: int, messages: int) -> int:
        """Returns how many of the first `messages` messages are a player's."""
        return (messages + (player == self.state.starter)) // 2

    def _chances(self, player: int) -> int:
        """Returns how many messages a player can send in total."""
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
        """Returns the final choice of a scripted player.

        It keeps a deal. Without one, it follows the last proposal if that is its own or has at
        least the value `least`.
        """
        state, standing = self.state, self.state.standing()
        if standing is not None and standing[0] != me:
            left = rest(state.counts, standing[1])
            if state.closed == me or worth(state.values[me], left) >= least:
                return left
        return state.last_offer(me) or offer(state.counts, state.values[me], TOTAL, None)

    def _bargain(self, agent: str, level: str) -> str:
        """Infers the co-player's values and demands as much as it is expected to accept."""
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
        """Negotiates with the co-player's policy if it is known, otherwise as "bargainer"."""
        (other,) = (name for name in self.possible_agents if name != agent)
        level = self.opponents.get(other)
        if agent not in self.acting or level not in ASPIRATIONS:
            return super().expert(agent)
        return self._bargain(agent, level)


env, raw_env, parallel_env = make_pettingzoo(DealOrNoDeal)
