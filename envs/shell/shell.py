"""Shell: questions about files and changes of files with a subset of the coreutils."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from agentgym.core import TextEnv
from agentgym.envs.shell.interpreter import COMMANDS, run
from agentgym.envs.shell.parser import LONGEST
from agentgym.envs.shell.tasks import KINDS, Task, task_of
from agentgym.envs.shell.tree import HOME, Failed, Tree
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command

SHOWN = 1500
"""Number of characters of the output that are shown."""
_SUBMIT = re.compile(r"submit(?:[ \t]+(.*))?", re.DOTALL)


@dataclass
class State:
    """The file tree, and the end.

    Attributes:
        tree: the file tree.
        submitted: whether the episode has been ended by the agent.
        right: whether the answer or the tree is right.
        commands: number of command lines that succeeded.
    """

    tree: Tree
    submitted: bool = False
    right: bool = False
    commands: int = 0


class Shell(TextEnv):
    """Answer questions about files, or change them, with commands of a Unix shell.

    ## Description
    A home folder has some twenty files in seven folders: tables, logs, settings, texts and
    temporary files. A task is a question (the most frequent level of a log, the name with the
    largest number) or a change (move files, edit a setting, write a selection to a file). In half
    of the tasks about a file, its folder is not given.

    Commands run on a tree in memory. No command reaches the system: there are no processes,
    variables or command substitutions. Sizes of files, outputs and names are bounded, and patterns
    match in bounded time.

    ## Action Space
    Text, one of:

    - A command line of at most 1,000 characters with `|`, `>`, `>>`, `<`, `2>`, `;`, `&&`, `||`,
      quotes and file name patterns. Commands: ls, cd, pwd, find, mkdir, rmdir, touch, rm, cp, mv,
      echo, basename, dirname, cat, tac, rev, head, tail, wc, grep, sort, uniq, cut, tr, sed,
      base64. Their common options and their output follow the GNU tools, except that `ls` marks
      folders with a slash and `wc` does not pad its columns.
    - `submit 12` answers a question, `submit` submits the changed files.

    ## Observation Space
    Text: the output of the last command line with its errors (at most 1,500 characters), the
    current folder and the task.

    ## Rewards
    1 (term `task`) for the right answer, or if all files and folders are as requested, else 0. An
    invalid action costs `invalid_penalty`. A line with a syntax error or an unknown command is an
    invalid action, and a command that fails is not.

    ## Starting State
    A tree and a task sampled from the task name. The current folder is the home folder.

    ## Episode End
    Termination: `submit`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `admissible` is empty. `progress` is 1 after a right submission, else 0.

    ## Arguments
    - `kind` (str, default "mixed"): "question", "change" or "mixed".
    - `hidden` (float, default 0.5): probability that the folder of a file is not given, in [0, 1].
    - `max_turns` (int or None, default 15): turn limit.

    ## References
    The operating system tasks of AgentBench (arXiv 2308.03688) and InterCode (arXiv 2306.14898), on
    generated trees. Patterns are matched as in Thompson, "Regular Expression Search Algorithm"
    (CACM 1968).

    ## Version History
    v0: first version.
    """

    instructions = (
        "Solve a task with the files in your home folder, using a Unix shell.\n"
        "Each turn, reply with one action and nothing else:\n"
        "- grep -c ERROR logs/app.log: run a command line. Pipes, redirections and && work.\n"
        "- submit 12: answer a question. This ends the episode.\n"
        "- submit: if the task is a change, submit the files. This ends the episode.\n"
        "Rules:\n"
        f"- Commands: {', '.join(COMMANDS)}.\n"
        "- There are no variables, loops or $( ).\n"
        "- Change only the requested files. Delete other files that you make.\n"
        "The reward is 1 if the answer or the files are right."
    )
    State = State
    cased = True

    def __init__(
        self,
        *,
        kind: str = "mixed",
        hidden: float = 0.5,
        max_turns: int | None = 15,
        **kwargs,
    ):
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, got {kind!r}.")
        if not 0 <= hidden <= 1:
            raise ValueError(f"hidden must lie in [0, 1], got {hidden}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.kind, self.hidden = kind, float(hidden)
        self.tasks = Tasks.generated()

    @property
    def problem(self) -> Task:
        """The request and its solution."""
        return task_of(self.task, self.kind, self.hidden)

    def _start(self, task: str) -> TimeStep:
        self.state = State(self.problem.start.copy())
        return self._look("")

    def _advance(self, action: str) -> TimeStep:
        line, state = command(action), self.state
        if submitted := _SUBMIT.fullmatch(line):
            return self._submit((submitted[1] or "").strip())
        if not line or len(line) > LONGEST:
            return self._invalid(f"Reply with a command line of at most {LONGEST} characters.")
        try:
            output, good = run(state.tree, line)
        except Failed as error:
            return self._invalid(f"sh: {error}")
        state.commands += good
        return self._look(output)

    def _submit(self, answer: str) -> TimeStep:
        task, state = self.problem, self.state
        if task.answer is not None:
            given = " ".join(answer.split())
            for prefix in ("./", "~/", f"{HOME}/"):
                given = given.removeprefix(prefix)
            right = given == task.answer
        else:
            now, goal = state.tree, task.goal
            right = (now.files, now.folders) == (goal.files, goal.folders)
        state.submitted, state.right = True, right
        return self._look("Right." if right else "Wrong.")

    def _look(self, output: str) -> TimeStep:
        state = self.state
        here = state.tree.here.replace(HOME, "~", 1)
        before = f"{_shown(output)}\n\n" if output else ""
        return TimeStep(
            text=f"{before}Folder: {here}\nTask: {self.problem.text}",
            rewards={"task": float(state.right)},
            terminated=state.submitted,
            success=state.right,
            progress=float(state.right),
            state_key=f"{self.task} {_digest(state.tree)} {before}",
        )

    def _restored(self) -> None:
        if self.state.tree.here not in self.state.tree.folders:
            raise ValueError("the current folder does not exist")

    def expert(self) -> str | None:
        """Runs the commands of the task and submits the result."""
        task, done = self.problem, self.state.commands
        if done < len(task.commands):
            return task.commands[done]
        return f"submit {task.answer}" if task.answer is not None else "submit"


def _digest(tree: Tree) -> str:
    content = sorted(tree.files.items()), sorted(tree.folders), tree.here
    return hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _shown(output: str) -> str:
    """Returns the output, shortened in the middle if it is long."""
    output = output.rstrip("\n")
    if len(output) <= SHOWN:
        return output
    half = SHOWN // 2
    return f"{output[:half]}\n... {len(output) - 2 * half} characters ...\n{output[-half:]}"
