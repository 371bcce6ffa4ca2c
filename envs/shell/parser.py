"""Reads a command line as a POSIX shell does: pipelines, redirections, loops, conditions.

Syntax that is not supported is an error, never text.
"""

from __future__ import annotations

import re

from agentgym.envs.shell.reader import LONGEST, TO_OUTPUT, Reader
from agentgym.envs.shell.syntax import Block, Call, Pipeline, Word
from agentgym.envs.shell.tree import Failed

MOST_COMMANDS = 20
_REDIRECTIONS = (">", ">>", "<", "2>", "<<<")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_INNER = ("then", "elif", "else", "fi", "do", "done", "}")
_UNKNOWN = ("case", "select", "function", "[[", "let", "declare", "local", "trap", "eval", "source")


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
        if kind == "(" and self.line.startswith("(", self.place):
            raise Failed("(( )) is not supported: use $(( )) or [ ]")
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
