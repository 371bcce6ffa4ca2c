"""Texts about the hidden state, for critics."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from agentgym.envs.numbers.arithmetic import Arithmetic
from agentgym.errors import ConfigError
from agentgym.registration.making import author_class, make_env, privileged_ids
from agentgym.registration.registry import find
from agentgym.wrappers import PrivilegedText

IDS = {author_class(find(id)): id for id in reversed(privileged_ids())}
"""The first id of each class that implements the text."""
SECRETS = [
    *("Bandit-v0", "KuhnPoker-v0", "TwentyQuestions-v0", "Wordle-Fixed-v0"),
    *("TwentyQuestions-TwoPlayer-v0", "PrisonersDilemma-Unknown-v0", "GuessTwoThirds-Unknown-v0"),
]
"""Ids of which several episodes start with the same observation, and differ in hidden facts."""


def make(id: str) -> Any:
    package = find(id).package
    if package:
        pytest.importorskip(package)
    return PrivilegedText(make_env(id))


@pytest.mark.parametrize("id", IDS.values())
def test_the_text_describes_the_state_and_changes_nothing(id: str):
    env, other = make(id), make(id)
    _, info = env.reset(seed=0)
    other.reset(seed=1)
    env.action_space.seed(0)
    texts = {info["privileged"]}
    for _ in range(4):
        before = env.snapshot()
        assert env.get_wrapper_attr("privileged_text")() == info["privileged"]
        assert env.snapshot() == before
        assert other.restore(before)[1]["privileged"] == info["privileged"]
        action = env.get_wrapper_attr("expert")() or env.action_space.sample()
        _, _, terminated, truncated, info = env.step(action)
        texts.add(info["privileged"])
        if terminated or truncated:
            break
    env.close()
    other.close()
    assert all(isinstance(text, str) and text and text.isprintable() for text in texts), texts
    # Perfect play changes nothing, and the wishes of a user stay the same.
    assert len(texts) > 1 or id in ("TicTacToe-v0", "Drafts-v0"), texts


@pytest.mark.parametrize("id", SECRETS)
def test_the_text_shows_hidden_facts(id: str):
    env = make(id)
    found = defaultdict(set)
    for seed in range(200):
        observation, info = env.reset(seed=seed)
        found[observation].add(info["privileged"])
        if len(found[observation]) > 1:
            return
    raise AssertionError("equal observations have equal texts")


@pytest.mark.parametrize("id", ["KuhnPoker-v0", "StagHunt-v0", "GuessTwoThirds-v0"])
def test_sampled_opponents_are_named(id: str):
    env: Any = PrivilegedText(make_env(id, opponents="unknown"))
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        state, text = env.unwrapped.state, info["privileged"]
        levels = [f"{name} {level}" for name, level in state.levels.items() if name != state.agent]
        assert text.endswith(f" Opponents: {', '.join(levels)}.")
        shown = env.unwrapped.game.privileged_text(state.agent) or observation
        assert text.startswith(shown.splitlines()[0])


def test_an_environment_without_it_is_refused():
    with pytest.raises(ConfigError, match="Arithmetic does not implement privileged_text"):
        PrivilegedText(Arithmetic())


def test_shop():
    env: Any = PrivilegedText(make_env("WebShop-v0"))
    _, info = env.reset(seed=3)
    texts: list[str] = []
    while (action := env.unwrapped.expert()) is not None:
        texts.append(info["privileged"])
        info = env.step(action)[-1]
    assert info["success"]
    assert texts[:3] == [
        "Wanted: 24 pack, hazelnut, tin. Product listed: no.",
        "Wanted: 24 pack, hazelnut, tin. Product listed: yes.",
        "Missing: 24 pack, hazelnut, tin. At best: 100%. Reward: 50%.",
    ]
    assert texts[-1] == "Missing: none. At best: 100%. Reward: 100%."
