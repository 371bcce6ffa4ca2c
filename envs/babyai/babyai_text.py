"""BabyAI-Text: missions in a grid world, described and played in text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentgym import rendering
from agentgym.core import TextEnv
from agentgym.envs.babyai.macros import CHECK, describe, look, objection
from agentgym.envs.babyai.picture import picture
from agentgym.envs.babyai.view import EMPTY, Scene
from agentgym.errors import ConfigError, MissingExtraError
from agentgym.tasks import NumberedTasks, Tasks, task_number
from agentgym.time_step import TimeStep

if TYPE_CHECKING:
    from agentgym.envs.babyai.bot import Plan
    from agentgym.envs.babyai.levels import Level

LEVELS = (
    *("GoToRedBallGrey", "GoToRedBall", "GoToRedBallNoDists", "GoToObjS6", "GoToLocalS8N7"),
    *("GoToObjMazeS7", "GoToImpUnlock", "GoToSeqS5R2", "GoToRedBlueBall", "GoToDoor"),
    *("GoToObjDoor", "Open", "OpenRedDoor", "OpenDoorLoc", "OpenRedBlueDoorsDebug"),
    *("OpenDoorsOrderN4Debug", "Pickup", "UnblockPickup", "PickupLoc", "PickupDistDebug"),
    *("PickupAbove", "PutNextLocalS6N4", "PutNextS7N4Carrying", "Unlock", "UnlockLocalDist"),
    *("KeyInBox", "UnlockPickupDist", "BlockedUnlockPickup", "UnlockToUnlock", "ActionObjDoor"),
    *("FindObjS7", "KeyCorridorS6R3", "OneRoomS20", "MoveTwoAcrossS8N9", "SynthS5R2"),
    *("SynthLoc", "SynthSeq", "MiniBossLevel", "BossLevel", "BossLevelNoUnlock"),
)
"""The forty levels of the reference, in its order."""
TEST_SEEDS = 25
COMPLETED = "The task is completed."
"""Feedback of the reference when a mission ends, whether it succeeded or failed."""
_PICK_UP = re.compile(r"\bpick[ -]up\b", re.IGNORECASE)

TOGGLE = "- toggle: open the closed door or the box right in front of you. An opened box is gone."
TOGGLE_ORIGINAL = "- toggle: open the closed door right in front of you"
END = "The episode ends when the mission is completed or has failed, or after too many actions."
END_ORIGINAL = (
    "The episode ends when the mission is completed with a reward above 0.5, or after too many "
    "actions."
)


@dataclass
class State:
    """The level, its seed and the steps taken, which are replayed to restore a snapshot."""

    level: str
    seed: int
    primitives: list[int] = field(default_factory=list)


class BabyAIText(TextEnv):
    """Complete missions in grid rooms full of balls, boxes, keys and doors.

    ## Description
    The levels of BabyAI as text, with the macro actions of the AgentGym framework of Xi et al.
    (arXiv 2406.04151). Each observation describes the part of the grid in front of the agent. A
    macro action turns and walks as far as needed. The levels themselves come from minigrid.

    ## Action Space
    Text, one of the actions listed in the observation:
    - `turn left`, `turn right`, `move forward`
    - `go to <thing> <number>`, for example `go to red ball 1`
    - `pickup <thing> <number>`, for example `pickup grey key 1`
    - `drop`
    - `toggle`
    - `go through <colour> open door <number>`
    - `toggle and go through <colour> closed door <number>` (or `locked door`, with a key)
    - `check available actions`

    A macro action stops early if one of its steps does not change the view, or when the mission
    ends.

    ## Observation Space
    Text: the mission, the things in view with their positions (nearest first), the nearest wall or
    box straight ahead, the thing carried, and the admissible actions.

    ## Rewards
    Term `task`: 1 - 0.9 * steps / limit for the step that completes the mission, but at least 0.
    Each turn, step, pickup, drop and toggle counts as one step. The limit is the level's. All other
    actions give 0.

    ## Starting State
    The task determines the level and its seed: `idx/81` is level 81 mod 40 with seed 81 // 40, as
    in the reference.

    ## Episode End
    - Termination: the mission is completed, or has failed (levels with a strict check, such as
      OpenDoorsOrderN4Debug and PickupDistDebug).
    - Truncation: after `max_turns` actions.

    ## Information
    The common keys.
    - `progress`: the share of the mission's parts that are done.
    - `state_key`: a hash of the whole grid, the agent and the parts done.

    ## Arguments
    - `levels` (str or list of str, default "agentgym"): "agentgym" for the forty levels of the
      reference, or the names of one or more BabyAI levels of minigrid, such as "GoToRedBall".
    - `original` (bool, default False): reproduce the reference's rules. A success that pays at most
      0.5 and a failure are reported ("The task is completed.") but do not end the episode. A macro
      action goes on after the mission has ended, and only its last step counts. Numbers in actions
      count only things that can be reached. Boxes cannot be opened, so KeyInBox cannot be solved.
      The first observation of PutNextS7N4Carrying is stale: it still lists the carried thing on the
      floor. Any action that contains "check" lists the actions.
    - `max_turns` (int or None, default 20, as in the reference): turns before truncation.

    ## Notes
    - The expert is minigrid's bot, translated into macro actions. The missions that it misses
      mostly need more than 20 actions.
    - Two in three missions of OpenDoorsOrderN4Debug cannot be completed: minigrid's strict check
      fails them as soon as the first door is opened.
    - Differences from the reference that remain with `original`: the texts are reworded. The
      reference repeats the last reward if an action does nothing. It replaces the order of missions
      ("then", "after you") by "and".

    ## References
    - BabyAI: arXiv 1810.08272. Levels: minigrid (extra `minigrid`), where GoToObjS6-v1 replaces v0.
    - The AgentGym framework of Xi et al.: arXiv 2406.04151. Macro actions, paths, rewards and tasks
      are the same with `original`.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You move through the rooms of a grid world to complete a mission. Each turn you see the "
        "part of the grid in front of you, nearest things first. '2 ahead, 1 left' means two cells "
        "in front of you and one to your left. Things of the same name are numbered. Walls and "
        "closed doors block your view, so turn to look around.\n"
        "Answer with exactly one of the listed actions:\n"
        "- turn left, turn right or move forward\n"
        "- go to red ball 1: walk until you stand in front of the ball and face it\n"
        "- pickup grey key 1: walk to the key and pick it up\n"
        "- drop: put the thing you carry on the cell in front of you\n"
        f"{TOGGLE}\n"
        "- go through red open door 1\n"
        "- toggle and go through blue closed door 1\n"
        "- check available actions: list the actions again\n"
        "Rules:\n"
        "- You can carry one thing at a time.\n"
        "- A locked door opens only while you carry a key of its colour.\n"
        "- 'Go to' in a mission means to stand in front of a thing and face it.\n"
        "- The fewer turns and steps you need, the higher your reward.\n"
        f"{END}"
    )
    State = State

    def __init__(
        self,
        *,
        levels: str | Sequence[str] = "agentgym",
        original: bool = False,
        max_turns: int | None = 20,
        **kwargs,
    ):
        try:
            from agentgym.envs.babyai.levels import check_level
        except ImportError as error:
            raise MissingExtraError("BabyAIText", "minigrid", "minigrid") from error
        super().__init__(max_turns=max_turns, **kwargs)
        if levels == "agentgym":
            levels = LEVELS
        names = [levels] if isinstance(levels, str) else list(levels)
        if not names:
            raise ConfigError("levels must name at least one level, or be 'agentgym'.")
        self.levels = tuple(check_level(name) for name in names)
        self.original = original
        if original:
            replaced = self.instructions.replace(TOGGLE, TOGGLE_ORIGINAL)
            self.instructions = replaced.replace(END, END_ORIGINAL)
        split = TEST_SEEDS * len(self.levels)
        self.tasks = Tasks(
            train=NumberedTasks("idx/", range(split, 2**31 - 1)),
            test=NumberedTasks("idx/", range(split)),
        )
        self._loaded: dict[str, Level] = {}
        self._scene = Scene()
        self._plan: Plan | None = None

    def _start(self, task: str) -> TimeStep:
        seed, which = divmod(task_number(task), len(self.levels))
        self.state = State(self.levels[which], seed)
        self._level.reset(seed)
        self._plan = None
        return self._look()

    @property
    def _level(self) -> Level:
        from agentgym.envs.babyai.levels import Level

        name = self.state.level
        if name not in self._loaded:
            self._loaded[name] = Level(name)
        return self._loaded[name]

    def _parse(self, action: str) -> str:
        return super()._parse(_PICK_UP.sub("pickup", action))

    def _advance(self, action: str) -> TimeStep:
        name = " ".join(action[:200].lower().split())
        if name == CHECK or (self.original and "check" in name):
            return self._look(feedback=f"Available actions: {', '.join(self._scene.actions)}.")
        primitives = self._scene.actions.get(name)
        if primitives is None:
            return self._invalid(objection(name, self._scene, self._level.map.carrying))
        reward, over = self._play(primitives) if primitives else (0.0, False)
        # A failure pays exactly 0, a success beyond the level's limit less.
        success = over and (reward > 0.5 if self.original else reward != 0)
        feedback = "" if primitives else "Nothing changes."
        if self.original:
            feedback = COMPLETED if over else feedback
            over = success
        return self._look(reward, over, success, feedback)

    def _play(self, primitives: list[int]) -> tuple[float, bool]:
        """Takes the steps while they change the view. Returns the reward and whether it is over."""
        level = self._level
        reward, over = 0.0, False
        # In the reference, the first step after a stale observation always counts as a change.
        view = b"" if self._is_stale() else level.map.view()
        for primitive in primitives:
            reward, over = level.step(primitive)
            self.state.primitives.append(primitive)
            before, view = view, level.map.view()
            if view == before or (over and not self.original):
                break
        return reward, over

    def _is_stale(self) -> bool:
        """Returns whether the observation still shows a thing that the agent carries.

        The reference observes a level before it gives the agent the thing, and not again before
        the first step.
        """
        started = bool(self.state.primitives)
        return self.original and not started and self._level.map.carrying != EMPTY

    def _look(
        self, reward: float = 0.0, over: bool = False, success: bool = False, feedback: str = ""
    ) -> TimeStep:
        level = self._level
        grid = level.map
        self._survey()
        flags, share = level.done_parts()
        text = f"Mission: {level.env.mission}\n{describe(self._scene, grid.carrying)}"
        if over and not self.original:
            text += "\nThe mission is completed." if success else "\nThe mission has failed."
        place = f"{grid.position} {grid.direction} {grid.carrying} {flags} {level.env.mission}"
        place += " stale" * self._is_stale()  # other actions are listed
        key = hashlib.blake2b(bytes(grid.cells) + place.encode(), digest_size=16)
        return TimeStep(
            text=text,
            rewards={"task": max(reward, 0.0)},
            terminated=over,
            success=success,
            progress=1.0 if success else share,
            admissible=() if over else tuple(self._scene.actions),
            state_key=key.hexdigest(),
            feedback=feedback,
        )

    def _survey(self) -> None:
        seen = self._level.before_carrying() if self._is_stale() else self._level.map
        self._scene = look(seen, seen.view(), self.original)

    def _restored(self) -> None:
        """Replays the level of the snapshot from its seed."""
        self._replay()

    def _replay(self) -> None:
        level = self._level
        level.reset(self.state.seed)
        for primitive in self.state.primitives:
            level.step(primitive)
        self._survey()
        self._plan = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if hasattr(self, "state"):
            self._replay()

    def privileged_text(self) -> str:
        """Returns the done parts of the mission as bits, and a description of the level."""
        return f"Parts done: {self._level.done_parts()[0]}. {self._level.described()}"

    def _frame(self) -> rendering.Scene:
        return picture(self._level.map)

    def expert(self) -> str | None:
        """Returns the macro action that gets furthest along the plan of minigrid's BabyAI bot.

        The bot knows only the cells that it has seen since it made its plan. When the bot finds no
        way, the expert opens boxes and drops the thing carried.
        """
        from agentgym.envs.babyai.bot import Plan, foresee, next_macro, place

        if self._over:
            return None
        here = place(self._level.map)
        plan = self._plan
        if plan is None or here not in plan.places[:-1]:
            plan = foresee(self._level)
        now = plan.places.index(here)
        self._plan = plan = Plan(plan.places[now:], plan.parts[now:], plan.solves)
        return next_macro(self._scene, self._level.map, plan)
