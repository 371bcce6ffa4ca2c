"""Splits a command line into words, pipelines and redirections, as a POSIX shell does."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.envs.shell.tree import Failed, Tree

LONGEST = 1000
"""Number of characters of a command line."""
MOST_COMMANDS = 10
_TO_OUTPUT = "2>&1"
_FOR_OUTPUT = {"1>": ">", "1>>": ">>"}
_OPERATORS = (_TO_OUTPUT, "1>>", "1>", "&&", "||", ">>", "2>", "|", ";", ">", "<", "\n")
_SPECIAL = "*?["


@dataclass
class Word:
    """A word: its text, and its pattern, in which quoted characters have a backslash."""

    text: str = ""
    pattern: str = ""
    special: bool = False

    def add(self, char: str, *, quoted: bool) -> None:
        """Appends a character."""
        self.text += char
        self.special = self.special or (char in _SPECIAL and not quoted)
        self.pattern += f"\\{char}" if quoted and char in f"{_SPECIAL}\\" else char

    def expanded(self, tree: Tree) -> list[str]:
        """Returns the paths that match the word, or else its text."""
        return (tree.expand(self.pattern) if self.special else []) or [self.text]


@dataclass
class Call:
    """A command with its arguments and redirections.

    Attributes:
        words: the command and its arguments.
        source: file of the input, if it is redirected.
        target: file of the output, if it is redirected.
        append: whether the output is appended.
        silent: whether error messages are dropped.
        merged: whether error messages are part of the output.
    """

    words: list[Word] = field(default_factory=list)
    source: Word | None = None
    target: Word | None = None
    append: bool = False
    silent: bool = False
    merged: bool = False


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
        call = found[-1][1][-1]
        if isinstance(token, Word):
            if redirect:
                _redirect(call, redirect, token)
                redirect = ""
            else:
                call.words.append(token)
        elif redirect:
            raise Failed(f"syntax error near {token!r}")
        elif token == _TO_OUTPUT:
            call.merged = True
        elif token in (">", ">>", "<", "2>"):
            redirect = token
        elif not call.words and call.target is None and token not in (";", "\n"):
            raise Failed(f"syntax error near {token!r}")
        elif token == "|":
            found[-1][1].append(Call())
        else:
            found.append((";" if token == "\n" else token, [Call()]))
    if redirect or (len(found[-1][1]) > 1 and not found[-1][1][-1].words):
        raise Failed("syntax error: the command line is not complete")
    if sum(len(calls) for _, calls in found) > MOST_COMMANDS:
        raise Failed(f"a command line has at most {MOST_COMMANDS} commands")
    return found


def _redirect(call: Call, operator: str, word: Word) -> None:
    if operator == "<":
        call.source = word
    elif operator == "2>":
        if word.text != "/dev/null":
            raise Failed("errors can be redirected to /dev/null or to &1 only")
        call.silent = True
    else:
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
        if char == "#" and word is None:
            break
        word = word or Word()
        place = _part(line, place, word)
    return [*found, word] if word is not None else found


def _part(line: str, place: int, word: Word) -> int:
    """Appends the next character or quoted part to a word and returns the place after it."""
    char = line[place]
    if char == "`" or line.startswith("$(", place):
        raise Failed("command substitution is not supported")
    if char == "&":
        raise Failed("background commands are not supported")
    if char == "\\":
        if place + 1 < len(line):
            word.add(line[place + 1], quoted=True)
        return place + 2
    if char not in "'\"":
        word.add(char, quoted=False)
        return place + 1
    place += 1
    while place < len(line) and line[place] != char:
        if char == '"' and line[place] == "\\" and line[place + 1 : place + 2] in ('"', "\\", "$"):
            place += 1
        elif char == '"' and (line[place] == "`" or line.startswith("$(", place)):
            raise Failed("command substitution is not supported")
        word.add(line[place : place + 1], quoted=True)
        place += 1
    if place >= len(line):
        raise Failed(f"unmatched {char}")
    return place + 1
