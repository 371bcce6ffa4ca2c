"""`CommandLine`: the turns of an environment with a shell."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentgym.core import TextEnv
from agentgym.envs.shell.arguments import Command
from agentgym.envs.shell.interpreter import COMMANDS, run
from agentgym.envs.shell.reader import LONGEST
from agentgym.envs.shell.tree import HOME, Failed, Tree
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import code_command, plain

SHOWN = 1500
"""Number of characters of the output that are shown."""
_SUBMIT = re.compile(r"submit(?:(?:[ \t]*:[ \t]*|[ \t]+)(.*)|[.!])?", re.DOTALL | re.IGNORECASE)

_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)


def _without_prompts(text: str) -> str:
    """Returns commands without "$ " if each line begins with it. Else it may be an output."""
    lines = text.split("\n")
    prompted = all(line.startswith("$ ") for line in lines)
    return "\n".join(line[2:] for line in lines) if prompted else text


@dataclass(frozen=True)
class Problem:
    """A task of a shell.

    Attributes:
        text: the request.
        start: the tree at the start.
        commands: command lines that solve it.
        answer: the answer, or None if the tree is to be changed.
    """

    text: str
    start: Tree
    commands: tuple[str, ...]
    answer: str | None


@dataclass
class State:
    """The file tree, and the end.

    Attributes:
        tree: the file tree.
        submitted: whether the episode has been ended by the agent.
        right: whether the answer or the tree is right.
        commands: number of commands of the solution that have succeeded, in their order.
    """

    tree: Tree
    submitted: bool = False
    right: bool = False
    commands: int = 0


class CommandLine(TextEnv):
    """Base class of environments with a shell. A subclass defines `problem` and `_judge`."""

    State = State
    cased = True
    known: ClassVar[Mapping[str, Command]] = COMMANDS
    """The commands of the shell."""

    @property
    def problem(self) -> Problem:
        """The request and its solution."""
        raise NotImplementedError

    def _judge(self, answer: str) -> bool:
        """Returns whether a submitted answer, or the tree, is right."""
        raise NotImplementedError

    def _start(self, task: str) -> TimeStep:
        self.state = self.State(self.problem.start.copy())
        return self._look("")

    def _advance(self, action: str) -> TimeStep:
        line, state = _without_prompts(code_command(action)), self.state
        if submitted := _SUBMIT.fullmatch(line):
            state.submitted, state.right = True, self._judge(plain(submitted[1] or "", cased=True))
            return self._look("Right." if state.right else "Wrong.")
        if (fence := _FENCE.search(line)) and line.count("'", 0, fence.start()) % 2 == 0:
            return self._invalid("Reply with one command line, or with one code block.")
        if not line or len(line) > LONGEST:
            return self._invalid(f"Reply with a command line of at most {LONGEST} characters.")
        try:
            output, good = run(state.tree, line, self.known)
        except Failed as error:
            return self._invalid(f"sh: {error}")
        state.commands += good and line == self._following()
        return self._look(output)

    def _look(self, output: str) -> TimeStep:
        state = self.state
        here = state.tree.here.replace(HOME, "~", 1)
        before = f"{_shown(output)}\n\n" if output else ""
        return TimeStep(
            text=f"{before}Folder: {here}\nTask: {self.problem.text}",
            rewards={"task": float(state.right)},
            terminated=state.submitted,
            success=state.right,
            progress=self._progress(),
            state_key=f"{self.task} {_digest(state.tree)} {before}",
        )

    def _progress(self) -> float:
        return float(self.state.right)

    def _restored(self) -> None:
        if self.state.tree.here not in self.state.tree.folders:
            raise ValueError("the current folder does not exist")

    def _following(self) -> str | None:
        """Returns the next command of the solution, or None after the last one."""
        task, done = self.problem, self.state.commands
        return task.commands[done] if done < len(task.commands) else None

    def expert(self) -> str | None:
        """Runs the commands of the task and submits the result."""
        answer = self.problem.answer
        return self._following() or ("submit" if answer is None else f"submit {answer}")


def _digest(tree: Tree) -> str:
    return hashlib.sha256(repr(tree.key()).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _shown(output: str) -> str:
    """Returns the output, shortened in the middle if it is long."""
    output = output.rstrip("\n")
    if len(output) <= SHOWN:
        return output
    half = SHOWN // 2
    return f"{output[:half]}\n... {len(output) - 2 * half} characters ...\n{output[-half:]}"
