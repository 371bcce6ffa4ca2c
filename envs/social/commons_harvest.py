"""CommonsHarvest: a shared stock that recovers, if all who live on it hold back."""

from __future__ import annotations

import numpy as np

from agentgym.core import TimeStep
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
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, amount, clip, heard, proposal
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import NumberedTasks, Tasks, task_number

STORIES = {
    "fishery": ("tons of fish", "a lake", "catch"),
    "pasture": ("hectares of grass", "a common pasture", "graze"),
    "river": ("percent of clean water", "a river beside your factories", "use up"),
}
"""Unit, place and verb."""
AMOUNTS = tuple(str(number) for number in range(CAPACITY + 1))


class CommonsHarvest(TextGame):
    """Live together on a stock that doubles every month, unless it is used up.

    ## Description
    The commons of GovSim: five players, a stock of up to 100. Every month all say in private what
    they take. Then all see who got what and talk, and what is left doubles, up to 100; less than 5
    never recover. Taking more pays at once for one, holding back pays in the long run for all.

    ## Action Space
    Text: at the harvest a whole number from 0 to the stock; after it any text (put on one line and
    cut after 280 characters). With `messages=0` and `action_mode="discrete"`: the number.

    ## Observation Space
    Text: the month, the stock, what everybody took in the months so far, and what was said since
    the last harvest.

    ## Rewards
    Term `task`, after each harvest: what one got, divided by the number of months and by what each
    can take of a full stock for ever (10 of 100 for five players): a return of 1 is a full
    sustainable life, 1.083 what all can get who share everything in the last month.

    ## Starting State
    The task is the stock: `stock/100`, the reference's start, and even numbers down to 60 are for
    training, odd ones from 99 to 61 for testing.

    ## Episode End
    Termination: `months` harvests are over, or the stock collapses to less than 5. Truncation:
    after `max_turns` turns. After `max_invalid` invalid amounts in a row one takes nothing.

    ## Information
    The common keys; `success`: the stock lasted all months; `progress`: the part of the months that
    it lasted.

    ## Arguments
    `num_players`: 2 to 10; default 5. `months`: default 12. `messages`: how many times all may
    speak after a harvest; default 1. `story`: "fishery", "pasture" or "river". `announce_months`:
    whether the number of months is told; default false. `hint`: whether the sustainable share is
    told; default false. `max_turns`: default None. As a single seat: `seat` and `opponents`:
    "greedy" (wants everything), "overuser" (one and a half times the sustainable share),
    "sustainable" (that share), "grim" (that share, until the stock was overused), "follower" (the
    default: the smallest number named by those who have kept their word, else as "overuser"),
    "best_response" (guesses which of these the others are, and plans against that) or "random".

    ## Example Transcript
    ```
    Month 1, after the harvest: 26 tons of fish are left. Say something to the others.
    Month 1, of 100: you 10, player_1 16, player_2 16, player_3 16, player_4 16.
    > Next month, let each of us catch at most 2.
    Month 2. There are 52 tons of fish. How many do you catch? Say a whole number from 0 to 52.
    ```

    ## Baselines
    Mean return (share of successes) of a single seat, 100 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | 0.13 (0.00) | 0.06 (0.00) |
    | greedy | 0.12 (0.00) | 0.05 (0.00) |
    | overuser | 0.25 (0.00) | 0.18 (0.00) |
    | sustainable | 0.48 (0.00) | 0.93 (1.00) |
    | grim | 0.36 (0.00) | 0.93 (1.00) |
    | follower | 0.25 (0.00) | 0.86 (1.00) |

    The expert, "best_response", trusts others in the first month: against those who do not hold
    back, where the stock collapses at once, that costs it more than it can win.

    ## Registered Configurations
    `CommonsHarvest-v0`.

    ## References
    Piatti et al., Cooperate or Collapse: Emergence of Sustainable Cooperation in a Society of LLM
    Agents (GovSim, arXiv 2404.16698): numbers, phases, collapse, allocation by chance. There an
    agent chooses who speaks next and reflects in private; here all speak at the same time.

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
        if months < 1:
            raise ConfigError(f"months must be at least 1, got {months}.")
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
            f"{num_players} players share {place} with up to {CAPACITY} {self.unit}. Every month "
            f"all of them say at the same time, in private, how many {self.unit} they {self.verb}. "
            "If together they want more than there is, it is handed out unit by unit by chance. "
            f"What is left then doubles, up to {CAPACITY}; but if less than {COLLAPSE} are left, "
            "nothing recovers and the game is over for all. "
            + (
                f"It lasts {months} months at most. "
                if announce_months
                else "It lasts for a number of months that nobody knows. "
            )
            + f"Get as many {self.unit} as you can over the whole time. After a harvest all see "
            "who got what" + ", and can say something to all others: write it as it is, "
            f"{MAX_MESSAGE} characters at most"
            * bool(messages)
            + f". When asked how many {self.unit} you {self.verb}, say only a whole number."
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
            lines = [f"The game is over: the stock {'lasted' if lasted else 'is used up'}."]
        elif state.talking:
            lines = [
                f"Month {month}{limit}, after the harvest: {state.stock} {self.unit} are left. "
                "Say something to the others."
            ]
        else:
            lines = [
                f"Month {month + 1}{limit}. There are {state.stock} {self.unit}. How many do "
                f"you {self.verb}? Say a whole number from 0 to {state.stock}."
            ]
            if self.hint:
                fair = share(state.stock, len(self.possible_agents))
                lines.append(f"If each takes {fair}, the stock is as large again next month.")
        lines += self._past(agent)
        return TimeStep(
            text="\n".join(lines),
            success=lasted,
            progress=(month - (over and not lasted)) / self.months,
            admissible=() if state.talking else AMOUNTS[: state.stock + 1],
        )

    def _past(self, agent: str) -> list[str]:
        """Returns the months so far and what was said in the last one."""
        state = self.state
        names = ["you" if name == agent else name for name in self.possible_agents]
        lines = []
        for month, (stock, takes) in enumerate(zip(state.stocks, state.takes, strict=True), 1):
            got = ", ".join(f"{name} {take}" for name, take in zip(names, takes, strict=True))
            lines.append(f"Month {month}, of {stock}: {got}.")
        return lines + heard(state.talk, names)

    def _read(self, agent: str, said: str) -> str:
        if self.state.talking:
            return clip(said)
        return amount(said, self.state.stock)

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
        worth = self.months * share(CAPACITY, len(takes))
        return self._pay(take / worth for take in takes)

    def _named(self) -> list[int]:
        """Returns the smallest number each player has named since the last harvest; -1: none."""
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
        """Returns what a scripted player says after a harvest."""
        stock = grown(self.state.stock)
        if level == "best_response":
            number = self._best(me, stock, -2)
        elif level in ("sustainable", "grim"):
            number = share(stock, len(self.possible_agents))
        else:
            return "I will go along with what we agree on." if level == "follower" else ""
        return f"Next month, let each of us {self.verb} at most {number}."

    def _best(self, me: int, stock: int, agreement: int) -> int:
        """Returns what the expert takes, or names before a harvest: it keeps its word."""
        state, players = self.state, len(self.possible_agents)
        left = self.months - len(state.takes) if self.announce_months else EXPECTED_MONTHS
        best = best_take(state, me, players, stock, agreement, left)
        named = self._named()[me]
        return best if named < 0 or agreement == -2 or left == 1 else min(best, named)


env, raw_env, parallel_env = make_pettingzoo(CommonsHarvest)
