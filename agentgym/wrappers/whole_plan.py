"""`WholePlan`: a whole plan as one action, with feedback on where it fails."""

from __future__ import annotations

import re
from typing import Any

import gymnasium

from agentgym.errors import ConfigError
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.time_limits import MANY_TURNS
from agentgym.utils.action_parsing import text_of
from agentgym.wrappers.base import TextWrapper

_NUMBERED = re.compile(
    r"[ \t>*_#]{0,9}(?:(?:step|action)[ \t]{1,9})?(\d{1,4})[.):][ \t*_]{0,3}\s(?=\s*\S)",
    re.IGNORECASE,
)
_DASHED = re.compile(r"[ \t]{0,9}[-*\u2022]\s+(?=\S)")
_FRAME = re.compile(r"`{3,5}[\w-]{0,20}|[\[<](?:plan|answer)[\]>]", re.IGNORECASE)
_END = re.compile(
    r"`{3,5}|[\[<](?:plan end|end(?: of)? plan|end|/plan|/answer)[\]>]", re.IGNORECASE
)
_WORD = re.compile(r"[\w.+-]*\w")
_SMALL = frozenset(("the", "a", "an"))
_CHANGED = re.compile(
    r"n't\b|\b(?:not|no|never|twice|thrice|times|then|and|or|instead|unless|if|wrong|skip\w*)\b"
)
"""Words behind an action that make it another one."""
_DENIED = re.compile(
    r"n't\b|\b(?:not|never|wrong|bad|invalid|illegal|fail(?:s|ed)?|mistake|reject\w*|example"
    r"|format)\b",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\W{0,9}(?:(?:no|wait|oops|sorry|correction|hm+|or|but|better|rather)[ ]?[,:.!-]|actually\b"
    r"|alternatively\b|alternative\b|instead\b|on second thought|scratch that|or (?:rather|else)\b"
    r"|or alternatively\b|(?:this|that|it)(?:'s| is| was)? (?:plan )?(?:wrong|not)\b"
    r"|(?:the )?(?:plan|option|solution|version|variant|second plan)[ ]?"
    r"(?:[2-9]|[b-d]|two|instead)\b)",
    re.IGNORECASE,
)
"""The start of a remark behind which there is another plan."""
MOST_LINES = 1000
"""Further lines of a plan are ignored."""
SEVERAL = "The plan has several numbered lists. Expected one."
TAKEN_BACK = "A remark beside the plan takes it back, or begins another one. Expected one plan."
_NEEDED = ("success", "valid", "reward_terms")


def actions_of(plan: str) -> list[str]:
    """Returns the actions of a plan: its lines that are not empty, without numbers and dashes.

    Remarks are left out: lines around a plan in "[PLAN]" and "[PLAN END]" or in a code fence, and
    lines that end in a colon. In a plan with numbers or dashes, so are paragraphs without them, and
    lists with dashes that precede the numbers, are indented below them or follow a colon. A further
    numbered list or marked plan may only repeat the plan, with more or fewer words behind actions.

    Raises:
        ValueError: for different plans, and for one that a remark takes back, with a sentence for
            the agent.
    """
    parts = _framed(plan.replace("\r\n", "\n").split("\n"))
    found = [_actions(lines) for part in parts for lines in _lists(part)]
    shortest = min((actions for actions, _ in found), key=lambda actions: sum(map(len, actions)))
    if not all(_repeats(shortest, actions) for actions, _ in found):
        raise ValueError(SEVERAL)
    if any(taken_back for _, taken_back in found):
        raise ValueError(TAKEN_BACK)
    return shortest[:MOST_LINES]


def _framed(lines: list[str]) -> list[list[str]]:
    """Returns the lines within each pair of marks around a plan, or all lines without any."""
    framed: list[list[str]] = []
    opened, said = False, ""
    for at, line in enumerate(lines):
        text = line.strip()
        if opened and _END.fullmatch(text):
            opened, said = False, ""
        elif opened:
            framed[-1].append(line)
        elif _FRAME.fullmatch(text):
            if _DENIED.search(said):
                raise ValueError(TAKEN_BACK)
            opened = True
            framed.append([])
        elif not framed and _END.fullmatch(text):  # its start is in the prompt
            return [lines[:at]]
        elif framed and _TAKEN_BACK.match(text):
            raise ValueError(TAKEN_BACK)
        else:
            said = text or said
    return framed or [lines]


def _lists(lines: list[str]) -> list[list[str]]:
    """Returns the lines of each numbered list. Numbers that are all 1 are one list."""
    starts, before = [], 0
    for i, line in enumerate(lines):
        number = _number(line)
        if number == 1 != before:
            starts.append(i)
        before = number if line.strip() else before
    parts = zip([0, *starts[1:]], [*starts[1:], len(lines)], strict=True)
    return [lines[start:stop] for start, stop in parts]


def _number(line: str) -> int:
    found = _NUMBERED.match(line)
    return int(found[1]) if found else -1


def _repeats(short: list[str], full: list[str]) -> bool:
    """Whether a list says the same as another with less behind its actions."""
    if len(short) != len(full):
        return False
    for less, more in zip(map(_words, short), map(_words, full), strict=True):
        if more[: len(less)] != less or _CHANGED.search(" ".join(more[len(less) :])):
            return False
    return True


def _words(action: str) -> list[str]:
    return [word for word in _WORD.findall(action.lower()) if word not in _SMALL]


def _actions(lines: list[str]) -> tuple[list[str], bool]:
    """Returns the actions among lines, and whether a remark behind them takes them back.

    The lines have at most one numbered list.
    """
    numbered = any(_number(line) >= 0 for line in lines)
    listed = numbered or any(map(_DASHED.match, lines))
    actions, remark, headed, indent = list[str](), listed, False, 99
    taken_back = False
    for line in lines:
        deep = len(line) - len(line.lstrip())
        number, dash = _NUMBERED.match(line), _DASHED.match(line)
        other = not number and _TAKEN_BACK.match(line) is not None
        heading = (
            not number and line.rstrip(" *_").endswith(":") and (listed or other or not actions)
        )
        if not line.strip():
            remark = listed
            continue
        if number:
            remark, headed, indent = False, False, deep
        elif heading:
            remark, headed = listed, True
        elif numbered and deep >= indent + 2:
            continue
        elif dash:
            remark = numbered and (headed or not actions)
        if heading or remark:
            taken_back = taken_back or (bool(actions) and other)
        else:
            mark = number or dash
            actions.append(line[mark.end() if mark else 0 :].strip())
    return actions, taken_back


class WholePlan(TextWrapper):
    """Takes a whole plan as one action, plays it from the start and reports where it fails.

    As in "On the Planning Abilities of Large Language Models: A Critical Investigation" (arXiv
    2305.15771), where a verifier tells the agent what is wrong with its plan, and it may try again.

    **Actions**: text with one action of the environment per line, with or without numbers. Remarks
    around them are left out. One of two plans, or one that is taken back, is not played. Play stops
    at the first invalid action.

    **Observations**: text. After a plan that does not reach the goal: feedback, and the start of
    the episode, to which the environment returns.

    **Rewards**: the sum of the rewards of the plan that was played.

    **Episode end**: termination and truncation of the environment in success, or in the last
    attempt. An unfinished last attempt is truncated.

    **Info**: `admissible` is empty. `turn` counts plans, and `valid` tells whether all actions that
    were played are valid. `plan_steps` (int: number of valid actions played) is added.

    Args:
        env: an environment with text observations and actions, snapshots, and AgentGym's info keys.
        attempts: number of plans that may be tried.

    Raises:
        ConfigError: if observations or actions are not text, or `attempts` is below 1. From
            `reset`: if the info lacks a key that is needed.
    """

    own_actions = True

    def __init__(self, env: gymnasium.Env[Any, Any], attempts: int = 3):
        super().__init__(env, attempts=attempts)
        self._need_text("observations")
        self._need_text("actions")
        if attempts < 1:
            raise ConfigError(f"attempts must be at least 1, got {attempts}.")
        self.attempts = attempts
        self._turn, self._start, self._told = 0, {}, ""
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode, to whose start each plan returns."""
        observation, info = self.env.reset(seed=seed, options=options)
        missing = [key for key in _NEEDED if key not in info]
        if missing:
            raise ConfigError(
                f"WholePlan needs an environment whose info holds {missing}, but the info of "
                f"{self.env.unwrapped} does not."
            )
        self._begin()
        self._start = snapshot_of(self.env)
        return self._view(observation, info)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays a plan from the start."""
        self._check_turn(action)
        self._turn += 1
        total, terms = 0.0, {}
        terminated = truncated = False
        self._steps, self._told = 0, "The plan has no actions."
        try:
            lines = actions_of(text_of(action))
        except ValueError as problem:
            lines, self._told = [], str(problem)
        observation, info = "", {}
        for number, line in enumerate(lines or [""], 1):
            observation, reward, terminated, truncated, info = self.env.step(line)
            total += float(reward)
            for name, term in info["reward_terms"].items():
                terms[name] = terms.get(name, 0.0) + term
            if lines and not info["valid"]:
                feedback = observation.partition("\n")[0]
                self._told = f"Step {number} of the plan, {line[:80]!r}, fails. {feedback}"
            if info["valid"]:
                self._steps = number
                self._told = "All steps of the plan are possible, but the goal is not reached."
            if not info["valid"] or terminated or truncated:
                break
        played = {"valid": info["valid"], "reward_terms": terms}
        if info["success"]:
            self._told = "The plan reaches the goal."
        if info["success"] or self._turn == self.attempts:
            self._over, over = True, terminated or truncated
            shown = self._view(observation, info | played)
            return shown[0], total, terminated, truncated or not over, shown[1]
        if terminated or truncated:
            self._told = "The episode ends before the goal is reached."
        observation, info = restore_snapshot(self.env, self._start)
        observation, info = self._view(observation, info | played)
        return observation, total, False, False, info

    def expert(self) -> str | None:
        """Returns the plan of the environment's expert from the start, or None if it has none.

        It has at most `MANY_TURNS` actions.
        """
        expert, actions = self.env.get_wrapper_attr("expert"), []
        now, over = snapshot_of(self.env), False
        restore_snapshot(self.env, self._start)
        while not over and (action := expert()) is not None:
            actions.append(action)
            over = any(self.env.step(action)[2:4]) or len(actions) == MANY_TURNS
        restore_snapshot(self.env, now)
        return "\n".join(actions) or None

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        told = f"{self._told}\n\n{observation}" if self._told else observation
        changed = {"admissible": (), "turn": self._turn, "plan_steps": self._steps}
        return told, self._keyed({**info, **changed}, self._turn, self._told)

    def _begin(self) -> None:
        self._turn, self._told, self._steps, self._over = 0, "", 0, False

    def _memory(self) -> dict[str, Any]:
        return {
            "turn": self._turn,
            "told": self._told,
            "steps": self._steps,
            "start": self._start,
            "over": self._over,
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        turn = memory["turn"]
        if type(turn) is not int or not 0 <= turn <= self.attempts:
            raise ValueError(f"expected a number of plans, got {turn!r:.80}")
        self._turn, self._told = turn, str(memory["told"])
        self._steps, self._start = int(memory["steps"]), dict(memory["start"])
        self._over = bool(memory.get("over", False))
