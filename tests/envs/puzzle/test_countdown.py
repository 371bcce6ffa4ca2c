"""Countdown: evaluation of answers without eval, RAGEN's rewards, solvable tasks."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.puzzle.countdown import (
    LONGEST,
    Countdown,
    expression,
    expression_of,
    generate,
    readable,
    solve,
    steps,
    value,
)

NUMBERS = st.integers(0, 99).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-{text}"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_values_are_those_of_python(text: str):
    exact = "".join(f"F({p})" if p.isdigit() else p for p in _split(text))
    try:
        expected = eval(exact, {"F": Fraction})
    except ZeroDivisionError:
        expected = None
    assert value(text) == (expected if len(text) <= LONGEST else None)


def _split(text: str) -> list[str]:
    parts: list[str] = []
    for character in text:
        if character.isdigit() and parts and parts[-1].isdigit():
            parts[-1] += character
        else:
            parts.append(character)
    return parts


@pytest.mark.parametrize(
    "text",
    [
        *("1e3", "1/0", "(" * 1_000_000, "-" * 50, "9" * 10_000, "1;2", "__import__"),
        "",
        "()",
        "3 3",
        "2 ** 3",
        "7 // 2",
        "(1",
        "1)",
        "1 +",
        "* 2",
        "abs(3)",
        "1.5",
        "0x1",
        "٣",
        "x",
    ],
)
def test_what_is_no_expression_has_no_value(text: str):
    assert value(text) is None


@pytest.mark.parametrize(("count", "operators"), [(3, "+-"), (4, "+-"), (4, "+-*/"), (5, "+-*/")])
def test_every_task_can_be_solved_with_each_number_once(count: int, operators: str):
    used = set()
    for number in range(60):
        state = generate(f"train/{number}", count, operators)
        solution = solve(state.numbers, state.target)
        assert solution is not None and len(solution) == count - 1
        text = expression(solution)
        used |= set("+-*/") & set(text)
        assert value(text) == state.target and 10 <= state.target <= 999
        digits = sorted(int(part) for part in _split(text) if part.isdigit())
        assert digits == list(state.numbers)
    assert len(used) == 4 or operators == "+-"


def test_sums_and_differences_are_enough_as_in_ragen():
    for number in range(100):
        state = generate(f"test/{number}", 4, "+-")
        signs = product((1, -1), repeat=4)
        sums = [sum(s * n for s, n in zip(by, state.numbers, strict=True)) for by in signs]
        assert state.target in sums


def test_the_solver_finds_what_an_exhaustive_search_of_orders_finds():
    for numbers in [(1, 2, 3), (2, 2, 9), (3, 7, 50)]:
        reached = set()
        for a, b, c in permutations(numbers):
            for one, two in product("+-*/", repeat=2):
                for text in (f"({a} {one} {b}) {two} {c}", f"{a} {one} ({b} {two} {c})"):
                    parts = [value(text), value(text[text.index("(") : text.index(")") + 1])]
                    if all(p is not None and p >= 0 and p.denominator == 1 for p in parts):
                        reached.add(parts[0])
        for target in range(200):
            assert (solve(numbers, target) is not None) == (target in reached), (numbers, target)


def ask(numbers: tuple[int, ...], target: int, **kwargs) -> Countdown:
    env = Countdown(**kwargs)
    env.reset(seed=0)
    env.state.numbers, env.state.given, env.state.target = numbers, len(numbers), target
    return env


@pytest.mark.parametrize(
    ("answer", "task", "form", "valid"),
    [
        ("44 + 19 + 35", 1, 0, True),
        (" 35+(44+19) ", 1, 0, True),
        ('"44 + 19 + 35".', 1, 0, True),
        ("44 + 19 - 35", 0, 0.1, True),
        ("44 19 35", 0, 0.1, True),
        ("44 / (19 - 19) + 35", 0, 0, False),
        ("35 / (44 - 44) + 19", 0, 0, False),
        ("44 + 54", 0, 0, True),
        ("98", 0, 0, True),
        ("44 + 19 + 35 = 98", 0, 0, False),
        ("the answer", 0, 0, False),
    ],
)
def test_the_rewards_of_ragen(answer: str, task: float, form: float, valid: bool):
    env = ask((19, 35, 44), 98)
    _, _, terminated, truncated, info = env.step(answer)
    assert info["reward_terms"] == {"task": task, "format": form, "invalid": 0.0}
    assert (info["valid"], info["success"]) == (valid, task == 1)
    assert terminated == valid and not truncated


@pytest.mark.parametrize(
    "answer",
    [
        "44 + 19 \u2212 35",
        "[44 + 19] \u2013 35",
        r"\boxed{44 + 19 - 35}",
        "Answer: 44 + 19 - 35",
        "**44 + 19 - 35**",
        r"$\left(44 + 19\right) - 35$",
        "\uff14\uff14 + 19 - 35",
        "The answer is 44 + 19 - 35.",
    ],
)
def test_usual_forms_of_an_expression_are_read(answer: str):
    env = ask((19, 35, 44), 28)
    assert env.step(answer)[4]["success"]


@pytest.mark.parametrize(
    "answer", ["44 + 19 \u2295 35", "44, 19, 35", r"\sqrt{44} + 19 + 35", "44 + 19 or 35", "x = 98"]
)
def test_an_unreadable_answer_does_not_use_up_the_only_one(answer: str):
    env = ask((19, 35, 44), 98)
    _, reward, terminated, _, info = env.step(answer)
    assert not info["valid"] and not terminated and reward == 0
    assert env.step("44 + 19 + 35")[4]["success"]


@given(
    st.sampled_from(
        ["\u00d7 \u2715 \u22c5 \u00b7 \u2217", "\u2212 \u2013 \uff0d \u2010", "\u00f7 \u2215"]
    ),
    st.data(),
)
def test_signs_in_typographic_variants_have_the_same_value(signs: str, data):
    sign = data.draw(st.sampled_from(signs.split()))
    plain = {"\u00d7": "*", "\u2212": "-", "\u00f7": "/"}[signs[0]]
    text = data.draw(EXPRESSIONS).replace(plain, sign)
    assert value(readable(text)) in (None, value(text.replace(sign, plain)))


def test_progress_is_how_near_the_answer_is():
    for answer, progress in [("44+19+35", 1.0), ("44+35-19", 1 - 38 / 98), ("44*35*19", 0.0)]:
        assert ask((19, 35, 44), 98).step(answer)[4]["progress"] == pytest.approx(progress)


def test_steps_replace_two_numbers_by_what_they_make():
    env = ask((3, 4, 4, 9), 30, steps=True, max_turns=20)
    for action, said in [
        ("3 + 5", "no 5"),
        ("9 + 9", "no 9"),
        ("3 - 9", "negative"),
        ("9 / 4", "not whole"),
        ("twelve", "for example"),
        ("3 * 9 * 4", "for example"),
        ("9 ** 3", "for example"),
    ]:
        text, reward, *_, info = env.step(action)
        assert said in text and not info["valid"] and reward == 0
    text, *_, info = env.step("3 \u00d7 9")
    assert text == "Numbers: 4, 4, 27. Target: 30." and info["progress"] == 0
    assert "4 / 4" in info["admissible"] and "27 / 4" not in info["admissible"]
    env = ask((3, 4, 4, 9), 28, steps=True)
    progress = [env.step(action)[4]["progress"] for action in ("9*3", "4/4", "27+1")]
    assert progress == [1 / 3, 2 / 3, 1] and env.snapshot()["over"]


def test_every_admissible_step_is_valid_and_no_other_pair_is():
    env = Countdown(steps=True, operators="+-*/")
    _, info = env.reset(seed=3)
    snapshot = env.snapshot()
    assert set(info["admissible"]) == {f"{a} {o} {b}" for (a, o, b), _ in steps(env.state.numbers)}
    for action in info["admissible"]:
        assert env.step(action)[4]["valid"]
        env.restore(snapshot)


def test_the_expert_finds_an_answer_where_there_is_one():
    env = Countdown(steps=True, numbers=5, operators="+-*/")
    for number in range(10):
        env.reset(seed=0, options={"task": f"test/{number}"})
        rewards = [env.step(str(env.expert()))[1] for _ in range(4)]
        assert rewards == [0, 0, 0, 1]
    assert ask((1, 1, 1), 500, steps=True).expert() is None


@pytest.mark.parametrize(
    "kwargs",
    [
        *({"numbers": 2}, {"operators": "/"}, {"operators": "+^"}),
        {"operators": "**", "numbers": 5},  # one in 100,000 products of 5 numbers is a target
    ],
)
def test_impossible_arguments_are_refused(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        Countdown(**kwargs)


@given(EXPRESSIONS.filter(lambda text: len(text) < 40), st.integers(-3, 3))
def test_an_equation_is_its_expression_if_it_is_true(text: str, off: int):
    result = value(text)
    assert expression_of(text) == text
    assert expression_of(f"{text} =") == ""
    if result is not None and result.denominator == 1 and result + off >= 0:
        for equation in (f"{text} = {result + off}", f"{result + off} = {text}"):
            assert expression_of(equation) == ("" if off else text)
        assert expression_of(f"{text} = {result} = {result + off}") == ("" if off else text)


@pytest.mark.parametrize(
    ("action", "rest"),
    [
        ("94 - 10 = 84", (11, 69, 84)),
        ("84 = 94 - 10", (11, 69, 84)),
        ("**94 \u2212 10 = 84**", (11, 69, 84)),
        ("94 - 10 = 85", None),
        ("94 - 10 = 70 + 14", None),
        ("94 - 10 = 84, 84 * 11 = 924", None),
        ("94 - 10 = 84\n84 * 11 = 924", None),
        ("94 - 10 =", None),
    ],
)
def test_a_step_may_name_its_result(action: str, rest: tuple[int, ...] | None):
    env = Countdown(steps=True)
    env.reset(seed=0)
    env.state.numbers = (10, 11, 69, 94)
    assert env.step(action)[4]["valid"] == (rest is not None)
    assert env.state.numbers == (rest or (10, 11, 69, 94))


@pytest.mark.parametrize(
    "form",
    ["Expression: {}", "**My answer is:** {}", "Final action: {}", "[{}]", "<answer>{}</answer>"],
)
def test_an_expression_may_have_a_label(form: str):
    assert readable(form.format("(3 + 7) * 5 - 2")) == "(3 + 7) * 5 - 2"


def test_an_equation_is_told_to_be_an_expression():
    env = Countdown()
    env.reset(seed=0)
    text, _, ended, _, info = env.step("1 + 2 = 3")
    assert "Leave out = and the result." in text and not info["valid"] and not ended
    assert "Leave out" not in env.step("no idea")[0]
