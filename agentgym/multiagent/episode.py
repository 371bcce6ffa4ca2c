"""What is kept of an episode of a game for several agents, whatever the game."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.core import TimeStep


@dataclass
class GameEpisode:
    """What `TextGame` keeps of an episode; the rules keep the rest in their `State`.

    Attributes:
        task: name of the task.
        turn: turns played.
        acting: who must say something in the next turn; nobody once the episode is over.
        truncated: whether the limit of turns ended it.
        moves: moves made, but held until those who were not understood have made theirs.
        failures: how often in a row an agent was not understood.
        news: what an agent was told since it last spoke.
        steps: what each agent got at the last turn; an agent that is out keeps its last one.
    """

    task: str
    turn: int = 0
    acting: tuple[str, ...] = ()
    truncated: bool = False
    moves: dict[str, str] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    news: dict[str, list[str]] = field(default_factory=dict)
    steps: dict[str, TimeStep] = field(default_factory=dict)
