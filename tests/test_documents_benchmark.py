"""The benchmark of own documents: its questions, and the difference of two policies."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from agentgym.evaluation.runner import evaluate
from benchmarks.learning import own_documents

QUESTIONS = 6
SOLVED = st.sets(st.sampled_from([f"question/{i}" for i in range(QUESTIONS)]))


@given(st.lists(st.tuples(SOLVED, SOLVED), min_size=2, max_size=4))
def test_the_difference_is_that_of_the_shares(solved: list[tuple[set[str], set[str]]]):
    runs = [{"clone": {"solved": [*a]}, "RL": {"solved": [*b]}} for a, b in solved]
    mean, low, high = own_documents.difference(runs, QUESTIONS)
    shares = [(len(b) - len(a)) / QUESTIONS for a, b in solved]
    assert mean == pytest.approx(sum(shares) / len(shares), abs=1e-3)
    assert low <= mean <= high


def test_the_expert_answers_the_questions_and_a_constant_does_not(tmp_path: Path):
    files = own_documents.write_documents(tmp_path)
    constant = own_documents.constant_answer(files)
    assert 0 < constant["success"] < 0.5 and constant["questions"]["test"] > 50
    report = evaluate(own_documents.ENV, "expert", tasks=20, env_kwargs=files)
    assert all(episode.success and episode.turns < 4 for episode in report.episodes)
