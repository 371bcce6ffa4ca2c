"""Which estimators are unbiased? Estimated against exact advantages in a world that can be solved.

The world: a few states, up to four turns, actions of one to six tokens (two words and an end token)
drawn from a fixed random policy; every complete action has its own reward, its own distribution of
next states, and the game may end after any turn. Values before every token are exact, by dynamic
programming over (turn, state, prefix), with one discount per *turn* - the environment's. So is the
true advantage of a token, A* = Q(prefix, token) - V(prefix).

Each estimator that reads values gets the exact ones; the estimates are averaged over everything
that leads to one (turn, state, prefix, token). For each:

- bias: root mean square of E[A] - A*, weighted by visits, with the sampling noise subtracted;
  beside it, the same without subtracting over the noise: 1 where there is noise alone;
- gradient bias: the same after removing from E[A] - A* what is equal for all tokens that could have
  been said at that place, since that part moves no policy gradient (a baseline);
- cosine: between the policy gradients (with respect to logits, all places) of E[A] and of A*;
- std: root mean square of the estimate's deviation from its own mean;
- noise/signal: standard deviation of one token's gradient over the length of the mean gradient;
- action bias: of the first token's estimate, against the exact advantage of the whole action.

Group estimators compare undiscounted returns, so they play in the same world with gamma 1.
Where a recipe learns what turns are worth, its model is taken to be exact (ArCHer, iStar) or is
left out for what it is trained on (AgentPRM); weights of imitation are no estimates of advantages.
`ROWS` says which row shows the credit of which recipe. Prints a table, writes JSON and a picture.

    python benchmarks/credit_oracle.py [--trajectories 400000]
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from token_world import Array, Ints, Samples, World, make_world, sample

from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.credit.group import GAGPO, HGPO, GiGPO, dr_grpo, grpo, rloo
from agentgym.trainers.credit.turn_rewards import (
    EpisodeReward,
    StepBaseline,
    TurnReward,
    monte_carlo_values,
    value_gains,
)
from agentgym.trainers.credit.two_clock import BilevelGAE, ntpo, poad, turn
from agentgym.trainers.trajectory import Batch, Credit, Values

Estimator = Callable[[Batch, Values], Credit]

# The row of every recipe that estimates advantages.
ROWS = {
    "POAD": "poad etpo",  # etpo: as its price of divergence goes to 0
    "NTPO": "ntpo nlpo",
    "turn GAE": "turn vl_dac twosome glam spa",  # spa: once its rewards are the true ones
    "bi-level GAE": "bilevel",
    "chunks of 2 turns": "chunk",
    "ArCHer": "archer sac_glam",
    "RLOO": "rloo loop orm",  # orm: once its model predicts every return
    "GRPO": "grpo flow_grpo arpo_replay arpo_entropy aepo",
    "Dr. GRPO": "spear",
    "GiGPO": "gigpo",
    "HGPO": "hgpo",
    "iStar": "istar",
    "AgentPRM": "agentprm",
}
# Those that weigh what is imitated instead.
IMITATION = "dpo eto archer_iql digi_q ilql mc bc filtered_bc"


@dataclass
class Settings:
    """What to measure.

    Attributes:
        trajectories: how many are sampled for each estimator.
        chunk: how many are held in memory at a time.
        group: trajectories that begin in the same state, for group estimators.
        states: states of the world.
        turns: turns after which the game ends at the latest.
        tokens: longest action.
        gamma: the environment's discount of a turn.
        lambda_: trace decay of the estimators.
        seed: of the world and of the samples.
        out: folder of the results.
    """

    trajectories: int = 400_000
    chunk: int = 20_000
    group: int = 8
    states: int = 3
    turns: int = 4
    tokens: int = 6
    gamma: float = 0.9
    lambda_: float = 0.9
    seed: int = 0
    out: Path = Path(__file__).parent / "results"


def world_of(settings: Settings, gamma: float) -> World:
    """The world of the settings; the same for each gamma."""
    return make_world(settings.states, settings.turns, settings.tokens, gamma, settings.seed)


class Moments:
    """Count, mean and variance of numbers sorted into bins."""

    def __init__(self, bins: int) -> None:
        self.count, self.sum, self.square = np.zeros((3, bins))

    def add(self, where: Ints, x: Array) -> None:
        """Adds numbers x to the bins `where`."""
        bins = len(self.count)
        self.count += np.bincount(where, minlength=bins)
        self.sum += np.bincount(where, x, bins)
        self.square += np.bincount(where, x * x, bins)

    def mean(self) -> Array:
        """Mean of each bin."""
        return self.sum / np.maximum(self.count, 1)

    def variance(self) -> Array:
        """Variance of each bin."""
        variance = self.square / np.maximum(self.count, 1) - self.mean() ** 2
        return np.maximum(variance, 0) * self.count / np.maximum(self.count - 1, 1)


def bias_of(moments: Moments, truth: Array, center: Array | None = None) -> tuple[float, float]:
    """Root mean square bias with the noise subtracted, and its ratio to the noise.

    Args:
        moments: of the estimate in each bin.
        truth: what its mean should be.
        center: [bins / V, V] probabilities; where given, the bias's mean over each V is removed.
    """
    seen = moments.count >= 30
    error = np.where(seen, moments.mean() - truth, 0.0)
    # 1e-12: estimates are float32, also where nothing is random.
    noise = np.where(seen, moments.variance() / np.maximum(moments.count, 1) + 1e-12, 0.0)
    weight = np.where(seen, moments.count, 0.0)
    if center is not None:
        complete = np.all(seen.reshape(center.shape), axis=-1)
        p = center
        table, spread = error.reshape(p.shape), noise.reshape(p.shape)
        middle = (p * table).sum(-1, keepdims=True)
        # Var[e_w - sum_v p_v e_v] for independent bins
        spread = (1 - 2 * p) * spread + (p**2 * spread).sum(-1, keepdims=True)
        error = np.where(complete[:, None], table - middle, 0.0).reshape(-1)
        noise = np.where(complete[:, None], spread, 0.0).reshape(-1)
        weight = np.where(np.repeat(complete, p.shape[1]), weight, 0.0)
    weight /= weight.sum()
    square = float((weight * (error**2 - noise)).sum())
    ratio = float(np.sqrt((weight * error**2).sum() / (weight * noise).sum()))
    return max(square, 0.0) ** 0.5, ratio


def gradients_of(moments: Moments, truth: Array, policy: Array) -> tuple[float, float]:
    """Cosine between mean and exact gradients, and noise over signal of the mean gradient.

    The gradient of log pi(w) with respect to the logits of its place is e_w - pi.

    Args:
        moments: of the estimate in each bin (place, token).
        truth: [bins] A*.
        policy: [places, V].
    """
    shape = policy.shape
    seen = np.all((moments.count >= 30).reshape(shape), axis=-1)
    visits = moments.count.reshape(shape).sum(-1, keepdims=True)[seen]
    pi = policy[seen]

    def gradient(advantage: Array) -> Array:
        table = advantage.reshape(shape)[seen]
        return pi * (table - (pi * table).sum(-1, keepdims=True))

    one, two = gradient(moments.mean()), gradient(truth)
    cosine = (visits**2 * one * two).sum()
    cosine /= np.sqrt((visits**2 * one**2).sum() * (visits**2 * two**2).sum())
    second = (moments.square / np.maximum(moments.count, 1)).reshape(shape)[seen]
    length = 1 - 2 * pi + (pi**2).sum(-1, keepdims=True)  # |e_w - pi|^2
    share = visits / visits.sum()
    signal = (share * one**2).sum()
    noise = (share * pi * second * length).sum() - signal
    return float(cosine), float(np.sqrt(noise / signal))


def measure(world: World, settings: Settings, estimators: dict[str, Estimator]) -> dict[str, dict]:
    """Runs every estimator on the same samples."""
    states, prefixes, vocabulary = world.policy.shape
    places = world.turns * states * prefixes
    moments = {
        name: (Moments(places * vocabulary), Moments(places * vocabulary)) for name in estimators
    }
    rng = np.random.default_rng([settings.seed, 1])
    left = settings.trajectories
    while left > 0:
        samples = sample(world, min(settings.chunk, left), settings.group, rng)
        left -= settings.chunk
        first = samples.batch.token_offsets[:-1]
        judged = with_exact_advantages(world, samples)
        for name, estimator in estimators.items():
            batch = judged if name in JUDGED else samples.batch
            advantages = estimator(batch, samples.values).advantages.astype(np.float64)
            tokens, turns = moments[name]
            tokens.add(samples.place * vocabulary + samples.token, advantages)
            turns.add(samples.action, advantages[first])
    policy = np.tile(world.policy.reshape(states * prefixes, vocabulary), (world.turns, 1))
    token_truth = world.q - world.values[:-1, :states, :, None]
    turn_truth = world.q - world.values[:-1, :states, :1, None]
    results = {}
    for name, (tokens, turns) in moments.items():
        bias, ratio = bias_of(tokens, token_truth.reshape(-1))
        gradient_bias, gradient_ratio = bias_of(tokens, token_truth.reshape(-1), policy)
        turn_bias, turn_ratio = bias_of(turns, turn_truth.reshape(-1))
        cosine, noise = gradients_of(tokens, token_truth.reshape(-1), policy)
        weight = tokens.count / tokens.count.sum()
        results[name] = {
            "bias": bias,
            "bias_over_noise": ratio,
            "gradient_bias": gradient_bias,
            "gradient_bias_over_noise": gradient_ratio,
            "cosine": cosine,
            "noise_to_signal": noise,
            "std": float(np.sqrt((weight * tokens.variance()).sum())),
            "turn_bias": turn_bias,
            "turn_bias_over_noise": turn_ratio,
            "points": (token_truth.reshape(-1), tokens.mean(), tokens.count),
        }
    return results


JUDGED = ("ArCHer", "ArCHer, token baseline", "iStar")


def with_exact_advantages(world: World, samples: Samples) -> Batch:
    """The batch with Q(o, a) - V(o) as reward of every turn: what a perfect judge would say."""
    return samples.batch.with_rewards(world.q.reshape(-1)[samples.action] - samples.values.turns)


def archer_with_baseline(batch: Batch, values: Values) -> Credit:
    """ArCHer with the baseline that it would learn, E[Q(o, a) - V(o) | o, a_<j]."""
    assert values.tokens is not None
    baseline = values.tokens - values.turns[batch.token_turn]
    return TurnReward(baseline=True)(batch, replace(values, tokens=baseline))


def agentprm(batch: Batch, values: Values) -> Credit:
    """Gains of what AgentPRM's model is regressed on, the group's own mean outcomes."""
    return TurnReward()(value_gains(batch, monte_carlo_values(batch, 1.0), 1.0))


def with_critic(gamma: float, lambda_: float) -> dict[str, Estimator]:
    """Estimators that read values."""
    return {
        "POAD": poad(gamma, lambda_),
        "POAD, lambda_token = lambda": poad(gamma, lambda_, lambda_),
        "NTPO": ntpo(gamma, lambda_),
        "turn GAE": turn(gamma, lambda_),
        "bi-level GAE": BilevelGAE(1.0, lambda_, gamma, lambda_),
        "chunks of 2 turns": ChunkGAE(2, gamma, lambda_),
        "ArCHer": TurnReward(),
        "ArCHer, token baseline": archer_with_baseline,
    }


def without_critic() -> dict[str, Estimator]:
    """Estimators that compare the trajectories of a group (no discount)."""
    return {
        "REINFORCE": EpisodeReward(),
        "RLOO": rloo(),
        "Dr. GRPO": dr_grpo(),
        "GRPO": grpo(),
        "GiGPO, F = 1": GiGPO(gamma=1.0, scale=False),
        "GiGPO": GiGPO(gamma=1.0),
        "HGPO, F = 1": HGPO(gamma=1.0, scale=False),
        "HGPO": HGPO(gamma=1.0, base=True),
        "GAGPO": GAGPO(1.0, 0.9),
        "iStar": StepBaseline(),
        "AgentPRM": agentprm,
        "POAD, gamma 1": poad(1.0, 0.9),
    }


def tabulate(title: str, results: dict[str, dict], spread: float) -> Table:
    """The table; `spread` is the root mean square of A*."""
    table = Table(title=f"{title} (rms of A* = {spread:.3f})")
    table.add_column("estimator")
    columns = {
        "bias": "bias",
        "/ noise": "bias_over_noise",
        "gradient bias": "gradient_bias",
        " / noise": "gradient_bias_over_noise",
        "cosine": "cosine",
        "std": "std",
        "noise/signal": "noise_to_signal",
        "action bias": "turn_bias",
        "/  noise": "turn_bias_over_noise",
    }
    for heading in columns:
        table.add_column(heading.strip(), justify="right")
    for name, row in results.items():
        cells = [
            f"{row[key]:.2f}" if "nois" in key else f"{row[key]:.4f}" for key in columns.values()
        ]
        table.add_row(name, *cells)
    return table


def picture(results: dict[str, dict], path: Path) -> None:
    """E[A] against A* for every estimator."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = 5
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(3.0 * columns, 3.1 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True)).reshape(-1)
    for axis in axes[len(results) :]:
        axis.set_visible(False)
    limit = max(np.abs(r["points"][0]).max() for r in results.values()) * 1.05
    for n, (axis, (name, row)) in enumerate(zip(axes, results.items(), strict=False)):
        truth, mean, count = row["points"]
        seen = count >= 300
        axis.axline((0, 0), slope=1, color="0.75", linewidth=1, zorder=0)
        axis.scatter(truth[seen], mean[seen], s=5, alpha=0.35, linewidths=0, color="C0")
        axis.set_title(name, fontsize=10)
        axis.text(
            0.04,
            0.96,
            f"gradient bias {row['gradient_bias']:.3f}\nstd {row['std']:.2f}",
            transform=axis.transAxes,
            va="top",
            fontsize=8,
        )
        axis.set(xlim=(-limit, limit), ylim=(-limit, limit))
        axis.tick_params(labelsize=8)
        if n % columns == 0:
            axis.set_ylabel("mean estimate E[A]", fontsize=9)
        if n + columns >= len(results):
            axis.set_xlabel("exact advantage A*", fontsize=9)
            axis.tick_params(labelbottom=True)
    figure.suptitle("Mean estimated advantage of each token against the exact one", fontsize=12)
    figure.savefig(path, dpi=110)


def main(settings: Settings) -> None:
    """Measures, prints, writes and draws."""
    console, everything = Console(width=130), {}
    for title, gamma, estimators in (
        ("Exact values given", settings.gamma, with_critic(settings.gamma, settings.lambda_)),
        ("No critic, gamma = 1", 1.0, without_critic()),
    ):
        world = world_of(settings, gamma)
        results = measure(world, settings, estimators)
        truth, _, count = next(iter(results.values()))["points"]
        spread = float(np.sqrt((count * truth**2).sum() / count.sum()))
        console.print(tabulate(title, results, spread))
        everything |= results
    settings.out.mkdir(parents=True, exist_ok=True)
    picture(everything, settings.out / "credit_oracle.png")
    numbers = {n: {k: v for k, v in r.items() if k != "points"} for n, r in everything.items()}
    report = {"settings": asdict(settings) | {"out": settings.out.name}, "estimators": numbers}
    (settings.out / "credit_oracle.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
