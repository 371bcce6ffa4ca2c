"""Rules that a language model writes, checked before they are used."""

from __future__ import annotations

import json
from typing import Literal

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.envs.worlds.rules import EXAMPLE, Rules, parse_rules
from agentgym.envs.worlds.world import DISTANCE, LUCK, STATES, World, check_world, difficulty
from agentgym.errors import DataError
from agentgym.reading.typography import without_thoughts
from agentgym.utils.action_parsing import object_of

PROMPT = (
    "You write the rules of a small world for an agent that learns, as one JSON object:\n"
    "- about: one sentence about the world, without its rules\n"
    "- variables: the values of each variable, as texts. The first ones are the first state\n"
    "- actions: for each action a list of cases. The first case applies whose `when` holds, which "
    "names a value or a list of values per variable. It can `set` variables to values, `add` a "
    "number of places in the circle of values, and `copy` one variable to another\n"
    "- goal: the variables that goals name\n"
    f"The first state must lead to {STATES[0]} to {STATES[1]} states, with a way back from each. "
    "Every action and every variable must have an effect, and no two actions the same one. There "
    f"must be goals that need {DISTANCE[0]} to {DISTANCE[1]} actions and that random actions reach "
    f"in less than {LUCK:.0%} of the episodes. For example:\n{EXAMPLE}\n"
    "Reply with the JSON object and nothing else."
)


def write_rules(
    source: str,
    theme: str,
    *,
    like: Rules | None = None,
    be: Literal["harder", "easier"] = "harder",
    attempts: int = 4,
    turns: int = 30,
) -> Rules:
    """Returns rules that a language model writes and that pass `check_world`.

    "AutoEnv" (arXiv 2511.19304) has environments written from a theme, repaired by the errors of
    checks. "AgentGen" (arXiv 2408.00764) lets tasks evolve both ways, easier and harder: with
    `like`, rules count only if their levels need more or fewer actions on average. A model that
    fails reads the errors, and tries again.

    Args:
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME. Its replies are kept (see
            `Replies`).
        theme: the subject of the world.
        like: rules to change.
        be: whether the changed ones must be harder or easier.
        attempts: maximum number of requests.
        turns: the turn limit of episodes.

    Raises:
        DataError: if no reply passes. The message names the errors of the last one.
        ConfigError: for an unknown model.
    """
    ask, parts = Replies(make_agent(source), source, PROMPT), [f"The theme: {theme}"]
    before = None if like is None else difficulty(like, turns)
    if like is not None:
        parts.append(f"Change these rules so that goals are {be} to reach:\n{rules_text(like)}")
    wrong = "no attempt was made"
    for _ in range(attempts):
        [reply] = ask(["\n\n".join(parts)])
        try:
            rules = read_rules(reply)
            problems = check_world(World(rules, {name: name for name in rules.actions}), turns)
            if not problems and before is not None:
                now = difficulty(rules, turns)
                if (now <= before) if be == "harder" else (now >= before):
                    problems = [f"its goals need {now:.1f} actions, those of the old {before:.1f}"]
            if not problems:
                return rules
            wrong = "; ".join(problems)
        except DataError as error:
            wrong = str(error)
        parts.append(f"An earlier reply:\n{reply.strip()}\n\nWhat is wrong with it: {wrong}")
    raise DataError(f"{source} wrote no good rules in {attempts} attempts: {wrong}")


def read_rules(reply: str) -> Rules:
    """Returns the rules in a reply: see `object_of`.

    Raises:
        DataError: if there are none.
    """
    found = object_of(without_thoughts(reply))
    if not found:
        raise DataError("The reply must hold a JSON object, and has no braces.")
    return parse_rules(found)


def rules_text(rules: Rules) -> str:
    """Returns rules in JSON, as `parse_rules` reads them."""
    words = {"when": "when", "set": "put", "add": "add", "copy": "copy"}
    actions = {}
    for name, cases in rules.actions.items():
        parts = [{word: getattr(case, key) for word, key in words.items()} for case in cases]
        actions[name] = [{word: each for word, each in part.items() if each} for part in parts]
    data = {"about": rules.about, "variables": rules.variables, "actions": actions}
    return json.dumps({**data, "goal": rules.goal}, indent=1)
