"""Reads regular expressions as nondeterministic automata."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

_DEPTH = 10
_CLASSES = {
    "alpha": "azAZ",
    "digit": "09",
    "alnum": "azAZ09",
    "upper": "AZ",
    "lower": "az",
    "space": "  \t\r",
    "punct": "!/:@[`{~",
}
_ESCAPES = {"w": "azAZ09__", "s": "  \t\r"}
SPECIAL = frozenset("\\.*[^$+?|(){}")
_WORD_ENDS = frozenset("b<>B")
"""Letters that mean a place next to a word, behind a backslash."""
_MOST_STATES = 5000
_INTERVAL = re.compile(r"\{([0-9]{0,3})(,?)([0-9]{0,3})\}")
_BASIC_INTERVAL = re.compile(r"\\\{([0-9]{0,3})(,?)([0-9]{0,3})\\\}")
ACCEPT = 0
"""The last state."""


class NotSupported(Exception):
    """Raised for what other shells understand. The message is shown even behind `2>/dev/null`."""


class PatternError(Exception):
    """Raised for a pattern that cannot be read, or one that takes too long."""


class PatternNotSupported(PatternError, NotSupported):
    """Raised for a pattern that other programs can read."""


class Set:
    """A set of characters: ranges, possibly negated."""

    def __init__(self, ranges: str, *, negated: bool = False):
        self.ranges = [ranges[i : i + 2] for i in range(0, len(ranges), 2)]
        self.negated = negated

    def __contains__(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) != self.negated


class Automaton:
    """The states of a pattern.

    Args:
        source: the pattern.
        extended: whether `( ) | + ?` are operators without a backslash.

    Attributes:
        sets: for each state the characters that leave it, or what else has to be there.
        next: for each state the following ones, of which the first one is tried first.
        start: the first state.
        groups: the number of groups.
        words: whether places next to words matter.
    """

    def __init__(self, source: str, *, extended: bool):
        self._source, self._extended, self._place = source, extended, 0
        self.sets: list[Set | str | None] = [None]
        self.next: list[list[int]] = [[]]
        self.groups, self.words = 0, False
        self.start, end = self._alternatives(0)
        if self._place < len(source):
            raise PatternError("unmatched )")
        self.next[end].append(ACCEPT)

    # Parsing. Every part returns its first and its last state.

    def _state(self, kind: Set | str | None = None, *following: int) -> int:
        self.sets.append(kind)
        self.next.append(list(following))
        if len(self.sets) > _MOST_STATES:
            raise PatternError("the pattern is too large")
        return len(self.sets) - 1

    def _alternatives(self, depth: int) -> tuple[int, int]:
        if depth > _DEPTH:
            raise PatternError("too many nested groups")
        start, end = self._state(), self._state()
        while True:
            first, last = self._sequence(depth)
            self.next[start].append(first)
            self.next[last].append(end)
            if not self._operator("|"):
                return start, end

    def _sequence(self, depth: int) -> tuple[int, int]:
        start = end = self._state()
        begun = False
        while self._place < len(self._source):
            if self._looking_at("|") or (depth and self._looking_at(")")):
                break
            if self._extended and self._looking_at(")"):
                break  # unmatched
            place, groups = self._place, self.groups
            first, last = self._atom(depth, begun)
            if self.sets[first] == "^" and not self._extended:  # what follows is text
                self.next[end].append(first)
                end = last
                continue
            if (interval := self._interval()) is not None:
                again = self._place
                copy = partial(self._copy, place, groups, depth, begun)
                first, last = self._copies((first, last), copy, *interval)
                self._place = again
            first, last = self._repeated(first, last)
            if self._interval() is not None:
                raise PatternNotSupported("{} behind a repetition is not supported")
            self.next[end].append(first)
            end, begun = last, True
        return start, end

    def _interval(self) -> tuple[int, int | None] | None:
        """Skips the bounds of a repetition and returns them, if they come next."""
        form = _INTERVAL if self._extended else _BASIC_INTERVAL
        match = form.match(self._source, self._place)
        if match is None or not (match[1] or match[3]):
            return None
        self._place = match.end()
        low = int(match[1] or 0)
        high = int(match[3]) if match[3] else None if match[2] else low
        if max(low, high or 0) > 255 or (high is not None and high < low):
            raise PatternError("invalid bounds in {}")
        return low, high

    def _copy(self, place: int, groups: int, depth: int, begun: bool) -> tuple[int, int]:
        """Reads an atom again."""
        self._place, self.groups = place, groups
        return self._atom(depth, begun)

    def _copies(
        self,
        atom: tuple[int, int],
        copy: Callable[[], tuple[int, int]],
        low: int,
        high: int | None,
    ) -> tuple[int, int]:
        """Returns the states of an atom that is repeated within bounds."""
        start, end = self._state(), self._state()
        last = start
        for number in range(low if high is None else high):
            first, following = atom if number == 0 else copy()
            self.next[last].append(first)
            if number >= low:  # this copy may be left out
                self.next[last].append(end)
            last = following
        if high is None:
            first, following = copy() if low else atom
            self.next[last] += [first, end]
            self.next[following] += [first, end]
        else:
            self.next[last].append(end)
        return start, end

    def _repeated(self, first: int, last: int) -> tuple[int, int]:
        while True:
            plus, maybe = self._operator("+"), self._operator("?")
            star = not plus and not maybe and self._source[self._place : self._place + 1] == "*"
            if not (plus or maybe or star):
                return first, last
            self._place += star
            end = self._state()
            if not maybe:
                self.next[last].append(first)  # more is tried first
            self.next[last].append(end)
            first = first if plus else self._state(None, first, end)
            last = end

    def _atom(self, depth: int, begun: bool) -> tuple[int, int]:
        if self._operator("("):
            self.groups += 1
            group = self.groups
            first, last = self._alternatives(depth + 1)
            if not self._operator(")"):
                raise PatternError("unmatched (")
            end = self._state(f"){group}")
            self.next[last].append(end)
            return self._state(f"({group}", first), end
        char = self._source[self._place]
        if self._extended and not begun and char in "*+?":
            raise PatternNotSupported(f"{char} needs something before it")
        self._place += 1
        rest = self._source[self._place :]
        end = self._state()
        if char == "^" and not begun:
            return self._state("^", end), end
        if char == "$" and (not rest or rest.startswith((")", "|", "\\)", "\\|"))):
            return self._state("$", end), end
        if char == ".":
            return self._state(Set("", negated=True), end), end
        if char == "[":
            return self._state(self._bracket(), end), end
        if char == "\\":
            if not rest:
                raise PatternError("trailing backslash")
            char = rest[0]
            self._place += 1
            if char in _ESCAPES:
                return self._state(Set(_ESCAPES[char]), end), end
            if char in _WORD_ENDS:
                self.words = True
                return self._state(char, end), end
            if char.isalnum() or char in "{":
                hint = ": use [0-9]" * (char == "d")
                raise PatternNotSupported(f"\\{char} is not supported{hint}")
        elif char == "{" and self._extended:
            raise PatternNotSupported("{} is not supported")
        return self._state(Set(char * 2), end), end

    def _bracket(self) -> Set:
        source, place = self._source, self._place
        negated = source[place : place + 1] in ("^", "!")
        place += negated
        ranges, first = "", True
        while place < len(source) and (source[place] != "]" or first):
            first = False
            if source.startswith("[:", place) and (end := source.find(":]", place)) > 0:
                name = source[place + 2 : end]
                if name not in _CLASSES:
                    raise PatternError(f"unknown character class [:{name[:20]}:]")
                ranges += _CLASSES[name]
                place = end + 2
            elif source[place + 1 : place + 2] == "-" and source[place + 2 : place + 3] not in "]":
                ranges += source[place] + source[place + 2]
                place += 3
            else:
                ranges += source[place] * 2
                place += 1
        if place >= len(source):
            raise PatternError("unmatched [")
        self._place = place + 1
        return Set(ranges, negated=negated)

    def _looking_at(self, operator: str) -> bool:
        text = operator if self._extended else f"\\{operator}"
        return self._source.startswith(text, self._place)

    def _operator(self, operator: str) -> bool:
        """Skips an operator if it comes next, and returns whether it does."""
        found = self._looking_at(operator)
        if found:
            self._place += 1 if self._extended else 2
        return found
