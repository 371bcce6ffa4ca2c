"""The delimiters of actions: end tokens, stop strings, and the text before and after an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.trainers.policy.chat_template import turn_end

PAD, END = "<|pad|>", "<|end|>"
"""The special tokens of the tokenizers that are trained for new models (`tiny_tokenizer`)."""


@dataclass(frozen=True)
class ActionFormat:
    """How actions are delimited in the tokens of a model.

    Without a chat template, a pre-trained model reads a transcript of lines such as `> go north`.
    Its actions begin with the space, as in the text that it was trained on, and end with the line.

    Attributes:
        end_token: the token that ends admissible actions, demonstrations, and actions that were cut
            off: the end of a turn in the chat template, a line break, or the end of sequence.
        end_tokens: the tokens that end a generated action.
        stop: strings that end a generated action.
        prompt: text between an observation and an action, if there is no chat template.
        prefix: text before an action that is part of its tokens.
        newline: whether `end_token` is a line break. Nothing else separates an action from the next
            observation then, and the line break after an observation is part of its tokens.
    """

    end_token: int
    end_tokens: frozenset[int]
    stop: tuple[str, ...] = ()
    prompt: str = "\n> "
    prefix: str = ""
    newline: bool = False

    @classmethod
    def of(cls, model: Any, tokenizer: Any) -> ActionFormat:
        """Returns the format of a model.

        Args:
            model: a `transformers` causal LM. The end-of-sequence tokens of its generation config
                end an action, as in its `generate`.
            tokenizer: its tokenizer.

        Raises:
            ConfigError: if the chat template cannot be rendered.
        """
        end = tokenizer.eos_token_id
        listed = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
        listed = [listed] if isinstance(listed, int) else listed or []
        ends = frozenset([end, *listed])
        if getattr(tokenizer, "chat_template", None):
            turn = turn_end(tokenizer)
            return cls(end, ends) if turn is None else cls(turn, ends | {turn})
        if (tokenizer.pad_token, tokenizer.eos_token) == (PAD, END):
            return cls(end, ends)
        return cls._of_lines(tokenizer, ends)

    @classmethod
    def _of_lines(cls, tokenizer: Any, ends: frozenset[int]) -> ActionFormat:
        """Returns the format of a pre-trained model without a chat template."""

        def ids(text: str) -> list[int]:
            return tokenizer(text, add_special_tokens=False)["input_ids"]

        # Some tokenizers put a space before every text themselves.
        prefix = "" if ids(">") + ids("go") == ids("> go") else " "
        line = ids("\n")  # none if the tokenizer drops line breaks
        newline = bool(line) and tokenizer.decode(line[-1:]) == "\n"
        end, prompt = (line[-1], ">") if newline else (tokenizer.eos_token_id, "\n>")
        return cls(end, ends | {end}, ("\n",), prompt, prefix, newline)
