"""BugFix: find and repair a bug in a small program of several files."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from agentgym.core import TextEnv
from agentgym.envs.code.bugs import Bug, bug_of
from agentgym.envs.code.judge import LIMITED, Call, Verdict, judge, shown
from agentgym.errors import ConfigError, did_you_mean
from agentgym.sandbox import check_sandbox, run_program
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import code_blocks, command, plain

LARGEST = 10_000
"""Maximum number of characters of a file."""
SHOWN = 1500
"""Number of characters of an output that are shown."""
_READ = re.compile(r"(?:read|cat|open)[ \t]+[\"'`]?(\S{1,100}?)[\"'`]?\.?", re.IGNORECASE)
_EDIT = re.compile(
    r"edit[ \t]+[\"'`]?(\S{1,100}?)[\"'`]?[ \t]+(?:lines?[ \t]+)?(\d{1,4})"
    r"(?:[ \t]*-[ \t]*(\d{1,4}))?[ \t]*:?[ \t]*(?:\n|$)",
    re.IGNORECASE,
)
_RUN = re.compile(r"run[ \t]*:?[ \t]*(?:\n|$)", re.IGNORECASE)


@dataclass
class State:
    """The files, and the end.

    Attributes:
        files: the source of each file.
        read: the files that were read.
        tested: number of runs of the public tests.
        submitted: whether the program was submitted.
        right: whether all hidden tests passed.
    """

    files: dict[str, str]
    read: list[str] = field(default_factory=list)
    tested: int = 0
    submitted: bool = False
    right: bool = False


class BugFix(TextEnv):
    """Find and repair a bug in a small program of several files. Hidden tests decide.

    ## Description
    A program has three files of functions that import each other: a shop, a calendar, marks of a
    class, texts, grids, or trains. A mutation has changed one place: a comparison, an operator, a
    number, a variable, or `min` for `max`. A report names a call with its wrong and its right
    result. The agent reads files, edits lines, runs programs and public tests, and submits. Hidden
    tests call all functions. The bug fails at least two of them, so that a special case for the
    reported call is no solution.

    The files are kept in memory. Tests and programs run in CPython in a sandbox (extra `code`,
    Linux with Landlock) without files, network and processes, and with limits of time, memory and
    output. Without a sandbox, the environment cannot be made.

    ## Action Space
    Text, one of:

    - `read stock.py`: show a file with line numbers.
    - `edit stock.py 3-4` and new lines after it: replace the lines 3 to 4. Without new lines, they
      are deleted. The new lines may be in a code block, which keeps their indentation.
    - `run` and a program after it: run a program that may import the files.
    - `test`: run the public tests.
    - `submit`: submit the program.

    ## Observation Space
    Text: the result of the last action (at most 1,500 characters of an output), then the files and
    the report.

    ## Rewards
    1 (term `task`) if all hidden tests pass after `submit`, else 0. An invalid action costs
    `invalid_penalty`.

    ## Starting State
    A program with numbers and a bug sampled from the task name. No bug is in both splits.

    ## Episode End
    Termination: `submit`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `admissible` is empty. `progress` is 1 after a right submission, else 0. Only
    `run`, `test` and `submit` cost a sandboxed call.

    ## Arguments
    - `bugs` (int, default 1): number of bugs, 1 to 3. The report names one wrong result.
    - `max_turns` (int or None, default 15): turn limit.

    ## References
    Repair of repositories with hidden tests: SWE-bench (arXiv 2310.06770) and R2E-Gym (arXiv
    2504.07164). Edits of line ranges: SWE-agent (arXiv 2405.15793). All programs are our own.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Find and repair a bug in a Python program of several files.\n"
        "Each turn, reply with one action and nothing else:\n"
        "- read stock.py: show a file with line numbers.\n"
        "- edit stock.py 3-4, and new lines in a code block after it: replace the lines 3 to 4:\n"
        "edit stock.py 3-4\n"
        "```python\n"
        "    return total + 1\n"
        "```\n"
        "- run, and a program in a code block after it: run a program that may import the files.\n"
        "- test: run the public tests.\n"
        "- submit: submit the program. This ends the episode.\n"
        "Rules:\n"
        "- The docstrings describe the right results.\n"
        "- Hidden tests call all functions.\n"
        f"{LIMITED}"
        "The reward is 1 if all hidden tests pass."
    )
    State = State
    cased = True

    def __init__(self, *, bugs: int = 1, max_turns: int | None = 15, **kwargs):
        if not 1 <= bugs <= 3:
            raise ConfigError(f"bugs must be 1, 2 or 3, got {bugs}.")
        super().__init__(max_turns=max_turns, **kwargs)
        check_sandbox("cpython")
        self.bugs = bugs
        self.tasks = Tasks.generated()

    @property
    def bug(self) -> Bug:
        """The program of the task, with and without bugs."""
        return bug_of(self.task, self.bugs)

    def _start(self, task: str) -> TimeStep:
        self.state = State(dict(self.bug.files))
        return self._look("")

    def _advance(self, action: str) -> TimeStep:
        line = command(action)
        if plain(line) == "test":
            self.state.tested += 1
            return self._look(self._tested())
        if plain(line) == "submit" and "?" not in line:
            return self._submit()
        if found := _READ.fullmatch(line):
            return self._file(found[1])
        if found := _EDIT.match(line):
            return self._edit(found, _body(line))
        if _RUN.match(line):
            return self._run(_body(line))
        return self._invalid(
            "Reply with read FILE, edit FILE FIRST-LAST and lines, run and a program, test or "
            "submit."
        )

    def _file(self, name: str) -> TimeStep:
        if name not in self.state.files:
            return self._unknown(name)
        if name not in self.state.read:
            self.state.read.append(name)
        return self._look(f"{name}:\n{_numbered(self.state.files[name], 1)}")

    def _unknown(self, name: str) -> TimeStep:
        files = self.state.files
        return self._invalid(f"There is no file {name!r}.{did_you_mean(name, files)}")

    def _edit(self, found: re.Match[str], text: str) -> TimeStep:
        name, first, last = found[1], int(found[2]), int(found[3] or found[2])
        if name not in self.state.files:
            return self._unknown(name)
        lines = self.state.files[name].split("\n")[:-1]
        if not 1 <= first <= last <= len(lines):
            return self._invalid(f"{name} has the lines 1 to {len(lines)}, got {first}-{last}.")
        new = text.split("\n") if text else []
        changed = [*lines[: first - 1], *new, *lines[last:]]
        source = "".join(f"{line}\n" for line in changed)
        if len(source) > LARGEST or not changed:
            return self._invalid(f"A file must have 1 to {LARGEST:,} characters.")
        self.state.files[name] = source
        start = max(1, first - 3)
        window = "\n".join(changed[start - 1 : first + len(new) + 2])
        return self._look(f"{name} now:\n{_numbered(window, start)}")

    def _run(self, program: str) -> TimeStep:
        if not program.strip():
            return self._invalid("Write a program after run, such as run print(1) on two lines.")
        outcome = run_program(program, interpreter="cpython", files=self.state.files)
        return self._look(f"Output:\n{shown(outcome.text, SHOWN)}")

    def _judge(self, calls: tuple[Call, ...]) -> tuple[list[Verdict], str]:
        files = self.state.files
        names = sorted({call.text.partition(".")[0] for call in calls})
        return judge(f"import {', '.join(names)}", calls, interpreter="cpython", files=files)

    def _tested(self) -> str:
        calls = self.bug.public
        verdicts, output = self._judge(calls)
        lines = [f"Public tests passed: {sum(v.right for v in verdicts)} of {len(calls)}."]
        for call, verdict in zip(calls, verdicts, strict=True):
            if not verdict.right:
                result = shown(verdict.shown, SHOWN // len(calls))
                lines.append(f"{call.text} should return {call.expected!r}. Result: {result}")
        return "\n".join([*lines, shown(output, SHOWN)] if output else lines)

    def _submit(self) -> TimeStep:
        verdicts, _ = self._judge(self.bug.hidden)
        passed = sum(verdict.right for verdict in verdicts)
        self.state.submitted, self.state.right = True, passed == len(verdicts)
        return self._look(f"Hidden tests passed: {passed} of {len(verdicts)}.")

    def _look(self, result: str) -> TimeStep:
        state, bug = self.state, self.bug
        files = ", ".join(f"{n} ({s.count(chr(10))} lines)" for n, s in state.files.items())
        first = bug.public[0]
        before = f"{result}\n\n" if result else ""
        content = f"{sorted(state.files.items())} {result}".encode("utf-8", "surrogatepass")
        return TimeStep(
            text=f"{before}Files: {files}\nReport: {first.text} gives {bug.result}. It should give "
            f"{first.expected!r}.",
            rewards={"task": float(state.right)},
            terminated=state.submitted,
            success=state.right,
            progress=float(state.right),
            state_key=f"{self.task} {hashlib.blake2b(content, digest_size=8).hexdigest()}",
        )

    def _restored(self) -> None:
        if self.state.files.keys() != self.bug.files.keys():
            raise ValueError("the files are those of another program")

    def expert(self) -> str | None:
        """Tests, reads the files with bugs, repairs their lines, tests again and submits."""
        state, goal = self.state, self.bug.goal
        if not state.tested:
            return "test"
        for name, source in state.files.items():
            if source != goal[name]:
                return (
                    f"read {name}" if name not in state.read else _repair(name, source, goal[name])
                )
        return "test" if state.tested == 1 else "submit"


def _body(action: str) -> str:
    """Returns the text after the first line of an action, without the marks of its code blocks."""
    rest = action.partition("\n")[2]
    blocks = code_blocks(rest)
    return "\n".join(blocks) if blocks else rest


def _numbered(source: str, first: int) -> str:
    lines = source.rstrip("\n").split("\n")
    return "\n".join(f"{number:>3} {line}" for number, line in enumerate(lines, start=first))


def _repair(name: str, source: str, goal: str) -> str:
    """Returns the edit of the first line that differs, or of all lines if their number does."""
    lines, wanted = source.split("\n")[:-1], goal.split("\n")[:-1]
    if len(lines) != len(wanted):
        return f"edit {name} 1-{len(lines)}\n```python\n{goal.rstrip()}\n```"
    at = next(i for i, line in enumerate(lines) if line != wanted[i])
    return f"edit {name} {at + 1}\n```python\n{wanted[at]}\n```"
