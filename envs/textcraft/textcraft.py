"""TextCraft: get raw items and craft, step by step, the one that is asked for."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path

from agentgym.core import TextEnv, TimeStep, UnreadableAction
from agentgym.envs.textcraft.book import Recipe, RecipeBook, command, load_book
from agentgym.errors import DataError
from agentgym.tasks import Tasks, task_rng

CRAFT = re.compile(r"craft (.*) using (.*)")
GET = re.compile(r"get ([0-9]+) (.*)")
COUNTED = re.compile(r"([0-9]+) (.*)")
DISTRACTORS = 10
LONGEST = 1000
"""Characters of an action that are read."""
MOST = 999_999
"""The largest number that is understood: nothing needs more."""
TEST_EVERY = 5


@dataclass
class State:
    """What the agent holds, and how much of each item it has got or crafted in all."""

    inventory: dict[str, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)


class CannotDo(Exception):
    """Why an action does nothing."""


class Page:
    """What a task shows: its goal and recipes, of which up to ten are of no use for the goal.

    Attributes:
        goal: the item to make.
        text: the first observation.
        gets: commands that get what the recipes take, raw: in the amounts that they name, and that
            it takes to make, from nothing, what one of them makes.
        crafts: commands that follow the recipes, by the first item that they take: how much of it
            and of the others is needed, and the command.
        needs: how much of each item the shallowest way to the goal takes.
    """

    def __init__(self, book: RecipeBook, goal: str, task: str):
        self.goal = goal
        rng = task_rng(task, "textcraft")
        tree = book.tree(goal)
        others: dict[Recipe, None] = {}
        for name in dict.fromkeys(i.name for recipe in tree for i in recipe.inputs):
            uses = book.uses[name]
            for use in rng.permutation(len(uses))[:DISTRACTORS]:
                others[uses[use]] = None
        useful = set(tree)
        distractors = [recipe for recipe in others if recipe not in useful]
        picked = rng.permutation(len(distractors))[:DISTRACTORS]
        recipes = tree + [distractors[i] for i in picked]
        recipes = [recipes[i] for i in rng.permutation(len(recipes))]
        listed = dict.fromkeys(recipe.text for recipe in recipes)
        self.text = "Crafting commands:\n" + "\n".join(listed) + f"\n\nGoal: craft {goal}."
        named = [(i.name, i.amount) for recipe in recipes for i in recipe.inputs]
        # For all of them alike, so that the list does not tell the goal's amounts apart.
        outputs = [recipe.output for recipe in recipes if recipe.output in book.depth]
        taken = [need for output in outputs for need in book.plan(output, {}).items()]
        gets = (f"get {count} {name}" for name, count in named + taken if name in book.raw)
        self.gets = tuple(dict.fromkeys(gets))
        self.crafts: dict[str, list[tuple[int, tuple[tuple[str, int], ...], str]]] = {}
        for recipe in recipes:
            counts = [i.amount for i in recipe.inputs]
            for names in product(*map(book.items_for, recipe.inputs)):
                if len(set(names)) == len(names):
                    rest = tuple(zip(names[1:], counts[1:], strict=True))
                    found = self.crafts.setdefault(names[0], [])
                    found.append((counts[0], rest, command(recipe, names)))
        self.needs = {
            item: count * (1 if item in book.raw else book.shallowest(item).amount)
            for item, count in book.plan(goal, {}).items()
        }

    def progress(self, made: dict[str, int]) -> float:
        """Returns the mean share of what the shallowest way takes that has been got or made."""
        needs = self.needs
        shares = (min(1.0, count / needs[item]) for item, count in made.items() if item in needs)
        return sum(shares) / len(needs)

    def possible(self, inventory: dict[str, int]) -> list[str]:
        """Returns the commands that follow a listed recipe with what is held."""
        return [
            command
            for item, held in inventory.items()
            for count, rest, command in self.crafts.get(item, ())
            if held >= count and (not rest or all(inventory.get(i, 0) >= n for i, n in rest))
        ]


def parse_ingredients(text: str) -> list[tuple[int, str]]:
    """Returns the counts and items of a list such as "2 oak plank, 1 iron nail".

    Raises:
        CannotDo: if it is no such list.
    """
    found = []
    for part in text.split(","):
        match = COUNTED.match(part.strip())
        if match is None:
            raise CannotDo(f"Wrong item format: {part.strip()[:100]}")
        found.append((count_of(match[1]), item_name(match[2])))
    return found


def count_of(digits: str) -> int:
    """Returns the number, which may be large but not endless."""
    if len(digits) > 100 or int(digits) > MOST:
        raise CannotDo(f"Numbers go up to {MOST}")
    return int(digits)


def item_name(text: str) -> str:
    """Returns the name of an item as books have it: `oak_plank` is "oak plank"."""
    return text.replace("_", " ")


def follows(book: RecipeBook, recipe: Recipe, given: list[tuple[int, str]]) -> bool:
    """Returns whether the given items are the ingredients of a recipe, no more and no less."""
    left = list(given)
    for ingredient in recipe.inputs:
        found = next((i for i in left if book.accepts(ingredient, i[1])), None)
        if found is None or found[0] != ingredient.amount:
            return False
        left.remove(found)
    return not left


def get(book: RecipeBook, inventory: dict[str, int], amount: str, text: str) -> tuple[int, str]:
    """Adds to what is held; returns how many of what.

    Raises:
        CannotDo: if there is no such item, or it has to be made.
    """
    count, name = count_of(amount), item_name(text)
    if name not in book.raw:
        raise CannotDo(f"Could not find {name[:100]}")
    inventory[name] = inventory.get(name, 0) + count
    return count, name


def craft(book: RecipeBook, inventory: dict[str, int], output: str, inputs: str) -> tuple[int, str]:
    """Crafts from what is held; returns how many of what.

    Raises:
        CannotDo: if the items are not held, or no recipe makes the output of them.
    """
    counted = COUNTED.match(output)
    name = item_name(counted[2] if counted else output)
    given = parse_ingredients(inputs)
    total: dict[str, int] = {}
    for count, item in given:
        total[item] = total.get(item, 0) + count
    if any(item not in inventory or inventory[item] < count for item, count in total.items()):
        raise CannotDo(f"Could not find enough items to craft {name[:100]}")
    for recipe in book.recipes.get(name, ()):
        if follows(book, recipe, given):
            break
    else:
        raise CannotDo(f"Could not find a valid recipe for {name[:100]}")
    for item, count in total.items():
        inventory[item] -= count
        if not inventory[item]:
            del inventory[item]
    inventory[name] = inventory.get(name, 0) + recipe.amount
    return recipe.amount, name


class TextCraft(TextEnv):
    """Get raw items and craft others from them until the goal is made.

    ## Description
    The goal is an item, and the first observation lists the recipes that may serve, mixed with some
    that do not. What has no recipe can be got in any amount; all else must be crafted, level by
    level: a wind mill needs a sail, a sail cloth and rope, these thread, that fibre. The book that
    comes with AgentGym makes 700 items of 60 raw ones, up to 5 crafts deep.

    ## Action Space
    Text: `get 3 oak log`; `craft 3 oak plank using 1 oak log`: one use of a recipe, with all its
    ingredients in its amounts (the amount that is made may be left out); `inventory`.

    ## Observation Space
    Text: first the recipes and the goal, then what the last action did ("Got 3 oak log"). With
    `recall` every observation repeats recipes and goal and shows the inventory.

    ## Rewards
    1 (term `task`) when the goal is made, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Nothing is held. The task is the goal; the further recipes and their order are drawn by its
    name: up to 10 of those that share an ingredient with a useful one. Of the goals of each depth
    every fifth is for testing.

    ## Episode End
    Termination: the goal is made. Truncation: after `max_turns`.

    ## Information
    The common keys. `admissible`: `inventory`, what the listed recipes can make of what is held,
    and the raw items they take, in the amounts that they name and that it takes to make, from
    nothing, what one of them makes - other amounts, items and recipes of the book are allowed too,
    but the expert needs none. `progress`: of the items that the shallowest way takes, the mean
    share of their amounts that has been got or made.

    ## Arguments
    `depth`: only goals that are this many crafts deep (1 to 5 in AgentGym's book); None: all.
    `recall`: see above. `recipes`: a folder of recipes as JSON in Minecraft's format (1.16: shaped
    and shapeless; the folder `data/minecraft/recipes` of the game) to play with instead.
    `max_turns`: default 30, which suffices for every goal of AgentGym's book.

    ## Example Transcript
    ```
    Crafting commands:
    craft 3 oak plank using 1 oak log
    craft 2 oak bowl using 1 oak plank
    craft 1 oak beam using 2 oak log

    Goal: craft oak bowl.
    > get 1 oak log
    Got 1 oak log
    > craft 3 oak plank using 1 oak log
    Crafted 3 oak plank
    > craft 2 oak bowl using 1 oak plank
    Crafted 2 oak bowl
    ```

    ## Baselines
    142 test tasks, mean return and success: `TextCraft-v0` random 0.18, 18 % (most of it goals one
    craft deep); expert 1.00, 100 %, 7 turns. `TextCraft-Deep-v0` random 0.01, 1 %; expert 1.00,
    100 %, 10 turns.

    ## Registered Configurations
    `TextCraft-v0`: all goals. `TextCraft-Deep-v0`: goals of depth 4.

    ## References
    TextCraft comes from ADaPT (arXiv 2311.05772); actions, endings, loading of recipes, distractors
    and order of goals follow AgentGym (arXiv 2406.04151), without its three accidents: there, lists
    depend on the order of files and sets, listing a goal's recipes adds them to those of the goal,
    and an item named twice in one craft need be held only once. The recipes are our own.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Make the goal. You are given crafting commands, of which not all are useful. You can:\n"
        "get 3 oak log - get as many as you like of an item that no command makes;\n"
        "craft 3 oak plank using 1 oak log - craft with a command, exactly as it is written; once "
        "each turn. You must hold what it uses, and get as many as it says;\n"
        "inventory - see what you hold.\n"
        "Where a command uses a kind of item, such as 1 plank, put one item of that kind in its "
        "place, such as 1 oak plank. What can be made must be made: you cannot get it. Each turn, "
        "say one command and nothing else."
    )
    State = State
    cased = True  # as in the original

    def __init__(
        self,
        *,
        depth: int | None = None,
        recall: bool = False,
        recipes: str | None = None,
        max_turns: int | None = 30,
        **kwargs,
    ):
        super().__init__(max_turns=max_turns, **kwargs)
        self.recall = recall
        self.folder = None if recipes is None else str(Path(recipes).absolute())
        self.tasks = goal_tasks(load_book(self.folder), depth)

    @property
    def book(self) -> RecipeBook:
        """The recipes; shared, so that copies of the environment do not carry them."""
        return load_book(self.folder)

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        page = load_page(self.folder, task)
        return self._look("" if self.recall else page.text)

    def _advance(self, action: str) -> TimeStep:
        action = action[:LONGEST].strip()
        state = self.state
        try:
            if match := CRAFT.match(action):
                count, item = craft(self.book, state.inventory, match[1], match[2])
                message = f"Crafted {count} {item}"
            elif match := GET.match(action):
                count, item = get(self.book, state.inventory, match[1], match[2])
                message = f"Got {count} {item}"
            elif action.startswith("inventory"):
                return self._look(f"Inventory: {shown(state.inventory)}")
            else:
                raise CannotDo(f"Could not execute {action[:100]}")
        except CannotDo as reason:
            return self._failed(str(reason))
        state.made[item] = state.made.get(item, 0) + count
        return self._look(message)

    def _look(self, message: str) -> TimeStep:
        state, page = self.state, load_page(self.folder, self.task)
        done = page.goal in state.made
        actions = ("inventory", *page.gets, *page.possible(state.inventory))
        text = f"{page.text}\n\nInventory: {shown(state.inventory)}" if self.recall else message
        return TimeStep(
            text=text,
            rewards={"task": float(done)},
            terminated=done,
            success=done,
            progress=1.0 if done else page.progress(state.made),
            admissible=() if done else actions,
            state_key=f"{self.task}: {sorted(state.inventory.items())}",
            feedback=message if self.recall else "",
        )

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        return self._failed(action.feedback)

    def _failed(self, message: str) -> TimeStep:
        step = self._invalid(message)
        # Said alone, as in the original, not before the last result.
        return step if self.recall else dataclasses.replace(step, text=message, feedback="")

    def expert(self) -> str | None:
        """Returns what comes next on the shallowest way to the goal from what is held."""
        page = load_page(self.folder, self.task)
        return next(steps(self.book, page.goal, self.state.inventory), None)


def steps(book: RecipeBook, goal: str, inventory: dict[str, int]) -> Iterator[str]:
    """Yields the commands of the shallowest way to a goal; a recipe used twice comes twice.

    What is missing of a raw item is got in the amount that the goal takes from nothing, which is
    enough, and is among `Page.gets`.
    """
    whole = book.plan(goal, {})
    for item, count in book.plan(goal, inventory).items():
        if item in book.raw:
            yield f"get {whole[item]} {item}"
        else:
            recipe = book.shallowest(item)
            yield from [command(recipe, map(book.easiest, recipe.inputs))] * count


def goal_tasks(book: RecipeBook, depth: int | None) -> Tasks:
    """Returns the goals of a depth, or all; of each depth every fifth is for testing."""
    by_depth: dict[int, list[str]] = {}
    for goal in book.goals:
        by_depth.setdefault(book.depth[goal], []).append(f"craft/{goal}")
    if all(len(goals) < 2 for goals in by_depth.values()):
        raise DataError("The recipes have no two goals of a depth, so there are no tasks.")
    if depth is not None and len(by_depth.get(depth, ())) < 2:
        raise ValueError(f"depth must be None or one of {sorted(by_depth)}, got {depth!r}.")
    parts = [tasks for d, tasks in by_depth.items() if depth in (None, d)]
    return Tasks(
        train=tuple(t for part in parts for i, t in enumerate(part) if i % TEST_EVERY != 1),
        test=tuple(t for part in parts for t in part[1::TEST_EVERY]),
    )


@lru_cache(maxsize=4096)
def load_page(folder: str | None, task: str) -> Page:
    """Returns the page of a task."""
    return Page(load_book(folder), task.removeprefix("craft/"), task)


def shown(inventory: dict[str, int]) -> str:
    """Returns what is held as text."""
    held = " ".join(f"[{item}] ({count})" for item, count in inventory.items())
    return held or "You are not carrying anything."
