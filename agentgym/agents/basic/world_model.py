"""`WorldModel`: an agent that predicts the outcome of actions in place of acting."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentgym.agents.basic.view import Agent, View

FORMAT = (
    "If you are asked to predict the outcome of an action, do not act. Reply with the next "
    "observation, and below it one line of JSON: the reward, the progress towards the goal from 0 "
    'to 1, and "over", "success" and the admissible "actions" where they apply, such as '
    '{"reward": 0, "progress": 0.5, "actions": ["go north"]}.'
)
"""Added to the instructions of the environment."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an action.

    Attributes:
        observation: the next observation.
        reward: the reward.
        progress: the progress after the action.
        over: whether the episode has ended.
        success: whether the task is solved.
        admissible: the admissible actions, if the environment lists them.
    """

    observation: str
    reward: float = 0.0
    progress: float = 0.0
    over: bool = False
    success: bool = False
    admissible: tuple[str, ...] = ()

    def write(self) -> str:
        """Returns the outcome as text. Numbers have three decimals."""
        found: dict[str, Any] = {"reward": _short(self.reward), "progress": _short(self.progress)}
        found |= {name: True for name in ("over", "success") if getattr(self, name)}
        if self.admissible:
            found["actions"] = self.admissible
        return f"{self.observation}\n{json.dumps(found, ensure_ascii=False)}"

    @classmethod
    def read(cls, text: str) -> Outcome:
        """Returns the outcome of a text. Without a last line of JSON, all is the observation."""
        observation, _, last = text.rpartition("\n")
        try:
            found = json.loads(last)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            return cls(text)
        actions = found.get("actions")
        return cls(
            observation,
            _number(found.get("reward")),
            _number(found.get("progress")),
            found.get("over") is True,
            found.get("success") is True,
            tuple(a for a in actions if isinstance(a, str)) if isinstance(actions, list) else (),
        )


@dataclass(frozen=True)
class Transition:
    """An action in a state, and its outcome.

    Attributes:
        instructions: rules and action format.
        history: (observation, action) of the earlier turns, oldest first.
        observation: the observation before the action.
        action: the action.
        outcome: its outcome.
    """

    instructions: str
    history: tuple[tuple[str, str], ...]
    observation: str
    action: str
    outcome: Outcome

    @property
    def view(self) -> View:
        """The state before the action."""
        return View.of_text(self.instructions, self.observation, self.history)


class WorldModel:
    """Predicts the outcome of actions with any agent: a trained policy, or a served model.

    The agent is asked in the place of an observation, after the turns so far. This is the implicit
    world model of "Agent Learning via Early Experience" (arXiv 2510.08558), which the recipe
    `early_experience` trains: the policy itself predicts. As the model in which a search plans, see
    "Web Agents with World Models" (arXiv 2410.13232) and `SearchAgent`.

    Args:
        agent: the agent, unconstrained and with enough tokens for a whole observation.
    """

    def __init__(self, agent: Agent):
        self.agent, self.name = agent, f"world:{agent.name}"

    def predict(self, views: Sequence[View], actions: Sequence[str]) -> list[Outcome]:
        """Returns the predicted outcome of an action in each view."""
        asked = [question(view, action) for view, action in zip(views, actions, strict=True)]
        return [Outcome.read(reply) for reply in self.agent.act(asked)]


def question(view: View, action: str) -> View:
    """Returns the view in which the outcome of an action is predicted."""
    return replace(
        view,
        instructions=f"{view.instructions}\n\n{FORMAT}",
        observation=f"{view.observation}\n\n> {action}\n\nPredict the outcome.",
        info={"admissible": (), "task": view.info.get("task", "")},
        history=list(view.history),
    )


def prediction_errors(model: WorldModel, transitions: Sequence[Transition]) -> dict[str, float]:
    """Returns the errors of a world model.

    Args:
        model: the world model.
        transitions: transitions that it was not trained on, at least one.

    Returns:
        `exact`: share of observations that are predicted exactly. `words`: share of their words
        that are predicted at their position, in relation to the longer of both texts. `copied`:
        `exact` of the observation before the action as the prediction. `reward_error` and
        `progress_error`: mean absolute errors. `over`: share of right predictions of the end.
    """
    views = [each.view for each in transitions]
    predicted = model.predict(views, [each.action for each in transitions])
    pairs = [(each.outcome, guess) for each, guess in zip(transitions, predicted, strict=True)]
    found = {
        "exact": [true.observation == guess.observation for true, guess in pairs],
        "words": [_agreement(true.observation, guess.observation) for true, guess in pairs],
        "copied": [each.outcome.observation == each.observation for each in transitions],
        "reward_error": [abs(true.reward - guess.reward) for true, guess in pairs],
        "progress_error": [abs(true.progress - guess.progress) for true, guess in pairs],
        "over": [true.over == guess.over for true, guess in pairs],
    }
    return {name: float(np.mean(values)) for name, values in found.items()}


def _agreement(true: str, guess: str) -> float:
    """Returns the share of words that two texts have at the same position."""
    one, other = true.split(), guess.split()
    same = sum(a == b for a, b in zip(one, other, strict=False))
    return same / max(len(one), len(other), 1)


def _short(number: float) -> float | int:
    """Returns a number with three decimals, as an integer if it is one."""
    rounded = round(float(number), 3)
    return int(rounded) if rounded.is_integer() else rounded


def _number(value: Any) -> float:
    """Returns a number of a reply, 0 if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        return float(value) if math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0
