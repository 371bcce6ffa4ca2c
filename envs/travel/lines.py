"""The lines of an action in TravelPlanner, without the marks that models write around them."""

from __future__ import annotations

import re

from agentgym.envs.travel.world import DATES
from agentgym.reading import find_dates, normalized, same_date
from agentgym.utils.marks import without_bold

_BULLET = re.compile(r"^(?:[-*\u2022]|\d{1,2}[.)]) ")


def plain_line(line: str) -> str:
    """Returns a line without a bullet or number before it, bold type and a full stop."""
    text = " ".join(without_bold(line).split())
    return (_BULLET.sub("", text) or text).rstrip(".")


def iso_date(text: str) -> str:
    """Returns a date such as "March 5, 2024" as in `DATES`, and other text as it is."""
    found = find_dates(text) if text not in DATES else []
    if len(found) == 1 and (found[0].start, found[0].stop) == (0, len(normalized(text))):
        date = found[0]
        written = f"{date.year or DATES[0][:4]}-{date.month:02}-{date.day:02}"
        return written if same_date(text, written) else text  # "Monday" can contradict it
    return text
