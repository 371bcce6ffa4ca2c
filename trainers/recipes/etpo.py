"""ETPO: token-level credit from soft values (entropy-regularised backup).

"Entropy-Regularized Token-Level Policy Optimization for Language Agent Reinforcement" (Wen et al.,
arXiv 2402.06700). Every token is charged for its KL to a frozen reference policy rho, the policy
before RL, and rewards and KL are backed up token by token. A critic predicts Q of every token of
the vocabulary, so the expectation and the KL in the value of a state are exact:

    V(s) = E_{w ~ pi} [Q(s, w)] - beta KL(pi(.|s) || rho(.|s)),    s = (o, w_<j)
    Q(s, w_j) <- V(s, w_j) inside an action,   r + gamma V(o') at its end

The policy approaches pi*(w|s) proportional to rho(w|s) exp(Q(s, w) / beta), which keeps it close to
the language of the reference throughout training. The gradient of KL(pi || pi*) is the policy
gradient of the soft advantage, divided by -beta:

    A(s, w) = Q(s, w) - beta log(pi(w|s) / rho(w|s)) - V(s)

Kept: Q over the vocabulary, the soft backup without a discount inside an action, the projection.
Changed: the expectation in the gradient is over the sampled tokens, with clipped ratios after the
first step. Targets of Q are lambda-returns of V instead of one-step backups (the paper: both
lambdas 0), and they replace Q in the advantage. Advantages are standardised over the batch. The
critic has a copy of the policy as its backbone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import torch
from annotated_types import Gt
from numpy.typing import NDArray
from torch import nn

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.given import Given
from agentgym.trainers.critics.token_q import TokenQ
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.settings import (
    CriticConfig,
    EndConfig,
    Fraction,
    Positive,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import PolicyGradientConfig
from agentgym.trainers.update.optimizer import AdamW, divide_gradients
from agentgym.trainers.update.rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.policy.collate import Collated
    from agentgym.trainers.update.learner import ForwardPass

STEP_TOKENS = 2048
"""Tokens per step of the critic, padding included."""


@dataclass
class Config(PolicyGradientConfig):
    """Settings of ETPO."""

    lacks: ClassVar[tuple[str, ...]] = (
        "normalization",
        *all_but(CriticConfig, "critic_lr", "critic_layers", "critic_warmup"),
    )

    critic: CriticConfig = defaults(CriticConfig)
    ends: EndConfig = defaults(EndConfig)
    gamma: Fraction = 0.99
    """Discount between turns (none inside an action)."""
    lambda_turn: Fraction = 0.95
    """Lambda of the targets of Q between turns (the paper: 0)."""
    lambda_token: Fraction = 1.0
    """Lambda of the targets of Q between the tokens of an action (the paper: 0)."""
    beta: Annotated[float, Gt(0.0)] = 0.01
    """KL penalty coefficient of the soft backup. Near 0 this is `poad`."""
    q_epochs: Positive = 2
    """Epochs of the critic per iteration."""

    @property
    def uses_reference(self) -> bool:
        """True: the soft backup has a KL penalty."""
        return True


class SoftBackup(RecipeHooks):
    """Keeps the soft critic, and gives the advantages of its targets.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__()
        self.policy, self.config = trainer.policy, config
        self.trunk = trainer.policy.clone()
        self.heads = TokenQ(
            self.policy.hidden_size,
            self.policy.model.config.get_text_config(decoder=True).vocab_size,
            config.critic.critic_layers,
            generator=torch.Generator().manual_seed(config.run.seed),
        ).to(self.policy.device)
        trained = [p for module in self.modules() for p in module.parameters() if p.requires_grad]
        self.optimizer = AdamW(trained, lr=config.critic.critic_lr, weight_decay=0.0)
        lambdas = config.lambda_turn, config.lambda_token
        self.estimator = two_clock.poad(config.gamma, *lambdas)

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Returns the batch with the soft advantages, and fits Q to the targets."""
        assert forward is not None
        values, penalties = self.evaluate(batch)
        assert values.tokens is not None
        targets = q_targets(self.estimator, batch, values, penalties)
        self._fit(batch, targets, values.tokens, rng)
        self.metrics["divergence"] = float(penalties.mean()) / self.config.beta
        advantages = targets - self.config.beta * forward.log_ratio - values.tokens
        return batch.with_given(advantages.astype(np.float32))

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> tuple[Values, FloatArray]:
        """Returns the soft values of a batch, and the KL of every token times beta [K]."""
        tokens, penalties = np.zeros((2, batch.num_tokens), np.float32)
        bootstrap = np.zeros(len(batch.trajectories), np.float32)
        rows = Rows.of(batch)
        for part in rows.microbatches(np.arange(len(rows.rows)), STEP_TOKENS):
            collated = self._collate(batch, rows, part)
            hidden, last = self.trunk.hidden(collated)
            value, divergence = soft_values(
                self.heads.q(hidden).mean(0),
                self.policy.all_logprobs(collated),
                self.policy.all_logprobs(collated, reference=True),
                self.config.beta,
            )
            index = collated.index.cpu().numpy()
            tokens[index], penalties[index] = value.cpu().numpy(), divergence.cpu().numpy()
            bootstrap[collated.bootstrap_trajectory.cpu().numpy()] = self.heads.v(last).cpu()
        turns = tokens[batch.token_offsets[:-1]]
        return Values(tokens, turns, bootstrap), self.config.beta * penalties

    def _fit(
        self, batch: Batch, targets: FloatArray, values: FloatArray, rng: np.random.Generator
    ) -> None:
        """Fits Q of the sampled tokens to targets [K], and V of observations to values [K]."""
        wanted = torch.from_numpy(np.stack([targets, values])).to(self.policy.device)
        rows, trained = Rows.of(batch, bootstrap=False), self.optimizer.param_groups[0]["params"]
        losses: list[float] = []
        limit = self.config.optimisation.max_grad_norm
        for _ in range(self.config.q_epochs):
            everything = rng.permutation(len(rows.rows))
            parts = rows.microbatches(everything, STEP_TOKENS)
            for number in rng.permutation(len(parts)):
                collated = self._collate(batch, rows, parts[number], bootstrap=False)
                hidden, _ = self.trunk.hidden(collated)
                target, value = wanted[:, collated.index]
                chosen = collated.target.expand(2, -1)[..., None]
                q = self.heads.q(hidden).gather(-1, chosen)[..., 0]
                loss = 0.5 * (q - target).square().mean()
                # V is read where the distribution of the policy is unknown: after a truncation.
                v_loss = 0.5 * (self.heads.v(hidden) - value).square().mean()
                self.optimizer.zero_grad(set_to_none=True)
                (len(value) * (loss + v_loss)).backward()  # a mean would underflow in float16
                divide_gradients(trained, len(value))
                for module in self.modules():
                    nn.utils.clip_grad_norm_(module.parameters(), limit)
                self.optimizer.step()
                losses.append(float(loss.detach()))
        self.metrics["q_loss"] = float(np.mean(losses))

    def _collate(
        self, batch: Batch, rows: Rows, part: NDArray[np.int64], bootstrap: bool = True
    ) -> Collated:
        chosen = [rows.rows[i] for i in part]
        temperature = self.config.rollout.temperature
        collated = collate(batch, chosen, self.policy.pad_token, temperature, bootstrap=bootstrap)
        return collated.to(self.policy.device)

    def modules(self) -> tuple[nn.Module, ...]:
        """Returns the heads and the backbone of the critic."""
        return (self.heads, self.trunk)

    def state_dict(self) -> dict[str, Any]:
        """Returns the critic and its optimiser."""
        return {
            "trunk": self.trunk.own_weights(),
            "heads": self.heads.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.trunk.load_own_weights(state["trunk"])
        self.heads.load_state_dict(state["heads"])
        self.optimizer.load_state_dict(state["optimizer"])


def soft_values(
    q: Tensor, logprobs: Tensor, reference: Tensor, beta: float
) -> tuple[Tensor, Tensor]:
    """Returns the soft values E_pi[Q] - beta KL(pi || rho) of k states, and their KL, both [k].

    Args:
        q: [k, V] Q of every token.
        logprobs: [k, V] log pi, -inf for tokens that cannot be sampled.
        reference: [k, V] log rho, -inf for the same tokens.
        beta: KL penalty coefficient.
    """
    possible = logprobs > -torch.inf
    log_ratio = torch.where(possible, logprobs - reference, 0.0)
    divergence = (logprobs.exp() * log_ratio).sum(-1)
    return (logprobs.exp() * q).sum(-1) - beta * divergence, divergence


def q_targets(
    estimator: two_clock.TwoClockGAE, batch: Batch, values: Values, penalties: FloatArray
) -> FloatArray:
    """Returns the targets [K] of Q: lambda-returns from the state after each token.

    With both lambdas 0 they are V of the state after the token, or r + gamma V(o') at the end of an
    action. A state is charged for its KL when it is left, so the charge is not part of Q there.

    Args:
        estimator: the discounts and lambdas.
        batch: the trajectories.
        values: soft values.
        penalties: [K] beta KL of the state before each token.
    """
    credit = estimator(batch, values, token_rewards=-penalties)
    assert credit.targets is not None
    return credit.targets + penalties


def build(config: Config) -> Algorithm:
    """Returns the parts of ETPO."""
    return Algorithm(
        PolicyGradient(Given(), reference=True), hooks=lambda trainer: SoftBackup(trainer, config)
    )
