"""`Harness`: the program of a run and the function that scores its episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from agentgym.trainers.gateway.executor import HarnessExecutor
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.programs import check_program, name_of, program_of
from agentgym.trainers.gateway.prompts import Prompts
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.executor import OnEpisode, OnProgress
from agentgym.trainers.rollout.failures import Failures
from agentgym.trainers.settings.config import TrainConfig
from agentgym.utils.importing import imported

NAMES = ("harness", "harness_score")


@dataclass(frozen=True)
class Harness:
    """What plays the episodes of a run, and what scores them.

    Attributes:
        program: a command, "module:function", or a function of a `Task`.
        score: "module:function" or a function of a `Played` episode. "": there is none.
    """

    program: str | Callable[..., Any]
    score: str | Callable[..., Any] = ""

    @classmethod
    def of(cls, config: TrainConfig) -> Self:
        """Returns the program that settings name."""
        return cls(config.program.harness, config.program.harness_score)

    @classmethod
    def taken_from(cls, settings: dict[str, Any]) -> Self | None:
        """Returns the program in settings, in which names take the place of functions.

        Args:
            settings: settings by their flat names. They are changed.

        Returns:
            None if the settings have no functions.
        """
        given = [settings.get(name, "") for name in NAMES]
        if not any(callable(each) for each in given):
            return None
        settings |= {n: name_of(each) for n, each in zip(NAMES, given, strict=True) if each}
        return cls(*given)

    def check(self) -> None:
        """Checks, before a run, that program and score exist.

        Raises:
            ConfigError: if they do not.
        """
        check_program(self.program)
        self.scorer()

    def scorer(self) -> Callable[..., Any] | None:
        """Returns the function that scores episodes, None without one.

        Raises:
            ConfigError: if it does not exist.
        """
        if isinstance(self.score, str):
            return imported(self.score, "harness_score") if self.score else None
        return self.score


def harness_executor(
    config: TrainConfig,
    harness: Harness,
    policy: Policy,
    pool: EnvPool,
    on_progress: OnProgress | None = None,
    on_episode: OnEpisode | None = None,
    sampling: Sampling | None = None,
) -> HarnessExecutor:
    """Returns an executor that plays episodes with a program.

    Args:
        config: the settings.
        harness: the program.
        policy: the policy that answers it.
        pool: the environments.
        on_progress: see `HarnessExecutor`.
        on_episode: see `HarnessExecutor`.
        sampling: sampling parameters. None: those of training.

    Raises:
        ConfigError: if the program or its score does not exist.
        MissingExtraError: without the extra `serve`.
    """
    chosen, rollout = config.program, config.rollout
    prompts = Prompts(policy.tokenizer, policy.format, rollout.template_kwargs)
    gateway = Gateway(
        policy,
        sampling or config.sampling(),
        prompts=prompts,
        max_tokens=rollout.max_tokens,
    )
    return HarnessExecutor(
        gateway,
        program_of(harness.program, chosen.harness_seconds),
        pool,
        score=harness.scorer(),
        constrain=rollout.constrain,
        calls=chosen.harness_calls,
        turn_limit=config.ends.turn_limit,
        failures=Failures(config.environment.env_failures),
        on_progress=on_progress,
        on_episode=on_episode,
    )
