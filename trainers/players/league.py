"""`League`: the members of a pool, the policy's results against them, and their probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.evaluation.meta_games import META_STRATEGIES, uniform
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.settings.opponents import Opponent

Floats = NDArray[np.float64]
MatrixOf = Callable[[Sequence[int]], Floats]
"""Maps m members to their payoff matrix [m, m]."""

DECAY = 0.99
"""Decay of the results against a member per game, as in AlphaStar."""
SHARE_STEP, LARGEST_SHARE = 0.1, 0.5
"""Growth of an automatic share of the pool per alarm, and its largest value."""
CALM = 5
"""Successive evaluations without an alarm that halve an automatic share."""
GAMES = 100
"""Least number of games after which the win rate of `winrate:R` counts."""


@dataclass
class Results:
    """Results of games, of which a win counts 1 and a draw 1/2, with more weight on later ones.

    Attributes:
        games: number of games.
        weight: sum of the weights of the games.
        wins: sum of the weighted results.
    """

    games: int = 0
    weight: float = 0.0
    wins: float = 0.0

    def add(self, outcome: float) -> None:
        """Adds the result of a game."""
        self.games += 1
        self.weight = DECAY * self.weight + 1
        self.wins = DECAY * self.wins + outcome

    @property
    def rate(self) -> float:
        """The win rate, 1/2 before the first game."""
        return self.wins / self.weight if self.games else 0.5


def pfsp(rates: Floats) -> Floats:
    """Returns the probabilities of members in prioritised fictitious self-play.

    They are proportional to (1 - win rate)^2, so that the policy meets the members that beat it.
    AlphaStar (Vinyals et al., Grandmaster level in StarCraft II using multi-agent reinforcement
    learning, Nature 575, 2019), with the weighting f_hard of its main agents.

    Args:
        rates: [m] the policy's win rate against each member.
    """
    weights = (1 - rates) ** 2
    return weights / weights.sum() if weights.sum() > 1e-10 else uniform(rates)


def member_name(number: int) -> str:
    """Returns the name of a member, in `Trajectory.opponent`."""
    return f"iteration {number}"


class League:
    """The members against which a policy plays. They depend on checkpointed state alone.

    Args:
        pool: the opponent that plays members of the pool.
        every: iterations between members, unless the kind is "winrate".
        payoffs: returns the payoff matrix of members, for the kind "psro".

    Attributes:
        members: the numbers of the members, oldest first.
        probabilities: the probability of each member as the opponent of a game.
        share: the share of games against members, if it is automatic.
    """

    def __init__(self, pool: Opponent, every: int, payoffs: MatrixOf | None):
        self._pool, self._every, self._payoffs = pool, every, payoffs
        self.members: list[int] = []
        self.probabilities: dict[int, float] = {}
        self._results: dict[int, Results] = {}
        self._since = Results()  # against all members, since the last one was added
        self.share, self._calm = 0.0, 0

    def is_due(self, iteration: int) -> bool:
        """Returns whether the policy becomes a member before an iteration."""
        if not self.members:
            return True
        if self.members[-1] == iteration:
            return False
        if self._pool.kind == "winrate":
            return self._since.games >= GAMES and self._since.rate >= float(self._pool.argument)
        return iteration % self._every == 0

    def add(self, number: int) -> None:
        """Adds a member."""
        self.members.append(number)
        self._since = Results()

    def oldest_needed(self, oldest: int) -> int:
        """Returns the oldest member that is needed to resume from an iteration or a later one."""
        if self._pool.kind != "past":
            return 0
        return (oldest // self._every - int(self._pool.argument) + 1) * self._every

    @property
    def opponents(self) -> list[int]:
        """The members that may be opponents, oldest first."""
        last = int(self._pool.argument) if self._pool.kind == "past" else len(self.members)
        return self.members[-last:]

    def choose(self) -> None:
        """Sets `probabilities` for an iteration."""
        chosen = self.opponents
        rates = np.array([self._result(number).rate for number in chosen])
        found = uniform(rates)
        if self._pool.kind == "league":
            found = pfsp(rates)
        elif self._pool.kind == "psro":
            assert self._payoffs is not None
            found = META_STRATEGIES[self._pool.argument or "nash"](self._payoffs(chosen))
        self.probabilities = dict(zip(chosen, found.tolist(), strict=True))

    def average(self) -> dict[int, float]:
        """Returns the average policy: the probability of each member in a mixture of them.

        For "psro" it is the meta-strategy, for the others uniform as in fictitious play.
        """
        if self._pool.kind == "psro":
            return self.probabilities
        return dict.fromkeys(self.probabilities, 1 / len(self.probabilities))

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Counts the results of the games against members."""
        numbers = {member_name(number): number for number in self.members}
        for trajectory in trajectories:
            number = numbers.get(trajectory.opponent)
            if number is not None:
                assert trajectory.result is not None  # the opponent is a frozen policy
                self._result(number).add(trajectory.result)
                self._since.add(trajectory.result)

    def react(self, *, alarm: bool) -> None:
        """Sets an automatic share after an evaluation, by whether exploitability rises."""
        if not self._pool.automatic:
            return
        self._calm = 0 if alarm else self._calm + 1
        if alarm:
            self.share = min(LARGEST_SHARE, self.share + SHARE_STEP)
        elif self._calm % CALM == 0:
            self.share /= 2

    def metrics(self) -> dict[str, float]:
        """Returns the number of members, the win rate since the last one, and that of each."""
        found = {"members": float(len(self.members)), "win_rate": self._since.rate}
        found |= {"share": self.share} if self._pool.automatic else {}
        return found | {f"win_rate/{n}": self._result(n).rate for n in self.probabilities}

    def _result(self, number: int) -> Results:
        return self._results.setdefault(number, Results())

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as plain Python values."""
        results = {number: asdict(result) for number, result in self._results.items()}
        since, share = asdict(self._since), {"share": self.share, "calm": self._calm}
        return {"members": list(self.members), "results": results, "since": since, **share}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.members = list(state["members"])
        self._results = {number: Results(**saved) for number, saved in state["results"].items()}
        self._since = Results(**state["since"])
        self.share, self._calm = state.get("share", 0.0), state.get("calm", 0)
