"""The command sed."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from agentgym.envs.shell.arguments import (
    LARGEST,
    Input,
    filtered,
    lines,
    options,
    per_operand,
    repeated,
)
from agentgym.envs.shell.grep import is_folder
from agentgym.envs.shell.patterns import Pattern, Work
from agentgym.envs.shell.tree import Failed, Tree, Unknown

MOST_COMMANDS = 20
_NAMES = {
    "--quiet": "n", "--silent": "n", "--in-place": "i", "--regexp-extended": "E",
}  # fmt: skip
_SPACE = re.compile(r"[\s;]*")
_PATTERN = re.compile(
    r"/((?:\\.|\[\^?\]?[^\]\n]*\]|[^/\\\n\[])*)/(I?)|\\(.)((?:\\.|(?!\3).)*)\3(I?)"
)
_LINE = re.compile(r"[0-9]{1,6}|\$")
_FLAGS = re.compile(r"[gpiI0-9]*")
_PART = re.compile(r"\\(.)|(&)|([^\\&]+)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def sed(tree: Tree, arguments: list[str], stdin: Input) -> str:
    """Returns the edited lines of files, or edits the files.

    Raises:
        Failed: if a file cannot be read.
        Unknown: for a script that is not supported.
    """
    scripts, rest = repeated(arguments, "nErs", "expression")
    before = itertools.takewhile("--".__ne__, rest)
    if any(re.fullmatch(r"-[nErs]*i[^nErs].*", word) for word in before):
        raise Unknown("a suffix of -i is not supported")
    found, operands = options(rest, "inErs", "", _NAMES)
    if not scripts:
        scripts = [operands.pop(0) if operands else ""]
    edit = _Edit("\n".join(scripts), extended=bool({"E", "r"} & set(found)), quiet="n" in found)
    try:
        return _edited(tree, operands, stdin, edit, found)
    finally:
        stdin.work += edit.work.count


def _edited(
    tree: Tree, operands: list[str], stdin: Input, edit: _Edit, found: dict[str, str]
) -> str:
    """Returns the edited lines of files, or edits the files."""
    folder = next((i for i, f in enumerate(operands) if is_folder(tree, f)), len(operands))
    operands = operands[: folder + 1]  # sed stops at a folder
    if "i" not in found and "s" not in found:
        return filtered(tree, operands, stdin, edit, separate=True, status=2)
    if not operands:
        raise Failed("option -i needs a file")

    def rewrite(file: str) -> str:
        text = edit(tree.read(file))
        if "i" not in found:
            return text
        tree.write(file, text)
        return ""

    return per_operand(operands, rewrite, 2)


Address = int | str | Pattern
"""The number of a line, "$" for the last one, or a pattern."""


@dataclass
class _Command:
    """A command of a script.

    Attributes:
        action: its letter.
        addresses: the lines that are meant: all, one, or the first and the last one.
        others: whether all other lines are meant.
        pattern: the pattern of s.
        text: the replacement of s, or the text of a, i and c.
        flags: the flags of s.
        number: the match at which s starts.
        mapping: the characters of y.
        inside: whether a range has begun.
    """

    action: str
    addresses: list[Address]
    others: bool = False
    pattern: Pattern | None = None
    text: str = ""
    flags: str = ""
    number: int = 1
    mapping: dict[int, str] = field(default_factory=dict)
    inside: bool = False

    def meant(self, place: int, count: int, line: str) -> bool:
        """Whether a line is meant."""
        return self._within(place, count, line) != self.others

    def _within(self, place: int, count: int, line: str) -> bool:
        if not self.addresses:
            return True
        first, *last = self.addresses
        if not last:
            return _at(first, place, count, line)
        end = last[0]
        if self.inside:
            if isinstance(end, int) and place > end:  # the range has ended at its first line
                self.inside = False
                return _at(first, place, count, line)
            self.inside = not _at(end, place, count, line)
            return True
        begins = _at(first, place, count, line)
        passed = isinstance(end, int) and place >= end
        self.inside = begins and not passed and not (end == "$" and place == count)
        return begins


def _at(address: Address, place: int, count: int, line: str) -> bool:
    if isinstance(address, Pattern):
        return address.search(line) is not None
    return place == (count if address == "$" else address)


class _Edit:
    """A script: `s/pattern/text/gip`, `3p`, `2,5d`, `/pattern/d`, `y/ab/cd/`, `1i text`, `2q`."""

    def __init__(self, script: str, *, extended: bool, quiet: bool):
        self.script, self.place = script, 0
        self.extended, self.quiet = extended, quiet
        self.commands: list[_Command] = []
        self.work = Work()
        while (match := _SPACE.match(script, self.place)) is not None:
            self.place = match.end()
            if self.place >= len(script):
                break
            self.commands.append(self._command())
            if len(self.commands) > MOST_COMMANDS:
                raise Failed(f"a script has at most {MOST_COMMANDS} commands")
        if not self.commands:
            raise self._error()

    def _error(self) -> Unknown:
        return Unknown(f"unknown script {self.script[:60]!r}: use s/a/b/, 3p, 2,5d or /a/d")

    def _next(self) -> str:
        return self.script[self.place : self.place + 1]

    def _command(self) -> _Command:
        addresses = self._addresses()
        if others := self._next() == "!":
            self.place += 1
        command = _Command(self._next(), addresses, others)
        self.place += 1
        if command.action == "s":
            self._substitution(command)
        elif command.action == "y":
            first, second = self._two()
            first, second = (re.sub(r"\\(.)", _plain, part) for part in (first, second))
            if len(first) != len(second):
                raise Failed("y needs as many characters as it replaces")
            command.mapping = dict(zip(map(ord, first), second, strict=True))
        elif command.action in tuple("aic"):
            match = re.compile(r"(?:[ \t]*\\\n?)?[ \t]*([^\n]*)").match(self.script, self.place)
            assert match is not None
            if not match[1] or "\\" in match[1]:
                raise self._error()
            command.text, self.place = f"{match[1]}\n", match.end()
            if command.action == "c" and len(addresses) > 1:
                raise self._error()
        elif command.action not in tuple("pdq=") or (command.action == "q" and len(addresses) > 1):
            raise self._error()
        if not re.compile(r"[ \t]*(?:$|[;\n])").match(self.script, self.place):
            raise self._error()
        return command

    def _addresses(self) -> list[Address]:
        found: list[Address] = []
        while len(found) < 2:
            if match := _LINE.match(self.script, self.place):
                found.append("$" if match[0] == "$" else int(match[0]))
                if found[0] == 0:
                    raise self._error()
            elif match := _PATTERN.match(self.script, self.place):
                mark = match[3] or "/"
                source = match[1] if match[1] is not None else match[4]
                found.append(self._pattern(source, mark, bool(match[2] or match[5])))
            else:
                break
            self.place = match.end()
            if self._next() != ",":
                break
            self.place += 1
        if self.place and self.script[self.place - 1] == "," and found and len(found) < 2:
            raise self._error()
        return found

    def _pattern(self, source: str, mark: str, ignore_case: bool) -> Pattern:
        if not source:
            raise Unknown("an empty pattern is not supported")
        source = source.replace(f"\\{mark}", mark)
        source = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), source)
        return Pattern(source, extended=self.extended, ignore_case=ignore_case, work=self.work)

    def _two(self) -> tuple[str, str]:
        """Reads two texts between marks."""
        mark = re.escape(self._next())
        match = re.compile(
            rf"{mark}((?:\\.|\[\^?\]?[^]\n]*\]|(?!{mark})[^\\])*){mark}((?:\\.|(?!{mark})[^\\])*){mark}",
            re.DOTALL,
        ).match(self.script, self.place)
        if match is None or mark in ("\\\\", "\\\n", ""):
            raise self._error()
        self.place = match.end()
        return match[1], match[2]

    def _substitution(self, command: _Command) -> None:
        mark = self._next()
        source, command.text = self._two()
        match = _FLAGS.match(self.script, self.place)
        assert match is not None
        self.place = match.end()
        command.flags = re.sub("[0-9]", "", match[0]).lower()
        command.number = int(re.sub("[^0-9]", "", match[0]) or 1)
        command.pattern = self._pattern(source, mark, "i" in command.flags)
        groups = [int(digit) for digit in re.findall(r"(?<!\\)\\([1-9])", command.text)]
        if wrong := re.search(r"(?<!\\)\\([LUEluE])", command.text):
            raise Unknown(f"{wrong[0]} is not supported in the replacement")
        if max(groups, default=0) > command.pattern.groups:
            raise Failed(f"there is no group \\{max(groups)}")
        command.text = command.text.replace(f"\\{mark}", mark) if mark not in "&n" else command.text

    def __call__(self, text: str) -> str:
        """Returns the edited text."""
        rows, shown, size = lines(text), list[str](), 0
        for command in self.commands:
            command.inside = False
        for place, line in enumerate(rows, start=1):
            output, whole, goes_on = self._line(place, len(rows), line)
            if output and whole and place == len(rows) and not text.endswith("\n"):
                output[-1] = output[-1][:-1]
            shown += output
            size += sum(map(len, output))
            if size > LARGEST:
                raise Failed("output too large")
            if not goes_on:
                break
        return "".join(shown)

    def _line(self, place: int, count: int, line: str) -> tuple[list[str], bool, bool]:
        """Returns the output for a line, whether the line ends it, and whether more follows."""
        before: list[str] = []
        after: list[str] = []
        goes_on, kept = True, not self.quiet
        for command in self.commands:
            if not command.meant(place, count, line):
                continue
            action = command.action
            if action == "d":
                kept = False
                break
            if action == "c":
                return [*before, command.text, *after], False, True
            if action == "s":
                line, hit = _replaced(command, line)
                if hit and "p" in command.flags:
                    before.append(f"{line}\n")
            elif action == "y":
                line = line.translate(command.mapping)
            elif action == "a":
                after.append(command.text)
            elif action == "q":
                goes_on = False
                break
            else:
                texts = {"p": f"{line}\n", "=": f"{place}\n", "i": command.text}
                before.append(texts[action])
        shown = [*before, *([f"{line}\n"] if kept else []), *after]
        return shown, not after, goes_on


def _plain(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])


def _replaced(command: _Command, line: str) -> tuple[str, bool]:
    pattern, text = command.pattern, command.text
    assert pattern is not None
    grouped = re.search(r"\\[0-9]", text) is not None

    def inserted(match: tuple[int, int]) -> str:
        groups = pattern.captured(line, *match) if grouped else []

        def part(found: re.Match[str]) -> str:
            if found[2] or found[1] == "0":
                return line[slice(*match)]
            if found[1] and found[1].isdigit():
                return groups[int(found[1]) - 1]
            return _plain(found) if found[1] else found[0]

        return _PART.sub(part, text)

    every = "g" in command.flags
    done, count = pattern.replaced(line, inserted, every=every, first=command.number)
    return done, count > 0
