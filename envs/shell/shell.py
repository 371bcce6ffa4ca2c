"""Shell: questions about files and changes of files with a subset of the coreutils."""

from __future__ import annotations

from agentgym.envs.shell.base import CommandLine
from agentgym.envs.shell.interpreter import COMMANDS
from agentgym.envs.shell.tasks import KINDS, Task, task_of
from agentgym.envs.shell.tree import HOME
from agentgym.tasks import Tasks


class Shell(CommandLine):
    """Answer questions about files, or change them, with commands of a Unix shell.

    ## Description
    A home folder has some twenty files in seven folders: tables, logs, settings, texts and
    temporary files. A task is a question (the most frequent level of a log, the name with the
    largest number) or a change (move files, edit a setting, write a selection to a file). In half
    of the tasks about a file, its folder is not given.

    Commands run on a tree in memory. No command reaches the system, and there are no processes.
    Sizes of files, outputs and names are bounded, as are the depth and the work of a line, and
    patterns match in bounded time.

    ## Action Space
    Text, one of:

    - A command line of at most 1,000 characters with `|`, `>`, `>>`, `<`, `2>`, `;`, `&&`, `||`,
      quotes and file name patterns. Commands: ls, cd, pwd, find, mkdir, rmdir, touch, rm, cp, mv,
      echo, basename, dirname, cat, tac, rev, head, tail, wc, grep, sort, uniq, cut, tr, sed,
      base64. Their common options, output and exit status follow the GNU tools, except that `ls`
      marks folders with a slash, `ls -l` shows sizes only, `wc` does not pad its columns, and
      `find` and `grep -r` sort files. Every operand is processed, with an error for each that
      fails. Options and syntax that are not supported are errors, which are shown even behind
      `2>/dev/null`. Outside of plain quotes, typographic quotes, dashes and spaces count as plain
      ones. In quotes they are text.
      Lines as language models write them are read, too, which the instructions do not mention:
      `for`, `while`, `until` and `if`, `( )` and `{ }`, `$( )`, `$(( ))`, `<( )` and `<<<`,
      variables, which last for their line, `{a,b}`, and the commands awk, xargs, test, [, printf,
      seq, tee, diff, comm, paste, nl, stat -c, md5sum, sha256sum, read, sh -c, true and false.
      There are no functions, arrays, `case`, `[[ ]]`, here-documents, background commands, links,
      times, owners and modes of files. awk writes no files and has no functions of one's own.
    - `submit 12` answers a question, `submit` submits the changed files.

    ## Observation Space
    Text: the output of the last command line with its errors (at most 1,500 characters), the
    current folder and the task.

    ## Rewards
    1 (term `task`) for the right answer, or if all files and folders are as requested, else 0. An
    invalid action costs `invalid_penalty`. A line with a syntax error or an unknown command is an
    invalid action, and a command that fails is not.

    ## Starting State
    A tree and a task sampled from the task name. The current folder is the home folder. No request
    is in both splits.

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
        f"- Commands: {', '.join(COMMANDS)}, awk, xargs, test and others.\n"
        "- Loops, $( ) and variables work within a line. There are no here-documents.\n"
        "- Change only the requested files. Delete other files that you make.\n"
        "The reward is 1 if the answer or the files are right."
    )

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

    def _judge(self, answer: str) -> bool:
        task = self.problem
        if task.answer is not None:
            given = " ".join(answer.split())
            if given.startswith("~/"):
                given = HOME + given[1:]
            if given and self.state.tree.absolute(given) == f"{HOME}/{task.answer}":
                return True
            for prefix in ("./", f"{HOME}/"):
                given = given.removeprefix(prefix)
            return given == task.answer
        now, goal = self.state.tree, task.goal
        return (now.files, now.folders) == (goal.files, goal.folders)
