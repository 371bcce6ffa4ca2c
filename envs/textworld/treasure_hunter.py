"""TreasureHunter: find a thing in a house and avoid a decoy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from agentgym.envs.textworld.base import COMMON, TextWorldGame, check_mode


class TreasureHunter(TextWorldGame):
    """Find a thing in a house and avoid a decoy.

    ## Description
    The Treasure Hunter of TextWorld, after a task of Parisotto and Salakhutdinov: a house with
    doors and containers. Taking the right thing wins, and taking the decoy loses.

    ## Action Space
    Text commands, such as `go west`, `open chest`, `take frisbee from chest` and
    `unlock door with key`.

    ## Observation Space
    Text: the goal, the room and its contents, the exits, and the things in the inventory.

    ## Rewards
    Term `task`: 1 for taking the treasure, else 0.

    ## Starting State
    The game is generated from the task's name.

    ## Episode End
    - Termination: the treasure or the decoy is taken.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is 1 at the end of a won game and 0 before. `admissible` excludes
    `look`, `inventory` and commands that only describe things. `state_key` covers the complete
    state.

    ## Arguments
    - `mode` (str, default "medium"): "easy" (no doors, nothing else in the rooms), "medium" (doors
      and containers that may be closed) or "hard" (some are locked and the keys are available).
    - `rooms` (int, default 10): number of rooms, 2 to 40.
    - `quest_length` (int, default 6): minimum number of commands to win.
    - `games`, `words`, `files`: as in Cooking.
    - `max_turns` (int or None, default 50): turn limit.

    ## Notes
    The expert knows the map.

    ## References
    TextWorld (arXiv 1806.11532), `tw-treasure_hunter`, after arXiv 1702.08360. Needs the extra
    `textworld`. TextWorld's objective describes the way to the treasure and ours does not.

    ## Version History
    v0: first version.
    """

    goal = "Take the {}. Another thing is a decoy: if you take it, you lose."
    declares: ClassVar[dict[str, str]] = {
        "semantic.no_solution_leakage": "the goal names the thing to take, not its place",
    }
    instructions = (
        "You are in a house. Find the thing that the goal names and take it.\n"
        "\n"
        "Rules:\n"
        "- You see only the room where you are. The thing may be in a closed container, and doors "
        "may be closed.\n"
        "- One other thing is a decoy: if you take it, you lose. Take nothing else but keys.\n"
        "- You get a reward of 1 for taking the right thing. The episode ends when you win, lose "
        "or run out of turns.\n"
        "\n"
        "Commands:\n" + COMMON
    )

    def __init__(
        self,
        *,
        mode: str = "medium",
        rooms: int = 10,
        quest_length: int = 6,
        games: int = 1000,
        words: str = "own",
        files: str | Sequence[str] | None = None,
        max_turns: int | None = 50,
        **kwargs,
    ):
        check_mode(mode)
        if not 2 <= rooms <= 40:
            raise ValueError(f"rooms must be in [2, 40], got {rooms}.")
        if not 1 <= quest_length <= 2 * rooms:
            raise ValueError(
                f"quest_length must be in [1, 2 * rooms], here [1, {2 * rooms}], "
                f"got {quest_length}."
            )
        settings = dict(mode=mode, rooms=rooms, quest_length=quest_length)
        common: dict[str, Any] = dict(games=games, words=words, files=files, max_turns=max_turns)
        super().__init__("treasure", settings, **common, **kwargs)
