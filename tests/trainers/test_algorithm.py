"""The declaration of an algorithm: its signal reads the credit of hooks, or refuses it."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym.trainers import recipes
from agentgym.trainers.algorithm import Algorithm, Imitation, PolicyGradient, Preference
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.returns import ReturnToGo, turn_discount
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn, Pair, from_turns
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.update.learner import ForwardPass

from ..helpers.worlds import trajectory

PLAYED = [trajectory([2, 1], [0.0, 1.0]), trajectory([3], [0.0])]


def forward(*logprobs: float) -> ForwardPass:
    """A pass of a policy whose reference has the log-probability 0 everywhere."""
    found = np.array(logprobs, np.float32)
    return ForwardPass(found, None, np.zeros_like(found), np.zeros_like(found))


def test_weights_of_hooks_are_one_per_turn_or_one_per_token():
    turns = Batch.to_learn(Learn(PLAYED, [1.0, -2.0, 0.5]))
    expected = [1.0, 1.0, -2.0, 0.5, 0.5, 0.5]
    assert PolicyGradient(Given()).assign(turns, None).advantages.tolist() == expected
    tokens = Batch.to_learn(Learn(PLAYED, expected))
    assert PolicyGradient(Given()).assign(tokens, None).advantages.tolist() == expected
    with pytest.raises(ValueError, match=r"Expected 3 weights, one per turn, or 6.*\(4,\)"):
        Batch.to_learn(Learn(PLAYED, [1.0] * 4))


def test_credit_of_hooks_that_the_signal_does_not_read_is_refused():
    weighed = Batch.to_learn(Learn(PLAYED, np.ones(3)))
    paired = Batch.to_learn(Learn(PLAYED, pairs=[Pair(0, 1)]))
    neither = Batch.to_learn(Learn(PLAYED))
    for batch in (weighed, paired):
        with pytest.raises(ValueError, match="the signal of the algorithm reads none"):
            PolicyGradient(ReturnToGo()).assign(batch, None)
    with pytest.raises(ValueError, match="take Preference"):
        Imitation().assign(paired, None)
    with pytest.raises(ValueError, match="gave no weights"):
        PolicyGradient(Given()).assign(neither, None)
    with pytest.raises(ValueError, match="give no pairs"):
        Preference(0.1).assign(neither, forward(*[0.0] * 6))


def test_imitation_weighs_all_tokens_or_those_from_a_turn_on():
    whole = Imitation().assign(Batch.of(PLAYED), None).advantages
    assert whole.tolist() == [1.0] * 6
    part = Imitation().assign(Batch.to_learn(from_turns([(PLAYED[0], 1), (PLAYED[1], 1)])), None)
    assert part.advantages.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]


def test_weights_of_imitation_are_added_to_those_of_preferences():
    signal = Preference(0.5)
    batch = Batch.to_learn(Learn(PLAYED, [2.0, 0.0, 0.0], [Pair(0, 1)]))
    # At equal scores, each of the two trajectories has the weight 2 beta / 2.
    found = signal.assign(batch, forward(*[0.0] * 6)).advantages
    assert found.tolist() == [2.5, 2.5, 0.5, -0.5, -0.5, -0.5]
    alone = Batch.to_learn(Learn(PLAYED, [2.0, 0.0, 0.0]))
    assert signal.assign(alone, forward(*[0.0] * 6)).advantages.tolist() == [2.0, 2.0, 0, 0, 0, 0]


def test_the_policy_that_sampled_is_the_reference_of_its_own_actions():
    batch = Batch.to_learn(Learn(PLAYED, pairs=[Pair(0, 1)]))
    same = Preference(1.0, behaviour=True)
    assert not same.reference and Preference(1.0).reference
    found = same.assign(batch, ForwardPass(batch.logprobs)).metrics
    assert found["pairs"] == 1 and found["preference_accuracy"] == 0  # both scores are 0


@pytest.mark.parametrize("recipe", recipes.names())
def test_rewards_are_shaped_with_the_discount_of_the_estimator(recipe: str):
    module = recipes.load(recipe)
    known = "gamma" in module.Config().as_dict()
    config = module.Config.of(gamma=0.5) if known else module.Config()
    estimator = module.build(config).estimator
    assert turn_discount(estimator) == (0.5 if known and estimator is not None else 1.0)


def test_only_foreign_actions_need_the_log_probabilities_of_training():
    plain, unclipped = TrainConfig(), TrainConfig.of(ratio="none")
    for data in ("own", "foreign", "fixed"):
        algorithm = Algorithm(Imitation(), data=data)
        assert algorithm.recomputes(plain) == (data != "own")
        assert not algorithm.recomputes(unclipped)
    assert Algorithm(Preference(0.1, behaviour=True)).recomputes(unclipped)
