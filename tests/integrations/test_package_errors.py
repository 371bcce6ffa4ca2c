"""Errors of the packages textarena and reasoning-gym, replaced by small doubles."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from agentgym.errors import ConfigError
from agentgym.registration.making import make_env


class Game:
    """A game of two actions. It fails in the ways that are listed in `faults`."""

    def __init__(self, faults: dict[str, Any]):
        self.faults = faults
        self.state = SimpleNamespace(error_count=0)
        self.played: list[str] = []

    def _fail(self, where: str) -> None:
        if where in self.faults and self.faults[where] is not None:
            raise self.faults[where]

    def reset(self, num_players: int, seed: int) -> None:
        self._fail("reset")

    def get_observation(self) -> tuple[int, str]:
        if self.played:
            self._fail("observation")
        return 0, "Move." + "".join(self.played)

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        self._fail("step")
        self.played.append(action)
        return len(self.played) > 1, {}

    def close(self) -> tuple[Any, Any]:
        self._fail("close")
        return {0: self.faults.get("reward", 1)}, self.faults.get("infos", {0: {"reason": "Won."}})


def arena(monkeypatch: pytest.MonkeyPatch, **faults: Any) -> Any:
    package, inner, registration = (ModuleType(name) for name in ("a", "b", "c"))
    package.make = lambda game: Game(faults)  # type: ignore[attr-defined]
    registration.ENV_REGISTRY = {"Two-v0": 1}  # type: ignore[attr-defined]
    modules = {"": package, ".envs": inner, ".envs.registration": registration}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"textarena{name}", module)
    return make_env("TextArena-v0", game="Two-v0")


@pytest.mark.parametrize("where", ["step", "observation", "close"])
@pytest.mark.parametrize(
    "error", [ValueError("odd"), KeyError("zzz"), IndexError(), ZeroDivisionError()]
)
def test_an_error_at_an_action_ends_the_episode_and_names_the_package(where, error, monkeypatch):
    env = arena(monkeypatch, **{where: error})
    env.reset(seed=0)
    results = [env.step("zzz")]
    if not results[-1][2]:
        results.append(env.step("zzz"))
    text, reward, terminated, truncated, info = results[-1]
    assert "TextArena's game Two-v0" in text and type(error).__name__ in text
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert not info["valid"] and not info["success"]


@pytest.mark.parametrize("reward", ["Bad action format.", None, float("nan"), [1], 10**400])
def test_a_reward_that_is_no_number_is_an_error_of_the_package(reward, monkeypatch):
    env = arena(monkeypatch, reward=reward)
    env.reset(seed=0)
    env.step("a")
    saved = env.unwrapped.snapshot()
    text, got, terminated, _, info = env.step("b")
    assert "TextArena's game Two-v0" in text and got == 0.0 and terminated and not info["valid"]
    env.unwrapped.restore(saved)
    assert env.step("b")[0] == text


def test_a_game_without_faults_is_rewarded_and_one_that_cannot_start_is_named(monkeypatch):
    env = arena(monkeypatch, infos={0: None})
    env.reset(seed=0)
    env.step("a")
    text, reward, terminated, _, info = env.step("b")
    assert (text, reward, terminated, info["success"]) == ("The game is over.", 1.0, True, True)
    with pytest.raises(
        ConfigError, match=r"TextArena cannot start Two-v0 with num_players=1: .*odd"
    ):
        arena(monkeypatch, reset=RuntimeError("odd")).reset(seed=0)


class Questions:
    """A data set with one question, and a verifier."""

    def __init__(self, answer: str, score: Any):
        self.answer, self.score = answer, score

    def __getitem__(self, index: int) -> dict[str, str]:
        return {"question": "How much?", "answer": self.answer}

    def score_answer(self, answer: str, entry: dict[str, str]) -> float:
        return self.score(answer, entry)


def reasoning(monkeypatch: pytest.MonkeyPatch, score: Any, answer: str = "-3") -> Any:
    package, factory = ModuleType("a"), ModuleType("b")
    package.create_dataset = lambda *a, **k: Questions(answer, score)  # type: ignore[attr-defined]
    factory.DATASETS = {"sums": 1}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "reasoning_gym", package)
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", factory)
    return make_env("ReasoningGym-v0", dataset="sums")


def exact(answer: str, entry: dict[str, str]) -> float:
    return float(answer == entry["answer"])


@pytest.mark.parametrize(
    "score", [lambda answer, entry: 1.0, lambda answer, entry: float(answer in ("0", "-3"))]
)
def test_a_generator_that_rewards_nonsense_is_refused(score, monkeypatch):
    with pytest.raises(ConfigError, match=r"verifier of 'sums' gives the answer '(zzz|0)'"):
        reasoning(monkeypatch, score)
    assert reasoning(monkeypatch, exact, "0") is not None
    assert (
        reasoning(monkeypatch, lambda answer, entry: float(float(answer) == 0), "0.0") is not None
    )


@pytest.mark.parametrize(("answer", "reward"), [("-3", 1), ("\u22123", 1), (" -3\n", 1), ("3", 0)])
def test_answers_count_in_their_plain_form_too(answer, reward, monkeypatch):
    env = reasoning(monkeypatch, exact)
    env.reset(seed=0)
    assert env.step(answer)[1] == reward


def test_a_score_that_is_not_finite_is_none(monkeypatch):
    env = reasoning(monkeypatch, lambda answer, entry: float("nan"))
    env.reset(seed=0)
    assert env.step("-3")[1] == 0.0
