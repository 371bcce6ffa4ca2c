"""Behaviour cloning before RL, of the scripted expert or of episodes in files.

Demonstrations are tokenised by the context builder of the rollouts, so the prompts are the same in
both. The loss is the cross-entropy of the expert's action tokens over
the full vocabulary, even if rollouts are constrained: the cloned policy then works with and without
the constraint. `bc_lm_coef` adds the loss of the other tokens, from which a new model learns to
read and to copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from numpy.typing import NDArray

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory, Turn
from agentgym.trainers.imitation.demonstrations import demonstrate, read_data, with_general
from agentgym.trainers.imitation.early_stopping import EarlyStopping, split
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.rollout.action_room import action_room
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.metrics import rollout_metrics
from agentgym.trainers.rollout.task_sampling import draw_tasks
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.update.learner import Learner
from agentgym.trainers.update.microbatches import Accumulation, Microbatch, TokenBudget, padded
from agentgym.trainers.update.optimizer import AdamW, clip_gradients
from agentgym.trainers.update.rows import Rows
from agentgym.trainers.update.sharding import load_optimizer
from agentgym.trainers.update.shared_gradients import accumulation_of
from agentgym.trainers.update.updater import Updater

BATCH_TOKENS = 8192
"""Tokens per step by default, fewer if there would be fewer than `LEAST_STEPS` steps in all."""
LEAST_STEPS = 400
"""Minimum number of steps in all epochs by default, if there are as many rows. A new model needs
hundreds to write whole actions, however few demonstrations there are."""
LEAST_OF_EPOCH = 4
"""Minimum number of steps per epoch with a given number of tokens, if there are as many rows."""


@dataclass(frozen=True)
class _Material:
    """Demonstrations in which every token of a segment except the first is a target."""

    batch: Batch
    action: torch.Tensor  # [K] True for action tokens
    weight: torch.Tensor  # [K] weights of action tokens, 1 for the others

    @classmethod
    def of(cls, trajectories: Sequence[Trajectory], observations: bool) -> _Material:
        if not observations:
            batch = Batch.of(trajectories)
            weight = np.array([turn.weight for turn in batch.turns])[batch.token_turn]
            action = torch.ones(batch.num_tokens, dtype=torch.bool)
            return cls(batch, action, torch.from_numpy(weight))
        whole, masks, weights = [], [], []
        for trajectory in trajectories:
            turns = []
            for number, segment in enumerate(trajectory.segments):
                spans = [turn for turn in trajectory.turns if turn.segment == number]
                if not spans:
                    continue
                mask, weight = np.zeros(len(segment.tokens), bool), np.ones(len(segment.tokens))
                for turn in spans:
                    mask[turn.start : turn.stop] = True
                    weight[turn.start : turn.stop] = turn.weight
                stop = max(turn.stop for turn in spans)
                masks.append(mask[1:stop])
                weights.append(weight[1:stop])
                turns.append(_whole_segment(number, stop))
            whole.append(
                Trajectory(
                    trajectory.env_id, trajectory.task, trajectory.seed, trajectory.segments,
                    turns, terminated=True, truncated=False, success=trajectory.success,
                )
            )  # fmt: skip
        found = (torch.from_numpy(np.concatenate(arrays)) for arrays in (masks, weights))
        return cls(Batch.of(whole), *found)


def _whole_segment(segment: int, stop: int) -> Turn:
    """Returns a turn that spans a whole segment."""
    return Turn(
        segment=segment, start=1, stop=stop, logprobs=np.zeros(stop - 1, np.float32), support=None,
        observation="", action="", reward=0.0, reward_terms={}, valid=True, progress=0.0,
        state_key="",
    )  # fmt: skip


def clone_expert(
    updater: Updater,
    pool: EnvPool,
    context: Context,
    tasks: Sequence[str],
    config: TrainConfig,
    *,
    rng: Callable[..., np.random.Generator],
    say: Callable[[str], None],
    check: Callable[[], None],
    seat: Callable[[EpisodeSpec], EpisodeSpec] = lambda episode: episode,
    progress: dict[str, Any] | None = None,
    on_epoch: Callable[[dict[str, Any]], None] = lambda _: None,
) -> tuple[int, float]:
    """Fits the policy to demonstrations. Returns their number of turns and their success rate.

    Args:
        updater: the learner and its accelerator.
        pool: the environment pool.
        context: builds the prompts.
        tasks: the training tasks.
        config: the settings of a run.
        rng: maps a key to a random generator.
        say: prints a line.
        check: called before each demonstration and each step. An exception from it ends behaviour
            cloning.
        seat: puts the expert into the seats of a game (see `Lineup.demonstration`).
        progress: the latest argument of `on_epoch`, from a checkpoint. None: a new start.
        on_epoch: called after each epoch with the number of finished epochs and the optimiser's
            state, as tensors and plain Python values.

    Raises:
        ConfigError: if the environment has no expert.
    """
    policy = updater.policy
    trajectories = _demonstrations(policy, pool, context, tasks, config, rng(0), check, seat)
    turns = sum(len(trajectory.turns) for trajectory in trajectories)
    shown = rollout_metrics(trajectories)
    say(
        f"Behaviour cloning on {len(trajectories)} demonstrations: "
        f"return {shown['return']:.3f}, "
        f"success {shown['success']:.3f}, {shown['turns']:.1f} turns."
    )
    stopping: EarlyStopping | None = None
    if config.cloning.bc_patience is not None:
        trajectories, held_out = split(trajectories, rng(2))
        best = None if progress is None else progress["best"]
        stopping = EarlyStopping(updater, held_out, config.cloning.bc_patience, best)
    optimizer: Any = AdamW(
        [p for p in updater.trained.policy.parameters() if p.requires_grad],
        lr=config.cloning.bc_lr,
        weight_decay=config.optimisation.weight_decay,
    )

    if progress is not None:
        load_optimizer(optimizer, progress["optimizer"])

    def after(number: int, losses: dict[str, float]) -> None:
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in losses.items())
        say(f"behaviour cloning, epoch {number:3d}  {numbers}")
        updater.publish()
        best = None if stopping is None else stopping.state
        on_epoch({"epochs": number, "optimizer": updater.state_of(optimizer), "best": best})
        if number < config.cloning.bc_epochs:
            updater.withdraw()

    done = 0 if progress is None else progress["epochs"]
    if done < config.cloning.bc_epochs:
        updater.withdraw()
    fit_demonstrations(
        updater.accelerator,
        updater.learner,
        # Not prepared: accelerate would keep it and its state for the rest of the run.
        AcceleratedOptimizer(optimizer, scaler=updater.accelerator.scaler),
        with_general(policy, trajectories, context, config),
        lr=config.cloning.bc_lr,
        finished=done,
        epochs=config.cloning.bc_epochs,
        batch_tokens=config.cloning.bc_batch_tokens,
        microbatch_tokens=config.optimisation.microbatch_tokens,
        lm_coef=config.cloning.bc_lm_coef,
        max_grad_norm=config.optimisation.max_grad_norm,
        rngs=lambda number: rng(1, number),
        on_epoch=after,
        check=check,
        stopping=stopping,
    )
    return turns, shown["success"]


def _demonstrations(
    policy: Policy,
    pool: EnvPool,
    context: Context,
    tasks: Sequence[str],
    config: TrainConfig,
    rng: np.random.Generator,
    check: Callable[[], None],
    seat: Callable[[EpisodeSpec], EpisodeSpec],
) -> list[Trajectory]:
    """Plays `bc_demonstrations` demonstrations, or as many as `bc_share` of the steps allows.

    With `data`, they are read from files instead.
    """
    if config.cloning.data:
        return read_data(policy, pool.env(0), context, config)
    budget = config.cloning.bc_share * (config.run.env_steps or 0)
    most = config.cloning.bc_demonstrations or max(1, int(budget))
    starts = draw_tasks(tasks, most, rng, config.environment.train_tasks)
    room = action_room(policy, config.sampling(), config.rollout.constrain)
    failures = pool.failures.bound(most)
    shown: list[Trajectory] = []
    for i, (task, seed) in enumerate(starts):
        check()
        one = [seat(EpisodeSpec(task, seed, (i,)))]
        shown += demonstrate(policy, pool, one, context, room, failures=failures)
        if config.cloning.bc_share and sum(len(trajectory.turns) for trajectory in shown) >= budget:
            break
    return shown


def fit_demonstrations(
    accelerator: Accelerator,
    learner: torch.nn.Module,
    optimizer: Any,
    trajectories: Sequence[Trajectory],
    *,
    lr: float,
    epochs: int,
    batch_tokens: int | None,
    microbatch_tokens: int | None = None,
    lm_coef: float,
    max_grad_norm: float,
    rngs: Callable[[int], np.random.Generator],
    on_epoch: Callable[[int, dict[str, float]], None],
    check: Callable[[], None] = lambda: None,
    finished: int = 0,
    stopping: EarlyStopping | None = None,
) -> None:
    """Fits the policy to demonstrations. The learning rate decays to 0 on a cosine.

    Args:
        accelerator: the accelerator.
        learner: a `Learner`, as prepared by accelerate.
        optimizer: an `AcceleratedOptimizer` of the policy's parameters.
        trajectories: the demonstrations.
        lr: learning rate of the first step.
        epochs: number of epochs.
        batch_tokens: tokens per step, fewer if an epoch would have fewer than `LEAST_OF_EPOCH`
            steps. None: `BATCH_TOKENS`, fewer if all epochs would have fewer than `LEAST_STEPS`.
        microbatch_tokens: maximum number of tokens per forward and backward pass, padding included.
            None: `batch_tokens` and room for padding.
        lm_coef: loss coefficient of the tokens that are not the expert's actions. Above 0, every
            token of a segment except the first is a target.
        max_grad_norm: bound of the gradient norm.
        rngs: maps the number of an epoch to the generator that shuffles it.
        on_epoch: called after each epoch with its number and its losses.
        check: called before each step. An exception from it ends behaviour cloning.
        finished: number of epochs that are finished already.
        stopping: may end behaviour cloning before the last epoch, with the weights of its best one.
            The learning rate decays as if there were all epochs.
    """
    material = _Material.of(trajectories, lm_coef > 0)
    rows = Rows.of(material.batch)
    least = -(-LEAST_STEPS // epochs) if batch_tokens is None else LEAST_OF_EPOCH
    batch_tokens = batch_tokens or BATCH_TOKENS
    most = padded(batch_tokens)
    budget = TokenBudget(min(most, microbatch_tokens or most), shared=True)
    accumulation = accumulation_of(accelerator, learner, budget)
    trained = accelerator.unwrap_model(learner)
    begun = time.perf_counter()
    for epoch in range(finished, epochs):
        if stopping is not None and stopping.over(epoch):
            break
        rng = rngs(epoch)
        # A step has rows of all lengths. Its microbatches have rows of similar length.
        steps = rows.steps(batch_tokens, rng, least)
        sums = np.zeros(4)
        for i, step in enumerate(steps):
            check()
            progress = (epoch + i / len(steps)) / epochs
            optimizer.param_groups[0]["lr"] = float(lr * 0.5 * (1 + np.cos(np.pi * progress)))
            sums += _step(accumulation, trained, material, rows, step, lm_coef)
            clip_gradients(accelerator, optimizer, max_grad_norm)
            optimizer.step()
            learner.zero_grad(set_to_none=True)
        losses = {"action_loss": sums[0] / (sums[1] or 1.0), "seconds": time.perf_counter() - begun}
        if sums[3]:
            losses["observation_loss"] = sums[2] / sums[3]
        if stopping is not None:
            losses["held_out_loss"] = stopping.observe(epoch + 1)
        on_epoch(epoch + 1, losses)
    if stopping is not None:
        stopping.restore()


def _step(
    accumulation: Accumulation,
    trained: Learner,
    material: _Material,
    rows: Rows,
    step: NDArray[np.int64],
    lm_coef: float,
) -> NDArray[np.float64]:
    """Computes the gradient of a step and returns the sums and counts of its losses, [4].

    The losses are divided by the counts of all microbatches and processes, as in `Updater`.
    """
    chosen = torch.from_numpy(np.concatenate([rows.tokens[j] for j in step]))
    mask, weight = material.action[chosen], material.weight[chosen]
    actions, others = float(weight[mask].sum()), float((~mask).sum())
    for microbatch in accumulation.microbatches(rows, step):
        with microbatch:
            _backward(trained, material, rows, microbatch, actions, others, lm_coef)
    acted, read = accumulation.sums
    return np.array([acted, actions, read, others])


def _backward(
    trained: Learner,
    material: _Material,
    rows: Rows,
    microbatch: Microbatch,
    actions: float,
    others: float,
    lm_coef: float,
) -> None:
    """Adds the gradient of a microbatch, given the counts of the step."""
    policy = trained.policy
    with microbatch.forward():
        places = [rows.rows[j] for j in microbatch.rows]
        collated = collate(material.batch, places, policy.pad_token)
        turn = torch.from_numpy(material.batch.token_turn)[collated.index].to(policy.device)
        mine = material.action[collated.index].to(policy.device)
        weight = material.weight[collated.index].to(policy.device).float()
        output = trained(collated.to(policy.device), turn)
        losses = -output.logprobs.float() * weight
        acted, read = losses[mine].sum(), losses[~mine].sum()
        loss = acted / (actions or 1.0) + lm_coef * read / max(others, 1.0)
        for values in (output.values, output.bootstrap):
            if values is not None:  # DDP needs every parameter in the graph
                loss = loss + 0.0 * values.sum()
    microbatch.backward(loss, torch.stack([acted, read]).detach().double())
