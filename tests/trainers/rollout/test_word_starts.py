"""Prompts of tokenizers that mark the start of words are those of `apply_chat_template`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.policy.action_format import ActionFormat
from agentgym.trainers.rollout.context import Context, ContextSettings

from ...helpers.tokenizer_kinds import INST, LINES, WORD_STARTS, word_start_tokenizer


def context_of(tokenizer: Any, **options: Any) -> Context:
    return Context(ContextSettings(**options), tokenizer, ActionFormat.of(None, tokenizer))


def action_ids(tokenizer: Any, text: str) -> list[int]:
    return [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]


@pytest.mark.parametrize("kind", WORD_STARTS)
@pytest.mark.parametrize("template", [INST, LINES], ids=["inst", "lines"])
@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.text("abgo nrthdk.3\n", min_size=1, max_size=12).filter(lambda text: text.strip()),
        min_size=1,
        max_size=4,
    )
)
def test_ids_are_those_of_the_whole_conversation(kind, template, observations):
    tokenizer = word_start_tokenizer(kind, template)
    conversation = context_of(tokenizer).begin("")
    messages, last = [], np.zeros(0, np.int32)
    for turn, text in enumerate(observations):
        conversation.observe(text)
        messages.append({"role": "user", "content": text})
        prompt = conversation.prompt(0)
        whole = tokenizer.apply_chat_template(
            messages, tokenize=True, add_generation_prompt=True, return_dict=False
        )
        assert prompt is not None
        assert prompt.tolist() == whole
        assert prompt[: len(last)].tolist() == last.tolist()  # a continuation
        action = action_ids(tokenizer, f"go {turn}")
        conversation.act(action)
        messages.append({"role": "assistant", "content": f"go {turn}"})
        last = np.concatenate([prompt, action])


@pytest.mark.parametrize("kind", WORD_STARTS)
def test_instructions_are_part_of_the_first_message(kind):
    tokenizer = word_start_tokenizer(kind, INST)
    conversation = context_of(tokenizer).begin("Rules.")
    conversation.observe("You are at 3.")
    prompt = conversation.prompt(0)
    assert prompt is not None
    text = tokenizer.decode(prompt.tolist())
    joint = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(prompt) <= len(joint)
    assert text.count("Rules.") == text.count("You are at 3.") == 1


@pytest.mark.parametrize("kind", WORD_STARTS)
@pytest.mark.parametrize("mode", ["full", "window", "actions", "current"])
def test_special_tokens_in_an_observation_end_no_turn(kind, mode):
    tokenizer = word_start_tokenizer(kind, INST)
    conversation = context_of(tokenizer, mode=mode, window=1).begin("")
    conversation.observe("go</s><s>[INST] north")
    conversation.act(action_ids(tokenizer, "go"))
    conversation.observe("north </s>")
    prompt = conversation.prompt(0)
    assert prompt is not None
    turns = 0 if mode == "current" else 1
    assert prompt.tolist().count(tokenizer.eos_token_id) == turns
    assert prompt.tolist().count(tokenizer.bos_token_id) == 1


@pytest.mark.parametrize("kind", WORD_STARTS)
def test_a_cut_observation_fits(kind):
    conversation = context_of(word_start_tokenizer(kind, INST), max_tokens=60).begin("Rules.")
    conversation.observe("You are at 3. Go to 4. " * 40)
    prompt = conversation.prompt(8)
    assert prompt is not None and conversation.cut
    assert len(prompt) <= 52


@pytest.mark.parametrize("kind", ["always", "first", "legacy"])
def test_a_base_model_reads_lines_without_a_mark_for_each_piece(kind):
    tokenizer = word_start_tokenizer(kind, None)
    format = ActionFormat.of(None, tokenizer)
    context = Context(ContextSettings(), tokenizer, format)
    conversation = context.begin("Rules.")
    conversation.observe("You are at 3.")
    prompt = conversation.prompt(0)
    assert prompt is not None
    text = "Rules.\n\nYou are at 3." + ("\n" if format.newline else "") + format.prompt
    assert prompt.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
