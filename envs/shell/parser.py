"""Reads a command line as a POSIX shell does: pipelines, redirections, loops, conditions.

Syntax that is not supported is an error, never text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentgym.envs.shell.reader import LONGEST, TO_OUTPUT, Reader
from agentgym.envs.shell.tree import Failed
from agentgym.envs.shell.words import Word

MOST_COMMANDS = 50
_REDIRECTIONS = (">", ">>", "<", "2>", "<<<")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_INNER = ("then", "elif", "else", "fi", "do", "done", "}")
_UNKNOWN = ("case", "select", "function", "[[", "let", "declare", "local", "trap", "eval", "source")


@dataclass
class Call:
    """A command with its arguments and redirections.

    Attributes:
        words: the command and its arguments.
        assignments: variables and their values, for this command or, without one, from now on.
        block: a loop, a condition or a group in place of a command.
        source: file of the input, if it is redirected.
        text: the input, if it is given.
        target: file of the output, if it is redirected.
        append: whether the output is appended.
        silent: whether error messages are dropped.
        merged: whether error messages go where the output goes at this point of the line: "file",
            "pipe", or "" if they are apart.
        complains: whether the output is an error message.
    """

    words: list[Word] = field(default_factory=list)
    assignments: list[tuple[str, str, Word]] = field(default_factory=list)
    block: Block | None = None
    source: Word | None = None
    text: Word | None = None
    target: Word | None = None
    append: bool = False
    silent: bool = False
    merged: str = ""
    complains: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is neither a command nor a redirection."""
        parts = (self.words, self.assignments, self.block, self.target, self.source, self.text)
        return not any(parts)

    @property
    def plain(self) -> bool:
        """Whether nothing is redirected."""
        parts = (self.source, self.text, self.target, self.silent, self.merged, self.complains)
        return not any(parts)


@dataclass
class Block:
    """A compound command.

    Attributes:
        kind: "for", "while", "until", "if", "{" or "(".
        name: variable of a for loop.
        words: its values.
        parts: the lists of commands: of a loop the condition and the body, of "if" each condition
            with its body, and the body behind "else".
    """

    kind: str
    name: str = ""
    words: list[Word] = field(default_factory=list)
    parts: list[list[Pipeline]] = field(default_factory=list)


@dataclass
class Pipeline:
    """Commands of which each reads the output of the one before.

    Attributes:
        operator: ";", "&&" or "||", which stands before it.
        calls: the commands.
        negated: whether `!` turns its status around.
    """

    operator: str
    calls: list[Call]
    negated: bool = False


def parse(line: str) -> list[Pipeline]:
    """Returns the pipelines of a command line.

    Raises:
        Failed: for a syntax error.
    """
    if len(line) > LONGEST:
        raise Failed(f"a command line has at most {LONGEST} characters")
    parser = _Parser(line)
    parser.next()
    found = parser.commands()
    if parser.token is not None:
        raise parser.error()
    return found


class _Parser(Reader):
    """Reads commands."""

    def commands(self, *ends: str) -> list[Pipeline]:
        """Returns the pipelines up to a word, a closing parenthesis or the end of the line."""
        found: list[Pipeline] = []
        operator = ";"
        while True:
            while self.token == "\n":
                self.next()
            if self.token in (None, ")") or self._word() in (*ends, *_INNER):
                break
            found.append(self._pipeline(operator))
            if self.token not in (";", "&&", "||", "\n"):
                operator = ";"
                break
            operator = ";" if self.token == "\n" else str(self.token)
            self.next()
        if operator != ";" or (ends and (not found or self._word() not in ends)):
            raise self.error()
        return found

    def _word(self) -> str:
        """Returns the token if it is a word without quotes, else an empty text."""
        word = self.token
        return word.text if isinstance(word, Word) and word.bare == word.text else ""

    def _take(self, keyword: str) -> None:
        if self._word() != keyword:
            raise self.error()
        self.next()

    def _pipeline(self, operator: str) -> Pipeline:
        negated = self._word() == "!"
        if negated:
            self.next()
        calls = [self._call()]
        while self.token == "|":
            self.next()
            while self.token == "\n":
                self.next()
            calls.append(self._call())
        return Pipeline(operator, calls, negated)

    def _call(self) -> Call:
        self.count += 1
        if self.count > MOST_COMMANDS:
            raise Failed(f"a command line has at most {MOST_COMMANDS} commands")
        call = Call(block=self._block())
        while True:
            token = self.token
            if token == "(" and call.words:
                raise Failed("functions are not supported, and ( ) as text needs quotes")
            if isinstance(token, Word) and call.block is None:
                self.next()
                self._add(call, token)
            elif token in (TO_OUTPUT, "1>&2", ">&2"):
                self.next()
                if token == TO_OUTPUT:
                    call.merged = "pipe" if call.target is None else "file"
                else:
                    call.complains = True
            elif isinstance(token, str) and token in _REDIRECTIONS:
                self.next()
                if not isinstance(self.token, Word):
                    raise self.error()
                _redirect(call, token, self.token)
                self.next()
            else:
                break
        if call.empty:
            raise self.error()
        return call

    def _add(self, call: Call, word: Word) -> None:
        """Adds a word to a command, or an assignment before it."""
        first = word.pieces[0] if word.pieces else ("", "quoted")
        match = None
        if not call.words and isinstance(first, tuple) and first[1] == "bare":
            match = _ASSIGNMENT.match(first[0])
        if match is not None and isinstance(first, tuple):
            rest = [(first[0][match.end() :], "bare")]
            if self.token == "(":
                raise Failed("arrays are not supported")
            call.assignments.append((match[1], match[2], Word([*rest, *word.pieces[1:]])))
            return
        if not call.words and word.fixed and word.text in _UNKNOWN:
            raise Failed(f"{word.text} is not supported")
        call.words += word.braced()

    def _block(self) -> Block | None:
        """Returns the loop, the condition or the group that begins here, if there is one."""
        kind = "(" if self.token == "(" else self._word()
        if kind not in ("for", "while", "until", "if", "{", "("):
            return None
        self.deeper()
        self.next()
        block = Block(kind)
        if kind == "(":
            block.parts = [self.commands()]
            if self.token != ")" or not block.parts[0]:
                raise self.error()
            self.next()
        elif kind == "{":
            block.parts = [self.commands("}")]
            self.next()
        elif kind == "if":
            self._conditions(block)
        else:
            if kind == "for":
                self._values(block)
            else:
                block.parts = [self.commands("do")]
            self._take("do")
            block.parts.append(self.commands("done"))
            self.next()
        self.depth -= 1
        return block

    def _conditions(self, block: Block) -> None:
        end = "elif"
        while end == "elif":
            block.parts.append(self.commands("then"))
            self.next()
            block.parts.append(self.commands("elif", "else", "fi"))
            end = self._word()
            self.next()
        if end == "else":
            block.parts.append(self.commands("fi"))
            self.next()

    def _values(self, block: Block) -> None:
        """Reads the variable and the values of a for loop."""
        block.name = self._word()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", block.name):
            raise Failed("use for NAME in WORDS; do COMMANDS; done")
        self.next()
        self._take("in")
        while isinstance(self.token, Word):
            block.words += self.token.braced()
            self.next()
        if self.token not in (";", "\n"):
            raise self.error()
        while self.token in (";", "\n"):
            self.next()


def _redirect(call: Call, operator: str, word: Word) -> None:
    if operator in ("<", "<<<"):
        if call.source is not None or call.text is not None:
            raise Failed("the input can be redirected only once")
        call.source, call.text = (word, None) if operator == "<" else (None, word)
    elif operator == "2>":
        if word.text != "/dev/null":
            raise Failed("errors can be redirected to /dev/null or to &1 only")
        call.silent, call.merged = True, ""
    else:
        if call.target is not None:
            raise Failed("the output can be redirected only once")
        call.target, call.append = word, operator == ">>"
