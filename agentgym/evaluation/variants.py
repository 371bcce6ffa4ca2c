"""`write_variants`: a language model proposes arguments of an environment from success rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.errors import AgentGymError, ConfigError, DataError
from agentgym.evaluation.description import author_of, described
from agentgym.reading.typography import without_thoughts
from agentgym.registration.making import make_env, split_id, tasks_of
from agentgym.time_limits import MANY_TURNS
from agentgym.utils.arguments import keyword_parameters

PROMPT = (
    "You choose the environments in which an agent trains. You read what an environment is, its "
    "arguments, and how often the agent has solved the tasks of some settings. Propose settings "
    "in which it learns most for the first one: neither solved already nor out of reach, and "
    "better at what it fails at. Reply with one setting per line, as arguments, such as\n"
    "size=4, max_turns=20\n"
    "and nothing else."
)
TASKS = 3
"""Tasks of a new setting that the expert tries."""
GROWTH = 10
"""Number of times that a number may exceed the largest one known of its argument."""
LARGEST = 1000
"""Largest number of an argument of which none is known."""
_OUTSIDE = re.compile(r"[:/\\~*]|\.\w")
"""What names of files, models, functions and masked secrets have in them."""


def write_variants(
    source: str, rates: Mapping[str, float], *, count: int = 4, attempts: int = 3
) -> list[str]:
    """Returns new settings of an environment that a language model proposes, and that work.

    "EnvGen: Generating and Adapting Environments via LLMs for Training Embodied Agents" (arXiv
    2403.12014): a model proposes environments from a description, the policy trains in them, and
    its success decides about the next ones. Train in the result by `--env-id`, evaluate in the
    first setting by `--eval-env-id`, and ask again. A setting works if its environment can be made
    and reset, and its expert, if there is one, solves one of 3 tasks. No argument may name a
    file, a model or a function, and no number may be more than 10 times the largest one of its
    argument in `rates` and the defaults, or 1,000 if there is none. The model reads what is wrong
    with the others.

    Args:
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME. Its replies are kept (see
            `Replies`).
        rates: success rates in [0, 1] by setting, such as {"TextCraft-v0": 0.1,
            "TextCraft-v0:depth=1": 0.9}. The first one is that in which the agent shall succeed.
        count: number of settings.
        attempts: maximum number of requests.

    Returns:
        Settings such as "TextCraft-v0:depth=2", at most `count`.

    Raises:
        ConfigError: if there are no rates, or they are of several ids.
        DataError: if no proposal works. The message names what is wrong with the last ones.
        ChatError: if a server sends no usable reply.
    """
    ids = {split_id(setting)[0] for setting in rates}
    if len(ids) != 1:
        raise ConfigError(f"Expected success rates of settings of one id, got {sorted(ids)}.")
    [id] = ids
    most = _bounds(rates)
    first, ask = next(iter(rates)), Replies(make_agent(source), source, PROMPT)
    parts = [
        described(first, arguments=True),
        "\n".join(f"- {each}: {rate:.0%}" for each, rate in rates.items()),
    ]
    found: list[str] = []
    wrong: list[str] = []
    for _ in range(attempts):
        parts.append(f"Propose {count - len(found)} settings.")
        [reply] = ask(["\n\n".join(parts)])
        wrong = []
        for line in without_thoughts(reply).strip().split("\n"):
            words = re.sub(r"^[\s*`>#-]*(?:\d+[.)]\s*)?", "", line).strip("`* .")
            setting = f"{id}:" + re.sub(r",\s+", ",", words)
            known = setting in (*rates, *found)
            problem = "it is known already" if known else _problem(setting, most)
            if problem:
                wrong.append(f"- {words[:200]}: {problem}")
            elif len(found) < count:
                found.append(setting)
        if len(found) == count:
            break
        parts += ["\n".join(["Proposed so far:", *found])] * bool(found)
        parts += ["\n".join(["These do not work:", *wrong])] * bool(wrong)
    if not found:
        raise DataError(f"{source} proposed no setting of {id} that works:\n" + "\n".join(wrong))
    return found


def _bounds(settings: Iterable[str]) -> dict[str, float]:
    """Returns the largest number that each argument may have, from those of some settings."""
    known: dict[str, list[float]] = {}
    for setting in settings:
        id, given = split_id(setting)
        env: Any = make_env(id, **given)
        known_parameters = keyword_parameters(author_of(env))
        defaults = {name: each.default for name, each in known_parameters.items()}
        for arguments in (defaults, env.spec.kwargs, given):
            for name, value in arguments.items():
                known.setdefault(name, []).extend(map(abs, _numbers(value)))
        env.close()
    return {name: GROWTH * max(1, *found) for name, found in known.items() if found}


def _numbers(value: Any) -> list[float]:
    """Returns the numbers in a JSON value."""
    return [each for each in _leaves(value) if isinstance(each, int | float)]


def _leaves(value: Any) -> Iterator[str | float]:
    """Yields the texts and numbers in a JSON value, keys included."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _problem(setting: str, most: Mapping[str, float] = {}) -> str:
    """Returns why a setting does not work, "" if it does.

    Args:
        setting: the setting.
        most: the largest number that each argument may have. Those without one: `LARGEST`.
    """
    try:
        id, arguments = split_id(setting)
        for key, value in arguments.items():
            if any(isinstance(each, str) and _OUTSIDE.search(each) for each in _leaves(value)):
                return f"{key} may name no file, model or function"
            bound = most.get(key, LARGEST)
            if large := [each for each in _numbers(value) if not abs(each) <= bound]:
                return f"{key} must be from -{bound:g} to {bound:g}, got {large[0]!r:.40}"
        return _tried(id, arguments) if arguments else "it names no argument"
    except (AgentGymError, ValueError, TypeError) as error:
        return f"{error!s:.300}"


def _tried(id: str, arguments: Mapping[str, Any]) -> str:
    """Returns "" if an environment has no expert, or one that solves a task of it."""
    env: Any = make_env(id, **arguments)
    try:
        names = tasks_of(env).train[:TASKS]
        for number, name in enumerate(names):
            _, info = env.reset(seed=number, options={"task": name})
            expert = env.get_wrapper_attr("expert")
            if expert() is None:
                return ""  # no expert can tell
            for _ in range(MANY_TURNS):
                if (action := expert()) is None:
                    break
                _, _, terminated, truncated, info = env.step(action)
                if terminated or truncated:
                    break
            if info["success"]:
                return ""
        return f"the expert solves none of {TASKS} tasks"
    finally:
        env.close()
