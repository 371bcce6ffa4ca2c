"""Household: possible actions, solvable levels, held-out homes and chores, and the expert."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from agentgym.envs.household.expert import next_command
from agentgym.envs.household.household import Household, a
from agentgym.envs.household.levels import FAMILIES, HOMES, Home, Level, make_home, make_level
from agentgym.envs.household.rules import (
    HAND,
    State,
    commands,
    parse,
    progress,
    refusal,
)
from agentgym.envs.household.things import (
    APPLIANCES,
    LAMP,
    SEEN,
    UNSEEN,
    kind_of,
    kinds,
    rooms,
)

GRAMMAR = Path(__file__).parents[4] / "shared" / "data" / "alfworld" / "alfred.twl2"
KITCHEN = Home(
    "kitchen",
    (
        *("cabinet 1", "cabinet 2", "countertop 1", "desk 1", "fridge 1", "microwave 1"),
        *("shelf 1", "sinkbasin 1"),
    ),
    seen=True,
)
THINGS = {
    **{"mug 1": "cabinet 1", "mug 2": "countertop 1", "book 1": "desk 1", "egg 1": "fridge 1"},
    LAMP + " 1": "desk 1",
}


class Fixed(Household):
    """A household with a custom level."""

    def __init__(self, level: Level):
        self._level = level
        super().__init__(family=level.family, max_turns=None)

    @property
    def level(self) -> Level:
        return self._level


def household(family: str, kind: str, target: str) -> Household:
    """A small kitchen with a chore."""
    env = Fixed(Level(KITCHEN, family, kind, target, tuple(THINGS.items())))
    env.reset(seed=0)
    return env


def play(env: Household, *actions: str) -> str:
    """Plays possible commands and returns the last observation."""
    text = ""
    for action in actions:
        text, _, _, _, info = env.step(action)
        assert info["valid"], (action, text)
    return text


def refused(env: Household, action: str) -> str:
    """Plays an impossible command and returns the feedback."""
    before = copy.deepcopy(env.state)
    text, reward, _, _, info = env.step(action)
    assert not info["valid"] and reward == 0 and env.state == before, (action, text)
    return text.splitlines()[0]


def levels(task: str, count: int, family: str = "all") -> Iterator[Level]:
    return (make_level(f"{task}/{i}", family) for i in range(count))


def test_only_what_stands_where_one_is_is_seen_and_nothing_in_what_is_closed():
    env = household("pick", "mug", "shelf")
    text, _ = env.reset(seed=0)
    assert "cabinet 2, countertop 1" in text and "mug" not in text.partition("Your chore")[0]
    assert "It is closed." in play(env, "go to cabinet 1")
    assert "cabinet 1 is closed" in refused(env, "take mug 1 from cabinet 1")
    assert "In it: mug 1." in play(env, "open cabinet 1")
    assert "no mug 2" in refused(env, "take mug 2 from cabinet 1")
    assert "not at countertop 1" in refused(env, "take mug 2 from countertop 1")
    assert "already open" in refused(env, "open cabinet 1")
    assert "It is closed." in play(env, "close cabinet 1")
    play(env, "go to shelf 1")
    assert "cannot be opened" in refused(env, "open shelf 1")


def test_one_hand_holds_one_thing_and_puts_it_where_it_fits():
    env = household("pick", "mug", "shelf")
    play(env, "go to countertop 1", "take mug 2 from countertop 1", "go to desk 1")
    assert "hand is full" in refused(env, "take book 1 from desk 1")
    assert "not holding" in refused(env, "put book 1 in/on desk 1")
    play(env, "put mug 2 in/on desk 1", "take book 1 from desk 1", "go to sinkbasin 1")
    assert "does not belong" in refused(env, "put book 1 on sinkbasin 1")
    play(env, "go to cabinet 1")
    assert "is closed" in refused(env, "move book 1 to cabinet 1")
    play(env, "open cabinet 1", "move book 1 to cabinet 1", "take mug 1 from cabinet 1")
    play(env, "go to shelf 1")
    _, reward, terminated, _, info = env.step("put mug 1 on shelf 1")
    assert (reward, terminated, info["success"], info["progress"]) == (1, True, True, 1.0)


@pytest.mark.parametrize(
    ("family", "place", "fact"),
    [
        ("clean", "sinkbasin 1", "clean"),
        ("heat", "microwave 1", "hot"),
        ("cool", "fridge 1", "cold"),
    ],
)
def test_a_treated_thing_counts_and_an_untreated_does_not(family: str, place: str, fact: str):
    env = household(family, "mug", "shelf")
    play(env, "go to countertop 1", "take mug 2 from countertop 1", "go to shelf 1")
    play(env, "put mug 2 in/on shelf 1")
    assert progress(env.level, env.state) == 0
    play(env, "take mug 2 from shelf 1")
    assert "not at" in refused(env, f"{family} mug 2 with {place}")
    play(env, f"go to {place}", f"{family} mug 2 with {place}")
    assert f"mug 2 ({fact})" in play(env, "inventory")
    assert f"This is mug 2 ({fact})." in play(env, "examine mug 2")
    play(env, "go to shelf 1")
    assert env.step("put mug 2 in/on shelf 1")[1] == 1


def test_treatments_need_the_right_place_and_thing_and_cooling_undoes_heating():
    env = household("heat", "mug", "shelf")
    play(env, "go to desk 1", "take book 1 from desk 1", "go to microwave 1")
    assert "cannot heat a book" in refused(env, "heat book 1 with microwave 1")
    assert "with a sinkbasin" in refused(env, "clean book 1 with microwave 1")
    play(env, "go to shelf 1", "put book 1 on shelf 1", "go to countertop 1")
    play(env, "take mug 2 from countertop 1", "go to microwave 1", "heat mug 2 with microwave 1")
    play(env, "go to fridge 1", "cool mug 2 with fridge 1", "go to shelf 1")
    play(env, "put mug 2 in/on shelf 1")
    assert progress(env.level, env.state) < 1


def test_two_things_count_in_one_and_the_same_place():
    env = household("pick2", "mug", "cabinet")
    play(env, "go to countertop 1", "take mug 2 from countertop 1", "go to cabinet 2")
    play(env, "open cabinet 2", "put mug 2 in/on cabinet 2", "go to cabinet 1", "open cabinet 1")
    assert progress(env.level, env.state) == 0.5  # one in each of two cabinets
    play(env, "take mug 1 from cabinet 1", "go to cabinet 2")
    assert env.step("put mug 1 in/on cabinet 2")[1] == 1


def test_a_thing_is_looked_at_under_a_lamp_that_is_on():
    env = household("look", "mug", LAMP)
    play(env, "go to desk 1")
    assert "cannot be moved" in refused(env, f"take {LAMP} 1 from desk 1")
    assert f"{LAMP} 1 (on)" in play(env, f"use {LAMP} 1")
    assert "cannot use" in refused(env, "use book 1")
    play(env, "go to countertop 1", "take mug 2 from countertop 1")
    play(env, "examine mug 2")
    assert progress(env.level, env.state) == 0.5
    assert env.step("go to desk 1")[1] == 1


def test_commands_are_understood_in_their_several_forms():
    put = ("put", "mug 1", "desk 2")
    for form in ("put mug 1 in/on desk 2", "move mug 1 to desk 2", "Put the mug 1 on desk 2."):
        assert parse(form) == put
    assert parse("toggle desklamp 1") == parse("use desklamp 1 desk 1") == ("use", "desklamp 1", "")
    assert parse("look around") == ("look", "", "")
    assert parse("pick up mug 1  from desk 2") == ("take", "mug 1", "desk 2")
    for nonsense in (
        "",
        "go to",
        "go to desk",
        "take mug 1",
        "put mug 1",
        "go to desk １",
        "x" * 10**7,
    ):
        assert parse(nonsense) is None
    env = household("pick", "mug", "shelf")
    assert "go to (receptacle)" in refused(env, "dance")
    assert "no shelf 9" in refused(env, "go to shelf 9")
    assert "The commands are: go to" in play(env, "help")
    assert "Around you: cabinet 1" in play(env, "go to desk 1", "look")


@pytest.mark.skipif(not GRAMMAR.exists(), reason="needs the published grammar")
def test_the_published_command_templates_are_understood():
    templates = re.findall(r'template :: "([^"]+)"', GRAMMAR.read_text(encoding="utf-8"))
    names = {"o": "mug 1", "r": "desk 1"}
    said = [re.sub(r"\[.*\]", "desk 1", text) for text in templates]
    said = [re.sub(r"\{(\w+)\}", lambda m: names.get(m[1], "?"), text) for text in said]
    said = [text for text in said if "?" not in text]
    assert len(said) >= 12
    assert all(parse(text) for text in said), said


def test_the_listed_commands_are_exactly_the_possible_ones():
    env = Household(max_turns=None)
    rng = np.random.default_rng(0)
    for task in range(12):
        _, info = env.reset(seed=task)
        for _ in range(25):
            level, state = env.level, env.state
            things, places = list(state.places), level.home.receptacles
            every = [("go", "", place) for place in places if place != state.at]
            every += [(verb, "", place) for verb in ("open", "close") for place in places]
            every += product(("take", "put", *APPLIANCES), things, places)
            every += product(["use"], things, [""])
            every += [("examine", name, "") for name in (state.at, state.held) if name]
            every += [("look", "", ""), ("inventory", "", "")]
            possible = {command for command in every if not refusal(level, state, command)}
            assert {parse(text) for text in info["admissible"]} == possible
            assert set(commands(level, state)) == possible
            _, _, terminated, _, info = env.step(str(rng.choice(info["admissible"])))
            if terminated:
                break


@pytest.mark.parametrize("split", ["train", "test", "unseen"])
def test_every_level_is_undone_and_every_thing_can_be_where_it_is(split: str):
    families = set()
    for level in levels(split, 300):
        state = State("", dict(level.places))
        families.add(level.family)
        assert progress(level, state) == 0
        mine = [place for thing, place in level.places if kind_of(thing) == level.kind]
        assert len(mine) >= 1 + (level.family == "pick2")
        assert level.family == "look" or level.home.of(level.target)
        for thing, place in level.places:
            assert kind_of(place) in kinds()[kind_of(thing)].fits
    assert families == set(FAMILIES)


@pytest.mark.slow
def test_unseen_homes_share_neither_rooms_nor_placements_nor_chores_with_training():
    def facts(split: str) -> tuple[set, set, set]:
        found = list(levels(split, 1500))
        placed = {(kind_of(t), kind_of(p)) for level in found for t, p in level.places}
        chores = {(level.family, level.kind, level.target) for level in found}
        return {level.home.room for level in found}, placed, chores

    train, test, unseen = facts("train"), facts("test"), facts("unseen")
    assert train[0] == test[0] == set(SEEN) and unseen[0] == set(UNSEEN)
    for one, other in zip(train, unseen, strict=True):
        assert not one & other
    homes = {make_home(f"home/{i}", True) for i in range(HOMES)}
    assert {level.home for level in levels("test", 500)} <= homes


def test_a_level_depends_on_the_task_and_the_family_only():
    again = make_level.__wrapped__
    for task, family in product(("train/0", "test/3", "unseen/7"), ("all", "cool")):
        assert again(task, family) == make_level(task, family)
    assert make_level("train/0", "pick") != make_level("test/0", "pick")
    assert make_level("train/5", "heat").family == "heat"


def test_every_kind_of_thing_and_room_is_used_and_every_place_exists():
    places = {place for room in rooms().values() for place in room}
    for name, kind in kinds().items():
        assert set(kind.fits) <= places, name
        assert not set(kind.usual) & set(kind.rare), name
        assert set(kind.treatments) <= set(APPLIANCES), name
    assert set(rooms()) == {*SEEN, *UNSEEN}


@pytest.mark.parametrize("test_homes", ["seen", "unseen"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_expert_does_every_chore_in_time(family: str, test_homes: str):
    env = Household(family=family, test_homes=test_homes, split="test")
    for seed in range(40):
        env.reset(seed=seed)
        info, over = {}, False
        while not over:
            _, _, terminated, truncated, info = env.step(str(env.expert()))
            assert info["valid"]
            over = terminated or truncated
        assert info["success"] and env.expert() is None


def test_the_expert_finds_its_way_from_wherever_nonsense_led():
    env = Household(max_turns=None)
    rng = np.random.default_rng(0)
    for seed in range(40):
        _, info = env.reset(seed=seed)
        for _ in range(40):
            _, _, terminated, _, info = env.step(str(rng.choice(info["admissible"])))
            if terminated:
                break
        for _ in range(80):
            if info["success"]:
                break
            info = env.step(str(env.expert()))[4]
            assert info["valid"]
        assert info["success"]


def test_the_expert_knows_only_what_it_has_seen():
    """The next action does not depend on the places of unseen things."""
    rng = np.random.default_rng(0)
    for seed in range(30):
        env = Household(test_homes="seen" if seed % 2 else "unseen", split="test", max_turns=None)
        env.reset(seed=seed)
        while env.expert() is not None:
            level, state = env.level, env.state
            other = copy.deepcopy(state)
            hidden = [place for place in level.home.receptacles if place not in state.checked]
            for thing, place in state.places.items():
                if place != HAND and place not in state.checked:
                    other.places[thing] = str(rng.choice(hidden))
            assert next_command(level, other) == next_command(level, state)
            env.step(str(env.expert()))


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="family must be one of"):
        Household(family="picks")
    with pytest.raises(ValueError, match="test_homes"):
        Household(test_homes="other")
    assert Household(test_homes="unseen").tasks.test[3] == "unseen/3"


def test_nouns_have_their_article():
    assert [a(noun) for noun in ("office", "utility room", "mug")] == [
        "an office",
        "a utility room",
        "a mug",
    ]
