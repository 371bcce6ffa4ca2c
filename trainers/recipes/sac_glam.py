"""SAC-GLAM: discrete soft actor-critic over admissible actions, with hindsight.

"SAC-GLAM: Improving Online RL for LLM agents with Soft Actor-Critic and Hindsight Relabeling"
(Carta et al., arXiv 2410.12481). The policy is a softmax over the admissible actions, as in `glam`.
Off-policy, from a buffer of turns, twin Q(o, a) of *every* admissible action learn

    Q_k(o, a) <- r + gamma (1 - terminated) V'(o'),
    V'(o) = sum_a pi(a|o) [min_k Q'_k(o, a) - alpha log pi(a|o)]

with target networks ', and the policy follows the gradient of V(o) in observations of the buffer.
Failed episodes enter the buffer a second time with the state that they reached as their goal, if
the environment can set its goal (`trainers.rollout.hindsight`).

Kept: the soft backup over all candidates, replay, hindsight. Changed: Q reads frozen features of
the policy before RL. The policy gradient uses one sampled action per observation, with the exact
V(o) as its baseline (in expectation the sum over all actions). The critic steps of an iteration
share one sample of replayed turns. The temperature alpha is fixed (theirs is learned).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from agentgym.errors import ConfigError
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.turn_rewards import turn_credit
from agentgym.trainers.critics.transitions import (
    Encoder,
    Prompt,
    answer,
    pack_prompts,
    say,
    unpack_prompts,
)
from agentgym.trainers.critics.utterance import UtteranceCritic
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.collector import action_room
from agentgym.trainers.rollout.hindsight import in_hindsight
from agentgym.trainers.settings import (
    CriticConfig,
    Fraction,
    NonNegative,
    Positive,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.trainer import Algorithm, Trainer
from agentgym.trainers.trajectory import Batch, Credit, Trajectory
from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(TrainConfig):
    """Settings of SAC-GLAM."""

    rollout: RolloutConfig = defaults(RolloutConfig, constrain=True, normalization="sum")
    critic: CriticConfig = defaults(CriticConfig, critic_warmup=2)
    gamma: Fraction = 0.99
    """Discount between turns."""
    alpha: NonNegative = 0.03
    """Temperature: the entropy coefficient, in units of reward per nat."""
    hindsight: bool = True
    """Relabel failed episodes with the goal that they reached."""
    buffer_size: Positive = 20_000
    """Capacity of the buffer in turns."""
    replayed: Positive = 256
    """Replayed turns per iteration, for critic and policy."""
    critic_steps: Positive = 100
    """Critic steps per iteration, each over all replayed turns."""
    utterance_layers: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of Q."""
    tau: Fraction = 0.1
    """Polyak coefficient of the target networks, updated every 10 critic steps."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if not self.rollout.constrain or self.rollout.normalization is None:
            raise ConfigError(
                "sac_glam scores admissible actions: set constrain and a normalization."
            )


@dataclass(frozen=True)
class Step:
    """A turn in the buffer.

    Attributes:
        prompt: the prompt and its admissible actions.
        choice: index of the action taken.
        reward: the reward.
        following: the next prompt. None after termination.
    """

    prompt: Prompt
    choice: int
    reward: float
    following: Prompt | None


@dataclass(frozen=True)
class CandidateFeatures:
    """The admissible actions of n prompts, concatenated.

    Attributes:
        observation: [C, H] features of each action's prompt.
        action: [C, H] features of the action.
        logprob: [C] log-probability under the policy.
        owner: [C] index of its prompt.
        first: [n] index of the first action of each prompt.
    """

    observation: Tensor
    action: Tensor
    logprob: Tensor
    owner: Tensor
    first: Tensor

    def value(self, q: Tensor, alpha: float) -> Tensor:
        """Returns [n] the soft value of each prompt from [2, C] action values."""
        soft = self.logprob.exp() * (q.min(0).values - alpha * self.logprob)
        return soft.new_zeros(len(self.first)).index_add(0, self.owner, soft)


class SoftActorCritic(RecipeHooks):
    """Fits the critic to a buffer of turns and answers its observations with fresh actions.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    games = False

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config
        self.buffer: deque[Step] = deque(maxlen=config.buffer_size)
        generator = torch.Generator().manual_seed(config.run.seed)
        self.critic = UtteranceCritic(
            trainer.policy.hidden_size, config.utterance_layers, generator=generator
        )
        self.optimizer = torch.optim.AdamW(
            self.critic.online["q"].parameters(), lr=config.critic.critic_lr, weight_decay=0.0
        )
        self.encoder = Encoder(trainer.policy, trainer.updater.microbatch_tokens)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Adds turns to the buffer, fits the critic, returns fresh actions for old observations."""
        config, context = self.config, self.trainer.context
        env = self.trainer.pool.env(0)
        room = action_room(self.trainer.policy, config.sampling(), config.rollout.constrain)
        relabelled = [
            again
            for trajectory in fresh
            if config.hindsight and not trajectory.success
            if (again := in_hindsight(trajectory, env, context, room)) is not None
        ]
        for trajectory in [*fresh, *relabelled]:
            self.buffer.extend(steps_of(trajectory))
        if not self.buffer:
            raise ConfigError(
                f"sac_glam needs admissible actions, and {config.environment.env_id} lists none."
            )
        chosen = rng.integers(len(self.buffer), size=min(config.replayed, len(self.buffer)))
        steps = [self.buffer[i] for i in chosen]
        self.metrics = {"relabelled": float(len(relabelled)), "buffer": float(len(self.buffer))}
        self._fit(steps)
        prompts = [step.prompt for step in steps]
        return answer(self.trainer.act, prompts, True, rng)

    def _fit(self, steps: Sequence[Step]) -> None:
        config, critic, policy = self.config, self.critic, self.trainer.policy
        rewards = torch.tensor([step.reward for step in steps], dtype=torch.float32)
        texts = [step.prompt[1][step.choice] for step in steps]
        turns = [say(policy, step.prompt, text) for step, text in zip(steps, texts, strict=True)]
        taken = self.encoder.encode(Batch.of(turns))
        goes_on = [i for i, step in enumerate(steps) if step.following is not None]
        following = [f for step in steps if (f := step.following) is not None]
        candidates = self._candidates(following) if following else None
        losses, targets = 0.0, rewards
        for step in range(config.critic_steps):
            if step % 10 == 0:  # the target networks have moved
                targets = rewards.clone()
                if candidates is not None:
                    with torch.no_grad():
                        q = critic.q(candidates.observation, candidates.action, target=True)
                        targets[goes_on] += config.gamma * candidates.value(q, config.alpha)
            loss = 0.5 * (critic.q(taken.observation, taken.action) - targets).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses += float(loss.detach()) / config.critic_steps
            if step % 10 == 9:
                critic.update_target(config.tau)
        self.metrics["critic_loss"] = losses

    def _candidates(self, prompts: Sequence[Prompt]) -> CandidateFeatures:
        """Returns features and log-probabilities of all admissible actions."""
        policy, config = self.trainer.policy, self.config
        assert config.rollout.normalization is not None
        scores = policy.score_candidates_batch(
            [tokens for tokens, _ in prompts],
            [texts for _, texts in prompts],
            config.rollout.normalization,
        )
        scaled = [torch.from_numpy(score) / config.rollout.temperature for score in scores]
        turns = [say(policy, prompt, text) for prompt in prompts for text in prompt[1]]
        features = self.encoder.encode(Batch.of(turns))
        counts = torch.tensor([len(texts) for _, texts in prompts])
        return CandidateFeatures(
            features.observation,
            features.action,
            torch.cat([score.log_softmax(-1) for score in scaled]),
            torch.repeat_interleave(torch.arange(len(prompts)), counts),
            counts.cumsum(0) - counts,
        )

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns the soft advantage of each action, Q - alpha log pi - V."""
        alpha = self.config.alpha
        prompts = [
            (trajectory.segments[0].tokens[: turn.start], turn.admissible)
            for trajectory, turn in zip(batch.trajectories, batch.turns, strict=True)
        ]
        candidates = self._candidates(prompts)
        with torch.no_grad():
            q = self.critic.q(candidates.observation, candidates.action)
        choice = torch.tensor([turn.choice for turn in batch.turns])
        at = candidates.first + choice
        gain = q.min(0).values[at] - alpha * candidates.logprob[at] - candidates.value(q, alpha)
        return turn_credit(gain.double().numpy(), batch)

    def modules(self) -> tuple[nn.Module, ...]:
        """Returns the critic."""
        return (self.critic,)

    def state_dict(self) -> dict[str, Any]:
        """Returns critic, optimiser and buffer."""
        steps = list(self.buffer)
        return {
            "critic": self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "prompts": pack_prompts([step.prompt for step in steps]),
            "following": pack_prompts([step.following for step in steps]),
            "taken": [(step.choice, step.reward) for step in steps],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        prompts, following = (unpack_prompts(state[name]) for name in ("prompts", "following"))
        for prompt, (choice, reward), after in zip(prompts, state["taken"], following, strict=True):
            assert prompt is not None
            self.buffer.append(Step(prompt, choice, reward, after))

    def frozen_state(self) -> dict[str, Any]:
        """Returns the weights of the encoder."""
        return self.encoder.policy.own_weights()

    def load_frozen_state(self, state: dict[str, Any]) -> None:
        """Restores the encoder."""
        self.encoder.policy.load_own_weights(state)


def steps_of(trajectory: Trajectory) -> list[Step]:
    """Returns the turns of a trajectory in which an admissible action was taken.

    The last turn of a truncated episode is dropped, since its next state is unknown.
    """
    prompts: list[Prompt] = [
        (trajectory.segments[turn.segment].tokens[: turn.start], turn.admissible)
        for turn in trajectory.turns
    ]
    ends = [None] if trajectory.terminated else []
    return [
        Step(prompt, turn.admissible.index(turn.action), turn.reward, following)
        for turn, prompt, following in zip(
            trajectory.turns, prompts, [*prompts[1:], *ends], strict=False
        )
        if turn.action in turn.admissible and (following is None or following[1])
    ]


def build(config: Config) -> Algorithm:
    """Returns the parts of SAC-GLAM."""
    return Algorithm(hooks=lambda trainer: SoftActorCritic(trainer, config))
