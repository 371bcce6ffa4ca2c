"""Regular expressions and file name patterns that match in linear time per starting point.

Patterns are compiled to a nondeterministic automaton that is simulated with sets of states
(Thompson, "Regular Expression Search Algorithm", CACM 1968), so that no pattern of an agent takes
exponential time. The longest of the leftmost matches counts, as in POSIX.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

LONGEST = 200
"""Number of characters of a pattern."""
LARGEST = 100_000
"""Number of characters of a text in which matches are replaced."""
_WORK = 200_000
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
_ESCAPES = {"w": "azAZ09__", "d": "09", "s": "  \t\r"}
_SPECIAL = frozenset("\\.*[^$+?|(){}")
_ACCEPT = 0

States = frozenset[int]


class NotSupported(Exception):
    """Raised for what other shells understand. The message is shown even behind `2>/dev/null`."""


class PatternError(Exception):
    """Raised for a pattern that cannot be read, or one that takes too long."""


class PatternNotSupported(PatternError, NotSupported):
    """Raised for a pattern that other programs can read."""


class _Set:
    """A set of characters: ranges, possibly negated."""

    def __init__(self, ranges: str, *, negated: bool = False):
        self.ranges = [ranges[i : i + 2] for i in range(0, len(ranges), 2)]
        self.negated = negated

    def __contains__(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) != self.negated


class Pattern:
    """A compiled pattern.

    Args:
        source: the pattern.
        extended: whether `( ) | + ?` are operators without a backslash, as in `grep -E`.
        ignore_case: whether capitals are ignored.

    Raises:
        PatternError: if the pattern cannot be read.
    """

    def __init__(self, source: str, *, extended: bool = False, ignore_case: bool = False):
        if len(source) > LONGEST:
            raise PatternError(f"a pattern has at most {LONGEST} characters")
        self._fold = ignore_case
        self._source = source.lower() if ignore_case else source
        self._literal = not set(source) & _SPECIAL
        self._extended = extended
        self._place = 0
        self._sets: list[_Set | str | None] = [None]
        self._next: list[list[int]] = [[]]
        start, end = self._alternatives(0)
        if self._place < len(self._source):
            raise PatternError("unmatched )")
        self._next[end].append(_ACCEPT)
        self._start = start
        self._work = 0
        self._steps: dict[tuple[States, str], States] = {}
        self._closures: dict[tuple[States, bool, bool], States] = {}

    def search(self, line: str, begin: int = 0) -> tuple[int, int] | None:
        """Returns the start and the end of the first match from a position on, or None."""
        text = line.lower() if self._fold else line
        if self._literal:
            start = text.find(self._source, begin)
            return None if start < 0 else (start, start + len(self._source))
        for start in range(begin, len(text) + 1):
            end = self._longest(text, start)
            if end is not None:
                return start, end
        return None

    def replaced(
        self, line: str, insert: Callable[[tuple[int, int]], str], *, every: bool, first: int = 1
    ) -> tuple[str, int]:
        """Returns a text with matches replaced, and how many there were.

        Args:
            line: the text.
            insert: returns the new text for the start and the end of a match.
            every: whether all matches are replaced, not only one.
            first: the number of the match at which replacement starts.

        Raises:
            PatternError: if the new text is too long.
        """
        done, begin, last, count = "", 0, -1, 0
        while begin <= len(line) and (match := self.search(line, begin)) is not None:
            start, end = match
            done += line[begin:start]
            if len(done) > LARGEST:
                raise PatternError("output too large")
            if end > start or start != last:  # no empty match right after a match
                count += 1
                done += insert(match) if count >= first else line[start:end]
            if end == start:
                done += line[start : start + 1]
            begin, last = max(end, start + 1), end
            if count >= first and not every:
                break
        return done + line[begin:], max(0, count - first + 1)

    def fullmatch(self, text: str) -> bool:
        """Returns whether the longest match at the start is the whole text."""
        return self._longest(text.lower() if self._fold else text, 0) == len(text)

    def _longest(self, text: str, start: int) -> int | None:
        states, best = frozenset({self._start}), None
        for place in range(start, len(text) + 1):
            self._work += 1
            if self._work > _WORK:
                raise PatternError("the pattern takes too long")
            states = self._closure(states, place == 0, place == len(text))
            if _ACCEPT in states:
                best = place
            if place == len(text):
                break
            states = self._step(states, text[place])
            if not states:
                break
        return best

    def _step(self, states: States, char: str) -> States:
        found = self._steps.get((states, char))
        if found is None:
            sets = self._sets
            reached = {
                self._next[state][0]
                for state in states
                if isinstance(kind := sets[state], _Set) and char in kind
            }
            found = self._steps[states, char] = frozenset(reached)
        return found

    def _closure(self, states: States, first: bool, last: bool) -> States:
        key = (states, first, last)
        found = self._closures.get(key)
        if found is None:
            reached, left = set(states), list(states)
            while left:
                state = left.pop()
                kind = self._sets[state]
                if isinstance(kind, _Set) or (kind == "^" and not first):
                    continue
                if kind == "$" and not last:
                    continue
                new = [other for other in self._next[state] if other not in reached]
                reached.update(new)
                left += new
            found = self._closures[key] = frozenset(reached)
        return found

    # Parsing. Every part returns its first and its last state.

    def _state(self, kind: _Set | str | None = None, *following: int) -> int:
        self._sets.append(kind)
        self._next.append(list(following))
        return len(self._sets) - 1

    def _alternatives(self, depth: int) -> tuple[int, int]:
        if depth > _DEPTH:
            raise PatternError("too many nested groups")
        start, end = self._state(), self._state()
        while True:
            first, last = self._sequence(depth)
            self._next[start].append(first)
            self._next[last].append(end)
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
            first, last = self._atom(depth, begun)
            first, last = self._repeated(first, last)
            self._next[end].append(first)
            end, begun = last, True
        return start, end

    def _repeated(self, first: int, last: int) -> tuple[int, int]:
        while True:
            plus, maybe = self._operator("+"), self._operator("?")
            star = not plus and not maybe and self._source[self._place : self._place + 1] == "*"
            if not (plus or maybe or star):
                return first, last
            self._place += star
            end = self._state()
            self._next[last].append(end)
            if not maybe:
                self._next[last].append(first)
            first = first if plus else self._state(None, first, end)
            last = end

    def _atom(self, depth: int, begun: bool) -> tuple[int, int]:
        if self._operator("("):
            inside = self._alternatives(depth + 1)
            if not self._operator(")"):
                raise PatternError("unmatched (")
            return inside
        char = self._source[self._place]
        self._place += 1
        rest = self._source[self._place :]
        end = self._state()
        if char == "^" and not begun:
            return self._state("^", end), end
        if char == "$" and (not rest or rest.startswith((")", "|", "\\)", "\\|"))):
            return self._state("$", end), end
        if char == ".":
            return self._state(_Set("", negated=True), end), end
        if char == "[":
            return self._state(self._bracket(), end), end
        if char == "\\":
            if not rest:
                raise PatternError("trailing backslash")
            char = rest[0]
            self._place += 1
            if char in _ESCAPES:
                return self._state(_Set(_ESCAPES[char]), end), end
            if char.isalnum() or char in "{<>":
                raise PatternNotSupported(f"\\{char} is not supported")
        elif char == "{" and self._extended:
            raise PatternNotSupported("{} is not supported")
        return self._state(_Set(char * 2), end), end

    def _bracket(self) -> _Set:
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
        return _Set(ranges, negated=negated)

    def _looking_at(self, operator: str) -> bool:
        text = operator if self._extended else f"\\{operator}"
        return self._source.startswith(text, self._place)

    def _operator(self, operator: str) -> bool:
        """Skips an operator if it comes next, and returns whether it does."""
        found = self._looking_at(operator)
        if found:
            self._place += 1 if self._extended else 2
        return found


@lru_cache(maxsize=256)
def file_pattern(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """Returns the pattern of file names such as `*.txt`. A backslash quotes a character."""
    parts, place = [], 0
    while place < len(pattern):
        char = pattern[place]
        place += 1
        if char == "*":
            parts.append(".*")
        elif char == "?":
            parts.append(".")
        elif char == "[" and (end := pattern.find("]", place + 1)) > 0:
            parts.append(pattern[place - 1 : end + 1])
            place = end + 1
        else:
            if char == "\\" and place < len(pattern):
                char = pattern[place]
                place += 1
            parts.append(f"[{char}]" if char not in "^!" else f"\\{char}")
    return Pattern("".join(parts), ignore_case=ignore_case)
