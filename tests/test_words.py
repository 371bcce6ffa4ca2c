"""The prose of documentation and docstrings keeps to plain words.

Counts per 1,000 words of four habits that made it hard to read. They are a thermometer: a text can
pass and still read badly. `python tests/test_words.py` lists the files that exceed the limits most.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMITS = {"what": 1.0, "says, said": 0.3, "headless Who": 0.0, "semicolons": 4.0}
HABITS = {
    "what": re.compile(r"\bwhat\b", re.IGNORECASE),
    "says, said": re.compile(r"\b(?:says|said)\b", re.IGNORECASE),
    # A sentence such as "Who has no dice is out." Questions are allowed.
    "headless Who": re.compile(r"(?:^|(?<=[.;:] )|(?<=\n))[ ]*Who\b(?![^.?!\n]*\?)"),
    "semicolons": re.compile(";"),
}
CODE = re.compile(r"```.*?```|`[^`]*`|https?://\S+", re.DOTALL)


def prose(path: Path) -> str:
    """Returns the text of a Markdown file, or the docstrings of a module, without code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        statements = (n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Expr))
        constants = (v.value for v in statements if isinstance(v, ast.Constant))
        text = "\n".join(value for value in constants if isinstance(value, str))
    return CODE.sub(" ", text)


def count(text: str) -> Counter[str]:
    """Returns the number of words and of each habit."""
    found = Counter({name: len(habit.findall(text)) for name, habit in HABITS.items()})
    found["words"] = len(re.findall(r"[A-Za-z']+", text))
    return found


def files() -> list[Path]:
    """All Python and Markdown files that git tracks, golden transcripts excepted."""
    command = ["git", "ls-files", "*.py", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / line for line in listed.stdout.splitlines() if "golden/" not in line]
    return [path for path in paths if path.is_file()]


def excess(counts: Counter[str]) -> dict[str, float]:
    """Returns the rates per 1,000 words that exceed their limit."""
    rates = {name: 1000 * counts[name] / max(counts["words"], 1) for name in LIMITS}
    return {name: rate for name, rate in rates.items() if rate > LIMITS[name]}


def test_the_habits_are_found():
    text = "Who bids wins. It says what it reads; who knows?"
    assert count(text) == {
        "what": 1,
        "says, said": 1,
        "headless Who": 1,
        "semicolons": 1,
        "words": 10,
    }


@pytest.mark.slow
def test_documentation_and_docstrings_keep_to_plain_words():
    total = sum((count(prose(path)) for path in files()), Counter())
    assert total["words"] > 50_000
    assert not excess(total)


if __name__ == "__main__":
    rows = [(path, count(prose(path))) for path in files()]
    total = sum((counts for _, counts in rows), Counter())
    words = total.pop("words")
    rates = {name: round(1000 * total[name] / words, 2) for name in LIMITS}
    print(f"{words:,} words, per 1,000: {rates} (limits {LIMITS})")
    rows.sort(key=lambda row: -sum(row[1][n] - LIMITS[n] * row[1]["words"] / 1000 for n in LIMITS))
    for path, counts in rows[:15]:
        print(f"  {path.relative_to(ROOT)}: {dict(counts)}")
