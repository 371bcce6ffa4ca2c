"""CPU time of a game with four agents against single-agent episodes with the same prompts.

All seats of a game are played and trained (`opponents mirror`). Then a single agent plays each
seat's episode: a recorded environment shows the same observations and admissible actions. Both play
as many environments in parallel and generate actions for the same prompts, so the difference is the
cost of the game. Both begin without encoded texts. The update is the same for both. Times are CPU
seconds, the least of repetitions. Results in the file are not measured again.

The memory of roles with adapters on one base (`roles adapters`) is counted on tensors without data:
bytes of weights, gradients and optimiser states of one policy and of several.

    python benchmarks/speed/game_cost.py
"""

from __future__ import annotations

import dataclasses
import functools
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.trainers import Callback, train
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.adapters import add_adapter
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.executor import LocalExecutor
from agentgym.trainers.rollout.recorded import RecordedEnv
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.update.optimizer import AdamW
from benchmarks.shared.result_files import RESULTS, measured, settings_of, versions
from benchmarks.speed.memory import SIZES, TARGETS, Bare, allocate, make_model


@dataclass
class Settings:
    """Settings of the benchmark."""

    games: tuple[str, ...] = ("LiarsDice-Four-v0", "Codenames-Menu-v0")
    """Games with four agents."""
    episodes: int = 64
    """Games that are played."""
    parallel: int = 64
    """Environments that are stepped in parallel."""
    repetitions: int = 3
    """Iterations, each with both measurements."""
    model: str = "0.5B"
    """Size of the Qwen2.5 model below the adapters."""
    rank: int = 16
    """Rank of the adapters."""
    roles: int = 4
    """Number of roles with adapters on one base."""
    out: Path = RESULTS / "game_cost.json"
    """File of the results."""


class Recordings(RecordedEnv):
    """Repeats one of several recorded episodes: the one whose number is the task.

    Args:
        episodes: the episodes.
    """

    def __init__(self, episodes: Sequence[RecordedEpisode]):
        super().__init__(episodes[0])
        self._episodes = episodes

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode."""
        self.episode = self._episodes[int((options or {})["task"])]
        return super().reset(seed=seed)


def recorded(trajectory: Trajectory) -> RecordedEpisode:
    """Returns the episode of a seat."""
    turns = [
        RecordedTurn(
            t.observation, t.action, t.reward, valid=t.valid, admissible=tuple(t.admissible)
        )
        for t in trajectory.turns
    ]
    return RecordedEpisode(turns, terminated=trajectory.terminated)


class Clock(Callback):
    """Measures CPU seconds per 1,000 tokens of each iteration, in the game and for single agents.

    Attributes:
        seconds: per iteration, those of the game, of single agents and of the update.
    """

    def __init__(self):
        self.seconds: list[dict[str, float]] = []

    def on_iteration_start(self, trainer: Any) -> None:
        """Starts the clock of the game."""
        forget_texts(trainer)
        self._begun = time.process_time()

    def on_rollout_end(self, trainer: Any, trajectories: Sequence[Trajectory]) -> None:
        """Plays the episodes of the seats again, with a single agent."""
        game = self._per_token(trajectories)
        forget_texts(trainer)  # or the single agent would not encode what the game has encoded
        again = play_alone(trainer, trajectories)
        self.seconds.append({"game": game, "single": self._per_token(again)})

    def on_update_end(self, trainer: Any, metrics: Mapping[str, float]) -> None:
        """Adds the time of the update."""
        self.seconds[-1]["update"] = self._per_token(self._last)

    def _per_token(self, trajectories: Sequence[Trajectory]) -> float:
        """Returns the time since the last call per 1,000 tokens of prompts and actions."""
        now = time.process_time()
        tokens = sum(turn.stop for each in trajectories for turn in each.turns)
        seconds, self._begun, self._last = now - self._begun, now, trajectories
        return 1000 * seconds / tokens


def forget_texts(trainer: Trainer) -> None:
    """Empties the policy's memory of encoded texts."""
    for texts in (trainer.policy._encoded, trainer.policy._tries):
        texts.clear()


def play_alone(trainer: Trainer, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Plays the episodes of all seats with a single agent."""
    executor = trainer.rollouts.executor
    assert isinstance(executor, LocalExecutor)
    episodes = [recorded(each) for each in trajectories]
    pool = EnvPool(lambda: Recordings(episodes), trainer.config.rollout.num_envs)
    alone = dataclasses.replace(executor, pool=pool, on_episode=None)
    specs = [EpisodeSpec(str(i), 0, (0, i)) for i in range(len(episodes))]
    return [trajectory for found in alone.play(specs) for trajectory in found]


def measure(game: str, settings: Settings) -> dict[str, float]:
    """Returns CPU seconds per 1,000 tokens, and the ratios of the game and of single agents."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        train(
            "rae",
            env_id=game,
            opponents="mirror",
            model="nano",
            context="current",
            instructions=False,
            constrain=True,
            episodes_per_iteration=settings.episodes,
            num_envs=settings.parallel,
            iterations=settings.repetitions,
            epochs=1,
            eval_episodes=0,
            log_with=(),
            device="cpu",
            threads=1,
            quiet=True,
            run_dir=folder,
            callbacks=[clock],
        )
    best = {key: min(each[key] for each in clock.seconds) for key in clock.seconds[0]}
    played, alone, update = best["game"], best["single"], best["update"]
    ratios = {"collection": played / alone, "iteration": (played + update) / (alone + update)}
    return best | ratios


def memory_of(policies: Sequence[Policy]) -> dict[str, int]:
    """Returns the bytes of weights, gradients and optimiser states, each storage once."""
    weights = [t for policy in policies for t in (*policy.parameters(), *policy.buffers())]
    trained = [[p for p in policy.parameters() if p.requires_grad] for policy in policies]
    optimizers = [AdamW(own) for own in trained]
    for own in trained:
        torch.stack([p.float().sum() for p in own]).sum().backward()
    gradients = [p.grad for own in trained for p in own if p.grad is not None]
    states: list[Tensor] = []
    for optimizer in optimizers:
        optimizer.step()
        states += [x for values in optimizer.state.values() for x in values.values()]
    parts = {"weights": weights, "gradients": gradients, "optimizer": states}
    return {name: storages(tensors) for name, tensors in parts.items()}


def storages(tensors: Iterable[Tensor]) -> int:
    """Returns the bytes of the storages of tensors, each once."""
    found = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(found.values())


def measure_memory(settings: Settings, targets: tuple[str, ...] | None) -> dict[str, Any]:
    """Returns the bytes of one policy and of all roles, and the ratio of the totals.

    Args:
        settings: the settings.
        targets: the layers that have adapters. None: the default ones.
    """
    found = []
    for count in (1, settings.roles):
        base = make_model(SIZES[settings.model], rank=0)
        first = Bare(add_adapter(base, LoraSettings(settings.rank, targets=targets)))
        policies = [first, *(first.clone() for _ in range(count - 1))]
        with FakeTensorMode():
            allocate(torch.nn.ModuleList(policies))  # shared weights stay shared
            found.append(memory_of(policies))
    one, several = (sum(parts.values()) for parts in found)
    return {"one": found[0], "roles": found[1], "ratio": several / one}


def main(settings: Settings) -> None:
    """Measures the games and the memory, and writes and prints the results."""
    about = {"settings": settings_of(settings), "versions": versions("torch")}
    measures = {game: functools.partial(measure, game, settings) for game in settings.games}
    results = dict(measured(settings.out, about, "games", measures))
    counts = {
        name: functools.partial(measure_memory, settings, targets)
        for name, targets in TARGETS.items()
    }
    memory = dict(measured(settings.out, about, "memory", counts))
    table = Table(title="CPU seconds per 1,000 tokens")
    titles = ("game", "game", "single", "update", "collection", "iteration")
    for title in titles:
        table.add_column(title)
    for game, row in results.items():
        table.add_row(game, *(f"{row[key]:.3f}" for key in titles[1:]))
    console = Console(width=120)
    console.print(table)
    for name, row in memory.items():
        console.print(f"Memory of {settings.roles} roles / one, {name}: {row['ratio']:.3f}")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
