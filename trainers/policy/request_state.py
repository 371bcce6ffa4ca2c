"""`Row`: a request in progress, from its prompt to the finished action."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.sampling import Request, Sample, Sampling, Tokens
from agentgym.trainers.policy.support import support_of


class Ending:
    """The end of a free-form action.

    Args:
        model: the language model.
        stop: strings that end an action, besides those of the model's format.

    Attributes:
        strings: all strings that end an action.
    """

    def __init__(self, model: LanguageModel, stop: Sequence[str] = ()):
        self._model = model
        self.strings = (*model.format.stop, *stop)
        # A token adds at least one byte. One token more, because the space before the first token
        # of a text may be dropped.
        self._tail = 1 + max((len(text.encode()) for text in self.strings), default=0)

    def reached(self, tokens: Sequence[int]) -> bool:
        """Returns whether the last token completes the action."""
        if tokens[-1] in self._model.format.end_tokens:
            return True
        if not self.strings:
            return False
        tail = self._model.decode(tokens[-self._tail :])
        return any(text in tail for text in self.strings)

    def text(self, tokens: Sequence[int]) -> str:
        """Returns the action of generated tokens, without the end token or from the stop string."""
        ended = tokens[-1] in self._model.format.end_tokens
        text = self._model.decode(tokens[:-1] if ended else tokens)
        for string in self.strings:
            text = text.partition(string)[0]
        return text.removeprefix(self._model.format.prefix)


class Row:
    """A request in progress.

    Attributes:
        pending: tokens that are not fed to the model yet.
        read: number of tokens fed to the model or found in the cache.
        trie: the candidates, if there are any.
        spelling: the action so far, if its grammar restricts it.
        uniform_ratio: log-probability of the tokens so far under a uniform choice of the candidate,
            minus the policy's, if the sampling explores.
    """

    def __init__(self, request: Request, model: LanguageModel, sampling: Sampling):
        if len(request.prompt) == 0:
            raise ValueError("A prompt needs at least one token, got an empty one.")
        if request.candidates is not None and len(request.candidates) == 0:
            raise ValueError("candidates is empty. Pass None for a free-form action.")
        if request.max_new_tokens is not None and request.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {request.max_new_tokens}.")
        model.check_ids(request.prompt)
        self.request, self._model = request, model
        self.trie, self.spelling, draws = None, None, sampling.max_new_tokens
        self.limit = min(draws, request.max_new_tokens or draws)
        if request.candidates is None and request.grammar is not None:
            self.spelling = model.grammars.begin(request.grammar)
        if request.candidates is not None:
            self.trie, self.limit = model.trie(request.candidates)
            draws = self.limit
        if model.max_length is not None and len(request.prompt) + self.limit > model.max_length:
            raise ValueError(
                f"A prompt of {len(request.prompt)} tokens and an action of up to {self.limit} "
                f"tokens exceed the model's maximum length of {model.max_length} tokens. Shorten "
                "the context (for example with a window of turns) or lower max_new_tokens."
            )
        self.ending = Ending(model, (*sampling.stop, *request.stop))
        self.uniforms = request.rng.random(draws)
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.allowed: list[Sequence[int]] = []
        self.versions: list[int | None] = []
        self.node = 0
        self.done = False
        self.forced = 0
        self.uniform_ratio = 0.0
        self._force()
        self.restart()

    def restart(self) -> None:
        """Makes all tokens pending: at the start, and when the weights have changed."""
        self.pending, self.read = self.sequence, 0

    @property
    def sequence(self) -> Tokens:
        """The prompt and the tokens so far."""
        return np.concatenate([self.request.prompt, self.tokens]).astype(np.int32)

    def skip(self, cached: int) -> None:
        """Skips the first pending tokens, which are cached."""
        self.read, self.pending = self.read + cached, self.pending[cached:]

    def feed(self, width: int) -> Tokens:
        """Returns up to `width` pending tokens and marks them as fed."""
        tokens, self.pending = self.pending[:width], self.pending[width:]
        self.read += len(tokens)
        return tokens

    def add(self, token: int, logprob: float, allowed: Sequence[int]) -> None:
        """Appends a sampled token and the forced tokens that follow it."""
        before = len(self.tokens)
        self._append(token, logprob, allowed)
        if self.trie is None and self.spelling is None:
            self.done = len(self.tokens) == self.limit or self.ending.reached(self.tokens)
        else:
            self._force()
        self.done |= self.request.cancelled
        self.pending = np.array(self.tokens[before:], np.int32)

    def _append(self, token: int, logprob: float, allowed: Sequence[int]) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.allowed.append(allowed)
        self.versions.append(self._model.version)
        if self.trie is not None:
            self.node = self.trie.step(self.node, token)
        if self.spelling is not None:
            self.spelling.step(token)

    def _force(self) -> None:
        """Appends forced tokens, as long as there is a single legal continuation."""
        if self.spelling is not None:
            while len(self.tokens) < self.limit and (only := self.spelling.only) is not None:
                self._append(only, 0.0, (only,))
                self.forced += 1
            self.done = len(self.tokens) == self.limit or self.spelling.closed
            return
        if self.trie is None:
            return
        while len(only := self.trie.children(self.node)) == 1:
            self._append(only[0], 0.0, only)
            self.forced += 1
        self.done = not only

    def sample(self, restricted: bool) -> Sample:
        """Returns the finished action."""
        support = None
        if restricted or self.trie is not None or self.spelling is not None:
            support = support_of(self.allowed)
        if self.spelling is not None:
            finished = self.spelling.closed
            text = self._model.decode(self.tokens[:-1] if finished else self.tokens)
            text = text.removeprefix(self._model.format.prefix)
        elif self.trie is None:
            finished, text = self.ending.reached(self.tokens), self.ending.text(self.tokens)
        else:
            assert self.request.candidates is not None
            index = self.trie.leaf(self.node)
            finished = index is not None  # else it was cancelled
            text = (
                self._model.decode(self.tokens) if index is None else self.request.candidates[index]
            )
        changed = len(set(self.versions)) > 1 and None not in self.versions
        return Sample(
            tokens=np.array(self.tokens, np.int32),
            logprobs=np.array(self.logprobs, np.float32),
            support=support,
            text=text,
            finished=finished,
            version=self.versions[-1],
            token_versions=np.array(self.versions, np.int32) if changed else None,
        )
