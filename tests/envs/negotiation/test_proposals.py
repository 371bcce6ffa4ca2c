"""The reader of proposals: people's words, all of them or none."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agentgym.envs.negotiation.bargaining import describe, rest, splits
from agentgym.envs.negotiation.deal_or_no_deal import DealOrNoDeal
from agentgym.envs.negotiation.proposals import proposal

COUNTS = (2, 1, 3)
ANY_COUNTS = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
TYPOGRAPHY = str.maketrans({"'": "\u2019", " ": "\u00a0", "2": "\uff12", ":": "\uff1a"})


@pytest.mark.parametrize(
    ("message", "take"),
    [
        ("I can take 1 ball and the hat", (0, 1, 1)),
        ("This is my final offer: I take 2 books, you get the rest.", (2, 0, 0)),
        ("That won't work for me, I take 2 books and you have the rest", (2, 0, 0)),
        ("However, I take 2 books and 2 balls, and we have a deal.", (2, 0, 2)),
        ("Confirming that I take 1 book", (1, 0, 0)),
        ("3 balls for you and 2 books for me", (2, 0, 0)),
        ("everything except 1 book for me", (1, 1, 3)),
        ("2 books for you, the rest for me", (0, 1, 3)),
        ("I'd like both books, please. You can have everything else.", (2, 0, 0)),
        ("me: 2 books, you: the hat", (2, 0, 0)),
        ("I keep all three balls; the rest is yours", (0, 0, 3)),
        ("You take the hat and a ball, I get what's left", (2, 0, 2)),
        ("I’ll give you the books and keep the hat and balls", (0, 1, 3)),
        ("Give me the hat and you can have everything else", (0, 1, 0)),
        ("I let you have the balls", (2, 1, 0)),
        ("if i can have the balls and the hat you can have the books", (0, 1, 3)),
        ("could i have the hat and two of the balls ?", (0, 1, 2)),
        ("How about I take one of each?", (1, 1, 1)),
        ("You can have the balls but not the hat", (2, 1, 0)),
        ("I don't need the books, I take the hat", (0, 1, 0)),
        ("books: 1, hats: 0, balls: 2", (1, 0, 2)),
        ("I want 2 books and 1 hat for me", (2, 1, 0)),
        ("no, i'll take the hat", (0, 1, 0)),
        ("take the books, i keep the rest", (0, 1, 3)),
    ],
)
def test_a_split_in_peoples_words_is_read(message: str, take: tuple[int, int, int]):
    assert proposal(message, COUNTS) == take
    assert proposal(message.translate(TYPOGRAPHY), COUNTS) == take


@pytest.mark.parametrize(
    "message",
    [
        "I don't need the books",
        "I won't take 2 books",
        "you get no hats",
        "Do you want 2 books?",
        "Would you take the hat?",
        "If you give me the books, I'd take 1 ball",
        "I take 2 books or the hat",
        "I take at least 2 books",
        "I take 2 books instead of 1",
        "You said I take 2 books",
        "I was going to take 2 books",
        "I take 2 books and a pen",
        "I take 2 books. Not really.",
        "I take the book",
        "I take -1 book",
        "I take 1.5 books",
        "I take 1-2 balls",
        "I take all 3 books",
        "I get 2 books and 1 hat for you",
        "Let's split the balls",
        "one more ball and we have a deal",
        "how about 1 ball",
        "I take 2 books and you have the rest, that won't work for me",
        "I take 2 books, you have the rest. That won't work.",
        "You take the hat and I have the rest - that does not work for me",
        "I take 2 books, however, I take 1 hat",
        "The last offer: I take 2 books",
        "great i'll take the rest",
        "take 2 books",
    ],
)
def test_a_message_that_may_mean_another_split_is_no_proposal(message: str):
    assert proposal(message, COUNTS) is None


def test_a_final_choice_is_read_as_a_whole():
    for text, take in (
        ("I take the hat, 2 books and 1 ball", (2, 1, 1)),
        ("take the hat", (0, 1, 0)),
        ("1 book", (1, 0, 0)),
        ("nothing", (0, 0, 0)),
        ("everything", (2, 1, 3)),
    ):
        assert proposal(text, COUNTS, final=True) == take
    for text in ("1 book or 2 hats", "the book", "not the hat", "2 books, 1 pen", "what?"):
        assert proposal(text, COUNTS, final=True) is None


@given(ANY_COUNTS, st.data())
def test_every_split_is_read_in_both_directions(counts, data):
    take = data.draw(st.sampled_from(splits(counts)))
    left = rest(counts, take)
    for message in (
        f"I take {describe(take)}.",
        f"{describe(take)} for me",
        f"You get {describe(left)} and I take {describe(take)}",
        f"{describe(left)} for you and {describe(take)} for me",
        f"me: {describe(take)}; you: {describe(left)}",
    ):
        assert proposal(message, counts) == take
    assert proposal(describe(take), counts, final=True) == take


@given(
    st.sampled_from(splits(COUNTS)),
    st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=8)
    | st.integers(0, 10**6).map(str)
    | st.sampled_from(["or", "%", "$5", "half", "-1", "unless", "\u2153"]),
    st.integers(0, 8),
)
def test_a_word_that_is_not_understood_is_never_left_out(take, word, place):
    words = f"I take {describe(take)} and you get {describe(rest(COUNTS, take))}".split()
    words.insert(place, word)
    assert proposal(" ".join(words), COUNTS) in (None, take)
    if not word.isalpha():
        assume(word not in ("0", "1", "2", "3"))
        assert proposal(" ".join(words), COUNTS) is None


@example("\u00b9 hats for me", COUNTS)  # a digit that is no number
@given(st.text(max_size=300), ANY_COUNTS)
def test_any_text_is_survived(text, counts):
    for final in (False, True):
        take = proposal(text, counts, final=final)
        assert take is None or take in splits(counts)


def test_a_message_that_is_not_understood_is_delivered_and_no_offer():
    game = DealOrNoDeal()
    game.begin("train/0")
    (speaker,) = game.acting
    game.play({speaker: "I take 1 book or 1 hat"})
    (other,) = game.acting
    assert "I take 1 book or 1 hat" in game.seen(other).text
    assert game.state.standing() is None and game.info(speaker)["valid"]


def test_a_final_choice_that_is_not_understood_is_invalid():
    game = DealOrNoDeal(messages=1, max_invalid=5)
    game.begin("train/0")
    game.play({game.acting[0]: "hello"})
    game.play({"player_0": "1 book, 2 pens", "player_1": "nothing"})
    assert not game.info("player_0")["valid"] and game.acting == ("player_0",)
