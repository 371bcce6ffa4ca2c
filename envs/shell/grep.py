"""The command grep."""

from __future__ import annotations

import itertools
import re

from agentgym.envs.shell.arguments import (
    Input,
    joined,
    lines,
    number,
    options,
    per_operand,
    repeated,
)
from agentgym.envs.shell.patterns import Pattern, Work, file_pattern
from agentgym.envs.shell.tree import Failed, Tree, Unknown

_NAMES = {
    "--ignore-case": "i", "--count": "c", "--recursive": "r", "--invert-match": "v",
    "--extended-regexp": "E", "--fixed-strings": "F", "--files-with-matches": "l",
    "--files-without-match": "L", "--line-number": "n", "--line-regexp": "x", "--max-count": "m",
    "--no-filename": "h", "--only-matching": "o", "--quiet": "q", "--regexp": "e",
    "--with-filename": "H", "--word-regexp": "w", "--include": "I", "--exclude": "X",
    "--after-context": "A", "--before-context": "B", "--context": "C",
}  # fmt: skip
"""I and X stand for options that have long names only."""


def grep(tree: Tree, arguments: list[str], stdin: Input) -> str:
    """Returns the lines that match a pattern.

    Raises:
        Failed: with the output, if no line matches or a file cannot be read.
    """
    sources, rest = repeated(arguments, "ivcnrRlLEFhHowqsxa", "regexp")
    found, operands = options(rest, "ivcnrRlLEFhHowqsxa", "mABCIX", _NAMES)
    if any(word.startswith(("-I", "-X")) for word in rest):
        raise Unknown("unknown option -I or -X")
    if not sources and not operands:
        raise Failed("expected a pattern", status=2)
    sources = sources or [operands.pop(0)]
    if {"E", "F"} <= set(found):
        raise Failed("options -E and -F exclude each other", status=2)
    if {"l", "L"} <= set(found):
        raise Unknown("options -l and -L together are not supported")
    work = Work()
    pattern = _Patterns([row for source in sources for row in source.split("\n")], found, work)
    recursive = bool({"r", "R"} & set(found))
    folders = recursive and any(not operands or is_folder(tree, path) for path in operands or [""])
    named = "h" not in found and (len(operands) > 1 or folders or "H" in found)
    matched = apart = False

    def searched(file: str) -> str:
        nonlocal matched, apart
        if is_folder(tree, file):
            empty = _shown(file, pattern, [], found, named) if "c" in found else ""
            raise Failed(f"{file[:200]}: Is a directory", empty)
        rows = lines(stdin.read() if file == "-" else tree.read(file))
        hits = _hits(pattern, rows, found)
        matched = matched or bool(hits)
        name = "(standard input)" if file == "-" else file
        if (around := _around(found)) is not None and not {"c", "l", "L", "q", "o"} & set(found):
            text = context(rows, hits, around, name if named else "", "n" in found)
            gap, apart = "--\n" * (apart and bool(text)), apart or bool(text)
            return gap + text
        return _shown(name, pattern, hits, found, named)

    try:
        output = per_operand(_searched(tree, operands, recursive, found, work), searched)
    except Failed as error:
        if "q" in found and matched:
            return ""
        raise Failed("" if "s" in found else str(error), error.output, 2) from None
    finally:
        stdin.work += work.count
    if not matched:
        raise Failed("", output)
    return output


def is_folder(tree: Tree, path: str) -> bool:
    """Whether an operand is a folder."""
    return path not in ("", "-") and tree.absolute(path) in tree.folders


def _searched(
    tree: Tree, paths: list[str], recursive: bool, given: dict[str, str], work: Work
) -> list[str]:
    """Returns the files that grep searches. Folders remain unless it is recursive."""
    if not paths and not recursive:
        return ["-"]
    found = []
    for path in paths or [""]:
        if recursive and (not paths or is_folder(tree, path)):
            full = tree.absolute(path or ".")
            start = path.rstrip("/") + "/" if path else ""
            skip = len(full.rstrip("/")) + 1
            files = [file for file in tree.below(full)[1] if tree.readable(file)]
            for letter in {"I", "X"} & set(given):
                kept = file_pattern(given[letter], work)
                files = [
                    file
                    for file in files
                    if kept.fullmatch(file.rpartition("/")[2]) == (letter == "I")
                ]
            found += [start + file[skip:] for file in files]
        else:
            found.append(path)
    return found


Hits = list[tuple[int, str]]
"""Numbers and texts of lines."""


class _Patterns:
    """The patterns of a search."""

    def __init__(self, sources: list[str], given: dict[str, str], work: Work):
        if "F" in given:
            sources = [re.sub(r"([.*^$\[\\])", r"\\\1", source) for source in sources]
        self.all = [
            Pattern(source, extended="E" in given, ignore_case="i" in given, work=work)
            for source in sources
        ]
        self.word, self.whole = "w" in given, "x" in given

    def search(self, line: str, begin: int = 0) -> tuple[int, int] | None:
        """Returns the start and the end of the first match, of which the longest one counts."""
        if self.whole:
            whole = any(pattern.fullmatch(line) for pattern in self.all)
            return (0, len(line)) if whole and begin == 0 else None
        found = [self._one(pattern, line, begin) for pattern in self.all]
        return min((m for m in found if m is not None), key=lambda m: (m[0], -m[1]), default=None)

    def _one(self, pattern: Pattern, line: str, begin: int) -> tuple[int, int] | None:
        # A word is not next to a letter, digit or underscore.
        while (match := pattern.search(line, begin)) is not None:
            start, end = match
            around = line[max(0, start - 1) : start] + line[end : end + 1]
            if not self.word or not any(char.isalnum() or char == "_" for char in around):
                return match
            begin = start + 1
        return None


def _hits(pattern: _Patterns, rows: list[str], given: dict[str, str]) -> Hits:
    most = number(given["m"]) if "m" in given else len(rows)
    hits = (
        (place, line)
        for place, line in enumerate(rows, start=1)
        if (pattern.search(line) is not None) != ("v" in given)
    )
    return list(itertools.islice(hits, most))


def _around(given: dict[str, str]) -> tuple[int, int] | None:
    """Returns the numbers of lines that are shown before and after a match."""
    if not {"A", "B", "C"} & set(given):
        return None
    both = given.get("C", "0")
    return number(given.get("B", both)), number(given.get("A", both))


def context(rows: list[str], hits: Hits, around: tuple[int, int], name: str, numbered: bool) -> str:
    """Returns the lines around hits, with -- between parts that are apart."""
    chosen = {place for place, _ in hits}
    shown: list[str] = []
    last = 0
    for place, line in enumerate(rows, start=1):
        if not any(place - around[1] <= hit <= place + around[0] for hit in chosen):
            continue
        if last and place > last + 1:
            shown.append("--")
        mark = ":" if place in chosen else "-"
        start = (f"{name}{mark}" if name else "") + (f"{place}{mark}" if numbered else "")
        shown.append(start + line)
        last = place
    return joined(shown)


def _shown(name: str, pattern: _Patterns, hits: Hits, given: dict[str, str], named: bool) -> str:
    """Returns the output for one file."""
    before = f"{name}:" if named else ""
    if "q" in given:
        return ""
    if "l" in given:
        return f"{name}\n" if hits else ""
    if "L" in given:
        return "" if hits else f"{name}\n"
    if "c" in given:
        return f"{before}{len(hits)}\n"
    rows = []
    for place, line in hits:
        start = f"{before}{place}:" if "n" in given else before
        if "o" not in given:
            rows.append(start + line)
        elif "v" not in given:
            rows += [start + part for part in _parts(pattern, line)]
    return joined(rows)


def _parts(pattern: _Patterns, line: str) -> list[str]:
    found, begin = [], 0
    while begin <= len(line) and (match := pattern.search(line, begin)) is not None:
        start, end = match
        if end > start:
            found.append(line[start:end])
        begin = max(end, start + 1)
    return found
