"""CommonsHarvest: a commons dilemma with messages, after GovSim."""

from __future__ import annotations

import numpy as np

from agentgym.envs.social.commons import (
    CAPACITY,
    COLLAPSE,
    EXPECTED_MONTHS,
    State,
    agreed,
    allot,
    best_take,
    grown,
    overused,
    share,
    wish,
)
from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, amount, clip, heard, proposal
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import NumberedTasks, Tasks, task_number
from agentgym.time_step import TimeStep

STORIES = {
    "fishery": ("tons of fish", "a lake", "catch"),
    "pasture": ("hectares of grass", "a common pasture", "graze"),
    "river": ("percent of clean water", "a river beside your factories", "use up"),
}
"""Unit, place and verb."""
ENOUGH = 0.5
"""Return of a player that counts as success if the stock lasts."""
AMOUNTS = tuple(str(number) for number in range(CAPACITY + 1))


class CommonsHarvest(TextGame):
    """Commons dilemma: players harvest a shared stock that doubles every month until it collapses.

    ## Description
    The commons of GovSim: five players share a stock of up to 100 units. Every month all players
    decide in private how much to take. Then all harvests are revealed, the players exchange
    messages, and the remaining stock doubles, up to 100. A stock of less than 5 does not recover.
    Taking more pays at once for the player, holding back pays in the long run for all.

    ## Action Space
    Text: at the harvest a whole number from 0 to the stock. In the message phase any text, which is
    put on one line and cut after 280 characters. With `messages=0` and `action_mode="discrete"`:
    the number.

    ## Observation Space
    Text: the month, the stock, all previous harvests, and the messages since the last harvest.

    ## Rewards
    Term `task`, after each harvest: the amount obtained, divided by the number of months and by the
    share that each player can take of a full stock indefinitely (10 of 100 for five players). A
    return of 1 is sustainable use over all months, and 1.083 is the return of all players if they
    also share the whole stock in the last month.

    ## Starting State
    The task is the initial stock: `stock/100`, the value of the reference, and even numbers down to
    60 are training tasks, odd numbers from 99 to 61 are test tasks.

    ## Episode End
    - Termination: `months` harvests are over, or the stock collapses to less than 5.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid amounts in a row the player takes nothing.

    ## Information
    The common keys. `success`: the stock lasts all months, and the agent has a return of at least
    0.5, so that taking nothing is no success. `progress`: the share of the months that the stock
    has lasted.

    ## Arguments
    - `num_players` (int, default 5): number of players, from 2 to 10.
    - `months` (int, default 12): number of harvests, 1 to 10,000.
    - `messages` (int, default 1): number of messages each player sends after a harvest.
    - `story` (str, default "fishery"): "fishery", "pasture" or "river".
    - `announce_months` (bool, default False): whether the players know the number of months.
    - `hint` (bool, default False): whether the observation shows the sustainable share.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid amounts in a row that lead to taking
      nothing.

    As a single seat:

    - `seat` (str or None, default None): the agent's name, such as "player_0", or None to sample
      one at each reset.
    - `opponents` (str or dict, default "follower"): the co-players' policy.
        - "greedy": requests the whole stock.
        - "overuser": requests one and a half times the sustainable share.
        - "sustainable": requests the sustainable share.
        - "grim": requests the sustainable share until the stock is overused, then an equal part of
          the stock.
        - "follower": requests the smallest number proposed by players that have kept their word.
          Without such a proposal it plays as "overuser".
        - "best_response": infers which of these policies the co-players follow and plans against
          them.
        - "random": uniformly random requests.

    ## Notes
    The expert, "best_response", trusts the co-players in the first month. If they do not hold back,
    the stock collapses at once, which costs the expert more than it can gain afterwards.

    ## References
    Piatti et al., Cooperate or Collapse: Emergence of Sustainable Cooperation in a Society of LLM
    Agents (GovSim, arXiv 2404.16698): numbers, phases, collapse, random allocation. There an agent
    chooses the next speaker and reflects in private. Here all players send messages at the same
    time.

    ## Version History
    v0: first version.
    """

    tasks = Tasks(
        NumberedTasks("stock/", range(100, 59, -2)), NumberedTasks("stock/", range(99, 60, -2))
    )
    players = range(2, 11)
    State = State
    state: State
    levels = ("random", "greedy", "overuser", "sustainable", "grim", "follower", "best_response")
    expert_level = "best_response"
    default_opponents = "follower"

    def __init__(
        self,
        *,
        num_players: int = 5,
        months: int = 12,
        messages: int = 1,
        story: str = "fishery",
        announce_months: bool = False,
        hint: bool = False,
        **kwargs,
    ):
        if not 1 <= months <= 10_000:
            raise ConfigError(f"months must be from 1 to 10,000, got {months}.")
        if messages < 0:
            raise ConfigError(f"messages must be at least 0, got {messages}.")
        if story not in STORIES:
            known = did_you_mean(story, STORIES)
            raise ConfigError(f"story must be one of {', '.join(STORIES)}, got {story!r}.{known}")
        super().__init__(num_players=num_players, **kwargs)
        self.months, self.messages, self.hint = months, messages, hint
        self.announce_months = announce_months
        self.unit, place, self.verb = STORIES[story]
        self.actions = () if messages else AMOUNTS
        self.instructions = (
            f"You are one of {num_players} players who share {place} with up to {CAPACITY} "
            f"{self.unit}. Get as many {self.unit} as you can over all months.\n"
            "Rules:\n"
            "- Every month all players decide at the same time, in private, how many "
            f"{self.unit} to {self.verb}.\n"
            "- If they request more than there is, the stock is allocated unit by unit at random.\n"
            f"- Then all players see all amounts{' and exchange messages' * bool(messages)}.\n"
            f"- The remaining stock doubles, up to {CAPACITY}. If less than {COLLAPSE} remain, it "
            "does not recover and the game ends for all.\n"
            + (
                f"- The game lasts at most {months} months.\n"
                if announce_months
                else "- The number of months is unknown.\n"
            )
            + "Actions:\n"
            + f"- When asked for a message: any text, {MAX_MESSAGE} characters at most.\n"
            * bool(messages)
            + f"- When asked how many {self.unit} you {self.verb}: a whole number, for example: 5"
        )

    def _start(self, task: str) -> None:
        self.state = State(task_number(task))

    def _over(self) -> bool:
        state = self.state
        return len(state.takes) == self.months or (bool(state.takes) and state.stock < COLLAPSE)

    def _acting(self) -> tuple[str, ...]:
        return () if self._over() else self.possible_agents

    def _look(self, agent: str) -> TimeStep:
        state, over = self.state, self._over()
        month = len(state.takes)
        lasted = month == self.months
        limit = f" of {self.months}" * self.announce_months
        if over:
            lines = [f"The game is over: the stock {'lasted' if lasted else 'collapsed'}."]
        elif state.talking:
            lines = [
                f"Month {month}{limit}, after the harvest: {state.stock} {self.unit} are left. "
                "Send a message to the other players."
            ]
        else:
            lines = [
                f"Month {month + 1}{limit}. There are {state.stock} {self.unit}. How many do "
                f"you {self.verb}? Answer with a whole number from 0 to {state.stock}."
            ]
            if self.hint:
                fair = share(state.stock, len(self.possible_agents))
                lines.append(f"If each player takes {fair}, the stock fully recovers.")
        lines += self._past(agent)
        return TimeStep(
            text="\n".join(lines),
            success=lasted and self._yield(agent) >= ENOUGH,
            progress=(month - (over and not lasted)) / self.months,
            admissible=() if state.talking else AMOUNTS[: state.stock + 1],
        )

    def _past(self, agent: str) -> list[str]:
        """Returns the lines of all previous harvests and of the messages since the last one."""
        state = self.state
        names = ["you" if name == agent else name for name in self.possible_agents]
        lines = []
        for month, (stock, takes) in enumerate(zip(state.stocks, state.takes, strict=True), 1):
            got = ", ".join(f"{name} {take}" for name, take in zip(names, takes, strict=True))
            lines.append(f"Month {month}, stock {stock}: {got}.")
        return lines + heard(state.talk, names)

    def _parse(self, agent: str, action: str) -> str:
        if self.state.talking:
            return clip(action)
        return amount(action, self.state.stock)

    def _fallback(self, agent: str) -> str:
        return "" if self.state.talking else "0"

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        said = [moves[agent] for agent in self.possible_agents]
        if state.talking:
            state.talk.append(said)
            if len(state.talk) == self.messages:
                state.talking, state.stock = False, grown(state.stock)
            return {}
        takes = allot([int(words) for words in said], state.stock, self.np_random)
        state.named.append(self._named())
        state.stocks.append(state.stock)
        state.takes.append(takes)
        state.talk.clear()
        state.stock -= sum(takes)
        if not self._over():
            state.talking = bool(self.messages)
            state.stock = state.stock if state.talking else grown(state.stock)
        return self._pay(take / self._worth for take in takes)

    @property
    def _worth(self) -> int:
        """The harvest of a player that always takes its share of a full, sustained stock."""
        return self.months * share(CAPACITY, len(self.possible_agents))

    def _yield(self, agent: str) -> float:
        """Returns the agent's harvest so far, as a fraction of `_worth`."""
        me = self.possible_agents.index(agent)
        return sum(takes[me] for takes in self.state.takes) / self._worth

    def _named(self) -> list[int]:
        """Returns the smallest number in each player's messages since the last harvest, or -1."""
        spoken = [
            proposal([said[i] for said in self.state.talk])
            for i in range(len(self.possible_agents))
        ]
        return [-1 if number is None else number for number in spoken]

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        return "" if self.state.talking else str(int(rng.integers(self.state.stock + 1)))

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state, players = self.state, len(self.possible_agents)
        me = self.possible_agents.index(agent)
        if state.talking:
            return self._speech(level, me)
        agreement = agreed(state.named, state.takes, self._named())
        if level == "best_response":
            return str(self._best(me, state.stock, agreement))
        broken = overused(state.stocks, state.takes)
        return str(wish(level, state.stock, players, broken, agreement))

    def _speech(self, level: str, me: int) -> str:
        """Returns the message of a scripted player after a harvest."""
        stock = grown(self.state.stock)
        if level == "best_response":
            number = self._best(me, stock, -2)
        elif level in ("sustainable", "grim"):
            number = share(stock, len(self.possible_agents))
        else:
            return "I will go along with what we agree on." if level == "follower" else ""
        return f"Next month, let each of us {self.verb} at most {number}."

    def _best(self, me: int, stock: int, agreement: int) -> int:
        """Returns the expert's harvest, at most the number it named, or the number it names."""
        state, players = self.state, len(self.possible_agents)
        left = self.months - len(state.takes) if self.announce_months else EXPECTED_MONTHS
        best = best_take(state, me, players, stock, agreement, left)
        named = self._named()[me]
        return best if named < 0 or agreement == -2 or left == 1 else min(best, named)


env, raw_env, parallel_env = make_pettingzoo(CommonsHarvest)
