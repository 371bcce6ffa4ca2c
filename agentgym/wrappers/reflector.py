"""`Reflector`: the agent reflects on the attempts of another agent."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.agents import make_agent
from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import transcript
from agentgym.errors import ConfigError
from agentgym.tasks import task_rng
from agentgym.time_limits import MANY_TURNS
from agentgym.utils.arguments import own
from agentgym.wrappers.base import TextWrapper

TERM = "improvement"
"""Reward term of the difference between two attempts."""
LENGTH = 2000
"""Maximum length of a reflection in characters."""


class Reflector(TextWrapper):
    """Makes the reflections on another agent's attempts the actions.

    An actor, which does not learn, attempts the task. After each attempt the agent writes a
    reflection, with which the actor tries again. The reward is the difference that it makes, so
    that any recipe trains the reflector of "Retroformer: Retrospective Large Language Agents with
    Policy Gradient Optimization" (arXiv 2308.02151), whose reward this is.

    **Actions**: text, up to 2,000 characters: a reflection. It is added to the instructions of the
    actor, after earlier ones.

    **Observations**: text. The last attempt, its return and its outcome.

    **Rewards**: the return of the next attempt minus that of the last one (term `improvement`).

    **Episode end**: termination, after a successful attempt that follows a reflection, or after
    `trials` attempts. An attempt ends after 1,000 turns.

    **Info**: that of the end of the last attempt. `turn` is the number of reflections and
    `admissible` are the `choices`.

    Apply it last. Its agents reflect. They do not play the environment.

    Args:
        env: an environment with text observations and actions, and AgentGym's info keys.
        actor: the agent that acts, as in `make_agent`, such as "policy:FOLDER".
        trials: maximum number of attempts, at least 2.
        choices: reflections to choose from. Others are invalid and not shown to the actor. Empty:
            any text.

    Raises:
        ConfigError: if observations or actions are not text, `trials` is below 2, or the actor
            cannot be made.
    """

    own_actions = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        actor: str,
        *,
        trials: int = 3,
        choices: tuple[str, ...] = (),
    ):
        super().__init__(env, actor=actor, trials=trials, choices=choices)
        self._need_text("observations")
        self._need_text("actions")
        if trials < 2:
            raise ConfigError(f"trials must be at least 2, got {trials}.")
        self.actor: Agent = make_agent(actor)
        self.trials, self.choices = trials, tuple(choices)
        self._options: dict[str, Any] = {}
        self._seed = 0
        self._begin()
        self._over = True  # until `reset`

    @property
    def instructions(self) -> str:
        """The assignment of the reflector, followed by the environment's instructions."""
        return f"{_ASSIGNMENT}\n\n{self.env.get_wrapper_attr('instructions')}"

    def expert(self) -> str | None:
        """Returns None: no expert reflects."""
        return None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Plays the first attempt. Without a seed, one is sampled from `self.np_random`."""
        seed, observation, info = self._reset_with(seed, options)
        self._begin()
        self._seed = seed
        self._options = {"task": info["task"]}
        if (limit := (options or {}).get("max_turns")) is not None:
            self._options["max_turns"] = own(limit)
        return self._view(*self._attempt(observation, info))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays the next attempt, with one more reflection."""
        self._check_turn(action)
        valid = not self.choices or action in self.choices
        if valid:
            self._reflections.append(action[:LENGTH])
        self._turn += 1
        before = self._return
        found = self._attempt(*self.env.reset(seed=self._seed, options=self._options))
        reward = self._return - before
        observation, info = self._view(*found)
        info |= {"valid": valid, "reward_terms": {TERM: reward}}
        self._over = bool(info["success"]) or self._turn + 1 >= self.trials
        return observation, reward, self._over, False, info

    def _attempt(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Plays an attempt from its first observation and returns its last one."""
        parts = [self.env.get_wrapper_attr("instructions")]
        if self._reflections:
            parts += ["Reflections on earlier attempts at this task:", *self._reflections]
        key = f"actor/{self._seed}/{self._turn}"
        rng = task_rng(str(info["task"]), key)
        view = View("\n\n".join(parts), observation, info, rng, self.env)
        self._return, over = 0.0, False
        while not over:
            [action] = self.actor.act([view])
            observation, reward, terminated, truncated, info = self.env.step(action)
            view.history.append((view.observation, action))
            view.observation, view.info = observation, info
            self._return += float(reward)
            over = terminated or truncated or len(view.history) == MANY_TURNS
        self._text = transcript(view.history, observation)
        return observation, info

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        outcome = "succeeded" if info["success"] else "failed"
        line = f"Attempt {self._turn + 1} of {self.trials} {outcome} with a return of"
        added = {
            "turn": self._turn,
            "admissible": self.choices,
            "valid": True,
            "reward_terms": {TERM: 0.0},
        }
        memory = self._turn, self._reflections, self._return, self._text
        info = self._keyed({**info, **added}, *memory)
        return f"{line} {self._return:g}.\n\n{self._text}", info

    def _begin(self) -> None:
        self._reflections: list[str] = []
        self._turn, self._return, self._text, self._over = 0, 0.0, "", False

    def _memory(self) -> dict[str, Any]:
        return {
            "reflections": list(self._reflections),
            "turn": self._turn,
            "return": self._return,
            "text": self._text,
            "seed": self._seed,
            "options": dict(self._options),
            "over": self._over,
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        turn, seed = memory["turn"], memory["seed"]
        if type(turn) is not int or not 0 <= turn < self.trials:
            raise ValueError(f"expected fewer than {self.trials} reflections, got {turn!r:.80}")
        if type(seed) is not int or seed < 0:
            raise ValueError(f"expected a seed, got {seed!r:.80}")
        self._reflections, self._options = list(memory["reflections"]), dict(memory["options"])
        self._turn, self._seed = turn, seed
        self._return, self._text = float(memory["return"]), str(memory["text"])
        self._over = bool(memory.get("over", False))


_ASSIGNMENT = (
    "Another agent attempts the task below. Its last attempt is shown to you. Write a short "
    "reflection: the mistake, and a new plan that names specific actions. The agent reads it "
    "before its next attempt at the same task. Your score is the improvement of its return."
)
