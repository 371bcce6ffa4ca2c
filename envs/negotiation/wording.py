"""The words in which people propose a split of books, hats and balls."""

from __future__ import annotations

import re

from agentgym.reading.number_words import SMALL

KINDS: dict[str, int] = {
    "book": 0, "books": 0, "hat": 1, "hats": 1, "ball": 2, "balls": 2, "basketball": 2,
    "basketballs": 2,
}  # fmt: skip
"""The index of each kind of item."""
NUMBERS: dict[str, int] = {"a": 1, "an": 1, "single": 1, **SMALL}
TOKEN = re.compile(r"[A-Za-z]+|\d+(?:[.,]\d+)*|[^\sa-z\d]")

# Phrases with one meaning are replaced by one word, longest first. Capitals mark the words that no
# message contains.
_PHRASES: dict[str, str] = {
    **{f"{a} {b}": "want" for a in ("would", "d") for b in ("like", "love", "prefer", "rather")},
    "will not": "not", "won't": "not", "can't": "not", "cannot": "not", "can not": "not",
    "could not": "not", "couldn't": "not", "don't": "not", "dont": "not", "do not": "not",
    "would not": "not", "wouldn't": "not", "doesn't": "not", "isn't": "not", "aren't": "not",
    "wont": "not", "cant": "not",
    "i'd": "i would", "i'll": "i will", "i'm": "i am", "i've": "i have", "ill": "i will",
    "im": "i am", "i ll": "i will", "i`ll": "i will", "id like": "i want",
    "you'd": "you would", "you'll": "you will", "you're": "you are", "u": "you",
    "youll": "you will", "let's say": "say", "let's": "say", "lets": "say",
    "gimme": "give me", "lemme": "let me", "gonna": "going to", "wanna": "want to",
    "would be happy with": "want", "am happy with": "want", "am fine with": "want",
    "am okay with": "want", "am ok with": "want", "settle for": "take", "go with": "take",
    "let go of": "leave", "part with": "leave", "give up": "leave", "be willing to": "",
    "be happy to": "", "be able to": "", "am willing to": "", "am happy to": "", "be nice to": "",
    "everything else": "REST", "all else": "REST", "anything else": "REST", "all the rest": "REST",
    "what is left": "REST", "what's left": "REST", "whatever is left": "REST",
    "the remainder": "REST", "the rest": "REST", "rest": "REST", "the leftovers": "REST",
    **{
        f"{a}{b} {c}": "REST"
        for a in ("", "the ", "all ", "all the ", "all of the ")
        for b in ("other", "remaining")
        for c in ("items", "things", "ones", "stuff", "objects")
    },
    "the others": "REST", "all others": "REST", "all the others": "REST",
    "of the items": "", "of everything": "",
    **{
        f"{a}{b}": "EVERYTHING"
        for a in ("all ", "all the ", "all of the ")
        for b in ("items", "things", "stuff", "objects")
    },
    "everything": "EVERYTHING", "all of it": "EVERYTHING", "all of them": "EVERYTHING",
    "one of each item": "EACH", "one of each kind": "EACH", "one of each": "EACH",
    "1 of each item": "EACH", "1 of each kind": "EACH", "1 of each": "EACH",
    "a couple of": "2", "couple of": "2",
    "except for": "except", "apart from": "except", "aside from": "except", "besides": "except",
    "other than": "except", "excluding": "except", "minus": "except",
    "for me": "ME", "to me": "ME", "for myself": "ME", "mine": "ME", "on my side": "ME",
    "for you": "YOU", "to you": "YOU", "for yourself": "YOU", "yours": "YOU", "to u": "YOU",
    "for u": "YOU",
    **{f"{verb} {word}": who for verb in ("is", "are", "will be", "must be", "can be", "go", "goes")
       for who, words in (("ISME", ("mine", "for me", "to me")),
                          ("ISYOU", ("yours", "for you", "to you"))) for word in words},
    "instead of": "INSTEAD", "cowboy hat": "hat", "cowboy hats": "hats",
    "as well as": "and", "along with": "and", "together with": "and", "plus": "and",
    "in addition to": "and",
}  # fmt: skip
_POLITE = (
    "does that work for you", "does that work",
    "would that work for you", "would that work", "is that ok with you", "is that okay with you",
    "is that ok", "is that okay", "is that fair", "how does that sound", "how is that",
    "how's that", "what do you think", "what do you say", "sounds good", "sounds fair",
    "sound good", "sound fair", "works for me", "work for you", "that works", "i think",
    "i propose that", "i propose", "i suggest that", "i suggest", "my proposal is", "my proposal",
    "my offer is that", "my offer is", "here is my proposal", "here's my proposal", "in return",
    "in exchange", "so that", "would be nice", "would be great", "would be good", "would be fine",
    "i agree", "all right", "thank you", "proposal", "final answer", "my choice", "my answer",
    "at the end", "in the end", "in total", "hi there", "hey there", "hello there",
    "what if", "i guess", "i suppose", "that means", "we have a deal", "you have a deal",
    *(f"{this}{my} {last} offer" for this in ("this is ", "that is ", "that's ")
      for my in ("my", "the") for last in ("final", "last", "best")),
    *(f"{my}{last} offer" for my in ("my ", "the ") for last in ("final", "best")), "final offer",
    "confirming that", "confirming", "to confirm",
)  # fmt: skip
# Behind a proposal, they deny it.
_BEFORE = re.compile(
    r"^\s*(?:however|that (?:will not|won't|does not|doesn't) work(?: for me)?)\s*(?=[,:;-])"
)
_SPELLINGS = {**_PHRASES, **dict.fromkeys(_POLITE, "")}
_SPELLING = re.compile(
    rf"(?<![\w'])(?:{'|'.join(map(re.escape, sorted(_SPELLINGS, key=len, reverse=True)))})(?![\w'])"
)
# "If you want the ball" is a condition, "if you want, ..." is not.
_IF_POLITE = re.compile(
    r"\bif (?:you (?:agree|want|like|do(?: not|n't) mind|are (?:ok|okay|fine)(?: with that)?)"
    r"|(?:that|this|it)(?: is|'s)? (?:works?|ok|okay|fine|good|alright)(?: (?:for|with) you)?"
    r"|possible)(?=\s*(?:[,:-]|$|(?:i|you)\b))"
)

SUBJECTS = {"i": 0, "you": 1}
PEOPLE = {"me": 0, "i": 0, "myself": 0, "you": 1, "yourself": 1}
FOR = {"ME": 0, "YOU": 1, "ISME": 0, "ISYOU": 1}
KEEP = frozenset(
    "take takes taking keep keeps keeping get gets getting have having want need receive grab claim"
    .split()
)  # fmt: skip
GIVE = frozenset("give giving offer leave leaving hand pass".split())
MODALS = frozenset("will would can could may might should shall must going am are be to".split())
ADVERBS = frozenset(
    "just only really then please simply gladly happily definitely absolutely certainly so now "
    "still actually".split()
)
FILLERS = frozenset(
    "hi hello hey ok okay yes yeah yep yup sure well so hmm alright great good perfect fine fair "
    "thanks sorry please then deal no nope nah and but while with how about what say suggest sir "
    "just only now is are goes go be instead with lol haha friend "
    "very agreed correct right though unfortunately , & + - :".split()
)
DETERMINERS = frozenset("the this that these those".split())
NEGATIONS = frozenset("not never no none nothing if unless kidding joking wrong false".split())


def spelled(sentence: str) -> str:
    """Returns a sentence with one word in place of each phrase of a known meaning."""
    before, sentence = "", _IF_POLITE.sub("", _BEFORE.sub("", sentence))
    while sentence != before:
        before, sentence = sentence, _SPELLING.sub(lambda found: _SPELLINGS[found[0]], sentence)
    return sentence
