"""Reads a command line as words and operators."""

from __future__ import annotations

import re

from agentgym.envs.shell.syntax import Expansion, Pipeline, Word
from agentgym.envs.shell.tree import HOME, Failed
from agentgym.reading.typography import normalized

LONGEST = 1000
"""Number of characters of a command line."""
MOST_DEPTH = 8
"""Depth of commands within commands."""
TO_OUTPUT = "2>&1"
_FOR_OUTPUT = {"1>": ">", "1>>": ">>"}
_OPERATORS = (
    *(TO_OUTPUT, "1>&2", ">&2", "1>>", "1>", "&&", "||", "|&", ";;", ">>", "<<<", "<<", "<("),
    *(">(", "&>", "2>", "|", ";", ">", "<", "(", ")", "&", "\n"),
)
_REFUSED = {
    "|&": "write 2>&1 |",
    "&": "background commands are not supported",
    "&>": "write > FILE 2>&1",
    "<<": "here-documents are not supported: use printf, or <<< TEXT",
    ">(": "write to a file, or use a pipe",
}
_PLAIN = re.compile(r"[\w./:,=+@%-]+", re.ASCII)
"""Characters without a meaning of their own within a word."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[?@*#0-9]")
_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*|[?@*#0-9])(:-|%%?|##?|//?|\}|)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "0": "\0"}


class Reader:
    """A command line and the token at which it is read.

    Args:
        line: the command line.
        place: where the first token begins.
        depth: the number of commands around it.

    Attributes:
        token: a word, an operator, or None at the end.
        count: the number of commands so far.
    """

    def __init__(self, line: str, place: int = 0, depth: int = 0):
        self.line, self.place, self.depth, self.count = line, place, depth - 1, 0
        self.token: Word | str | None = None
        self.deeper()

    def commands(self, *ends: str) -> list[Pipeline]:
        """Returns the pipelines up to a word, a closing parenthesis or the end of the line."""
        raise NotImplementedError

    def deeper(self) -> None:
        """Counts the commands around the token.

        Raises:
            Failed: if there are too many.
        """
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise Failed(f"commands within commands have a depth of at most {MOST_DEPTH}")

    def error(self) -> Failed:
        """Returns what is wrong with the token."""
        if self.token is None:
            return Failed("syntax error: the command line is not complete")
        if isinstance(self.token, Word):
            return Failed(f"syntax error near {self.token.text[:40]!r}")
        if self.token in _REFUSED:
            return Failed(f"{self.token} is not supported: {_REFUSED[self.token]}")
        hint = ": quote it" if self.token in ("(", ")") else ""
        return Failed(f"syntax error near {self.token!r}{hint}")

    def next(self) -> None:
        """Reads the next token: a word, an operator, or None at the end."""
        line = self.line
        while self.place < len(line):
            if line.startswith("\\\n", self.place):
                self.place += 2
            elif line[self.place] == "#":  # a comment ends with its line
                end = line.find("\n", self.place)
                self.place = end if end >= 0 else len(line)
            elif line[self.place] in " \t":
                self.place += 1
            else:
                break
        else:
            self.token = None
            return
        if line[self.place] in "&|;><()\n12":
            operator = next((o for o in _OPERATORS if line.startswith(o, self.place)), "")
            if operator == "<(":
                self._file()
                return
            if operator:
                self.token = _FOR_OUTPUT.get(operator, operator)
                self.place += len(operator)
                return
        word = Word()
        while self.place < len(line) and line[self.place] not in " \t&|;><()\n":
            if line.startswith("\\\n", self.place):
                self.place += 2
            else:
                self._part(word)
        self.token = word

    def _file(self) -> None:
        """Reads commands whose output is a file."""
        word = Word()
        inner = self._inner(word, True, self.line, self.place + 2)
        if inner.token != ")":
            raise inner.error()
        self.place, self.token = inner.place, word
        word.pieces = [Expansion("file", True, commands=word.commands)]

    def _part(self, word: Word) -> None:
        """Appends the next character or quoted part to a word."""
        line, place = self.line, self.place
        char = line[place]
        if plain := _PLAIN.match(line, place):
            word.pieces.append((plain[0], "bare"))
            self.place = plain.end()
        elif char == "$" and line.startswith("$'", place):
            self._escaped(word)
        elif char in "$`":
            self._expansion(word, quoted=False)
        elif char == "\\":
            if place + 1 < len(line):
                word.pieces.append((line[place + 1], "quoted"))
            self.place = place + 2
        elif char in "'\"":
            self._quoted(word)
        else:
            _check_bare(char)
            if char == "~" and not word.pieces:
                if not re.match(r"~(?=[/\s;&|<>)]|$)", line[place:]):
                    raise Failed("~ is supported alone and before / only")
                word.pieces.append((HOME, "quoted"))
            else:
                word.pieces.append((char, "bare"))
            self.place = place + 1

    def _quoted(self, word: Word) -> None:
        line, quote = self.line, self.line[self.place]
        word.pieces.append(("", "quoted"))  # '' is a word
        self.place += 1
        while self.place < len(line) and line[self.place] != quote:
            char, after = line[self.place], line[self.place + 1 : self.place + 2]
            if quote == '"' and char == "\\" and after in ("\n", '"', "\\", "$", "`") and after:
                if after != "\n":
                    word.pieces.append((after, "quoted"))
                self.place += 2
            elif quote == '"' and char in "$`":
                self._expansion(word, quoted=True)
            else:
                word.pieces.append((char, "quoted"))
                self.place += 1
        if self.place >= len(line):
            raise Failed(f"unmatched {quote}")
        self.place += 1

    def _escaped(self, word: Word) -> None:
        r"""Reads a text such as $'a\n'."""
        match = re.compile(r"\$'((?:\\.|[^'\\])*)'", re.DOTALL).match(self.line, self.place)
        if match is None:
            raise Failed("unmatched '")
        if wrong := re.search(r"\\([^ntr\\'\"])", match[1]):
            raise Failed(f"{wrong[0]} is not supported in $'...'")
        text = re.sub(r"\\(.)", lambda m: _ESCAPES[m[1]], match[1])
        word.pieces.append((text, "quoted"))
        self.place = match.end()

    def _expansion(self, word: Word, *, quoted: bool) -> None:
        """Appends a variable, commands, a calculation or a dollar sign to a word."""
        line, place = self.line, self.place
        if line.startswith("$((", place):
            self._calculation(word, quoted)
        elif line.startswith("$(", place):
            inner = self._inner(word, quoted, line, place + 2)
            if inner.token != ")":
                raise inner.error()
            self.place = inner.place
        elif line[place] == "`":
            match = re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL).match(line, place)
            if match is None:
                raise Failed("unmatched `")
            script = re.sub(r"\\([`\\$])", r"\1", match[1])
            inner = self._inner(word, quoted, script, 0)
            if inner.token is not None:
                raise inner.error()
            self.place = match.end()
        elif match := _NAME.match(line, place + 1):
            word.pieces.append(Expansion("variable", quoted, match[0]))
            self.place = match.end()
        elif line.startswith("${", place):
            self._parameter(word, quoted)
        elif line[place + 1 : place + 2] in ("$", "!", "-", '"') and not (
            quoted and line[place + 1] == '"'
        ):
            raise Failed(f"{line[place : place + 2]} is not supported")
        else:
            word.pieces.append(("$", "quoted" if quoted else "bare"))
            self.place += 1

    def _inner(self, word: Word, quoted: bool, line: str, place: int) -> Reader:
        """Appends commands to a word and returns their reader."""
        inner = type(self)(line, place, self.depth + 1)
        inner.next()
        word.pieces.append(Expansion("commands", quoted, commands=inner.commands()))
        self.count += inner.count
        return inner

    def _calculation(self, word: Word, quoted: bool) -> None:
        start, depth = self.place + 3, 2
        for place in range(start, len(self.line)):
            depth += {"(": 1, ")": -1}.get(self.line[place], 0)
            if depth == 0:
                break
        else:
            raise Failed("unmatched $((")
        text = self._text(self.line[start : place - 1])
        word.pieces.append(Expansion("number", quoted, rest=[text]))
        self.place = place + 1

    def _parameter(self, word: Word, quoted: bool) -> None:
        line, place = self.line, self.place
        end = line.find("}", place)
        if end < 0:
            raise Failed("unmatched ${")
        inside = line[place + 1 : end + 1]
        self.place = end + 1
        if match := re.fullmatch(r"\{#([A-Za-z_][A-Za-z0-9_]*)\}", inside):
            word.pieces.append(Expansion("variable", quoted, match[1], "length"))
            return
        match = _BRACED.match(inside)
        if match is None or not match[2]:
            raise Failed(f"${inside[:40]} is not supported")
        operator, rest = match[2].rstrip("}"), inside[match.end() : -1]
        parts = rest.split("/", 1) if operator in ("/", "//") else [rest]
        words = [self._text(part, bare=True) for part in parts]
        word.pieces.append(Expansion("variable", quoted, match[1], operator, words))

    def _text(self, text: str, *, bare: bool = False) -> Word:
        """Returns a text with its expansions as one word."""
        inner, word = type(self)(text, depth=self.depth + 1), Word()
        while inner.place < len(text):
            char = text[inner.place]
            if char in "$`":
                inner._expansion(word, quoted=True)
            elif bare and char in "'\"\\":
                inner._part(word)
            else:
                word.pieces.append((char, "bare"))
                inner.place += 1
        self.count += inner.count
        return word


def _check_bare(char: str) -> None:
    """Raises `Failed` for an unquoted character that has no meaning in a shell."""
    if not char.isascii() and (plain := normalized(char)) != char:
        use = f"write {plain!r}" if plain.strip() else "write a space" if plain else "remove it"
        raise Failed(f"{char!r} is not a character of commands: {use}, or put it in quotes")
