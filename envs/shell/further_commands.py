"""Further commands, which the instructions do not list."""

from __future__ import annotations

import hashlib
import re
from functools import partial

from agentgym.envs.shell.arguments import (
    Command,
    Input,
    bounded,
    contents,
    filtered,
    joined,
    lines,
    options,
    per_operand,
    some,
)
from agentgym.envs.shell.awk import awk
from agentgym.envs.shell.diff import diff
from agentgym.envs.shell.formats import count, formatted, unescaped
from agentgym.envs.shell.grep import grep
from agentgym.envs.shell.tree import Failed, Tree, Unknown

_WHOLE = re.compile(r"\s*[-+]?[0-9]{1,18}\s*")
_MOST_NUMBERS = 20_000


def _status(status: int, tree: Tree, arguments: list[str], stdin: Input) -> str:
    if status:
        raise Failed("")
    return ""


def _test(tree: Tree, arguments: list[str], stdin: Input, *, end: str = "") -> str:
    words = list(arguments)
    if end and (not words or words.pop() != end):
        raise Failed(f"missing {end}", status=2)
    if not _either(tree, words):
        raise Failed("")
    return ""


def _either(tree: Tree, words: list[str]) -> bool:
    """Returns the value of tests with -o and -a, of which -a binds more."""
    for operator, decide in (("-o", any), ("-a", all)):
        if operator in words[1:-1] and len(words) > 3:
            place = words.index(operator, 1)
            parts = [words[:place], words[place + 1 :]]
            return decide([_either(tree, part) for part in parts])
    if words[:1] == ["!"] and len(words) > 1:
        return not _either(tree, words[1:])
    if len(words) < 2:
        return bool(words and words[0])
    if len(words) == 2:
        return _one(tree, *words)
    if len(words) == 3:
        return _two(*words)
    raise Failed("too many arguments", status=2)


def _one(tree: Tree, operator: str, word: str) -> bool:
    if operator in ("-z", "-n"):
        return (word == "") == (operator == "-z")
    if operator not in ("-e", "-f", "-d", "-s", "-r", "-L", "-h"):
        raise Unknown(f"unknown test {operator[:40]!r}: use -e, -f, -d, -s, -r, -z or -n")
    try:
        full = tree.existing(word)
    except Failed:
        return False
    folder = full in tree.folders
    return {
        "-e": True,
        "-f": not folder,
        "-d": folder,
        "-s": folder or bool(tree.files[full]),
        "-r": folder or tree.readable(full),
    }.get(operator, False)  # there are no links


def _two(first: str, operator: str, second: str) -> bool:
    if operator in ("=", "=="):
        return first == second
    if operator == "!=":
        return first != second
    order = {"-eq": (0,), "-ne": (-1, 1), "-lt": (-1,), "-le": (-1, 0), "-gt": (1,), "-ge": (0, 1)}
    if operator not in order:
        raise Unknown(f"unknown test {operator[:40]!r}: use =, !=, -eq, -ne, -lt, -le, -gt or -ge")
    left, right = _integer(first), _integer(second)
    return (left > right) - (left < right) in order[operator]


def _integer(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise Failed(f"{text[:40]}: integer expected", status=2)
    return int(text)


def _printf(tree: Tree, arguments: list[str], stdin: Input) -> str:
    words = arguments[1:] if arguments[:1] == ["--"] else list(arguments)
    if not words or words[0].startswith("-"):
        raise Unknown("use printf FORMAT VALUES")
    shape, left = unescaped(words[0]), words[1:]
    needed = count(shape)
    output = formatted(shape, left[:needed] or [""] * needed, _amount, str)
    while needed and (left := left[needed:]):
        values = [*left[:needed], *[""] * (needed - len(left))]
        output = bounded(output + formatted(shape, values, _amount, str))
    return output


def _amount(text: str) -> float:
    if not re.fullmatch(r"[-+]?(?:[1-9][0-9]{0,14}|0|)(?:\.[0-9]{1,15})?", text):
        raise Failed(f"{text[:40]}: expected a number")
    return float(text or "0")


def _seq(tree: Tree, arguments: list[str], stdin: Input) -> str:
    end = next(
        (i for i, word in enumerate(arguments) if re.match(r"-?[0-9]", word)), len(arguments)
    )
    found, extra = options(arguments[:end], "", "s")
    words = [*extra, *arguments[end:]]
    if not 1 <= len(words) <= 3:
        raise Failed("use seq FIRST STEP LAST")
    if not all(map(_WHOLE.fullmatch, words)):
        raise Unknown("numbers that are not whole are not supported")
    first, step, last = [1, 1, int(words[-1])] if len(words) == 1 else (
        int(words[0]), int(words[1]) if len(words) == 3 else 1, int(words[-1])
    )  # fmt: skip
    if step == 0:
        raise Failed("the step is not 0")
    numbers = range(first, last + (1 if step > 0 else -1), step)
    if len(numbers) > _MOST_NUMBERS:
        raise Failed("too many numbers")
    return found.get("s", "\n").join(map(str, numbers)) + "\n" * bool(numbers)


def _tee(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "a")
    text = stdin.read()

    def write(file: str) -> str:
        tree.write(file, text, append="a" in found)
        return ""

    try:
        per_operand(files, write)
    except Failed as error:
        raise Failed(str(error), text) from None
    return text


def _digest(name: str, tree: Tree, arguments: list[str], stdin: Input) -> str:
    files = options(arguments, "")[1]

    def line(file: str) -> str:
        data = contents(tree, [file], stdin).encode("utf-8", "replace")
        return f"{hashlib.new(name, data, usedforsecurity=False).hexdigest()}  {file}\n"

    return per_operand(files or ["-"], line)


def _nl(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "", "b")
    kind = found.get("b", "t")
    if kind not in ("a", "t"):
        raise Unknown("use nl -b a or nl -b t")

    def numbered(text: str) -> str:
        rows, place = [], 0
        for line in lines(text):
            place += bool(line) or kind == "a"
            rows.append(f"{place:>6}\t{line}" if line or kind == "a" else " " * 7)
        return joined(rows)

    return filtered(tree, files, stdin, numbered, separate=True)


def _paste(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "s", "d")
    mark = unescaped(found.get("d", "\t"))
    if len(mark) > 1:
        raise Unknown("several characters of -d are not supported")
    rows = [lines(contents(tree, [file], stdin)) for file in files or ["-"]]
    if files.count("-") > 1:
        raise Unknown("- can be given only once")
    if "s" in found:
        return joined([mark.join(row) for row in rows])
    size = max(map(len, rows))
    return joined([mark.join(r[i] if i < len(r) else "" for r in rows) for i in range(size)])


def _stat(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, paths = options(_long(arguments), "", "c")
    if "c" not in found:
        raise Unknown("use stat -c '%s %n' FILE")

    def described(path: str) -> str:
        full = tree.existing(path)

        def value(match: re.Match[str]) -> str:
            folder = full in tree.folders
            if match[1] == "n":
                return path
            if match[1] == "F":
                empty = "" if folder or tree.files[full] else "empty "
                return "directory" if folder else f"regular {empty}file"
            if match[1] == "s" and not folder:
                return str(len(tree.files[full].encode("utf-8", "replace")))
            raise Unknown(f"%{match[1]} is not supported here: use %n, %F, and %s of files")

        return re.sub("%(.?)", value, found["c"]) + "\n"

    return per_operand(some(paths), described)


def _long(arguments: list[str]) -> list[str]:
    """Returns the arguments of stat with the short form of --format."""
    shorter: list[str] = []
    for word in arguments:
        name, equals, value = word.partition("=")
        shorter += ["-c", value] if name == "--format" and equals else [word]
    return ["-c" if word == "--format" else word for word in shorter]


def _comm(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "123")
    if len(files) != 2:
        raise Failed("expected two files")
    first, second = (lines(contents(tree, [file], stdin)) for file in files)
    if first != sorted(first) or second != sorted(second):
        raise Failed("the files are not sorted")
    starts = {
        kind: "\t" * sum(other not in found for other in "123"[: int(kind) - 1]) for kind in "123"
    }
    rows: list[tuple[str, str]] = []
    while first or second:
        low = min(first[:1] + second[:1])
        kind = "3" if first[:1] == second[:1] else "1" if first[:1] == [low] else "2"
        rows.append((kind, low))
        first = first[1:] if kind in "13" else first
        second = second[1:] if kind in "23" else second
    return joined([starts[kind] + line for kind, line in rows if kind not in found])


def _grep_extended(letter: str, tree: Tree, arguments: list[str], stdin: Input) -> str:
    return grep(tree, [letter, *arguments], stdin)


COMMANDS: dict[str, Command] = {
    **{name: awk for name in ("awk", "gawk", "mawk")},
    "true": partial(_status, 0),
    ":": partial(_status, 0),
    "false": partial(_status, 1),
    "test": _test,
    "[": partial(_test, end="]"),
    "printf": _printf,
    "seq": _seq,
    "tee": _tee,
    "md5sum": partial(_digest, "md5"),
    "sha1sum": partial(_digest, "sha1"),
    "sha256sum": partial(_digest, "sha256"),
    "nl": _nl,
    "paste": _paste,
    "stat": _stat,
    "comm": _comm,
    "diff": diff,
    "egrep": partial(_grep_extended, "-E"),
    "fgrep": partial(_grep_extended, "-F"),
}
