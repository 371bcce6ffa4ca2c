"""`InstructionsAgent`: a population of instructions that compete by the success of episodes."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import (
    Program,
    ScaffoldAgent,
    check_counts,
    data_file,
    read_data,
    smoothed_success,
    transcript,
)
from agentgym.errors import ConfigError, DataError
from agentgym.utils.files import replace_text

PROPOSE = (
    "Why did these episodes fail? Write one new instruction, of a few sentences, that would help "
    "in other tasks of this environment too and differs from those above. Reply with the "
    "instruction and nothing else."
)


@dataclass
class Instruction:
    """A member of the population.

    Attributes:
        text: the instruction. Empty: none besides those of the environment.
        episodes: number of finished episodes that have shown it.
        successes: number of those that were successes.
    """

    text: str
    episodes: int = 0
    successes: int = 0

    @property
    def value(self) -> float:
        """The mean success of the episodes, see `smoothed_success`."""
        return smoothed_success(self.successes, self.episodes)


class InstructionsAgent(ScaffoldAgent):
    """Samples an instruction for each episode, drops the worst ones and writes new ones.

    The population of "Agentic Policy Optimization via Instruction-Policy Co-Evolution" (INSPO,
    arXiv 2512.01945). An episode shows one instruction, which is sampled in proportion to
    exp(value / temperature) and gets the outcome. After every `every` episodes the writer reads the
    last failures and writes an instruction. If there are more than `size`, the worst one that has
    been tried goes.

    Kept: rewards attributed to instructions, softmax sampling, pruning, reflection on stored
    episodes. Left out: the policy is not trained at the same time. Give the agent a policy that is.

    The population outlives the episode, so results depend on the order of the episodes and on
    `num_envs`. Only the outermost agent of an evaluation learns how an episode ends.

    Args:
        agent: the agent that acts and writes.
        size: maximum number of instructions, at least 2. The first one is empty.
        every: finished episodes between new instructions.
        failures: number of last failed episodes that the writer reads.
        length: maximum number of characters of an instruction.
        temperature: of the sampling of instructions.
        data: JSON file of the population. It is read at the start if it exists, and written after
            each episode.
        name: name in reports.

    Raises:
        ConfigError: if a number is too small, or the folder of the file does not exist.
        DataError: if the file holds anything else than a population.
    """

    kind = "instructions"

    def __init__(
        self,
        agent: Agent,
        *,
        size: int = 4,
        every: int = 8,
        failures: int = 3,
        length: int = 1000,
        temperature: float = 0.2,
        data: str | None = None,
        name: str | None = None,
    ):
        super().__init__(agent, name=name)
        check_counts(2, size=size)
        check_counts(every=every, failures=failures, length=length)
        if not 0 < temperature < math.inf:
            raise ConfigError(f"temperature must be positive, got {temperature}.")
        self.size, self.every, self.failures, self.length = size, every, failures, length
        self.temperature, self.data = temperature, data_file(data)
        text = read_data(self.data) or "[]"
        try:
            found = json.loads(text)
            self.population = [_read(**each) for each in found] or [Instruction("")]
        except (ValueError, TypeError) as error:
            raise DataError(f"{self.data} holds no population of instructions.") from error
        self._failed: list[str] = []
        self._finished = 0
        self._shown: dict[int, Instruction] = {}  # of episodes in progress

    def program(self, view: View) -> Program[None]:
        """Acts with one instruction after those of the environment."""
        if self._finished >= self.every and self._failed:
            self._finished = 0
            reply = yield from self.write(view, *self._report(), PROPOSE)
            self._add(reply[: self.length])
        chosen = self._choose(view)
        self._shown[id(view.rng)] = chosen
        own = self.begin(view, chosen.text)
        while True:
            yield from self.play(view, own)

    def finish(self, view: View) -> None:
        """Attributes the outcome of an episode to its instruction."""
        chosen = self._shown.pop(id(view.rng), None)
        if chosen is None:
            return
        chosen.episodes += 1
        chosen.successes += bool(view.info["success"])
        self._finished += 1
        if not view.info["success"]:
            self._failed = [*self._failed, transcript(view.history, view.observation)]
            self._failed = self._failed[-self.failures :]
        if self.data is not None:
            rows = [asdict(each) for each in self.population]
            replace_text(self.data, json.dumps(rows, indent=1) + "\n")

    def _choose(self, view: View) -> Instruction:
        """Samples an instruction by its value, with a generator that leaves the agent's alone."""
        values = np.array([each.value for each in self.population]) / self.temperature
        shares = np.exp(values - values.max())
        number = view.rng.spawn(1)[0].choice(len(shares), p=shares / shares.sum())
        return self.population[int(number)]

    def _add(self, text: str) -> None:
        """Adds an instruction, and drops the worst one that was tried if there are too many."""
        if text in {each.text for each in self.population}:
            return
        tried = [each for each in self.population if each.episodes]
        if len(self.population) >= self.size and tried:
            self.population.remove(min(tried, key=lambda each: each.value))
        self.population = [*self.population, Instruction(text)][-self.size :]

    def _report(self) -> list[str]:
        """Returns the population and the failed episodes as text."""
        lines = [
            f"- {each.text or '(none)'} ({each.successes} of {each.episodes} episodes succeeded)"
            for each in self.population
        ]
        failed = [f"A failed episode:\n\n{text}" for text in self._failed]
        return ["\n".join(["Additional instructions so far:", *lines]), *failed]


def _read(text: Any, episodes: Any = 0, successes: Any = 0) -> Instruction:
    """Returns an instruction of a file.

    Raises:
        TypeError: if a value has another type.
    """
    if not (isinstance(text, str) and isinstance(episodes, int) and isinstance(successes, int)):
        raise TypeError("an instruction is a text with two counts")
    return Instruction(text, episodes, successes)
