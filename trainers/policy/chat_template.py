"""Chat templates: the texts that a template writes around observations and actions."""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple, TypeVar

from jinja2 import TemplateError, meta, nodes
from jinja2.defaults import DEFAULT_NAMESPACE
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agentgym.errors import ConfigError

T = TypeVar("T")
TEMPLATE_SECONDS = 10.0
"""Longest time that a chat template may take to render."""
DAY = date(2025, 1, 1)
"""The day that templates write which write the current one: a run has the same prompts any day."""
_CLOCK = (
    "{% macro strftime_now(format) %}{{ format"
    + "".join(f"|replace('%{c}', '{DAY:%{c}}')" for c in "aAbBdejmyYHIMSp")
    + " }}{% endmacro %}"
)
"""A macro in place of the function with which templates write the time."""
RESERVED = frozenset(
    "conversation messages tokenize add_generation_prompt continue_final_message return_dict "
    "return_tensors chat_template padding truncation max_length".split()
)
"""Arguments of `apply_chat_template` that are no arguments of the template."""
_FUNCTIONS = frozenset(["raise_exception", "strftime_now", *DEFAULT_NAMESPACE])
"""Functions that every chat template can call."""
_GENERATION = re.compile(r"\{%[-+]?\s*(end)?generation\s*[-+]?%\}")
"""Tags of `transformers` that jinja2 alone does not know."""
_OBSERVATION, _ACTION = "[[the observation]]", "[[the action]]"


class Pieces(NamedTuple):
    """The texts of a chat template around observations and actions.

    Attributes:
        opening: text before the first observation, with the instructions.
        after: text between an observation and the action that follows. It ends with the header of
            the reply if the template writes one that prompts leave to the model, as the final
            channel of Harmony (gpt-oss).
        between: text between an action and the next observation, from the end of the turn.
    """

    opening: str
    after: str
    between: str


def template_pieces(
    tokenizer: Any, instructions: str = "", kwargs: Mapping[str, Any] | None = None
) -> Pieces:
    """Returns the texts that the tokenizer's chat template writes.

    The instructions are the system message. If the template has no system role, or writes it before
    the last user message only, they are the beginning of the first user message. A template that
    writes the current day writes `DAY`.

    Args:
        tokenizer: a `transformers` tokenizer with a chat template.
        instructions: the environment's instructions, "" for none.
        kwargs: further arguments of the template, such as `enable_thinking`.

    Raises:
        ConfigError: if the template takes too long, raises an exception, or does not render the
            turns of user and assistant.
    """
    return within(TEMPLATE_SECONDS, lambda: _pieces(tokenizer, instructions, kwargs or {}))


def _pieces(tokenizer: Any, instructions: str, kwargs: Mapping[str, Any]) -> Pieces:
    if text := instructions.strip():
        system = [{"role": "system", "content": instructions}]
        # Templates without a system role raise any exception, or leave the message out.
        with contextlib.suppress(Exception):
            pieces = _cut(tokenizer, system, "", kwargs)
            if text in pieces.opening and text not in pieces.between:
                return pieces
    try:
        return _cut(tokenizer, [], f"{instructions}\n\n" if instructions else "", kwargs)
    except Exception as error:
        raise ConfigError(f"The tokenizer's chat template cannot be used: {error}") from error


def check_arguments(tokenizer: Any, kwargs: Mapping[str, Any]) -> None:
    """Checks that the tokenizer's chat template reads its further arguments.

    Warns if the template cannot be examined.

    Args:
        tokenizer: a `transformers` tokenizer with a chat template.
        kwargs: further arguments of the template.

    Raises:
        ConfigError: if the template never reads one of them.
    """
    if not kwargs:
        return
    template = within(TEMPLATE_SECONDS, lambda: _parsed(tokenizer, kwargs))
    if template is None:
        warnings.warn(
            f"Whether the tokenizer's chat template reads {', '.join(sorted(kwargs))} cannot "
            "be checked: compare a prompt with and without.",
            stacklevel=2,
        )
        return
    unread = kwargs.keys() - meta.find_undeclared_variables(template)
    known = _arguments(template) - set(getattr(tokenizer, "special_tokens_map", ()))
    if unread:
        raise ConfigError(
            f"template_kwargs got {', '.join(sorted(unread))}, which the tokenizer's chat template "
            f"never reads. It reads {', '.join(sorted(known)) or 'no arguments'}: correct the name "
            "or leave it out."
        )


def _text(tokenizer: Any, kwargs: Mapping[str, Any]) -> str:
    """Returns the chat template, the one for tools if there are several and tools are given.

    Tokenizers that render conversations without a template (mistral-common) have none: "".
    """
    try:
        return tokenizer.get_chat_template(tools=kwargs.get("tools"))
    except (AttributeError, NotImplementedError):
        return ""


def _parsed(tokenizer: Any, kwargs: Mapping[str, Any]) -> nodes.Template | None:
    """Returns the chat template, or None if it cannot be examined."""
    try:
        text = _GENERATION.sub("", _text(tokenizer, kwargs))
        if not text:
            return None
        environment = ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols"])
        return environment.parse(text)
    except (AttributeError, TypeError, ValueError, RecursionError, TemplateError):
        return None


def _arguments(template: nodes.Template) -> set[str]:
    """Returns the names of a chat template's arguments.

    A name that it assigns is an argument if the template looks whether it has a value.
    """
    assigned = {name.name for name in template.find_all(nodes.Name) if name.ctx == "store"}
    looked_at = {
        test.node.name
        for test in template.find_all((nodes.Test, nodes.Filter))
        if isinstance(test.node, nodes.Name) and test.name in ("defined", "undefined", "default")
    }
    return meta.find_undeclared_variables(template) - (assigned - looked_at) - RESERVED - _FUNCTIONS


def render(tokenizer: Any, messages: Sequence[Mapping[str, Any]], kwargs: Mapping[str, Any]) -> str:
    """Returns a conversation as the chat template writes it, up to the header of the next reply.

    A template that writes the current day writes `DAY`.

    Args:
        tokenizer: a `transformers` tokenizer with a chat template.
        messages: the conversation in the form of `apply_chat_template`.
        kwargs: further arguments of the template, `tools` among them.
    """
    text = _text(tokenizer, kwargs)
    dated = {"chat_template": _CLOCK + text} if "strftime_now" in text else {}
    return tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, **dated, **kwargs
    )


def turn_end(tokenizer: Any) -> int | None:
    """Returns the special token that ends an action in the chat template, or None."""
    between = tokenizer(template_pieces(tokenizer).between, add_special_tokens=False)["input_ids"]
    added = tokenizer.added_tokens_decoder
    return between[0] if between and between[0] in added else None


def _cut(
    tokenizer: Any, system: list[dict[str, str]], lead: str, kwargs: Mapping[str, Any]
) -> Pieces:
    user = {"role": "user", "content": lead + _OBSERVATION}
    assistant = {"role": "assistant", "content": _ACTION}
    again = {"role": "user", "content": _OBSERVATION}

    def rendered(*messages: dict[str, str]) -> str:
        return render(tokenizer, [*system, *messages], kwargs)

    opening, _, after = rendered(user).partition(_OBSERVATION)
    turn, _, rest = rendered(user, assistant, again).partition(_ACTION)
    between, found, _ = rest.partition(_OBSERVATION)
    if not found:
        raise ValueError("it does not render user and assistant turns.")
    header = turn.partition(_OBSERVATION)[2]
    special = tuple(str(token) for token in tokenizer.added_tokens_decoder.values())
    if header.startswith(after) and header.endswith(special):
        after = header
    # Llama 2 writes a space before the end of the turn, which the action need not end with.
    if between.lstrip(" ").startswith(tokenizer.eos_token):
        between = between.lstrip(" ")
    return Pieces(opening, after, between)


class SlowTemplateError(ConfigError):
    """A chat template took too long to render."""


class _TooSlow(BaseException):
    """The time limit; no `except Exception` catches it."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """Returns the result of a call that renders a chat template, a program of the model folder.

    It is interrupted between two steps of Python, in any thread. This is no context manager, in
    whose entry and exit the interruption could come, too.

    Raises:
        SlowTemplateError: if it takes longer.
    """
    thread, lock, ended, fired = threading.get_ident(), threading.Lock(), False, False

    def interrupt(error: type[BaseException] | None) -> None:
        exception = None if error is None else ctypes.py_object(error)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)

    def stop() -> None:
        nonlocal fired
        with lock:
            fired = not ended
            if fired:
                interrupt(_TooSlow)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    try:
        try:
            timer.start()
            return call()
        finally:
            timer.cancel()
            with lock:
                ended = True
            if fired:  # and perhaps not yet raised
                interrupt(None)
    except _TooSlow:
        raise SlowTemplateError(
            f"The tokenizer's chat template takes more than {seconds:g} s to render: it is damaged "
            "or hostile."
        ) from None
