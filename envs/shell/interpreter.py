"""Runs command lines on a file tree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from agentgym.envs.shell import file_commands, further_commands, text_commands
from agentgym.envs.shell.arguments import Command, Input, bounded, number, options
from agentgym.envs.shell.automaton import NotSupported, PatternError
from agentgym.envs.shell.checks import check, work
from agentgym.envs.shell.expansion import calculated, changed, parted
from agentgym.envs.shell.find import find
from agentgym.envs.shell.outputs import Leave, Output, TooMuch
from agentgym.envs.shell.parser import parse
from agentgym.envs.shell.patterns import Work
from agentgym.envs.shell.syntax import BLANKS, Block, Call, Expansion, Pipeline, Values, Word
from agentgym.envs.shell.tree import HOME, Failed, Tree, Unknown
from agentgym.envs.shell.xargs import xargs

COMMANDS: dict[str, Command] = {**file_commands.COMMANDS, **text_commands.COMMANDS}
"""The commands that the instructions list."""
MOST_WORK = 1_000_000
"""Number of characters that commands in loops and the like may read, with 1,000 per command."""
MOST_DEPTH = 20
"""Depth of scripts within scripts."""


def run(tree: Tree, line: str, commands: Mapping[str, Command] = COMMANDS) -> tuple[str, bool]:
    """Runs a command line.

    Args:
        tree: the file tree, which the commands change.
        line: the command line.
        commands: the commands by name, to which further ones are added.

    Returns:
        The output with error messages, and whether the last command succeeded.

    Raises:
        Failed: for a syntax error or an unknown command, before any command runs.
    """
    session, out = _Session(tree, commands), Output()
    pipelines = session.read(line)
    try:
        status = session.all(pipelines, Input(), out)
    except Leave as leave:
        status = leave.status
    except Failed as error:
        return f"{out.shown}sh: {error}\n", False
    return out.shown, status == 0


class _Session:
    """A command line that is run.

    Args:
        tree: the file tree.
        commands: the commands by name.
    """

    def __init__(self, tree: Tree, commands: Mapping[str, Command]):
        self.tree, self.values, self.arguments = tree, dict[str, str](), ["sh"]
        self.status = self.work = self.depth = 0
        self.files: list[str] = []
        self.patterns = Work()
        self.paths = partial(tree.expand, work=self.patterns)
        own: dict[str, Command] = {
            "read": self._read, "export": self._export, "sh": self._script, "bash": self._script,
            **{name: partial(self._leave, name) for name in ("exit", "break", "continue")},
        }  # fmt: skip
        self.commands: dict[str, Command] = {**further_commands.COMMANDS, **commands, **own}
        shells = {*own, "cd"} - {"sh", "bash"}
        names = {*self.commands, "xargs"} - shells
        inner: dict[str, Command] = {name: partial(self._nested, name) for name in names}
        self.commands["find"] = partial(find, commands=inner)
        self.commands["xargs"] = partial(xargs, commands=inner)

    def read(self, line: str, *, arguments: bool = False) -> list[Pipeline]:
        """Returns the pipelines of a line whose commands and variables are known."""
        pipelines = parse(line)
        check(pipelines, self.commands, arguments=arguments)
        return pipelines

    def all(self, pipelines: list[Pipeline], stdin: Input, out: Output) -> int:
        """Runs a list of pipelines and returns its status."""
        status = 0
        for pipeline in pipelines:
            skipped = {"&&": status != 0, "||": status == 0}.get(pipeline.operator, False)
            if skipped:
                continue
            outer = len(self.files)
            try:
                self.status = status = self._pipeline(pipeline, stdin, out)
            finally:  # the outputs that were files
                for path in self.files[outer:]:
                    self.tree.files.pop(path, None)
                del self.files[outer:]
        return status

    def _pipeline(self, pipeline: Pipeline, stdin: Input, out: Output) -> int:
        first, *others = pipeline.calls
        if not others and first.block is not None and first.plain:
            status = self._block(first.block, stdin, out)  # errors and output stay in order
        elif not others:
            status, text, errors, leave = self._redirected(first, stdin)
            out.add(text, errors)
            if leave is not None:
                raise leave
        else:
            status, messages = 0, list[tuple[str, bool]]()
            for call in pipeline.calls:
                with self._apart():
                    status, text, errors, _ = self._redirected(call, stdin)
                stdin, messages = Input(text), messages + errors
            out.add(stdin.read(), messages)
        return int(not status) if pipeline.negated else status

    @contextmanager
    def _apart(self, deeper: int = 0) -> Iterator[None]:
        """Restores variables and the current folder, as after a subshell."""
        values, here = dict(self.values), self.tree.here
        self.depth += deeper
        if self.depth > MOST_DEPTH:
            raise TooMuch("too many commands within commands")
        try:
            yield
        finally:
            self.depth -= deeper
            self.values = values
            self.tree.here = here if here in self.tree.folders else HOME

    def _redirected(
        self, call: Call, stdin: Input
    ) -> tuple[int, str, list[tuple[str, bool]], Leave | None]:
        """Returns the status, the output and the errors of a command behind its redirections.

        The last value tells whether a loop or the line ends.
        """
        done, leave, target = Output(), None, None
        values = self._values(stdin, done)
        try:
            if call.source is not None:
                stdin = Input(self.tree.read(self._only(call.source, values)))
            elif call.text is not None:
                stdin = Input(call.text.value(values) + "\n")
            if call.target is not None:  # an old file is emptied before the command runs
                target = self._only(call.target, values)
                self.tree.write(target, "", append=call.append)
        except TooMuch:
            raise
        except (Failed, PatternError) as error:
            done.fail(str(error), loud=isinstance(error, NotSupported))
            return 1, "", done.errors, None
        try:
            status = self._run(call, stdin, done)
        except Leave as error:
            leave, status = error, error.status
        dropped = bool(call.merged or call.silent)
        errors = [error for error in done.errors if error[1] or not dropped]
        merged = "".join(text for text, loud in done.errors if not loud) if call.merged else ""
        text = done.text
        if call.merged == "file" or target is None:
            text, merged = merged + text, ""
        if target is not None:
            try:
                self.tree.write(target, text, append=True)
            except Failed as error:
                errors.append((f"sh: {str(error)[:300]}\n", False))
                status = 1
            text = merged
        if call.complains:
            errors, text = [*errors, (text, False)], ""
        return status, text, errors, leave

    def _only(self, word: Word, values: Values) -> str:
        """Returns the file of a redirection."""
        found = word.expanded(self.paths, values)
        if len(found) != 1:
            raise Failed(f"{word.text[:100]}: ambiguous redirect")
        return found[0]

    def _run(self, call: Call, stdin: Input, out: Output) -> int:
        """Runs a command without its redirections and returns its status."""
        if call.block is not None:
            return self._block(call.block, stdin, out)
        values = self._values(stdin, out)
        try:
            words = self._expanded(call.words, values)
            self.status = self.status if words else 0
            given = [(name, plus, bounded(w.value(values))) for name, plus, w in call.assignments]
            bounded("".join(words))
        except TooMuch:
            raise
        except (Failed, PatternError) as error:
            name = call.words[0].text if call.words else "sh"
            return self._failed(name, error, out)
        before = dict(self.values)
        for name, plus, value in given:
            self.values[name] = bounded((self.values.get(name, "") if plus else "") + value)
        if not words:
            self._spend([""])
            return self.status  # that of the commands whose output is assigned
        status = self._command(words, stdin, out)
        for name, _, _ in given:
            self.values[name] = before.get(name, "")
        return status

    def _command(self, words: list[str], stdin: Input, out: Output) -> int:
        if words[0] not in self.commands:
            out.fail(f"{words[0][:100]}: command not found", loud=True)
            return 127
        try:
            out.text = bounded(out.text + self._called(words[0], words[1:], stdin))
        except TooMuch:
            raise
        except (Failed, PatternError) as error:
            return self._failed(words[0], error, out)
        return 0

    def _called(self, name: str, arguments: list[str], stdin: Input) -> str:
        """Runs a command and counts its work, if it may run often."""
        self._spend([name, *arguments])
        size, text = len(stdin), ""
        try:
            text = self.commands[name](self.tree, arguments, stdin)
        finally:
            self.work += stdin.work + (size - len(stdin) + len(text) if self.depth else 0)
            stdin.work = 0
        return text

    def _failed(self, name: str, error: Exception, out: Output) -> int:
        """Keeps the messages of a command that fails, and returns its status."""
        loud = isinstance(error, NotSupported)
        lines = [line for line in str(error).split("\n") if line]
        out.errors += [(f"{name[:100]}: {line[:300]}\n", loud) for line in lines]
        out.text += getattr(error, "output", "")
        return getattr(error, "status", 1)

    def _spend(self, words: list[str]) -> None:
        """Counts the work of a command that may run often."""
        self.work += work(self.tree, words) if self.depth else 0
        if self.work > MOST_WORK:
            raise TooMuch("the line reads too much: use fewer files or rounds")

    def _nested(self, name: str, tree: Tree, arguments: list[str], stdin: Input) -> str:
        """Runs a command for find or xargs."""
        with self._apart(deeper=1):
            return self._called(name, arguments, stdin)

    # Blocks.

    def _block(self, block: Block, stdin: Input, out: Output) -> int:
        if block.kind == "(":
            with self._apart(deeper=1):
                try:
                    return self.all(block.parts[0], stdin, out)
                except Leave as leave:
                    return leave.status
        self.depth += 1
        try:
            if block.kind in ("{", "if"):
                return self._branch(block, stdin, out)
            return self._loop(block, stdin, out)
        finally:
            self.depth -= 1

    def _branch(self, block: Block, stdin: Input, out: Output) -> int:
        *pairs, last = block.parts if len(block.parts) % 2 else [*block.parts, []]
        for condition, body in zip(pairs[::2], pairs[1::2], strict=True):
            if self.all(condition, stdin, out) == 0:
                return self.all(body, stdin, out)
        return self.all(last, stdin, out)

    def _loop(self, block: Block, stdin: Input, out: Output) -> int:
        status, *condition, body = 0, *block.parts
        try:
            rounds = self._expanded(block.words, self._values(stdin, out))
            for value in rounds if block.kind == "for" else itertools.repeat(""):
                if block.kind == "for":
                    self.values[block.name] = value
                elif (self.all(condition[0], stdin, out) == 0) != (block.kind == "while"):
                    break
                try:
                    status = self.all(body, stdin, out)
                except Leave as leave:
                    if leave.kind == "exit":
                        raise
                    if leave.kind == "break":
                        break
        except PatternError as error:
            raise Failed(str(error)) from None
        return status

    # Values.

    def _values(self, stdin: Input, out: Output) -> Values:
        """Returns a function that works out expansions, whose errors go to an output."""

        def value(part: Expansion) -> str:
            if part.kind == "commands":
                return self._output(part.commands, stdin, out).replace("\0", "").rstrip("\n")
            if part.kind == "file":
                path = f"/dev/fd/{63 - len(self.files)}"  # as bash names them
                self.tree.files[path] = self._output(part.commands, stdin, out)
                self.files.append(path)
                return path
            if part.kind == "number":
                return str(calculated(part.rest[0].value(value), self.values))
            found = self._variable(part.name)
            return changed(found, part.operator, part.rest, value, self.patterns)

        return value

    def _expanded(self, words: list[Word], values: Values) -> list[str]:
        blanks = self.values.get("IFS", BLANKS)
        found = [path for word in words for path in word.expanded(self.paths, values, blanks)]
        self.work += 10 * len(found)
        return found

    def _variable(self, name: str) -> str:
        arguments = self.arguments
        if name.isdigit():
            return arguments[int(name)] if int(name) < len(arguments) else ""
        fixed = {
            "HOME": HOME,
            "PWD": self.tree.here,
            "USER": HOME.rpartition("/")[2],
            "?": str(self.status),
            "@": "\0".join(arguments[1:]),
            "*": " ".join(arguments[1:]),
            "#": str(len(arguments) - 1),
        }
        return self.values.get(name, fixed.get(name, ""))

    def _output(self, commands: list[Pipeline], stdin: Input, out: Output) -> str:
        """Returns the output of commands within a word."""
        inner = Output()
        with self._apart(deeper=1):
            try:
                self.status = self.all(commands, stdin, inner)
            except Leave as leave:
                self.status = leave.status
        out.errors += inner.errors
        return inner.text

    # Commands that are part of the shell.

    def _read(self, tree: Tree, arguments: list[str], stdin: Input) -> str:
        found, names = options(arguments, "r", "d")
        end = found.get("d", "\n")[:1] or "\0"
        line = stdin.line(end)
        text, blanks = line.removesuffix(end), self.values.get("IFS", BLANKS)
        if "r" not in found and "\\" in text:
            raise Unknown("a backslash needs read -r")
        names = names or ["REPLY"]
        parts = parted(text, blanks, len(names))
        for name, part in zip(names, [*parts, *[""] * len(names)], strict=False):
            if not name.isidentifier():
                raise Failed(f"{name[:40]}: not a valid identifier")
            self.values[name] = part
        if not line.endswith(end):
            raise Failed("")
        return ""

    def _export(self, tree: Tree, arguments: list[str], stdin: Input) -> str:
        for word in arguments:
            name, equals, value = word.partition("=")
            if not name.isidentifier():
                raise Unknown("use export NAME=VALUE")
            self.values[name] = value if equals else self.values.get(name, "")
        return ""

    def _leave(self, kind: str, tree: Tree, arguments: list[str], stdin: Input) -> str:
        if len(arguments) > (kind == "exit"):
            raise Unknown(f"use {kind} without a number")
        raise Leave(kind, number(arguments[0]) if arguments else self.status * (kind == "exit"))

    def _script(self, tree: Tree, arguments: list[str], stdin: Input) -> str:
        if arguments[:1] == ["-c"] and len(arguments) > 1:
            script, rest = arguments[1], arguments[2:] or ["sh"]
        elif arguments and not arguments[0].startswith("-"):
            script, rest = tree.read(arguments[0]), arguments
        else:
            raise Unknown("use sh -c COMMANDS or sh FILE")
        out, outer = Output(), self.arguments
        with self._apart(deeper=1):
            self.values, self.arguments = {}, rest
            try:
                status = self.all(self.read(script, arguments=True), stdin, out)
            except Leave as leave:
                status = leave.status
            finally:
                self.arguments = outer
        if out.errors or status:
            kind = Unknown if any(loud for _, loud in out.errors) else Failed
            raise kind("".join(message for message, _ in out.errors), out.text, status)
        return out.text
