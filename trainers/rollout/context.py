"""Prompt construction: from instructions, observations and earlier actions to prompt tokens.

A prompt is a concatenation of pieces, each tokenised once: an opening (the instructions), followed
by observations and the ids of the actions *exactly as they were generated*, alternately. Generated
actions are never re-tokenised, so log-probabilities refer to the tokens that were fed and sampled.

If the tokenizer has a chat template, the text between the pieces is extracted from the template.
Otherwise, every action follows a line break and `> `, as in a terminal session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.policy.action_format import ActionFormat
from agentgym.trainers.policy.chat_template import (
    RESERVED,
    Pieces,
    check_arguments,
    template_pieces,
)
from agentgym.trainers.policy.joined_text import TextJoiner, marks_words
from agentgym.trainers.policy.plain_text import PlainText
from agentgym.utils.printable import encodable
from agentgym.utils.recent import Recent, text_size

if TYPE_CHECKING:
    from agentgym.trainers.policy.ensemble import Ensemble
    from agentgym.trainers.policy.policy import Policy

MEMO = 64 << 20
"""Bytes of observations, and of instructions, whose tokens are cached."""
Mode = Literal["full", "window", "actions", "current"]
AtLimit = Literal["truncate", "terminate"]
"""End of an episode at a limit: truncated, and its last value is bootstrapped, or terminal, and the
value after it is 0."""


@dataclass(frozen=True)
class ContextSettings:
    """Settings of the prompt context.

    Attributes:
        mode: part of the episode in the prompt. "full": all turns. "window": the last `window`
            turns and the current observation. "actions": all earlier actions, but only the current
            observation (earlier ones are shown as "..."). "current": the current observation only.
        window: number of earlier turns in mode "window".
        instructions: whether the prompt starts with the environment's instructions.
        max_tokens: maximum length of prompt plus action in tokens. If None, the model's maximum. In
            mode "full", an episode that exceeds it ends. In the other modes, the oldest turns are
            left out. A single observation that does not fit is cut at its end.
        template_kwargs: arguments of the chat template, such as `enable_thinking`.
        overflow: the end of an episode that exceeds `max_tokens` in a rollout.
        turn_limit: the end of an episode at its turn limit in a rollout.

    Raises:
        ConfigError: if the mode is unknown, a number is out of range, or an argument of the chat
            template is one that is set here.
    """

    mode: Mode = "full"
    window: int = 3
    instructions: bool = True
    max_tokens: int | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    overflow: AtLimit = "truncate"
    turn_limit: AtLimit = "truncate"

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            known = ", ".join(get_args(Mode))
            raise ConfigError(f"context must be one of {known}, got {self.mode!r}.")
        if self.window < 0:
            raise ConfigError(f"window must be at least 0, got {self.window}.")
        if self.max_tokens is not None and self.max_tokens < 8:
            raise ConfigError(f"max_tokens must be None or at least 8, got {self.max_tokens}.")
        if taken := RESERVED & set(self.template_kwargs):
            raise ConfigError(f"template_kwargs cannot set {', '.join(sorted(taken))}.")


class Context:
    """Builds the prompts of one model.

    Args:
        settings: settings of the prompt context.
        tokenizer: a `transformers` tokenizer.
        format: the delimiters of actions.
        model_max_tokens: the model's maximum sequence length in tokens, or None if unlimited.

    Raises:
        ConfigError: if there are `template_kwargs` but the tokenizer has no chat template, or its
            template never reads one of them.
    """

    def __init__(
        self,
        settings: ContextSettings,
        tokenizer: Any,
        format: ActionFormat,
        *,
        model_max_tokens: int | None = None,
    ):
        limits = [n for n in (settings.max_tokens, model_max_tokens) if n is not None]
        self.settings = settings
        self._format = format
        self.limit = min(limits) if limits else None
        self._tokenizer = tokenizer
        self._chat = bool(getattr(tokenizer, "chat_template", None))
        if settings.template_kwargs and not self._chat:
            raise ConfigError(
                f"template_kwargs {dict(settings.template_kwargs)} have no effect: the tokenizer "
                "has no chat template."
            )
        check_arguments(tokenizer, settings.template_kwargs)
        self._marks = marks_words(tokenizer)
        self._plain = PlainText(tokenizer, "observation")
        self._openings: Recent[tuple[Tokens, Tokens, Tokens]] = Recent(MEMO)
        self._observations: Recent[Tokens] = Recent(MEMO)
        self._joiners: Recent[TextJoiner] = Recent(MEMO)
        self._joined: Recent[tuple[Tokens | None]] = Recent(MEMO)

    @property
    def omitted(self) -> Tokens:
        """The tokens in place of an observation that is left out."""
        return self.observation_tokens("...")

    def session(self, policy: Policy | Ensemble) -> Any:
        """Returns an empty session of a policy for these prompts."""
        alike = self.settings.mode == "full" or self.settings.instructions
        return policy.session(by_slot=alike, recurring=self.window == 0)

    @property
    def window(self) -> int | None:
        """Maximum number of earlier turns in the prompt. None: all, or the episode is truncated."""
        windows = {"full": None, "window": self.settings.window, "actions": 10**9, "current": 0}
        return windows[self.settings.mode]

    def begin(self, instructions: str) -> Conversation:
        """Returns the empty conversation of a new episode."""
        text = instructions if self.settings.instructions else ""
        pieces = self._opening(text)
        if not self._marks:
            return Conversation(self, *pieces)
        joiner = self._joiner(text)
        opening = self._encode(joiner.opening.head)
        if not self._chat and _adds_bos(self._tokenizer):
            opening = np.insert(opening, 0, self._tokenizer.bos_token_id)
        heads = opening, self._with_end(joiner.between.head)
        return JoinedConversation(self, pieces, joiner, heads)

    def _opening(self, instructions: str) -> tuple[Tokens, Tokens, Tokens]:
        found = self._openings.get(instructions)
        if found is None:
            found = self._make_opening(instructions)
            size = sum(piece.nbytes for piece in found)
            self._openings.put(instructions, found, text_size([instructions], 0) + size)
        return found

    def observation_tokens(self, text: str) -> Tokens:
        """Returns the tokens of an observation, read-only."""
        found = self._observations.get(text)
        if found is None:
            found = self._encode_text(text)
            self._observations.put(text, found, text_size([text], 0) + found.nbytes)
        return found

    def check_room(self, instructions: str, action: int) -> int:
        """Returns the number of tokens of a prompt with an empty observation.

        Raises:
            ConfigError: if it and an action of so many tokens do not fit.
        """
        conversation = self.begin(instructions)
        conversation.observe("")
        prompt = conversation.prompt(action)
        return 0 if prompt is None else len(prompt)

    def _joiner(self, instructions: str) -> TextJoiner:
        """Returns the encoder of observations for a tokenizer that marks the start of words."""
        found = self._joiners.get(instructions)
        if found is None:
            found = self._make_joiner(instructions)
            self._joiners.put(instructions, found, text_size([instructions], 0) * 3)  # the texts
        return found

    def _make_joiner(self, instructions: str) -> TextJoiner:
        tokenizer, newline = self._tokenizer, self._format.newline
        if self._chat:
            pieces = template_pieces(tokenizer, instructions, self.settings.template_kwargs)
            start = ""
        else:
            opening = f"{instructions}\n\n" if instructions else ""
            pieces = Pieces(opening, self._format.prompt, "" if newline else "\n")
            start = tokenizer.bos_token if _adds_bos(tokenizer) else ""
        end = "\n" if newline else tokenizer.convert_ids_to_tokens(self._format.end_token)
        return TextJoiner(tokenizer, self._plain, pieces, start, end, self._joined)

    def _make_opening(self, instructions: str) -> tuple[Tokens, Tokens, Tokens]:
        """Returns tokens before the first observation, after each, and between action and next."""
        if self._chat:
            kwargs = self.settings.template_kwargs
            opening, after, between = template_pieces(self._tokenizer, instructions, kwargs)
            tokens = self._encode_opening(opening, instructions)
            return tokens, self._encode(after), self._with_end(between)
        text = f"{instructions}\n\n" if instructions else ""
        opening = self._encode_opening(text, instructions)
        if _adds_bos(self._tokenizer):
            opening = np.insert(opening, 0, self._tokenizer.bos_token_id)
        between = self._with_end("" if self._format.newline else "\n")
        return opening, self._encode(self._format.prompt), between

    def _with_end(self, text: str) -> Tokens:
        tokens = self._encode(text)
        if len(tokens) and tokens[0] == self._format.end_token:
            return tokens
        return np.insert(tokens, 0, self._format.end_token)

    def closes(self, token: int) -> bool:
        """Returns whether an action that ends with a token is complete without the end token."""
        if token == self._format.end_token:
            return True
        return self._format.newline and "\n" in self._tokenizer.decode([token])

    def _encode(self, text: str) -> Tokens:
        ids = self._tokenizer(encodable(text), add_special_tokens=False)
        return np.array(ids["input_ids"], np.int32)

    def line(self, observation: str) -> str:
        """Returns an observation with the line break that its tokens end with, if any."""
        return observation + ("\n" if self._format.newline else "")

    def shorten(self, observation: Tokens, room: int) -> Tokens:
        """Returns the first `room` tokens of an observation. Its line break stays."""
        kept = observation[: max(0, room)].copy()
        if self._format.newline:
            kept[-1:] = observation[-1:]
        return kept

    def _encode_opening(self, opening: str, instructions: str) -> Tokens:
        """Returns the tokens of an opening, with the instructions in it as plain text."""
        plain, text = PlainText(self._tokenizer, "instructions"), instructions.strip()
        if text not in opening or not plain.contains_control(text):
            return self._encode(opening)
        before, _, after = opening.partition(text)
        pieces = [self._encode(before), plain(text), self._encode(after)]
        return np.concatenate(pieces).astype(np.int32)

    def _encode_text(self, text: str) -> Tokens:
        # An observation must not be able to end a turn.
        tokens = np.array(self._plain(text + ("\n" if self._format.newline else "")), np.int32)
        tokens.setflags(write=False)
        return tokens


class Conversation:
    """The prompt context of one episode.

    Attributes:
        left_out: whether earlier turns were left out because of the length limit.
        cut: whether an observation was cut because of the length limit.
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
            room: number of tokens to keep free for the action. 0 means that no action follows, and
                the prompt is shortened to fit in any mode.

        Returns:
            [P] token ids, or None if the mode is "full" and the history does not fit.

        Raises:
            ConfigError: if the instructions alone do not fit.
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
        return self._cut(prompt, limit, first, room)

    def _cut(self, prompt: Tokens, limit: int, first: int, action: int) -> Tokens:
        """Cuts the current observation permanently, so that the prompt fits beside the action."""
        self.cut = True
        fixed = len(prompt) - len(self._observations[-1])
        room = limit - fixed
        if room < 0 and first == len(self._observations) - 1:
            raise ConfigError(
                f"The context has {limit + action} tokens, too few for the instructions ({fixed} "
                f"tokens) and an action of up to {action} tokens. Raise max_tokens above "
                f"{fixed + action}, lower max_new_tokens, or leave the instructions out "
                "(--no-instructions)."
            )
        self._observations[-1] = self._context.shorten(self._observations[-1], room)
        return self._render(first)[:limit]

    def _render(self, first: int) -> Tokens:
        pieces: list[Tokens] = []
        last = len(self._observations) - 1
        omit = self._context.settings.mode == "actions"
        for turn in range(first, last + 1):
            if turn > first:
                pieces.append(self._actions[turn - 1])
            pieces += self._piece(turn, first, omit and turn < last)
        return np.concatenate(pieces)

    def _piece(self, turn: int, first: int, omitted: bool) -> list[Tokens]:
        """Returns the tokens of an observation and of the texts before and after it."""
        before = self._opening
        if turn > first:
            before = self._link(self._actions[turn - 1], self._between)
        own = self._context.omitted if omitted else self._observations[turn]
        return [before, own, self._after]

    def _link(self, action: Tokens, between: Tokens) -> Tokens:
        """Returns the tokens between an action and the next observation."""
        ended = len(action) > 0 and self._context.closes(int(action[-1]))
        return between[1:] if ended else between


class JoinedConversation(Conversation):
    """The prompt context of one episode, with observations joined to the texts around them.

    Token ids are those of `apply_chat_template(tokenize=True)`, and a prompt is still a
    continuation of the one before. An observation with control tokens is encoded alone as plain
    text, and so is one that was cut.

    Args:
        context: the prompt builder.
        pieces: tokens before the first observation, after each, and between action and next.
        joiner: encodes observations.
        heads: tokens of the first and the last of these pieces up to their last special tokens.
    """

    def __init__(
        self,
        context: Context,
        pieces: tuple[Tokens, Tokens, Tokens],
        joiner: TextJoiner,
        heads: tuple[Tokens, Tokens],
    ):
        super().__init__(context, *pieces)
        self._joiner, self._heads = joiner, heads
        self._texts: list[str | None] = []

    def observe(self, text: str) -> None:
        """Adds an observation."""
        super().observe(text)
        self._texts.append(self._context.line(text))

    def _cut(self, prompt: Tokens, limit: int, first: int, action: int) -> Tokens:
        self._texts[-1] = None
        return super()._cut(self._render(first), limit, first, action)

    def _piece(self, turn: int, first: int, omitted: bool) -> list[Tokens]:
        text, later = self._context.line("...") if omitted else self._texts[turn], turn > first
        before = self._joiner.between if later else self._joiner.opening
        joined = None if text is None else self._joiner.tokens(before, text)
        if joined is None:
            return super()._piece(turn, first, omitted)
        head = self._heads[later]
        return [self._link(self._actions[turn - 1], head) if later else head, joined]


def _adds_bos(tokenizer: Any) -> bool:
    bos = tokenizer.bos_token_id
    return bos is not None and bos in tokenizer("")["input_ids"]
