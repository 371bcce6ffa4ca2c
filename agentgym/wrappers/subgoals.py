"""`Subgoals`: the next subgoal in every observation, and a reward for reaching it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gymnasium

from agentgym.agents.text_model import MODELS, text_model
from agentgym.data.episode_text import LONGEST
from agentgym.errors import ConfigError
from agentgym.utils.importing import imported
from agentgym.wrappers.base import TextWrapper

SUBGOAL = "subgoal"
"""Name of the reward term, and key of the subgoal in the info."""
PROMPT = (
    "You guide an agent by subgoals. You read its rules, its current observation and the current "
    "subgoal. If the observation shows that the subgoal is reached, or there is none yet, reply "
    "with the next subgoal in one short line. If it is not reached, reply with the same subgoal in "
    "the same words. If the task needs no further subgoal, reply with: none"
)
NONE = "none"


class Subgoals(TextWrapper):
    """Shows the next subgoal of a task, and rewards the turn that reaches it.

    **Actions**: unchanged.

    **Observations**: end with `Subgoal: TEXT` if there is a subgoal.

    **Rewards**: `bonus` more when a subgoal is reached, once for each text in an episode.

    **Info**: `subgoal`, the text, and the reward term `subgoal`.

    A function or a language model proposes subgoals after every turn, and a subgoal is reached when
    it proposes another one. A function should depend only on the state of the environment, so that
    episodes are reproducible. A model reads the rules, the observation and the current subgoal, and
    the answers of a served one are kept in the cache. After an empty reply the subgoal stays.

    Args:
        env: a text environment.
        propose: maps the environment to a text, "" if no subgoal is left, as a function or
            module:function, or a model (chat:MODEL@URL, policy:FOLDER, model:NAME).
        bonus: reward of a reached subgoal.

    Raises:
        ConfigError: if there is no such function or model. From `reset` and `step`: if it returns
            no text.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        propose: str | Callable[[gymnasium.Env[Any, Any]], str],
        bonus: float = 1.0,
    ):
        super().__init__(env, propose=propose, bonus=bonus)
        self.bonus = bonus
        self.propose = _loaded(propose) if isinstance(propose, str) else propose
        self._seen = ""
        self._subgoal, self._gained = "", 0.0
        self._reached: list[str] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._seen = str(observation)
        self._begin()
        return self._view(observation, info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._seen = str(observation)
        self._advance()
        observation, info = self._view(observation, info)
        return observation, float(reward) + self._gained, terminated, truncated, info

    def _begin(self) -> None:
        self._subgoal, self._reached = "", []
        self._advance()

    def _advance(self) -> None:
        """Asks for the next subgoal. Another one means that the one before is reached."""
        before, self._subgoal = self._subgoal, self._proposed()
        if not isinstance(self._subgoal, str):
            raise ConfigError(
                f"A subgoal must be a text, '' if none is left, got {self._subgoal!r:.80}."
            )
        self._gained = 0.0
        if before not in ("", self._subgoal, *self._reached):
            self._reached.append(before)
            self._gained = self.bonus

    def _proposed(self) -> str:
        """Returns the subgoal that the function or the model proposes now."""
        if not isinstance(self.propose, str):
            return self.propose(self.env)
        rules = str(self.env.get_wrapper_attr("instructions"))
        parts = [rules, f"Observation: {self._seen[:LONGEST]}", f"Subgoal: {self._subgoal or NONE}"]
        [reply] = text_model(self.propose, PROMPT)(["\n\n".join(parts)])
        reply = re.sub(r"^Subgoal:\s*", "", reply, flags=re.IGNORECASE) or self._subgoal
        return "" if reply.strip(" .").lower() == NONE else reply

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        terms = {**info.get("reward_terms", {}), SUBGOAL: self._gained}
        if self._subgoal:
            observation = f"{observation}\nSubgoal: {self._subgoal}"
        info = {**info, SUBGOAL: self._subgoal, "reward_terms": terms}
        return observation, self._keyed(info, self._subgoal, sorted(self._reached))

    def _memory(self) -> dict[str, Any]:
        return {
            "subgoal": self._subgoal,
            "gained": self._gained,
            "reached": list(self._reached),
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        self._subgoal, self._gained = memory["subgoal"], memory["gained"]
        self._reached = list(memory["reached"])


def _loaded(name: str) -> str | Callable[[Any], str]:
    """Returns a function by its name. The name of a model stays, and the model is checked."""
    if name.startswith(MODELS):
        text_model(name, PROMPT)
        return name
    if ":" not in name:
        raise ConfigError(
            "propose must be module:function, chat:MODEL@URL, policy:FOLDER or model:NAME, got "
            f"{name!r}."
        )
    return imported(name, "propose")
