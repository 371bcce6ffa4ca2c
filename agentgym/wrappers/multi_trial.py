"""`MultiTrial`: several attempts at one task in one episode."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from agentgym.errors import ConfigError
from agentgym.utils.action_parsing import text_of
from agentgym.wrappers.base import TextWrapper

_NEEDED = ("task", "turn", "success", "valid", "reward_terms")


class MultiTrial(TextWrapper):
    """Allows several attempts at a task within one episode and shows the earlier outcomes.

    An episode of this wrapper consists of up to n episodes of the environment, all with the same
    task and seed, or with `fresh=True` the same task and another seed. This is the setting of
    agents that improve from attempt to attempt, such as Reflexion ("Reflexion: Language Agents with
    Verbal Reinforcement Learning", arXiv 2303.11366). Fresh attempts have chance events of their
    own, so that the actions of a lucky attempt are not simply repeated.

    **Actions**: unchanged.

    **Observations**: text. From the second attempt on, one line per earlier attempt (with its
    transcript, if `transcripts` is True) precedes the observation.

    **Rewards**: unchanged. The return is the sum over all attempts.

    **Episode end**: termination and truncation are those of the last attempt, or of the first
    successful one if `stop_on_success` is True.

    **Info**: `trial` (int: index of the attempt of the next action, from 0), `trial_end` (bool:
    whether the last action ended an attempt), `trial_success` (bool: whether it ended it
    successfully) and `trial_observation` (str: the last observation of the attempt that it ended,
    else "") are added. After `trial_end`, the other keys describe the start of the next attempt,
    except `valid` and `reward_terms`, which belong to the last action.

    Apply `HistoryObservation` on the inside, so that its history covers the current attempt only.

    Args:
        env: an environment with text observations and actions, and AgentGym's info keys.
        n: maximum number of attempts.
        transcripts: whether the transcripts of the earlier attempts are included.
        stop_on_success: whether a successful attempt ends the episode.
        fresh: whether each attempt has a seed of its own.

    Raises:
        ConfigError: if observations or actions are not text, or `n` is below 1. From `reset`: if
            the info lacks a key that is needed.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        n: int,
        *,
        transcripts: bool = False,
        stop_on_success: bool = True,
        fresh: bool = False,
    ):
        super().__init__(
            env, n=n, transcripts=transcripts, stop_on_success=stop_on_success, fresh=fresh
        )
        self._need_text("observations")
        self._need_text("actions")
        if n < 1:
            raise ConfigError(f"n must be at least 1, got {n}.")
        self.n = n
        self.transcripts = transcripts
        self.stop_on_success = stop_on_success
        self.fresh = fresh
        self._earlier: list[str] = []
        self._current: list[str] = []
        self._return = 0.0
        self._seed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts the first attempt. Without a seed, one is sampled from `self.np_random`."""
        self._seed, observation, info = self._reset_with(seed, options)
        self._begin()
        return self._view(observation, info)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn. If it ends an attempt, the observation is the start of the next one."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        reward = float(reward)
        self._return += reward
        self._current += [f"> {text_of(action)}", observation]
        ended = terminated or truncated
        seen = observation if ended else ""
        success = bool(info["success"])
        last = len(self._earlier) + 1 == self.n or (success and self.stop_on_success)
        if ended and not last:
            self._earlier.append(self._summary(info))
            options: dict[str, Any] = {"task": info["task"]}
            if (limit := getattr(self.env.unwrapped, "turn_limit", None)) is not None:
                options["max_turns"] = limit
            observation, start = self.env.reset(seed=self._next_seed(), options=options)
            played = {key: info[key] for key in ("valid", "reward_terms")}
            info = {**start, **played}
            self._current, self._return = [observation], 0.0
            terminated = truncated = False
        observation, info = self._show(observation, info)
        info |= {"trial_end": ended, "trial_success": ended and success, "trial_observation": seen}
        return observation, reward, terminated, truncated, info

    def _next_seed(self) -> int:
        """Returns the seed of the attempt that starts."""
        if not self.fresh:
            return self._seed
        return int(np.random.default_rng((self._seed, len(self._earlier))).integers(2**31))

    def _summary(self, info: dict[str, Any]) -> str:
        outcome = "succeeded" if info["success"] else "failed"
        line = (
            f"Attempt {len(self._earlier) + 1} {outcome} after {info['turn']} turns "
            f"with a return of {self._return:g}."
        )
        return "\n\n".join([line, *self._current]) if self.transcripts else line

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        missing = [key for key in _NEEDED if key not in info]
        if missing:
            raise ConfigError(
                f"MultiTrial needs an environment whose info holds {missing}, but the info of "
                f"{self.env.unwrapped} does not."
            )
        if not self._current:
            self._current = [observation]
        observation, info = self._show(observation, info)
        info |= {"trial_end": False, "trial_success": False, "trial_observation": ""}
        return observation, info

    def _show(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        trial = len(self._earlier)
        if trial:
            line = f"This is attempt {trial + 1} of {self.n}."
            gap = "\n\n" if self.transcripts else "\n"
            observation = f"{gap.join([*self._earlier, line])}\n\n{observation}"
        return observation, self._keyed({**info, "trial": trial}, self._earlier)

    def _begin(self) -> None:
        self._earlier, self._current, self._return = [], [], 0.0

    def _memory(self) -> dict[str, Any]:
        return {
            "earlier": list(self._earlier),
            "current": list(self._current),
            "return": self._return,
            "seed": self._seed,
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        seed = memory["seed"]
        if type(seed) is not int or seed < 0:
            raise ValueError(f"expected a seed, got {seed!r:.80}")
        self._earlier, self._current = list(memory["earlier"]), list(memory["current"])
        self._return, self._seed = float(memory["return"]), seed
