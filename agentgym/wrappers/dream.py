"""`Dream`: training episodes go on in a world model, from the starts of the environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from agentgym.agents import Outcome, View, WorldModel, make_agent
from agentgym.agents.text_model import MODELS
from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.time_step import state_digest
from agentgym.utils.action_parsing import check_text, text_of
from agentgym.utils.file_cache import cached_by_files
from agentgym.utils.importing import imported
from agentgym.wrappers.base import TextWrapper

TERM = "dream"
"""Reward term of predicted rewards."""
TOKENS = 256
"""Tokens of a prediction of a policy or a language model here."""
World = Callable[[View, str], Outcome]
"""Maps a view and an action to the predicted outcome."""


class Dream(TextWrapper):
    """Plays training episodes in a world model.

    The first observation is the environment's, and a world model predicts all others, with rewards
    and the end. A policy so learns from episodes that cost no environment, as in "WebEvolver:
    Enhancing Web Agent Self-Improvement with Coevolving World Model" (arXiv 2504.21024). The recipe
    `early_experience`, or `--bc-lm-coef`, trains the world model, which may be the policy itself.
    Train both in turn. Test tasks are real.

    **Actions**: text, unchanged.

    **Observations**: text. In a dream, predicted.

    **Rewards**: in a dream, the predicted one, in [-1, 1] (term `dream`).

    **Episode end**: in a dream, the predicted one, or truncation after `max_turns` turns.

    **Info**: `dreamed` (bool) is added. In a dream, `success`, `progress` and the admissible
    actions are predicted, all readable actions are valid, the other reward terms are 0, and
    `state_key` is that of the turns so far.

    Args:
        env: an environment with text observations and actions, tasks, and AgentGym's info keys.
        world: chat:MODEL@URL, policy:FOLDER or model:NAME, each at temperature 0, or
            "module:function" of a `View` and an action, which returns an `Outcome`.
        share: probability that an episode of a training task is a dream.
        max_turns: turn limit of a dream.

    Raises:
        ConfigError: if observations or actions are not text, there is no such world model, or a
            number is out of range.
    """

    own_actions = "also"

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        world: str,
        *,
        share: float = 1.0,
        max_turns: int = 30,
    ):
        super().__init__(env, world=world, share=share, max_turns=max_turns)
        self._need_text("observations")
        self._need_text("actions")
        if not 0 <= share <= 1:
            raise ConfigError(f"share must be in [0, 1], got {share}.")
        if max_turns < 1:
            raise ConfigError(f"max_turns must be at least 1, got {max_turns}.")
        self.world, self.share, self.max_turns = world, share, max_turns
        _world(world)
        self._begin()

    def expert(self) -> str | None:
        """Returns the action of the environment's expert, None in a dream."""
        return None if self._dreams else self.env.get_wrapper_attr("expert")()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode. Without a seed, one is sampled from `self.np_random`."""
        seed, observation, info = self._reset_with(seed, options)
        self._begin()
        tasks = self.env.get_wrapper_attr("tasks")
        trains = info["task"] in tasks.train and info["task"] not in tasks.test
        self._dreams = trains and np.random.default_rng(seed).random() < self.share
        self._now = Outcome(observation, admissible=tuple(info["admissible"]))
        return self._view(observation, info)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        if not self._dreams:
            return super().step(action)
        check_text(action)
        turn = len(self._turns)
        if self._now.over or turn >= self.max_turns:
            raise ResetNeeded("Call reset() before step(): there is no episode in progress.")
        rules = str(self.env.get_wrapper_attr("instructions"))
        history, seen = [(one, played) for one, played in self._turns], self._shown()
        self._turns.append([seen, text_of(action)])
        if isinstance(action, UnreadableAction):
            self._unread, self._now = action.feedback, replace(self._now, reward=0.0)
        else:
            view = View.of_text(rules, seen, history, self._info)
            self._unread, self._now = "", _world(self.world)(view, text_of(action))
        reward = min(1.0, max(-1.0, self._now.reward))
        observation, info = self._view("", self._info)
        info["reward_terms"][TERM] = reward
        truncated = not self._now.over and turn + 1 >= self.max_turns
        return observation, reward, self._now.over, truncated, info

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._info = info
        terms = {**info.get("reward_terms", {}), TERM: 0.0}
        if not self._dreams or not self._turns:
            return observation, {**info, "dreamed": self._dreams, "reward_terms": terms}
        now = self._now
        over = now.over or len(self._turns) >= self.max_turns
        key = f"{info['task']} {self._turns} {now.write()}"
        dreamed = {
            "dreamed": True,
            "turn": len(self._turns),
            "valid": not self._unread,
            "success": now.over and now.success,
            "progress": min(1.0, max(0.0, now.progress)),
            "admissible": () if over else now.admissible,
            "state_key": state_digest(key),
            "reward_terms": dict.fromkeys(terms, 0.0),
        }
        return self._shown(), {**info, **dreamed}

    def _shown(self) -> str:
        """Returns what the agent sees: the observation behind the feedback, if there is any."""
        now = self._now.observation
        return f"{self._unread}\n\n{now}" if self._unread else now

    def _begin(self) -> None:
        self._dreams, self._unread, self._turns = False, "", list[list[str]]()
        self._now, self._info = Outcome(""), dict[str, Any]()

    def _memory(self) -> dict[str, Any]:
        now = self._now
        return {
            "dreams": bool(self._dreams),
            "turns": [[*turn] for turn in self._turns],
            "now": [now.observation, now.reward, now.progress, now.over, now.success],
            "admissible": list(now.admissible),
            "unread": self._unread,
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        observation, reward, progress, over, success = memory["now"]
        admissible = tuple(map(str, memory["admissible"]))
        turns = [[str(seen), str(action)] for seen, action in memory["turns"]]
        self._now = Outcome(
            str(observation), float(reward), float(progress), bool(over), bool(success), admissible
        )
        self._dreams, self._unread = bool(memory["dreams"]), str(memory["unread"])
        self._turns = turns


@cached_by_files("source", maxsize=8)
def _world(source: str) -> World:
    """Returns a world model. Environments share it, and copies of them need no pickling."""
    if not source.startswith(MODELS):
        return imported(source, "world")
    options: dict[str, Any] = {"temperature": 0.0}
    if not source.startswith("chat:"):
        options["max_new_tokens"] = TOKENS
    model = WorldModel(make_agent(source, **options))
    return lambda view, action: model.predict([view], [action])[0]
