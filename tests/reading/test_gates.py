"""Cheap checks before patterns: they change no reading."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.reading import clause_patterns, clauses, dates, number_words, numbers

_PARTS = st.sampled_from(
    "I you the not no never don't can't wait but if unless and or so that instead of rather than "
    "because before after when then said you told me according to Bob already had was used to . , "
    "? ! ( ) - -- \n May 24 24 th of 5/24/2024 2024-05-24 3:05 pm 3 p.m. $ 1,880.00 -3 1/2 .5 x 2x "
    "k USD minus half a dozen twenty-five one \u2212 \u017fo \u2019 W123 555-123-4567".split(" ")
)
_TEXTS = st.lists(_PARTS, max_size=12).flatmap(
    lambda parts: st.sampled_from([" ".join(parts), "".join(parts), " ".join(parts).upper()])
)


def _spans(matches) -> list[tuple[int, int, str | None]]:
    return [(match.start(), match.end(), match.lastgroup) for match in matches]


@settings(deadline=None)
@given(_TEXTS)
def test_breaks_are_those_of_the_whole_pattern(text):
    cues = clauses._Cues.of(text)
    found = clauses._break_matches(text, 0, len(text), cues)
    assert _spans(found) == _spans(clause_patterns.BREAK.finditer(text))


@settings(deadline=None)
@given(_TEXTS)
def test_sentences_without_cues_match_no_pattern(text):
    cues = clauses._Cues.of(text)
    bare = clause_patterns.NOT_NEGATION.sub("", text)
    assert cues.negated or not clause_patterns.NEGATION.search(bare)
    assert cues.negated or not clause_patterns.HELD.search(bare)
    assert cues.reported or not clause_patterns.REPORT.search(text)
    assert cues.past or not clause_patterns.PAST.search(text)


@settings(deadline=None)
@given(_TEXTS)
def test_numbers_and_dates_without_cues_match_no_pattern(text):
    assert _spans(numbers._matches(text)) == _spans(numbers._CORE.finditer(text))
    for number, form in enumerate(dates._FORMS):
        assert number in dates._possible(text) or not form.search(text)
    if not dates._CLOCK.search(text):
        assert all(not (m["minute"] or m["half"]) for m in dates._TIME.finditer(text))
    if not number_words._words(text):
        assert not number_words._WORD.search(text)


@settings(deadline=None)
@given(_TEXTS, st.integers(0, 200))
def test_numbers_without_a_frame_have_no_sign(text, at):
    at = min(at, len(text))
    left = numbers._LEFT.search(text[max(0, at - 16) : at])
    framed = left is not None and left[0] != ""
    assert numbers._may_be_framed(text, at) or not framed
    if text[at : at + 1] in numbers._ENDINGS:
        assert not any(p.match(text, at) for p in (numbers._SCALE, numbers._RIGHT, numbers._UNIT))
