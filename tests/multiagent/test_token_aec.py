"""`TokenAEC`: games token by token have the outcome of games of texts."""

# pyright: reportOptionalSubscript=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pettingzoo.test import api_test, seed_test

from agentgym import make_aec
from agentgym.errors import ConfigError, SnapshotError, UnknownArgumentError
from agentgym.multiagent.token_aec import TokenAEC

from ..helpers.tokenizers import LATIN

SMALL: dict[str, Any] = {"max_tokens": 3000, "constrain": True, "gamma": 0.5}


def text_of(observation: dict[str, np.ndarray]) -> str:
    return LATIN.decode(observation["tokens"][: observation["length"][0]].tolist())


def visible(text: str) -> str:
    return LATIN.decode(list(LATIN.encode(text, add_special_tokens=False)))


@pytest.mark.parametrize("id", ["TicTacToe-v0", "KuhnPoker-v0", "PrisonersDilemma-v0"])
def test_the_same_actions_have_the_same_rewards(id: str):
    texts, tokens = make_aec(id), TokenAEC(make_aec(id), LATIN, **SMALL)
    rng = np.random.default_rng(0)
    texts.reset(seed=1)
    tokens.reset(seed=1)
    acted = set()
    for agent in texts.agent_iter(40):
        seen, reward, terminated, truncated, info = texts.last()
        assert tokens.agent_selection == agent
        shown, *result, told = tokens.last()
        assert result == [reward, terminated, truncated]
        assert shown["tokens"] in tokens.observation_space(agent)["tokens"]
        assert visible(seen["text"]) in text_of(shown)
        assert {k: v for k, v in told.items() if k in info} == info
        assert told["turn_end"] == (agent in acted)
        assert told["discount"] == (0.5 if agent in acted else 1.0)
        acted.add(agent)
        if terminated or truncated:
            assert not shown["action_mask"].any()
            texts.step(None)
            tokens.step(None)
            continue
        action = info["admissible"][int(rng.integers(len(info["admissible"])))]
        for place, token in enumerate([*LATIN.encode(action, add_special_tokens=False), 1]):
            assert tokens.agent_selection == agent
            shown, reward, *_, told = tokens.last()
            assert shown["action_mask"][token]
            if place:
                assert (reward, told["turn_end"], told["discount"]) == (0.0, False, 1.0)
            others = [other for other in tokens.agents if other != agent]
            assert not any(tokens.observe(other)["action_mask"].any() for other in others)
            tokens.step(token)
        texts.step(action)


@pytest.mark.filterwarnings("ignore")
def test_the_protocol_of_pettingzoo(capsys):
    api_test(TokenAEC(make_aec("TicTacToe-v0"), LATIN, **SMALL), num_cycles=60)
    seed_test(lambda: TokenAEC(make_aec("KuhnPoker-v0"), LATIN, **SMALL), num_cycles=30)


def test_a_prompt_holds_the_agents_own_turns():
    env = TokenAEC(make_aec("TicTacToe-v0"), LATIN, **SMALL)
    env.reset(seed=0)
    first = env.agent_selection
    said = []
    for _ in range(3):
        agent, action = env.agent_selection, env.last()[4]["admissible"][0]
        said.append((agent, action))
        for token in [*LATIN.encode(action, add_special_tokens=False), 1]:
            env.step(token)
    other = env.agent_selection
    assert other != first
    own = [action for agent, action in said if agent == other]
    prompt = text_of(env.observe(other))
    assert prompt.startswith(visible(env.unwrapped.instructions)[:40])
    assert [part.partition("�")[0] for part in prompt.split("\n> ")[1:-1]] == own


def test_numbers_and_wrong_tokens_are_refused():
    with pytest.raises(ConfigError, match="text actions"):
        TokenAEC(make_aec("TicTacToe-v0", action_mode="discrete"), LATIN)
    with pytest.raises(ConfigError, match="'max_tokens' of TokenAEC is int; got None"):
        TokenAEC(make_aec("TicTacToe-v0"), LATIN, max_tokens=None)  # type: ignore[arg-type]
    with pytest.raises(UnknownArgumentError, match="Did you mean: max_tokens"):
        TokenAEC(make_aec("TicTacToe-v0"), LATIN, max_token=9)  # type: ignore[call-arg]
    env = TokenAEC(make_aec("TicTacToe-v0"), LATIN, **SMALL)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="A token is an integer"):
        env.step(len(LATIN))
    with pytest.raises(TypeError):
        env.step("a")


def test_an_agent_that_is_out_before_its_first_action_has_its_reward_terms():
    env = TokenAEC(make_aec("Werewolf-Menu-v0"), LATIN, **SMALL | {"instructions": False})
    env.reset(seed=2)
    acted, out, rng = set(), 0, np.random.default_rng(2)
    for agent in env.agent_iter(3000):
        _, reward, *over, info = env.last()
        if any(over):
            if agent not in acted:
                assert reward == sum(info["reward_terms"].values()) != 0
                out += 1
            env.step(None)
            continue
        action = info["admissible"][int(rng.integers(len(info["admissible"])))]
        for token in [*LATIN.encode(action, add_special_tokens=False), 1]:
            env.step(token)
        acted.add(agent)
    assert out


def test_snapshots_of_the_game_are_not_restored_without_the_tokens():
    env = TokenAEC(make_aec("TicTacToe-v0"), LATIN, **SMALL)
    env.reset(seed=0)
    with pytest.raises(SnapshotError, match=r"env\.env\.snapshot"):
        env.restore(env.unwrapped.snapshot())


def test_an_info_that_a_caller_changes_is_whole_again():
    env = TokenAEC(make_aec("TicTacToe-v0"), LATIN, **SMALL)
    env.reset(seed=0)
    info = env.last()[-1]
    terms = dict(info["reward_terms"])
    info["reward_terms"].clear()
    assert env.last()[-1]["reward_terms"] == terms
