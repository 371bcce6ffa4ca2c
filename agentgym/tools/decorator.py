"""`tool`: makes a tool of a Python function. Its JSON schema follows from hints and docstring."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from typing import Any, ClassVar, overload

from agentgym.errors import did_you_mean
from agentgym.tools.schema import check_value, schema_of, typed_parameters, written

_CONTEXT = ("self", "state")
"""Names of a first parameter that the environment fills in."""
_ARGS = re.compile(r"^ *Args:\n((?: +.*\n?|\n)+)", re.MULTILINE)
_SECTIONS = re.compile(r"^ *(?:Args|Returns|Raises|Yields|Examples?):\n", re.MULTILINE)
_ARG = re.compile(r"^ *(\w+)(?: *\([^)]*\))?: *(.*)$")


class ToolError(Exception):
    """Raised by a tool that cannot do as asked. The agent observes the message, a sentence."""


class Tool:
    """A function that an agent can call.

    As an attribute of a class it acts like the function, so `env.search("shoes")` still works.

    Attributes:
        function: the Python function.
        name: name of the tool.
        description: the docstring without its sections.
        parameters: JSON schema of the arguments.
        cost: amount subtracted from the reward for each call.
        final: whether a call ends the episode.
        context: whether the first parameter, `self` or `state`, is filled in by the environment.
        external: whether its state is kept by another program, so that no snapshot has it.
    """

    external: ClassVar[bool] = False

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        cost: float = 0.0,
        final: bool = False,
    ):
        self.function = function
        self.name = name or function.__name__
        self.cost, self.final = float(cost), final
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self.description, about = _documented(inspect.getdoc(function) or "")
        names = list(inspect.signature(function).parameters)
        self.context = bool(names) and names[0] in _CONTEXT
        self._hints = typed_parameters(function, skip=int(self.context))
        properties = {}
        for argument, (hint, default) in self._hints.items():
            properties[argument] = schema_of(hint, f"{self.name}({argument})")
            if argument in about:
                properties[argument]["description"] = about[argument]
            if default is not inspect.Parameter.empty and default is not None:
                properties[argument]["default"] = default
        self._required = [
            argument
            for argument, (_, default) in self._hints.items()
            if default is inspect.Parameter.empty
        ]
        self.parameters = {
            "type": "object",
            "properties": properties,
            "required": self._required,
            "additionalProperties": False,
        }

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self.function, instance)

    def __reduce__(self) -> str:
        return self.function.__qualname__  # pickled and copied by reference, like a function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the Python function."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.signature})"

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as chat templates and chat servers expect it (OpenAI's format)."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }

    @property
    def signature(self) -> str:
        """The tool in one line, such as "search(query: string, limit: integer = 5)"."""
        words = []
        for argument, (hint, default) in self._hints.items():
            value = "" if default is inspect.Parameter.empty else f" = {default!r}"
            words.append(f"{argument}: {written(hint)}{value}")
        return f"{self.name}({', '.join(words)})"

    @property
    def help(self) -> str:
        """Signature, description and arguments as text for a prompt."""
        text = f"{self.signature}: {self.description}"
        properties = self.parameters["properties"]
        about = [f"{a}: {p['description']}" for a, p in properties.items() if "description" in p]
        return "\n  ".join([text, *about])

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments if they match the schema.

        Raises:
            ValueError: for a missing, unknown or mistyped argument. The message is a sentence for
                the agent.
        """
        for argument in arguments:
            if argument not in self._hints:
                hint = did_you_mean(argument[:40], self._hints)
                raise ValueError(f"{self.name} has no argument {argument[:40]!r}.{hint}")
        for argument in self._required:
            if argument not in arguments:
                raise ValueError(f"{self.name} needs the argument {argument!r}.")
        return {
            argument: check_value(value, self._hints[argument][0], f"The argument {argument!r}")
            for argument, value in arguments.items()
        }


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, cost: float = 0.0, final: bool = False
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    cost: float = 0.0,
    final: bool = False,
) -> Any:
    """Makes a `Tool` of a function with type hints. Usable as `@tool` and as `@tool(cost=0.1)`.

    The JSON schema follows from the type hints (str, int, float, bool, `Literal`, list, dict,
    `TypedDict`, unions and None), the descriptions from a docstring in Google's style. A first
    parameter named `self` or `state` is filled in by the environment.

    Args:
        function: the function.
        name: name of the tool. Default: the name of the function.
        cost: amount subtracted from the reward for each call (term "cost").
        final: whether a call ends the episode.

    Raises:
        TypeError: for a parameter without a type hint or with an unsupported one, or no function.
    """
    if function is not None and not callable(function):
        raise TypeError(f"tool needs a function, got {function!r:.80}. Its options have names.")
    if function is None:
        return lambda decorated: Tool(decorated, name=name, cost=cost, final=final)
    return Tool(function)


def _documented(docstring: str) -> tuple[str, dict[str, str]]:
    """Returns a docstring without its sections, and the descriptions of the arguments."""
    about: dict[str, str] = {}
    if section := _ARGS.search(docstring + "\n"):
        argument = ""
        for line in section[1].splitlines():
            if found := _ARG.match(line):
                argument, about[found[1]] = found[1], found[2].strip()
            elif argument and line.strip():
                about[argument] += " " + line.strip()
    return " ".join(_SECTIONS.split(docstring)[0].split()), about
