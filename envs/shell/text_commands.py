"""Commands on text: cat, head, tail, wc, grep, sort, uniq, cut, tr, sed, rev, base64."""

from __future__ import annotations

import base64
import binascii
import itertools
import re
import string
from collections.abc import Callable

from agentgym.envs.shell.arguments import LARGEST, bounded, contents, joined, lines, number, options
from agentgym.envs.shell.patterns import Pattern
from agentgym.envs.shell.tree import Failed, Tree

_NUMBER = re.compile(r"\s{0,20}(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)")
_KEY = re.compile(r"([0-9]{1,6})([nrf]*)(?:,([0-9]{1,6})([nrf]*))?")
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


def _cat(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, files = options(arguments, "nb", names=_CAT_NAMES)
    text = contents(tree, files, stdin)
    if not found:
        return text
    places, numbered = itertools.count(1), r"^(?=.)" if "b" in found else r"^(?=.|\n)"
    return re.sub(numbered, lambda _: f"{next(places):>6}\t", text, flags=re.MULTILINE)


def _tac(tree: Tree, arguments: list[str], stdin: str) -> str:
    texts = (contents(tree, [file], stdin) for file in arguments or ["-"])
    return "".join("".join(_ended_lines(text)[::-1]) for text in texts)


def _rev(tree: Tree, arguments: list[str], stdin: str) -> str:
    texts = (contents(tree, [file], stdin) for file in arguments or ["-"])
    return "".join(re.sub(r"[^\n]+", lambda line: line[0][::-1], text) for text in texts)


def _head(tree: Tree, arguments: list[str], stdin: str) -> str:
    count, files = _count(arguments)
    stop = number(count)
    return _of_each(tree, files, stdin, lambda found: found[:stop])


def _tail(tree: Tree, arguments: list[str], stdin: str) -> str:
    count, files = _count(arguments)
    if count.startswith("+"):
        start = max(0, number(count[1:]) - 1)
        return _of_each(tree, files, stdin, lambda found: found[start:])
    kept = number(count)
    return _of_each(tree, files, stdin, lambda found: found[max(0, len(found) - kept) :])


def _of_each(
    tree: Tree, files: list[str], stdin: str, part: Callable[[list[str]], list[str]]
) -> str:
    """Returns a part of the lines of each file, below its name if there are several."""
    texts = [contents(tree, [file], stdin) for file in files or ["-"]]
    texts = ["".join(part(_ended_lines(text))) for text in texts]
    if len(texts) == 1:
        return texts[0]
    return "\n".join(f"==> {file} <==\n{text}" for file, text in zip(files, texts, strict=True))


def _ended_lines(text: str) -> list[str]:
    """Returns the lines of a text with their ends, which the last one may lack."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _count(arguments: list[str]) -> tuple[str, list[str]]:
    if arguments and re.fullmatch(r"-[0-9]{1,6}", arguments[0]):
        return arguments[0][1:], arguments[1:]
    found, files = options(arguments, "", "n")
    return found.get("n", "10"), files


def _wc(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, files = options(arguments, "lwcm")
    rows = []
    for file in files or [""]:
        text = tree.read(file) if file else stdin
        size = len(text.encode("utf-8", "replace"))
        sizes = {"l": text.count("\n"), "w": len(text.split()), "c": size, "m": len(text)}
        kinds = [kind for kind in "lwcm" if kind in found] or ["l", "w", "c"]
        rows.append(([sizes[kind] for kind in kinds], file))
    if len(rows) > 1:
        totals = [sum(column) for column in zip(*(row for row, _ in rows), strict=True)]
        rows.append((totals, "total"))
    return joined([" ".join([*map(str, row), *([name] if name else [])]) for row, name in rows])


_GREP_NAMES = {"--ignore-case": "i", "--count": "c", "--recursive": "r", "--invert-match": "v"}


def _grep(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, operands = options(arguments, "ivcnrRlEFhHowq", "e", _GREP_NAMES)
    source = found["e"] if "e" in found else operands.pop(0) if operands else None
    if source is None:
        raise Failed("expected a pattern")
    if "F" in found:
        source = re.sub(r"([.*^$\[\\])", r"\\\1", source)
    pattern = Pattern(source, extended="E" in found, ignore_case="i" in found)
    recursive = bool({"r", "R"} & set(found))
    files = _searched(tree, operands or ([""] if recursive else []), recursive)
    named = "h" not in found and (recursive or len(files) > 1 or "H" in found)
    output: list[str] = []
    matched = False
    for file in files or ["-"]:
        before = f"{file}:" if named else ""
        text = stdin if file == "-" else tree.read(file)
        hits = _hits(pattern, lines(text), found)
        matched = matched or bool(hits)
        if "l" in found:
            output += [file] if hits else []
        elif "c" in found:
            output.append(f"{before}{len(hits)}")
        elif "q" not in found:
            for place, line in hits:
                shown = f"{before}{place}:" if "n" in found else before
                parts = _parts(pattern, line) if "o" in found and "v" not in found else [line]
                output += [shown + part for part in parts]
    if not matched:
        raise Failed("", joined(output))
    return joined(output)


def _searched(tree: Tree, paths: list[str], recursive: bool) -> list[str]:
    """Returns the files that grep searches."""
    found = []
    for path in paths:
        full = tree.absolute(path or ".") if path != "-" else path
        if recursive and full in tree.folders:
            start = path.rstrip("/") + "/" if path else ""
            skip = len(full.rstrip("/")) + 1
            files = filter(tree.readable, tree.below(full)[1])
            found += [start + file[skip:] for file in files]
        else:
            found.append(path)
    return found


def _hits(pattern: Pattern, found: list[str], given: dict[str, str]) -> list[tuple[int, str]]:
    hits = []
    for place, line in enumerate(found, start=1):
        match = _word_match(pattern, line) if "w" in given else pattern.search(line) is not None
        if match != ("v" in given):
            hits.append((place, line))
    return hits


def _word_match(pattern: Pattern, line: str) -> bool:
    """Returns whether a match is not next to a letter, a digit or an underscore."""
    begin = 0
    while (match := pattern.search(line, begin)) is not None:
        start, end = match
        around = line[max(0, start - 1) : start] + line[end : end + 1]
        if not any(char.isalnum() or char == "_" for char in around):
            return True
        begin = start + 1
    return False


def _parts(pattern: Pattern, line: str) -> list[str]:
    found, begin = [], 0
    while begin <= len(line) and (match := pattern.search(line, begin)) is not None:
        start, end = match
        if end > start:
            found.append(line[start:end])
        begin = max(end, start + 1)
    return found


def _sort(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, files = options(arguments, "nruf", "kt")
    rows = lines(contents(tree, files, stdin, separate=True))
    separator = found.get("t")
    if separator is not None and len(separator) != 1:
        raise Failed("option -t needs one character")
    key = _KEY.fullmatch(found.get("k", "1"))
    if key is None:
        raise Failed(f"invalid key {found['k'][:40]!r}: use -k 2 or -k 2,3 with letters n, r or f")
    start, stop = int(key[1]), int(key[3] or "999999")
    # A key with letters of its own does not inherit the options.
    letters = key[2] + (key[4] or "") or "".join(found)

    def order(line: str) -> float | str:
        text = line
        if "k" in found:
            parts = line.split(separator)
            text = (separator or " ").join(parts[max(0, start - 1) : stop])
        if "n" in letters:
            value = _NUMBER.match(text)
            return float(value[1]) if value else 0.0
        return text.lower() if "f" in letters else text

    if "u" not in found:
        rows.sort(reverse="r" in found)  # decides between lines with equal keys
    rows.sort(key=order, reverse="r" in letters)
    if "u" in found:
        rows = [next(group) for _, group in itertools.groupby(rows, key=order)]
    return joined(rows)


def _uniq(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, files = options(arguments, "cdu")
    shown = []
    for line, group in itertools.groupby(lines(contents(tree, files, stdin))):
        count = sum(1 for _ in group)
        if ("d" in found and count == 1) or ("u" in found and count > 1):
            continue
        shown.append(f"{count:>7} {line}" if "c" in found else line)
    return joined(shown)


def _cut(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, files = options(arguments, "", "dfc")
    if ("f" in found) == ("c" in found):
        raise Failed("expected -f or -c with a list such as 1,3-4")
    ranges = [_range(part) for part in (found.get("f") or found.get("c") or "").split(",")]
    separator = found.get("d", "\t")
    if len(separator) != 1:
        raise Failed("option -d needs one character")
    shown = []
    for line in lines(contents(tree, files, stdin, separate=True)):
        if "f" in found and separator not in line:
            shown.append(line)
            continue
        parts = line.split(separator) if "f" in found else list(line)
        kept = [p for i, p in enumerate(parts, 1) if any(low <= i <= high for low, high in ranges)]
        shown.append((separator if "f" in found else "").join(kept))
    return joined(shown)


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    low = number(first or "1") if dash else number(first)
    return low, number(last or "999999") if dash else low


def _tr(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, sets = options(arguments, "ds")
    if len(sets) != (1 if found else 2):
        raise Failed("expected two sets of characters, or -d or -s with one")
    first = _characters(sets[0])
    if "d" in found:
        return stdin.translate(dict.fromkeys(map(ord, first)))
    if "s" in found:
        groups = ((char, list(group)) for char, group in itertools.groupby(stdin))
        return "".join(char if char in first else "".join(group) for char, group in groups)
    second = _characters(sets[1])
    if not second:
        raise Failed("the second set is empty")
    second = second.ljust(len(first), second[-1])
    return stdin.translate({ord(a): b for a, b in reversed(list(zip(first, second, strict=False)))})


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


def _sed(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, operands = options(arguments, "inEr", "e")
    script = found["e"] if "e" in found else operands.pop(0) if operands else ""
    edit = _Edit(script, extended=bool({"E", "r"} & set(found)), quiet="n" in found)
    if "i" not in found:
        return edit(contents(tree, operands, stdin, separate=True))
    for file in operands:
        tree.write(file, edit(tree.read(file)))
    return ""


class _Edit:
    """A script of sed: `s/pattern/text/gip`, `3p`, `2,5d`, `/pattern/d`."""

    def __init__(self, script: str, *, extended: bool, quiet: bool):
        self.quiet = quiet
        substitution, address = _SUBSTITUTION.fullmatch(script), _ADDRESS.fullmatch(script)
        self.pattern: Pattern | None = None
        if substitution is not None:
            _, source, self.text, self.flags = substitution.groups()
            if re.search(r"\\[0-9]", self.text):
                raise Failed("groups such as \\1 are not supported in the replacement")
            source = source.replace(f"\\{script[1]}", script[1])
            self.pattern = Pattern(source, extended=extended, ignore_case="i" in self.flags)
            self.action = "s"
        elif address is not None:
            self.first, self.last, source, self.action = address.groups()
            if source is not None:
                self.pattern = Pattern(source, extended=extended)
        else:
            raise Failed(f"unknown script {script[:60]!r}: use s/a/b/, 3p, 2,5d or /a/d")

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


def _base64(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, files = options(arguments, "d", names={"--decode": "d"})
    text = contents(tree, files, stdin)
    if "d" not in found:
        return base64.b64encode(text.encode("utf-8", "replace")).decode() + "\n"
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise Failed("invalid input") from None


COMMANDS = {
    "cat": _cat,
    "tac": _tac,
    "rev": _rev,
    "head": _head,
    "tail": _tail,
    "wc": _wc,
    "grep": _grep,
    "sort": _sort,
    "uniq": _uniq,
    "cut": _cut,
    "tr": _tr,
    "sed": _sed,
    "base64": _base64,
}
