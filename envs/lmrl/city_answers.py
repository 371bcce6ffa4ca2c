"""Factual answers to questions about cities: yes, no, or a sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np

from agentgym.envs.lmrl.cities import City, cities, countries
from agentgym.envs.lmrl.city_questions import FILLERS, rows
from agentgym.envs.lmrl.oracle import NO, YES
from agentgym.envs.lmrl.phrases import Lexicon, words
from agentgym.reading import find_numbers, normalized

MASKED = "I cannot answer that question."
IS = "="
"""Prefix of the meaning "is the city of this number"."""
PREPOSITIONS = "near than like between with by to".split()
OPENERS = frozenset("what which where how who describe tell name whats wheres".split())
CLIMATE = (
    *(
        "tropical",
        "subtropical",
        "mediterranean_climate",
        "arid",
        "temperate",
        "continental",
        "mild",
    ),
    *("hot", "humid", "cold", "snow", "rainy", "monsoon", "fog"),
)
CLIMATE_WORDS = {
    "snow": "snowy",
    "fog": "foggy",
    "arid": "dry",
    "monsoon": "wet in the monsoon",
} | {"mediterranean_climate": "mediterranean"}
SIDES = ("north", "south", "east", "west", "central")
PLAIN = frozenset(
    "capital not_capital largest second big any water warm worship inland coast island northwest "
    "northeast southwest southeast northern_hemisphere southern_hemisphere eastern_hemisphere "
    "western_hemisphere near_equator altitude city_state hills flat river lake bay lagoon "
    "state_capital former_capital nightlife modern".split()
)
"""Traits, besides climate and side, that no city is known for."""


def title(name: str) -> str:
    """Returns a name with capitals: "Rio de Janeiro"."""
    small = {"de", "of", "the", "and"}
    return " ".join(w if w in small else w[:1].upper() + w[1:] for w in name.split())


def home(country: str) -> str:
    """Returns a country's name as used after "in", with an article if it needs one."""
    plural = ("united", "netherlands", "philippines", "czech republic")
    return ("the " if country.startswith(plural) else "") + title(country)


def named(city: City) -> str:
    """Returns the question that guesses a city."""
    return f"Is your city {title(city.name)}?"


@cache
def lexicon() -> Lexicon:
    """Returns the lexicon of traits, countries, other names and cities."""
    phrases: dict[str, tuple[str, ...]] = {trait: listed for trait, _, listed in rows()}
    for country, fields in countries().items():
        phrases[country] = fields[0]
        regions = (*fields[1], *fields[2], *fields[3], *fields[4], *fields[5])
        phrases |= {name: (name,) for name in regions if name not in countries()}
    phrases |= {
        continent: (continent, adjective)
        for continent, adjective in (
            *(("asia", "asian"), ("europe", "european"), ("africa", "african")),
            *(("south america", "south american"), ("north america", "north american")),
        )
    }
    phrases["islam"] = ("islam", "muslim", "islamic")
    phrases["christianity"] = ("christianity", "christian", "catholic")
    phrases |= {"hinduism": ("hinduism", "hindu"), "buddhism": ("buddhism", "buddhist")}
    taken = {phrase for listed in phrases.values() for phrase in listed}
    for city in cities():
        for name in (*city.belongs, *(trait.replace("_", " ") for trait in city.traits)):
            meaning = name.replace(" ", "_") if name not in city.belongs else name
            if meaning not in phrases and name not in taken:
                phrases[meaning] = (name,)
    names = {f"{IS}{i}": city.names for i, city in enumerate(cities())}
    return Lexicon(phrases, names, FILLERS, PREPOSITIONS, coded=r"people(over|under)\d{1,9}")


COMPARED = re.compile(
    r"\b(more|greater|higher|over|above|exceed|exceeds|exceeding|larger|bigger|least|"
    r"fewer|less|under|below|smaller)(?: than)? (?:about |around )?$"
)
FEWEST = 10_000
"""The smallest number that is one of people."""
SMALLER = ("fewer", "less", "under", "below", "smaller")


def with_amounts(question: str) -> str:
    """Returns the question with "over 5 million" replaced by "peopleover5000" (in thousands)."""
    text = normalized(question).lower()
    for number in reversed(find_numbers(text)):
        found = COMPARED.search(text, 0, number.start)
        # Smaller numbers are meters, degrees or years, and others no number of people.
        if found and not number.unit and number.value >= FEWEST:
            side = "under" if found[1] in SMALLER else "over"
            coded = f" people{side}{int(min(number.value / 1000, 10**8))} "
            text = text[: found.start()] + coded + text[number.stop :]
    return text


@cache
def truth(meaning: str) -> np.ndarray:
    """Returns 1 for each city of which a meaning is true and -1 for others, shape (cities,)."""
    if meaning[0] == IS:
        found = [meaning == f"{IS}{i}" for i in range(len(cities()))]
    elif coded := re.fullmatch(r"people(over|under)(\d+)", meaning):
        sign = 1 if coded[1] == "over" else -1
        found = [sign * city.millions * 1000 > sign * int(coded[2]) for city in cities()]
    else:
        found = [meaning in city.traits or meaning in city.belongs for city in cities()]
    return np.where(found, 1, -1).astype(np.int8)


CAPITAL_OF = re.compile(
    r"\bcapital(?: city)? of (?:the )?(?:state |province |region )?(?:of )?([A-Z]\w*)"
)


def with_provinces(question: str) -> str:
    """Returns the question with "capital of Bavaria" marked as a provincial capital."""

    def marked(found: re.Match[str]) -> str:
        homes = {alias.split()[0] for fields in countries().values() for alias in fields[0]}
        return found[0] if found[1].lower() in homes else f"provincial {found[0]}"

    return CAPITAL_OF.sub(marked, question)


AMERICAS = re.compile(
    r"\b(?:the )?(?:americas|(?:north (?:or|and) south|south (?:or|and) north) america)\b",
    re.IGNORECASE,
)


def with_continents(question: str) -> str:
    """Returns the question with "the Americas" replaced by both of them."""
    return AMERICAS.sub("north america or south america", question)


@lru_cache(maxsize=10_000)
def answers(question: str) -> np.ndarray:
    """Returns the factual answer for each city: 1 yes, -1 no, 0 unknown. Shape (cities,)."""
    capitals = re.findall(r"(?<=\s)[A-ZÀ-Þ][\w'’-]*", question)
    elsewhere = {word for name in capitals for word in words(name)}
    coded = with_amounts(with_provinces(with_continents(question)))
    found = lexicon().parse(coded, elsewhere).answer(truth)
    return np.broadcast_to(np.int8(0) if found is None else found, len(cities()))


def listed(parts: list[str]) -> str:
    """Returns "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""


def people(city: City) -> str:
    """Returns a sentence about a city's population."""
    if city.millions < 1:
        return "Fewer than a million people live there."
    return f"About {round(city.millions)} million people live there."


def waters(city: City) -> str:
    """Returns a sentence about sea, rivers and lakes."""
    found = [water for water in ("river", "lake", "bay", "lagoon") if water in city.traits]
    coast = "It is on the coast" if "coast" in city.traits else "It is inland"
    return coast + (f", with a {listed(found)}." if found else ".")


@cache
def shared() -> Counter[str]:
    """Returns the number of cities with each trait."""
    return Counter(trait for city in cities() for trait in city.traits)


def known_for(city: City) -> str:
    """Returns a sentence about a city's best known traits.

    It names the two traits that most other cities share, because rare traits would give the city
    away at once.
    """
    known = [t for t in city.traits if t not in PLAIN and t not in CLIMATE and t not in SIDES]
    known = sorted(known, key=lambda trait: (-shared()[trait], trait))[:2]
    return f"It is known for {listed([t.replace('_', ' ') for t in known])}."


def climate(city: City) -> str:
    """Returns a sentence about the climate."""
    found = [trait for trait in CLIMATE if trait in city.traits]
    found = [CLIMATE_WORDS.get(t, t) for t in found]
    return f"The climate is {listed(found) if found else 'moderate'}."


def side(city: City) -> str:
    """Returns a sentence about a city's location within its country."""
    found = [trait for trait in SIDES if trait in city.traits]
    return f"It is in the {listed(found)} of the country." if found else "I do not know."


def faith(city: City) -> str:
    """Returns a sentence about the main religion."""
    religion = countries()[city.country][5][0]
    return f"The main religion is {religion}." if religion != "none" else "Few are religious."


def height(city: City) -> str:
    """Returns a sentence about the altitude."""
    return f"It lies at a {'high' if 'altitude' in city.traits else 'low'} altitude."


def traffic(city: City) -> str:
    """Returns a sentence about transport."""
    ways = [way for way in ("subway", "trams", "bicycles") if way in city.traits]
    return f"People go by {listed(['bus', *ways])}."


TOPICS: tuple[tuple[str, str, Callable[[City], str]], ...] = (
    ("name|nickname", "What is the name of your city?", lambda city: city.name),
    ("transport|get around", "How do people get around in your city?", traffic),
    (
        "continent|part of the world",
        "Which continent is your city on?",
        lambda city: f"It is in {title(city.continent)}.",
    ),
    (
        "language|speak|spoken",
        "Which language do people speak in your city?",
        lambda city: f"People speak {listed([title(name) for name in city.languages])}.",
    ),
    ("population|many people|inhabitants|how big", "How many people live in your city?", people),
    ("climate|weather|temperature", "What is the climate of your city like?", climate),
    ("religion|religious|faith|worship", "What is the main religion in your city?", faith),
    ("altitude|elevation|sea level", "At what altitude is your city?", height),
    (
        "currency|money",
        "What is the currency of your city?",
        lambda city: f"We pay in {city.currency}.",
    ),
    (
        "sea|ocean|coast|river|lake|water",
        "What sea, river or lake is your city on?",
        waters,
    ),
    (
        "known|famous|landmark|attraction|industr|econom|popular|cuisine|food|dish|festival|"
        "architect|histor|cultur|monument|building|product|tradition|tourist",
        "What is your city known for?",
        known_for,
    ),
    ("region|province|state|part of", "Which part of the country is your city in?", side),
    (
        "country|nation|where|location|located",
        "Which country is your city in?",
        lambda city: f"It is in {home(city.country)}.",
    ),
)


def leaks(city: City, text: str) -> bool:
    """Returns whether a text contains one of the city's names."""
    padded = f" {' '.join(words(text))} "
    return any(f" {' '.join(words(name))} " in padded for name in city.names)


def is_open(question: str) -> bool:
    """Returns whether a question asks for more than yes or no."""
    first = words(question)[:6]
    if len(first) > 1 and first[0] in ("at", "in", "on", "of"):
        first = first[1:]
    return bool(first) and (first[0] in OPENERS or "tell" in first or "describe" in first)


@lru_cache(maxsize=10_000)
def replies(question: str) -> tuple[str, ...]:
    """Returns the factual answer to a question for each city, "" if it is not understood."""
    if not is_open(question):
        return tuple(("", YES, NO)[answer] for answer in answers(question))
    lower = " ".join(words(question))
    for pattern, _, tell in TOPICS:
        if re.search(rf"\b(?:{pattern})", lower):
            texts = [tell(city) for city in cities()]
            return tuple(
                MASKED if leaks(city, text) else text
                for city, text in zip(cities(), texts, strict=True)
            )
    return ("",) * len(cities())


@cache
def closed_questions() -> tuple[str, ...]:
    """Returns the yes-or-no questions of the expert and the menu, except guesses."""
    fields = countries().values()
    continents = dict.fromkeys(title(f[1][0]) for f in fields)
    regions = dict.fromkeys(title(name) for f in fields for name in f[2])
    homes = dict.fromkeys(home(city.country) for city in cities() if city.name != "singapore")
    places = [f"Is your city in {name}?" for name in (*continents, *regions, *homes)]
    languages = dict.fromkeys(title(name) for f in fields for name in f[3])
    spoken = [f"Do people in your city speak {name}?" for name in languages]
    asked = [question for _, question, _ in rows() if question]
    return (*places, *spoken, *asked, "Do more than two million people live in your city?")


@cache
def reply_codes(open_questions: bool) -> tuple[tuple[str, ...], np.ndarray]:
    """Returns the expert's questions and their replies as integers, shape (questions, cities)."""
    asked = closed_questions()
    if open_questions:
        asked = (*(question for _, question, _ in TOPICS), *asked)
    codes = [np.unique(np.array(replies(q)), return_inverse=True)[1] for q in asked]
    return asked, np.stack(codes)


@lru_cache(maxsize=10_000)
def best_question(left: tuple[int, ...], open_questions: bool) -> str:
    """Returns the question with the fewest expected remaining cities, or "" if none helps."""
    asked, codes = reply_codes(open_questions)
    most = int(codes.max()) + 1
    offset = codes[:, left] + most * np.arange(len(asked))[:, None]
    counts = np.bincount(offset.ravel(), minlength=most * len(asked)).reshape(len(asked), most)
    expected = (counts.astype(float) ** 2).sum(axis=1) / len(left)
    best = int(np.argmin(expected))
    return asked[best] if expected[best] < len(left) else ""
