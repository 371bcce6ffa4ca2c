"""Canaries: players that know nothing about a task, or too little to solve it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentgym.certify.episodes import NONSENSE, Choose, Episode, follow, random_player
from agentgym.core import TextEnv

COMMON = ("", NONSENSE, "yes", "no", "0", "1", "a", "the", "submit", "done", "stop", "answer")
"""Words that a random player may try if the set of actions is open."""
FLOOR_PLAYERS = ("nonsense", "empty", "random")
"""Players whose mean return is the floor."""


def first_listed(env: TextEnv, episode: Episode) -> str:
    """Chooses the first admissible action."""
    return (episode.admissible(-1) or [NONSENSE])[0]


def last_listed(env: TextEnv, episode: Episode) -> str:
    """Chooses the last admissible action."""
    return (episode.admissible(-1) or [NONSENSE])[-1]


def longest_listed(env: TextEnv, episode: Episode) -> str:
    """Chooses the longest admissible action."""
    return max(episode.admissible(-1) or [NONSENSE], key=len)


def canaries(
    own: Episode, foreign: Episode | None, vocabulary: Sequence[str]
) -> Mapping[str, Choose]:
    """Returns the canaries of a task by name.

    Args:
        own: the expert's episode.
        foreign: the expert's episode in another task, if there is one.
        vocabulary: words for a random player.
    """
    actions = own.actions
    last = actions[-1:] or [NONSENSE]
    found: dict[str, Choose] = {
        "nonsense": follow([]),
        "empty": follow([], ""),
        "random": random_player(own.task, vocabulary),
        "first listed": first_listed,
        "last listed": last_listed,
        "longest listed": longest_listed,
        "last action alone": follow(last),
        "last action repeated": follow([], last[0]),
    }
    if foreign is not None:
        found["plan of another task"] = follow(foreign.actions)
    return found


def vocabulary_of(episodes: Sequence[Episode], most: int = 80) -> list[str]:
    """Returns words and actions of the expert, for environments with an open set of actions."""
    actions = [action for episode in episodes[:8] for action in episode.actions]
    return list(dict.fromkeys([*COMMON, *actions]))[:most]
