"""What commands write, and how a line ends early."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.envs.shell.arguments import bounded
from agentgym.envs.shell.tree import Unknown


class TooMuch(Unknown):
    """Raised when the work of a line exceeds its limit, which ends the line."""


class Leave(Exception):
    """Raised by break, continue and exit."""

    def __init__(self, kind: str, status: int):
        super().__init__(kind)
        self.kind, self.status = kind, status


@dataclass
class Output:
    """What commands write.

    Attributes:
        text: the output.
        errors: the messages, each with whether it is shown even if errors are dropped.
        shown: both, in the order in which the pipelines ended.
    """

    text: str = ""
    errors: list[tuple[str, bool]] = field(default_factory=list)
    shown: str = ""

    def add(self, text: str, errors: list[tuple[str, bool]]) -> None:
        """Adds the output of a pipeline."""
        self.text = bounded(self.text + text)
        self.errors += errors
        self.shown = bounded(self.shown + "".join(message for message, _ in errors) + text)

    def fail(self, message: str, *, loud: bool = False) -> None:
        """Adds a message of the shell."""
        self.errors.append((f"sh: {message[:300]}\n", loud))
