"""Regular expressions and file name patterns that match in linear time per starting point.

Patterns are compiled to a nondeterministic automaton that is simulated with sets of states
(Thompson, "Regular Expression Search Algorithm", CACM 1968), so that no pattern of an agent takes
exponential time. The longest of the leftmost matches counts, as in POSIX.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agentgym.envs.shell.automaton import ACCEPT, SPECIAL, Automaton, PatternError, Set

LONGEST = 200
"""Number of characters of a pattern."""
LARGEST = 100_000
"""Number of characters of a text in which matches are replaced."""
_WORK = 200_000

States = frozenset[int]
Around = tuple[bool, bool, bool, bool]
"""Whether a place is the start and the end of a line, and whether a word is before and behind."""


class Work:
    """The steps of patterns that share a limit."""

    def __init__(self) -> None:
        self.count = 0

    def step(self, count: int = 1) -> None:
        """Counts steps.

        Raises:
            PatternError: if there are too many.
        """
        self.count += count
        if self.count > _WORK:
            raise PatternError("the pattern takes too long")


class Pattern:
    """A compiled pattern.

    Args:
        source: the pattern.
        extended: whether `( ) | + ?` are operators without a backslash, as in `grep -E`.
        ignore_case: whether capitals are ignored.
        work: the work that it shares its limit with.

    Raises:
        PatternError: if the pattern cannot be read.
    """

    def __init__(
        self,
        source: str,
        *,
        extended: bool = False,
        ignore_case: bool = False,
        work: Work | None = None,
    ):
        if len(source) > LONGEST:
            raise PatternError(f"a pattern has at most {LONGEST} characters")
        self._fold = ignore_case
        self._source = _folded(source) if ignore_case else source
        self._literal = not set(source) & SPECIAL
        automaton = Automaton(self._source, extended=extended)
        self._sets, self._next, self._start = automaton.sets, automaton.next, automaton.start
        self.groups, self._words = automaton.groups, automaton.words
        self._step_taken = (work or Work()).step
        self._steps: dict[tuple[States, str], States] = {}
        self._closures: dict[tuple[States, Around], States] = {}

    def search(self, line: str, begin: int = 0) -> tuple[int, int] | None:
        """Returns the start and the end of the first match from a position on, or None."""
        text = line.lower() if self._fold else line
        if self._literal:
            self._step_taken()
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
            self._step_taken()
            states = self._closure(states, self._around(text, place))
            if ACCEPT in states:
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
                if isinstance(kind := sets[state], Set) and char in kind
            }
            found = self._steps[states, char] = frozenset(reached)
        return found

    def _around(self, text: str, place: int) -> Around:
        if not self._words:
            return place == 0, place == len(text), False, False
        before, behind = (
            char.isalnum() or char == "_"
            for char in (text[place - 1 : place], text[place : place + 1])
        )
        return place == 0, place == len(text), before, behind

    @staticmethod
    def _passes(kind: Set | str | None, around: Around) -> bool:
        """Whether a state is left without a character."""
        first, last, before, behind = around
        match kind:
            case None:
                return True
            case "^":
                return first
            case "$":
                return last
            case "b":
                return before != behind
            case "B":
                return before == behind
            case "<":
                return behind and not before
            case ">":
                return before and not behind
            case _:
                return not isinstance(kind, Set)

    def captured(self, line: str, start: int, end: int) -> list[str]:
        """Returns what the groups have matched within a match, of which the first ones take most.

        Raises:
            PatternError: if it takes too long.
        """
        text = line.lower() if self._fold else line
        caught: dict[int, tuple[int, ...]] = {}
        left = [(self._start, (-1,) * (2 * self.groups))]
        for place in range(start, end + 1):
            around, caught = self._around(text, place), {}
            while left:
                state, found = left.pop()
                self._step_taken()
                if state in caught:
                    continue
                kind = self._sets[state]
                if isinstance(kind, str) and kind[1:]:  # the start or the end of a group
                    index = 2 * int(kind[1:]) - 2 + (kind[0] == ")")
                    found = (*found[:index], place, *found[index + 1 :])
                caught[state] = found
                if self._passes(kind, around) and state != ACCEPT:
                    left += [(other, found) for other in reversed(self._next[state])]
            if place < end:
                steps = [
                    (self._next[state][0], found)
                    for state, found in caught.items()
                    if isinstance(kind := self._sets[state], Set) and text[place] in kind
                ]
                left = steps[::-1]
        found = caught.get(ACCEPT, (-1,) * (2 * self.groups))
        pairs = zip(found[::2], found[1::2], strict=True)
        return [line[first:last] if 0 <= first <= last else "" for first, last in pairs]

    def _closure(self, states: States, around: Around) -> States:
        key = (states, around)
        found = self._closures.get(key)
        if found is None:
            reached, left = set(states), list(states)
            while left:
                state = left.pop()
                if not self._passes(self._sets[state], around):
                    continue
                new = [other for other in self._next[state] if other not in reached]
                reached.update(new)
                left += new
            found = self._closures[key] = frozenset(reached)
        return found


def _folded(source: str) -> str:
    """Returns a pattern without capitals."""
    source = re.sub(r"\[:(?:upper|lower):\]", "[:alpha:]", source)
    return re.sub(r"\\.|[^\\]+", lambda m: m[0] if m[0][0] == "\\" else m[0].lower(), source)


def file_pattern(pattern: str, work: Work | None = None, *, ignore_case: bool = False) -> Pattern:
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
    return Pattern("".join(parts), ignore_case=ignore_case, work=work)
