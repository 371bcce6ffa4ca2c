"""BabyAI-Text: missions in a grid world, told and played in words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentgym.core import TextEnv, TimeStep
from agentgym.envs.babyai.macros import CHECK, describe, look, objection
from agentgym.envs.babyai.view import Scene
from agentgym.errors import ConfigError, MissingExtraError
from agentgym.tasks import NumberedTasks, Tasks, task_number

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
"""The forty levels of AgentGym, in its order."""
TEST_SEEDS = 25


@dataclass
class State:
    """The level, its seed and what was done in it: it is played again to restore a snapshot."""

    level: str
    seed: int
    primitives: list[int] = field(default_factory=list)


class BabyAIText(TextEnv):
    """Carry out a mission in rooms full of balls, boxes, keys and doors, in words.

    ## Description
    BabyAI as AgentGym plays it: the agent is told what it sees in front of it and acts by macro
    actions, which turn and walk as far as it takes. The levels are minigrid's.

    ## Action Space
    Text: `turn left`, `turn right`, `move forward`, `go to <thing> <number>`, `pickup <thing>
    <number>`, `drop`, `toggle`, `go through <colour> open door <number>`, `toggle and go through
    <colour> closed door <number>`, `check available actions`. A macro action stops where one of
    its steps changes nothing the agent sees, and when the mission ends.

    ## Observation Space
    Text: the mission; the things in view, nearest first, with their places; a wall or box straight
    ahead; what is carried; the possible actions.

    ## Rewards
    Term `task`: minigrid's, 1 - 0.9 * steps / limit for the step that completes the mission, at
    least 0; a turn, a step, a pickup count one each, and the limit is the level's.

    ## Starting State
    Level and seed are given by the task: `idx/81` is level 81 mod 40 with seed 81 // 40, as in
    AgentGym.

    ## Episode End
    Termination: the mission is completed, or failed (levels that want doors opened in an order).
    Truncation: after `max_turns` actions.

    ## Information
    The common keys; `progress`: the share of the mission's parts that are done. `state_key`: of the
    whole grid, the agent and the parts done.

    ## Arguments
    `levels`: "agentgym" (its forty), the name of one, such as "GoToRedBall", or a list of names;
    every BabyAI level of minigrid can be given. `original`: keep what is odd in the original: a
    success that pays at most 0.5 does not end the episode, a macro action goes on after success
    and only its last step counts, numbers in actions count only what can be reached, boxes
    cannot be opened (so that KeyInBox cannot be solved), and whatever has "check" in it checks.
    `max_turns`: default 20, as in AgentGym.

    ## Example Transcript
    ```
    Mission: go to the red ball
    You see:
    - grey key 1: 1 ahead, 1 left
    - red ball 1: 4 ahead, 3 right
    Straight ahead, 6 away: a wall.
    You carry nothing.
    Actions: turn left, turn right, move forward, pickup grey key 1, ...
    > go to red ball 1
    ```

    ## Baselines
    200 test tasks, mean return and success: random actions 0.25, 29 %; expert (minigrid's bot, in
    macro actions) 0.81, 86 %; most of what it misses takes more than 20 actions.
    `BabyAI-Text-Original-v0`, 100 tasks: random 0.23, 25 %; expert 0.72, 77 %. Speed: 5,200 steps/s
    on one core (the original: 177), where a step is a macro action; a new level takes 10 ms.

    ## Registered Configurations
    `BabyAI-Text-v0`: the forty levels. `BabyAI-Text-Original-v0`: the same with `original`.

    ## References
    BabyAI (arXiv 1810.08272); AgentGym (arXiv 2406.04151), whose macro actions, ways, rewards and
    tasks these are, played alike with `original`. Differences: the original reports a reward
    again when nothing is done after it; it hides the order of missions ("then", "after you").
    Two in three missions of OpenDoorsOrderN4Debug cannot be completed: minigrid's strict check
    fails them as soon as the first door is opened.
    Levels: minigrid (extra `minigrid`), whose GoToObjS6-v1 replaces v0.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You move through rooms of a grid world and have a mission. Each turn you read what you "
        "see in front of you, nearest first: '2 ahead, 1 left' is two cells in front of you and "
        "one to your left; things of the same name are numbered. Say one of the listed actions, "
        "such as: turn left; move forward; go to red ball 1; pickup grey key 1; drop; toggle; go "
        "through red open door 1; toggle and go through blue closed door 1. 'go to' walks until "
        "you stand in front of the thing, 'pickup' takes it, 'drop' puts what you carry in front "
        "of you, 'toggle' opens the door or the box in front of you, for good. A "
        "locked door needs a key of its colour in your hand, and you can carry one thing. You see "
        "only what is in front of you and not hidden by walls and closed doors: turn to look "
        "around. Going to something means to stand before it and face it. Fewer steps earn more."
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

    def _advance(self, action: str) -> TimeStep:
        said = " ".join(action[:200].lower().split())
        if said == CHECK or (self.original and "check" in said):
            return self._look(feedback=f"You can: {', '.join(self._scene.actions)}.")
        primitives = self._scene.actions.get(said)
        if primitives is None:
            return self._invalid(objection(said, self._scene, self._level.map.carrying))
        reward, over = self._play(primitives) if primitives else (0.0, False)
        # A failure pays exactly 0, a success beyond the level's limit less.
        success = over and (reward > 0.5 if self.original else reward != 0)
        over = over and (success or not self.original)
        return self._look(reward, over, success, "" if primitives else "Nothing changes.")

    def _play(self, primitives: list[int]) -> tuple[float, bool]:
        """Does one after the other while it changes what is seen; returns reward and end."""
        level = self._level
        reward, over = 0.0, False
        view = level.map.view()
        for primitive in primitives:
            reward, over = level.step(primitive)
            self.state.primitives.append(primitive)
            before, view = view, level.map.view()
            if view == before or (over and not self.original):
                break
        return reward, over

    def _look(
        self, reward: float = 0.0, over: bool = False, success: bool = False, feedback: str = ""
    ) -> TimeStep:
        level = self._level
        grid = level.map
        self._scene = look(grid, grid.view(), self.original)
        flags, share = level.done_parts()
        text = f"Mission: {level.env.mission}\n{describe(self._scene, grid.carrying)}"
        if over:
            text += "\nThe mission is completed." if success else "\nThe mission has failed."
        place = f"{grid.position} {grid.direction} {grid.carrying} {flags} {level.env.mission}"
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

    def _restored(self) -> None:
        """Makes the level of the snapshot and plays it again from its seed."""
        self._replay()

    def _replay(self) -> None:
        level = self._level
        level.reset(self.state.seed)
        for primitive in self.state.primitives:
            level.step(primitive)
        self._scene = look(level.map, level.map.view(), self.original)
        self._plan = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if hasattr(self, "state"):
            self._replay()

    def expert(self) -> str | None:
        """Returns the macro action that gets furthest on the way of minigrid's BabyAI bot.

        The bot knows no more than it has seen since it made its plan. Where it is at a loss, boxes
        are opened and things carried dropped.
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
