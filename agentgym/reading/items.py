"""Counts of named items in text: "two hats and the book", "everything except 1 ball"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.reading.errors import NotUnderstood
from agentgym.reading.numbers import find_numbers
from agentgym.reading.typography import normalized

LONGEST = 2_000
"""Maximum number of characters of a text with items."""
FILLERS: frozenset[str] = frozenset(
    "i i'll i'd i'm am we we'll will would can could may might shall should like want wish need "
    "prefer take takes taking keep keeps keeping get gets getting have has having hold receive "
    "choose pick accept propose suggest offer ask request demand give gives giving go goes going "
    "gonna let let's for me myself my mine us our ours you you'll you'd your yours yourself to of "
    "in total please just only and with plus also as well then so ok okay item items thing things "
    "piece pieces here is are be it's that's deal thanks thank happy fine good great".split()
)
"""Words without effect on the counts. The caller knows who gets the items."""
_EXCEPT = ("except for", "except", "but not", "but", "without", "excluding", "apart from",
           "other than", "aside from", "minus", "save")  # fmt: skip
_REST = (
    "the rest of the items", "the rest of them", "the rest", "everything else", "all the rest",
    "all else", "the remaining items", "the remaining ones", "the others", "the remainder",
    "what is left", "what's left", "whatever is left", "whatever's left", "anything else",
    "everything that is left", "the other items",
)  # fmt: skip
_EVERYTHING = (
    "all of the items", "all of them", "all the items", "all items", "every item", "it all",
    "everything", "all of it", "every thing",
)  # fmt: skip
_NOTHING = ("nothing at all", "nothing", "none of them", "no items", "none of it", "none")
_ALL = ("all of the", "all the", "all of", "all my", "all your", "all", "every single", "every",
        "each of the", "each", "any and all")  # fmt: skip
_NONE = ("none of the", "none of", "not any", "zero of the", "no")
_BOTH = ("both of the", "both the", "both")
_HALF = ("half of the", "half the", "half of")
_ONE = ("another", "one of the", "a single", "an", "a")
_THE = ("the", "your", "my", "this", "that", "these", "those")
_PHRASES: dict[str, tuple[str, ...]] = {
    "filler": ("how about", "what about"), "rest": _REST, "everything": _EVERYTHING,
    "nothing": _NOTHING, "except": _EXCEPT,
    "all": _ALL, "no": _NONE, "both": _BOTH, "half": _HALF, "one": _ONE, "the": _THE,
}  # fmt: skip
_MARKS = frozenset(",.;!&+(){}[]\"'*_-\n")


@dataclass
class Items:
    """The items of a text.

    Attributes:
        counts: number of each named item.
        rest: whether the text names "the rest": the items that nobody else gets.
    """

    counts: dict[str, int] = field(default_factory=dict)
    rest: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """A kind of `_PHRASES`, "number", "item", "mark", "filler" or "word"."""
    text: str
    name: str = ""
    plural: bool = False
    value: int = -1


def plural(noun: str) -> str:
    """Returns the regular plural of a noun."""
    if re.search(r"(?:s|x|z|ch|sh)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y$", noun) else noun + "s"


def read_counts(
    text: str,
    items: Mapping[str, int],
    *,
    synonyms: Mapping[str, Sequence[str]] | None = None,
    rest: Mapping[str, int] | None = None,
    ignored: Collection[str] = (),
) -> dict[str, int]:
    """Returns the counts of items in a text about one recipient. Every word is accounted for.

    Items that are not named count 0.

    Args:
        text: a clause such as "I take two hats and the book".
        items: item -> number of available items.
        synonyms: item -> other singular names.
        rest: item -> number, to which "the rest" refers. None: it is not understood.
        ignored: further words without effect on the counts.

    Raises:
        NotUnderstood: if a word, a number or an item is not understood, more is named than there
            is, or no item is named. The message is a sentence for the agent.
    """
    found = read_items(text, items, synonyms=synonyms, ignored=ignored)
    if not found.rest:
        return {name: found.counts.get(name, 0) for name in items}
    if rest is None:
        raise NotUnderstood('"The rest" is not clear: name the number of each item.')
    return {name: found.counts.get(name, rest.get(name, 0)) for name in items}


def read_items(
    text: str,
    items: Mapping[str, int],
    *,
    synonyms: Mapping[str, Sequence[str]] | None = None,
    ignored: Collection[str] = (),
) -> Items:
    """Returns the items that a text names: see `read_counts`. "The rest" is left open."""
    text = " ".join(normalized(text).casefold().split())
    if len(text) > LONGEST:
        raise NotUnderstood(f"Name the items in at most {LONGEST:,} characters.")
    names = _names(items, synonyms or {})
    reader = _ItemReader([*_tokens(text, names, ignored)], items)
    return reader.read()


def _names(
    items: Mapping[str, int], synonyms: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, bool]]:
    """Returns all singular and plural nouns, each with its item and whether it is plural."""
    found: dict[str, tuple[str, bool]] = {}
    for item in items:
        for noun in (item, *synonyms.get(item, ())):
            noun = normalized(noun).casefold()
            found[plural(noun)] = item, True
            found[noun] = item, False
    return found


def _alternatives(words: Collection[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _tokens(
    text: str, names: Mapping[str, tuple[str, bool]], ignored: Collection[str]
) -> Iterator[_Token]:
    """Yields the tokens of a text, which cover it."""
    nouns = re.compile(rf"(?:{_alternatives(names)})(?![\w'])")
    at = 0
    numbers = {number.start: number for number in find_numbers(text)}
    while at < len(text):
        if text[at] == " ":
            at += 1
            continue
        if match := nouns.match(text, at):
            item, many = names[match[0]]
            yield _Token("item", match[0], item, many)
        elif (number := numbers.get(at)) and not _HALVES.match(text, at):
            whole = number.value.denominator == 1 and number.unit in ("", "x") and number.value >= 0
            if not whole:
                raise NotUnderstood(f"{text[at : number.stop]!r} is no number of items.")
            yield _Token("number", text[at : number.stop], value=int(number.value))
            at = number.stop
            continue
        elif match := _PHRASE.match(text, at):
            yield _Token(str(match.lastgroup), match[0])
        elif match := _WORD.match(text, at):
            known = match[0] in FILLERS or match[0] in ignored
            yield _Token("filler" if known else "word", match[0])
        else:
            mark = text[at]
            yield _Token("mark" if mark in _MARKS else "colon" if mark in ":=" else "word", mark)
            at += 1
            continue
        at = match.end()


_PHRASE = re.compile(
    "(?:" + "|".join(f"(?P<{k}>{_alternatives(v)})" for k, v in _PHRASES.items()) + r")(?![\w'])"
)
_HALVES = re.compile(rf"(?:{_alternatives(_HALF)})(?!\w)")
_WORD = re.compile(r"[\w'#$%€£]{1,60}(?:'\w{1,3})?")


class _ItemReader:
    """Reads quantities and items from tokens."""

    def __init__(self, tokens: list[_Token], items: Mapping[str, int]):
        self.tokens = [token for token in tokens if token.kind != "filler"]
        self.items, self.at = items, 0
        self.found = Items()
        self.without: dict[str, int] | None = None
        self.everything = False

    def read(self) -> Items:
        """Returns the items. Raises NotUnderstood: see `read_counts`."""
        named = False
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.kind == "mark":
                self.at += 1
            elif token.kind == "rest":
                self.at, self.found.rest, named = self.at + 1, True, True
            elif token.kind == "everything" or (token.kind == "all" and self._peek(1) == "except"):
                self.at, self.everything, named = self.at + 1, True, True
            elif token.kind == "nothing":
                self._nothing()
                named = True
            elif token.kind == "except":
                self._except(token)
            else:
                self._add(*self._quantity())
                named = True
        if not named:
            raise NotUnderstood(f"Name the items: {', '.join(self.items)}.")
        return self._result()

    def _result(self) -> Items:
        counts = self.found.counts
        if self.everything:
            if counts or self.found.rest:
                raise NotUnderstood("Name either everything or some items, not both.")
            without = self.without or {}
            self.found.counts = {n: most - without.get(n, 0) for n, most in self.items.items()}
        return self.found

    def _peek(self, offset: int = 0) -> str:
        at = self.at + offset
        return self.tokens[at].kind if at < len(self.tokens) else ""

    def _nothing(self) -> None:
        self.at += 1
        if self.found.counts or self.everything or self.found.rest:
            raise NotUnderstood("Name either nothing or some items, not both.")
        self.found.counts = dict.fromkeys(self.items, 0)

    def _except(self, token: _Token) -> None:
        if not self.everything or self.without is not None:
            raise NotUnderstood(f"{token.text!r} is not clear: name the number of each item.")
        self.at += 1
        self.without = {}

    def _add(self, item: str, count: int, more: bool) -> None:
        counts = self.found.counts if self.without is None else self.without
        if item in counts and not more:
            raise NotUnderstood(f"Name each item once, got {item!r} twice.")
        counts[item] = counts.get(item, 0) + count
        if counts[item] > self.items[item]:
            raise NotUnderstood(
                f"There {'is' if self.items[item] == 1 else 'are'} only {self.items[item]} "
                f"{item if self.items[item] == 1 else plural(item)}, got {counts[item]}."
            )

    def _quantity(self) -> tuple[str, int, bool]:
        """Takes a quantity and its item, in this or the other order."""
        token = self.tokens[self.at]
        if token.kind == "item":
            return self._behind(token)
        if token.kind not in ("number", "all", "no", "both", "half", "one", "the"):
            raise NotUnderstood(f"{token.text!r} is not understood. Name the number of each item.")
        self.at += 1
        number = token.value if token.kind == "number" else None
        if token.kind in ("the", "all") and self._peek() == "number":
            number, self.at = self.tokens[self.at].value, self.at + 1
        if token.kind == "number" and self._peek() in ("the", "all"):  # two of the hats
            self.at += 1
            if self._peek() == "number" and self._peek(1) == "item":  # two of the three hats
                self._must_be_all(self.tokens[self.at], self.tokens[self.at + 1])
                self.at += 1
        if self._peek() != "item":
            raise NotUnderstood(f"{token.text!r} has no item. Name the number of each item.")
        item = self.tokens[self.at]
        self.at += 1
        if self._peek() == "colon" or (self._peek() == "number" and self._peek(1) != "item"):
            raise NotUnderstood(f"{item.text!r} has two numbers.")
        return item.name, self._count(token, item, number), token.text == "another"

    def _must_be_all(self, number: _Token, item: _Token) -> None:
        if number.value != self.items[item.name]:
            raise NotUnderstood(
                f"There are {self.items[item.name]} {plural(item.name)}, not {number.value}."
            )

    def _count(self, token: _Token, item: _Token, number: int | None) -> int:
        """Returns the count of a quantity, given the word before the item."""
        most = self.items[item.name]
        if number is not None:
            if token.kind == "all" and number != most:
                raise NotUnderstood(f"There are {most} {plural(item.name)}, not {number}.")
            return number
        if token.kind in ("no", "one"):
            return 0 if token.kind == "no" else 1
        if token.kind == "all" or (token.kind == "the" and (item.plural or most == 1)):
            return most
        if token.kind == "both" and most == 2:
            return most
        if token.kind == "half" and most % 2 == 0:
            return most // 2
        raise NotUnderstood(
            f"{token.text} {item.text} is not clear: there are {most}. Name a number."
        )

    def _behind(self, item: _Token) -> tuple[str, int, bool]:
        """Takes an item with the number behind it ("hats: 2", "hats x2"), or without any."""
        self.at += 1
        most = self.items[item.name]
        while self._peek() == "mark" and self.tokens[self.at].text in "\"'" and self._closes():
            self.at += 1  # the quotes of JSON
        if self._peek() == "colon":
            self.at += 1
            if self._peek() == "no":
                self.at += 1
                return item.name, 0, False
            if self._peek() == "all":
                self.at += 1
                return item.name, most, False
            if self._peek() != "number":
                raise NotUnderstood(f"{item.text!r} has no number.")
        elif self._peek() != "number" or (
            self._peek(1) in ("item", "the", "all") and "x" not in self.tokens[self.at].text[:1]
        ):
            if self._peek() != "number" and (item.plural or most == 1):
                return item.name, most, False
            raise NotUnderstood(f"{item.text!r} is not clear: there are {most}. Name a number.")
        self.at += 1
        return item.name, self.tokens[self.at - 1].value, False

    def _closes(self) -> bool:
        return self._peek(1) == "colon"
