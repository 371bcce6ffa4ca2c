"""The usual ways to write a move, reduced to the notation that python-chess reads."""

from __future__ import annotations

import re

from agentgym.utils.action_parsing import plain
from agentgym.utils.marks import undressed

_FIGURINES = dict(
    zip(map(ord, "\u2654\u2655\u2656\u2657\u2658\u2659\u265a\u265b\u265c\u265d\u265e\u265f"),
        ["K", "Q", "R", "B", "N", ""] * 2, strict=True)
)  # fmt: skip
_NUMBER = re.compile(r"\d{1,3}\s*\.\s*(?:\.\.)?\s*|\d{1,3}\s+(?=[a-hKQRBNO])")
_SIGNS = re.compile(r"(?:[+#\u2020\u2021]|\+\+|[!?]{1,2})+$")
_EN_PASSANT = re.compile(r"\s*\(?\be\.?\s?p\.?\)?$")
_PROMOTION = re.compile(r"(?<=[18])(?:/([QRBN])|\(([QRBN])\))$")
_CASTLING = re.compile(r"[0Oo]-[0Oo](?:-[0Oo])?")
_SQUARES = re.compile(r"[A-H][1-8]-?[A-H][1-8][QRBN]?")
_MOVE = re.compile(r"[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](?:=?[QRBN])?")


def move_text(action: str) -> tuple[str, bool]:
    """Returns a move in plain notation, and whether it is called en passant.

    Read are move numbers ("1. e4"), figurines ("\u2658f3"), dashes ("e2-e4"), castling with zeros,
    signs of check and of quality ("e4!"), "e.p.", and promotions such as "e8(Q)". The text is empty
    if there is more than one move.
    """
    text = plain(undressed(action[:100].translate(_FIGURINES)), cased=True)
    number = _NUMBER.match(text)
    text = text[number.end() :] if number else text
    if number and sum(map(bool, map(_MOVE.fullmatch, text.split()))) > 1:
        return "", False
    text, passant = _EN_PASSANT.subn("", text)
    text = _SIGNS.sub("", "".join(text.split()))
    text = _PROMOTION.sub(lambda found: f"={found[1] or found[2]}", text)
    if _CASTLING.fullmatch(text):
        text = "-".join("O" * len(text.split("-")))
    elif _SQUARES.fullmatch(text):
        text = text.lower()
    return text, bool(passant)
