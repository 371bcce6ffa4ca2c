"""The tests of credit functions: right ones pass, each planted flaw is found by its check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agentgym.testing import (
    CHECKS,
    CreditError,
    Episodes,
    check_credit,
    credit_quality,
    random_episodes,
)


def gae(episodes: Episodes, lambda_: float = 0.9, gamma: float = 1.0) -> Any:
    """GAE over action tokens with the lambda and the discount of turns, and 1 inside of them."""
    found = np.zeros(episodes.actions.shape)
    for n, actions in enumerate(episodes.actions):
        following, later, turn = episodes.bootstrap[n], 0.0, None
        for i in np.flatnonzero(actions)[::-1]:
            ends = episodes.turns[n, i] != turn
            turn, weight = episodes.turns[n, i], gamma if ends else 1.0
            delta = episodes.rewards[n, i] + weight * following - episodes.values[n, i]
            later = delta + weight * (lambda_ if ends else 1.0) * later
            following, found[n, i] = episodes.values[n, i], later
    return found


def returns(episodes: Episodes) -> Any:
    return episodes.rewards.sum(1)


def spread(episodes: Episodes, per_episode: Any) -> Any:
    return np.where(episodes.actions, np.asarray(per_episode)[:, None], 0.0)


def left_out(episodes: Episodes) -> Any:
    """The return, without the mean of the other episodes of the group (RLOO)."""
    same = episodes.groups[:, None] == episodes.groups
    count = same.sum(1)
    mean = (same @ returns(episodes) - returns(episodes)) / np.maximum(count - 1, 1)
    return spread(episodes, returns(episodes) - np.where(count > 1, mean, 0.0))


def over_padding(episodes: Episodes) -> Any:
    return left_out(episodes) / episodes.actions.shape[1]


def over_observations(episodes: Episodes) -> Any:
    """Counts the tokens between actions, but not those before the first and after the last."""
    first = episodes.actions.argmax(1)
    last = episodes.actions.shape[1] - episodes.actions[:, ::-1].argmax(1)
    return spread(episodes, returns(episodes) / (last - first))


def by_place(episodes: Episodes) -> Any:
    """The baseline is the episode before it in its group."""
    found = returns(episodes)
    for n in range(1, len(found)):
        if episodes.groups[n] == episodes.groups[n - 1]:
            found[n] -= returns(episodes)[n - 1]
    return spread(episodes, found)


def of_the_batch(episodes: Episodes) -> Any:
    return spread(episodes, returns(episodes) - returns(episodes).mean())


def by_role(episodes: Episodes) -> Any:
    return spread(episodes, returns(episodes) * (1 + episodes.roles))


@pytest.mark.parametrize("credit", [gae, left_out])
def test_right_functions_pass(credit: Any):
    check_credit(credit)


@pytest.mark.parametrize(
    ("credit", "found"),
    [
        (over_padding, {"padding", "observation tokens"}),
        (over_observations, {"observation tokens"}),
        (by_place, {"order"}),
        (of_the_batch, {"microbatches"}),
        (by_role, {"names of roles and groups"}),
    ],
)
def test_a_flaw_is_found_by_its_check(credit: Any, found: set[str]):
    with pytest.raises(CreditError) as error:
        check_credit(credit)
    assert {name for name in CHECKS if name in str(error.value)} == found
    check_credit(credit, leave_out=found)


def test_wrong_shapes_missing_numbers_and_written_inputs_are_errors():
    with pytest.raises(CreditError, match="of shape"):
        check_credit(returns)
    with pytest.raises(CreditError, match="finite"):
        check_credit(lambda episodes: np.full(episodes.actions.shape, np.nan))
    with pytest.raises(CreditError, match="writes into rewards"):
        check_credit(lambda episodes: np.multiply(episodes.rewards, 2, out=episodes.rewards))
    with pytest.raises(ValueError, match=r"names of CHECKS.*'shape'"):
        check_credit(gae, leave_out=["shape"])
    with pytest.raises(ValueError, match="whole groups of 8"):
        credit_quality(gae, episodes=12)


def test_random_episodes_are_what_their_docstring_says():
    for seed in range(20):
        episodes = random_episodes(np.random.default_rng(seed))
        inside = episodes.actions
        assert not episodes.rewards[~inside].any() and not episodes.values[~inside].any()
        assert (episodes.turns >= 0).tolist() == inside.tolist()
        ends = np.diff(episodes.turns, axis=1, append=-1) != 0
        assert (episodes.rewards != 0).tolist() == (ends & inside).tolist()


def test_exact_values_give_no_bias_and_a_missing_reward_does():
    exact = credit_quality(gae)
    assert exact.bias_over_noise < 1.2 and exact.turn_bias_over_noise < 1.2
    assert exact.cosine > 0.99

    def without_the_last(episodes: Episodes) -> Any:
        rewards = np.where(episodes.turns == 2, 0.0, episodes.rewards)
        return gae(replace(episodes, rewards=rewards))

    wrong = credit_quality(without_the_last)
    assert wrong.turn_bias_over_noise > 3 and wrong.turn_bias > 0.3


def test_a_group_baseline_is_noisier_than_exact_values_and_a_lambda_of_zero_has_no_noise():
    quiet, loud = credit_quality(gae), credit_quality(left_out)
    assert loud.noise > 1.3 * quiet.noise
    assert credit_quality(lambda episodes: gae(episodes, 0.0)).noise < quiet.noise


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_values_are_exact_with_discounts(gamma: float):
    found = credit_quality(lambda episodes: gae(episodes, gamma=gamma), gamma=gamma)
    assert found.bias_over_noise < 1.2 and found.turn_bias_over_noise < 1.2
    assert credit_quality(gae, gamma=0.5).turn_bias_over_noise > 2  # as if there were none
