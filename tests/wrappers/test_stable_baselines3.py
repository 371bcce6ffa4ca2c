"""Algorithms of Stable-Baselines3 learn through the wrappers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

import agentgym  # noqa: F401
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.wrappers import AdmissibleAction, EncodeObservation, TokenAction

from ..helpers.tokenizers import Characters

Make = Callable[[], gymnasium.Env[Any, Any]]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def numbers() -> AdmissibleAction:
    return AdmissibleAction(EncodeObservation(NumberLine(max_turns=10), size=128), 2)


def wrapped(env: gymnasium.Env[Any, Any]) -> AdmissibleAction:
    return AdmissibleAction(EncodeObservation(env, size=16), 2)


def tokens() -> TokenAction:
    line = NumberLine(size=5, max_turns=6)
    tokenizer = Characters("0123456789 Youareatgnd,'.!+-")
    return TokenAction(line, tokenizer, max_tokens=28, constrain=True, instructions=False)


def mean_return(make: Make, choose: Callable[[Any, Any], int], episodes: int = 100) -> float:
    env, total = make(), 0.0
    for seed in range(episodes):
        observation, _ = env.reset(seed=10_000 + seed)
        ended = False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(choose(env, observation))
            total += float(reward)
            ended = terminated or truncated
    return total / episodes


def random_return(make: Make) -> float:
    rng = np.random.default_rng(0)
    return mean_return(make, lambda env, _: int(rng.choice(np.flatnonzero(env.action_masks()))))


def masked(model: MaskablePPO) -> Callable[[Any, Any], int]:
    return lambda env, observation: int(
        model.predict(observation, action_masks=env.action_masks(), deterministic=True)[0]
    )


class Embedding(BaseFeaturesExtractor):
    """Embeds token ids, which carry no meaning as plain numbers."""

    def __init__(self, space: gymnasium.spaces.Dict, width: int = 16):
        ids = space["tokens"]
        assert isinstance(ids, gymnasium.spaces.Box)
        super().__init__(space, ids.shape[0] * width)
        self.table = torch.nn.Embedding(int(ids.high.max()) + 1, width)

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Returns the embeddings of all positions, float32 (batch, positions * width)."""
        return self.table(observations["tokens"].long()).flatten(1)


@pytest.mark.parametrize("make", [numbers, tokens])
def test_stable_baselines3_accepts_them(make: Make):
    check_env(make())


@pytest.mark.filterwarnings("ignore:.*render_mode='rgb_array'")
def test_vectors_of_an_id_are_made_though_there_are_no_images():
    envs = make_vec_env("AgentGym/NumberLine-v0", 2, wrapper_class=wrapped, env_kwargs={"size": 5})
    assert np.asarray(envs.reset()).shape == (2, 16)


@pytest.mark.slow
def test_maskable_ppo_solves_the_number_line():
    model = MaskablePPO(
        "MlpPolicy", numbers(), n_steps=512, batch_size=128, learning_rate=3e-3, gamma=0.95, seed=0
    )
    model.learn(6144)
    assert random_return(numbers) < 0.5
    assert mean_return(numbers, masked(model)) > 0.75


@pytest.mark.slow
def test_maskable_ppo_learns_to_say_tokens():
    model = MaskablePPO(
        "MultiInputPolicy",
        make_vec_env(tokens, 8, seed=0),
        n_steps=128,
        batch_size=256,
        n_epochs=6,
        learning_rate=1e-3,
        gamma=0.97,
        ent_coef=0.02,
        seed=0,
        policy_kwargs={"features_extractor_class": Embedding},
    )
    model.learn(6144)
    assert random_return(tokens) < 0.7
    assert mean_return(tokens, masked(model)) > 0.9


@pytest.mark.slow
def test_maskable_ppo_runs_on_webshop():
    def shop() -> AdmissibleAction:
        env = gymnasium.make("AgentGym/WebShop-v0")
        encoded = EncodeObservation(env, size=64, max_actions=20)
        return AdmissibleAction(encoded, 20, overflow="first")

    model = MaskablePPO("MlpPolicy", shop(), n_steps=128, batch_size=64, n_epochs=2, seed=0)
    model.learn(384)
    assert all(torch.isfinite(weight).all() for weight in model.policy.parameters())
    assert 0 <= mean_return(shop, masked(model), episodes=5) <= 1
