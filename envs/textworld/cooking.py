"""Cooking: find the ingredients of a recipe, prepare them and eat the meal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.envs.textworld.base import COMMON, TextWorldGame


class Cooking(TextWorldGame):
    """Find the ingredients of a recipe, prepare them as required, and eat the meal.

    ## Description
    The cooking games of the First TextWorld Problems competition. The recipe is in a cookbook in
    the kitchen. The agent has to find the ingredients, cut them with a knife, and cook them with
    the right appliance: oven, stove or barbecue. Cooking an ingredient twice burns it, and a
    wrongly prepared ingredient loses the game.

    ## Action Space
    Text commands.

    - `examine cookbook`
    - `go north`, `open fridge`
    - `take red apple from counter`
    - `slice red apple with knife` (or `dice`, `chop`)
    - `cook red apple with oven` (or `stove`, `barbecue`)
    - `prepare meal`, `eat meal`

    ## Observation Space
    Text: the goal, the room and its contents, the exits, the things in the inventory, and the
    recipe after it was read. The text is generated from the facts of TextWorld's world in our
    words, or in TextWorld's (`words`).

    ## Rewards
    Term `task`: TextWorld's points. There is one point per ingredient found, cut and cooked, one
    for preparing the meal and one for eating it.

    ## Starting State
    The game is generated from the task's name.

    ## Episode End
    - Termination: the meal is eaten, or an ingredient is spoiled.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the share of the points. `admissible` excludes `look`,
    `inventory` and commands that only describe things, although these are valid. `state_key` covers
    the complete state.

    ## Arguments
    - `recipe` (int, default 2): number of ingredients, 1 to 5.
    - `take` (int, default 2): number of ingredients that must be found, from 1 to `recipe`.
    - `go` (int, default 6): number of rooms: 1, 6, 9 or 12.
    - `open` (bool, default True): whether doors are closed.
    - `cook` (bool, default True): whether ingredients must be cooked.
    - `cut` (bool, default True): whether ingredients must be cut.
    - `drop` (bool, default False): whether the inventory is limited to a few things.
    - `unseen_food` (bool, default False): whether the test tasks use food that does not occur in
      training tasks.
    - `games` (int, default 1000): number of training games.
    - `words` (str, default "own"): "own", or "original" for TextWorld's texts. Games with original
      texts are compiled, which takes longer.
    - `files` (str or list, default None): games to play instead: .z8 or .json files of TextWorld,
      or folders of them.
    - `max_turns` (int or None, default 100): turn limit.

    ## Notes
    - The expert is TextWorld's solution, which knows the complete state.
    - Games are generated once and kept in the user's cache. Snapshots are restored by replaying the
      commands.

    ## References
    TextWorld (arXiv 1806.11532) and its competition of 2018, `tw-cooking`. Needs the extra
    `textworld`.

    ## Version History
    v0: first version.
    """

    goal = "Read the cookbook in the kitchen, prepare the meal and eat it."
    instructions = (
        "You are in a house. Read the cookbook in the kitchen, prepare the meal of its recipe and "
        "eat it.\n"
        "\n"
        "Rules:\n"
        "- Examine the cookbook to read the recipe. Then find all ingredients and take them.\n"
        "- Cut the ingredients as the recipe requires: slice, dice or chop them with a knife in "
        "your inventory.\n"
        "- Cook the ingredients as the recipe requires: fry with a stove, roast with an oven, "
        "grill with a barbecue.\n"
        "- You lose if you cut or cook an ingredient in another way, or if you cook it twice.\n"
        "- When all ingredients are in your inventory and ready, go to the kitchen, prepare the "
        "meal and eat it.\n"
        "- You earn points for taking, cutting and cooking the ingredients, for preparing the "
        "meal and for eating it. The episode ends when you eat the meal, lose or run out of "
        "turns.\n"
        "\n"
        "Commands:\n"
        "- examine cookbook\n"
        "- slice red apple with knife (or dice, chop)\n"
        "- cook red apple with oven (or stove, barbecue)\n"
        "- prepare meal\n"
        "- eat meal\n" + COMMON
    )

    def __init__(
        self,
        *,
        recipe: int = 2,
        take: int = 2,
        go: int = 6,
        open: bool = True,
        cook: bool = True,
        cut: bool = True,
        drop: bool = False,
        unseen_food: bool = False,
        games: int = 1000,
        words: str = "own",
        files: str | Sequence[str] | None = None,
        max_turns: int | None = 100,
        **kwargs,
    ):
        if not 1 <= recipe <= 5:
            raise ValueError(f"recipe must be in [1, 5], got {recipe}.")
        if not 1 <= take <= recipe:
            raise ValueError(f"take must be in [1, recipe], here [1, {recipe}], got {take}.")
        if go not in (1, 6, 9, 12):
            raise ValueError(f"go must be 1, 6, 9 or 12, got {go}.")
        settings: dict[str, Any] = dict(
            recipe=recipe, take=take, go=go, open=open, cook=cook, cut=cut, drop=drop
        )
        settings["split"] = "train"
        self.unseen_food = unseen_food
        common: dict[str, Any] = dict(games=games, words=words, files=files, max_turns=max_turns)
        super().__init__("cooking", settings, **common, **kwargs)

    def _settings_of(self, task: str) -> dict[str, Any]:
        unseen = self.unseen_food and task.startswith("test/")
        return {**self.settings, "split": "test"} if unseen else self.settings
