"""Workplace-Missions: related missions in one firm, one after another."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field

from agentgym.envs.office.assignment import Assignment, WorldState
from agentgym.envs.office.follow_ups import FEWEST, MOST, missions_of
from agentgym.envs.office.workplace_tools import WorkplaceTools
from agentgym.envs.office.workplace_world import STAGES, TODAY
from agentgym.errors import ConfigError
from agentgym.time_step import TimeStep
from agentgym.tools import Call, tool


@dataclass(kw_only=True)
class MissionsState(WorldState):
    """The world and the calls of the current mission, and whether each past one is right."""

    right: list[bool] = field(default_factory=list)


class WorkplaceMissions(WorkplaceTools):
    """Do 2 to 4 missions one after another, the later of which refer to the earlier ones.

    ## Description
    The world and the tools are those of `Workplace-v0`. The user gives a mission, and the next one
    after `finish`. The first is a job of `Workplace-v0`, such as answering a mail or publishing a
    draft. Later ones refer to the meeting, customer, file, mail or colleague of an earlier mission
    without naming it: "Move that meeting to 2025-06-17 at 10:00.", "Send the mail that you sent in
    mission 1 to Olga Weaver as well.". Between them, a mission can be a new job, whose mail arrives
    at its start.

    ## Action Space
    Text: a tool call, such as `{"name": "read_mail", "arguments": {"mail_id": "m1"}}`, in any of
    the formats of `agentgym.tools.CallFormat`. `finish` ends a mission.

    ## Observation Space
    Text: first the first mission, then the result of the last call. The result of `finish` is
    whether the mission is right, and the next one.

    ## Rewards
    1 / number of missions (term `task`) at each `finish` if the difference between the first and
    the last state of the world in this mission is exactly the requested one, else 0. Missions are
    independent: the user puts a mission that went wrong right before the next one. An invalid
    action costs `invalid_penalty`.

    ## Starting State
    World and missions are sampled from the task name.

    ## Episode End
    Termination: `finish` of the last mission. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `success` is whether all missions are right. `progress` is the mean over
    missions: 1 for a right one, and the fraction of its solution's calls that were made for the
    current one. `admissible` is empty. `state_key` identifies the state, and the calls and
    results whatever their order within a mission.

    ## Arguments
    - `missions` (int or None, default None): number of missions, 2 to 4. None samples it.
    - `call_format` (str, default "json"): format of calls in the instructions and in the expert's
      actions: "json", "tool_call" (Qwen, Hermes), "llama_call" or "python".
    - `max_turns` (int or None, default 60): turn limit.

    ## References
    Related missions in one dialogue: "Multi-Mission Tool Bench: Assessing the Robustness of LLM
    based Agents through Related and Dynamic Missions". Worlds and missions are our own.

    ## Version History
    v0: first version.
    """

    State = MissionsState
    state: MissionsState

    rules = (
        f"You are an assistant in a firm. Today is {TODAY}, a Monday. The user gives you missions "
        "one after another. Do each with the tools, then call finish to get the next one.\n"
        "- A mission may refer to earlier ones.\n"
        "- Colleagues are addressed by email. Look the address up.\n"
        "- Dates are written like 2025-06-02, times like 09:00.\n"
        f"- Stages of customers are {', '.join(STAGES)}. The owner of a customer is a colleague.\n"
        "- Make no other changes than requested.\n"
        "A mission is right if its changes of mails, calendar, files and customers are exactly as "
        "requested. The reward is the share of right missions."
    )

    def __init__(self, *, missions: int | None = None, max_turns: int | None = 60, **kwargs):
        if missions is not None and not FEWEST <= missions <= MOST:
            raise ConfigError(f"missions must be None or {FEWEST} to {MOST}, got {missions}.")
        self.missions = missions
        super().__init__(max_turns=max_turns, **kwargs)

    def assignment(self, task: str) -> Assignment:
        """Returns the current mission, or the last one after the end."""
        missions = missions_of(task, self.missions)
        return missions[min(len(self.state.right), len(missions) - 1)]

    def _begin(self, task: str) -> str:
        self.state = MissionsState()  # type: ignore[assignment]
        return self._next(task)

    def _next(self, task: str) -> str:
        """Sets the world to the start of the current mission and returns its request."""
        mission, state = self.assignment(task), self.state
        state.world, state.made = copy.deepcopy(mission.world), []
        count = len(missions_of(task, self.missions))
        return f"Mission {len(state.right) + 1} of {count}: {mission.request}"

    @tool
    def finish(self) -> str:
        """Ends the mission. The user gives the next one, if any."""
        right = self._judge() == 1
        self.state.right.append(right)
        result = "Right." if right else "Wrong."
        if len(self.state.right) == len(missions_of(self.task, self.missions)):
            return f"{result} That was the last mission."
        fixed = "" if right else " The user has put it right."
        return f"{result}{fixed}\n{self._next(self.task)}"

    def _call(self, call: Call) -> TimeStep:
        before, right = len(self.state.right), self.state.right
        step = super()._call(call)
        if len(right) == before:
            return step
        count = len(missions_of(self.task, self.missions))
        over = len(right) == count
        return dataclasses.replace(
            step,
            rewards={"task": right[-1] / count},
            terminated=over,
            success=over and all(right),
            progress=sum(right) / count,
        )

    def _progress(self) -> float:
        count = len(missions_of(self.task, self.missions))
        return (sum(self.state.right) + super()._progress()) / count

    def _note(self, event: str) -> None:
        super()._note(f"{len(self.state.right)} {event}")
