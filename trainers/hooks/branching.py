"""Branching rollouts: more episodes from the turns at which the policy is uncertain."""

from __future__ import annotations

import numpy as np

from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.collector import EpisodeSpec, samples_of
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Trajectory

BRANCHES = 1 << 20
"""Offset that separates the seeds of branches from those of other episodes."""


class Branching(RecipeHooks):
    """Plays branches of an iteration's episodes.

    Args:
        trainer: the trainer of the policy.
        branches: branches per group.
        alpha: increase of the branching probability per unit of entropy rise.
        beta: probability of a branch at a turn as uncertain as the first.
        adaptive: allocate branches by the entropy rise of a group and spread them over its episodes
            (AEPO).
    """

    games = False

    def __init__(
        self, trainer: Trainer, *, branches: int, alpha: float, beta: float, adaptive: bool
    ):
        super().__init__()
        self.trainer = trainer
        self.branches, self.alpha, self.beta, self.adaptive = branches, alpha, beta, adaptive

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the episodes of the iteration and their branches."""
        entropy = self._turn_entropy(fresh)
        groups: dict[tuple[str, str, int, str], list[int]] = {}
        for number, trajectory in enumerate(fresh):
            groups.setdefault(trajectory.group, []).append(number)
        trainer = self.trainer
        config = trainer.config
        episodes = []
        for members in groups.values():
            budget = self._budget([entropy[i] for i in members])
            for number, turn in self._points(members, entropy, budget, rng):
                root = fresh[number]
                key = (config.run.seed, BRANCHES + iteration, len(episodes))
                episodes.append(EpisodeSpec(root.task, root.seed, key, samples_of(root, turn)))
        branches = trainer.play(episodes)
        new = [len(t.turns) - len(e.opening) for t, e in zip(branches, episodes, strict=True)]
        self.env_steps = sum(new)
        self.metrics = {
            "branches": float(len(branches)),
            "turns_taken_over": float(np.mean([len(e.opening) for e in episodes] or [0.0])),
        }
        return fresh + branches

    def _turn_entropy(self, fresh: list[Trajectory]) -> list[np.ndarray]:
        """Returns the mean entropy of each turn's choices in [0, 1], per trajectory."""
        batch = Batch.of(fresh)
        found = self.trainer.updater.evaluate_actions(batch, reference=False).entropy
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
        """Returns the number of branches of a group."""
        if not self.adaptive:
            return self.branches
        rise = float(np.mean([e.max() - e[0] for e in entropies]))
        return max(1, round(2 * self.branches / (1 + np.exp(-4 * rise)) - 1e-9))

    def _points(
        self,
        members: list[int],
        entropy: list[np.ndarray],
        budget: int,
        rng: np.random.Generator,
    ) -> list[tuple[int, int]]:
        """Samples the (trajectory, turn) pairs of branches. Turn 0 fills up the budget."""
        rises = [
            (i, t, entropy[i][t] - entropy[i][0]) for i in members for t in range(len(entropy[i]))
        ]
        draws = rng.random(len(rises))
        order = sorted(range(len(rises)), key=lambda j: draws[j] - self.alpha * rises[j][2])
        found: list[tuple[int, int]] = []
        for j in order:
            i, t, rise = rises[j]
            taken = sum(1 for number, _ in found if number == i)
            allowed = self.beta * (0.5**taken if self.adaptive else 1.0)
            if len(found) < budget and t and draws[j] - self.alpha * rise <= allowed:
                found.append((i, t))
        while len(found) < budget:
            found.append((members[int(rng.integers(len(members)))], 0))
        return found
