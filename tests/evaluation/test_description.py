"""What a language model reads about an environment."""

from __future__ import annotations

from agentgym.evaluation.description import described


def test_parts_are_shown_as_asked():
    brief = described("NumberLine-v0:size=40")
    assert brief == "NumberLine-v0:size=40: Walk to a target number, one step at a time."
    text = described("NumberLine-v0:size=40", arguments=True, observations=2)
    assert text.startswith(brief) and "- `size` (int, default 10)" in text
    assert "Reaching the target ends" in text and text.count("An observation:\nYou are at") == 2


def test_a_game_is_described_by_its_own_class():
    text = described("AdversarialTaboo-v0", arguments=True)
    assert "An attacker talks a defender" in text and "- `rounds` (int, default 5)" in text
