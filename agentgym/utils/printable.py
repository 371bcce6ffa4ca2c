"""Texts for terminals (`printable`) and for encoders (`encodable`).

Actions of agents and messages of other players can hold any code point.
"""

from __future__ import annotations

_TABLE: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}


def printable(text: str) -> str:
    """Returns the text with control characters made visible, except newline and tab.

    Actions of agents and messages of other players can contain escape sequences, by which a
    terminal sets its title, clears the screen or writes to the clipboard. C0 controls become their
    control pictures (U+2400 to U+2421), C1 controls become hexadecimal escapes, and lone
    surrogates, which cannot be encoded, become U+FFFD.
    """
    return text.translate(_TABLE)


def encodable(text: str) -> str:
    """Returns the text with ? for lone surrogates, which UTF-8 and tokenizers reject."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
