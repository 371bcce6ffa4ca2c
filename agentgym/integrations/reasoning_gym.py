"""`ReasoningGym`: the generators of the package reasoning-gym as one-turn environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, did_you_mean, needs_extra
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep


@dataclass
class State:
    """Whether the question is answered. The question follows from the task."""

    answered: bool = False


class ReasoningGym(TextEnv):
    """Answer a generated question of reasoning-gym ("Reasoning Gym", arXiv 2505.24760).

    The action is the answer, the reward is the score of the generator's own verifier, in [0, 1],
    and the expert gives the reference answer. Each task is a question of its own seed.

        gymnasium.make("AgentGym/ReasoningGym-v0", dataset="chain_sum")

    Args:
        dataset: name of the generator.
        settings: settings of the generator, such as {"max_terms": 3}.
        **kwargs: arguments of `TextEnv`.

    Raises:
        MissingExtraError: without the package reasoning-gym.
        ConfigError: for an unknown generator, or settings that it refuses.
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
            from reasoning_gym.factory import DATASETS
        if dataset not in DATASETS:
            raise ConfigError(
                f"reasoning-gym has no generator {dataset!r}.{did_you_mean(dataset, DATASETS)}"
            )
        self.dataset, self.settings = dataset, dict(settings or {})
        self._create = reasoning_gym.create_dataset
        self.tasks = Tasks.generated()
        try:
            self._make("train/0")
        except (AssertionError, TypeError, ValueError) as error:
            raise ConfigError(f"{dataset} refuses settings {self.settings}: {error!r}") from error

    def _make(self, task: str) -> None:
        """Generates the question of a task."""
        seed = int(task_rng(task, f"reasoning-gym/{self.dataset}").integers(2**31))
        self._questions = self._create(self.dataset, seed=seed, size=1, **self.settings)
        self._entry = self._questions[0]

    def _start(self, task: str) -> TimeStep:
        self._make(task)
        self.state = State()
        return TimeStep(text=str(self._entry["question"]))

    def _read(self, action: str) -> str:
        return action

    def _advance(self, action: str) -> TimeStep:
        try:
            score = float(self._questions.score_answer(action.strip(), self._entry))
        except Exception:  # a verifier may fail on any text, which is then no answer
            score = 0.0
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
