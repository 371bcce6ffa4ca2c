"""Judges of episodes: rubrics, strict reading, kept answers, juries, and their agreement."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.cli.judging import Judgement
from agentgym.cli.main import main
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.data.reading import read_episodes
from agentgym.errors import ConfigError
from agentgym.evaluation.agreement import Agreement
from agentgym.evaluation.report import Record
from agentgym.judges import CAUSES, Rubric, Verdict, make_judge, read_rubric
from agentgym.judges.judge import joined
from agentgym.judges.rubric import Criterion
from agentgym.judges.verdict import UNREADABLE, read_verdict
from agentgym.trainers.rewards.chat_judge import ChatJudge

from ..helpers.chat_server import ChatServer, Messages, chat_server

RUBRIC = Rubric((Criterion("goal", "Is it reached?", 3), Criterion("Short way", "Is it short?")))


def episode(action: str = "+", turns: int = 3) -> RecordedEpisode:
    steps = [RecordedTurn(f"see {i}", action, float(i == turns - 1)) for i in range(turns)]
    return RecordedEpisode(steps, "The rules.", success=True, last_observation="The end.")


@pytest.mark.parametrize(
    "reply",
    [
        "1: 8\n2: 4",
        "- **goal**: 8/10\n- **Short way**: 4",
        "1. goal: 8\n2. short way = 4.0\ncause: none",
        "<think>\n1: 2\n2: 2\n</think>\n\n1: 8\n2: 4",
        "The way was long.\n\n  1: 8\n  2: 4\n  1: 8",
    ],
)
def test_replies_with_one_score_of_each_criterion_are_read(reply: str):
    found = read_verdict(reply, RUBRIC, 3)
    assert found.scores == {"goal": 0.8, "Short way": 0.4}
    assert found.score == pytest.approx(0.7) and found.success and found.cause == ""


@pytest.mark.parametrize(
    "reply",
    [
        *("", "1: 8", "8, 4", "1: 8\n2: 11", "1: 8\n2: -4", "1: 8\n2: 4\n2: 5", "1: 8 2: 4"),
        *("1: 8\n2: 4 of 100", "1: 8\n2: 4,5", "1: 8\n3: 4", "1: 8\n2: four", "goal: 8\nShort: 4"),
        *("<think>1: 8\n2: 4", "1: 8\n2: 4/100", "1: 8\n2: 3-4", "1: 8" + " " * 9999 + "\n2: x"),
    ],
)
def test_other_replies_are_unreadable_and_never_zero(reply: str):
    assert read_verdict(reply, RUBRIC, 3) == UNREADABLE
    assert UNREADABLE.score is None and UNREADABLE.success is None


@given(st.text("0123456789:./- \ngoalShrtwyce", max_size=80))
def test_any_reply_is_read_or_refused_as_a_whole(reply: str):
    found = read_verdict(reply, RUBRIC, 3)
    assert (found.score is None) == (found.scores == {}) == (len(found.scores) != 2)


@pytest.mark.parametrize(
    ("lines", "cause", "turn"),
    [
        ("cause: Planning\nturn: 3", "planning", 3),
        ("**Cause**: memory.\nTurn: none", "memory", None),
        ("cause: hunger\nturn: 4", "", None),
        ("cause: memory\ncause: action\nturn: 1", "", 1),
        ("", "", None),
    ],
)
def test_causes_are_read_by_themselves(lines: str, cause: str, turn: int | None):
    found = read_verdict(f"1: 2\n2: 2\n{lines}", RUBRIC, 3)
    assert (found.success, found.cause, found.turn) == (False, cause, turn)
    assert read_verdict(f"1: 9\n2: 9\n{lines}", RUBRIC, 3).cause == ""


def test_rubrics_are_texts_or_json(tmp_path: Path):
    text = tmp_path / "rubric.md"
    text.write_text(
        "# A good agent\n\n- goal (weight 3): Is it reached?\n* Short way: Is it short?\n"
        "Be strict.\nOutcome: shown\n"
    )
    found = read_rubric(text)
    assert found.criteria == RUBRIC.criteria and found.outcome
    assert found.text == "# A good agent\n\nBe strict."
    file = tmp_path / "rubric.json"
    goal = {"name": "goal", "text": "Is it reached?", "weight": 3}
    short = {"name": "Short way", "text": "Is it short?"}
    file.write_text(json.dumps({"criteria": [goal, short]}))
    assert read_rubric(file) == RUBRIC
    text.write_text("Is the answer polite?\n")
    assert read_rubric(text) == Rubric((Criterion("quality", "Is the answer polite?"),))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.md", " \n"),
        ("weight.md", "- goal (0): Is it reached?"),
        ("words.md", "- goal (heavy): Is it reached?"),
        ("twice.md", "- goal: a\n- Goal: b"),
        ("taken.md", "- cause: Why did it fail?"),
        ("outcome.md", "- goal: a\noutcome: maybe"),
        ("list.json", "[]"),
        ("none.json", '{"criteria": []}'),
        ("key.json", '{"criteria": [{"name": "a", "text": "b", "wait": 2}]}'),
        ("damaged.json", '{"criteria": '),
    ],
)
def test_wrong_rubrics_are_refused(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="rubric"):
        read_rubric(tmp_path / name)
    with pytest.raises(ConfigError, match="cannot be read"):
        make_judge(f"rubric={tmp_path / 'missing'}:chat:m@http://127.0.0.1:9/v1")


def short_ones(episode: RecordedEpisode) -> float | None:
    """Prefers short episodes and has no judgement of very short ones."""
    return None if len(episode.turns) == 1 else 1 / len(episode.turns)


def planner(episode: RecordedEpisode) -> Verdict:
    return Verdict(0.0, {}, "planning", 2)


def wrong(episode: RecordedEpisode) -> float:
    return 7.0


def test_functions_are_judges_and_several_are_a_jury():
    short = make_judge(f"{__name__}:short_ones")
    found = short([episode(turns=n) for n in (1, 2, 4)])
    assert [each.score for each in found] == [None, 0.5, 0.25]
    jury = make_judge(*[f"{__name__}:{name}" for name in ("short_ones", "planner", "planner")])
    [verdict] = jury([episode(turns=2)])
    assert verdict == Verdict(pytest.approx(1 / 6), {}, "planning", 2)  # type: ignore[arg-type]
    assert jury.name.count(" + ") == 2
    with pytest.raises(ConfigError, match=r"score in \[0, 1\]"):
        make_judge(f"{__name__}:wrong")([episode()])
    for source in ("nobody", "rubric=x", f"{__name__}:missing"):
        with pytest.raises(ConfigError):
            make_judge(source)


def test_a_jury_needs_more_than_half_of_its_members():
    half = [Verdict(1.0), UNREADABLE]
    assert joined(half) == UNREADABLE
    assert joined([*half, Verdict(0.5)]).score == 0.75
    assert joined([Verdict(0.0, {}, "memory"), Verdict(0.2, {}, "action", 3)]).cause == "memory"


def grade(messages: Messages) -> str:
    """Accepts episodes whose last observation ends the search, and cannot read one task."""
    text = messages[-1]["content"]
    if "unreadable" in text:
        return "I cannot tell."
    return "1: 9" if "The end." in text or "+" in text[-300:] else "1: 1\ncause: action\nturn: 1"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with chat_server(grade) as running:
        yield running


def test_a_model_reads_the_rubric_and_the_episode_and_is_asked_once(
    server: ChatServer, tmp_path: Path
):
    source = f"chat:m@{server.url}"
    episodes = [episode("+"), episode("unreadable"), episode("+")]
    found = make_judge(source)(episodes)
    assert [each.score for each in found] == [0.9, None, 0.9]
    assert len(server.requests) == 2  # equal episodes are judged once
    system, user = (message["content"] for message in server.requests[0])
    assert all(cause in system for cause in CAUSES) and "1. task: " in system
    assert user.startswith("The rules.\n\nTurn 1\n\nObservation: see 0\n\nAction: ")
    assert user.endswith("Last observation: The end.")  # blind to the outcome
    assert make_judge(source)(episodes) == found and len(server.requests) == 2  # kept
    (rubric := tmp_path / "rubric.md").write_text("- goal: Is it reached?\noutcome: shown")
    make_judge(f"rubric={rubric}:{source}")(episodes[:1])
    system, user = (message["content"] for message in server.requests[-1])
    assert "1. goal: Is it reached?" in system
    assert user.endswith("Outcome: the task was solved, the sum of all rewards is 1.")


def test_answers_survive_a_killed_process(server: ChatServer, tmp_path: Path):
    source = f"chat:m@{server.url}"
    make_judge(source)([episode("+"), episode("-")])
    [file] = (tmp_path / "cache" / "answers").iterdir()
    file.write_text(file.read_text()[:-9])  # the last line is incomplete
    found = make_judge(source)([episode("+"), episode("-")])
    assert len(server.requests) == 3 and [each.score for each in found] == [0.9, 0.9]


def test_a_judge_of_turns_takes_a_rubric(server: ChatServer, tmp_path: Path):
    (rubric := tmp_path / "rubric.md").write_text("Be strict.\n- use: Does the turn help?")
    judge = ChatJudge(f"rubric={rubric}:chat:m@{server.url}", {})
    assert isinstance(system := judge.agent.system, str)
    assert "Reply with one line per turn" in system
    assert "criteria:\n\nBe strict.\n\n1. use: Does the turn help?" in system
    turn = SimpleNamespace(observation="see", action="go")
    played = SimpleNamespace(
        actors=(), turns=[turn], env_id="", success=True, episode_return=1.0, instructions=""
    )
    assert judge.text(played).endswith("Action: go")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Expected rubric=FILE:chat"):
        ChatJudge(f"rubric={rubric}:policy:runs/x", {})


counts = st.integers(0, 20)


@given(counts, counts, counts, counts)
def test_kappa_is_one_for_agreement_and_zero_for_chance(a: int, b: int, c: int, d: int):
    found = Agreement(a, b, c, d)
    if found.kappa is not None:
        assert -1 <= found.kappa <= 1
        swapped = Agreement(a, c, b, d)
        assert swapped.kappa == pytest.approx(found.kappa)
        assert (found.kappa == pytest.approx(1)) == (b == c == 0)
    independent = Agreement(
        (a + 1) * (c + 1), (a + 1) * (d + 1), (b + 1) * (c + 1), (b + 1) * (d + 1)
    )
    assert independent.kappa == pytest.approx(0, abs=1e-9)


def test_agreement_counts_both_errors_and_leaves_out_missing_verdicts():
    outcomes = [True, True, False, False, False, True]
    found = Agreement.of(outcomes, [True, False, True, False, False, None])
    assert found == Agreement(both=1, judge_only=1, environment_only=1, neither=2, unread=1)
    assert found.share == 0.6 and found.false_success == pytest.approx(1 / 3)
    assert found.false_failure == 0.5
    assert found.kappa == pytest.approx((0.6 - 0.52) / 0.48)
    assert Agreement(unread=3).kappa is None and Agreement(both=3).kappa is None


def by_outcome(messages: Messages) -> str:
    """Agrees with NumberLine on solved episodes, and names a cause for the others."""
    return (
        "1: 10"
        if "Outcome: the task was solved" in messages[-1]["content"]
        else ("1: 0\ncause: planning\nturn: 2")
    )


def test_eval_shows_the_agreement_and_the_causes(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    server.reply = by_outcome
    (rubric := tmp_path / "rubric.md").write_text("- goal: Is it reached?\noutcome: shown")
    words = ["eval", "NumberLine-v0", "--agent", "random", "expert", "--episodes", "6"]
    words += ["--env-kwargs", "size=6", "--judge", f"rubric={rubric}:chat:m@{server.url}"]
    assert main([*words, "--json", str(tmp_path / "out.json")]) == 0
    text = capsys.readouterr().out
    assert "expert on NumberLine-v0, judged by chat:m: success 100.0 %" in text
    random, expert = json.loads((tmp_path / "out.json").read_text())
    assert expert["judge"]["agreement"]["both"] == 6
    failed = sum(not each["success"] for each in random["episodes"])
    assert failed and random["judge"]["agreement"]["neither"] == failed
    assert [each["cause"] for each in random["judge"]["verdicts"]].count("planning") == failed
    assert "causes of failure by the judge: planning 100 %" in text
    asked = len(server.requests)
    saved = str(tmp_path / "saved.jsonl")
    assert main([*words, "--save", saved]) == 0  # the same episodes: no new requests
    assert len(server.requests) == asked and len(read_episodes([saved])) == 12


def test_export_pairs_by_the_scores_of_a_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    judge = f"{__name__}:longer_is_better"
    words = ["export", "NumberLine-v0", "--env-kwargs", "size=6", "--agent", "random", "expert"]
    words += ["--episodes", "8", "--judge", judge, "--out"]
    assert main([*words, str(tmp_path / "own.jsonl"), "--format", "own"]) == 0
    assert "16 of 16 episodes have a readable verdict" in capsys.readouterr().out
    kept = read_episodes([tmp_path / "own.jsonl"])
    assert [each.judged for each in kept] == [min(len(each.turns) / 100, 1) for each in kept]
    assert main([*words, str(tmp_path / "pairs.jsonl"), "--format", "preferences"]) == 0
    pairs = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert pairs and all(p["chosen_judged"] > p["rejected_judged"] for p in pairs)
    assert any(p["chosen_reward"] < p["rejected_reward"] for p in pairs)
    again = ["export", str(tmp_path / "own.jsonl"), "--format", "preferences", "--out"]
    assert main([*again, str(tmp_path / "again.jsonl")]) == 0  # scores stay in the data
    assert len((tmp_path / "again.jsonl").read_text().splitlines()) == len(pairs)
    assert main([*words, str(tmp_path / "long.jsonl"), "--min-reward", "1.5"]) == 2


def test_export_and_agreement_leave_out_episodes_without_an_outcome(tmp_path: Path):
    turn = {"observation": "o", "action": "a", "reward": 0.0}
    facts = {"env": "NumberLine-v0", "instructions": "", "success": False}
    rows = [
        {**facts, "task": f"train/{n}", "transcript": [turn], "failure": kind}
        for n, kind in enumerate(("unjudged", "wrong", "turns"))
    ]
    source, out = tmp_path / "saved.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(RuntimeWarning, match="1 of 3 episodes are left out"):
        assert main(["export", str(source), "--out", str(out)]) == 0
    assert [each.task for each in read_episodes([out])] == ["train/1", "train/2"]
    known = Record("t", 0, 0.0, {}, False, 0.0, 1, 1.0, True, False)
    records = [replace(known, failure=kind) for kind in ("unjudged", "wrong", "wrong")]
    report = SimpleNamespace(episodes=records)
    verdicts = [Verdict(1.0), Verdict(0.0), Verdict(None)]
    agreement = Judgement(cast(Any, report), verdicts).agreement
    assert agreement == Agreement(neither=1, unread=1)


def longer_is_better(episode: RecordedEpisode) -> float:
    return min(len(episode.turns) / 100, 1)


def test_the_rubric_of_overthinking_scores_its_three_patterns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "judges.md"
    text = page.read_text("utf-8").partition('title="overthinking.md"\n')[2].partition("```")[0]
    (file := tmp_path / "overthinking.md").write_text(text)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def score(messages: Messages) -> str:
        rogue = "search[a]\nopen[b]" in messages[-1]["content"]
        return f"1: 6\n2: {0 if rogue else 10}\n3: 9\ncause: action\nturn: 1"

    with chat_server(score) as server:
        calm, rogue = make_judge(f"rubric={file}:chat:m@{server.url}")(
            [episode("search[a]"), episode("search[a]\nopen[b]")]
        )
    assert calm.scores == {"acting": 0.6, "one at a time": 1.0, "patience": 0.9}
    assert rogue.scores["one at a time"] == 0 and rogue.score == pytest.approx(0.5)
    assert not read_rubric(file).outcome


def test_a_judge_that_fails_is_named_with_its_task_and_loses_no_episode(
    tmp_path, monkeypatch, capsys
):
    """The same command goes on from the episodes, also without --save before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    seen: list[RecordedEpisode] = []

    def judge(episode: RecordedEpisode) -> float:
        seen.append(episode)
        return {}["score"] if len(seen) == 4 else 0.5

    module = SimpleNamespace(judge=judge)
    monkeypatch.setitem(sys.modules, "failing_judge", cast(Any, module))
    words = ["eval", "NumberLine-v0", "--agent", "random", "expert", "--episodes", "3"]
    words += ["--judge", "failing_judge:judge", "--json", "reports.json"]
    with pytest.raises(KeyError) as caught:
        main(words)
    place, kept = caught.value.__notes__
    task = seen[3].task
    assert f"the judge failing_judge:judge on task {task!r} with seed {seen[3].seed}" in place
    [file] = tmp_path.glob("agentgym-*/episodes.jsonl")
    assert f"--save {file} --resume" in kept
    first, second = json.loads(Path("reports.json").read_text())
    assert len(first["judge"]["verdicts"]) == len(second["episodes"]) == 3
    assert "judge" not in second
    before = file.read_text()
    assert main([*words, "--save", str(file), "--resume"]) == 0
    assert file.read_text() == before
    assert all("judge" in report for report in json.loads(Path("reports.json").read_text()))
    monkeypatch.setattr(module, "judge", lambda episode: float("nan"))
    capsys.readouterr()
    assert main(words) == 2
    assert f"got nan.\nRaised by the judge failing_judge:judge on task {seen[0].task!r}" in (
        capsys.readouterr().err
    )
    assert main([*words[:-4], "--json", "reports.json"]) == 0
    assert len([*tmp_path.glob("agentgym-*")]) == 2  # nothing is left of what ends well
