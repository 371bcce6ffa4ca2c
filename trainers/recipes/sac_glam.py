"""SAC-GLAM: discrete soft actor-critic over listed actions, with hindsight (arXiv 2410.12481).

"SAC-GLAM: Improving Online RL for LLM agents with Soft Actor-Critic and Hindsight Relabeling"
(Carta et al.). The policy is a softmax over the admissible actions, as in `glam`. Off-policy, from
a buffer of turns, twin Q(o, a) of *every* listed action learn

    Q_k(o, a) <- r + gamma (1 - terminated) V'(o'),
    V'(o) = sum_a pi(a|o) [min_k Q'_k(o, a) - alpha log pi(a|o)]

with target networks ', and the policy follows the gradient of V(o) in observations of the buffer.
Failed episodes enter the buffer a second time, as if what they reached had been their goal, where
the environment can set its goal (`trainers.hindsight`).

Kept: the soft backup over all candidates, replay, hindsight. Changed: Q reads frozen features, the
policy's as it was before learning from reward; the policy's gradient is that of one drawn action an
observation, with the exact V(o) as its baseline (in expectation the sum over all of them).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from agentgym.trainers.critics.transitions import Encoder, Prompt, answer, say
from torch import Tensor

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.turn_rewards import TurnReward
from agentgym.trainers.critics.utterance import UtteranceCritic
from agentgym.trainers.hooks.base import Experience
from agentgym.trainers.policy.sampling import Normalization
from agentgym.trainers.rollout.collector import action_room
from agentgym.trainers.rollout.hindsight import in_hindsight
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Trajectory
from agentgym.trainers.update.learner import Reading


@dataclass
class Config(TrainConfig):
    """Settings of SAC-GLAM."""

    constrain: bool = True
    """Choose among the admissible actions wherever the environment lists them."""
    normalization: Normalization | None = "sum"
    """How they are drawn: token by token (None), or as a whole by a softmax over the sums of their
    log-probs ("sum"), divided by their tokens ("token") or words ("word")."""
    gamma: float = 0.99
    """Discount from one turn to the next."""
    alpha: float = 0.03
    """What a nat of the policy's entropy is worth."""
    hindsight: bool = True
    """Learn from failed episodes as if what they reached had been asked for."""
    buffer_size: int = 20_000
    """Turns kept."""
    replayed: int = 256
    """Turns of the buffer that critic and policy learn from in a round."""
    critic_steps: int = 100
    """Steps of the critic in a round, each over all that is replayed."""
    utterance_layers: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of Q."""
    tau: float = 0.1
    """How far the target networks move towards the others, every tenth step of the critic."""
    critic_warmup: int = 2
    """Rounds at the start in which only the critic learns."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if not self.constrain or self.normalization is None:
            raise ConfigError("sac_glam scores listed actions: set constrain and a normalization.")
        for name in ("buffer_size", "replayed", "critic_steps"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.alpha < 0:
            raise ConfigError(f"alpha must be at least 0, got {self.alpha}.")


@dataclass(frozen=True)
class Step:
    """A turn in the buffer.

    Attributes:
        prompt: what was read, and what was admissible.
        choice: which of it was done.
        reward: what that brought.
        following: what was read next; None after the end.
    """

    prompt: Prompt
    choice: int
    reward: float
    following: Prompt | None


@dataclass(frozen=True)
class Listed:
    """The listed actions of some prompts, one after the other.

    Attributes:
        observation: [C, H] features of what was read, of each action.
        action: [C, H] features of the action.
        logprob: [C] under the policy.
        owner: [C] number of its prompt.
        first: [n] number of the first action of each prompt.
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


class SoftActorCritic(Experience):
    """The buffer, the critic, and what the policy does in observations of the buffer."""

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config
        self.buffer: deque[Step] = deque(maxlen=config.buffer_size)
        generator = torch.Generator().manual_seed(config.seed)
        self.critic = UtteranceCritic(
            trainer.policy.hidden_size, config.utterance_layers, generator=generator
        )
        self.optimizer = torch.optim.AdamW(
            self.critic.online["q"].parameters(), lr=config.critic_lr, weight_decay=0.0
        )
        self.encoder = Encoder(trainer.policy, config.microbatch_tokens)

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Fills the buffer, fits the critic, returns new answers to old observations."""
        config, context = self.config, self.trainer.context
        env = self.trainer.pool.env(0)
        room = action_room(self.trainer.policy, config.sampling(), config.constrain)
        relabelled = [
            again
            for trajectory in fresh
            if config.hindsight and not trajectory.success
            if (again := in_hindsight(trajectory, env, context, room)) is not None
        ]
        for trajectory in [*fresh, *relabelled]:
            self.buffer.extend(steps_of(trajectory))
        if not self.buffer:
            raise ConfigError(f"{config.env_id} lists no actions, and sac_glam chooses among them.")
        chosen = rng.integers(len(self.buffer), size=min(config.replayed, len(self.buffer)))
        steps = [self.buffer[i] for i in chosen]
        self.metrics = {"relabelled": float(len(relabelled)), "buffer": float(len(self.buffer))}
        self._fit(steps)
        prompts = [step.prompt for step in steps]
        return answer(self.trainer.policy, prompts, config.sampling(), True, rng)

    def _fit(self, steps: Sequence[Step]) -> None:
        config, critic, policy = self.config, self.critic, self.trainer.policy
        rewards = torch.tensor([step.reward for step in steps], dtype=torch.float32)
        texts = [step.prompt[1][step.choice] for step in steps]
        said = [say(policy, step.prompt, text) for step, text in zip(steps, texts, strict=True)]
        taken = self.encoder.encode(Batch.of(said))
        goes_on = [i for i, step in enumerate(steps) if step.following is not None]
        following = [f for step in steps if (f := step.following) is not None]
        listed = self._listed(following) if following else None
        losses, targets = 0.0, rewards
        for step in range(config.critic_steps):
            if step % 10 == 0:  # the target networks have moved
                targets = rewards.clone()
                if listed is not None:
                    with torch.no_grad():
                        q = critic.q(listed.observation, listed.action, target=True)
                        targets[goes_on] += config.gamma * listed.value(q, config.alpha)
            loss = 0.5 * (critic.q(taken.observation, taken.action) - targets).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses += float(loss.detach()) / config.critic_steps
            if step % 10 == 9:
                critic.update_target(config.tau)
        self.metrics["critic_loss"] = losses

    def _listed(self, prompts: Sequence[Prompt]) -> Listed:
        """Returns features and log-probabilities of all that is admissible."""
        policy, config = self.trainer.policy, self.config
        assert config.normalization is not None
        scores = policy.score_candidates_batch(
            [tokens for tokens, _ in prompts], [texts for _, texts in prompts], config.normalization
        )
        scaled = [torch.from_numpy(score) / config.temperature for score in scores]
        said = [say(policy, prompt, text) for prompt in prompts for text in prompt[1]]
        features = self.encoder.encode(Batch.of(said))
        counts = torch.tensor([len(texts) for _, texts in prompts])
        return Listed(
            features.observation,
            features.action,
            torch.cat([score.log_softmax(-1) for score in scaled]),
            torch.repeat_interleave(torch.arange(len(prompts)), counts),
            counts.cumsum(0) - counts,
        )

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Makes each answer's soft advantage, Q - alpha log pi - V, its reward."""
        alpha = self.config.alpha
        prompts = [
            (trajectory.segments[0].tokens[: turn.start], turn.admissible)
            for trajectory, turn in zip(batch.trajectories, batch.turns, strict=True)
        ]
        listed = self._listed(prompts)
        with torch.no_grad():
            q = self.critic.q(listed.observation, listed.action)
        choice = torch.tensor([turn.choice for turn in batch.turns])
        at = listed.first + choice
        gain = q.min(0).values[at] - alpha * listed.logprob[at] - listed.value(q, alpha)
        return batch.with_rewards(gain.double().numpy())

    def state_dict(self) -> dict[str, Any]:
        """Returns critic, optimiser, buffer and encoder."""

        def plain(prompt: Prompt | None) -> Any:
            return None if prompt is None else (prompt[0].tolist(), list(prompt[1]))

        return {
            "critic": self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "buffer": [
                (plain(s.prompt), s.choice, s.reward, plain(s.following)) for s in self.buffer
            ],
            "encoder": self.encoder.policy.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""

        def prompt(plain: Any) -> Any:
            return None if plain is None else (np.array(plain[0], np.int32), tuple(plain[1]))

        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        for read, choice, reward, following in state["buffer"]:
            self.buffer.append(Step(prompt(read), choice, reward, prompt(following)))
        self.encoder.policy.load_state_dict(state["encoder"])


def steps_of(trajectory: Trajectory) -> list[Step]:
    """Returns the turns of a trajectory in which one of several listed actions was chosen.

    The last turn of an episode that was cut off is left out: what could have followed is unknown.
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


def main(config: Config) -> list[Report]:
    """Trains a policy with SAC-GLAM; returns its evaluations."""
    return Trainer(
        "sac_glam",
        config,
        credit=TurnReward(),
        experience=lambda trainer: SoftActorCritic(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("sac_glam", sys.argv[1:]))
