"""`Iteration`: rollout -> forward pass -> credit -> update -> log."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from agentgym.trainers.credit.group import weigh_by_difficulty
from agentgym.trainers.credit.normalize import normalize_advantages, reliability
from agentgym.trainers.credit.thoughts import share_turn_credit
from agentgym.trainers.data.batch import Batch, Credit, checked
from agentgym.trainers.data.streams import CRITIC, HOOKS
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.policy.alternatives import Alternatives, find_alternatives
from agentgym.trainers.rewards.penalties import without_equal_groups
from agentgym.trainers.run.metrics import log_iteration
from agentgym.trainers.run.saving import saved_first
from agentgym.trainers.run.thought_information import thought_information
from agentgym.trainers.system.processes import broadcast_parameters, broadcast_value
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.mismatch import logprob_gap, with_recomputed
from agentgym.trainers.update.updater import Diverged

if TYPE_CHECKING:
    from agentgym.trainers.run.parts import Parts


class Iteration:
    """One iteration of training.

    Args:
        trainer: the trainer, whose parts play and learn.
    """

    def __init__(self, trainer: Parts):
        self._trainer, self._config = trainer, trainer.config
        self._number = trainer.state.iteration
        self._rng = trainer.rng(HOOKS, self._number)
        self._hooked = trainer.algorithm.hooks is not None
        # Whether ratios start from log-probabilities of a pass before the update.
        self._recomputes = trainer.algorithm.recomputes(self._config)
        self._sampling = self._config.sampling()
        self._passes, self._shown = 0, time.monotonic()

    def run(self) -> None:
        """Plays episodes, assigns credit, updates policy and critic, and logs."""
        trainer = self._trainer
        self._begin()
        begun = time.perf_counter()
        trajectories = [] if trainer.algorithm.data == "fixed" else self._play()
        collected = time.perf_counter()
        with trainer.stop.during(self._stopping), trainer.log.phases.phase("update"):
            with saved_first(trainer):
                trainer.callbacks.call("on_rollout_end", trainer, trajectories)
            with saved_first(trainer, credits=True):
                self._sleep()
                first_pass = self._first_pass_recomputes
                batch, forward = self._batch(trajectories), None
                if not first_pass:
                    batch, forward = self._evaluate_actions(batch)
                credit, entering, rewarded = self._assign_credit(batch, forward)
                alternatives: Alternatives = {}
                if trainer.is_main:
                    count = self._config.run.transcripts
                    alternatives = find_alternatives(trainer.policies, batch, count, self._sampling)
                information = thought_information(
                    trainer.policies, trajectories, self._sampling, trainer.accelerator
                )
                self._sleep()
                trust = self._set_learning_rates(batch, credit)
            losses = trainer.updaters.update(
                batch, entering, forward, self._number, first_pass=first_pass, check=self._check
            )
        losses |= self._fit_own_critic(batch, credit)
        times = {"time/collect": collected - begun, "time/update": time.perf_counter() - collected}
        played = trajectories or list(batch.trajectories)
        trainer.rollouts.observe(trajectories)
        trainer.rewards.observe(played)
        speeds = self._count(trajectories, sum(times.values()))
        with saved_first(trainer):
            numbers = log_iteration(
                trainer, played, batch, credit, forward, rewarded, losses,
                times | speeds | information, alternatives, trust,
            )  # fmt: skip
            trainer.state.self_play.observe(numbers.get("losses/entropy"))
            trainer.callbacks.call("on_update_end", trainer, numbers)

    @property
    def _may_leave(self) -> bool:
        """Whether a run can stop in the middle of an update and lose nothing else.

        The processes of a run stop together, between updates.
        """
        return self._trainer.accelerator.num_processes == 1 and self._trainer.is_saved()

    def _check(self) -> None:
        """Stops an update if the run is told to stop, and shows its progress once a second."""
        self._passes += 1
        now, stop = time.monotonic(), self._trainer.stop
        if stop.heard is None and now - self._shown < 1:
            return
        self._shown = now
        if self._may_leave:
            stop.check()
        self._trainer.log.phases.tick(self._passes)

    def _stopping(self) -> str:
        """When the run stops if it is told to in an update."""
        if self._may_leave:
            return "at the next forward pass. --resume repeats the update with the same episodes"
        if self._trainer.accelerator.num_processes > 1:
            return "after this update, as all processes stop together"
        return "after this update, because the last checkpoint is older"

    def _play(self) -> list[Trajectory]:
        """Plays the episodes. If that fails, the finished iterations are saved first."""
        trainer = self._trainer
        count = self._config.rollout.episodes_per_iteration
        with (
            saved_first(trainer),
            trainer.log.phases.phase("play", count // trainer.accelerator.num_processes),
        ):
            return trainer.rollouts.collect(self._number)

    def _begin(self) -> None:
        """Numbers the weights, and moves the reference policy towards them if that is due."""
        trainer, loss = self._trainer, self._config.loss
        for policy in trainer.policies.values():
            policy.version = self._number
        trainer.stop.agree()
        with saved_first(trainer):
            trainer.callbacks.call("on_iteration_start", trainer)
        due = loss.reference_every and self._number % loss.reference_every == 0
        # An iteration that is repeated after an interruption has moved it already.
        if due and trainer.state.reference != self._number:
            for policy in trainer.policies.values():
                policy.freeze_reference(loss.reference_tau)
            trainer.state.reference = self._number

    def _sleep(self) -> None:
        """Frees the memory of the engine, which hooks that play or act wake."""
        self._trainer.policy.engine.sleep()

    def _batch(self, trajectories: list[Trajectory]) -> Batch:
        """Returns the trajectories to learn from, given those that were played."""
        accelerator, hooks = self._trainer.accelerator, self._trainer.hooks
        if self._config.loss.filter_groups:
            trajectories = without_equal_groups(trajectories, self._config.compared_outcome)
        if not self._hooked:
            return Batch.of(trajectories)
        learn = hooks.on_rollout_end(trajectories, self._number, self._rng)
        learn, hooks.env_steps = broadcast_value(accelerator, (learn, hooks.env_steps))
        broadcast_parameters(accelerator, hooks.modules())
        return Batch.to_learn(learn)

    @property
    def _needs_forward(self) -> bool:
        """Whether values, the reference, entropies or a check need a pass before the update."""
        trainer = self._trainer
        loss = self._config.loss
        needed = trainer.critic is not None or trainer.wants_reference
        return needed or loss.check_logprobs is not None or loss.trained_turns < 1

    @property
    def _first_pass_recomputes(self) -> bool:
        """Whether the first pass of the update recomputes the behaviour log-probs.

        It can if the update is one step over the whole batch, before which all ratios are 1, and
        nothing else needs them before.
        """
        optimisation = self._config.optimisation
        return (
            self._recomputes
            and not self._needs_forward
            and self._trainer.own_critic is None
            and not self._hooked
            and optimisation.epochs == optimisation.minibatches == 1
            and not self._config.loss.covariance_clip  # which compares all tokens first
            and not self._config.loss.masks_mismatch  # likewise
        )

    def _evaluate_actions(self, batch: Batch) -> tuple[Batch, ForwardPass | None]:
        """Returns the batch, with recomputed log-probs if set, and the forward pass if needed."""
        trainer, recompute = self._trainer, self._recomputes
        forward = None
        self._sleep()
        if recompute or self._needs_forward:
            forward = trainer.updaters.evaluate_actions(
                batch, reference=trainer.wants_reference, reuse=not self._hooked
            )
            assert forward.logprobs is not None
            self._check_logprobs(batch, forward.logprobs)
            if recompute:
                batch = with_recomputed(batch, forward.logprobs)
        if trainer.own_critic is not None:
            values = broadcast_value(trainer.accelerator, trainer.own_critic.evaluate(batch))
            forward = replace(forward or ForwardPass(), values=values)
        return batch, forward

    def _check_logprobs(self, batch: Batch, logprobs: FloatArray) -> None:
        bound = self._config.loss.check_logprobs
        if bound is None:
            return
        gap = logprob_gap(batch, logprobs, self._number)
        if not gap <= bound:
            raise Diverged(
                f"Log-probabilities of generation and of training differ by up to {gap:.3g} nats, "
                f"more than check_logprobs = {bound:g}. Do both use the same weights, precision, "
                "temperature, top_k and top_p? importance_cap corrects for small differences."
            )

    def _assign_credit(
        self, batch: Batch, forward: ForwardPass | None
    ) -> tuple[Credit, Credit, Batch]:
        """Returns the credit of a batch, the one that enters the loss, and the rewarded batch."""
        trainer, loss, hooks = self._trainer, self._config.loss, self._trainer.hooks
        number, accelerator = self._number, trainer.accelerator
        rewarded = trainer.rewards.weighed(batch)
        rewarded = hooks.on_rewards(rewarded, forward, number, self._rng)
        rewarded = trainer.rewards.changed(rewarded, number, forward)
        if forward is not None and forward.values is not None:
            forward = replace(forward, values=hooks.on_values(rewarded, forward.values))
        credit = checked(trainer.algorithm.signal.assign(rewarded, forward), batch)
        if loss.thought_credit == "turn":
            credit = share_turn_credit(credit, batch)
        entering = credit
        if loss.normalize_advantages != "none":
            entering = normalize_advantages(
                credit, batch, loss.normalize_advantages, thought_coef=loss.thought_coef
            )
        entering = hooks.on_advantages(batch, entering, number)
        if self._config.reward.group_weight == "difficulty":
            entering = weigh_by_difficulty(entering, batch)
        if accelerator.num_processes > 1:  # whose sums in floating point may differ
            credit, entering = broadcast_value(accelerator, (credit, entering))
        broadcast_parameters(accelerator, hooks.modules())
        return credit, entering, rewarded

    def _set_learning_rates(self, batch: Batch, credit: Credit) -> dict[str, float]:
        """Sets the learning rates, and returns the reliability of the advantages of each role."""
        config, updaters = self._config, self._trainer.updaters
        parts = [(r, p.batch, p.credit(credit)) for r, p in updaters.split(batch).items()]
        trust = {
            role: reliability(own.advantages, own.returns, part)
            for role, part, own in parts
            if own.returns is not None
        }
        left = 1.0
        if config.optimisation.lr_schedule == "linear":
            left = 1.0 - self._number / config.run.iterations
        if warmup := config.optimisation.lr_warmup:
            left *= min(1.0, (self._number + 1) / warmup)
        factors = trust if config.critic.lr_by_reliability else {}
        for role, updater in updaters.parts.items():
            updater.set_learning_rates(left, factors.get(role, 1.0))
        return trust

    def _fit_own_critic(self, batch: Batch, credit: Credit) -> dict[str, float]:
        """Fits the critic with a separate backbone, if there is one, and returns its losses."""
        trainer = self._trainer
        if trainer.own_critic is None or credit.targets is None:
            return {}
        shuffle = trainer.rng(CRITIC, self._number + 1)
        fitted = trainer.own_critic.fit(batch, credit.targets, shuffle)
        broadcast_parameters(trainer.accelerator, [trainer.own_critic])
        return {"value_loss": fitted[-1], "value_loss_first": fitted[0]}

    def _count(self, trajectories: list[Trajectory], seconds: float) -> dict[str, float]:
        """Counts the iteration in the state of the run and returns its speeds."""
        trainer, config, state = self._trainer, self._config, self._trainer.state
        turns, tokens = trainer.spend()
        state.iteration += 1
        state.episodes += config.rollout.episodes_per_iteration if trajectories else 0
        state.env_steps += trainer.hooks.env_steps
        if config.game.exchange and state.iteration % config.game.exchange == 0:
            trainer.updaters.exchange()
        return {
            "time/tokens_per_second": tokens / seconds,
            "time/env_steps_per_second": turns / seconds,
        }
