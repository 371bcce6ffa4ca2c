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
    bounded,
    contents,
    filtered,
    joined,
    lines,
    number,
    options,
    per_operand,
)
from agentgym.envs.shell.grep import grep, is_folder
from agentgym.envs.shell.patterns import Pattern
from agentgym.envs.shell.tree import Failed, Tree, Unknown

_NUMBER = re.compile(r"\s{0,20}(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)")
_KEY = re.compile(r"(0*[1-9][0-9]{0,5})([nrf]*)(?:,(0*[1-9][0-9]{0,5})([nrf]*))?")
_SUBSTITUTION = re.compile(
    r"s([^\\\n])((?:\\.|(?!\1)[^\\])*)\1((?:\\.|(?!\1)[^\\])*)\1([gip]*)", re.DOTALL
)
_CHARACTER = re.compile(r"\[:([a-z]+):\]|\\(.)|(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_CLASSES = {
    "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "alpha": string.ascii_uppercase + string.ascii_lowercase,
    "digit": string.digits,
    "alnum": string.digits + string.ascii_uppercase + string.ascii_lowercase,
    "punct": string.punctuation,
    "space": string.whitespace,
}
_ADDRESS = re.compile(r"(?:(0*[1-9][0-9]{0,5}|\$)(?:,([0-9]{1,6}|\$))?|/((?:\\.|[^/\\])*)/)([pd])")


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
    count, files = _count(arguments)
    stop = number(count)
    return _of_each(tree, files, stdin, lambda found: found[:stop])


def _tail(tree: Tree, arguments: list[str], stdin: Input) -> str:
    count, files = _count(arguments)
    if count.startswith("+"):
        start = max(0, number(count[1:]) - 1)
        return _of_each(tree, files, stdin, lambda found: found[start:])
    kept = number(count)
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


def _sort(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "nruf", "kt")
    separator = found.get("t")
    if separator is not None and len(separator) != 1:
        raise Failed("option -t needs one character")
    key = _KEY.fullmatch(found.get("k", "1"))
    if key is None:
        raise Failed(f"invalid key {found['k'][:40]!r}: use -k 2 or -k 2,3 with letters n, r or f")
    try:
        rows = lines(contents(tree, files, stdin, separate=True))
    except Failed as error:  # nothing is sorted unless all files can be read
        raise Failed(str(error), status=2) from None
    start, stop = int(key[1]), int(key[3] or "999999")
    # A key with letters of its own does not inherit the options.
    letters = key[2] + (key[4] or "") or "".join(found)

    def order(line: str) -> float | str:
        text = _key(line, separator, start, stop) if "k" in found else line
        if "n" in letters:
            value = _NUMBER.match(text)
            return float(value[1]) if value else 0.0
        return text.upper() if "f" in letters else text

    if "u" not in found:
        rows.sort(reverse="r" in found)  # decides between lines with equal keys
    rows.sort(key=order, reverse="r" in letters)
    if "u" in found:
        rows = [next(group) for _, group in itertools.groupby(rows, key=order)]
    return joined(rows)


def _key(line: str, separator: str | None, start: int, stop: int) -> str:
    """Returns some fields of a line. Without a separator, a field has the blanks before it."""
    if separator is None:
        return "".join(re.findall(r"[ \t]*[^ \t]+|[ \t]+$", line)[start - 1 : stop])
    return separator.join(line.split(separator)[start - 1 : stop])


def _uniq(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "cdu")
    if len(files) > 2:
        raise Failed(f"extra operand {files[2][:200]!r}")
    shown = []
    for line, group in itertools.groupby(lines(contents(tree, files[:1], stdin))):
        count = sum(1 for _ in group)
        if ("d" in found and count == 1) or ("u" in found and count > 1):
            continue
        shown.append(f"{count:>7} {line}" if "c" in found else line)
    if len(files) < 2 or files[1] == "-":
        return joined(shown)
    tree.write(files[1], joined(shown))
    return ""


def _cut(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "", "dfc")
    if ("f" in found) == ("c" in found):
        raise Failed("expected -f or -c with a list such as 1,3-4")
    if "d" in found and "c" in found:
        raise Failed("option -d needs -f")
    ranges = [_range(part) for part in (found.get("f") or found.get("c") or "").split(",")]
    separator = found.get("d", "\t")
    if len(separator) != 1:
        raise Failed("option -d needs one character")

    def selected(line: str) -> str:
        if "f" in found and separator not in line:
            return line
        parts = line.split(separator) if "f" in found else list(line)
        kept = [p for i, p in enumerate(parts, 1) if any(low <= i <= high for low, high in ranges)]
        return (separator if "f" in found else "").join(kept)

    def edit(text: str) -> str:
        return joined([selected(line) for line in lines(text)])

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
    found, sets = options(arguments, "ds")
    if len(sets) != (1 if found else 2) or len(found) > 1:
        raise Failed("expected two sets of characters, or -d or -s with one")
    first, text = _characters(sets[0]), stdin.read()
    if "d" in found:
        return text.translate(dict.fromkeys(map(ord, first)))
    if "s" in found:
        groups = ((char, list(group)) for char, group in itertools.groupby(text))
        return "".join(char if char in first else "".join(group) for char, group in groups)
    second = _characters(sets[1])
    if not second:
        raise Failed("the second set is empty")
    second = second.ljust(len(first), second[-1])
    return text.translate({ord(a): b for a, b in reversed(list(zip(first, second, strict=False)))})


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


def _sed(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, operands = options(arguments, "inEr", "e")
    script = found["e"] if "e" in found else operands.pop(0) if operands else ""
    edit = _Edit(script, extended=bool({"E", "r"} & set(found)), quiet="n" in found)
    folder = next((i for i, f in enumerate(operands) if is_folder(tree, f)), len(operands))
    operands = operands[: folder + 1]  # sed stops at a folder
    if "i" not in found:
        return filtered(tree, operands, stdin, edit, separate=True, status=2)
    if not operands:
        raise Failed("option -i needs a file")

    def rewrite(file: str) -> str:
        tree.write(file, edit(tree.read(file)))
        return ""

    return per_operand(operands, rewrite, 2)


class _Edit:
    """A script of sed: `s/pattern/text/gip`, `3p`, `2,5d`, `/pattern/d`."""

    def __init__(self, script: str, *, extended: bool, quiet: bool):
        self.quiet = quiet
        substitution, address = _SUBSTITUTION.fullmatch(script), _ADDRESS.fullmatch(script)
        self.pattern: Pattern | None = None
        if substitution is not None:
            _, source, self.text, self.flags = substitution.groups()
            if re.search(r"\\[0-9]", self.text):
                raise Unknown("groups such as \\1 are not supported in the replacement")
            source = source.replace(f"\\{script[1]}", script[1])
            self.pattern = Pattern(source, extended=extended, ignore_case="i" in self.flags)
            self.action = "s"
        elif address is not None:
            self.first, self.last, source, self.action = address.groups()
            if source is not None:
                self.pattern = Pattern(source, extended=extended)
        else:
            raise Unknown(f"unknown script {script[:60]!r}: use s/a/b/, 3p, 2,5d or /a/d")

    def __call__(self, text: str) -> str:
        rows, shown, size, times = lines(text), [], 0, 0
        for place, line in enumerate(rows, start=1):
            hit = False
            if self.action == "s":
                line, hit = self._replaced(line)
                hit = hit and "p" in self.flags
            else:
                hit = self._addressed(place, len(rows), line)
            kept = not self.quiet and not (self.action == "d" and hit)
            shown += [line] * (times := kept + (hit and self.action != "d"))
            size += len(line)
            if size > LARGEST:
                raise Failed("output too large")
        output = joined(shown)
        return output if not times or text.endswith("\n") else output[:-1]

    def _addressed(self, place: int, count: int, line: str) -> bool:
        if self.pattern is not None:
            return self.pattern.search(line) is not None
        first = count if self.first == "$" else int(self.first)
        last = first if self.last is None else count if self.last == "$" else int(self.last)
        return first <= place <= max(first, last)

    def _replaced(self, line: str) -> tuple[str, bool]:
        assert self.pattern is not None
        done, begin, last, hit = "", 0, -1, False
        while begin <= len(line) and (match := self.pattern.search(line, begin)) is not None:
            start, end = match
            done = bounded(done + line[begin:start])
            if end > start or start != last:  # no empty match right after a match
                done, hit = done + self._inserted(line[start:end]), True
            if end == start:
                done += line[start : start + 1]
            begin, last = max(end, start + 1), end
            if hit and "g" not in self.flags:
                break
        return done + line[begin:], hit

    def _inserted(self, match: str) -> str:
        return re.sub(r"\\(.)|&", lambda m: _ESCAPES.get(m[1], m[1]) or match, self.text)


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
    "sort": _sort,
    "uniq": _uniq,
    "cut": _cut,
    "tr": _tr,
    "sed": _sed,
    "base64": _base64,
}
