"""Rollouts that branch where the policy is unsure (ARPO, arXiv 2507.19849).

"Agentic Reinforced Policy Optimization". Half of a group's episodes are played from the start; the
others branch off them, at turns whose entropy has risen most over that of the first turn: the turns
before are taken over as they were and the policy goes on differently. Shared beginnings so get the
mean credit of what followed, and what differs gets the difference.

Kept: as many branches as roots, the rule rand - alpha (H_t - H_0) <= beta with alpha = 0.2, beta =
0.5, GRPO over all leaves. Changed: entropies are exact and over the whole action (the authors
estimate them from the top ten tokens of its first twenty), in units of the log of how many tokens
there were to choose from. A branch repeats the actions before it in its environment, which is the
same as a snapshot and works with any wrapper.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.credit import group
from agentgym.trainers.hooks.base import Experience
from agentgym.trainers.recipes import grpo
from agentgym.trainers.rollout.collector import Episode, collect, samples_of
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Trajectory

BRANCHES = 1 << 20
"""Marks the random numbers of branches among those of a round's episodes."""


@dataclass
class Config(grpo.Config):
    """Settings of branching rollouts."""

    branches: int = 4
    """Branches of a group, besides its `group_size` roots."""
    alpha: float = 0.2
    """How much a rise of entropy makes branching likelier."""
    beta: float = 0.5
    """Probability of branching at a turn as uncertain as the first."""
    adaptive: bool = False
    """Share branches out by how much the entropy rises in a group, and spread them over its roots
    (AEPO)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.branches < 1:
            raise ConfigError(f"branches must be at least 1, got {self.branches}.")


class Branching(Experience):
    """Plays the branches of a round's episodes."""

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the round's episodes and their branches."""
        entropy = self._turn_entropy(fresh)
        groups: dict[tuple[str, str, int, str], list[int]] = {}
        for number, trajectory in enumerate(fresh):
            groups.setdefault(trajectory.group, []).append(number)
        episodes = []
        for members in groups.values():
            budget = self._budget([entropy[i] for i in members])
            for number, turn in self._points(members, entropy, budget, rng):
                root = fresh[number]
                key = (self.config.seed, BRANCHES + iteration, len(episodes))
                opening = samples_of(root, turn)
                episodes.append(Episode(root.task, root.seed, key, opening))
        trainer = self.trainer
        branches = collect(
            trainer.policy,
            trainer.pool,
            episodes,
            trainer.context,
            trainer.config.sampling(),
            constrain=trainer.config.constrain,
        )
        new = [len(t.turns) - len(e.opening) for t, e in zip(branches, episodes, strict=True)]
        self.env_steps = sum(new)
        self.metrics = {
            "branches": float(len(branches)),
            "turns_taken_over": float(np.mean([len(e.opening) for e in episodes] or [0.0])),
        }
        return fresh + branches

    def _turn_entropy(self, fresh: list[Trajectory]) -> list[np.ndarray]:
        """For each trajectory the mean entropy of each turn's choices, in [0, 1]."""
        batch = Batch.of(fresh)
        found = self.trainer.updater.read(batch, reference=False).entropy
        choices = np.full(batch.num_tokens, float(len(self.trainer.policy.tokenizer)))
        for m, turn in enumerate(batch.turns):
            span = slice(batch.token_offsets[m], batch.token_offsets[m + 1])
            if turn.choice is not None:
                choices[span] = len(turn.admissible)
            elif turn.support is not None:
                choices[span] = np.diff(turn.support.offsets)
        scaled = found / np.log(np.maximum(choices, 2))
        total = np.bincount(batch.token_turn, scaled * batch.free, minlength=batch.num_turns)
        count = np.bincount(batch.token_turn, batch.free, minlength=batch.num_turns)
        means = total / np.maximum(count, 1)
        return np.split(means, batch.turn_offsets[1:-1])

    def _budget(self, entropies: list[np.ndarray]) -> int:
        """How many branches a group gets."""
        if not self.config.adaptive:
            return self.config.branches
        rise = float(np.mean([e.max() - e[0] for e in entropies]))
        return max(1, round(2 * self.config.branches / (1 + np.exp(-4 * rise)) - 1e-9))

    def _points(
        self,
        members: list[int],
        entropy: list[np.ndarray],
        budget: int,
        rng: np.random.Generator,
    ) -> list[tuple[int, int]]:
        """Chooses (trajectory, turn) to branch at; turn 0 where nothing rises."""
        rises = [
            (i, t, entropy[i][t] - entropy[i][0]) for i in members for t in range(len(entropy[i]))
        ]
        draws = rng.random(len(rises))
        order = sorted(range(len(rises)), key=lambda j: draws[j] - self.config.alpha * rises[j][2])
        found: list[tuple[int, int]] = []
        for j in order:
            i, t, rise = rises[j]
            taken = sum(1 for number, _ in found if number == i)
            allowed = self.config.beta * (0.5**taken if self.config.adaptive else 1.0)
            if len(found) < budget and t and draws[j] - self.config.alpha * rise <= allowed:
                found.append((i, t))
        while len(found) < budget:
            found.append((members[int(rng.integers(len(members)))], 0))
        return found


def main(config: Config) -> list[Report]:
    """Trains a policy with branching rollouts; returns its evaluations."""
    return train("arpo_entropy", config)


def train(recipe: str, config: Config) -> list[Report]:
    """Trains a policy with branching rollouts under the name of a recipe."""
    return Trainer(
        recipe,
        config,
        credit=group.GroupBaseline(scale=config.scale, outcome=config.outcome),
        experience=lambda trainer: Branching(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("arpo_entropy", sys.argv[1:]))
