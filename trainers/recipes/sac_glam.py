"""SAC-GLAM: discrete soft actor-critic over admissible actions, with hindsight.

"SAC-GLAM: Improving Online RL for LLM agents with Soft Actor-Critic and Hindsight Relabeling"
(Carta et al., arXiv 2410.12481). The policy is a softmax over the admissible actions, as in `glam`.
Off-policy, from a buffer of turns, twin Q(o, a) of *every* admissible action learn

    Q_k(o, a) <- r + gamma (1 - terminated) V'(o'),
    V'(o) = sum_a pi(a|o) [min_k Q'_k(o, a) - alpha log pi(a|o)]

with target networks ', and the policy follows the gradient of V(o) in observations of the buffer.
The temperature alpha is learned, so that the entropy approaches a target. Failed episodes enter the
buffer a second time with the state that they reached as their goal, if the environment can set its
goal (`trainers.rollout.hindsight`).

Kept: the soft backup over all candidates, replay with a new minibatch in every critic step, the
learned temperature ("Soft Actor-Critic Algorithms and Applications", arXiv 1812.05905, eq. 18),
hindsight. Changed: Q reads frozen features of the policy before RL. The policy gradient uses one
sampled action per observation, with the exact V(o) as its baseline (in expectation the sum over all
actions), and standardised advantages. The target entropy is a share of that of random actions, as
in "Soft Actor-Critic for Discrete Action Settings" (arXiv 1910.07207).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import torch
from annotated_types import Gt
from torch import nn

from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.critics.transitions import Encoder, Prompt, pack_prompts, say, unpack_prompts
from agentgym.trainers.critics.utterance import UtteranceCritic
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.answers import answer
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.action_room import action_room
from agentgym.trainers.rollout.hindsight import in_hindsight
from agentgym.trainers.settings import (
    CriticConfig,
    EndConfig,
    Fraction,
    NonNegative,
    Positive,
    RolloutConfig,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import GAMES, PolicyGradientConfig

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(PolicyGradientConfig):
    """Settings of SAC-GLAM."""

    lacks: ClassVar[tuple[str, ...]] = (
        *GAMES,
        *all_but(CriticConfig, "critic_lr", "critic_warmup"),
    )

    rollout: RolloutConfig = defaults(RolloutConfig, constrain=True, normalization="sum")
    critic: CriticConfig = defaults(CriticConfig, critic_warmup=2)
    ends: EndConfig = defaults(EndConfig)
    gamma: Fraction = 0.99
    """Discount between turns."""
    alpha: Annotated[float, Gt(0.0)] = 0.03
    """Initial temperature: the entropy coefficient, in units of reward per nat."""
    alpha_lr: NonNegative = 1e-3
    """Learning rate of the logarithm of the temperature, per critic step. 0: it is fixed."""
    target_entropy: Fraction = 0.2
    """Entropy that the temperature aims at, as a share of that of random admissible actions."""
    hindsight: bool = True
    """Relabel failed episodes with the goal that they reached."""
    buffer_size: Positive = 20_000
    """Capacity of the buffer in turns."""
    replayed: Positive = 256
    """Replayed observations for which fresh actions are sampled each iteration."""
    critic_steps: Positive = 100
    """Critic steps per iteration."""
    critic_batch: Positive = 64
    """Turns per critic step, sampled from the whole buffer."""
    utterance_layers: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of Q."""
    tau: Fraction = 0.1
    """Polyak coefficient of the target networks, updated every 10 critic steps and after the last
    one of an iteration."""

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
        count: [n] number of actions of each prompt.
    """

    observation: Tensor
    action: Tensor
    logprob: Tensor
    owner: Tensor
    first: Tensor
    count: Tensor

    def value(self, q: Tensor, alpha: float) -> Tensor:
        """Returns [n] the soft value of each prompt from [2, C] action values."""
        return self._mean(q.min(0).values - alpha * self.logprob)

    def excess_entropy(self, target: float) -> Tensor:
        """Returns [n] the entropy of each prompt minus `target` times that of random actions."""
        return self._mean(-self.logprob) - target * self.count.log()

    def _mean(self, x: Tensor) -> Tensor:
        mean = x.new_zeros(len(self.first))
        return mean.index_add(0, self.owner, self.logprob.exp() * x)


class SoftActorCritic(RecipeHooks):
    """Fits the critic to a buffer of turns and answers its observations with fresh actions.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config
        self.buffer: deque[Step] = deque(maxlen=config.buffer_size)
        generator = torch.Generator().manual_seed(config.run.seed)
        self.critic = UtteranceCritic(
            trainer.policy.hidden_size, config.utterance_layers, generator=generator
        )
        self.temperature = nn.ParameterDict({"log_alpha": torch.tensor(math.log(config.alpha))})
        groups = (
            (self.critic.online["q"], config.critic.critic_lr),
            (self.temperature, config.alpha_lr),
        )
        self.optimizer = torch.optim.AdamW(
            [{"params": list(module.parameters()), "lr": lr} for module, lr in groups],
            weight_decay=0.0,
            fused=True,
        )
        self.encoder = Encoder(trainer.policy, trainer.updater.microbatch_tokens)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Adds turns to the buffer, fits the critic, and answers old observations afresh."""
        config, context = self.config, self.trainer.context
        env = self.trainer.pool.env(0)
        room = action_room(self.trainer.policy, config.sampling(), config.rollout.constrain)
        relabelled = [
            again
            for trajectory in fresh
            if config.hindsight and not trajectory.success
            for limit in [self.trainer.turn_limit(trajectory.task, iteration)]
            if (again := in_hindsight(trajectory, env, context, room, limit)) is not None
        ]
        for trajectory in [*fresh, *relabelled]:
            self.buffer.extend(steps_of(trajectory))
        if not self.buffer:
            raise ConfigError(
                f"sac_glam needs admissible actions, and {config.environment.env_id} lists none."
            )
        self.metrics = {"relabelled": float(len(relabelled)), "buffer": float(len(self.buffer))}
        self._fit(rng)
        chosen = rng.integers(len(self.buffer), size=min(config.replayed, len(self.buffer)))
        answers = answer(self.trainer, [self.buffer[i].prompt for i in chosen], rng)
        return Learn(answers, self._gains(Batch.of(answers)))

    @property
    def alpha(self) -> float:
        """The temperature."""
        return float(self.temperature["log_alpha"].detach().exp())

    def _fit(self, rng: np.random.Generator) -> None:
        """Takes the critic steps of an iteration, each on a new sample of the buffer."""
        config, critic = self.config, self.critic
        draws = rng.integers(len(self.buffer), size=(config.critic_steps, config.critic_batch))
        used, draws = np.unique(draws, return_inverse=True)
        draws = draws.reshape(config.critic_steps, config.critic_batch)
        steps = [self.buffer[i] for i in used]
        prompts, owner, following = index_prompts(steps)
        goes_on = following >= 0
        candidates = self._candidates(prompts)
        taken = candidates.first[owner] + torch.tensor([step.choice for step in steps])
        rewards = torch.tensor([step.reward for step in steps], dtype=torch.float32)
        excess = candidates.excess_entropy(config.target_entropy)[owner]
        losses, targets = 0.0, rewards
        for step, batch in enumerate(torch.from_numpy(draws)):
            if step % 10 == 0:  # the target networks have moved
                with torch.no_grad():
                    q = critic.q(candidates.observation, candidates.action, target=True)
                values = candidates.value(q, self.alpha)[following]
                targets = rewards + config.gamma * values * goes_on
            at = taken[batch]
            q = critic.q(candidates.observation[at], candidates.action[at])
            loss = 0.5 * (q - targets[batch]).square().mean()
            self.optimizer.zero_grad()
            (loss + self.temperature["log_alpha"] * excess[batch].mean()).backward()
            for group in self.optimizer.param_groups:
                nn.utils.clip_grad_norm_(group["params"], config.optimisation.max_grad_norm)
            self.optimizer.step()
            losses += float(loss.detach()) / config.critic_steps
            if step % 10 == 9 or step == config.critic_steps - 1:
                critic.update_target(config.tau)
        self.metrics |= {
            "critic_loss": losses,
            "critic_turns": float(len(steps)),
            "alpha": self.alpha,
            "excess_entropy": float(excess.mean()),
        }

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
            counts,
        )

    def _gains(self, batch: Batch) -> Float64:
        """Returns the soft advantage of each action [M], Q - alpha log pi - V."""
        alpha = self.alpha
        steps = [
            Step((trajectory.segments[0].tokens[: turn.start], turn.admissible), 0, 0.0, None)
            for trajectory, turn in zip(batch.trajectories, batch.turns, strict=True)
        ]
        prompts, owner, _ = index_prompts(steps)
        candidates = self._candidates(prompts)
        with torch.no_grad():
            q = self.critic.q(candidates.observation, candidates.action)
        choice = torch.tensor([turn.choice for turn in batch.turns])
        at = candidates.first[owner] + choice
        value = candidates.value(q, alpha)[owner]
        gain = q.min(0).values[at] - alpha * candidates.logprob[at] - value
        return gain.double().numpy()

    def modules(self) -> tuple[nn.Module, ...]:
        """Returns the critic and the temperature."""
        return (self.critic, self.temperature)

    def state_dict(self) -> dict[str, Any]:
        """Returns critic, temperature, optimiser and buffer."""
        steps = list(self.buffer)
        return {
            "critic": self.critic.state_dict(),
            "temperature": self.temperature.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "prompts": pack_prompts([step.prompt for step in steps]),
            "following": pack_prompts([step.following for step in steps]),
            "taken": [(step.choice, step.reward) for step in steps],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.critic.load_state_dict(state["critic"])
        self.temperature.load_state_dict(state["temperature"])
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


def index_prompts(steps: Sequence[Step]) -> tuple[list[Prompt], Tensor, Tensor]:
    """Returns the different prompts of n steps, since prompts recur, and their indices.

    Returns:
        The prompts, the index of the prompt of each step [n], and that of the next prompt [n], -1
        after termination.
    """
    numbers: dict[tuple[bytes, tuple[str, ...]], int] = {}
    prompts: list[Prompt] = []

    def number(prompt: Prompt | None) -> int:
        if prompt is None:
            return -1
        index = numbers.setdefault((prompt[0].tobytes(), prompt[1]), len(prompts))
        if index == len(prompts):
            prompts.append(prompt)
        return index

    found = [(number(step.prompt), number(step.following)) for step in steps]
    owner, following = torch.tensor(found).unbind(-1)
    return prompts, owner, following


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
    return Algorithm(
        PolicyGradient(Given()), seats="one", hooks=lambda trainer: SoftActorCritic(trainer, config)
    )
