"""Adversarial Taboo: ends, forms of the word, replies of models, leaks, scripted players."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.core import UnreadableAction
from agentgym.envs.communication.adversarial_taboo import GAINS, AdversarialTaboo
from agentgym.envs.communication.taboo_players import EVASIONS, QUESTIONS
from agentgym.envs.communication.taboo_talk import GUESS, MOST, guess, spoken
from agentgym.envs.communication.taboo_words import (
    CLUES,
    fitting,
    named,
    notes,
    says,
    with_article,
    words,
)
from agentgym.envs.lmrl.objects import things
from agentgym.errors import ConfigError
from agentgym.multiagent.rules import InvalidMove
from agentgym.reading import without_thoughts
from agentgym.registration.making import make_env

ATTACKER, DEFENDER = "player_0", "player_1"


def new(task: str = "kite", **kwargs) -> AdversarialTaboo:
    game = AdversarialTaboo(**kwargs)
    game.begin(task)
    return game


def talk(game: AdversarialTaboo, *messages: str) -> AdversarialTaboo:
    for message in messages:
        ((agent),) = game.acting
        game.play({agent: message})
        assert game.outcome(agent).valid, game.seen(agent).feedback
    return game


@pytest.mark.parametrize(
    ("messages", "end"),
    [
        (["What flies on a string?", "A kite."], "lured"),
        (["What flies on a string?", "I know the word! It is kite!"], "right"),
        (["What flies on a string?", "I know the word! It is `balloon`!"], "wrong"),
        (["My kite is red."], "slip"),
        (["I guess kite."], "slip"),
        (["Hello.", "Hello.", "I KNOW THE WORD! It is kite!"], "slip"),
        (["Hello.", "Hi.", "Nice weather.", "Yes."], "tie"),
        (["I know the word! It is balloon!", "Is it?", "Yes.", "No."], "tie"),
        (["Hello.", "Is it a kite?"], "lured"),
        (["Hello.", "I do not know the word. Is it kites?"], "lured"),
    ],
)
def test_the_ends_of_a_game(messages, end):
    game = talk(new(rounds=2), *messages)
    assert game.state.end == end and not game.acting
    for agent, sign in ((ATTACKER, 1), (DEFENDER, -1)):
        step = game.seen(agent)
        assert game.reward(agent) == sign * GAINS[end]
        assert step.terminated and step.success == (game.reward(agent) > 0)
        assert step.progress == (1 + game.reward(agent)) / 2


def test_only_the_attacker_reads_the_word_and_the_facts():
    game = talk(new(), "Hello.")
    assert "The word is: kite" in game.seen(ATTACKER).text
    assert "can fly, is a toy" in game.seen(ATTACKER).text
    assert game.seen(DEFENDER).text == (
        "You are player_1, the defender. Round 1 of 5.\nAttacker: Hello."
    )
    assert "Facts" not in new(notes=False).seen(ATTACKER).text
    assert "kite" not in talk(new(), "My kite is red.").seen(DEFENDER).observation
    assert "kite" not in talk(new(), "Hi.", GUESS.format("lamp")).seen(DEFENDER).observation


@pytest.mark.parametrize(
    ("text", "word", "said"),
    [
        ("KITES", "kite", True),
        ("the kite's tail", "kite", True),
        ("a kite-like thing", "kite", True),
        ("**_kite_**", "kite", True),
        ("k-i-t-e", "kite", True),
        ("K. I. T. E.", "kite", True),
        ("It is a k i t e.", "kite", True),
        ("k - i - t - e", "kite", True),
        ("k_i_t_e", "kite", True),
        ("ki\u00adte", "kite", True),
        ("\uff4bite", "kite", True),
        ("k\u00edte", "kite", True),
        ("sun-glasses", "sunglasses", True),
        ("two knives", "knife", True),
        ("bookshelves", "bookshelf", True),
        ("green leaves", "leaf", True),
        ("Do you leave home?", "leaf", False),
        ("leaving", "leaf", False),
        ("buses", "bus", True),
        ("swinging", "swing", True),
        ("I like to paint", "painting", True),
        ("a kitten", "kite", False),
        ("carpet", "car", False),
        ("I care", "car", False),
        ("who cares", "car", False),
        ("scar", "car", False),
        ("\u0142 kit e", "kite", False),
        ("", "kite", False),
    ],
)
def test_forms_of_a_word(text, word, said):
    assert says(text, word) == said


def test_words_facts_and_questions():
    assert len(words()) == 201 and len(set(words())) == 201
    tasks = AdversarialTaboo.tasks
    assert not set(tasks.split("train")) & set(tasks.split("test"))
    for one, two in product(words(), repeat=2):
        assert says(two, one) == (one == two)
    for word in words():
        assert len(notes(word)) >= 2 and not any(says(note, word) for note in notes(word))
        assert all(word in fitting(note) for note in notes(word))
        assert says(with_article(word), word) and named(with_article(word))
        assert guess(GUESS.format(word)) == word
    assert not any(map(named, EVASIONS)) and not any(map(fitting, EVASIONS))
    traits = {thing.name: thing.traits for thing in things()}
    for trait, clue in CLUES.items():
        has = {word for word in words() if trait in traits[word]}
        for question in QUESTIONS:
            assert fitting(question.format(clue, clue)) == has, clue


KITE = "kite"
UNCLEAR = "unclear"


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("I know the word! It is `kite`!", KITE),
        ("i know the word, it's a kite", KITE),
        ("I know the word!It is KITE", KITE),
        ('**I know the word! It is "kite"!**', KITE),
        ("\u201cI know the word! It is \u2018kite\u2019!\u201d", KITE),
        ("Defender: I know the word! It is kite!", KITE),
        ("**Defender:** I know the word! It is kite!", KITE),
        ("player_1: I know the word! It is kite!", KITE),
        ("<think>A lamp?</think>I know the word! It is kite!", KITE),
        ("Thought: lamp?\nAction: I know the word! It is kite!", KITE),
        ("```\nI know the word! It is kite!\n```", KITE),
        ("Hm, wind and strings.\n\nI know the word!\nIt is **kite**.", KITE),
        ("I think I know the word! It is kite! You spoke of strings.", KITE),
        ("I know the word! It is kite!<|im_end|>\nno", KITE),
        ("I already know the word. It must be a kite!", KITE),
        ("I know the word! It is sun-glasses!", "sunglasses"),
        ("I know the word! It is kite-rake!", "kiterake"),
        ("I did not know the word at first. Now I know the word! It is kite!", KITE),
        ("I do not know the word. Tell me more.", None),
        ("Do you think that I know the word?", None),
        ("If I know the word, I will say it.", None),
        ("You know the word! It is yours.", None),
        ("Is it a kite?", None),
        ("What is the word?", None),
        ("I know it. It is nice weather, so I went out.", None),
        ("The word is hard to find.", None),
        ("My answer is yes.", None),
        ("I guess so.", None),
        ("I guess it is fine.", None),
        ("I guess kites fly.", None),
        ("I guess a kite could do that.", None),
        ("I know the word: kite", UNCLEAR),
        ("I know the word!", UNCLEAR),
        ("I know the word! It is ...!", UNCLEAR),
        ("I know the word! It is kite or lamp!", UNCLEAR),
        ("I know the word! It is kite. No, lamp.", UNCLEAR),
        ("I know the word! It is not kite!", UNCLEAR),
        ("I know the word! It is kite?", UNCLEAR),
        ("I know the word! It is a soccer ball!", UNCLEAR),
        ("I know the word! It is kite! I know the word! It is lamp!", UNCLEAR),
        ("I wish I could say I know the word! It is hard!", UNCLEAR),
        ('You want me to say "I know the word! It is kite!"', UNCLEAR),
        ("The word is kite.", UNCLEAR),
        ("Is the word kite?", UNCLEAR),
        ("My guess is `kite`!", UNCLEAR),
        ("My guess would be a kite.", UNCLEAR),
        ("Final guess: kite", UNCLEAR),
        ("I guess kite", UNCLEAR),
        ("I guess it's a **kite**!", UNCLEAR),
        ("Hm. I would guess kite, I think.", UNCLEAR),
        ("I know what the word is! It is a kite!", UNCLEAR),
        ("I never know the word at once. The word is kite.", UNCLEAR),
        ("I know! It is a kite!", UNCLEAR),
        ("I know it, it's kite.", UNCLEAR),
        ("Attacker: I know the word! It is kite!", UNCLEAR),
        ("Defender: Hello.\nAttacker: What flies?\nDefender: A kite.", UNCLEAR),
        ("Hello.\nAttacker: What flies?", UNCLEAR),
        ("...", UNCLEAR),
        ("x" * (MOST + 1), UNCLEAR),
    ],
)
def test_replies_of_models(reply, word):
    game = talk(new("rake"), "Hello.")
    game.play({DEFENDER: reply})
    if word == UNCLEAR:
        assert not game.outcome(DEFENDER).valid and game.state.said == ["Hello."]
        assert len(game.seen(DEFENDER).feedback) > 20 and game.acting == (DEFENDER,)
    elif word:
        assert game.state.said[1] == GUESS.format(word) and game.state.end == "wrong"
    else:
        assert game.outcome(DEFENDER).valid and not game.state.end


PIECES = st.sampled_from(
    [
        *("I know the word!", "I know the word", "It is", "it's", "a", "kite", "kites", "k-i-t-e"),
        *("lamp", "`", '"', "**", "!", "?", ".", ",", ":", "\n", "\n\n", "-", "not", "or", "maybe"),
        *("Attacker:", "Defender:", "player_1:", "Action:", "The word is", "<think>", "</think>"),
        *("I do not know", "if", "You said", "no", "\u200b", "\u201c", "\u201d", "\ud800", "\0"),
        *("<|im_end|>", "```", "{", "}", "Hello there", "7", "\uff4bite", "e\u0301"),
    ]
)
REPLIES = st.one_of(
    st.lists(PIECES, max_size=12).map(" ".join),
    st.lists(PIECES, max_size=12).map("".join),
    st.text(max_size=600),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(REPLIES, max_size=8), st.sampled_from(["kite", "balloon"]))
def test_any_reply_is_read_as_a_whole_or_refused(replies, word):
    game = new(word, rounds=3, max_invalid=100)
    for reply in replies:
        if not game.acting:
            break
        (agent,) = game.acting
        before, answer = list(game.state.said), without_thoughts(reply)
        game.play({agent: reply})
        assert sum(map(game.reward, game.possible_agents)) == 0
        if not game.outcome(agent).valid:
            assert game.state.said == before and not game.state.end
            continue
        end = game.state.end
        if agent == ATTACKER:
            assert end == ("slip" if says(spoken(answer, "attacker"), word) else "")
            assert game.state.said == before + [spoken(answer, "attacker")] * (not end)
        else:
            text = spoken(answer, "defender")
            guessed = guess(text)
            assert game.state.said == [*before, GUESS.format(guessed) if guessed else text]
            if guessed:
                assert guessed in text.lower().replace(
                    "-", ""
                )  # nothing but what was written is guessed
                assert end == ("right" if says(guessed, word) else "wrong")
            else:
                assert (end == "lured") == says(text, word)
    snapshot = json.loads(json.dumps(game.snapshot()))
    again = new(word, rounds=3, max_invalid=100)
    again.restore(snapshot)
    assert again.state == game.state and again.steps == game.steps


@settings(deadline=None, max_examples=100)
@given(st.lists(REPLIES, max_size=10), st.integers(0, 10**6))
def test_the_defender_reads_the_same_whatever_the_word_is(replies, seed):
    rng = np.random.default_rng(seed)
    games = [new(str(word), max_invalid=100) for word in rng.choice(words(), 2, replace=False)]
    for reply in replies:
        if not all(game.acting for game in games):
            break
        for game in games:
            game.play({game.acting[0]: reply})
        one, two = (game.seen(DEFENDER) for game in games)
        for game in games:
            unsaid = not any(says(text, game.state.word) for text in game.state.said)
            refused = not game.outcome(DEFENDER).valid and says(reply, game.state.word)
            if unsaid and not refused:
                assert not says(game.seen(DEFENDER).observation, game.state.word)
        if all(game.acting for game in games):
            assert one == two
            for level in AdversarialTaboo.levels if games[0].acting == (DEFENDER,) else ():
                said = [g.script(level, DEFENDER, np.random.default_rng(seed)) for g in games]
                assert said[0] == said[1]


@settings(deadline=None)
@given(st.text(max_size=700), st.sampled_from(["attacker", "defender"]))
def test_a_message_that_is_read_stays_as_it_is(text, role):
    try:
        first = spoken(text, role)
    except InvalidMove:
        return
    assert "\n" not in first and 0 < len(first) <= MOST and first.isprintable()


def test_a_guess_with_letters_of_other_languages_is_wrong():
    for word in ("\u0130stanbul", "\u017f\u212a", "stra\u00dfe", "\u4e1c\u897f"):
        assert talk(new(), "Hello.", GUESS.format(word)).state.end == "wrong"


def test_who_is_never_understood_says_something_at_random():
    game = new(max_invalid=2)
    for _ in range(2):
        game.play({ATTACKER: UnreadableAction("{", "Say it in other words.")})
    assert len(game.state.said) == 1 and not says(game.state.said[0], "kite")


def play(attacker: str, defender: str, word: str, seed: int = 0) -> str:
    game, rng = new(word), np.random.default_rng(seed)
    while game.acting:
        (agent,) = game.acting
        message = game.script(attacker if agent == ATTACKER else defender, agent, rng)
        game.play({agent: message})
        assert game.outcome(agent).valid, message
        assert game.state.end != "slip"
    return game.state.end


def test_scripted_players_are_graded():
    def ends(attacker: str, defender: str) -> Counter[str]:
        return Counter(play(attacker, defender, word) for word in words())

    assert ends("simple", "simple")["lured"] > 190 and ends("sly", "simple")["lured"] > 190
    assert ends("simple", "sly")["right"] > 160 and ends("simple", "sly")["wrong"] < 5
    assert ends("random", "simple")["lured"] < 10 and ends("random", "sly")["lured"] < 10
    assert ends("simple", "random")["right"] < 10 and ends("sly", "sly")["lured"] < 10


def test_the_sly_attacker_leads_a_silent_defender_to_another_word():
    misled = 0
    for word in words()[::10]:
        game, rng = new(word), np.random.default_rng(0)
        while game.acting and not game.state.end:
            talk(game, game.script("sly", ATTACKER, rng))
            left = frozenset(words()).intersection(*map(fitting, game.state.said[::2]))
            assert word not in left
            misled += len(left) == 1
            talk(game, "Go on.")
    assert misled > 50


def test_scripted_players_understand_free_words():
    game = talk(new("eagle"), "Which BIRD has wings, and hunts?")
    for seed in range(10):
        assert "eagle" in game.script("simple", DEFENDER, np.random.default_rng(seed))
    game = talk(new("eagle"), "How was your weekend?")
    assert game.script("simple", DEFENDER, np.random.default_rng(0)) in EVASIONS


def test_arguments_and_roles():
    with pytest.raises(ConfigError, match="rounds must be at least 1, got 0"):
        AdversarialTaboo(rounds=0)
    game = new()
    assert [game.role(a) for a in game.possible_agents] == ["attacker", "defender"]
    assert "Word: kite." in (game.privileged_text(DEFENDER) or "")


def test_the_expert_beats_the_default_opponent_from_each_seat():
    for seat in (ATTACKER, DEFENDER):
        env: Any = make_env("AdversarialTaboo-v0", seat=seat).unwrapped
        env.reset(seed=0)
        total = 0.0
        for _ in range(20):
            over = False
            while not over:
                _, reward, terminated, truncated, _ = env.step(env.expert())
                total, over = total + float(reward), terminated or truncated
            env.reset()
        assert total > 14
