"""Conversations of several customers in place of a WebShop instruction."""

from __future__ import annotations

import re

import pytest

from agentgym.envs.webshop.env import WebShop
from agentgym.errors import ConfigError


def lines_of(observation: str) -> list[tuple[str, str]]:
    told = observation.split(" [SEP] ")[2]
    parts = re.split(r"\b(Mia|Noah|Olivia|Paul|Rosa|Sam): ", told)[1:]
    return [(who, text.strip()) for who, text in zip(parts[::2], parts[1::2], strict=True)]


@pytest.mark.parametrize("users", [2, 3, 6])
def test_all_wishes_are_told_and_one_is_corrected_by_another_customer(users: int):
    env = WebShop(users=users)
    for number in range(25):
        observation, info = env.reset(seed=0, options={"task": f"goal/{number}"})
        goal = env.shop.goals[number]
        assert goal.instruction_text not in observation
        lines = lines_of(observation)
        told = " ".join(text for _, text in lines)
        assert len({who for who, _ in lines}) == min(users, len(lines))
        assert all(attribute in told for attribute in goal.attributes) and goal.query in told
        assert isinstance(goal.options, dict)
        assert all(f"{value} as the {name}" in told for name, value in goal.options.items())
        assert f"{goal.price_upper:.2f} dollars" in told
        who, last = lines[-1]
        start = "At most" if last.startswith("Sorry") else "And "
        option = last.removesuffix(", please.").rpartition(" as the ")[2]
        [wrong] = [one for one in lines[:-1] if one[1].startswith(start) and (
            start == "At most" or one[1].endswith(f"as the {option}."))]  # fmt: skip
        assert wrong[0] != who, "nobody corrects itself"
        assert len(info["admissible"]) >= 3


def test_the_instruction_stays_hidden_on_all_pages():
    env = WebShop(users=3)
    env.reset(seed=0, options={"task": "goal/3"})
    instruction, over, reward = env.shop.goals[3].instruction_text, False, 0.0
    while not over:
        observation, reward, over, _, _ = env.step(env.expert() or "")
        assert instruction not in observation
    assert reward > 0


def test_one_user_changes_nothing():
    plain, one = WebShop(), WebShop(users=1)
    assert plain.reset(seed=4) == one.reset(seed=4)


def test_arguments_are_checked():
    for users in (0, 7):
        with pytest.raises(ConfigError, match="users"):
            WebShop(users=users)
