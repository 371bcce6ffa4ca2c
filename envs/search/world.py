"""A generated world of people, places, works, organisations and events, and its pages.

Facts are functional: an entity has one object for each relation of its kind. Every entity has a
page with its own facts. Gossip pages claim facts that are wrong.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property, lru_cache

from agentgym.envs.webshop.analysis import terms
from agentgym.tasks import task_rng
from agentgym.utils.bm25 import TextIndex

YEAR = "year"
SIZES = {
    "person": 40,
    "city": 16,
    "country": 4,
    "work": 24,
    "organisation": 12,
    "event": 12,
}
"""Number of entities of each kind."""


@dataclass(frozen=True)
class Relation:
    """A relation from entities of one kind to entities of another kind, or to years.

    Attributes:
        name: its name in the graph, such as "birthplace".
        subject: kind of the subject.
        object: kind of the object, or "year".
        sentences: sentences of a page, with {x} for the subject and {o} for the object.
        phrases: noun phrases for the object, with {x} for the subject.
    """

    name: str
    subject: str
    object: str
    sentences: tuple[str, ...]
    phrases: tuple[str, ...]


RELATIONS = (
    Relation(
        "birthplace",
        "person",
        "city",
        ("{x} was born in {o}.", "{x} comes from {o}.", "{o} is the home town of {x}."),
        ("the birthplace of {x}", "the city in which {x} was born"),
    ),
    Relation(
        "birth year",
        "person",
        YEAR,
        ("The year of birth of {x} is {o}.", "{x} was born in the year {o}."),
        ("the birth year of {x}", "the year in which {x} was born"),
    ),
    Relation(
        "employer",
        "person",
        "organisation",
        ("{x} works for {o}.", "{o} is the employer of {x}."),
        ("the employer of {x}", "the organisation that {x} works for"),
    ),
    Relation(
        "teacher",
        "person",
        "person",
        ("{x} was a pupil of {o}.", "{o} taught {x} for many years."),
        ("the teacher of {x}", "the person who taught {x}"),
    ),
    Relation(
        "country",
        "city",
        "country",
        ("{x} is a city in {o}.", "{x} lies in the south of {o}.", "{x} belongs to {o}."),
        ("the country of {x}", "the country in which {x} lies"),
    ),
    Relation(
        "mayor",
        "city",
        "person",
        ("The mayor of {x} is {o}.", "{o} governs {x} as its mayor."),
        ("the mayor of {x}", "the person who is mayor of {x}"),
    ),
    Relation(
        "capital",
        "country",
        "city",
        ("The capital of {x} is {o}.", "{x} is governed from its capital {o}."),
        ("the capital of {x}", "the capital city of {x}"),
    ),
    Relation(
        "author",
        "work",
        "person",
        ("{x} was written by {o}.", "{o} is the author of {x}."),
        ("the author of {x}", "the person who wrote {x}"),
    ),
    Relation(
        "setting",
        "work",
        "city",
        ("The story of {x} takes place in {o}.", "{x} is set in {o}."),
        ("the setting of {x}", "the city in which {x} takes place"),
    ),
    Relation(
        "publication year",
        "work",
        YEAR,
        ("{x} was published in {o}.", "The first edition of {x} appeared in {o}."),
        ("the publication year of {x}", "the year in which {x} was published"),
    ),
    Relation(
        "founder",
        "organisation",
        "person",
        ("{x} was founded by {o}.", "{o} is the founder of {x}."),
        ("the founder of {x}", "the person who founded {x}"),
    ),
    Relation(
        "headquarters",
        "organisation",
        "city",
        ("The headquarters of {x} are in {o}.", "{x} has its main office in {o}."),
        ("the city with the headquarters of {x}", "the city in which {x} has its main office"),
    ),
    Relation(
        "founding year",
        "organisation",
        YEAR,
        ("{x} has existed since {o}.", "{x} was founded in the year {o}."),
        ("the founding year of {x}", "the year in which {x} was founded"),
    ),
    Relation(
        "winner",
        "event",
        "person",
        ("{x} was won by {o}.", "{o} took the first prize at {x}."),
        ("the winner of {x}", "the person who won {x}"),
    ),
    Relation(
        "host",
        "event",
        "city",
        ("{x} was held in {o}.", "The host of {x} was the city of {o}."),
        ("the host city of {x}", "the city in which {x} was held"),
    ),
    Relation(
        "sponsor",
        "event",
        "organisation",
        ("{x} was paid for by {o}.", "{o} sponsored {x}."),
        ("the sponsor of {x}", "the organisation that sponsored {x}"),
    ),
)
BY_NAME = {relation.name: relation for relation in RELATIONS}
BY_SUBJECT: dict[str, tuple[Relation, ...]] = {
    kind: tuple(relation for relation in RELATIONS if relation.subject == kind) for kind in SIZES
}

_FIRST = "Ada Bruno Celia Dario Edda Felix Greta Henrik Ines Jonas Karla Leon Mira Nils".split()
_ONSETS = "b br c d dr f g gr h k l m n p r s st t tr v".split()
_MIDDLES = "a e i o u ai ea ou".split()
_ENDS = "l n r s nd rk lm st".split()
_ADJECTIVES = "Silver Broken Quiet Crimson Hollow Distant Golden Winter Northern Hidden".split()
_NOUNS = "Lantern River Garden Crown Mirror Harvest Bridge Tower Orchard Compass".split()
_HEROES = "clockmaker sailor baker painter widow soldier gardener thief doctor printer".split()
_TRAITS = "blind homesick nameless stubborn lonely cheerful jealous sleepless".split()
_GENRES = ("novel", "play", "poem", "opera")
_TRADES = "Shipping Bank Press Theatre Railway Institute Glassworks Museum".split()
_SPORTS = "chess rowing cooking piano archery poetry chemistry gardening".split()
_AGES = ("young", "old")


@dataclass(frozen=True)
class Page:
    """A page: its title and its text, one sentence per entry."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The title and the sentences."""
        return f"{self.title}: {' '.join(self.sentences)}"


class Corpus:
    """Pages with a search index.

    Args:
        pages: the pages, with unique titles.
    """

    def __init__(self, pages: tuple[Page, ...]):
        self.pages = pages
        self._by_title = {page.title: page for page in pages}
        self._by_folded = {page.title.casefold(): page for page in reversed(pages)}

    @cached_property
    def index(self) -> TextIndex:
        """The index of all pages, with the terms of the shop's search engine."""
        return TextIndex([page.text for page in self.pages], terms)

    def search(self, query: str, k: int) -> list[Page]:
        """Returns the best k pages for a query, best first."""
        return [self.pages[i] for i in self.index.search(query, k)]

    def page(self, title: str) -> Page | None:
        """Returns the page of a title. Capitals count only between titles that they tell apart."""
        title = " ".join(title.split())
        return self._by_title.get(title) or self._by_folded.get(title.casefold())


class World(Corpus):
    """The facts and pages of a world.

    Args:
        name: the name that determines everything, such as "train/7".
        misleading: share of the entities with a gossip page.

    Attributes:
        kinds: the kind of each entity.
        facts: the object of each entity and relation name.
        descriptions: a unique description of each work and event, which is no title.
    """

    def __init__(self, name: str, misleading: float):
        self._rng = rng = random.Random(int(task_rng(name, "search").integers(2**63)))
        self._words: set[str] = set()
        self.descriptions: dict[str, str] = {}
        names = {kind: self._names(kind, size) for kind, size in SIZES.items()}
        self.kinds = {entity: kind for kind, found in names.items() for entity in found}
        self.facts: dict[tuple[str, str], str] = {}
        for entity, kind in self.kinds.items():
            for relation in BY_SUBJECT[kind]:
                self.facts[entity, relation.name] = self._object(relation, entity, names)
        for country in names["country"]:
            city = self.facts[country, "capital"]
            self.facts[city, "country"] = country
        pages = [self._page(entity) for entity in self.kinds]
        gossip = [e for e in self.kinds if rng.random() < misleading]
        pages += [self._gossip(entity, names) for entity in gossip]
        rng.shuffle(pages)
        super().__init__(tuple(pages))

    def _object(self, relation: Relation, entity: str, names: dict[str, list[str]]) -> str:
        if relation.object == YEAR:
            return str(self._rng.randint(1800, 1999))
        if relation.name == "capital":  # each country has another one
            return names["city"][names["country"].index(entity)]
        return self._rng.choice([other for other in names[relation.object] if other != entity])

    def _page(self, entity: str) -> Page:
        rng, sentences = self._rng, []
        for relation in BY_SUBJECT[self.kinds[entity]]:
            sentence = rng.choice(relation.sentences)
            sentences.append(sentence.format(x=entity, o=self.facts[entity, relation.name]))
        rng.shuffle(sentences)
        if entity in self.descriptions:
            sentences.insert(0, f"{entity} is {self.descriptions[entity]}.")
        return Page(entity, tuple(sentences))

    def _gossip(self, entity: str, names: dict[str, list[str]]) -> Page:
        sentences = []
        for relation in BY_SUBJECT[self.kinds[entity]]:
            right = self.facts[entity, relation.name]
            wrong = self._object(relation, entity, names)
            if relation.name == "capital":
                wrong = self._rng.choice(names["city"])
            if wrong != right:
                sentences.append(self._rng.choice(relation.sentences).format(x=entity, o=wrong))
        return Page(f"Gossip about {entity}", ("Somebody told a newspaper:", *sentences))

    def _names(self, kind: str, size: int) -> list[str]:
        rng = self._rng
        if kind == "person":
            families = [self._word() for _ in range(size // 3)]  # families share a name
            pairs = [f"{first} {family}" for first in _FIRST for family in families]
            return rng.sample(pairs, size)
        if kind == "work":
            pairs = [f"The {adjective} {noun}" for adjective in _ADJECTIVES for noun in _NOUNS]
            plots = [f"{trait} {hero}" for trait in _TRAITS for hero in _HEROES]
            found = rng.sample(pairs, size)
            for work, plot in zip(found, rng.sample(plots, size), strict=True):
                self.descriptions[work] = f"the {rng.choice(_GENRES)} about a {plot}"
            return found
        if kind == "event":
            places = [self._word() for _ in range(size // 2)]
            found = [f"{place} {cup}" for place in places for cup in ("Cup", "Open")]
            contests = [f"the {what} contest for {age} people" for what in _SPORTS for age in _AGES]
            self.descriptions |= dict(zip(found, rng.sample(contests, size), strict=True))
            return found
        words = [self._word() for _ in range(size)]
        if kind == "organisation":
            return [f"{word} {rng.choice(_TRADES)}" for word in words]
        return [f"{word}ia" for word in words] if kind == "country" else words

    def _word(self) -> str:
        """Returns a new name of two syllables."""
        rng, word = self._rng, ""
        while not word or word in self._words:
            parts = (_ONSETS, _MIDDLES, _ENDS, _MIDDLES, _ENDS)
            word = "".join(map(rng.choice, parts)).capitalize()
        self._words.add(word)
        return word


@lru_cache(maxsize=256)
def world(name: str, misleading: float) -> World:
    """Returns the world of a name. Environments share it."""
    return World(name, misleading)
