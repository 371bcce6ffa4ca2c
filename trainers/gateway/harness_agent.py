"""`HarnessAgent`: a program of the user as an agent of evaluations, with a model that answers it.

The evaluation owns the environment. An action of the program is that of the agent, and the next
observation is the reply to it.
"""

from __future__ import annotations

import queue
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import gymnasium

from agentgym.agents import View
from agentgym.errors import ConfigError
from agentgym.trainers.gateway.environment import HeldEnv
from agentgym.trainers.gateway.executor import FIRST, PATIENCE, ProgramError
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.programs import Program, check_program, program_of
from agentgym.trainers.gateway.served_model import load_served
from agentgym.trainers.gateway.session import SessionSpec
from agentgym.trainers.policy_agent.agent import PolicyAgent

SECONDS = 600.0
"""Time limit of an episode of a program."""
MOST = 32
"""Episodes at the same time. Each holds a thread of the web server while it waits for others."""
NOTHING = ""
"""The action of a program that has ended before its episode."""


class _Turns(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The environment of a view, whose steps are taken by the evaluation.

    Args:
        view: the view.

    Attributes:
        actions: the actions of the program.
        results: the answers to them.
    """

    def __init__(self, view: View):
        super().__init__(view.env)
        self._view = weakref.ref(view)
        self.actions: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.results: queue.SimpleQueue[tuple[str, bool, dict[str, Any]]] = queue.SimpleQueue()
        self.on_action = lambda: None

    def reset(self, **_: Any) -> tuple[str, dict[str, Any]]:
        """Returns the first observation. The evaluation has reset the environment."""
        view = self._view()
        assert view is not None
        return view.observation, view.info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Hands an action over, and returns the observation after it."""
        self.actions.put(action)
        self.on_action()
        observation, over, info = self.results.get()
        return observation, 0.0, over, False, info


class _Episode:
    """An episode of a program in progress."""

    def __init__(self, agent: HarnessAgent, view: View):
        self._agent, self.turns = agent, _Turns(view)
        sessions = agent.gateway.sessions
        self.turns.on_action = sessions.wake
        self.over = False
        held = HeldEnv(self.turns, str(view.info.get("task", "")), 0)
        key = tuple(int(word) for word in view.rng.integers(2**31, size=2))
        self.session = agent.gateway.open(SessionSpec(key, constrain=agent.constrain), held)
        self._task = agent.gateway.task(self.session, held, task="", seed=0)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            outcome = self._agent.program.run(self._task)
            self._agent.ended("" if self.over else outcome.error)
        except Exception as error:
            self._agent.ended(repr(error))
        finally:
            self._agent.gateway.sessions.wake()

    @property
    def ready(self) -> bool:
        """Whether there is an action, or none will come."""
        return not self.thread.is_alive() or not self.turns.actions.empty()

    def action(self) -> str:
        """Returns the action of the program."""
        return NOTHING if self.turns.actions.empty() else self.turns.actions.get()


class HarnessAgent:
    """A program as an agent. It is started for each episode.

    Args:
        program: the program.
        policy: the model that answers it, with its sampling parameters.
        name: name of the agent.

    Attributes:
        gateway: the address at which the model answers.
        constrain: whether replies are restricted to the admissible actions.
        wrap: the wrappers that the model was trained with.
    """

    def __init__(self, program: Program, policy: PolicyAgent, name: str):
        self.program, self.name = program, name
        self.constrain, self.wrap = policy.constrain, policy.wrap
        self.trained_in = policy.trained_in
        self.gateway = Gateway(policy.policy, policy.sampling, batching="continuous")
        self._episodes: weakref.WeakKeyDictionary[View, _Episode] = weakref.WeakKeyDictionary()
        self._problems: list[str] = []
        self._won, self._failed = False, 0

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view. That of a program that has ended is empty.

        Raises:
            ConfigError: for too many episodes at the same time.
            ProgramError: if the first programs all fail.
        """
        if len(views) > MOST:
            raise ConfigError(
                f"A program plays at most {MOST} episodes at the same time, got {len(views)}: set "
                f"--num-envs {MOST}."
            )
        for view in views:
            if (episode := self._episodes.get(view)) is not None:
                episode.turns.results.put((view.observation, False, view.info))
            else:
                self._episodes[view] = _Episode(self, view)
        played = [self._episodes[view] for view in views]
        self.gateway.sessions.run(lambda: all(each.ready for each in played))
        self._check()
        for view, each in zip(views, played, strict=True):
            calls = each.session.record.turns()
            view.costs["prompt_tokens"] = sum(len(call.prompt.tokens) for call in calls)
            samples = [call.sample for call in calls if call.sample is not None]
            view.costs["completion_tokens"] = sum(len(sample.tokens) for sample in samples)
        return [each.action() for each in played]

    def finish(self, view: View) -> None:
        """Tells a program the end of its episode, and waits for its own end."""
        episode = self._episodes.pop(view)
        episode.over = True
        episode.turns.results.put((view.observation, True, view.info))
        deadline = time.monotonic() + PATIENCE
        self.gateway.sessions.run(
            lambda: not episode.thread.is_alive() or time.monotonic() > deadline
        )
        self.gateway.close_session(episode.session)

    def ended(self, problem: str) -> None:
        """Takes the failure of a program that has ended, "" without one."""
        if problem:
            self._problems.append(problem)
        else:
            self._won = True

    def close(self) -> None:
        """Ends all programs and the web server."""
        self.program.close()
        self.gateway.sessions.close_all()
        self.gateway.close()

    def _check(self) -> None:
        """Warns of programs that have failed, or raises an error if no other one has ended."""
        problems, self._problems = self._problems, []
        self._failed += len(problems)
        if not problems:
            return
        if not self._won and self._failed >= FIRST:
            raise ProgramError(f"The first {self._failed} programs failed. {problems[-1]}")
        warnings.warn(
            f"{len(problems)} programs failed, and their episodes go on with empty actions. The "
            f"last one: {problems[-1]}",
            stacklevel=3,
        )


def load_harness(
    command: str,
    *,
    model: str = "",
    temperature: float = 0.0,
    max_new_tokens: int | None = None,
    device: str = "cpu",
) -> HarnessAgent:
    """Returns a program as an agent.

    Args:
        command: a command such as "python my_agent.py", or "module:function".
        model: the model that answers it: the folder of a run, or a Hugging Face id or folder.
        temperature: sampling temperature. 0 is greedy decoding.
        max_new_tokens: see `load_served`.
        device: device of the model.

    Raises:
        ConfigError: if the program or the model does not exist.
        MissingExtraError: without the extra `serve`.
    """
    if not model:
        raise ConfigError("A program needs a model that answers it: set --model, such as runs/a.")
    check_program(command)
    program = program_of(command, SECONDS)
    policy = load_served(
        model, temperature=temperature, max_new_tokens=max_new_tokens, device=device
    )
    return HarnessAgent(program, policy, f"harness:{command}")
