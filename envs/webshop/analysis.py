"""Converts text to search terms like Lucene's English analyser, without Lucene.

The text is split by the Unicode rules for word boundaries (UAX 29) as in Lucene's
StandardTokenizer. Possessive 's is dropped, letters are converted to lower case, stop words are
removed, and Porter's stemmer is applied.
"""

from __future__ import annotations

import functools
import re
import threading

import Stemmer

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with".split()
)
MAX_TERM_LENGTH = 255

# Character classes of UAX 29. Marks and format characters belong to what precedes them.
_EXTEND = (
    "\xad\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u0610-\u061a\u061c"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u200c-\u200f\u202a-\u202e\u2060-\u2064\u20d0-\u20f0\u3099"
    "\u309a\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uff9e\uff9f\U000e0001-\U000e01ef"
)
_HIRAGANA = "\u3041-\u3096\u309d-\u309f"
_KATAKANA = (
    "\u3031-\u3035\u309b\u309c\u30a0-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u32d0-\u32fe\u3300-\u3357"
    "\uff66-\uff9d"
)
_HAN = (
    "\u2e80-\u2fd5\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u9fff\uf900-\ufad9"
    "\U00020000-\U0003ffff"
)
_SOUTH_EAST_ASIAN = "\u0e01-\u0e4e\u0e81-\u0ecd\u1000-\u109d\u1780-\u17d3"  # kept in runs
_NUMBER_SIGNS = "¹²³¼-¾⁰⁴-⁹₀-₉⅐-⅟↉①-⒛⓪-⓿❶-➓㆒-㆕㈠-㉿㊀-㋿"  # \w for Python, no letters for Unicode
_EMOJI = (
    "©®\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf\u23e9-\u23f3"
    "\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612"
    "\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747"
    "\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935"
    "\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f0ff"
    "\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e"
    "\U0001f191-\U0001f19a\U0001f1ad-\U0001f1e5\U0001f201-\U0001f20f\U0001f21a\U0001f22f"
    "\U0001f232-\U0001f23a\U0001f23c-\U0001f23f\U0001f249-\U0001f3fa\U0001f400-\U0001f53d"
    "\U0001f546-\U0001f64f\U0001f680-\U0001f6ff\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff"
    "\U0001f80c-\U0001f80f\U0001f848-\U0001f84f\U0001f85a-\U0001f85f\U0001f888-\U0001f88f"
    "\U0001f8ae-\U0001f8ff\U0001f90c-\U0001f93a\U0001f93c-\U0001f945\U0001f947-\U0001fffd"
)


def _word_pattern(ascii_only: bool) -> re.Pattern[str]:
    """Returns the pattern of a word, in a much simpler form for ASCII text.

    Quantifiers are possessive (`*+`) so that matching takes linear time.
    """
    other = _HIRAGANA + _KATAKANA + _HAN + _SOUTH_EAST_ASIAN
    marks = "" if ascii_only else f"[{_EXTEND}]*+"
    foreign = "" if ascii_only else rf"|[^\W\d_{_NUMBER_SIGNS}{other}]"
    letter = f"(?:[A-Za-z]++{foreign}){marks}"
    digit = rf"\d{marks}"
    joiner = (
        "_" if ascii_only else f"[_\u202f\u203f\u2040\u2054\ufe33\ufe34\ufe4d-\ufe4f\uff3f]{marks}"
    )
    quotes = "'." if ascii_only else "'.‘’․﹒＇．"
    in_word = f"[{quotes}:{'' if ascii_only else '·˗·״‧︓﹕：'}]{marks}"
    in_number = f"[{quotes},;{'' if ascii_only else ';։،؍٬߸⁄︐︔﹐﹔，；'}]{marks}"
    letters = f"{letter}(?:(?:{joiner})*+{letter}|{in_word}{letter})*+"
    digits = f"{digit}(?:(?:{joiner})*+{digit}|{in_number}{digit})*+"
    part = f"(?:{letters}|{digits})++"
    if not ascii_only:
        katakana = f"[{_KATAKANA}]{marks}"
        part = f"(?:{part}|{katakana}(?:(?:{joiner})*+{katakana})*+)"
    # Joiners are tried only at the first one: "____" has no word and should fail at once.
    word = f"(?:(?<!_)(?:{joiner})*+)?{part}(?:(?:{joiner})++{part})*+(?:{joiner})*+"
    if ascii_only:
        return re.compile(word)
    inner = f"[{_EXTEND}]*+".replace("\ufe00-\ufe0f", "\ufe00-\ufe0d").replace(
        "\u200c-\u200f", "\u200c\u200e\u200f"
    )
    tone = "[\U0001f3fb-\U0001f3ff]"
    emoji = f"(?:[{_EMOJI}]{inner}(?:{tone}{inner}|\ufe0f?)|{tone}{inner})"
    flag = f"(?:[\U0001f1e6-\U0001f1ff]{marks}){{2}}"
    keycap = f"[#*]{inner}\ufe0f?\u20e3{inner}"
    run = f"(?:[{_SOUTH_EAST_ASIAN}]{marks})++"
    single = f"[{_HAN}{_HIRAGANA}]{marks}"
    return re.compile(f"{word}|{emoji}(?:\u200d++{emoji})*+\u200d*+|{flag}|{keycap}|{run}|{single}")


_ASCII_WORD = _word_pattern(ascii_only=True)
_UNICODE_WORD = _word_pattern(ascii_only=False)
_local = threading.local()


def words(text: str) -> list[str]:
    """Splits a text into words, without punctuation and white space."""
    found = (_ASCII_WORD if text.isascii() else _UNICODE_WORD).findall(text)
    if len(text) > MAX_TERM_LENGTH and max(map(len, found), default=0) > MAX_TERM_LENGTH:
        size = MAX_TERM_LENGTH
        found = [word[i : i + size] for word in found for i in range(0, len(word), size)]
    return found


@functools.lru_cache(maxsize=1 << 14)
def term(word: str) -> str | None:
    """Returns the search term of a word, None for a stop word."""
    if len(word) > 1 and word[-1] in "sS" and word[-2] in "'’＇":
        word = word[:-2]
    word = word.lower()
    return None if word in STOP_WORDS else _stem(word)


def terms(text: str) -> list[str]:
    """Returns the search terms of a text, in order, with duplicates."""
    return [found for word in words(text) if (found := term(word)) is not None]


def _stem(word: str) -> str:
    """Returns Porter's stem as computed by Lucene, with two rules added after the paper."""
    if len(word) <= 2:
        return word
    if not hasattr(_local, "stemmer"):
        _local.stemmer = Stemmer.Stemmer("porter", 0)  # its objects are not thread-safe
    stem = _local.stemmer.stemWord(word)
    if stem.endswith("logi") and _has_measure(stem[:-4]):
        return stem[:-1]  # logi -> log
    if stem.endswith("bli") and _has_measure(stem[:-3]):
        return _local.stemmer.stemWord(stem[:-1] + "e")  # bli -> ble, then the later steps
    return stem


def _has_measure(stem: str) -> bool:
    """Returns whether a vowel is followed by a consonant, Porter's m > 0."""
    was_vowel = False
    for i, letter in enumerate(stem):
        vowel = letter in "aeiou" or (letter == "y" and i > 0 and not was_vowel)
        if was_vowel and not vowel:
            return True
        was_vowel = vowel
    return False
