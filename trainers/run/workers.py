"""Makes the executor of a run, and the executors inside its rollout workers."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from agentgym.trainers.gateway.harness import Harness, harness_executor
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.executor import Executor, LocalExecutor, OnEpisode, OnProgress
from agentgym.trainers.rollout.ray_executor import RayExecutor
from agentgym.trainers.run.environment import RewardFn, environment_factory
from agentgym.trainers.run.setup import vllm_engine
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.running import AUTOCAST


@dataclass(frozen=True)
class WorkerSetup:
    """Everything that a rollout worker is made from. It is sent to the workers.

    Attributes:
        config: the settings.
        env: the environment of the run, if it was given in place of an id.
        reward: the reward of the run, if it was replaced.
        model: the saved model and tokenizer, with weights on the CPU.
    """

    config: TrainConfig
    env: Any
    reward: RewardFn | None
    model: bytes

    @classmethod
    def of(
        cls, config: TrainConfig, env: Any, reward: RewardFn | None, policy: Policy
    ) -> WorkerSetup:
        """Returns the setup of the workers of a policy."""
        buffer = io.BytesIO()
        torch.save((policy.model, policy.tokenizer), buffer)
        return cls(config, env, reward, buffer.getvalue())

    def __call__(self, on_progress: OnProgress) -> LocalExecutor:
        """Makes the executor of a worker."""
        config, rollout = self.config, self.config.rollout
        model, tokenizer = torch.load(
            io.BytesIO(self.model), map_location="cpu", weights_only=False
        )
        device = "cuda" if rollout.worker_gpus else "cpu"
        policy = Policy(model.to(device), tokenizer, batch_size=rollout.generation_batch)
        if config.model.mixed_precision != "no":
            dtype = getattr(torch, AUTOCAST[config.model.mixed_precision])
            policy.autocast = partial(torch.autocast, device, dtype=dtype)
        if rollout.engine == "vllm":
            policy.use(vllm_engine(config, policy))
        make_env, _ = environment_factory(config, self.env, self.reward)
        slots = -(-rollout.num_envs // rollout.rollout_workers)
        chosen = config.environment
        limits = chosen.env_workers, chosen.env_seconds, chosen.env_failures
        pool = EnvPool(make_env, slots, *limits)
        return _local(config, policy, pool, on_progress)


def make_executor(
    config: TrainConfig,
    policy: Policy,
    pool: EnvPool,
    *,
    env: Any,
    reward: RewardFn | None,
    on_progress: OnProgress,
    on_episode: OnEpisode,
    harness: Harness | None = None,
) -> Executor:
    """Returns the executor that the settings name.

    Raises:
        ConfigError: if rollout workers, or the program of the run, cannot be started.
        MissingExtraError: if Ray, or the web server of the gateway, is not installed.
    """
    rollout = config.rollout
    if config.program.harness:
        program = harness or Harness.of(config)
        return harness_executor(config, program, policy, pool, on_progress, on_episode)
    if not rollout.rollout_workers:
        return _local(config, policy, pool, on_progress, on_episode)
    return RayExecutor(
        policy,
        WorkerSetup.of(config, env, reward, policy),
        workers=rollout.rollout_workers,
        cpus=rollout.worker_cpus,
        gpus=rollout.worker_gpus,
        address=rollout.ray_address,
        on_progress=on_progress,
        on_episode=on_episode,
    )


def _local(
    config: TrainConfig,
    policy: Policy,
    pool: EnvPool,
    on_progress: OnProgress,
    on_episode: OnEpisode | None = None,
) -> LocalExecutor:
    return LocalExecutor(
        policy,
        pool,
        make_context(policy, config.context_settings()),
        config.sampling(),
        config.rollout.constrain,
        config.rollout.continuous_batching,
        pool.failures,
        on_progress,
        on_episode,
    )
