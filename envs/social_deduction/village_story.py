"""The knowledge of the players in a game of Werewolf that scripted players have played."""

from __future__ import annotations

import numpy as np

from agentgym.envs.social_deduction.deduction import PLAYERS, ROLES, SEER, WOLF, deals
from agentgym.envs.social_deduction.werewolf import Werewolf
from agentgym.utils.fast_pcg64 import Draws


def possible(roles: list[str], me: int, seen: dict[int, bool], dead: list[int]) -> np.ndarray:
    """Returns the deals that a player cannot rule out, shape (deals, players).

    A player knows its own role, those of dead players, as a werewolf the other werewolf, and as the
    seer its findings. Talk may be a lie and rules nothing out.

    Args:
        roles: role of each player.
        me: the player.
        seen: findings of the seer: whether a player is a werewolf.
        dead: the players whose roles are public.
    """
    wolf = ROLES.index(WOLF)
    known = {i: ROLES.index(roles[i]) for i in (me, *dead)}
    if roles[me] == WOLF:
        known |= {i: wolf for i, role in enumerate(roles) if role == WOLF}
    found = deals()
    found = found[(found[:, [*known]] == [*known.values()]).all(axis=1)]
    if roles[me] == SEER:
        for other, evil in seen.items():
            found = found[(found[:, other] == wolf) == evil]
    return found


def agreed(worlds: np.ndarray) -> list[bool]:
    """Returns for each player whether all deals agree on whether it is a werewolf.

    Args:
        worlds: deals, shape (deals, players).
    """
    evil = worlds == ROLES.index(WOLF)
    return (evil.all(axis=0) | ~evil.any(axis=0)).tolist()


def played(seed: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Plays a game up to its second day, and asks who knows whether a player is a werewolf.

    Args:
        seed: seed of the game.

    Returns:
        The lines of a report that tells all, and the questions with their answers, "yes" or "no",
        about each pair of living players.
    """
    game = Werewolf()
    game.reset(seed, f"deal/{Draws(seed).below(len(deals()))}")
    lines = [f"{name} is the {game.role(name)}." for name in PLAYERS]
    lines = ["The roles, which each player is told only about itself:", *lines]
    lines.append("Both werewolves know each other. The roles of dead players are public.")
    found: set[int] = set()
    while game.acting and game.state.day < 3:
        log = len(game.state.log)
        game.play({name: game.script("follower", name, game.np_random) for name in game.acting})
        for other in game.state.seen.keys() - found:
            seer = PLAYERS[game.state.roles.index(SEER)]
            evil = "a" if game.state.seen[other] else "not a"
            lines.append(
                f"{seer}, the seer, secretly finds out: {PLAYERS[other]} is {evil} werewolf."
            )
        found = {*game.state.seen}
        lines += game.state.log[log:]
    state = game.state
    dead = [i for i, alive in enumerate(state.alive) if not alive]
    questions = []
    for me, name in enumerate(PLAYERS):
        if me in dead:
            continue
        known = agreed(possible(state.roles, me, state.seen, dead))
        for other, about in enumerate(PLAYERS):
            if other != me and other not in dead:
                ask = f"Does {name} know for certain whether {about} is a werewolf?"
                questions.append((ask, "yes" if known[other] else "no"))
    return lines, questions
