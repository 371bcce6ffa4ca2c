"""`agentgym eval GAME --agents ...`: cross-play, ratings and NashConv as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from agentgym.cli.eval_output import tell_apart, write_json
from agentgym.cli.out_files import result_path
from agentgym.evaluation.crossplay import CrossPlay, cross_play, line_ups
from agentgym.evaluation.exploitability import NashConv, nashconv
from agentgym.evaluation.pictures import draw_cross_play
from agentgym.evaluation.report import Estimate
from agentgym.multiagent.seats import game_agent
from agentgym.registration.games import make_parallel
from agentgym.utils.printable import printable

NAME = 22
"""Characters of a line with the name of an agent."""
SIDE_BY_SIDE = 3
"""Agents whose returns are shown with intervals."""


def show_cross_play(
    env: str,
    agents: Sequence[str],
    *,
    console: Console,
    exact: bool,
    json: Path | None,
    picture: Path | None,
    env_kwargs: dict[str, Any],
    episodes: int,
    **settings: Any,
) -> int:
    """Plays the games and prints the tables. Returns the exit status.

    Args:
        env: id of the game.
        agents: words for the agents.
        console: where to print.
        exact: whether to compute NashConv of each agent.
        json: file for the result.
        picture: file for the matrix as a heat map.
        env_kwargs: arguments of the game.
        episodes: number of deals.
        **settings: further arguments of `cross_play`.
    """
    game = make_parallel(env, **env_kwargs).game
    players = [game_agent(game, word) for word in agents]
    tell_apart(players, agents)
    # Before the games: it refuses games that are too large.
    values = [nashconv(env, player, env_kwargs=env_kwargs) for player in players] if exact else []
    progress = Progress(console=Console(stderr=True), transient=True)
    progress.disable = not progress.console.is_terminal
    total = episodes * len(line_ups(len(players), len(game.possible_agents)))
    result: CrossPlay | None = None
    try:
        with progress:
            bar = progress.add_task(env, total=total)
            result = cross_play(
                env,
                players,
                env_kwargs=env_kwargs,
                episodes=episodes,
                on_match=lambda: progress.advance(bar),
                **settings,
            )
    except (Exception, KeyboardInterrupt) as error:
        result = getattr(error, "result", None)
        raise
    finally:  # the finished games are kept after any error
        if result is not None and result.matches:
            whole = len(result.matches) == total
            files = (path and result_path(path, whole=whole) for path in (json, picture))
            _show(result, values, console, *files)
            if not whole:
                console.print(f"Only {len(result.matches)} of {total} games were finished.")
    return 0


def _show(
    result: CrossPlay,
    values: Sequence[NashConv],
    console: Console,
    json: Path | None,
    picture: Path | None,
) -> None:
    """Prints the tables and writes the files."""
    if json is not None:  # before the tables, whose reader may have left
        found = result.to_json() | {"nashconv": [value.to_json() for value in values] or None}
        write_json(json, found)
    if picture is not None:
        draw_cross_play(result, picture)
    console.print(matrix_table(result))
    console.print()
    console.print(agent_table(result, values))
    if (gap := result.self_play_gap()) is not None:
        console.print(f"self-play minus cross-play: {gap:.3f}")


def matrix_table(result: CrossPlay) -> Table:
    """Returns the mean returns of rows against columns, over all seats.

    A table of more than `SIDE_BY_SIDE` agents has numbers as headings and no intervals, so that it
    fits into 80 columns.
    """
    deals = len({match.deal for match in result.matches})
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    names = [printable(name) for name in result.agents]
    caption = f"{deals} deals per line-up, each agent in all seats"
    if many := len(names) > SIDE_BY_SIDE:
        headings = [f"vs {number}" for number in range(1, len(names) + 1)]
        names = [f"{number} {name}" for number, name in enumerate(names, 1)]
    else:
        headings = [f"vs {name}" for name in names]
        caption += "; ±: 95 % confidence"
    env = result.env.removeprefix("AgentGym/")
    table.add_column(Text(f"return in {env}"), max_width=NAME, overflow="fold")
    for heading in headings:
        table.add_column(Text(heading), justify="right", overflow="fold")
    for name, row in zip(names, result.matrix(), strict=True):
        table.add_row(Text(name), *(_mean(cell) if many else _plus_minus(cell) for cell in row))
    table.caption, table.caption_justify = caption, "left"
    return table


def agent_table(result: CrossPlay, values: Sequence[NashConv]) -> Table:
    """Returns ratings, rates and NashConv, as far as there are any, one row per agent."""
    columns: dict[str, list[str]] = {}
    if len(result.agents) > 1:
        columns["Elo"] = [_between(rating) for rating in result.ratings()]
    if (rates := result.dilemma()) is not None:
        columns["cooperates %"] = [_percent(mine) for mine, _ in rates]
        columns["exploits %"] = [_percent(taken) for _, taken in rates]
    if values:
        columns["NashConv"] = [f"{value.nashconv:.4f}" for value in values]
        columns["exploitability"] = [f"{value.exploitability:.4f}" for value in values]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("agent", max_width=NAME, overflow="fold")
    for title in columns:
        table.add_column(title, justify="right")
    for name, *cells in zip(result.agents, *columns.values(), strict=True):
        table.add_row(Text(printable(name)), *cells)
    return table


def _between(rating: Estimate) -> str:
    if rating.low is None or rating.high is None:
        return f"{rating.mean:.0f}"
    return f"{rating.mean:.0f} [{rating.low:.0f}, {rating.high:.0f}]"


def _percent(rate: float) -> str:
    return "" if math.isnan(rate) else f"{100 * rate:.1f}"


def _mean(cell: Estimate) -> str:
    return "" if math.isnan(cell.mean) else f"{cell.mean:.2f}"


def _plus_minus(cell: Estimate) -> str:
    if math.isnan(cell.mean):
        return ""
    if cell.high is None:
        return f"{cell.mean:.3f}"
    return f"{cell.mean:.3f} ± {cell.high - cell.mean:.3f}"
