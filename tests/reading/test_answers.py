"""The one answer of a reply."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.reading import NotUnderstood, final_answer, parse_number

FORMS = (
    "{}", "**{}**", "The answer is {}.", "Answer: {}", "Final answer: **{}**", "**Answer:** {}",
    r"\boxed{B}", r"So we get $\boxed{B}$. I hope it is correct.", "#### {}", "```\n{}\n```",
    "<think>Answer: 3, or 4</think>{}", "{}<|im_end|>Answer: 99", "<answer>{}</answer>",
    "2 + 2 = 4, so\nAnswer: {}", "= {}", "Thus, the final answer is {}", "### Answer\n{}",
    "Answer:\n\n{}", "The answer is: {}", "It costs 3 + 4. #### {}", "So it is less.#### {} ",
    "First I add them.\nA: {}", "#### Step 1\nI add 3 and 4.\n\n#### Step 2\nAnswer: {}",
    "Answer:\n#### {}", "The answer is {} #### {}", "#### {}\n\nI hope this helps!",
)  # fmt: skip


@settings(deadline=None)
@given(st.integers(-999, 999), st.sampled_from(FORMS[:16] + FORMS[17:]))
def test_an_answer_is_found_in_every_form(number: int, form: str):
    text = form.replace("{B}", f"{{{number}}}").replace("{}", str(number))
    assert parse_number(final_answer(text)) == number
    assert parse_number(final_answer(text.replace("-", "−"))) == number


def test_a_calculation_leads_to_an_answer():
    assert final_answer("Two of 3 are left, so 2 * 4 = 8 apples\nA: 8") == "8"
    assert final_answer("B: 2 * 4 = 8\nA: 8").startswith("B: 2")


def test_choices_are_no_answers():
    assert final_answer("Which one?\nA: 3\nB: 4").startswith("Which one?")
    assert final_answer("Which one?\nB: 4\nA: 3").startswith("Which one?")
    for said in (
        "C: 4.\nA: 3",
        "Options:\nA: 3",
        "Player B scored.\nA: 3",
        "b) 3.\nA: 4",
        "I said\nA: 7",
    ):
        assert final_answer(said) == said


@pytest.mark.parametrize("lead", ["Not", "It is not", "I doubt it", "If not,", "so"])
def test_hashes_within_a_sentence_are_no_label(lead: str):
    assert final_answer(f"{lead} #### 7") == f"{lead} #### 7"
    with pytest.raises(NotUnderstood):
        final_answer("The answer is 5 #### 7")


def test_an_expression_keeps_its_form():
    assert final_answer("Answer: (3 + 4) * 2") == "(3 + 4) * 2"


@pytest.mark.parametrize(
    "text",
    ["Answer: 5\nAnswer: 6", r"\boxed{5} or \boxed{6}", "Answer: 5\nWait, Answer: 6",
     "The answer is 5. No, actually, the answer is 6."],
)  # fmt: skip
def test_two_answers_are_refused(text: str):
    with pytest.raises(NotUnderstood, match="one answer"):
        final_answer(text)


@pytest.mark.parametrize("text", ["7 or 8", "I think 7", "Answer: not 7", "Answer: 7 or 8", "7 8"])
def test_an_answer_with_more_is_kept_whole(text: str):
    assert parse_number(final_answer(text)) is None


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_has_an_answer_or_is_refused(text: str):
    try:
        assert isinstance(final_answer(text), str)
    except NotUnderstood as reason:
        assert "one answer" in str(reason)


@pytest.mark.parametrize("piece", ["Answer: ", "\\boxed{", "#### ", "<answer>", "{", "**", "= "])
def test_hostile_texts_are_read_in_linear_time(piece: str):
    with suppress(NotUnderstood):
        final_answer(piece * (100_000 // len(piece)))
