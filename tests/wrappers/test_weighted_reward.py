from __future__ import annotations

import pytest

from agentgym.errors import ConfigError
from agentgym.wrappers import WeightedReward

from ..helpers.echo import Echo


def test_the_reward_is_the_weighted_sum():
    env = WeightedReward(Echo(invalid_penalty=1.0), {"task": 0.5, "invalid": 2.0})
    _, info = env.reset(seed=0)
    assert info["reward_terms"] == {"task": 0.0, "invalid": 0.0}
    _, reward, _, _, info = env.step("four")
    assert reward == 2.0
    assert info["reward_terms"] == {"task": 2.0, "invalid": 0.0}
    assert env.step("nonsense")[1] == -2.0


def test_terms_not_given_do_not_count():
    env = WeightedReward(Echo(invalid_penalty=1.0), {"task": 1.0})
    env.reset(seed=0)
    _, reward, _, _, info = env.step("nonsense")
    assert str(reward) == "0.0"
    assert str(info["reward_terms"]) == "{'task': 0.0, 'invalid': 0.0}"


def test_the_weights_are_a_mapping():
    with pytest.raises(ConfigError, match="'terms' of WeightedReward is Mapping; got 2"):
        WeightedReward(Echo(), 2)  # type: ignore[arg-type]


def test_an_unknown_term_is_named_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"'taks'\. This environment has \['invalid', 'task'\]"):
        WeightedReward(Echo(), {"taks": 1.0}).reset(seed=0)


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_a_weight_is_finite(weight):
    with pytest.raises(ConfigError, match="weight of 'task' must be finite"):
        WeightedReward(Echo(), {"task": weight})
