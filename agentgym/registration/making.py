"""Making an environment from an id: `make_env`, with checked arguments and wrappers."""

from __future__ import annotations

import copy
import re
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from agentgym.core import TextEnv
from agentgym.errors import (
    AgentGymError,
    ConfigError,
    MissingExtraError,
    UnknownArgumentError,
)
from agentgym.multiagent.game import TextGame
from agentgym.registration.entry import NAMESPACE, UNKNOWN, Entry, import_module_of
from agentgym.registration.ids import TABLE
from agentgym.registration.registry import REGISTRY, find
from agentgym.tasks import Tasks
from agentgym.textify.base import Textified
from agentgym.textify.text_actions import as_text_env
from agentgym.time_limits import MANY_TURNS
from agentgym.utils.arguments import (
    check_arguments,
    check_types,
    keyword_parameters,
    metadata_of,
    optional,
    own,
    parse_arguments,
    split_arguments,
)
from agentgym.utils.importing import user_line
from agentgym.utils.masking import filled
from agentgym.wrappers.privileged_text import implements
from agentgym.wrappers.wrapping import wrap_env

TextGym = gymnasium.Env[Any, Any]
ID_WITH_ARGUMENTS = re.compile(r"(.*?)(?::(\w+=.*))?", re.DOTALL)


def full_id(id: str) -> str:
    """Returns the registered id: AgentGym's ids may be given without their namespace.

    Raises:
        ConfigError: if there is no such id. The message names the closest ones.
    """
    id = id.removeprefix("agentgym:")
    if f"{NAMESPACE}/{id}" in REGISTRY:
        return f"{NAMESPACE}/{id}"
    if id in gymnasium.registry or ":" in id:
        return id
    if f"{NAMESPACE}/{id}" in gymnasium.registry:
        return f"{NAMESPACE}/{id}"
    return find(id).id


def short_id(id: str) -> str:
    """Returns an id, with or without arguments, without its namespace."""
    return re.sub(r"^[\w.-]+/", "", id)


def bare_id(id: str) -> str:
    """Returns an id, with or without arguments, without the namespace of AgentGym."""
    return id.removeprefix("agentgym:").removeprefix(f"{NAMESPACE}/")


def split_id(id: str) -> tuple[str, dict[str, Any]]:
    """Returns the id and the arguments of "ID:arg=value,...", such as "KG-QA-v0:hops=1".

    Raises:
        ConfigError: if an argument is not written arg=value, or has a space: names of tasks begin
            with the id, up to the first space.
    """
    name, words = ID_WITH_ARGUMENTS.fullmatch(id).groups()  # type: ignore[union-attr]
    if words and " " in id:
        raise ConfigError(f"Arguments of an environment in env_id have no spaces, got {id!r}.")
    return name, parse_arguments(split_arguments(words or ""))


def make_env(id: str = "", /, *, wrap: Sequence[str] = (), **kwargs: Any) -> TextGym:
    """Makes an environment as `gymnasium.make` does, with the arguments checked first.

    A plain Gymnasium environment with `Text` spaces is adapted (`textify.text_actions`).

    Args:
        id: an id of AgentGym, with or without its namespace, or any other registered id.
            "module:id" imports the module first.
        wrap: wrappers in words, the first one innermost: see `agentgym.wrappers.wrapping.wrap_env`.
        kwargs: arguments of the environment. A secret that was masked (`***`), such as the token in
            the settings of a saved run, is read from an environment variable (AGENTGYM_TOKEN).

    Raises:
        ConfigError: for an unknown id, argument or wrapper, a missing argument or masked secret, a
            value that the environment or wrapper refuses, or an environment of others that fails.
        MissingExtraError: if the environment needs an optional dependency that is not installed.
    """
    if not id and isinstance(kwargs.get("id"), str):  # by keyword, as in `gymnasium.make`
        id = kwargs.pop("id")
    id = import_module_of(full_id(id))
    check_types("make_env", keyword_parameters(make_env), {"wrap": wrap})
    kwargs = own(filled(kwargs))  # `env.spec` is JSON
    if id in REGISTRY:
        # Parameters without a default, such as `game`, are fixed by the id.
        known = optional(keyword_parameters(_entry_point(id), author_class(REGISTRY[id])))
        check_arguments(id, known, kwargs)
    for name in {"id", "disable_env_checker"} & kwargs.keys():  # those of `gymnasium.make`
        raise UnknownArgumentError(f"{id} got an unexpected keyword argument {name!r}.")
    try:
        env = as_text_env(gymnasium.make(id, disable_env_checker=True, **kwargs))
    except (AgentGymError, gymnasium.error.UnregisteredEnv):
        raise
    except ValueError as error:  # how a constructor refuses an argument
        raise ConfigError(f"{id}: {error}") from error
    except Exception as error:
        refusal = _refusal(id, kwargs, str(error)) if isinstance(error, TypeError) else None
        if refusal is None and id.startswith(f"{NAMESPACE}/"):
            raise
        raise refusal or ConfigError(
            f"{id} cannot be made:{user_line(error)} {type(error).__name__}: {error}. Mend the "
            "environment, or give it other arguments (--env-kwargs)."
        ) from error
    return wrap_env(env, [wrap] if isinstance(wrap, str) else wrap)


def _refusal(id: str, given: Mapping[str, Any], problem: str) -> ConfigError | None:
    """Returns the error for a missing or unknown argument of an environment, None for other ones.

    Args:
        id: its id.
        given: its arguments.
        problem: the message of the TypeError.
    """
    known = keyword_parameters(_entry_point(id))
    needed = [p.name for p in known.values() if p.default is p.empty and f"{p.name!r}" in problem]
    if needed and "required" in problem:
        words = " ".join(f"{name}=..." for name in needed)
        options = ", ".join(f"`{name}=`" for name in needed)
        return ConfigError(
            f"{id} needs {' and '.join(needed)}: --env-kwargs {words} ({options} in gym.make)."
        )
    if "unexpected keyword" not in problem and "takes no arguments" not in problem:
        return None
    limit = "max_episode_steps"
    known = {**known, limit: keyword_parameters(gymnasium.make)[limit]}
    try:
        check_arguments(id, known, {name: given[name] for name in given if name not in known})
    except UnknownArgumentError as error:
        remedy = f" {limit} limits the turns of any id." if "max_turns" in given else ""
        return UnknownArgumentError(f"{error}{remedy}")
    return None


def factory_of(env: TextGym | Callable[[], TextGym]) -> Callable[[], TextGym]:
    """Returns a function that makes a new text environment at each call.

    Args:
        env: an environment, of which copies are made, or a function that makes one.

    Raises:
        ConfigError: if it is neither. From the returned function: if `env` returns no environment,
            or the same one twice.
    """
    if isinstance(env, gymnasium.Env):
        return lambda: as_text_env(copy.deepcopy(env))
    if not callable(env):
        raise ConfigError(
            f"env must be an environment or a function that makes one, got {env!r:.80} "
            f"({type(env).__name__})."
        )
    made: weakref.WeakSet[TextGym] = weakref.WeakSet()

    def make() -> TextGym:
        new = env()
        if not isinstance(new, gymnasium.Env):
            raise ConfigError(
                f"The function env must return a gymnasium.Env, got {new!r:.80} "
                f"({type(new).__name__})."
            )
        if new in made:
            raise ConfigError(
                "The function env must return a new environment at each call: it returned the same "
                "object twice."
            )
        made.add(new)
        return as_text_env(new)

    return make


def render_modes(id: str) -> Sequence[str]:
    """Returns the render modes that `make_env` accepts for an id, none if it takes no argument."""
    id = import_module_of(full_id(id))
    if id in REGISTRY:
        author = author_class(REGISTRY[id])
        game = issubclass(author, TextGame)
        shown = metadata_of(pictures=author.has_pictures()) if game else author.metadata
        return shown["render_modes"]
    maker = _entry_point(id)
    takes = "render_mode" in keyword_parameters(maker)
    return getattr(maker, "metadata", {}).get("render_modes", ()) if takes else ()


def _entry_point(id: str) -> Callable[..., Any]:
    point = gymnasium.spec(id).entry_point
    return load_env_creator(point) if isinstance(point, str) else point  # type: ignore[return-value]


def author_class(entry: Entry) -> type:
    """Returns the class an author wrote for an id: a `TextEnv` or a `TextGame`.

    Raises:
        MissingExtraError: if its module needs an optional dependency that is not installed.
    """
    if entry.game is not None:
        return entry.game
    module, _, name = entry.entry_point.partition(":")
    home = entry.load()
    if name:
        return getattr(home, name)
    games = [
        value
        for value in vars(home).values()
        if isinstance(value, type) and issubclass(value, TextGame) and value.__module__ == module
    ]
    assert len(games) == 1, f"{module} must define exactly one TextGame, has {games}"
    return games[0]


def privileged_ids() -> list[str]:
    """Returns the ids whose environments have a `privileged_text`, without the namespace."""
    found = []
    for entry in TABLE:
        try:
            author = author_class(entry)
        except MissingExtraError:
            continue
        if implements(author) or entry.seat.get("opponents") == UNKNOWN:
            found.append(entry.name)
    return found


NO_EFFECT = {
    "split": "give it to the game, whose tasks are those of the environment",
    "invalid_penalty": "give it to the game, which charges the agent",
    "wrap": "leave it out, since agents act in the environment itself",
}
"""Arguments of an environment that a game around it does not read, and what to do instead."""


def make_inner(id: str, given: Mapping[str, Any]) -> Any:
    """Returns an environment without its wrappers, for a game around it.

    The turn limit that it is registered with, which a wrapper counts, is its own from then on.

    Args:
        id: its id.
        given: its arguments.

    Raises:
        ConfigError: for an argument that has no effect in a game.
    """
    made = make_env(id, **given)
    inner: Any = made.unwrapped
    own = isinstance(inner, Textified)  # its arguments are those of the environment that it plays
    for name, remedy in NO_EFFECT.items():
        if name in given and (name == "wrap" or not own):
            raise ConfigError(
                f"{name} in env_kwargs has no effect in a game around an environment: {remedy}."
            )
    limit = None if made.spec is None else made.spec.max_episode_steps
    if limit is not None and isinstance(inner, TextEnv):
        inner.max_turns = min(limit, inner.max_turns or limit)
    return inner


def split_names_tasks(env: TextGym) -> bool:
    """Whether the argument `split` of an environment is that of `TextEnv`, which names tasks.

    An environment that an adapter plays may have one of its own, with another meaning.
    """
    return isinstance(env.unwrapped, TextEnv) and not isinstance(env.unwrapped, Textified)


def tasks_of(env: TextGym) -> Tasks:
    """Returns the tasks of a text environment. Raises ConfigError for any other."""
    try:
        return env.get_wrapper_attr("tasks")
    except AttributeError as error:
        raise ConfigError(
            f"{env_name(env)} is not a text environment: its observations are "
            f"{env.observation_space} and its actions {env.action_space}. agentgym.textify makes "
            "text of numbered actions."
        ) from error


def starts_of(env: TextGym, count: int, split: str) -> list[tuple[str, int, str]]:
    """Returns task, seed and instructions of episodes that cycle through the tasks of a split.

    The environment is reset: some get their instructions from a server, and where the seat of a
    game is sampled, it decides about them.

    Raises:
        ConfigError: if the environment has no tasks, or for a count below 1.
    """
    if count < 1:
        raise ConfigError(f"count must be at least 1, got {count}.")
    tasks, found = tasks_of(env).split(split), list[tuple[str, int, str]]()
    sampled = getattr(env.unwrapped, "seat", "") is None
    for seed in range(count):
        task = str(tasks[seed % len(tasks)])
        if sampled or not found:
            env.reset(seed=seed, options={"task": task})
        found.append((task, seed, str(env.get_wrapper_attr("instructions"))))
    return found


def env_name(env: TextGym) -> str:
    """Returns the id of an environment, or the name of its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def warn_if_endless(env: TextGym, turns: int) -> None:
    """Warns about an episode that goes on after `MANY_TURNS` turns.

    Args:
        env: the environment.
        turns: number of turns so far. The warning comes at one of them.
    """
    if turns == MANY_TURNS:
        warnings.warn(
            f"An episode of {env_name(env)} goes on after {turns:,} turns. If it may never end, "
            "set a turn limit: gymnasium.make(..., max_episode_steps=N), or max_turns=N.",
            stacklevel=2,
        )
