"""AT-GRPO: the actions of each agent compared with others from the same state, for teams and games.

"Stronger-MAS: Multi-Agent Reinforcement Learning for Collaborative LLMs" (arXiv 2510.11062). Agents
have different prompts, and from the second turn on so have the episodes of a group. A group is
therefore (task, turn, agent): in each state, the agents that act sample `group_size` actions each,
which are played as so many branches, and

    A_i = (R_i - mean) / (std + 1e-6)    over the branches of the state, for each agent.

The best branch leads to the next state, from which all agents branch again (`next_state`).

Kept: the groups, branches in every turn, the choice of the next state, the credit. Changed: a
branch is played to its end, and R is an agent's return from its action on, so that rewards at the
end of an episode reach every turn (theirs: the reward of the turn, `outcome reward`, as a mixture
of a team's and an agent's own, which is for the environment to define). The next state's branches
are sampled anew, because the continuation of the best branch is better than the policy. The states
of an episode are repeated by their actions, which equals a snapshot. There is one policy for all
agents unless `roles` is set. An episode of T turns costs about `group_size` T^2 / 2 turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.group import members_of
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory, is_judged
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.branches import episodes_of, orders_of, single_turn, turn_at
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.settings import GroupRolloutConfig, LossConfig, RolloutConfig, defaults
from agentgym.trainers.settings.kinds import PolicyGradientConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(PolicyGradientConfig):
    """Settings of AT-GRPO."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig, episodes_per_iteration=32)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    next_state: Literal["best", "first", "sampled"] = "best"
    """Branch that leads to the next state: the one with the best mean outcome of the agents that
    act, the first one, or a random one."""
    outcome: Literal["return", "reward"] = "return"
    """Compared outcome of an action: the agent's return from then on, or the reward of its turn."""
    scale: bool = True
    """Divide by the group's standard deviation."""


class Taken(NamedTuple):
    """An action in a branch of a state.

    Attributes:
        trajectory: the action, as a trajectory of one turn.
        outcome: its outcome.
        state: the number of the state.
    """

    trajectory: Trajectory
    outcome: float
    state: int


class StateGroups(RecipeHooks):
    """Branches the episodes in every state, and compares the actions of each agent in a state.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns a trajectory of one turn for each agent that acts in a branch of a state.

        The outcome of each is compared with those of the same agent in the same state.
        """
        starts: dict[tuple[str, str, int], list[list[Trajectory]]] = {}
        for members in episodes_of(fresh):
            starts.setdefault(members[0].group[:3], []).append(members)
        states = [(branches, orders_of(branches[0])[0]) for branches in starts.values()]
        taken: list[Taken] = []
        count = states_seen = 0
        while states:
            following: list[tuple[list[Trajectory], int]] = []
            for branches, order in states:
                taken += self._actions(branches, order, states_seen)
                states_seen += 1
                chosen = branches[self._chosen(branches, order, rng)]
                later = [each for each in orders_of(chosen) if each > order]
                following += [(chosen, later[0])] if later else []
            episodes = self._episodes(following, iteration, count)
            played = self.trainer.play(episodes) if episodes else []
            count += len(episodes)
            size, several = self.config.rollout.group_size, episodes_of(played)
            states = [
                (branches, order)
                for i, (_, order) in enumerate(following)
                if (branches := [*filter(is_judged, several[size * i : size * (i + 1)])])
            ]
        self.metrics = {"states": float(states_seen), "branches": float(count)}
        return self._compared(taken)

    def _compared(self, taken: Sequence[Taken]) -> Learn:
        """Returns each outcome relative to those of the same agent in the same state."""
        numbers: dict[tuple[int, str], int] = {}
        keys = [(each.state, each.trajectory.agent) for each in taken]
        members = members_of(np.array([numbers.setdefault(key, len(numbers)) for key in keys]))
        outcomes = np.array([each.outcome for each in taken], np.float64)
        self.metrics |= members.metrics("state", outcomes)
        advantages = members.compare(outcomes, scale=self.config.scale, epsilon=1e-6)
        return Learn([each.trajectory for each in taken], advantages)

    def _episodes(
        self, states: Sequence[tuple[list[Trajectory], int]], iteration: int, count: int
    ) -> list[EpisodeSpec]:
        """Returns the branches of some states, of which `count` were played before."""
        seed, size = self.config.run.seed, self.config.rollout.group_size
        return [
            self.trainer.lineup.branch(
                members, order, stream(seed, "states", iteration, count + size * i + k)
            )
            for i, (members, order) in enumerate(states)
            for k in range(size)
        ]

    def _outcome(self, trajectory: Trajectory, turn: int) -> float:
        last = None if self.config.outcome == "return" else turn + 1
        return float(sum(each.reward for each in trajectory.turns[turn:last]))

    def _chosen(
        self, branches: list[list[Trajectory]], order: int, rng: np.random.Generator
    ) -> int:
        """Returns the index of the branch that leads to the next state."""
        if self.config.next_state == "first":
            return 0
        if self.config.next_state == "sampled":
            return int(rng.integers(len(branches)))
        means = []
        for members in branches:
            pairs = [(each, turn_at(each, order)) for each in members]
            means.append(np.mean([self._outcome(e, turn) for e, turn in pairs if turn is not None]))
        return int(np.argmax(means))

    def _actions(self, branches: list[list[Trajectory]], order: int, state: int) -> list[Taken]:
        """Returns the actions in a state."""
        found = []
        for trajectory in (each for members in branches for each in members):
            place = turn_at(trajectory, order)
            if place is None:
                continue
            outcome = self._outcome(trajectory, place)
            found.append(Taken(single_turn(trajectory, place), outcome, state))
        return found


def build(config: Config) -> Algorithm:
    """Returns the parts of AT-GRPO."""
    return Algorithm(
        PolicyGradient(Given()),
        seats="mirror",
        replays=True,
        hooks=lambda trainer: StateGroups(trainer, config),
    )
