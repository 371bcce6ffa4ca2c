"""End tokens, stop strings and chat templates of real architectures."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.trainers.policy.action_format import ActionFormat
from agentgym.trainers.policy.chat_template import DAY, check_arguments
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.request_state import Ending
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.rollout.context import ContextSettings

from ...helpers.chat_models import BOS, CHAT, FAMILIES, chat_model

policies: dict[str, Policy] = {}


def policy_of(name: str) -> Policy:
    if name not in policies:
        policies[name] = Policy(*chat_model(name))
    return policies[name]


def scripted(monkeypatch: pytest.MonkeyPatch, policy: Policy, script: Sequence[int]) -> None:
    """Lets a policy generate given tokens: whatever was sampled is replaced, in order."""
    rest = list(script)

    def forced(rows: Any, *_: Any) -> list[tuple[int, float, tuple[int, ...]]]:
        assert len(rows) == 1
        return [(rest.pop(0), -1.0, ())]

    monkeypatch.setattr("agentgym.trainers.policy.generate.choose", forced)


def generated(policy: Policy, sampling: Sampling) -> Any:
    prompt = np.array(policy.encode("You are in a room."), np.int32)
    return policy.act([Request(prompt, np.random.default_rng(0))], sampling)[0]


# End tokens.


@pytest.mark.parametrize("name", FAMILIES)
def test_every_end_of_sequence_token_ends_an_action(name, monkeypatch):
    policy, family = policy_of(name), FAMILIES[name]
    ends = policy.tokenizer.convert_tokens_to_ids(list(family.ends))
    words = policy.encode("go north")
    for end in {*ends, policy.tokenizer.eos_token_id, policy.end_token}:
        scripted(monkeypatch, policy, [*words, end, *words])
        sample = generated(policy, Sampling(max_new_tokens=10))
        assert sample.tokens.tolist() == [*words, end]
        assert sample.text == "go north"
        assert sample.finished


def test_an_ordinary_token_ends_an_action_if_the_generation_config_lists_it(monkeypatch):
    model, tokenizer = chat_model("llama3")
    words, full_stop = tokenizer("go")["input_ids"], tokenizer(".")["input_ids"][0]
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, full_stop]
    policy = Policy(model, tokenizer)
    scripted(monkeypatch, policy, [*words, full_stop, *words])
    sample = generated(policy, Sampling(max_new_tokens=10))
    assert (sample.text, sample.tokens.tolist()) == ("go", [*words, full_stop])


@pytest.mark.parametrize("name", FAMILIES)
def test_admissible_actions_end_with_the_end_of_the_turn(name):
    policy = policy_of(name)
    turn = FAMILIES[name].turn
    end = policy.tokenizer(turn, add_special_tokens=False)["input_ids"][0]
    assert policy.end_token == end
    prompt = np.array(policy.encode("You are in a room."), np.int32)
    for normalization in (None, "sum"):
        candidates = ["go north", "go", "take the key"]
        request = Request(prompt, np.random.default_rng(1), candidates)
        sample = policy.act([request], Sampling(normalization=normalization))[0]
        assert sample.text in candidates
        assert sample.finished
        assert sample.tokens.tolist() == policy.encode_action(sample.text)
        assert sample.tokens[-1] == end


# Stop strings.


@pytest.mark.parametrize("name", ["qwen3", "base"])
def test_a_stop_string_ends_the_action_before_it(name, monkeypatch):
    policy = policy_of(name)
    prefix = policy.format.prefix
    tokens = policy.encode(f"{prefix}<act>go north</act> and more")
    scripted(monkeypatch, policy, tokens)
    sample = generated(policy, Sampling(max_new_tokens=40, stop=("</act>", "never")))
    assert sample.text == "<act>go north"
    assert sample.finished
    read = policy.decode(sample.tokens)
    assert read.startswith(f"{prefix}<act>go north</act>")
    assert "</act>" not in policy.decode(sample.tokens[:-1])
    assert sample.tokens.tolist() == tokens[: len(sample.tokens)]
    assert len(sample.logprobs) == len(sample.tokens)


TEXTS = st.text(alphabet="ab </>日\n.", max_size=30)


@given(text=TEXTS, stop=st.lists(TEXTS.filter(bool), min_size=1, max_size=2))
def test_an_action_ends_at_the_first_token_that_completes_a_stop_string(text, stop):
    policy = policy_of("qwen3")
    ending = Ending(policy, stop)
    tokens = policy.encode(text)
    for length in range(1, len(tokens) + 1):
        contained = any(each in policy.decode(tokens[:length]) for each in stop)
        assert ending.reached(tokens[:length]) == contained
        if contained:
            action = ending.text(tokens[:length])
            assert policy.decode(tokens[:length]).startswith(action)
            assert not any(each in action for each in stop)
            break


def test_stop_strings_in_batches_and_with_the_prefix_cache():
    policy = policy_of("qwen3")
    stop = ("o", "e", "1")
    rng = np.random.default_rng(3)
    prompts = [rng.integers(4, 300, size=n).astype(np.int32) for n in (30, 12, 21, 17)]

    def requests() -> list[Request]:
        return [Request(p, np.random.default_rng(i), slot=i) for i, p in enumerate(prompts)]

    free = policy.act(requests(), Sampling(max_new_tokens=30))
    cache = policy.session()
    policy.act(requests(), Sampling(max_new_tokens=2), cache)
    for cached in (None, cache):
        samples = policy.act(requests(), Sampling(max_new_tokens=30, stop=stop), cached)
        assert any(sample.finished and len(sample.tokens) < 30 for sample in samples)
        for sample, whole in zip(samples, free, strict=True):
            # The same tokens as without stop strings, up to the one that completes a string.
            length = len(sample.tokens)
            assert sample.tokens.tolist() == whole.tokens[:length].tolist()
            np.testing.assert_allclose(sample.logprobs, whole.logprobs[:length], atol=1e-5)
            assert not any(text in sample.text for text in stop)
            if length < len(whole.tokens):
                assert any(text in policy.decode(sample.tokens) for text in stop)


@pytest.mark.parametrize("stop", [("",), "</act>"])
def test_stop_strings_are_texts(stop):
    with pytest.raises(ConfigError, match="stop"):
        Sampling(stop=stop)


# Prompts.


def played(policy: Policy, actions: Sequence[Sequence[int]], **settings: Any) -> list[int]:
    """Returns the prompt after some actions."""
    conversation = make_context(policy, ContextSettings(**settings)).begin("You play a game.")
    for turn, tokens in enumerate(actions):
        conversation.observe(f"You are in room {turn}.")
        conversation.act(tokens)
    conversation.observe(f"You are in room {len(actions)}.")
    prompt = conversation.prompt(8)
    assert prompt is not None
    return prompt.tolist()


def rendered(tokenizer: Any, actions: Sequence[str], system: bool, **kwargs: Any) -> list[int]:
    """Returns the tokens of the template's own rendering of the same conversation."""
    rules = "You play a game."
    messages = [{"role": "system", "content": rules}] if system else []
    for turn, action in enumerate(actions):
        lead = "" if system or turn else f"{rules}\n\n"
        messages.append({"role": "user", "content": f"{lead}You are in room {turn}."})
        messages.append({"role": "assistant", "content": action})
    messages.append({"role": "user", "content": f"You are in room {len(actions)}."})
    text = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, **kwargs
    ).replace(f"{datetime.now():%Y-%m-%d}", f"{DAY:%Y-%m-%d}")
    if "<|channel|>" in tokenizer.get_vocab():
        text += "<|channel|>final<|message|>"
    return tokenizer(text, add_special_tokens=False)["input_ids"]


CHATML = (
    "{% for each in messages %}<|{{ each.role }}|>{{ each.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TYPICAL = ["go north", "take the red key", "x = 17, y", "日本"]
ACTIONS = st.lists(st.sampled_from(TYPICAL), max_size=4)


@pytest.mark.parametrize("name", CHAT)
@given(actions=ACTIONS)
def test_a_conversation_is_the_rendering_of_the_template(name, actions):
    policy = policy_of(name)
    expected = rendered(policy.tokenizer, [*actions, "go"], name != "gemma")
    tokens = [policy.encode_action(action) for action in actions]
    prompt = played(policy, [*tokens, policy.encode_action("go")])
    assert prompt == expected
    assert prompt.count(policy.tokenizer.bos_token_id) == (name in BOS)


def test_a_prompt_is_the_same_any_day(monkeypatch):
    policy = policy_of("gptoss")
    shown = policy.decode(played(policy, []))
    assert "Current date: 2025-01-01" in shown
    template = "{{ strftime_now('%d %b %Y, %H:%M') if strftime_now is defined }}"
    monkeypatch.setattr(policy.tokenizer, "chat_template", f"{template} {CHATML}")
    assert "01 Jan 2025, 00:00 " in policy.decode(played(policy, []))
    several = {
        "default": f"{template} {CHATML}",
        "tool_use": f"{template} {{{{ tools | length }}}} {CHATML}",
    }
    monkeypatch.setattr(policy.tokenizer, "chat_template", several)
    assert "01 Jan 2025, 00:00 " in policy.decode(played(policy, []))
    tools = {"template_kwargs": {"tools": [{}]}}
    assert "01 Jan 2025, 00:00 1" in policy.decode(played(policy, [], **tools))
    monkeypatch.setattr(policy.tokenizer, "chat_template", f"{{{{ day }}}} {CHATML}")
    day = {"template_kwargs": {"day": "2024-07-26"}}
    assert "2024-07-26 " in policy.decode(played(policy, [], **day))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_end_of_a_turn_is_never_written_twice(name):
    policy = policy_of(name)
    words = policy.encode_action("go north")[:-1]
    ended, cut = [*words, policy.end_token], words
    assert played(policy, [ended]) == played(policy, [cut])
    for end in policy.format.end_tokens - {policy.end_token}:
        # Another end token is kept, and the turn is closed as the template closes it.
        prompt = played(policy, [[*words, end]])
        at = prompt.index(end, len(played(policy, [])) - 8)
        assert prompt[at : at + 2] == [end, policy.end_token]


def test_a_space_before_the_end_of_the_turn_does_not_write_it_twice():
    """The template of Llama 2."""
    model, tokenizer = chat_model("llama3")
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
        "{% elif m.role == 'assistant' %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}"
        "{% endfor %}"
    )
    policy = Policy(model, tokenizer)
    assert policy.end_token == tokenizer.eos_token_id
    prompt = played(policy, [policy.encode_action("go north")] * 2)
    assert prompt.count(policy.end_token) == 2


@pytest.mark.parametrize("name", FAMILIES)
def test_generated_tokens_are_the_continuation_of_the_prompt(name):
    """Each prompt begins with the last one and the action, so an episode is one segment."""
    policy = policy_of(name)
    conversation = make_context(policy, ContextSettings()).begin("You play a game.")
    rng, before = np.random.default_rng(0), []
    for turn in range(4):
        conversation.observe(f"You are in room {turn}.")
        prompt = conversation.prompt(8)
        assert prompt is not None
        assert prompt[: len(before)].tolist() == before
        sample = policy.act([Request(prompt, rng)], Sampling(max_new_tokens=8, stop=("e",)))[0]
        conversation.act(sample.tokens)
        before = [*prompt.tolist(), *sample.tokens.tolist()]


def test_instructions_are_kept_if_the_template_leaves_the_system_message_out():
    model, tokenizer = chat_model("phi3")
    tokenizer = copy.deepcopy(tokenizer)
    silent = tokenizer.chat_template.replace("message['role'] == 'system'", "false")
    assert silent != tokenizer.chat_template
    tokenizer.chat_template = silent
    assert "You play a game." in tokenizer.decode(played(Policy(model, tokenizer), []))


def test_instructions_that_the_template_moves_to_the_last_turn_are_written_once():
    """The template of Mistral 7B Instruct v0.3: the last user message begins with the system's."""
    model, tokenizer = chat_model("llama3")
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = (
        "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
        "{% for m in messages %}{% if m.role == 'user' %}"
        "{{ '[INST] ' + (system + '\\n\\n' if loop.last and system else '') }}"
        "{{ m.content + '[/INST]' }}"
        "{% elif m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}"
    )
    policy = Policy(model, tokenizer)
    first, later = (played(policy, [policy.encode_action("go")] * n) for n in (0, 2))
    assert tokenizer.decode(first).startswith("[INST] You play a game.\n\nYou are in room 0.")
    assert tokenizer.decode(later).count("You play a game.") == 1


# Base models.


@pytest.mark.parametrize("action", TYPICAL)
def test_a_base_model_reads_the_natural_tokens_of_a_transcript(action):
    policy = policy_of("base")
    conversation = make_context(policy, ContextSettings()).begin("You play a game")
    conversation.observe("You are in a room.")
    conversation.act(policy.encode_action(action))
    conversation.observe("The door is locked.")
    prompt = conversation.prompt(0)
    assert prompt is not None
    text = f"You play a game\n\nYou are in a room.\n> {action}\nThe door is locked.\n>"
    assert prompt.tolist() == policy.encode(text)
    assert policy.encode(f"{text} go") == [*prompt.tolist(), *policy.encode_action("go")[:-1]]


def test_a_long_observation_of_a_base_model_keeps_its_line_break():
    policy = policy_of("base")
    context = make_context(policy, ContextSettings(max_tokens=60))
    conversation = context.begin("You play a game.")
    conversation.observe("Beginning " + "long " * 100)
    prompt = conversation.prompt(8)
    assert prompt is not None
    assert len(prompt) == 52
    text = policy.decode(prompt)
    assert text.startswith("You play a game.\n\nBeginning ")
    assert text.endswith("\n>")


@pytest.mark.parametrize("ending", ["\n", "\n\n", ".\n"])
def test_an_action_of_a_base_model_ends_with_the_line(ending, monkeypatch):
    policy = policy_of("base")
    tokens = policy.encode(f" go north{ending}You are")
    scripted(monkeypatch, policy, tokens)
    sample = generated(policy, Sampling(max_new_tokens=10))
    assert sample.text == "go north" + ending.rstrip("\n")
    assert sample.finished
    assert sample.tokens.tolist() == policy.encode(f" go north{ending}")
    prompt = played(policy, [sample.tokens])
    assert f"> go north{ending}You are in room 1." in policy.decode(prompt)


def test_the_space_of_a_tokenizer_that_adds_one_itself_is_not_doubled():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<unk>", "</s>", "▁", "▁>", ">", "▁go", "<0x0A>", "\n"]
    words = Tokenizer(models.WordLevel({p: i for i, p in enumerate(pieces)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    words.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>")
    assert ActionFormat.of(None, tokenizer).prefix == ""


def test_new_models_keep_their_prompts(make_policy):
    policy = make_policy()
    end = policy.tokenizer.eos_token_id
    assert policy.format == ActionFormat(end, frozenset([end]))


# Arguments of the template.


def test_arguments_reach_the_chat_template():
    policy = policy_of("qwen3")
    actions = [policy.encode_action("go north")]
    kwargs = {"enable_thinking": False}
    assert played(policy, []) == rendered(policy.tokenizer, [], True)
    prompt = played(policy, [], template_kwargs=kwargs)
    assert prompt == rendered(policy.tokenizer, [], True, **kwargs)
    assert policy.tokenizer.decode(prompt).endswith("<think>\n\n</think>\n\n")
    # Qwen leaves earlier thoughts out. Here, a prompt begins with the last one.
    assert played(policy, actions, template_kwargs=kwargs)[: len(prompt)] == prompt


def test_arguments_need_a_chat_template_and_cannot_change_how_it_is_called():
    with pytest.raises(ConfigError, match="no chat template"):
        played(policy_of("base"), [], template_kwargs={"enable_thinking": False})
    with pytest.raises(ConfigError, match="cannot set tokenize"):
        ContextSettings(template_kwargs={"tokenize": True})


def test_arguments_that_the_template_never_reads_are_refused(monkeypatch):
    policy = policy_of("qwen3")
    message = "got enable_thoughts, which.*never reads. It reads enable_thinking, tools: correct"
    with pytest.raises(ConfigError, match=message):
        played(policy, [], template_kwargs={"enable_thoughts": False, "tools": []})
    with pytest.raises(ConfigError, match="reads no arguments"):
        played(policy_of("phi3"), [], template_kwargs={"enable_thinking": False})
    monkeypatch.setattr(policy.tokenizer, "chat_template", "{% unknown %}")
    with pytest.warns(UserWarning, match="reads think cannot be checked"):
        check_arguments(policy.tokenizer, {"think": 1})


@pytest.mark.parametrize(
    ("template", "arguments"),
    [
        ("{% set think = think | default(true) %}{{ think }}", {"think"}),
        ("{% if day is not defined %}{% set day = strftime_now('%d') %}{% endif %}", {"day"}),
        ("{% if a %}{% set text = messages[0].x %}{% endif %}{{ text }}", {"a"}),
        ("{% generation %}{{ messages[0].x }}{%- endgeneration -%}{{ last }}", {"last"}),
        ("{% for each in messages %}{{ each.x }}{% break %}{% endfor %}", set()),
    ],
)
def test_arguments_of_templates(template, arguments):
    class Template:
        def get_chat_template(self, tools):
            return template

    message = f"never reads. It reads {', '.join(arguments) or 'no arguments'}:"
    with pytest.raises(ConfigError, match=message):
        check_arguments(Template(), {"x": 1})
    check_arguments(Template(), dict.fromkeys(arguments))


def test_arguments_without_a_template_are_not_checked():
    """As with mistral-common, which renders conversations itself."""

    class Tokenizer:
        def get_chat_template(self, tools):
            raise NotImplementedError

    with pytest.warns(UserWarning, match="reads think cannot be checked"):
        check_arguments(Tokenizer(), {"think": 1})


def test_arguments_and_stop_strings_are_saved_with_the_policy(tmp_path):
    settings = ContextSettings(template_kwargs={"enable_thinking": False})
    sampling = Sampling(stop=("</action>",))
    PolicyAgent(policy_of("qwen3"), settings, sampling).save(tmp_path)
    agent = load_agent(str(tmp_path))
    assert isinstance(agent, PolicyAgent)
    assert (agent.settings, agent.sampling) == (settings, sampling)
    assert agent.policy.format == policy_of("qwen3").format


@pytest.mark.parametrize(
    ("template", "reason"),
    [("{{ raise_exception('never') }}", "never"), ("{{ messages[0].content }}", "turns")],
)
def test_a_template_that_cannot_be_used_is_a_config_error(template, reason):
    model, tokenizer = chat_model("qwen3")
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = template
    with pytest.raises(ConfigError, match=f"chat template cannot be used: .*{reason}"):
        Policy(model, tokenizer)
