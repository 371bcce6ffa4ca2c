"""Episodes of cloned policies and continuations from their states, for `critic.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.agents.basic.view import Agent
from agentgym.registration.making import make_env, tasks_of
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.packing import pack_all, unpack_all
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.imitation.demonstrations import demonstrate
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.rollout.action_room import action_room
from agentgym.trainers.rollout.branches import samples_of
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec, Play
from agentgym.trainers.rollout.task_sampling import draw_tasks
from agentgym.wrappers import PrivilegedText
from benchmarks.shared.result_files import RESULTS, refuse_other

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
    # Recipes: a wrong step wastes turns.
    "TextCraft-v0": (600, {"context": "window", "bc_demonstrations": 600}),
    # A line on which some walks are too long.
    "NumberLine-v0": (4000, {"context": "window", "bc_demonstrations": 100}),
    # A long plan.
    "Tyreworld-v0": (300, {"context": "window", "bc_demonstrations": 100}),
    # Dice and cards that only their owner sees.
    "LiarsDice-v0": (4000, {"context": "current", "bc_demonstrations": 300}),
    "Gops-v0": (2000, {"context": "current", "bc_demonstrations": 300}),
    # Holes in the ice.
    "FrozenLake-v0": (800, {"context": "current", "bc_demonstrations": 300}),
    # A puzzle in which wrong moves can be undone.
    "TowerOfHanoi-Six-v0": (300, {"context": "current", "bc_demonstrations": 300}),
    # A partial view of rooms.
    "BabyAI-Text-v0": (400, {"context": "window", "bc_demonstrations": 300}),
}


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
    runs: Path = Path("runs/critic")
    """Folder of the policies."""
    out: Path = RESULTS / "critic.json"
    """Results. The figure is written beside them."""


def clone(name: str, settings: Settings) -> PolicyAgent:
    """Returns the policy of an environment after behaviour cloning, at temperature 1."""
    case = {"model": "nano", "constrain": True, **CASES[name][1]}
    if settings.demonstrations is not None:
        case["bc_demonstrations"] = min(case["bc_demonstrations"], settings.demonstrations)
    folder = settings.runs / name
    if (folder / "report.json").exists():
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["config"]
        chosen = {"seed": settings.seed, "bc_demonstrations": case["bc_demonstrations"]}
        refuse_other(folder, config, chosen, "--runs")
    else:
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

    episode: ForkSpec

    def follow_opening(self, policy: Any) -> bool:
        """Records the next action of the opening. Reseeds the environment where it forks."""
        if len(self.turns) == len(self.episode.opening) - self.episode.tried:
            fresh = np.random.PCG64(np.random.SeedSequence((*self.episode.key, 1)))
            # In place, because a game shares the generator of its seat.
            self.env.unwrapped.np_random.bit_generator.state = fresh.state  # type: ignore[attr-defined]
        return super().follow_opening(policy)


@dataclass(frozen=True)
class ForkSpec(EpisodeSpec):
    """A request to play a `Fork`.

    Attributes:
        tried: number of last actions of the opening whose outcome is random anew.
    """

    tried: int = 0

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

    def play(self, specs: Sequence[EpisodeSpec]) -> Batch:
        """Returns the trajectories of episodes."""
        agent = self.agent
        context = make_context(agent.policy, agent.settings)
        options = {"constrain": agent.constrain}
        return Batch.of(collect(agent.policy, self.pool, specs, context, agent.sampling, **options))

    def episodes(
        self, split: str, count: int, group: int = 1, teacher: Agent | None = None
    ) -> Batch:
        """Returns episodes on tasks of a split, of which each `group` in a row start alike.

        Args:
            split: "train" or "test".
            count: number of episodes.
            group: number of episodes with the same start.
            teacher: the agent that plays them, in place of the policy.
        """
        rng = np.random.default_rng([self.seed, len(split)])
        starts = draw_tasks(self.tasks.split(split), -(-count // group), rng)
        drawn = [start for start in starts for _ in range(group)][:count]
        keys = [(self.seed, len(split), i) for i in range(count)]
        specs = [EpisodeSpec(*d, key) for d, key in zip(drawn, keys, strict=True)]
        if teacher is None:
            return self.play(specs)
        policy, agent = self.agent.policy, self.agent
        context = make_context(policy, agent.settings)
        room = action_room(policy, agent.sampling, agent.constrain)
        return Batch.of(
            demonstrate(policy, self.pool, specs, context, room, agent.constrain, teacher)
        )

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
        return self.returns(specs).reshape(len(states), count)

    def returns(self, specs: list[ForkSpec]) -> FloatArray:
        """Returns the returns [E] of episodes from where they fork."""
        played = self.play(specs)
        forks = np.array([len(spec.opening) - spec.tried for spec in specs])
        return returns_to_go(played)[played.turn_offsets[:-1] + forks]


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
    def load(cls, file: Path, settings: Mapping[str, Any]) -> Played:
        """Returns the episodes in a file, if they were played with the same settings."""
        found = torch.load(file, weights_only=False)
        refuse_other(file, found.get("settings", {}), settings, "--out")
        train, held = (Batch.of(unpack_all(found[name])) for name in ("train", "held"))
        return cls(train, held, found["states"], found["returns"])

    def save(self, file: Path, settings: Mapping[str, Any]) -> None:
        """Writes the episodes and their settings to a file."""
        batches = {"train": self.train, "held": self.held}
        packed = {name: pack_all(batch.trajectories) for name, batch in batches.items()}
        states = {"states": self.states, "returns": self.returns}
        torch.save({**packed, **states, "settings": settings}, file)


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
    names = ("episodes", "held_out", "states", "continuations", "demonstrations", "seed")
    about = {name: getattr(settings, name) for name in names} | {"group": group}
    if file.exists():
        return Played.load(file, about)
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
    played.save(file, about)
    return played


def returns_to_go(batch: Batch) -> FloatArray:
    """Returns the sum of rewards from each turn on [M], without a discount."""
    return discounted_returns(batch.rewards, batch.turn_offsets, 1.0).astype(np.float32)
