"""`CasesAgent`: learns from outcomes which of its own successes help as examples."""

from __future__ import annotations

import math

import numpy as np

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import smoothed_success
from agentgym.agents.scaffolds.examples import ExamplesAgent
from agentgym.data.episode import RecordedEpisode
from agentgym.errors import ConfigError

Case = tuple[str, str, str]
"""Environment, task and first observation of a kept episode."""


class CasesAgent(ExamplesAgent):
    """Samples the examples in its prompt by the success of the episodes that have shown them.

    "AgentFly: Fine-tuning LLM Agents without Fine-tuning LLMs" (Memento, arXiv 2508.16153). The
    memory is a case base, and the retrieval is a policy that is learned:

        P(c | s) ~ exp(Q(c) / temperature),    c among the `pool` most similar cases

    where Q(c) is the mean success of the episodes that have shown the case, counted with one
    imagined episode of success 1/2. Kept: the soft policy over cases, values from outcomes.
    Changed: successes only, BM25 in place of embeddings, and Q depends on the state by the
    candidates alone. Values are learned in the course of an evaluation and are not saved.

    Args:
        agent: the agent that acts.
        data: file of episodes: see `ExamplesAgent`.
        k: maximum number of examples in the prompt.
        keep: whether the agent's own successes are kept.
        size: maximum number of kept episodes, the last ones.
        length: maximum number of characters of an example, which is cut at its end.
        pool: number of similar episodes that the examples are sampled from.
        temperature: of the policy over cases.
        name: name in reports.

    Raises:
        ConfigError: if a number is below 1, `temperature` is not positive, `pool` is below `k`, or
            the folder of the file does not exist.
        DataError: as for `ExamplesAgent`.
    """

    kind = "cases"

    def __init__(
        self,
        agent: Agent,
        *,
        data: str | None = None,
        k: int = 2,
        keep: bool = True,
        size: int = 200,
        length: int = 4000,
        pool: int = 10,
        temperature: float = 0.2,
        name: str | None = None,
    ):
        super().__init__(agent, data=data, k=k, keep=keep, size=size, length=length, name=name)
        if pool < k:
            raise ConfigError(f"pool must be at least k = {k}, got {pool}.")
        if not 0 < temperature < math.inf:
            raise ConfigError(f"temperature must be positive, got {temperature}.")
        self.pool, self.temperature = pool, temperature
        self.outcomes: dict[Case, tuple[int, int]] = {}  # episodes and successes
        self._cases: dict[int, list[Case]] = {}  # of episodes in progress

    def value(self, case: Case) -> float:
        """Returns the mean success of the episodes that have shown a case.

        It is that of `smoothed_success`.
        """
        shown, won = self.outcomes.get(case, (0, 0))
        return smoothed_success(won, shown)

    def select(self, view: View) -> list[RecordedEpisode]:
        """Returns the examples for an episode that begins."""
        known = self.similar(view, self.pool)
        values = np.array([self.value(_case(each)) for each in known])
        # The k largest of these are a sample without replacement (Gumbel top-k). A generator of its
        # own leaves the samples of the inner agent as they are.
        noise = view.rng.spawn(1)[0].gumbel(size=len(known))
        ranks = values / self.temperature + noise
        chosen = [known[i] for i in np.argsort(-ranks, kind="stable")[: self.k]]
        self._cases[id(view.rng)] = [_case(each) for each in chosen]
        return chosen

    def finish(self, view: View) -> None:
        """Learns from a finished episode, and keeps it if it is a success."""
        for case in self._cases.pop(id(view.rng), ()):
            shown, won = self.outcomes.get(case, (0, 0))
            self.outcomes[case] = shown + 1, won + bool(view.info["success"])
        super().finish(view)


def _case(episode: RecordedEpisode) -> Case:
    return episode.env, episode.task, episode.turns[0].observation
