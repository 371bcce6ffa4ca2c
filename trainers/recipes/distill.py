"""On-policy distillation: a teacher scores the tokens that the policy has sampled.

"On-Policy Distillation of Language Models: Learning from Self-Generated Mistakes" (GKD, arXiv
2306.13649), with the reverse KL to the teacher as a reward per token. With a teacher T, the policy
S and the sampled token w_k,

    a_k = log T(w_k) - log S(w_k)      A_k = outcome_coef A_group + teacher_coef a_k

The expected gradient of a_k is that of -KL(S || T) in each place. It is added after normalisation
and has no discount: a token is credited with its own a_k only, not with those of later tokens. The
penalty `kl_coef` with a teacher as the reference policy is another method, because the gradient of
its estimator k3 is that of the forward KL(T || S).

The teacher is a stronger model with the same tokenizer, in a folder or on a vLLM server, or the
policy itself with more in its prompt (self-distillation, as in "Self-Distillation Enables Continual
Learning", SDFT, arXiv 2601.19897): the hidden state of the environment, or a hint. What only the
teacher sees, the policy learns to guess, not to ask for. Rewards beside it explore.

Kept: the sampled token's reverse KL, discount 0. Changed: a_k is bounded to [-5, 5], because a
teacher gives some tokens next to no probability. Both distributions are those that the policy
samples from, over the admissible actions and at its temperature. A server gives those over its
whole vocabulary at temperature 1, so that the policy has to sample so, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.group import GroupBaseline
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import LossConfig, NonNegative, defaults
from agentgym.trainers.settings.kinds import GroupConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

BOUND = 5.0
"""Largest difference of log-probabilities that enters the loss, in nats."""
ROUNDING = 1e-5
"""Differences up to this, in nats, are those of a teacher that equals the policy."""


@dataclass
class Config(GroupConfig):
    """Settings of on-policy distillation."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    teacher: str = "self"
    """Model that scores the actions of the policy: a folder or a model id with the same tokenizer,
    such a model on a vLLM server (chat:MODEL@URL), or the policy itself, with other prompts
    ("self")."""
    teacher_sees: str = "hidden"
    """Prompts of the teacher: those of the policy ("own"), with the hidden state of the environment
    after each of them ("hidden", `TextEnv.privileged_text`), or with a text ("hint:TEXT")."""
    teacher_coef: NonNegative = 0.1
    """Weight of log T - log S of each token. 1 is usual where it is the only signal."""
    outcome_coef: NonNegative = 1.0
    """Weight of the advantage of an episode relative to its group (0: distillation alone)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        sees = self.teacher_sees
        hinted = sees.startswith("hint:") and sees != "hint:"
        if sees not in ("own", "hidden") and not hinted:
            raise ConfigError(
                f"teacher_sees must be 'own', 'hidden' or 'hint:TEXT' with a text, got {sees!r}."
            )
        if self.teacher == "self" and sees == "own":
            raise ConfigError(
                "The policy with its own prompts teaches itself nothing: set teacher to a folder, "
                "or teacher_sees to hidden or hint:TEXT."
            )
        if sees == "hidden":
            self.fixed("only its own state can be shown to an agent", opponents="scripted")
        if self.teacher.startswith("chat:"):
            self.fixed(
                "a served teacher gives log-probabilities over its whole vocabulary at temperature "
                "1",
                constrain=False, temperature=1.0, top_k=0, top_p=1.0,
            )  # fmt: skip

    @property
    def reads_hidden_state(self) -> bool:
        """Whether the hidden state of the environment is recorded."""
        return self.teacher_sees == "hidden"


class Distillation(RecipeHooks):
    """Adds the teacher's log-probabilities of the sampled tokens to their advantages.

    Args:
        run: the run.
        config: the settings.
    """

    def __init__(self, run: Run, config: Config):
        from agentgym.trainers.hooks.teacher import Teacher

        super().__init__()
        self.config = config
        self.teacher = Teacher.of(run, config.teacher, config.teacher_sees)

    def on_advantages(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Returns the credit with the reverse KL of each token."""
        gain = self.teacher.logprobs(batch) - batch.logprobs
        self.metrics = agreement(batch, gain)
        return distilled(credit, gain, self.config.teacher_coef, self.config.outcome_coef)


def distilled(credit: Credit, gain: FloatArray, teacher: float, outcome: float) -> Credit:
    """Returns a credit with a term for each token, which no other token shares.

    Args:
        credit: the credit of outcomes, normalised.
        gain: [K] log-probabilities of the teacher minus those of the policy.
        teacher: weight of the term.
        outcome: weight of the credit.
    """
    terms = np.where(np.abs(gain) > ROUNDING, gain.clip(-BOUND, BOUND), 0.0)
    advantages = outcome * credit.advantages + teacher * terms
    return replace(credit, advantages=advantages.astype(np.float32))


def agreement(batch: Batch, gain: FloatArray) -> dict[str, float]:
    """Returns estimates of KL(policy || teacher) in nats per free token.

    A KL that is larger in the last turns than in the first ones shows that the policy drifts to
    states that the teacher does not know.

    Args:
        batch: the trajectories.
        gain: [K] log-probabilities of the teacher minus those of the policy.
    """
    last = np.zeros(batch.num_turns, bool)
    last[batch.turn_offsets[1:] - 1] = True
    first = np.zeros(batch.num_turns, bool)
    first[batch.turn_offsets[:-1]] = True
    everything = np.ones(batch.num_turns, bool)
    found = {}
    for name, turns in (("", everything), ("_first", first), ("_last", last)):
        tokens = turns[batch.token_turn] & batch.free
        found[f"teacher_kl{name}"] = float(-gain[tokens].mean()) if tokens.any() else 0.0
    return found


def build(config: Config) -> Algorithm:
    """Returns the parts of on-policy distillation."""
    return Algorithm(
        PolicyGradient(GroupBaseline(scale=config.scale, outcome=config.outcome)),
        seats="shared",
        outcomes="group",
        hooks=lambda run: Distillation(run, config),
    )
