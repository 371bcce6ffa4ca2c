"""The environments of `evidence_queue.py`, and the rule that chooses among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Rule:
    """The choice of environments, made before any result.

    A clone of the expert with the first seed plays the held-out tasks greedily. An environment
    counts if it succeeds in `least` to `most` of them: below, RL has nothing to find, and above,
    nothing to gain. A clone below `least` is repeated with the next number of demonstrations.
    """

    demonstrations: tuple[int, ...] = (64, 200)
    least: float = 0.15
    most: float = 0.70
    environments: int = 4


@dataclass(frozen=True)
class Candidate:
    """An environment of the grid.

    Attributes:
        turns: mean turns of the expert. A run has 2,560 episodes of this length, in steps.
        settings: settings of `agentgym train` beyond the file.
        demonstrations: given for an environment that a question chooses. The rule does not look
            at its clone then.
    """

    turns: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    demonstrations: int | None = None


EPISODES = 2560
LISTED = {"context": "current", "constrain": True, "max_new_tokens": 16}
CANDIDATES = {
    "Arithmetic-v0": Candidate(1.0, {"max_new_tokens": 8}),
    "ProposeSolve-v0": Candidate(1.0, {"max_new_tokens": 24}),
    "TextCraft-v0": Candidate(2.0, LISTED),
    "LiarsDice-Duel-v0": Candidate(1.0, LISTED),
    "Shell-v0": Candidate(2.2),
    "Sheet-v0": Candidate(2.8),
    "Todo-v0": Candidate(3.8),
    "Weather-v0": Candidate(3.5),
    "Movie-v0": Candidate(4.2),
    "BabyAI-Text-v0": Candidate(2.8, LISTED),
    "SearchQA-v0": Candidate(3.5),
    "MiniWoB-Text-v0": Candidate(3.8, LISTED),
    "TextNav-Random-v0": Candidate(8.2, LISTED),
    "WebShop-v0": Candidate(5.2, LISTED),
    # One turn, one sentence: are long actions better judged token by token (`poad`) than as a
    # whole (`turn`), and does either critic beat a mean over the group (`grpo`)? The measure is
    # the mean reward. Asked before any of its runs.
    "TextGeneration-v0": Candidate(1.0, demonstrations=64),
    # Several turns of a few tokens, and states that recur: does credit by groups or graphs of
    # states (`gigpo`, `gagpo`) beat that of episodes (`grpo`) and critics (`turn`, `poad`)? The
    # rule looks at their clones, cheapest first. Asked before any of their runs.
    "FrozenLake-Dry-v0": Candidate(4.0, LISTED),
    "Sokoban-v0": Candidate(5.0, LISTED),
    "TowerOfHanoi-v0": Candidate(7.4, LISTED),
}
"""Environments in the order of the tokens of an expert's episode, then those of questions."""
