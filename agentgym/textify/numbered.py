"""Environments with numbered actions as text environments, and one seat of a game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from agentgym.errors import ConfigError
from agentgym.textify.base import Describe, Look, Opponent, Textified
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain

LISTED = 20
"""Instructions and feedback do not list more actions than this."""


class _Numbered(Textified):
    """An environment or game with numbered actions. See `textify` for the arguments."""

    def __init__(
        self,
        env: Any,
        space: Discrete,
        *,
        describe: Describe,
        actions: Sequence[str],
        instructions: str,
        **kwargs: Any,
    ):
        super().__init__(env, describe=describe, **kwargs)
        self.actions = tuple(actions)
        for name in self.actions:
            if not isinstance(name, str):
                raise TypeError(f"actions must be texts, got {type(name).__name__}: {name!r:.80}.")
        self._number = {plain(name): i for i, name in enumerate(self.actions)}
        if len(self.actions) != space.n or len(self._number) != space.n:
            raise ValueError(
                f"actions must be {space.n} different texts, one for each of {space}, got "
                f"{len(self.actions)}, of which {len(self._number)} differ."
            )
        how = f"Each turn, reply with one action: {_listed(self.actions)}."
        self.instructions = f"{instructions} {how}" if instructions else how
        self._first = int(space.start)

    def _take(self, action: str) -> TimeStep:
        number = self._number.get(plain(action))
        if number is None:
            return self._invalid(f"There is no action {action[:40]!r}. Choose {self._choices()}.")
        now = self._now
        if now.mask is not None and now.rule and not now.mask[number]:
            return self._invalid(
                f"{self.actions[number]!r} is not allowed now. Choose {self._choices()}."
            )
        self._play(self._first + number)
        self._others()
        return self._look()

    def _choices(self) -> str:
        assert self._last is not None
        return f"one of: {_listed(self._last.admissible or self.actions)}"

    def _admissible(self, now: Look) -> tuple[str, ...]:
        mask = range(len(self.actions)) if now.mask is None else np.flatnonzero(now.mask)
        return tuple(self.actions[i] for i in mask)


class TextifiedEnv(_Numbered):
    """A Gymnasium environment with `Discrete` actions as text, made by `textify`."""

    def _begin(self, level: int) -> None:
        observation, info = self.env.reset(seed=level)
        self._shown = Look(observation, *_mask(observation, info))

    def _move(self, action: int | None) -> None:
        observation, reward, terminated, truncated, info = self.env.step(action)
        mask, rule = _mask(observation, info)
        self._shown = Look(
            observation, mask, rule, float(reward), bool(terminated), bool(truncated)
        )

    def _seen(self) -> Look:
        return self._shown


class TextifiedGame(_Numbered):
    """One seat of a PettingZoo AEC game as text, made by `textify`."""

    zero_sum = common_reward = False
    idle_action = None

    def __init__(self, env: Any, space: Discrete, *, seat: str, opponent: Opponent, **kwargs: Any):
        super().__init__(env, space, **kwargs)
        self.seat = seat
        self._opponent = opponent

    def _begin(self, level: int) -> None:
        self.env.reset(seed=level)
        self.cut_off: set[str] = set()
        """The agents that were truncated and have left, while others play on."""

    def _move(self, action: int | None) -> None:
        if action is None and not self.env.terminations[self.mover]:
            self.cut_off.add(self.mover)
        self.env.step(action)

    def _seen(self) -> Look:
        observation, reward, terminated, truncated, info = self.env.last()
        mask, _ = _mask(observation, info)
        return Look(observation, mask, True, float(reward), bool(terminated), bool(truncated))

    def _seen_by(self, agent: str, reward: float, terminated: bool) -> Look:
        """Returns the state as any agent sees it."""
        observation = self.env.observe(agent)
        mask, _ = _mask(observation, self.env.infos.get(agent, {}))
        return Look(observation, mask, True, reward, terminated)

    def _others(self) -> None:
        while self.env.agent_selection != self.seat:
            observation, _, terminated, truncated, info = self.env.last()
            if terminated or truncated:
                self._play(None)
                continue
            space = self.env.action_space(self.env.agent_selection)
            mask, _ = _mask(observation, info)
            legal = np.arange(space.n) if mask is None else np.flatnonzero(mask)
            chosen = self._opponent(observation, legal, self.np_random)
            self._play(int(space.start) + int(chosen))

    # All seats: see `agentgym.textify.all_seats`.

    @property
    def agents(self) -> tuple[str, ...]:
        """All agents of the game.

        Raises:
            ConfigError: if they have different actions.
        """
        agents = tuple(self.env.possible_agents)
        spaces = [self.env.action_space(agent) for agent in agents]
        if any(space != spaces[0] for space in spaces):
            raise ConfigError(
                f"Agents of {self.env} have different actions, {spaces}, and `actions` names one "
                "set for all of them: textify each seat alone (`seat`)."
            )
        return agents

    @property
    def _live(self) -> list[str]:
        ended, cut = self.env.terminations, self.env.truncations
        return [agent for agent in self.env.agents if not (ended[agent] or cut[agent])]

    @property
    def mover(self) -> str:
        """The agent that moves next."""
        return self.env.agent_selection

    @property
    def idle(self) -> bool:
        """Whether `mover` is out while others play on. It then moves with `idle_action`."""
        return bool(self._live) and self.mover not in self._live

    @property
    def acting(self) -> tuple[str, ...]:
        """The agents that act now, none after the end."""
        return (self.mover,) if self._live else ()

    @property
    def present(self) -> tuple[str, ...]:
        """The agents for which the game has not terminated."""
        return tuple(agent for agent in self.env.agents if not self.env.terminations[agent])

    @property
    def cut(self) -> bool:
        """Whether the game was truncated."""
        return not self._live and bool(self.present)

    def number(self, agent: str, name: str) -> int:
        """Returns the number of an agent's action."""
        return self._first + self._number[plain(name)]

    def gains(self, action: int | None) -> dict[str, float]:
        """Plays an action of `mover` and returns the reward of each agent."""
        before = {**self.env._cumulative_rewards, self.mover: 0.0}
        self._move(action)
        after = self.env._cumulative_rewards
        return {agent: float(after[agent] - before[agent]) for agent in after}


def _mask(observation: Any, info: dict[str, Any]) -> tuple[np.ndarray | None, bool]:
    """Returns the mask of actions and whether it is a rule. That of the observation is."""
    if isinstance(observation, dict) and "action_mask" in observation:
        return np.array(observation["action_mask"], dtype=bool), True
    if "action_mask" in info:
        return np.array(info["action_mask"], dtype=bool), False
    return None, False


def _listed(actions: Sequence[str]) -> str:
    more = f", ... ({len(actions)} in all)" if len(actions) > LISTED else ""
    return ", ".join(actions[:LISTED]) + more
