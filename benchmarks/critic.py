"""How much of the return a critic can explain, and how much critics do explain.

A model of 0.2 million parameters is trained by behaviour cloning in each environment, for WebShop
with the model and the settings of `demo.yaml`. Its policy plays episodes on training tasks, to
which critics are fitted, and on held-out tasks. From states of the held-out episodes it plays
several continuations, with fresh randomness of policy and environment. They split the variance of
the return into the part within states, which no critic can predict, and the part between states:

    best possible explained variance = 1 - E[Var[G | s]] / Var[G]
    explained variance of a critic   = 1 - Var[G - V(s)] / Var[G]

G is the return that follows the state, without a discount. Both are measured on the same
continuations, for all turns and by turn, with 95 % intervals from a bootstrap over episodes. The
targets of the critics are the returns of the training episodes:

- shared: a head on the policy's hidden states, as the default critic has it.
- own: a trunk of its own and normalised values, as with `--critic-trunk own`.
- hidden: the same, with the hidden state of the environment beside the prompt, as with
  `--critic-sees hidden`. The best possible variance is that of the complete state.
- hidden, 3 x: the same, fitted with three times as many tokens.
- state: the hidden state in place of the prompt, as with `--critic-sees state`.

All other critics of an environment are fitted with about the same number of tokens, so that those
with short inputs make more epochs over the same episodes.

Policies, episodes and finished critics are kept, so the same command continues an interrupted
benchmark. Prints a table, writes JSON and a figure.

    python benchmarks/critic.py [--jobs 2] [--envs WebShop-v0]
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from result_files import kept, settings_of, versions, write
from rich.console import Console
from rich.table import Table

from agentgym.making import make_env, tasks_of
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.critics.heads import TurnValueHead, ValueHead
from agentgym.trainers.critics.privileged import critic_view
from agentgym.trainers.critics.value_model import ValueModel
from agentgym.trainers.hooks.packing import pack_all, unpack_all
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.curriculum import draw_tasks
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec, Play, samples_of
from agentgym.trainers.trajectory import Batch, FloatArray
from agentgym.trainers.update.update_data import correlation, explained_variance
from agentgym.wrappers import PrivilegedText

# Number of training episodes and settings of behaviour cloning, by environment.
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    # Long pages, and a final reward.
    "WebShop-v0": (300, {"model": "reader", "context": "actions", "bc_demonstrations": 400}),
    # Short admissible actions, and a sparse reward.
    "Overcooked-TomatoLettuceSalad-v0": (400, {"context": "current", "bc_demonstrations": 40}),
    # Recurring states.
    "Maze-v0": (800, {"context": "current", "bc_demonstrations": 100}),
    # Free sentences.
    "CarDealer-v0": (
        600,
        {
            "context": "current",
            "bc_demonstrations": 150,
            "constrain": False,
            "max_new_tokens": 40,
            "env_kwargs": {"reward": "share"},
        },
    ),
    # A seat of a game, against a scripted opponent.
    "TicTacToe-v0": (6000, {"context": "current", "bc_demonstrations": 300}),
    # Partial observation of a household.
    "Household-v0": (200, {"context": "window", "bc_demonstrations": 300}),
}


@dataclass(frozen=True)
class Critic:
    """Settings of a critic.

    Attributes:
        lr: learning rate.
        sees: its input, as the setting `critic_sees`.
        trunk: its language model, as the setting `critic_trunk`.
        times: multiple of the tokens that it is fitted with.
    """

    lr: float
    sees: str = "own"
    trunk: str = "own"
    times: int = 1


CRITICS = {
    "shared": Critic(1e-3, trunk="policy"),
    "own": Critic(3e-4),
    "hidden": Critic(3e-4, "hidden"),
    "hidden, 3 x": Critic(3e-4, "hidden", times=3),
    "state": Critic(1e-3, "state"),
}
TURNS = {"1": slice(0, 1), "2-3": slice(1, 3), "4-": slice(3, None)}
"""Groups of turns, by label."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    envs: tuple[str, ...] = tuple(CASES)
    """Environments."""
    episodes: int | None = None
    """Maximum number of episodes on training tasks (None: as chosen for each environment)."""
    held_out: int = 64
    """Episodes on held-out tasks."""
    states: int = 192
    """Maximum number of states of the held-out episodes."""
    continuations: int = 6
    """Continuations per state, at least 2."""
    tokens: int = 2_000_000
    """Tokens that each critic is fitted with, at least one epoch of the training episodes."""
    epochs: int = 16
    """Maximum number of epochs."""
    batch_tokens: int = 2048
    """Tokens per optimiser step of a critic."""
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
    case = {"model": "nano", "constrain": True, **CASES[name][1]}
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
        kwargs = CASES[name][1].get("env_kwargs", {})
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


@dataclass
class Played:
    """Episodes of a policy, and continuations from states of those on held-out tasks.

    Attributes:
        train: episodes on training tasks.
        held: episodes on held-out tasks.
        states: [S] indices of turns of `held`.
        returns: [S, K] returns of the continuations from before these turns.
    """

    train: Batch
    held: Batch
    states: NDArray[np.int64]
    returns: FloatArray

    @classmethod
    def load(cls, file: Path) -> Played:
        """Returns the episodes in a file."""
        found = torch.load(file, weights_only=False)
        train, held = (Batch.of(unpack_all(found[name])) for name in ("train", "held"))
        return cls(train, held, found["states"], found["returns"])

    def save(self, file: Path) -> None:
        """Writes the episodes to a file."""
        batches = {"train": self.train, "held": self.held}
        packed = {name: pack_all(batch.trajectories) for name, batch in batches.items()}
        torch.save({**packed, "states": self.states, "returns": self.returns}, file)


def play(
    name: str, agent: PolicyAgent, settings: Settings, *, group: int = 1, every: bool = False
) -> Played:
    """Returns the episodes of a policy and their continuations, played once and then kept.

    Args:
        name: id of the environment.
        agent: the policy.
        settings: the settings of the benchmark.
        group: number of held-out episodes with the same start.
        every: whether continuations start from every state of the held-out episodes.
    """
    file = settings.runs / name / f"episodes-{settings.out.stem}.pt"
    if file.exists():
        return Played.load(file)
    count = CASES[name][0]
    if settings.episodes is not None:
        count = min(count, settings.episodes)
    player = Player(name, agent, settings.seed)
    train = player.episodes("train", count)
    held = player.episodes("test", settings.held_out, group)
    states = np.arange(held.num_turns)
    if not every:
        states = np.random.default_rng(settings.seed).permutation(states)[: settings.states]
        states.sort()
    returns = player.continuations(held, states, settings.continuations)
    player.pool.close()
    played = Played(train, held, states, returns)
    played.save(file)
    return played


def returns_to_go(batch: Batch) -> FloatArray:
    """Returns the sum of rewards from each turn on [M], without a discount."""
    return discounted_returns(batch.rewards, batch.turn_offsets, 1.0).astype(np.float32)


def fit(
    critic: str,
    agent: PolicyAgent,
    batch: Batch,
    settings: Settings,
    kind: type[ValueHead] = TurnValueHead,
) -> tuple[ValueModel, int]:
    """Returns a critic fitted to the returns of episodes, of turns or of tokens, and its epochs."""
    chosen, policy = CRITICS[critic], agent.policy
    generator = torch.Generator().manual_seed(settings.seed)
    head = kind(policy.hidden_size, (256,), generator=generator)
    own = chosen.trunk == "own"
    view = critic_view(chosen.sees, make_context(policy, agent.settings))
    seen = batch if view is None else view(batch)
    length = sum(len(segment.tokens) for each in seen.trajectories for segment in each.segments)
    epochs = min(settings.epochs, max(1, round(settings.tokens * chosen.times / length)))
    model = ValueModel(
        policy if own else policy.frozen_copy(), head, lr=chosen.lr, epochs=epochs,
        batch_tokens=settings.batch_tokens, normalize=own, view=view,
    )  # fmt: skip
    returns = returns_to_go(batch)
    targets = returns[batch.token_turn] if head.reads == "tokens" else returns
    model.fit(batch, targets, np.random.default_rng(settings.seed))
    return model, epochs


def explained(values: FloatArray, returns: FloatArray) -> float:
    """Returns the explained variance of values [S] over returns [S, K]."""
    return explained_variance(np.repeat(values, returns.shape[1]), returns.reshape(-1))


def possible(returns: FloatArray) -> float:
    """Returns the share of the variance of returns [S, K] that lies between states."""
    total = float(returns.var())
    within = float(returns.var(axis=1, ddof=1).mean())
    return 0.0 if total < 1e-12 else 1.0 - within / total


def interval(
    statistic: Callable[..., float], episode: NDArray[np.int64], *arrays: NDArray[Any]
) -> list[float]:
    """Returns a statistic and its 95 % interval from a bootstrap over episodes.

    Args:
        statistic: maps the arrays to a number.
        episode: [S] the index of the episode of each state.
        arrays: arrays [S, ...].
    """
    members = [np.flatnonzero(episode == each) for each in np.unique(episode)]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(1000):
        chosen = np.concatenate([members[i] for i in rng.integers(len(members), size=len(members))])
        drawn.append(statistic(*(array[chosen] for array in arrays)))
    found = [statistic(*arrays), *np.quantile(drawn, [0.025, 0.975])]
    return [round(float(x), 4) for x in found]


def measure(name: str, settings: Settings, known: dict[str, Any]) -> dict[str, Any]:
    """Returns the explained variances of an environment, over all turns and by turn.

    Args:
        name: id of the environment.
        settings: the settings of the benchmark.
        known: results of an earlier call, whose critics are kept.
    """
    begun = time.process_time()
    torch.set_num_threads(1)
    agent = clone(name, settings)
    played = play(name, agent, settings)
    held, states, returns = played.held, played.states, played.returns
    episode = held.turn_trajectory[states]
    turn = states - held.turn_offsets[episode]
    some = {label: np.isin(turn, np.arange(turn.max() + 1)[span]) for label, span in TURNS.items()}
    parts = {"all": np.ones(len(turn), bool), **{k: mask for k, mask in some.items() if mask.any()}}
    critics = dict(known.get("critics", {}))
    for critic in CRITICS:
        if critic in critics:
            continue
        model, epochs = fit(critic, agent, played.train, settings)
        values = model.predict(held)[states]
        critics[critic] = {
            **{k: interval(explained, episode[m], values[m], returns[m]) for k, m in parts.items()},
            "correlation": correlation(values, returns.mean(axis=1)),
            "epochs": epochs,
        }
    return {
        "mean": float(returns.mean()),
        "variance": float(returns.var()),
        "states": {label: int(mask.sum()) for label, mask in parts.items()},
        "training_states": played.train.num_turns,
        "possible": {k: interval(possible, episode[m], returns[m]) for k, m in parts.items()},
        "critics": {critic: critics[critic] for critic in CRITICS},
        "cpu_seconds": round(known.get("cpu_seconds", 0.0) + time.process_time() - begun, 1),
    }


def value_of(result: dict[str, Any], critic: str) -> float:
    """Returns the explained variance over all turns, NaN for a critic that was not measured."""
    return result["critics"][critic]["all"][0] if critic in result["critics"] else float("nan")


def tabulate(found: dict[str, Any]) -> Table:
    """Returns the explained variances over all turns as a table."""
    table = Table(title="Explained variance on held-out tasks (share of the possible)")
    table.add_column("environment")
    for column in ("possible", *CRITICS):
        table.add_column(column, justify="right")
    for name, result in found.items():
        best = result["possible"]["all"][0]
        reached = [value_of(result, critic) for critic in CRITICS]
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
    best = [result["possible"]["all"][0] for result in found.values()]
    axes.bar(places, best, 0.9, color="0.88", label="best possible")
    width = 0.8 / len(CRITICS)
    for i, critic in enumerate(CRITICS):
        reached = [value_of(result, critic) for result in found.values()]
        axes.bar(places - 0.4 + width * (i + 0.5), reached, width, label=critic)
    axes.set_xticks(places, [name.removesuffix("-v0") for name in found], rotation=15)
    axes.set(ylabel="explained variance on held-out tasks", ylim=(-0.25, 1))
    axes.axhline(0, color="0.5", linewidth=1)
    axes.legend(ncols=len(CRITICS) + 1, fontsize="small")
    figure.savefig(path, dpi=120)


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    known = kept(settings.out)
    missing = {name: known.get(name, {"critics": {}}) for name in settings.envs}
    missing = {k: v for k, v in missing.items() if not CRITICS.keys() <= v["critics"].keys()}
    about = {k: v for k, v in settings_of(settings).items() if k not in ("envs", "jobs", "runs")}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(settings.jobs, mp_context=spawn) as pool:
        begun = {pool.submit(measure, k, settings, v): k for k, v in missing.items()}
        for done in as_completed(begun):
            known[begun[done]] = done.result()
            found = {name: known[name] for name in CASES if name in known}
            results = {"versions": versions("torch"), "settings": about, "environments": found}
            write(settings.out, results)
            draw(found, settings.out.with_suffix(".png"))
    Console(width=120).print(tabulate(known))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
