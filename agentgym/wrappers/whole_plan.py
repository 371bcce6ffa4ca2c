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
MOST_LINES = 1000
"""Further lines of a plan are ignored."""
SEVERAL = "The plan has several numbered lists. Expected one."
_NEEDED = ("success", "valid", "reward_terms")


def actions_of(plan: str) -> list[str]:
    """Returns the actions of a plan: its lines that are not empty, without numbers and dashes.

    Remarks are left out: lines around a plan in "[PLAN]" and "[PLAN END]" or in a code fence, and
    lines that end in a colon. In a plan with numbers or dashes, so are paragraphs without them, and
    lists with dashes that precede the numbers, are indented below them or follow a colon. A further
    numbered list may only repeat the plan in more or fewer words.

    Raises:
        ValueError: for different numbered lists, with a sentence for the agent.
    """
    lines = _framed(plan.replace("\r\n", "\n").split("\n"))
    starts = [i for i, line in enumerate(lines) if _number(line) == 1]
    parts = zip([0, *starts[1:]], [*starts[1:], len(lines)], strict=True)
    lists = [_actions(lines[start:stop]) for start, stop in parts]
    shortest = min(lists, key=lambda actions: sum(map(len, actions)))
    if not all(_repeats(shortest, actions) for actions in lists):
        raise ValueError(SEVERAL)
    return shortest[:MOST_LINES]


def _framed(lines: list[str]) -> list[str]:
    """Returns the lines within the marks around a plan, or all lines without any."""
    begun = next((i for i, line in enumerate(lines) if _FRAME.fullmatch(line.strip())), -1)
    behind = range(begun + 1, len(lines))
    return lines[begun + 1 : next((i for i in behind if _END.fullmatch(lines[i].strip())), None)]


def _number(line: str) -> int:
    found = _NUMBERED.match(line)
    return int(found[1]) if found else -1


def _repeats(short: list[str], full: list[str]) -> bool:
    """Whether a list says the same as another in fewer words."""
    words = [[set(_WORD.findall(action.lower())) for action in each] for each in (short, full)]
    return len(short) == len(full) and all(map(set.issubset, *words))


def _actions(lines: list[str]) -> list[str]:
    """Returns the actions among lines with at most one numbered list."""
    numbered = any(_number(line) >= 0 for line in lines)
    listed = numbered or any(map(_DASHED.match, lines))
    actions, remark, headed, indent = list[str](), listed, False, 99
    for line in lines:
        deep = len(line) - len(line.lstrip())
        number, dash = _NUMBERED.match(line), _DASHED.match(line)
        if not line.strip():
            remark = listed
            continue
        if number:
            remark, headed, indent = False, False, deep
        elif line.rstrip(" *_").endswith(":") and (listed or not actions):
            remark, headed = listed, True
            continue
        elif numbered and deep >= indent + 2:
            continue
        elif dash:
            remark = numbered and (headed or not actions)
        if not remark:
            mark = number or dash
            actions.append(line[mark.end() if mark else 0 :].strip())
    return actions


class WholePlan(TextWrapper):
    """Takes a whole plan as one action, plays it from the start and reports where it fails.

    As in "On the Planning Abilities of Large Language Models: A Critical Investigation" (arXiv
    2305.15771), where a verifier tells the agent what is wrong with its plan, and it may try again.

    **Actions**: text with one action of the environment per line, with or without numbers. Play
    stops at the first invalid action.

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
