"""`TokenAction` shows the tokens of the trainer's rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import EnvPool, EpisodeSpec, collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.wrappers import TokenAction

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}{{ eos_token }}\n"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.mark.parametrize("template", [None, TEMPLATE])
@pytest.mark.parametrize("constrain", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        ContextSettings(max_tokens=500),
        ContextSettings("window", 1, max_tokens=500),
        ContextSettings("window", 9, instructions=False, max_tokens=60),
    ],
    ids=["full", "window", "short"],
)
def test_prompts_and_actions_are_those_of_a_rollout(
    make_policy: Any, template: str | None, constrain: bool, settings: ContextSettings, monkeypatch
):
    policy = make_policy()
    monkeypatch.setattr(policy.tokenizer, "chat_template", template)
    context = make_context(policy, settings)
    sampling = Sampling(max_new_tokens=6)
    task = NumberLine().tasks.train[0]
    with EnvPool(lambda: NumberLine(max_turns=4), 1) as pool:
        spec = EpisodeSpec(task, 3, (0,))
        [played] = collect(policy, pool, [spec], context, sampling, constrain=constrain)
    env = TokenAction(
        NumberLine(max_turns=4),
        policy.tokenizer,
        max_action_tokens=6,
        max_tokens=settings.max_tokens or 0,
        constrain=constrain,
        instructions=settings.instructions,
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
    assert ended != played.extras["overflow"]
    assert rewards == pytest.approx(played.episode_return)
