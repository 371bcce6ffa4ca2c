"""Test games in ALFWorld's format: levels of Household, with ALFWorld's own PDDL."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym.envs.household.levels import Level
from agentgym.envs.household.things import LAMP, OPENABLE, kind_of, kinds

LOGIC = Path(__file__).parents[4] / "shared" / "data" / "alfworld"
PROPERTY = {"clean": "isClean", "heat": "isHot", "cool": "isCool"}


def object_id(name: str) -> str:
    """Returns an object id in the format of ALFWorld."""
    kind, _, number = name.rpartition(" ")
    base = kind.removesuffix("basin")
    return f"{base}_bar__plus_0{number}_dot_00" + f"_bar_{kind}" * (base != kind)


def goal(level: Level) -> str:
    """Returns the chore in PDDL."""
    kind = f"(objectType ?o {level.kind}Type)"
    place = f"(receptacleType ?r {level.target}Type)"
    if level.family == "look":
        lamp = f"(objectType ?m {LAMP}Type) (isToggled ?m) (objectAtLocation ?m ?l)"
        held = f"(holds agent1 ?o) {kind} (atLocation agent1 ?l)"
        return f"(exists (?o - object ?m - object ?l - location) (and {held} {lamp}))"
    if level.family == "pick2":
        two = f"(inReceptacle ?q ?r) (objectType ?q {level.kind}Type) (not (= ?o ?q))"
        every = f"(and (inReceptacle ?o ?r) {kind} {two} {place})"
        return f"(exists (?r - receptacle ?o - object ?q - object) {every})"
    treated = f"({PROPERTY[level.family]} ?o)" if level.family in PROPERTY else ""
    all_of = f"(and (inReceptacle ?o ?r) {kind} {treated} {place})"
    return f"(exists (?r - receptacle ?o - object) {all_of})"


def problem(level: Level) -> str:
    """Returns the level in PDDL."""
    receptacles, things = level.home.receptacles, dict(level.places)
    at = {name: f"loc_{i + 1}" for i, name in enumerate(receptacles)}
    receptacle_kinds = {kind_of(name) for name in receptacles}
    thing_kinds = {kind_of(name) for name in things}
    objects = [
        "agent1 - agent",
        "loc_0 - location",
        *(f"{place} - location" for place in at.values()),
    ]
    objects += [f"{object_id(name)} - receptacle" for name in receptacles]
    objects += [f"{object_id(name)} - object" for name in things]
    objects += [
        f"{kind}Type - rtype" for kind in receptacle_kinds | {"sinkbasin", "microwave", "fridge"}
    ]
    objects += [f"{kind}Type - otype" for kind in thing_kinds | {"knife", "butterknife"}]
    facts = ["(= (total-cost) 0)", "(atLocation agent1 loc_0)"]
    for name in receptacles:
        facts.append(f"(receptacleAtLocation {object_id(name)} {at[name]})")
        facts.append(f"(receptacleType {object_id(name)} {kind_of(name)}Type)")
        facts += [f"(openable {object_id(name)})"] * (kind_of(name) in OPENABLE)
    for name, place in things.items():
        id, kind = object_id(name), kind_of(name)
        facts.append(f"(objectType {id} {kind}Type)")
        facts.append(f"(inReceptacle {id} {object_id(place)})")
        facts.append(f"(objectAtLocation {id} {at[place]})")
        facts.append(f"({'toggleable' if kind == LAMP else 'pickupable'} {id})")
        facts += [f"({treatment}able {id})" for treatment in kinds()[kind].treatments]
    for kind in thing_kinds:
        fits = receptacle_kinds & set(kinds()[kind].fits)
        facts += [f"(canContain {place}Type {kind}Type)" for place in fits]
    parts = (" ".join(sorted(objects)), " ".join(sorted(facts)), goal(level))
    return (
        "(define (problem p) (:domain alfred) (:objects {}) (:init {}) (:goal {}) ".format(*parts)
        + "(:metric minimize (total-cost)))"
    )


def write_game(folder: Path, level: Level) -> Path:
    """Writes a level as a game of ALFWorld and returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    grammar = (LOGIC / "alfred.twl2").read_text(encoding="utf-8")
    game = {
        "pddl_domain": (LOGIC / "alfred.pddl").read_text(encoding="utf-8"),
        "grammar": grammar.replace("UNKNOWN GOAL", f"{level.family} a {level.kind}"),
        "pddl_problem": problem(level),
        "solvable": True,
    }
    file = folder / "game.tw-pddl"
    file.write_text(json.dumps(game), encoding="utf-8")
    return file
