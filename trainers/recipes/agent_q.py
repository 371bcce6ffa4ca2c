"""Agent Q: preferences between the actions of a state, whose values come from tree search.

"Agent Q: Advanced Reasoning and Learning for Autonomous AI Agents" (Putta et al., arXiv
2408.07199). In every iteration, a tree grows from each start by Monte-Carlo tree search: UCT
selects a state, the policy acts from there to the end, and the return is backed up. Actions of the
same state whose values differ by more than a threshold form a pair, from which DPO learns:

    -log sigmoid(beta [log pi/mu (better) - log pi/mu (worse)]),    Q(h, a) = mean return from a on

where mu is the policy that sampled the action, whose log-probabilities were recorded.

With `alpha` below 1, a critic ranks the actions of a state, and Q = alpha (mean return) +
(1 - alpha) (rank in [0, 1]) leads the search and makes the pairs. By default the policy criticises
itself.

Kept: actions proposed by the policy, UCT with Q + c sqrt(ln N / (1 + n)), rollouts to the end, the
ranking by repeated choice of the best action, pairs of a state with a threshold, a replay buffer
with recorded log-probabilities as the reference, no discount. Changed: alpha is 1 by default (the
paper: 0.5), values are means of returns from the action on instead of final successes, and the
buffer holds the latest actions of an online run. The policy criticises with a reply that is
constrained to the numbers of the actions. The states of a tree are repeated by their actions, which
equals a snapshot. A tree of N episodes with T turns costs at most N T turns.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from agentgym.agents.action_ranking import ByChoice, Rank, make_ranking
from agentgym.agents.basic.view import View
from agentgym.trainers.algorithm import Algorithm, Preference
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.packing import pack_all, unpack_all
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory, is_judged, rules_of
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.preferences import action_pairs
from agentgym.trainers.rollout.branches import discounted, single_turn
from agentgym.trainers.rollout.env_pool import instructions_by_id
from agentgym.trainers.settings import (
    Fraction,
    GroupRolloutConfig,
    NonNegative,
    Positive,
    RolloutConfig,
    When,
    defaults,
)
from agentgym.trainers.settings.kinds import GAMES, SAMPLED, PreferenceConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(PreferenceConfig):
    """Settings of Agent Q."""

    lacks: ClassVar[tuple[str, ...]] = ("filter_groups", *SAMPLED, *GAMES)

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
    alpha: Fraction = 1.0
    """Weight of the mean return in the value of an action. The rest is its rank in [0, 1] by a
    critic (1: no critic)."""
    judge: Annotated[str, When("alpha", but=(1.0,), remedy="alpha below 1")] = "self"
    """Critic that ranks the actions of a state: the policy ("self"), a language model
    (chat:MODEL@URL, policy:FOLDER, model:NAME), which names the best action, then the best of the
    others, or module:function, which scores an action of a `View`."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.judge != "self":
            make_ranking(self.judge)

    @property
    def uses_reference(self) -> bool:
        """Whether there is a KL penalty: the policy that sampled is the reference of the credit."""
        return self.loss.kl_coef > 0


@dataclass(eq=False)
class Edge:
    """An action in a state of a tree.

    Attributes:
        trajectory: the first episode in which it was taken.
        turn: the index of its turn.
        returns: the discounted return from the action on, of each episode through it.
        state: the state after it. None: the episode ends.
        rank: its rank in [0, 1] among the actions of the state by a critic.
        trust: weight of the rank in its value.
    """

    trajectory: Trajectory
    turn: int
    returns: list[float] = field(default_factory=list)
    state: State | None = None
    rank: float = 0.0
    trust: float = 0.0

    @property
    def value(self) -> float:
        """The mean return from the action on, and the rank."""
        return (1 - self.trust) * float(np.mean(self.returns)) + self.trust * self.rank


@dataclass(eq=False)
class State:
    """A state of a tree: the actions before it, from one start.

    Attributes:
        trajectory: an episode that passes it.
        turn: the index of its turn there.
        edges: the actions that were taken in it, by text.
        samples: number of actions that the policy sampled in it.
        ranked: number of actions among which a critic has ranked them.
    """

    trajectory: Trajectory
    turn: int
    edges: dict[str, Edge] = field(default_factory=dict)
    samples: int = 0
    ranked: int = 0

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


class Candidate(NamedTuple):
    """An action of a pair.

    Attributes:
        trajectory: the action, as a trajectory of one turn.
        state: the iteration and the number of its state.
        value: its value.
    """

    trajectory: Trajectory
    state: tuple[int, ...]
    value: float


class TreePreferences(RecipeHooks):
    """Grows a tree from each start, and learns from pairs of actions of its states.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config
        self.buffer: deque[Candidate] = deque(maxlen=config.replayed)
        self._critic: Rank | None = None
        if config.alpha < 1:
            from agentgym.trainers.hooks.self_critique import PolicyChoice

            own = config.judge == "self"
            self._critic = ByChoice(PolicyChoice(trainer)) if own else make_ranking(config.judge)
            self._rules = instructions_by_id(trainer.pool.env(0))

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the actions of pairs, or one episode to learn nothing from."""
        config = self.config
        if isinstance(self._critic, ByChoice):  # the share of an iteration, also of a resumed run
            self._critic.unread = self._critic.asked = 0
        trees: dict[tuple[Any, ...], State] = {}
        for trajectory in fresh:
            root = trees.setdefault(trajectory.group, State(trajectory, 0))
            root.add(trajectory, 0, config.gamma)
        roots = list(trees.values())
        for number in range(config.simulations):
            self._criticise(roots, config.width)
            self._simulate(roots, iteration, number)
        self._criticise(roots)
        states = [state for root in roots for state in root.states()]
        found = [self._actions(state, (iteration, i)) for i, state in enumerate(states)]
        self.buffer.extend(chain.from_iterable(found))
        self.metrics = {"states": float(len(states)), "paired_states": float(sum(map(bool, found)))}
        if isinstance(self._critic, ByChoice):
            self.metrics["unread_choices"] = self._critic.unread / max(self._critic.asked, 1)
        if not self.buffer:
            return Learn(fresh[:1], pairs=())
        _, keys, values = zip(*self.buffer, strict=True)
        pairs = action_pairs(keys, values, config.threshold)
        return Learn([each.trajectory for each in self.buffer], pairs=pairs)

    def _simulate(self, roots: Sequence[State], iteration: int, number: int) -> None:
        """Plays one episode of each tree, from the state that UCT selects."""
        config, seed = self.config, self.trainer.config.run.seed
        chosen = [root.select(config.width, config.exploration) for root in roots]
        episodes = [
            self.trainer.lineup.branch(
                [state.trajectory],
                state.turn,
                stream(seed, "trees", iteration, number * len(roots) + i),
            )
            for i, state in enumerate(chosen)
        ]
        played = self.trainer.play(episodes)
        for root, state, trajectory in zip(roots, chosen, played, strict=True):
            if is_judged([trajectory]):
                root.add(trajectory, state.turn, config.gamma)

    def _criticise(self, roots: Sequence[State], samples: int = 0) -> None:
        """Ranks the actions of the states with so many samples that have new ones."""
        if self._critic is None:
            return
        states = [
            state
            for root in roots
            for state in root.states()
            if state.samples >= samples and len(state.edges) > max(state.ranked, 1)
        ]
        ranks = self._ranks([(self._view(state), list(state.edges)) for state in states])
        for state, found in zip(states, ranks, strict=True):
            state.ranked = len(state.edges)
            for edge, rank in zip(state.edges.values(), found, strict=True):
                edge.rank, edge.trust = rank, 1 - self.config.alpha

    def _ranks(self, items: Sequence[tuple[View, list[str]]]) -> list[list[float]]:
        """Returns the ranks of the actions of each view. Processes share all but the policy."""
        from agentgym.trainers.system.processes import map_across_processes

        critic = self._critic
        assert critic is not None

        def rank(some: Sequence[tuple[View, list[str]]]) -> list[list[float]]:
            return critic([view for view, _ in some], [actions for _, actions in some])

        if self.config.judge == "self":  # whose generation the processes share already
            return rank(items)
        return map_across_processes(self.trainer.accelerator, items, rank)

    def _view(self, state: State) -> View:
        """Returns the view of a state, without an environment."""
        trajectory, turn = state.trajectory, state.turn
        history = [(each.observation, each.action) for each in trajectory.turns[:turn]]
        rules = rules_of(trajectory, self._rules)
        return View.of_text(rules, trajectory.turns[turn].observation, history)

    def _actions(self, state: State, key: tuple[int, int]) -> list[Candidate]:
        """Returns the actions of a state that are in a pair, each as a trajectory of its own."""
        values = [edge.value for edge in state.edges.values()]
        low, high = min(values), max(values)
        return [
            Candidate(single_turn(edge.trajectory, edge.turn), key, edge.value)
            for edge in state.edges.values()
            if max(high - edge.value, edge.value - low) > self.config.threshold
        ]

    def state_dict(self) -> dict[str, Any]:
        """Returns the replay buffer."""
        marks = [(*each.state, each.value) for each in self.buffer]
        return {"actions": pack_all(each.trajectory for each in self.buffer), "marks": marks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.buffer.clear()
        for trajectory, (*key, value) in zip(
            unpack_all(state["actions"]), state["marks"], strict=True
        ):
            self.buffer.append(Candidate(trajectory, tuple(key), value))


def build(config: Config) -> Algorithm:
    """Returns the parts of Agent Q."""
    thought = config.loss.thought_coef
    return Algorithm(
        Preference(config.beta, thought_coef=thought, behaviour=True),
        data="foreign",
        seats="one",
        replays=True,
        hooks=lambda trainer: TreePreferences(trainer, config),
    )
