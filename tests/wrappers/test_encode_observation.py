from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.wrappers import EncodeObservation
from agentgym.wrappers.encode_observation import CANDIDATE_FEATURES, fits, regions

from ..helpers.echo import Echo
from ..helpers.tokenizers import LATIN

anything = st.text(st.characters(exclude_categories=()), max_size=60)


@given(anything, st.integers(1, 40), st.lists(anything, max_size=4))
def test_any_text_becomes_an_array_of_the_space(text: str, size: int, actions: list[str]):
    env = EncodeObservation(Echo(admissible=tuple(actions)), size=size, max_actions=3)
    ids = EncodeObservation(Echo(), LATIN, size=size)
    for one in (env, ids):
        assert one.reset(seed=0)[0] in one.observation_space
        assert one.step(text)[0] in one.observation_space


def test_the_order_of_words_matters():
    env = EncodeObservation(Echo(), size=128)
    env.reset(seed=0)
    one = env.step("you are at 3, go to 7")[0]
    other = env.step("you are at 7, go to 3")[0]
    assert not np.allclose(one, other)
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)


TASK = "Find red running shoes, size: 9"
PAGE = f"{TASK} [SEP] Back [SEP] b01 [SEP] Blue walking shoes [SEP] b02 [SEP] Red running shoes"
CLICKS = ("click[back]", "click[b01]", "click[b02]", "click[9]", "click[10]")


class Shop(Echo):
    """States its task at reset."""

    def _start(self, task: str) -> Any:
        import dataclasses

        return dataclasses.replace(super()._start(task), text=TASK)


def described(env: EncodeObservation, observation: np.ndarray) -> np.ndarray:
    return observation[env.size :].reshape(env.max_actions, CANDIDATE_FEATURES)


def test_the_features_point_at_the_action_that_fits_the_task():
    env = EncodeObservation(Shop(admissible=CLICKS), size=32, max_actions=8)
    env.reset(seed=0)
    facts = described(env, env.step(PAGE)[0])
    assert facts[:, 0].tolist() == [1] * 5 + [0] * 3
    assert not facts[5:].any()
    size_nine, size_ten = CLICKS.index("click[9]"), CLICKS.index("click[10]")
    assert facts[size_nine, 1] == 1
    assert facts[size_ten, 1] == 0
    best = int(np.argmax(facts[:, 2]))
    assert CLICKS[best] == "click[b02]"
    assert facts[:, 4].tolist() == [float(i == best) for i in range(8)]
    assert not facts[:, 5].any()
    facts = described(env, env.step("click[9]")[0])
    assert facts[:, 5].tolist() == [float(i == 3) for i in range(8)]
    assert not described(env, env.reset(seed=0)[0])[:, 5].any()


def test_the_task_is_remembered_from_the_first_observation():
    env = EncodeObservation(Shop(admissible=("click[9]", "click[10]")), size=8, max_actions=2)
    env.reset(seed=0)
    facts = described(env, env.step("choose a size: 9 10")[0])
    assert facts[:, 1].tolist() == [1, 0]


def test_regions_go_from_one_mention_to_the_next():
    words = "pick a or b : a is red b is blue".split()
    assert regions(words, [["a"], ["b"], ["c"]]) == [{"a", "is", "red"}, {"b", "is", "blue"}, set()]
    assert regions(words, []) == []
    assert regions([], [["a"]]) == [set()]
    assert len(regions(["x", *map(str, range(100))], [["x"]])[0]) == 40


def test_words_that_few_regions_have_count_more():
    found = [{"red", "shoes"}, {"blue", "shoes"}, {"hat"}]
    fit = fits(found, frozenset({"red", "shoes"}))
    assert fit[0] == pytest.approx(1)
    assert 0 < fit[1] < 0.5
    assert fit[2] == 0


def test_token_ids_are_cut_on_the_left_and_padded_on_the_right():
    env = EncodeObservation(Echo(), LATIN, size=5)
    env.reset(seed=0)
    assert LATIN.decode(env.step("abcdefg")[0].tolist()) == "cdefg"
    assert env.step("ab")[0].tolist() == [*LATIN.encode("ab", add_special_tokens=False), 0, 0, 0]


@pytest.mark.parametrize(
    "arguments",
    [("hashed",), ("hashed_words", 0), ("hashed_words", 4, -1), (LATIN, 4, 2)],
)
def test_wrong_arguments_are_refused(arguments: tuple[Any, ...]):
    names = dict(zip(("encoding", "size", "max_actions"), arguments, strict=False))
    with pytest.raises(ConfigError):
        EncodeObservation(NumberLine(), **names)
