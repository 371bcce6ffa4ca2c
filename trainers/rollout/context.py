"""What the model reads: from instructions, observations and earlier actions to a prompt of tokens.

A prompt is a concatenation of pieces, each tokenised once: an opening (the instructions), then in
turn observations and the ids of the actions *exactly as they were generated*. Nothing the model
said is ever tokenised again, so log-probabilities refer to what was really read and said.

With a chat template in the tokenizer, the pieces between the texts are cut out of the template;
without one they are blank lines and a `> ` before every action, like a session in a terminal.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import ConfigError

Tokens = NDArray[np.int32]
Mode = Literal["full", "window", "actions", "current"]
TEMPLATE_SECONDS = 10.0
"""Longest time that a chat template may take to render."""
_OBSERVATION, _ACTION = "[[the observation]]", "[[the action]]"


@dataclass(frozen=True)
class ContextSettings:
    """How much of an episode the model reads.

    Attributes:
        mode: "full": everything since the start; "window": the last `window` turns and the current
            observation; "actions": all earlier actions, but only the current observation (what was
            seen before is shown as "..."); "current": the current observation alone.
        window: earlier turns kept in mode "window".
        instructions: whether the environment's instructions open the prompt.
        max_tokens: length limit of prompt plus action; None: the model's own. In mode "full" an
            episode that reaches it is truncated; in the others the oldest turns are left out.
            A single observation that does not fit is cut at its end.
    """

    mode: Mode = "full"
    window: int = 3
    instructions: bool = True
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            known = ", ".join(get_args(Mode))
            raise ConfigError(f"context must be one of {known}; got {self.mode!r}.")
        if self.window < 0:
            raise ConfigError(f"window must be at least 0, got {self.window}.")
        if self.max_tokens is not None and self.max_tokens < 8:
            raise ConfigError(f"max_tokens must be None or at least 8, got {self.max_tokens}.")


class Context:
    """Builds the prompts of one model.

    Args:
        settings: how much of an episode is read.
        tokenizer: a tokenizer of `transformers`.
        end_token: the token that ends an action.
        model_max_tokens: the model's own limit of tokens; None: there is none.
    """

    def __init__(
        self,
        settings: ContextSettings,
        tokenizer: Any,
        *,
        end_token: int,
        model_max_tokens: int | None = None,
    ):
        limits = [n for n in (settings.max_tokens, model_max_tokens) if n is not None]
        self.settings = settings
        self.end_token = end_token
        self.limit = min(limits) if limits else None
        self._tokenizer = tokenizer
        self._opening = lru_cache(maxsize=None)(self._make_opening)
        self.observation_tokens = lru_cache(maxsize=1 << 14)(self._encode_text)
        self.omitted = self.observation_tokens("...")

    @property
    def repeats(self) -> bool:
        """Whether prompts begin alike, so that a `PrefixCache` saves work."""
        return self.settings.mode == "full" or self.settings.instructions

    @property
    def window(self) -> int | None:
        """How many earlier turns are read at most; None: all, or the episode ends."""
        windows = {"full": None, "window": self.settings.window, "actions": 10**9, "current": 0}
        return windows[self.settings.mode]

    def begin(self, instructions: str) -> Conversation:
        """Returns the conversation of a new episode."""
        return Conversation(
            self, *self._opening(instructions if self.settings.instructions else "")
        )

    def _make_opening(self, instructions: str) -> tuple[Tokens, Tokens, Tokens]:
        """Tokens before the first observation, after any, and between an action and the next."""
        if getattr(self._tokenizer, "chat_template", None):
            with _time_limit(TEMPLATE_SECONDS):
                opening, after, between = _template_pieces(self._tokenizer, instructions)
            return self._encode(opening), self._encode(after), self._with_end(between)
        opening = self._encode(f"{instructions}\n\n" if instructions else "")
        if _adds_bos(self._tokenizer):
            opening = np.insert(opening, 0, self._tokenizer.bos_token_id)
        return opening, self._encode("\n> "), self._with_end("\n")

    def _with_end(self, text: str) -> Tokens:
        tokens = self._encode(text)
        if len(tokens) and tokens[0] == self.end_token:
            return tokens
        return np.insert(tokens, 0, self.end_token)

    def _encode(self, text: str) -> Tokens:
        return np.array(self._tokenizer(text, add_special_tokens=False)["input_ids"], np.int32)

    def _encode_text(self, text: str) -> Tokens:
        # What an environment says must not be able to forge the end of a turn.
        ids = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        tokens = np.array(ids["input_ids"], np.int32)
        tokens.setflags(write=False)
        return tokens


class Conversation:
    """One episode as the model reads it.

    Attributes:
        left_out: whether earlier turns were left out because of the length limit.
        cut: whether an observation had to be cut because of the length limit.
    """

    def __init__(self, context: Context, opening: Tokens, after: Tokens, between: Tokens):
        self._context = context
        self._opening, self._after, self._between = opening, after, between
        self._observations: list[Tokens] = []
        self._actions: list[Tokens] = []
        self.left_out = False
        self.cut = False

    def observe(self, text: str) -> None:
        """Adds an observation."""
        assert len(self._observations) == len(self._actions), "an action comes first"
        self._observations.append(self._context.observation_tokens(text))

    def act(self, tokens: Sequence[int] | Tokens) -> None:
        """Adds the tokens of the action that followed the last observation."""
        assert len(self._observations) == len(self._actions) + 1, "an observation comes first"
        self._actions.append(np.asarray(tokens, np.int32))

    def prompt(self, room: int) -> Tokens | None:
        """Returns the prompt for the current observation.

        Args:
            room: tokens to keep free for the action; 0: no action follows, and the prompt is made
                to fit in any case.

        Returns:
            [P] token ids; None if the whole history is to be read and does not fit.

        Raises:
            ConfigError: if not even the instructions fit.
        """
        limit = None if self._context.limit is None else self._context.limit - room
        window = self._context.window
        turn = len(self._observations) - 1
        first = 0 if window is None else max(0, turn - window)
        prompt = self._render(first)
        while limit is not None and len(prompt) > limit and window is not None and first < turn:
            first += 1
            self.left_out = True
            prompt = self._render(first)
        if limit is None or len(prompt) <= limit:
            return prompt
        if first < turn and room:
            return None
        return self._cut(prompt, limit, first)

    def _cut(self, prompt: Tokens, limit: int, first: int) -> Tokens:
        """Shortens the current observation so that the prompt fits; it stays short for good."""
        self.cut = True
        room = len(self._observations[-1]) - (len(prompt) - limit)
        if room < 0 and first == len(self._observations) - 1:
            raise ConfigError(
                f"The context leaves {limit} tokens for a prompt, and the instructions alone take "
                f"more. Raise max_tokens, lower max_new_tokens, or leave the instructions out "
                f"(instructions=False)."
            )
        self._observations[-1] = self._observations[-1][: max(0, room)]
        return self._render(first)[:limit]

    def _render(self, first: int) -> Tokens:
        pieces = [self._opening]
        last = len(self._observations) - 1
        omit = self._context.settings.mode == "actions"
        for turn in range(first, last + 1):
            if turn > first:
                pieces += [self._actions[turn - 1], self._link(self._actions[turn - 1])]
            omitted = omit and turn < last
            pieces += [self._context.omitted if omitted else self._observations[turn], self._after]
        return np.concatenate(pieces)

    def _link(self, action: Tokens) -> Tokens:
        """What stands between an action and the next observation."""
        ended = len(action) > 0 and action[-1] == self._context.end_token
        return self._between[1:] if ended else self._between


class _TooSlow(BaseException):
    """The time limit; no `except Exception` catches it."""


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Ends the rendering of a chat template, a program of the model folder, after some seconds.

    Only the main thread can be interrupted, on systems with `SIGALRM`.

    Raises:
        ConfigError: if the limit is reached.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    except _TooSlow:
        raise ConfigError(
            f"The tokenizer's chat template takes more than {seconds:g} s to render: it is damaged "
            "or hostile."
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _adds_bos(tokenizer: Any) -> bool:
    bos = tokenizer.bos_token_id
    return bos is not None and bos in tokenizer("")["input_ids"]


def _template_pieces(tokenizer: Any, instructions: str) -> tuple[str, str, str]:
    """Cuts the texts around observations and actions out of a chat template."""
    try:
        system = [{"role": "system", "content": instructions}] if instructions else []
        return _cut_template(tokenizer, system, "")
    except Exception:  # templates raise what they like where they know no system role
        return _cut_template(tokenizer, [], f"{instructions}\n\n" if instructions else "")


def _cut_template(tokenizer: Any, system: list[dict[str, str]], lead: str) -> tuple[str, str, str]:
    user = {"role": "user", "content": lead + _OBSERVATION}
    assistant = {"role": "assistant", "content": _ACTION}
    again = {"role": "user", "content": _OBSERVATION}

    def render(messages: list[dict[str, str]]) -> str:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    opening, _, after = render([*system, user]).partition(_OBSERVATION)
    rest = render([*system, user, assistant, again]).partition(_ACTION)[2]
    between, found, _ = rest.partition(_OBSERVATION)
    if not found:
        raise ConfigError("The tokenizer's chat template does not show user and assistant turns.")
    return opening, after, between
