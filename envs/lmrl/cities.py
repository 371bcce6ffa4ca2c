"""The cities of GuessMyCity and facts about them, from general knowledge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from agentgym.envs.lmrl.tables import entries


@dataclass(frozen=True)
class City:
    """A city to guess.

    Attributes:
        names: its name and other names, in lower case.
        country: the name of its country.
        continent: the continent of its country.
        currency: the currency of its country, without the country's name.
        languages: the languages of its country, most spoken first.
        latitude: degrees north.
        longitude: degrees east.
        millions: population in millions.
        traits: the traits of the table in its order, then those implied.
        belongs: names that belong to it: regions, languages, waters, sights and so on.
    """

    names: tuple[str, ...]
    country: str
    continent: str
    currency: str
    languages: tuple[str, ...]
    latitude: int
    longitude: int
    millions: float
    traits: tuple[str, ...]
    belongs: frozenset[str]

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]


def split(text: str, mark: str) -> tuple[str, ...]:
    """Returns the non-empty parts of a text between marks, stripped."""
    return tuple(part.strip() for part in text.split(mark) if part.strip())


@cache
def countries() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Returns the fields of each country: names, continent, regions, languages and so on."""
    lines = entries("countries")
    found = [tuple(split(field, ";") for field in line.split("|")) for line in lines]
    return {fields[0][0]: fields for fields in found}


def implied(latitude: int, longitude: int, millions: float, traits: tuple[str, ...]) -> list[str]:
    """Returns the traits implied by a city's location, size and other traits."""
    follows = {
        "northern_hemisphere": latitude >= 0,
        "southern_hemisphere": latitude < 0,
        "eastern_hemisphere": longitude > 0,
        "western_hemisphere": longitude <= 0,
        "near_equator": abs(latitude) <= 10,
        "not_capital": "capital" not in traits,
        "big": millions >= 5,
        "inland": "coast" not in traits and "inland" not in traits,
        "water": bool({"coast", "river", "lake", "bay", "lagoon", "canals"} & set(traits)),
        "north": bool({"northwest", "northeast"} & set(traits)),
        "south": "southwest" in traits,
        "west": bool({"northwest", "southwest"} & set(traits)),
        "east": "northeast" in traits,
        "northeast": {"north", "east"} <= set(traits),
        "northwest": {"north", "west"} <= set(traits),
        "southeast": {"south", "east"} <= set(traits),
        "southwest": {"south", "west"} <= set(traits),
        "modern": "skyscrapers" in traits,
        "warm": bool({"hot", "tropical", "subtropical", "mediterranean_climate"} & set(traits)),
        "worship": bool({"mosque", "temples", "church", "cathedral", "orthodox"} & set(traits)),
        "any": True,
    }
    return [trait for trait, holds in follows.items() if holds and trait not in traits]


@cache
def cities() -> tuple[City, ...]:
    """Returns all cities of the table."""
    found = []
    for line in entries("cities"):
        names, country, place, millions, traits, belongs = line.split("|")
        _, continent, regions, languages, currency, religion = countries()[country.strip()]
        latitude, longitude = map(int, place.split())
        listed = split(traits, " ")
        follows = implied(latitude, longitude, float(millions), listed)
        named = {*split(belongs, ";"), *regions, *languages, *continent, *currency, *religion}
        if (
            "nightlife" not in listed
            and float(millions) >= 2
            and not {"islam", "none"} & set(religion)
        ):
            follows.append("nightlife")
        if {"two_continents"} & set(listed):
            named.add("europe")
        found.append(
            City(
                names=split(names, ";"),
                country=country.strip(),
                continent=continent[0],
                currency=currency[0],
                languages=languages,
                latitude=latitude,
                longitude=longitude,
                millions=float(millions),
                traits=(*listed, *follows),
                belongs=frozenset({*named, country.strip()}),
            )
        )
    return tuple(found)
