"""`ThoughtGraph`: the agent steers a language model that reasons, and plays one of its thoughts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium

from agentgym.agents.text_model import MODELS, text_model
from agentgym.core import UnreadableAction
from agentgym.data.episode_text import LONGEST
from agentgym.errors import ConfigError
from agentgym.utils.importing import imported
from agentgym.wrappers.base import TextWrapper

TERM = "thoughts"
"""Reward term of the cost."""
BLOCKS = {
    "reason": "Write the next step of the reasoning.",
    "decompose": "Split what is left into smaller questions, and answer the first one.",
    "debate": "Name the strongest objection to the last step, and decide who is right.",
    "refine": "Write a better version of the last step.",
    "answer": "Write the action that the agent should play, in the format of its rules.",
    "merge": "Combine the two lines of reasoning into one step that uses the best of both.",
}
"""What a language model is asked for, by the first word of an action."""
PROMPT = (
    "You reason for an agent, one step at a time. You read its rules, its current observation, and "
    "the steps so far. Reply with one short line: the step that you are asked for, which must "
    "differ from the steps that are there already."
)
_ACTION = re.compile(r"([a-z]+)\s+(\d{1,4})(?:\s+(\d{1,4}))?")


@dataclass
class Thought:
    """A node of the graph: its text, and the numbers of the thoughts that it follows."""

    text: str
    after: list[int]


class ThoughtGraph(TextWrapper):
    """A graph of thoughts, which the agent expands, prunes and merges before it acts.

    A policy learns how to reason, and not what: another model writes the thoughts. The actions are
    the logic blocks of "RL of Thoughts" (arXiv 2505.14140), and the transformations of a graph of
    "ARIES: Autonomous Reasoning with LLMs on Interactive Thought Graph Environments" (arXiv
    2502.21208). Any line of reasoning can be taken up again or discarded, as in "Integrating Large
    Language Models and Reinforcement Learning for Non-Linear Reasoning" (arXiv 2410.13501).

    **Actions**: text. `reason 2`, `decompose 2`, `debate 2`, `refine 2` and `answer 2` ask for a
    thought after number 2, where 0 is the observation, and `merge 2 3` for one after both.
    `discard 2` deletes a thought and those that follow from it. `play 2` plays the text of a
    thought as an action of the environment, and begins a new graph. All but `play` take no turn in
    the environment. Text of another form is an invalid action.

    **Observations**: text: that of the environment, and the numbered thoughts.

    **Rewards**: those of the environment, and -`cost` for each thought (term `thoughts`).

    **Episode end**: that of the environment, and truncation after `budget` actions other than
    `play` in an episode.

    **Info**: the admissible actions are those on the thoughts that are there. `thoughts` (int)
    is added: the number of thoughts written in the episode.

    Args:
        env: an environment with text observations and actions.
        model: chat:MODEL@URL, policy:FOLDER or model:NAME, whose first line is the thought, or
            "module:function" of the rules, the observation, the texts of the thoughts on the way
            to the new one, the block (a key of `BLOCKS`), and the thoughts that follow already.
            Answers of a served model are kept in the cache.
        size: maximum number of thoughts of a graph.
        cost: cost of a thought, at least 0.
        budget: maximum number of thoughts and deletions per episode.

    Raises:
        ConfigError: if observations or actions are not text, there is no such model, or a number is
            out of range. From `step`: if a function returns no text.
    """

    own_actions = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        model: str,
        *,
        size: int = 8,
        cost: float = 0.01,
        budget: int = 60,
    ):
        super().__init__(env, model=model, size=size, cost=cost, budget=budget)
        self._need_text("observations")
        self._need_text("actions")
        if size < 1 or budget < 1:
            raise ConfigError(f"size and budget must be at least 1, got {size} and {budget}.")
        if not 0 <= cost < float("inf"):
            raise ConfigError(f"cost must be at least 0, got {cost}.")
        self.model, self.size, self.cost, self.budget = model, size, float(cost), budget
        self._function: Callable[..., str] | None = None
        if model.startswith(MODELS):
            text_model(model, PROMPT)
        else:
            self._function = imported(model, "model")
        self._begin()
        self._over = True  # until `reset`

    @property
    def instructions(self) -> str:
        """The environment's instructions, followed by those for thoughts."""
        hint = _HINT.format(budget=self.budget, cost=self.cost, blocks=", ".join(BLOCKS))
        return f"{self.env.get_wrapper_attr('instructions')}\n\n{hint}"

    def expert(self) -> None:
        """Returns None: no script says how to reason."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Changes the graph, or plays a thought: see `TextEnv.step`."""
        self._check_turn(action)
        found = _ACTION.fullmatch(action.strip().lower())
        if isinstance(action, UnreadableAction):
            return self._played(action)
        word, one, two = found.groups() if found else ("", "0", None)
        names = [int(one)] if two is None else [int(one), int(two)]
        if not found or not self._can(word, names):
            known = ", ".join(self._admissible()[:12])
            return self._played(UnreadableAction(action, f"Expected an action such as {known}."))
        if word == "play":
            return self._played(self._thoughts[names[0]].text)
        return self._changed(word, names)

    def _can(self, word: str, names: Sequence[int]) -> bool:
        """Whether an action on thoughts is possible."""
        places = {0, *self._thoughts} if word in BLOCKS and word != "merge" else {*self._thoughts}
        there = {*names} <= places and len({*names}) == len(names) == 1 + (word == "merge")
        room = len(self._thoughts) < self.size
        return there and (room if word in BLOCKS else word in ("discard", "play"))

    def _played(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays an action of the environment."""
        if not isinstance(action, UnreadableAction):
            self._thoughts, self._next = {}, 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._over = terminated or truncated
        observation, info = self._view(observation, info)
        return observation, float(reward), terminated, truncated, info

    def _changed(
        self, word: str, names: list[int]
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Adds a thought, or discards one with those that follow from it."""
        self._used += 1
        reward = 0.0
        if word == "discard":
            gone = {names[0]}
            for number, thought in self._thoughts.items():  # later ones follow earlier ones
                if gone & {*thought.after}:
                    gone.add(number)
            self._thoughts = {n: each for n, each in self._thoughts.items() if n not in gone}
        else:
            text, reward = self._written(word, names), -self.cost if self.cost else 0.0
            self._thoughts[self._next] = Thought(text, names)
            self._next, self._count = self._next + 1, self._count + 1
        truncated = self._over = self._used >= self.budget
        observation, info = self._shown()
        info = self._idle(info)
        info["reward_terms"][TERM] = reward
        return observation, reward, False, truncated, info

    def _written(self, word: str, names: Sequence[int]) -> str:
        """Returns the text of a new thought after others."""
        above: set[int] = {*names} - {0}
        for number in sorted(self._thoughts, reverse=True):
            if number in above:
                above |= {*self._thoughts[number].after} - {0}
        way = [self._thoughts[number].text for number in sorted(above)]
        others = [each.text for each in self._thoughts.values() if each.after == [*names]]
        rules = str(self.env.get_wrapper_attr("instructions"))
        if self._function is not None:
            text = self._function(rules, self._seen, way, word, others)
            if not isinstance(text, str):
                raise ConfigError(f"model={self.model} must return a text, got {text!r:.80}.")
            return text
        parts = [rules, f"Observation: {self._seen[:LONGEST]}"]
        parts += ["\n".join(["Steps so far:", *(f"- {text}" for text in way)])] * bool(way)
        parts += ["\n".join(["Already there:", *(f"- {text}" for text in others)])] * bool(others)
        return text_model(self.model, PROMPT)(["\n\n".join([*parts, BLOCKS[word]])])[0]

    def _admissible(self) -> tuple[str, ...]:
        """Returns the actions that are possible now."""
        numbers = [*self._thoughts]
        words = [word for word in BLOCKS if word != "merge"]
        found = [f"{word} {number}" for number in (0, *numbers) for word in words]
        found += [f"merge {a} {b}" for a in numbers for b in numbers if a < b]
        found = found if len(numbers) < self.size else []
        return (*found, *(f"{word} {n}" for n in numbers for word in ("discard", "play")))

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._seen, self._info = observation, info
        return self._shown()

    def _shown(self) -> tuple[str, dict[str, Any]]:
        lines = [
            f"{number} (after {', '.join(map(str, each.after))}): {each.text}"
            for number, each in self._thoughts.items()
        ]
        text = "\n".join([self._seen, "", "Thoughts:", *lines]) if lines else self._seen
        added = {
            "admissible": () if self._over else self._admissible(),
            TERM: self._count,
            "reward_terms": {**self._info.get("reward_terms", {}), TERM: 0.0},
        }
        return text, self._keyed({**self._info, **added}, lines, self._next, self._used)

    def _begin(self) -> None:
        self._thoughts: dict[int, Thought] = {}
        self._next, self._used, self._count, self._over = 1, 0, 0, False
        self._seen, self._info = "", dict[str, Any]()

    def _memory(self) -> dict[str, Any]:
        return {
            "thoughts": [[n, each.text, each.after] for n, each in self._thoughts.items()],
            "numbers": [self._next, self._used, self._count],
            "over": self._over,
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        found = {int(n): Thought(str(t), [*map(int, after)]) for n, t, after in memory["thoughts"]}
        self._next, self._used, self._count = map(int, memory["numbers"])
        self._thoughts, self._over = found, bool(memory["over"])


_HINT = (
    "Another model reasons for you, and you steer it. Reply with a word and the number of the "
    "thought that it goes on from, 0 for the observation: {blocks}. merge takes two numbers. "
    "discard 2 deletes a thought and those after it. play 2 plays the text of thought 2 as your "
    "action. A thought costs {cost:g}, and an episode has at most {budget} thoughts and deletions."
)
"""Instructions for thoughts."""
