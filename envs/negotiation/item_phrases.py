"""Reads phrases of items: "2 hats", "all of the books", "everything except a ball", "the rest"."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.envs.negotiation import wording
from agentgym.reading import NotUnderstood

Three = tuple[int, int, int]
"""One number per kind of item, in the order book, hat, ball: counts, taken items or values."""


@dataclass
class Phrase:
    """Items that are named together.

    `whole` holds for all items of a kind without a number ("the hats"), `rest` for "the rest".
    """

    named: dict[int, int] = field(default_factory=dict)
    whole: bool = False
    rest: bool = False


class PhraseReader:
    """Reads phrases of items in a sentence.

    Args:
        tokens: the words, numbers and marks of the sentence: see `wording.spelled`.
        counts: all items.
    """

    def __init__(self, tokens: list[str], counts: Three):
        self.tokens, self.counts = tokens, counts
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        """Returns a token from the current place on, or "" behind the end."""
        at = self.at + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else ""

    def items(self, look: bool = False) -> Phrase | None:
        """Reads a phrase of items at this place. None if there is none."""
        start = self.at
        phrase = self._special() or self._counted()
        if phrase is None or look:
            self.at = start
        return phrase

    def _special(self) -> Phrase | None:
        """Reads "the rest", "everything except", "one of each" and "nothing"."""
        start, token = self.at, self.peek()
        every = dict(enumerate(self.counts))
        self.at += 1
        if token == "REST":
            if self.peek() == "of":
                raise NotUnderstood("The rest of a kind is unclear.")
            return Phrase(rest=True)
        if token == "EACH":
            return Phrase(dict.fromkeys(every, 1))
        if token == "nothing":
            return Phrase(dict.fromkeys(every, 0))
        all_alone = token == "all" and (not self.peek() or self.peek() in ("except", "but", ","))
        if token == "EVERYTHING" or all_alone:
            return Phrase(self._without(every))
        if token == "all" and self._number() == sum(self.counts):
            self.at += 1
            if self.peek() in ("items", "things"):
                self.at += 1
                return Phrase(every)
        self.at = start
        return None

    def _without(self, every: dict[int, int]) -> dict[int, int]:
        """Returns all items without those named behind "except"."""
        if self.peek() not in ("except", "but") or self.peek(1) in (*wording.SUBJECTS, "not"):
            return every
        self.at += 1
        found: list[Phrase] = []
        while (phrase := self._counted()) is not None:
            found.append(phrase)
            while self.peek() in (",", "and") and self._starts_items(1):
                self.at += 1
        if not found:
            raise NotUnderstood("The exception is unclear.")
        for phrase in found:
            for kind, count in phrase.named.items():
                every[kind] -= count
        return every

    def _starts_items(self, ahead: int) -> bool:
        start, self.at = self.at, self.at + ahead
        found = self._counted() is not None
        self.at = start
        return found

    def _number(self) -> int | None:
        """Returns the number at this place without reading it."""
        token = self.peek()
        if token.isdecimal() and len(token) <= 3:
            return int(token)
        return wording.NUMBERS.get(token)

    def _counted(self) -> Phrase | None:
        """Reads a kind of item with its number: "2 hats", "all of the hats", "books: 1"."""
        start = self.at
        every = both = none = False
        number: int | None = None
        before = self.peek(-1) if self.at else ""
        while True:
            token = self.peek()
            if token in wording.DETERMINERS or (token == "of" and self.at > start):
                pass
            elif token in ("all", "every", "any"):
                every = every or token != "any"
            elif token == "both":
                both = True
            elif token in ("no", "none") and number is None:
                none = True
            elif number is None and (number := self._number()) is not None:
                if before in ("-", "+", "/") and self.peek(-1) == before and self._glued():
                    raise NotUnderstood("Signs are unclear.")
                if self.peek(1) in ("x", "*"):
                    self.at += 1
            elif token == "other" and number is not None:
                pass
            else:
                break
            self.at += 1
        kind = wording.KINDS.get(self.peek())
        if kind is None:
            self.at = start
            return None
        plural = self.peek().endswith("s")
        self.at += 1
        if none:
            if number is not None or every or both:
                raise NotUnderstood("The number is unclear.")
            return Phrase({kind: 0})
        if number is None and not every and not both:
            number = self._behind()
            if number is None and not plural and self.counts[kind] > 1:
                raise NotUnderstood("It is unclear which item of several is meant.")
            if number is None:
                return Phrase({kind: self.counts[kind]}, whole=True)
        return Phrase({kind: self._checked(kind, number, every, both, plural)})

    def _glued(self) -> bool:
        """Whether a sign stands before the number, and not between two phrases."""
        return self.at < 2 or self.peek(-2) in (*wording.FILLERS, *wording.KEEP)

    def _behind(self) -> int | None:
        """Reads a number behind its kind: "books: 2", "hats x2"."""
        if self.peek() in (":", "=", "x", "*"):
            self.at += 1
            number = self._number()
            if number is None or not self.peek().isdecimal():
                raise NotUnderstood("The number is unclear.")
            self.at += 1
            return number
        return None

    def _checked(self, kind: int, number: int | None, every: bool, both: bool, plural: bool) -> int:
        """Returns the number of items of a kind, which must be possible."""
        count = self.counts[kind]
        if both and not plural and number is None and not every and count == 1:
            return 1  # "both the hat and the ball"
        two = not both or (count == 2 and number in (None, 2))
        if not two or (every and number not in (None, count)):
            raise NotUnderstood("The number is unclear.")
        number = count if number is None else number
        if number > count:
            raise NotUnderstood(f"There are not {number} of them.")
        return number
