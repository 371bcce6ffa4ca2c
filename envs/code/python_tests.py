"""PythonTests: write a function that passes hidden tests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from agentgym.core import TextEnv
from agentgym.envs.code.functions import LEVELS, NAME, Function, function_of
from agentgym.envs.code.judge import LIMITED, SUBSET, Verdict, judge, shown
from agentgym.errors import ConfigError
from agentgym.sandbox import Interpreter, check_sandbox
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import program_of

LONGEST = 10_000
"""Maximum number of characters of a program."""
SHOWN = 600
"""Number of characters of outputs and results that are shown."""


@dataclass
class State:
    """The verdict on the last program.

    Attributes:
        passed: number of hidden tests passed, or -1 before the end.
        tries: number of programs that ran.
    """

    passed: int = -1
    tries: int = 0


class PythonTests(TextEnv):
    """Write a Python function from its specification. Hidden tests decide.

    ## Description
    A specification describes a function in two to four steps, such as: keep the numbers that are
    divisible by 3, square each number, return the sum. The agent submits a program. If it fails one
    of three public tests, the agent sees the failing call and corrects the program. If it passes
    them, twelve hidden tests with other inputs and edge cases decide, and the episode ends.

    Programs run in a sandbox (extra `code`) with limits of time, memory and output. Expected
    results never enter the sandbox. Without a sandbox, the environment cannot be made.

    ## Action Space
    Text: a Python program that defines `solve`, alone or in a code block. Of several code blocks,
    the last that defines `solve` is taken.

    ## Observation Space
    Text: the specification, the public tests and, after a program that fails, the number of public
    tests passed, the first failing test and the output of the program.

    ## Rewards
    1 (term `task`) if all hidden tests pass, else 0. With `partial`, the share of hidden tests
    passed beyond the best constant answer: (passed - c) / (n - c), at least 0, where c of n tests
    pass for a function that always returns the same value. An invalid action costs
    `invalid_penalty`.

    ## Starting State
    A function sampled from the task name. No function is in both splits. The best constant answer
    passes at most a third of the hidden tests.

    ## Episode End
    Termination: a program that passes the public tests. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `admissible` is empty. `progress` is the reward under `partial`. An action
    without a definition of `solve` is invalid and costs no sandboxed call.

    ## Arguments
    - `level` (str, default "mixed"): "easy" (one step before the result), "medium" (two), "hard"
      (three) or "mixed".
    - `interpreter` (str, default "monty"): "monty" (a subset of Python, milliseconds per program,
      all platforms) or "cpython" (Linux with Landlock).
    - `partial` (bool, default False): whether a share of the tests earns a share of the reward.
    - `max_turns` (int or None, default 5): turn limit.

    ## References
    Tests as rewards: "Measuring Coding Challenge Competence With APPS" (arXiv 2105.09938). Feedback
    of public tests over several turns: RLEF (arXiv 2410.02089). All functions are generated.

    ## Version History
    v0: first version.
    """

    State = State
    cased = True

    def __init__(
        self,
        *,
        level: str = "mixed",
        interpreter: Interpreter = "monty",
        partial: bool = False,
        max_turns: int | None = 5,
        **kwargs,
    ):
        if level not in LEVELS:
            raise ConfigError(f"level must be one of {tuple(LEVELS)}, got {level!r}.")
        super().__init__(max_turns=max_turns, **kwargs)
        check_sandbox(interpreter)
        self.level, self.partial = level, partial
        self.interpreter: Interpreter = interpreter
        self.tasks = Tasks.generated()
        self.instructions = _INSTRUCTIONS.format(
            language=_LANGUAGES[interpreter],
            reward="the share of the hidden tests that pass" if partial else _ALL_TESTS,
        )

    @property
    def function(self) -> Function:
        """The function to write."""
        return function_of(self.task, self.level)

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        return self._look("")

    def _advance(self, action: str) -> TimeStep:
        program = program_of(action, NAME)
        if not program:
            return self._invalid(f"Reply with a Python program that defines {NAME}.")
        if len(program) > LONGEST:
            return self._invalid(f"A program must have at most {LONGEST:,} characters.")
        self.state.tries += 1
        verdicts, output = self._judge(program, hidden=False)
        if not all(verdict.right for verdict in verdicts):
            return self._look(self._failure(verdicts, output))
        hidden, _ = self._judge(program, hidden=True)
        self.state.passed = sum(verdict.right for verdict in hidden)
        return self._look(f"Hidden tests passed: {self.state.passed} of {len(hidden)}.")

    def _judge(self, program: str, *, hidden: bool) -> tuple[list[Verdict], str]:
        calls = self.function.hidden if hidden else self.function.public
        return judge(program, calls, interpreter=self.interpreter)

    def _failure(self, verdicts: list[Verdict], output: str) -> str:
        calls = self.function.public
        passed = sum(verdict.right for verdict in verdicts)
        call, verdict = next((c, v) for c, v in zip(calls, verdicts, strict=True) if not v.right)
        lines = [
            f"Public tests passed: {passed} of {len(calls)}.",
            f"{call.text} should return {call.expected!r}. Result: {shown(verdict.shown, SHOWN)}",
        ]
        return "\n".join([*lines, f"Output:\n{shown(output, SHOWN)}"] if output else lines)

    def _look(self, feedback: str) -> TimeStep:
        state, function = self.state, self.function
        done = state.passed >= 0
        share = max(0, state.passed - function.constant) / (
            len(function.hidden) - function.constant
        )
        tests = "\n".join(f"{call.text} returns {call.expected!r}" for call in function.public)
        digest = hashlib.blake2b(feedback.encode("utf-8", "surrogatepass"), digest_size=8)
        return TimeStep(
            text=f"{function.text}\n\nPublic tests:\n{tests}",
            rewards={"task": share if self.partial else float(share == 1)},
            terminated=done,
            success=share == 1,
            progress=share,
            state_key=f"{self.task} {digest.hexdigest()}",
            feedback=feedback,
        )

    def expert(self) -> str | None:
        """Submits the reference program."""
        return self.function.program.rstrip()


_ALL_TESTS = "1 if all hidden tests pass"
_LANGUAGES = {
    "monty": SUBSET,
    "cpython": "- Python runs your program, with its standard library.\n",
}
_INSTRUCTIONS = (
    "Write a Python function that fulfils a specification.\n"
    "Each turn, reply with a program that defines the function:\n"
    "```python\n"
    "def solve(numbers):\n"
    "    return sum(numbers)\n"
    "```\n"
    "Rules:\n"
    "{language}"
    f"{LIMITED}"
    "- If a public test fails, you see the first that failed and can correct the program.\n"
    "- If the public tests pass, hidden tests decide and the episode ends.\n"
    "The reward is {reward}."
)
