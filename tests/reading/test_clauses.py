"""The parts of a message that its speaker asserts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.reading import asserted, find_clauses, normalized

FACT = "take the lamp"
FRAMES = (
    "Do not {}.", "Don’t {}.", "Never {}.", "I refuse to {}.", "You said \"{}\".",
    "If you can, then {}.", "{} if I ask you.", "Have you already {}?", "Did you {}?",
    "Go home before you {}.", "Instead of the book, or rather than you {}, sleep.",
    "player_2 said that {}.", "Unless it rains, {}.", "He told me to {}.",
    "‘I will {}’ is a quote.",
    "Go away without you {}.", "According to player_3, {}.", "What if you {}?", "Should I {}?",
)  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES)
def test_an_instruction_in_a_frame_is_not_asserted(frame: str):
    assert not any(FACT in part for part in asserted(frame.format(FACT)))


@pytest.mark.parametrize(
    "frame",
    ["{}.", "Please {}!", "I do not want the book, just {}.", "No, {}.", "No. {}", "{}, ok?",
     "Before you leave, {}.", "I was told to sleep, but {}.", "{} instead of the book.",
     "{}, if that is ok with you.", "It isn't here, so {}.", "{} rather than the lid.",
     "\"{}\"", "Unlike him, {}.", "Don't wait, {}.", "1. {}\n2. sleep", "As I said, {}.",
     "If he asks, say no. {}.", "He said no; {}."],
)  # fmt: skip
def test_it_is_asserted_beside_a_frame(frame: str):
    assert any(FACT in part for part in asserted(frame.format(FACT)))


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("I don't want the book, the hat, or the ball.", ["negated"] * 3),
        ("I don't want books, I want hats.", ["negated", ""]),
        ("No books, 2 hats.", ["negated", ""]),
        ("No, I want 2 hats.", ["answer", ""]),
        ("No I want 2 hats.", ["answer", ""]),
        ("Not the book but the hat.", ["negated", ""]),
        ("not only the book, I take the hat", ["", ""]),
        ("I doubt player_1 is a werewolf.", ["negated"]),
        ("the players' hats aren't mine", ["negated"]),
        ("I take it, no problem.", ["", ""]),
        ("I want everything except the hat.", ["", "replaced"]),
        ("Yes, take it.", ["answer", ""]),
    ],
)
def test_flags(text: str, flags: list[str]):
    found = find_clauses(text)
    names = ("negated", "question", "conditional", "quoted", "replaced", "past", "answer")
    assert [next((n for n in names if getattr(c, n)), "") for c in found] == flags


def test_abbreviations_and_decimals_end_no_sentence():
    assert len(find_clauses("Mr. Smith pays $3.50 for No. 5 at 3 p.m. today.")) == 1
    assert len(find_clauses("No. I pay 3. You pay 4.")) == 3


def test_apostrophes_are_no_quotation():
    for text in ("I don't know, it's the players' hat", "'tis the season", 'it is 27" wide'):
        assert not any(clause.quoted for clause in find_clauses(text))


WORDS = st.sampled_from(
    ["I", "you", "take", "not", "don't", ",", ".", "?", '"', "'", "if", "but", "and", "said",
     "instead of", "before", "the", "hat", "(", ")", " - ", "\n", "No", "5", "player_1", "without"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(WORDS, max_size=25))
def test_clauses_hold_all_words(words: list[str]):
    text = normalized(" ".join(words))
    found = find_clauses(text)
    edges = [edge for clause in found for edge in (clause.start, clause.stop)]
    assert edges == sorted(edges)
    kept = " ".join(text[clause.start : clause.stop] for clause in found)
    assert sum(map(kept.count, ("hat", "5"))) == sum(map(text.count, ("hat", "5")))


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_read(text: str):
    for clause in find_clauses(text):
        assert clause.text == normalized(text)[clause.start : clause.stop].strip()


@pytest.mark.parametrize(
    "piece", ["'a ", '"', "if ", "not ", "he said ", ". ", "No. ", ", ", "(", "'", "a'b ", "the - "]
)
def test_hostile_texts_are_read_in_linear_time(piece: str):
    find_clauses(piece * (100_000 // len(piece)))
