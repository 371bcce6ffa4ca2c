"""Training and playing from Python: `train` and `load_policy`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.agents import View
from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers import recipes
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.gateway.harness import Harness
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.run.environment import RewardFn
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.trainer import Trainer
from agentgym.wrappers.wrapping import answer_format


def make_trainer(
    recipe: str,
    config: TrainConfig | None = None,
    *,
    env: Any = None,
    reward: RewardFn | None = None,
    callbacks: Iterable[Callback] = (),
    trackers: Iterable[Any] = (),
    **settings: Any,
) -> Trainer:
    """Returns the trainer of a recipe. The arguments are those of `train`."""
    module = recipes.load(recipe)
    harness = Harness.taken_from(settings)
    if config is not None and settings:
        raise ConfigError("Give the settings in config or by name, not both.")
    chosen: TrainConfig = module.Config.of(**settings) if config is None else config
    if not isinstance(chosen, module.Config):
        raise ConfigError(
            f"The settings of {recipe} are a {module.__name__}.Config, got a "
            f"{type(chosen).__module__}.{type(chosen).__name__}."
        )
    return Trainer(
        recipe,
        chosen,
        module.build(chosen),
        env=env,
        reward=reward,
        callbacks=callbacks,
        trackers=trackers,
        harness=harness,
    )


def train(recipe: str, config: TrainConfig | None = None, **options: Any) -> list[Report]:
    """Trains a policy with a recipe and returns the evaluations before and after.

        train("poad", env_id="WebShop-v0", constrain=True, bc_demonstrations=300, iterations=20)

    Args:
        recipe: the name of a recipe, such as "poad", or the import path of your own, such as
            "my_lab.my_recipe".
        config: the settings, an instance of the recipe's `Config` (None: taken from `options`).
        **options: settings by their flat names, as on the command line (`lr=1e-4`), and

            - `env`: an environment (each slot plays a copy) or a function that makes one, in place
              of `env_id`. A plain Gymnasium environment with text observations and actions works.
            - `reward`: a function of a `Transition` that replaces the reward.
            - `harness` and `harness_score`: also functions, of an `agentgym.trainers.gateway.task`
              `Task` and of the `Played` episode.
            - `callbacks`: instances of `Callback`.
            - `trackers`: further trackers of accelerate, instances of its `GeneralTracker`.

    Raises:
        ConfigError: for an unknown recipe or setting, or a value that does not fit.
        CheckpointError: if the run's folder is in use or damaged.
    """
    return make_trainer(recipe, config, **options).run()


class LoadedPolicy:
    """A trained policy that maps texts to actions.

    Args:
        agent: the policy as an agent.
        seed: seed of sampled actions.

    Attributes:
        agent: the policy as an agent.
        answer_format: the format of its replies, if it was trained with `ExtractAction`, or None.
        tokenizer: its tokenizer.
        format: the delimiters of its actions: end tokens, stop strings, the text before an action.
        context: builds its prompts.
    """

    def __init__(self, agent: PolicyAgent, seed: int = 0):
        self.agent = agent
        self.answer_format = answer_format(agent.wrap)
        self.tokenizer, self.format = agent.policy.tokenizer, agent.policy.format
        self.context = make_context(agent.policy, agent.settings)
        self._rng = np.random.default_rng(seed)

    def start(self, instructions: str = "") -> PlayedEpisode:
        """Starts an episode, which remembers its turns.

        Args:
            instructions: the instructions of the environment.
        """
        return PlayedEpisode(self, instructions)

    def act(self, observation: str, **options: Any) -> str:
        """Returns the action for an observation. `start` also remembers the turns before it.

        If the policy was trained with `ExtractAction`, it is the action in the reply, or an
        `UnreadableAction` with the whole reply if it has none.

        Args:
            observation: the current observation.
            **options: see `reply`.
        """
        text = self.reply(observation, **options)
        return text if self.answer_format is None else self.answer_format.extract(text)

    def reply(
        self,
        observation: str,
        *,
        instructions: str = "",
        history: Sequence[tuple[str, str]] = (),
        admissible: Sequence[str] = (),
    ) -> str:
        """Returns the whole text that the policy generates, thoughts included.

        Args:
            observation: the current observation.
            instructions: the instructions of the environment.
            history: earlier (observation, reply) pairs of the episode, oldest first.
            admissible: the admissible actions, for a policy trained with `constrain`.

        Raises:
            TypeError: if the observation is no text, `admissible` is no sequence of texts, or
                `history` no sequence of pairs of texts.
        """
        if not isinstance(observation, str):
            raise TypeError(f"The observation must be a str, got {observation!r:.80}.")
        if not _are_texts(admissible):
            raise TypeError(f"admissible must be a sequence of actions, got {admissible!r:.80}.")
        if not all(_are_texts(pair) and len(pair) == 2 for pair in history):
            raise TypeError(
                f"history must be a sequence of (observation, reply) pairs, got {history!r:.80}."
            )
        info = {"admissible": tuple(admissible)}
        seed = int(self._rng.integers(2**31))  # a new one, so that repeated calls sample anew
        view = View.of_text(instructions, observation, history, info, seed=seed)
        return self.agent.act([view])[0]


class PlayedEpisode:
    """An episode that a policy plays outside of an environment.

        episode = load_policy("runs/first").start(env.unwrapped.instructions)
        action = episode.act(observation)

    Args:
        policy: the policy.
        instructions: the instructions of the environment.

    Attributes:
        history: the (observation, reply) pairs so far.
    """

    def __init__(self, policy: LoadedPolicy, instructions: str = ""):
        self.policy, self.instructions = policy, instructions
        self.history: list[tuple[str, str]] = []

    def act(self, observation: str, admissible: Sequence[str] = ()) -> str:
        """Returns the action for the next observation, as `LoadedPolicy.act`."""
        reply = self.policy.reply(
            observation,
            instructions=self.instructions,
            history=self.history,
            admissible=admissible,
        )
        self.history.append((observation, reply))
        form = self.policy.answer_format
        return reply if form is None else form.extract(reply)


def _are_texts(items: Any) -> bool:
    return not isinstance(items, str) and all(isinstance(item, str) for item in items)


def load_policy(folder: str | Path, *, seed: int = 0, **options: Any) -> LoadedPolicy:
    """Loads a trained policy.

        load_policy("runs/poad-WebShop-v0-0").act("...")

    Args:
        folder: a run's folder, or its `policy` or `best`.
        seed: seed of sampled actions.
        **options: `role` (for a folder with a policy for each role), `temperature`, `constrain`,
            `max_new_tokens`, `device`.

    Raises:
        CheckpointError: if there is no policy in the folder.
        ConfigError: if there are policies of several roles and `role` names none of them.
    """
    agent = load_agent(str(folder), **options)
    if isinstance(agent, RoleAgent):
        raise ConfigError(
            f"{folder} holds policies of the roles {', '.join(agent.agents)}: name the one to act, "
            f"such as load_policy(folder, role={next(iter(agent.agents))!r})."
        )
    return LoadedPolicy(agent, seed)
