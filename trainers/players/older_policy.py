"""`OlderPolicy`: a copy of the policy of an earlier iteration, which plays a share of the turns.

Cross-policy sampling, "AgentRL: Scaling Agentic Reinforcement Learning with a Multi-Turn,
Multi-Task Framework" (arXiv 2510.04206): in every episode, each turn is sampled from the policy or
from the copy, so that episodes reach states that the policy alone no longer visits. Turns record
the log-probabilities and the version of the weights that sampled them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accelerate import Accelerator

from agentgym.trainers.players.pool import Pool
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.system.checkpoint import RunFolder

OLDER = "older"
"""Name of the copy's weights in requests."""


class OlderPolicy:
    """The policy as it was before every `every`-th iteration. It depends on the iteration alone.

    Args:
        policy: the policy in training.
        folder: the folder of the run, in which copies are kept for as long as a checkpoint needs
            them.
        accelerator: the accelerator.
        share: probability that the copy samples a turn.
        every: iterations between copies.
    """

    def __init__(
        self,
        policy: Policy,
        folder: RunFolder,
        accelerator: Accelerator,
        *,
        share: float,
        every: int,
    ):
        self._policy, self._folder, self._accelerator = policy, folder, accelerator
        self._share, self._every = share, every
        self._pool = Pool(folder.path, policy)

    def join(
        self, episodes: Sequence[EpisodeSpec], iteration: int
    ) -> tuple[list[EpisodeSpec], Ensemble]:
        """Returns the episodes of an iteration and the policies that play them.

        In an iteration before which the policy is copied, the copy does not play.
        """
        number = iteration // self._every * self._every
        if number == iteration:
            self._add(number)
            return list(episodes), Ensemble(self._policy, {})
        older = self._pool.load([number])[number]
        older.version = number
        shared = [replace(episode, older=OLDER, older_share=self._share) for episode in episodes]
        return shared, Ensemble(self._policy, {OLDER: older})

    def _add(self, number: int) -> None:
        if self._accelerator.is_main_process:
            self._pool.add(number)
            saved = self._folder.found()
            oldest = int(saved[0].name) if saved else 0
            self._pool.prune(oldest // self._every * self._every)
        self._accelerator.wait_for_everyone()
