"""The command awk. It has no functions of one's own, and neither writes files nor runs commands."""

from __future__ import annotations

import re
from contextlib import suppress

from agentgym.envs.shell.arguments import LARGEST, Input, contents, filtered, lines
from agentgym.envs.shell.awk_reader import Node, Reader, Rule
from agentgym.envs.shell.awk_tokens import unescaped
from agentgym.envs.shell.awk_values import Field, Values
from agentgym.envs.shell.formats import formatted
from agentgym.envs.shell.tree import Failed, Tree, Unknown


class _Leave(Exception):
    """Raised by next, exit, break and continue."""


def awk(tree: Tree, arguments: list[str], stdin: Input) -> str:
    """Runs a program on the lines of files.

    Raises:
        Failed: if a file cannot be read, or the program takes too long.
        Unknown: for a program that is not supported.
    """
    values, operands = _options(arguments)
    if not operands:
        raise Failed("expected a program", status=2)
    program = Reader(operands[0]).rules()
    if any(re.match(r"[A-Za-z_]\w*=", name) for name in operands[1:]):
        raise Unknown("NAME=VALUE behind the program is not supported: use -v")
    run = _Run(program, values)
    try:
        return _output(tree, program, operands, stdin, run)
    finally:
        stdin.work += run.steps + run.work.count


def _output(tree: Tree, program: list[Rule], operands: list[str], stdin: Input, run: _Run) -> str:
    """Returns the output for the lines of all files."""
    if not any(kind != "BEGIN" for kind, *_ in program):
        return run.all([])
    if len(operands) > 2 and "FNR" in operands[0]:
        rows = [lines(contents(tree, [file], stdin)) for file in operands[1:]]
        return run.all(rows)
    return filtered(
        tree, operands[1:], stdin, lambda text: run.all([lines(text)]), separate=True, status=2
    )


def _options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Returns the variables that options set, and the operands."""
    values: dict[str, str] = {}
    left = list(arguments)
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        option, value = word[:2], word[2:]
        if option not in ("-F", "-v"):
            raise Unknown(f"unknown option {word[:40]}")
        if not value and not left:
            raise Failed(f"option {option} needs a value")
        value = value or left.pop(0)
        name, equals, text = value.partition("=") if option == "-v" else ("FS", "=", value)
        if not equals or not name.isidentifier():
            raise Failed("use -v NAME=VALUE")
        values[name] = "\t" if word == "-Ft" else unescaped(text)
    return values, left


class _Run(Values):
    """A program that runs.

    Args:
        rules: the program.
        values: variables that are set at the start.
    """

    def __init__(self, rules: list[Rule], values: dict[str, str]):
        super().__init__(values)
        self.rules, self.output, self.size, self.status = rules, list[str](), 0, 0
        text = repr(rules)
        for name in ("RS", "FILENAME", "ENVIRON", "ARGV", "CONVFMT", "OFMT", "FIELDWIDTHS"):
            if f"'{name}'" in text:
                raise Unknown(f"{name} is not supported in awk")

    def all(self, files: list[list[str]]) -> str:
        """Returns the output for the lines of each file."""
        try:
            self.rule("BEGIN")
            for rows in files:
                self.values["FNR"] = 0.0
                for row in rows:
                    self.set_record(row)
                    for name in ("NR", "FNR"):
                        self.values[name] = self.number(self.values[name]) + 1
                    try:
                        self.rule("line")
                    except _Leave as leave:
                        if leave.args[0] != "next":
                            raise
        except _Leave as leave:
            if leave.args[0] != "exit":
                raise Unknown(f"{leave.args[0]} is not supported here in awk") from None
        with suppress(_Leave):
            self.rule("END")
        if self.status:
            raise Failed("", "".join(self.output), self.status)
        return "".join(self.output)

    def rule(self, kind: str) -> None:
        """Runs the rules of a kind on the current line."""
        for when, condition, body in self.rules:
            if when == kind and (condition is None or self.true(self.value(condition))):
                self.block([("print", [])] if body is None else body)

    # Statements.

    def block(self, statements: list[Node]) -> None:
        """Runs statements."""
        for kind, *rest in statements:
            self.step()
            getattr(self, f"_do_{kind}")(*rest)

    def _do_do(self, node: Node) -> None:
        self.value(node)

    def _do_block(self, statements: list[Node]) -> None:
        self.block(statements)

    def _do_if(self, condition: Node, first: list[Node], second: list[Node]) -> None:
        self.block(first if self.true(self.value(condition)) else second)

    def _do_for(
        self, start: Node | None, condition: Node | None, after: Node | None, body: list[Node]
    ) -> None:
        self.block([] if start is None else [start])
        while condition is None or self.true(self.value(condition)):
            if not self._round(body):
                break
            self.step()
            self.block([] if after is None else [after])

    def _do_each(self, name: str, array: str, body: list[Node]) -> None:
        self.step(len(self.arrays.get(array, {})))
        for key in list(self.arrays.get(array, {})):
            self.set(("variable", name), Field(key))
            if not self._round(body):
                break

    def _round(self, body: list[Node]) -> bool:
        """Runs the body of a loop, and returns whether the loop goes on."""
        try:
            self.block(body)
        except _Leave as leave:
            if leave.args[0] not in ("break", "continue"):
                raise
            return leave.args[0] == "continue"
        return True

    def _do_print(self, parts: list[Node]) -> None:
        values = [self.text(self.value(part)) for part in parts] or [self.record]
        text = self.text(self.values["OFS"]).join(values) + self.text(self.values["ORS"])
        self._write(text)

    def _do_printf(self, parts: list[Node]) -> None:
        first, *values = (self.value(part) for part in parts)
        self._write(formatted(self.text(first), values, self.number, self.text))

    def _write(self, text: str) -> None:
        self.size += len(text)
        if self.size > LARGEST:
            raise Failed("output too large")
        self.output.append(text)

    def _do_next(self) -> None:
        raise _Leave("next")

    def _do_break(self) -> None:
        raise _Leave("break")

    def _do_continue(self) -> None:
        raise _Leave("continue")

    def _do_exit(self, node: Node | None) -> None:
        self.status = self.status if node is None else int(self.number(self.value(node))) % 256
        raise _Leave("exit")

    def _do_delete(self, kind: str, name: str, keys: list[Node] | None = None) -> None:
        if keys is None:
            self.arrays[name] = {}
        else:
            self.arrays.setdefault(name, {}).pop(self.key(keys), None)
