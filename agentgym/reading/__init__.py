"""Reading of free text: what people and models write, by value and as a whole.

Every reader accounts for all that it reads, or raises `NotUnderstood` with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.lazy_names import lazy_names

if TYPE_CHECKING:
    from agentgym.reading.answers import final_answer
    from agentgym.reading.clauses import Clause, asserted, find_clauses
    from agentgym.reading.dates import Date, Time, find_dates, find_times, same_date
    from agentgym.reading.errors import NotUnderstood
    from agentgym.reading.items import Items, read_counts, read_items
    from agentgym.reading.numbers import (
        Number,
        exact,
        find_numbers,
        find_ordinals,
        parse_amount,
        parse_number,
        parse_whole,
        same_number,
        undecorated,
    )
    from agentgym.reading.quotations import find_quotations
    from agentgym.reading.typography import (
        find_reply,
        normalized,
        normalized_code,
        plain_operators,
        without_end_marks,
        without_thoughts,
    )
else:
    _NAMES = {  # of each module. Their patterns take long to compile.
        "answers": "final_answer",
        "clauses": "Clause asserted find_clauses",
        "dates": "Date Time find_dates find_times same_date",
        "errors": "NotUnderstood",
        "items": "Items read_counts read_items",
        "numbers": (
            "Number exact find_numbers find_ordinals parse_amount parse_number parse_whole "
            "same_number undecorated"
        ),
        "quotations": "find_quotations",
        "typography": (
            "find_reply normalized normalized_code plain_operators without_end_marks "
            "without_thoughts"
        ),
    }
    __getattr__, __dir__ = lazy_names(
        __name__,
        {name: f"{__name__}.{part}" for part, names in _NAMES.items() for name in names.split()},
    )

__all__ = [
    "Clause",
    "Date",
    "Items",
    "NotUnderstood",
    "Number",
    "Time",
    "asserted",
    "exact",
    "final_answer",
    "find_clauses",
    "find_dates",
    "find_numbers",
    "find_ordinals",
    "find_quotations",
    "find_reply",
    "find_times",
    "normalized",
    "normalized_code",
    "parse_amount",
    "parse_number",
    "parse_whole",
    "plain_operators",
    "read_counts",
    "read_items",
    "same_date",
    "same_number",
    "undecorated",
    "without_end_marks",
    "without_thoughts",
]
