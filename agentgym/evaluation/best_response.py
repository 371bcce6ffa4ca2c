"""A lower bound of exploitability from games, for games that are too large for NashConv.

Each seat in turn deviates from the agent: to a scripted level, to a given agent, or to a best
response that is estimated from games. The deviation is chosen in one half of the deals and valued
in the other, because the value of the best of several estimates is biased upwards on the games that
chose it. Any deviation gains at most as much as a best response, so that the gains bound it from
below (as local best responses do, Lisý & Bowling, arXiv 1612.07547).
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.agents import Agent, ScriptedAgent, View
from agentgym.errors import ConfigError
from agentgym.evaluation.exploitability import Floats, action_probabilities
from agentgym.evaluation.report import Estimate, mean_interval
from agentgym.evaluation.runner import check_no_split, plan_episodes
from agentgym.evaluation.tables import Table, play_tables
from agentgym.multiagent.seats import GameAgent, game_agent
from agentgym.registration.games import make_parallel
from agentgym.registration.registry import find

FEWEST_GAMES = 16
"""Games per seat below which no deviation can be chosen and valued."""
ITSELF = "itself"
"""Name of the deviation that plays as the agent."""

Key = tuple[str, tuple[tuple[str, str], ...], str]
"""A seat, the (observation, action) of its earlier turns, and its current observation."""


@dataclass(frozen=True)
class Bound:
    """The result of `exploitability_bound`.

    Attributes:
        env: the id of the game.
        agent: name of the agent.
        exploitability: mean gain of the chosen deviations over the seats, with its interval.
        deviations: name of the chosen deviation of each seat.
        margins: mean return of each given agent in one seat among copies of the agent.
        scale: difference between the largest and the smallest return of a seat in the games with
            random actions.
    """

    env: str
    agent: str
    exploitability: Estimate
    deviations: tuple[str, ...]
    margins: Mapping[str, Estimate]
    scale: float


def exploitability_bound(
    env: str,
    agent: GameAgent,
    *,
    games: int = 2000,
    against: Sequence[Agent] = (),
    split: str = "test",
    seed: int = 0,
    num_games: int = 256,
    env_kwargs: Mapping[str, Any] | None = None,
    on_game: Callable[[], None] | None = None,
) -> Bound:
    """Returns a lower bound of the exploitability of an agent that plays all seats of a game.

    Of the deals of a seat, 3/8 are played with random actions in it, from which a best response is
    estimated, and 1/8 by each candidate, of which the one with the highest return is chosen. The
    gain of the chosen one over the agent, in the other half of the deals, is the bound.

    The game is played from the starts of its tasks. Agents that have probabilities, and act on the
    admissible actions only, are asked once per information set.

    Args:
        env: id of the game.
        agent: the agent in all seats, as in `cross_play`.
        games: number of deals, in equal parts for all seats.
        against: further candidates, such as earlier policies, with names of their own.
        split: "train" or "test".
        seed: seed of the deals.
        num_games: number of games played at the same time.
        env_kwargs: arguments of the game.
        on_game: called after each game.

    Raises:
        ConfigError: for an unknown game or agent, or too few games.
    """
    env, kwargs = find(env).id, dict(env_kwargs or {})
    check_no_split(kwargs)
    game = make_parallel(env, **kwargs).game
    count = games // len(game.possible_agents)
    if count < FEWEST_GAMES:
        raise ConfigError(
            f"games must be at least {FEWEST_GAMES * len(game.possible_agents)} for the "
            f"{len(game.possible_agents)} seats of {env}, got {games}."
        )
    plan = plan_episodes(game.tasks, count, split, seed)
    order = np.random.default_rng(seed).permutation(count)
    made = game_agent(game, agent)
    trial = _Trial(
        env, kwargs, _Asked(made), [plan[int(i)] for i in order], num_games, on_game or _nothing
    )
    levels = [ScriptedAgent(level) for level in game.levels]
    return trial.bound(made.name, [*levels, *against])


def _nothing() -> None:
    """Is the default of `on_game`."""


class _Asked:
    """An agent whose action probabilities are asked once per information set, if it has them.

    Args:
        agent: the agent.
    """

    def __init__(self, agent: Agent):
        self.name, self._agent = agent.name, agent
        # An agent that is not constrained may take other actions than those with probabilities.
        self._asks = bool(getattr(agent, "constrain", False))
        self._alone = bool(getattr(agent, "memoryless", False))
        self._known: dict[Any, Floats] = {}

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        if self._asks and all(view.info["admissible"] for view in views):
            try:
                return self._sampled(views)
            except ConfigError:  # a search or a judge has none
                self._asks = False
        return self._agent.act(views)

    def _sampled(self, views: Sequence[View]) -> list[str]:
        keys = [self._key(view) for view in views]
        new = {k: v for k, v in zip(keys, views, strict=True) if k not in self._known}
        if new:
            found = action_probabilities(self._agent, [*new.values()])
            self._known |= zip(new, found, strict=True)
        chosen = [view.rng.choice(len(self._known[k]), p=self._known[k]) for k, view in
                  zip(keys, views, strict=True)]  # fmt: skip
        pairs = zip(views, chosen, strict=True)
        return [view.info["admissible"][int(number)] for view, number in pairs]

    def _key(self, view: View) -> Any:
        past = () if self._alone else tuple(view.history)
        return (*_seat(view), past, view.observation, tuple(view.info["admissible"]))


def _seat(view: View) -> tuple[str, str]:
    """Returns the seat of a view, and its instructions."""
    return view.env.get_wrapper_attr("agent"), view.instructions


class EmpiricalResponse:
    """The best response to an agent by the mean returns of games with random actions in a seat.

    In information sets that these games have not reached, it acts as the agent.

    Args:
        agent: the agent.
        seat: the seat that deviates.
        games: the finished games with random actions in the seat.
    """

    name = "best response"

    def __init__(self, agent: Agent, seat: str, games: Sequence[Table]):
        self._agent, self._best = agent, _backward_induction(seat, games)

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        found = [self._best.get(_key(view)) for view in views]
        rest = [view for view, action in zip(views, found, strict=True) if action is None]
        others = iter(self._agent.act(rest) if rest else [])
        return [next(others) if action is None else action for action in found]


def _key(view: View) -> Key:
    return view.env.get_wrapper_attr("agent"), tuple(view.history), view.observation


def _backward_induction(seat: str, games: Sequence[Table]) -> dict[Key, str]:
    """Returns the action with the highest mean return in each information set of a seat.

    The value of an action is the mean, over the games that took it, of its reward plus the value of
    the next information set. A seat's own random actions depend on nothing that it does not see, so
    that these means hold for any strategy that reaches the set.
    """
    logs = [table.logs[seat] for table in games]
    histories = [tuple(log.view.history) for log in logs]
    best: dict[Key, str] = {}
    values: dict[Key, float] = {}
    for turn in reversed(range(max(map(len, histories), default=0))):
        returns: dict[Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for log, history in zip(logs, histories, strict=True):
            if turn < len(history):
                observation, action = history[turn]
                later = 0.0
                if turn + 1 < len(history):
                    later = values[seat, history[: turn + 1], history[turn + 1][0]]
                key = seat, history[:turn], observation
                returns[key][action].append(log.rewards[turn] + later)
        for key, actions in returns.items():
            means = {action: statistics.fmean(found) for action, found in actions.items()}
            best[key] = max(means, key=means.__getitem__)
            values[key] = means[best[key]]
    return best


@dataclass
class _Trial:
    """The games of a bound.

    Attributes:
        env: the id of the game.
        kwargs: its arguments.
        agent: the agent in the seats that do not deviate.
        deals: the task and the seed of each deal.
        num_games: number of games played at the same time.
        on_game: called after each game.
    """

    env: str
    kwargs: dict[str, Any]
    agent: Agent
    deals: list[tuple[str, int]]
    num_games: int
    on_game: Callable[[], None]

    def bound(self, name: str, candidates: Sequence[Agent]) -> Bound:
        """Returns the bound with further candidates beside the estimated best response."""
        half, explored = len(self.deals) // 2, 3 * len(self.deals) // 8
        explore, select = range(explored), range(explored, half)
        value = range(half, len(self.deals))
        itself = self._play(None, self.agent, [*select, *value])
        own = [[table.logs[seat].total for table in itself] for seat in itself[0].logs]
        gains, chosen, sides = np.zeros(len(value)), [], []
        margins: dict[str, list[float]] = {each.name: [] for each in candidates}
        for place, seat in enumerate(itself[0].logs):
            games = self._play(seat, ScriptedAgent("random"), explore)
            sides += [log.total for table in games for log in table.logs.values()]
            response: Agent = EmpiricalResponse(self.agent, seat, games)
            means: list[tuple[float, Agent]] = [(statistics.fmean(own[place]), self.agent)]
            for each in (response, *candidates):
                found = self._returns(seat, each, select)
                means.append((statistics.fmean(found), each))
                margins.setdefault(each.name, []).extend(found)
            _, best = max(means, key=lambda pair: pair[0])
            chosen.append(ITSELF if best is self.agent else best.name)
            if best is not self.agent:
                gains += np.subtract(self._returns(seat, best, value), own[place][len(select) :])
        return Bound(
            self.env,
            name,
            mean_interval((gains / len(own)).tolist()),
            tuple(chosen),
            {key: mean_interval(found) for key, found in margins.items()},
            max(sides) - min(sides),
        )

    def _returns(self, seat: str, deviation: Agent, deals: Sequence[int]) -> list[float]:
        return [table.logs[seat].total for table in self._play(seat, deviation, deals)]

    def _play(self, seat: str | None, deviation: Agent, deals: Sequence[int]) -> list[Table]:
        """Plays deals with a deviation in a seat (None: in none), and returns the ended games."""
        found: dict[int, Table] = {}

        def finish(table: Table) -> None:
            found[table.deal] = table
            self.on_game()

        def table(deal: int) -> Table:
            game = make_parallel(self.env, **self.kwargs).game
            lineup = tuple(int(agent == seat) for agent in game.possible_agents)
            return Table(game, lineup, deal, *self.deals[deal])

        play_tables(map(table, deals), [self.agent, deviation], self.num_games, finish)
        return [found[deal] for deal in deals]
