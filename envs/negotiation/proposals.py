"""Reads the split of books, hats and balls that a message proposes.

The reader knows the words in which people propose a split, and accounts for each word of every
sentence with items. A message with any other word in such a sentence, such as "or", "at least" or
"instead of", is no proposal, because a part of it could mean another split.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache

from agentgym.envs.negotiation import wording
from agentgym.envs.negotiation.item_phrases import Phrase, PhraseReader, Three
from agentgym.reading import NotUnderstood, normalized

ME, YOU = 0, 1
EMOJI = "\u2600"
"""The first of the pictures, which have no effect."""
_PLAIN = re.compile(r"(?:i take )?(\d) books?, (\d) hats?, (\d) balls?\.?")
_END = re.compile(r"[.!?;]+(?=\s|$)|\n")
_MENTIONS = frozenset((*wording.KINDS, "EVERYTHING", "nothing", "REST", "EACH", "items"))


@lru_cache(maxsize=4096)
def proposal(message: str, counts: Three, *, final: bool = False) -> Three | None:
    """Returns the share that the sender of a message proposes to take, or None.

    Examples are "I take 1 book, 2 balls", "You can have the hats, the rest is mine" and "3 hats for
    you and 2 books for me". The co-player gets the items that are not named. None if the message
    proposes nothing, or cannot be read as a whole.

    Args:
        message: a message, or a final choice.
        counts: all items.
        final: whether the text is a final choice, in which "take the hat" is the sender's act.
    """
    text = normalized(message).casefold().replace("**", "").strip(" \n\"'`*_")
    if plain := _PLAIN.fullmatch(text):
        a, b, c = map(int, plain.groups())
        return (a, b, c) if a <= counts[0] and b <= counts[1] and c <= counts[2] else None
    try:
        return _Message(text, counts, final).share()
    except NotUnderstood:
        return None


@dataclass
class _Share:
    """The items that a message names for one player, by kind, and whether it gets the rest.

    `stated` holds if a part is given to the player, and not only denied ("no hats for you").
    """

    named: dict[int, int] = field(default_factory=dict)
    rest: bool = False
    stated: bool = False


class _Message:
    """Reads one message: the shares of both players, sentence by sentence."""

    def __init__(self, text: str, counts: Three, final: bool):
        self.counts, self.final = counts, final
        self.shares = (_Share(), _Share())
        self.must_be_complete = False
        self.tells = False  # "take the hats" is a proposal together with the sender's items only
        start = 0
        for end in (*_END.finditer(text), None):
            stop = end.start() if end else len(text)
            tokens = wording.TOKEN.findall(wording.spelled(text[start:stop]))
            if not _MENTIONS.isdisjoint(tokens) or any(map(str.isdecimal, tokens)):
                _Sentence(self, tokens, "?" in (end[0] if end else ""), final).read()
            elif self._stated() and not wording.NEGATIONS.isdisjoint(tokens):
                raise NotUnderstood("The proposal is taken back.")
            start = end.end() if end else stop

    def _stated(self) -> bool:
        return self.shares[ME].stated or self.shares[YOU].stated

    def give(self, who: int, phrase: Phrase, denied: bool) -> None:
        """Adds items to the share of a player."""
        share = self.shares[who]
        if denied:
            if not phrase.whole or phrase.rest:
                raise NotUnderstood("It is unclear how many items are denied.")
            phrase = Phrase(dict.fromkeys(phrase.named, 0))
        else:
            share.stated |= any(phrase.named.values()) or phrase.rest or self.final
        share.rest |= phrase.rest
        for kind, count in phrase.named.items():
            if share.named.setdefault(kind, count) != count:
                raise NotUnderstood("Two numbers contradict each other.")

    def share(self) -> Three | None:
        """Returns the sender's share, or None if the message proposes none."""
        for each in self.shares:
            each.stated |= len(each.named) == len(self.counts)
        if not self._stated():
            return None
        mine, yours = self.shares
        if self.tells and not mine.stated:
            raise NotUnderstood("It is unclear who takes the items.")
        if (mine.rest and (yours.rest or not yours.stated)) or (yours.rest and not mine.stated):
            raise NotUnderstood("It is unclear which items are the rest.")
        take = []
        for kind, count in enumerate(self.counts):
            own, other = mine.named.get(kind), yours.named.get(kind)
            if self.must_be_complete and own is None and other is None:
                if not (mine.rest or yours.rest):
                    raise NotUnderstood("A condition names a part of the split.")
            if own is None:
                # Items that are not named go to the co-player, or to the sender if it names only
                # the co-player's items.
                takes = mine.rest or not mine.stated or (other == 0)
                own = count - (other or 0) if takes else 0
            if not 0 <= own <= count - (other or 0):
                raise NotUnderstood("There are not so many items.")
            if self.must_be_complete and other is not None and own + other != count:
                raise NotUnderstood("A condition names a part of the split.")
            if yours.rest and other is not None and own + other != count:
                raise NotUnderstood("The rest contradicts a number.")
            take.append(own)
        return take[0], take[1], take[2]


class _Sentence(PhraseReader):
    """Reads one sentence from left to right."""

    def __init__(self, message: _Message, tokens: list[str], asks: bool, final: bool):
        super().__init__(tokens, message.counts)
        self.message, self.asks, self.final = message, asks, final
        self.subject = ME
        self.owner: int | None = None
        self.denied = False
        self.commas = 0
        self.pending: list[Phrase] = []
        """Items without an owner yet, as in "the hats for you"."""
        self.owned: list[tuple[int, bool, Phrase]] = []
        """Items of the owner, each with the commas before it and whether they are denied."""
        self.placed = False
        """Whether the sentence gives items an owner behind them."""

    def _skip(self, words: frozenset[str]) -> None:
        while self.peek() in words:
            self.at += 1

    def read(self) -> None:
        """Adds the items of the sentence to the shares."""
        before = [share.stated for share in self.message.shares]
        while self.at < len(self.tokens):
            self._part()
        self._settle()
        mine, yours = (s.stated and not b for s, b in zip(self.message.shares, before, strict=True))
        if self.asks and not mine and yours and "about" not in self.tokens:
            self.message.must_be_complete = True  # "Do you want 2 hats?"

    def _part(self) -> None:
        """Reads the next part of the sentence."""
        token = self.peek()
        if (phrase := self.items()) is not None:
            self._name(phrase)
        elif token in wording.FOR:
            self.at += 1
            self._place(wording.FOR[token], token.startswith("IS"))
        elif token in wording.SUBJECTS:
            self._clause(wording.SUBJECTS[token])
        elif token == "me":
            self._label(ME)
        elif token == "if":
            self.at += 1
            self.message.must_be_complete = True
        elif token in wording.GIVE or token == "let":
            self._give(None)
        elif token in wording.KEEP:
            self._bare_verb()
        elif token == "not" and self.peek(-1) in ("but", "and", ",") and self.owner is not None:
            self.at += 1
            self.denied = True
        elif token in wording.MODALS and self.peek(1) in wording.SUBJECTS:
            self.at += 1  # "can I have"
        elif token == ",":
            self.at += 1
            self.commas += 1
        elif token in wording.FILLERS or (token > EMOJI and unicodedata.category(token) == "So"):
            self.at += 1
        else:
            raise NotUnderstood(f"The word {token!r} is unclear.")

    def _name(self, phrase: Phrase) -> None:
        if self.owner is None:
            self.pending.append(phrase)
        else:
            self.owned.append((self.commas, self.denied, phrase))

    def _place(self, who: int, is_subject: bool) -> None:
        """Reads "for me" or "is mine", behind the items or before them.

        `is_subject` holds for "is mine": the items before it have no other verb.
        """
        if self.owned and (is_subject or self.owned[-1][2].rest):
            for phrase in self._last_owned():
                self.message.give(who, phrase, False)
        elif self.owner is not None and self.owner != who:
            raise NotUnderstood("It is unclear for whom the items are.")
        elif self.pending:
            for phrase in self.pending:
                self.message.give(who, phrase, self.denied)
            self.pending, self.placed, self.denied = [], True, False
        elif self.owner is None:
            self.owner = who

    def _last_owned(self) -> list[Phrase]:
        """Takes the items that "is mine" is about from those of the verb before."""
        commas, denied, phrase = self.owned.pop()
        if denied:
            raise NotUnderstood("It is unclear for whom the items are.")
        found = [phrase]
        while self.owned and self.owned[-1][0] == commas and not phrase.rest and commas:
            found.append(self.owned.pop()[2])
        if (not phrase.rest and len(self.owned) != 1 and not commas) or not self.owned:
            raise NotUnderstood("It is unclear for whom the items are.")
        return found

    def _settle(self) -> None:
        """Gives items without an owner to the sender, if nothing else can be meant."""
        if self.pending:
            kinds = {kind for phrase in self.pending for kind in phrase.named}
            listed = self.final or len(kinds) == len(self.counts)
            if self.placed or self.asks or not listed:
                raise NotUnderstood("It is unclear for whom the items are.")
            for phrase in self.pending:
                self.message.give(ME, phrase, self.denied)
            self.pending = []
        for _, denied, phrase in self.owned:
            assert self.owner is not None
            self.message.give(self.owner, phrase, denied)
        self.owner, self.denied, self.owned = None, False, []

    def _label(self, who: int) -> None:
        """Reads "me: 2 books"."""
        self.at += 1
        if self.peek() not in (":", "-", "=") and self.items(look=True) is None:
            raise NotUnderstood("A name without a verb is unclear.")
        self._skip(frozenset(":-="))
        self._settle()
        self.owner = who

    def _clause(self, who: int) -> None:
        """Reads a subject with its verb: "I will take", "you give me"."""
        label = self.at
        self.at += 1
        denied = False
        while (
            (token := self.peek()) in wording.MODALS or token in wording.ADVERBS or (token == "not")
        ):
            denied |= token == "not"
            self.at += 1
        if token in wording.GIVE or token == "let":
            self._give(who, denied)
        elif token in wording.KEEP:
            while self.peek() in wording.KEEP or self.peek() in ("to", "not"):
                self.at += 1
            self._settle()
            self.owner = self.subject = who
            self.denied = denied
        elif self.at == label + 1 and who == YOU:
            self.at = label
            self._label(YOU)
        else:
            raise NotUnderstood("The verb is unclear.")

    def _give(self, who: int | None, denied: bool = False) -> None:
        """Reads "give me", "let you have" or "leave the hats". `who` is the subject, if any."""
        verb = self.peek()
        self.at += 1
        person = wording.PEOPLE.get(self.peek())
        if person is not None:
            self.at += 1
        if verb == "let":
            self._skip(wording.ADVERBS)
            if person is None or self.peek() not in wording.KEEP:
                raise NotUnderstood("The verb is unclear.")
            self.at += 1
        if (who is None and person is None) or (who is not None and who == person != ME):
            raise NotUnderstood("It is unclear who gives.")
        if (who == YOU and verb == "offer") or who == person:
            raise NotUnderstood("It is unclear who gives.")
        self._settle()
        self.owner = person if person is not None else YOU - (who or 0)
        self.subject = YOU - self.owner
        self.denied = denied

    def _bare_verb(self) -> None:
        """Reads a verb without a subject: "I take the book and keep a hat", "take the balls"."""
        joined = self.peek(-1) in ("and", ",", "or") and self.owner is not None
        token = self.peek()
        self.at += 1
        if joined:
            self._settle()
            self.owner = self.subject
            return
        if self.owner is not None or self.pending or self.placed:
            raise NotUnderstood("The subject is unclear.")
        self.owner = self.subject = ME if self.final or token in ("want", "need") else YOU
        self.message.tells |= self.owner == YOU
