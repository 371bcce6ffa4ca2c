"""ArCHer: an off-policy utterance-level critic and a token-level actor (hierarchical RL).

"ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" (Zhou et al., ICML 2024,
arXiv 2402.19446). High level, off-policy, from a buffer of turns: twin Q(o, a) and twin V(o),

    Q_k(o, a) <- r + gamma (1 - terminated) V'_k(o'),    V_k(o) <- Q'_k(o, a'), a' ~ pi(.|o)

with target networks '. Low level: policy gradient on A = min Q - min V, for the actions of the
iteration and for fresh actions in observations from the buffer, with the paper's optional baseline
b(o, a_<j) per token.

The critic has a language model of its own, a copy of the policy before RL, which its loss trains
and which has a target network too.

Kept: the losses, no minimum in the targets, the trained encoder, gamma, tau, warm-up, 50 critic
steps. Changed: a is encoded after o in one pass, not separately. Target networks are updated every
10 steps. A step has 64 turns (theirs: 256). Fresh actions are sampled once per iteration. The actor
also learns from the iteration's own turns, with clipped ratios after the first step. Truncated
episodes bootstrap. Advantages are standardised over the batch. `encoder = frozen` keeps the encoder
as it was before RL and encodes every turn once, which is faster and no longer ArCHer's critic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit.given import Given
from agentgym.trainers.hooks.utterance_critic import (
    ReplayConfig,
    UtteranceConfig,
    UtteranceHooks,
)
from agentgym.trainers.settings import CriticConfig, EndConfig, Fraction, When, all_but, defaults
from agentgym.trainers.settings.kinds import PolicyGradientConfig


@dataclass
class Config(PolicyGradientConfig):
    """Settings of ArCHer."""

    lacks: ClassVar[tuple[str, ...]] = ("critic_episodes", "lr_by_reliability")
    conditions: ClassVar[Mapping[str, When]] = dict.fromkeys(
        all_but(CriticConfig, "critic_lr", "critic_warmup"), When("token_baseline")
    )

    replay: ReplayConfig = defaults(ReplayConfig)
    utterance: UtteranceConfig = defaults(UtteranceConfig, critic_steps=50, critic_batch=64)
    critic: CriticConfig = defaults(CriticConfig, critic_warmup=2)
    ends: EndConfig = defaults(EndConfig)
    gamma: Fraction = 0.95
    """Discount between turns."""
    encoder: Literal["trained", "frozen"] = "trained"
    """Whether the loss of the critic trains the language model whose features it reads."""
    token_baseline: bool = False
    """Subtract a learned token-level baseline from the advantages."""


def build(config: Config) -> Algorithm:
    """Returns the parts of ArCHer."""
    return Algorithm(
        PolicyGradient(
            Given(baseline=config.token_baseline),
            critic=value_head("tokens", config) if config.token_baseline else None,
        ),
        seats="shared",
        hooks=lambda trainer: UtteranceHooks(
            trainer,
            config.utterance,
            config.gamma,
            replay=config.replay,
            trained=config.encoder == "trained",
        ),
    )
