"""Lines with which a user uses its phone, such as "PHONE: check the status bar"."""

from __future__ import annotations

import re

from agentgym.envs.service.instructions import read_instructions
from agentgym.reading import normalized

PHONE = "PHONE:"
"""Start of the lines with which a user that is a model, a function or an agent uses the phone."""
ALONE = "To use the phone, write one line that begins with PHONE: and nothing else."
_MARKS = " \t\n*_`\"'"
_EXACT = re.compile(r"[*_`\"'\s]{0,9}PHONE[*_ ]{0,3}:")
_LOOSE = re.compile(r"[*_`\"'\s]{0,9}phone[*_ ]{0,3}:?", re.IGNORECASE)
_TALK = re.compile(r"[\n?\d]|[.!,;]\s|^[,.]")
"""A mark of a message to the agent: "Phone number: 555-011234, check it", "Phone. Restart it?"."""
_LATER = re.compile(r"^[*_`\"' \t]{0,9}PHONE[*_ ]{0,3}:", re.MULTILINE)


def device_line(words: str) -> str | None:
    """Returns the instruction in a line to the phone.

    Marks around the line are left out. "phone" in other letters or without a colon begins such a
    line only before an instruction, because "Phone: 555-011234" is a message.

    Returns:
        The instruction, "" if there are other lines as well, or None for a message.
    """
    text = normalized(words).strip(_MARKS)
    if found := _EXACT.match(text):
        line = text[found.end() :].strip(_MARKS)
        return "" if "\n" in line else line
    if _LATER.search(text):
        return ""
    loose = _LOOSE.match(text)
    line = text[loose.end() :].strip(_MARKS) if loose else ""
    return line if line and not _TALK.search(line) and read_instructions(line).clear else None
