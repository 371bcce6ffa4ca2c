"""The price in a car dealer's line, among other amounts."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.lmrl.buyers import BRANDS, FEATURES, TYPES, Profile
from agentgym.envs.lmrl.car_dealer import CarDealer
from agentgym.envs.lmrl.haggling import agrees, claimed
from agentgym.envs.lmrl.price_talk import prices
from agentgym.reading import NotUnderstood

NOW = 30_000
BUYER = Profile("polite", "Mazda", "sedan", ["sunroof"], 30_000)
CAR = "A Mazda sedan with a sunroof"


@pytest.mark.parametrize(
    ("line", "price"),
    [
        ("$28,000, including a $1,500 extended warranty", 28_000),
        ("$28,000 with a $2,000 down payment", 28_000),
        ("$28,000 plus a $500 delivery fee", 28_000),
        ("just $2,000 down and $28,000 in total", 28_000),
        ("28k", 28_000),
        ("It's 28 thousand", 28_000),
        ("twenty-eight thousand dollars", 28_000),
        ("$\uff12\uff18\uff0c\uff10\uff10\uff10", 28_000),
        ("You offered $25,000, but I need $28,000.", 28_000),
        ("Your offer of $25,000 is too low. I can do $28,000.", 28_000),
        ("I cannot go below $28,000.", 28_000),
        ("It has 40,000 miles and costs $28,000", 28_000),
        ("It was $35,000, now $28,000", 28_000),
        ("not $27,000 but $28,000", 28_000),
        ("The price is $28,000 and the warranty costs $1,500.", 28_000),
        ("10% off", 27_000),
        ("I could lower it by $2,000", 28_000),
        ("$30,000 with $2,000 off", 28_000),
        ("reduced from $30,000 to $28,000", 28_000),
        (
            "Thank you, but at $25,000 would be a loss for me. How about $28,000? It is fair.",
            28_000,
        ),
        ("Selling it at $25,000 would mean a loss. Let us say $28,000.", 28_000),
        ("$25,000 would leave me with no profit, so $28,000 it is.", 28_000),
        ("$25,000? You must be joking! I am generous enough in asking $28,000.", 28_000),
        ("$28,000 would be a steal.", 28_000),
        ("$28,000?", 28_000),
        ("I was thinking more along the lines of $28,000.", 28_000),
        ("I was hoping for $28,000, as it is hardly used.", 28_000),
        ("$24,000 is a bit below its value. I was thinking around $28,000.", 28_000),
        ("I see why you'd think $25,000 is fair, but I was thinking of $28,000.", 28_000),
        ("I see that you would like to get it for $25,000. How about $28,000?", 28_000),
        ("I've already gone down to $29,000, and I think $28,000 is fair.", 28_000),
        ("I can do $28,000, which is close to my target price of $30,000.", 28_000),
        ("My target price is $28,000.", 28_000),
        ("The listed price is $30,000, but I can offer you a deal of $28,000.", 28_000),
        ("Normally I ask $30,000, but I can let it go for $28,000.", 28_000),
    ],
)
def test_the_price_is_the_amount_that_is_called_the_price(line: str, price: int):
    assert prices(line, NOW)[1] == price


@pytest.mark.parametrize(
    "line",
    [
        "Only $2,000 down.",
        "$3,000 deposit",
        "$450 a month for 60 months",
        "monthly payments of $1,450",
        "60 months at $600",
        "The car comes with a $1,500 warranty.",
        "I'll throw in a $900 accessory package.",
        "I can't accept $25,000.",
        "Is $28,000 your budget?",
        "I paid $27,000 for it myself",
        "Another customer offered $29,000",
        "the trade-in value is $4,000",
        "a 2023 model with 40,000 miles",
        "3.9% interest",
    ],
)
def test_another_amount_is_no_price(line: str):
    assert prices(line, NOW) == (0, 0)


@pytest.mark.parametrize(
    ("line", "current"),
    [
        ("$28,000 or $29,000", NOW),
        ("between $28,000 and $29,000", NOW),
        ("a Mazda for $30,000 and a Ford for $25,000", 0),
        ("$2,000 off", 0),
        ("$29,000 with $2,000 off", NOW),
        ("-$28,000", NOW),
        ("\u2212$28,000", NOW),
        ("\u20ac28,000", NOW),
        ("$2,500", NOW),
    ],
)
def test_unclear_prices_are_not_understood(line: str, current: int):
    with pytest.raises(NotUnderstood):
        prices(line, current)


def env_with_offer() -> CarDealer:
    env = CarDealer()
    env.reset(seed=0)
    env.state.profile = BUYER
    env.step(f"{CAR} for $30,000.")
    assert env.state.offer
    return env


def test_one_of_two_offers_is_never_taken():
    for line in (
        "I can do $27,000, but as it is clean, let's say $28,000.",
        "I can do $27,000 but it is clean, so I propose $28,000.",
        "I can do $27,000 or make it $28,000.",
    ):
        with pytest.raises(NotUnderstood):
            prices(line, NOW)


def test_the_buyer_asks_for_an_unclear_price():
    env = env_with_offer()
    offer = env.state.offer
    env.step("$28,000 or $29,000, as you like.")
    assert env.state.act == "ask_price"
    assert (env.state.car.price, env.state.offer) == (30_000, offer)


@pytest.mark.parametrize(
    "line", ["{car} for $28,000, including a $1,500 warranty.", "{car}, $28,000. Only $2,000 down!"]
)
def test_a_car_is_not_sold_for_the_price_of_a_part(line: str):
    env = CarDealer()
    env.reset(seed=0)
    env.state.profile = BUYER
    env.step(line.format(car=CAR))
    assert env.state.car.price == 28_000 and not env.state.sold


@pytest.mark.parametrize(
    ("line", "accepts"),
    [
        ("Deal!", True),
        ("All right, you have a deal.", True),
        ("Sold.", True),
        ("I accept your offer.", True),
        ("$21,000 it is, deal.", True),
        ("It\u2019s a deal", True),
        ("Deal?", False),
        ("No deal.", False),
        ("I can\u2019t agree.", False),
        ("Deal if you add $500.", False),
        ("We don't have a deal yet.", False),
        ("This is a great deal for you.", False),
        ("Let me tell you about this deal.", False),
        ('You said "deal".', False),
    ],
)
def test_an_acceptance_is_said_without_a_condition(line: str, accepts: bool):
    assert agrees(line) == accepts


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("It has heated seats and a sunroof", ["heated seats", "sunroof"]),
        ("It has a sunroof and no backup camera", ["sunroof"]),
        ("The sunroof isn\u2019t included", []),
        ("Do you want a sunroof?", []),
        ("If you want a sunroof, it costs more", []),
        ("How about one with a sunroof?", ["sunroof"]),
        ("It comes without leather seats", []),
    ],
)
def test_features_that_a_line_claims(line: str, names: list[str]):
    assert claimed(line, FEATURES) == names


def test_another_brand_in_a_comparison_is_not_the_cars():
    assert claimed("Unlike a BMW, this Mazda is cheap", BRANDS) in ([], ["Mazda"])
    assert claimed("Which brand do you prefer, a Ford or a Tesla?", BRANDS) == []


@given(
    st.integers(20_000, 40_000),
    st.integers(500, 5_000),
    st.sampled_from(
        [
            "{price} with a {part} warranty",
            "{price}, plus a {part} delivery fee",
            "only {part} down and {price} in total",
            "monthly payments of {part}, {price} in total",
            "the price is {price}, the floor mats worth {part} are a gift",
        ]
    ),
    st.sampled_from(["${:,}", "{} dollars", "USD {:,}", "$\u00a0{:,}"]),
)
def test_a_part_is_never_the_price(price: int, part: int, line: str, form: str):
    text = line.format(price=form.format(price), part=form.format(part))
    with contextlib.suppress(NotUnderstood):
        assert prices(text, NOW)[1] in (price, 0)


@given(st.text(max_size=200), st.integers(0, 100_000))
def test_any_line_is_survived(text: str, current: int):
    try:
        msrp, price = prices(text, current)
    except NotUnderstood:
        return
    assert 0 <= msrp < 10**6 and 0 <= price < 10**6


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("a VW SUV", {"Volkswagen", "SUV"}),
        ("a Mercedes with CarPlay", {"Mercedes-Benz", "Apple CarPlay"}),
        ("a Mercedes\u2011Benz sedan", {"Mercedes-Benz", "sedan"}),
        ("a Tesla EV", {"Tesla", "electric"}),
        ("a Ford pick-up", {"Ford", "truck"}),
        ("a back-up camera and a nav system", {"backup camera", "navigation system"}),
        ("heated leather seats", {"heated seats", "leather seats"}),
        ("third row seating and blind-spot monitoring", {FEATURES[4], FEATURES[5]}),
        (
            "3rd-row seats, a leather interior, Apple Car Play",
            {FEATURES[4], FEATURES[3], FEATURES[7]},
        ),
        ("electric windows and a leather steering wheel", set()),
        ("a sedan with electric seats", {"sedan"}),
        ("no VW, no rear-view camera", set()),
        ("the evening, a benzine smell, a GPSX", set()),
    ],
)
def test_usual_names_are_claims_as_well(line: str, names: set[str]):
    assert {*claimed(f"It is {line}.", (*BRANDS, *TYPES, *FEATURES))} == names


@pytest.mark.parametrize(
    "line",
    [
        "$28,500 (MSRP $32,000)", "$28,500 (MSRP: $32,000).", "$28,500, MSRP 32,000",
        "$28,500 (list price $32,000)",
    ],
)  # fmt: skip
def test_a_list_price_may_follow_in_parentheses(line: str):
    assert prices(f"The Toyota sedan is yours for {line}", 0) == (32_000, 28_500)
    assert prices("It is $32,000 MSRP.", 0) == (32_000, 32_000)


@pytest.mark.parametrize(
    "form", ["{}", "**{}**", "Dealer: {}", '"{}"', "**Dealer:** {}", "\u201c{}\u201d"]
)
@pytest.mark.parametrize(
    ("line", "agreed"),
    [
        ("Deal.", True),
        ("Let's do it!", True),
        ("I'm happy to accept your offer of $20,000.", True),
        ("Let's close the deal at $20,000.", True),
        ("I'm happy to accept more.", False),
        ("I'm not happy to accept your offer.", False),
        ("Let's not do it.", False),
    ],
)
def test_an_agreement_may_have_marks_and_a_speaker(line: str, agreed: bool, form: str):
    env = CarDealer()
    env.reset(seed=0)
    env.state.profile, env.state.offer = BUYER, 20_000
    env.state.car.price = env.state.car.msrp = NOW
    text = env.step(form.format(line))[0]
    assert bool(env.state.sold) == agreed
    assert f"Dealer: {line}" in text
