"""`PolicyChoice`: the policy itself names the best of some actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agentgym.agents.action_ranking import PROMPT
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.policy.sampling import Request
from agentgym.trainers.policy_agent.agent import make_context


class PolicyChoice:
    """Chooses actions with the policy of a run, whose replies are constrained to the numbers.

    Its tokens count in the budget of the run.

    Args:
        trainer: the trainer of the policy.

    Raises:
        ConfigError: if the context is too short for the question.
    """

    def __init__(self, trainer: Run):
        settings = replace(trainer.config.context_settings(), mode="current", instructions=True)
        self.trainer, self.context = trainer, make_context(trainer.policy, settings)
        self.room = trainer.config.rollout.max_new_tokens
        self.context.check_room(PROMPT, self.room)
        self.iteration, self.asked = 0, 0

    def __call__(self, texts: Sequence[str], counts: Sequence[int]) -> list[int | None]:
        """Returns the index of the best action of each text."""
        seed, iteration = self.trainer.config.run.seed, self.trainer.state.iteration
        if iteration != self.iteration:  # a resumed run repeats the numbers
            self.iteration, self.asked = iteration, 0
        requests = []
        for text, count in zip(texts, counts, strict=True):
            key = stream(seed, "critique", iteration, self.asked)
            self.asked += 1
            numbers = [f"best: {number}" for number in range(1, count + 1)]
            requests.append(
                Request(self._prompt(text), np.random.default_rng(key), numbers, explores=False)
            )
        found = [sample.text for sample in self.trainer.act(requests)]
        return [int(text.removeprefix("best: ")) - 1 for text in found]

    def _prompt(self, text: str) -> Tokens:
        """Returns the prompt of a question, whose end has the actions. It is cut at its start."""
        while True:
            conversation = self.context.begin(PROMPT)
            conversation.observe(text)
            prompt = conversation.prompt(self.room)
            assert prompt is not None  # a single observation is cut
            if not (conversation.cut and text):
                return prompt
            text = text[len(text) // 8 + 1 :]
