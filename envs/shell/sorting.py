"""The commands sort and uniq."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from agentgym.envs.shell.arguments import Input, contents, joined, lines, number, options
from agentgym.envs.shell.tree import Failed, Tree, Unknown

_NUMBER = re.compile(r"\s{0,20}(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)")
_KEY = re.compile(r"(0*[1-9][0-9]{0,5})([nrfhVb]*)(?:,(0*[1-9][0-9]{0,5})([nrfhVb]*))?")
_NAMES = {
    "--unique": "u", "--reverse": "r", "--numeric-sort": "n", "--human-numeric-sort": "h",
    "--ignore-case": "f", "--version-sort": "V", "--zero-terminated": "z", "--key": "k",
    "--field-separator": "t", "--stable": "s", "--output": "o",
}  # fmt: skip
_UNITS = "KMGTPE"
Order = Callable[[str], object]
"""Returns the key by which a line is sorted."""


def sort(tree: Tree, arguments: list[str], stdin: Input) -> str:
    """Returns the lines of files in order.

    Raises:
        Failed: if a file cannot be read.
    """
    keys, rest = _keys(arguments)
    found, files = options(rest, "nrufhVzsb", "to", _NAMES)
    separator = found.get("t")
    if separator in ("\\t", "\\0"):
        separator = {"\\t": "\t", "\\0": "\0"}[separator]
    if separator is not None and len(separator) != 1:
        raise Failed("option -t needs one character")
    end = "\0" if "z" in found else "\n"
    letters = "".join(letter for letter in found if letter in "nrfhVb")
    orders = [_order(key, letters, separator) for key in keys] or [(_by(letters), "r" in letters)]
    try:
        text = contents(tree, files, stdin, separate=True)
    except Failed as error:  # nothing is sorted unless all files can be read
        raise Failed(str(error), status=2) from None
    rows = text.split(end)
    rows = rows[:-1] if rows[-1] == "" else rows
    if "u" not in found and "s" not in found:
        rows.sort(reverse="r" in found)  # decides between lines with equal keys
    for order, reverse in orders[::-1]:
        rows.sort(key=order, reverse=reverse)  # type: ignore[arg-type]
    if "u" in found:
        groups = itertools.groupby(rows, key=lambda row: [order(row) for order, _ in orders])
        rows = [next(group) for _, group in groups]
    output = "".join(f"{row}{end}" for row in rows)
    if "o" not in found:
        return output
    tree.write(found["o"], output)
    return ""


def _keys(arguments: list[str]) -> tuple[list[re.Match[str]], list[str]]:
    """Returns the keys, and the other arguments."""
    sources: list[str] = []
    rest: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            rest += [word, *left]
            break
        match = re.fullmatch(r"-([nrufhVzsb]*)k(.*)", word)
        if match is None and word.startswith("--key="):
            match = re.fullmatch("--()key=(.*)", word)
        if match is None:
            taken = re.fullmatch("-[nrufhVzsb]*[to]", word) is not None and left
            rest += [word, left.pop(0)] if taken else [word]
            continue
        rest += [f"-{match[1]}"] if match[1] else []
        if not match[2] and not left:
            raise Failed("option -k needs a value")
        sources.append(match[2] or left.pop(0))
    keys: list[re.Match[str]] = []
    for source in sources:
        key = _KEY.fullmatch(source)
        if key is None:
            raise Failed(f"invalid key {source[:40]!r}: use -k 2 or -k 2,3 with letters n, r or f")
        keys.append(key)
    return keys, rest


def _order(key: re.Match[str], given: str, separator: str | None) -> tuple[Order, bool]:
    """Returns the order of a key, and whether it is reversed."""
    start, stop = int(key[1]), int(key[3] or "999999")
    # A key with letters of its own does not inherit the options.
    letters = key[2] + (key[4] or "") or given
    by = _by(letters)
    return (lambda line: by(_key(line, separator, start, stop))), "r" in letters


def _by(letters: str) -> Order:
    """Returns the order of texts that letters describe."""
    kinds = [kind for kind in "nhV" if kind in letters]
    if len(kinds) > 1:
        raise Failed(f"options -{kinds[0]} and -{kinds[1]} exclude each other", status=2)
    if kinds == ["n"]:
        return _value
    if kinds == ["h"]:
        return _human
    change: Callable[[str], str] = str.upper if "f" in letters else str
    skip: Callable[[str], str] = (lambda text: text.lstrip(" \t")) if "b" in letters else str
    if kinds == ["V"]:
        return lambda text: _version(change(skip(text)))
    return lambda text: change(skip(text))


def _value(text: str) -> float:
    match = _NUMBER.match(text)
    return float(match[1]) if match else 0.0


def _human(text: str) -> tuple[int, float]:
    """Returns the order of a number with a unit: the unit counts more."""
    match = _NUMBER.match(text)
    if match is None or float(match[1]) == 0:
        return 0, 0.0
    unit = text[match.end() : match.end() + 1].upper()
    place = 1 + (_UNITS.index(unit) + 1 if unit and unit in _UNITS else 0)
    value = float(match[1])
    return (place if value > 0 else -place), value


def _version(text: str) -> object:
    """Returns the order of a text whose numbers count as numbers."""
    if not re.fullmatch(r"[\w./ -]*", text, re.ASCII):
        raise Unknown("option -V with such characters is not supported")
    parts = re.split("([0-9]+)", text)
    return [(part, 0) if place % 2 == 0 else ("", int(part)) for place, part in enumerate(parts)]


def _key(line: str, separator: str | None, start: int, stop: int) -> str:
    """Returns some fields of a line. Without a separator, a field has the blanks before it."""
    if separator is None:
        return "".join(re.findall(r"[ \t]*[^ \t]+|[ \t]+$", line)[start - 1 : stop])
    return separator.join(line.split(separator)[start - 1 : stop])


_UNIQ_NAMES = {
    "--count": "c", "--repeated": "d", "--unique": "u", "--ignore-case": "i",
    "--check-chars": "w", "--skip-fields": "f", "--all-repeated": "D",
}  # fmt: skip


def uniq(tree: Tree, arguments: list[str], stdin: Input) -> str:
    """Returns lines without those that repeat the line before."""
    found, files = options(arguments, "cduDi", "wf", _UNIQ_NAMES)
    if len(files) > 2:
        raise Failed(f"extra operand {files[2][:200]!r}")
    if "D" in found and "c" in found:
        raise Failed("options -D and -c exclude each other")
    width, skipped = number(found.get("w", "999999")), number(found.get("f", "0"))

    def compared(line: str) -> str:
        rest = re.sub(rf"^(?:[ \t]*[^ \t]*){{{min(skipped, 1000)}}}", "", line)[:width]
        return rest.lower() if "i" in found else rest

    shown = []
    for _, group in itertools.groupby(lines(contents(tree, files[:1], stdin)), key=compared):
        rows = list(group)
        size = len(rows)
        if (({"d", "D"} & set(found)) and size == 1) or ("u" in found and size > 1):
            continue
        rows = rows if "D" in found else rows[:1]
        shown += [f"{size:>7} {rows[0]}"] if "c" in found else rows
    if len(files) < 2 or files[1] == "-":
        return joined(shown)
    tree.write(files[1], joined(shown))
    return ""
