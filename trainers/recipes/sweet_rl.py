"""SWEET-RL: turn advantages from a preference model that also reads the solution of the task.

"SWEET-RL: Training Multi-Turn LLM Agents on Collaborative Reasoning Tasks" (Zhou et al., arXiv
2503.15478). A copy of the policy reads training-time information c before the prompt. The mean of
its log-ratios to the policy before RL over the L tokens of a turn is the turn's advantage, whose
sums over episodes of one task are trained with the Bradley-Terry loss:

    A(o, a, c) = beta / L sum_l [log pi_phi(a_l | o, c) - log pi_ref(a_l | o, c)]
    loss = -log sigmoid(sum_t A(o_t, a_t, c) of the better - sum_t A(o_t, a_t, c) of the worse)

Kept: the parametrisation, the loss, the asymmetry of critic and policy. Changed: both are trained
online and by turns. The policy is updated by the clipped surrogate with A, standardised over the
batch (`normalize_advantages`). The paper: DPO between pairs of the better and worse half of 16
actions per turn, after the critic was fitted to all data. Here it takes `model_epochs` steps per
iteration. By default c is the solution of the scripted expert. beta is 0.5 (theirs: 0.1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.given import Given
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.replay import pairs_of
from agentgym.trainers.data.trajectory import Segment, Trajectory
from agentgym.trainers.hooks.dataset import expert_rollout
from agentgym.trainers.hooks.preference_model import PreferenceModel
from agentgym.trainers.settings import (
    CriticConfig,
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    Positive,
    RolloutConfig,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import GAMES, PolicyGradientConfig
from agentgym.utils.importing import imported

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.policy.policy import Policy


@dataclass
class Config(PolicyGradientConfig):
    """Settings of SWEET-RL."""

    lacks: ClassVar[tuple[str, ...]] = (*GAMES, *all_but(CriticConfig, "critic_warmup"))

    critic: CriticConfig = defaults(CriticConfig)
    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, ratio="turn")
    beta: NonNegative = 0.5
    """Temperature of the preference loss."""
    model_lr: NonNegative = 6e-4
    """Learning rate of the advantage model."""
    model_epochs: Positive = 16
    """Steps of the advantage model per iteration, each on all pairs. With few, its advantages are
    noise in the first iterations, in which a policy can lose its variety."""
    information: str = "expert"
    """Training-time information: the scripted expert's actions in the task ("expert"), nothing
    ("none"), or module:function, which maps a trajectory to a text."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.information not in ("expert", "none"):
            imported(self.information, "information")


class StepAdvantages(PreferenceModel):
    """Assigns the advantages of a model with training-time information.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__(trainer, lr=config.model_lr, beta=config.beta)
        self.trainer, self.information = trainer, config.information
        self.epochs = config.model_epochs
        self.reference = trainer.policy.frozen_copy()
        self.solutions: dict[tuple[str, int], str] = {}

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Fits the model to the pairs of the rollout and returns the advantage of each turn."""
        if self.information == "expert":
            self._play_expert(fresh, iteration)
        return Learn(fresh, self._advantages(Batch.of(fresh)))

    def _play_expert(self, fresh: list[Trajectory], iteration: int) -> None:
        """Plays the expert in each task of the rollout."""
        starts = list(dict.fromkeys((t.task, t.seed) for t in fresh))
        shown = expert_rollout(self.trainer, starts, iteration)
        self.solutions = {
            start: "\n".join(turn.action for turn in trajectory.turns)
            for start, trajectory in zip(starts, shown, strict=True)
        }
        self.env_steps = sum(len(trajectory.turns) for trajectory in shown)

    def _advantages(self, batch: Batch) -> NDArray[np.floating]:
        """Fits the model to the pairs of the batch and returns the advantage of each turn [M]."""
        informed = Batch.of([self._informed(t) for t in batch.trajectories])
        reference = self.logprobs(informed, self.reference).astype(np.float64)
        share = 1.0 / np.diff(batch.token_offsets)[batch.token_turn]
        pairs = pairs_of(batch.trajectories)
        accuracies = [
            self.fit(informed, self.logprobs(informed, reuse=True) - reference, share, pairs)
            for _ in range(self.epochs if pairs else 1)
        ]
        # Of the model that has not yet seen these pairs.
        self.metrics = {"pairs": float(len(pairs)), "preference_accuracy": accuracies[0]}
        ratios = (self.logprobs(informed) - reference) * share
        advantages = np.bincount(batch.token_turn, ratios, minlength=batch.num_turns)
        return self.beta * advantages

    def _informed(self, trajectory: Trajectory) -> Trajectory:
        if self.information == "none":
            return trajectory
        if self.information == "expert":
            text = self.solutions[trajectory.task, trajectory.seed]
        else:
            text = str(imported(self.information, "information")(trajectory))
        return with_information(trajectory, text, self.model)

    def frozen_state(self) -> dict[str, Any]:
        """Returns the policy before RL."""
        return {"reference": self.reference.own_weights()}

    def load_frozen_state(self, state: dict[str, Any]) -> None:
        """Restores it."""
        self.reference.load_own_weights(state["reference"])


def with_information(trajectory: Trajectory, text: str, policy: Policy) -> Trajectory:
    """Returns a trajectory with a text before each of its prompts, cut to the model's context.

    Args:
        trajectory: the trajectory.
        text: the text.
        policy: the model that reads it.
    """
    tokens = np.array(policy.encode(f"{text}\n"), np.int32)
    if policy.max_length is not None:
        longest = max(len(segment.tokens) for segment in trajectory.segments)
        tokens = tokens[: max(0, policy.max_length - longest)]
    return replace(
        trajectory,
        segments=[Segment(np.concatenate([tokens, s.tokens])) for s in trajectory.segments],
        turns=[
            replace(turn, start=turn.start + len(tokens), stop=turn.stop + len(tokens))
            for turn in trajectory.turns
        ],
    )


def build(config: Config) -> Algorithm:
    """Returns the parts of SWEET-RL."""
    return Algorithm(
        PolicyGradient(Given()), seats="one", hooks=lambda trainer: StepAdvantages(trainer, config)
    )
