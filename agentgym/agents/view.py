"""`View`, what an agent sees of an episode, and `Agent`, the protocol of everything that plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium
import numpy as np

from agentgym.tasks import task_rng


@dataclass(eq=False)
class View:
    """An episode as seen by the agent that must act in it now.

    One object lives as long as its episode and is hashable by identity, so an agent that keeps
    something between the turns (a cache, a plan) can file it under the view, for example in a
    `weakref.WeakKeyDictionary`.

    Attributes:
        instructions: rules and action format.
        observation: the current observation.
        info: the info that came with it.
        history: (observation, action) of the earlier turns, oldest first.
        rng: the episode's own generator: an agent that draws from nothing else acts the same
            whatever other episodes are played beside this one.
        env: the environment; for the scripted expert and the action space, not for peeking.
    """

    instructions: str
    observation: str
    info: dict[str, Any]
    rng: np.random.Generator
    env: gymnasium.Env[Any, Any]
    history: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def start(cls, env: gymnasium.Env[Any, Any], task: str, seed: int) -> View:
        """Resets the environment to a task and a seed and returns the view of that episode."""
        observation, info = env.reset(seed=seed, options={"task": task})
        return cls(
            instructions=env.get_wrapper_attr("instructions"),
            observation=observation,
            info=info,
            rng=task_rng(task, f"agent/{seed}"),
            env=env,
        )

    @classmethod
    def of_text(
        cls,
        instructions: str,
        observation: str,
        history: Sequence[tuple[str, str]] = (),
        info: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
    ) -> View:
        """Returns the view of an episode that is played elsewhere; it has no environment."""
        return cls(
            instructions=instructions,
            observation=observation,
            info=dict(info or {}),
            rng=np.random.default_rng(seed),
            env=None,  # type: ignore[arg-type]
            history=list(history),
        )


class Agent(Protocol):
    """Something that plays: one method, for any number of episodes at once.

    Attributes:
        name: how reports call it.
    """

    name: str

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view, in order.

        Args:
            views: the episodes that wait for an action, at least one; never a finished one. Which
                episodes share a call is chance: no action may depend on the others.
        """
        ...
