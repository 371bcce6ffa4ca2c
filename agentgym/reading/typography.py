"""Typography: characters of equal meaning in one plain form, and the end marks of chat models."""

from __future__ import annotations

import re
import unicodedata

_MINUS = "\u02d7\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u2796\u2e3a\u2e3b\ufe31\ufe32"
_SINGLE = (
    "\u00b4\u02b9\u02bb\u02bc\u02bd\u2018\u2019\u201a\u201b\u2032\u2035\u2039\u203a\u275b\u275c"
)
_DOUBLE = (
    "\u00ab\u00bb\u02ba\u201c\u201d\u201e\u201f\u2033\u2036\u275d\u275e\u300c\u300d\u300e\u300f"
    "\u301d\u301e\u301f\uff62\uff63"
)
_SPACES = (
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f"
    "\u3000"
)
_INVISIBLE = (
    "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061"
    "\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff"
)
_OTHERS = {
    "\u0085": "\n", "\u2028": "\n", "\u2029": "\n",
    "\u2236": ":", "\ua789": ":", "\ufe13": ":", "\u02d0": ":",
    "\u060c": ",", "\u066c": ",", "\u3001": ",", "\uff64": ",", "\u066b": ".", "\u3002": ".",
    "\uff61": ".", "\u2024": ".", "\u2025": "..", "\u2026": "...", "\u061b": ";", "\u061f": "?",
    "\u066a": "%", "\u2044": "/", "\u2215": "/", "\u29f8": "/", "\u2217": "*", "\u02dc": "~",
    "\u223c": "~",
}  # fmt: skip
_COMPATIBLE = ((0xFB00, 0xFB07), (0xFE50, 0xFE6C), (0xFF01, 0xFF5F), (0x1D400, 0x1D6A4))
"""Ligatures, small and full-width forms, letters in bold and other styles: as in NFKC."""


def _table() -> dict[int, str]:
    """Returns the plain form by code point."""
    found = {code: unicodedata.normalize("NFKC", chr(code)) for low, high in _COMPATIBLE
             for code in range(low, high)}  # fmt: skip
    found = {code: text for code, text in found.items() if text.isascii()}
    groups = {"-": _MINUS, "'": _SINGLE, '"': _DOUBLE, " ": _SPACES, "": _INVISIBLE}
    found |= {ord(mark): plain for plain, marks in groups.items() for mark in marks}
    return found | {ord(mark): plain for mark, plain in _OTHERS.items()} | {0xFE58: "-"}


_PLAIN = _table()
_DIGIT = re.compile(r"[^\D0-9]")
_ACCENTED = re.compile("[A-Za-z][\u0300-\u036f]{1,4}(?![\u0300-\u036f])")
_UNPLAIN = frozenset(map(chr, (*_PLAIN, *range(0x300, 0x370))))
"""Characters with a plain form of its own, and marks that belong to the letter before them."""
_OPERATORS = str.maketrans({"\u00d7": "*", "\u00b7": "*", "\u22c5": "*", "\u2219": "*",
                            "\u2715": "*", "\u2716": "*", "\u00f7": "/", "\u2795": "+",
                            "\u2797": "/"})  # fmt: skip


def normalized(text: str) -> str:
    """Returns a text with one plain form for characters of equal meaning.

    Dashes and minus signs become "-", typographic quotes and primes ' and ", spaces " ", colons
    ":", full-width and styled letters and the digits of all scripts their ASCII forms, "…" "...".
    Zero-width marks and soft hyphens are removed. Letters of languages, such as é, stay, each as
    one character. The function is idempotent, and leaves ASCII as it is.
    """
    if text.isascii() or (_UNPLAIN.isdisjoint(text) and not _DIGIT.search(text)):
        return text
    text = text.translate(_PLAIN)
    if text.isascii():
        return text
    text = _DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), text)
    return _ACCENTED.sub(lambda found: unicodedata.normalize("NFC", found[0]), text)


_FOLDED = re.compile("[\u0130\u0131\u017f\u212a]")


def folds_plainly(text: str) -> bool:
    """Whether no other letters of a text than ASCII ones match ASCII letters, if case is ignored.

    Such letters are ı, İ, ſ and the sign of Kelvin. Without them, the words that a
    pattern finds are words of `text.lower()`.
    """
    return text.isascii() or not _FOLDED.search(text)


_STRING = re.compile(
    r"\"{3}.{0,2000}?\"{3}|'{3}.{0,2000}?'{3}"
    r"|\"(?:\\.|[^\"\\\n]){0,500}\"|'(?:\\.|[^'\\\n]){0,500}'",
    re.DOTALL,
)


def normalized_code(text: str) -> str:
    """Returns `normalized` of a program or command, whose strings in plain quotes stay."""
    if text.isascii() or not ('"' in text or "'" in text):
        return normalized(text)
    pieces, done = [], 0
    for match in _STRING.finditer(text):
        pieces += [normalized(text[done : match.start()]), match[0]]
        done = match.end()
    return "".join([*pieces, normalized(text[done:])])


def plain_operators(text: str) -> str:
    """Returns `normalized` of a text with "*" and "/" for the other signs of these operations."""
    return text if text.isascii() else normalized(text).translate(_OPERATORS)


_ENDS = (
    "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
    "<|start_header_id|>", "<|eot|>", "<|eom|>", "<|header_start|>", "<end_of_turn>",
    "<start_of_turn>", "<eos>", "</s>", "<|end|>", "<|return|>", "<|call|>", "<|user|>",
    "<|system|>", "<|observation|>", "<|end_of_turn|>", "<|END_OF_TURN_TOKEN|>", "<|end_of_role|>",
    "<|end_of_msg|>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<|im_user|>",
    "<|im_system|>", "[/INST]", "[INST]", "[EOS]", "<|eos|>", "<extra_id_1>", "<turn|>",
)  # fmt: skip
_END = re.compile(
    "|".join(map(re.escape, {*_ENDS, *(mark.replace("｜", "|") for mark in _ENDS)})), re.IGNORECASE
)
_STARTS = (
    r"<\|im_start\|>(?:assistant\b)?", r"<\|start_header_id\|>assistant<\|end_header_id\|>",
    r"<\|header_start\|>assistant<\|header_end\|>", r"<start_of_turn>(?:model\b)?",
    r"<\|assistant\|>", "<｜Assistant｜>", r"<\|im_assistant\|>assistant<\|im_middle\|>",
    r"<\|begin_of_text\|>", "<｜begin▁of▁sentence｜>", r"\[/INST\]", "<s>", "<bos>",
    r"<\|Assistant\|>", r"<\|begin▁of▁sentence\|>",
)  # fmt: skip
_START = re.compile(rf"(?:\s{{0,9}}(?:{'|'.join(_STARTS)})){{1,9}}\s{{0,9}}", re.IGNORECASE)


_BRACKETED = re.compile(r"(?:inst|eos)\]", re.IGNORECASE)
"""A part of the marks without "<"."""


def find_reply(text: str) -> tuple[int, int]:
    """Returns where the first reply in the output of a chat model starts and stops.

    It starts behind marks of a start, such as `<|im_start|>assistant`, and stops at the first end
    mark, such as `<|im_end|>`.
    """
    if "<" not in text and ("[" not in text or (text.isascii() and not _BRACKETED.search(text))):
        return 0, len(text)
    begun = _START.match(text)
    start = begun.end() if begun else 0
    end = _END.search(text, start)
    return start, end.start() if end else len(text)


def without_end_marks(text: str) -> str:
    """Returns the first reply in the output of a chat model: see `find_reply`."""
    start, stop = find_reply(text)
    return text[start:stop]


_THOUGHT = re.compile(r"\s{0,99}<think(?:ing)?>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_CUT_THOUGHT_END = re.compile(r"</think(?:ing)?>[ \t]{0,9}\r?\n", re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """Returns a reply without the thoughts at its start: `<think>...</think>`.

    Thoughts without an end mark reach to the end. The start mark may be missing, as it is if the
    prompt ends with it. Then the end mark ends its line, so that marks in strings are text.
    """
    if "think" not in text or ("</think" not in text and "<think" not in text):
        return text
    if not _THOUGHT.match(text):
        cut = _CUT_THOUGHT_END.search(text)
        if cut is None or "<think" in text[: cut.start()]:
            return text
        return text[cut.end() :].lstrip()
    while opened := _THOUGHT.match(text):
        end = _THOUGHT_END.search(text, opened.end())
        text = text[end.end() :].lstrip() if end else ""
    return text
