"""Group-relative estimators on recurring states: gradients against the exact one, and learning.

The worlds are random graphs of 16 states and 4 actions with a reward of 1 at the goal and none
elsewhere. The policy is a table of logits. In a slippery world, another action may take the place
of the chosen one.

Gradients, for a fixed policy: the cosine with the exact gradient of the mean estimate ("bias": 1 is
none), the mean cosine of the estimates of single groups ("group", bias and noise), and the same for
groups without a success ("failing"). Learning: the success rate after updates of one group each,
with Adam, from policies that succeed in 3 to 20 % of the episodes. In the last world, the shortest
path is a gamble that wins with one half, and a safe path is longer.

Estimators have the settings of their recipes, advantages of GAGPO are standardised per group.
"Exact values" are those of a perfect critic (`turn`). "Exact distances" take the place of those of
the graph in GraphGPO, as an expert that plays on optimally gives them. Prints tables, writes JSON.

    python benchmarks/credit/graph_oracle.py [--worlds 24]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.trainers.credit.graph import G2PO, GAGPO, Edges, GraphGPO
from agentgym.trainers.credit.group import HGPO, GiGPO, grpo
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.credit.two_clock import turn
from agentgym.trainers.data.batch import Batch, Credit, Values
from benchmarks.credit.graph_world import (
    Array,
    GraphWorld,
    Played,
    gamble_world,
    play,
    probabilities,
    random_world,
)
from benchmarks.shared.result_files import RESULTS, settings_of, write

Estimator = Callable[[Batch, Values], Credit]

# Probability of a slip, and how much the policy prefers shorter paths.
GRADIENTS = {"rare success": (0.0, -0.5), "frequent success": (0.0, 0.0), "slips": (0.3, 0.0)}
LEARNING = {"no slips": 0.0, "slips": 0.3}
GAMBLE = "gamble"
START = (0.03, 0.2)
"""Success rates of the policies that learn."""


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        worlds: worlds, or runs in the world with the gamble.
        groups: groups of the gradients of a world.
        episodes: episodes of a group.
        updates: updates after which the success rate is measured, in ascending order.
        lr: learning rate of Adam.
        gamble: odds of the gamble.
        seed: seed of the worlds and the episodes.
        out: folder of the results.
    """

    worlds: int = 24
    groups: int = 150
    episodes: int = 8
    updates: tuple[int, ...] = (20, 60)
    lr: float = 0.1
    gamble: float = 0.5
    seed: int = 0
    out: Path = RESULTS


def estimators(world: GraphWorld) -> dict[str, Estimator]:
    """Returns the estimators by row."""

    def exact(batch: Batch, edges: Edges) -> Float64:
        known = [0 if node.kind == "success" else int(node.key) for node in edges.nodes]
        finite = np.where(np.isfinite(world.distance), world.distance, len(world.distance))
        return finite[known]

    return {
        "GRPO": grpo(),
        "GiGPO": GiGPO(),
        "HGPO": HGPO(),
        "GAGPO": standardised(GAGPO(lambda_=0.5)),
        "GAGPO, lambda 0.95": standardised(GAGPO(lambda_=0.95)),
        "GAGPO, lambda 0": standardised(GAGPO(lambda_=0.0)),
        "G2PO": G2PO(),
        "GraphGPO": GraphGPO(),
        "GraphGPO, omega 0.1": GraphGPO(0.1),
        "GraphGPO, F = 1": GraphGPO(scale=False),
        "GraphGPO, exact distances": GraphGPO(distance=exact),
        "turn GAE, exact values": turn(1.0, 0.95),
    }


def standardised(estimator: Estimator) -> Estimator:
    """Returns an estimator whose advantages are standardised per group."""
    return lambda batch, values: normalize_advantages(estimator(batch, values), batch, "group")


def advantages(estimator: Estimator, played: Played, values: Array) -> Array:
    """Returns the advantage of each turn [M]."""
    return estimator(played.batch, played.critic(values)).advantages.astype(np.float64)


def cosine(one: Array, other: Array) -> float:
    """Returns the cosine between two gradients, 0 if one of them is 0."""
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float((one * other).sum() / norms) if norms > 1e-12 else 0.0


def gradients(settings: Settings, slip: float, pull: float) -> dict[str, dict[str, list[float]]]:
    """Returns the cosines of each estimator, one for each world, and the success rates."""
    found: dict[str, dict[str, list[float]]] = {}
    for number in range(settings.worlds):
        rng = np.random.default_rng([settings.seed, number, int(10 * slip), int(10 * abs(pull))])
        world = random_world(rng, slip)
        policy = probabilities(preferences(world, pull, rng))
        played = play(world, policy, settings.groups, settings.episodes, rng)
        truth, values = world.gradient(policy), world.values(policy)
        wins = np.array([t.success for t in played.batch.trajectories], float)
        fails = wins.reshape(settings.groups, -1).sum(-1) == 0
        for name, estimator in estimators(world).items():
            each = played.gradients(policy, advantages(estimator, played, values), settings.groups)
            cosines = np.array([cosine(x, truth) for x in each])
            row = {
                "bias": cosine(each.mean(0), truth),
                "group": float(cosines.mean()),
            } | ({"failing": float(cosines[fails].mean())} if fails.any() else {})
            for key, value in row.items():
                found.setdefault(name, {}).setdefault(key, []).append(value)
        found.setdefault("", {}).setdefault("success", []).append(float(wins.mean()))
    return found


def preferences(world: GraphWorld, pull: float, rng: np.random.Generator) -> Array:
    """Returns random logits [S, A], with a preference for actions that come closer to the goal."""
    states, actions = world.moves.shape[:2]
    return rng.normal(0.0, 0.7, (states, actions)) - pull * (world.moves @ world.distance)


def learners(settings: Settings, slip: float) -> Iterator[tuple[GraphWorld, Array, int]]:
    """Yields worlds, logits that seldom succeed in them, and a seed."""
    number = left = 0
    while left < settings.worlds:
        number += 1
        rng = np.random.default_rng([settings.seed, number, int(10 * slip)])
        world = random_world(rng, slip)
        logits = preferences(world, -0.5, rng)
        if START[0] <= world.values(probabilities(logits))[0, world.start] <= START[1]:
            left += 1
            yield world, logits, number


def learn(
    settings: Settings, world: GraphWorld, logits: Array, estimator: Estimator, seed: int
) -> list[float]:
    """Returns the success rates after `settings.updates`."""
    rng, rates = np.random.default_rng([settings.seed, seed]), []
    mean, square = np.zeros_like(logits), np.zeros_like(logits)
    for number in range(1, settings.updates[-1] + 1):
        policy = probabilities(logits)
        played = play(world, policy, 1, settings.episodes, rng)
        credit = advantages(estimator, played, world.values(policy))
        [gradient] = played.gradients(policy, credit / len(credit), 1)
        if np.abs(gradient).max() > 1e-9:  # the moments of Adam would go on without one
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.99 * square + 0.01 * gradient**2
            step = mean / (1 - 0.9**number) / (np.sqrt(square / (1 - 0.99**number)) + 1e-5)
            logits = logits + settings.lr * step
        if number in settings.updates:
            rates.append(float(world.values(probabilities(logits))[0, world.start]))
    return rates


def learning(settings: Settings) -> dict[str, dict[str, list[list[float]]]]:
    """Returns the success rates of each estimator in each kind of world, by run."""
    worlds = {name: [*learners(settings, slip)] for name, slip in LEARNING.items()}
    gamble = gamble_world(settings.gamble)
    zeros = np.zeros(gamble.moves.shape[:2])
    worlds[GAMBLE] = [(gamble, zeros, number) for number in range(settings.worlds)]
    return {
        kind: {
            name: [
                learn(settings, world, logits, estimators(world)[name], seed)
                for world, logits, seed in some
            ]
            for name in estimators(gamble)
        }
        for kind, some in worlds.items()
    }


def summary(values: list[float]) -> dict[str, float]:
    """Returns the mean over worlds and its standard error."""
    error = float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "error": error}


def report(settings: Settings) -> dict[str, dict]:
    """Returns the results of all worlds: means over worlds, and their standard errors."""
    cosines = {
        kind: {
            name: {key: summary(values) for key, values in row.items()}
            for name, row in gradients(settings, *how).items()
        }
        for kind, how in GRADIENTS.items()
    }
    rates = {
        kind: {
            name: {
                str(update): summary([run[n] for run in runs])
                for n, update in enumerate(settings.updates)
            }
            for name, runs in rows.items()
        }
        for kind, rows in learning(settings).items()
    }
    success = {kind: rows.pop("")["success"]["mean"] for kind, rows in cosines.items()}
    return {"success": success, "gradients": cosines, "learning": rates}


def tabulate(title: str, rows: dict[str, dict[str, dict[str, float]]]) -> Table:
    """Returns a table of means with their standard errors."""
    table = Table(title=title)
    table.add_column("estimator")
    for key in next(iter(rows.values())):
        table.add_column(key, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(f"{x['mean']:.2f} ({x['error']:.2f})" for x in row.values()))
    return table


def main(settings: Settings) -> None:
    """Measures, prints tables and writes JSON."""
    console, found = Console(width=110), report(settings)
    for part in ("gradients", "learning"):
        for kind, rows in found[part].items():
            console.print(tabulate(f"{part}: {kind}", rows))
    settings.out.mkdir(parents=True, exist_ok=True)
    write(settings.out / "graph_oracle.json", {"settings": settings_of(settings)} | found)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
