"""`FrozenPlayers`: the policies that play in games but are not trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
from accelerate import Accelerator

from agentgym.agents import Agent
from agentgym.errors import ConfigError
from agentgym.evaluation.crossplay import CrossPlay, cross_play
from agentgym.registration.making import full_id, split_id
from agentgym.registration.mixture import Mixture
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.players.league import League, MatrixOf, member_name
from agentgym.trainers.players.lineup import game_arguments
from agentgym.trainers.players.payoffs import Payoffs
from agentgym.trainers.players.pool import Pool
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.loading import load_agent, read_settings
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.seats import GameSpec
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system.checkpoint import RunFolder


class FrozenPlayers:
    """Members of the pool, and policies from folders, in the seats of games.

    Args:
        config: the settings.
        policy: the policy in training.
        env: an environment of the run.
        folder: the folder of the run.
        accelerator: the accelerator.
        check: called after each game for the payoff matrix. An exception in it ends them.

    Raises:
        CheckpointError: if a folder in `opponents` holds no policy.
        ConfigError: if a policy in `opponents` is of another game or model.
    """

    def __init__(
        self,
        config: TrainConfig,
        policy: Policy,
        *,
        env: gymnasium.Env[Any, Any],
        folder: RunFolder,
        accelerator: Accelerator,
        check: Callable[[], None],
    ):
        self._config, self._policy, self._env, self._check = config, policy, env, check
        self._folder, self._accelerator = folder, accelerator
        self._pool = Pool(folder.path, policy)
        self._published: dict[int, float] = {}
        self.league: League | None = None
        if config.game.pool is not None:
            self.league = League(config.game.pool, config.game.snapshot_every, self._payoffs())
        self._given = {
            each.word: load_opponent(each.argument, config, policy)
            for each in config.game.mixture
            if each.kind == "policy"
        }

    def begin(self, iteration: int) -> Mapping[str, float]:
        """Adds the policy to the pool if it is due.

        Returns:
            The probability of each member as the opponent of a game, by name.
        """
        league, accelerator = self.league, self._accelerator
        if league is None:
            return {}
        if league.is_due(iteration):
            saved = self._folder.found()
            if accelerator.is_main_process:
                self._pool.add(iteration)
                self._pool.prune(league.oldest_needed(int(saved[0].name) if saved else 0))
            accelerator.wait_for_everyone()
            league.add(iteration)
        league.choose()
        if accelerator.is_main_process and league.average() != self._published:
            self._published = league.average()
            self._pool.write_mixture(self._published)
        return {member_name(n): p for n, p in league.probabilities.items()}

    def join(self, episodes: Sequence[EpisodeSpec]) -> Ensemble:
        """Returns the policy together with the frozen ones that play in the episodes."""
        seats = [name for e in episodes if isinstance(e, GameSpec) for _, name in e.seats]
        members = [] if self.league is None else self.league.members
        needed = {n: name for n in members if (name := member_name(n)) in {*seats}}
        loaded = self._pool.load(needed)
        return Ensemble(self._policy, self._given | {needed[n]: p for n, p in loaded.items()})

    @property
    def share(self) -> float:
        """The share of games against members, if it is automatic, otherwise 0."""
        return 0.0 if self.league is None else self.league.share

    def members(self, most: int) -> dict[int, PolicyAgent]:
        """Returns up to `most` members that may be opponents as agents, evenly spaced in time."""
        numbers = [] if self.league is None else self.league.opponents
        places = np.linspace(0, len(numbers) - 1, min(most, len(numbers))).round().astype(int)
        loaded = self._pool.load(numbers[place] for place in places)
        return {number: self._agent(number, policy) for number, policy in loaded.items()}

    def react(self, *, alarm: bool) -> None:
        """Takes into account whether an evaluation found that exploitability rises."""
        if self.league is not None:
            self.league.react(alarm=alarm)

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Counts the results of an iteration."""
        if self.league is not None:
            self.league.observe(trajectories)

    def metrics(self) -> dict[str, float]:
        """Returns numbers to log under `pool/`."""
        return {} if self.league is None else self.league.metrics()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as plain Python values."""
        return {} if self.league is None else self.league.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        if self.league is not None and state:
            self.league.load_state_dict(state)

    def _payoffs(self) -> MatrixOf | None:
        """Returns the function that completes the payoff matrix of members, for psro."""
        config, pool = self._config, self._pool
        if config.game.pool is None or config.game.pool.kind != "psro":
            return None
        spec, single = self._env.spec, cast(Any, self._env.unwrapped)
        if isinstance(self._env, Mixture) or spec is None:
            raise ConfigError("psro compares policies in one game: name one id, or use league.")
        two = len(single.game.possible_agents) == 2 and single.game.zero_sum
        if config.game.pool.argument in ("", "nash") and not two:
            raise ConfigError(
                f"psro:nash needs a zero-sum game of two players, and {spec.id} is none: use "
                "psro:alpharank."
            )
        kwargs = game_arguments(spec.kwargs)

        def simulate(agents: Sequence[Agent]) -> CrossPlay:
            return cross_play(
                spec.id,
                agents,
                episodes=config.game.payoff_deals,
                split="train",
                num_games=config.rollout.num_envs,
                seed=config.run.seed,
                env_kwargs=kwargs,
                self_play=len(agents) == 1,
                on_match=self._check,
            )

        payoffs = Payoffs(
            self._folder.path / "pool",
            self._accelerator,
            agents=lambda numbers: [self._agent(n, p) for n, p in pool.load(numbers).items()],
            digest=pool.digest,
            simulate=simulate,
        )
        return payoffs.matrix

    def _agent(self, number: int, policy: Policy) -> PolicyAgent:
        """Returns a member as an agent that plays as in training."""
        config = self._config
        settings, sampling = config.context_settings(), config.sampling()
        constrain, name = config.rollout.constrain, member_name(number)
        return PolicyAgent(policy, settings, sampling, constrain=constrain, name=name)


def load_opponent(folder: str, config: TrainConfig, policy: Policy) -> Policy:
    """Returns the policy in a folder, to play in seats of the games of a run.

    Args:
        folder: a folder that `load_agent` takes.
        config: the settings of the run.
        policy: the policy in training, which has the same tokenizer.

    Raises:
        CheckpointError: if the folder holds no policy.
        ConfigError: if the policy was trained in another game, or its prompts or tokens differ.
    """
    agent = load_agent(folder, device=str(policy.device))
    _, saved = read_settings(folder)
    ids = saved.get("env_id", ())
    trained = {full_id(split_id(id)[0]) for id in ([ids] if isinstance(ids, str) else ids)}
    if isinstance(agent, RoleAgent):
        raise ConfigError(
            f"opponents: {Path(folder)} holds policies of roles. Name the folder of one of them."
        )
    wrong = None
    games = [full_id(split_id(id)[0]) for id in config.environment.ids]
    if trained and trained.isdisjoint(games):
        wrong = f"was trained in {', '.join(sorted(trained))}, not in {config.environment.label}"
    elif type(agent) is not PolicyAgent or agent.policy.steered:
        wrong = "chooses its actions with a learned critic"
    elif agent.policy.tokenizer.get_vocab() != policy.tokenizer.get_vocab():
        wrong = "has another tokenizer than the model in training"
    elif agent.wrap != config.environment.wrap:
        wrong = f"acts through {list(agent.wrap)}, and the run through {config.environment.wrap}"
    elif agent.settings != config.context_settings():
        wrong = f"has other prompts ({agent.settings}, expected {config.context_settings()})"
    if wrong is not None:
        raise ConfigError(f"opponents: the policy in {Path(folder)} {wrong}. Name another folder.")
    agent.policy.autocast = policy.autocast
    return agent.policy.requires_grad_(False)
