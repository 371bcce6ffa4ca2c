"""Generated specifications of functions, with reference programs and tests."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentgym.envs.code.judge import Call
from agentgym.tasks import draw_level, task_rng

NAME = "solve"
LEVELS = {"easy": 1, "medium": 2, "hard": 3, "mixed": 0}
"""Number of steps between the input and the result. "mixed": 1 to 3."""
_AMBIGUOUS = re.compile(r"Append to each word.*letters?\b(?! e| and digits)", re.DOTALL)
"""A step about the letters of words to which digits were appended."""
PUBLIC = 3
HIDDEN = 12
_WORDS = (
    "apple river stone anna window eagle paper level otter garden signal radar iris market kayak "
    "engine winter copper ocean uncle valley pencil bridge harbor silver basket arena candle"
).split()

Part = tuple[str, str]
"""A step of a specification: its text and its Python expression, with {k} for a number."""

# What a function takes: its parameter, the text, and the values as a list.
_NUMBER_SOURCES: dict[str, tuple[str, Part]] = {
    "list": ("numbers", ("takes a list of integers. Start with the numbers in it.", "numbers")),
    "digits": (
        "n",
        ("takes an integer n >= 0. Start with its decimal digits.", "[int(c) for c in str(n)]"),
    ),
    "divisors": (
        "n",
        (
            "takes an integer n >= 1. Start with its divisors in ascending order.",
            "[d for d in range(1, n + 1) if n % d == 0]",
        ),
    ),
    "range": (
        "n",
        ("takes an integer n >= 0. Start with the integers from 1 to n.", "list(range(1, n + 1))"),
    ),
}
_WORD_SOURCES: dict[str, tuple[str, Part]] = {
    "words": ("words", ("takes a list of words. Start with the words in it.", "words")),
    "text": ("text", ("takes a text. Start with its words, separated by spaces.", "text.split()")),
}
# Steps on a list `values`: x is a value and i its position, counted from 0.
_NUMBER_STEPS: tuple[Part, ...] = (
    ("Keep the numbers that are divisible by {k}.", "[x for x in values if x % {k} == 0]"),
    ("Remove the numbers that are divisible by {k}.", "[x for x in values if x % {k} != 0]"),
    ("Keep the numbers greater than {k}.", "[x for x in values if x > {k}]"),
    ("Remove the numbers greater than 2 * {k}.", "[x for x in values if x <= 2 * {k}]"),
    ("Keep the odd numbers.", "[x for x in values if x % 2 == 1]"),
    ("Remove the first and the last number.", "values[1:-1]"),
    ("Keep every second number, beginning with the first.", "values[::2]"),
    ("Reverse the order.", "values[::-1]"),
    ("Square each number.", "[x * x for x in values]"),
    ("Add {k} to each number.", "[x + {k} for x in values]"),
    ("Multiply each number by {k}.", "[x * {k} for x in values]"),
    ("Replace each number by its remainder on division by {k}.", "[x % {k} for x in values]"),
    (
        "Multiply each number by its position, counted from 1.",
        "[x * (i + 1) for i, x in enumerate(values)]",
    ),
    ("Replace each number greater than {k} by {k}.", "[min(x, {k}) for x in values]"),
    ("Change the sign of the odd numbers.", "[-x if x % 2 else x for x in values]"),
    (
        "Replace each number by the sum of the decimal digits of its absolute value.",
        "[sum(int(c) for c in str(abs(x))) for x in values]",
    ),
    (
        "Replace the list by the sums of neighbours (one fewer than numbers, or none).",
        "[a + b for a, b in zip(values, values[1:])]",
    ),
    (
        "Replace each number by the total of all numbers up to and including it.",
        "[sum(values[: i + 1]) for i in range(len(values))]",
    ),
    (
        "Remove each number that occurred before.",
        "[x for i, x in enumerate(values) if x not in values[:i]]",
    ),
    ("Sort the numbers in ascending order.", "sorted(values)"),
)
_NUMBER_RESULTS: tuple[Part, ...] = (
    ("the list", "values"),
    ("the sum", "sum(values)"),
    ("the number of values", "len(values)"),
    ("the number of different values", "len(set(values))"),
    ("the largest number, or 0 if there is none", "max(values, default=0)"),
    ("the smallest number, or 0 if there is none", "min(values, default=0)"),
    (
        "the largest number minus the smallest, or 0 if there is none",
        "max(values, default=0) - min(values, default=0)",
    ),
    ("the sum of the {k} largest numbers (of all, if fewer)", "sum(sorted(values)[-{k}:])"),
    ("the list, sorted in descending order", "sorted(values, reverse=True)"),
    (
        "the list, sorted by remainder on division by {k} and then by value",
        "sorted(values, key=lambda x: (x % {k}, x))",
    ),
    (
        "the number of values that are greater than the value before them",
        "sum(1 for a, b in zip(values, values[1:]) if b > a)",
    ),
    (
        "the most frequent number (the smallest of several, 0 if there is none)",
        "min(values, key=lambda x: (-values.count(x), x), default=0)",
    ),
    (
        "the second largest of the different numbers, or 0 if there are fewer than two",
        "(sorted(set(values), reverse=True) + [0, 0])[1] if len(set(values)) > 1 else 0",
    ),
    (
        'a dictionary with the number of even values as "even" and of odd values as "odd"',
        '{{"even": sum(1 for x in values if x % 2 == 0), '
        '"odd": sum(1 for x in values if x % 2 == 1)}}',
    ),
)
_WORD_STEPS: tuple[Part, ...] = (
    ("Keep the words with more than {k} letters.", "[x for x in values if len(x) > {k}]"),
    ("Keep the words with at most {k} + 2 letters.", "[x for x in values if len(x) <= {k} + 2]"),
    (
        "Keep the words that begin with a vowel (a, e, i, o, u).",
        '[x for x in values if x[:1].lower() in list("aeiou")]',
    ),
    (
        "Remove the words that contain the letter e.",
        '[x for x in values if "e" not in x.lower()]',
    ),
    (
        "Keep the words with an even number of letters.",
        "[x for x in values if len(x) % 2 == 0]",
    ),
    ("Remove the first word.", "values[1:]"),
    ("Reverse each word.", "[x[::-1] for x in values]"),
    ("Change each word to capital letters.", "[x.upper() for x in values]"),
    ("Shorten each word to its first {k} letters.", "[x[:{k}] for x in values]"),
    ("Remove the first letter of each word.", "[x[1:] for x in values]"),
    ("Double the last letter of each word.", "[x + x[-1:] for x in values]"),
    (
        "Append to each word its position, counted from 1.",
        "[x + str(i + 1) for i, x in enumerate(values)]",
    ),
    (
        "Remove each word that occurred before.",
        "[x for i, x in enumerate(values) if x not in values[:i]]",
    ),
    ("Sort the words alphabetically.", "sorted(values)"),
)
_WORD_RESULTS: tuple[Part, ...] = (
    ("the list", "values"),
    ('the words, joined with "-"', '"-".join(values)'),
    ("the words in reverse order, joined with spaces", '" ".join(values[::-1])'),
    ("the total number of letters and digits", "sum(len(x) for x in values)"),
    ("the first letters as one text", '"".join(x[:1] for x in values)'),
    (
        "the longest word (the first of several, an empty text if there is none)",
        'max(values, key=len, default="")',
    ),
    (
        "the list, sorted by length and then alphabetically",
        "sorted(values, key=lambda x: (len(x), x))",
    ),
    ("the list of lengths", "[len(x) for x in values]"),
    (
        "the number of different letters in all words together",
        'len(set("".join(values)))',
    ),
    (
        "a dictionary from each first letter to the number of words that begin with it",
        "{{x[0]: sum(1 for y in values if y[:1] == x[0]) for x in values if x}}",
    ),
    (
        "the number of words that occur later in the alphabet than the word before them",
        "sum(1 for a, b in zip(values, values[1:]) if b > a)",
    ),
)


@dataclass(frozen=True)
class Function:
    """A function to write.

    Attributes:
        text: the specification.
        program: the reference program.
        public: the tests that are shown.
        hidden: the tests that decide.
        constant: number of hidden tests that the best constant answer passes.
    """

    text: str
    program: str
    public: tuple[Call, ...]
    hidden: tuple[Call, ...]
    constant: int


def _draw_source(rng: random.Random, level: str) -> tuple[str, str, str]:
    """Samples the kind of input, the specification and the reference program."""
    kind = rng.choice((*_NUMBER_SOURCES, "list", "list", *_WORD_SOURCES, *_WORD_SOURCES))
    on_words = kind in _WORD_SOURCES
    parameter, (intro, start) = (_WORD_SOURCES if on_words else _NUMBER_SOURCES)[kind]
    steps = rng.sample(
        _WORD_STEPS if on_words else _NUMBER_STEPS, LEVELS[level] or rng.randint(1, 3)
    )
    result = rng.choice(_WORD_RESULTS if on_words else _NUMBER_RESULTS)
    lines, code = [f"{NAME}({parameter}) {intro}"], [f"values = {start}"]
    for number, (text, expression) in enumerate(steps, start=1):
        k = rng.randint(2, 5)
        lines.append(f"{number}. {text.format(k=k)}")
        code.append(f"values = {expression.format(k=k)}")
    k = rng.randint(2, 3)
    lines.append(f"{len(steps) + 1}. Return {result[0].format(k=k)}.")
    code.append(f"return {result[1].format(k=k)}")
    body = "\n".join(f"    {line}" for line in code)
    return kind, "\n".join(lines), f"def {NAME}({parameter}):\n{body}\n"


_INPUTS: dict[str, Callable[[random.Random], Any]] = {
    "list": lambda rng: [rng.randint(-9, 20) for _ in range(rng.randint(3, 9))],
    "digits": lambda rng: rng.randint(10, 10 ** rng.randint(3, 8)),
    "divisors": lambda rng: rng.randint(2, 12) * rng.randint(1, 20),
    "range": lambda rng: rng.randint(3, 25),
    "words": lambda rng: rng.choices(_WORDS, k=rng.randint(2, 7)),
    "text": lambda rng: " ".join(rng.choices(_WORDS, k=rng.randint(2, 7))),
}
_EDGES: dict[str, tuple[Any, ...]] = {
    "list": ([], [4], [7, 7, 7]),
    "digits": (0, 7),
    "divisors": (1, 13),
    "range": (0, 1),
    "words": ([], ["a"], ["otter", "otter"]),
    "text": ("", "a", "level level"),
}


def _calls(rng: random.Random, kind: str, program: str) -> list[Call]:
    """Returns different calls with their results under the reference program, edge cases last."""
    scope: dict[str, Any] = {}
    exec(program, scope)  # a reference program of this module, not of an agent
    inputs: list[Any] = []
    for _ in range(200):
        value = _INPUTS[kind](rng)
        if value not in inputs:
            inputs.append(value)
        if len(inputs) == PUBLIC + HIDDEN - len(_EDGES[kind]):
            break
    inputs += [value for value in _EDGES[kind] if value not in inputs]
    results = [json.loads(json.dumps(scope[NAME](value))) for value in inputs]
    return [Call(f"{NAME}({v!r})", result) for v, result in zip(inputs, results, strict=True)]


def draw_function(rng: random.Random, level: str) -> Function:
    """Samples functions until a constant answer passes at most a third of the hidden tests."""
    while True:
        kind, text, program = _draw_source(rng, level)
        if _AMBIGUOUS.search(text):
            continue
        calls = _calls(rng, kind, program)
        public, hidden = calls[:PUBLIC], calls[PUBLIC:]
        counts = Counter(json.dumps(call.expected, sort_keys=True) for call in hidden)
        constant = counts.most_common(1)[0][1]
        shown = {json.dumps(call.expected) for call in public}
        if 3 * constant <= len(hidden) and len(shown) > 1:
            return Function(text, program, tuple(public), tuple(hidden), constant)


@lru_cache(maxsize=4096)
def function_of(task: str, level: str) -> Function:
    """Returns the function of a task. No training function has the text of a test function."""
    rng = random.Random(int(task_rng(task, f"function {level}").integers(2**63)))
    found: dict[str, Function] = {}

    def draw() -> str:
        function = draw_function(rng, level)
        return found.setdefault(function.text, function).text

    return found[draw_level(task, draw)]
