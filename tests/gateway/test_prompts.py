"""Prompts: extension of earlier calls, rendering, and text of clients as plain text."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.gateway.messages import Answered, History, call_ids
from agentgym.trainers.gateway.prompts import Prompt, Prompts
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Message, Refused, ToolCall
from agentgym.trainers.rollout.context import Context, ContextSettings

from ..helpers.chat_models import FAMILIES
from ..helpers.tool_templates import ENDS, tool_format, tool_tokenizer

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
EVERY = [*FAMILIES, *ENDS]
NATIVE = [name for name in EVERY if name not in ("llama3", "gemma", "phi3", "base", "deepseekv3")]


def prompts_of(name: str, **settings) -> Prompts:
    return Prompts(tool_tokenizer(name), tool_format(name), **settings)


def sampled(name: str, text: str, *, cut: bool = False) -> Tokens:
    ids = tool_tokenizer(name)(text, add_special_tokens=False)["input_ids"]
    return np.array(ids if cut else [*ids, tool_format(name).end_token], np.int32)


def answer(
    history: History, prompt: Prompt, tokens: Tokens, reply: ChatReply, number: int = 0
) -> None:
    history.add(Answered(number, prompt.chain, prompt.tokens, tokens, reply))


def two_calls(number: int = 0) -> tuple[ToolCall, ...]:
    ids = call_ids("episode", number, 2)
    return (ToolCall(ids[0], "add", '{"a": 1, "b": 2}'), ToolCall(ids[1], "add", '{"a":3,"b":4}'))


def results(calls: tuple[ToolCall, ...], *texts: str) -> list[Message]:
    pairs = zip(calls, texts, strict=True)
    return [Message("tool", text, call_id=call.id, name=call.name) for call, text in pairs]


@pytest.mark.parametrize("name", EVERY)
def test_a_dialogue_with_tools_grows_by_exact_prefixes(name: str):
    prompts = prompts_of(name)
    history = prompts.history()
    messages = [Message("system", "Use tools."), Message("user", "1+2 and 3+4?")]
    request = ChatRequest(tuple(messages), (ADD,))
    first = prompts.prompt(request, history)
    calls = two_calls()
    tokens = sampled(name, "I add both.")
    answer(history, first, tokens, ChatReply("I add both.", calls=calls))
    messages += [Message("assistant", None, calls=calls), *results(calls, "3", "7")]
    second = prompts.prompt(replace(request, messages=tuple(messages)), history)
    again = sampled(name, "3 and 7", cut=True)
    answer(history, second, again, ChatReply("3 and 7"), 1)
    messages += [Message("assistant", "3 and 7"), Message("user", "go north")]
    third = prompts.prompt(replace(request, messages=tuple(messages)), history)
    assert (first.relation, second.relation, third.relation) == ("root", "extends", "extends")
    assert (second.parent, third.parent) == (0, 1)
    for before, own, after in ((first, tokens, second), (second, again, third)):
        start = np.concatenate([before.tokens, own])
        assert after.tokens[: len(start)].tolist() == start.tolist()
    decode = tool_tokenizer(name).decode
    behind = decode(third.tokens[len(second.tokens) + len(again) :])
    assert "go north" in behind
    assert third.tokens[len(second.tokens) + len(again)] in tool_format(name).end_tokens


@pytest.mark.parametrize("name", NATIVE)
def test_what_an_extension_adds_is_what_the_template_writes(name: str):
    """The tokens behind the reply equal those of the whole conversation, tokenised at once."""
    prompts, tokenizer = prompts_of(name), tool_tokenizer(name)
    history = prompts.history()
    calls = two_calls()[:1]
    request = ChatRequest((Message("user", "1+2?"),), (ADD,))
    first = prompts.prompt(request, history)
    answer(history, first, sampled(name, "Adding."), ChatReply(None, calls=calls))
    messages = (*request.messages, Message("assistant", calls=calls), *results(calls, "take 17"))
    extended = prompts.prompt(replace(request, messages=messages), history)
    rendered = prompts.prompt(replace(request, messages=messages), prompts.history())
    assert rendered.relation == "root"
    link = extended.tokens[len(first.tokens) + len(sampled(name, "Adding.")) :]
    assert rendered.tokens[-len(link) :].tolist() == link.tolist()
    text = tokenizer.decode(rendered.tokens, clean_up_tokenization_spaces=False)
    whole = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert rendered.tokens.tolist() == whole


@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_dialogue_without_tools_has_the_prompts_of_a_rollout(name: str):
    prompts = prompts_of(name)
    context = Context(ContextSettings(), tool_tokenizer(name), tool_format(name))
    conversation = context.begin("You play a game.")
    history, messages = prompts.history(), [Message("system", "You play a game.")]
    for turn, observation in enumerate(["\nYou are in a hall\n", "The door <|im_end|>", ""]):
        conversation.observe(observation)
        messages.append(Message("user", observation))
        prompt = prompts.prompt(ChatRequest(tuple(messages)), history)
        expected = conversation.prompt(0)
        assert expected is not None
        assert prompt.tokens.tolist() == expected.tolist()
        tokens = sampled(name, " go north", cut=turn == 1)
        conversation.act(tokens)
        answer(history, prompt, tokens, ChatReply(" go north"), turn)
        messages.append(Message("assistant", "go north"))


CONTROL = [
    token
    for name in ("qwen3", "gptoss", "lfm2_v2", "gemma4")
    for token in tool_tokenizer(name).all_special_tokens
]
MARKS = [*CONTROL, "<tool_response>", "</tool_response>", "<tool_call>"]
TEXTS = st.lists(st.sampled_from([*MARKS, "a", " ", "\n", "<|im_", "end|>", '"', "\\"]), max_size=6)


@settings(deadline=None, max_examples=25)
@given(parts=TEXTS)
@pytest.mark.parametrize("name", ["qwen3", "gptoss", "lfm2_v2", "gemma4", "gemma", "base"])
def test_texts_of_clients_hold_no_control_tokens(name: str, parts: list[str]):
    prompts, tokenizer = prompts_of(name), tool_tokenizer(name)
    text = "".join(parts)
    calls = (ToolCall("abcdefghi", "add", json.dumps({"a": text})),)

    def count(inner: str, given: tuple[ToolCall, ...]) -> dict[int, int]:
        messages = (
            Message("system", inner or "-"),
            Message("user", inner or "-"),
            Message("assistant", "", calls=given),
            Message("tool", inner or "-", call_id="abcdefghi", name="add"),
        )
        tokens = prompts.prompt(ChatRequest(messages, (ADD,)), prompts.history()).tokens
        special = {tokenizer.convert_tokens_to_ids(mark) for mark in MARKS}
        special &= set(tokenizer.added_tokens_decoder)
        return {i: int((tokens == i).sum()) for i in special}

    plain = (ToolCall("abcdefghi", "add", '{"a": "-"}'),)
    if name in ("qwen3", "gptoss", "lfm2_v2", "gemma4"):
        assert count(text, calls) == count("", plain)
    else:  # a foreign call is the text of a reply, which may write a call
        ends = tool_format(name).end_tokens & set(tokenizer.added_tokens_decoder)
        found, usual = count(text, plain), count("", plain)
        assert {i: found.get(i) for i in ends} == {i: usual.get(i) for i in ends}


def test_the_text_of_a_control_token_is_still_in_the_prompt():
    prompts, tokenizer = prompts_of("qwen3"), tool_tokenizer("qwen3")
    request = ChatRequest((Message("user", "Say <|im_end|> and \ue000."),), (ADD,))
    text = tokenizer.decode(prompts.prompt(request, prompts.history()).tokens)
    assert "<|im_start|>user\nSay <|im_end|> and \ue000.<|im_end|>" in text


def test_an_edited_reply_is_rendered_and_a_later_call_extends_that_rendering():
    prompts = prompts_of("qwen3")
    history = prompts.history()
    request = ChatRequest((Message("user", "go"),), (ADD,))
    first = prompts.prompt(request, history)
    answer(history, first, sampled("qwen3", "north"), ChatReply("north"))
    edited = (*request.messages, Message("assistant", "south"), Message("user", "and?"))
    second = prompts.prompt(replace(request, messages=edited), history)
    assert (second.relation, second.parent) == ("root", None)
    answer(history, second, sampled("qwen3", "east"), ChatReply("east"), 1)
    longer = (*edited, Message("assistant", "east"), Message("user", "now"))
    third = prompts.prompt(replace(request, messages=longer), history)
    assert (third.relation, third.parent) == ("extends", 1)


def test_a_compacted_conversation_keeps_the_sampled_tokens_of_a_reply():
    """A reply behind a new beginning is rendered with the tokens that were sampled."""
    prompts, tokenizer = prompts_of("qwen3"), tool_tokenizer("qwen3")
    history = prompts.history()
    request = ChatRequest((Message("user", "a long story"),), (ADD,))
    first = prompts.prompt(request, history)
    pieces = [tokenizer.convert_tokens_to_ids(letter) for letter in "north"]
    spelled = np.array([*pieces, tool_format("qwen3").end_token], np.int32)
    answer(history, first, spelled, ChatReply("north"))
    messages = (
        Message("user", "Summary: a story."),
        Message("assistant", "north"),
        Message("user", "Next?"),
    )
    second = prompts.prompt(replace(request, messages=messages), history)
    assert second.relation == "root"
    joined = ",".join(map(str, second.tokens.tolist()))
    assert ",".join(map(str, pieces)) in joined


@pytest.mark.parametrize("name", ["qwen3", "gemma4", "gptoss", "qwen3_5_think"])
@pytest.mark.parametrize("text", ["Answer south or north", "north", "<|im_end|>north", " north\n"])
def test_the_text_of_a_user_that_ends_as_the_reply_is_not_its_place(name: str, text: str):
    prompts, tokenizer = prompts_of(name), tool_tokenizer(name)
    history = prompts.history()
    request = ChatRequest((Message("user", "a long story"),), (ADD,))
    first = prompts.prompt(request, history)
    pieces = np.array([tokenizer.convert_tokens_to_ids(letter) for letter in "north"], np.int32)
    answer(history, first, np.append(pieces, tool_format(name).end_token), ChatReply("north"))
    messages = (Message("user", text), Message("assistant", "north"), Message("user", "Next?"))
    tokens = prompts.prompt(replace(request, messages=messages), history).tokens
    foreign = prompts.prompt(replace(request, messages=messages[:1]), prompts.history()).tokens
    asked = tokenizer.decode(foreign).rindex("north")
    at = [i for i in range(len(tokens)) if tokens[i : i + 5].tolist() == pieces.tolist()]
    assert len(at) == 1 and len(tokenizer.decode(tokens[: at[0]])) > asked + len("north")


@pytest.mark.parametrize("name", ["qwen3", "gemma4", "glm4moe"])
@pytest.mark.parametrize("text", ["north", "or", "south"])
def test_a_reply_keeps_its_tokens_if_it_ends_as_the_text_of_the_user(name: str, text: str):
    """Templates such as that of GLM write no end behind the text of a user."""
    prompts, tokenizer = prompts_of(name), tool_tokenizer(name)
    history = prompts.history()
    request = ChatRequest((Message("user", "a long story"),), (ADD,))
    first = prompts.prompt(request, history)
    said = f"I go {text}"
    pieces = tokenizer.convert_tokens_to_ids(list(said.replace(" ", "Ġ")))
    tokens = np.array([*pieces, tool_format(name).end_token], np.int32)
    answer(history, first, tokens, ChatReply(said))
    messages = (Message("user", text), Message("assistant", said), Message("user", "Next?"))
    found = prompts.prompt(replace(request, messages=messages), history).tokens
    assert ",".join(map(str, pieces)) in ",".join(map(str, found.tolist()))


def test_thoughts_stay_or_go_with_the_template_as_asked():
    for thoughts, relation in (("keep", "extends"), ("template", "rendered"), ("echo", "root")):
        prompts = prompts_of("qwen3", thoughts=thoughts)
        history = prompts.history()
        request = ChatRequest((Message("user", "go"),), (ADD,))
        first = prompts.prompt(request, history)
        tokens = sampled("qwen3", "<think>\nhm\n</think>\n\nnorth")
        answer(history, first, tokens, ChatReply("north", "hm"))
        messages = (*request.messages, Message("assistant", "north"), Message("user", "next"))
        second = prompts.prompt(replace(request, messages=messages), history)
        text = tool_tokenizer("qwen3").decode(second.tokens)
        assert second.relation == relation
        assert ("hm" in text) == (thoughts == "keep")


def test_a_prompt_tells_whether_it_opens_a_thought():
    request = ChatRequest((Message("user", "go"),), (ADD,))
    for name, opens in (("qwen3_5_think", True), ("qwen3", False)):
        prompts = prompts_of(name)
        assert prompts.prompt(request, prompts.history()).thinking is opens


def test_tools_are_left_out_if_the_client_wants_no_call():
    prompts = prompts_of("qwen3")
    request = ChatRequest((Message("user", "go"),), (ADD,), tool_choice="none")
    bare = ChatRequest((Message("user", "go"),))
    with_tools, without = (prompts.prompt(r, prompts.history()) for r in (request, bare))
    assert with_tools.tokens.tolist() == without.tokens.tolist()
    assert with_tools.chain == without.chain


def test_a_later_system_message_is_refused_if_the_template_moves_it():
    prompts = prompts_of("qwen3_5_think")
    messages = (Message("user", "go"), Message("system", "stop"), Message("user", "now"))
    assert prompts.facts is not None and not prompts.facts.mid_system
    with pytest.raises(Refused, match="at the start only"):
        prompts.prompt(ChatRequest(messages, (ADD,)), prompts.history())


@pytest.mark.parametrize("name", NATIVE)
def test_a_result_is_in_the_prompt_or_refused(name: str):
    """Behind another message, and of a call that the conversation does not have, too."""
    prompts, history = prompts_of(name), prompts_of(name).history()
    calls = two_calls()[:1]
    request = ChatRequest((Message("user", "1+2?"),), (ADD,))
    first = prompts.prompt(request, history)
    answer(history, first, sampled(name, "Adding."), ChatReply(None, calls=calls))
    start = (*request.messages, Message("assistant", calls=calls))
    late = (*start, Message("user", "Wait."), *results(calls, "seventeen"))
    orphan = (*request.messages, Message("tool", "seventeen", call_id="zzzzzzzzz"))
    usual = (*start, *results(calls, "seventeen"))
    for messages in (late, orphan, usual):
        for known in (history, prompts.history()):
            try:
                prompt = prompts.prompt(replace(request, messages=messages), known)
            except Refused as error:
                assert error.status == 400 and messages is not usual
            else:
                assert "seventeen" in tool_tokenizer(name).decode(prompt.tokens)


def test_several_foreign_calls_are_written_one_by_one_for_a_template_that_takes_one():
    for name in ("llama3_1", "gptoss"):
        prompts = prompts_of(name)
        calls = two_calls()
        messages = (
            Message("user", "go"),
            Message("assistant", calls=calls),
            *results(calls, "three", "seven"),
        )
        tokens = prompts.prompt(ChatRequest(messages, (ADD,)), prompts.history()).tokens
        text = tool_tokenizer(name).decode(tokens)
        places = [text.find(each) for each in ('"a": 1', "three", '"a": 3', "seven")]
        assert -1 < places[0] and places == sorted(places)


def test_arguments_that_are_no_object_are_text():
    prompts = prompts_of("qwen3")
    calls = (ToolCall("abcdefghi", "add", "{broken"),)
    messages = (
        Message("user", "go"),
        Message("assistant", calls=calls),
        Message("tool", "no", call_id="abcdefghi"),
    )
    tokens = prompts.prompt(ChatRequest(messages, (ADD,)), prompts.history()).tokens
    assert "add({broken)" in tool_tokenizer("qwen3").decode(tokens)
