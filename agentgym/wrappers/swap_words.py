"""`SwapWords`: words change places, in all texts or in actions alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.wrappers.base import TextWrapper

OPPOSITES: dict[str, str] = {
    "north": "south",
    "east": "west",
    "up": "down",
    "left": "right",
    "forward": "backward",
    "open": "close",
    "push": "pull",
    "buy": "sell",
}
"""Pairs of opposite words of actions."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


class SwapWords(TextWrapper):
    """Swaps words, so that the same rules have other names, or the same names other rules.

    It is a layer of AutoEnv ("AutoEnv: Automated Environments for Measuring Cross-Environment Agent
    Learning", arXiv 2511.19304), which changes the rules, the observations or the rewards of an
    environment alone. Kept: environments that differ in one layer. Changed: there, a language model
    writes them. With `where="all"`, observations change: the task is the same in other words. With
    `where="actions"`, rules change: `north` does what `south` did, and no text says so.

    **Actions**: text, swapped before the environment reads it.

    **Observations**: text. With `where="all"`, they and the instructions are swapped as well.

    **Rewards**: unchanged.

    **Info**: the admissible actions are swapped.

    Both words of a pair change places, so different texts stay different, and swapping twice
    restores a text. Words are whole: letters, digits and underscores, in lower case, capitalised or
    in capitals. A single other character is a word too, such as `+`.

    Args:
        env: an environment with text observations and actions.
        words: pairs that swap, as a mapping, such as `{"north": "south", "key": "blicket"}`. None:
            common opposites (`agentgym.wrappers.swap_words.OPPOSITES`).
        where: "all" texts or "actions".

    Raises:
        ConfigError: if observations or actions are not text, a word is in two pairs, or is neither
            one word nor one character.
    """

    own_actions = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        words: Mapping[str, str] | None = None,
        *,
        where: Literal["all", "actions"] = "all",
    ):
        super().__init__(env, words=words, where=where)
        self._need_text("observations")
        self._need_text("actions")
        self._table = _table(OPPOSITES if words is None else words)
        self.where = where

    def swapped(self, text: str) -> str:
        """Returns a text with the words of every pair swapped."""
        return _TOKEN.sub(lambda found: self._table.get(found[0], found[0]), text)

    def _told(self, text: str) -> str:
        """Returns a text of the environment as the agent reads it."""
        return self.swapped(text) if self.where == "all" else text

    @property
    def instructions(self) -> str:
        """The environment's instructions, swapped with `where="all"`."""
        return self._told(str(self.env.get_wrapper_attr("instructions")))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        if isinstance(action, UnreadableAction):
            action = UnreadableAction(self._told(action), self._told(action.feedback))
        elif isinstance(action, str):
            action = self.swapped(action)
        return super().step(action)

    def expert(self) -> str | None:
        """Returns the swapped action of the environment's expert, or None if there is none."""
        action = self.env.get_wrapper_attr("expert")()
        return None if action is None else self.swapped(action)

    def privileged_text(self) -> str | None:
        """Returns the facts about the hidden state, swapped with `where="all"`: see `TextEnv`."""
        text = self.env.get_wrapper_attr("privileged_text")()
        return None if text is None else self._told(text)

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if "admissible" in info:
            info = {**info, "admissible": tuple(map(self.swapped, info["admissible"]))}
        return self._told(observation), info


def _table(words: Mapping[str, str]) -> dict[str, str]:
    """Returns the partner of every form of a word."""
    table: dict[str, str] = {}
    for pair in words.items():
        if not all(isinstance(word, str) and _TOKEN.fullmatch(word) for word in pair):
            raise ConfigError(
                f"words must be pairs of single words or single characters, got {pair!r:.80}."
            )
        kinds = {re.fullmatch(r"\w+", word) is None for word in pair}
        if len(kinds) > 1:
            raise ConfigError(f"A word swaps with a word, a character with one, got {pair!r:.80}.")
        if len({*pair}) < 2 or any(word in table for word in pair):
            raise ConfigError(
                f"A word must be in one pair of words alone, in any case, got {pair!r:.80} after "
                f"{[*table][:6]}."
            )
        for form in (str, str.lower, str.capitalize, str.upper):
            one, other = map(form, pair)
            whole = one != other and all(map(_TOKEN.fullmatch, (one, other)))
            if whole and one not in table and other not in table:
                table |= {one: other, other: one}
    return table
