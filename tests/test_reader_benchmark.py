"""The pre-training of a reader: answers follow from pages, rows are rendered as by the trainer."""

from __future__ import annotations

import random

import numpy as np
import pytest

from agentgym.registration.ids import TABLE
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import tiny_model
from agentgym.trainers.rollout.context import Context, ContextSettings
from benchmarks.learning import pretrain_reader as script

SHOWCASE = ("WebShop", "TextCraft", "Blocksworld", "Wordle", "Sokoban", "Household", "TicTacToe")


@pytest.fixture(scope="module")
def policy():
    rng = random.Random(0)
    texts = [text for _ in range(20) for turn in script.asked(rng) for text in turn]
    return Policy(*tiny_model(texts, size="nano"))


def test_showcase_environments_are_not_read():
    assert set(script.IDS) <= {entry.name for entry in TABLE if not entry.files}
    assert not [name for name in script.IDS if name.startswith(SHOWCASE)]


def test_answers_of_every_kind_follow_from_the_page():
    known = {"yes", "no", *map(str, range(10))}
    for kind in script.KINDS:
        for seed in range(30):
            text, questions = script.page(random.Random(seed), kind)
            assert questions
            for question, answer in questions:
                assert answer in known or answer in text or answer.startswith("row "), question


def test_chains_and_plans_are_followed_in_order():
    for seed in range(30):
        text, questions = script.page(random.Random(seed), "missing")
        wanted = [each.split(": ")[-1] for each in text.removeprefix("Wanted: ").split(", ")]
        for question, answer in questions:
            held = question.removeprefix("Done: ").removesuffix(". Next?").split(", ")
            assert answer == next(each for each in wanted if each not in held)


def test_rows_are_rendered_as_prompts_of_the_trainer(policy):
    turns = [("You are in a hall.", "go east"), ("You see a key.", "take key")]
    ((tokens, answers),) = script.rows(policy, turns, 512)
    talk = Context(ContextSettings(), policy.tokenizer, policy.format).begin("")
    for observation, action in turns:
        talk.observe(observation)
        prompt = talk.prompt(0)
        assert prompt is not None
        talk.act(policy.encode_action(action))
        assert np.array_equal(prompt, tokens[: len(prompt)])
    parts = np.split(
        np.flatnonzero(answers), np.flatnonzero(np.diff(np.flatnonzero(answers)) > 1) + 1
    )
    assert [policy.decode(tokens[part]) for part in parts] == ["go east", "take key"]


def test_long_episodes_are_divided(policy):
    turns = [("word " * 40, "go east")] * 9
    found = list(script.rows(policy, turns, 200))
    assert len(found) > 1
    assert all(len(tokens) <= 200 for tokens, _ in found)
    assert sum(answers.sum() for _, answers in found) == 9 * len(policy.encode_action("go east"))


def test_pretraining_lowers_the_loss_and_repeats(policy):
    settings = script.Settings(steps=31, tokens=64, longest=64, save_every=1)
    learned = list(script.rows(policy, [("a b", "b")], 64))

    def losses():
        model = Policy(*tiny_model(["a b"], size="nano"))
        found = script.pretrain(model, learned, settings, random.Random(0))
        return [loss for _, loss, _ in found]

    found = losses()
    assert found[-1] < found[0] - 1  # odd steps are on the episode, even ones on pages
    assert found == losses()
