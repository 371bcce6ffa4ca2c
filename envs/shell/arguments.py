"""Options of commands."""

from __future__ import annotations

from agentgym.envs.shell.tree import Failed, Tree

LARGEST = 100_000
"""Number of characters of an output."""


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
        Failed: for an unknown option, or a value that is missing or given twice.
    """
    found: dict[str, str] = {}
    operands: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            return found, operands + left
        if names and word in names:
            found[names[word]] = ""
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
                    raise Failed(f"option -{letter} can be given only once")
                found[letter] = letters or left.pop(0)
                letters = ""
            else:
                raise Failed(f"unknown option -{letter[:20]}")
    return found, operands


def number(text: str) -> int:
    """Returns a number of at most 6 digits.

    Raises:
        Failed: for another text.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise Failed(f"invalid number {text[:40]!r}")
    return int(text)


def contents(tree: Tree, files: list[str], stdin: str, *, separate: bool = False) -> str:
    """Returns the content of all files, or the input if there are none. `-` is the input.

    Args:
        tree: the file tree.
        files: the files.
        stdin: the input.
        separate: whether every file begins a line, even if the one before ends without a newline.
    """
    if not files:
        return stdin
    text = ""
    for file in files:
        text += "\n" * (separate and text[-1:] not in ("", "\n"))
        text = bounded(text + (stdin if file == "-" else tree.read(file)))
    return text


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
