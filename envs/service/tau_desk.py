"""`TauDesk`: customer service as in tau-bench, with generated tasks or the original ones."""

from __future__ import annotations

from typing import ClassVar

from agentgym.envs.service import tau2
from agentgym.envs.service.cases import Case, Original, read_original
from agentgym.envs.service.database import Database
from agentgym.envs.service.desk import ServiceDesk
from agentgym.envs.service.user import STOP, first_message, follow, reply
from agentgym.tools import Call


class TauDesk(ServiceDesk):
    """Base class of the environments that follow tau-bench.

    The scripted user has one to three requests (`agentgym.envs.service.user`). A subclass also sets
    `tables_of_file` and `splits_of_file`.

    Args:
        data_dir: folder of tau-bench or tau2-bench with the original data. None: generated data.
        requests: requests per task, 1 to 3. None samples it.
        **kwargs: arguments of `ServiceDesk`.
    """

    tables_of_file: ClassVar[tuple[str, ...]]
    splits_of_file: ClassVar[tuple[str, ...]]
    identity: ClassVar[str]
    """Question about the identity, in words of the expert."""
    subjects: ClassVar[dict[str, str]]
    """Subject of a question -> words of the expert."""

    def __init__(self, *, data_dir: str | None = None, requests: int | None = None, **kwargs):
        if requests is not None and not 1 <= requests <= 3:
            raise ValueError(f"requests must be None or 1 to 3, got {requests}.")
        self.data_dir, self.requests = data_dir, requests
        # An error in the files is the caller's, not the agent's.
        self._original = None if data_dir is None else self._read_original(data_dir)
        super().__init__(**kwargs)
        if self._original is not None:
            self.tasks = self._original.tasks

    def _read_original(self, folder: str) -> Original:
        """Returns the original data, which environments share."""
        if tau2.is_tau2(folder):
            return tau2.read_original(folder, self.tables_of_file)
        return read_original(folder, self.tables_of_file, self.splits_of_file)

    def _policy(self) -> str:
        return self.policy if self._original is None else self._original.policy

    @property
    def database(self) -> Database:
        """The database of the episode."""
        if self._original is None:
            return super().database
        return Database(self._original.tables, self.state.changes)

    @property
    def case(self) -> Case:
        """The current task, which snapshots do not contain."""
        return super().case if self._original is None else self._original.cases[self.task]

    def _by_value(self, call: Call) -> Call:
        return super()._by_value(call) if self.data_dir is None else self._as_original(call)

    def _as_original(self, call: Call) -> Call:
        """Returns a call with the arguments that the original's tools use."""
        return call

    def _scripted(self, message: str, turns: int) -> tuple[str, bool]:
        case = self.case
        if case.scenario is None:
            return _plain_user(case.instruction, message, turns), False
        if not message:
            return first_message(case.scenario), False
        answer = reply(case.scenario, self.state.user, message, self.state.looked_up)
        return answer.text, answer.confirmed

    def _understand(self, message: str, said: str) -> None:
        scenario = self.case.scenario
        if scenario is not None:
            follow(scenario, self.state.user, message, said, self.state.looked_up)

    def _tells(self, message: str, output: str) -> bool:
        if self.data_dir is None:
            return super()._tells(message, output)
        return output.lower() in message.lower().replace(",", "")  # the original's rule

    def _violated(self) -> bool:
        scenario = self.case.scenario
        if scenario is None:
            return False
        refused = sum(request.refused for request in scenario.requests)
        return super()._violated() or len(self.state.user.denied) < refused

    def _progress(self) -> float:
        scenario = self.case.scenario
        if scenario is None or self.user != "scripted":
            return 0.0
        return self.state.user.at / len(scenario.requests)

    def _solve(self) -> Call | str | None:
        scenario, state = self.case.scenario, self.state
        if scenario is None or state.over or self.user != "scripted":
            return None
        if not state.user.identified:
            return f"Please tell me your {self.identity}."
        if not state.customer and scenario.find:
            return scenario.find
        request = scenario.requests[state.user.at]
        if missing := [self.subjects[s] for s in request.facts if s not in state.user.told]:
            return f"Please tell me the {' and the '.join(missing)}."
        for call, key in zip(request.look_ups, request.look_up_keys, strict=True):
            if key not in state.looked_up:
                return call
        if request.outputs:
            return f"The answer is {', '.join(request.outputs)}. Is there anything else?"
        if not request.calls:
            return "I am sorry, I cannot do that. Is there anything else?"
        for call, key in zip(request.calls, request.call_keys, strict=True):
            if key not in state.written:
                draft = request.correction and not state.user.corrected
                summary = request.draft if draft else request.summary
                return call if state.confirmed else f"{summary} Do you confirm (yes/no)?"
        return "This is done. Is there anything else?"


def _plain_user(instruction: str, message: str, turns: int) -> str:
    """Returns the reply of a user who tells the instruction and agrees to everything."""
    if not message:
        return instruction
    text = message.lower()
    if "anything else" in text or "else i can" in text or turns > 60:
        return STOP
    if "confirm" in text or "proceed" in text or "yes/no" in text:
        return "Yes, please go ahead."
    return f"As I wrote: {instruction}"
