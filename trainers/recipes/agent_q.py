"""Agent Q: preferences between the actions of a state, whose values come from tree search.

"Agent Q: Advanced Reasoning and Learning for Autonomous AI Agents" (Putta et al., arXiv
2408.07199). In every iteration, a tree grows from each start by Monte-Carlo tree search: UCT
selects a state, the policy acts from there to the end, and the return is backed up. Actions of the
same state whose values differ by more than a threshold form a pair, from which DPO learns:

    -log sigmoid(beta [log pi/mu (better) - log pi/mu (worse)]),    Q(h, a) = mean return from a on

where mu is the policy that sampled the action, whose log-probabilities were recorded.

Kept: actions proposed by the policy, UCT with Q + c sqrt(ln N / (1 + n)), rollouts to the end,
pairs of a state with a threshold, a replay buffer with recorded log-probabilities as the reference,
no discount. Changed: there is no critic by AI feedback (alpha is 1), values are means of returns
from the action on instead of final successes, and the buffer holds the latest actions of an online
run. The states of a tree are repeated by their actions, which equals a snapshot. A tree of N
episodes with T turns costs at most N T turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.trainers.algorithm import Algorithm
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.replay import ReplayBuffer
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.continuations import discounted
from agentgym.trainers.hooks.preferences import STATE, VALUE, ActionPreferences
from agentgym.trainers.rollout.branches import single_turn
from agentgym.trainers.settings import (
    Fraction,
    GroupRolloutConfig,
    NonNegative,
    Positive,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.config import PreferenceConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.update.learner import ForwardPass

TREES = 1 << 23
"""Offset that separates the seeds of a tree's episodes from those of other episodes."""


@dataclass
class Config(PreferenceConfig):
    """Settings of Agent Q."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig, group_size=4, episodes_per_iteration=32)
    simulations: Positive = 12
    """Further episodes of each tree, beyond the `group_size` that start at its root."""
    width: Positive = 4
    """Actions that the policy samples in a state before UCT goes on from one of them."""
    exploration: NonNegative = 0.5
    """Constant c of UCT, in units of the return."""
    gamma: Fraction = 1.0
    """Discount between turns."""
    threshold: NonNegative = 0.1
    """Difference of the values of two actions that makes them a pair."""
    beta: NonNegative = 1.0
    """Temperature of the preference loss. The larger it is, the sooner a pair that is learned from
    again has no effect."""
    replayed: Positive = 256
    """Latest actions of pairs that each iteration learns from."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed("every group is the root of a tree", filter_groups=False)

    @property
    def foreign_actions(self) -> bool:
        """True: the policies of earlier iterations have sampled some of the actions."""
        return True

    @property
    def recompute_logprobs(self) -> bool:
        """True: the preference loss compares the policy with the one that sampled."""
        return True


@dataclass(eq=False)
class Edge:
    """An action in a state of a tree.

    Attributes:
        trajectory: the first episode in which it was taken.
        turn: the index of its turn.
        returns: the discounted return from the action on, of each episode through it.
        state: the state after it. None: the episode ends.
    """

    trajectory: Trajectory
    turn: int
    returns: list[float] = field(default_factory=list)
    state: State | None = None

    @property
    def value(self) -> float:
        """The mean return from the action on."""
        return float(np.mean(self.returns))


@dataclass(eq=False)
class State:
    """A state of a tree: the actions before it, from one start.

    Attributes:
        trajectory: an episode that passes it.
        turn: the index of its turn there.
        edges: the actions that were taken in it, by text.
        samples: number of actions that the policy sampled in it.
    """

    trajectory: Trajectory
    turn: int
    edges: dict[str, Edge] = field(default_factory=dict)
    samples: int = 0

    def add(self, trajectory: Trajectory, first: int, gamma: float) -> None:
        """Adds an episode to the tree whose root this is.

        Args:
            trajectory: the episode.
            first: index of the first turn that the policy sampled. Those before it are repeated.
            gamma: discount between turns.
        """
        state = self
        for turn, taken in enumerate(trajectory.turns):
            state.samples += turn >= first
            edge = state.edges.setdefault(taken.action, Edge(trajectory, turn))
            edge.returns.append(discounted(trajectory, turn, gamma))
            if turn + 1 < len(trajectory.turns):
                edge.state = edge.state or State(trajectory, turn + 1)
                state = edge.state

    def select(self, width: int, exploration: float) -> State:
        """Returns the state from which the next episode branches, by UCT."""
        state = self
        while state.samples >= width:
            following = state.best(exploration).state
            if following is None:  # the action ends the episode
                break
            state = following
        return state

    def best(self, exploration: float) -> Edge:
        """Returns the action with the highest Q + c sqrt(ln N / (1 + n))."""
        visits = sum(len(edge.returns) for edge in self.edges.values())
        spread = math.log(max(visits, 1))
        return max(
            self.edges.values(),
            key=lambda edge: edge.value + exploration * math.sqrt(spread / (1 + len(edge.returns))),
        )

    def states(self) -> Iterator[State]:
        """Yields the states of the tree whose root this is."""
        left = [self]
        while left:
            yield (state := left.pop())
            left += [edge.state for edge in state.edges.values() if edge.state is not None]


class TreePreferences(ActionPreferences):
    """Grows a tree from each start, and learns from pairs of actions of its states.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    needs_reference = False
    games = False
    branches = True

    def __init__(self, trainer: Run, config: Config):
        thought = config.loss.thought_coef
        super().__init__(config.beta, config.threshold, thought_coef=thought)
        self.trainer, self.config = trainer, config
        self.buffer = ReplayBuffer(config.replayed)
        self.grown: dict[str, float] = {}

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the actions of pairs, or one episode to learn nothing from."""
        config = self.config
        trees: dict[tuple[Any, ...], State] = {}
        for trajectory in fresh:
            root = trees.setdefault(trajectory.group, State(trajectory, 0))
            root.add(trajectory, 0, config.gamma)
        for number in range(config.simulations):
            self._simulate(list(trees.values()), iteration, number)
        states = [state for root in trees.values() for state in root.states()]
        found = [self._actions(state, (iteration, i)) for i, state in enumerate(states)]
        self.buffer.add(chain.from_iterable(found), iteration)
        self.grown = {"states": float(len(states)), "paired_states": float(sum(map(bool, found)))}
        return self.buffer.since(0) or fresh[:1]

    def _simulate(self, roots: Sequence[State], iteration: int, number: int) -> None:
        """Plays one episode of each tree, from the state that UCT selects."""
        config, seed = self.config, self.trainer.config.run.seed
        chosen = [root.select(config.width, config.exploration) for root in roots]
        episodes = [
            self.trainer.lineup.branch(
                [state.trajectory], state.turn, (seed, TREES + iteration, number * len(roots) + i)
            )
            for i, state in enumerate(chosen)
        ]
        played = self.trainer.play(episodes)
        for root, state, trajectory in zip(roots, chosen, played, strict=True):
            root.add(trajectory, state.turn, config.gamma)

    def _actions(self, state: State, key: tuple[int, int]) -> list[Trajectory]:
        """Returns the actions of a state that are in a pair, each as a trajectory of its own."""
        values = [edge.value for edge in state.edges.values()]
        low, high = min(values), max(values)
        return [
            single_turn(edge.trajectory, edge.turn, **{STATE: key, VALUE: edge.value})
            for edge in state.edges.values()
            if max(high - edge.value, edge.value - low) > self.config.threshold
        ]

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns -d loss / d log pi of every action, times their number.

        The reference is the policy that sampled the action.
        """
        assert forward is not None
        sampled = np.concatenate([turn.logprobs for turn in batch.turns])
        credit = super().credit(batch, replace(forward, reference=sampled), iteration, rng)
        self.metrics |= self.grown
        return credit

    def state_dict(self) -> dict[str, Any]:
        """Returns the replay buffer."""
        return {"buffer": self.buffer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.buffer.load_state_dict(state["buffer"])


def build(config: Config) -> Algorithm:
    """Returns the parts of Agent Q."""
    return Algorithm(hooks=lambda trainer: TreePreferences(trainer, config))
