"""`TokenAction` shows the tokens of the trainer's rollouts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.trainers import load_policy
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.request_state import Ending
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.wrappers import TokenAction

from ...helpers.chat_models import FAMILIES, chat_model
from ...helpers.echo import Echo

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}{{ eos_token }}\n"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


@cache
def policy_of(name: str) -> Policy:
    return Policy(*chat_model(name))


@pytest.mark.parametrize("template", [None, TEMPLATE])
@pytest.mark.parametrize("constrain", [True, False])
@pytest.mark.parametrize(
    "chosen",
    [
        ContextSettings(max_tokens=500),
        ContextSettings("window", 1, max_tokens=500),
        ContextSettings("window", 9, instructions=False, max_tokens=60),
    ],
    ids=["full", "window", "short"],
)
def test_prompts_and_actions_are_those_of_a_rollout(
    make_policy: Any, template: str | None, constrain: bool, chosen: ContextSettings, monkeypatch
):
    policy = make_policy()
    monkeypatch.setattr(policy.tokenizer, "chat_template", template)
    context = make_context(policy, chosen)
    sampling = Sampling(max_new_tokens=6)
    task = NumberLine().tasks.train[0]
    with EnvPool(lambda: NumberLine(max_turns=4), 1) as pool:
        spec = EpisodeSpec(task, 3, (0,))
        [played] = collect(policy, pool, [spec], context, sampling, constrain=constrain)
    env = TokenAction(
        NumberLine(max_turns=4),
        policy.tokenizer,
        max_action_tokens=6,
        max_tokens=chosen.max_tokens or 0,
        constrain=constrain,
        instructions=chosen.instructions,
        context=context,
    )
    observation, info = env.reset(seed=3, options={"task": task})
    ended, rewards = False, 0.0
    assert len(played.turns) > 1
    for turn in played.turns:
        tokens = played.segments[turn.segment].tokens[: turn.stop]
        for place in range(turn.start, turn.stop):
            assert not ended
            shown = observation["tokens"][: observation["length"][0]]
            assert np.array_equal(shown, tokens[:place])
            if turn.support is not None:
                offset = turn.support.offsets[place - turn.start :][:2]
                legal = np.sort(turn.support.ids[slice(*offset)])
                assert np.array_equal(np.flatnonzero(observation["action_mask"]), legal)
            observation, reward, *ends, info = env.step(tokens[place])
            ended, rewards = any(ends), rewards + reward
            assert info["turn_end"] == (place == turn.stop - 1)
    assert ended != played.stats.overflow
    assert rewards == pytest.approx(played.episode_return)


@pytest.mark.parametrize("name", FAMILIES)
@given(data=st.data())
@settings(max_examples=25)
def test_free_actions_end_as_in_a_rollout(name: str, data: Any):
    policy = policy_of(name)
    ending, special = Ending(policy), policy.tokenizer.all_special_ids
    tokens = sorted({*policy.encode(" go north; take the red key\n17"), *special})
    tokens = data.draw(st.lists(st.sampled_from(tokens), max_size=20))
    env = TokenAction(
        Echo(max_turns=99),
        policy.tokenizer,
        max_action_tokens=8,
        format=policy.format,
        context=make_context(policy, ContextSettings("current", max_tokens=512)),
    )
    env.reset(seed=0)
    action, played = [], []
    for token in tokens:
        action.append(token)
        complete = ending.reached(action) or len(action) == 8
        assert env.step(token)[4]["turn_end"] == complete
        if complete:
            played.append(ending.text(action))
            action = []
    assert env.unwrapped.state.said == played  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", FAMILIES)
def test_admissible_actions_have_the_tokens_of_a_rollout(name: str):
    policy = policy_of(name)
    actions = ("go north", "go south", "take the red key")
    env = TokenAction(
        Echo(admissible=actions), policy.tokenizer, constrain=True, format=policy.format
    )
    env.reset(seed=0)
    for text in actions:
        for token in policy.encode_action(text):
            assert env.action_masks()[token]
            env.step(token)
    assert env.unwrapped.state.said == list(actions)  # type: ignore[attr-defined]


def test_a_loaded_policy_gives_format_and_context(tmp_path: Path):
    policy = policy_of("llama3")
    chosen = ContextSettings("window", 1, max_tokens=300)
    PolicyAgent(policy, chosen, Sampling(max_new_tokens=5)).save(tmp_path)
    loaded = load_policy(tmp_path)
    assert loaded.format == policy.format
    env = TokenAction(
        Echo(), loaded.tokenizer, format=loaded.format, context=loaded.context, max_tokens=300
    )
    observation, _ = env.reset(seed=0)
    conversation = make_context(policy, chosen).begin(Echo.instructions)
    conversation.observe(Echo().reset(seed=0)[0])
    prompt = conversation.prompt(32)
    assert prompt is not None
    assert observation["tokens"][: observation["length"][0]].tolist() == prompt.tolist()


def test_a_format_replaces_the_end_token():
    policy = policy_of("llama3")
    with pytest.raises(ConfigError, match="give format or end_token, not both"):
        TokenAction(Echo(), policy.tokenizer, format=policy.format, end_token=1)
