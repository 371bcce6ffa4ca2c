"""Bias and variance of credit estimators against exact advantages.

The world has a few states, up to four turns, and actions of one to six tokens (two words and an end
token), which are sampled from a fixed random policy. Every complete action has its own reward and
its own distribution of next states, and an episode may end after any turn. Values before every
token are exact, by dynamic programming over (turn, state, prefix), with one discount per *turn*. So
is the true advantage of a token, A* = Q(prefix, token) - V(prefix).

In the rows of MARFT, two agents generate the first token and the rest of each action, and get its
reward. Hops between them have no discount, or that of turns.

Estimators with a critic are given the exact values. Estimates are averaged over all samples of each
(turn, state, prefix, token). The columns of the table:

- bias: root mean square of E[A] - A*, weighted by visits, after subtraction of the sampling noise.
  The next column is the ratio of bias to noise before subtraction, which is 1 for noise alone.
- gradient bias: the same after removing the mean of E[A] - A* over the tokens of each place, which
  has no effect on the policy gradient (a baseline).
- cosine: cosine between the policy gradients (with respect to logits, all places) of E[A] and A*.
- std: root mean square deviation of the estimate from its own mean.
- noise/signal: standard deviation of the gradient of one token over the norm of the mean gradient.
- action bias: bias of the first token's estimate, against the exact advantage of the whole action.

Group-relative estimators compare undiscounted returns, so they are measured in the same world with
gamma 1. A learned model of turn values is replaced by the exact one (ArCHer, iStar) or by its
regression targets (AgentPRM). Scores of turns are their rewards (MT-GRPO). Continuations of a state
are those of other episodes that pass it (VinePPO). `ROWS` maps rows to recipes, and `ABSENT` lists
the recipes without one. Prints tables, writes JSON and a figure.

    python benchmarks/credit/credit_oracle.py [--trajectories 400000]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.trainers.credit.bilevel import BilevelGAE
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.credit.graph import G2PO, GAGPO
from agentgym.trainers.credit.group import HGPO, GiGPO, dr_grpo, grpo, rloo
from agentgym.trainers.credit.joint import JointGAE
from agentgym.trainers.credit.residual import ResidualGAE
from agentgym.trainers.credit.returns import discounted_returns
from agentgym.trainers.credit.turn_rewards import (
    StepBaseline,
    episode_credit,
    monte_carlo_values,
    turn_credit,
    value_gains,
)
from agentgym.trainers.credit.two_clock import ntpo, poad, turn
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.recipes.mt_grpo import TurnGroups
from agentgym.trainers.recipes.spo import WinRate
from benchmarks.credit.estimate_statistics import Moments, bias_of, gradients_of
from benchmarks.credit.token_world import Samples, World, divide, make_world, sample
from benchmarks.shared.result_files import RESULTS, settings_of, write

Estimator = Callable[[Batch, Values], Credit]

# The recipes of each row, for recipes that estimate advantages.
ROWS = {
    "POAD": "poad etpo",  # etpo: in the limit of a KL coefficient of 0
    "NTPO": "ntpo nlpo",
    "MARFT": "marft",
    "turn GAE": "turn vl_dac twosome glam steppo vsc_rl spa inverse_prm",  # last two: exact rewards
    "VETTA": "vetta",
    "bi-level GAE": "bilevel",
    "chunks of 2 turns": "chunk",
    "ArCHer": "archer sac_glam",
    "RLOO": "rloo loop p3o orm",  # orm: with an exact model
    "SPO": "spo",
    "GRPO": "grpo grpo_roc dcpo flow_grpo arpo_replay arpo_entropy aepo agent_rlvr",
    "Dr. GRPO": "spear",
    "GiGPO": "gigpo",
    "MT-GRPO": "mt_grpo",
    "HGPO": "hgpo",  # without the level of episodes, as published
    "GAGPO": "gagpo",
    "G2PO": "g2po",
    "VinePPO": "vine",
    "iStar": "istar",
    "AgentPRM": "agentprm",
}
# Recipes without a row, by the reason.
ABSENT = {
    "The weights of imitation or preferences are no estimates of advantages.": (
        "dpo trpa eto archer_iql digi_q ilql mc bc early_experience filtered_bc exit "
        "agent_q agent_r lspo malt optima read spag"
    ),
    "Credit is relative to other agents or seats, and the world has a single agent.": (
        "advantage_alignment at_grpo comas cory dr_mas magrpo marshal rae rema"
    ),
    "A trained model of preferences assigns credit, and has no exact target.": "sweet_rl",
    "With exact values, it is POAD with a lambda of 0 inside an action.": "lookahead",
    "A teacher's term is no estimate of an advantage. Without it, it is GRPO.": "distill",
    "Its baseline is an estimate per task. With an exact one, it is REINFORCE.": "single_stream",
    "It needs successes, which `graph_oracle.py` has, and the world has rewards only.": "graphgpo",
}


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        trajectories: number of sampled trajectories per estimator.
        chunk: number of trajectories in memory at a time.
        group: trajectories that start in the same state, for group-relative estimators.
        states: number of states of the world.
        turns: maximum number of turns.
        tokens: maximum number of tokens per action.
        gamma: discount between turns.
        lambda_: GAE lambda of the estimators.
        seed: seed of the world and of the samples.
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
    out: Path = RESULTS


def world_of(settings: Settings, gamma: float) -> World:
    """Returns the world of the settings, the same for every gamma."""
    return make_world(settings.states, settings.turns, settings.tokens, gamma, settings.seed)


def measure(world: World, settings: Settings, estimators: dict[str, Estimator]) -> dict[str, dict]:
    """Measures every estimator on the same samples; returns its row by name."""
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
        exact = with_exact_advantages(world, samples)
        for name, estimator in estimators.items():
            batch = exact if name in EXACT_REWARDS else samples.batch
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


# Estimators of recipes whose learned turn advantages are replaced by the exact ones.
EXACT_REWARDS = ("ArCHer", "ArCHer, token baseline", "iStar")


def with_exact_advantages(world: World, samples: Samples) -> Batch:
    """Returns the batch with the exact advantage Q(o, a) - V(o) of each turn as its reward."""
    return samples.batch.with_rewards(world.q.reshape(-1)[samples.action] - samples.values.turns)


def archer(batch: Batch, values: Values) -> Credit:
    """Returns the credit of ArCHer, from turn advantages given as rewards."""
    return turn_credit(batch.rewards, batch)


def archer_with_baseline(batch: Batch, values: Values) -> Credit:
    """Returns the credit of ArCHer with the exact baseline E[Q(o, a) - V(o) | o, a_<j]."""
    assert values.tokens is not None
    exact = replace(values, tokens=values.tokens - values.turns[batch.token_turn])
    return turn_credit(batch.rewards, batch, exact, baseline=True)


def between_agents(estimator: Estimator) -> Estimator:
    """Returns an estimator for actions of which two agents generate a part each."""

    def credit(batch: Batch, values: Values) -> Credit:
        agents, part, index = divide(batch, values)
        found = estimator(agents, part).advantages
        advantages = np.empty_like(found)
        advantages[index] = found
        return Credit(advantages)

    return credit


def agentprm(batch: Batch, values: Values) -> Credit:
    """Returns the credit of AgentPRM with the regression targets of its model."""
    return turn_credit(value_gains(batch, monte_carlo_values(batch, 1.0), 1.0), batch)


def mt_grpo(batch: Batch, values: Values) -> Credit:
    """Returns the credit of MT-GRPO with the reward of each turn as its score."""
    return TurnGroups().compare(batch, batch.rewards)


def vine(batch: Batch, values: Values, count: int = 4) -> Credit:
    """Returns the credit of VinePPO, without a discount.

    The continuations of a state are the rests of random episodes that pass it at the same turn,
    which follow the same policy. Trajectories of a group share those of their first state.
    """
    rng = np.random.default_rng(batch.num_tokens)
    returns = discounted_returns(batch.rewards, batch.turn_offsets, 1.0)
    states = np.unique([turn.state_key for turn in batch.turns], return_inverse=True)[1]
    means = np.empty(batch.num_turns)
    for state in range(states.max() + 1):
        visits = np.flatnonzero(states == state)
        means[visits] = returns[rng.choice(visits, (len(visits), count))].mean(-1)
    first = batch.turn_offsets[:-1]
    start, group = np.unique(batch.groups, return_index=True, return_inverse=True)[1:]
    means[first] = means[first][start][group]
    ends = np.zeros(len(batch.trajectories), np.float32)
    return turn(1.0, 0.0)(batch, Values(None, means.astype(np.float32), ends))


def reinforce(batch: Batch, values: Values) -> Credit:
    """Returns the return of each episode as the advantage of its tokens."""
    return episode_credit(np.add.reduceat(batch.rewards, batch.turn_offsets[:-1]), batch)


def with_critic(gamma: float, lambda_: float) -> dict[str, Estimator]:
    """Returns the estimators that use values, by row."""
    return {
        "POAD": poad(gamma, lambda_),
        "POAD, lambda_token = lambda": poad(gamma, lambda_, lambda_),
        "NTPO": ntpo(gamma, lambda_),
        "MARFT": between_agents(JointGAE(poad(gamma, lambda_))),
        "MARFT, hops discounted": between_agents(JointGAE(poad(gamma, lambda_), gamma, lambda_)),
        "turn GAE": turn(gamma, lambda_),
        "VETTA": ResidualGAE(1.0, gamma, lambda_),
        "VETTA, alpha = 3": ResidualGAE(3.0, gamma, lambda_),
        "bi-level GAE": BilevelGAE(1.0, lambda_, gamma, lambda_),
        "chunks of 2 turns": ChunkGAE(2, gamma, lambda_),
        "ArCHer": archer,
        "ArCHer, token baseline": archer_with_baseline,
    }


def without_critic() -> dict[str, Estimator]:
    """Returns the estimators that compare trajectories of a group, without a discount, by row."""
    return {
        "REINFORCE": reinforce,
        "RLOO": rloo(),
        "SPO": WinRate(),
        "Dr. GRPO": dr_grpo(),
        "GRPO": grpo(),
        "MT-GRPO": mt_grpo,
        "GiGPO, F = 1": GiGPO(gamma=1.0, scale=False),
        "GiGPO": GiGPO(gamma=1.0),
        "HGPO, F = 1": HGPO(gamma=1.0, scale=False),
        "HGPO": HGPO(gamma=1.0),
        "HGPO, episode level": HGPO(gamma=1.0, base=True),
        "GAGPO": GAGPO(1.0, 0.5),
        "GAGPO, lambda = 0.9": GAGPO(1.0, 0.9),
        "G2PO": G2PO(gamma=1.0),
        "G2PO, F = 1": G2PO(gamma=1.0, scale=False),
        "iStar": StepBaseline(),
        "AgentPRM": agentprm,
        "VinePPO": vine,
        "POAD, gamma 1": poad(1.0, 0.9),
    }


def tabulate(title: str, results: dict[str, dict], spread: float) -> Table:
    """Returns the results as a table.

    Args:
        title: the title.
        results: rows of `measure`.
        spread: root mean square of A*.
    """
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
    """Draws E[A] against A* for every estimator."""
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
    """Measures, prints tables and writes JSON and a figure."""
    console, everything = Console(width=130), {}
    for title, gamma, estimators in (
        ("Exact values", settings.gamma, with_critic(settings.gamma, settings.lambda_)),
        ("Without a critic, gamma = 1", 1.0, without_critic()),
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
    report = {"settings": settings_of(settings), "estimators": numbers}
    write(settings.out / "credit_oracle.json", report)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
