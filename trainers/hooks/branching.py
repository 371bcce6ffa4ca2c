"""Branching rollouts: more episodes from the turns at which the policy is uncertain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import FloatArray, Trajectory, is_judged
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.branches import samples_of
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.settings import NonNegative, Positive
from agentgym.trainers.settings.kinds import GAMES, GroupConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

PENALTY = 0.05
"""Share of a draw that AEPO takes off it for each turn in a row at which the group branched."""
SENSITIVITY = 0.5
"""Factor of the entropy rise in AEPO's number of branches."""


@dataclass
class BranchingConfig(GroupConfig):
    """Settings of a recipe that compares the episodes of a group and their branches."""

    lacks: ClassVar[tuple[str, ...]] = ("filter_groups", *GAMES)

    branches: Positive = 4
    """Branches per group, besides its `group_size` roots."""
    alpha: NonNegative = 0.2
    """Increase of the branching probability per unit of entropy rise."""
    beta: NonNegative = 0.5
    """Probability of a branch at a turn as uncertain as the first."""


class Branching(RecipeHooks):
    """Plays branches of an iteration's episodes.

    Branch points are chosen turn by turn in the order of play, from the entropies up to the turn,
    and branches may branch again. The choice is therefore the same as during the rollout, although
    the episodes of a group are played to their end before their first branches.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
        adaptive: allocate branches by the entropy rise of a group, and lower their probability
            after turns at which the group branched (AEPO).
        entropy_weight: increase of the advantage of a token per standard deviation of entropy.
    """

    def __init__(
        self,
        trainer: Run,
        config: BranchingConfig,
        *,
        adaptive: bool,
        entropy_weight: float = 0.0,
    ):
        super().__init__()
        self.trainer = trainer
        self.branches, self.alpha, self.beta = config.branches, config.alpha, config.beta
        self.adaptive, self.entropy_weight = adaptive, entropy_weight
        self._entropy: list[FloatArray] = []

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes of the iteration and their branches."""
        self._entropy = []
        paths = [Path(t, e) for t, e in zip(fresh, self._turn_entropy(fresh), strict=True)]
        groups: dict[tuple[str, str, int, str], list[Path]] = {}
        for path in paths:
            groups.setdefault(path.trajectory.group, []).append(path)
        left = {group: self._budget(members) for group, members in groups.items()}
        streaks = dict.fromkeys(groups, 0)
        openings: list[int] = []
        turn = 1
        while True:
            points: list[tuple[Path, int]] = []
            for group, members in groups.items():
                chance = partial(self._chance, streak=streaks[group])
                chosen = choose(members, turn, left[group], chance, rng)
                streaks[group] = streaks[group] + 1 if chosen else 0
                points += [(path, turn) for path in chosen]
            ended = turn >= max(len(path.entropy) for path in paths)
            if ended:  # the rest of the budget begins at the start
                points = [(groups[g][0], 0) for g, number in left.items() for _ in range(number)]
            branches = self._play(points, iteration, len(openings))
            for branch in branches:
                groups[branch.trajectory.group].append(branch)
                left[branch.trajectory.group] -= 1
            paths += branches
            openings += [opening for _, opening in points]
            if ended:
                break
            turn += 1
        played = [path.trajectory for path in paths]
        self.metrics = {
            "branches": float(len(openings)),
            "turns_taken_over": float(np.mean(openings or [0.0])),
        }
        return Learn(played)

    def _play(self, points: list[tuple[Path, int]], iteration: int, first: int) -> list[Path]:
        """Plays branches that take over the turns of a path before a turn.

        Those on which the verdict of a judge is unreadable are left out.
        """
        seed = self.trainer.config.run.seed
        episodes = []
        for number, (path, turn) in enumerate(points, first):
            root = path.trajectory
            key = stream(seed, "branches", iteration, number)
            episodes.append(EpisodeSpec(root.task, root.seed, key, samples_of(root, turn)))
        if not episodes:
            return []
        played = zip(self.trainer.play(episodes), (turn for _, turn in points), strict=True)
        kept = [(trajectory, turn) for trajectory, turn in played if is_judged([trajectory])]
        if not kept:
            return []
        entropies = self._turn_entropy([trajectory for trajectory, _ in kept])
        return [
            Path(trajectory, entropy, turn)
            for (trajectory, turn), entropy in zip(kept, entropies, strict=True)
        ]

    def _chance(self, path: Path, turn: int, streak: int) -> float:
        """Returns the probability of a branch at a turn.

        Args:
            path: the episode.
            turn: the turn.
            streak: number of turns just before at which the group branched.
        """
        rise = float(path.entropy[turn] - path.entropy[path.origin])
        factor = max(0.0, 1 - PENALTY * streak) if self.adaptive else 1.0
        return 1 - (1 - self.beta) / factor + self.alpha * rise if factor else 0.0

    def on_advantages(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Multiplies advantages by 1 + entropy_weight * (H - mean) / std of the tokens' entropy.

        The factor is at least 0: below it, a good action would be made less likely.
        """
        if not self.entropy_weight:
            return credit
        entropy = np.concatenate(self._entropy)
        free = entropy[batch.free]
        score = (entropy - free.mean()) / (free.std() + 1e-6) if len(free) else entropy
        factor = np.maximum(1 + self.entropy_weight * np.where(batch.free, score, 0.0), 0.0)
        return replace(credit, advantages=(factor * credit.advantages).astype(np.float32))

    def _turn_entropy(self, fresh: list[Trajectory]) -> list[np.ndarray]:
        """Returns the mean entropy of each turn's choices in [0, 1], per trajectory.

        The entropies of the tokens are kept for `on_advantages`.
        """
        batch = Batch.of(fresh)
        self.trainer.policy.engine.sleep()  # whose memory the pass needs
        found = self.trainer.updater.evaluate_actions(batch, reference=False).entropy
        assert found is not None
        self._entropy.append(found)
        vocabulary = len(self.trainer.policy.tokenizer)
        choices = np.full(batch.num_tokens, float(vocabulary))
        for m, turn in enumerate(batch.turns):
            span = slice(batch.token_offsets[m], batch.token_offsets[m + 1])
            if turn.choice is not None:
                choices[span] = len(turn.admissible)
            elif turn.support is not None:
                choices[span] = turn.support.counts(vocabulary)
        scaled = found / np.log(np.maximum(choices, 2))
        total = np.bincount(batch.token_turn, scaled * batch.free, minlength=batch.num_turns)
        count = np.bincount(batch.token_turn, batch.free, minlength=batch.num_turns)
        means = total / np.maximum(count, 1)
        return np.split(means, batch.turn_offsets[1:-1])

    def _budget(self, members: list[Path]) -> int:
        """Returns the number of branches of a group."""
        if not self.adaptive:
            return self.branches
        rises = [float(path.entropy[1:].mean() - path.entropy[0]) for path in members if path.later]
        rise = float(np.mean(rises or [0.0]))
        return max(1, round(2 * self.branches / (1 + np.exp(-SENSITIVITY * rise)) - 1e-9))


@dataclass(eq=False)
class Path:
    """An episode that may branch.

    Attributes:
        trajectory: the episode.
        entropy: [T] mean entropy of the choices of each turn, in [0, 1].
        origin: the turn at which it branched off another one, 0 for an episode from the start.
    """

    trajectory: Trajectory
    entropy: NDArray[np.float64]
    origin: int = 0

    @property
    def later(self) -> bool:
        """Whether the episode has more than one turn."""
        return len(self.entropy) > 1


def choose(
    members: list[Path],
    turn: int,
    budget: int,
    chance: Callable[[Path, int], float],
    rng: np.random.Generator,
) -> list[Path]:
    """Samples the episodes of a group that branch at a turn, at most `budget`.

    Args:
        members: the episodes of the group, of which those that have the turn may branch.
        turn: the turn.
        budget: branches left.
        chance: the probability that an episode branches at a turn.
        rng: random generator.
    """
    found: list[Path] = []
    for path in members:
        if path.origin < turn < len(path.entropy) and len(found) < budget:
            found += [path] if rng.random() <= chance(path, turn) else []
    return found
