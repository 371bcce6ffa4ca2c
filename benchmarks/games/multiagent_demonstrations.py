"""Episodes that the multi-agent benchmark clones, where no scripted expert plays them."""

from __future__ import annotations

from pathlib import Path

from agentgym.agents import View
from agentgym.evaluation import cross_play
from agentgym.multiagent.seats import GameSeat

MATCHES = ("rounds/4", "rounds/6", "rounds/8")
"""The matches that the dilemma is trained with."""
SLIP = 0.2
"""Share of random choices in the demonstrations of tit for tat, which the policy explores with."""


def noisy_tit_for_tat(view: View) -> str:
    """Returns the choice of tit for tat, or a random one with probability `SLIP`."""
    assert isinstance(view.env, GameSeat)
    slips = view.rng.random() < SLIP
    return view.env.script("random" if slips else "tit_for_tat", view.rng)


def matches_of_tit_for_tat(file: Path) -> None:
    """Writes matches of tit for tat against itself, with random choices in between."""
    cross_play(
        "PrisonersDilemma-v0",
        [noisy_tit_for_tat],
        episodes=MATCHES * 24,
        split="train",
        save=file,
    )
