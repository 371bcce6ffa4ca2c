"""The buyers of CarDealer: their profiles, bargaining parameters and sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BRANDS = (
    *("Volkswagen", "Lexus", "Ford", "Mazda", "Hyundai", "Toyota", "Mercedes-Benz", "BMW"),
    *("Audi", "Subaru", "Honda", "Porsche", "Tesla"),
)
TYPES = ("luxury", "sedan", "convertible", "truck", "electric", "SUV")
FEATURES = (
    *("backup camera", "navigation system", "heated seats", "leather seats"),
    *("third-row seating", "blind spot monitoring", "sunroof", "Apple CarPlay"),
)
COUNTABLE = ("backup camera", "navigation system", "sunroof")
"""Features that take an article."""
BUDGETS = (10_000, 30_000, 50_000, 70_000, 90_000)


@dataclass(frozen=True)
class Personality:
    """A buyer's style of bargaining and talking.

    Attributes:
        opening: the first offer, as a share of the maximum price.
        concession: the share of the remaining gap that is conceded each round.
        patience: rounds of bargaining, or consecutive turns without a price, before the buyer
            leaves.
        volunteers: number of wishes (brand, type, features) that are stated without a question.
        admits: the share of the budget that is admitted when asked. 0 for a refusal.
        before: sentences before an utterance, one sampled each time. "" for none.
        after: sentences after an utterance, likewise.
    """

    opening: float
    concession: float
    patience: int
    volunteers: int
    admits: float
    before: tuple[str, ...]
    after: tuple[str, ...]


PERSONALITIES: dict[str, Personality] = {
    "abusive": Personality(
        *(0.65, 0.22, 6, 1, 0.0),
        ("Listen, you clown.", "Are you deaf?", "What a useless dealer you are."),
        ("", "Got that into your head?", "Or is that too hard for you?"),
    ),
    "angry": Personality(
        *(0.70, 0.25, 6, 1, 0.85),
        ("I have had enough today!", "Unbelievable!", "Do not waste my time!"),
        ("", "I mean it!", "And hurry up!"),
    ),
    "insulting": Personality(
        *(0.65, 0.25, 6, 1, 0.0),
        ("You hardly look like you know cars.", "A child would do your job better.", "Pathetic."),
        ("", "Even you should manage that.", "Try to follow."),
    ),
    "polite": Personality(
        *(0.85, 0.40, 9, 2, 1.0),
        ("Thank you.", "Thank you for your time.", "That is kind of you."),
        ("", "I would be grateful.", "Please let me know what you think."),
    ),
    "respectful": Personality(
        *(0.82, 0.38, 9, 2, 1.0),
        ("I appreciate your advice.", "I respect your expertise.", "I understand."),
        ("", "What would you suggest?", "I value your opinion."),
    ),
    "rude": Personality(
        *(0.70, 0.25, 6, 1, 0.85),
        ("Yeah, whatever.", "Cut the chatter.", "Look."),
        ("", "Get on with it.", "That is all you need to know."),
    ),
    "sarcastic": Personality(
        *(0.72, 0.28, 7, 1, 0.85),
        ("Oh, wonderful.", "What a surprise.", "How generous of you."),
        ("", "I can hardly contain my excitement.", "Take your time, I have all year."),
    ),
    "talkative": Personality(
        *(0.80, 0.35, 10, 3, 1.0),
        (
            "My neighbor bought one last year and never stops talking about it.",
            "You know, my brother told me to come here.",
            "It reminds me of the car my father used to drive.",
        ),
        ("", "But I could talk about cars all day.", "Do you drive one yourself?"),
    ),
    "toxic": Personality(
        *(0.62, 0.20, 5, 1, 0.0),
        ("People like you make me sick.", "Every dealer is a liar.", "I expected nothing better."),
        ("", "Do not try your tricks on me.", "I will tell everybody about this place."),
    ),
    "uncommunicative": Personality(
        *(0.78, 0.30, 7, 0, 0.85), ("Hm.", "Well.", ""), ("", "That is it.", "")
    ),
}


@dataclass
class Profile:
    """A buyer: personality, the car wanted, and the budget in dollars."""

    personality: str
    brand: str
    type: str
    features: list[str]
    budget: int


def draw_profile(rng: np.random.Generator) -> Profile:
    """Samples a buyer uniformly, with one to four features wanted."""
    count = int(rng.integers(1, 5))
    wishes = sorted(int(i) for i in rng.choice(len(FEATURES), size=count, replace=False))
    return Profile(
        personality=tuple(PERSONALITIES)[int(rng.integers(len(PERSONALITIES)))],
        brand=BRANDS[int(rng.integers(len(BRANDS)))],
        type=TYPES[int(rng.integers(len(TYPES)))],
        features=[FEATURES[i] for i in wishes],
        budget=BUDGETS[int(rng.integers(len(BUDGETS)))],
    )


SAYINGS: dict[str, tuple[str, ...]] = {
    "look": ("I am looking for a car.", "I need a car."),
    "brand": ("It should be a {brand}.", "I want a {brand}."),
    "type": ("I am after {type}.", "I would like {type}."),
    "features": ("It needs {features}.", "I want it with {features}."),
    "budget": ("I can spend about ${budget:,}.", "My budget is about ${budget:,}."),
    "secret": ("My budget is my own business.", "I will not tell you how much I can spend."),
    "ask_brand": ("Which brand is it?", "What brand is it?"),
    "ask_type": ("Is it {type}?", "What type of car is it?"),
    "ask_features": ("Does it have {features}?", "What about {features}?"),
    "ask_price": ("So what does it cost?", "What is your price for a car like that?"),
    "absurd": (
        "${price:,}? That is not even close to what I could pay.",
        "${price:,} is out of the question. Show me something far cheaper.",
    ),
    "over": (
        "${price:,} is over my budget. I could offer ${offer:,}.",
        "I cannot spend ${price:,}. How about ${offer:,}?",
    ),
    "counter": (
        "${price:,} is too much. I offer ${offer:,}.",
        "I would pay ${offer:,} for it.",
    ),
    "unclear": ("I did not catch that.", "What do you mean?"),
    "accept": ("All right, I will take it for ${price:,}.", "Deal. ${price:,} it is."),
    "leave": ("No. I am leaving.", "That is enough. I will look elsewhere."),
}


def a(words: str) -> str:
    """Returns "a sedan", "an SUV", "a luxury car"."""
    noun = words if words in ("sedan", "convertible", "truck", "SUV") else f"{words} car"
    return f"{'an' if noun[0] in 'aeiouS' and noun != 'sedan' else 'a'} {noun}"


def feature(name: str) -> str:
    """Returns "a sunroof", "heated seats"."""
    return f"a {name}" if name in COUNTABLE else name


def listed(parts: list[str]) -> str:
    """Returns "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
