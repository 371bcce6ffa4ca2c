"""Recipes and recipe books: ingredients, crafting depth and plans."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.envs.textcraft.recipes import lines
from agentgym.errors import DataError
from agentgym.utils.file_cache import Shared, cached_by_files


class Ingredient(NamedTuple):
    """An amount of an item or, with `kind`, of any item of a kind."""

    amount: int
    name: str
    kind: bool = False


class Recipe(NamedTuple):
    """A recipe for an amount of an item. `kind` is the kind that the item belongs to."""

    amount: int
    output: str
    inputs: tuple[Ingredient, ...]
    kind: str | None = None

    @property
    def text(self) -> str:
        """The recipe as a command."""
        return command(self, [item.name for item in self.inputs])


def command(recipe: Recipe, names: Iterable[str]) -> str:
    """Returns the command that follows a recipe with the given items."""
    parts = ", ".join(f"{i.amount} {name}" for i, name in zip(recipe.inputs, names, strict=True))
    return f"craft {recipe.amount} {recipe.output} using {parts}"


class RecipeBook(Shared):
    """Recipes by output.

    Loads recipes as TextCraft does. A recipe is skipped if its only ingredient is a block, or if
    earlier recipes make one of its ingredients from its output. A kind without craftable items
    counts as an item.

    Args:
        recipes: the recipes.
        folder: their folder, which copies of the book are read from. None: the bundled book.

    Attributes:
        recipes: recipes of each craftable item.
        makers: recipes that make an item of a kind, by kind.
        kind_of: kind of an item, if any.
        members: craftable items of each kind.
        raw: items without a recipe, which are available through `get`.
        depth: minimal crafting depth of an item or kind, 0 for raw items. Items that cannot be
            crafted from raw items are missing.
    """

    def __init__(self, recipes: Iterable[Recipe], folder: str | None = None):
        self.folder = folder
        self.recipes: dict[str, list[Recipe]] = {}
        self.makers: dict[str, list[Recipe]] = {}
        self.kind_of: dict[str, str] = {}
        items: set[str] = set()
        made_of: dict[str, set[str]] = {}
        for recipe in recipes:
            items.update((recipe.output, *(i.name for i in recipe.inputs if not i.kind)))
            if self._admits(recipe, made_of):
                self._add(recipe, made_of)
        self.members: dict[str, tuple[str, ...]] = {}
        for item, kind in self.kind_of.items():
            if item in self.recipes:
                self.members[kind] = (*self.members.get(kind, ()), item)
        for made in (self.recipes, self.makers):
            for name in made:
                made[name] = [_settled(recipe, self.members) for recipe in made[name]]
        used = {i.name for found in self.recipes.values() for r in found for i in r.inputs}
        self.raw = (items | used) - set(self.recipes) - set(self.makers) - set(self.members)
        self.depth = self._depths()

    def __reduce__(self):
        # Other processes read the book instead of carrying it.
        return load_book, (self.folder,)

    def _admits(self, recipe: Recipe, made_of: dict[str, set[str]]) -> bool:
        if len(recipe.inputs) == 1 and recipe.inputs[0].name.endswith(" block"):
            return False
        if recipe.kind and recipe.kind != recipe.output:
            self.kind_of[recipe.output] = recipe.kind
        return not any(recipe.output in made_of.get(i.name, ()) for i in recipe.inputs)

    def _add(self, recipe: Recipe, made_of: dict[str, set[str]]) -> None:
        self.recipes.setdefault(recipe.output, []).append(recipe)
        if recipe.kind:
            self.makers.setdefault(recipe.kind, []).append(recipe)
        below = made_of.setdefault(recipe.output, set())
        for name in (i.name for i in recipe.inputs):
            below |= {name} | made_of.get(name, set())

    def _depths(self) -> dict[str, int]:
        # Iterates to a fixed point because external books can have cycles over kinds.
        depth = dict.fromkeys(sorted(self.raw), 0)
        changed = True
        while changed:
            changed = False
            for name, recipes in (*self.makers.items(), *self.recipes.items()):
                known = [d for r in recipes if (d := _depth_of(r, depth)) is not None]
                if known and min(known) < depth.get(name, len(self.recipes) + 1):
                    depth[name], changed = min(known), True
        return depth

    @cached_property
    def uses(self) -> dict[str, list[Recipe]]:
        """The recipes in which an item or kind is an ingredient."""
        found: dict[str, list[Recipe]] = {}
        for recipe in (recipe for recipes in self.recipes.values() for recipe in recipes):
            for ingredient in recipe.inputs:
                found.setdefault(ingredient.name, []).append(recipe)
        return found

    @cached_property
    def goals(self) -> tuple[str, ...]:
        """The craftable items, by depth."""
        return tuple(
            sorted((i for i in self.recipes if i in self.depth), key=self.depth.__getitem__)
        )

    def tree(self, name: str) -> list[Recipe]:
        """Returns all recipes in the recipe tree of an item, without duplicates."""
        found: dict[Recipe, None] = {}
        waiting, seen = [name], {name}
        while waiting:
            name = waiting.pop()
            for recipe in self.recipes.get(name) or self.makers.get(name, ()):
                found[recipe] = None
                names = {i.name: None for i in recipe.inputs if i.name not in seen}
                seen.update(names)
                waiting += names
        return list(found)

    def accepts(self, ingredient: Ingredient, item: str) -> bool:
        """Whether an item matches an ingredient."""
        return (self.kind_of.get(item) if ingredient.kind else item) == ingredient.name

    def items_for(self, ingredient: Ingredient) -> tuple[str, ...]:
        """Returns the items that match an ingredient."""
        return self.members[ingredient.name] if ingredient.kind else (ingredient.name,)

    def shallowest(self, name: str) -> Recipe:
        """Returns the first recipe of minimal depth for a craftable item or kind."""
        recipes = self.recipes.get(name) or self.makers[name]
        return next(r for r in recipes if _depth_of(r, self.depth) == self.depth[name])

    def easiest(self, ingredient: Ingredient) -> str:
        """Returns the matching item of minimal depth for an ingredient."""
        return self.shallowest(ingredient.name).output if ingredient.kind else ingredient.name

    def plan(self, goal: str, inventory: dict[str, int]) -> dict[str, int]:
        """Returns the number of crafts per item and the amount per raw item for a goal.

        Every item is made by its shallowest recipe. The order of the result is executable.
        """
        wanted, plan = {goal: 1}, {}
        while wanted:
            # The deepest item first, because everything that needs it has been counted.
            item = max(wanted, key=self.depth.__getitem__)
            missing = wanted.pop(item) - inventory.get(item, 0)
            if missing <= 0:
                continue
            if item in self.raw:
                plan[item] = missing
                continue
            recipe = self.shallowest(item)
            plan[item] = -(-missing // recipe.amount)
            for ingredient in recipe.inputs:
                name = self.easiest(ingredient)
                wanted[name] = wanted.get(name, 0) + plan[item] * ingredient.amount
        return dict(reversed(plan.items()))


def _settled(recipe: Recipe, kinds: Container[str]) -> Recipe:
    """Turns ingredients of a kind without craftable items into items."""
    inputs = (i._replace(kind=i.kind and i.name in kinds) for i in recipe.inputs)
    return recipe._replace(inputs=tuple(inputs))


def _depth_of(recipe: Recipe, depth: dict[str, int]) -> int | None:
    depths = [depth.get(i.name) for i in recipe.inputs]
    known = [d for d in depths if d is not None]
    return 1 + max(known) if known and len(known) == len(depths) else None


@cached_by_files("folder", maxsize=8)
def load_book(folder: str | None) -> RecipeBook:
    """Returns the book of a folder of JSON files, or the bundled book for None. Cached."""
    return RecipeBook(own_recipes() if folder is None else read_recipes(Path(folder)), folder)


def own_recipes() -> Iterator[Recipe]:
    """Yields the recipes of the bundled book."""
    kinds = {kind for _, kind in lines()}
    for line, kind in lines():
        output, _, inputs = line.partition(": ")
        parts = [part.split(" ", 1) for part in inputs.split(", ")]
        ingredients = tuple(Ingredient(int(n), name, name in kinds) for n, name in parts)
        count, name = output.split(" ", 1)
        yield Recipe(int(count), name, ingredients, kind)


def read_recipes(folder: Path) -> Iterator[Recipe]:
    """Yields the shaped and shapeless recipes of a folder in Minecraft's format, by file name.

    The first of several alternative ingredients is used. Other types of recipes are skipped.

    Raises:
        DataError: if there are no JSON files, or if one of them is not a valid recipe.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"The folder {str(folder)!r} has no recipes. Expected files *.json.")
    for file in files:
        try:
            recipe = _read_recipe(json.loads(file.read_text("utf-8")))
        except (
            OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
            RecursionError,
        ) as error:  # fmt: skip
            raise DataError(f"{str(file)!r} is not a Minecraft recipe: {error!r:.200}.") from error
        if recipe is not None:
            yield recipe


def _read_recipe(data: dict[str, Any]) -> Recipe | None:
    if data["type"] == "minecraft:crafting_shaped":
        pattern = "".join(data["pattern"])
        counted = [(_item(item), pattern.count(sign)) for sign, item in data["key"].items()]
    elif data["type"] == "minecraft:crafting_shapeless":
        counted = list(Counter(_item(item) for item in data["ingredients"]).items())
    else:
        return None
    result = data["result"]
    output, count = (
        (result, 1) if isinstance(result, str) else (result["item"], result.get("count"))
    )
    inputs = tuple(Ingredient(n, name, kind) for (name, kind), n in counted)
    return Recipe(int(count or 1), _name(output), inputs, _name(data.get("group") or "") or None)


def _item(data: Any) -> tuple[str, bool]:
    first = data[0] if isinstance(data, list) else data
    return (_name(first["item"]), False) if "item" in first else (_name(first["tag"]), True)


def _name(id: str) -> str:
    return id.removeprefix("minecraft:").replace("_", " ")
