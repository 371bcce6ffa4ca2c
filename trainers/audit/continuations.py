"""Exact values of recorded states: the policy plays on from each of them many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from agentgym.agents import View
from agentgym.errors import ConfigError, naming
from agentgym.registration.making import TextGym, make_env
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.trainers.audit.measures import Floats
from agentgym.trainers.audit.recorded import Recorded
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.loading import load_agent

SAME_WEIGHTS, LOW_PRECISION = 1e-3, 1e-2
"""Largest difference of the log-prob of an action by the same weights, in numbers of 32 bits, and
for other types or engines with kernels of their own."""


@dataclass(frozen=True)
class Played:
    """Recorded turns with the returns of continuations.

    Attributes:
        returns: [M, K] discounted returns from the state before each turn.
        env_steps: environment steps of all continuations.
        checked: turns whose log-probs were compared with those of the kept policy.
        drift: their largest difference.
    """

    returns: Floats
    env_steps: int
    checked: int
    drift: float


class Auditor:
    """Plays continuations of the trajectories of an iteration.

    Args:
        recorded: the trajectories and their policy.
        continuations: number of continuations per state.
        seed: seed of the continuations.

    Attributes:
        finished: number of trajectories that were played.
        played: their continuations.
    """

    def __init__(self, recorded: Recorded, continuations: int, seed: int = 0):
        self.recorded, self.config = recorded, recorded.config
        agent = load_agent(str(recorded.policy), temperature=self.config.get("temperature", 1.0))
        if not isinstance(agent, PolicyAgent):
            raise ConfigError("An audit needs one policy, and the checkpoint has one per role.")
        self.agent = agent
        self.gamma = float(self.config.get("gamma", 1.0))
        self.rng = np.random.default_rng(seed)
        self.env = self._make()
        self.envs = [self._make() for _ in range(continuations)]
        self.env_steps = self.checked = self.finished = 0
        self.drift = 0.0
        self.played = Played(np.empty((0, continuations)), 0, 0, 0.0)

    def _make(self) -> TextGym:
        config = self.config
        wrap: Mapping[str, Any] = {"wrap": config["wrap"]} if config.get("wrap") else {}
        return make_env(config["env_id"], **config.get("env_kwargs", {}), **wrap)

    def play(self, on_turn: Callable[[], None] = lambda: None) -> Played:
        """Plays continuations before every recorded turn.

        Raises:
            ConfigError: if a replay differs from the record, or other weights have played it.
        """
        returns: list[Floats] = []
        for line in self.recorded.trajectories:
            view = View.start(self.env, line["task"], line["seed"], self.recorded.max_turns)
            for number, turn in enumerate(line["turns"]):
                self._check_turn(view, line, number)
                place = f"Raised in a continuation of {_place(line, number)}."
                with naming(partial(str, place)):
                    returns.append(self._continue(view))
                observation, _, terminated, truncated, info = self.env.step(turn["action"])
                _follow(view, turn["action"], observation, info)
                self._check_end(line, number, terminated or truncated)
                on_turn()
            self.finished += 1
            self.played = Played(np.array(returns), self.env_steps, self.checked, self.drift)
        return self.played

    def _check_turn(self, view: View, line: dict[str, Any], number: int) -> None:
        turn = line["turns"][number]
        place = _place(line, number)
        if view.observation != turn["observation"]:
            raise ConfigError(
                f"The replay of {place} shows {view.observation!r:.80}, the record "
                f"{turn['observation']!r:.80}: the run has another version of the environment, or "
                "its rewards and observations depend on more than task and seed."
            )
        admissible = list(view.info.get("admissible", ()))
        if not self.config.get("constrain") or turn["action"] not in admissible:
            return
        [probabilities] = self.agent.probabilities([view])
        found = float(np.log(probabilities[admissible.index(turn["action"])]))
        difference = abs(found - sum(turn["logprobs"]))
        self.checked, self.drift = self.checked + 1, max(self.drift, difference)
        exact = self.config.get("engine", "own") == "own" and self.config["dtype"] == "float32"
        bound = SAME_WEIGHTS if exact else LOW_PRECISION
        if difference > bound:
            raise ConfigError(
                f"Other weights have played {place}: the log-prob of its action differs by "
                f"{difference:.2g}. Train with --save-every 1 and a --keep that holds the "
                "checkpoints of the recorded iterations, without --max-staleness."
            )

    def _check_end(self, line: dict[str, Any], number: int, over: bool) -> None:
        """Checks that the episode ends with the record, unless a turn limit cut the record."""
        last = number + 1 == len(line["turns"])
        if over != last and not (last and line.get("truncated")):
            raise ConfigError(
                f"The replay of task {line['task']} ends after turn {number + 1}, the record after "
                f"turn {len(line['turns'])}: train without --turn-limit."
            )

    def _continue(self, view: View) -> Floats:
        """Returns the discounted returns of continuations, with fresh chance and sampling."""
        snapshot, views = snapshot_of(self.env), []
        for env in self.envs:
            env.reset(seed=0)
            observation, info = restore_snapshot(env, snapshot)
            env.unwrapped.reseed(int(self.rng.integers(2**62)))  # type: ignore[attr-defined]
            rng = np.random.default_rng(int(self.rng.integers(2**62)))
            history = list(view.history)
            views.append(View(view.instructions, observation, info, rng, env, history))
        found, discount, alive = np.zeros(len(views)), 1.0, list(range(len(views)))
        while alive:
            playing = []
            for i, action in zip(alive, self.agent.act([views[i] for i in alive]), strict=True):
                observation, reward, terminated, truncated, info = views[i].env.step(action)
                _follow(views[i], action, observation, info)
                found[i] += discount * float(reward)
                if not (terminated or truncated):
                    playing.append(i)
            self.env_steps += len(alive)
            alive, discount = playing, discount * self.gamma
        return found


def _place(line: dict[str, Any], number: int) -> str:
    return f"turn {number + 1} of task {line['task']} in iteration {line['iteration']}"


def _follow(view: View, action: str, observation: str, info: dict[str, Any]) -> None:
    """Moves a view on by a turn."""
    view.history.append((view.observation, action))
    view.observation, view.info = observation, info
