"""`NetHack`: NetHack and the tasks of MiniHack as text environments."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, MissingExtraError, SnapshotError, did_you_mean
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

INSTALL = "pip install nle minihack minigrid && pip install --no-deps 'gymnasium>=1.2.2'"
"""nle 1.3.0 works with newer releases of Gymnasium than the one that it pins (1.2.0)."""
DIRECTIONS = {"N": "north", "E": "east", "S": "south", "W": "west"}
MANY_MORE = 50
"""Pages of one message that are turned at most."""
DEPTHS = (
    *(0.0126, 0.0154, 0.0175, 0.0212, 0.0265, 0.0354, 0.0485, 0.0696, 0.0977, 0.1256),
    *(0.1613, 0.2061, 0.2566, 0.2925, 0.3088, 0.3249, 0.3401, 0.3526, 0.3655, 0.3790),
    *(0.3929, 0.4083, 0.4258, 0.4452, 0.4664, 0.5068, 0.5544, 0.6016, 0.6465, 0.6913),
    *(0.7101, 0.7176, 0.7232, 0.7284, 0.7328, 0.7369, 0.7421, 0.7471, 0.7537, 0.7610),
    *(0.7674, 0.7725, 0.7772, 0.7813, 0.7859, 0.7890, 0.7930, 0.7967, 0.8018, 0.8068),
)
"""BALROG's progress by dungeon level, 1 to 50, in four decimals."""
RANKS = (
    *(0.0126, 0.0185, 0.0208, 0.0242, 0.0291, 0.0369, 0.0508, 0.0745, 0.1170, 0.1791),
    *(0.2548, 0.3326, 0.4144, 0.4940, 0.5779, 0.6261, 0.6563, 0.6810, 0.7015, 0.7174),
    *(0.7287, 0.7371, 0.7443, 0.7513, 0.7586, 0.7642, 0.7703, 0.7760, 0.7783, 0.7805),
)
"""BALROG's progress by experience level, 1 to 30, in four decimals."""


@dataclass
class State:
    """The episode so far.

    Attributes:
        played: the actions, from which the game is replayed.
        best: highest progress so far.
        screen: the screen after the actions.
    """

    played: list[str] = field(default_factory=list)
    best: float = 0.0
    screen: str = ""


def action_names(actions: Any) -> dict[str, int]:
    """Returns the index of each action by its name, such as "north", "far east" or "pickup".

    Args:
        actions: the actions of the engine, members of its enumerations.
    """
    names: dict[str, int] = {}
    for index, action in enumerate(actions):
        kind, name = type(action).__name__, action.name
        if "Direction" in kind and kind.startswith("Compass"):
            # The diagonals are named by two letters, such as NE.
            name = "".join(DIRECTIONS[letter] for letter in name)
            name = f"far {name}" if kind.endswith("Longer") else name
        else:
            name = name.lower().replace("num_", "").replace("_", " ")
        names.setdefault(name, index)
    return names


def progress_of(depth: int, rank: int) -> float:
    """Returns BALROG's progress in NetHack: the better of those by dungeon and experience level.

    It is an estimate of the chance to win, from games of people, and 1 for an ascension.

    Args:
        depth: the dungeon level, from 1.
        rank: the experience level, from 1.
    """
    deepest = DEPTHS[min(max(depth, 1), len(DEPTHS)) - 1]
    return max(deepest, RANKS[min(max(rank, 1), len(RANKS)) - 1])


class NetHack(TextEnv):
    """Play NetHack ("The NetHack Learning Environment", arXiv 2006.13760) or a task of MiniHack.

    Observations are the lines of the screen: message, map, status, and the inventory below. Actions
    are names such as `north`, `far east`, `pickup` or `esc`. The pages of a long message are turned
    automatically. The reward in NetHack is the increase of BALROG's progress (arXiv 2411.13543), an
    estimate of the chance to win by dungeon and experience level. The reward in MiniHack is that of
    the task, and the progress is 1 after a success. Each task name is a seed. Snapshots replay the
    actions.

        gymnasium.make("AgentGym/NetHack-v0")
        gymnasium.make("AgentGym/NetHack-v0", task_id="MiniHack-Room-5x5-v0")

    Args:
        task_id: id of nle ("NetHackScore-v0", ...) or of MiniHack.
        max_turns: turn limit.
        settings: arguments of the engine, such as {"character": "val-hum-law-fem"}.
        **kwargs: arguments of `TextEnv`.

    Raises:
        MissingExtraError: without the packages nle and minihack. They pin another release of
            Gymnasium than AgentGym needs, so that no extra can install them.
        ConfigError: for an unknown task or wrong settings.
    """

    State = State
    state: State

    def __init__(
        self,
        *,
        task_id: str = "NetHackScore-v0",
        max_turns: int | None = 1000,
        settings: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__(max_turns=max_turns, **kwargs)
        self.mini = task_id.startswith("MiniHack-")
        nethack = _engine(task_id)
        options: dict[str, Any] = {
            "observation_keys": ("tty_chars", "blstats", "inv_letters", "inv_strs"),
            "max_episode_steps": 10**9,  # the limit is that of the environment
            "fix_moon_phase": True,
            "render_mode": None,
        }
        if not self.mini:
            options["actions"] = nethack.USEFUL_ACTIONS
        try:
            options |= settings or {}
            made = gymnasium.make(task_id, disable_env_checker=True, **options)
        except (TypeError, ValueError, AssertionError, ImportError) as error:
            raise ConfigError(f"{task_id} cannot be made: {str(error)[:300]}") from error
        self.task_id, self._env = task_id, made.unwrapped
        self._names = action_names(self._env.actions)  # type: ignore[attr-defined]
        self._won = int(self._env.StepStatus.TASK_SUCCESSFUL) if self.mini else None  # type: ignore
        self.tasks = Tasks.generated()
        goal = "Finish the task of the level." if self.mini else "Descend and survive."
        self.instructions = (
            f"You play NetHack. {goal} You see the screen of the game: a message, the map, where @ "
            "is you, and your status.\nReply with the name of one action: "
            f"{', '.join(self._names)}."
        )

    def close(self) -> None:
        """Closes the engine."""
        self._env.close()

    def _start(self, task: str) -> TimeStep:
        self.task, self.state = task, State()
        self._open()
        if not self.mini:
            self.state.best = self._reached()
        return self._see()

    def _open(self) -> None:
        """Starts the game of the task."""
        rng = task_rng(self.task, f"nethack/{self.task_id}")
        core, display = (int(number) for number in rng.integers(2**31, size=2))
        self._env.seed(core, display, reseed=False)  # type: ignore[attr-defined]
        self._seen, _ = self._env.reset()
        self._turn_pages()

    def _turn_pages(self) -> None:
        """Reads the remaining pages of a message, if the actions allow it."""
        more = self._names.get("more")
        for _ in range(MANY_MORE if more is not None else 0):
            if b"--More--" not in bytes(self._seen["tty_chars"]):
                return
            self._seen, _, ended, *_ = self._env.step(more)
            if ended:
                return

    def _reached(self) -> float:
        stats = self._seen["blstats"]
        return progress_of(int(stats[12]), int(stats[18]))

    def _see(self, **result: Any) -> TimeStep:
        rows = [bytes(row).decode("latin1").rstrip() for row in self._seen["tty_chars"]]
        items = [
            f"{chr(letter)}: {bytes(name).decode('latin1').rstrip(chr(0))}"
            for letter, name in zip(self._seen["inv_letters"], self._seen["inv_strs"], strict=True)
            if letter
        ]
        self.state.screen = "\n".join([*rows, *items]).strip("\n")
        progress = self.state.best
        return TimeStep(
            text=self.state.screen, progress=progress, admissible=tuple(self._names), **result
        )

    def _advance(self, action: str) -> TimeStep:
        if action not in self._names:
            return self._invalid(
                f"Invalid action {action[:40]!r}. The instructions list the names of all actions."
            )
        self.state.played.append(action)
        reward, ended, success = self._play(action)
        return self._see(rewards={"task": reward}, terminated=ended, success=success)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        """Plays an action. Returns the reward, whether the game has ended and whether it is won."""
        seen, reward, ended, aborted, info = self._env.step(self._names[action])
        self._seen, reward = seen, float(reward)
        ended = bool(ended or aborted)
        if self.mini:
            success = ended and int(info["end_status"]) == self._won
            self.state.best = max(self.state.best, float(success))
            return (reward if math.isfinite(reward) else 0.0), ended, success
        if not ended:
            self._turn_pages()
        success, before = bool(info.get("is_ascended", False)), self.state.best
        self.state.best = 1.0 if success else max(before, self._reached())
        return self.state.best - before, ended, success

    def _restored(self) -> None:
        """Replays the recorded actions.

        Raises:
            SnapshotError: if they lead to another screen than before.
        """
        before = self.state.screen
        self._open()
        for action in self.state.played:
            self._play(action)
        self._see()
        if self.state.screen != before:
            raise SnapshotError(f"{self.task_id} cannot be replayed: the screen is another one.")


def _engine(task_id: str) -> Any:
    """Imports the engine that has a task.

    Raises:
        MissingExtraError: if a package is not installed.
        ConfigError: for an unknown task.
    """
    try:
        importlib.import_module("nle.env")
        nethack = importlib.import_module("nle.nethack")
        if task_id.startswith("MiniHack-"):
            importlib.import_module("minihack")
    except ModuleNotFoundError as error:
        raise MissingExtraError("AgentGym/NetHack-v0", "nle", error.name, INSTALL) from error
    known = [id for id in gymnasium.registry if id.startswith(("NetHack", "MiniHack-"))]
    if task_id not in known or task_id == "NetHackChallenge-v0":
        hint = did_you_mean(task_id, known)
        raise ConfigError(
            f"There is no task {task_id!r} of nle or MiniHack that can be seeded.{hint}"
        )
    return nethack
