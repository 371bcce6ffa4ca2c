"""`Table`: an episode of a game whose seats are controlled externally or by scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentgym.multiagent.game import TextGame
from agentgym.time_step import TimeStep


class Table:
    """An episode of a game with externally controlled seats and scripted players in the others.

    A step of a seat lasts from one of its actions to the next. Its reward is the sum of the rewards
    in between, and those before the first action belong to the first step. The episode lasts until
    all externally controlled seats are out of the game.

    Args:
        game: the game, in which an episode has begun.
        seats: the externally controlled agents.
        choose: returns the action of another seat when it is to act.

    Attributes:
        rewards: the reward terms of each seat since its last action.
        clocks: the rewards of each seat since its last action, by the game's clock and the term.
    """

    def __init__(self, game: TextGame, seats: Sequence[str], choose: Callable[[str], str]):
        self.game, self.seats, self._choose = game, tuple(seats), choose
        self.rewards = {agent: dict.fromkeys(game.reward_names, 0.0) for agent in self.seats}
        self.clocks: dict[str, dict[tuple[int, str], float]] = {agent: {} for agent in self.seats}
        self._valid = dict.fromkeys(self.seats, True)

    @property
    def acting(self) -> tuple[str, ...]:
        """The externally controlled seats that act in the next turn."""
        return tuple(agent for agent in self.game.acting if agent in self.rewards)

    @property
    def over(self) -> bool:
        """Whether the episode is over for all externally controlled seats."""
        return all(self.game.over(agent) for agent in self.seats)

    def play(self, actions: Mapping[str, str]) -> None:
        """Plays a turn, and further ones until an externally controlled seat acts or all are out.

        Args:
            actions: the action of each seat in `acting`. If there are none, no seat has acted yet.
        """
        game = self.game
        while playing := [agent for agent in self.seats if not game.over(agent)]:
            acting = game.acting
            others = [agent for agent in acting if agent not in self.rewards]
            if not actions and len(others) < len(acting):
                break
            turn = dict(actions)
            for agent in others:
                turn[agent] = self._choose(agent)
            clock, actions = game.clock(), {}
            game.play(turn)
            for agent in playing:
                got = game.outcome(agent)
                self._valid[agent] &= got.valid
                if got.rewards:
                    self._gain(agent, clock, got.rewards)

    def _gain(self, agent: str, clock: int, terms: Mapping[str, float]) -> None:
        """Adds the reward terms of a turn to those of the seat's step."""
        clocks = self.clocks[agent]
        for name, reward in terms.items():
            self.rewards[agent][name] += reward
            if reward:
                clocks[clock, name] = clocks.get((clock, name), 0.0) + reward

    def take(self, agent: str) -> TimeStep:
        """Returns the result of a seat's last step, and starts its next one."""
        seen = self.game.seen(agent)
        step = TimeStep(  # not `replace`, which takes several times as long
            seen.text,
            self.rewards[agent],
            seen.terminated,
            self._valid[agent],
            seen.success,
            seen.progress,
            seen.admissible,
            seen.state_key,
            seen.feedback,
        )
        self.rewards[agent] = dict.fromkeys(self.game.reward_names, 0.0)
        self.clocks[agent] = {}
        self._valid[agent] = True
        return step
