"""`View`: an agent's view of an episode. `Agent`: the protocol of agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium
import numpy as np

from agentgym.errors import AgentGymError
from agentgym.tasks import task_rng


@dataclass(eq=False)
class View:
    """An episode from the perspective of the agent that acts in it.

    The same object is used for the whole episode and is hashable by identity. An agent that keeps
    state between turns, such as a cache or a plan, can store it in a `weakref.WeakKeyDictionary`
    with the view as key. A copied or restored episode has another view, with the same `memory`.

    Attributes:
        instructions: rules and action format.
        observation: the current observation.
        info: the current info.
        history: (observation, action) of the earlier turns, oldest first.
        rng: the episode's own random generator. The actions of an agent that uses no other one do
            not depend on the other episodes of an evaluation.
        env: the environment. It gives access to the scripted expert and the action space. Agents
            must not read hidden state from it.
        costs: resources that the agent has used in the episode, by name, such as the environment
            steps of a search, or `prompt_tokens` and `completion_tokens`. Reports hold them.
        memory: what the agent must remember, as JSON values, each under a key of its own. Snapshots
            of a `SingleSeat` hold it for the agents in the other seats.
    """

    instructions: str
    observation: str
    info: dict[str, Any]
    rng: np.random.Generator
    env: gymnasium.Env[Any, Any]
    history: list[tuple[str, str]] = field(default_factory=list)
    costs: Counter[str] = field(default_factory=Counter)
    memory: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def start(
        cls, env: gymnasium.Env[Any, Any], task: str, seed: int, max_turns: int | None = None
    ) -> View:
        """Resets the environment with a task and a seed, and returns the view of the episode.

        Args:
            env: the environment.
            task: name of the task.
            seed: seed of the episode.
            max_turns: turn limit of the episode. None: that of the environment.
        """
        limit = {} if max_turns is None else {"max_turns": max_turns}
        observation, info = env.reset(seed=seed, options={"task": task, **limit})
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
        """Returns the view of an episode without an environment object.

        For agents that are used outside of `evaluate`. `env` is None.

        Args:
            instructions: rules and action format.
            observation: the current observation.
            history: (observation, action) of the earlier turns, oldest first.
            info: the current info, such as {"admissible": (...)}, which are none by default.
            seed: seeds `rng`.
        """
        return cls(
            instructions=instructions,
            observation=observation,
            info={"admissible": (), **(info or {})},
            rng=np.random.default_rng(seed),
            env=None,  # type: ignore[arg-type]
            history=list(history),
        )


class Agent(Protocol):
    """The protocol of agents: one method, which acts in a batch of episodes.

    An agent may have an attribute `wrap`: the wrappers that its environments need, as in
    `make_env`. They are used where no other wrappers are given.

    It may have a method `finish(view)`, which `evaluate` calls with the view of each finished
    episode, and `cross_play` with the view of each of its seats.

    For exact evaluation (`agentgym.evaluation.nashconv`), an agent may have a method
    `probabilities(views)`, which returns for each view an array with the probabilities of
    `info["admissible"]`, and an attribute `memoryless`: True if its actions depend on the
    instructions and the current observation only.

    Attributes:
        name: name of the agent in reports.
    """

    name: str

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view, in order.

        Args:
            views: the episodes in progress, at least one. The batch composition is arbitrary: an
                action must not depend on the other views.
        """
        ...


def actions_for(agent: Agent, views: Sequence[View], tasks: Sequence[str] = ()) -> Sequence[str]:
    """Returns an agent's actions for views, of which there is one each.

    Args:
        agent: the agent.
        views: the views.
        tasks: the names of their tasks, for the note to an error that the agent raises.

    Raises:
        TypeError: if the agent returns no list, or one string.
        ValueError: if it returns another number of actions.
    """
    try:
        found = agent.act(views)
    except AgentGymError:  # it says itself what is wrong
        raise
    except Exception as error:
        where = f" in the tasks {[*tasks]!s:.300}" if tasks else ""
        error.add_note(f"Raised by the agent {agent.name!r}{where}.")
        raise
    if not isinstance(found, (Sequence, np.ndarray)) or isinstance(found, str):
        raise TypeError(
            f"Agent {agent.name!r} must return a list of actions, one for each view, got "
            f"{found!r:.80}."
        )
    if len(found) != len(views):
        raise ValueError(
            f"Agent {agent.name!r} must return {len(views)} actions, got {len(found)}."
        )
    return found
