"""The command xargs, and how commands are run for many files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.envs.shell.arguments import Command, Input, bounded, lines, number, options
from agentgym.envs.shell.automaton import PatternError
from agentgym.envs.shell.tree import Failed, Tree, Unknown

_ITEM = re.compile(r"""(?:[^\s'"\\]|\\.|'[^'\n]*'|"[^"\n]*")+""", re.DOTALL)
_PART = re.compile(r"""\\(.)|'([^'\n]*)'|"([^"\n]*)"|(.)""", re.DOTALL)
_FLAGS, _VALUED = "0rti", "nILPds"
_NAMES = {"--null": "0", "--no-run-if-empty": "r", "--max-args": "n", "--delimiter": "d"}


@dataclass
class Runs:
    """What commands have done that run for one file after another.

    Attributes:
        output: the output.
        errors: the messages.
        status: the exit status.
    """

    output: str = ""
    errors: list[str] = field(default_factory=list)
    status: int = 0

    def fail(self, message: str) -> None:
        """Adds an error that no command has made."""
        self.errors.append(message)
        self.status = 1

    def run(self, tree: Tree, words: list[str], commands: Mapping[str, Command]) -> bool:
        """Runs a command, and returns whether it succeeds."""
        try:
            self.output = bounded(self.output + commands[words[0]](tree, words[1:], Input()))
        except Unknown:
            raise
        except (Failed, PatternError) as error:
            self.errors += [f"{words[0]}: {line}" for line in str(error).split("\n") if line]
            self.output = bounded(self.output + getattr(error, "output", ""))
            return getattr(error, "status", 1) == 0
        return True

    def result(self) -> str:
        """Returns the output.

        Raises:
            Failed: if there are errors.
        """
        if self.errors or self.status:
            raise Failed("\n".join(self.errors), self.output, self.status)
        return self.output


def xargs(
    tree: Tree, arguments: list[str], stdin: Input, *, commands: Mapping[str, Command]
) -> str:
    """Runs a command with the words of the input as its arguments.

    Args:
        tree: the file tree.
        arguments: options, and the command with its first arguments.
        stdin: the input.
        commands: the commands by name.

    Raises:
        Failed: if a command fails.
        Unknown: for a command that is not known.
    """
    # -i and its text are an old form of -I
    arguments = [re.sub(r"^-i(.+)$", r"-I\1", word) for word in arguments]
    end = 0
    while end < len(arguments) and arguments[end].startswith("-"):
        end += 2 if re.fullmatch(f"-[{_FLAGS}]*[{_VALUED}]", arguments[end]) else 1
    found, extra = options(arguments[:end], "0ri", "nILPd", _NAMES)
    if "i" in found:
        found["I"] = "{}"
    words = [*extra, *arguments[end:]] or ["echo"]
    if words[0] not in commands:
        raise Unknown(f"{words[0][:40]}: command not found")
    text = stdin.read()
    items = _items(text, found)
    size = number(found.get("n", found.get("L", "5000")))
    if "I" in found:
        mark = found["I"]
        groups = [[word.replace(mark, item) for word in words] for item in items]
    elif not size:
        raise Failed("the number of arguments is at least 1")
    else:
        groups = [[*words, *items[i : i + size]] for i in range(0, len(items), size)]
        groups = groups or ([] if "r" in found else [words])
    runs = Runs()
    for group in groups:
        if not runs.run(tree, group, commands):
            runs.status = 123
    return runs.result()


def _items(text: str, found: dict[str, str]) -> list[str]:
    """Returns the arguments in the input."""
    if "0" in found or "d" in found:
        end = "\0" if "0" in found else found["d"].replace("\\n", "\n").replace("\\0", "\0")
        if len(end) != 1:
            raise Unknown("option -d needs one character")
        parts = text.split(end)
        return parts[:-1] if parts[-1] == "" else parts
    if re.sub(_ITEM, "", text).strip():
        raise Failed("unmatched quote: use -0 or -d '\\n'")
    rows = [line.lstrip() for line in lines(text)] if {"I", "L"} & set(found) else [text]
    if "I" in found:
        return [_unquoted(row) for row in rows if row]
    if "L" in found and any(len(_ITEM.findall(row)) > 1 for row in rows):
        raise Unknown("-L is supported for lines of one word: use -n or -I")
    return [_unquoted(item) for row in rows for item in _ITEM.findall(row)]


def _unquoted(text: str) -> str:
    return "".join("".join(groups) for groups in _PART.findall(text))
