"""`textify`: an environment with numbered or text actions as a text environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, Text

from agentgym.core import TextEnv
from agentgym.textify.base import Describe, Opponent
from agentgym.textify.numbered import TextifiedEnv, TextifiedGame
from agentgym.textify.open_spiel import TextifiedSpiel
from agentgym.textify.text_actions import TextActionEnv

__all__ = ["TextActionEnv", "TextifiedEnv", "TextifiedGame", "TextifiedSpiel", "textify"]


def textify(
    env: Any,
    *,
    describe: Describe | None = None,
    actions: Sequence[str] | None = None,
    instructions: str = "",
    success: Callable[[float], bool] | None = None,
    progress: Callable[[Any, Any], float] | None = None,
    seat: str | None = None,
    opponent: Opponent | None = None,
    max_turns: int | None = None,
    **kwargs: Any,
) -> TextEnv:
    """Returns a text environment around one with numbered or text actions.

    ```python
    import gymnasium, agentgym

    cliff = gymnasium.make("CliffWalking-v1")
    moves = ["up", "right", "down", "left"]
    where = lambda at, env: f"You are in row {at // 12}, column {at % 12}. Go to row 3, column 11."
    env = agentgym.textify(cliff, describe=where, actions=moves, success=lambda reward: True)
    observation, info = env.reset(seed=0)
    ```

    A task is a level: the wrapped environment is reset with a seed derived from the name of the
    task. Its `np_random` is then seeded by the seed of the episode, which decides about chance
    events. Rewards, termination and truncation are those of the wrapped environment.

    A mask of legal actions in the observation ("action_mask"), or of a PettingZoo game, is a rule:
    an action that it excludes is invalid and is not played. A mask in the `info` of a Gymnasium
    environment, such as Taxi's, is advice: `admissible` lists the actions it includes, and the
    others are played as well.

    A Gymnasium environment whose actions are texts (a `Text` action space) needs no `actions`, and
    no `describe` if its observations are texts too: see `TextActionEnv`.

    A game of OpenSpiel, such as `pyspiel.load_game("kuhn_poker")`, needs neither: its own texts are
    used. Its chance events follow from the seed of the episode (see `TextifiedSpiel`).

    A game has one seat here. Rewards before its first action belong to this action, which is
    ignored if the game ends before it. `agentgym.register_game` gives all of its seats an id.

    Snapshots hold the actions of the episode, and `restore` replays them. This works in any process
    for environments that are deterministic given their seed, and takes as long as the episode did.

    Args:
        env: a Gymnasium environment with a `Discrete` or `Text` action space, a PettingZoo AEC
            game whose agents have `Discrete` actions, or a game of OpenSpiel.
        describe: (observation, env) -> text of the observation. The text must be complete: two
            states with the same text have the same `state_key`. Not needed for text observations.
        actions: text of each numbered action, in their order.
        instructions: the rules. The list of actions is appended.
        success: reward of the last step -> whether the task is solved. It is called when the
            environment has terminated. Default: whether the reward is positive.
        progress: (observation, env) -> progress on the task in [0, 1]. Default: 1 after success,
            else 0.
        seat: the agent of a game that acts through this environment. Default: the first one.
        opponent: (observation, numbers of the legal actions, generator) -> the action of another
            agent of a game. Default: a random legal action.
        max_turns: turns after which the episode is truncated. Default: the limit that the
            environment is registered with, if any. Without a limit, 100 invalid actions that it
            never saw truncate an episode.
        **kwargs: `split`, `invalid_penalty`, `render_mode`: see `TextEnv`.

    Raises:
        TypeError: if the environment or its action space is of another kind, or a name of an
            action is not a string.
        ValueError: if the names of the actions are not distinct, or not one per action, or there is
            no such seat.
    """
    shared = {
        "describe": describe,
        "actions": actions,
        "instructions": instructions,
        "success": success,
        "progress": progress,
        **kwargs,
    }
    if isinstance(env, gymnasium.Env):
        if seat is not None or opponent is not None:
            raise ValueError("seat and opponent are for games. This is a Gymnasium environment.")
        if max_turns is None and env.spec is not None:
            max_turns = env.spec.max_episode_steps
        if isinstance(env.action_space, Text):
            if shared.pop("actions") is not None:
                raise ValueError("actions are for numbered actions. This environment takes text.")
            return TextActionEnv(env, max_turns=max_turns, **shared)
        space = _numbered(env.action_space, describe, actions)
        return TextifiedEnv(env, space, max_turns=max_turns, **shared)
    if hasattr(env, "new_initial_state"):  # a game of OpenSpiel, which need not be installed
        if shared.pop("actions") is not None:
            raise ValueError("actions are for other games. Those of OpenSpiel have texts.")
        shared |= {"seat": seat, "opponent": opponent or _at_random}
        return TextifiedSpiel(env, max_turns=max_turns, **shared)
    from pettingzoo import AECEnv

    if not isinstance(env, AECEnv):
        raise TypeError(
            "textify takes a gymnasium.Env, a PettingZoo AECEnv (for a parallel game: "
            f"pettingzoo.utils.parallel_to_aec) or a game of OpenSpiel, got {type(env).__name__}."
        )
    agent = env.possible_agents[0] if seat is None else seat
    if agent not in env.possible_agents:
        raise ValueError(f"seat must be one of {env.possible_agents}, got {agent!r}.")
    shared |= {"seat": agent, "opponent": opponent or _at_random}
    space = _numbered(env.action_space(agent), describe, actions)
    return TextifiedGame(env, space, max_turns=max_turns, **shared)


def _numbered(
    space: gymnasium.Space[Any], describe: Describe | None, actions: Sequence[str] | None
) -> Discrete:
    """Returns the action space if its actions are numbered, and have names."""
    if not isinstance(space, Discrete):
        raise TypeError(
            f"textify needs numbered (Discrete) or Text actions, got {space}: a "
            "gymnasium.ActionWrapper can number them, or read them from a text."
        )
    if describe is None or actions is None:
        raise TypeError(
            "textify needs `describe` and `actions` for an environment with numbered actions."
        )
    return space


def _at_random(observation: Any, legal: np.ndarray, rng: np.random.Generator) -> int:
    return int(rng.choice(legal))
