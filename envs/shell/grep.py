"""The command grep."""

from __future__ import annotations

import re

from agentgym.envs.shell.arguments import Input, joined, lines, options, per_operand
from agentgym.envs.shell.patterns import Pattern
from agentgym.envs.shell.tree import Failed, Tree

_NAMES = {"--ignore-case": "i", "--count": "c", "--recursive": "r", "--invert-match": "v"}


def grep(tree: Tree, arguments: list[str], stdin: Input) -> str:
    """Returns the lines that match a pattern.

    Raises:
        Failed: with the output, if no line matches or a file cannot be read.
    """
    found, operands = options(arguments, "ivcnrRlEFhHowqs", "e", _NAMES)
    source = found["e"] if "e" in found else operands.pop(0) if operands else None
    if source is None:
        raise Failed("expected a pattern", status=2)
    if {"E", "F"} <= set(found):
        raise Failed("options -E and -F exclude each other", status=2)
    if "F" in found:
        source = re.sub(r"([.*^$\[\\])", r"\\\1", source)
    pattern = Pattern(source, extended="E" in found, ignore_case="i" in found)
    recursive = bool({"r", "R"} & set(found))
    folders = recursive and any(not operands or is_folder(tree, path) for path in operands or [""])
    named = "h" not in found and (len(operands) > 1 or folders or "H" in found)
    matched = False

    def searched(file: str) -> str:
        nonlocal matched
        if is_folder(tree, file):
            empty = _shown(file, pattern, [], found, named) if "c" in found else ""
            raise Failed(f"{file[:200]}: Is a directory", empty)
        hits = _hits(pattern, lines(stdin.read() if file == "-" else tree.read(file)), found)
        matched = matched or bool(hits)
        return _shown("(standard input)" if file == "-" else file, pattern, hits, found, named)

    try:
        output = per_operand(_searched(tree, operands, recursive), searched)
    except Failed as error:
        if "q" in found and matched:
            return ""
        raise Failed("" if "s" in found else str(error), error.output, 2) from None
    if not matched:
        raise Failed("", output)
    return output


def is_folder(tree: Tree, path: str) -> bool:
    """Whether an operand is a folder."""
    return path not in ("", "-") and tree.absolute(path) in tree.folders


def _searched(tree: Tree, paths: list[str], recursive: bool) -> list[str]:
    """Returns the files that grep searches. Folders remain unless it is recursive."""
    if not paths and not recursive:
        return ["-"]
    found = []
    for path in paths or [""]:
        if recursive and (not paths or is_folder(tree, path)):
            full = tree.absolute(path or ".")
            start = path.rstrip("/") + "/" if path else ""
            skip = len(full.rstrip("/")) + 1
            files = filter(tree.readable, tree.below(full)[1])
            found += [start + file[skip:] for file in files]
        else:
            found.append(path)
    return found


Hits = list[tuple[int, str]]
"""Numbers and texts of lines."""


def _hits(pattern: Pattern, rows: list[str], given: dict[str, str]) -> Hits:
    word = "w" in given
    return [
        (place, line)
        for place, line in enumerate(rows, start=1)
        if (_match(pattern, line, 0, word) is not None) != ("v" in given)
    ]


def _match(pattern: Pattern, line: str, begin: int, word: bool) -> tuple[int, int] | None:
    """Returns where the next match is. A word is not next to a letter, digit or underscore."""
    while (match := pattern.search(line, begin)) is not None:
        start, end = match
        around = line[max(0, start - 1) : start] + line[end : end + 1]
        if not word or not any(char.isalnum() or char == "_" for char in around):
            return match
        begin = start + 1
    return None


def _shown(name: str, pattern: Pattern, hits: Hits, given: dict[str, str], named: bool) -> str:
    """Returns the output for one file."""
    before = f"{name}:" if named else ""
    if "q" in given:
        return ""
    if "l" in given:
        return f"{name}\n" if hits else ""
    if "c" in given:
        return f"{before}{len(hits)}\n"
    rows = []
    for place, line in hits:
        start = f"{before}{place}:" if "n" in given else before
        if "o" not in given:
            rows.append(start + line)
        elif "v" not in given:
            rows += [start + part for part in _parts(pattern, line, "w" in given)]
    return joined(rows)


def _parts(pattern: Pattern, line: str, word: bool) -> list[str]:
    found, begin = [], 0
    while begin <= len(line) and (match := _match(pattern, line, begin, word)) is not None:
        start, end = match
        if end > start:
            found.append(line[start:end])
        begin = max(end, start + 1)
    return found
