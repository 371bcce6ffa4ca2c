"""Workplace: assignments that need mail, calendar, files and customers of one firm."""

from __future__ import annotations

from agentgym.envs.office.assignment import Assignment
from agentgym.envs.office.workplace_tasks import workplace_assignment
from agentgym.envs.office.workplace_tools import WorkplaceTools
from agentgym.envs.office.workplace_world import STAGES, TODAY


class Workplace(WorkplaceTools):
    """Do assignments that need mail, calendar, files and customers of one firm.

    ## Description
    The world holds eight colleagues, a mailbox, the meetings of a week, files, and ten customers
    with owner, stage and last contact. An assignment has one or two of ten kinds of jobs, such as
    answering a mail with data of a customer, putting a proposed meeting into the calendar, finding
    a free hour, cancelling a day with a mail to each attendee, handing customers over, or writing a
    report. Each job needs facts of one application for changes in another.

    ## Action Space
    Text: a tool call, such as `{"name": "read_mail", "arguments": {"mail_id": "m1"}}`, in any of
    the formats of `agentgym.tools.CallFormat`. `finish` ends the episode.

    ## Observation Space
    Text: first the assignment, then the result of the last call.

    ## Rewards
    1 (term `task`) at `finish` if the difference between the first and the last state of the world
    is exactly the requested one, else 0. The order of changes does not matter. An invalid action
    costs `invalid_penalty`.

    ## Starting State
    World and assignment are sampled from the task name.

    ## Episode End
    Termination: `finish`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the fraction of the solution's calls that were made. `admissible`
    is empty. `state_key` identifies the state, and the calls and results whatever their order.

    ## Arguments
    - `jobs` (int or None, default None): jobs per assignment, 1 or 2. None samples it.
    - `call_format` (str, default "json"): format of calls in the instructions and in the expert's
      actions: "json", "tool_call" (Qwen, Hermes), "llama_call" or "python".
    - `max_turns` (int or None, default 40): turn limit.

    ## References
    Tasks of an office over several databases with a comparison of states: WorkBench (arXiv
    2405.00823), which NeMo Gym's workplace assistant follows. Worlds and assignments are our own.

    ## Version History
    v0: first version.
    """

    rules = (
        f"You are an assistant in a firm. Today is {TODAY}, a Monday. Do the assignment with the "
        "tools, then call finish.\n"
        "- Colleagues are addressed by email. Look the address up.\n"
        "- Dates are written like 2025-06-02, times like 09:00.\n"
        f"- Stages of customers are {', '.join(STAGES)}. The owner of a customer is a colleague.\n"
        "- Make no other changes than requested.\n"
        "The reward is 1 if mails, calendar, files and customers are exactly as requested, else 0."
    )

    def __init__(self, *, jobs: int | None = None, max_turns: int | None = 40, **kwargs):
        if jobs is not None and not 1 <= jobs <= 2:
            raise ValueError(f"jobs must be None, 1 or 2, got {jobs}.")
        self.jobs = jobs
        super().__init__(max_turns=max_turns, **kwargs)

    def assignment(self, task: str) -> Assignment:
        """Returns a task."""
        return workplace_assignment(task, self.jobs)
