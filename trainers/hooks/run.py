"""`Run`: the parts of the trainer that recipes, hooks and callbacks use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from accelerate import Accelerator

    from agentgym.trainers.critics.value_model import ValueModel
    from agentgym.trainers.data.run_state import RunState
    from agentgym.trainers.data.trajectory import Trajectory
    from agentgym.trainers.players.lineup import Lineup
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.policy.sampling import Request, Sample
    from agentgym.trainers.rollout.context import Context
    from agentgym.trainers.rollout.env_pool import EnvPool, MakeEnv
    from agentgym.trainers.rollout.episode import EpisodeSpec
    from agentgym.trainers.settings.config import TrainConfig
    from agentgym.trainers.system.checkpoint import RunFolder
    from agentgym.trainers.update.role_updater import RoleUpdater
    from agentgym.trainers.update.updater import Updater


class Run(Protocol):
    """A run in progress. The trainer is one.

    Attributes:
        config: the settings.
        state: counters and evaluations.
        folder: the folder of the run.
        policy: the policy, of the first role if roles have policies of their own.
        context: builds its prompts.
        pool: the environments.
        make_env: makes one environment.
        tasks: the training tasks.
        lineup: the players of a game. `lineup.branch` asks for an episode with other actions.
        updater: the update of `policy`.
        updaters: the updates of the policies of all roles.
        own_critic: the critic with a separate backbone, if there is one.
        accelerator: the processes.
    """

    config: TrainConfig
    state: RunState
    folder: RunFolder
    policy: Policy
    context: Context
    pool: EnvPool
    make_env: MakeEnv
    tasks: Sequence[str]
    lineup: Lineup
    updater: Updater
    updaters: RoleUpdater
    own_critic: ValueModel | None
    accelerator: Accelerator

    def play(self, episodes: Sequence[EpisodeSpec]) -> list[Trajectory]:
        """Plays episodes and returns their trajectories, in order."""
        ...

    def turn_limit(self, task: str, iteration: int) -> int | None:
        """Returns the turn limit of a task, for episodes that `play` does not play."""
        ...

    def pulse(self, done: object = None) -> None:
        """Stops if the process received a signal, and shows the number of finished steps.

        Raises:
            Interrupted: if it did.
        """
        ...

    def act(self, requests: Sequence[Request]) -> list[Sample]:
        """Generates an action for each request."""
        ...

    def count(self, played: Sequence[Trajectory] = (), tokens: int = 0) -> None:
        """Adds turns that were played otherwise, and generated tokens, to the budget."""
        ...
