"""Extracts the nouns of a product title, without a model or with spaCy."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable

from agentgym.errors import DataError, MissingExtraError

NounTagger = Callable[[str], list[str]]
"""Text -> its nouns in lower case, in order, with duplicates."""

# The rules of spaCy's English tokenizer for a piece between white space, as far as they affect the
# alphabetic tokens: the characters stripped from its ends, the splits inside, the abbreviations
# that stay whole, and the parts of contractions.
_QUOTES = "'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉⟦⟧"
_MARKS = "…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪"
_SYMBOL = "\ue000"  # stands for any symbol such as ® or an emoji
_CURRENCIES = "$£€¥฿₽﷼₠-₿"
_LETTER = r"[^\W\d_]"
_LOWER = r"[a-zß-öø-ÿа-яёα-ω]"
_UPPER = r"[A-ZÀ-ÖØ-ÞА-ЯЁΑ-Ω]"
_UNITS = (
    "km³|km²|km|m²|m³|m|dm²|dm³|dm|cm²|cm³|cm|mm²|mm³|mm|ha|µm|nm|yd|in|ft|kg|g|mg|µg|t|lb|oz|"
    "m/s|km/h|kmh|mph|hPa|Pa|mbar|mb|MB|kb|KB|gb|GB|tb|TB|T|G|M|K|%"
)
_PREFIX = re.compile(
    rf"\.\.+|\+(?![0-9])|(?:US|C|A)\$|[§%=—–{_SYMBOL}{re.escape(_MARKS)}{re.escape(_QUOTES)}{_CURRENCIES}]"
)
_SUFFIX = re.compile(
    rf"""(?:\.\.+|['’][sS]|[—–{_SYMBOL}{re.escape(_MARKS)}{re.escape(_QUOTES)}]|(?<=[0-9])\+
    |(?<=[0-9])(?:(?:US|C|A)\$|[{_CURRENCIES}])|(?<=[0-9])(?:{_UNITS})
    |(?<=[0-9%²\-+{re.escape(_MARKS + _QUOTES)}])\.|(?<={_LOWER})\.|(?<={_UPPER}{_UPPER})\.)$""",
    re.VERBOSE,
)
_INFIX = re.compile(
    rf"""\.\.+|[…{_SYMBOL}]|(?<=[0-9])[+\-*^](?=[0-9-])
    |(?<={_LETTER}),(?={_LETTER})
    |(?:(?<={_LOWER})|(?<=[{re.escape(_QUOTES)}]))\.(?={_UPPER}|[{re.escape(_QUOTES)}])
    |(?:(?<={_LETTER})|(?<=[0-9]))(?:---|——|--|[-–—~:<>=/])(?={_LETTER})""",
    re.VERBOSE,
)
_ABBREVIATIONS = frozenset(
    "Adm. Ak. Ala. Apr. Ariz. Ark. Aug. Bros. Calif. Co. Colo. Conn. Corp. Dec. Del. Dr. Feb. Fla. "
    "Ga. Gen. Gov. Ia. Id. Ill. Inc. Ind. Jan. Jr. Jul. Jun. Kan. Kans. Ky. La. Ltd. Mar. Mass. "
    "Md. Messrs. Mich. Minn. Miss. Mo. Mont. Mr. Mrs. Ms. Mt. Neb. Nebr. Nev. Nov. Oct. Okla. Ore. "
    "Pa. Prof. Rep. Rev. Sen. Sep. Sept. St. Tenn. Va. Wash. Wis. co. vs. ä. ö. ü.".split()
) | {f"{letter}." for letter in "abcdefghijklmnopqrstuvwxyz"}


def _contractions() -> dict[str, tuple[str, ...]]:
    """Returns the words of each contraction."""
    asking = "how that there these this those what when where who why".split()
    found: dict[str, tuple[str, ...]] = {}
    for word in [*asking, "i", "it", "we", "you", "he", "she", "they"]:
        spoken = {
            "d": word != "she",  # "shed", "hell", "shell", "ill" and "well" are words themselves
            "ll": word not in ("he", "she", "i", "we"),
            "ve": word not in ("he", "she", "it", "that", "this"),
            "re": word in [*asking, "they", "you"] and word not in ("that", "this", "who"),
            "s": word in "he how she that there this what when where who why".split(),
            "dve": True,
            "llve": True,
        }
        for ending, exists in spoken.items():
            if exists:
                parts = (ending[:-2], "ve") if len(ending) > 2 else (ending,)
                found[word + ending] = (word, *parts)
    for verb in (
        "ai are ca could did do does dare had has have is may might must need ought sha should "
        "was were wo would"
    ).split():
        found[verb + "nt"] = (verb, "nt")
        for mark in "'’":
            found[f"{verb}n{mark}t"] = found[f"{verb}n{mark}t{mark}ve"] = (verb,)
        if verb not in "ai are dare has have is was were".split():
            found[verb + "ntve"] = (verb, "nt", "ve")
    for verb in "could might must not should would".split():
        found[verb + "ve"] = (verb, "ve")
    found |= {f"{hour}pm": ("pm",) for hour in range(1, 13)}
    found |= {"cannot": (), "im": ("m",), "ima": ("m",), "gonna": ("gon", "na")}
    return found | {"gotta": ("got", "ta"), "yall": ("y",)}


_CONTRACTIONS = _contractions()

STOP_WORDS = frozenset(
    """
    a about above across after afterwards again against all almost alone along already also
    although always am among amongst amount an and another any anyhow anyone anything anyway
    anywhere are around as at back be became because become becomes becoming been before
    beforehand behind being below beside besides between beyond both bottom but by ca call can
    cannot could did do does doing done down due during each eight either eleven else elsewhere
    empty enough even ever every everyone everything everywhere except few fifteen fifty first
    five for former formerly forty four from front full further get give go had has have he
    hence her here hereafter hereby herein hereupon hers herself him himself his how however
    hundred i if in indeed into is it its itself just keep last latter latterly least less made
    make many may me meanwhile might mine more moreover most mostly move much must my myself
    name namely neither never nevertheless next nine no nobody none noone nor not nothing now
    nowhere of off often on once one only onto or other others otherwise our ours ourselves out
    over own part per perhaps please put quite rather re really regarding same say see seem
    seemed seeming seems serious several she should show side since six sixty so some somehow
    someone something sometime sometimes somewhere still such take ten than that the their them
    themselves then thence there thereafter thereby therefore therein thereupon these they third
    this those though three through throughout thru thus to together too top toward towards
    twelve twenty two under unless until up upon us used using various very via was we well were
    what whatever when whence whenever where whereafter whereas whereby wherein whereupon
    wherever whether which while whither who whoever whole whom whose why will with within
    without would yet you your yours yourself yourselves
    """.split()
)


@functools.lru_cache(maxsize=4096)
def _nouns(text: str) -> tuple[str, ...]:
    if not text.isascii():
        text = "".join(_SYMBOL if unicodedata.category(char) == "So" else char for char in text)
    words = [word for piece in text.split() for word in _words(piece)]
    return tuple(word for word in words if word.isalpha() and word not in STOP_WORDS)


def alphabetic_nouns(text: str) -> list[str]:
    """Returns the alphabetic words, in lower case, without stop words.

    A deterministic replacement for a part-of-speech tagger, with spaCy's English tokenization.
    """
    return list(_nouns(text))


@functools.lru_cache(maxsize=1 << 14)
def _words(piece: str) -> tuple[str, ...]:
    """Returns the words, in lower case, of a piece of text without white space."""
    before: list[str] = []
    after: list[str] = []
    while piece and not _is_special(piece):
        prefix = _PREFIX.match(piece)
        rest = piece[prefix.end() :] if prefix else piece
        suffix = None if prefix and _is_special(rest) else _SUFFIX.search(rest)
        if prefix:
            before.append(prefix.group())
        if suffix:
            after.append(suffix.group())
            rest = rest[: suffix.start()]
        if len(rest) == len(piece):
            break
        piece = rest
    if piece in _ABBREVIATIONS:
        inner = [piece]
    else:
        inner = _CONTRACTIONS.get(_uncapitalised(piece)) or _INFIX.split(piece)
    return tuple(word.lower() for word in (*before, *inner, *reversed(after)))


def _uncapitalised(piece: str) -> str:
    """Lower-cases the first letter, since "Don't" is a contraction and "DON'T" is not."""
    return piece[:1].lower() + piece[1:]


def _is_special(piece: str) -> bool:
    return piece in _ABBREVIATIONS or _uncapitalised(piece) in _CONTRACTIONS


def spacy_nouns(model: str = "en_core_web_lg") -> NounTagger:
    """Returns the original's tagger: the tokens that spaCy tags NOUN or PROPN.

    Raises:
        MissingExtraError: spaCy is not installed.
        DataError: The model is not installed.
    """
    try:
        import spacy  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("spacy_nouns", "spacy") from error
    try:
        tag = spacy.load(model)
    except OSError as error:
        raise DataError(
            f"spaCy has no model {model!r}. Install it with: python -m spacy download {model}"
        ) from error

    @functools.lru_cache(maxsize=4096)
    def tagged(text: str) -> tuple[str, ...]:
        return tuple(token.text.lower() for token in tag(text) if token.pos_ in ("NOUN", "PROPN"))

    return lambda text: list(tagged(text))
