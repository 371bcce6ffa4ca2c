"""`Rollouts`: the episodes of a run, with their tasks, players and environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from accelerate import Accelerator

from agentgym.trainers.data.streams import ACTIONS, TASKS
from agentgym.trainers.data.trajectory import Trajectory, judged_ones
from agentgym.trainers.gateway.harness import Harness
from agentgym.trainers.players.frozen_players import FrozenPlayers
from agentgym.trainers.players.lineup import Lineup
from agentgym.trainers.players.older_policy import OlderPolicy
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.rollout.curriculum import make_curriculum
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.executor import LocalExecutor
from agentgym.trainers.rollout.task_sampling import (
    Curriculum,
    SolvedLengths,
    SuccessRates,
    group_sizes,
)
from agentgym.trainers.run.environment import RewardFn
from agentgym.trainers.run.journal import Journal
from agentgym.trainers.run.workers import make_executor
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system.checkpoint import RunFolder
from agentgym.trainers.system.processes import broadcast_value, map_across_processes


class Rollouts:
    """Chooses and plays the episodes of the iterations of a run.

    Args:
        config: the settings.
        policies: the policies of the roles, or a single one under any name.
        pool: the environments.
        tasks: the training tasks.
        lineup: the players of the seats of games.
        folder: the folder of the run.
        accelerator: the accelerator, whose processes share the episodes.
        check: called during the episodes, with their number of finished ones where it is known.
            An exception from it ends them.
        rng: maps a key to a random generator.
        bootstraps: whether the last observations of truncated episodes are read.
        env: an environment, or a function that makes one, in place of the setting `env_id`.
        reward: replaces the reward of every step.
        harness: the program that plays the episodes, in place of the setting.

    Attributes:
        curriculum: chooses the tasks.
        success: the success rates of the tasks.
        players: the frozen policies in the seats of games.
        executor: plays the episodes of this process.
        journal: the finished episodes since the last checkpoint.
        turns: turns that the policy played since the last `spent`.
        tokens: tokens that the policy generated in them.
    """

    def __init__(
        self,
        config: TrainConfig,
        policies: Mapping[str, Policy],
        *,
        pool: EnvPool,
        tasks: Sequence[str],
        lineup: Lineup,
        folder: RunFolder,
        accelerator: Accelerator,
        check: Callable[..., None],
        rng: Callable[..., np.random.Generator],
        bootstraps: bool = True,
        env: Any = None,
        reward: RewardFn | None = None,
        harness: Harness | None = None,
    ):
        self.config, self.lineup, self._rng = config, lineup, rng
        self._accelerator, self._bootstraps = accelerator, bootstraps
        self.journal = Journal(
            folder.path, accelerator.process_index, exact=accelerator.device.type == "cpu"
        )
        policy = next(iter(policies.values()))
        self.players = FrozenPlayers(
            config,
            policy,
            env=pool.env(0),
            folder=folder,
            accelerator=accelerator,
            check=check,
        )
        self._older: OlderPolicy | None = None
        if config.rollout.cross_policy:
            self._older = OlderPolicy(
                policy,
                folder,
                accelerator,
                share=config.rollout.cross_policy,
                every=config.rollout.cross_policy_every,
            )
        self.curriculum = make_curriculum(
            config.environment.curriculum,
            tasks,
            config.environment.train_tasks,
            pool.first_observation,
        )
        self.success, self.lengths = SuccessRates(tasks), SolvedLengths()
        self.executor = make_executor(
            config,
            policy,
            pool,
            env=env,
            reward=reward,
            on_progress=check,
            on_episode=self.journal.append,
            harness=harness,
        )
        if isinstance(self.executor, LocalExecutor) and len(policies) > 1:
            self.executor.policy = Ensemble(policy, policies)
        self._started: dict[int, Callable[[], list[Trajectory]]] = {}
        self._iteration = 0
        self._unjudged = 0  # episodes of the current iteration, until `metrics`
        self.turns = self.tokens = 0

    def turn_limit(self, iteration: int) -> int | None:
        """Returns the turn limit of the episodes of an iteration, None for the environment's."""
        return self.config.environment.turn_limit(iteration)

    def limit_of(self, task: str, iteration: int) -> int | None:
        """Returns the turn limit of the episodes of a task in an iteration."""
        limits = self.config.environment.limits_by_task
        return self.lengths.limit(task, limits) if limits else self.turn_limit(iteration)

    def collect(self, iteration: int) -> list[Trajectory]:
        """Plays the episodes of an iteration, and starts those of the next `max_staleness` ones.

        Those on which the verdict of a judge is unreadable have no outcome, and are left out.

        Raises:
            Interrupted: if a process received a signal.
            ConfigError: if no verdict can be read.
        """
        self._iteration = iteration
        last = min(iteration + self.config.rollout.max_staleness, self.config.run.iterations - 1)
        for number in range(iteration, max(iteration, last) + 1):
            if number not in self._started:
                self._started[number] = self._start(self.episodes(number))
        played = self._started.pop(iteration)()
        judged = judged_ones(played)
        self._unjudged = len(played) - len(judged)
        return judged

    def episodes(self, iteration: int) -> Sequence[EpisodeSpec]:
        """Returns the requests of the episodes of an iteration."""
        config, size = self.config, self.config.rollout.group_size
        groups = config.rollout.episodes_per_iteration // size
        starts = self.draw(groups, self._rng(TASKS, iteration))
        sizes = [size] * groups
        if config.rollout.adaptive_groups:
            sizes = group_sizes([self.success.rates.get(task, 0.5) for task, _ in starts], size)
        members = [start for start, n in zip(starts, sizes, strict=True) for _ in range(n)]
        episodes = [
            EpisodeSpec(
                task,
                seed,
                (config.run.seed, ACTIONS, iteration, i),
                max_turns=self.limit_of(task, iteration),
                bootstraps=self._bootstraps,
            )
            for i, (task, seed) in enumerate(members)
        ]
        return self.seat(episodes, iteration)

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns sampled tasks, each with a seed, the same in all processes."""
        starts: list[tuple[str, int]] = []
        if self._accelerator.is_main_process:  # a model that chooses tasks is asked once
            starts = self.curriculum.draw(count, rng)
            if self.lineup.agents and type(self.curriculum) is not Curriculum:
                # Groups take the seats in turn, and most curricula order their tasks.
                starts = [starts[int(i)] for i in rng.permutation(count)]
        return broadcast_value(self._accelerator, starts)

    def seat(self, episodes: Sequence[EpisodeSpec], iteration: int) -> Sequence[EpisodeSpec]:
        """Returns the episodes with the policies that play them, in all seats of games."""
        if self._older is not None:
            assert isinstance(self.executor, LocalExecutor)
            episodes, self.executor.policy = self._older.join(episodes, iteration)
        members = self.players.begin(iteration)
        seated = self.lineup.seat(episodes, iteration, members, self.players.share)
        if self.config.game.frozen:
            assert isinstance(self.executor, LocalExecutor)
            self.executor.policy = self.players.join(seated)
        return seated

    def play(self, episodes: Sequence[EpisodeSpec]) -> list[Trajectory]:
        """Plays episodes, of which each process plays a share, and returns all trajectories.

        They are in the order of the episodes, those of a game one after another. Episodes that were
        finished before the run was resumed come from the journal. Episodes without a turn limit of
        their own have that of their task, or of the current iteration. Those on which the verdict
        of a judge is unreadable keep their places, and the loss leaves out their turns. What is
        computed from the rewards of several must leave them out (see `is_judged`).

        Raises:
            Interrupted: if a process received a signal.
        """
        limited = [
            each
            if each.max_turns is not None
            else replace(each, max_turns=self.limit_of(each.task, self._iteration))
            for each in episodes
        ]
        played = self._start(limited)()
        for trajectory in played:
            if trajectory.stats.unjudged:
                self._unjudged += 1
                for turn in trajectory.turns:
                    turn.weight = 0.0
        return played

    def _start(self, episodes: Sequence[EpisodeSpec]) -> Callable[[], list[Trajectory]]:
        """Starts episodes, of which each process plays a share, and returns a wait for all."""
        accelerator = self._accelerator
        found = broadcast_value(accelerator, self.journal.read(episodes))
        left = [i for i in range(len(episodes)) if i not in found]
        specs = [episodes[i] for i in left]
        play = self.executor.start(specs[accelerator.process_index :: accelerator.num_processes])

        def wait() -> list[Trajectory]:
            played = map_across_processes(accelerator, specs, lambda _: play())
            both = found | dict(zip(left, played, strict=True))
            trajectories = [each for i in range(len(episodes)) for each in both[i]]
            self.count(trajectories, episodes)
            return trajectories

        return wait

    def count(
        self, trajectories: Sequence[Trajectory], episodes: Sequence[EpisodeSpec] = ()
    ) -> None:
        """Counts turns and tokens, without those that the episodes replay."""
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        recorded = [sample for episode in episodes for sample in episode.recorded]
        self.turns += len(turns) - len(recorded)
        self.tokens += sum(turn.stop - turn.start for turn in turns)
        self.tokens -= sum(len(sample.tokens) for sample in recorded)

    def spent(self) -> tuple[int, int]:
        """Returns the turns and tokens since the last call."""
        found = self.turns, self.tokens
        self.turns = self.tokens = 0
        return found

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Takes the results of an iteration's episodes into account."""
        if trajectories:
            self.curriculum.observe(trajectories)
            if self.config.rollout.adaptive_groups:
                self.success.observe(trajectories)
            if self.config.environment.limits_by_task:
                self.lengths.observe(trajectories)
        self.players.observe(trajectories)

    def metrics(self) -> dict[str, float]:
        """Returns scalars of the executor and of the pool of opponents, and unreadable verdicts."""
        found = {f"rollout/{name}": x for name, x in self.executor.metrics().items()}
        unjudged, self._unjudged = self._unjudged, 0
        if unjudged:
            found["rollout/unjudged"] = float(unjudged)
        return found | {f"pool/{name}": x for name, x in self.players.metrics().items()}

    def forget(self) -> None:
        """Deletes the journal, when a checkpoint holds all that was learned from them."""
        self.journal.clear()

    def state_dict(self) -> dict[str, Any]:
        """Returns curriculum, success rates and opponents."""
        return {
            "curriculum": self.curriculum.state_dict(),
            "success": self.success.state_dict(),
            "lengths": dict(self.lengths.turns),
            "players": self.players.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a checkpoint."""
        self.curriculum.load_state_dict(state["curriculum"])
        self.success.load_state_dict(state.get("success", {"rates": {}}))
        self.lengths.turns = dict(state.get("lengths", {}))
        self.players.load_state_dict(state.get("players", {}))
