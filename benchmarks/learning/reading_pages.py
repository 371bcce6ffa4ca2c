"""Generated pages, with questions whose answers stand in a page or follow from a few of its lines.

They are the reading that most environments need and few demonstrations teach: find a line, copy a
span, count, compare numbers, follow references, choose the action that fits a goal, see which step
is missing, read a cell of a grid. Words are ordinary ones and new ones made of syllables, so that
an answer has to be copied and cannot be known.

`page(rng, kind)` returns a page and its questions with answers. No kind is made after one of the
environments that `reader.py` holds out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

Questions = list[tuple[str, str]]
Page = tuple[str, Questions]

SYLLABLES = "ba be bi bo da de do fa fi ga go ka ke ki la le lo ma mi mo na ne no pa pe po ra ri ro sa se so ta ti to va vi wa".split()  # noqa: E501
ORDINARY = "red blue green white black yellow small large long short old new round cold warm lamp table chair door key box book cup plate bottle knife coat shoe hat bag rope stone wheel clock mirror desk shelf room hall garden road bridge river hill town house ship train garage cellar kitchen apple bread milk salt rice tea cat dog horse bird fish letter note card coin ring map song".split()  # noqa: E501
SEPARATORS = ("\n", "\n", ". ", " [SEP] ", "; ", ", ")


def words(rng: random.Random, count: int) -> list[str]:
    """Returns different words."""
    found: dict[str, None] = {}
    while len(found) < count:
        known = rng.random() < 0.5
        parts = rng.randint(2, 3)
        found[rng.choice(ORDINARY) if known else "".join(rng.choices(SYLLABLES, k=parts))] = None
    return list(found)


def _ask(rng: random.Random, items: list[str], most: int = 5) -> list[str]:
    return rng.sample(items, min(most, len(items)))


def find(rng: random.Random) -> Page:
    """Find the line with a word, and copy the rest of it."""
    count = rng.randint(3, 10)
    names = words(rng, 3 * count)
    between = rng.choice((": ", " = ", " is ", " -> "))
    numeric = rng.random() < 0.4
    values = [
        str(rng.randint(0, 999))
        if numeric
        else " ".join(names[count + 2 * i :][: rng.randint(1, 2)])
        for i in range(count)
    ]
    facts = dict(zip(names[:count], values, strict=True))
    text = rng.choice(SEPARATORS).join(name + between + value for name, value in facts.items())
    form = rng.choice(("What is {}?", "Find {}.", "{}?", "Read the value of {}."))
    return text, [(form.format(name), facts[name]) for name in _ask(rng, names[:count])]


def copy(rng: random.Random) -> Page:
    """Copy the part of a text that begins after one word and ends before another one."""
    text = words(rng, rng.randint(10, 30))
    questions = []
    for _ in range(4):
        start = rng.randrange(1, len(text) - 4)
        span = text[start : start + rng.randint(1, 4)]
        stop = text[start + len(span)] if start + len(span) < len(text) else None
        if stop is not None:
            questions.append((f"Copy from {span[0]} to before {stop}.", " ".join(span)))
    return " ".join(text), questions


def count(rng: random.Random) -> Page:
    """Count the lines with a word."""
    kinds, places = words(rng, rng.randint(2, 4)), words(rng, 12)
    lines = [f"{rng.choice(kinds)} {place}" for place in places[: rng.randint(2, 9)]]
    held = {kind: sum(line.startswith(kind + " ") for line in lines) for kind in kinds}
    form = rng.choice(("How many {}?", "Count {}."))
    return rng.choice(SEPARATORS).join(lines), [(form.format(k), str(n)) for k, n in held.items()]


def compare(rng: random.Random) -> Page:
    """Compare numbers of a table."""
    names = words(rng, rng.randint(3, 8))
    highest = rng.choice((9, 20, 99, 999))
    values = dict(zip(names, rng.sample(range(highest + 1), len(names)), strict=True))
    unit = rng.choice(("", "$", "size ", "score "))
    text = rng.choice(SEPARATORS).join(f"{name} {unit}{value}" for name, value in values.items())
    first, second = rng.sample(names, 2)
    limit = rng.randint(0, highest)
    third = rng.choice(names)
    return text, [
        (f"Which is lower, {first} or {second}?", min(first, second, key=values.__getitem__)),
        (f"Is {third} below {limit}?", "yes" if values[third] < limit else "no"),
        ("Which is the lowest?", min(names, key=values.__getitem__)),
        ("Which is the highest?", max(names, key=values.__getitem__)),
    ]


def follow(rng: random.Random) -> Page:
    """Follow a chain of references."""
    names = words(rng, rng.randint(6, 14))
    chains = [names[: len(names) // 2], names[len(names) // 2 :]]
    link = rng.choice((" leads to ", " is in ", " before ", " -> "))
    lines = [a + link + b for chain in chains for a, b in pairwise(chain)]
    rng.shuffle(lines)
    questions = []
    for chain in chains:
        at = rng.randrange(len(chain) - 2)
        questions += [
            (f"After {chain[at]}?", chain[at + 1]),
            (f"Before {chain[at + 1]}?", chain[at]),
            (f"Two steps after {chain[at]}?", chain[at + 2]),
            (f"The end from {chain[at]}?", chain[-1]),
        ]
    return rng.choice((". ", "\n", "; ")).join(lines), rng.sample(questions, 5)


def choose(rng: random.Random) -> Page:
    """Choose the action that fits all words of a goal from actions that fit some of them."""
    verbs, first, second = words(rng, 2), words(rng, 4), words(rng, 4)
    form = rng.choice(("{0}[{1} {2}]", "{0} {1} {2}", "{0} {2} with {1}", "{0}({1}, {2})"))
    every = [(v, a, b) for v in verbs for a in first for b in second]
    offered = rng.sample(every, rng.randint(3, 9))
    actions = [form.format(*each) for each in offered]
    text = "Actions:\n" + "\n".join(actions)
    asked = rng.sample(range(len(offered)), min(4, len(offered)))
    ways = ("{0} the {1} {2}", "{2} that is {1}: {0}", "{0} something {1} and {2}")
    return text, [("Goal: " + rng.choice(ways).format(*offered[i]), actions[i]) for i in asked]


def missing(rng: random.Random) -> Page:
    """See which step of a plan has not been taken, and which parts are still to be had."""
    steps = words(rng, rng.randint(3, 7))
    names = [f"{word}: {value}" for word, value in zip(steps, words(rng, 7), strict=False)]
    wanted = names if rng.random() < 0.5 else steps
    text = "Wanted: " + ", ".join(wanted)
    values = [each.split(": ")[-1] for each in wanted]
    order = rng.sample(values, len(values))
    questions = []
    for done in rng.sample(range(len(values)), min(4, len(values))):
        left = [value for value in values if value not in order[:done]]
        held = ", ".join(order[:done]) or "nothing"
        questions.append((f"Done: {held}. Next?", left[0]))
    return text, questions


def grid(rng: random.Random) -> Page:
    """Read cells, rows and neighbours of a grid of signs."""
    rows, columns = rng.randint(2, 6), rng.randint(2, 6)
    signs = rng.choice(("XO.", "#. @", "ABC.", "RGB-", "0123", "WM~"))
    cells = [[rng.choice(signs.replace(" ", "")) for _ in range(columns)] for _ in range(rows)]
    between = rng.choice(("", " ", " | "))
    named = rng.random() < 0.5
    lines = [(f"{i + 1} " if named else "") + between.join(row) for i, row in enumerate(cells)]
    questions = []
    for _ in range(4):
        i, j = rng.randrange(rows), rng.randrange(columns)
        questions.append((f"Row {i + 1}, column {j + 1}?", cells[i][j]))
    i, j = rng.randrange(rows - 1), rng.randrange(columns)
    questions.append((f"Below row {i + 1}, column {j + 1}?", cells[i + 1][j]))
    sign = rng.choice(cells[rng.randrange(rows)])
    first = next((r, row.index(sign)) for r, row in enumerate(cells) if sign in row)
    questions.append((f"The first {sign}?", f"row {first[0] + 1}, column {first[1] + 1}"))
    return "\n".join(lines), questions


KINDS: dict[str, Callable[[random.Random], Page]] = {
    function.__name__: function
    for function in (find, copy, count, compare, follow, choose, missing, grid)
}
"""The kinds of page, by name."""


def page(rng: random.Random, kind: str | None = None) -> Page:
    """Returns a page and questions (in random order) with their answers.

    Args:
        rng: random generator.
        kind: a key of `KINDS`. If None, a random one.
    """
    text, questions = KINDS[kind or rng.choice(list(KINDS))](rng)
    return text, rng.sample(questions, len(questions))
