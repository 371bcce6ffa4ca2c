"""ScienceWorld: experiments of a primary school, in words."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agentgym.core import TextEnv, TimeStep
from agentgym.errors import ConfigError, MissingExtraError, did_you_mean
from agentgym.tasks import Tasks

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
"""How many variations each task has."""
DROPPED = ("grow-", "inclined-plane-", "mendelian-genetics-")
"""Beginnings of the tasks that AgentGym leaves out."""
SIMPLIFICATIONS = (
    *("teleportAction", "selfWateringFlowerPots", "openContainers", "openDoors"),
    *("noElectricalAction", "easy"),
)
UNKNOWN = "No known action matches that input."
MOST = 100


@dataclass
class State:
    """What was said so far: it is said again to restore a snapshot."""

    commands: list[str] = field(default_factory=list)


def split_of(variations: int) -> dict[str, range]:
    """Returns ScienceWorld's split of a task's variations: half, a quarter, the rest."""
    quarter = variations // 4
    return {
        "train": range(2 * quarter),
        "dev": range(2 * quarter, 3 * quarter),
        "test": range(3 * quarter, variations),
    }


def in_order(text: str) -> str:
    """Returns the text with the lines of a list sorted: the simulator's order is arbitrary."""
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
    """Do an experiment in a house with laboratory, kitchen and greenhouse.

    ## Description
    ScienceWorld: thirty kinds of tasks of a primary school's science classes, such as boiling
    water, testing whether something conducts, or finding the longest-lived animal. The
    simulator is the original, which runs on Java.

    ## Action Space
    Text: `look around`, `open door to kitchen`, `go to kitchen`, `pick up thermometer`, `focus on
    water`, `use thermometer on water`, `connect battery anode to wire terminal 1`, `wait`, ...; a
    number, if the simulator asks which of several things is meant.

    ## Observation Space
    Text: what came of the last action; then the task, the room and what is carried.

    ## Rewards
    Term `task`: how much the score rises, which ends at 100; a fatal mistake (a wrong focus) takes
    it to -100.

    ## Starting State
    A task is a variation of a kind of task: `train/boil/3`.

    ## Episode End
    Termination: the task is completed, or failed (the score is negative). Truncation: after
    `max_turns`.

    ## Information
    The common keys; `progress`: the score / 100. `admissible`: empty, or with `list_actions` what
    the simulator lists, several hundred commands. `state_key`: of the text and the score; what
    goes on in other rooms is not in it.

    ## Arguments
    `kinds`: "agentgym" (23 kinds, without growing, inclined planes and genetics), "all" (30), or a
    list of names. `simplifications`: names of ScienceWorld's, such as "easy" or "openDoors".
    `test_on`: the variations that are test tasks, "test" or "dev". `list_actions`: default False,
    it takes longer than a step. `max_turns`: default 100, as in ScienceWorld; AgentGym allows 30.

    ## Example Transcript
    ```
    Task: Your task is to boil water. ...
    This room is called the hallway. In it, you see: ...
    > open door to kitchen
    The door is now open.
    ```

    ## Baselines
    Test split, mean return and success: expert (the simulator's solution), n = 60, 99.9, 100 %;
    random listed actions, n = 20, -72.1, 0 %. Speed: 20-700 steps/s on one core, by what goes on
    in the world; about 15 with `list_actions` (the original, which always makes the list: 7-22).

    ## Registered Configurations
    `ScienceWorld-v0`: AgentGym's kinds of tasks.

    ## References
    ScienceWorld (arXiv 2203.07540); AgentGym (arXiv 2406.04151). Needs the extra `scienceworld` and
    Java; one Java machine (0.2 GiB and 0.1 GiB an environment, 1.5-3.5 s to
    start) serves all environments of a process.
    Snapshots are restored by saying the commands again. Things in a list are shown in
    alphabetical order, as the simulator's order is arbitrary.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are in a house with several rooms and have a task of science. Say one command a turn: "
        "open/close X; go to ROOM; look around; look at X; look in X; read X; pick up X; put down "
        "X; move X to Y; pour X into Y; dunk X into Y; mix X; focus on X; use X on Y; activate X; "
        "deactivate X; connect X to Y; disconnect X; eat X; flush X; inventory; task; wait; wait1. "
        "'focus on' says which thing is meant by the task: focusing on a wrong one loses. If you "
        "are asked which of several things you mean, say its number. Each step towards the task "
        "earns points, 100 in all."
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
                "ScienceWorld runs on Java, and there is no program 'java'. Install Java 8 or "
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
        # As in ScienceWorld's own reset: before a first command the score is the last episode's.
        self._server.step("look around")

    def _advance(self, action: str) -> TimeStep:
        command = " ".join(action[:200].split()).encode("utf-8", "replace").decode()
        assert self._last is not None
        listed = command in self._last.admissible
        before = self._score()
        said = self._server.step(command).strip()
        self.state.commands.append(command)
        # Of what the simulator lists, it does not understand all.
        if said == UNKNOWN and not listed:
            return self._invalid(f"{action[:60]!r} is not understood.")
        return self._look(self._score() - before, in_order(said))

    def _score(self) -> int:
        return round(MOST * self._server.getScore())

    def _look(self, gained: int, said: str) -> TimeStep:
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
            feedback=said,
        )

    def _restored(self) -> None:
        """Plays the commands of the snapshot again."""
        self._replay()

    def _replay(self) -> None:
        self._load()
        for command in self.state.commands:
            self._server.step(command)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_server": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if hasattr(self, "state"):
            self._replay()

    def expert(self) -> str | None:
        """Returns the next command of ScienceWorld's solution; None once it was not followed."""
        if self._over:
            return None
        _, name, variation = self.task.split("/")
        solution = _solution(os.getpid(), name, int(variation), self.simplifications)
        done = len(self.state.commands)
        followed = solution[:done] == tuple(self.state.commands)
        return solution[done] if followed and done < len(solution) else None


@lru_cache(maxsize=256)
def _solution(process: int, name: str, variation: int, simplifications: str) -> tuple[str, ...]:
    """The simulator's own solution of a variation."""
    from agentgym.envs.scienceworld.java import solver

    server = solver(process)
    server.load(name, variation, simplifications, True)
    return tuple(" ".join(command.split()) for command in server.getGoldActionSequence())


def _names(kinds: str | Sequence[str]) -> tuple[str, ...]:
    """The kinds of tasks that are meant."""
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
