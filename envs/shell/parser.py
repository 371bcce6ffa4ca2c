"""Splits a command line into words, pipelines and redirections, as a POSIX shell does.

Syntax that is not supported is an error, never text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.envs.shell.tree import HOME, Failed, Tree
from agentgym.reading.typography import normalized

LONGEST = 1000
"""Number of characters of a command line."""
MOST_COMMANDS = 10
VARIABLES = ("HOME", "PWD", "USER", "?")
"""The variables. `?` is the status of the last command."""
_TO_OUTPUT = "2>&1"
_FOR_OUTPUT = {"1>": ">", "1>>": ">>"}
_OPERATORS = (_TO_OUTPUT, "1>>", "1>", "&&", "||", ">>", "2>", "|", ";", ">", "<", "\n")
_SPECIAL = "*?["
_LITERAL = re.compile(r"[*?[\\]")
_PLAIN = re.compile(r"[\w./:,=+@%-]+", re.ASCII)
"""Characters without a meaning of their own within a word."""
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|\?)|\{([A-Za-z_][A-Za-z0-9_]*|\?)\}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")


@dataclass
class Word:
    """A word: pieces of text, each with its kind: "bare", "quoted" or "variable".

    Bare characters with a meaning of their own are pieces of their own.
    """

    pieces: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text, in which variables have their names."""
        return "".join(f"${text}" if kind == "variable" else text for text, kind in self.pieces)

    @property
    def bare(self) -> str:
        """The text with a placeholder for each quoted character and each variable."""
        return "".join(text if kind == "bare" else "\0" for text, kind in self.pieces)

    def expanded(self, tree: Tree, values: Mapping[str, str]) -> list[str]:
        """Returns the paths that match the word, or else its text."""
        pieces = [
            (values[piece] if kind == "variable" else piece, kind) for piece, kind in self.pieces
        ]
        text = "".join(piece for piece, _ in pieces)
        if not any(kind == "bare" and piece in _SPECIAL for piece, kind in pieces):
            return [text]
        pattern = "".join(
            piece if kind == "bare" else _LITERAL.sub(r"\\\g<0>", piece) for piece, kind in pieces
        )
        return tree.expand(pattern) or [text]


@dataclass
class Call:
    """A command with its arguments and redirections.

    Attributes:
        words: the command and its arguments.
        source: file of the input, if it is redirected.
        target: file of the output, if it is redirected.
        append: whether the output is appended.
        silent: whether error messages are dropped.
        merged: whether error messages go where the output goes at this point of the line: "file",
            "pipe", or "" if they are apart.
    """

    words: list[Word] = field(default_factory=list)
    source: Word | None = None
    target: Word | None = None
    append: bool = False
    silent: bool = False
    merged: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is neither a command nor a redirection."""
        return not self.words and self.target is None and self.source is None


Pipeline = tuple[str, list[Call]]
"""The operator before a pipeline (";", "&&" or "||") and its commands."""


def parse(line: str) -> list[Pipeline]:
    """Returns the pipelines of a command line.

    Raises:
        Failed: for a syntax error.
    """
    if len(line) > LONGEST:
        raise Failed(f"a command line has at most {LONGEST} characters")
    found: list[Pipeline] = [(";", [Call()])]
    redirect = ""
    for token in _tokens(line):
        operator, calls = found[-1]
        call = calls[-1]
        if isinstance(token, Word):
            if redirect:
                _redirect(call, redirect, token)
                redirect = ""
            else:
                _check(token, first=not call.words)
                call.words.append(token)
        elif redirect:
            raise Failed(f"syntax error near {token!r}")
        elif token == _TO_OUTPUT:
            call.merged = "pipe" if call.target is None else "file"
        elif token in (">", ">>", "<", "2>"):
            redirect = token
        elif call.empty and token != "\n":
            raise Failed(f"syntax error near {token!r}")
        elif token == "|":
            calls.append(Call())
        elif not call.empty:  # a line break within an unfinished list means nothing
            found.append((";" if token == "\n" else token, [Call()]))
    operator, calls = found[-1]
    if redirect or (calls[-1].empty and (len(calls) > 1 or operator != ";")):
        raise Failed("syntax error: the command line is not complete")
    if sum(len(calls) for _, calls in found) > MOST_COMMANDS:
        raise Failed(f"a command line has at most {MOST_COMMANDS} commands")
    return found


def _check(word: Word, *, first: bool) -> None:
    """Raises `Failed` for a word with a meaning that is not supported."""
    bare = word.bare
    if first and _ASSIGNMENT.match(bare):
        raise Failed("variables cannot be set")
    if _BRACES.search(bare):
        raise Failed("{a,b} is not supported: write each word, or quote the braces")


def _redirect(call: Call, operator: str, word: Word) -> None:
    if operator == "<":
        if call.source is not None:
            raise Failed("the input can be redirected only once")
        call.source = word
    elif operator == "2>":
        if word.text != "/dev/null":
            raise Failed("errors can be redirected to /dev/null or to &1 only")
        call.silent, call.merged = True, ""
    else:
        if call.target is not None:
            raise Failed("the output can be redirected only once")
        call.target, call.append = word, operator == ">>"


def _tokens(line: str) -> list[Word | str]:
    found: list[Word | str] = []
    word: Word | None = None
    place = 0
    while place < len(line):
        char = line[place]
        operator = ""
        if char in "&|;><\n" or (char in "12" and word is None):
            operator = next((o for o in _OPERATORS if line.startswith(o, place)), "")
        if char in " \t" or operator:
            if word is not None:
                found.append(word)
            word = None
            if operator:
                found.append(_FOR_OUTPUT.get(operator, operator))
            place += len(operator) or 1
            continue
        if char == "#" and word is None:  # a comment ends with its line
            place = end if (end := line.find("\n", place)) >= 0 else len(line)
            continue
        if line.startswith("\\\n", place):
            place += 2
            continue
        word = word or Word()
        place = _part(line, place, word)
    return [*found, word] if word is not None else found


def _part(line: str, place: int, word: Word) -> int:
    """Appends the next character or quoted part to a word and returns the place after it."""
    if plain := _PLAIN.match(line, place):
        word.pieces.append((plain[0], "bare"))
        return plain.end()
    char = line[place]
    if char == "$" and line[place + 1 : place + 2] not in ("'", '"'):
        return _variable(line, place, word, kind="bare")
    if char == "\\":
        if place + 1 < len(line):
            word.pieces.append((line[place + 1], "quoted"))
        return place + 2
    if char in "'\"":
        return _quoted(line, place, word)
    _check_bare(line, place)
    if char == "~" and not word.pieces:
        if not re.match(r"~(?=[/\s;&|<>]|$)", line[place:]):
            raise Failed("~ is supported alone and before / only")
        word.pieces.append((HOME, "quoted"))
    else:
        word.pieces.append((char, "bare"))
    return place + 1


def _check_bare(line: str, place: int) -> None:
    """Raises `Failed` if an unquoted character has another meaning in a shell, or none."""
    char = line[place]
    if char == "`":
        raise Failed("command substitution is not supported")
    if char == "&":
        raise Failed("background commands are not supported")
    if char == "$":
        raise Failed("$'...' is not supported")
    if char in "()":
        raise Failed(f"syntax error near {char!r}: quote it, there are no subshells")
    if not char.isascii() and (plain := normalized(char)) != char:
        use = f"write {plain!r}" if plain.strip() else "write a space" if plain else "remove it"
        raise Failed(f"{char!r} is not a character of commands: {use}, or put it in quotes")


def _quoted(line: str, place: int, word: Word) -> int:
    quote = line[place]
    word.pieces.append(("", "quoted"))  # '' is a word
    place += 1
    while place < len(line) and line[place] != quote:
        char = line[place]
        if quote == '"' and char == "\\" and line[place + 1 : place + 2] in ('"', "\\", "$", "`"):
            place += 1
        elif quote == '"' and line.startswith("\\\n", place):
            place += 2
            continue
        elif quote == '"' and char == "`":
            raise Failed("command substitution is not supported")
        elif quote == '"' and char == "$":
            place = _variable(line, place, word, kind="quoted")
            continue
        word.pieces.append((line[place : place + 1], "quoted"))
        place += 1
    if place >= len(line):
        raise Failed(f"unmatched {quote}")
    return place + 1


def _variable(line: str, place: int, word: Word, *, kind: str) -> int:
    """Appends a variable, or a dollar sign, to a word and returns the place after it."""
    following = line[place + 1 : place + 2]
    if following == "(":
        raise Failed("command substitution is not supported")
    match = _NAME.match(line, place + 1)
    if match is not None and (name := match[1] or match[2]) in VARIABLES:
        word.pieces.append((name, "variable"))
        return match.end()
    if match is not None or following in ("{", "@", "*", "#", "$", "!", "-") or following.isdigit():
        shown = match[0] if match is not None else following
        names = ", ".join(f"${name}" for name in VARIABLES)
        raise Failed(f"${shown[:40]} is not supported: the variables are {names}")
    word.pieces.append(("$", kind))
    return place + 1
