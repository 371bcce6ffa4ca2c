"""Self-play: one agent plays all seats of a game, such as a team."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from agentgym.evaluation.report import Record
from agentgym.evaluation.runner import check_no_split, plan_episodes
from agentgym.evaluation.tables import Table, play_tables
from agentgym.multiagent.seats import GameAgent, game_agent
from agentgym.registration.games import make_parallel
from agentgym.registration.registry import find


def self_play(
    env: str,
    agent: GameAgent,
    *,
    episodes: int | Sequence[str] = 100,
    split: str = "test",
    num_games: int = 16,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    only: Sequence[int] | None = None,
    on_game: Callable[[], None] | None = None,
) -> list[dict[str, Record]]:
    """Lets an agent play all seats of a game. All seats are asked in one batch.

    Args:
        env: id of the game.
        agent: an agent, a level of the game's scripted players, "expert" or another word for
            `make_agent`.
        episodes: number of games, or the task of each.
        split: "train" or "test".
        num_games: number of games played at the same time.
        seed: seed of the games.
        env_kwargs: arguments of the game.
        only: indices of the games to play, in the order of all. None: all.
        on_game: called after each game.

    Returns:
        The records of each game in order, by the seats that have acted.

    Raises:
        ConfigError: for an unknown game, agent or level, or a number that is out of range.
    """
    env, kwargs = find(env).id, dict(env_kwargs or {})
    check_no_split(kwargs)
    game = make_parallel(env, **kwargs).game
    plan = plan_episodes(game.tasks, episodes, split, seed)
    chosen = range(len(plan)) if only is None else only
    lineup = (0,) * len(game.possible_agents)
    found: dict[int, dict[str, Record]] = {}

    def finish(table: Table) -> None:
        found[table.deal] = table.records()
        if on_game is not None:
            on_game()

    waiting = (Table(make_parallel(env, **kwargs).game, lineup, i, *plan[i]) for i in chosen)
    play_tables(waiting, [game_agent(game, agent)], num_games, finish)
    return [found[i] for i in chosen]


def team_record(members: Sequence[Record]) -> Record:
    """Returns the record of a game from those of the agents that have acted.

    Reward, progress and valid actions are means over the agents, turns are those of the agent with
    most of them, and costs are sums. The team succeeds if all agents do.
    """
    costs: Counter[str] = Counter()
    for member in members:
        costs.update(member.costs)
    terms = members[0].reward_terms
    return replace(
        members[0],
        reward=fmean(each.reward for each in members),
        reward_terms={name: fmean(each.reward_terms[name] for each in members) for name in terms},
        success=all(each.success for each in members),
        progress=fmean(each.progress for each in members),
        turns=max(each.turns for each in members),
        valid=fmean(each.valid for each in members),
        terminated=all(each.terminated for each in members),
        truncated=any(each.truncated for each in members),
        costs=dict(costs),
        failure=next((each.failure for each in members if each.failure), ""),
        exploration={},
    )
