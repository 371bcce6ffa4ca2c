"""Chunked credit: several turns share one advantage, between turn and trajectory level.

After "Reinforcement Learning with Action Chunking" (arXiv 2507.07969), with turns in the place of
actions. The lambda-return bootstraps only at the end of a chunk of `chunk_size` turns, and the
turns of a chunk share one advantage. Size 1 equals `turn`. A size longer than every episode gives
Monte-Carlo returns.

`--chunk-end valid` takes chunks by meaning, from one accepted action to the next, as in IPA ("Let
It Flow: Agentic Crafting on Rock and Roll, Building the ROME Model within an Open Agentic Learning
Ecosystem", arXiv 2512.24873): a call of a tool and its rejected attempts are one decision. Kept of
it: the unit of credit, with `--ratio chunk --importance-cap 2 --importance chunk_mask` the ratio
and the mask of whole chunks, and with `resampled` further episodes from chunks within a success.
Changed: these begin within successes of the policy in the same group (theirs: of a reference), at a
chunk that is sampled anew for each, and the actions before it, from which the success itself is
learned, have no loss. A start repeats the actions before it, which equals a snapshot. Added:
advantages that vary more than returns lower the learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory, is_judged
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.branches import samples_of
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.settings import Count, Fraction, LossConfig, Positive, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig
from agentgym.trainers.settings.learning import GROUPED

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(ActorCriticConfig):
    """Settings of chunked credit."""

    has_chunks: ClassVar[bool] = True

    loss: LossConfig = defaults(LossConfig, ratio="turn")
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    chunk_size: Positive = 4
    """Turns per chunk."""
    chunk_end: Literal["size", "valid"] = "size"
    """End of a chunk: after `chunk_size` turns ("size"), or after each valid action ("valid")."""
    resampled: Annotated[Count, GROUPED] = 0
    """Further episodes of each group with successes and failures, which begin at a chunk within a
    success."""


class Resampling(RecipeHooks):
    """Plays episodes from the starts of chunks within the successes of a group.

    Only groups that fail as well have them. The actions that an episode takes over from the success
    have the weight 0.

    Args:
        trainer: the trainer of the policy.
        count: further episodes of a group.
        chunks: the chunks.
    """

    def __init__(self, trainer: Run, count: int, chunks: ChunkGAE):
        super().__init__()
        self.trainer, self.count, self.chunks = trainer, count, chunks

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes of the iteration and those that begin within a success."""
        groups: dict[tuple[str, str, int, str], list[Trajectory]] = {}
        for each in fresh:
            groups.setdefault(each.group, []).append(each)
        seed, episodes = self.trainer.config.run.seed, list[EpisodeSpec]()
        for members in groups.values():
            starts = [(each, turn) for each in members if each.success for turn in self._in(each)]
            failed = not all(each.success for each in members)
            for _ in range(self.count if failed and starts else 0):
                won, turn = starts[int(rng.integers(len(starts)))]
                key = stream(seed, "resampled", iteration, len(episodes))
                episodes.append(EpisodeSpec(won.task, won.seed, key, samples_of(won, turn)))
        played = self.trainer.play(episodes) if episodes else []
        for each, episode in zip(played, episodes, strict=True):
            for turn in each.turns[: episode.replayed]:
                turn.weight = 0.0
        played = [each for each in played if is_judged([each])]
        self.metrics = {"resampled": float(len(played))}
        if played:
            self.metrics["resampled_success"] = float(np.mean([each.success for each in played]))
        return Learn([*fresh, *played])

    def _in(self, won: Trajectory) -> list[int]:
        """Returns the turns with which a chunk begins, without the first one."""
        valid = np.array([turn.valid for turn in won.turns[:-1]], bool)
        return (np.flatnonzero(self.chunks.ends(np.arange(len(valid)), valid)) + 1).tolist()


def build(config: Config) -> Algorithm:
    """Returns the parts of chunked credit."""
    chunks = ChunkGAE(config.chunk_size, config.gamma, config.lambda_turn, config.chunk_end)
    signal = PolicyGradient(chunks, critic=value_head("turns", config))
    if not config.resampled:
        return Algorithm(signal)
    return Algorithm(
        signal,
        seats="one",
        replays=True,
        hooks=lambda trainer: Resampling(trainer, config.resampled, chunks),
    )
