"""`EncodeObservation`: text observations as arrays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from agentgym.errors import ConfigError
from agentgym.tokens.tokenizer import Tokenizer, encode, vocabulary_size
from agentgym.utils.action_parsing import text_of
from agentgym.utils.word_hash import WORD, WordHash
from agentgym.wrappers.base import TextWrapper

_REGION = 40
_FACTS = 6
_IDENTITY = 16
CANDIDATE_FEATURES = _FACTS + _IDENTITY
"""Number of features per candidate action."""


class EncodeObservation(TextWrapper):
    """Encodes text observations as arrays of hashed words or token ids.

    **Actions**, **rewards**, **info**: unchanged. For `Discrete` actions, apply `AdmissibleAction`
    on the outside: `AdmissibleAction(EncodeObservation(env, max_actions=n), n)`.

    **Observations** with `encoding="hashed_words"`: `Box(-1, 1, (size + 22 * max_actions,),
    float32)`. The first `size` entries are a bag of words and bigrams. Bigrams distinguish "at 3,
    go to 7" from "at 7, go to 3". Each word or bigram is added with a sign to one of `size` entries
    (signed feature hashing: Weinberger et al., "Feature Hashing for Large Scale Multitask
    Learning", arXiv 0902.2206), and the vector is scaled to length 1.

    They are followed by 22 features for each of the first `max_actions` admissible actions. The
    features measure the match between action and task, so that a small network can choose an action
    without learning the meaning of words:

    - 0: 1 if there is an action with this index.
    - 1: fraction of the action's words, except the first (the verb), that occur in the first
      observation of the episode, where environments state the task.
    - 2: match of the action's *region*. The region is the part of the observation that follows the
      mention of the action: at most 40 words, up to the next mentioned action, such as the title of
      a product. The match is the weighted count of words that the region shares with the first
      observation. A word has a larger weight if fewer regions contain it.
    - 3, 4: 1 if no other action has a larger feature 1 (or 2).
    - 5: 1 if the action was taken earlier in this episode. Always 0 if this wrapper receives
      actions that are not strings.
    - 6 to 21: the action's words, hashed and scaled as above.

    **Observations** with a tokenizer: `Box(0, V - 1, (size,), int64)` with vocabulary size V. They
    hold the last `size` token ids, padded on the right with the tokenizer's `pad_token_id`, or 0.

    Args:
        env: an environment with text observations.
        encoding: "hashed_words" or a tokenizer (see `TokenAction`).
        size: dimension of the hashed words, or number of token ids.
        max_actions: number of admissible actions with features (hashed words only).

    Raises:
        ConfigError: if the observations are not text, or an argument is out of range.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        encoding: str | Tokenizer = "hashed_words",
        *,
        size: int = 512,
        max_actions: int = 0,
    ):
        super().__init__(env, encoding=encoding, size=size, max_actions=max_actions)
        self._need_text("observations")
        if size < 1 or max_actions < 0:
            raise ConfigError(
                f"size must be at least 1 and max_actions at least 0, got {size}, {max_actions}."
            )
        self.size = size
        self.max_actions = max_actions
        self.tokenizer: Tokenizer | None = None
        if isinstance(encoding, str):
            if encoding != "hashed_words":
                raise ConfigError(
                    f"encoding must be 'hashed_words' or a tokenizer, got {encoding!r}."
                )
            shape = (size + CANDIDATE_FEATURES * max_actions,)
            self.observation_space = Box(-1, 1, shape, np.float32)
        else:
            if max_actions:
                raise ConfigError("max_actions needs encoding='hashed_words'.")
            self.tokenizer = encoding
            self.observation_space = Box(0, vocabulary_size(encoding) - 1, (size,), np.int64)
        self._text_hash = WordHash(size)
        self._action_hash = WordHash(_IDENTITY)
        self._first = ""
        self._first_words: frozenset[str] = frozenset()
        self._taken: set[str] = set()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if isinstance(action, str) and self.max_actions:
            self._taken.add(text_of(action))
        observation, info = self._view(observation, info)
        return observation, float(reward), terminated, truncated, info

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
        if self.tokenizer is not None:
            return self._token_ids(self.tokenizer, observation), info
        if not self._first:
            self._set_first(observation)
        words = WORD.findall(observation.lower())
        text = self._text_hash.phrases(words)
        if not self.max_actions:
            return text, info
        actions = self._describe(words, info.get("admissible", ())[: self.max_actions])
        return np.concatenate([text, actions.ravel()]), info

    def _token_ids(self, tokenizer: Tokenizer, text: str) -> np.ndarray:
        ids = encode(tokenizer, text)[-self.size :]
        padding = getattr(tokenizer, "pad_token_id", None) or 0
        array = np.full(self.size, padding, dtype=np.int64)
        array[: len(ids)] = ids
        return array

    def _describe(self, words: Sequence[str], actions: Sequence[str]) -> np.ndarray:
        """Returns the features of the candidate actions, float32 (max_actions, 22)."""
        features = np.zeros((self.max_actions, CANDIDATE_FEATURES), dtype=np.float32)
        if not actions:
            return features
        facts = features[: len(actions)]
        split = [WORD.findall(action.lower()) for action in actions]
        arguments = [[w for w in action[1:] if w.isalnum()] or action for action in split]
        facts[:, 0] = 1
        for i, argument in enumerate(arguments):
            known = sum(word in self._first_words for word in argument)
            facts[i, 1] = known / max(len(argument), 1)
        facts[:, 2] = fits(regions(words, arguments), self._first_words)
        for column in (1, 2):
            best = facts[:, column].max()
            facts[:, column + 2] = (facts[:, column] == best) & (best > 0)
        facts[:, 5] = [action in self._taken for action in actions]
        for i, action in enumerate(split):
            facts[i, _FACTS:] = self._action_hash.vector(action)
        return features

    def _set_first(self, text: str) -> None:
        self._first = text
        self._first_words = frozenset(w for w in WORD.findall(text.lower()) if w.isalnum())

    def _begin(self) -> None:
        self._set_first("")
        self._taken = set()

    def _memory(self) -> dict[str, Any]:
        return {"first": self._first, "taken": sorted(self._taken)}

    def _remember(self, memory: dict[str, Any]) -> None:
        self._set_first(memory["first"])
        self._taken = set(memory["taken"])


def regions(words: Sequence[str], arguments: Sequence[Sequence[str]]) -> list[set[str]]:
    """Returns the set of words in the region of each action (see `EncodeObservation`).

    A region starts at the mention of the action: the last occurrence of its rarest word.

    Args:
        words: the words of the observation.
        arguments: the words of each action.
    """
    counts = Counter(words)
    place = {word: i for i, word in enumerate(words)}
    mentions = []
    for argument in arguments:
        found = [word for word in argument if word in counts]
        mentions.append(place[min(found, key=counts.__getitem__)] if found else None)
    starts = sorted({mention for mention in mentions if mention is not None})
    ends = dict(pairwise([*starts, len(words)]))
    return [
        set() if start is None else set(words[start : min(ends[start], start + _REGION)])
        for start in mentions
    ]


def fits(found: Sequence[set[str]], task: frozenset[str]) -> np.ndarray:
    """Returns the match of each region with the task, in [0, 1]: float32 (n,).

    A word of the task has the weight log((1 + n) / (1 + number of regions that contain it)).

    Args:
        found: the words of the n regions.
        task: the words of the task.
    """
    shared = [region & task for region in found]
    having = Counter(word for region in shared for word in region)
    weight = {word: math.log((1 + len(found)) / (1 + n)) for word, n in having.items()}
    total = sum(weight[word] for word in sorted(weight)) or 1.0
    sums = [sum(weight[word] for word in sorted(region)) / total for region in shared]
    return np.minimum(np.array(sums, dtype=np.float32), 1)
