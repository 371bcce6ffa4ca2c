"""`TokenAction`: a text environment as a token-level Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError, SnapshotError
from agentgym.utils.action_parsing import numbered
from agentgym.utils.token_trie import TokenTrie
from agentgym.wrappers.base import TextWrapper
from agentgym.wrappers.tokens import Tokenizer, encode, vocabulary_size

_CACHED_CANDIDATES = 50_000


class TokenAction(TextWrapper):
    """Makes each step one token. The environment is stepped when an action is complete.

    With the per-step discount in the info, the token-level Bellman backup is that of POAD
    ("Reinforcing LLM Agents via Policy Optimization with Action Decomposition", arXiv 2405.15821):
    no discount within an action, and gamma at its end. The undiscounted return is equal to that of
    the wrapped environment for the same actions.

    **Actions**: `Discrete(V)`, token ids of a vocabulary of size V. An action is complete after the
    end token or `max_action_tokens` tokens. If the turn is constrained to admissible actions, it is
    complete as soon as it equals one of them. The end token is needed only if the action is a
    prefix of another admissible action. A token that does not continue an admissible action
    completes an invalid action.

    **Observations**: `Dict` of

    - `tokens`, int64 (max_tokens,): the tokens of the observation and of the current action, cut to
      the last `max_tokens` and padded with 0 on the right.
    - `length`, int64 (1,): the number of tokens without padding.
    - `action_mask`, int8 (V,): 1 for the tokens that may follow.

    **Rewards**: the environment's reward when an action is complete, and 0 within an action.

    **Info**: `turn_end` (bool: whether this step completed an action) and `discount` (gamma if
    `turn_end`, else 1) are added. Within an action, the other keys have the values of the start of
    the turn and `reward_terms` are 0.

    Args:
        env: an environment with text observations and actions.
        tokenizer: any tokenizer of `transformers`, or an object with `encode(text,
            add_special_tokens=False)`, `decode(ids)` and `__len__` or `vocab_size`.
        max_action_tokens: maximum number of tokens per action in turns without constraint.
        max_tokens: length of the observation.
        constrain: whether actions are constrained to `info["admissible"]`. Turns in which it is
            empty (an open action set) are not constrained.
        end_token: id of the token that completes an action. None: the tokenizer's `eos_token_id`.
        gamma: discount per turn, in [0, 1].

    Raises:
        ConfigError: if observations or actions are not text, or an argument is invalid.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        tokenizer: Tokenizer,
        *,
        max_action_tokens: int = 32,
        max_tokens: int = 512,
        constrain: bool = False,
        end_token: int | None = None,
        gamma: float = 1.0,
    ):
        super().__init__(
            env,
            tokenizer=tokenizer,
            max_action_tokens=max_action_tokens,
            max_tokens=max_tokens,
            constrain=constrain,
            end_token=end_token,
            gamma=gamma,
        )
        self._need_text("observations")
        self._need_text("actions")
        size = vocabulary_size(tokenizer)
        end = getattr(tokenizer, "eos_token_id", None) if end_token is None else end_token
        if end is None or not 0 <= end < size:
            raise ConfigError(
                f"TokenAction needs an end_token in [0, {size}), got {end!r}: pass the id that "
                "completes an action (the tokenizer has no eos_token_id of its own)."
            )
        if max_action_tokens < 1 or max_tokens < 1:
            raise ConfigError(
                f"max_action_tokens and max_tokens must be at least 1, got {max_action_tokens} "
                f"and {max_tokens}."
            )
        if not 0 <= gamma <= 1:
            raise ConfigError(f"gamma must lie in [0, 1], got {gamma}.")
        self.tokenizer = tokenizer
        self.end_token = int(end)
        self.max_action_tokens = max_action_tokens
        self.max_tokens = max_tokens
        self.constrain = constrain
        self.gamma = float(gamma)
        self.action_space = Discrete(size)
        self.observation_space = Dict(
            tokens=Box(0, size - 1, (max_tokens,), np.int64),
            length=Box(0, max_tokens, (1,), np.int64),
            action_mask=MultiBinary(size),
        )
        self._size = size
        self._candidates: dict[str, list[int]] = {}
        self._action: list[int] = []
        self._ready = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`."""
        observation, info = super().reset(seed=seed, options=options)
        self._ready = True
        return observation, info

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Appends one token to the action, and steps the environment if the action is complete.

        Raises:
            TypeError: if the token is not an integer.
            ValueError: if the token is not in [0, V).
            gymnasium.error.ResetNeeded: before the first reset or after the end of an episode.
        """
        token = numbered(action)
        if not 0 <= token < self._size:
            raise ValueError(f"A token is an integer in [0, {self._size}), got {token}.")
        if not self._ready:
            raise ResetNeeded("Call reset() before step(): there is no episode in progress.")
        text = self._append(token)
        if text is None:
            info = dict(self._info)
            if "reward_terms" in info:
                info["reward_terms"] = dict.fromkeys(info["reward_terms"], 0.0)
            return self._look(), 0.0, False, False, info
        observation, reward, terminated, truncated, info = self.env.step(text)
        self._action = []
        tokens, info = self._view(observation, info)
        self._ready = not (terminated or truncated)
        info = {**info, "turn_end": True, "discount": self.gamma}
        return tokens, float(reward), terminated, truncated, info

    def action_masks(self) -> np.ndarray:
        """Returns the mask of tokens that may follow, bool (V,), for `sb3_contrib.MaskablePPO`."""
        mask = np.zeros(self._size, dtype=bool)
        if self._trie is None:
            mask[:] = True
            return mask
        mask[list(self._trie.children(self._node))] = True
        mask[self.end_token] |= self._trie.is_complete(self._node)
        return mask

    def expert(self) -> int | None:
        """Returns the next token of the expert's action.

        None if there is no expert or the current action deviates from the expert's.
        """
        text = self.env.get_wrapper_attr("expert")()
        if text is None:
            return None
        tokens = [*self._encode_candidate(text), self.end_token]
        count = len(self._action)
        if tokens[:count] != self._action:
            return None
        if self._trie is not None and self._trie.walk(tokens[:-1]) is None:
            return None
        return tokens[count]

    def _append(self, token: int) -> str | None:
        """Appends a token to the action. Returns the action's text if it is complete."""
        if self._trie is not None:
            return self._append_constrained(self._trie, token)
        if token == self.end_token:
            return self.tokenizer.decode(self._action)
        self._action.append(token)
        full = len(self._action) >= self.max_action_tokens
        return self.tokenizer.decode(self._action) if full else None

    def _append_constrained(self, trie: TokenTrie, token: int) -> str | None:
        leaf = trie.leaf(self._node)
        if token == self.end_token and leaf is not None:
            return self._info["admissible"][leaf]
        if token not in trie.children(self._node):
            text = self.tokenizer.decode([*self._action, token])
            return UnreadableAction(text, f"{text[:80]!r} is not the start of a valid action.")
        self._action.append(token)
        self._node = trie.step(self._node, token)
        leaf = trie.leaf(self._node)
        # Returns the candidate itself: decoding may not be the exact inverse of encoding.
        done = leaf is not None and not trie.children(self._node)
        return self._info["admissible"][leaf] if done else None

    def _view(
        self, observation: str, info: dict[str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        self._context = encode(self.tokenizer, observation)[-self.max_tokens :]
        self._info = {**info, "turn_end": False, "discount": 1.0}
        admissible = info.get("admissible", ()) if self.constrain else ()
        self._trie = TokenTrie(map(self._encode_candidate, admissible)) if admissible else None
        node = self._trie.walk(self._action) if self._trie else 0
        if node is None:
            raise SnapshotError(
                f"The tokens {self._action} are not the start of an admissible action."
            )
        self._node = node
        return self._look(), dict(self._info)

    def _look(self) -> dict[str, np.ndarray]:
        kept = (self._context + self._action)[-self.max_tokens :]
        tokens = np.zeros(self.max_tokens, dtype=np.int64)
        tokens[: len(kept)] = kept
        return {
            "tokens": tokens,
            "length": np.array([len(kept)], dtype=np.int64),
            "action_mask": self.action_masks().astype(np.int8),
        }

    def _encode_candidate(self, text: str) -> list[int]:
        tokens = self._candidates.get(text)
        if tokens is None:
            if len(self._candidates) >= _CACHED_CANDIDATES:
                self._candidates.clear()
            tokens = self._candidates[text] = encode(self.tokenizer, text)
        return tokens

    def _begin(self) -> None:
        self._action = []

    def _memory(self) -> dict[str, Any]:
        return {"action": list(self._action), "ready": self._ready}

    def _remember(self, memory: dict[str, Any]) -> None:
        self._action, self._ready = [int(token) for token in memory["action"]], memory["ready"]
