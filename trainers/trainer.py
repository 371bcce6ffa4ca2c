"""`Trainer`: rollout -> forward pass -> credit -> update -> log -> evaluate -> save.

The trainer contains no algorithm. A recipe provides an `Algorithm`: a credit function, a critic and
hooks. `Trainer.iterate` is one iteration of training. All randomness is derived from (seed,
purpose, iteration, index), so a resumed run needs no generator states and continues exactly as if
it had never stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.making import tasks_of
from agentgym.trainers.callbacks import Callback, CallbackList
from agentgym.trainers.config import UNCHANGED_REWARDS, TrainConfig
from agentgym.trainers.credit.group import weigh_by_difficulty
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.credit.thoughts import share_turn_credit
from agentgym.trainers.critics.heads import ValueHead
from agentgym.trainers.critics.privileged import critic_view
from agentgym.trainers.critics.value_model import ValueModel
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy.policy import Policy, Request, Sample
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.rollout.collector import EnvPool, EpisodeSpec
from agentgym.trainers.run.checkpoint import loading, replace_folder
from agentgym.trainers.run.checks import check_critic, check_hooks
from agentgym.trainers.run.environment import (
    RewardFn,
    check_constraint,
    environment_factory,
    evaluation_factory,
)
from agentgym.trainers.run.evaluation import (
    conclude,
    evaluate_agent,
    evaluate_seats,
    evaluation_metrics,
    exact_metrics,
    join_seats,
    policy_agent,
)
from agentgym.trainers.run.games import Lineup
from agentgym.trainers.run.logger import Alternatives, RunLog, find_alternatives
from agentgym.trainers.run.metrics import iteration_metrics
from agentgym.trainers.run.processes import align, from_main, shared
from agentgym.trainers.run.roles import build_updaters, load_policies, set_learning_rates
from agentgym.trainers.run.rollouts import TASKS, Rollouts
from agentgym.trainers.run.setup import (
    load_frozen,
    load_hooks,
    load_run_state,
    make_accelerator,
    open_folder,
    write_checkpoint,
    write_frozen,
    write_policy,
    write_reference,
)
from agentgym.trainers.run.signals import Interrupted, StopSignal
from agentgym.trainers.trajectory import Batch, Credit, Trajectory, Values
from agentgym.trainers.update.behaviour_cloning import clone_expert
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.mismatch import logprob_gap
from agentgym.trainers.update.penalties import with_penalties, without_equal_groups
from agentgym.trainers.update.reward_options import RewardOptions
from agentgym.trainers.update.sharding import as_whole
from agentgym.trainers.update.updater import Diverged

CreditFn = Callable[[Batch, Values | None], Credit]

# Purposes of derived randomness, after those of rollouts.
SHUFFLE, CLONING, HOOKS, CRITIC = range(2, 6)


@dataclass(frozen=True)
class Algorithm:
    """The parts of a recipe.

    Attributes:
        credit: maps trajectories and values to advantages and value targets. None: the hooks
            assign credit, and penalties on rewards (`kl_in reward`, `overlong_margin`) are refused.
        critic: makes the critic of a policy. None: the credit function needs no values.
        hooks: makes the recipe's hooks, given the trainer. They are made after behaviour cloning,
            so copies of the policy in them are the policy before RL.
        trains_policy: whether the hooks train the policy. Its weights are then not sharded (FSDP2).
    """

    credit: CreditFn | None = None
    critic: Callable[[Policy], nn.Module] | None = None
    hooks: Callable[[Trainer], RecipeHooks] | None = None
    trains_policy: bool = False


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
            why = f"{recipe} assigns credit from learned models or counts, not from rewards"
            config.fixed(why, **UNCHANGED_REWARDS, group_weight="none")
        check_critic(
            recipe,
            config.critic,
            has_critic=algorithm.critic is not None,
            credits_returns=algorithm.credit is not None,
            games=not config.game.scripted,
        )
        self.callbacks = CallbackList(callbacks)
        self.make_env, config = environment_factory(config, env, reward)
        self.make_eval_env = evaluation_factory(config, self.make_env, reward)
        self.recipe, self.config, self.algorithm = recipe, config, algorithm
        if config.run.threads is not None:
            torch.set_num_threads(config.run.threads)
        self.accelerator = make_accelerator(config, trackers)
        if self.accelerator.is_fsdp2 and algorithm.trains_policy:
            raise ConfigError(
                f"{recipe} trains the whole policy in each process, for which FSDP2 saves no "
                "memory: use DDP (`accelerate launch --multi_gpu`), or another recipe."
            )
        self.is_main = self.accelerator.is_main_process
        self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes
        self.pool = EnvPool(
            self.make_env,
            -(-config.rollout.num_envs // self.world),
            config.environment.env_workers,
        )
        self.tasks = tasks_of(self.pool.env(0)).split("train")
        check_constraint(config, self.pool.env(0))
        self.lineup = Lineup(config, self.pool.env(0))
        self.folder = open_folder(self.accelerator, recipe, config)
        try:
            start = self.folder.latest()
            self.state = load_run_state(start)
            roles = self.lineup.roles
            self.policies = load_policies(
                self.accelerator, config, self.make_env, self.folder, start, roles
            )
            self.policy = self.policies[roles[0]]
            make_critic, own = algorithm.critic, config.critic.critic_trunk == "own"
            self._head = make_critic(self.policy) if make_critic and own else None
            self.own_critic: ValueModel | None = None
            self.updaters = build_updaters(
                self.accelerator,
                config,
                self.policies,
                None if own else make_critic,
                start,
                self.lineup.learning,
            )
            self.updater = self.updaters.parts[roles[0]]
            self.critic = self.updater.module.critic
            self.context = make_context(self.policy, config.context_settings())
            self.stop = StopSignal(self.accelerator)
            self.rollouts = Rollouts(
                config,
                self.policies,
                pool=self.pool,
                tasks=self.tasks,
                lineup=self.lineup,
                folder=self.folder,
                accelerator=self.accelerator,
                stop=self.stop,
                rng=self.rng,
                env=env,
                reward=reward,
            )
            self.hooks = RecipeHooks()
            self.rewards = RewardOptions(config)
            self._cloning: dict[str, Any] | None = None
            if start is None:
                self.rollouts.forget()
            else:
                self._restore(start)
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
        self.log.say(config.chosen_defaults())
        self._saved = self._progress() if start else None
        self._saved_time = time.monotonic()

    def _restore(self, start: Path) -> None:
        """Restores hooks, critic and rollouts from a checkpoint."""
        saved = load_hooks(start)
        self._cloning = saved.get("cloning")
        if self._cloning is None:
            self.hooks = self._make_hooks()
            self.own_critic = self._make_own_critic()
        with loading(start / "experience.pt"):
            if self.own_critic is not None:
                self.own_critic.restore(saved["critic"])
            self.hooks.load_frozen_state(load_frozen(self.folder))
            self.hooks.load_state_dict(saved["experience"])
            self.rewards.load_state_dict(saved.get("rewards", {}))
            self.rollouts.load_state_dict(saved)

    # One iteration.

    def iterate(self) -> None:
        """Plays episodes, assigns credit, updates policy and critic, and logs."""
        config, state, hooks = self.config, self.state, self.hooks
        for policy in self.policies.values():
            policy.version = state.iteration
        self.stop.agree()
        self.callbacks.call("on_iteration_start", self)
        every = config.loss.reference_every
        if every and state.iteration % every == 0:
            self._freeze_reference()
        begun = time.perf_counter()
        trajectories = self.rollouts.collect(state.iteration) if hooks.plays else []
        collected = time.perf_counter()
        self.callbacks.call("on_rollout_end", self, trajectories)
        self.policy.engine.sleep()
        learning = without_equal_groups(trajectories) if config.loss.filter_groups else trajectories
        at, rng = state.iteration, self.rng(HOOKS, state.iteration)
        learning = hooks.on_rollout_end(learning, at, rng)
        learning, hooks.env_steps = from_main(self.accelerator, (learning, hooks.env_steps))
        align(self.accelerator, hooks.modules())
        batch = Batch.of(learning)
        forward = None
        checked, recompute = config.loss.check_logprobs is not None, config.recompute_logprobs
        critic = self.critic is not None or self.own_critic is not None
        plain = self.algorithm.hooks is None
        alone = not (critic or self._wants_reference or checked)
        first_pass = recompute and alone and plain and self._takes_one_step
        if not first_pass and (recompute or not alone):
            forward = self.updaters.evaluate_actions(
                batch, reference=self._wants_reference, reuse=plain
            )
            self._check_logprobs(batch, forward)
            batch = batch.with_recomputed(forward.logprobs) if recompute else batch
        if forward is not None and self.own_critic is not None:
            values = from_main(self.accelerator, self.own_critic.evaluate(batch))
            forward = replace(forward, values=values)
        rewarded = hooks.on_rewards(batch, forward, at, rng)
        if self.algorithm.credit is None:
            credit = hooks.credit(rewarded, forward, at, rng)
        else:
            values = None if forward is None else forward.values
            rewarded = self.rewards(rewarded, at, bootstraps=values is not None)
            self.rewards.observe(batch)
            credit = self.algorithm.credit(with_penalties(rewarded, forward, config), values)
        if config.loss.thought_credit == "turn":
            credit = share_turn_credit(credit, batch)
        over = config.loss.normalize_advantages
        entering = normalize_advantages(
            credit,
            batch,
            None if over == "none" else over,
            thought_coef=config.loss.thought_coef,
        )
        entering = hooks.on_advantages(batch, entering, at)
        if config.loss.group_weight == "difficulty":
            entering = weigh_by_difficulty(entering, batch)
        credit, entering = from_main(self.accelerator, (credit, entering))
        align(self.accelerator, hooks.modules())
        alternatives = self._alternatives(batch)  # before the weights change
        set_learning_rates(self.updaters, config, state.iteration)
        epochs = range(config.optimisation.epochs)
        shuffles = (self.rng(SHUFFLE, state.iteration, epoch) for epoch in epochs)
        losses = self.updaters.update(
            batch, entering, forward, state.iteration, shuffles, first_pass=first_pass
        )
        if self.own_critic is not None and credit.targets is not None:
            shuffle = self.rng(CRITIC, state.iteration + 1)
            epochs = self.own_critic.fit(batch, credit.targets, shuffle)
            losses |= {"value_loss": epochs[-1], "value_loss_first": epochs[0]}
            align(self.accelerator, [self.own_critic])
        updated = time.perf_counter()
        self.rollouts.observe(trajectories)
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        tokens = sum(turn.stop - turn.start for turn in turns)
        state.iteration += 1
        state.episodes += config.rollout.episodes_per_iteration if trajectories else 0
        state.env_steps += len(turns) + hooks.env_steps
        state.tokens += tokens
        if config.game.exchange and state.iteration % config.game.exchange == 0:
            self.updaters.exchange()
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
                if self._saved is None or self._cloning is not None:
                    self._begin()
                while True:
                    self._evaluate_if_due()
                    if self._finished():
                        self.rollouts.players.begin(self.state.iteration)
                        break
                    if self._save_is_due():
                        self._save()
                    self.iterate()
                self._save()
                if self.is_main:
                    self.hooks.publish(self.folder.path)
                reports = conclude(
                    self.recipe, self.config, self.make_eval_env, self.folder, self.log, self.state
                )
                self.callbacks.call("on_training_end", self)
                return reports
            except Interrupted as interrupted:
                # In behaviour cloning, the weights are those of an epoch in progress.
                if self._saved is not None and self._cloning is None:
                    self._save(keep_journal=True)
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
                self.rollouts.executor.close()
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
                check=self.stop.agree,
                progress=self._cloning,
                on_epoch=self._save_cloning,
            )
            self.state.env_steps = turns if config.imitation.bc_share else 0
            self._cloning = None
            for role in self.lineup.roles[1:]:
                self.policies[role].load_own_weights(self.policy.own_weights())
        self.hooks = self._make_hooks()
        self.own_critic = self._make_own_critic()
        if config.critic.critic_episodes:
            self._fit_own_critic()
        if self.is_main:
            write_frozen(self.folder, self.hooks.frozen_state())
        if self._wants_reference and not config.loss.reference_every:
            self._freeze_reference()
        self._save()

    def _freeze_reference(self) -> None:
        """Makes the policy the reference policy."""
        for policy in self.policies.values():
            policy.freeze_reference()
        if self.is_main:
            write_reference(self.folder, self.config, self.policy, self.state.iteration)

    def _save_cloning(self, progress: dict[str, Any]) -> None:
        """Writes a checkpoint of behaviour cloning every `save_every` epochs."""
        self._cloning = progress
        if progress["epochs"] % self.config.run.save_every == 0:
            self._save()

    def _make_hooks(self) -> RecipeHooks:
        make = self.algorithm.hooks
        hooks = RecipeHooks() if make is None else make(self)
        check_hooks(self.recipe, self.config, hooks, games=bool(self.lineup.agents))
        assert self.algorithm.trains_policy or self.policy not in hooks.modules()
        return hooks

    def _make_own_critic(self) -> ValueModel | None:
        if self.config.critic.critic_trunk == "policy":
            return None
        assert isinstance(self._head, ValueHead)
        critic = self.config.critic
        assert critic.critic_lr is not None
        return ValueModel(
            self.policy,
            self._head,
            lr=critic.critic_lr,
            epochs=critic.critic_epochs,
            batch_tokens=critic.critic_batch_tokens,
            rounds=critic.critic_rounds,
            normalize=True,
            view=critic_view(critic.critic_sees, self.context),
        )

    def _fit_own_critic(self) -> None:
        """Fits the critic with its own trunk to episodes of the policy before RL."""
        config, fit_returns = self.config, self.algorithm.credit
        assert self.own_critic is not None and fit_returns is not None
        starts = self.rollouts.curriculum.draw(
            config.critic.critic_episodes, self.rng(CRITIC, 0, TASKS)
        )
        episodes = [
            EpisodeSpec(task, seed, (config.run.seed, CRITIC, i))
            for i, (task, seed) in enumerate(starts)
        ]
        played = self.play(self.rollouts.seat(episodes, 0))
        batch = self.rewards(Batch.of(played), 0, bootstraps=True)
        self.own_critic.begin(batch, fit_returns, self.rng(CRITIC, 0))
        align(self.accelerator, [self.own_critic])
        self.state.env_steps += sum(len(t.turns) for t in played)

    @property
    def _takes_one_step(self) -> bool:
        """Whether an update is one step over the whole batch, before which all ratios are 1."""
        optimisation = self.config.optimisation
        one = optimisation.epochs == optimisation.minibatches == 1
        return one and not self.config.loss.covariance_clip  # which compares all tokens first

    @property
    def _wants_reference(self) -> bool:
        return self.config.loss.kl_coef > 0 or self.hooks.needs_reference

    def _finished(self) -> bool:
        budget, state = self.config.run, self.state
        out_of_steps = budget.env_steps is not None and state.env_steps >= budget.env_steps
        finished = self.callbacks.stopped or state.iteration >= budget.iterations or out_of_steps
        return from_main(self.accelerator, finished)

    def play(self, episodes: Sequence[EpisodeSpec]) -> list[Trajectory]:
        """Plays episodes, of which each process plays a share, and returns all trajectories.

        They are in the order of the episodes, those of a game one after another.

        Episodes that were finished before the run was resumed come from the journal.

        Raises:
            Interrupted: if a process received a signal. A hook that plays episodes must not have
                changed its state before.
        """
        return self.rollouts.play(episodes)

    def act(self, requests: Sequence[Request]) -> list[Sample]:
        """Generates an action for each request. Each process generates a share, and all get all."""
        sampling = self.config.sampling()
        return shared(self.accelerator, requests, lambda some: self.policy.act(some, sampling))

    def _check_logprobs(self, batch: Batch, forward: ForwardPass) -> None:
        bound = self.config.loss.check_logprobs
        gap = logprob_gap(batch, forward.logprobs, self.state.iteration)
        if bound is not None and not gap <= bound:
            raise Diverged(
                f"Log-probabilities of generation and of training differ by up to {gap:.3g} nats, "
                f"more than check_logprobs = {bound:g}. Do both use the same weights, precision, "
                "temperature, top_k and top_p? importance_cap corrects for small differences."
            )

    def _alternatives(self, batch: Batch) -> Alternatives:
        """Returns log-probabilities of the admissible actions in the transcripts to be logged."""
        if not self.is_main:
            return {}
        count, sampling = self.config.run.transcripts, self.config.sampling()
        shown = batch.select(np.arange(min(count, len(batch.trajectories))))
        found: Alternatives = {}
        for role, part in self.updaters.split(shown).items():
            own = find_alternatives(self.policies[role], part.batch, count, sampling)
            found |= {int(part.turns[m]): pairs for m, pairs in own.items()}
        return found

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
        state, values = self.state, None if forward is None else forward.values
        numbers = iteration_metrics(
            self.config,
            trajectories,
            batch,
            credit,
            self.hooks.metrics | self.rewards.metrics,
            forward,
            state.iteration - 1,
        )
        numbers |= self.rollouts.metrics()
        numbers |= {f"losses/{k}": v for k, v in losses.items()}
        numbers["charts/tokens"] = float(state.tokens)
        for role, updater in self.updaters.parts.items():
            name = f"charts/{role}/lr" if role else "charts/lr"
            numbers[name] = float(updater.optimizer.param_groups[0]["lr"])
        numbers |= times
        self.log.row(state, numbers)
        self.log.histogram("credit/advantages", credit.advantages, state.iteration)
        if values is not None:
            shown = values.turns if values.tokens is None else values.tokens
            self.log.histogram("credit/values", shown, state.iteration)
        self.log.transcripts(
            batch,
            credit,
            values,
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
        name = self.recipe if at else ("imitation" if config.imitates else "start")
        report, numbers = self._evaluate(self._agent(name))
        reward = numbers["eval/reward"]
        state.evaluated, state.last = at, report.to_json()
        if at == 0:
            state.first = state.last
        if state.best_reward is None or reward > state.best_reward:
            state.best_reward, state.best_iteration = reward, at
            if self.is_main:
                replace_folder(
                    self.folder.path / "best",
                    lambda path: write_policy(path, self._agent(self.recipe), config, state),
                )
        numbers["time/evaluate"] = time.perf_counter() - begun
        self.log.row(state, numbers)
        self.callbacks.call("on_evaluation_end", self, report)

    def _evaluate(self, agent: PolicyAgent | RoleAgent) -> tuple[Report, dict[str, float]]:
        """Returns the report of an evaluation and its scalars, of each trained seat of a game."""
        config, seats = self.config, self.lineup.agents.get("", ())
        arguments = config, self.make_eval_env, agent
        exact = exact_metrics(config, agent)
        if not seats or config.evaluation.eval_env_id:
            report = evaluate_agent(*arguments, self.accelerator, self.stop.check)
            return report, evaluation_metrics(report, config) | exact
        reports = evaluate_seats(*arguments, seats, self.accelerator, self.stop.check)
        report = join_seats(reports)
        numbers = evaluation_metrics(report, config) | exact
        for seat, part in reports.items():
            numbers |= {f"eval/{seat}/{name}": e.mean for name, e in part.aggregate().items()}
        return report, numbers

    def _agent(self, name: str) -> PolicyAgent | RoleAgent:
        """Returns the agent of evaluations. Before the first iteration it is the policy alone."""
        agents = {r: policy_agent(self.config, p, name) for r, p in self.policies.items()}
        if self.state.iteration:
            agents = {role: self.hooks.agent(agent) for role, agent in agents.items()}
        return agents[""] if "" in agents else RoleAgent(agents)

    def _save_is_due(self) -> bool:
        run, waited = self.config.run, time.monotonic() - self._saved_time
        # Clocks differ, so the main process decides.
        due = from_main(self.accelerator, waited >= 60 * run.save_minutes)
        return due and self.state.iteration % run.save_every == 0

    def _save(self, keep_journal: bool = False) -> None:
        """Writes a checkpoint unless the newest one is of the same state.

        Args:
            keep_journal: keep the finished episodes of an iteration that was interrupted.
        """
        state, at = self.state, self._progress()
        if self._saved == at:
            return
        parts = self.updaters.parts
        optimizers = {r: as_whole(part.optimizer.state_dict()) for r, part in parts.items()}
        if self.is_main:
            self.folder.save(
                state.iteration,
                lambda path: write_checkpoint(
                    path,
                    self.config,
                    parts,
                    optimizers,
                    self._agent(self.recipe),
                    self.rollouts.state_dict()
                    | {
                        "experience": self.hooks.state_dict(),
                        "rewards": self.rewards.state_dict(),
                        "cloning": self._cloning,
                        "critic": None if self.own_critic is None else self.own_critic.states(),
                    },
                    state,
                ),
                keep=self.config.run.keep,
                best=state.best_iteration,
            )
        self.accelerator.wait_for_everyone()
        if not keep_journal:
            self.rollouts.forget()
        self._saved, self._saved_time = at, time.monotonic()

    def _progress(self) -> tuple[int, int, int | None]:
        """Returns the finished iterations, the last evaluation, and epochs of cloning under way."""
        epochs = None if self._cloning is None else self._cloning["epochs"]
        return self.state.iteration, self.state.evaluated, epochs
