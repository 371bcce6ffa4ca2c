"""Arithmetic expressions in one plain form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.reading.expressions import plain_expression


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("3 \u00d7 (4 \u2212 1)", "3 * (4 - 1)"),
        ("[3 + 4] \u00f7 7", "(3 + 4) / 7"),
        ("{3 + 4} \u00b7 2", "(3 + 4) * 2"),
        (r"3 \times \left(4 - 1\right)", "3 * (4 - 1)"),
        (r"3 \cdot \frac{8}{4}", "3 * ((8) / (4))"),
        (r"\frac{\frac{8}{4}}{2}", "((((8) / (4))) / (2))"),
        (r"8 \div 4", "8 / 4"),
        ("3 x 4", "3 * 4"),
        ("1,250 + 3", "1250 + 3"),
        ("\uff13\uff0b\uff14", "3+4"),
        ("x + 3", "x + 3"),
        ("1,2", "1,2"),
        (r"\sqrt{4}", r"\sqrt(4)"),
        (r"\left\{3 + 4\right\} \times 2", "(3 + 4) * 2"),
    ],
)
def test_other_forms_become_plain(text: str, plain: str):
    assert plain_expression(text) == plain


@given(st.text("0123456789+-*/() ", max_size=60))
def test_plain_expressions_stay_as_they_are(text: str):
    assert plain_expression(text) == " ".join(text.split())


@given(st.text(max_size=100) | st.text(r"\{}[]()$~ ,3xleft", max_size=60))
def test_the_plain_form_is_final(text: str):
    once = plain_expression(text)
    assert plain_expression(once) == once
