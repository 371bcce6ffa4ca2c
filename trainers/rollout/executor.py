"""`Executor`: plays the episodes of a training run. The default plays them in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.rollout.collector import play_episodes
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.failures import Failures

if TYPE_CHECKING:
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.rollout.env_pool import EnvPool

OnEpisode = Callable[[EpisodeSpec, list[Trajectory]], None]
OnProgress = Callable[[int], None]


class Executor(Protocol):
    """Protocol of an executor."""

    def start(self, episodes: Sequence[EpisodeSpec]) -> Callable[[], list[list[Trajectory]]]:
        """Starts episodes with the current weights of the policy, or newer ones.

        Returns:
            A function that waits for the trajectories and returns them, in the order of `episodes`.
        """
        ...

    def metrics(self) -> dict[str, float]:
        """Returns numbers to log under `rollout/`."""
        ...

    def close(self) -> None:
        """Ends everything that the executor started."""
        ...


@dataclass
class LocalExecutor:
    """Plays episodes in this process, when their trajectories are asked for.

    Attributes:
        policy: the behaviour policy, or several ones that act as one.
        pool: the environments.
        context: the prompt builder.
        sampling: sampling parameters.
        constrain: whether to restrict actions to the admissible ones.
        continuous: whether episodes go on while the actions of others are generated.
        failures: the episodes that may fail and are played again.
        on_progress: called before each call of the model, as in `play_episodes`.
        on_episode: called with each finished episode and its trajectories.
    """

    policy: Policy | Ensemble
    pool: EnvPool
    context: Context
    sampling: Sampling
    constrain: bool
    continuous: bool = False
    failures: Failures = field(default_factory=Failures)
    on_progress: OnProgress | None = None
    on_episode: OnEpisode | None = None

    def start(self, episodes: Sequence[EpisodeSpec]) -> Callable[[], list[list[Trajectory]]]:
        """Returns a function that plays the episodes."""
        return lambda: self.play(episodes)

    def play(self, episodes: Sequence[EpisodeSpec]) -> list[list[Trajectory]]:
        """Plays episodes and returns their trajectories, in the order of `episodes`."""
        report = self.on_episode
        return play_episodes(
            self.policy,
            self.pool,
            episodes,
            self.context,
            self.sampling,
            constrain=self.constrain,
            continuous=self.continuous,
            failures=self.failures,
            on_progress=self.on_progress,
            on_episode=None if report is None else lambda i, played: report(episodes[i], played),
        )

    def metrics(self) -> dict[str, float]:
        """Returns the number of failed episodes since the last call, if episodes may fail."""
        return {"env_failures": float(self.failures.take())} if self.failures.share else {}

    def close(self) -> None:
        """Does nothing: whoever made the pool closes it."""
