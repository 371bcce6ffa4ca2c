"""Values of the prefixes of an action, from the outcomes of the listed actions that begin so.

Shapes: N trajectories, M turns and K action tokens per batch. A turn has C tried actions, and the
action taken L tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import ConfigError
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy.candidates import sampling_logprobs
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.rollout.branches import state_of
from agentgym.trainers.rollout.context import Tokens
from agentgym.trainers.rollout.episode import EpisodeSpec, Play, samples_of
from agentgym.trainers.system.processes import broadcast_value, map_across_processes

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

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
        self._looks = dict(zip(looks, played, strict=True))
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
