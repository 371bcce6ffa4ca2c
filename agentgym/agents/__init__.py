"""Agents, which map views of episodes to actions.

`make_agent` makes an agent from its specification. `agentgym.evaluation.runner` evaluates it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from gymnasium.envs.registration import load_env_creator

from agentgym.agents.basic.chat import ChatAgent, ChatError, Usage, hide_userinfo
from agentgym.agents.basic.expert import ExpertAgent, NoExpertError
from agentgym.agents.basic.human import HumanAgent, Quit
from agentgym.agents.basic.mixed import MixedAgent
from agentgym.agents.basic.random import RandomAgent
from agentgym.agents.basic.scripted import ScriptedAgent
from agentgym.agents.basic.view import Agent, View
from agentgym.agents.basic.world_model import Outcome, WorldModel, prediction_errors
from agentgym.agents.scaffolds import SCAFFOLDS
from agentgym.agents.search import ALGORITHMS, SearchAgent
from agentgym.agents.search.action_judges import ActionJudge, FunctionValue, ModelValue
from agentgym.agents.search.code_value import CodeValue
from agentgym.errors import ConfigError, did_you_mean, needs_extra
from agentgym.utils.arguments import (
    check_arguments,
    keyword_parameters,
    parse_arguments,
    split_arguments,
)

__all__ = [
    "Agent",
    "ChatAgent",
    "ChatError",
    "ExpertAgent",
    "HumanAgent",
    "MixedAgent",
    "NoExpertError",
    "Outcome",
    "Quit",
    "RandomAgent",
    "ScriptedAgent",
    "SearchAgent",
    "Usage",
    "View",
    "WorldModel",
    "make_agent",
    "prediction_errors",
]

_SIMPLE: dict[str, Callable[..., Agent]] = {
    "random": RandomAgent,
    "expert": ExpertAgent,
    "human": HumanAgent,
}
POLICY_AGENTS = {
    "policy": "agentgym.trainers.policy_agent:load_agent",
    "league": "agentgym.trainers.players.loading:load_league",
    "model": "agentgym.trainers.policy_agent:load_pretrained",
    "harness": "agentgym.trainers.gateway.harness_agent:load_harness",
}
"""Entry points of policy agents: strings, so that this package does not import trainers."""
REWARD_MODEL = "agentgym.trainers.policy_agent.loading:load_judge"
"""Entry point of reward models, which score actions."""
JUDGES = "agentgym.judges:make_judge"
"""Entry point of judges, which score whole episodes."""
SEARCHES = tuple(f"search:{algorithm}" for algorithm in ALGORITHMS)
_AROUND = tuple(f"{kind}:AGENT" for kind in SCAFFOLDS)
MODELS = ("chat:MODEL@URL", "policy:FOLDER", "league:FOLDER", "model:NAME")
"""Specifications of agents that act with a language model."""
KINDS = (*_SIMPLE, *SEARCHES, *MODELS, "harness:COMMAND", *_AROUND)


def make_agent(spec: str, **options: Any) -> Agent:
    """Makes an agent from its specification.

    Args:
        spec: "random", "expert", "human", "chat:MODEL@URL" (an OpenAI-compatible server) or
            "policy:FOLDER" (a trained checkpoint, which needs the extra "train"), "league:FOLDER"
            (the average policy of a run with a pool of opponents), "model:NAME" (a language model
            before training, by its Hugging Face id or folder), "harness:COMMAND" (a program that
            owns its loop, with the option `model`), "search:ALGORITHM" (a planner: see
            `SearchAgent`), with options as in "search:mcts,budget=64,policy=FOLDER" or
            "search:best_first,world=FOLDER,world_tokens=256" (tokens per prediction) or
            "search:beam,value=chat:MODEL@URL" (see `_action_judge`) or
            "search:best_first,value=code:FILE" (see `CodeValue`), or a scaffold that wraps another
            agent (see `agentgym.agents.scaffolds`), such as "reflexion,trials=4:chat:MODEL@URL".
            With the option `writer`, another agent than the one that acts writes its texts.
        options: keyword arguments of the agent's class, such as `temperature=0.7`. Those that a
            scaffold does not have go to the agent that it wraps.

    Raises:
        ConfigError: for an unknown specification or option.
        MissingExtraError: for a policy, if torch is not installed.
    """
    if not isinstance(spec, str):
        given = f"{spec!r:.80} ({type(spec).__name__})"
        raise ConfigError(
            f"An agent is written 'random' or 'policy:FOLDER', for example; got {given}."
        )
    kind, _, rest = spec.partition(":")
    if kind in _SIMPLE and not rest:
        return _call(spec, _SIMPLE[kind], (), options)
    if kind == "chat":
        # Split at the last @ before a scheme: model names and URLs may both contain "@".
        found = re.fullmatch(r"(.+)@(https?://.+)", rest)
        if found is None:
            raise ConfigError(
                f"A chat agent is written chat:MODEL@URL, such as "
                f"chat:llama3@http://localhost:11434/v1; got {hide_userinfo(spec)!r}."
            )
        return _call(spec, ChatAgent, found.groups(), options)
    if kind == "search":
        return _search(spec, rest, options)
    if kind in POLICY_AGENTS and rest:
        with needs_extra("A policy agent", "train"):
            load_agent: Any = load_env_creator(POLICY_AGENTS[kind])
        return _call(spec, load_agent, (rest,), options)
    name, *words = split_arguments(kind) or [""]
    if name in SCAFFOLDS:
        return _around(spec, name, parse_arguments(words), rest, options)
    known = (*_SIMPLE, *SEARCHES, *SCAFFOLDS)
    hint = f" Did you mean: policy:{spec}?" if os.path.isdir(spec) else did_you_mean(spec, known)
    raise ConfigError(f"Unknown agent {hide_userinfo(spec)!r}.{hint} Known: {', '.join(KINDS)}.")


def _search(spec: str, rest: str, options: dict[str, Any]) -> Agent:
    """Makes a search agent. Its models are specifications of agents, or folders of policies."""
    algorithm, *words = split_arguments(rest) or [""]
    options = parse_arguments(words) | options
    tokens = options.pop("world_tokens", None)
    for role in ("policy", "world"):
        model = options.get(role)
        if not isinstance(model, str):
            continue
        kind = model.partition(":")[0]
        if kind not in (*_SIMPLE, *POLICY_AGENTS, "chat"):
            kind, model = "policy", f"policy:{model}"
        own: dict[str, Any] = {}
        if role == "world" and kind in POLICY_AGENTS:
            own = {"temperature": 0.0, "max_new_tokens": 256 if tokens is None else tokens}
            tokens = None
        options[role] = make_agent(model, **own)
    if isinstance(value := options.get("value"), str) and ":" in value:
        program = value.startswith("code:")
        judge = CodeValue.of_file(value[5:]) if program else _action_judge(value)
        options |= {"value": "code" if program else "judge", "judge": judge}
    if tokens is not None:
        raise ConfigError("world_tokens limits the predictions of a policy: give world=FOLDER.")
    return _call(spec, SearchAgent, (algorithm,), {"name": spec, **options})


def _action_judge(source: str) -> ActionJudge:
    """Makes a judge of actions for a search.

    Args:
        source: "judge:FOLDER" (the reward model of a run, of any policy), a language model
            (chat:MODEL@URL, policy:FOLDER, model:NAME) that estimates the chance of success, or
            "module:function" of a view and an action.
    """
    kind, _, rest = source.partition(":")
    if kind == "judge":
        with needs_extra("A reward model", "train"):
            load_judge: Any = load_env_creator(REWARD_MODEL)
        return load_judge(rest)
    if kind == "chat" or kind in POLICY_AGENTS:
        return ModelValue(make_agent(source), source)
    return FunctionValue(source)


def _around(
    spec: str, kind: str, own: dict[str, Any], inner: str, options: dict[str, Any]
) -> Agent:
    """Makes a scaffold and the agent that it wraps, which gets the options that only it has."""
    if not inner:
        raise ConfigError(f"{kind} wraps another agent: {kind}:chat:MODEL@URL.")
    known = keyword_parameters(SCAFFOLDS[kind])
    writer = options.get("writer")
    own |= {name: value for name, value in options.items() if name in known}
    if isinstance(judge := own.get("judge"), str):
        make_judge: Any = load_env_creator(JUDGES)
        own["judge"] = make_judge(judge)
    rest = {name: value for name, value in options.items() if name not in (*known, "writer")}
    made: Any = _call(spec, SCAFFOLDS[kind], (make_agent(inner, **rest),), own)
    if writer is not None:
        made.writer = make_agent(writer)
    return made


def _call(
    spec: str, make: Callable[..., Agent], args: tuple[Any, ...], options: dict[str, Any]
) -> Agent:
    known = {name: p for name, p in keyword_parameters(make).items() if p.kind is p.KEYWORD_ONLY}
    check_arguments(f"Agent {hide_userinfo(spec)!r}", known, options)
    return make(*args, **options)
