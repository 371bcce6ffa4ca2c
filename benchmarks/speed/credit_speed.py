"""Run time of every credit estimator on 512 trajectories x 16 turns x 64 tokens.

The recurrence of POAD is also timed as a plain Python loop (on a subsample, scaled up), as a time
loop over padded torch tensors (as in trainers with a masked GAE), and as the vectorised GAE of
torchrl, if installed. Medians, on one thread. Prints tables and writes JSON.

    python benchmarks/speed/credit_speed.py [--trajectories 512] [--turns 16] [--tokens 64]
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.trainers.credit.bilevel import BilevelGAE
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.credit.graph import GAGPO
from agentgym.trainers.credit.group import HGPO, GiGPO, dr_grpo, grpo, rloo
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.credit.two_clock import ntpo, poad, turn
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import Segment, Trajectory, Turn
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        trajectories: number of trajectories.
        turns: turns per trajectory.
        tokens: tokens per action.
        group: trajectories that start in the same state.
        states: number of distinct states per group.
        repeats: timed calls, after two warm-up calls.
        seed: seed of values and rewards.
        out: file of the results.
    """

    trajectories: int = 512
    turns: int = 16
    tokens: int = 64
    group: int = 8
    states: int = 40
    repeats: int = 25
    seed: int = 0
    out: Path = RESULTS / "credit_speed.json"


def make_batch(settings: Settings, trajectories: int) -> tuple[Batch, Values]:
    """Returns trajectories of equal lengths with random rewards, states and values."""
    rng = np.random.default_rng(settings.seed)
    length = settings.tokens
    logprobs = np.full(length, -1.0, np.float32)
    out = []
    for n in range(trajectories):
        turns = [
            Turn(
                segment=0,
                start=t * length,
                stop=(t + 1) * length,
                logprobs=logprobs,
                support=None,
                observation="",
                action="",
                reward=float(rng.normal()),
                reward_terms={},
                valid=True,
                progress=0.0,
                state_key=str(rng.integers(settings.states)),
            )
            for t in range(settings.turns)
        ]
        segments = [Segment(np.zeros(settings.turns * length, np.int32))]
        out.append(
            Trajectory(
                env_id="benchmark",
                task=str(n // settings.group),
                seed=0,
                segments=segments,
                turns=turns,
                terminated=n % 4 > 0,
                truncated=n % 4 == 0,
                success=False,
            )
        )
    batch = Batch.of(out)
    tokens = rng.normal(size=batch.num_tokens).astype(np.float32)
    bootstrap = rng.normal(size=trajectories).astype(np.float32)
    return batch, Values(tokens, tokens[batch.token_offsets[:-1]], bootstrap)


def estimators() -> dict[str, Callable[[Batch, Values], object]]:
    """Returns the timed estimators by name."""
    poad_ = poad()

    def normalised(batch: Batch, values: Values) -> object:
        return normalize_advantages(poad_(batch, values), batch)

    return {
        "POAD": poad_,
        "POAD, lambda_token .95": poad(lambda_token=0.95),
        "POAD + normalisation": normalised,
        "NTPO": ntpo(),
        "turn GAE": turn(),
        "bi-level GAE": BilevelGAE(),
        "chunks of 4 turns": ChunkGAE(4),
        "RLOO / LOOP": rloo(),
        "Dr. GRPO": dr_grpo(),
        "GRPO": grpo(),
        "GiGPO": GiGPO(),
        "HGPO": HGPO(),
        "GAGPO": GAGPO(),
    }


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    """Returns the median time of `repeats` calls in milliseconds, after two warm-up calls."""
    times = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times[2:])) * 1e3


def python_loop(batch: Batch, values: Values, gamma: float, lambda_: float) -> np.ndarray:
    """Returns the advantages of POAD, computed one token at a time."""
    assert values.tokens is not None
    tokens, rewards = values.tokens.tolist(), batch.rewards.tolist()
    ends = set((batch.token_offsets[1:] - 1).tolist())
    token_turn = batch.token_turn.tolist()
    out = [0.0] * batch.num_tokens
    starts = batch.token_offsets[batch.turn_offsets].tolist()
    for n in range(len(batch.trajectories)):
        following = 0.0 if batch.terminated[n] else float(values.bootstrap[n])
        after, first = 0.0, True
        for k in range(starts[n + 1] - 1, starts[n] - 1, -1):
            if k in ends:
                delta = rewards[token_turn[k]] + gamma * following - tokens[k]
                after = delta + (0.0 if first else gamma * lambda_ * after)
            else:
                after += following - tokens[k]
            out[k], following, first = after, tokens[k], False
    return np.array(out)


def torch_loop(
    rewards: torch.Tensor, values: torch.Tensor, discount: torch.Tensor, trace: torch.Tensor
) -> torch.Tensor:
    """Returns GAE advantages by a time loop over padded tensors [N, T], as in chat trainers."""
    last, reversed_ = torch.zeros(len(rewards)), []
    length = rewards.shape[1]
    for t in range(length - 1, -1, -1):
        following = values[:, t + 1]
        delta = rewards[:, t] + discount[:, t] * following - values[:, t]
        last = delta + trace[:, t] * last
        reversed_.append(last)
    return torch.stack(reversed_[::-1], 1)


def padded(batch: Batch, values: Values, settings: Settings, gamma: float, lambda_: float):
    """Returns the inputs of `torch_loop`. Lengths are equal, so no padding is needed."""
    assert values.tokens is not None
    shape = (len(batch.trajectories), settings.turns * settings.tokens)
    ends = batch.token_offsets[1:] - 1
    rewards = np.zeros(batch.num_tokens, np.float32)
    rewards[ends] = batch.rewards
    discount = np.ones(batch.num_tokens, np.float32)
    discount[ends] = gamma
    trace = np.ones(batch.num_tokens, np.float32)
    trace[ends] = gamma * lambda_
    future = np.where(batch.terminated, 0.0, values.bootstrap).astype(np.float32)[:, None]
    extended = np.concatenate([values.tokens.reshape(shape), future], 1)
    return (
        torch.from_numpy(rewards.reshape(shape)),
        torch.from_numpy(extended),
        torch.from_numpy(discount.reshape(shape)),
        torch.from_numpy(trace.reshape(shape)),
    )


def compare(settings: Settings, batch: Batch, values: Values) -> dict[str, float | str]:
    """Returns the times of other implementations of POAD in milliseconds; checks their results."""
    gamma, lambda_ = 0.99, 0.95
    ours = poad(gamma, lambda_)(batch, values).advantages
    few = max(1, settings.trajectories // 64)
    small, small_values = make_batch(settings, few)
    naive = python_loop(small, small_values, gamma, lambda_)
    assert np.allclose(naive, poad(gamma, lambda_)(small, small_values).advantages, atol=1e-3)
    scale = batch.num_tokens / small.num_tokens
    call = lambda: python_loop(small, small_values, gamma, lambda_)  # noqa: E731
    result: dict[str, float | str] = {
        "Python loop (scaled)": milliseconds(call, 5) * scale,
        "Python loop measured on": f"{few} of {settings.trajectories} trajectories",
    }
    inputs = padded(batch, values, settings, gamma, lambda_)
    assert np.allclose(torch_loop(*inputs).numpy().reshape(-1), ours, atol=1e-3)
    result["torch time loop"] = milliseconds(lambda: torch_loop(*inputs), settings.repeats)
    if importlib.util.find_spec("torchrl"):
        # One discount for all time steps: it computes NTPO, not POAD.
        functional = importlib.import_module("torchrl.objectives.value.functional")
        rewards, extended, _, _ = (x.unsqueeze(-1) for x in inputs)
        done = torch.zeros_like(rewards, dtype=torch.bool)
        arguments = (gamma, lambda_, extended[:, :-1], extended[:, 1:], rewards, done, done)
        gae = functional.vec_generalized_advantage_estimate
        result["torchrl vectorised GAE"] = milliseconds(lambda: gae(*arguments), settings.repeats)
    else:
        result["torchrl vectorised GAE"] = "not installed"
    return result


def main(settings: Settings) -> None:
    """Measures, prints tables and writes JSON."""
    torch.set_num_threads(1)
    batch, values = make_batch(settings, settings.trajectories)
    quarter, quarter_values = make_batch(settings, max(1, settings.trajectories // 4))
    console = Console()
    table = Table(title=f"{batch.num_tokens:,} action tokens, {batch.num_turns:,} turns, 1 thread")
    headings = ("estimator", "ms", "Mtokens/s", "ms at 1/4 size", "cost per token, whole : quarter")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "estimator" else "right")
    rows: dict[str, dict[str, float]] = {}
    for name, estimator in estimators().items():
        whole = milliseconds(lambda e=estimator: e(batch, values), settings.repeats)
        part = milliseconds(lambda e=estimator: e(quarter, quarter_values), settings.repeats)
        rows[name] = {
            "ms": whole,
            "tokens_per_second": batch.num_tokens / whole * 1e3,
            "quarter_ms": part,
            "cost_ratio": whole / batch.num_tokens / (part / quarter.num_tokens),
        }
        row = rows[name]
        speed = f"{row['tokens_per_second'] / 1e6:.0f}"
        table.add_row(name, f"{whole:.2f}", speed, f"{part:.2f}", f"{row['cost_ratio']:.2f}")
    console.print(table)
    others = compare(settings, batch, values)
    table = Table(title="Other implementations of POAD")
    table.add_column("implementation")
    table.add_column("ms", justify="right")
    table.add_column("times ours", justify="right")
    for name, value in others.items():
        if isinstance(value, float):
            table.add_row(name, f"{value:.1f}", f"{value / rows['POAD']['ms']:.1f}")
        else:
            table.add_row(name, str(value), "")
    console.print(table)
    about = {"settings": settings_of(settings), **versions("numpy", "torch")}
    write(settings.out, about | {"estimators": rows, "others": others})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
