"""Calls of an environment under certification: time limits, and what authors may do."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest

from agentgym.certify import Budget, certify
from agentgym.certify.calls import Calls
from agentgym.time_limits import CallTimeout
from agentgym.time_step import TimeStep
from tests.certify.planted import endless
from tests.helpers.echo import Echo


class EndlessStart(Echo):
    """Is never made."""

    def __init__(self, **kwargs: Any):
        endless()


class EndlessText(Echo):
    """Never says what it hides."""

    def privileged_text(self) -> str | None:
        endless()


class Leaving(Echo):
    """Ends the process in its first step."""

    def _advance(self, action: str) -> TimeStep:
        sys.exit(3)


def test_an_environment_that_is_never_made_is_a_finding():
    report = certify("tests.certify.test_calls:EndlessStart", budget=Budget(call_seconds=0.1))
    assert report.verdict == "fail"
    assert "took more than 0.1 s: make_text_env" in report.results[0].evidence[0]


def test_an_environment_that_ends_the_process_is_a_finding():
    report = certify("tests.certify.test_calls:Leaving")
    assert "ends the process: SystemExit(3)" in report.results[0].evidence[0]


def test_hidden_facts_have_a_time_limit():
    env = Calls(0.1).limit(EndlessText())
    with pytest.raises(CallTimeout, match=r"took more than 0\.1 s: privileged_text\(\)"):
        env.privileged_text()


def test_a_copy_of_a_limited_environment_plays_by_itself():
    """Experts look ahead in copies of their environment."""
    env = Calls(10.0).limit(Echo())
    env.reset(seed=0)
    copy.deepcopy(env).step("a")
    assert env.state.said == [] and type(env).__name__ == "Echo"
