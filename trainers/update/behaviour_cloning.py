"""Behaviour cloning: imitate the scripted expert before learning from reward.

Demonstrations are played in training tasks and tokenised by the very context builder of the
rollouts, so the model reads in imitation what it will read in play. The loss is the plain
language-model loss of the expert's action tokens over the whole vocabulary, also where rollouts are
constrained: what it learns then holds with and without the constraint. `bc_lm_coef` adds the loss
of the other tokens: a fresh model learns to read (and to copy) from them.
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

from agentgym.errors import ConfigError
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.generate import candidate_support
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.rollout.collector import (
    EnvPool,
    EpisodeSpec,
    Play,
    Room,
    action_room,
    draw_tasks,
    rollout_metrics,
)
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.trajectory import Batch, Trajectory, Turn
from agentgym.trainers.update.learner import Rows
from agentgym.trainers.update.updater import Updater, clip_gradients


def demonstrate(
    policy: Policy,
    pool: EnvPool,
    episodes: Sequence[EpisodeSpec],
    context: Context,
    room: Room,
    constrain: bool = False,
) -> list[Trajectory]:
    """Lets the scripted expert play and returns its trajectories as the policy would read them.

    Args:
        policy: whose tokens are used.
        pool: where.
        episodes: what.
        context: what the policy would read.
        room: tokens that it would keep free for an action, by what is admissible.
        constrain: record what else the policy could have said among the admissible actions, so
            that it can be asked for the probability of the expert's action under its constraint.

    Raises:
        ConfigError: if the environment has no expert.
    """
    env = pool.env(0)
    found = []
    for index, episode in enumerate(episodes):
        play = Play(index, episode, 0, env)
        play.start()
        while not play.over:
            text = env.get_wrapper_attr("expert")()
            if text is None:
                raise ConfigError(
                    f"{env} has no scripted expert to imitate: set bc_demonstrations = 0."
                )
            tokens = np.array([*policy.encode(text), policy.end_token], np.int32)
            own = len(tokens)
            play.read(context, lambda texts, own=own: max(room(texts), own))
            if not play.over:
                support = candidate_support(policy, play.admissible, text) if constrain else None
                play.record(Sample(tokens, np.zeros(len(tokens), np.float32), support, text, True))
                play.step()
        if not play.overflow:
            play.read(context, room)
        found.append(play.trajectory())
    return found


@dataclass(frozen=True)
class _Material:
    """Demonstrations with every token but the first of a segment as a target."""

    batch: Batch
    action: torch.Tensor  # [K] whether the token is the expert's

    @classmethod
    def of(cls, trajectories: Sequence[Trajectory], observations: bool) -> _Material:
        if not observations:
            batch = Batch.of(trajectories)
            return cls(batch, torch.ones(batch.num_tokens, dtype=torch.bool))
        whole, masks = [], []
        for trajectory in trajectories:
            turns = []
            for number, segment in enumerate(trajectory.segments):
                spans = [turn for turn in trajectory.turns if turn.segment == number]
                if not spans:
                    continue
                mask = np.zeros(len(segment.tokens), bool)
                for turn in spans:
                    mask[turn.start : turn.stop] = True
                stop = max(turn.stop for turn in spans)
                masks.append(mask[1:stop])
                turns.append(_everything(number, stop))
            whole.append(
                Trajectory(
                    trajectory.env_id, trajectory.task, trajectory.seed, trajectory.segments,
                    turns, terminated=True, truncated=False, success=trajectory.success,
                )
            )  # fmt: skip
        return cls(Batch.of(whole), torch.from_numpy(np.concatenate(masks)))


def _everything(segment: int, stop: int) -> Turn:
    """A turn that covers a whole segment."""
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
) -> int:
    """Plays demonstrations as the settings say and imitates them; returns their turns."""
    trajectories = _demonstrations(updater.policy, pool, context, tasks, config, rng(0))
    turns = sum(len(trajectory.turns) for trajectory in trajectories)
    shown = rollout_metrics(trajectories)
    say(
        f"Imitating {len(trajectories)} demonstrations: return {shown['return']:.3f}, "
        f"success {shown['success']:.3f}, {shown['turns']:.1f} turns."
    )
    optimizer: Any = torch.optim.AdamW(
        [parameter for parameter in updater.policy.parameters() if parameter.requires_grad],
        lr=config.imitation.bc_lr,
        weight_decay=config.optimisation.weight_decay,
    )

    def on_pass(number: int, losses: dict[str, float]) -> None:
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in losses.items())
        say(f"imitation, pass {number:3d}  {numbers}")

    imitate(
        updater.accelerator,
        updater.learner,
        # Not prepared: accelerate would keep it, and its state, as long as the run lasts.
        AcceleratedOptimizer(optimizer, scaler=updater.accelerator.scaler),
        trajectories,
        epochs=config.imitation.bc_epochs,
        batch_tokens=config.imitation.bc_batch_tokens,
        lm_coef=config.imitation.bc_lm_coef,
        max_grad_norm=config.optimisation.max_grad_norm,
        rngs=lambda number: rng(1, number),
        on_pass=on_pass,
        check=check,
    )
    return turns


def _demonstrations(
    policy: Policy,
    pool: EnvPool,
    context: Context,
    tasks: Sequence[str],
    config: TrainConfig,
    rng: np.random.Generator,
) -> list[Trajectory]:
    """Plays as many demonstrations as the settings say, or as their share of the steps allows."""
    budget = config.imitation.bc_share * (config.run.env_steps or 0)
    most = config.imitation.bc_demonstrations or max(1, int(budget))
    starts = draw_tasks(tasks, most, rng, config.environment.train_tasks)
    room = action_room(policy, config.sampling(), config.rollout.constrain)
    shown: list[Trajectory] = []
    for i, (task, seed) in enumerate(starts):
        shown += demonstrate(policy, pool, [EpisodeSpec(task, seed, (i,))], context, room)
        if (
            config.imitation.bc_share
            and sum(len(trajectory.turns) for trajectory in shown) >= budget
        ):
            break
    return shown


def imitate(
    accelerator: Accelerator,
    learner: torch.nn.Module,
    optimizer: Any,
    trajectories: Sequence[Trajectory],
    *,
    epochs: int,
    batch_tokens: int,
    lm_coef: float,
    max_grad_norm: float,
    rngs: Callable[[int], np.random.Generator],
    on_pass: Callable[[int, dict[str, float]], None],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Fits the policy to demonstrations; the learning rate falls to 0 on a cosine.

    Args:
        accelerator: of accelerate.
        learner: a `Learner`, as prepared by accelerate.
        optimizer: of the policy's parameters, an `AcceleratedOptimizer`.
        trajectories: the demonstrations.
        epochs: passes over them.
        batch_tokens: tokens, padding included, in a step.
        lm_coef: weight of the tokens that are not the expert's.
        max_grad_norm: the gradient is clipped to this norm.
        rngs: shuffles, by number of the epoch.
        on_pass: is told the losses after each pass.
        check: called before each step; what it raises ends the imitation.
    """
    material = _Material.of(trajectories, lm_coef > 0)
    rows = Rows.of(material.batch)
    peak = optimizer.param_groups[0]["lr"]
    begun = time.perf_counter()
    for epoch in range(epochs):
        rng = rngs(epoch)
        # Rows of similar length share a step, but not the same ones in every pass.
        quarters = np.array_split(rng.permutation(len(rows.rows)), 4)
        steps = [step for part in quarters for step in rows.microbatches(part, batch_tokens)]
        sums = np.zeros(4)
        for i, chosen in enumerate(rng.permutation(len(steps))):
            check()
            progress = (epoch + i / len(steps)) / epochs
            optimizer.param_groups[0]["lr"] = peak * 0.5 * (1 + np.cos(np.pi * progress))
            sums += _step(accelerator, learner, material, rows, steps[chosen], lm_coef)
            clip_gradients(accelerator, optimizer, max_grad_norm)
            optimizer.step()
            learner.zero_grad(set_to_none=True)
        losses = {"action_loss": sums[0] / sums[1], "seconds": time.perf_counter() - begun}
        if sums[3]:
            losses["observation_loss"] = sums[2] / sums[3]
        on_pass(epoch + 1, losses)


def _step(
    accelerator: Accelerator,
    learner: torch.nn.Module,
    material: _Material,
    rows: Rows,
    step: NDArray[np.int64],
    lm_coef: float,
) -> NDArray[np.float64]:
    """Computes the gradient of a step; returns [4] the losses' sums and counts.

    The processes share the rows and divide by the counts of all of them, as in `update`.
    """
    rank, world = accelerator.process_index, accelerator.num_processes
    share = step[rank::world]
    idle = len(share) == 0
    chosen = step[:1] if idle else share
    policy = accelerator.unwrap_model(learner).policy
    collated = collate(material.batch, [rows.rows[j] for j in chosen], policy.pad_token)
    turn = torch.from_numpy(material.batch.token_turn)[collated.index].to(policy.device)
    mine = material.action[collated.index].to(policy.device)
    output = learner(collated.to(policy.device), turn)
    losses = -output.logprobs.float()
    mask = material.action[torch.from_numpy(np.concatenate([rows.tokens[j] for j in step]))]
    actions, others = float(mask.sum()), float((~mask).sum())
    acted, read = losses[mine].sum(), losses[~mine].sum()
    loss = acted / max(actions, 1.0) + lm_coef * read / max(others, 1.0)
    for values in (output.values, output.bootstrap):
        if values is not None:  # the critic takes no part, but DDP wants every parameter
            loss = loss + 0.0 * values.sum()
    accelerator.backward(loss * (0.0 if idle else float(world)))
    sums: Any = torch.stack([acted, read]).detach().double() * (0.0 if idle else 1.0)
    if world > 1:
        sums = accelerator.reduce(sums, "sum")
    return np.array([float(sums[0]), actions, float(sums[1]), others])
