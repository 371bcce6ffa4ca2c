"""Agents that sample several actions per turn: `BestOf`, `ReAsk` (a judge) and `Majority`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentgym.agents.basic.view import View
from agentgym.errors import ConfigError
from agentgym.trainers.critics.transitions import one_turn, say
from agentgym.trainers.critics.value_model import ValueModel, action_model
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.policy.sampling import Request, Sample
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.judge import Judge

FILE = "judge.pt"


class SeveralSamples(PolicyAgent):
    """Samples `n` actions per turn. A subclass selects the one to play.

    Args:
        agent: agent that samples the actions. If its temperature is 0 and n > 1, temperature 1 is
            used, since greedy actions would all be equal.
        n: actions per turn. 1 is equivalent to `agent`.

    Attributes:
        proposing: the decoding parameters of the `n` actions.
    """

    def __init__(self, agent: PolicyAgent, n: int):
        super().__init__(
            agent.policy,
            agent.settings,
            agent.sampling,
            constrain=agent.constrain,
            name=agent.name,
            wrap=agent.wrap,
        )
        self.n, self.critic, self.proposing = n, agent.critic, agent.sampling
        if n > 1 and self.proposing.temperature == 0:
            self.proposing = replace(self.proposing, temperature=1.0)

    probabilities = None  # type: ignore[assignment]  # the selection has none

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        seen = [self._read(view) for view in views]
        requests = []
        for view, s in zip(views, seen, strict=True):
            request = self._request(view, s)
            seeds = view.rng.integers(2**63, size=self.n)
            requests += [replace(request, rng=np.random.default_rng(seed)) for seed in seeds]
        samples = self.policy.act(requests, self.proposing, self._cache)
        self._count(views, requests, samples)
        actions = []
        for i, (s, best) in enumerate(
            zip(seen, self._select(views, requests, samples), strict=True)
        ):
            sample = samples[i * self.n + best]
            self._record(s, sample)
            actions.append(sample.text)
        return actions

    def _select(
        self, views: Sequence[View], requests: Sequence[Request], samples: Sequence[Sample]
    ) -> list[int]:
        """Returns for each view the number of the action to play.

        Args:
            views: B views.
            requests: their B n requests.
            samples: the B n sampled actions.
        """
        raise NotImplementedError


class Majority(SeveralSamples):
    """Samples `n` actions per turn and plays the most frequent one, the first of several.

    Source: "Self-Consistency Improves Chain of Thought Reasoning in Language Models" (arXiv
    2203.11171), with actions as the answers.
    """

    def _select(
        self, views: Sequence[View], requests: Sequence[Request], samples: Sequence[Sample]
    ) -> list[int]:
        texts = [sample.text for sample in samples]
        votes = [texts[i : i + self.n] for i in range(0, len(texts), self.n)]
        return [some.index(Counter(some).most_common(1)[0][0]) for some in votes]


class BestOf(SeveralSamples):
    """Samples `n` actions per turn and takes the one with the highest score of the judge.

    This is the inference procedure of "Process Reward Models for LLM Agents: Practical Framework
    and Directions" (arXiv 2502.10325).

    Args:
        agent: agent that samples the actions, see `SeveralSamples`.
        judge: model that scores the tokens of the agent's actions, or `Judge` that reads texts.
        n: actions per turn.

    Attributes:
        whole: whether scores predict the return of the whole episode, see `Judge`. A model of the
            agent's tokens is that of `agentprm`, which does.
    """

    whole = True

    def __init__(self, agent: PolicyAgent, judge: ValueModel | Judge, n: int):
        super().__init__(agent, n)
        self.judge = judge
        if isinstance(judge, Judge):
            self.whole = judge.whole

    def _select(
        self, views: Sequence[View], requests: Sequence[Request], samples: Sequence[Sample]
    ) -> list[int]:
        if isinstance(self.judge, Judge):
            texts = [sample.text for sample in samples]
            parts = [texts[i : i + self.n] for i in range(0, len(texts), self.n)]
            candidates = self.judge.read(views, parts)
        else:
            candidates = [
                one_turn(i, request.prompt, (), sample)
                for i, (request, sample) in enumerate(zip(requests, samples, strict=True))
            ]
        return self._judged(candidates).reshape(len(views), self.n).argmax(-1).tolist()

    def scores(self, views: Sequence[View], actions: Sequence[str]) -> list[float]:
        """Returns the judge's score of an action in each view."""
        if isinstance(self.judge, Judge):
            candidates = self.judge.read(views, [[action] for action in actions])
        else:
            candidates = [
                say(self.policy, (self.request(view).prompt, ()), action)
                for view, action in zip(views, actions, strict=True)
            ]
        return self._judged(candidates).tolist()

    def _judged(self, candidates: Sequence[Trajectory]) -> FloatArray:
        """Returns the judge's scores of actions, and counts their tokens and those of prompts."""
        self.tokens += sum(len(each.segments[0].tokens) for each in candidates)
        model = self.judge.model if isinstance(self.judge, Judge) else self.judge
        return model.predict(Batch.of(candidates))

    def save(self, folder: Path, **notes: Any) -> None:
        """Saves the policy and the judge to a folder.

        Raises:
            ConfigError: if the judge has a folder of its own.
        """
        if isinstance(self.judge, Judge):
            raise ConfigError("The judge has its own folder: save the policy without it.")
        super().save(folder, **notes)
        torch.save(self._choice() | {"weights": self.judge.state_dict()}, folder / FILE)

    def _choice(self) -> dict[str, Any]:
        """Returns the settings of the choice, which are saved."""
        return {"n": self.n}

    @classmethod
    def load(cls, agent: Any, folder: Path) -> Any:
        """Returns `agent` with the judge saved in `folder`, or `agent` itself if there is none."""
        if not (folder / FILE).exists():
            return agent
        saved = torch.load(folder / FILE, map_location="cpu", weights_only=True)
        judge = action_model(agent.policy, seed=0)
        judge.load_state_dict(saved["weights"])
        if "threshold" in saved:
            return ReAsk(agent, judge, saved["n"], saved["threshold"])
        return cls(agent, judge, saved["n"])


class ReAsk(BestOf):
    """Asks for an action again while its advantage is below a threshold.

    The advantage is Q(o, a) - Q(o, ""), with an empty action for none (see the recipe `read`). The
    first action that reaches the threshold is played, or the best of `n` if none does. This is the
    refinement of plans in "Towards Efficient LLM Grounding for Embodied Multi-Agent Collaboration"
    (ReAd, arXiv 2405.14314). `View.costs` counts how often the agent was asked in an episode.

    Args:
        agent: agent that is asked. If its temperature is 0, it is asked again at temperature 1.
        judge: model of Q, of the agent's tokens.
        n: actions per turn, at most.
        threshold: least advantage of an action that is played at once.
    """

    judge: ValueModel
    whole = False

    def __init__(self, agent: PolicyAgent, judge: ValueModel, n: int, threshold: float):
        super().__init__(agent, judge, n)
        self.threshold = threshold

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        seen = [self._read(view) for view in views]
        requests = [self._request(view, s) for view, s in zip(views, seen, strict=True)]
        without = self._judged([say(self.policy, (r.prompt, ()), "") for r in requests])
        chosen: dict[int, Sample] = {}
        gains = np.full(len(views), -np.inf)
        rest = list(range(len(views)))
        for attempt in range(self.n):
            asked = [requests[i] for i in rest]
            sampling = self.proposing if attempt else self.sampling
            samples = self.policy.act(asked, sampling, self._cache)
            self._count([views[i] for i in rest], asked, samples)
            answers = [one_turn(0, r.prompt, (), s) for r, s in zip(asked, samples, strict=True)]
            found = self._judged(answers) - without[rest]
            for i, sample, gain in zip(rest, samples, found.tolist(), strict=True):
                views[i].costs["asked"] += 1
                if attempt == 0 or gain > gains[i]:
                    chosen[i], gains[i] = sample, gain
            rest = [i for i in rest if gains[i] < self.threshold]
            if not rest:
                break
        for i, s in enumerate(seen):
            self._record(s, chosen[i])
        return [chosen[i].text for i in range(len(views))]

    def _choice(self) -> dict[str, Any]:
        return super()._choice() | {"threshold": self.threshold}
