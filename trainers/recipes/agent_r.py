"""Agent-R: failed episodes are revised by a success that begins alike, and the revision is learned.

"Agent-R: Training Language Model Agents to Reflect via Iterative Self-Training" (Yuan et al., arXiv
2501.11425). Episodes with the same start share their first actions up to a parent, after which a
failed and a successful one part. A revision trajectory takes the failed actions up to the first
error, then the successful ones from the parent on:

    shared actions, wrong actions, [revision,] successful actions
    loss = -log pi of the successful part, and of the successful episodes themselves

Kept: the splice at the shared parent, a text that announces the revision, the loss on its good part
alone, the mixture with successes. Changed: groups of episodes in place of Monte-Carlo tree search,
and the error is the first turn (`wrong_turns`: the first few) after the parent instead of one that
the policy names. The spliced actions are played in the environment, and the policy goes on after
them. Only those that succeed are kept, so that observations and actions belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.data.learn import Learn, from_turns
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory, is_judged
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.policy.support import candidate_support
from agentgym.trainers.rollout.branches import samples_of
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.settings import (
    GroupRolloutConfig,
    LossConfig,
    Positive,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import GAMES, RATIO, SAMPLED, ImitationConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(ImitationConfig):
    """Settings of Agent-R."""

    lacks: ClassVar[tuple[str, ...]] = (*RATIO, "filter_groups", "epsilon", *SAMPLED, *GAMES)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", ratio="none")
    wrong_turns: Positive = 1
    """Turns of the failed episode after the shared parent, before the revision."""
    revision: str = ""
    """Text before the first action of a revision, such as "I was wrong. ". The environment
    must find the action behind it (wrapper `ExtractAction`)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.revision and self.rollout.constrain:
            raise ConfigError(
                "constrain allows admissible actions only: leave out revision, or set "
                "constrain = False."
            )


@dataclass(frozen=True)
class Splice:
    """A failed episode and the success that revises it.

    Attributes:
        failed: the failed episode.
        good: the success of the same group with the most first actions in common.
        parent: number of these actions.
        turn: index of the first turn of the revision.
    """

    failed: Trajectory
    good: Trajectory
    parent: int
    turn: int


class Revisions(RecipeHooks):
    """Replaces the rollout by its successes and by revisions of its failures.

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
        """Returns successes and successful revisions, or one episode to learn nothing from.

        The weight is 1 for the tokens of successes and of the good parts of revisions, else 0.
        """
        good = [each for each in fresh if each.success]
        spliced = splices(fresh, self.config.wrong_turns)
        revised = self._play(spliced, iteration)
        self.metrics = {
            "successes": float(len(good)),
            "spliced": float(len(spliced)),
            "revised": float(len(revised)),
        }
        found = [*[(each, 0) for each in good], *revised]
        return from_turns(found or [(fresh[0], len(fresh[0].turns))])

    def _play(self, spliced: Sequence[Splice], iteration: int) -> list[tuple[Trajectory, int]]:
        """Plays revisions and returns the successes that the policy could have sampled.

        Each comes with the index of its first good turn.
        """
        seed, found = self.config.run.seed, []
        episodes = [
            EpisodeSpec(
                each.failed.task, each.failed.seed, stream(seed, "revisions", iteration, i),
                self._opening(each),
            )
            for i, each in enumerate(spliced)
        ]  # fmt: skip
        played = self.trainer.play(episodes) if episodes else []
        for splice, episode, each in zip(spliced, episodes, played, strict=True):
            good = each.success and is_judged([each])
            if good and self._constrain(each, splice.turn, episode.replayed):
                found.append((each, splice.turn))
        return found

    def _opening(self, splice: Splice) -> tuple[Sample, ...]:
        """Returns the actions of the failed episode up to the error, and those of the success."""
        good = splice.good
        first, *rest = samples_of(good, len(good.turns))[splice.parent :]
        if self.config.revision:
            text = self.config.revision + first.text
            tokens = np.array(self.trainer.policy.encode_action(text), np.int32)
            first = Sample(tokens, np.zeros(len(tokens), np.float32), None, text, True)
        # Other actions may be admissible than where they were sampled.
        revision = [replace(sample, support=None, choice=None) for sample in (first, *rest)]
        return *samples_of(splice.failed, splice.turn), *revision

    def _constrain(self, trajectory: Trajectory, start: int, stop: int) -> bool:
        """Records the legal tokens of replayed turns. Returns whether all actions are legal."""
        if self.config.rollout.constrain:
            for turn in trajectory.turns[start:stop]:
                if turn.admissible:
                    turn.support = candidate_support(
                        self.trainer.policy, turn.admissible, turn.action
                    )
                    if turn.support is None:
                        return False
        return True


def splices(episodes: Sequence[Trajectory], wrong_turns: int) -> list[Splice]:
    """Returns a splice for each failed episode whose group has a success.

    Episodes that end with the error itself are left out.

    Args:
        episodes: the episodes.
        wrong_turns: maximum number of turns of the failed episode after the parent.
    """
    found = []
    for failed in (each for each in episodes if not each.success):
        group = [each for each in episodes if each.success and each.group == failed.group]
        if group:
            good = max(group, key=lambda each: common(failed, each))
            parent = common(failed, good)
            turn = min(parent + wrong_turns, len(failed.turns) - 1)
            if parent < turn:
                found.append(Splice(failed, good, parent, turn))
    return found


def common(one: Trajectory, other: Trajectory) -> int:
    """Returns the number of first actions that two episodes have in common."""
    pairs = enumerate(zip(one.turns, other.turns, strict=False))
    length = min(len(one.turns), len(other.turns))
    return next((i for i, (a, b) in pairs if a.action != b.action), length)


def build(config: Config) -> Algorithm:
    """Returns the parts of Agent-R."""
    return Algorithm(
        Imitation(),
        data="foreign",
        seats="one",
        replays=True,
        hooks=lambda trainer: Revisions(trainer, config),
    )
