"""Evidence: the judge reads what is cited, and nothing else."""

from __future__ import annotations

import re

import pytest

from agentgym.data.episode import RecordedEpisode
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.wrappers import Evidence
from agentgym.wrappers.evidence import CLAIM

READ: list[RecordedEpisode] = []


def near(episode: RecordedEpisode) -> float:
    """Accepts a cited observation one step from the target."""
    READ.append(episode)
    numbers = [map(int, re.findall(r"\d+", turn.observation)[:2]) for turn in episode.turns]
    return max(float(abs(a - b) == 1) for a, b in numbers)


def make() -> tuple[Evidence, str]:
    READ.clear()
    env = Evidence(NumberLine(size=9, invalid_penalty=0.5), f"{__name__}:near", size=2)
    for number in range(50):
        text, _ = env.reset(seed=0, options={"task": f"train/{number}"})
        position, target = map(int, re.findall(r"\d+", text)[1:3])
        if abs(position - target) == 3:
            return env, text
    raise AssertionError("there is such a task")


def test_the_judge_reads_the_first_and_the_cited_observations_alone():
    env, first = make()
    assert first.startswith("Observation 0:\nYou are at ")
    before = env.step(str(env.get_wrapper_attr("expert")()))[0]
    near_end = env.step(str(env.get_wrapper_attr("expert")()))[0]
    text, reward, *_, info = env.step(" Cite 2 ")
    assert text == f"{near_end}\nCited: 2." and reward == 0 and info["cited"] == (2,)
    assert info["turn"] == 2 and info["valid"]
    _, reward, terminated, _, info = env.step(str(env.get_wrapper_attr("expert")()))
    assert terminated and reward == 2 and info["reward_terms"]["evidence"] == 1
    [episode] = READ
    shown = [
        f"Observation {n}:\n{turn.observation}"
        for n, turn in zip((0, 2), episode.turns, strict=True)
    ]
    assert shown == [first, near_end] and before not in shown
    assert episode.turns[-1].action == CLAIM and episode.instructions == NumberLine.instructions


def test_bad_or_no_evidence_has_no_reward():
    env, _ = make()
    env.step("cite 0")
    while True:
        _, reward, terminated, *_ = env.step(str(env.get_wrapper_attr("expert")()))
        if terminated:
            break
    assert reward == 1 and len(READ) == 1
    env, _ = make()
    results = [env.step(str(env.get_wrapper_attr("expert")())) for _ in range(3)]
    assert results[-1][2] and results[-1][4]["reward_terms"]["evidence"] == 0 and not READ


def unread(episode: RecordedEpisode) -> None:
    """Gives no verdict."""


def test_evidence_without_a_readable_verdict_marks_the_episode_alone():
    env, _ = make()
    env.judge = f"{__name__}:unread"
    steps = [env.step("cite 0")]
    steps += [env.step(str(env.get_wrapper_attr("expert")())) for _ in range(2)]
    assert not any("unjudged" in step[4] for step in steps)
    with pytest.warns(RuntimeWarning, match="test_evidence:unread cannot be read"):
        _, reward, terminated, _, info = env.step(str(env.get_wrapper_attr("expert")()))
    assert terminated and reward == 1 and info["reward_terms"]["evidence"] == 0
    assert info["unjudged"]


def test_citations_are_of_observations_once_and_few():
    env, _ = make()
    env.step("+")
    for number, valid in ((7, False), (0, True), (0, False), (1, True), (2, False)):
        _, reward, *_, info = env.step(f"cite {number}")
        assert info["valid"] == valid and reward == (0 if valid else -0.5)
    twin = Evidence(NumberLine(size=9, invalid_penalty=0.5), f"{__name__}:near", size=2)
    assert twin.restore(env.snapshot())[1]["cited"] == (0, 1)


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match="size must be at least 1"):
        Evidence(NumberLine(), f"{__name__}:near", size=0)
    with pytest.raises(ConfigError):
        Evidence(NumberLine(), "expert")
