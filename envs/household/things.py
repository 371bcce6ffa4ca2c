"""The contents of a home: rooms, receptacles, things, and the usual places of things."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
"""Receptacles that are closed at the start. The others are surfaces or always open."""
LAMP = "desklamp"
APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""The receptacle for each treatment."""

_ROOMS = """
kitchen: cabinet 4-9, coffeemachine 1, countertop 1-3, diningtable 0-1, drawer 3-6, fridge 1, garbagecan 1, microwave 1, shelf 0-3, sidetable 0-1, sinkbasin 1, stoveburner 2-4, toaster 1
living room: armchair 1-2, cabinet 0-3, coffeetable 1, desk 0-1, diningtable 0-1, drawer 2-5, dresser 0-1, garbagecan 1, ottoman 0-1, safe 0-1, shelf 0-3, sidetable 1-3, sofa 1-2, tvstand 0-1
bedroom: armchair 0-1, bed 1-2, cabinet 0-2, desk 1-2, drawer 3-7, dresser 0-1, garbagecan 1, safe 0-1, shelf 1-4, sidetable 1-2
bathroom: bathtubbasin 0-1, cabinet 2-4, cart 0-1, countertop 1, drawer 0-3, garbagecan 1, handtowelholder 1-2, shelf 0-2, sinkbasin 1-2, toilet 1, toiletpaperhanger 1
studio: bed 1, cabinet 2-4, countertop 1, desk 1, drawer 1-3, fridge 1, garbagecan 1, microwave 1, shelf 1-2, sidetable 1-2, sinkbasin 1, sofa 1
office: armchair 1-2, cabinet 1-3, coffeemachine 1, desk 2-3, drawer 3-5, dresser 1, fridge 1, garbagecan 1, microwave 1, safe 1, shelf 2-3, sidetable 1
utility room: cabinet 2-4, cart 1, countertop 1, drawer 1-3, fridge 1, garbagecan 1, shelf 2-3, sidetable 1, sinkbasin 1, toilet 1
"""  # noqa: E501 - a table

SEEN = {"kitchen": "K", "living room": "L", "bedroom": "B", "bathroom": "T"}
UNSEEN = {"studio": "KB", "office": "LB", "utility room": "KT"}
"""Kinds of rooms of training homes and of unseen homes, with their groups of things."""


@dataclass(frozen=True)
class Kind:
    """A kind of thing.

    Attributes:
        groups: rooms where it belongs: Kitchen, Living room, Bedroom, baThroom.
        usual: its receptacles in training homes, likeliest first.
        rare: other receptacles where it fits, used in unseen homes.
        treatments: its possible treatments.
    """

    groups: str
    usual: tuple[str, ...]
    rare: tuple[str, ...]
    treatments: tuple[str, ...]

    @property
    def fits(self) -> tuple[str, ...]:
        """All kinds of receptacles where it fits."""
        return self.usual + self.rare


_TABLE = """
apple        K  | countertop diningtable fridge sinkbasin | garbagecan sidetable desk microwave shelf | clean heat cool
bread        K  | countertop diningtable fridge | garbagecan sidetable desk microwave toaster shelf | heat cool
egg          K  | countertop fridge sinkbasin | garbagecan sidetable desk microwave shelf diningtable | clean heat cool
lettuce      K  | countertop diningtable fridge | garbagecan sidetable desk sinkbasin shelf | clean cool
potato       K  | countertop diningtable fridge sinkbasin | garbagecan sidetable desk microwave shelf | clean heat cool
tomato       K  | countertop diningtable sinkbasin fridge | garbagecan sidetable desk microwave shelf | clean heat cool
mug          KB | countertop coffeemachine cabinet sinkbasin diningtable desk | shelf sidetable microwave fridge drawer | clean heat cool
cup          K  | cabinet countertop diningtable | shelf sidetable microwave fridge sinkbasin desk | clean heat cool
plate        K  | cabinet countertop diningtable | shelf sidetable microwave fridge sinkbasin desk | clean heat cool
bowl         KB | cabinet countertop diningtable desk | shelf sidetable microwave fridge sinkbasin dresser | clean cool
pan          K  | stoveburner countertop cabinet | diningtable sinkbasin fridge shelf sidetable | clean cool
pot          K  | stoveburner countertop cabinet | diningtable sinkbasin fridge shelf sidetable | clean cool
kettle       K  | stoveburner countertop cabinet | diningtable sinkbasin shelf sidetable desk | clean
knife        K  | countertop drawer diningtable | sinkbasin sidetable cabinet shelf | clean
butterknife  K  | countertop drawer diningtable | sinkbasin sidetable cabinet desk | clean
fork         K  | drawer countertop diningtable | sinkbasin sidetable cabinet desk | clean
spoon        K  | drawer countertop diningtable | sinkbasin sidetable cabinet desk | clean
spatula      K  | drawer countertop diningtable | sinkbasin sidetable cabinet shelf | clean
dishsponge   KT | sinkbasin countertop drawer | cabinet shelf cart garbagecan sidetable | clean
saltshaker   K  | countertop cabinet diningtable drawer | shelf sidetable desk |
peppershaker K  | countertop cabinet diningtable drawer | shelf sidetable desk |
soapbottle   KT | countertop cabinet | drawer shelf garbagecan toilet cart sinkbasin sidetable |
winebottle   K  | countertop cabinet fridge diningtable | shelf garbagecan sidetable desk | cool
glassbottle  K  | countertop cabinet | shelf garbagecan sidetable sinkbasin fridge desk | cool
book         LB | sofa coffeetable bed desk shelf | sidetable drawer dresser armchair cabinet |
laptop       LB | desk bed sofa coffeetable | armchair diningtable dresser sidetable ottoman |
cellphone    LB | desk bed sofa coffeetable drawer | armchair sidetable dresser shelf safe cabinet |
creditcard   LB | desk coffeetable tvstand sidetable drawer | armchair sofa shelf safe dresser cabinet |
keychain     LB | sidetable coffeetable tvstand desk drawer | armchair sofa safe shelf dresser ottoman cabinet |
pen          B  | desk shelf drawer | sidetable dresser garbagecan bed cabinet sofa |
pencil       B  | desk shelf drawer | sidetable dresser garbagecan bed cabinet sofa |
cd           B  | desk shelf drawer | sidetable dresser garbagecan bed safe cabinet |
alarmclock   B  | desk sidetable dresser shelf | bed drawer cabinet armchair sofa |
pillow       LB | bed sofa armchair | ottoman desk dresser coffeetable cabinet |
remotecontrol L | sofa coffeetable tvstand | armchair sidetable ottoman drawer shelf desk cabinet |
newspaper    L  | coffeetable sofa sidetable | garbagecan armchair drawer ottoman diningtable shelf desk |
watch        LB | coffeetable sidetable dresser tvstand desk drawer | sofa shelf safe armchair cabinet |
statue       L  | shelf coffeetable tvstand dresser sidetable | cabinet diningtable desk safe |
vase         L  | shelf coffeetable sidetable diningtable | safe cabinet desk tvstand dresser |
box          LB | sofa coffeetable diningtable bed | armchair sidetable ottoman desk dresser cabinet |
tissuebox    LT | coffeetable sidetable dresser countertop toilet | cabinet cart garbagecan drawer shelf desk |
candle       T  | countertop toilet cabinet | drawer shelf cart bathtubbasin sidetable |
cloth        T  | countertop bathtubbasin cabinet | drawer shelf cart toilet sinkbasin garbagecan | clean
soapbar      T  | sinkbasin countertop bathtubbasin | cabinet drawer toilet garbagecan cart shelf | clean
spraybottle  T  | countertop toilet cabinet | drawer shelf cart garbagecan sidetable |
toiletpaper  T  | toiletpaperhanger toilet cabinet | countertop drawer shelf cart garbagecan |
handtowel    T  | handtowelholder | sinkbasin cabinet countertop garbagecan toilet bathtubbasin cart shelf |
desklamp     LB | desk sidetable dresser | shelf bed |
"""  # noqa: E501 - a table


@cache
def kinds() -> dict[str, Kind]:
    """Returns all kinds of things by name."""
    found = {}
    for line in _TABLE.strip().splitlines():
        head, usual, rare, treatments = (part.split() for part in line.split("|"))
        found[head[0]] = Kind(head[1], tuple(usual), tuple(rare), tuple(treatments))
    return found


@cache
def rooms() -> dict[str, dict[str, tuple[int, int]]]:
    """Returns the minimum and maximum number of each receptacle for each kind of room."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for line in _ROOMS.strip().splitlines():
        room, _, receptacles = line.partition(": ")
        found[room] = {}
        for entry in receptacles.split(", "):
            kind, _, span = entry.partition(" ")
            low, _, high = span.partition("-")
            found[room][kind] = (int(low), int(high or low))
    return found


def kind_of(name: str) -> str:
    """Returns the kind of a thing or receptacle: "mug" for "mug 2"."""
    return name.rpartition(" ")[0]
