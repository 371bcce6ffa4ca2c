"""PythonMath: answer questions of arithmetic with Python as a tool."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from agentgym.core import TextEnv
from agentgym.envs.code.judge import LIMITED, SUBSET, shown
from agentgym.envs.code.problems import Problem, problem_of
from agentgym.reading.expressions import parse_integer
from agentgym.sandbox import Limits, check_sandbox, run_cell
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import code_blocks, command

LONGEST = 10_000
"""Maximum number of characters of a cell."""
SHOWN = 1000
"""Number of characters of an output that are shown."""
_ANSWER = re.compile(r"(?:final )?answer(?: is)?[ \t]*[:=]?[ \t]*(\S.{0,100})", re.IGNORECASE)
_BLOCK = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_GROUPED = re.compile(r"(?<=\d)[_ ](?=\d{3}(?!\d))")
_LIMITS = Limits(memory=32 << 20)


def _answers(text: str) -> bool:
    """Whether a line of a text is an answer with an integer."""
    lines = (_ANSWER.fullmatch(command(line)) for line in text.splitlines())
    return any(found and parse_integer(_GROUPED.sub("", found[1])) is not None for found in lines)


@dataclass
class State:
    """The cells that were run, and the end.

    Attributes:
        cells: the cells in order. They are the state of the interpreter.
        missing: number of cells that ended because a name was not defined.
        answered: whether an answer was given.
        right: whether the answer is right.
    """

    cells: list[str] = field(default_factory=list)
    missing: int = 0
    answered: bool = False
    right: bool = False


class PythonMath(TextEnv):
    """Answer a question of arithmetic, number theory or combinatorics with the help of Python.

    ## Description
    The answer to a question is an integer that takes too much calculation to be found without a
    tool: the number of paths around obstacles, the sum of the primes in a range, a remainder of
    large powers. There are 14 forms of questions. The agent runs cells of Python, reads their
    output, and answers.

    Cells run in a sandbox (extra `code`) that interprets a subset of Python, with limits of time,
    memory and output. With `persistent`, variables and functions are kept from cell to cell.
    Otherwise, each cell begins anew. A model trained with one of the two can be evaluated with the
    other.

    ## Action Space
    Text, one of:

    - A Python code block (between ``` marks): a cell. If there are several blocks, they are one.
    - `answer 42`: the answer.

    ## Observation Space
    Text: the output of the last cell with the value of its last expression and its error (at most
    1,000 characters), then the question.

    ## Rewards
    1 (term `task`) for the right answer, else 0. An invalid action costs `invalid_penalty`. A cell
    with an error is valid.

    ## Starting State
    A question sampled from the task name. No question is in both splits.

    ## Episode End
    Termination: an answer. Truncation: after `max_turns` turns.

    ## Information
    The common keys and `missing_names` (int): the number of cells that ended because a name was not
    defined. `admissible` is empty. `progress` is 1 after the right answer, else 0. Only cells cost
    a sandboxed call.

    ## Arguments
    - `persistent` (bool, default True): whether the interpreter keeps variables between cells.
    - `max_turns` (int or None, default 6): turn limit.

    ## References
    Code as a tool for reasoning: ToRA (arXiv 2309.17452) and rStar2-Agent (arXiv 2508.20722).
    Persistent or reset interpreter in training and evaluation: "Agents Learn Their Runtime:
    Interpreter Persistence as Training-Time Semantics". All questions are generated.

    ## Version History
    v0: first version.
    """

    State = State
    cased = True

    def __init__(self, *, persistent: bool = True, max_turns: int | None = 6, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)
        check_sandbox("monty")
        self.persistent = persistent
        self.tasks = Tasks.generated()
        self.instructions = _INSTRUCTIONS.format(memory=_KEPT if persistent else _RESET)

    @property
    def problem(self) -> Problem:
        """The question and a program that answers it."""
        return problem_of(self.task)[0]

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        return self._look("")

    def _advance(self, action: str) -> TimeStep:
        answer = _ANSWER.fullmatch(command(action))
        given = parse_integer(_GROUPED.sub("", answer[1])) if answer else None
        if given is not None:
            self.state.answered, self.state.right = True, given == problem_of(self.task)[1]
            return self._look("Right." if self.state.right else "Wrong.")
        cell = "\n".join(code_blocks(action))
        if cell.strip() and _answers(_BLOCK.sub("", action)):
            return self._invalid("Reply with one action only: a code block, or an answer.")
        if not cell.strip():
            return self._invalid("Reply with a Python code block, or with answer and an integer.")
        if len(cell) > LONGEST:
            return self._invalid(f"A cell must have at most {LONGEST:,} characters.")
        return self._look(self._run(cell))

    def _run(self, cell: str) -> str:
        state = self.state
        state.cells.append(cell)
        outcome = run_cell(tuple(state.cells if self.persistent else [cell]), limits=_LIMITS)
        state.missing += outcome.error.rpartition("\n")[2].startswith("NameError")
        text = outcome.text
        if outcome.stopped and self.persistent:
            text += "\nThe interpreter was restarted. All variables are lost."
        return f"Output:\n{shown(text, SHOWN)}" if text else "There is no output."

    def _look(self, result: str) -> TimeStep:
        state = self.state
        before = f"{result}\n\n" if result else ""
        ran = "\0".join(state.cells if self.persistent else [])
        digest = hashlib.blake2b(f"{ran}\0{result}".encode("utf-8", "surrogatepass"), digest_size=8)
        return TimeStep(
            text=f"{before}Question: {self.problem.text}",
            rewards={"task": float(state.right)},
            terminated=state.answered,
            success=state.right,
            progress=float(state.right),
            state_key=f"{self.task} {digest.hexdigest()}",
        )

    def _info(self, step: TimeStep) -> dict[str, Any]:
        return {**super()._info(step), "missing_names": self.state.missing}

    def expert(self) -> str | None:
        """Runs the setup and the result, in two cells if variables are kept, and answers."""
        problem, done = self.problem, len(self.state.cells)
        result = f"print({problem.result})"
        cells = [problem.setup, result] if self.persistent else [f"{problem.setup}\n{result}"]
        if done < len(cells):
            return f"```python\n{cells[done]}\n```"
        return f"answer {problem_of(self.task)[1]}"


_KEPT = "- Variables, functions and imports are kept from cell to cell."
_RESET = "- Each cell begins anew: define again what you need."
_INSTRUCTIONS = (
    "Answer a question with an integer. Use Python for calculations.\n"
    "Each turn, reply with one action and nothing else:\n"
    "- a cell of Python, of which you see the output:\n"
    "```python\n"
    "print(sum(range(10)))\n"
    "```\n"
    "- answer 45: the answer. This ends the episode.\n"
    "Rules:\n"
    "{memory}\n"
    f"{SUBSET}{LIMITED}"
    "The reward is 1 for the right answer."
)
