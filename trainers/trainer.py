"""`Trainer`: builds the parts of a run, and trains, evaluates and saves until its budget is spent.

The trainer contains no algorithm. A recipe provides an `Algorithm`: a signal to learn from and
hooks. `Iteration` is one iteration of training. All randomness is derived from (seed,
purpose, iteration, index), so a resumed run needs no generator states and continues exactly as if
it had never stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.registration.making import tasks_of
from agentgym.time_limits import limit_env
from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.callbacks import Callback, CallbackList
from agentgym.trainers.credit.returns import is_joint, turn_discount
from agentgym.trainers.critics.heads import ValueHead
from agentgym.trainers.critics.value_model import ValueModel, own_critic
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.streams import CLONING, CRITIC, TASKS
from agentgym.trainers.data.trajectory import Trajectory, judged_ones
from agentgym.trainers.gateway.harness import Harness
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.imitation.behaviour_cloning import clone_expert
from agentgym.trainers.players.lineup import Lineup
from agentgym.trainers.policy.sampling import Request, Sample
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context, policy_agent
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.rewards.reward_options import RewardOptions
from agentgym.trainers.rollout.env_pool import EnvPool, instructions_by_id
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.run.checks import check_files, check_hooks, check_recipe, check_start
from agentgym.trainers.run.conclusion import conclude
from agentgym.trainers.run.diagnostics import Watch
from agentgym.trainers.run.environment import RewardFn, environment_factory, evaluation_factory
from agentgym.trainers.run.evaluation import Evaluator
from agentgym.trainers.run.iteration import Iteration
from agentgym.trainers.run.least_memory import check_fits
from agentgym.trainers.run.logger import RunLog
from agentgym.trainers.run.plan import introduce
from agentgym.trainers.run.roles import build_updaters, load_policies
from agentgym.trainers.run.rollouts import Rollouts
from agentgym.trainers.run.saving import Saver, load_run_state, write_frozen, write_reference
from agentgym.trainers.run.setup import make_accelerator, open_folder
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system.processes import (
    broadcast_parameters,
    broadcast_value,
    map_across_processes,
)
from agentgym.trainers.system.signals import Interrupted, StopSignal
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.updater import Diverged


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
        harness: the program that plays the episodes, in place of `config`'s `harness`.

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
        harness: Harness | None = None,
    ):
        check_recipe(recipe, config, algorithm)
        self.callbacks = CallbackList(callbacks)
        self.make_env, config = environment_factory(config, env, reward)
        self.make_eval_env = evaluation_factory(config, self.make_env, reward)
        self.recipe, self.config = recipe, config
        self.algorithm = algorithm.with_critic_lambda(config.critic.critic_lambda)
        if config.run.threads is not None:
            torch.set_num_threads(config.run.threads)
        self.accelerator = make_accelerator(config, trackers)
        if self.accelerator.is_fsdp2 and self._steered:
            raise ConfigError(
                f"{recipe} trains the whole policy in each process, for which FSDP2 saves no "
                "memory: use DDP (`accelerate launch --multi_gpu`), or another recipe."
            )
        self.is_main = self.accelerator.is_main_process
        self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes
        self.hooks = RecipeHooks()
        self.wants_reference = config.loss.kl_coef > 0 or algorithm.signal.reference
        chosen, slots = config.environment, -(-config.rollout.num_envs // self.world)
        self.pool = EnvPool(
            self.make_env, slots, chosen.env_workers, chosen.env_seconds, chosen.env_failures
        )
        with ExitStack() as opened:
            opened.enter_context(self.pool)
            self.tasks = tasks_of(self.pool.env(0)).split("train")
            check_start(config, self.pool.env(0))
            if config.program.harness:
                (harness or Harness.of(config)).check()
            self.lineup = Lineup(config, self.pool.env(0), algorithm.outcomes)
            self.folder = open_folder(self.accelerator, recipe, config)
            opened.callback(self.folder.close)
            self.saver, self.evaluator = Saver(self), Evaluator(self)
            self._build(env, reward, harness)
            opened.pop_all()  # nothing is closed unless there is an error
        self.log = RunLog(
            self.folder.path,
            self.state,
            config.run,
            self.accelerator,
            settings=config.to_json(),
            watch=Watch.of(config, self.state, self.make_env),
        )
        introduce(self, self.saver.saved)

    def _build(self, env: Any, reward: RewardFn | None, harness: Harness | None) -> None:
        """Makes the parts that learn and play, and restores them from the newest checkpoint."""
        config, accelerator, roles = self.config, self.accelerator, self.lineup.roles
        if (start := self.folder.latest()) is None and config.run.resume:
            check_files(config)
        self.state = load_run_state(start)
        make_env = limit_env(self.make_env, config.environment.env_seconds)
        check_fits(accelerator, config)
        self.policies = load_policies(accelerator, config, make_env, self.folder, start, roles)
        self.policy = self.policies[roles[0]]
        make_critic, own = self.algorithm.critic, config.critic.critic_backbone == "separate"
        self._head = make_critic(self.policy) if make_critic and own else None
        self.own_critic: ValueModel | None = None
        self.updaters = build_updaters(
            accelerator,
            config,
            self.policies,
            None if own else make_critic,
            start,
            self.lineup.learning,
        )
        self.updater = self.updaters.parts[roles[0]]
        self.critic = self.updater.module.critic
        self.context = make_context(self.policy, config.context_settings())
        # Before the first checkpoint, so that the folder stays free for other settings.
        action = 1 if config.rollout.constrain else config.rollout.max_new_tokens
        for text in instructions_by_id(self.pool.env(0)).values():
            self.context.check_room(text, action)
        self.stop = StopSignal(accelerator)
        self.rollouts = Rollouts(
            config,
            self.policies,
            pool=self.pool,
            tasks=self.tasks,
            lineup=self.lineup,
            folder=self.folder,
            accelerator=accelerator,
            check=self.pulse,
            rng=self.rng,
            bootstraps=self.algorithm.critic is not None or self.algorithm.hooks is not None,
            env=env,
            reward=reward,
            harness=harness,
        )
        self.rewards = RewardOptions(
            config,
            instructions_by_id(self.pool.env(0)),
            gamma=turn_discount(self.algorithm.estimator),
            bootstraps=self.algorithm.critic is not None,
            joint=is_joint(self.algorithm.estimator),
        )
        if start is None:
            self.rollouts.forget()
        else:
            self.saver.restore(start)

    def run(self) -> list[Report]:
        """Trains until the budget is spent and returns the evaluations before and after.

        Raises:
            Interrupted: after SIGINT, SIGTERM or SIGHUP, when everything is saved.
            Diverged: if training diverged. The last good checkpoint is kept.
        """
        with self.stop:
            try:
                self.callbacks.call("on_training_start", self)
                if self.saver.saved is None or self.saver.cloning is not None:
                    self._begin()
                while True:
                    self.evaluator.evaluate_if_due()
                    if self.finished():
                        self.rollouts.players.begin(self.state.iteration)
                        break
                    self.saver.save_if_due()
                    Iteration(self).run()
                self.saver.save()
                if self.is_main:
                    self.hooks.publish(self.folder.path)
                reports = conclude(
                    self.recipe,
                    self.config,
                    self.make_eval_env,
                    self.folder,
                    self.log,
                    self.state,
                    team=self.lineup.team,
                )
                self.callbacks.call("on_training_end", self)
                return reports
            except Interrupted as interrupted:
                # Until `_begin` ends, an epoch or what follows behaviour cloning is in progress.
                if self.saver.saved is not None and self.saver.cloning is None:
                    self.save()
                at = self.state.iteration
                interrupted.add_note(f"Stopped after iteration {at}. --resume continues the run.")
                raise
            except Diverged as error:
                saved = 0 if self.saver.saved is None else self.saver.saved[0]
                error.add_note(
                    f"Training diverged in iteration {self.state.iteration + 1}. The last good "
                    f"checkpoint is of iteration {saved}, in {self.folder.path}."
                )
                raise
            finally:
                self.rollouts.executor.close()
                self.hooks.close()
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
            with self.log.phases.phase("clone"):
                turns, self.state.demonstrated = clone_expert(
                    self.updater,
                    self.pool,
                    self.context,
                    self.tasks,
                    config,
                    rng=lambda *key: self.rng(CLONING, *key),
                    say=self.log.say,
                    check=self._pulse_together,
                    seat=self.lineup.demonstration,
                    progress=self.saver.cloning,
                    on_epoch=self.saver.save_cloning,
                )
            self.state.env_steps = turns if config.cloning.bc_share else 0
            self.updaters.share()
        self.make_hooks()
        if config.critic.critic_episodes:
            self._fit_own_critic()
        if self.is_main:
            write_frozen(self.folder, self.hooks.frozen_state())
        if self.wants_reference and not config.loss.reference_every:
            for policy in self.policies.values():
                policy.freeze_reference()
            if self.is_main:
                write_reference(self.folder, self.policies)
        self.saver.cloning = None
        self.saver.save()

    def make_hooks(self) -> None:
        """Makes the recipe's hooks and the critic with a separate backbone."""
        make, critic = self.algorithm.hooks, self.config.critic
        self.hooks = RecipeHooks() if make is None else make(self)
        check_hooks(self.recipe, self.config, self.algorithm, self.hooks)
        assert self._steered or self.policy not in self.hooks.modules()
        if critic.critic_backbone == "separate":
            assert isinstance(self._head, ValueHead)
            limit = self.config.optimisation.max_grad_norm
            self.own_critic = own_critic(self.policy, self._head, critic, self.context, limit)

    def _fit_own_critic(self) -> None:
        """Fits the critic with a separate backbone to episodes of the policy before RL."""
        config, fit_returns = self.config, self.algorithm.estimator
        assert self.own_critic is not None and fit_returns is not None
        starts = self.rollouts.draw(config.critic.critic_episodes, self.rng(CRITIC, 0, TASKS))
        episodes = [
            EpisodeSpec(*start, (config.run.seed, CRITIC, i)) for i, start in enumerate(starts)
        ]
        played = judged_ones(self.play(self.rollouts.seat(episodes, 0)))
        batch = Batch.of(played)
        zeros = np.zeros(batch.num_tokens, np.float32)  # the policy is still the reference
        batch = self.rewards(batch, 0, ForwardPass(zeros, reference=zeros))
        self.own_critic.begin(batch, fit_returns, self.rng(CRITIC, 0))
        broadcast_parameters(self.accelerator, [self.own_critic])
        self.spend()

    @property
    def _steered(self) -> bool:
        """Whether the hooks train the policy."""
        signal = self.algorithm.signal
        return isinstance(signal, Imitation) and signal.steered

    def agent(self, name: str) -> PolicyAgent | RoleAgent:
        """Returns the agent of evaluations. Before the first iteration it is the policy alone."""
        agents = {r: policy_agent(self.config, p, name) for r, p in self.policies.items()}
        if self.state.iteration:
            agents = {role: self.hooks.agent(agent) for role, agent in agents.items()}
        return agents[""] if "" in agents else RoleAgent(agents)

    def finished(self) -> bool:
        """Returns whether the budget is spent or a callback has stopped the run."""
        budget, state = self.config.run, self.state
        out_of_steps = budget.env_steps is not None and state.env_steps >= budget.env_steps
        finished = self.callbacks.stopped or state.iteration >= budget.iterations or out_of_steps
        return broadcast_value(self.accelerator, finished)

    def play(self, episodes: Sequence[EpisodeSpec]) -> list[Trajectory]:
        """Plays episodes, of which each process plays a share, and returns all trajectories.

        They are in the order of the episodes, those of a game one after another.

        Episodes that were finished before the run was resumed come from the journal.

        Raises:
            Interrupted: if a process received a signal. A hook that plays episodes must not have
                changed its state before.
        """
        return self.rollouts.play(episodes)

    def turn_limit(self, task: str, iteration: int) -> int | None:
        """Returns the turn limit of a task in an iteration, None for the environment's."""
        return self.rollouts.limit_of(task, iteration)

    def act(self, requests: Sequence[Request]) -> list[Sample]:
        """Generates an action for each request. Each process generates a share, and all get all."""
        sampling = self.config.sampling()
        found = map_across_processes(
            self.accelerator, requests, lambda some: self.policy.act(some, sampling)
        )
        self.rollouts.tokens += sum(len(sample.tokens) for sample in found)
        return found

    def count(self, played: Sequence[Trajectory] = (), tokens: int = 0) -> None:
        """Adds turns that were played otherwise, and generated tokens, to the budget.

        Args:
            played: trajectories that `play` did not play.
            tokens: tokens that `act` did not generate.
        """
        self.rollouts.count(played)
        self.rollouts.tokens += tokens

    def save(self) -> None:
        """Writes a checkpoint of the finished iterations in the middle of the next one.

        The finished episodes of that one are kept in the journal.
        """
        self.saver.save(keep_journal=True)

    def pulse(self, done: object = None) -> None:
        """Stops if this process received a signal, and shows the progress of the phase.

        Args:
            done: number of finished steps of the phase. No int: one more.
        """
        self.stop.check()
        self.log.phases.tick(done if isinstance(done, int) else None)

    def _pulse_together(self) -> None:
        """Is `pulse`, but stops if any process received a signal."""
        self.stop.agree()
        self.log.phases.tick()

    def is_saved(self) -> bool:
        """Returns whether the newest checkpoint holds all finished iterations."""
        return self.saver.current

    def spend(self) -> tuple[int, int]:
        """Adds what was played since the last call to the budget, and returns turns and tokens."""
        turns, tokens = self.rollouts.spent()
        self.state.env_steps += turns
        self.state.tokens += tokens
        return turns, tokens
