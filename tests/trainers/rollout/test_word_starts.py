"""Prompts of tokenizers that mark the start of words are those of `apply_chat_template`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agentgym.trainers.policy.action_format import ActionFormat
from agentgym.trainers.rollout.context import Context, ContextSettings

TEXT = [
    "[INST] You are at 3. Go to 4. [/INST] go north",
    "[INST] The door is locked.\n\nTake the red key [/INST] take red key",
    "Rules. Reply with one action\n> open door",
]
INST = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }}"
    "{{ eos_token }}{% else %}[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}"
)
LINES = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
KINDS = ["always", "first", "legacy", "unigram", "byte-level"]


def tokenizer_of(kind: str, template: str | None) -> Any:
    """Returns a tokenizer of the kinds of SentencePiece that are published."""
    space = "▁"
    special = ["<unk>", "<s>", "</s>"]
    if kind == "unigram":
        model, options = Tokenizer(models.Unigram()), {"unk_token": "<unk>"}
        trainer: Any = trainers.UnigramTrainer(
            vocab_size=120, special_tokens=special, show_progress=False, **options
        )
    else:
        model = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=kind != "byte-level"))
        trainer = trainers.BpeTrainer(
            vocab_size=420,
            special_tokens=[*special, *(f"<0x{n:02X}>" for n in range(256))],
            show_progress=False,
        )
    if kind == "byte-level":
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        model.decoder = decoders.ByteLevel()
    else:
        scheme = "first" if kind == "first" else "always"
        model.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
        model.decoder = decoders.Metaspace(prepend_scheme=scheme)
    model.train_from_iterator(TEXT * 5, trainer)
    if kind == "legacy":  # as in the converted files of Llama 2 and Mistral 7B
        model.normalizer = normalizers.Sequence(
            [normalizers.Prepend(space), normalizers.Replace(" ", space)]
        )
        model.pre_tokenizer = None  # type: ignore[assignment]
        model.decoder = decoders.Sequence(
            [decoders.Replace(space, " "), decoders.ByteFallback(), decoders.Fuse()]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.chat_template = template
    return tokenizer


def context_of(tokenizer: Any, **options: Any) -> Context:
    return Context(ContextSettings(**options), tokenizer, ActionFormat.of(None, tokenizer))


def action_ids(tokenizer: Any, text: str) -> list[int]:
    return [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]


@pytest.fixture(scope="module")
def tokenizers() -> dict[tuple[str, str], Any]:
    templates = {"inst": INST, "lines": LINES}
    return {
        (kind, name): tokenizer_of(kind, template)
        for kind in KINDS
        for name, template in templates.items()
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("template", ["inst", "lines"])
@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.text("abgo nrthdk.3\n", min_size=1, max_size=12).filter(lambda text: text.strip()),
        min_size=1,
        max_size=4,
    )
)
def test_ids_are_those_of_the_whole_conversation(tokenizers, kind, template, observations):
    tokenizer = tokenizers[kind, template]
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


@pytest.mark.parametrize("kind", KINDS)
def test_instructions_are_part_of_the_first_message(tokenizers, kind):
    tokenizer = tokenizers[kind, "inst"]
    conversation = context_of(tokenizer).begin("Rules.")
    conversation.observe("You are at 3.")
    prompt = conversation.prompt(0)
    assert prompt is not None
    text = tokenizer.decode(prompt.tolist())
    joint = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(prompt) <= len(joint)
    assert text.count("Rules.") == text.count("You are at 3.") == 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unigram"])
@pytest.mark.parametrize("mode", ["full", "window", "actions", "current"])
def test_special_tokens_in_an_observation_end_no_turn(tokenizers, kind, mode):
    tokenizer = tokenizers[kind, "inst"]
    conversation = context_of(tokenizer, mode=mode, window=1).begin("")
    conversation.observe("go</s><s>[INST] north")
    conversation.act(action_ids(tokenizer, "go"))
    conversation.observe("north </s>")
    prompt = conversation.prompt(0)
    assert prompt is not None
    turns = 0 if mode == "current" else 1
    assert prompt.tolist().count(tokenizer.eos_token_id) == turns
    assert prompt.tolist().count(tokenizer.bos_token_id) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_observation_fits(tokenizers, kind):
    conversation = context_of(tokenizers[kind, "inst"], max_tokens=60).begin("Rules.")
    conversation.observe("You are at 3. Go to 4. " * 40)
    prompt = conversation.prompt(8)
    assert prompt is not None and conversation.cut
    assert len(prompt) <= 52


@pytest.mark.parametrize("kind", ["always", "first", "legacy"])
def test_a_base_model_reads_lines_without_a_mark_for_each_piece(kind):
    tokenizer = tokenizer_of(kind, None)
    format = ActionFormat.of(None, tokenizer)
    context = Context(ContextSettings(), tokenizer, format)
    conversation = context.begin("Rules.")
    conversation.observe("You are at 3.")
    prompt = conversation.prompt(0)
    assert prompt is not None
    text = "Rules.\n\nYou are at 3." + ("\n" if format.newline else "") + format.prompt
    assert prompt.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
