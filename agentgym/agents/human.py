"""An agent that asks whoever sits at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agentgym.agents.view import View
from agentgym.utils.printable import printable

MAX_LISTED = 40


class Quit(KeyboardInterrupt):
    """The human left; ends an evaluation as Ctrl-C does, keeping what is there."""


class HumanAgent:
    """Shows each observation and reads the action from the terminal.

    `quit` (where that is no admissible action) and the end of the input leave; Tab completes
    admissible actions where Python has `readline`.

    Args:
        console: where to write; by default standard output.
        show_observation: False if somebody else shows it already.
    """

    name = "human"

    def __init__(self, console: Console | None = None, *, show_observation: bool = True):
        self.console = console or Console(highlight=False)
        self.show_observation = show_observation

    def act(self, views: Sequence[View]) -> list[str]:
        """Asks for an action for each view, one after the other.

        Raises:
            Quit: if the human leaves.
        """
        return [self._ask(view) for view in views]

    def _ask(self, view: View) -> str:
        if self.show_observation:
            if not view.history:
                self.console.print(Text(f"\n{printable(view.instructions)}\n", "dim"))
            self.console.print(Text(printable(view.observation)))
        admissible = view.info["admissible"]
        if 0 < len(admissible) <= MAX_LISTED:
            self.console.print(Text(printable("Actions: " + " | ".join(admissible)), "cyan"))
        _complete_with(admissible)
        try:
            action = input("> ")  # rich's own prompt is lost when readline redraws the line
        except EOFError:
            self.console.print()
            raise Quit from None
        if not sys.stdin.isatty():
            self.console.print(Text(printable(action)))
        if action.strip() == "quit" and "quit" not in admissible:
            raise Quit
        return action


def _complete_with(words: Sequence[str]) -> None:
    try:
        import readline
    except ImportError:  # Windows
        return

    def complete(typed: str, state: int) -> str | None:
        matches = [word for word in words if word.startswith(typed)]
        return matches[state] if state < len(matches) else None

    readline.set_completer_delims("")  # an action is completed whole, spaces included
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
