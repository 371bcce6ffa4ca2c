"""Tokenizers with the chat templates of many families, for dialogues with tools."""

from __future__ import annotations

import copy
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym.trainers.policy.action_format import ActionFormat

from .chat_models import FAMILIES, chat_tokenizer

# Tokens that end a turn, in the templates of families that are not in `chat_models`.
ENDS = {
    "qwen2_5": "<|im_end|>",
    "qwen3_5_think": "<|im_end|>",
    "qwen3_6": "<|im_end|>",
    "qwen3_8": "<|im_end|>",
    "qwen3_instruct_2507": "<|im_end|>",
    "nemotron_3_nano": "<|im_end|>",
    "llama3_1": "<|eot_id|>",
    "llama3_2": "<|eot_id|>",
    "lfm2_v2": "<|im_end|>",
    "glm4moe": "<|user|>",
    "gemma4": "<turn|>",
    "deepseekv3": "<｜end▁of▁sentence｜>",
}
FURTHER_ENDS = {"glm4moe": ["<|observation|>"], "gemma4": ["<|tool_response>"]}
_SPECIAL = re.compile(
    r"<[|｜][^<>\s{}'\"]{1,30}[|｜]>|<\|?[a-z_]{2,20}\|?>|</[a-z_]{2,20}>|<\|\"\|>"
)
_TAGS = re.compile(r"</?[a-z_]{2,20}>")


@cache
def tool_tokenizer(name: str) -> Any:
    """A byte-level tokenizer with the tokens and the template of a family."""
    if name in FAMILIES:
        return chat_tokenizer(name)
    tokenizer = copy.deepcopy(chat_tokenizer("qwen3"))
    (folder,) = find_spec("trl").submodule_search_locations  # type: ignore[union-attr]
    template = (Path(folder) / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")
    found = sorted({ENDS[name], *FURTHER_ENDS.get(name, ()), *_SPECIAL.findall(template)})
    tokenizer.add_tokens([each for each in found if not _TAGS.fullmatch(each)], special_tokens=True)
    tokenizer.add_tokens([each for each in found if _TAGS.fullmatch(each)])
    tokenizer.chat_template = template
    tokenizer.eos_token = ENDS[name]
    return tokenizer


@cache
def tool_format(name: str) -> ActionFormat:
    """The delimiters of actions of a family."""
    tokenizer = tool_tokenizer(name)
    if name in FAMILIES:
        family = FAMILIES[name]
        if family.template is None:
            return ActionFormat(*_line(tokenizer))
        ends = {*family.ends, family.turn}
        turn = family.turn
    else:
        turn, ends = ENDS[name], {ENDS[name], *FURTHER_ENDS.get(name, ())}
    numbers = tokenizer.convert_tokens_to_ids(sorted(ends))
    return ActionFormat(tokenizer.convert_tokens_to_ids(turn), frozenset(numbers))


def _line(tokenizer: Any) -> tuple[int, frozenset[int], tuple[str, ...], str, str, bool]:
    (line,) = tokenizer("\n", add_special_tokens=False)["input_ids"]
    ends = frozenset([line, tokenizer.eos_token_id])
    return line, ends, ("\n",), "\n>", " ", True
