"""ScienceWorld: text-based science experiments at primary-school level."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, MissingExtraError, did_you_mean
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command
from agentgym.utils.printable import encodable

VARIATIONS = {
    **{"boil": 30, "melt": 30, "freeze": 30, "change-the-state-of-matter-of": 30},
    **{"use-thermometer": 540, "measure-melting-point-known-substance": 436},
    **{"measure-melting-point-unknown-substance": 300, "power-component": 20},
    **{"power-component-renewable-vs-nonrenewable-energy": 20, "test-conductivity": 900},
    **{"test-conductivity-of-unknown-substances": 600, "find-living-thing": 300},
    **{"find-non-living-thing": 300, "find-plant": 300, "find-animal": 300, "grow-plant": 126},
    **{"grow-fruit": 126, "chemistry-mix": 32, "chemistry-mix-paint-secondary-color": 36},
    **{"chemistry-mix-paint-tertiary-color": 36, "lifespan-longest-lived": 125},
    **{"lifespan-shortest-lived": 125, "lifespan-longest-lived-then-shortest-lived": 125},
    **{"identify-life-stages-1": 14, "identify-life-stages-2": 10},
    **{"inclined-plane-determine-angle": 168, "inclined-plane-friction-named-surfaces": 1386},
    **{"inclined-plane-friction-unnamed-surfaces": 162, "mendelian-genetics-known-plant": 120},
    **{"mendelian-genetics-unknown-plant": 480},
}
"""Number of variations of each kind of task."""
DROPPED = ("grow-", "inclined-plane-", "mendelian-genetics-")
"""Beginnings of the kinds that the AgentGym framework of Xi et al. leaves out."""
SIMPLIFICATIONS = (
    *("teleportAction", "selfWateringFlowerPots", "openContainers", "openDoors"),
    *("noElectricalAction", "easy"),
)
UNKNOWN = "No known action matches that input."
MOST = 100


@dataclass
class State:
    """The commands so far, which are replayed to restore a snapshot."""

    commands: list[str] = field(default_factory=list)


def split_of(variations: int) -> dict[str, range]:
    """Returns ScienceWorld's split of the variations: half, a quarter, the rest."""
    quarter = variations // 4
    return {
        "train": range(2 * quarter),
        "dev": range(2 * quarter, 3 * quarter),
        "test": range(3 * quarter, variations),
    }


def in_order(text: str) -> str:
    """Returns the text with sorted lists, since the simulator's order is arbitrary."""
    lines: list[str] = []
    listed: list[str] = []
    for line in [*text.strip().splitlines(), ""]:
        if line.startswith("\t"):
            listed.append(line)
        else:
            lines += [*sorted(listed), line]
            listed = []
    return "\n".join(lines[:-1])


class ScienceWorld(TextEnv):
    """Do science experiments in a house with a laboratory, a kitchen and a greenhouse.

    ## Description
    ScienceWorld: thirty kinds of tasks from primary-school science classes, such as boiling water,
    testing whether something conducts electricity, or finding the longest-lived animal. The
    simulator is the original, which runs on Java.

    ## Action Space
    Text commands.

    - `look around`, `look at thermometer`, `inventory`
    - `open door to kitchen`, `go to kitchen`
    - `pick up thermometer`, `move apple to box`, `pour water into pot`
    - `use thermometer on water`, `focus on water`
    - `connect battery anode to wire terminal 1`, `activate stove`
    - `wait`
    - a number, if the simulator asks which of several things is meant

    ## Observation Space
    Text: the result of the last action, then the task, the room and the inventory.

    ## Rewards
    Term `task`: the increase of the score. The score of a completed task is 100. A fatal mistake,
    such as focusing on the wrong thing, sets it to -100.

    ## Starting State
    The start of a variation of a kind of task: `train/boil/3`.

    ## Episode End
    - Termination: the task is completed or failed (negative score).
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the score / 100. `admissible` is empty by default. With
    `list_actions`, it holds the simulator's list of several hundred commands. `state_key` covers
    the text and the score, but not events in other rooms.

    ## Arguments
    - `kinds` (str or list, default "agentgym"): "agentgym" (the 23 kinds in the AgentGym framework
      of Xi et al., without growing, inclined planes and genetics), "all" (30), or a list of names.
    - `simplifications` (list, default ()): names of ScienceWorld's simplifications, such as "easy"
      or "openDoors".
    - `test_on` (str, default "test"): the variations that are test tasks, "test" or "dev".
    - `list_actions` (bool, default False): whether to list the admissible actions. This takes
      longer than a step.
    - `max_turns` (int or None, default 100): turn limit, as in ScienceWorld. The AgentGym framework
      of Xi et al. allows 30 turns.

    ## Notes
    - The expert is the simulator's solution.
    - One Java virtual machine serves all environments of a process. It starts with the first
      environment, which takes a few seconds, and needs memory for each environment.
    - The speed depends on the activity in the simulated world. `list_actions` makes it much slower.
    - Snapshots are restored by replaying the commands. Lists are sorted alphabetically, since the
      simulator's order is arbitrary.

    ## References
    ScienceWorld (arXiv 2203.07540), the AgentGym framework of Xi et al. (arXiv 2406.04151). Needs
    the extra `scienceworld` and Java.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are in a house with several rooms. Do the science task that the observation names.\n"
        "\n"
        "Rules:\n"
        "- Use 'focus on' for the thing that the task asks for. Focusing on the wrong thing fails "
        "the task.\n"
        "- If you are asked which of several things you mean, reply with its number.\n"
        "- Each step towards the solution earns points, 100 in total.\n"
        "- The episode ends when the task is completed or failed, or when you run out of turns.\n"
        "\n"
        "Commands (X and Y are things, for example: pour water into pot):\n"
        "- look around, look at X, look in X, read X, inventory, task\n"
        "- open X, close X, go to X (example: open door to kitchen, then go to kitchen)\n"
        "- pick up X, put down X, move X to Y\n"
        "- pour X into Y, dunk X into Y, mix X\n"
        "- use X on Y (example: use thermometer on water)\n"
        "- activate X, deactivate X, connect X to Y, disconnect X\n"
        "- eat X, flush X, focus on X\n"
        "- wait (10 steps), wait1 (1 step)\n"
        "\n"
        "Reply with exactly one command per turn."
    )
    State = State

    def __init__(
        self,
        *,
        kinds: str | Sequence[str] = "agentgym",
        simplifications: Sequence[str] = (),
        test_on: str = "test",
        list_actions: bool = False,
        max_turns: int | None = 100,
        **kwargs,
    ):
        if importlib.util.find_spec("scienceworld") is None:
            raise MissingExtraError("ScienceWorld", "scienceworld", "scienceworld")
        if shutil.which("java") is None:
            raise ConfigError(
                "ScienceWorld runs on Java, but there is no program 'java'. Install Java 8 or "
                "later (Debian: apt install default-jre-headless)."
            )
        super().__init__(max_turns=max_turns, **kwargs)
        if test_on not in ("test", "dev"):
            raise ValueError(f"test_on must be 'test' or 'dev', got {test_on!r}.")
        names = _names(kinds)
        for name in simplifications:
            if name not in SIMPLIFICATIONS:
                hint = did_you_mean(name, SIMPLIFICATIONS)
                raise ConfigError(f"ScienceWorld has no simplification {name!r}.{hint}")
        self.simplifications = ",".join(simplifications)
        self.list_actions = list_actions
        splits = {name: split_of(VARIATIONS[name]) for name in names}
        self.tasks = Tasks(
            train=tuple(f"train/{name}/{i}" for name in names for i in splits[name]["train"]),
            test=tuple(f"{test_on}/{name}/{i}" for name in names for i in splits[name][test_on]),
        )
        self._server: Any = None

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        self._load()
        return self._look(0, "")

    def _load(self) -> None:
        from agentgym.envs.scienceworld.java import new_server

        if self._server is None:
            self._server = new_server()
        _, name, variation = self.task.split("/")
        self._server.load(name, int(variation), self.simplifications, False)
        self._server.reset()
        # As in ScienceWorld's reset: until the first command, the score is the last episode's.
        self._server.step("look around")

    def _advance(self, action: str) -> TimeStep:
        typed = encodable(" ".join(command(action)[:200].split()))
        assert self._last is not None
        listed = typed in self._last.admissible
        before = self._score()
        result = self._server.step(typed).strip()
        self.state.commands.append(typed)
        # The simulator does not accept all commands that it lists.
        if result == UNKNOWN and not listed:
            return self._invalid(
                f"Unknown command {action[:60]!r}. Expected a command such as 'look around' or "
                "'open door to kitchen'."
            )
        return self._look(self._score() - before, in_order(result))

    def _score(self) -> int:
        return round(MOST * self._server.getScore())

    def _look(self, gained: int, result: str) -> TimeStep:
        server = self._server
        score = self._score()
        over = bool(server.getCompleted()) or score < 0
        goal = server.freeActionTaskDesc().partition("\n")[2].strip()
        lines = [f"Task: {goal}", server.freeActionLook(), server.freeActionInventory()]
        text = "\n".join(in_order(line) for line in lines)
        if over:
            text += "\nThe task is completed." if score == MOST else "\nThe task has failed."
        listed: tuple[str, ...] = ()
        if self.list_actions and not over:
            listed = tuple(sorted(set(server.getValidActionObjectCombinations())))
        return TimeStep(
            text=text,
            rewards={"task": float(gained)},
            terminated=over,
            success=score >= MOST,
            progress=min(max(score / MOST, 0.0), 1.0),
            admissible=listed,
            state_key=f"{score}\n{text}",
            feedback=result,
        )

    def _restored(self) -> None:
        """Replays the commands of the snapshot."""
        self._replay()

    def _replay(self) -> None:
        self._load()
        for typed in self.state.commands:
            self._server.step(typed)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_server": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if hasattr(self, "state"):
            self._replay()

    def expert(self) -> str | None:
        """Returns the next command of ScienceWorld's solution, None after a deviation from it."""
        if self._over:
            return None
        _, name, variation = self.task.split("/")
        solution = _solution(os.getpid(), name, int(variation), self.simplifications)
        done = len(self.state.commands)
        followed = solution[:done] == tuple(self.state.commands)
        return solution[done] if followed and done < len(solution) else None


@lru_cache(maxsize=256)
def _solution(process: int, name: str, variation: int, simplifications: str) -> tuple[str, ...]:
    """Returns the simulator's solution of a variation."""
    from agentgym.envs.scienceworld.java import solver

    server = solver(process)
    server.load(name, variation, simplifications, True)
    return tuple(" ".join(command.split()) for command in server.getGoldActionSequence())


def _names(kinds: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the selected kinds of tasks."""
    if kinds == "all":
        return tuple(VARIATIONS)
    if kinds == "agentgym":
        return tuple(name for name in VARIATIONS if not name.startswith(DROPPED))
    names = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for name in names:
        if name not in VARIATIONS:
            raise ConfigError(f"ScienceWorld has no task {name!r}.{did_you_mean(name, VARIATIONS)}")
    if not names:
        raise ConfigError("kinds must name at least one task, or be 'agentgym' or 'all'.")
    return names
