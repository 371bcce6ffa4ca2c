"""How much of the return a critic can explain, and how much critics do explain.

A model of 0.2 million parameters is trained by behaviour cloning in each environment, for WebShop
with the model and the settings of `demo.yaml`. Its policy plays episodes on training tasks, to
which critics are fitted, and on held-out tasks. From states of the held-out episodes it plays
several continuations, with fresh randomness of policy and environment. They split the variance of
the return into the part within states, which no critic can predict, and the part between states:

    best possible explained variance = 1 - E[Var[G | s]] / Var[G]
    explained variance of a critic   = 1 - Var[G - V(s)] / Var[G]

G is the return that follows the state, without a discount. Both are measured on the same
continuations, for all turns and by turn. The targets of the critics are the returns of the training
episodes:

- shared: a head on the policy's hidden states, as the default critic has it.
- own: a trunk of its own, without normalisation of values.
- normalised: with normalisation, as `--critic-trunk own` has it.
- small steps: the same with 2048 tokens per optimiser step instead of 8192.
- hidden: the same, with the hidden state of the environment beside the prompt, as with
  `--critic-sees hidden`. The best possible variance is that of the complete state.
- state: the hidden state in place of the prompt, as with `--critic-sees state`. The texts are
  short, so that it is fitted for four times as many epochs.

Finished environments are kept, so the same command continues an interrupted benchmark. Prints a
table, writes JSON and a figure.

    python benchmarks/critic.py [--jobs 2] [--envs WebShop-v0]
"""

from __future__ import annotations

import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from result_files import settings_of, versions, write
from rich.console import Console
from rich.table import Table

from agentgym.making import make_env, tasks_of
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.critics.heads import TurnValueHead, ValueHead
from agentgym.trainers.critics.privileged import critic_view
from agentgym.trainers.critics.value_model import ValueModel
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.curriculum import draw_tasks
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec, Play, samples_of
from agentgym.trainers.trajectory import Batch, FloatArray
from agentgym.trainers.update.update_data import correlation, explained_variance
from agentgym.wrappers import PrivilegedText

# Settings of behaviour cloning, by environment.
CASES: dict[str, dict[str, Any]] = {
    # Long pages, and a final reward.
    "WebShop-v0": {"model": "reader", "context": "actions", "bc_demonstrations": 800},
    # Short admissible actions, and a sparse reward.
    "Overcooked-TomatoLettuceSalad-v0": {"context": "current", "bc_demonstrations": 40},
    # Recurring states.
    "Maze-v0": {"context": "current", "bc_demonstrations": 100},
    # Free sentences.
    "CarDealer-v0": {
        "context": "current",
        "bc_demonstrations": 150,
        "constrain": False,
        "max_new_tokens": 40,
        "env_kwargs": {"reward": "share"},
    },
    # A seat of a game, against a scripted opponent.
    "TicTacToe-v0": {"context": "current", "bc_demonstrations": 300},
    # Partial observation of a household.
    "Household-v0": {"context": "window", "bc_demonstrations": 300},
}
# Arguments of `ValueModel`, by critic.
CRITICS: dict[str, dict[str, Any]] = {
    "shared": {"lr": 1e-3},
    "own": {"lr": 3e-4},
    "normalised": {"lr": 3e-4, "normalize": True},
    "small steps": {"lr": 3e-4, "normalize": True, "batch_tokens": 2048},
    "hidden": {"lr": 3e-4, "normalize": True, "batch_tokens": 2048},
    "state": {"lr": 1e-3, "normalize": True, "batch_tokens": 1024, "epochs": 12},
}
TURNS = {"1": slice(0, 1), "2-3": slice(1, 3), "4-": slice(3, None)}
"""Groups of turns, by label."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    envs: tuple[str, ...] = tuple(CASES)
    """Environments."""
    episodes: int = 1000
    """Episodes on training tasks that critics are fitted to."""
    held_out: int = 48
    """Episodes on held-out tasks."""
    states: int = 320
    """Maximum number of states of the held-out episodes."""
    continuations: int = 6
    """Continuations per state, at least 2."""
    epochs: int = 3
    """Epochs of a critic over the training episodes."""
    demonstrations: int | None = None
    """Maximum number of demonstrations (None: as chosen for each environment)."""
    seed: int = 0
    """Random seed."""
    jobs: int = 1
    """Environments measured in parallel."""
    runs: Path = Path("runs/critic")
    """Folder of the policies."""
    out: Path = Path(__file__).parent / "results" / "critic.json"
    """Results. The figure is written beside them."""


def clone(name: str, settings: Settings) -> PolicyAgent:
    """Returns the policy of an environment after behaviour cloning, at temperature 1."""
    case = {"model": "nano", "constrain": True, **CASES[name]}
    if settings.demonstrations is not None:
        case["bc_demonstrations"] = min(case["bc_demonstrations"], settings.demonstrations)
    folder = settings.runs / name
    if not (folder / "report.json").exists():
        make_trainer(
            "poad", env_id=name, instructions=False, bc_epochs=5, bc_lr=3e-3,
            bc_batch_tokens=4096, iterations=0, eval_episodes=0, seed=settings.seed, threads=1,
            device="cpu", quiet=True, resume=True, run_dir=str(folder), **case,
        ).run()  # fmt: skip
    agent = load_agent(str(folder), temperature=1.0)
    assert isinstance(agent, PolicyAgent)
    return agent


class Fork(Play):
    """An episode that takes over recorded actions, and then has randomness of its own."""

    def follow_opening(self, policy: Any) -> bool:
        """Records the next action of the opening. Reseeds the environment after the last one."""
        if len(self.turns) == len(self.episode.opening):
            fresh = np.random.PCG64(np.random.SeedSequence((*self.episode.key, 1)))
            # In place, because a game shares the generator of its seat.
            self.env.unwrapped.np_random.bit_generator.state = fresh.state  # type: ignore[attr-defined]
        return super().follow_opening(policy)


class ForkSpec(EpisodeSpec):
    """A request to play a `Fork`."""

    def begin(self, index: int, slot: int, env: Any) -> Fork:
        """Returns the episode to play in a slot."""
        return Fork(index, self, slot, env)


class Player:
    """Plays episodes of a policy in an environment.

    Args:
        name: id of the environment.
        agent: the policy and its settings.
        seed: random seed.
    """

    def __init__(self, name: str, agent: PolicyAgent, seed: int):
        kwargs = CASES[name].get("env_kwargs", {})
        self.pool = EnvPool(lambda: PrivilegedText(make_env(name, **kwargs)), 64)
        self.agent, self.seed = agent, seed
        self.tasks = tasks_of(self.pool.env(0))

    def play(self, specs: list[EpisodeSpec]) -> Batch:
        """Returns the trajectories of episodes."""
        agent = self.agent
        context = make_context(agent.policy, agent.settings)
        options = {"constrain": agent.constrain}
        return Batch.of(collect(agent.policy, self.pool, specs, context, agent.sampling, **options))

    def episodes(self, split: str, count: int, group: int = 1) -> Batch:
        """Returns episodes on tasks of a split, of which each `group` in a row start alike."""
        rng = np.random.default_rng([self.seed, len(split)])
        starts = draw_tasks(self.tasks.split(split), -(-count // group), rng)
        drawn = [start for start in starts for _ in range(group)][:count]
        keys = [(self.seed, len(split), i) for i in range(count)]
        return self.play([EpisodeSpec(*d, key) for d, key in zip(drawn, keys, strict=True)])

    def continuations(self, batch: Batch, states: NDArray[np.int64], count: int) -> FloatArray:
        """Returns the returns [S, count] of continuations from states, the indices of turns [S]."""
        specs = []
        for m in states.tolist():
            n = int(batch.turn_trajectory[m])
            trajectory = batch.trajectories[n]
            opening = samples_of(trajectory, m - int(batch.turn_offsets[n]))
            specs += [
                ForkSpec(trajectory.task, trajectory.seed, (self.seed, 7, m, i), opening)
                for i in range(count)
            ]
        played = self.play(specs)
        firsts = played.turn_offsets[:-1] + np.array([len(spec.opening) for spec in specs])
        return returns_to_go(played)[firsts].reshape(len(states), count)


def returns_to_go(batch: Batch) -> FloatArray:
    """Returns the sum of rewards from each turn on [M], without a discount."""
    return discounted_returns(batch.rewards, batch.turn_offsets, 1.0).astype(np.float32)


def fit(
    critic: str,
    agent: PolicyAgent,
    batch: Batch,
    settings: Settings,
    kind: type[ValueHead] = TurnValueHead,
) -> ValueModel:
    """Returns a critic fitted to the returns of episodes, of turns or of tokens."""
    policy, generator = agent.policy, torch.Generator().manual_seed(settings.seed)
    head = kind(policy.hidden_size, (256,), generator=generator)
    trunk = policy.frozen_copy() if critic == "shared" else policy
    sees = critic if critic in ("hidden", "state") else "own"
    view = critic_view(sees, make_context(policy, agent.settings))
    model = ValueModel(trunk, head, view=view, **{"epochs": settings.epochs, **CRITICS[critic]})
    returns = returns_to_go(batch)
    targets = returns[batch.token_turn] if head.reads == "tokens" else returns
    model.fit(batch, targets, np.random.default_rng(settings.seed))
    return model


def explained(values: FloatArray, returns: FloatArray) -> float:
    """Returns the explained variance of values [S] over returns [S, K]."""
    return explained_variance(np.repeat(values, returns.shape[1]), returns.reshape(-1))


def possible(returns: FloatArray) -> float:
    """Returns the share of the variance of returns [S, K] that lies between states."""
    total = float(returns.var())
    within = float(returns.var(axis=1, ddof=1).mean())
    return 0.0 if total < 1e-12 else 1.0 - within / total


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the explained variances of an environment, over all turns and by turn."""
    begun = time.perf_counter()
    torch.set_num_threads(1)
    agent = clone(name, settings)
    player = Player(name, agent, settings.seed)
    train = player.episodes("train", settings.episodes)
    held = player.episodes("test", settings.held_out)
    rng = np.random.default_rng(settings.seed)
    states = np.sort(rng.permutation(held.num_turns)[: settings.states])
    returns = player.continuations(held, states, settings.continuations)
    player.pool.close()
    turn = states - held.turn_offsets[held.turn_trajectory[states]]
    some = {label: np.isin(turn, np.arange(turn.max() + 1)[span]) for label, span in TURNS.items()}
    parts = {"all": np.ones(len(turn), bool), **{k: mask for k, mask in some.items() if mask.any()}}
    found: dict[str, Any] = {
        "mean": float(returns.mean()),
        "variance": float(returns.var()),
        "states": {label: int(mask.sum()) for label, mask in parts.items()},
        "training_states": train.num_turns,
        "possible": {label: possible(returns[mask]) for label, mask in parts.items()},
        "critics": {},
    }
    for critic in CRITICS:
        values = fit(critic, agent, train, settings).predict(held)[states]
        found["critics"][critic] = {
            **{label: explained(values[mask], returns[mask]) for label, mask in parts.items()},
            "correlation": correlation(values, returns.mean(axis=1)),
        }
    return found | {"seconds": round(time.perf_counter() - begun, 1)}


def tabulate(found: dict[str, Any]) -> Table:
    """Returns the explained variances over all turns as a table."""
    table = Table(title="Explained variance on held-out tasks (share of the possible)")
    table.add_column("environment")
    for column in ("possible", *CRITICS):
        table.add_column(column, justify="right")
    for name, result in found.items():
        best = result["possible"]["all"]
        reached = [result["critics"][critic]["all"] for critic in CRITICS]
        cells = [f"{x:.2f} ({x / best:.0%})" if best > 0 else f"{x:.2f}" for x in reached]
        table.add_row(name, f"{best:.2f}", *cells)
    return table


def draw(found: dict[str, Any], path: Path) -> None:
    """Draws the possible and the reached explained variance of each environment."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    places = np.arange(len(found))
    best = [result["possible"]["all"] for result in found.values()]
    axes.bar(places, best, 0.9, color="0.88", label="best possible")
    width = 0.8 / len(CRITICS)
    for i, critic in enumerate(CRITICS):
        reached = [result["critics"][critic]["all"] for result in found.values()]
        axes.bar(places - 0.4 + width * (i + 0.5), reached, width, label=critic)
    axes.set_xticks(places, [name.removesuffix("-v0") for name in found], rotation=15)
    axes.set(ylabel="explained variance on held-out tasks", ylim=(-0.25, 1))
    axes.axhline(0, color="0.5", linewidth=1)
    axes.legend(ncols=len(CRITICS) + 1, fontsize="small")
    figure.savefig(path, dpi=120)


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    known: dict[str, Any] = {}
    if settings.out.exists():
        known = json.loads(settings.out.read_text(encoding="utf-8"))["environments"]
    missing = [name for name in settings.envs if name not in known]
    about = {k: v for k, v in settings_of(settings).items() if k not in ("jobs", "runs")}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(settings.jobs, mp_context=spawn) as pool:
        begun = {pool.submit(measure, name, settings): name for name in missing}
        for done in as_completed(begun):
            known[begun[done]] = done.result()
            found = {name: known[name] for name in CASES if name in known}
            results = {"versions": versions("torch"), "settings": about, "environments": found}
            write(settings.out, results)
            draw(found, settings.out.with_suffix(".png"))
    Console(width=120).print(tabulate(known))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
