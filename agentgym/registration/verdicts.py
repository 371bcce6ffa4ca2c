"""Verdicts of the certificates of all ids, which `agentgym list` shows.

`benchmarks/certificates.py` writes them: an id and its verdict per line.
"""

from __future__ import annotations

import functools
from pathlib import Path

FILE = Path(__file__).with_name("verdicts.txt")


@functools.cache
def verdicts() -> dict[str, str]:
    """Returns "pass", "warn" or "fail" by id. Ids without a certificate are left out."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines)
