"""TextCraft: a consistent book, the rules of the original, an expert that makes every goal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from agentgym.core import UnreadableAction
from agentgym.envs.textcraft.book import Ingredient, Recipe, RecipeBook, load_book
from agentgym.envs.textcraft.textcraft import TextCraft, steps
from agentgym.errors import DataError

BOOK = load_book(None)
FILES = {
    "log_to_plank": {
        "type": "minecraft:crafting_shapeless",
        "group": "planks",
        "ingredients": [{"item": "minecraft:oak_log"}],
        "result": {"item": "minecraft:oak_planks", "count": 4},
    },
    "pine_planks": {
        "type": "minecraft:crafting_shapeless",
        "group": "planks",
        "ingredients": [[{"item": "minecraft:pine_log"}, {"item": "minecraft:pine_wood"}]],
        "result": {"item": "minecraft:pine_planks", "count": 4},
    },
    "stick": {
        "type": "minecraft:crafting_shaped",
        "pattern": ["#", "#"],
        "key": {"#": {"tag": "minecraft:planks"}},
        "result": {"item": "minecraft:stick", "count": 4},
    },
    "torch": {
        "type": "minecraft:crafting_shaped",
        "pattern": ["X", "#"],
        "key": {"#": {"item": "minecraft:stick"}, "X": {"tag": "minecraft:coals"}},
        "result": {"item": "minecraft:torch"},
    },
    "wool": {
        "type": "minecraft:crafting_shapeless",
        "ingredients": [{"item": "minecraft:string"}] * 4,
        "result": "minecraft:wool",
    },
    "zz_string": {  # a cycle, because wool is already made of string
        "type": "minecraft:crafting_shapeless",
        "ingredients": [{"item": "minecraft:wool"}],
        "result": {"item": "minecraft:string", "count": 4},
    },
    "ingot": {
        "type": "minecraft:crafting_shapeless",
        "ingredients": [{"item": "minecraft:iron_block"}],
        "result": {"item": "minecraft:iron_ingot", "count": 9},
    },
    "smelted": {"type": "minecraft:smelting", "result": "minecraft:glass"},
}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name, data in FILES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    return str(tmp_path)


def test_the_book_is_large_deep_and_acyclic():
    assert len(BOOK.goals) == len(BOOK.recipes) == 709
    histogram = Counter(BOOK.depth[goal] for goal in BOOK.goals)
    assert set(histogram) == {1, 2, 3, 4, 5} and min(histogram.values()) >= 20
    names = set(BOOK.recipes) | BOOK.raw | set(BOOK.members)
    assert len(names) == len(BOOK.recipes) + len(BOOK.raw) + len(BOOK.members), "a name, one thing"
    assert all(name.replace(" ", "").isalpha() and name.islower() for name in names)
    below: dict[str, set[str]] = {}

    def made_of(item: str) -> set[str]:
        if item not in below:
            below[item] = set()
            for recipe in BOOK.recipes.get(item, ()):
                for part in (p for i in recipe.inputs for p in BOOK.items_for(i)):
                    below[item] |= {part} | made_of(part)
        return below[item]

    assert not any(item in made_of(item) for item in BOOK.recipes)


def test_every_ingredient_and_output_count_is_sensible():
    for recipe in (recipe for recipes in BOOK.recipes.values() for recipe in recipes):
        assert 1 <= recipe.amount <= 9
        assert recipe.inputs and all(1 <= i.amount <= 12 for i in recipe.inputs)
        assert len({i.name for i in recipe.inputs}) == len(recipe.inputs)


@pytest.mark.slow
def test_the_expert_makes_every_goal_within_the_turns():
    env = TextCraft()
    for split in (env.tasks.train, env.tasks.test):
        for task in split:
            env.reset(seed=0, options={"task": task})
            progress, reward, ended = 0.0, 0.0, False
            while not ended:
                action = env.expert()
                assert action is not None
                _, reward, ended, truncated, info = env.step(action)
                assert info["valid"] and not truncated and info["progress"] > progress
                progress = info["progress"]
            assert reward == progress == 1
    assert len(env.tasks.train) + len(env.tasks.test) == len(BOOK.goals)


def test_every_listed_recipe_is_true_and_up_to_ten_do_not_matter():
    env = TextCraft()
    for task in env.tasks.test:
        text, _ = env.reset(seed=0, options={"task": task})
        goal = task.removeprefix("craft/")
        listed = text.removeprefix("Crafting commands:\n").partition("\n\n")[0].split("\n")
        useful = {recipe.text for recipe in BOOK.tree(goal)}
        known = {recipe.text for recipes in BOOK.recipes.values() for recipe in recipes}
        assert useful <= set(listed) <= known and len(set(listed)) == len(listed)
        assert len(set(listed) - useful) <= 10
        assert text.endswith(f"\n\nGoal: craft {goal}.")


def start(goal: str, **kwargs) -> TextCraft:
    env = TextCraft(**kwargs)
    env.reset(seed=0, options={"task": f"craft/{goal}"})
    return env


def test_the_actions_of_the_original():
    env = start("walnut chair")
    for action, said, valid in [
        ("inventory", "Inventory: You are not carrying anything.", True),
        ("get 2 walnut log", "Got 2 walnut log", True),
        ("get 1 walnut_log please", "Could not find walnut log please", False),
        ("get 1 walnut_log", "Got 1 walnut log", True),
        ("get 1 walnut plank", "Could not find walnut plank", False),
        ("get 1 plank", "Could not find plank", False),
        ("get two walnut log", "Could not execute get two walnut log", False),
        ("Get 2 walnut log", "Could not execute Get 2 walnut log", False),
        ("get 0 sand", "Got 0 sand", True),
        ("craft 9 walnut plank using 1 walnut log", "Crafted 3 walnut plank", True),
        ("craft walnut plank using 1 walnut log", "Crafted 3 walnut plank", True),
        (
            "craft 3 walnut plank using 2 walnut log",
            "Could not find enough items to craft walnut plank",
            False,
        ),
        (
            "craft 4 walnut rod using 2 walnut plank",
            "Could not find a valid recipe for walnut rod",
            False,
        ),
        (
            "craft 4 walnut rod using 1 walnut plank, 1 walnut log",
            "Could not find a valid recipe for walnut rod",
            False,
        ),
        ("craft 4 walnut rod using walnut plank", "Wrong item format: walnut plank", False),
        ("craft 4 walnut rod using 1 walnut plank", "Crafted 4 walnut rod", True),
        (
            "inventory now",
            "Inventory: [walnut log] (1) [sand] (0) [walnut plank] (5) [walnut rod] (4)",
            True,
        ),
    ]:
        text, reward, ended, _, info = env.step(action)
        assert (text, info["valid"], reward, ended) == (said, valid, 0.0, False)
    text, reward, ended, _, info = env.step("craft walnut chair using 4 walnut rod, 2 walnut plank")
    assert (text, reward, ended, info["progress"]) == ("Crafted 1 walnut chair", 1.0, True, 1.0)


def test_any_one_item_of_a_kind_serves_but_not_a_mixture():
    env = start("iron knife")
    for action in ["get 9 iron ore", "get 9 coal", "get 1 oak log", "get 1 pine log"]:
        env.step(action)
    for action in [
        "craft 1 iron ingot using 2 iron ore, 1 coal",
        "craft 2 iron blade using 1 iron ingot",
        "craft 3 oak plank using 1 oak log",
        "craft 4 oak rod using 1 oak plank",
    ]:
        assert env.step(action)[4]["valid"]
    text, *_ = env.step("craft 1 iron knife using 1 iron blade, 1 rod")
    assert text == "Could not find enough items to craft iron knife"
    _, info = env.restore(env.snapshot())
    assert "craft 1 iron knife using 1 iron blade, 1 oak rod" in info["admissible"]
    assert env.step("craft 1 iron knife using 1 oak rod, 1 iron blade")[1] == 1
    two = RecipeBook(
        [
            *(Recipe(1, f"{w} rod", (Ingredient(1, f"{w} log"),), "rod") for w in ("oak", "ash")),
            Recipe(1, "raft", (Ingredient(2, "rod", kind=True), Ingredient(1, "oak rod"))),
        ]
    )
    assert two.depth["raft"] == 2 and two.members == {"rod": ("oak rod", "ash rod")}


def test_items_named_twice_have_to_be_held_twice():
    env = start("oak oar")
    for action in ["get 1 oak log", "craft 3 oak plank using 1 oak log"]:
        env.step(action)
    text, *_ = env.step("craft 1 oak bench using 2 oak plank, 2 oak plank")
    assert text == "Could not find enough items to craft oak bench"
    assert env.state.inventory == {"oak plank": 3}


def test_admissible_actions_are_valid_and_enough():
    env = start("iron hinge")
    gets: list[str] = []
    for _ in range(25):
        snapshot = env.snapshot()
        _, info = env.restore(snapshot)
        made = [action for action in info["admissible"] if action.startswith("craft")]
        for action in info["admissible"]:
            assert env.step(action)[4]["valid"], action
            env.restore(snapshot)
        gets = [a for a in info["admissible"] if a.startswith("get")]
        if env.step(made[-1] if made else gets[env._turn % len(gets)])[2]:
            break
    assert any(action == "get 2 iron ore" for action in gets)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [None, 4])
def test_the_experts_actions_are_listed_wherever_it_is_asked(depth: int | None):
    env = TextCraft(depth=depth)
    rng = np.random.default_rng(0)
    lengths = []
    for task in (*env.tasks.train, *env.tasks.test):
        _, info = env.reset(seed=0, options={"task": task})
        ended = False
        while not ended:
            listed = info["admissible"]
            lengths.append(len(listed))
            action = env.expert()
            assert action is not None and action in listed
            if rng.random() < 0.3:
                action = listed[int(rng.integers(len(listed)))]
            _, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
    assert np.mean(lengths) < 25 and max(lengths) < 100


def test_states_are_equal_where_what_is_held_is():
    env = start("oak table")
    keys = {}
    for name, actions in {
        "ab": ["get 1 sand", "get 2 clay"],
        "ba": ["get 2 clay", "get 1 sand"],
        "looked": ["get 2 clay", "inventory", "get 3 coalmine", "get 1 sand"],
        "more": ["get 2 clay", "get 2 sand"],
    }.items():
        env.reset(seed=0, options={"task": "craft/oak table"})
        keys[name] = [env.step(action)[4]["state_key"] for action in actions][-1]
    assert keys["ab"] == keys["ba"] == keys["looked"] != keys["more"]


def test_recall_shows_all_that_is_needed_in_every_observation():
    env = start("oak rod", recall=True)
    plain, _ = TextCraft().reset(seed=0, options={"task": "craft/oak rod"})
    text, *_ = env.step("get 1 oak log")
    assert text == f"Got 1 oak log\n\n{plain}\n\nInventory: [oak log] (1)"
    text, *_ = env.step("get 1 oak rod")
    assert text == f"Could not find oak rod\n\n{plain}\n\nInventory: [oak log] (1)"
    text, *_ = env.step(UnreadableAction("hm"))
    assert text == f"No action could be read.\n\n{plain}\n\nInventory: [oak log] (1)"


def test_what_cannot_be_read_does_not_repeat_what_was_done():
    env = start("oak rod")
    env.step("get 1 oak log")
    text, *_, info = env.step(UnreadableAction("hm"))
    assert text == "No action could be read." and not info["valid"]


def test_depth_chooses_the_goals_and_keeps_the_splits():
    every = TextCraft().tasks
    for depth in range(1, 6):
        tasks = TextCraft(depth=depth).tasks
        assert set(tasks.train) <= set(every.train) and set(tasks.test) <= set(every.test)
        goals = [task.removeprefix("craft/") for task in (*tasks.train, *tasks.test)]
        assert {BOOK.depth[goal] for goal in goals} == {depth}
    with pytest.raises(ValueError, match="depth"):
        TextCraft(depth=6)


def test_recipes_of_minecraft_s_format(folder: str):
    book = load_book(folder)
    assert book.raw == {"oak log", "pine log", "coals", "string", "iron ingot", "iron block"}
    assert book.goals == ("oak planks", "pine planks", "wool", "stick", "torch")
    assert [book.depth[goal] for goal in book.goals] == [1, 1, 1, 2, 3]
    assert book.recipes["stick"][0].text == "craft 4 stick using 2 planks"
    assert book.recipes["wool"][0].text == "craft 1 wool using 4 string"
    assert list(steps(book, "torch", {})) == [
        "get 1 oak log",
        "get 1 coals",
        "craft 4 oak planks using 1 oak log",
        "craft 4 stick using 2 oak planks",
        "craft 1 torch using 1 stick, 1 coals",
    ]
    env = TextCraft(recipes=folder)
    env.reset(seed=0, options={"task": "craft/torch"})
    for action in ["get 1 pine log", "craft pine planks using 1 pine log"]:
        env.step(action)
    assert env.step("craft 4 stick using 2 planks")[4]["valid"] is False
    assert env.step("craft 4 stick using 2 pine planks")[0] == "Crafted 4 stick"
    env.step("get 1 coals")
    assert env.step("craft 1 torch using 1 coals, 1 stick")[1] == 1


def test_a_folder_that_holds_no_recipes_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="no recipes"):
        TextCraft(recipes=str(tmp_path))
    (tmp_path / "a.json").write_text('{"type": "minecraft:crafting_shaped"}')
    with pytest.raises(DataError, match=r"a\.json"):
        TextCraft(recipes=str(tmp_path))
    for text in ("[" * 100_000, '{"type": ' + "9" * 10_000 + "}", "[]", '{"type": []}'):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(DataError):
            TextCraft(recipes=str(tmp_path))
    (tmp_path / "a.json").write_text('{"type": "minecraft:smelting"}')
    with pytest.raises(DataError, match="no tasks"):
        TextCraft(recipes=str(tmp_path))


def test_cycles_over_kinds_make_no_goal():
    loop = RecipeBook(
        [
            Recipe(1, "red wool", (Ingredient(1, "wool", kind=True), Ingredient(1, "dye")), "wool"),
            Recipe(1, "bed", (Ingredient(3, "red wool"),)),
            Recipe(1, "cup", (Ingredient(1, "clay"),)),
        ]
    )
    assert loop.goals == ("cup",)


def test_pages_do_not_depend_on_the_hash_seed():
    code = (
        "from agentgym.envs.textcraft.textcraft import TextCraft\n"
        "env = TextCraft()\n"
        "for task in ('craft/wind mill', 'craft/sandwich'):\n"
        "    print(env.reset(seed=0, options={'task': task}))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and "wind mill" in outputs.pop()


@pytest.mark.parametrize("line", ["get 1 oak log\nget 1 oak log", "inventory\nget 1 oak log"])
def test_several_commands_are_refused(line: str):
    env = TextCraft()
    env.reset(seed=0)
    before = dict(env.state.inventory)
    text, *_, info = env.step(line)
    assert not info["valid"] and "one command" in text and env.state.inventory == before
    assert env.step("get 1 oak log")[4]["valid"]
