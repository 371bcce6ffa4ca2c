"""`GameEpisode`: the state of an episode that all multi-agent games share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agentgym.time_step import TimeStep


@dataclass
class GameEpisode:
    """The part of an episode's state that `TextGame` manages. The rules manage their `State`.

    Attributes:
        task: name of the task.
        turn: number of turns played.
        acting: the agents that act in the next turn. Empty after the end of the episode.
        truncated: whether the turn limit truncated the episode.
        moves: valid moves, held until all acting agents have made a valid move.
        failures: number of consecutive invalid actions per agent.
        news: messages to each agent since its last action.
        steps: the last `TimeStep` of each agent. An agent that is out keeps its final one.
    """

    task: str
    turn: int = 0
    acting: tuple[str, ...] = ()
    truncated: bool = False
    moves: dict[str, str] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    news: dict[str, list[str]] = field(default_factory=dict)
    steps: dict[str, TimeStep] = field(default_factory=dict)

    def copy(self) -> GameEpisode:
        """Returns a copy that continues independently."""
        return replace(
            self,
            moves=dict(self.moves),
            failures=dict(self.failures),
            news={agent: list(lines) for agent, lines in self.news.items()},
            steps=dict(self.steps),
        )
