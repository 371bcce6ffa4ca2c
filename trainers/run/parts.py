"""`Parts`: the parts of the trainer that an iteration, evaluations and checkpoints share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agentgym.trainers.hooks.run import Run

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from agentgym.trainers.algorithm import Algorithm
    from agentgym.trainers.callbacks import CallbackList
    from agentgym.trainers.hooks.base import RecipeHooks
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.policy_agent.agent import PolicyAgent
    from agentgym.trainers.policy_agent.role_agent import RoleAgent
    from agentgym.trainers.rewards.reward_options import RewardOptions
    from agentgym.trainers.rollout.env_pool import MakeEnv
    from agentgym.trainers.run.logger import RunLog
    from agentgym.trainers.run.rollouts import Rollouts
    from agentgym.trainers.system.signals import StopSignal


class Parts(Run, Protocol):
    """The parts of a run. The trainer builds them.

    Attributes:
        recipe: name of the algorithm.
        algorithm: the parts of the recipe.
        hooks: the recipe's hooks.
        callbacks: the user's callbacks.
        policies: the policies by role.
        critic: the critic on the hidden states of `policy`, if there is one.
        rollouts: plays the episodes.
        rewards: adds the terms of the reward that settings describe.
        log: metrics and transcripts.
        stop: the signals to stop.
        make_eval_env: makes one environment of the evaluations.
        is_main: whether this is the main process, which writes.
        wants_reference: whether the loss or the signal needs the reference policy.
    """

    recipe: str
    algorithm: Algorithm
    hooks: RecipeHooks
    callbacks: CallbackList
    policies: dict[str, Policy]
    critic: nn.Module | None
    rollouts: Rollouts
    rewards: RewardOptions
    log: RunLog
    stop: StopSignal
    make_eval_env: MakeEnv
    is_main: bool
    wants_reference: bool

    def rng(self, *key: int) -> np.random.Generator:
        """Returns the random generator of a purpose and its indices."""
        ...

    def agent(self, name: str) -> PolicyAgent | RoleAgent:
        """Returns the agent of evaluations."""
        ...

    def make_hooks(self) -> None:
        """Makes the recipe's hooks and the critic with a separate backbone."""
        ...

    def save(self) -> None:
        """Writes a checkpoint of the finished iterations in the middle of the next one."""
        ...

    def pulse(self, done: object = None) -> None:
        """Stops if this process received a signal, and shows the progress of the phase."""
        ...

    def is_saved(self) -> bool:
        """Returns whether the newest checkpoint holds all finished iterations."""
        ...

    def spend(self) -> tuple[int, int]:
        """Adds all that was played since the last call to the budget, and returns it."""
        ...

    def finished(self) -> bool:
        """Returns whether the budget is spent."""
        ...
