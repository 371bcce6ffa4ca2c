"""Clinic: Bayes' rule by hand, prices, the hidden case, the expert."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym.envs.clinic.clinic import Clinic, gain_of, posterior
from agentgym.errors import ConfigError

TABLE = {
    "arvitis": {"fever": "usually", "cough": "sometimes", "x-ray": "usually"},
    "belosis": {"fever": "rarely", "cough": "sometimes", "x-ray": "rarely"},
}


def test_probabilities_by_hand():
    names = [*TABLE]
    assert posterior(TABLE, names, {}) == pytest.approx([0.5, 0.5])
    assert posterior(TABLE, names, {"fever": True}) == pytest.approx([0.9, 0.1])
    assert posterior(TABLE, names, {"fever": True, "x-ray": False}) == pytest.approx([0.5, 0.5])
    assert gain_of(TABLE, names, np.array([0.5, 0.5]), "cough") == pytest.approx(0)
    assert gain_of(TABLE, names, np.array([0.5, 0.5]), "fever") == pytest.approx(0.531, abs=1e-3)


def test_questions_and_tests_have_their_prices():
    env = Clinic()
    _, info = env.reset(seed=0)
    asked = next(action for action in info["admissible"] if action.startswith("ask"))
    text, reward, *_, info = env.step(asked)
    assert reward == pytest.approx(-0.02) and "The patient says" in text
    assert asked not in info["admissible"]
    ordered = next(action for action in info["admissible"] if action.startswith("order"))
    text, reward, *_ = env.step(ordered)
    assert reward == pytest.approx(-0.1) and "tive." in text
    _, reward, over, _, info = env.step(f"diagnose {env.state.sick}")
    assert (reward, over, info["success"]) == (1, True, True)


def test_the_case_is_hidden():
    env = Clinic()
    first, _ = env.reset(seed=0)
    state = env.state
    state.sick = next(name for name in state.diseases if name != state.sick)
    state.findings = {n: not had if n != state.first else had for n, had in state.findings.items()}
    assert env._look("").text == first


def test_findings_follow_the_handbook():
    env, counts = Clinic(), {"rarely": [0, 0], "sometimes": [0, 0], "usually": [0, 0]}
    for number in range(150):
        env.reset(seed=0, options={"task": f"train/{number}"})
        for name, present in env.state.findings.items():
            if name != env.state.first:
                count = counts[env.state.table[env.state.sick][name]]
                count[0] += present
                count[1] += 1
    shares = [present / total for present, total in counts.values()]
    assert shares == pytest.approx([0.1, 0.5, 0.9], abs=0.1)


def test_the_expert_is_mostly_right_and_frugal():
    env, returns, right = Clinic(), [], []
    for number in range(60):
        env.reset(seed=0, options={"task": f"test/{number}"})
        total, over, info = 0.0, False, {}
        while not over:
            _, reward, over, _, info = env.step(env.expert() or "")
            total += reward
        returns.append(total)
        right.append(info["success"])
    assert np.mean(right) > 0.7 and np.mean(returns) > 0.5
    guesses = [1 / 5] * 60
    assert np.mean(returns) > np.mean(guesses)


def test_bad_input():
    env = Clinic()
    env.reset(seed=0)
    text, *_, info = env.step("ask about the weather")
    assert not info["valid"] and "Valid: " in text
    for wrong in ({"diseases": 1}, {"symptoms": 0}, {"tests": 7}, {"test_cost": -1.0}):
        with pytest.raises(ConfigError):
            Clinic(**wrong)
