"""`Grammars`: the tokens that may continue a well-formed action, such as a call of a tool.

llguidance finds them. A token may span parts of a text, and a text can be spelled in many ways, so
all tokens are allowed after which the text can still be completed.

Shapes: V vocabulary.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import ConfigError, needs_extra

PROBE = '{"name": "Ab, C", "arguments": {"n": [17, -0.5, null]}}'
"""A text that tokenizers which drop spaces or capitals do not spell."""


def check_grammars(engine: str) -> None:
    """Checks that calls of tools can be restricted to well-formed ones.

    Args:
        engine: the engine that generates, as in the setting `engine`.

    Raises:
        ConfigError: if it is not the project's own.
        MissingExtraError: without llguidance.
    """
    if engine != "own":
        raise ConfigError(
            f"constrain restricts calls of tools to well-formed ones with engine='own', got "
            f"engine={engine!r}: leave out one of them."
        )
    _matchers()


def _matchers() -> Any:
    """Returns `llguidance.LLMatcher`."""
    with needs_extra("Restricting calls of tools to well-formed ones (constrain)", "grammar"):
        from llguidance import LLMatcher
    return LLMatcher


class Spelling:
    """An action in progress, spelled token by token.

    Args:
        matcher: an `llguidance.LLMatcher` at the start of the action.
        vocabulary: number of tokens V.
        end: the token that ends a complete action.

    Attributes:
        allowed: bool [V] the tokens that may follow. None may after the end.
        closed: whether the action has ended.
    """

    allowed: NDArray[np.bool_]

    def __init__(self, matcher: Any, vocabulary: int, end: int):
        self._matcher, self._vocabulary, self._end = matcher, vocabulary, end
        self.closed = False
        self.allowed = self._next()

    @property
    def only(self) -> int | None:
        """The only token that may follow, or None if there are none or several."""
        return int(self.allowed.argmax()) if np.count_nonzero(self.allowed) == 1 else None

    def step(self, token: int) -> None:
        """Appends one of the allowed tokens.

        Raises:
            ValueError: if the token is not allowed.
        """
        if not self.allowed[token]:
            raise ValueError(f"Token {token} does not continue the action.")
        if token == self._end and self._matcher.is_accepting():
            self.closed = True
            self.allowed = np.zeros(self._vocabulary, bool)
            return
        self._matcher.consume_token(token)
        self.allowed = self._next()

    def _next(self) -> NDArray[np.bool_]:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            raise ConfigError(f"The grammar of an action: {self._matcher.get_error()}")
        allowed = np.unpackbits(bits, bitorder="little")[: self._vocabulary].astype(bool)
        allowed[self._end] |= self._matcher.is_accepting()
        return allowed


class Grammars:
    """Regular expressions of actions for the tokens of a model. Compiled ones are kept.

    Args:
        tokenizer: a fast tokenizer of `transformers`.
        vocabulary: number of logits V of the model.
        end: the token that ends an action.
        prefix: text before an action that is part of its tokens.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, end: int, prefix: str = ""):
        self._tokenizer, self._vocabulary = tokenizer, vocabulary
        self._end, self._prefix = end, prefix
        self._compiled: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name != "_tokens"}
        return {**kept, "_compiled": {}}

    def begin(self, regex: str) -> Spelling:
        """Returns an action without tokens.

        Args:
            regex: regular expression of the whole action.

        Raises:
            ConfigError: if the tokenizer has no fast form, or the expression cannot be read.
            MissingExtraError: without llguidance.
        """
        matchers = _matchers()
        found = self._compiled.get(regex)
        if found is None:
            grammar = matchers.grammar_from_regex(re.escape(self._prefix) + regex)
            found = matchers(self._tokens, grammar, log_level=0)
            if found.is_error():
                raise ConfigError(f"The grammar of an action: {found.get_error()}")
            self._compiled[regex] = found
        return Spelling(found.deep_copy(), self._vocabulary, self._end)

    @cached_property
    def _tokens(self) -> Any:
        from llguidance.hf import from_tokenizer

        problem: object = f"it does not read {PROBE!r} as it is written"
        try:
            size = max(self._vocabulary, len(self._tokenizer))
            found = from_tokenizer(self._tokenizer, size, self._end)
            if found.decode_str(self._tokenizer.encode(PROBE, add_special_tokens=False)) == PROBE:
                return found
        except ValueError as error:
            problem = error
        raise ConfigError(
            "Calls of tools can be restricted to well-formed ones if every text has tokens that "
            f"spell it exactly. The tokenizer {type(self._tokenizer).__name__}: {problem}. Leave "
            "out constrain."
        )
