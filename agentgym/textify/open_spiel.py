"""One seat of an OpenSpiel game as a text environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from agentgym.textify.base import Describe, Look, Opponent, Textified
from agentgym.time_step import TimeStep


class TextifiedSpiel(Textified):
    """One seat of an OpenSpiel game as text, made by `textify`.

    Actions and observations have the texts of OpenSpiel. Chance events follow from the seed of the
    episode. Agents that act at once do not see each other's actions.

    Args:
        game: a game of `pyspiel.load_game`.
        seat: the player that acts through this environment, "player_0" or another one.
        opponent: chooses the actions of the other players.
        describe: (observation, game) -> text of the observation. None: the observation itself.
        instructions: the rules. None: the name of the game.
        **kwargs: see `textify`.

    Raises:
        TypeError: if the game shows nothing to a player, or players do not act in turn or at once.
        ValueError: if there is no such seat.
    """

    actions = ()
    cut = False
    cut_off: frozenset[str] = frozenset()
    idle_action = 0

    def __init__(
        self,
        game: Any,
        *,
        seat: str | None,
        opponent: Opponent,
        describe: Describe | None = None,
        instructions: str = "",
        **kwargs: Any,
    ):
        super().__init__(game, describe=describe or _as_shown, **kwargs)
        kind, players = game.get_type(), [f"player_{i}" for i in range(game.num_players())]
        self.agents = tuple(players)
        if not (kind.provides_observation_string or kind.provides_information_state_string):
            raise TypeError(f"{kind.short_name} gives no text of what a player sees.")
        if "MEAN_FIELD" in str(kind.dynamics):
            raise TypeError(f"{kind.short_name} is a mean-field game, which has no players.")
        if seat is not None and seat not in players:
            raise ValueError(f"seat must be one of {players}, got {seat!r}.")
        self.seat, self._opponent = seat or players[0], opponent
        self._me, self._sees = players.index(self.seat), kind.provides_observation_string
        how = "Each turn, reply with one of the listed actions."
        self.instructions = f"{instructions or kind.long_name} {how}"

    def _reset_inside(self) -> None:
        self._begin(self.state.seed)

    def _begin(self, level: int) -> None:
        self._chance = np.random.default_rng(level)
        self._position = self._seeded(level).new_initial_state()
        self._moves: dict[int, int] = {}
        self._paid = 0.0
        self._deal()

    def _seeded(self, seed: int) -> Any:
        """Returns the game. If OpenSpiel samples its chance events itself, they get the seed."""
        parameters = self.env.get_parameters()
        if "rng_seed" not in parameters:
            return self.env
        import pyspiel  # type: ignore[import-not-found]  # the game is one of it

        name = self.env.get_type().short_name
        return pyspiel.load_game(name, {**parameters, "rng_seed": seed})

    def _deal(self) -> None:
        """Samples chance events up to the next action of a player."""
        while self._position.is_chance_node():
            events, odds = zip(*self._position.chance_outcomes(), strict=True)
            self._position.apply_action(int(self._chance.choice(events, p=odds)))

    @property
    def _player(self) -> int:
        """The player to act next. Of those that act at once, the seat comes first."""
        if not self._position.is_simultaneous_node():
            return int(self._position.current_player())
        others = [i for i in range(self.env.num_players()) if i != self._me]
        return next(i for i in (self._me, *others) if i not in self._moves)

    def _move(self, action: int) -> None:
        if not self._position.is_simultaneous_node():
            self._position.apply_action(action)
        else:
            self._moves[self._player] = action
            if len(self._moves) < self.env.num_players():
                return
            self._position.apply_actions([move for _, move in sorted(self._moves.items())])
            self._moves = {}
        self._deal()

    def _others(self) -> None:
        while not self._position.is_terminal() and (player := self._player) != self._me:
            legal = np.array(self._position.legal_actions(player) or [0])
            self._play(int(self._opponent(self._text(player), legal, self.np_random)))

    def _text(self, player: int) -> str:
        position = self._position
        if self._sees:
            return str(position.observation_string(player))
        return str(position.information_state_string(player))

    def _seen(self) -> Look:
        gained = float(self._position.returns()[self._me]) - self._paid
        return self._seen_by(self.seat, gained, self._position.is_terminal())

    def _seen_by(self, agent: str, reward: float, terminated: bool) -> Look:
        """Returns the state as any agent sees it, with its actions if it acts now."""
        names = tuple(self._choices(agent))
        text = self._text(self.agents.index(agent))
        text += f"\nActions: {', '.join(names)}" if names else ""
        return Look(text, reward=reward, terminated=terminated, info={"admissible": names})

    def _choices(self, agent: str) -> dict[str, int]:
        """Returns the number of each legal action of an agent that acts now, by its text."""
        if agent not in self.acting:
            return {}
        player, position = self.agents.index(agent), self._position
        legal = position.legal_actions(player)
        return {position.action_to_string(player, action): action for action in legal}

    def _admissible(self, now: Look) -> tuple[str, ...]:
        return now.info["admissible"]

    def _take(self, action: str) -> TimeStep:
        choices = self._choices(self.seat)
        if action not in choices:
            return self._invalid(f"Choose one of: {', '.join(choices)}.")
        self._paid = float(self._position.returns()[self._me])
        self._play(choices[action])
        self._others()
        return self._look()

    def close(self) -> None:
        """Does nothing: a game has no resources."""

    # All seats: see `agentgym.textify.all_seats`.

    @property
    def zero_sum(self) -> bool:
        """Whether OpenSpiel declares the game as zero-sum."""
        return "ZERO_SUM" in str(self.env.get_type().utility)

    @property
    def common_reward(self) -> bool:
        """Whether OpenSpiel declares the rewards of all players as identical."""
        return "IDENTICAL" in str(self.env.get_type().utility)

    @property
    def mover(self) -> str:
        """The agent that moves next. Moves of agents that act at once come one after another."""
        return self.agents[self._player]

    @property
    def idle(self) -> bool:
        """Whether others have moved and `mover` has no action. It then moves with `idle_action`."""
        return bool(self._moves)

    @property
    def acting(self) -> tuple[str, ...]:
        """The agents that act now, none after the end."""
        position = self._position
        if position.is_terminal():
            return ()
        if not position.is_simultaneous_node():
            return (self.mover,)
        return tuple(name for i, name in enumerate(self.agents) if position.legal_actions(i))

    @property
    def present(self) -> tuple[str, ...]:
        """The agents that are in the game."""
        return () if self._position.is_terminal() else self.agents

    def number(self, agent: str, name: str) -> int:
        """Returns the number of an agent's action."""
        return self._choices(agent)[name]

    def gains(self, action: int) -> dict[str, float]:
        """Plays an action of `mover` and returns the reward of each agent."""
        before = self._position.returns()
        self._move(action)
        after = self._position.returns()
        pairs = zip(before, after, strict=True)
        return {name: float(new - old) for name, (old, new) in zip(self.agents, pairs, strict=True)}


def _as_shown(observation: str, game: Any) -> str:
    return observation
