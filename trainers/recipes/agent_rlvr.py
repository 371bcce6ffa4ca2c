"""Agent-RLVR: groups that fail are retried with hints, and guided successes are learned unguided.

"Agent-RLVR: Training Software Engineering Agents via Guidance and Environment Rewards" (Da et al.,
arXiv 2506.11425). A group whose episodes all fail gives no gradient. It is played again with hints
in the observations, by default the action of the scripted expert in the first turns. Successes of
these retries join their group with the prompts that they would have had without the hints, so that
the policy learns to succeed on its own. Credit is that of GRPO.

Kept: attempt, guidance, reattempt, the update on the rewards of guided episodes under the unguided
prompt. Changed: group-relative credit (the paper: DPO on pairs), with the probabilities of the
unguided policy as those of the behaviour policy. Hints come from the expert, a function, or a
language model that reads the failed attempt, as theirs does (one hint per group).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np

from agentgym.agents.text_model import MODELS, text_model
from agentgym.data.episode_text import episode_text, outcome_text
from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory, is_judged, rules_of
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.branches import samples_of
from agentgym.trainers.rollout.env_pool import EnvPool, instructions_by_id
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.settings import (
    GroupRolloutConfig,
    LossConfig,
    Positive,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import GAMES, SAMPLED, SHAPING, RewardedConfig
from agentgym.utils.importing import imported

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

PROMPT = (
    "You teach an agent. You read the rules of a task and its failed attempt. Write one short hint "
    "in one line that helps it to succeed when it tries the same task again from the start. The "
    "hint names the decisive mistake and a better action. Do not mention that you read an attempt."
)


@dataclass
class Config(RewardedConfig):
    """Settings of Agent-RLVR."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING, "filter_groups", "epsilon", *SAMPLED, *GAMES)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    scale: bool = True
    """Divide by the group's standard deviation."""
    retries: Positive = 4
    """Guided episodes for each group without a success."""
    hinted_turns: Positive = 4
    """First turns of a retry whose observations have a hint."""
    hint: str = "expert"
    """Source of hints: the scripted expert's action ("expert"), module:function, which maps the
    environment to a text, or a language model that reads the failed attempt (chat:MODEL@URL,
    policy:FOLDER, model:NAME)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.hint.startswith(MODELS):
            text_model(self.hint, PROMPT)
        elif self.hint != "expert":
            imported(self.hint, "hint")


class Hinted(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds a hint to the first observations of an episode.

    Args:
        env: a text environment.
        hint: maps the environment to the hint.
        turns: number of observations with a hint.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], hint: Callable[[Any], str], turns: int):
        super().__init__(env)
        self.hint, self.turns, self.left = hint, turns, 0
        self.start: tuple[str, int | None] = ("", None)

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        """Resets the environment."""
        self.left = self.turns
        observation, info = self.env.reset(**kwargs)
        task = (kwargs.get("options") or {}).get("task", info.get("task", ""))
        self.start = (task, kwargs.get("seed"))
        return self._with_hint(observation), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not (terminated or truncated):
            observation = self._with_hint(observation)
        return observation, reward, terminated, truncated, info

    def _with_hint(self, observation: str) -> str:
        if not self.left:
            return observation
        self.left -= 1
        return f"{observation}\nHint: {self.hint(self)}"


class Guidance(RecipeHooks):
    """Retries failed groups with hints and adds the successes.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config
        self.written: dict[tuple[str, int | None], str] = {}
        hint = self._hint()
        make = trainer.make_env
        self.pool = EnvPool(
            lambda: Hinted(make(), hint, config.hinted_turns),
            -(-config.rollout.num_envs // trainer.accelerator.num_processes),
            config.environment.env_workers,
            config.environment.env_seconds,
            config.environment.env_failures,
        )

    def _hint(self) -> Callable[[Any], str]:
        """Returns the function that maps an environment to a hint."""
        source = self.config.hint
        if source.startswith(MODELS):
            return lambda env: self.written[env.start]
        return expert_action if source == "expert" else imported(source, "hint")

    def _write(self, failed: Sequence[Trajectory]) -> None:
        """Asks the model for hints: one per group, after its first failed attempt.

        A hint is for the same start alone: another seed can give another seat of a game, which
        must not know what this one sees.
        """
        from agentgym.trainers.system.processes import map_across_processes

        rules = instructions_by_id(self.trainer.pool.env(0))
        attempts = {(t.task, t.seed): t for t in reversed(failed)}
        texts = [
            episode_text(
                rules_of(t, rules),
                [("", turn.observation, turn.action) for turn in t.turns],
                [outcome_text(t.success, t.episode_return)],
            )
            for t in attempts.values()
        ]
        model = text_model(self.config.hint, PROMPT)
        hints = map_across_processes(self.trainer.accelerator, texts, model)
        self.written = dict(zip(attempts, hints, strict=True))

    def _play(self, episodes: Sequence[EpisodeSpec]) -> list[Trajectory]:
        """Returns episodes with hints, which are played as those of the rollouts."""
        from agentgym.trainers.rollout.collector import collect  # imports torch

        rollout = self.config.rollout
        return collect(
            self.trainer.policy,
            self.pool,
            episodes,
            self.trainer.context,
            self.config.sampling(),
            constrain=rollout.constrain,
            continuous=rollout.continuous_batching,
            failures=self.pool.failures,
            on_progress=self.trainer.pulse,
        )

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the rollout and the successes of the retries, as if played without hints."""
        solved = {t.group for t in fresh if t.success}
        failed = dict.fromkeys((t.task, t.seed) for t in fresh if t.group not in solved)
        config, trainer = self.config, self.trainer
        starts = [start for start in failed for _ in range(config.retries)]
        episodes = [
            EpisodeSpec(
                task,
                seed,
                stream(config.run.seed, "retries", iteration, i),
                max_turns=trainer.turn_limit(task, iteration),
            )
            for i, (task, seed) in enumerate(starts)
        ]
        guided: list[Trajectory] = []
        if episodes and config.hint.startswith(MODELS):
            self._write([t for t in fresh if t.group not in solved])
        if episodes:
            from agentgym.trainers.system.processes import map_across_processes

            guided = map_across_processes(trainer.accelerator, episodes, self._play)
            trainer.count(guided)
        good = [i for i, t in enumerate(guided) if t.success and is_judged([t])]
        again = [
            replace(episodes[i], opening=samples_of(guided[i], len(guided[i].turns))) for i in good
        ]
        played = trainer.play(again) if again else []
        unguided = [each for each in played if is_judged([each])]
        helped = {t.group for t in unguided}
        surprise = [-turn.logprobs.sum() for t in guided for turn in t.turns]
        self.metrics = {
            "failed_groups": float(len(failed)),
            "guided_surprise": float(np.mean(surprise or [0.0])),  # nats per action, with hints
            "guided_success": len(again) / max(len(guided), 1),
            "helped_groups": float(len(helped)),
        }
        return Learn([*fresh, *unguided])

    def close(self) -> None:
        """Closes the environments of the retries."""
        self.pool.close()


def expert_action(env: gymnasium.Env[Any, Any]) -> str:
    """Returns the action of the scripted expert.

    Raises:
        ConfigError: if the environment has no expert.
    """
    action = env.get_wrapper_attr("expert")()
    if action is None:
        raise ConfigError(
            f"{env} has no scripted expert to give hints: set hint to module:function."
        )
    return str(action)


def build(config: Config) -> Algorithm:
    """Returns the parts of Agent-RLVR."""
    return Algorithm(
        PolicyGradient(group.GroupBaseline(scale=config.scale)),
        data="foreign",
        seats="one",
        replays=True,
        hooks=lambda trainer: Guidance(trainer, config),
    )
