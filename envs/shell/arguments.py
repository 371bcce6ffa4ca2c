"""Options of commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from agentgym.envs.shell.tree import Failed, Tree, Unknown

LARGEST = 100_000
"""Number of characters of an output."""


class Input:
    """What a command reads. Commands of one loop or group read one after another.

    Args:
        text: the input.

    Attributes:
        work: the work of a program that reads it, beyond that of reading.
    """

    def __init__(self, text: str = ""):
        self._text, self._place, self.work = text, 0, 0

    def __len__(self) -> int:
        return len(self._text) - self._place

    def read(self) -> str:
        """Returns the rest of the input."""
        rest, self._place = self._text[self._place :], len(self._text)
        return rest

    def line(self, end: str = "\n") -> str:
        """Returns the next line with its end, or an empty text behind the last line."""
        start, stop = self._place, self._text.find(end, self._place)
        self._place = stop + 1 if stop >= 0 else len(self._text)
        return self._text[start : self._place]


Command = Callable[[Tree, list[str], Input], str]
"""Returns the output of a command for a tree, its arguments and its input."""


def repeated(arguments: list[str], flags: str, name: str) -> tuple[list[str], list[str]]:
    """Returns the values of an option that may be given several times, and the other arguments.

    Args:
        arguments: the arguments.
        flags: letters of options without a value, which may stand before it, as in `-ne`.
        name: its long name. Its letter is e.

    Raises:
        Failed: for a value that is missing.
    """
    values: list[str] = []
    rest: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            rest += [word, *left]
            break
        match = re.fullmatch(rf"-([{flags}]*)e(.*)|--(){name}=(.*)", word, re.DOTALL)
        if match is None:
            rest.append(word)
            continue
        rest += [f"-{match[1]}"] if match[1] else []
        value = match[2] or match[4]
        if not value and not left:
            raise Failed("option -e needs a value")
        values.append(value or left.pop(0))
    return values, rest


def options(
    arguments: list[str], flags: str, valued: str = "", names: dict[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Splits arguments into options and operands.

    Args:
        arguments: the arguments.
        flags: letters of options without a value.
        valued: letters of options with a value, as in `-n 3` or `-n3`.
        names: long names of options by their letter's option, such as {"--ignore-case": "i"}.

    Returns:
        The value of each given option ("" without one), and the operands.

    Raises:
        Unknown: for an unknown option, or a value that is given twice.
        Failed: for a value that is missing.
    """
    found: dict[str, str] = {}
    operands: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            return found, operands + left
        name, equals, value = word.partition("=")
        if names and name in names:
            letter = names[name]
            if bool(equals) != (letter in valued):
                raise Unknown(
                    f"unknown option {word[:40]}: write {name[:40]}" + "=VALUE" * (not equals)
                )
            found[letter] = value
            continue
        if len(word) < 2 or word[0] != "-":
            operands.append(word)
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in flags:
                found[letter] = ""
            elif letter in valued:
                if not letters and not left:
                    raise Failed(f"option -{letter} needs a value")
                if letter in found:
                    raise Unknown(f"option -{letter} can be given only once")
                found[letter] = letters or left.pop(0)
                letters = ""
            else:
                shown = word if word.startswith("--") else f"-{letter}"
                raise Unknown(f"unknown option {shown[:40]}")
    return found, operands


def per_operand(operands: Iterable[str], act: Callable[[str], str], status: int = 1) -> str:
    """Returns the outputs of a command for its operands, joined.

    An operand that fails does not keep the others from being processed.

    Args:
        operands: the operands.
        act: returns the output for an operand.
        status: the exit status if an operand fails.

    Raises:
        Failed: after the last operand, with the messages of those that failed.
    """
    output, errors = "", []
    for operand in operands:
        try:
            part = act(operand)
        except Unknown:
            raise
        except Failed as error:
            part = error.output
            errors.append(str(error))
        output = bounded(output + part)
    if errors:
        raise Failed("\n".join(errors), output, status)
    return output


def some(operands: list[str]) -> list[str]:
    """Returns the operands.

    Raises:
        Failed: if there are none.
    """
    if not operands:
        raise Failed("expected a file or folder")
    return operands


def number(text: str) -> int:
    """Returns a number of at most 6 digits.

    Raises:
        Failed: for another text.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise Failed(f"invalid number {text[:40]!r}")
    return int(text)


def contents(tree: Tree, files: list[str], stdin: Input, *, separate: bool = False) -> str:
    """Returns the content of all files, or the input if there are none. `-` is the input.

    Args:
        tree: the file tree.
        files: the files.
        stdin: the input.
        separate: whether every file begins a line, even if the one before ends without a newline.

    Raises:
        Failed: with the content of the others as its output, if a file cannot be read.
    """
    ended = True

    def read(file: str) -> str:
        nonlocal ended
        text = stdin.read() if file == "-" else tree.read(file)
        if text and separate:
            text, ended = "\n" * (not ended) + text, text.endswith("\n")
        return text

    return per_operand(files or ["-"], read)


def filtered(
    tree: Tree,
    files: list[str],
    stdin: Input,
    edit: Callable[[str], str],
    *,
    separate: bool = False,
    status: int = 1,
) -> str:
    """Returns the edited content of the files that can be read: see `contents`.

    Raises:
        Failed: with this output, if a file cannot be read.
    """
    try:
        text = contents(tree, files, stdin, separate=separate)
    except Failed as error:
        raise Failed(str(error), edit(error.output), status) from None
    return edit(text)


def bounded(text: str) -> str:
    """Returns a text of at most `LARGEST` characters.

    Raises:
        Failed: for a longer one.
    """
    if len(text) > LARGEST:
        raise Failed("output too large")
    return text


def lines(text: str) -> list[str]:
    """Returns the lines of a text without their ends."""
    found = text.split("\n")
    return found[:-1] if found[-1] == "" else found


def joined(found: list[str]) -> str:
    """Returns lines as a text."""
    return "".join(f"{line}\n" for line in found)
