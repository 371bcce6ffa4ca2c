"""`printable`: texts of agents and environments without control characters, for terminals."""

from __future__ import annotations

_TABLE: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}


def printable(text: str) -> str:
    """Returns the text with control characters made visible, except newline and tab.

    Terminals obey escape sequences: they set the title, clear the screen, write the clipboard. A
    text of an agent, or of another player, may contain them. C0 controls become their pictures
    (U+2400 to U+2421), C1 controls become hexadecimal escapes, and lone surrogates, which no
    encoding has, become U+FFFD.
    """
    return text.translate(_TABLE)
