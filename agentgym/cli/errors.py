"""Errors of the command line: one style, `error: ...` on standard error."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from agentgym.utils.printable import printable

_FRAME = re.compile(r"^[╭│╰]\s?|\s*[╮│╯]$")
_RULE = re.compile(r"^[─\s-]+$")
_VALUES = (
    (r"invalid literal for int\(\) with base 10: ", "expected an integer, got "),
    (r"could not convert string to float: ", "expected a number, got "),
    (r"no type matching (.*?) could be instantiated from \[(.*?)\]\. Got errors: .*",
     lambda found: f"expected {found[1]}, got {found[2].replace(', ', ' ')}"),
    (r"^Config: ", ""),
)  # fmt: skip
"""Errors of Python and tyro about the value of a flag, and what replaces them."""


def complain(message: str) -> None:
    """Writes an error to standard error, red on a terminal."""
    Console(stderr=True, highlight=False).print(Text(printable(message), "red"), soft_wrap=True)


@contextlib.contextmanager
def plain_errors(*, none: bool = True) -> Iterator[None]:
    """Turns the framed errors of tyro into plain ones. Nothing else should run inside.

    Args:
        none: whether None is a value that flags take. tyro lists it anyway.
    """
    written = io.StringIO()
    try:
        with contextlib.redirect_stderr(written):
            yield
    except SystemExit as ended:
        if ended.code == 2 and (text := unframed(written.getvalue())):
            complain(text if none else re.sub(r"'None', |, 'None'(?=\))", "", text))
            written = io.StringIO()
        raise
    finally:
        sys.stderr.write(written.getvalue())


def unframed(text: str) -> str:
    """Returns the text of a framed error: "error: ", its first section, then the others indented.

    Args:
        text: a box with a title, and sections between horizontal rules.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [_FRAME.sub("", line).rstrip() for line in text.splitlines()[1:]]
    sections: list[list[str]] = [[]]
    for line in lines:
        if _RULE.match(line):
            sections.append([])
        elif line:
            sections[-1].append(line)
    first, *others = [section for section in sections if section] or [[]]
    if not first:
        return ""
    message = " ".join(line.strip() for line in first).removeprefix("Error parsing ")
    for pattern, replacement in _VALUES:
        message = re.sub(pattern, replacement, message)
    return "\n".join([f"error: {message}", *(f"  {line}" for s in others for line in s)])
