"""`Reflector`: rewards are improvements, and the actor reads the reflections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentgym.agents import View
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.wrappers import Reflector, reflector


class Obedient:
    """Plays the sign at the end of its instructions, which is that of the last reflection."""

    name = "obedient"

    def act(self, views: Sequence[View]) -> list[str]:
        return [view.instructions[-1] if view.instructions[-1] in "+-" else "?" for view in views]


def started(seed: int = 1, **kwargs: Any) -> tuple[Reflector, str, dict[str, Any]]:
    env = Reflector(NumberLine(size=6, max_turns=6), "random", **kwargs)
    env.actor = Obedient()
    return env, *env.reset(seed=seed, options={"task": "train/1"})


def right(observation: str) -> str:
    """Returns the sign that leads to the target."""
    words = observation.split("\n\n")[1].replace(".", "").split()
    at, target = int(words[3]), int(words[6])
    return "+" if target > at else "-"


def test_a_reflection_is_rewarded_by_the_improvement():
    env, observation, info = started()
    assert observation.startswith("Attempt 1 of 3 failed with a return of 0.\n\nYou are at ")
    assert info["turn"] == 0 and not info["success"] and info["admissible"] == ()
    good = right(observation)
    bad = "-" if good == "+" else "+"
    observation, reward, terminated, truncated, info = env.step(f"Go {bad}")
    assert (reward, terminated, truncated, info["turn"]) == (0, False, False, 1)
    observation, reward, terminated, truncated, info = env.step(f"Go {good}")
    assert (reward, terminated, info["success"]) == (1, True, True)
    assert info["reward_terms"] == {"improvement": 1.0}
    assert observation.startswith("Attempt 3 of 3 succeeded with a return of 1.")


def test_attempts_begin_alike_and_end_at_the_limit():
    env, observation, _ = started(trials=2)
    again, _, terminated, _, info = env.step("no sign at all")
    assert terminated and not info["success"]
    assert again.split("\n\n")[1] == observation.split("\n\n")[1]
    assert env.expert() is None


def test_an_attempt_without_a_turn_limit_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reflector, "MANY_TURNS", 20)
    env = Reflector(NumberLine(size=6, max_turns=None), "random")
    env.actor = Obedient()
    text, info = env.reset(seed=1, options={"task": "train/1"})
    assert not info["success"] and text.count("You are at ") == 21


def test_other_reflections_than_the_choices_are_invalid_and_not_read():
    env, observation, info = started(choices=("Go +", "Go -"))
    assert info["admissible"] == ("Go +", "Go -")
    _, reward, _, _, info = env.step(f"{right(observation)}")
    assert not info["valid"] and reward == 0 and not info["success"]
    _, reward, _, _, info = env.step(f"Go {right(observation)}")
    assert info["valid"] and reward == 1


def test_what_cannot_reflect_is_refused():
    with pytest.raises(ConfigError, match="at least 2"):
        Reflector(NumberLine(), "random", trials=1)
    with pytest.raises(ConfigError, match="Unknown agent"):
        Reflector(NumberLine(), "randon")
