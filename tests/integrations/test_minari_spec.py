"""The environment that a dataset of Minari names. It needs no extra."""

from __future__ import annotations

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agentgym.integrations.minari import spec_of
from agentgym.registration.making import make_env


def test_the_environment_of_a_dataset_has_its_arguments_and_wrappers():
    id, arguments = "AgentGym/NumberLine-v0", {"size": 6, "wrap": ["HistoryObservation:k=2"]}
    spec = spec_of(id, arguments)
    assert spec is not None and gymnasium.registry[id].kwargs == {}
    envs = gymnasium.make(EnvSpec.from_json(spec.to_json())), make_env(id, **arguments)
    first, second = ([env.reset(seed=0)[0], env.step("right")[0]] for env in envs)
    assert first == second and "> right" in first[1]


def test_an_environment_that_is_not_registered_has_no_specification():
    assert spec_of("MyEnv", {}) is None
