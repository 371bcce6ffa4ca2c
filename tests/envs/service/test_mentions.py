"""The readers of mentions skip words for speed, and find all that their patterns match."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.service.mentions import _CODE, _METHOD, _METHOD_WORDS, _is_code, _Reader
from agentgym.envs.service.proposals import Proposal

TEXTS = st.lists(
    st.sampled_from(
        (*sorted(_METHOD_WORDS), "card", "payment method", "express", "transfer", "form of payment",
         "Ki", "ſtore", "AB12CD", "#W1234567", "my_visa", " ", "-", ".", "\n", "#", "İ", "é"),
    ),
    max_size=12,
)  # fmt: skip


@settings(deadline=None)
@given(TEXTS, st.sampled_from(("", " ")), st.booleans())
def test_payment_methods_are_found_wherever_their_pattern_matches(parts, joint, upper):
    text = joint.join(parts)
    text = text.upper() if upper else text
    found = [match.span() for match in _Reader(text, Proposal())._method_names()]
    assert found == [match.span() for match in _METHOD.finditer(text)]


@settings(deadline=None)
@given(TEXTS, st.sampled_from(("", " ")))
def test_reservations_are_found_wherever_a_code_stands(parts, joint):
    text = joint.join(parts)
    codes = [match[0] for match in _CODE.finditer(text) if _is_code(match[0])]
    mentions = _Reader(text, Proposal()).mentions()
    shown = [mention.shown for mention in mentions if mention.kind == "order"]
    assert [word for word in shown if _CODE.fullmatch(word)] == codes
