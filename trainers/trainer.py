"""`Trainer`: collect -> read values -> assign credit -> update -> log -> evaluate -> save.

It knows no algorithm: a recipe hands it a critic and a credit function and sets how ratios and
losses are formed. Everything random is derived from (run seed, purpose, round, index), so a run
that is continued needs no state of generators and goes on exactly as if it had never stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import nn

from agentgym.evaluate import make_env, tasks_of
from agentgym.report import Report
from agentgym.serialization import from_json
from agentgym.trainers.agent import PolicyAgent, make_context
from agentgym.trainers.assembly import (
    build_updater,
    load_experience,
    load_policy,
    load_progress,
    make_accelerator,
    open_folder,
    write_checkpoint,
    write_policy,
)
from agentgym.trainers.checkpoint import loading, replace_folder
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.curriculum import KINDS, horizon
from agentgym.trainers.evaluation import conclude, evaluate_agent, policy_agent
from agentgym.trainers.experience import Experience
from agentgym.trainers.imitation import warm_start
from agentgym.trainers.learner import Reading
from agentgym.trainers.log import Alternatives, RunLog, find_alternatives
from agentgym.trainers.policy import Policy
from agentgym.trainers.rollout import EnvPool, Episode, collect, rollout_metrics
from agentgym.trainers.shaping import with_penalties, without_equal_groups
from agentgym.trainers.stopping import Interrupted, StopSignal
from agentgym.trainers.trajectory import Batch, Credit, Trajectory, Values
from agentgym.trainers.update import Diverged, explained_variance

CreditFn = Callable[[Batch, Values | None], Credit]

# Purposes that randomness is derived for.
TASKS, ACTIONS, SHUFFLE, WARM_START, EXPERIENCE = range(5)


class Trainer:
    """Trains a policy in an environment.

    Args:
        recipe: name of the algorithm, for logs and folders.
        config: the settings.
        credit: from trajectories and values to advantages and value targets.
        critic: makes the critic of a policy; None: the credit function needs no values.
        experience: makes what replays, relabels or adjusts, once imitation is over (so copies of
            the policy are what it is before learning from reward); it is handed this trainer.

    Raises:
        CheckpointError: if the run's folder cannot be used.
        ConfigError: if the settings do not fit the environment or the model.
    """

    def __init__(
        self,
        recipe: str,
        config: TrainConfig,
        *,
        credit: CreditFn,
        critic: Callable[[Policy], nn.Module] | None = None,
        experience: Callable[[Trainer], Experience] | None = None,
    ):
        self.recipe, self.config, self.credit = recipe, config, credit
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self.accelerator = make_accelerator(config)
        self.is_main = self.accelerator.is_main_process
        self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes
        self.pool = EnvPool(
            lambda: make_env(config.env_id, **config.env_kwargs),
            -(-config.num_envs // self.world),
            config.env_workers,
        )
        self.tasks = tasks_of(self.pool.env(0)).split("train")
        self.folder = open_folder(self.accelerator, recipe, config)
        try:
            start = self.folder.latest()
            self.progress = load_progress(start)
            self.policy = load_policy(self.accelerator, config, self.folder, start)
            self.critic = None if critic is None else critic(self.policy)
            self.updater = build_updater(self.accelerator, config, self.policy, self.critic, start)
            self.context = make_context(self.policy, config.context_settings())
            self._make_experience = experience or (lambda _: Experience())
            self.experience = Experience()
            self.curriculum = KINDS[config.curriculum](self.tasks, config.train_tasks)
            if start is not None:
                saved = load_experience(start)
                self.experience = self._make_experience(self)
                with loading(start / "experience.pt"):
                    self.experience.load_state_dict(saved["experience"])
                    self.curriculum.load_state_dict(saved["curriculum"])
        except BaseException:
            self.folder.close()
            raise
        self.log = RunLog(
            self.folder.path,
            start=self.progress.iteration,
            evaluated=self.progress.evaluated,
            total=config.iterations,
            active=self.is_main,
            quiet=config.quiet,
        )
        self.stop = StopSignal(self.accelerator)
        self._saved = (self.progress.iteration, self.progress.evaluated) if start else None

    def rng(self, *key: int) -> np.random.Generator:
        """Returns the generator of a purpose."""
        return np.random.default_rng(np.random.SeedSequence([self.config.seed, *key]))

    def run(self) -> list[Report]:
        """Trains until the budget is spent; returns the evaluations before and after.

        Raises:
            Interrupted: after SIGINT or SIGTERM; everything is saved.
            Diverged: if learning failed; the last good checkpoint is kept.
        """
        with self.stop:
            try:
                if self._saved is None:
                    self._begin()
                while True:
                    self._evaluate_if_due()
                    if self._finished():
                        break
                    if self.progress.iteration % self.config.save_every == 0:
                        self._save()
                    self._round()
                self._save()
                return conclude(self.recipe, self.config, self.folder, self.log, self.progress)
            except Interrupted as interrupted:
                if self._saved is not None:
                    self._save()
                at = self.progress.iteration
                interrupted.add_note(f"Stopped after round {at}; --resume continues it.")
                raise
            except Diverged as error:
                saved = 0 if self._saved is None else self._saved[0]
                error.add_note(
                    f"This was in round {self.progress.iteration + 1}; the last good checkpoint "
                    f"is of round {saved}, in {self.folder.path}."
                )
                raise
            finally:
                self.pool.close()
                self.log.close()
                self.folder.close()

    def _begin(self) -> None:
        """Imitates the expert if wanted, and keeps where learning from reward began."""
        config = self.config
        if config.imitates:
            turns = warm_start(
                self.updater,
                self.pool,
                self.context,
                self.tasks,
                config,
                rng=lambda *key: self.rng(WARM_START, *key),
                say=self.log.say,
                check=self.stop.check,
            )
            self.progress.env_steps = turns if config.bc_share else 0
        self.experience = self._make_experience(self)
        if self._wants_reference and not self.policy.has_adapter:
            self.policy.freeze_reference()
            if self.is_main:
                replace_folder(self.folder.path / "reference", self.policy.save, checksums=True)
        self._save()

    @property
    def _wants_reference(self) -> bool:
        return self.config.kl_coef > 0 or self.experience.needs_reference

    def _finished(self) -> bool:
        config, progress = self.config, self.progress
        out_of_steps = config.env_steps is not None and progress.env_steps >= config.env_steps
        return progress.iteration >= config.iterations or out_of_steps

    # A round.

    def _round(self) -> None:
        """Collects, reads values, assigns credit, updates and logs."""
        config, progress = self.config, self.progress
        self.stop.agree()
        begun = time.perf_counter()
        trajectories = self._collect() if self.experience.plays else []
        collected = time.perf_counter()
        learning = without_equal_groups(trajectories) if config.filter_groups else trajectories
        at, rng = progress.iteration, self.rng(EXPERIENCE, progress.iteration)
        batch = Batch.of(self.experience.gather(learning, at, rng))
        reading = None
        if self.critic is not None or self._wants_reference or config.recompute_logprobs:
            reading = self.updater.read(batch, reference=self._wants_reference)
        relabelled = self.experience.relabel(batch, reading, at, rng)
        credit = self.credit(
            with_penalties(relabelled, reading, config), None if reading is None else reading.values
        )
        per = None if config.normalize_advantages == "none" else config.normalize_advantages
        entering = normalize_advantages(credit, batch, per)
        entering = self.experience.adjust(batch, entering, at)
        alternatives = self._alternatives(batch)  # before the weights change
        self._set_learning_rates()
        shuffles = (self.rng(SHUFFLE, progress.iteration, epoch) for epoch in range(config.epochs))
        losses = self.updater.update(batch, entering, reading, progress.iteration, shuffles)
        updated = time.perf_counter()
        if trajectories:
            self.curriculum.observe(trajectories)
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        tokens = sum(turn.stop - turn.start for turn in turns)
        progress.iteration += 1
        progress.episodes += len(trajectories)
        progress.env_steps += len(turns) + self.experience.env_steps
        progress.tokens += tokens
        times = {
            "time/collect": collected - begun,
            "time/update": updated - collected,
            "time/tokens_per_second": tokens / (updated - begun),
            "time/env_steps_per_second": len(turns) / (updated - begun),
        }
        played = trajectories or list(batch.trajectories)
        self._log(played, batch, credit, reading, losses, times, alternatives)

    def _alternatives(self, batch: Batch) -> Alternatives:
        """Returns log-probabilities of the admissible actions in the transcripts to be logged."""
        if not self.is_main:
            return {}
        return find_alternatives(
            self.policy, batch, self.config.transcripts, self.config.sampling()
        )

    def _collect(self) -> list[Trajectory]:
        """Plays the round's episodes; every process plays its share and gets all of them."""
        config, iteration = self.config, self.progress.iteration
        groups = config.episodes_per_iteration // config.group_size
        starts = self.curriculum.draw(groups, self.rng(TASKS, iteration))
        limit = horizon(config.horizons, config.horizon_every, iteration)
        for slot in range(self.pool.num_envs if limit else 0):
            self.pool.env(slot).unwrapped.max_turns = limit  # type: ignore[attr-defined]
        episodes = [
            Episode(task, seed, (config.seed, ACTIONS, iteration, i * config.group_size + j))
            for i, (task, seed) in enumerate(starts)
            for j in range(config.group_size)
        ]
        with self.accelerator.autocast():
            mine = collect(
                self.policy,
                self.pool,
                episodes[self.rank :: self.world],
                self.context,
                config.sampling(),
                constrain=config.constrain,
                on_progress=self.stop.check,
            )
        if self.world == 1:
            return mine
        numbers = range(self.rank, len(episodes), self.world)
        found = gather_object(list(zip(numbers, mine, strict=True)))
        return [trajectory for _, trajectory in sorted(found, key=lambda pair: pair[0])]

    def _set_learning_rates(self) -> None:
        config, left = self.config, 1.0
        if config.lr_schedule == "linear":
            left = 1.0 - self.progress.iteration / config.iterations
        rates = (config.lr, config.critic_lr)
        for group, rate in zip(self.updater.optimizer.param_groups, rates, strict=False):
            group["lr"] = rate * left

    def _log(
        self,
        trajectories: list[Trajectory],
        batch: Batch,
        credit: Credit,
        reading: Reading | None,
        losses: dict[str, float],
        times: dict[str, float],
        alternatives: Alternatives,
    ) -> None:
        progress = self.progress
        numbers = {f"rollout/{k}": v for k, v in rollout_metrics(trajectories).items()}
        numbers["rollout/kept"] = len(batch.trajectories) / len(trajectories)
        numbers |= {f"losses/{k}": v for k, v in losses.items()}
        extra = credit.metrics | self.experience.metrics
        numbers |= {f"credit/{k}": v for k, v in extra.items()}
        numbers["credit/advantage_mean"] = float(credit.advantages.mean())
        numbers["credit/advantage_std"] = float(credit.advantages.std())
        numbers["charts/tokens"] = float(progress.tokens)
        numbers["charts/lr"] = float(self.updater.optimizer.param_groups[0]["lr"])
        if reading is not None:
            gap = np.abs(reading.logprobs - batch.logprobs)
            numbers["rollout/logprob_gap"] = float(gap.max(initial=0.0))
            if reading.values is not None and credit.targets is not None:
                values = reading.values.tokens
                values = reading.values.turns if values is None else values
                numbers["losses/explained_variance"] = explained_variance(values, credit.targets)
                numbers["credit/value_mean"] = float(values.mean())
                self.log.histogram("credit/values", values, progress.iteration)
        self.log.row(progress, numbers | times)
        self.log.histogram("credit/advantages", credit.advantages, progress.iteration)
        self.log.transcripts(
            batch,
            credit,
            None if reading is None else reading.values,
            progress.iteration,
            self.config.transcripts,
            self.policy.decode,
            alternatives,
        )

    # Between rounds.

    def _evaluate_if_due(self) -> None:
        """Plays held-out tasks before, after and every so many rounds."""
        config, progress = self.config, self.progress
        every, at = config.eval_every, progress.iteration
        due = at == 0 or self._finished() or (every > 0 and at % every == 0)
        if not config.eval_episodes or not due or progress.evaluated == at:
            return
        begun = time.perf_counter()
        found: list[Any] = []
        if self.is_main:
            name = self.recipe if at else ("imitation" if config.imitates else "start")
            agent = self._agent(name)
            found = [evaluate_agent(config, agent, self.stop.check).to_json()]
        if self.world > 1:
            found = gather_object(found)
        report = from_json(Report, found[0])
        estimates = report.aggregate()
        reward = estimates["reward"]
        progress.evaluated, progress.last = at, found[0]
        if at == 0:
            progress.first = found[0]
        if progress.best_reward is None or reward.mean > progress.best_reward:
            progress.best_reward, progress.best_iteration = reward.mean, at
            if self.is_main:
                replace_folder(
                    self.folder.path / "best",
                    lambda path: write_policy(path, self._agent(self.recipe), config, progress),
                )
        numbers = {f"eval/{name}": estimate.mean for name, estimate in estimates.items()}
        numbers["eval/reward_low"] = reward.mean if reward.low is None else reward.low
        numbers["eval/reward_high"] = reward.mean if reward.high is None else reward.high
        numbers["time/evaluate"] = time.perf_counter() - begun
        self.log.row(progress, numbers)

    def _agent(self, name: str) -> PolicyAgent:
        """Returns who plays evaluations; before the first round that is the policy alone."""
        agent = policy_agent(self.config, self.policy, name)
        return self.experience.agent(agent) if self.progress.iteration else agent

    def _save(self) -> None:
        """Writes a checkpoint, unless the newest one says the same."""
        progress = self.progress
        state = (progress.iteration, progress.evaluated)
        if self._saved == state:
            return
        if self.is_main:
            self.folder.save(
                progress.iteration,
                lambda path: write_checkpoint(
                    path,
                    self.config,
                    self.updater,
                    self._agent(self.recipe),
                    {
                        "experience": self.experience.state_dict(),
                        "curriculum": self.curriculum.state_dict(),
                    },
                    progress,
                ),
                keep=self.config.keep,
                best=progress.best_iteration,
            )
        self.accelerator.wait_for_everyone()
        self._saved = state
