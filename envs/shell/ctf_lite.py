"""CTFLite: find a hidden flag on a small computer with the commands of a shell."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.core import TimeStep, TurnLimit
from agentgym.envs.shell import base
from agentgym.envs.shell.base import CommandLine
from agentgym.envs.shell.challenges import MOST_STAGES, Challenge, challenge_of
from agentgym.envs.shell.host import HOST_COMMANDS, Host
from agentgym.errors import ConfigError
from agentgym.tasks import Tasks


@dataclass
class State(base.State):
    """The computer, and the texts that have been found.

    Attributes:
        tree: files, folders and permissions.
        found: indices of the stages whose hidden text an output has shown.
    """

    tree: Host  # type: ignore[assignment]
    found: set[int] = field(default_factory=set)


class CTFLite(CommandLine):
    """Capture the flag: find a secret text on a small computer, with a Unix shell.

    ## Description
    A flag such as flag{river_stone_4821} is hidden by one or more stages:

    - a file whose name starts with a dot,
    - an archive, which can hold another archive,
    - a file of the user without permissions,
    - a log with the numbered parts of a text,
    - a service that hands out files and does not check their names,
    - up to three codes (base64, hexadecimal, rot13, reversal),
    - a service that asks for a password.

    The last two hide another text (the code, the password), which the next stage hides. The
    computer is a tree of files in memory with a home folder of some twenty files. Services are
    described by files in `/etc/services.d`. No command reaches the system.

    ## Action Space
    Text, one of:

    - A command line as in `Shell-v0`. Further commands: `tar -tzf` and `tar -xzf` (an archive is
      one line of text), `stat`, `chmod`, `xxd -p` and `xxd -r -p`, `nc localhost PORT`, which sends
      its input to a service.
    - `submit flag{river_stone_4821}`: submits the flag.

    ## Observation Space
    Text: the output of the last command line with its errors (at most 1,500 characters), the
    current folder and the task.

    ## Rewards
    1 (term `task`) for the flag, else 0. An invalid action costs `invalid_penalty`. A line with a
    syntax error or an unknown command is an invalid action, and a command that fails is not.

    ## Starting State
    A computer and its flag, sampled from the task name. The current folder is the home folder.

    ## Episode End
    Termination: `submit`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `admissible` is empty. `progress` is the share of the hidden texts that an
    output has shown, and 1 only after the flag has been submitted.

    ## Arguments
    - `stages` (int, default 1): number of stages, 1 to 3. With 1, three in ten tasks have two: a
      code or a password is hidden in a file whose name starts with a dot.
    - `hints` (bool, default True): whether the task describes the stages.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 10, and 10 more per
      stage.

    ## References
    The challenges of InterCode-CTF (arXiv 2306.14898) and CTF-Dojo (arXiv 2508.18370) in small,
    generated and without real programs.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Find the flag that is hidden on a computer, using a Unix shell.\n"
        "Each turn, reply with one action and nothing else:\n"
        "- grep -r flag docs: run a command line. Pipes, redirections and && work.\n"
        "- submit flag{river_stone_4821}: submit the flag. This ends the episode.\n"
        "Rules:\n"
        f"- Commands: {', '.join(HOST_COMMANDS)}, awk, xargs, test and others.\n"
        "- Loops, $( ) and variables work within a line. There are no here-documents.\n"
        "- You can write in your home folder and in /tmp.\n"
        "- xxd -r -p decodes hexadecimal text, base64 -d base64, tr A-Za-z N-ZA-Mn-za-m rot13.\n"
        "- tar -xvzf FILE -C /tmp unpacks an archive.\n"
        "- Services are described in /etc/services.d. echo TEXT | nc localhost PORT sends a text "
        "to one: a password, or GET and the name of a file.\n"
        "The reward is 1 for the right flag. There is one attempt."
    )
    State = State
    known = HOST_COMMANDS

    def __init__(
        self,
        *,
        stages: int = 1,
        hints: bool = True,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if not 1 <= stages <= MOST_STAGES:
            raise ConfigError(f"stages must be 1 to {MOST_STAGES}, got {stages}.")
        super().__init__(max_turns=10 + 10 * stages if max_turns == "auto" else max_turns, **kwargs)
        self.stages, self.hints = stages, hints
        self.tasks = Tasks.generated()

    @property
    def problem(self) -> Challenge:
        """The computer, its flag, and the commands that find it."""
        return challenge_of(self.task, self.stages, self.hints)

    def _judge(self, answer: str) -> bool:
        return answer == self.problem.answer

    def _look(self, output: str) -> TimeStep:
        found = self.state.found
        found.update(i for i, text in enumerate(self.problem.secrets) if text in output)
        return super()._look(output)

    def _progress(self) -> float:
        state = self.state
        return 1.0 if state.right else len(state.found) / (len(self.problem.secrets) + 1)
