"""`WrittenGoal`: training tasks with goals that a language model writes, and a judge of them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import gymnasium

from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.errors import ConfigError
from agentgym.judges import Verdict, outcome_judge, outcome_of
from agentgym.tasks import Tasks
from agentgym.time_step import UNJUDGED
from agentgym.utils.action_parsing import text_of
from agentgym.utils.arguments import check_reset_options
from agentgym.utils.printable import printable
from agentgym.wrappers.base import TextWrapper

GOAL = " goal: "
"""Text between the name of a task and its written goal."""
LONGEST_GOAL = 500
"""Characters of a goal."""
TERM = "goal"
"""Reward term of written goals."""


class GoalTasks(Sequence[str]):
    """The tasks of an environment, each of which may have a written goal: `TASK goal: TEXT`.

    Those without one are its elements, and all of them are in it.

    Args:
        tasks: the tasks of the environment.
    """

    def __init__(self, tasks: Sequence[str]):
        self.own = tasks

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, index: Any) -> Any:
        return GoalTasks(self.own[index]) if isinstance(index, slice) else self.own[index]

    def __contains__(self, task: object) -> bool:
        if not isinstance(task, str):
            return False
        name, goal = parted(task, self.own)
        return name in self.own and (name == task or goal == clean_goal(goal) != "")


def parted(task: str, own: Container[str]) -> tuple[str, str]:
    """Returns the name of a task without its written goal, and the goal, "" without one.

    Args:
        task: the task.
        own: the tasks of the environment, whose names may hold the mark of a goal.
    """
    name, _, goal = (task, "", "") if task in own else task.partition(GOAL)
    return name, goal


def clean_goal(text: str) -> str:
    """Returns a goal on one line, at most `LONGEST_GOAL` characters, without control characters."""
    return " ".join(printable(text).split())[:LONGEST_GOAL].strip()


def with_goal(goal: str, observation: str) -> str:
    """Returns an observation with a written goal."""
    return f"Goal: {goal}\nIt takes the place of any goal below.\n\n{observation}"


class WrittenGoal(TextWrapper):
    """Plays training tasks with written goals, whose outcome a judge decides.

    A task `TASK goal: TEXT` begins as `TASK` of the environment, and the goal takes the place of
    its own. `--curriculum chat:MODEL@URL` writes such tasks from those that fail, as in "WebRL:
    Training LLM Web Agents via Self-Evolving Online Curriculum Reinforcement Learning" (arXiv
    2411.02337), in which an outcome reward model decides the success of the new tasks. All other
    tasks are unchanged.

    **Actions**: unchanged.

    **Observations**: text. With a written goal, each begins with `Goal: TEXT`.

    **Rewards**: with a written goal, 1 at the end of an episode that the judge considers solved,
    else 0, and the penalties of invalid actions. If its reply cannot be read, the reward is 0, and
    training leaves the episode out.

    **Episode end**: unchanged.

    **Info**: the reward term `goal` is added. With a written goal, `task` is the whole name,
    `success` is the verdict, `progress` is 1 after a success, and the other terms are 0. If the
    verdict cannot be read, `unjudged` is True. Otherwise this key is absent.

    Args:
        env: an environment with text observations and actions, tasks, and AgentGym's info keys.
        judge: a judge of episodes (see `agentgym.judges.make_judge`). It reads the rules, the goal
            and all turns, and replies of a served model are kept in the cache.

    Raises:
        ConfigError: if observations or actions are not text, or there is no such judge.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], judge: str):
        super().__init__(env, judge=judge)
        self._need_text("observations")
        self._need_text("actions")
        outcome_judge(judge)
        self.judge = judge
        self._begin()

    @property
    def tasks(self) -> Tasks:
        """The tasks of the environment. Training tasks may have a written goal."""
        own = self.env.get_wrapper_attr("tasks")
        return Tasks(GoalTasks(own.train), own.test)

    def expert(self) -> str | None:
        """Returns the action of the environment's expert, None with a written goal."""
        return None if self._goal else self.env.get_wrapper_attr("expert")()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`."""
        check_reset_options(options, None)
        options, goal = dict(options or {}), ""
        if options.get("task") is not None:
            own = self.env.get_wrapper_attr("tasks")
            options["task"], goal = parted(self.tasks.check(options["task"]), own)
        observation, info = self.env.reset(seed=seed, options=options)
        self._begin()
        self._goal, self._seen = goal, observation
        return self._view(observation, info)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._goal:
            self._turns.append((self._seen, text_of(action)))
            self._seen = observation
            if terminated or truncated:
                verdict = self._judged(observation)
                self._solved, self._unjudged = bool(verdict.success), verdict.score is None
        observation, info = self._view(observation, info)
        if self._goal:
            reward = sum(info["reward_terms"].values())
        return observation, float(reward), terminated, truncated, info

    def _judged(self, last: str) -> Verdict:
        """Returns the judge's verdict on the goal of the episode."""
        rules = str(self.env.get_wrapper_attr("instructions"))
        goal = f"The goal of this episode, in place of any other one: {self._goal}"
        turns = [RecordedTurn(*turn) for turn in self._turns]
        episode = RecordedEpisode(turns, instructions=f"{rules}\n\n{goal}", last_observation=last)
        return outcome_of(self.judge, episode)

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        missing = [key for key in ("task", "success", "reward_terms") if key not in info]
        if missing:
            raise ConfigError(
                f"WrittenGoal needs an environment whose info holds {missing}, but the info of "
                f"{self.env.unwrapped} does not."
            )
        terms = dict(info["reward_terms"])
        if not self._goal:
            return observation, {**info, "reward_terms": {**terms, TERM: 0.0}}
        terms = {name: term * (name == "invalid") for name, term in terms.items()}
        added = {
            "task": f"{info['task']}{GOAL}{self._goal}",
            "success": self._solved,
            "progress": float(self._solved),
            "reward_terms": {**terms, TERM: float(self._solved)},
        }
        info = {name: value for name, value in info.items() if name != UNJUDGED}
        if self._unjudged:
            added[UNJUDGED] = True
        return with_goal(self._goal, observation), self._keyed({**info, **added}, self._goal)

    def _begin(self) -> None:
        self._goal, self._seen, self._solved, self._unjudged = "", "", False, False
        self._turns: list[tuple[str, str]] = []

    def _memory(self) -> dict[str, Any]:
        return {
            "goal": self._goal,
            "seen": self._seen,
            "solved": self._solved,
            "unjudged": self._unjudged,
            "turns": [list(turn) for turn in self._turns],
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        turns = [(str(observation), str(action)) for observation, action in memory["turns"]]
        self._goal, self._seen = str(memory["goal"]), str(memory["seen"])
        self._solved, self._turns = bool(memory["solved"]), turns
        self._unjudged = bool(memory.get("unjudged", False))
