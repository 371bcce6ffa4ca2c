"""What a command line consists of: words with the values that are put into them, and commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from agentgym.envs.shell.tree import Failed

MOST_WORDS = 1000
"""Number of words that one word may become."""
BLANKS = " \t\n"
"""Characters between the words of a value."""
_SPECIAL = frozenset("*?[")
_LITERAL = re.compile(r"[*?[\\]")
_SERIES = re.compile(r"(-?[0-9]{1,4})\.\.(-?[0-9]{1,4})|([a-z])\.\.([a-z])|([A-Z])\.\.([A-Z])")
_OTHER_SERIES = re.compile(r"(-?[0-9]+|[A-Za-z])\.\.(-?[0-9]+|[A-Za-z])(\.\.-?[0-9]+)?")


@dataclass
class Expansion:
    """A part of a word that is worked out when the word is used.

    Attributes:
        kind: "variable", "commands", "number", or "file" for the path of the output of commands.
        quoted: whether it is one word, in which `*` and `?` are text.
        name: the variable.
        operator: what becomes of its value: "", "#" (length), "%", "%%", "##", "/", ...
        rest: the pattern of the operator, the text after it, or the calculation.
        commands: the commands whose output it is.
    """

    kind: str
    quoted: bool
    name: str = ""
    operator: str = ""
    rest: list[Word] = field(default_factory=list)
    commands: list[Pipeline] = field(default_factory=list)


Values = Callable[[Expansion], str]
"""Returns the value of an expansion."""
Paths = Callable[[str], list[str]]
"""Returns the paths that match a pattern."""
Piece = tuple[str, str] | Expansion
"""A text with its kind, "bare" or "quoted", or an expansion."""


@dataclass
class Word:
    """A word. Bare characters with a meaning of their own are pieces of their own."""

    pieces: list[Piece] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text, in which expansions are not worked out."""
        return "".join(
            piece[0] if isinstance(piece, tuple) else f"${piece.name or '(...)'}"
            for piece in self.pieces
        )

    @property
    def fixed(self) -> bool:
        """Whether there are no expansions."""
        return not any(isinstance(piece, Expansion) for piece in self.pieces)

    @property
    def bare(self) -> str:
        """The text with a placeholder for each part that is quoted or worked out."""
        return "".join(
            piece[0] if isinstance(piece, tuple) and piece[1] == "bare" else "\0"
            for piece in self.pieces
        )

    @property
    def commands(self) -> list[Pipeline]:
        """The commands within the word."""
        parts = [piece for piece in self.pieces if isinstance(piece, Expansion)]
        return [pipeline for part in parts for pipeline in part.commands]

    def value(self, values: Values) -> str:
        """Returns the text with its expansions, as one word."""
        return "".join(
            piece[0] if isinstance(piece, tuple) else values(piece).replace("\0", " ")
            for piece in self.pieces
        )

    def pattern(self, values: Values) -> str:
        """Returns the word as a file name pattern, in which quoted characters are escaped."""
        return "".join(
            piece[0]
            if isinstance(piece, tuple) and piece[1] == "bare"
            else _LITERAL.sub(r"\\\g<0>", piece[0])
            if isinstance(piece, tuple)
            else (_LITERAL.sub(r"\\\g<0>", values(piece)) if piece.quoted else values(piece))
            for piece in self.pieces
        )

    def expanded(self, paths: Paths, values: Values, blanks: str = BLANKS) -> list[str]:
        """Returns the words that the word becomes: paths that match it, or else its text.

        Args:
            paths: returns the paths that match a pattern.
            values: the values of its expansions.
            blanks: the characters at which unquoted values are split.
        """
        fields: list[list[tuple[str, bool]]] = [[]]
        for piece in self.pieces:
            if isinstance(piece, tuple):
                fields[-1].append((piece[0], piece[1] == "bare"))
                continue
            value = values(piece)
            if piece.quoted and piece.name != "@":
                fields[-1].append((value, False))
                continue
            marks = re.escape("\0" if piece.quoted else blanks + "\0")
            parts = re.split(f"[{marks}]+", value) if blanks or piece.quoted else [value]
            for place, part in enumerate(parts):
                if place and fields[-1]:
                    fields.append([])
                if part:
                    fields[-1].append((part, not piece.quoted))
            if len(fields) > MOST_WORDS:
                raise Failed("too many words")
        return [path for pieces in fields if pieces for path in _matching(pieces, paths)]

    def braced(self) -> list[Word]:
        """Returns the words that `{a,b}` and `{1..3}` stand for, or the word itself."""
        if "{" not in self.bare:
            return [self]
        chars: list[Piece] = []
        for piece in self.pieces:
            if isinstance(piece, tuple) and piece[1] == "bare":
                chars += [(char, "bare") for char in piece[0]]
            else:
                chars.append(piece)
        return [Word(pieces) for pieces in _braced(chars)]


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


def _matching(pieces: list[tuple[str, bool]], paths: Paths) -> list[str]:
    text = "".join(piece for piece, _ in pieces)
    if not any(bare and _SPECIAL & set(piece) for piece, bare in pieces):
        return [text]
    pattern = "".join(p if bare else _LITERAL.sub(r"\\\g<0>", p) for p, bare in pieces)
    return paths(pattern) or [text]


def _braced(chars: list[Piece]) -> list[list[Piece]]:
    """Returns the words that braces stand for, as lists of pieces."""
    for start, piece in enumerate(chars):
        if piece != ("{", "bare"):
            continue
        depth, cuts = 0, [start]
        for place in range(start, len(chars)):
            depth += (chars[place] == ("{", "bare")) - (chars[place] == ("}", "bare"))
            if depth == 1 and chars[place] == (",", "bare"):
                cuts.append(place)
            if depth == 0:
                break
        else:
            continue
        parts = [chars[a + 1 : b] for a, b in zip(cuts, [*cuts[1:], place], strict=True)]
        if len(cuts) == 1:
            parts = [list[Piece]([(text, "quoted")]) for text in _series(parts[0])]
        if not parts:
            continue
        ends = _braced(chars[place + 1 :])
        starts = [chars[:start] + inside for part in parts for inside in _braced(part)]
        if len(starts) * len(ends) > MOST_WORDS:
            raise Failed("too many words")
        return [[*first, *last] for first in starts for last in ends]
    return [chars]


def _series(inside: list[Piece]) -> list[str]:
    """Returns the texts of a series such as 1..3, or none for another text."""
    if not all(isinstance(piece, tuple) for piece in inside):
        return []
    text = "".join(piece[0] for piece in inside if isinstance(piece, tuple))
    match = _SERIES.fullmatch(text)
    if match is None and _OTHER_SERIES.fullmatch(text):
        raise Failed(f"{{{text[:40]}}} is not supported: use seq")
    if match is None:
        return []
    first, last = (text for text in match.groups() if text is not None)
    numbers = match[1] is not None
    if numbers and any(
        text.lstrip("-").startswith("0") and len(text) > 1 for text in (first, last)
    ):
        raise Failed("numbers of a series start with no 0")
    low, high = (int(first), int(last)) if numbers else (ord(first), ord(last))
    if abs(high - low) >= MOST_WORDS:
        raise Failed("too many words")
    step = 1 if high >= low else -1
    return [str(n) if numbers else chr(n) for n in range(low, high + step, step)]
