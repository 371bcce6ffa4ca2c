"""The subjects of the generated databases: nouns, columns and pools of values.

Every theme has four tables. Items belong to a group, and links join items with events, with columns
of their own: employees belong to departments, and assignments join employees with projects.
"""

from __future__ import annotations

from dataclasses import dataclass

PEOPLE = tuple(
    f"{first} {last}"
    for first in "Anna Ben Clara David Elif Farid Grace Hugo".split()
    for last in "Berg Costa Dahl Evans".split()
)
CITIES = tuple("Arden Bellmore Corvin Dunmere Eastwick Fallow".split())


@dataclass(frozen=True)
class Field:
    """A column: its noun, and its values, which are words or integers of a range."""

    noun: str
    words: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    required: bool = False


@dataclass(frozen=True)
class Entity:
    """A table of a theme: its nouns, the column that names a row, and further columns."""

    singular: str
    plural: str
    label: Field
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Theme:
    """Four tables of one subject. `link.label` is not used."""

    group: Entity
    item: Entity
    event: Entity
    link: Entity


def _word(noun: str, words: str) -> Field:
    return Field(noun, tuple(words.split()))


def _number(noun: str, low: int, high: int) -> Field:
    return Field(noun, low=low, high=high)


def _names(noun: str, names: str) -> Field:
    return Field(noun, tuple(name.strip() for name in names.split(",")), required=True)


_PERSON = Field("name", PEOPLE, required=True)
_CITY = Field("city", CITIES)
_HOME = Field("home city", CITIES)
_NO_LABEL = Field("")

THEMES = (
    Theme(
        Entity(
            "department",
            "departments",
            _names("name", "Sales, Research, Finance, Legal, Design, Support, Security, Training"),
            (_CITY, _number("budget", 100, 900)),
        ),
        Entity(
            "employee",
            "employees",
            _PERSON,
            (_HOME, _number("salary", 20, 90), _number("starting salary", 15, 60)),
        ),
        Entity(
            "project",
            "projects",
            _names("title", "Aurora, Beacon, Cobalt, Delta, Ember, Falcon, Granite, Harbor"),
            (_word("field", "energy health transport water"), _number("cost", 10, 500)),
        ),
        Entity(
            "assignment",
            "assignments",
            _NO_LABEL,
            (_number("workload", 1, 40), _word("duty", "lead member adviser")),
        ),
    ),
    Theme(
        Entity(
            "school",
            "schools",
            _names("name", "Oakfield, Riverside, Hillcrest, Lakeview, Northgate, Westbrook"),
            (_CITY, _number("founding year", 1850, 1990)),
        ),
        Entity(
            "student",
            "students",
            _PERSON,
            (_HOME, _number("birth year", 1998, 2008), _number("entry year", 2012, 2022)),
        ),
        Entity(
            "course",
            "courses",
            _names("title", "Algebra, Botany, Chemistry, Drama, Economics, French, Geometry"),
            (_word("level", "basic middle advanced"), _number("credit count", 2, 12)),
        ),
        Entity(
            "enrolment",
            "enrolments",
            _NO_LABEL,
            (_number("score", 0, 100), _word("term", "spring summer autumn")),
        ),
    ),
    Theme(
        Entity(
            "publisher",
            "publishers",
            _names("name", "Inkwell, Quillhouse, Paperlane, Bluepage, Foliant, Margin Press"),
            (_CITY, _number("staff size", 5, 80)),
        ),
        Entity(
            "book",
            "books",
            _names(
                "title",
                "Salt, The Lantern, Winter Road, Glass, The Orchard, Tides, Salt, Quiet Hours, "
                "The Lantern, Embers, North, The Clockmaker, Ashes, Glass",
            ),
            (
                _word("genre", "crime poetry travel history"),
                _number("price", 5, 60),
                _number("old price", 5, 60),
            ),
        ),
        Entity(
            "reader",
            "readers",
            _PERSON,
            (_CITY, _number("birth year", 1940, 2010)),
        ),
        Entity(
            "loan",
            "loans",
            _NO_LABEL,
            (_number("duration", 1, 60), _word("state", "open returned lost")),
        ),
    ),
    Theme(
        Entity(
            "supplier",
            "suppliers",
            _names("name", "Norwood, Castor, Pinnacle, Redleaf, Summit, Tidewell, Union, Vantage"),
            (_CITY, _number("rating", 1, 10)),
        ),
        Entity(
            "product",
            "products",
            _names(
                "name",
                "lamp, chair, kettle, lamp, desk, clock, mirror, chair, shelf, vase, rug, kettle",
            ),
            (
                _word("colour", "red blue green white"),
                _number("price", 5, 200),
                _number("list price", 5, 250),
            ),
        ),
        Entity(
            "customer",
            "customers",
            _PERSON,
            (_CITY, _number("discount", 0, 30)),
        ),
        Entity(
            "purchase",
            "purchases",
            _NO_LABEL,
            (_number("quantity", 1, 20), _word("channel", "web phone store")),
        ),
    ),
    Theme(
        Entity(
            "airline",
            "airlines",
            _names("name", "Skylark, Blue Wing, Meridian, Polaris, Cirrus, Jetstream, Albatross"),
            (_word("alliance", "North South Pacific"), _number("fleet size", 5, 120)),
        ),
        Entity(
            "flight",
            "flights",
            _names("code", "KL10, KL12, MX7, MX9, BW3, BW5, PO21, PO23, CI8, JS40, JS44, AL2"),
            (
                Field("origin", CITIES),
                _number("distance", 100, 5000),
                _number("planned distance", 100, 5000),
            ),
        ),
        Entity(
            "passenger",
            "passengers",
            _PERSON,
            (_HOME, _number("birth year", 1940, 2015)),
        ),
        Entity(
            "ticket",
            "tickets",
            _NO_LABEL,
            (_number("fare", 20, 900), _word("class", "economy business first")),
        ),
    ),
    Theme(
        Entity(
            "clinic",
            "clinics",
            _names("name", "Alder, Birch, Cedar, Holly, Juniper, Laurel, Maple, Rowan"),
            (_CITY, _number("bed count", 10, 200)),
        ),
        Entity(
            "doctor",
            "doctors",
            _PERSON,
            (
                _word("specialty", "surgery children heart skin"),
                _number("fee", 30, 300),
                _number("night fee", 50, 500),
            ),
        ),
        Entity(
            "patient",
            "patients",
            _PERSON,
            (_HOME, _number("age", 1, 95)),
        ),
        Entity(
            "visit",
            "visits",
            _NO_LABEL,
            (_number("duration", 5, 90), _word("outcome", "healthy treated referred")),
        ),
    ),
    Theme(
        Entity(
            "team",
            "teams",
            _names("name", "Hawks, Otters, Wolves, Comets, Rovers, Storm, Giants, Saints"),
            (_CITY, _number("founding year", 1880, 2005)),
        ),
        Entity(
            "player",
            "players",
            _PERSON,
            (
                _word("position", "keeper defender forward"),
                _number("age", 17, 38),
                _number("shirt number", 1, 40),
            ),
        ),
        Entity(
            "tournament",
            "tournaments",
            _names("title", "Spring Cup, Harbor Cup, City Trophy, Gold Shield, Winter Open"),
            (_word("surface", "grass sand hall"), _number("prize", 10, 400)),
        ),
        Entity(
            "appearance",
            "appearances",
            _NO_LABEL,
            (_number("goal count", 0, 9), _word("medal", "gold silver bronze")),
        ),
    ),
    Theme(
        Entity(
            "museum",
            "museums",
            _names("name", "Atrium, Belvedere, Castle House, Old Mint, Pavilion, Rotunda, Tower"),
            (_CITY, _number("entrance fee", 0, 30)),
        ),
        Entity(
            "painting",
            "paintings",
            _names(
                "title",
                "Dawn, Harvest, Two Sisters, Dawn, The Mill, Blue Vase, Harvest, Storm",
            ),
            (
                _word("style", "abstract realist baroque"),
                _number("value", 10, 900),
                _number("insured value", 10, 900),
            ),
        ),
        Entity(
            "exhibition",
            "exhibitions",
            _names("title", "First Light, Open Water, Rooms, Long Winter, Gardens, Faces, Lines"),
            (_CITY, _number("visitor count", 100, 9000)),
        ),
        Entity(
            "display",
            "displays",
            _NO_LABEL,
            (_number("duration", 1, 30), _word("floor", "ground first second")),
        ),
    ),
)
