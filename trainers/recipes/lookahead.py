"""Lookahead: POAD with values of tokens from trying the likely listed actions for one step.

A critic of tokens hardly tells the words of an action apart, since it has seen few outcomes of the
same state. An environment that can be restored shows them. Every likely listed action a of a turn
is tried for one step, and a critic of states values where it leads:

    Q(o, a)  = r(o, a) + gamma V(o')
    V(o, w)  = sum of pi(a | o) Q(o, a) / sum of pi(a | o)    over all a that begin with w

These are the values of the Bellman backup with action decomposition of POAD, "Reinforcing LLM
Agents via Policy Optimization with Action Decomposition" (arXiv 2405.15821), with an exact mean
over the actions in place of a learned one. GAE over tokens and turns follows as there. The mean
over actions is that of "Mean Actor-Critic" (arXiv 1709.00503), and its use as a baseline for the
action taken that of COMA, "Counterfactual Multi-Agent Policy Gradients" (arXiv 1705.08926).

The recipe is this library's own. It needs admissible actions and a constrained policy. A turn costs
one environment step per action tried, a forward pass of the policy over its prompt, and one of the
critic over each prompt that follows. To try an action, an environment repeats those before it,
which equals a snapshot and works with any wrapper. The critic has a separate backbone. With
`lambda_token` = 0, no observed return enters the credit of a choice, so the critic must be good
before the policy moves: fit it first (`critic_episodes`, `critic_warmup`). Advantages that vary
more than returns lower the learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.two_clock import TwoClockGAE
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import FloatArray, Trajectory, is_judged
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.rollout.branches import samples_of, state_of
from agentgym.trainers.rollout.context import Tokens
from agentgym.trainers.rollout.episode import EpisodeSpec, Play
from agentgym.trainers.settings import CriticConfig, Fraction, RolloutConfig, defaults
from agentgym.trainers.settings.kinds import GAMES, ActorCriticConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(ActorCriticConfig):
    """Settings of the recipe."""

    lacks: ClassVar[tuple[str, ...]] = ("reward", "critic_backbone", *GAMES)

    rollout: RolloutConfig = defaults(RolloutConfig, constrain=True)
    critic: CriticConfig = defaults(CriticConfig, critic_backbone="separate")
    gamma: Fraction = 0.99
    """Discount between turns (none inside an action)."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    lambda_token: Fraction = 0.0
    """GAE lambda between the tokens of an action. 0: the change of the value by each token. 1: the
    lambda-return after the turn minus the value before each token."""
    least_probability: Fraction = 0.02
    """The smallest probability of an action that is tried, besides the one taken."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if not self.rollout.constrain:
            raise ConfigError("lookahead tries admissible actions: set constrain.")


@dataclass(frozen=True)
class TokenCredit:
    """Advantages from values of tokens, where there are, and targets of a critic of states.

    Attributes:
        tokens: the estimator with values of tokens.
        turns: the estimator with values of states.
    """

    tokens: TwoClockGAE
    turns: TwoClockGAE

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns advantages of tokens [K] and targets of turns [M]."""
        credit = self.turns(batch, values)
        if values is None or values.tokens is None:
            return credit
        return replace(credit, advantages=self.tokens(batch, values).advantages)


State = tuple[object, ...]
Outcome = tuple[State, str]
"""A state (see `state_of`) and the text of an action."""


class LookPlay(Play):
    """An episode that ends after its opening."""

    def step(self) -> None:
        """Steps the environment (may run on a worker)."""
        super().step()
        if len(self.turns) == self.episode.replayed and not (self.terminated or self.truncated):
            self.truncated = self.at_limit = True  # a state to value, with every `turn_limit`


@dataclass(frozen=True)
class Look(EpisodeSpec):
    """A request to repeat the actions before a turn, and to try another one there."""

    def begin(self, index: int, slot: int, env: Any) -> LookPlay:
        """Returns the episode to play in a slot."""
        return LookPlay(index, self, slot, env)


@dataclass(frozen=True)
class Tried:
    """The listed actions at a turn that the policy is likely to take, the one taken first.

    Attributes:
        outcomes: [C] their outcomes.
        shares: [L + 1, C] probability of each, given the first j tokens of the action taken.
    """

    outcomes: list[Outcome]
    shares: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        outcomes: list[Outcome],
        tokens: Sequence[Sequence[int]],
        probability: NDArray[np.float64],
        whole: bool,
    ) -> Tried:
        """Returns the actions of a turn.

        Args:
            outcomes: [C] their outcomes.
            tokens: their tokens.
            probability: [C] their probabilities.
            whole: whether actions are sampled as a whole, and not token by token.
        """
        length = len(tokens[0])
        padded = np.full((len(tokens), length), -1)
        for row, each in zip(padded, tokens, strict=True):
            row[: len(each)] = each[:length]
        begins = np.ones((length + 1, len(tokens)), bool)
        begins[1:] = np.logical_and.accumulate(padded == padded[0], axis=1).T
        if whole:
            begins[1:, 1:] = False
        shares = begins * np.maximum(probability, np.finfo(np.float64).tiny)
        return cls(outcomes, shares / shares.sum(axis=1, keepdims=True))

    def without(self, others: Collection[Outcome]) -> Tried:
        """Returns the actions without those with some other outcomes."""
        kept = [i for i, outcome in enumerate(self.outcomes) if outcome not in others]
        if len(kept) == len(self.outcomes):
            return self
        shares = self.shares[:, kept]
        outcomes = [self.outcomes[i] for i in kept]
        return Tried(outcomes, shares / shares.sum(axis=1, keepdims=True))


class Lookahead(RecipeHooks):
    """Tries the likely listed actions of every turn for one step, and values their outcomes.

    An action that was not taken repeats those before it in an environment of its own, as the
    branches of other recipes. Episodes of a group that pass the same state share what was tried.

    Args:
        trainer: the trainer of the policy.
        least: the smallest probability of an action that is tried.
        gamma: discount between turns.

    Raises:
        ConfigError: if the model cannot read trees of actions.
    """

    def __init__(self, trainer: Run, *, least: float, gamma: float):
        super().__init__()
        if not trainer.policy.blocks and trainer.config.rollout.normalization is None:
            raise ConfigError(
                "This model cannot read listed actions as a tree, which gives their probabilities "
                "token by token: set normalization, or use another model or recipe."
            )
        self.trainer, self.least, self.gamma = trainer, least, gamma
        self._tried: list[Tried | None] = []
        self._taken: list[Outcome] = []
        self._looks: dict[Outcome, Trajectory] = {}

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the trajectories, after trying the other actions of their turns."""
        places = [(state_of([t], n), t, n) for t in fresh for n in range(len(t.turns))]
        self._taken = [(state, each.turns[n].action) for state, each, n in places]
        self._tried = []
        probabilities, known = self._probabilities(places), set(self._taken)
        looks: dict[Outcome, Look] = {}
        seed = self.trainer.config.run.seed
        for state, each, n in places:
            if state not in probabilities:
                self._tried.append(None)
                continue
            turn, probability = each.turns[n], probabilities[state]
            taken = turn.admissible.index(turn.action)
            others = np.flatnonzero(probability >= self.least)
            chosen = [taken, *others[others != taken].tolist()]
            outcomes = [(state, turn.admissible[c]) for c in chosen]
            tokens = [self.trainer.policy.encode_action(text) for _, text in outcomes]
            whole = turn.choice is not None
            self._tried.append(Tried.of(outcomes, tokens, probability[chosen], whole))
            for outcome, ids in zip(outcomes, tokens, strict=True):
                if outcome not in known and outcome not in looks:
                    key = stream(seed, "looks", iteration, len(looks))
                    action = np.array(ids, np.int32), np.zeros(len(ids), np.float32)
                    other = Sample(*action, support=None, text=outcome[1], finished=True)
                    looks[outcome] = Look(each.task, each.seed, key, (*samples_of(each, n), other))
        played = self.trainer.play(list(looks.values())) if looks else []
        found = dict(zip(looks, played, strict=True))
        self._looks = {outcome: each for outcome, each in found.items() if is_judged([each])}
        unjudged = found.keys() - self._looks.keys()
        self._tried = [tried and tried.without(unjudged) for tried in self._tried]
        self.env_steps = len(looks)
        others = [0 if tried is None else len(tried.outcomes) - 1 for tried in self._tried]
        self.metrics = {"tried": float(np.mean(others))}
        return Learn(fresh)

    def on_values(self, batch: Batch, values: Values) -> Values:
        """Returns values of the tokens and turns of a batch from those of the states around them.

        The value of an action is its reward plus the discounted value of the state after it. The
        value before a token is the mean of those of the actions that begin with the tokens before
        it, weighted by their probabilities. Turns without listed actions keep the critic's value.
        """
        from agentgym.trainers.system.processes import broadcast_value  # imports torch

        last = batch.turn_offsets[1:] - 1
        following = np.append(values.turns[1:], np.float32(0.0))
        following[last] = np.where(batch.terminated, 0.0, values.bootstrap)
        taken = (batch.rewards + self.gamma * following).tolist()
        outcomes = dict(zip(self._taken, taken, strict=True))
        if self._looks:
            looks = Batch.of(list(self._looks.values()))
            critic = self.trainer.own_critic
            assert critic is not None
            ends = broadcast_value(self.trainer.accelerator, critic.last_values(looks))
            rewards = looks.rewards[looks.turn_offsets[1:] - 1]
            outcomes |= zip(self._looks, (rewards + self.gamma * ends).tolist(), strict=True)
        tokens = np.repeat(values.turns, np.diff(batch.token_offsets))
        turns, spread = values.turns.copy(), []
        for m, tried in enumerate(self._tried):
            if tried is None:
                continue
            found = np.array([outcomes[outcome] for outcome in tried.outcomes])
            means = tried.shares @ found
            tokens[batch.token_offsets[m] : batch.token_offsets[m + 1]] = means[:-1]
            turns[m] = means[0]
            spread.append(np.sqrt(tried.shares[0] @ np.square(found - means[0])))
        self.metrics["action_value_std"] = float(np.mean(spread)) if spread else 0.0
        return replace(values, tokens=tokens, turns=turns)

    def _probabilities(
        self, places: Sequence[tuple[State, Trajectory, int]]
    ) -> dict[State, NDArray[np.float64]]:
        """Returns the probabilities [C] of the listed actions of each state that has some."""
        from agentgym.trainers.policy.candidates import sampling_logprobs  # imports torch
        from agentgym.trainers.system.processes import map_across_processes

        listed: dict[State, tuple[Tokens, tuple[str, ...]]] = {}
        for state, each, n in places:
            turn = each.turns[n]
            if turn.action in turn.admissible:
                listed[state] = each.segments[turn.segment].tokens[: turn.start], turn.admissible
        policy, sampling = self.trainer.policy, self.trainer.config.sampling()

        def score(some: Sequence[tuple[Tokens, tuple[str, ...]]]) -> list[FloatArray]:
            prompts, texts = zip(*some, strict=True)
            return sampling_logprobs(policy, prompts, texts, sampling)

        some = [*listed.values()]
        found = map_across_processes(self.trainer.accelerator, some, score) if listed else []
        return {s: np.exp(each.astype(np.float64)) for s, each in zip(listed, found, strict=True)}


def build(config: Config) -> Algorithm:
    """Returns the parts of the recipe."""
    gamma, lambda_turn = config.gamma, config.lambda_turn
    return Algorithm(
        PolicyGradient(
            TokenCredit(
                two_clock.poad(gamma, lambda_turn, config.lambda_token),
                two_clock.turn(gamma, lambda_turn),
            ),
            critic=value_head("turns", config),
        ),
        seats="one",
        replays=True,
        hooks=lambda trainer: Lookahead(
            trainer, least=config.least_probability, gamma=config.gamma
        ),
    )
