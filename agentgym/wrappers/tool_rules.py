"""`ToolRules`: allows and denies tool calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.reading.typography import without_thoughts
from agentgym.tools.call_objects import by_value
from agentgym.tools.calls import Call, read_call
from agentgym.utils.action_parsing import plain
from agentgym.wrappers.base import TextWrapper

_VERB = re.compile(r"\w{1,40}")


class ToolRules(TextWrapper):
    """Denies tool calls that break deterministic rules.

    **Actions**: text with tool calls. A call that breaks a rule is an invalid action and has no
    effect. Plain text is never denied, unless `verbs` makes calls of it.

    **Observations**: unchanged. After a denied call, the observation is the rule.

    **Rewards**: unchanged. A denied call costs the environment's `invalid_penalty`.

    **Info**: `denied` (int) is added: the number of denied calls in the episode. With `verbs`,
    `admissible` leaves out denied actions, if any others remain.

    The names of tools may contain the wildcards `*` and `?`. Rules over calls protect an agent
    whose observations contain instructions of others ("Progent: Programmable Privilege Control
    for LLM Agents", arXiv 2504.11703). Rules of which action may follow which keep plans possible
    ("KnowAgent: Knowledge-Augmented Planning for LLM-Based Agents", arXiv 2403.03101). Those of
    `follow` are part of the instructions, as in that paper.

    Args:
        env: an environment with text actions, such as a `ToolEnv`.
        allow: the tools that may be called. None: all.
        deny: tool -> patterns of arguments, such as `{"send_mail": {"to": ".*@rival[.]com"}}`. A
            call is denied if every pattern matches the whole text of its argument. Without
            patterns, all calls of the tool are denied.
        after: tool -> tools of which each must have been called before, such as
            `{"cancel_*": ["get_order"]}`.
        limit: tool -> maximum number of calls per episode.
        follow: tool -> the tools of which one must be the next after it, such as
            `{"search": ["open", "answer"]}`. Those of the tool "" are the first ones.
        verbs: whether a text without a tool call is a call of its first word, such as `search` in
            `search[red shirt]`, for environments without tools.

    Raises:
        ConfigError: if the environment's actions are not text, or for an invalid pattern or list.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        allow: Sequence[str] | None = None,
        deny: Mapping[str, Mapping[str, str]] | None = None,
        after: Mapping[str, Sequence[str]] | None = None,
        limit: Mapping[str, int] | None = None,
        follow: Mapping[str, Sequence[str]] | None = None,
        verbs: bool = False,
    ):
        super().__init__(
            env, allow=allow, deny=deny, after=after, limit=limit, follow=follow, verbs=verbs
        )
        self._need_text("actions")
        self._allow = None if allow is None else tuple(allow)
        self._deny = {tool: _compiled(patterns) for tool, patterns in (deny or {}).items()}
        self._after = _listed("after", after or {})
        self._limit = dict(limit or {})
        self._follow = _listed("follow", follow or {})
        self.verbs = verbs
        self._read_call: Callable[[str], Call | None]
        self._read_call = getattr(env.unwrapped, "read_call", read_call)
        self._begin()

    @property
    def instructions(self) -> str:
        """The instructions of the environment, followed by the rules of `follow`."""
        rules = [
            f"- {f'After {tool}' if tool else 'At first'}: {', '.join(following)}."
            for tool, following in self._follow.items()
        ]
        own = str(self.env.get_wrapper_attr("instructions"))
        return "\n".join([own, "", "Actions that may follow others:", *rules]) if rules else own

    def _begin(self) -> None:
        self._counts: dict[str, int] = {}
        self._denied, self._last = 0, ""

    def _memory(self) -> dict[str, Any]:
        return {"counts": dict(self._counts), "denied": self._denied, "last": self._last}

    def _remember(self, memory: dict[str, Any]) -> None:
        self._counts = {str(tool): int(count) for tool, count in memory["counts"].items()}
        self._denied, self._last = int(memory["denied"]), str(memory.get("last", ""))

    def _called(self, action: str) -> Call | None:
        """Returns the call in an action as the environment reads it, if there is one."""
        try:
            call = self._read_call(action)
        except ValueError:
            return None  # the environment explains the problem
        if call is not None or not self.verbs:
            return call
        verb = _VERB.search(plain(without_thoughts(action)))
        return Call(verb[0], {}) if verb else None

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        call, reason = None, ""
        if isinstance(action, str) and not isinstance(action, UnreadableAction):
            call = self._called(action)
            reason = self.reason(call) if call else ""
        played = UnreadableAction(action, reason) if reason else action
        observation, reward, terminated, truncated, info = self.env.step(played)
        self._denied += bool(reason)
        if call and not reason and info["valid"]:
            self._counts[call.name] = self._counts.get(call.name, 0) + 1
            self._last = call.name
        observation, info = self._view(observation, info)
        return observation, float(reward), terminated, truncated, info

    def reason(self, call: Call) -> str:
        """Returns the rule that a call breaks now, as a sentence, or ""."""
        name = call.name
        if self._allow is not None and not any(fnmatchcase(name, tool) for tool in self._allow):
            return f"The tool {name[:40]} is not allowed."
        for tool, patterns in self._deny.items():
            if fnmatchcase(name, tool) and all(
                argument in call.arguments
                and pattern.fullmatch(str(by_value(call.arguments[argument])))
                for argument, pattern in patterns.items()
            ):
                with_these = " with these arguments" if patterns else ""
                return f"The tool {name[:40]} is not allowed{with_these}."
        for tool, earlier in self._after.items():
            missing = [other for other in earlier if not self._count(other)]
            if fnmatchcase(name, tool) and missing:
                return f"Call {missing[0]} before {name[:40]}."
        for tool, most in self._limit.items():
            if fnmatchcase(name, tool) and self._count(tool) >= most:
                return f"The tool {tool} may be called at most {most} times."
        for tool, following in self._follow.items():
            if (
                fnmatchcase(self._last, tool)
                and bool(self._last) == bool(tool)
                and not any(fnmatchcase(name, other) for other in following)
            ):
                place = f"After {self._last[:40]}" if self._last else "At first"
                return f"{place}, only these are allowed: {', '.join(following)}."
        return ""

    def _count(self, tool: str) -> int:
        return sum(count for name, count in self._counts.items() if fnmatchcase(name, tool))

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        earlier = sorted({other for others in self._after.values() for other in others})
        called = [self._count(tool) > 0 for tool in earlier]
        used = [min(self._count(tool), most) for tool, most in self._limit.items()]
        info = {**info, "denied": self._denied}
        if self.verbs and "admissible" in info:
            calls = ((action, self._called(action)) for action in info["admissible"])
            left = tuple(action for action, call in calls if not (call and self.reason(call)))
            info["admissible"] = left or info["admissible"]
        memory = (called, used, self._last) if self._follow else (called, used)
        return observation, self._keyed(info, *memory)


def _listed(option: str, rules: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Returns the tools of each rule.

    Raises:
        ConfigError: if those of a rule are one string, or none.
    """
    for tool, names in rules.items():
        if isinstance(names, str) or not names:
            raise ConfigError(
                f"{option} needs a list of at least one tool for {tool!r}, got {names!r:.80}. "
                f'Write {{{tool!r}: ["NAME"]}}, or leave the rule out.'
            )
    return {tool: tuple(names) for tool, names in rules.items()}


def _compiled(patterns: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    try:
        return {name: re.compile(pattern, re.DOTALL) for name, pattern in patterns.items()}
    except re.error as error:
        raise ConfigError(f"deny has an invalid pattern, {error.pattern!r}: {error}.") from error
