"""Characters of equal meaning have one plain form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.reading import (
    find_reply,
    normalized,
    plain_operators,
    without_end_marks,
    without_thoughts,
)

VARIANTS = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d",
    "'": "\u2018\u2019\u201b\u2032\uff07\u02bc",
    '"': "\u201c\u201d\u201f\u2033\uff02\u00ab\u00bb",
    " ": "\u00a0\u2002\u2003\u2007\u2009\u202f\u205f\u3000",
    ":": "\uff1a\u2236\ufe55",
    "": "\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0f",
    "...": "\u2026",
    "/": "\u2044\u2215\uff0f",
    "5": "\uff15\u0665\u096b\U0001d7d3",
}


@pytest.mark.parametrize(
    ("plain", "variant"), [(plain, v) for plain, variants in VARIANTS.items() for v in variants]
)
def test_variants_have_the_plain_form(plain: str, variant: str):
    assert normalized(f"a{variant}b") == f"a{plain}b"


@settings(deadline=None)
@given(st.text(max_size=60))
def test_normalisation_is_idempotent(text: str):
    assert normalized(normalized(text)) == normalized(text)


@settings(deadline=None)
@given(st.text(st.characters(codec="ascii")))
def test_ascii_stays_as_it_is(text: str):
    assert normalized(text) == text
    assert plain_operators(text) == text


@pytest.mark.parametrize("text", ["Zürich", "naïve", "東京", "Łódź", "Straße", "½", "10²"])
def test_letters_of_languages_stay(text: str):
    assert normalized(text) == text


def test_composed_and_decomposed_letters_are_equal():
    assert normalized("e\u0301te\u0301") == "été"


def test_operators_of_arithmetic():
    assert plain_operators("3 × 4 − 6 ÷ 2 · 1") == "3 * 4 - 6 / 2 * 1"


@pytest.mark.parametrize(
    "mark",
    ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "</s>", "<|end|>", "<|return|>",
     "<|call|>", "<|endoftext|>", "<｜end▁of▁sentence｜>", "[/INST]", "<|user|>",
     "<|observation|>", "<|im_start|>user"],
)  # fmt: skip
def test_text_behind_an_end_mark_is_cut(mark: str):
    assert without_end_marks(f"look{mark}\nAction: jump") == "look"


@pytest.mark.parametrize(
    "start",
    ["<|im_start|>assistant\n", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<s>",
     "<start_of_turn>model\n", "<｜Assistant｜>"],
)  # fmt: skip
def test_the_marks_of_the_start_are_cut(start: str):
    assert without_end_marks(f"{start}look<|im_end|>") == "look"


@settings(deadline=None)
@given(st.text(max_size=60))
def test_a_reply_is_a_part_of_its_text(text: str):
    start, stop = find_reply(text)
    assert 0 <= start <= stop <= len(text)
    assert without_end_marks(text) == text[start:stop]


@pytest.mark.parametrize(
    ("text", "reply"),
    [("<think>a</think>\n\nlook", "look"), ("a\n</think>\n\nlook", "look"), ("<think>look", ""),
     ("<thinking>a</thinking> look", "look"), ("<think></think><think>a</think>look", "look"),
     ('print("</think>")', 'print("</think>")'), ('{"a": "</think> b"}', '{"a": "</think> b"}'),
     ("<think>a</think>\nprint('</think>')", "print('</think>')"), ("look", "look")],
)  # fmt: skip
def test_thoughts_at_the_start_are_left_out(text: str, reply: str):
    assert without_thoughts(text) == reply
