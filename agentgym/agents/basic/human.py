"""An agent whose actions are typed at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agentgym.agents.basic.view import View
from agentgym.utils.printable import printable

MAX_LISTED = 40
LONGEST_ROW = 100
"""Maximum number of characters of a list of admissible actions in one row."""

HELP = """\
Type an action, or its number if admissible actions are listed. Tab completes them.
  help, ?     show the instructions and these commands
  quit        leave (also Ctrl-D)
  /actions    list every admissible action
  /say TEXT   play TEXT as it is, such as an action called "help"
/help and /quit always work. help, ? and quit are actions if the environment lists them as such."""


class Quit(KeyboardInterrupt):
    """The human left. It ends an evaluation as Ctrl-C does, and finished episodes are kept."""


class HumanAgent:
    """Shows each observation and reads the action from the terminal.

    `help` and `?` show the instructions, `quit` and the end of the input leave, unless these words
    are admissible actions. `/help` and `/quit` always work. Where up to 40 admissible actions are
    listed, a number chooses one. Tab completes admissible actions if Python has `readline`.

    Args:
        console: where to write. Default: standard output.
        show_observation: False if the caller shows it.
        shared: whether people in several seats share the terminal. Each turn names its seat, and
            the screen is cleared when the keyboard is handed over.
    """

    name = "human"

    def __init__(
        self,
        console: Console | None = None,
        *,
        show_observation: bool = True,
        shared: bool = False,
    ):
        self.console = console or Console(highlight=False)
        self.shared = shared
        self.show_observation = show_observation

    def act(self, views: Sequence[View]) -> list[str]:
        """Asks for an action for each view, one after the other.

        Raises:
            Quit: if the human leaves.
        """
        return [self._ask(view) for view in views]

    def _ask(self, view: View) -> str:
        admissible = view.info["admissible"]
        if self.shared:
            self._hand_over(view.env.get_wrapper_attr("agent"))
        if self.show_observation:
            if not view.history:
                self.console.print(Text(f"\n{printable(view.instructions)}\n", "dim"))
                self.console.print(Text("Type help for the commands.\n", "dim"))
            self.console.print(Text(readable(view.observation, admissible)))
        self._list(admissible, MAX_LISTED)
        _complete_with(admissible)
        while True:
            line = self._input()
            action = _played(line, admissible)
            if action is not None:
                return action
            word = line.strip().lstrip("/")
            if word == "quit":
                raise Quit
            if word == "actions":
                self._list(admissible, len(admissible))
            else:
                self.console.print(Text(f"\n{printable(view.instructions)}\n\n{HELP}\n", "dim"))

    def _hand_over(self, seat: str) -> None:
        """Hides the last player's screen and waits for the next one."""
        self.console.clear()
        self.console.print(Text(f"It is {seat}'s turn. Press Enter.", "bold"))
        self._input()

    def _input(self) -> str:
        try:
            line = input("> ")  # rich's own prompt is lost when readline redraws the line
        except EOFError:
            self.console.print()
            raise Quit from None
        if not sys.stdin.isatty():
            self.console.print(Text(printable(line)))
        return line

    def _list(self, admissible: Sequence[str], most: int) -> None:
        if not admissible:
            return
        if len(admissible) > most:
            more = f"{len(admissible):,} actions: /actions lists them, Tab completes."
            self.console.print(Text(more, "cyan"))
            return
        numbers = _numbered(admissible)
        items = [f"{i} {action}" if numbers else action for i, action in enumerate(admissible, 1)]
        row = "Actions: " + " | ".join(items)
        text = (
            row if len(row) <= LONGEST_ROW else "\n".join(["Actions:", *(f"  {i}" for i in items)])
        )
        self.console.print(Text(printable(text), "cyan"))


def readable(text: str, admissible: Sequence[str] = ()) -> str:
    """Returns an observation for display, with the parts of a WebShop page on separate lines.

    Control characters are made visible.

    Args:
        text: the observation.
        admissible: admissible actions: parts of a page that can be clicked get a bullet.
    """
    text = printable(text)
    if " [SEP] " not in text:
        return text
    parts = text.split(" [SEP] ")
    return "\n".join(f"• {p}" if f"click[{p.lower()}]" in admissible else f"  {p}" for p in parts)


def _played(line: str, admissible: Sequence[str]) -> str | None:
    """Returns the action that a line plays, None for a command."""
    word = line.strip()
    if word.startswith("/say ") and word not in admissible:
        return word.removeprefix("/say ").strip()
    if word in ("/help", "/quit", "/actions"):
        return None
    if word in ("help", "?", "quit") and word not in admissible:
        return None
    if _numbered(admissible) and word.isascii() and word.isdigit():
        number = int(word[:9])
        if 1 <= number <= len(admissible):
            return admissible[number - 1]
    return line


def _numbered(admissible: Sequence[str]) -> bool:
    """Whether a number chooses an action: not where actions are numbers themselves."""
    return not any(action.strip("+-. ").isdigit() for action in admissible)


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
