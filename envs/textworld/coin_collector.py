"""CoinCollector: find a coin in a house with many rooms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.envs.textworld.base import TextWorldGame, check_mode

LONGEST = {"easy": 99, "medium": 50, "hard": 33}
"""Rooms of the chain in each mode. With the dead ends, TextWorld allows a hundred."""


class CoinCollector(TextWorldGame):
    """Find a coin in a house with many rooms.

    ## Description
    The Coin Collector of Yuan et al.: rooms without doors form a chain with dead ends, and the coin
    is in the last room. The difficulty is to explore without going in circles.

    ## Action Space
    Text commands: `go north` (or another direction) and `take coin`.

    ## Observation Space
    Text: the goal, the room and its contents, the exits, and the things in the inventory.

    ## Rewards
    Term `task`: 1 for taking the coin, else 0.

    ## Starting State
    The game is generated from the task's name. The player is at the other end of the chain.

    ## Episode End
    - Termination: the coin is taken.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is 1 at the end and 0 before. `admissible` excludes `look`,
    `inventory` and commands that only describe things. `state_key` covers the complete state.

    ## Arguments
    - `mode` (str, default "hard"): "easy" (no dead ends), "medium" (one dead end per room of the
      chain) or "hard" (two).
    - `quest_length` (int, default 10): rooms of the chain, at least 1, and at most 99 in mode
      "easy", 50 in "medium" and 33 in "hard".
    - `games`, `words`, `files`: as in Cooking.
    - `max_turns` (int or None, default 50): turn limit.

    ## Notes
    The expert knows the map.

    ## References
    Counting to Explore and Generalize in Text-based Games (arXiv 1806.11525), TextWorld (arXiv
    1806.11532), `tw-coin_collector`. Needs the extra `textworld`. TextWorld's objective describes
    the way to the coin and ours does not.

    ## Version History
    v0: first version.
    """

    goal = "Find the coin and take it."
    instructions = (
        "You are in a house with many rooms. Find the coin and take it.\n"
        "\n"
        "Rules:\n"
        "- You see only the room where you are. Explore the house without going in circles.\n"
        "- You get a reward of 1 for taking the coin. The episode ends then, or when you run out "
        "of turns.\n"
        "\n"
        "Commands:\n"
        "- go north (or south, east, west)\n"
        "- take coin\n"
        "- look\n"
        "- inventory\n"
        "\n"
        "Reply with exactly one command per turn."
    )

    def __init__(
        self,
        *,
        mode: str = "hard",
        quest_length: int = 10,
        games: int = 1000,
        words: str = "own",
        files: str | Sequence[str] | None = None,
        max_turns: int | None = 50,
        **kwargs,
    ):
        check_mode(mode)
        if not 1 <= quest_length <= LONGEST[mode]:
            raise ValueError(
                f"quest_length must be in [1, {LONGEST[mode]}] in mode {mode!r}, got "
                f"{quest_length}."
            )
        settings = dict(mode=mode, quest_length=quest_length)
        common: dict[str, Any] = dict(games=games, words=words, files=files, max_turns=max_turns)
        super().__init__("coin", settings, **common, **kwargs)
