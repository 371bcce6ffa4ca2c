from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.envs.database.charged_functions import without_stars
from agentgym.envs.database.sandbox import Connection, Refused

NUMBERS = "WITH RECURSIVE k(s) AS MATERIALIZED (SELECT '{long}'), r(x) AS (SELECT 1 UNION ALL "
NUMBERS = NUMBERS.format(long="a" * 900) + "SELECT x+1 FROM r LIMIT 3000) SELECT max({}) FROM r, k"
LETTERS = "bcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789a"
HOSTILE = [
    "printf('%.*c', 1000000000 - x, 'x')",
    "PRINTF('%.1000000000c', x)",
    "format('%.*c', '1000000000' || x, 'x')",
    "format('%s%%%.1000000000c', x, 'x')",
    "printf('%*d%.*c', 1, 2, 1e9 - x, 'x')",
    "printf('%-.*c', -999999999 + x, 'x')",
    "printf('" + "%.1000c" * 100 + "', x)",
    f"trim(s || x, '{LETTERS}')",
    f"ltrim(s || x, '{LETTERS}')",
    f"rtrim(x || s, '{LETTERS}')",
    "(s || x) LIKE '%a%" + "a" * 40 + "b%'",
    "(s || x) LIKE '%_" + "a_" * 22 + "b%'",
    "(s || x) GLOB '*" + "[a-z]" * 8 + "b*'",
    "like('%" + "a" * 44 + "b%', s || x, '!')",
    "replace(s || x, substr(s, 1, 450) || 'b', '')",
    "instr(s || x, substr(s, 1, 450) || 'b')",
    "hex(substr(s, 1, 400) || x)",
    "round(x * 1.5, 1000000000)",
    "(SELECT max(a.s || b.s) FROM k a, k b, r c, r d)",
]


def connection() -> Connection:
    raw = sqlite3.connect(":memory:")
    raw.execute("CREATE TABLE t (a)")
    return Connection(raw.serialize(), ["t"])


def many(expression: str) -> str:
    """Returns a query that computes an expression as often as its length allows, in each row."""
    count = max(1, min(12, 2500 // len(expression)))
    return NUMBERS.format(", ".join([expression, *[expression] * (count - 1), "1"])) + " AS n"


def test_no_function_works_without_a_budget():
    script = (
        "import sys\n"
        "from agentgym.envs.database.sandbox import Connection, Refused\n"
        "import sqlite3\n"
        "raw = sqlite3.connect(':memory:')\n"
        "raw.execute('CREATE TABLE t (a)')\n"
        "for query in sys.stdin.read().split(chr(0)):\n"
        "    try:\n"
        "        Connection(raw.serialize(), ['t']).execute(query)\n"
        "    except Refused as error:\n"
        "        print(error)\n"
    )
    queries = "\0".join(map(many, HOSTILE))
    done = subprocess.run(
        [sys.executable, "-c", script], input=queries, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "syntax error" not in done.stdout and "no such" not in done.stdout, done.stdout


@pytest.mark.parametrize("expression", HOSTILE[:14], ids=range(14))
def test_hostile_calls_are_refused_with_the_reason(expression: str):
    with pytest.raises(Refused, match=r"takes too long|at most 1000|too large"):
        connection().execute(many(expression))


SPECS = st.builds(
    "%{}{}{}{}".format,
    st.sampled_from(["", "-", "+", "0", ",", "#", "!", " ", "-0"]),
    st.sampled_from(["", "*", "3", "12"]),
    st.sampled_from(["", ".", ".*", ".0", ".4", ".11"]),
    st.sampled_from(["d", "i", "f", "e", "g", "s", "c", "q", "Q", "w", "x", "o", "u", "ld", "%"]),
)
SHAPES = st.lists(SPECS | st.sampled_from(["a", " ", "é", "%n", "%", "%y"]), max_size=6)
VALUES = (
    st.none() | st.integers(-30, 30) | st.floats(-50, 50) | st.sampled_from(["abc", "7x", "-4"])
)


@settings(deadline=None, max_examples=300)
@given(SHAPES.map("".join), st.lists(VALUES, max_size=8))
@example("%*.*f|%s", [8, -2, 3.14159, "x"])
@example("%%%*d", [-6, 42])
def test_formats_are_those_of_sqlite(shape: str, values: list[object]):
    plain = sqlite3.connect(":memory:")
    query = f"SELECT printf({','.join('?' * (1 + len(values)))})"
    try:
        expected = plain.execute(query, (shape, *values)).fetchone()[0]
    except sqlite3.Error:
        return
    found, rest, widths = without_stars(shape, values)  # type: ignore[arg-type]
    assert without_stars(found, rest)[:2] == (found, rest) and max(widths, default=0) <= 50
    query = f"SELECT printf({','.join('?' * (1 + len(rest)))})"
    assert plain.execute(query, (found, *rest)).fetchone()[0] == expected


TEXTS = st.text("aB%_*[]- é", max_size=12)


@settings(deadline=None, max_examples=100)
@given(TEXTS, TEXTS)
def test_comparisons_are_those_of_sqlite(text: str, pattern: str):
    plain, ours = sqlite3.connect(":memory:"), connection()
    literal = [part.replace("'", "''") for part in (text, pattern)]
    for form in (
        "'{0}' LIKE '{1}'",
        "'{0}' NOT LIKE '{1}' ESCAPE '-'",
        "'{0}' GLOB '{1}'",
        "trim('{0}', '{1}')",
        "ltrim('{0}')",
        "rtrim('{0}', '{1}')",
        "typeof(trim(12.50))",
        "NULL LIKE '{1}'",
        "printf('%5s|%.2f', '{0}', 2.345)",
    ):
        query = f"SELECT {form.format(*literal)} AS n"
        assert ours.execute(query)[1] == plain.execute(query).fetchall()


def test_errors_of_the_originals_are_kept():
    with pytest.raises(Refused, match="ESCAPE expression must be a single character"):
        connection().execute("SELECT 'a' LIKE 'b' ESCAPE 'cd'")
    assert connection().execute("SELECT printf(NULL), format()")[1] == [(None, None)]
