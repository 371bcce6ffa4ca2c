"""`Trainer`: rollout -> forward pass -> credit -> update -> log -> evaluate -> save.

The trainer contains no algorithm. A recipe provides an `Algorithm`: a credit function, a critic and
hooks. `Trainer.iterate` is one iteration of training. All randomness is derived from (seed,
purpose, iteration, index), so a resumed run needs no generator states and continues exactly as if
it had never stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import nn

from agentgym.evaluation.report import Report
from agentgym.making import tasks_of
from agentgym.trainers.callbacks import Callback, CallbackList
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import SIZES
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.rollout.collector import (
    EnvPool,
    EpisodeSpec,
    collect,
    rollout_metrics,
)
from agentgym.trainers.rollout.curriculum import KINDS, horizon
from agentgym.trainers.run.checkpoint import loading, replace_folder
from agentgym.trainers.run.environment import RewardFn, environment_factory
from agentgym.trainers.run.evaluation import conclude, evaluate_agent, policy_agent
from agentgym.trainers.run.logger import Alternatives, RunLog, find_alternatives
from agentgym.trainers.run.setup import (
    build_updater,
    load_frozen,
    load_hooks,
    load_policy,
    load_run_state,
    make_accelerator,
    open_folder,
    write_checkpoint,
    write_frozen,
    write_policy,
)
from agentgym.trainers.run.signals import Interrupted, StopSignal
from agentgym.trainers.trajectory import Batch, Credit, Trajectory, Values
from agentgym.trainers.update.behaviour_cloning import clone_expert
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.penalties import with_penalties, without_equal_groups
from agentgym.trainers.update.updater import Diverged, explained_variance
from agentgym.utils.serialization import from_json

CreditFn = Callable[[Batch, Values | None], Credit]

# Purposes of derived randomness.
TASKS, ACTIONS, SHUFFLE, CLONING, HOOKS = range(5)


@dataclass(frozen=True)
class Algorithm:
    """The parts of a recipe.

    Attributes:
        credit: maps trajectories and values to advantages and value targets. None: the hooks
            assign credit, and penalties on rewards (`kl_in reward`, `overlong_margin`) are refused.
        critic: makes the critic of a policy. None: the credit function needs no values.
        hooks: makes the recipe's hooks, given the trainer. They are made after behaviour cloning,
            so copies of the policy in them are the policy before RL.
    """

    credit: CreditFn | None = None
    critic: Callable[[Policy], nn.Module] | None = None
    hooks: Callable[[Trainer], RecipeHooks] | None = None


class Trainer:
    """Trains a policy in an environment.

    Args:
        recipe: name of the algorithm, for logs and folders.
        config: the settings.
        algorithm: the parts of the recipe.
        env: an environment, or a function that makes one, in place of `config`'s `env_id`.
        reward: replaces the reward of every step (see `agentgym.wrappers.RewardFunction`).
        callbacks: called during training.
        trackers: further trackers of accelerate, besides `config`'s `log_with`.

    Raises:
        CheckpointError: if the run's folder cannot be used.
        ConfigError: if the settings do not fit the environment or the model.
    """

    def __init__(
        self,
        recipe: str,
        config: TrainConfig,
        algorithm: Algorithm,
        *,
        env: Any = None,
        reward: RewardFn | None = None,
        callbacks: Iterable[Callback] = (),
        trackers: Iterable[Any] = (),
    ):
        if algorithm.credit is None:
            why = f"{recipe} assigns credit without rewards"
            config.fixed(why, kl_in="loss", overlong_margin=0)
        self.callbacks = CallbackList(callbacks)
        self.make_env, config = environment_factory(config, env, reward)
        self.recipe, self.config, self.algorithm = recipe, config, algorithm
        if config.run.threads is not None:
            torch.set_num_threads(config.run.threads)
        self.accelerator = make_accelerator(config, trackers)
        self.is_main = self.accelerator.is_main_process
        self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes
        self.pool = EnvPool(
            self.make_env,
            -(-config.rollout.num_envs // self.world),
            config.environment.env_workers,
        )
        self.tasks = tasks_of(self.pool.env(0)).split("train")
        self.folder = open_folder(self.accelerator, recipe, config)
        try:
            start = self.folder.latest()
            self.state = load_run_state(start)
            self.policy = load_policy(self.accelerator, config, self.make_env, self.folder, start)
            self.critic = None if algorithm.critic is None else algorithm.critic(self.policy)
            self.updater = build_updater(self.accelerator, config, self.policy, self.critic, start)
            self.context = make_context(self.policy, config.context_settings())
            self.hooks = RecipeHooks()
            self.curriculum = KINDS[config.environment.curriculum](
                self.tasks, config.environment.train_tasks
            )
            if start is not None:
                saved = load_hooks(start)
                self.hooks = self._make_hooks()
                with loading(start / "experience.pt"):
                    self.hooks.load_frozen_state(load_frozen(self.folder))
                    self.hooks.load_state_dict(saved["experience"])
                    self.curriculum.load_state_dict(saved["curriculum"])
        except BaseException:
            self.folder.close()
            raise
        self.log = RunLog(
            self.folder.path,
            start=self.state.iteration,
            evaluated=self.state.evaluated,
            total=config.run.iterations,
            accelerator=self.accelerator,
            tensorboard="tensorboard" in config.run.log_with,
            settings=config.to_json(),
            quiet=config.run.quiet,
        )
        self.stop = StopSignal(self.accelerator)
        self._saved = (self.state.iteration, self.state.evaluated) if start else None
        self._saved_time = time.monotonic()

    # One iteration.

    def iterate(self) -> None:
        """Plays episodes, assigns credit, updates policy and critic, and logs."""
        config, state, hooks = self.config, self.state, self.hooks
        self.stop.agree()
        self.callbacks.call("on_iteration_start", self)
        begun = time.perf_counter()
        trajectories = self._collect() if hooks.plays else []
        collected = time.perf_counter()
        self.callbacks.call("on_rollout_end", self, trajectories)
        learning = without_equal_groups(trajectories) if config.loss.filter_groups else trajectories
        at, rng = state.iteration, self.rng(HOOKS, state.iteration)
        batch = Batch.of(hooks.on_rollout_end(learning, at, rng))
        forward = None
        if self.critic is not None or self._wants_reference or config.recompute_logprobs:
            forward = self.updater.evaluate_actions(batch, reference=self._wants_reference)
        rewarded = hooks.on_rewards(batch, forward, at, rng)
        if self.algorithm.credit is None:
            credit = hooks.credit(rewarded, forward, at, rng)
        else:
            values = None if forward is None else forward.values
            credit = self.algorithm.credit(with_penalties(rewarded, forward, config), values)
        over = config.loss.normalize_advantages
        entering = normalize_advantages(credit, batch, None if over == "none" else over)
        entering = hooks.on_advantages(batch, entering, at)
        alternatives = self._alternatives(batch)  # before the weights change
        self._set_learning_rates()
        epochs = range(config.optimisation.epochs)
        shuffles = (self.rng(SHUFFLE, state.iteration, epoch) for epoch in epochs)
        losses = self.updater.update(batch, entering, forward, state.iteration, shuffles)
        updated = time.perf_counter()
        if trajectories:
            self.curriculum.observe(trajectories)
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        tokens = sum(turn.stop - turn.start for turn in turns)
        state.iteration += 1
        state.episodes += len(trajectories)
        state.env_steps += len(turns) + hooks.env_steps
        state.tokens += tokens
        times = {
            "time/collect": collected - begun,
            "time/update": updated - collected,
            "time/tokens_per_second": tokens / (updated - begun),
            "time/env_steps_per_second": len(turns) / (updated - begun),
        }
        played = trajectories or list(batch.trajectories)
        numbers = self._log(played, batch, credit, forward, losses, times, alternatives)
        self.callbacks.call("on_update_end", self, numbers)

    # The run.

    def run(self) -> list[Report]:
        """Trains until the budget is spent and returns the evaluations before and after.

        Raises:
            Interrupted: after SIGINT or SIGTERM, when everything is saved.
            Diverged: if training diverged. The last good checkpoint is kept.
        """
        with self.stop:
            try:
                self.callbacks.call("on_training_start", self)
                if self._saved is None:
                    self._begin()
                while True:
                    self._evaluate_if_due()
                    if self._finished():
                        break
                    if self._save_is_due():
                        self._save()
                    self.iterate()
                self._save()
                reports = conclude(
                    self.recipe, self.config, self.make_env, self.folder, self.log, self.state
                )
                self.callbacks.call("on_training_end", self)
                return reports
            except Interrupted as interrupted:
                if self._saved is not None:
                    self._save()
                at = self.state.iteration
                interrupted.add_note(f"Stopped after iteration {at}. --resume continues the run.")
                raise
            except Diverged as error:
                saved = 0 if self._saved is None else self._saved[0]
                error.add_note(
                    f"Training diverged in iteration {self.state.iteration + 1}. The last good "
                    f"checkpoint is of iteration {saved}, in {self.folder.path}."
                )
                raise
            finally:
                self.pool.close()
                self.log.close()
                self.folder.close()

    def rng(self, *key: int) -> np.random.Generator:
        """Returns the random generator of a purpose and its indices."""
        return np.random.default_rng(np.random.SeedSequence([self.config.run.seed, *key]))

    def _begin(self) -> None:
        """Runs behaviour cloning if set, freezes the reference and saves the first checkpoint."""
        config = self.config
        if config.imitates:
            turns = clone_expert(
                self.updater,
                self.pool,
                self.context,
                self.tasks,
                config,
                rng=lambda *key: self.rng(CLONING, *key),
                say=self.log.say,
                check=self.stop.check,
            )
            self.state.env_steps = turns if config.imitation.bc_share else 0
        self.hooks = self._make_hooks()
        if self.is_main:
            write_frozen(self.folder, self.hooks.frozen_state())
        if self._wants_reference and not self.policy.has_adapter:
            self.policy.freeze_reference()
            if self.is_main:
                replace_folder(self.folder.path / "reference", self.policy.save, checksums=True)
        self._save()

    def _make_hooks(self) -> RecipeHooks:
        make = self.algorithm.hooks
        return RecipeHooks() if make is None else make(self)

    @property
    def _wants_reference(self) -> bool:
        return self.config.loss.kl_coef > 0 or self.hooks.needs_reference

    def _finished(self) -> bool:
        budget, state = self.config.run, self.state
        out_of_steps = budget.env_steps is not None and state.env_steps >= budget.env_steps
        return self.callbacks.stopped or state.iteration >= budget.iterations or out_of_steps

    def _collect(self) -> list[Trajectory]:
        """Plays the episodes of an iteration. Each process plays a share and receives all."""
        config, iteration = self.config, self.state.iteration
        groups = config.rollout.episodes_per_iteration // config.rollout.group_size
        starts = self.curriculum.draw(groups, self.rng(TASKS, iteration))
        limit = horizon(config.environment.horizons, config.environment.horizon_every, iteration)
        size = config.rollout.group_size
        episodes = [
            EpisodeSpec(
                task, seed, (config.run.seed, ACTIONS, iteration, i * size + j), max_turns=limit
            )
            for i, (task, seed) in enumerate(starts)
            for j in range(size)
        ]
        with self.accelerator.autocast():
            mine = collect(
                self.policy,
                self.pool,
                episodes[self.rank :: self.world],
                self.context,
                config.sampling(),
                constrain=config.rollout.constrain,
                on_progress=self.stop.check,
            )
        if self.world == 1:
            return mine
        numbers = range(self.rank, len(episodes), self.world)
        found = gather_object(list(zip(numbers, mine, strict=True)))
        return [trajectory for _, trajectory in sorted(found, key=lambda pair: pair[0])]

    def _alternatives(self, batch: Batch) -> Alternatives:
        """Returns log-probabilities of the admissible actions in the transcripts to be logged."""
        if not self.is_main:
            return {}
        count, sampling = self.config.run.transcripts, self.config.sampling()
        return find_alternatives(self.policy, batch, count, sampling)

    def _set_learning_rates(self) -> None:
        config, left = self.config, 1.0
        if config.optimisation.lr_schedule == "linear":
            left = 1.0 - self.state.iteration / config.run.iterations
        rates = (config.optimisation.lr, config.critic.critic_lr)
        for group, rate in zip(self.updater.optimizer.param_groups, rates, strict=False):
            group["lr"] = rate * left

    def _log(
        self,
        trajectories: list[Trajectory],
        batch: Batch,
        credit: Credit,
        forward: ForwardPass | None,
        losses: dict[str, float],
        times: dict[str, float],
        alternatives: Alternatives,
    ) -> dict[str, float]:
        """Logs the iteration and returns its scalars."""
        state = self.state
        numbers = {f"rollout/{k}": v for k, v in rollout_metrics(trajectories).items()}
        numbers["rollout/kept"] = len(batch.trajectories) / len(trajectories)
        numbers |= {f"losses/{k}": v for k, v in losses.items()}
        extra = credit.metrics | self.hooks.metrics
        numbers |= {f"credit/{k}": v for k, v in extra.items()}
        numbers["credit/advantage_mean"] = float(credit.advantages.mean())
        numbers["credit/advantage_std"] = float(credit.advantages.std())
        numbers["charts/tokens"] = float(state.tokens)
        numbers["charts/lr"] = float(self.updater.optimizer.param_groups[0]["lr"])
        if forward is not None:
            gap = np.abs(forward.logprobs - batch.logprobs)
            numbers["rollout/logprob_gap"] = float(gap.max(initial=0.0))
            if forward.values is not None and credit.targets is not None:
                values = forward.values.tokens
                values = forward.values.turns if values is None else values
                numbers["losses/explained_variance"] = explained_variance(values, credit.targets)
                numbers["credit/value_mean"] = float(values.mean())
                self.log.histogram("credit/values", values, state.iteration)
        numbers |= times
        self.log.row(state, numbers)
        self.log.histogram("credit/advantages", credit.advantages, state.iteration)
        self.log.transcripts(
            batch,
            credit,
            None if forward is None else forward.values,
            state.iteration,
            self.config.run.transcripts,
            self.policy.decode,
            alternatives,
        )
        return numbers

    # Between iterations.

    def _evaluate_if_due(self) -> None:
        """Evaluates on held-out tasks before, after and every `eval_every` iterations."""
        config, state = self.config, self.state
        every, at = config.evaluation.eval_every, state.iteration
        due = at == 0 or self._finished() or (every > 0 and at % every == 0)
        if not config.evaluation.eval_episodes or not due or state.evaluated == at:
            return
        begun = time.perf_counter()
        found: list[Any] = []
        if self.is_main:
            name = self.recipe if at else ("imitation" if config.imitates else "start")
            agent = self._agent(name)
            found = [evaluate_agent(config, self.make_env, agent, self.stop.check).to_json()]
        if self.world > 1:
            found = gather_object(found)
        report = from_json(Report, found[0])
        estimates = report.aggregate()
        reward = estimates["reward"]
        state.evaluated, state.last = at, found[0]
        if at == 0:
            state.first = found[0]
        if state.best_reward is None or reward.mean > state.best_reward:
            state.best_reward, state.best_iteration = reward.mean, at
            if self.is_main:
                replace_folder(
                    self.folder.path / "best",
                    lambda path: write_policy(path, self._agent(self.recipe), config, state),
                )
        numbers = {f"eval/{name}": estimate.mean for name, estimate in estimates.items()}
        numbers["eval/reward_low"] = reward.mean if reward.low is None else reward.low
        numbers["eval/reward_high"] = reward.mean if reward.high is None else reward.high
        numbers["time/evaluate"] = time.perf_counter() - begun
        self.log.row(state, numbers)
        self.callbacks.call("on_evaluation_end", self, report)

    def _agent(self, name: str) -> PolicyAgent:
        """Returns the agent of evaluations. Before the first iteration it is the policy alone."""
        agent = policy_agent(self.config, self.policy, name)
        return self.hooks.agent(agent) if self.state.iteration else agent

    def _save_is_due(self) -> bool:
        run, minutes = self.config.run, self.config.run.save_minutes
        if minutes is None:
            minutes = 0.0 if self.config.model.model in SIZES else 10.0
        due = time.monotonic() - self._saved_time >= 60 * minutes
        if self.world > 1:  # the main process decides
            due = gather_object([due])[0]
        return due and self.state.iteration % run.save_every == 0

    def _save(self) -> None:
        """Writes a checkpoint unless the newest one is of the same state."""
        state = self.state
        at = (state.iteration, state.evaluated)
        if self._saved == at:
            return
        if self.is_main:
            self.folder.save(
                state.iteration,
                lambda path: write_checkpoint(
                    path,
                    self.config,
                    self.updater,
                    self._agent(self.recipe),
                    {
                        "experience": self.hooks.state_dict(),
                        "curriculum": self.curriculum.state_dict(),
                    },
                    state,
                ),
                keep=self.config.run.keep,
                best=state.best_iteration,
            )
        self.accelerator.wait_for_everyone()
        self._saved, self._saved_time = at, time.monotonic()
