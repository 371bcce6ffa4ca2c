from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core import UnreadableAction
from agentgym.envs.lmrl.buyers import BRANDS, BUDGETS, FEATURES, PERSONALITIES, TYPES, Profile
from agentgym.envs.lmrl.car_dealer import CarDealer
from agentgym.envs.lmrl.haggling import (
    Car,
    agrees,
    claimed,
    offers,
    prices,
    read_offer,
    sale_reward,
    would_pay,
)
from agentgym.reading import NotUnderstood

BUYER = Profile("polite", "Mazda", "sedan", ["heated seats", "sunroof"], 30_000)
CAR = "A Mazda sedan with heated seats and a sunroof"


def env_with(profile: Profile = BUYER, **kwargs: Any) -> CarDealer:
    env = CarDealer(**kwargs)
    env.reset(seed=0)
    env.state.profile = profile
    return env


@pytest.mark.parametrize(
    ("text", "current", "expected"),
    [
        ("It is $32,500.", 0, (0, 32_500)),
        ("for 32.5k", 0, (0, 32_500)),
        ("only 32 thousand dollars", 0, (0, 32_000)),
        ("30000 dollars", 0, (0, 30_000)),
        ("I want 30,000", 0, (0, 30_000)),
        ("a 2023 model with 40 miles", 0, (0, 0)),
        ("MSRP $35,000, for you $32,500", 0, (35_000, 32_500)),
        ("The sticker says $35,000", 0, (35_000, 35_000)),
        ("$2,000 off", 30_000, (0, 28_000)),
        ("I can take $1,500 off", 30_000, (0, 28_500)),
        ("a discount of $1,000", 30_000, (0, 29_000)),
        ("seats 5, gets 40 mpg", 0, (0, 0)),
        ("$" + "9" * 500, 0, (0, 0)),
        ("", 0, (0, 0)),
    ],
)
def test_prices(text: str, current: int, expected: tuple[int, int]):
    assert prices(text, current) == expected


def test_claims_and_denials():
    assert claimed("It has a sunroof but no backup camera", FEATURES) == ["sunroof"]
    assert claimed("heated seats, Apple carplay", FEATURES) == ["heated seats", "Apple CarPlay"]
    assert claimed("It does not have leather seats", FEATURES) == []
    assert claimed("a used bmw", BRANDS) == ["BMW"]
    assert claimed("an electric SUV", TYPES) == ["electric", "SUV"]


def test_the_first_price_of_a_car_is_its_list_price():
    car = read_offer(Car(), "A Mazda sedan for $30,000")
    car = read_offer(car, "$28,000 then")
    assert (car.msrp, car.price) == (30_000, 28_000)
    other = read_offer(car, "I have a cheaper one for $20,000")
    assert (other.msrp, other.price, other.brand) == (20_000, 20_000, "Mazda")
    assert read_offer(car, "This Ford sedan is $25,000").msrp == 25_000


def test_what_a_buyer_would_pay():
    right = Car("Mazda", "sedan", ["heated seats", "sunroof"], 40_000, 40_000)
    assert would_pay(BUYER, right) == 30_000
    assert would_pay(BUYER, Car("Ford", "sedan", [], 40_000, 40_000)) == 22_500
    assert would_pay(BUYER, Car("Mazda", "sedan", right.features, 25_000, 25_000)) == 25_000
    for personality in PERSONALITIES:
        buyer = Profile(personality, "Mazda", "sedan", [], 30_000)
        made = [offers(buyer, right, rounds) for rounds in range(12)]
        assert made == sorted(made) and made[0] < made[-1] <= 30_000


@pytest.mark.parametrize(
    ("kind", "budget", "msrp", "paid", "expected"),
    [
        ("fancy", 30_000, 50_000, 20_000, 0.5),
        ("fancy", 30_000, 20_000, 0, -0.5),
        ("fancy", 30_000, 40_000, 0, 0.25),
        ("fancy", 30_000, 0, 0, 0.0),
        ("revenue", 30_000, 50_000, 20_000, 20.0),
        ("revenue", 30_000, 50_000, 0, 0.0),
        ("share", 30_000, 50_000, 24_000, 0.8),
        ("share", 30_000, 20_000, 0, 0.0),
    ],
)
def test_rewards(kind: str, budget: int, msrp: int, paid: int, expected: float):
    assert sale_reward(kind, budget, msrp, paid) == expected


def test_a_sale_at_a_price_the_buyer_likes():
    env = env_with()
    result = env.step(f"{CAR} for $25,000.")
    assert result[2] is False and env.state.act == "counter"
    offer = env.state.offer
    assert offer == offers(BUYER, env.state.car, 0) and f"${offer:,}" in result[0]
    _, reward, terminated, _, info = env.step(f"All right, {offer} dollars.")
    assert terminated and info["success"] and info["progress"] == 1
    assert reward == pytest.approx(offer / (0.5 * (30_000 + 25_000)))


def test_taking_the_buyers_offer():
    env = env_with(reward="revenue")
    env.step(f"{CAR} for $30,000.")
    for said in ("That is a great deal for you!", "I can't agree.", "No deal at $29,000."):
        assert not env.step(said)[2]
    offer = env.state.offer
    _, reward, terminated, _, _ = env.step("Deal!")
    assert terminated and reward == offer / 1000


@pytest.mark.parametrize(
    ("line", "agreed"),
    [("Deal.", True), ("Great, deal!", True), ("You have a deal at $25,000.", True),
     ("Sold!", True),
     ("I accept your offer.", True), ("I\u2019ll accept that.", True), ("That works for me.", True),
     ("Okay, $25,000 it is.", True), ("You win.", True), ("Agreed at $25,000.", True),
     ("Great deal for you!", False), ("I agree it is a nice car.", False), ("No deal.", False),
     ("I accept that you want a BMW, but the price stays.", False), ("Is it a deal?", False),
     ("Sold twenty of them this week.", False), ("Agreed that it is a nice car.", False),
     ("If you add $500, we have a deal.", False)],
)  # fmt: skip
def test_only_an_agreement_accepts_the_buyers_offer(line: str, agreed: bool):
    assert agrees(line) == agreed


def test_a_buyer_without_patience_left_leaves():
    env = env_with(Profile("toxic", "Mazda", "sedan", ["sunroof"], 30_000))
    for _ in range(4):
        assert not env.step("A Mazda sedan with sunroof for $50,000, take it or leave it.")[2]
    _, reward, terminated, _, info = env.step("A Mazda sedan with sunroof for $50,000.")
    assert terminated and not info["success"]
    assert reward == pytest.approx(-(30_000 - 50_000) / 50_000)


def test_an_absurd_price_is_not_the_list_price():
    env = env_with()
    observation = env.step(f"{CAR} for $61,000.")[0]
    assert env.state.act == "absurd" and env.state.car.msrp == 0 and "$61,000" in observation
    env.step("$30,000 then")
    assert env.state.car.msrp == 30_000


def test_the_buyer_asks_for_what_has_not_been_said_once():
    env = env_with()
    acts = []
    for _ in range(4):
        env.step("It costs $30,000.")
        acts.append(env.state.act)
    assert acts == ["ask_brand", "ask_type", "ask_features", "counter"]
    assert env.state.offer < 0.6 * 30_000


def test_questions_are_answered_by_temper():
    for name, person in PERSONALITIES.items():
        env = env_with(Profile(name, "Mazda", "sedan", ["sunroof"], 50_000))
        observation = env.step("What is your budget?")[0]
        said = f"${int(50_000 * person.admits):,}"
        assert (said in observation) == bool(person.admits)
        assert env.state.told == ["budget" if person.admits else "secret"]
        env.step("Which brand, type and features do you want?")
        count = 1 if person.volunteers == 0 else 3
        assert len(env.state.told) == 1 + count


def test_fifty_utterances_at_most():
    env = env_with(Profile("talkative", "Mazda", "sedan", ["sunroof"], 30_000), max_utterances=6)
    env.step("Which car would you like?")
    env.step("A Mazda sedan with a sunroof for $40,000.")
    observation, reward, terminated, truncated, info = env.step("It is a nice car.")
    assert terminated and not truncated and not info["success"]
    assert observation.count("\n") == 6
    assert reward == pytest.approx(-(30_000 - 40_000) / 40_000)


@pytest.mark.parametrize("action", ["", " \n", "x" * 10_000, UnreadableAction("A Mazda")])
def test_what_cannot_be_understood(action: str):
    env = env_with()
    observation, reward, terminated, _, info = env.step(action)
    assert not info["valid"] and reward == 0 and not terminated
    assert env.state.act == "unclear" and len(observation) < 400


def test_chatter_alone_sells_nothing():
    env = env_with()
    turns = 0
    while True:
        _, reward, terminated, _, info = env.step("Nice weather today.")
        turns += 1
        if terminated:
            break
    assert turns == PERSONALITIES["polite"].patience + 2
    assert reward == 0 and not info["success"]


def test_profiles_are_drawn_from_everything():
    env = CarDealer()
    seen: dict[str, set[Any]] = {
        "personality": set(),
        "brand": set(),
        "type": set(),
        "budget": set(),
    }
    wishes = set()
    for number in range(300):
        env.reset(options={"task": f"train/{number}"})
        for name, values in seen.items():
            values.add(getattr(env.state.profile, name))
        wishes.add(len(env.state.profile.features))
    assert [len(values) for values in seen.values()] == [10, 13, 6, 5]
    assert seen["budget"] == set(BUDGETS) and wishes == {1, 2, 3, 4}


def test_the_expert_sells():
    env = CarDealer(split="test")
    rewards = []
    for seed in range(100):
        env.reset(seed=seed)
        for _ in range(25):
            _, reward, terminated, _, info = env.step(env.expert() or "")
            if terminated:
                rewards.append(reward)
                assert info["success"]
                break
    assert len(rewards) == 100 and np.mean(rewards) > 0.85


@given(st.text(max_size=200), st.integers(0, 100_000))
def test_any_text_is_survived(text: str, current: int):
    with contextlib.suppress(NotUnderstood):  # such as "1k" for a car of $30,000
        msrp, price = prices(text, current)
        assert 0 <= msrp < 10**6 and 0 <= price < 10**6
    with contextlib.suppress(NotUnderstood):
        read_offer(Car(), text)


@pytest.mark.parametrize("kwargs", [{"reward": "fanzy"}, {"max_utterances": 7}])
def test_bad_arguments(kwargs: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        CarDealer(**kwargs)


def test_no_buyer_is_in_both_splits():
    found, env = {"train": set(), "test": set()}, CarDealer()
    for split, seen in found.items():
        for number in range(1500):
            env.reset(seed=0, options={"task": f"{split}/{number}"})
            seen.add(repr(env.state.profile))
    assert not found["train"] & found["test"]
