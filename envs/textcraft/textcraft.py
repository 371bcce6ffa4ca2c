"""TextCraft: get raw items and craft a goal item."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path

from agentgym.core import TextEnv, UnreadableAction
from agentgym.envs.textcraft.book import Recipe, RecipeBook, command, load_book
from agentgym.errors import DataError
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

CRAFT = re.compile(r"craft (.*) using (.*)")
GET = re.compile(r"get ([0-9]+) (.*)")
COMMAND = re.compile(r"^[ \t]*(?:craft|get|inventory)\b", re.MULTILINE)
COUNTED = re.compile(r"([0-9]+) (.*)")
DISTRACTORS = 10
LONGEST = 1000
"""Maximum number of characters of an action."""
MOST = 999_999
"""The largest number in an action."""
TEST_EVERY = 5


@dataclass
class State:
    """The inventory, and the total amount of each item obtained or crafted so far."""

    inventory: dict[str, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)


class CannotDo(Exception):
    """Raised if an action is not possible, with the reason."""


class Page:
    """The goal and the listed recipes of a task, including up to ten distractors.

    Attributes:
        goal: the item to make.
        text: the first observation.
        gets: commands that get raw ingredients of the listed recipes, in the amounts of a recipe
            and in the amounts that one of their outputs takes in total.
        crafts: commands that follow the recipes, by their first item: its amount, the other items
            with amounts, and the command.
        needs: amount of each item on the shallowest path to the goal.
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
        # Covers all outputs equally, so that the list does not reveal the amounts of the goal.
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
        """Returns the mean fraction of the needed amounts that has been obtained or crafted."""
        needs = self.needs
        shares = (min(1.0, count / needs[item]) for item, count in made.items() if item in needs)
        return sum(shares) / len(needs)

    def possible(self, inventory: dict[str, int]) -> list[str]:
        """Returns the commands that follow a listed recipe with the items in the inventory."""
        return [
            command
            for item, held in inventory.items()
            for count, rest, command in self.crafts.get(item, ())
            if held >= count and (not rest or all(inventory.get(i, 0) >= n for i, n in rest))
        ]


def parse_ingredients(text: str) -> list[tuple[int, str]]:
    """Returns the counts and items of a list such as "2 oak plank, 1 iron nail".

    Raises:
        CannotDo: if the text is not such a list.
    """
    found = []
    for part in text.split(","):
        match = COUNTED.match(part.strip())
        if match is None:
            raise CannotDo(f"Wrong item format: {part.strip()[:100]}")
        found.append((count_of(match[1]), item_name(match[2])))
    return found


def count_of(digits: str) -> int:
    """Parses a number of at most `MOST`."""
    if len(digits) > 100 or int(digits) > MOST:
        raise CannotDo(f"Numbers go up to {MOST}")
    return int(digits)


def item_name(text: str) -> str:
    """Returns the name of an item in the book: `oak_plank` becomes "oak plank"."""
    return text.replace("_", " ")


def follows(book: RecipeBook, recipe: Recipe, given: list[tuple[int, str]]) -> bool:
    """Whether the given items are exactly the ingredients of a recipe."""
    left = list(given)
    for ingredient in recipe.inputs:
        found = next((i for i in left if book.accepts(ingredient, i[1])), None)
        if found is None or found[0] != ingredient.amount:
            return False
        left.remove(found)
    return not left


def get(book: RecipeBook, inventory: dict[str, int], amount: str, text: str) -> tuple[int, str]:
    """Adds raw items to the inventory and returns their amount and name.

    Raises:
        CannotDo: if there is no such item, or if it has to be crafted.
    """
    count, name = count_of(amount), item_name(text)
    if name not in book.raw:
        raise CannotDo(f"Could not find {name[:100]}")
    inventory[name] = inventory.get(name, 0) + count
    return count, name


def craft(book: RecipeBook, inventory: dict[str, int], output: str, inputs: str) -> tuple[int, str]:
    """Crafts from the inventory and returns the amount and name of the output.

    Raises:
        CannotDo: if the inventory lacks the items, or if no recipe makes the output from them.
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
    """Get raw items and craft other items from them until the goal item is made.

    ## Description
    The goal is an item. The first observation lists the recipes of its recipe tree, mixed with
    distractors. Items without a recipe are available in any amount. All other items have to be
    crafted, level by level: a wind mill needs a sail, a sail needs cloth and rope, these need
    thread, and thread needs fibre. The bundled book makes 700 items from 60 raw ones, up to 5
    crafts deep.

    ## Action Space
    Text, one of:

    - `get 3 oak log`: get an amount of a raw item.
    - `craft 3 oak plank using 1 oak log`: follow a recipe once with exactly its ingredients and
      amounts. The output amount is optional.
    - `inventory`: list the held items.

    ## Observation Space
    Text: first the recipes and the goal, then the result of the last action ("Got 3 oak log").
    With `recall`, every observation contains the recipes, the goal and the inventory.

    ## Rewards
    1 (term `task`) when the goal is made, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    The inventory is empty. The task is the goal. Up to 10 distractors, which share an ingredient
    with a recipe of the tree, and the order of the list are sampled from the task name. One in five
    goals of each depth is a test task.

    ## Episode End
    Termination: the goal is made. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `admissible` lists `inventory`, the listed recipes that the inventory allows,
    and `get` commands for their raw ingredients, in the amounts of a recipe and in the amounts that
    one of their outputs takes in total. Other amounts, items and recipes of the book are valid too,
    but not needed. `progress` is the mean fraction of the amounts on the shallowest path to the
    goal that has been obtained or crafted.

    ## Arguments
    - `depth` (int or None, default None): only goals of this crafting depth (1 to 5 in the bundled
      book). None means all goals.
    - `recall` (bool, default False): whether every observation contains recipes, goal and
      inventory.
    - `recipes` (str or None, default None): folder of JSON recipes in the format of Minecraft 1.16
      (shaped and shapeless), such as the folder `data/minecraft/recipes` of the game. None means
      the bundled book.
    - `max_turns` (int or None, default 30): turn limit. 30 suffices for every goal of the bundled
      book.

    ## References
    TextCraft of ADaPT (arXiv 2311.05772). Actions, episode ends, loading of recipes, distractors
    and the order of goals follow the AgentGym framework of Xi et al. (arXiv 2406.04151), with three
    fixes. In that framework, lists depend on the order of files and sets, listing the recipes of a
    goal modifies the recipes of the goal, and an item that is named twice in one craft has to be
    held only once. The recipes of the bundled book are original.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Craft the goal item. You are given crafting commands, and not all of them are useful.\n"
        "Each turn, reply with one action and nothing else:\n"
        "- get 3 oak log: get any amount of an item that has no crafting command. You cannot get "
        "other items this way.\n"
        "- craft 3 oak plank using 1 oak log: follow a crafting command once, with exactly its "
        "ingredients and amounts. You must hold the ingredients.\n"
        "- inventory: list the items that you hold.\n"
        "If a crafting command uses a kind of item, such as 1 plank, replace it with a specific "
        "item of that kind, such as 1 oak plank.\n"
        "The episode ends with a reward of 1 when you have made the goal item."
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
        self.book = load_book(self.folder)
        self.tasks = goal_tasks(self.book, depth)

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        page = load_page(self.book, task)
        return self._look("" if self.recall else page.text)

    def _advance(self, action: str) -> TimeStep:
        action, state = action.strip(), self.state
        if len(action) > LONGEST or ("\n" in action and len(COMMAND.findall(action)) > 1):
            return self._failed(f"Reply with one command of at most {LONGEST} characters.")
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
        state, page = self.state, load_page(self.book, self.task)
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
        # As in the original, the message replaces the last result.
        return step if self.recall else dataclasses.replace(step, text=message, feedback="")

    def privileged_text(self) -> str:
        """Returns the number of actions to the goal by the expert, and the inventory."""
        goal, held = load_page(self.book, self.task).goal, self.state.inventory
        left = sum(1 for _ in steps(self.book, goal, held))
        return f"Actions to the goal: {left}. {shown(held)}"

    def expert(self) -> str | None:
        """Returns the next command of the shallowest plan from the current inventory."""
        page = load_page(self.book, self.task)
        return next(steps(self.book, page.goal, self.state.inventory), None)


def steps(book: RecipeBook, goal: str, inventory: dict[str, int]) -> Iterator[str]:
    """Yields the commands of the shallowest plan for a goal.

    Missing raw items are obtained in the amount that the goal takes in total, which is among
    `Page.gets`.
    """
    whole = book.plan(goal, {})
    for item, count in book.plan(goal, inventory).items():
        if item in book.raw:
            yield f"get {whole[item]} {item}"
        else:
            recipe = book.shallowest(item)
            yield from [command(recipe, map(book.easiest, recipe.inputs))] * count


def goal_tasks(book: RecipeBook, depth: int | None) -> Tasks:
    """Returns the goals of a depth, or all. One in five goals of each depth is a test task."""
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
def load_page(book: RecipeBook, task: str) -> Page:
    """Returns the page of a task."""
    return Page(book, task.removeprefix("craft/"), task)


def shown(inventory: dict[str, int]) -> str:
    """Returns the inventory as text."""
    held = " ".join(f"[{item}] ({count})" for item, count in inventory.items())
    return held or "You are not carrying anything."
