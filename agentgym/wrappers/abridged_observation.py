"""`AbridgedObservation`: parts of an observation that the task does not need are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import gymnasium

from agentgym.agents.text_model import MODELS, text_model
from agentgym.data.episode_text import LONGEST
from agentgym.errors import ConfigError
from agentgym.utils.importing import imported
from agentgym.wrappers.base import TextWrapper

REPEATED = "repeated"
LEFT_OUT = "..."
"""Shown in place of the lines that are left out."""
PROMPT = (
    "You shorten the observations of an agent. You read its rules, the first observation, which "
    "often states the task, and the numbered lines of the current observation. Name the lines that "
    "the agent needs for its next action, as numbers and ranges on one line, such as\n"
    "1-3, 7\n"
    "If it needs all of them, reply with: all"
)
_RANGE = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?")


class AbridgedObservation(TextWrapper):
    """Leaves out lines of an observation.

    Pruned observations are a part of "AgentOccam: A Simple Yet Strong Baseline for LLM-Based Web
    Agents" (arXiv 2410.13825), and the abstraction of states that "Synapse:
    Trajectory-as-Exemplar Prompting with Memory for Computer Control" (arXiv 2306.07863) has of a
    language model: examples of the agents `examples` and `cases` are abridged too, since they hold
    what the agent has seen.

    **Actions**, **rewards**: unchanged.

    **Observations**: text, in which `...` stands for the lines that are left out. The first one,
    which often states the task, is whole.

    **Info**: `left_out` (int: number of lines) is added. The admissible actions are unchanged.

    Args:
        env: an environment with text observations.
        by: "repeated" leaves out lines that the last observation had too. "module:function" maps
            the first observation and the current one to the text that is shown. A language model
            (chat:MODEL@URL, policy:FOLDER, model:NAME) names the lines that are kept, and answers
            of a served one are kept in the cache. After an unreadable reply, all lines are.

    Raises:
        ConfigError: if observations are not text, or there is no such function or model. From
            `step`: if a function returns no text.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], by: str = REPEATED):
        super().__init__(env, by=by)
        self._need_text("observations")
        self.by = by
        self._function = None
        if by.startswith(MODELS):
            text_model(by, PROMPT)
        elif by != REPEATED:
            self._function = imported(by, "by")
        self._first = self._last = self._shown = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._first = self._last = self._shown = observation
        return self._view(observation, info)

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._shown, self._last = self._shortened(observation), observation
        observation, info = self._view(observation, info)
        return observation, float(reward), terminated, truncated, info

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        shown = {*self._shown.split("\n")}
        info = {**info, "left_out": sum(line not in shown for line in observation.split("\n"))}
        return self._shown, self._keyed(info, self._shown, self._last)

    def _shortened(self, observation: str) -> str:
        """Returns what the agent sees of an observation that is not the first."""
        lines = observation.split("\n")
        if self.by == REPEATED:
            old = {*self._last.split("\n")}
            return _joined(lines, [i for i, line in enumerate(lines) if line not in old])
        if self._function is not None:
            text = self._function(self._first, observation)
            if not isinstance(text, str):
                raise ConfigError(f"by={self.by} must return a text, got {text!r:.80}.")
            return text
        numbered = "\n".join(f"{i}. {line}" for i, line in enumerate(lines, 1))
        rules = str(self.env.get_wrapper_attr("instructions"))
        parts = [rules, f"First observation: {self._first[:LONGEST]}", f"Lines:\n{numbered}"]
        [reply] = text_model(self.by, PROMPT)(["\n\n".join(parts)])
        kept = read_lines(reply, len(lines))
        return observation if kept is None else _joined(lines, kept)

    def _memory(self) -> dict[str, Any]:
        return {"first": self._first, "last": self._last, "shown": self._shown}

    def _remember(self, memory: dict[str, Any]) -> None:
        self._first, self._last, self._shown = (
            str(memory[name]) for name in ("first", "last", "shown")
        )


def read_lines(reply: str, count: int) -> list[int] | None:
    """Returns the places of the lines that a reply names, from 0 on.

    Args:
        reply: numbers and ranges, from 1 on, with commas between them.
        count: number of lines.

    Returns:
        The places in order. None if the reply is anything else, names no line or one too many.
    """
    kept: set[int] = set()
    for word in reply.strip(" .").split(","):
        match = _RANGE.fullmatch(word.strip())
        if match is None:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if not 1 <= low <= high <= count:
            return None
        kept |= {*range(low - 1, high)}
    return sorted(kept)


def _joined(lines: list[str], kept: Iterable[int]) -> str:
    """Returns lines, with a mark for each gap."""
    shown, before = [], -1
    for place in [*kept, len(lines)]:
        shown += [LEFT_OUT] * (place > before + 1) + lines[place : place + 1]
        before = place
    return "\n".join(shown)
