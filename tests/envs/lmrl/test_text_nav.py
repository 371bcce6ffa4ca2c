from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.lmrl.houses import EATEN, GOAL, HELD, ORIGINAL, Distances, generated_world
from agentgym.envs.lmrl.text_nav import State, TextNav, commands, plan

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "lmrl" / "textnav_game.json"
SOLUTION = [
    *("go west", "take stale food from table", "go west", "go west", "open fridge"),
    *("insert stale food into fridge", "close fridge"),
]


def at(room: str, **kwargs: Any) -> TextNav:
    env = TextNav(**kwargs)
    env.reset(seed=0, options={"task": f"original/{room}"})
    return env


@pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the published game")
def test_the_published_game_is_the_original_world():
    game = ast.literal_eval(PUBLISHED.read_text())
    names = {id: info["name"] for id, info in game["infos"]}
    exits: dict[str, dict[str, str]] = {}
    rooms: dict[str, str] = {}
    inside: dict[str, str] = {}
    closed, free = set(), set()
    for fact in game["world"]:
        one, *other = [argument["name"] for argument in fact["arguments"]]
        if fact["name"].endswith("_of"):
            side = fact["name"].removesuffix("_of")
            exits.setdefault(names[other[0]], {})[side] = names[one]
        elif fact["name"] == "at":
            rooms[one] = names[other[0]]
        elif fact["name"] in ("in", "on"):
            inside[names[one]] = other[0]
        elif fact["name"] == "free":
            free.add((names[one], names[other[0]]))
        else:
            assert fact["name"] == "closed"
            closed.add(names[one])
    assert exits == ORIGINAL.exits
    assert free == {(a, b) for a, ways in exits.items() for b in ways.values()}
    assert rooms.pop("P") == ORIGINAL.start
    assert {room: names[thing] for thing, room in rooms.items()} == ORIGINAL.fixtures
    items = {item: f"{rooms[thing]}/{names[thing]}" for item, thing in inside.items()}
    assert items == ORIGINAL.items
    assert closed == {"chest", "fridge"}
    assert game["quests"][0]["commands"] == tuple(SOLUTION)


def test_the_solution_from_the_bedroom():
    env = at("bedroom")
    for i, command in enumerate(SOLUTION):
        assert env.expert() == command
        _, reward, terminated, _, info = env.step(command)
        last = i == len(SOLUTION) - 1
        assert (reward, terminated, info["success"]) == (float(last), last, last)
        assert info["progress"] == pytest.approx((i + 1) / len(SOLUTION))


def test_eating_the_stale_food_loses():
    env = at("living room")
    env.step("take stale food from table")
    _, reward, terminated, truncated, info = env.step("eat stale food")
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)
    assert info["progress"] == 0 and info["admissible"] == ()


def test_eating_other_food_does_not():
    env = at("living room")
    env.step("take fresh food from table")
    _, _, terminated, _, info = env.step("eat fresh food")
    assert not terminated and info["valid"]
    assert env.state.items["fresh food"] == EATEN
    assert "eat bowl" not in env.step("look")[4]["admissible"]


def test_a_closed_container_hides_what_is_in_it_and_takes_nothing():
    env = at("office")
    first = env.reset(options={"task": "original/office"})[0]
    assert "chest (closed)" in first and "utensils" not in first
    for command in ("take utensils from chest", "examine utensils", "close chest"):
        assert not env.step(command)[4]["valid"]
    observation, *_, info = env.step("open chest")
    assert "In it: utensils." in observation
    assert "take utensils from chest" in info["admissible"]
    assert not env.step("open chest")[4]["valid"]


def test_things_go_where_they_are_put():
    env = at("living room")
    env.step("take stale food from table")
    env.step("drop stale food")
    assert env.state.items[GOAL] == "living room"
    assert env.expert() == "take stale food"
    observation, *_ = env.step("Take the stale food")
    assert env.state.items[GOAL] == HELD and "You carry: stale food." in observation
    env.step("put stale food on table")
    assert env.state.items[GOAL] == "living room/table"


def test_the_food_in_the_open_fridge_is_not_yet_the_end():
    env = at("kitchen")
    env.step("open fridge")
    env.state.items[GOAL] = HELD
    assert not env.step("insert stale food into fridge")[2]
    for command in ("go east", "go west"):
        assert not env.step(command)[2]
    assert env.step("close fridge")[2]


def test_what_is_admissible_is_valid_and_nothing_else_of_its_kind():
    env = at("kitchen")
    info = env.reset(options={"task": "original/kitchen"})[1]
    assert info["admissible"] == ("go east", "go north", "go west", "open fridge")
    for command in ("go south", "close fridge", "take fruit from fridge", "eat fruit", "", "take"):
        observation, reward, _, _, info = env.step(command)
        assert not info["valid"] and reward == 0
        assert observation.startswith("That is not possible now")


def test_idle_commands_change_nothing():
    env = at("living room", inventory=False)
    env.step("take fresh food from table")
    before = env.step("go west")[4]["state_key"]
    for command, feedback in {
        "look": "You look around.",
        "inventory": "You carry: fresh food.",
        "examine the fresh food": "You see nothing special about the fresh food.",
        "examine table": "You see nothing special about the table.",
    }.items():
        observation, *_, info = env.step(command)
        assert info["valid"] and info["state_key"] == before
        assert observation.startswith(feedback)


def test_partial_observation_leaves_out_the_room_and_what_is_carried():
    env = at("bathroom", location=False, inventory=False)
    observation, _ = env.reset(options={"task": "original/bathroom"})
    assert observation == "Exits: north, west.\nCommands: go north, go west."
    garden = env.reset(options={"task": "original/garden"})
    assert garden[1]["state_key"] != env.reset(options={"task": "original/kitchen"})[1]["state_key"]


def shortest(state: State, layout: Any) -> int:
    """Breadth-first search over all states, as an independent check of `plan`."""
    seen, frontier, depth = set(), [state], 0
    while frontier:
        following = []
        for now in frontier:
            if now.items[GOAL] == "kitchen/fridge" and "kitchen/fridge" not in now.opened:
                return depth
            for verb, thing, place in commands(layout, now).values():
                new = State(now.room, dict(now.items), list(now.opened))
                if verb == "go":
                    new.room = place
                elif verb == "open":
                    new.opened.append(place)
                elif verb == "close":
                    new.opened.remove(place)
                elif thing != GOAL:
                    continue  # other things cannot help
                else:
                    new.items[GOAL] = place
                key = (new.room, new.items[GOAL], tuple(sorted(new.opened)))
                if key not in seen:
                    seen.add(key)
                    following.append(new)
        frontier, depth = following, depth + 1
    raise AssertionError("unsolvable")


@pytest.mark.parametrize("rooms", [2, 8, 16])
def test_generated_houses_are_connected_and_the_plan_is_a_shortest(rooms: int):
    worlds = [generated_world(f"train/{i}", rooms) for i in range(20)]
    for world in worlds:
        distances = Distances(world)
        assert all(len(found) == rooms for found in distances.steps.values())
        state = State(world.start, dict(world.items), [])
        if rooms <= 8:
            assert plan(world, distances, state)[0] == shortest(state, world)
    assert len({str(world.exits) for world in worlds}) > 1


@pytest.mark.parametrize("layout", ["original", "generated"])
def test_the_expert_solves_in_as_many_commands_as_planned(layout: str):
    env = TextNav(layout=layout, split="test")
    for seed in range(20):
        env.reset(seed=seed)
        ends = [env.step(env.expert() or "")[2] for _ in range(env.state.whole)]
        assert ends == [False] * (env.state.whole - 1) + [True]


@pytest.mark.parametrize("kwargs", [{"layout": "new"}, {"rooms": 1}, {"rooms": 17}])
def test_bad_arguments(kwargs: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        TextNav(**kwargs)
