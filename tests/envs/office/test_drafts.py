"""Drafts: edit distances by hand, costs, hidden wishes, the expert."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.office.drafts import Drafts, Message, distance, versions
from agentgym.errors import ConfigError


def test_distances_by_hand():
    pairs = [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("abc", "", 3), ("ab", "ba", 2)]
    assert [distance(one, other) for one, other, _ in pairs] == [steps for *_, steps in pairs]


@settings(deadline=None, max_examples=60)
@given(st.text("abcd", max_size=90), st.text("abcd", max_size=90))
def test_distances_equal_those_of_the_whole_table(one: str, other: str):
    row = list(range(len(other) + 1))
    for count, letter in enumerate(one, 1):
        diagonal, row[0] = row[0], count
        for j, against in enumerate(other, 1):
            best = min(row[j] + 1, row[j - 1] + 1, diagonal + (letter != against))
            diagonal, row[j] = row[j], best
    assert distance(one, other) == row[-1]


@settings(deadline=None, max_examples=60)
@given(st.text("abc", max_size=8), st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_distances_are_a_metric(a: str, b: str, c: str):
    assert distance(a, b) == distance(b, a) <= max(len(a), len(b))
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, c) <= distance(a, b) + distance(b, c)


def test_a_message_in_three_styles():
    message = Message("Olga", "friend", 1, 5, 3)
    found = versions(message)
    assert len(found) == len({*found.values()}) == 27
    assert found[0, 0, 0] == "Dear Olga, We meet on 3 May. Best regards"
    assert found[1, 1, 2] == "Hi Olga, We meet on May 3. Cheers"
    assert found[2, 2, 1] == "Olga, We meet on 2026-05-03. Thanks"


def test_the_expert_is_edited_once_per_relation_at_most():
    for number in range(30):
        env = Drafts(relations=3)
        env.reset(seed=0, options={"task": f"test/{number}"})
        over, info = False, {}
        while not over:
            *_, over, _, info = env.step(env.expert() or "")
        assert info["success"] and sum(cost > 0 for cost in env.state.costs) <= 3


def test_any_text_is_a_draft_and_is_charged():
    env = Drafts(messages=2)
    _, info = env.reset(seed=0)
    assert len(info["admissible"]) == 27
    text, reward, over, _, info = env.step("nonsense")
    assert 0 <= reward < 0.25 and info["valid"] and "The user edited your draft." in text
    assert env.state.sent[0] in text
    *_, info = env.step("  ")
    assert not info["valid"] and not over
    message = env.state.messages[1]
    final = versions(message)[env.state.wishes[message.relation]]
    text, reward, over, *_ = env.step(f" {final}\n")
    assert reward == pytest.approx(0.5) and over and "as it is" in text


def test_wishes_are_hidden_until_a_message_is_sent():
    env = Drafts()
    text, _ = env.reset(seed=0)
    for relation in env.state.wishes:
        env.state.wishes[relation] = (2, 2, 2)
    assert env._look().text == text


def test_arguments_are_checked():
    for wrong in ({"messages": 0}, {"relations": 5}):
        with pytest.raises(ConfigError):
            Drafts(**wrong)
