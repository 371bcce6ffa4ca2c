"""Transcripts of golden files as SVG pictures of a terminal."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

WIDTH = 96
"""Columns of the picture."""
MAX_LINES = 48
"""Lines of the picture."""
MAX_OBSERVATION = 12
"""Lines of an observation in the picture."""
MAX_TEXT = 12_000
"""Characters of a transcript as text."""
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

_THEME = TerminalTheme(
    (250, 250, 252),
    (36, 41, 47),
    [
        (36, 41, 47),
        (207, 34, 46),
        (17, 99, 41),
        (150, 90, 0),
        (9, 105, 218),
        (130, 80, 223),
        (27, 124, 131),
        (110, 119, 129),  # "white" is the grey of remarks
    ],
)


class EmptyTranscriptError(ValueError):
    """Raised for a golden file without a single action."""


def read(file: Path, instructions: str | None) -> str:
    """Returns the episode of a golden file, without the instructions at its start.

    Raises:
        EmptyTranscriptError: if no action is played in it.
    """
    text = file.read_bytes().decode("utf-8", "surrogatepass")
    text = text.encode("utf-8", "replace").decode("utf-8")
    head, _, rest = text.partition("\n")
    if instructions is not None and rest.startswith(instructions):
        rest = rest[len(instructions) :]
    elif "\n--- player_" in rest.partition("\n> ")[0]:  # a game: instructions end at the first turn
        rest = rest[rest.index("\n--- player_") :]
    if not re.search(r"^> ", rest, re.MULTILINE):
        raise EmptyTranscriptError(f"{file.name} plays no action.")
    return f"{head}\n\n{rest.strip(chr(10))}\n"


def shorten(text: str) -> str:
    """Returns the start of a transcript, cut at the end of a line."""
    if len(text) <= MAX_TEXT:
        return text
    return text[:MAX_TEXT].rpartition("\n")[0] + "\n[...]\n"


def picture(text: str, title: str) -> str:
    """Returns the start of a transcript as SVG, the same for the same text."""
    lines = _styled(text)
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    shown = lines[:MAX_LINES]
    if len(lines) > MAX_LINES:
        shown.append(Text("[...]", "white"))
    for line in shown:
        console.print(line, soft_wrap=True)
    slug = re.sub(r"\W+", "-", title).lower()
    svg = console.export_svg(title=title, theme=_THEME, unique_id=f"t-{slug}")
    return _local(svg)


def _local(svg: str) -> str:
    """Returns an SVG without remote fonts and without comments."""
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family:\s*Fira Code,\s*monospace", f"font-family: {FONT}", svg)
    return re.sub(r"\n\s*\n+", "\n", svg)


def _styled(text: str) -> list[Text]:
    """Returns the lines of the picture: actions and remarks in full, the start of observations."""
    console = Console(width=WIDTH, file=io.StringIO())
    lines: list[Text] = []
    observation: list[Text] = []
    for line in [*text.expandtabs(4).rstrip("\n").split("\n"), None]:
        styled = None if line is None else _line(line)
        wrapped = [] if styled is None else list(styled.wrap(console, WIDTH)) or [Text()]
        if styled is not None and not styled.style:
            observation += wrapped
            continue
        lines += observation[:MAX_OBSERVATION]
        if len(observation) > MAX_OBSERVATION:
            lines.append(Text("[...]", "white"))
        observation = []
        lines += wrapped
    return lines


def _line(line: str) -> Text:
    if line.startswith("> "):
        return Text(line, "bold green")
    if line in ("terminated", "truncated"):
        return Text(line, "bold")
    if (found := re.fullmatch(r"--- (?:(player_\d+) )?(\S+)((?: \w+)*) (\{.*)", line)) is not None:
        player, reward, ends, rest = found.groups()
        return Text(_facts(player, reward, ends.split(), rest), "bold blue" if player else "blue")
    if re.match(r"AgentGym/\S+, seed \d+, task ", line):
        return Text(line, "white")
    return Text(line)


def _facts(player: str | None, reward: str, ends: list[str], rest: str) -> str:
    """Returns the line about a turn: reward, and the keys of `info` that tell most."""
    info = json.JSONDecoder().raw_decode(rest)[0]
    facts = [f"reward {reward}", f"progress {info['progress']:.3g}"]
    if not info["valid"]:
        facts.append("invalid action")
    if info["success"]:
        facts.append("success")
    line = ", ".join([*facts, *ends])
    return f"-- {player}: {line}" if player else f"-- {line}"
