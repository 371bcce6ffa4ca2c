"""`Prompts`: the tokens of a request, an extension of an earlier call wherever it is one.

A conversation that goes on behind one of our replies is the tokens of that call, its sampled tokens
and the text between, so nothing that was sampled is tokenised again. Any other conversation is
rendered by the chat template as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from agentgym.errors import ConfigError
from agentgym.tokens.tokenizer import decode, silent_tokens
from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.gateway import flat
from agentgym.trainers.gateway.messages import Answered, Chain, History, object_of
from agentgym.trainers.gateway.rendering import Guarded, Rendering
from agentgym.trainers.gateway.replies import THOUGHTS
from agentgym.trainers.gateway.template_probe import TemplateFacts, probe
from agentgym.trainers.gateway.wire import ChatRequest, Message, Refused, ToolCall
from agentgym.trainers.policy.action_format import ActionFormat
from agentgym.trainers.policy.chat_template import SlowTemplateError
from agentgym.trainers.policy.plain_text import PlainText
from agentgym.trainers.rollout.context import Context, ContextSettings

Keep = Literal["keep", "template", "echo"]
"""Earlier thoughts of the model. "keep": they stay in the prompt. "template": a new user message
renders the conversation anew if the template drops them. "echo": a reply that comes back without
them is an edited one."""
Relation = Literal["extends", "rendered", "root"]
_MARK = "the-reply-ends-here"
_TAIL = 16
"""Tokens at the end of a prompt that are searched for the beginning of a thought."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a request.

    Attributes:
        tokens: [P] token ids.
        chain: digest of the conversation.
        parent: number of the earlier call that it extends, or whose conversation is its beginning
            although it was rendered anew. None for the first call of a conversation.
        relation: "extends": its tokens start with those of the parent and its reply. "rendered":
            they need not. "root": there is no parent.
        thinking: whether the prompt ends with the beginning of a thought.
    """

    tokens: Tokens
    chain: bytes
    parent: int | None
    relation: Relation
    thinking: bool


class Prompts:
    """Builds the prompts of one model.

    Args:
        tokenizer: a `transformers` tokenizer.
        format: the delimiters of actions.
        template_kwargs: arguments of the chat template, such as `enable_thinking`.
        thoughts: whether earlier thoughts stay in prompts.

    Attributes:
        facts: what the chat template does with tools, None without a template.
        thoughts: as given.

    Raises:
        ConfigError: if the template cannot be used.
    """

    def __init__(
        self,
        tokenizer: Any,
        format: ActionFormat,
        template_kwargs: Mapping[str, Any] | None = None,
        thoughts: Keep = "keep",
    ):
        settings = ContextSettings(template_kwargs=dict(template_kwargs or {}))
        self.thoughts = thoughts
        self._tokenizer, self._format = tokenizer, format
        self._context = Context(settings, tokenizer, format)
        self._action = PlainText(tokenizer, "action")
        self._silent = silent_tokens(tokenizer, format.end_tokens)
        self._rendering: Rendering | None = None
        self.facts: TemplateFacts | None = None
        if getattr(tokenizer, "chat_template", None):
            self._rendering, self.facts = probe(tokenizer, settings.template_kwargs)
        names = tokenizer.convert_ids_to_tokens(sorted(format.end_tokens))
        self._ends = [name for name in names if name and not format.newline]
        self._ends_users = self._rendering is not None and self._has_ends(self._rendering)

    def _has_ends(self, rendering: Rendering) -> bool:
        """Whether the template ends the turns of users as it ends replies."""
        try:
            text = rendering.text([Message("user", _MARK)]).text
        except ConfigError:
            raise
        except Exception:  # a template raises whatever it likes
            return False
        return any(_MARK + end in text for end in self._ends)

    def history(self) -> History:
        """Returns the empty history of a session."""
        return History(exact_reasoning=self.thoughts == "echo")

    def prompt(self, request: ChatRequest, history: History) -> Prompt:
        """Returns the prompt of a request.

        Args:
            request: the request.
            history: the answered calls of its session.

        Raises:
            Refused: if the chat template cannot render the conversation, or takes too long.
        """
        try:
            return self._prompt(request, history)
        except SlowTemplateError as error:  # it was quick with the messages of the start
            raise Refused(
                400,
                "template_too_slow",
                "The model's chat template takes too long to render these messages: send fewer or "
                "shorter ones.",
                param="messages",
            ) from error

    def _prompt(self, request: ChatRequest, history: History) -> Prompt:
        chain = history.chain(request)
        parent = None if chain.parent is None else chain.echoes[chain.parent]
        tools = request.tools if request.tool_choice == "auto" else ()
        link = self._link(request, chain, tools)
        if parent is not None and link is not None:
            pieces = [parent.prompt, parent.tokens, link]
            tokens, relation = np.concatenate(pieces).astype(np.int32), "extends"
        else:
            tokens = self._render(request, chain, tools)
            relation = "root" if parent is None else "rendered"
        number = None if parent is None else parent.number
        return Prompt(tokens, chain.digest, number, relation, self._thinks(tokens))

    def _thinks(self, tokens: Tokens) -> bool:
        """Whether a prompt ends with the beginning of a thought."""
        tail = self._decode(tokens[-_TAIL:]).rstrip()
        return any(tail.endswith(opening) for opening, _ in THOUGHTS)

    def _decode(self, tokens: Sequence[int] | Tokens) -> str:
        return decode(self._tokenizer, tokens, self._silent)

    # Which way a conversation is written.

    def _is_flat(self, messages: Sequence[Message], tools: Sequence[Any]) -> bool:
        """Whether the chat template, if any, cannot write a conversation with tools."""
        if self.facts is None:
            return True
        uses = bool(tools) or any(m.role == "tool" or m.calls for m in messages)
        return uses and not self.facts.native

    @staticmethod
    def _is_plain(messages: Sequence[Message], tools: Sequence[Any]) -> bool:
        """Whether a conversation is one of observations and actions, alternately."""
        behind = messages[flat.leading(messages) :]
        roles = [message.role for message in behind]
        turns = ["user", "assistant"] * (len(roles) // 2) + ["user"]
        return roles == turns and not tools and not any(m.calls for m in messages)

    # An extension.

    def _link(self, request: ChatRequest, chain: Chain, tools: Sequence[Any]) -> Tokens | None:
        """Returns the tokens behind the parent's reply, or None if it cannot be extended."""
        if chain.parent is None:
            return None
        parent, messages = chain.echoes[chain.parent], request.messages
        tail = messages[chain.parent + 1 :]
        assert parent is not None
        mid = self.facts is None or self.facts.mid_system
        allowed = {"user", "tool", "system"} if mid else {"user", "tool"}
        if not tail or any(message.role not in allowed for message in tail):
            return None
        if self._drops_thoughts(chain, tail):
            return None
        whole = [*messages[: chain.parent + 1], *tail]
        if self._is_flat(whole, tools) or (self._is_plain(whole, tools) and len(tail) == 1):
            start = flat.instructions(messages, tools)
            return self._plain_link(start, parent, flat.observation(tail))
        return self._template_link(parent, tail, tools)

    def _drops_thoughts(self, chain: Chain, tail: Sequence[Message]) -> bool:
        """Whether the template would leave out thoughts that an extension keeps."""
        if self.thoughts != "template" or self.facts is None or self.facts.old_thoughts:
            return False
        new = any(message.role == "user" for message in tail)
        return new and any(echo is not None and echo.reply.reasoning for echo in chain.echoes)

    def _plain_link(self, instructions: str, parent: Answered, text: str) -> Tokens:
        """Returns the tokens around and of the next observation, as a rollout writes them."""
        conversation = self._context.begin(instructions)
        conversation.observe("")
        before = conversation.prompt(0)
        conversation.act(parent.tokens)
        conversation.observe(text)
        after = conversation.prompt(0)
        assert before is not None and after is not None, "there is no limit"
        return after[len(before) + len(parent.tokens) :]

    def _template_link(
        self, parent: Answered, tail: Sequence[Message], tools: Sequence[Any]
    ) -> Tokens | None:
        """Returns the tokens that the template writes behind a reply, from the end of its turn."""
        assert self._rendering is not None
        calls = parent.reply.calls
        for some in dict.fromkeys((calls, calls[:1])):  # some templates write one call only
            try:
                rendered = self._rendering.text(
                    [Message("user", "-"), _marked(parent, some), *tail], tools
                )
            except ConfigError:
                raise
            except Exception:  # a template raises whatever it likes
                continue
            found = self._behind_the_mark(rendered)
            if found is not None:
                link = self._rendering.tokens(found)
                ended = len(parent.tokens) > 0 and parent.tokens[-1] == link[0]
                return link[1:] if ended else link
        return None

    def _behind_the_mark(self, rendered: Guarded) -> Guarded | None:
        """Returns the text from the end of the marked turn on, or None if there is none."""
        at = rendered.text.find(_MARK)
        ends = [rendered.text.find(end, at) for end in self._ends] if at >= 0 else []
        found = [end for end in ends if end >= 0]
        return rendered.behind(min(found)) if found else None

    # A whole conversation.

    def _render(self, request: ChatRequest, chain: Chain, tools: Sequence[Any]) -> Tokens:
        """Returns the tokens of a whole conversation."""
        messages = request.messages
        if self._is_flat(messages, tools) or self._keeps_plain(messages, tools, chain):
            return self._turns(messages, chain.echoes, tools)
        try:
            return self._rendered(messages, chain.echoes, tools)
        except (ConfigError, Refused):
            raise
        except Exception as error:  # a template raises whatever it likes
            if not tools and not any(m.role == "tool" or m.calls for m in messages):
                return self._turns(messages, chain.echoes, tools)
            raise Refused(
                400,
                "template_error",
                f"The model's chat template cannot render these messages: {error!s:.300}. Change "
                "the order of their roles.",
                param="messages",
            ) from error

    def _keeps_plain(self, messages: Sequence[Message], tools: Sequence[Any], chain: Chain) -> bool:
        """Whether a conversation is written as a rollout writes it, with its thoughts."""
        thoughts = any(echo is not None and echo.reply.reasoning for echo in chain.echoes)
        return self._is_plain(messages, tools) and (self.thoughts == "keep" or not thoughts)

    def _turns(
        self,
        messages: Sequence[Message],
        echoes: Sequence[Answered | None],
        tools: Sequence[Any],
    ) -> Tokens:
        """Returns the tokens of a conversation as a rollout writes it."""
        start = flat.leading(messages)
        conversation = self._context.begin(flat.instructions(messages, tools))
        for exchange in flat.exchanges(messages[start:], echoes[start:]):
            conversation.observe(exchange.observation)
            if isinstance(exchange.reply, str):
                text = self._format.prefix + exchange.reply
                conversation.act([*self._action(text), self._format.end_token])
            elif exchange.reply is not None:
                conversation.act(exchange.reply.tokens)
        prompt = conversation.prompt(0)
        assert prompt is not None, "there is no limit"
        return prompt

    def _rendered(
        self,
        messages: Sequence[Message],
        echoes: Sequence[Answered | None],
        tools: Sequence[Any],
    ) -> Tokens:
        """Returns the tokens of a conversation as the template writes it."""
        assert self._rendering is not None and self.facts is not None
        behind = messages[flat.leading(messages) :]
        if not self.facts.mid_system and any(m.role == "system" for m in behind):
            raise Refused(
                400,
                "unsupported_message",
                "The model's chat template writes system messages at the start only: send later "
                "ones with the role user.",
                param="messages",
            )
        own = [
            _own(message, None if self.thoughts == "echo" else echo)
            for message, echo in zip(messages, echoes, strict=True)
        ]
        if not self.facts.several:
            own = flat.one_call_each(own)
        rendered = self._rendering.text(_with_system(own, self.facts.system), tools)
        return self._spliced(rendered, messages, echoes)

    def _spliced(
        self, rendered: Guarded, messages: Sequence[Message], echoes: Sequence[Answered | None]
    ) -> Tokens:
        """Returns the tokens of a rendered text, with those of its replies as they were sampled."""
        assert self._rendering is not None
        pieces: list[Tokens] = []
        rest, begin = rendered, 0
        for message, echo in zip(messages, echoes, strict=True):
            if echo is None:
                if self._ends_users and message.role == "user":  # it may end as the reply to it
                    text = self._rendering.guarded(message.text or "", rest.guard)
                    at = self._place(rest.text, begin, text, text.strip())
                    begin = begin if at is None else at[1]
                continue
            ended = len(echo.tokens) > 0 and int(echo.tokens[-1]) in self._format.end_tokens
            tokens = echo.tokens[:-1] if ended else echo.tokens
            at = self._place(rest.text, begin, self._decode(tokens))
            if at is None:
                continue
            start, stop = at
            before = replace(rest, text=rest.text[:start])
            pieces += [self._rendering.tokens(before), tokens]
            rest, begin = rest.behind(stop), 0
        return np.concatenate([*pieces, self._rendering.tokens(rest)]).astype(np.int32)

    def _place(self, text: str, begin: int, *turns: str) -> tuple[int, int] | None:
        """Returns where the first turn with one of some texts stands, None without one."""
        found = [
            (start, start + len(turn))
            for turn in turns
            if turn.strip()
            for end in self._ends
            if (start := text.find(turn + end, begin)) >= 0
        ]
        return min(found, default=None)


def _marked(parent: Answered, calls: Sequence[ToolCall]) -> Message:
    """Returns a reply with a mark near its end, in the arguments of its first call if it has any.

    Templates write the results of tools by the calls before them.
    """
    if not calls:
        return Message("assistant", _MARK)
    first = calls[0]
    marked = replace(first, arguments=f'{{"{_MARK}": "{_MARK}"}}')
    return Message("assistant", "", calls=(marked, *calls[1:]))


def _own(message: Message, echo: Answered | None) -> Message:
    """Returns a message for the template: our reply as it was, a foreign one with readable calls.

    Calls whose arguments are no JSON object, which templates cannot write, are text.
    """
    if echo is not None:
        reply = echo.reply
        message = Message("assistant", reply.text, reply.reasoning, reply.calls)
    unread = [call for call in message.calls if object_of(call.arguments) is None]
    if not unread:
        return message
    texts = [message.text or "", *(f"{call.name}({call.arguments})" for call in unread)]
    read = tuple(call for call in message.calls if call not in unread)
    return replace(message, text="\n".join(filter(None, texts)), calls=read)


def _with_system(messages: Sequence[Message], system: bool) -> list[Message]:
    """Returns a conversation with one system message, in the user's if the template has none."""
    start = flat.leading(messages)
    text = flat.instructions(messages, ())
    rest = list(messages[start:])
    if not text:
        return rest
    if system or not rest:
        return [Message("system", text), *rest]
    return [replace(rest[0], text=f"{text}\n\n{rest[0].text or ''}"), *rest[1:]]
