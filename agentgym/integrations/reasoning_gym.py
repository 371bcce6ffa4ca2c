"""`ReasoningGym`: the generators of the package reasoning-gym as one-turn environments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, did_you_mean, needs_extra
from agentgym.reading import normalized, same_number
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

NONSENSE = ("zzz", "0")
"""Answers that no verifier may reward, unless they are right."""


@dataclass
class State:
    """Whether the question is answered. The question follows from the task."""

    answered: bool = False


class ReasoningGym(TextEnv):
    """Answer a generated question of reasoning-gym ("Reasoning Gym", arXiv 2505.24760).

    The action is the answer, the reward is the score of the generator's own verifier, in [0, 1],
    and the expert gives the reference answer. Each task is a question of its own seed. An answer
    with typographic characters counts in its plain form, too.

    Generators whose verifier gives the full score to nonsense are refused, such as
    `game_of_life_halting` (any text) and `coin_flip` ("0") of reasoning-gym 0.1.25.

        gymnasium.make("AgentGym/ReasoningGym-v0", dataset="chain_sum")

    Args:
        dataset: name of the generator.
        settings: settings of the generator, such as {"max_terms": 3}.
        **kwargs: arguments of `TextEnv`.

    Raises:
        MissingExtraError: without the package reasoning-gym.
        ConfigError: for an unknown generator, settings that it refuses, or a verifier that rewards
            nonsense.
    """

    State = State
    state: State
    turn_bound = 1
    cased = True
    instructions = "Answer the question. Reply with the final answer only."

    def __init__(self, *, dataset: str, settings: Mapping[str, Any] | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        with needs_extra("AgentGym/ReasoningGym-v0", "reasoning-gym"):
            import reasoning_gym
            from reasoning_gym.factory import DATASETS  # pyright: ignore[reportMissingImports]
        if dataset not in DATASETS:
            raise ConfigError(
                f"reasoning-gym has no generator {dataset!r}.{did_you_mean(dataset, DATASETS)}"
            )
        self.dataset, self.settings = dataset, dict(settings or {})
        self._create = reasoning_gym.create_dataset  # pyright: ignore[reportAttributeAccessIssue]
        self.tasks = Tasks.generated()
        try:
            self._make("train/0")
        except (AssertionError, TypeError, ValueError) as error:
            raise ConfigError(f"{dataset} refuses settings {self.settings}: {error!r}") from error
        self._check_verifier()

    def _check_verifier(self) -> None:
        for nonsense in NONSENSE:
            if self._score(nonsense) >= 1 and not _same(nonsense, self._entry["answer"]):
                raise ConfigError(
                    f"reasoning-gym's verifier of {self.dataset!r} gives the answer {nonsense!r} "
                    f"the full score where {self._entry['answer']!r:.80} is right. Choose another "
                    "generator."
                )

    def _score(self, answer: str) -> float:
        try:
            score = float(self._questions.score_answer(answer, self._entry))
        except Exception:  # a verifier may fail on any text, which is then no answer
            return 0.0
        return score if math.isfinite(score) else 0.0

    def _make(self, task: str) -> None:
        """Generates the question of a task."""
        seed = int(task_rng(task, f"reasoning-gym/{self.dataset}").integers(2**31))
        self._questions = self._create(self.dataset, seed=seed, size=1, **self.settings)
        self._entry = self._questions[0]

    def _start(self, task: str) -> TimeStep:
        self._make(task)
        self.state = State()
        return TimeStep(text=str(self._entry["question"]))

    def _parse(self, action: str) -> str:
        return action

    def _advance(self, action: str) -> TimeStep:
        answer = action.strip()
        score = self._score(answer)
        if (plain := normalized(answer)) != answer:
            score = max(score, self._score(plain))
        self.state.answered = True
        return TimeStep(
            text="Answered.",
            rewards={"task": score},
            terminated=True,
            success=score >= 1,
            progress=min(1.0, max(0.0, score)),
            state_key="answered",
        )

    def _restored(self) -> None:
        self._make(self.task)

    def expert(self) -> str | None:
        """Returns the reference answer, if the generator has one."""
        answer = self._entry["answer"]
        return None if answer is None else str(answer)


def _same(answer: str, reference: Any) -> bool:
    return str(reference).strip() == answer or same_number(answer, reference)
