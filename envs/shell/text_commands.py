"""Commands on text: cat, tac, rev, head, tail, wc, sort, uniq, cut, tr, sed, base64."""

from __future__ import annotations

import base64
import binascii
import itertools
import re
import string
from collections.abc import Callable

from agentgym.envs.shell.arguments import (
    LARGEST,
    Command,
    Input,
    contents,
    filtered,
    joined,
    lines,
    number,
    options,
    per_operand,
)
from agentgym.envs.shell.grep import grep
from agentgym.envs.shell.sed import sed
from agentgym.envs.shell.sorting import sort, uniq
from agentgym.envs.shell.tree import Failed, Tree

_CHARACTER = re.compile(r"\[:([a-z]+):\]|\\(.)|(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_CLASSES = {
    "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "alpha": string.ascii_uppercase + string.ascii_lowercase,
    "digit": string.digits,
    "alnum": string.digits + string.ascii_uppercase + string.ascii_lowercase,
    "punct": string.punctuation,
    "space": string.whitespace,
}


_TR_NAMES = {"--delete": "d", "--complement": "c", "--squeeze-repeats": "s"}
_CUT_NAMES = {"--delimiter": "d", "--fields": "f", "--characters": "c", "--only-delimited": "s"}
_CAT_NAMES = {"--number": "n", "--number-nonblank": "b"}


def _cat(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "nb", names=_CAT_NAMES)
    places, marked = itertools.count(1), r"^(?=.)" if "b" in found else r"^(?=.|\n)"

    def numbered(text: str) -> str:
        return re.sub(marked, lambda _: f"{next(places):>6}\t", text, flags=re.MULTILINE)

    return filtered(tree, files, stdin, numbered if found else str)


def _tac(tree: Tree, arguments: list[str], stdin: Input) -> str:
    return _by_file(tree, arguments, stdin, lambda text: "".join(_ended_lines(text)[::-1]))


def _rev(tree: Tree, arguments: list[str], stdin: Input) -> str:
    def reverse(text: str) -> str:
        return re.sub(r"[^\n]+", lambda line: line[0][::-1], text)

    return _by_file(tree, arguments, stdin, reverse)


def _by_file(tree: Tree, arguments: list[str], stdin: Input, edit: Callable[[str], str]) -> str:
    """Returns the edited contents of the files, each edited alone."""
    files = options(arguments, "")[1]
    return per_operand(files or ["-"], lambda file: edit(contents(tree, [file], stdin)))


def _head(tree: Tree, arguments: list[str], stdin: Input) -> str:
    if (size := _characters_of(arguments)) is not None:
        stop, files = number(size[0]), size[1]
        return _of_each(tree, files, stdin, lambda found: ["".join(found)[:stop]])
    count, files = _count(arguments)
    if count.startswith("-"):
        left_out = number(count[1:])
        return _of_each(tree, files, stdin, lambda found: found[: max(0, len(found) - left_out)])
    stop = number(count)
    return _of_each(tree, files, stdin, lambda found: found[:stop])


def _tail(tree: Tree, arguments: list[str], stdin: Input) -> str:
    if (size := _characters_of(arguments)) is not None:
        kept, files = number(size[0]), size[1]
        return _of_each(tree, files, stdin, lambda found: ["".join(found)[-kept or LARGEST :]])
    old = re.fullmatch(r"\+[0-9]{1,6}", arguments[0]) if arguments else None
    count, files = _count(["-n", *arguments] if old else arguments)
    if count.startswith("+"):
        start = max(0, number(count[1:]) - 1)
        return _of_each(tree, files, stdin, lambda found: found[start:])
    kept = number(count.removeprefix("-"))
    return _of_each(tree, files, stdin, lambda found: found[max(0, len(found) - kept) :])


def _of_each(
    tree: Tree, files: list[str], stdin: Input, part: Callable[[list[str]], list[str]]
) -> str:
    """Returns a part of the lines of each file, below its name if there are several."""
    named = 0

    def shown(file: str) -> str:
        nonlocal named
        title = ""
        if file != "-":
            tree.existing(file)
        if len(files) > 1:
            gap, name = "\n" * (named > 0), "standard input" if file == "-" else file
            title, named = f"{gap}==> {name} <==\n", named + 1
        try:
            return title + "".join(part(_ended_lines(contents(tree, [file], stdin))))
        except Failed as error:
            raise Failed(str(error), title) from None

    return per_operand(files or ["-"], shown)


def _ended_lines(text: str) -> list[str]:
    """Returns the lines of a text with their ends, which the last one may lack."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _count(arguments: list[str]) -> tuple[str, list[str]]:
    if arguments and re.fullmatch(r"-[0-9]{1,6}", arguments[0]):
        return arguments[0][1:], arguments[1:]
    found, files = options(arguments, "", "n")
    return found.get("n", "10"), files


def _characters_of(arguments: list[str]) -> tuple[str, list[str]] | None:
    """Returns the value of the option -c and the files, if it is given."""
    if not any(word.startswith("-c") for word in arguments):
        return None
    found, files = options(arguments, "", "c")
    return found["c"], files


def _wc(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "lwcm")
    kinds = [kind for kind in "lwmc" if kind in found] or ["l", "w", "c"]
    totals = dict.fromkeys(kinds, 0)

    def counted(file: str) -> str:
        folder = file != "-" and tree.absolute(file) in tree.folders
        text = "" if folder else stdin.read() if file == "-" else tree.read(file)
        size = len(text.encode("utf-8", "replace"))
        sizes = {"l": text.count("\n"), "w": len(text.split()), "m": len(text), "c": size}
        for kind in kinds:
            totals[kind] += sizes[kind]
        row = " ".join([*(str(sizes[kind]) for kind in kinds), *[file] * bool(files)]) + "\n"
        if folder:
            raise Failed(f"{file[:200]}: Is a directory", row)
        return row

    def total(rows: str) -> str:
        return rows + f"{' '.join(map(str, totals.values()))} total\n" * (len(files) > 1)

    try:
        return total(per_operand(files or ["-"], counted))
    except Failed as error:
        raise Failed(str(error), total(error.output)) from None


def _cut(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "s", "dfcb", _CUT_NAMES)
    if "b" in found:  # characters, of which those beyond ASCII have several bytes
        found["c"] = found.pop("b")
    if ("f" in found) == ("c" in found):
        raise Failed("expected -f or -c with a list such as 1,3-4")
    if "d" in found and "c" in found:
        raise Failed("option -d needs -f")
    ranges = [_range(part) for part in (found.get("f") or found.get("c") or "").split(",")]
    separator = found.get("d", "\t")
    if len(separator) != 1:
        raise Failed("option -d needs one character")

    def selected(line: str) -> str | None:
        if "f" in found and separator not in line:
            return None if "s" in found else line
        parts = line.split(separator) if "f" in found else list(line)
        kept = [p for i, p in enumerate(parts, 1) if any(low <= i <= high for low, high in ranges)]
        return (separator if "f" in found else "").join(kept)

    def edit(text: str) -> str:
        chosen = [selected(line) for line in lines(text)]
        return joined([line for line in chosen if line is not None])

    return filtered(tree, files, stdin, edit, separate=True)


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if text == "-":
        raise Failed("a range needs a number")
    low = number(first or "1") if dash else number(first)
    high = number(last or "999999") if dash else low
    if not 1 <= low <= high:
        raise Failed(f"invalid range {text[:40]!r}: numbers start at 1 and do not decrease")
    return low, high


def _tr(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, sets = options(arguments, "dscC", names=_TR_NAMES)
    others = bool({"c", "C"} & set(found))
    deletes, squeezes = "d" in found, "s" in found
    expected = (2,) if deletes == squeezes else (1,) if deletes else (1, 2)
    if len(sets) not in expected:
        raise Failed("expected two sets of characters, or -d or -s with one")
    first, last, text = _characters(sets[0]), _characters(sets[-1]), stdin.read()
    if others:
        first = "".join(sorted({char for char in text if char not in first}))
    if deletes:
        text = text.translate(dict.fromkeys(map(ord, first)))
    elif len(sets) == 2:
        if not last:
            raise Failed("the second set is empty")
        # all other characters become the last one of the second set
        second = last[-1] * len(first) if others else last.ljust(len(first), last[-1])
        pairs = list(zip(first, second, strict=False))
        text = text.translate({ord(a): b for a, b in reversed(pairs)})
    if not squeezes:
        return text
    squeezed = set(first if len(sets) == 1 else last)
    groups = ((char, "".join(group)) for char, group in itertools.groupby(text))
    return "".join(char if char in squeezed else group for char, group in groups)


def _characters(text: str) -> str:
    """Returns the characters of a set of tr, in order."""
    chars: list[tuple[str, bool]] = []  # each with whether it can be the - of a range
    for name, escaped, char in _CHARACTER.findall(text):
        if name and name not in _CLASSES:
            raise Failed(f"unknown character class [:{name[:20]}:]")
        plain = _CLASSES[name] if name else _ESCAPES.get(escaped, escaped) or char
        chars += [(each, char == "-") for each in plain]
    found, place = "", 0
    while place < len(chars):
        if chars[place + 1 : place + 2] == [("-", True)] and place + 2 < len(chars):
            low, high = ord(chars[place][0]), ord(chars[place + 2][0])
            if not low <= high < 0x3000:
                raise Failed(f"invalid range {chr(low)}-{chr(high)}")
            found += "".join(map(chr, range(low, high + 1)))
            place += 3
        else:
            found += chars[place][0]
            place += 1
        if len(found) > 0x3000:
            raise Failed("too many characters in a set")
    return found


def _base64(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "d", "w", names={"--decode": "d"})
    if len(files) > 1:
        raise Failed(f"extra operand {files[1][:200]!r}")
    width = number(found.get("w", "76"))
    text = contents(tree, files, stdin)
    if "d" not in found:
        code = base64.b64encode(text.encode("utf-8", "replace")).decode()
        if not width:
            return code
        return joined([code[i : i + width] for i in range(0, len(code), width)])
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise Failed("invalid input") from None


COMMANDS: dict[str, Command] = {
    "cat": _cat,
    "tac": _tac,
    "rev": _rev,
    "head": _head,
    "tail": _tail,
    "wc": _wc,
    "grep": grep,
    "sort": sort,
    "uniq": uniq,
    "cut": _cut,
    "tr": _tr,
    "sed": sed,
    "base64": _base64,
}
