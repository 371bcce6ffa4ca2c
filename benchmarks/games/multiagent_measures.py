"""The measures of the multi-agent experiments: numbers and curves for the folder of a run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.agents import Agent, MixedAgent
from agentgym.evaluation import cross_play, nashconv
from agentgym.evaluation.runner import plan_episodes
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import GameAgent, game_agent, refresh, seat_view
from agentgym.registration.games import make_parallel
from agentgym.registration.registry import find
from agentgym.tasks import task_rng
from agentgym.trainers.players.loading import load_league
from agentgym.trainers.players.pool import Pool
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.run.logger import read_metrics

Measures = dict[str, float]
Points = list[tuple[int, float]]
"""A curve: (iteration or environment steps, value)."""
GAMES = 100
"""Games per line-up of a measure."""
LAST = 5
"""Iterations at the end of a run over which training metrics are averaged."""


def config_of(folder: Path) -> dict[str, Any]:
    """Returns the settings of a run by their flat names."""
    found = json.loads((folder / "config.json").read_text(encoding="utf-8"))["config"]
    return {"env_kwargs": {}, **found}  # arguments that are empty are not listed


# Games between agents.


def play_games(
    env: str,
    players: Sequence[GameAgent],
    episodes: int,
    env_kwargs: Mapping[str, Any] | None = None,
) -> list[TextGame]:
    """Plays games with a player in each seat, all at once, and returns the finished games.

    Args:
        env: the id of the game.
        players: an agent, a level or a word for `game_agent` for each seat.
        episodes: number of games, each with a test task of its own.
        env_kwargs: arguments of the game.
    """
    make = lambda: make_parallel(find(env).id, **(env_kwargs or {})).game  # noqa: E731
    plan = plan_episodes(make().tasks, episodes, "test", 0)
    games = [make() for _ in plan]
    views = []
    for game, (task, seed) in zip(games, plan, strict=True):
        game.reset(seed=seed, task=task)
        rngs = {agent: task_rng(task, f"agent/{seed}/{agent}") for agent in game.possible_agents}
        views.append({agent: seat_view(game, agent, rng) for agent, rng in rngs.items()})
    named = [game_agent(games[0], player) for player in players]
    while any(game.acting for game in games):
        actions: list[dict[str, str]] = [{} for _ in games]
        for agent, player in zip(games[0].possible_agents, named, strict=True):
            asked = [i for i, game in enumerate(games) if agent in game.acting]
            for i in asked:
                refresh(views[i][agent])
            found = player.act([views[i][agent] for i in asked]) if asked else []
            for i, action in zip(asked, found, strict=True):
                actions[i][agent] = action
                view = views[i][agent]
                view.history.append((view.observation, action))
        for game, chosen in zip(games, actions, strict=True):
            if chosen:
                game.play(chosen)
    return games


def successes(games: Sequence[TextGame], agent: str = "player_0") -> float:
    """Returns the share of finished games in which an agent has success."""
    return statistics.fmean(float(game.info(agent)["success"]) for game in games)


# Games with a known equilibrium.


def exploitability(folder: Path) -> Measures:
    """Returns NashConv in one hand of poker: of the last policy and of the average policy."""
    last, average = load_agent(str(folder)), load_league(str(folder))
    return {
        "NashConv, last": _nashconv(folder, last),
        "NashConv, average": _nashconv(folder, average),
        "members": float(len(average.members)),
    }


def exploitability_curve(folder: Path) -> Points:
    """Returns NashConv in one hand of poker of each snapshot in the pool of a run."""
    agent = load_agent(str(folder))
    assert isinstance(agent, PolicyAgent)
    pool = Pool(folder, agent.policy.requires_grad_(False))
    found = []
    for number in sorted(int(each.name) for each in (folder / "pool").glob("[0-9]*")):
        [policy] = pool.load([number]).values()
        member = PolicyAgent(policy, agent.settings, agent.sampling, constrain=agent.constrain)
        found.append((number, _nashconv(folder, member)))
    return found


def _nashconv(folder: Path, agent: Agent | MixedAgent) -> float:
    config = config_of(folder)
    return nashconv(config["env_id"], agent, env_kwargs=config["env_kwargs"]).nashconv


def tictactoe(folder: Path) -> Measures:
    """Returns NashConv and the shares of games that the policy loses, from the empty board.

    It makes its most probable moves, in both seats.
    """
    agent, rules = load_agent(str(folder), temperature=0.0), config_of(folder)["env_kwargs"]
    found: Measures = {"NashConv": nashconv("TicTacToe-v0", agent, env_kwargs=rules).nashconv}
    for level, games in (("random", 500), ("optimal", 100)):
        result = cross_play(
            "TicTacToe-v0",
            [agent, level],
            episodes=["opening/"] * (games // 2),
            env_kwargs=rules,
            self_play=False,
        )
        returns = [m.returns[m.lineup.index(0)] for m in result.matches]
        found[f"wins against {level}"] = sum(r > 0 for r in returns) / games
        found[f"losses against {level}"] = sum(r < 0 for r in returns) / games
    return found


# Teams.


def metric_curve(folder: Path, metric: str) -> Points:
    """Returns a metric of the iterations of a run over environment steps."""
    return [(row["env_steps"], row[metric]) for row in read_metrics(folder) if metric in row]


def cooks(folder: Path) -> Measures:
    """Returns the salads that a pair of cooks serves on test tasks, with the partner of training.

    The pair is two copies of the policy after `opponents mirror`, otherwise the policy and the
    scripted cook, in both seats.
    """
    config, agent = config_of(folder), load_agent(str(folder))
    level = config["opponents"].partition(":")[2]
    pairs = [(agent, level), (level, agent)] if level else [(agent, agent)]
    games = [
        game
        for pair in pairs
        for game in play_games(config["env_id"], pair, GAMES // len(pairs), config["env_kwargs"])
    ]
    steps = [game.state.steps for game in games]
    served = [game.state.served for game in games]
    return {
        "served": statistics.fmean(served),
        "steps": statistics.fmean(steps),
        "served per 100 steps": 100 * sum(served) / sum(steps),
    }


def team_success(folder: Path) -> Measures:
    """Returns the success of the policy in all seats, and the steps of its training."""
    config, agent = config_of(folder), load_agent(str(folder))
    seats = len(make_parallel(config["env_id"], **config["env_kwargs"]).possible_agents)
    games = play_games(config["env_id"], [agent] * seats, GAMES, config["env_kwargs"])
    steps = [row["env_steps"] for row in read_metrics(folder)]
    return {"success": successes(games), "environment steps": max(steps, default=0)}


def referential(folder: Path) -> Measures:
    """Returns the success of the policy in both seats, and in each seat beside a scripted player.

    Success before RL is that of the first iteration, whose games the cloned policy plays. The
    pragmatic players are those of the demonstrations. Together they always succeed in scenes of
    three objects with four values per attribute.
    """
    config, agent = config_of(folder), load_agent(str(folder))
    pairs: dict[str, tuple[GameAgent, GameAgent]] = {
        "success": (agent, agent),
        "speaks to pragmatic": (agent, "pragmatic"),
        "hears pragmatic": ("pragmatic", agent),
    }
    play = partial(play_games, config["env_id"], episodes=4 * GAMES)
    rules = config["env_kwargs"]
    found = {name: successes(play(pair, env_kwargs=rules)) for name, pair in pairs.items()}
    first = [row["rollout/success"] for row in read_metrics(folder)[:1]]
    return found | {"success before RL": (first or [found["success"]])[0]}


def cross_play_of_seeds(folders: Sequence[Path]) -> Measures:
    """Returns the mean return of policies of one seed, and of mixed pairs of different seeds."""
    config, agents = config_of(folders[0]), [load_agent(str(folder)) for folder in folders]
    result = cross_play(config["env_id"], agents, episodes=GAMES, env_kwargs=config["env_kwargs"])
    means = np.array([[cell.mean for cell in row] for row in result.matrix()])
    own = np.eye(len(agents), dtype=bool)
    return {"self-play": float(means[own].mean()), "cross-play": float(means[~own].mean())}


def codenames(folder: Path) -> Measures:
    """Returns the share of boards that the red team wins against a blue team of each level."""
    config, agent = config_of(folder), load_agent(str(folder))
    rules = {k: v for k, v in config["env_kwargs"].items() if k != "opponents"}
    return {
        f"wins against {level}": successes(
            play_games(config["env_id"], [agent, agent, level, level], GAMES, rules)
        )
        for level in ("random", "literal")
    }


def two_scales(folder: Path) -> Measures:
    """Returns, by role, right answers of the last iterations and the mean norm of gradients."""
    rows = read_metrics(folder)
    found: Measures = {}
    for role in ("player_0", "player_1"):
        last = [row[f"rollout/{role}/success"] for row in rows[-LAST:]]
        norms = [row[f"losses/{role}/policy_grad_norm"] for row in rows]
        found[f"right, {role}"] = statistics.fmean(last)
        found[f"right over the run, {role}"] = statistics.fmean(
            row[f"rollout/{role}/success"] for row in rows
        )
        found[f"gradient norm, {role}"] = statistics.fmean(norms)
    return found


# Dilemmas.


def dilemma(folder: Path) -> Measures:
    """Returns cooperation and payoffs of a policy in the iterated prisoner's dilemma.

    Exploitability is half of NashConv in the shortest match. The payoff per round of a defector
    against the policy is 5 if the policy always cooperates, and near 1 if it retaliates.
    """
    config, agent = config_of(folder), load_agent(str(folder))
    env, kwargs = config["env_id"], config["env_kwargs"]
    tasks = [f"rounds/{4 + 2 * (i % config['train_tasks'])}" for i in range(GAMES)]
    play = partial(cross_play, env, episodes=tasks, split="train", env_kwargs=kwargs)
    own, against = play([agent]), play([agent, "defect"])
    rates = own.dilemma()
    assert rates is not None
    found = {
        "cooperation": rates[0][0],
        "payoff": own.matrix()[0][0].mean,
        "payoff of a defector": against.matrix()[1][0].mean,
    }
    return found | {"exploitability": nashconv(env, agent, env_kwargs=kwargs).exploitability}
