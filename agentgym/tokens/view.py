"""`TokenView`: an episode as a language model sees it, one token at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError, SnapshotError
from agentgym.tokens.context import (
    ActionFormat,
    Conversation,
    PlainContext,
    PlainFormat,
    PromptContext,
)
from agentgym.tokens.tokenizer import Tokenizer, decode, encode, silent_tokens, vocabulary_size
from agentgym.tokens.trie import TokenTrie
from agentgym.utils.arguments import check_arguments, keyword_parameters
from agentgym.utils.recent import Recent, text_size

_CACHED = 16 << 20
"""Bytes of actions whose tokens a view caches."""


class TokenOptions(TypedDict, total=False):
    """The keyword arguments of `TokenAction` and `TokenAEC`."""

    max_action_tokens: int
    max_tokens: int
    constrain: bool
    end_token: int | None
    format: ActionFormat | None
    gamma: float
    instructions: bool
    context: PromptContext | None


@dataclass(frozen=True)
class TokenSettings:
    """Settings of token-level actions (see `TokenAction`)."""

    tokenizer: Tokenizer
    max_action_tokens: int
    max_tokens: int
    constrain: bool
    format: ActionFormat
    gamma: float
    instructions: bool
    context: PromptContext
    size: int

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        *,
        max_action_tokens: int = 32,
        max_tokens: int = 512,
        constrain: bool = False,
        end_token: int | None = None,
        format: ActionFormat | None = None,
        gamma: float = 1.0,
        instructions: bool = True,
        context: PromptContext | None = None,
    ) -> TokenSettings:
        """Returns checked settings.

        Raises:
            ConfigError: if there is no valid end token, or a number is out of range.
        """
        size = vocabulary_size(tokenizer)
        if format is not None and end_token is not None:
            raise ConfigError("A format has end tokens: give format or end_token, not both.")
        end = getattr(tokenizer, "eos_token_id", None) if end_token is None else end_token
        end = end if format is None else format.end_token
        if end is None or not 0 <= end < size:
            raise ConfigError(
                f"TokenAction needs an end_token in [0, {size}), got {end!r}: pass the id that "
                "completes an action (the tokenizer has no eos_token_id of its own)."
            )
        format = PlainFormat(int(end)) if format is None else format
        if max_action_tokens < 1 or max_tokens < 1:
            raise ConfigError(
                f"max_action_tokens and max_tokens must be at least 1, got {max_action_tokens} "
                f"and {max_tokens}."
            )
        if not 0 <= gamma <= 1:
            raise ConfigError(f"gamma must lie in [0, 1], got {gamma}.")
        return cls(
            tokenizer=tokenizer,
            max_action_tokens=max_action_tokens,
            max_tokens=max_tokens,
            constrain=constrain,
            format=format,
            gamma=float(gamma),
            instructions=instructions,
            context=PlainContext(tokenizer, format, max_tokens) if context is None else context,
            size=size,
        )

    @cached_property
    def silent(self) -> frozenset[int]:
        """The tokens that are no part of an action's text."""
        return silent_tokens(self.tokenizer, self.format.end_tokens)

    @classmethod
    def checked(cls, owner: str, tokenizer: Tokenizer, options: Mapping[str, Any]) -> TokenSettings:
        """Returns the settings of an environment from its keyword arguments.

        Args:
            owner: name of the environment's class, for messages.
            tokenizer: the tokenizer.
            options: the arguments, see `TokenOptions`.

        Raises:
            UnknownArgumentError: for an unknown argument.
            ConfigError: as `of`, and for an argument of another type.
        """
        check_arguments(owner, keyword_parameters(cls.of), {"tokenizer": tokenizer, **options})
        return cls.of(tokenizer, **options)

    @property
    def action_space(self) -> Discrete:
        """The token ids."""
        return Discrete(self.size)

    @property
    def observation_space(self) -> Dict:
        """The space of `TokenView.observation`."""
        return Dict(
            tokens=Box(0, self.size - 1, (self.max_tokens,), np.int64),
            length=Box(0, self.max_tokens, (1,), np.int64),
            action_mask=MultiBinary(self.size),
        )


class TokenView:
    """The prompt of an agent's turn and the tokens of its action so far.

    Args:
        settings: the settings.

    Attributes:
        action: the tokens of the action so far.
    """

    def __init__(self, settings: TokenSettings):
        self.settings = settings
        self.action: list[int] = []
        self._turns: list[tuple[str, int, list[int]]] = []
        self._conversation: Conversation | None = None
        self._prompt: list[int] = []
        self._text, self._room = "", 0
        self._admissible: tuple[str, ...] = ()
        self._trie: TokenTrie | None = None
        self._node = 0
        self._candidates: Recent[list[int]] = Recent(_CACHED)

    def _decode(self, tokens: Sequence[int]) -> str:
        return decode(self.settings.tokenizer, tokens, self.settings.silent)

    def begin(self) -> None:
        """Forgets the episode."""
        self.action, self._turns, self._conversation = [], [], None

    def read(
        self, text: str, info: Mapping[str, Any], instructions: str, *, ended: bool = False
    ) -> None:
        """Starts a turn with an observation, or continues the action of a snapshot.

        Args:
            text: the observation.
            info: its info, which may list the admissible actions.
            instructions: the instructions of the environment.
            ended: whether the episode is over. Then the observation is cut as that of the last
                turn, since algorithms estimate the value of a truncated episode from it.

        Raises:
            SnapshotError: if the tokens of the action do not begin an admissible action.
        """
        settings = self.settings
        admissible = tuple(info.get("admissible", ())) if settings.constrain else ()
        sequences = [self.encode(each) for each in admissible]
        trie = TokenTrie(sequences, end=settings.format.end_token) if admissible else None
        node = trie.walk(self.action) if trie else 0
        if node is None:
            raise SnapshotError(
                f"The tokens {self.action} are not the start of an admissible action."
            )
        self._admissible, self._trie, self._node = admissible, trie, node
        room = max((len(each) + 1 for each in sequences), default=settings.max_action_tokens)
        if ended:
            room = self._turns[-1][1] if self._turns else 0
        rules = instructions if settings.instructions else ""
        if self._conversation is None:
            self._conversation = settings.context.begin(rules)
            for earlier, space, tokens in self._turns:
                self._observe(earlier, space, rules)
                self._conversation.act(tokens)
        self._prompt = self._observe(text, room, rules)
        self._text, self._room = text, room

    def _observe(self, text: str, room: int, instructions: str) -> list[int]:
        """Returns the prompt. If it does not fit, the conversation starts anew."""
        assert self._conversation is not None
        self._conversation.observe(text)
        prompt = self._conversation.prompt(room)
        if prompt is None:
            self._conversation = self.settings.context.begin(instructions)
            self._conversation.observe(text)
            prompt = self._conversation.prompt(room)
            assert prompt is not None, "the first observation is cut to fit"
        return [int(token) for token in prompt]

    def append(self, token: int) -> str | None:
        """Appends a token to the action. Returns the action as text if it is complete."""
        trie, text = self._trie, None
        if trie is None:
            text = self._free_text(token)
        elif token not in trie.children(self._node):
            said = self._decode([*self.action, token])
            text = UnreadableAction(said, f"{said[:80]!r} is not the start of a valid action.")
        else:
            self._node = trie.step(self._node, token)
            if (leaf := trie.leaf(self._node)) is not None:
                # The candidate itself: decoding may not be the exact inverse of encoding.
                text = self._admissible[leaf]
        self.action.append(token)
        if text is None:
            return None
        self._turns.append((self._text, self._room, self.action))
        if self._conversation is not None:
            self._conversation.act(self.action)
        self.action = []
        return text

    def _free_text(self, token: int) -> str | None:
        """Returns the text of an action without constraint if a token completes it."""
        settings, ends = self.settings, self.settings.format
        ended = token in ends.end_tokens
        full = len(self.action) + 1 >= settings.max_action_tokens
        if not (ended or full or ends.stop):
            return None
        tokens = self.action if ended else [*self.action, token]
        text = self._decode(tokens)
        if not (ended or full or any(string in text for string in ends.stop)):
            return None
        for string in ends.stop:
            text = text.partition(string)[0]
        return text.removeprefix(ends.prefix)

    def mask(self) -> np.ndarray:
        """Returns the mask of tokens that may follow, bool (V,)."""
        if self._trie is None:
            return np.ones(self.settings.size, dtype=bool)
        mask = np.zeros(self.settings.size, dtype=bool)
        mask[list(self._trie.children(self._node))] = True
        return mask

    def observation(self) -> dict[str, np.ndarray]:
        """Returns the prompt with the action so far, its length, and the mask."""
        kept = (self._prompt + self.action)[-self.settings.max_tokens :]
        tokens = np.zeros(self.settings.max_tokens, dtype=np.int64)
        tokens[: len(kept)] = kept
        return {
            "tokens": tokens,
            "length": np.array([len(kept)], dtype=np.int64),
            "action_mask": self.mask().astype(np.int8),
        }

    def next_token(self, text: str) -> int | None:
        """Returns the next token of an action, or None if the action so far deviates from it."""
        tokens = [*self.encode(text), self.settings.format.end_token]
        count = len(self.action)
        if tokens[:count] != self.action:
            return None
        if self._trie is not None and self._trie.walk(tokens) is None:
            return None
        return tokens[count]

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of an action, without the end token."""
        tokens = self._candidates.get(text)
        if tokens is None:
            settings = self.settings
            tokens = encode(settings.tokenizer, settings.format.prefix + text)
            self._candidates.put(text, tokens, text_size([text], len(tokens)))
        return tokens

    def memory(self) -> dict[str, Any]:
        """Returns the episode so far as JSON values."""
        turns = [[text, room, list(tokens)] for text, room, tokens in self._turns]
        return {"action": list(self.action), "turns": turns}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restores `memory`. The current observation is to be read next."""
        action = [int(token) for token in memory["action"]]
        turns = [(str(text), int(n), [int(t) for t in each]) for text, n, each in memory["turns"]]
        self.action, self._turns, self._conversation = action, turns, None
