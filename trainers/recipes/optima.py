"""Optima: a team learns from its best episodes or turns, by success, brevity and readability.

"Optima: Optimizing Effectiveness and Efficiency for LLM-Based Multi-Agent System" (arXiv
2410.08115): generate, rank, select, train. In every iteration the team plays `group_size` episodes
from each start, which are ranked by

    R = return - token_coef (tokens / most tokens of the group)
        + readability_coef exp(-loss of the least readable output).

The loss of an output is minus the mean log-probability of its tokens under the reference policy.
The return is the mean over the agents, and tokens are those that the agents generate. There are
three variants (`update`):

- "sft": the best episode of each start is a candidate if R exceeds `min_reward`, and the best
  `top_fraction` of the candidates are cloned, with the outputs of all agents.
- "dpo": the episodes of a start are the root of a tree, as in Monte-Carlo tree search. `expansions`
  times, a state with value V is drawn with a probability in proportion to exp(V) among the ten best
  ones, and gets `group_size` outputs in all, each played to the end. V is the mean R of episodes
  through it. States after a text that is similar to the one before an expanded state are left out,
  and states whose outputs end the episode. The best and the worst output of an agent in a state
  form a pair if the best exceeds `min_reward` and their difference `threshold`. The `top_fraction`
  of the pairs of a tree with the best outputs enter the loss of DPO (see `dpo`).
- "sft_dpo": both in turn, "sft" first.

Kept: the three terms, their coefficients (0.6 and 1 in the code), the best episode of a task, the
readability of the worst output, the choice of states and of pairs in trees. Changed: readability is
exp(-loss), which is bounded (theirs: 1 / loss, of the output without its prompt), groups have 8
episodes (theirs: 10, and 3 continuations in a tree with 8 expansions), similarity is that of
`difflib` (theirs: edit distance), pairs are in trees of the current policy in every iteration, and
training goes on from it with a clipped ratio (theirs: from the base model in each iteration of
"sft"). All steps of an iteration have the weights of pairs under the policy that played (dpo). Left
out: prompts that vary the format of messages.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.algorithm import Algorithm, Imitation, Preference
from agentgym.trainers.credit.group import starts_of
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import (
    FloatArray,
    IntArray,
    Trajectory,
    episode_numbers,
    is_judged,
)
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.trees import Node, play, roots
from agentgym.trainers.rollout.branches import orders_of, single_turn, state_of
from agentgym.trainers.settings import (
    Count,
    Fraction,
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    RolloutConfig,
    When,
    defaults,
)
from agentgym.trainers.settings.kinds import ImitationConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.update.learner import ForwardPass

SIMILAR, CANDIDATES = 0.75, 10
"""Similarity of texts above which states are alike, and the number of states to draw from."""

COMPARED = When("update", ("dpo", "sft_dpo"), of="pairs of outputs", remedy="update to dpo")


@dataclass
class Config(ImitationConfig):
    """Settings of Optima."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    token_coef: NonNegative = 0.6
    """Weight of the number of generated tokens, relative to the longest episode of the group."""
    readability_coef: NonNegative = 1.0
    """Weight of the readability under the reference policy."""
    min_reward: float | None = None
    """Reward R that a cloned episode or the better output of a pair must exceed (None: none)."""
    top_fraction: Fraction = 0.7
    """Share of the candidates that are cloned, or of the pairs of a tree."""
    update: Literal["sft", "dpo", "sft_dpo"] = "sft"
    """Imitation of the best episodes, preferences between outputs in a tree, or both in turn."""
    expansions: Annotated[Count, COMPARED] = 4
    """Further states of a tree in which outputs are compared (dpo)."""
    threshold: Annotated[NonNegative, COMPARED] = 0.2
    """Difference of the rewards R of two outputs that makes them a pair (dpo)."""
    beta: Annotated[NonNegative, COMPARED] = 0.1
    """Temperature of the preference loss. Smaller values allow a larger KL to the reference."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.update != "sft":
            self.fixed("credit is the gradient of a preference loss", aggregation="token")

    @property
    def uses_reference(self) -> bool:
        """True: the readability is measured with the reference policy."""
        return True


class State(NamedTuple):
    """A state of a tree.

    Attributes:
        members: an episode that passes it.
        order: the turn of the game of the outputs in it.
        text: the outputs before it, "" at the start.
        rewards: R of the episodes through it.
        ends: whether the outputs in it end the episode.
    """

    members: list[Trajectory]
    order: int
    text: str
    rewards: list[float]
    ends: bool


@dataclass(eq=False)
class Output:
    """An action of an agent in a state.

    Attributes:
        trajectory: the first episode in which it was taken.
        place: the index of its turn.
        rewards: R of the episodes through it.
    """

    trajectory: Trajectory
    place: int
    rewards: list[float]

    @property
    def value(self) -> float:
        """The mean R of the episodes through it."""
        return float(np.mean(self.rewards))


@dataclass(eq=False)
class Tree:
    """The episodes from one start, and the texts before the states that were expanded."""

    episodes: list[list[Trajectory]]
    expanded: list[str] = field(default_factory=lambda: [""])

    def states(self, rewards: Float64) -> dict[Hashable, State]:
        """Returns the states of the tree, given R of each episode."""
        found: dict[Hashable, State] = {}
        for members, reward in zip(self.episodes, rewards, strict=True):
            text, orders = "", orders_of(members)
            for order in orders:
                state = State(members, order, text, [], order == orders[-1])
                found.setdefault(state_of(members, order), state).rewards.append(float(reward))
                text = "\n".join(
                    each.turns[place].action for each, place in Node(members, order).outputs()
                )
        return found

    def chosen(self, rewards: Float64, rng: np.random.Generator) -> State | None:
        """Returns the state to expand next, or None if there is none."""
        left = [
            state
            for state in self.states(rewards).values()
            if not state.ends and not any(_similar(state.text, text) for text in self.expanded)
        ]
        left = sorted(left, key=lambda state: -np.mean(state.rewards))[:CANDIDATES]
        if not left:
            return None
        values = np.array([np.mean(state.rewards) for state in left])
        odds = np.exp(values - values.max())
        state = left[rng.choice(len(left), p=odds / odds.sum())]
        self.expanded.append(state.text)
        return state

    def pairs(self, rewards: Float64, config: Config) -> list[tuple[Output, Output]]:
        """Returns the best and the worst output of an agent in a state, the best pairs first."""
        found: dict[Hashable, dict[str, Output]] = {}
        for members, reward in zip(self.episodes, rewards, strict=True):
            for order in orders_of(members):
                state = state_of(members, order)
                for trajectory, place in Node(members, order).outputs():
                    outputs = found.setdefault((state, trajectory.agent), {})
                    text, new = trajectory.turns[place].action, Output(trajectory, place, [])
                    outputs.setdefault(text, new).rewards.append(float(reward))
        low = -math.inf if config.min_reward is None else config.min_reward
        ranked = [
            sorted(outputs.values(), key=lambda each: each.value) for outputs in found.values()
        ]
        pairs = [
            (each[-1], each[0])
            for each in ranked
            if each[-1].value > low and each[-1].value - each[0].value > config.threshold
        ]
        pairs.sort(key=lambda pair: -pair[0].value)
        return pairs[: math.ceil(config.top_fraction * len(pairs))]


class Ranked(RecipeHooks):
    """Learns from the best episodes or outputs.

    It gives the tokens of the best episodes an equal weight, or grows trees and compares outputs in
    them.

    Args:
        config: the settings.
        trainer: the trainer of the policy. None: no trees are grown.
    """

    def __init__(self, config: Config, trainer: Run | None = None):
        super().__init__()
        self.config, self._trainer = config, trainer
        self._reference: dict[int, FloatArray] = {}

    def _compares(self, iteration: int) -> bool:
        """Returns whether outputs are compared in an iteration. If not, episodes are cloned."""
        update = self.config.update
        return update == "dpo" or (update == "sft_dpo" and iteration % 2 == 1)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes, or the pairs of outputs, each as a trajectory of its own.

        Without a pair it returns an episode, from which nothing is learned.
        """
        if not self._compares(iteration):
            return Learn(fresh)
        self._reference = {}
        trees = [Tree([node.members for node in nodes]) for nodes in roots(fresh)]
        rewards = self._rewards(trees)
        for number in range(self.config.expansions):
            self._expand(trees, rewards, (iteration, number), rng)
            rewards = self._rewards(trees)
        found = [
            pair
            for tree, some in zip(trees, rewards, strict=True)
            for pair in tree.pairs(some, self.config)
        ]
        outputs = [single_turn(each.trajectory, each.place) for pair in found for each in pair]
        pairs = [Pair(2 * number, 2 * number + 1) for number in range(len(found))]
        return Learn(outputs or fresh[:1], pairs=pairs)

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Returns the batch with equal weights of the cloned tokens, whose mean is 1.

        Outputs that are compared keep their pairs.
        """
        if self._compares(iteration):
            return batch
        assert forward is not None and forward.reference is not None
        episode = np.array(episode_numbers(batch.trajectories), np.int64)
        start = starts_of(batch)[np.unique(episode, return_index=True)[1]]
        rewards = self.rewards(batch, episode, start, forward.reference)
        kept = self.chosen(rewards, start)
        self.metrics |= {"imitated": float(kept.sum()), "reward": float(rewards.mean())}
        turns = kept[episode][batch.turn_trajectory]
        share = turns[batch.token_turn].mean()
        return batch.with_given(turns / max(share, 1e-9))

    def _expand(
        self,
        trees: Sequence[Tree],
        rewards: Sequence[Float64],
        key: tuple[int, int],
        rng: np.random.Generator,
    ) -> None:
        """Plays further outputs in a state of each tree."""
        assert self._trainer is not None
        more, trainer = self.config.rollout.group_size - 1, self._trainer
        pairs = [(tree, tree.chosen(r, rng)) for tree, r in zip(trees, rewards, strict=True)]
        chosen = [(tree, state) for tree, state in pairs if state is not None]
        seed = trainer.config.run.seed
        requests = [
            trainer.lineup.branch(
                state.members, state.order, stream(seed, "trees", *key, more * i + k)
            )
            for i, (_, state) in enumerate(chosen)
            for k in range(more)
        ]
        played = play(trainer, requests)
        for i, (tree, _) in enumerate(chosen):
            tree.episodes += filter(is_judged, played[more * i : more * (i + 1)])

    def _rewards(self, trees: Sequence[Tree]) -> list[Float64]:
        """Returns R of each episode of each tree."""
        assert self._trainer is not None
        episodes = [members for tree in trees for members in tree.episodes]
        everything = [each for members in episodes for each in members]
        new = [each for each in everything if id(each) not in self._reference]
        if new:
            batch = Batch.of(new)
            found = self._trainer.updaters.evaluate_actions(batch, reference=True).reference
            assert found is not None
            ends = batch.token_offsets[batch.turn_offsets[1:-1]]
            parts = np.split(found, ends)
            self._reference |= {id(t): part for t, part in zip(new, parts, strict=True)}
        reference = np.concatenate([self._reference[id(each)] for each in everything])
        episode = np.repeat(np.arange(len(episodes)), [len(members) for members in episodes])
        sizes = [len(tree.episodes) for tree in trees]
        start = np.repeat(np.arange(len(trees)), sizes)
        rewards = self.rewards(Batch.of(everything), episode, start, reference)
        return np.split(rewards, np.cumsum(sizes)[:-1])

    def rewards(
        self, batch: Batch, episode: IntArray, start: IntArray, reference: FloatArray
    ) -> Float64:
        """Returns R of each episode [E].

        Args:
            batch: the trajectories.
            episode: [N] index of the episode of each trajectory.
            start: [E] index of the start of each episode.
            reference: [K] log-probabilities under the reference policy.
        """
        owner = episode[batch.turn_trajectory]
        lengths = np.diff(batch.token_offsets)
        tokens = np.bincount(owner, lengths)
        longest, worst = np.zeros(start.max() + 1), np.zeros(len(tokens))
        np.maximum.at(longest, start, tokens)
        losses = -np.bincount(batch.token_turn, reference, minlength=len(lengths))
        np.maximum.at(worst, owner, losses / np.maximum(lengths, 1))
        returns = [each.episode_return for each in batch.trajectories]
        task = np.bincount(episode, returns) / np.bincount(episode)
        self.metrics = {"tokens": float(tokens.mean()), "readability": float(np.exp(-worst).mean())}
        brevity = self.config.token_coef * tokens / np.maximum(longest[start], 1)
        return task - brevity + self.config.readability_coef * np.exp(-worst)

    def chosen(self, rewards: Float64, start: IntArray) -> NDArray[np.bool_]:
        """Returns whether each episode is cloned [E]: the best one of all at least."""
        ranked = np.argsort(-rewards, kind="stable")
        best = ranked[np.sort(np.unique(start[ranked], return_index=True)[1])]
        low = -math.inf if self.config.min_reward is None else self.config.min_reward
        count = math.ceil(self.config.top_fraction * np.sum(rewards[best] > low))
        kept = np.zeros(len(rewards), bool)
        kept[best[: max(1, count)]] = True
        return kept


def _similar(one: str, other: str) -> bool:
    return SequenceMatcher(None, one, other, autojunk=False).ratio() > SIMILAR


def build(config: Config) -> Algorithm:
    """Returns the parts of Optima."""
    signal = Preference(config.beta, thought_coef=config.loss.thought_coef)
    return Algorithm(
        Imitation(reference=True) if config.update == "sft" else signal,
        seats="any" if config.update == "sft" else "mirror",
        replays=config.update != "sft",
        outcomes="team",
        hooks=lambda trainer: Ranked(config, trainer),
    )
