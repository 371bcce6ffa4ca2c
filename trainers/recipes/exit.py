"""Expert iteration: imitation of a search that plans from the policy's own states.

"Thinking Fast and Slow with Deep Learning and Tree Search" (Anthony et al., arXiv 1705.08439). In
every iteration the policy plays. From a sampled turn of each episode, a tree search plays on, and
the policy imitates its actions:

    loss = -log pi(a* | o),    a* = search(o)

In a game (`opponents mirror`), the policy plays all seats, and from a sampled turn on the search
plays all of them (see `GameSearch`), so that the policy learns from self-play and the rules alone.
With `visited`, the search instead plays nothing, and the policy imitates its action in every turn
of the policy's own episodes, as in DAgger (arXiv 1011.0686). With `epsilon`, the policy's episodes
reach states in which an agent has made a mistake, and with `explorers one`, more of those that the
policy itself reaches when others make mistakes.

Kept: a search as the teacher, states of the policy, imitation, and with `guided` a search whose
actions the policy proposes. Changed: the search also plays the turns that follow the sampled one.
It is imitated in games, and otherwise if it succeeds or returns more than the policy's own episode.
The policy goes on from its weights instead of from new ones, and there is no value network. With
`replayed`, a sample of the turns of earlier searches is imitated again (theirs: all of them).

The search plans on snapshots, which hold the hidden state. Where observations hide what matters,
the policy cannot know why the search acts as it does, and imitation can lower its success.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agentgym.agents import Agent, make_agent
from agentgym.errors import ConfigError
from agentgym.multiagent.seats import game_agent
from agentgym.registration.single_seat import SingleSeat
from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.data.learn import Learn, from_turns
from agentgym.trainers.data.replay import ReplayBuffer
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory, is_judged
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.imitation.demonstrations import Taught, teach
from agentgym.trainers.rollout.action_room import action_room
from agentgym.trainers.rollout.branches import (
    episodes_of,
    orders_of,
    single_turn,
    turns_before,
    with_action,
)
from agentgym.trainers.settings import Count, LossConfig, defaults
from agentgym.trainers.settings.kinds import RATIO, SAMPLED, ImitationConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.policy_agent.agent import PolicyAgent


@dataclass
class Config(ImitationConfig):
    """Settings of expert iteration."""

    lacks: ClassVar[tuple[str, ...]] = (*RATIO, "filter_groups", *SAMPLED)

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", ratio="none")
    teacher: str = "search:mcts,budget=64"
    """Agent whose actions are imitated, such as search:best_first,budget=128."""
    guided: bool = False
    """The policy proposes the actions of the search."""
    replayed: Count = 0
    """Turns of earlier searches that are imitated again in each iteration, a random sample."""
    visited: bool = False
    """In games, imitate the search in every turn of the policy's own episodes. Otherwise it is
    imitated from a sampled turn of each episode on, from which it plays itself."""


class Teaching(RecipeHooks):
    """Replaces the rollout by episodes that a teacher plays on.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
        teacher: the teacher. None: in games, and with `guided`, it is made here.
    """

    def __init__(self, trainer: Run, config: Config, teacher: Agent | None = None):
        super().__init__()
        self.trainer, self.config = trainer, config
        self.earlier = ReplayBuffer(None)
        self.proposer: PolicyAgent | None = None
        self._games = bool(trainer.lineup.agents)
        if config.visited and not self._games:
            raise ConfigError("visited is a setting of games: set opponents to 'mirror'.")
        self.teacher = teacher or (self._seats() if self._games else self._guided())

    def _seats(self) -> Agent:
        """Returns the teacher in the seats of a game."""
        if self.config.guided:
            raise ConfigError(
                "In games, the policy proposes no actions of the search: leave guided at False, or "
                "opponents at 'scripted'."
            )
        single = self.trainer.pool.env(0).unwrapped
        assert isinstance(single, SingleSeat)
        return game_agent(single.game, self.config.teacher)

    def _guided(self) -> Agent:
        """Returns the teacher to which the policy proposes actions."""
        from agentgym.trainers.policy_agent.agent import PolicyAgent

        trainer, config = self.trainer, self.config
        self.proposer = PolicyAgent(
            trainer.policy,
            config.context_settings(),
            config.sampling(),
            constrain=config.rollout.constrain,
        )
        return make_agent(config.teacher, policy=self.proposer)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes in which the teacher did well, or one to learn nothing from."""
        own = episodes_of(fresh)
        if self.config.visited:
            return from_turns(self._with_earlier(self._advice(own, iteration), iteration, rng))
        turns = [int(rng.choice(orders_of(members))) for members in own]
        played = self._play(own, turns, iteration)
        good: list[tuple[Trajectory, int]] = []
        flat: list[tuple[Taught, int]] = []
        for members, order, several in zip(own, turns, played, strict=True):
            skip = {each.agent: turns_before(each, order) for each in members}
            taught = [(each, skip.get(each.trajectory.agent, 0)) for each in several]
            flat += taught
            one, [before, *_] = several[0].trajectory, members
            judged = is_judged([each.trajectory for each in several])
            better = one.success or one.episode_return > before.episode_return
            if judged and (self._games or better):
                good += [(each.trajectory, first) for each, first in taught]
        new = [len(each.trajectory.turns) - first for each, first in flat]
        self.env_steps = sum(new) + sum(searched(each) for each, _ in flat)
        self.metrics = {
            "teacher_return": float(np.mean([each.trajectory.episode_return for each, _ in flat])),
            "teacher_success": float(np.mean([each.trajectory.success for each, _ in flat])),
            "imitated": len(good) / len(flat),
        }
        found = self._with_earlier(good, iteration, rng)
        return from_turns(found or [(fresh[0], len(fresh[0].turns))])

    def _with_earlier(
        self, good: list[tuple[Trajectory, int]], iteration: int, rng: np.random.Generator
    ) -> list[tuple[Trajectory, int]]:
        """Returns the imitated episodes with a sample of the turns of earlier iterations.

        Each comes with the index of the first turn of the teacher.
        """
        if not self.config.replayed:
            return good
        earlier = self.earlier.since(0)
        count = min(self.config.replayed, len(earlier))
        chosen = [earlier[i] for i in rng.choice(len(earlier), count, replace=False)]
        for taught, first in good:
            places = range(first, len(taught.turns))
            self.earlier.add([single_turn(taught, place) for place in places], iteration)
        return good + [(each, 0) for each in chosen]

    def _advice(self, own: list[list[Trajectory]], iteration: int) -> list[tuple[Trajectory, int]]:
        """Returns the turns of the policy's episodes with the actions of the teacher."""
        ends = [orders_of(members)[-1] + 1 for members in own]
        found = [each for members in self._play(own, ends, iteration) for each in members]
        self.env_steps = sum(searched(each) for each in found)
        same = [
            sample.text == turn.action
            for each in found
            for turn, sample in zip(each.trajectory.turns, each.advice, strict=True)
        ]
        self.metrics = {"agreement": float(np.mean(same))}
        return [
            (with_action(each.trajectory, place, sample), 0)
            for each in found
            for place, sample in enumerate(each.advice)
        ]

    def _play(
        self, own: list[list[Trajectory]], turns: list[int], iteration: int
    ) -> list[list[Taught]]:
        """Returns the episodes, played on by the teacher from a turn."""
        trainer, config = self.trainer, self.config
        keys = [stream(config.run.seed, "searches", iteration, i) for i in range(len(own))]
        room = action_room(trainer.policy, config.sampling(), config.rollout.constrain)
        tasks = [members[0].task for members in own]
        limits = [trainer.turn_limit(task, iteration) for task in tasks]
        failures = trainer.pool.failures.bound(len(own))
        found = [
            teach(
                trainer.policy,
                trainer.pool,
                [replace(trainer.lineup.branch(members, order, key), max_turns=limit)],
                trainer.context,
                room,
                constrain=config.rollout.constrain,
                teacher=self.teacher,
                advised=self.config.visited,
                failures=failures,
            )
            for members, order, key, limit in zip(own, turns, keys, limits, strict=True)
        ]
        if self.proposer is not None:
            trainer.count(tokens=self.proposer.generated)
            self.proposer.generated = 0
        return found

    def state_dict(self) -> dict[str, Any]:
        """Returns the turns that may be imitated again."""
        return {"earlier": self.earlier.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.earlier.load_state_dict(state["earlier"])


def searched(taught: Taught) -> int:
    """Returns the environment steps of the search of an episode."""
    return int(taught.costs.get("search_steps", 0))


def build(config: Config) -> Algorithm:
    """Returns the parts of expert iteration."""
    teacher = None  # made or at least checked before the run's folder is made
    if config.game.scripted and not config.guided:
        teacher = make_agent(config.teacher)
    elif config.teacher.startswith("search:"):
        make_agent(config.teacher.partition(",")[0])
    return Algorithm(
        Imitation(),
        data="foreign",
        seats="mirror",
        replays=True,
        hooks=lambda trainer: Teaching(trainer, config, teacher),
    )
