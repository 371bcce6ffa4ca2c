"""The benchmark of all environments: the stages of an environment, the summary and its figures."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from agentgym.agents.basic.expert import NoExpertError
from agentgym.evaluation.report import Record, Report
from agentgym.trainers import make_trainer
from agentgym.trainers.cli.train import read_config
from benchmarks.figures import solve_figures as figures
from benchmarks.learning import solve


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that were launched, in this process, with few episodes."""
    names: list[str] = []

    def launch(recipe: str, config: Path, folder: Path, flags: list[Any]) -> None:
        if (folder / "report.json").exists():
            return
        words = ["--config", str(config), "--run-dir", str(folder), *map(str, flags), "--quiet"]
        make_trainer(recipe, read_config(recipe, words)).run()
        names.append(folder.name)

    monkeypatch.setattr(solve, "launch", launch)
    return names


def report(agent: str, rewards: list[float]) -> Report:
    """Returns a report of episodes with these rewards."""
    episodes = [
        Record(f"task/{i}", i, reward, {}, reward == 1, reward, 1, 1.0, True, False, {}, failure)
        for i, reward in enumerate(rewards)
        for failure in ("" if reward == 1 else "wrong",)
    ]
    return Report("X-v0", agent, "test", 0, len(rewards), {}, episodes)


def test_the_gain_is_paired_and_the_score_lies_between_random_and_expert():
    rewards = {"random": [0, 0], "cloned": [0.0, 0.8], "trained": [0.1, 0.9], "expert": [1, 1]}
    found = solve.summary(*(report(agent, each) for agent, each in rewards.items()))
    assert found["gain"] == [0.1, 0.1, 0.1]  # though the rewards of the policies spread widely
    assert found["scores"] == [0.4, 0.5]
    assert found["failures"] == {"wrong": 1.0}
    assert found["trained"]["reward"][0] == 0.5 and found["expert"]["success"][0] == 1
    worse = solve.summary(*(report(agent, each) for agent, each in rewards.items()), kept="cloned")
    assert worse["gain"] == [0, 0, 0] and worse["scores"] == [0.4, 0.4]
    assert worse["trained"] == found["trained"]  # which is shown all the same
    alike = [report(agent, [0.5, 0.5]) for agent in rewards]
    assert "scores" not in solve.summary(*alike)


@pytest.mark.slow
def test_an_environment_is_trained_once_and_kept(
    launched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = solve.Settings(
        ids=("LiarsDice-Duel-v0",), demonstrations=4, env_steps=80, iterations=2, episodes=3,
        runs=tmp_path / "runs", out=tmp_path / "solve.json",
    )  # fmt: skip
    solve.main(settings)
    cloned = [f"cloned-{context}" for context in solve.CONTEXTS]
    assert launched == [*cloned, *solve.CANDIDATES]
    results = json.loads(settings.out.read_text())
    found = results["environments"]["LiarsDice-Duel-v0"]
    on_training = found["training_tasks"]
    assert all(value <= 1 for value in found["explained_variance"])
    assert len(found["explained_variance"]) == 2
    assert found["selected"] == max(solve.CANDIDATES, key=lambda name: on_training[name])
    assert found["context"] in solve.CONTEXTS
    assert found["episodes"] == 3 and found["gain"][1] <= found["gain"][0] <= found["gain"][2]
    better = on_training[found["selected"]] > on_training["cloned"]
    assert found["kept"] == ("trained" if better else "cloned")
    if not better:
        assert found["gain"] == [0, 0, 0]
    for command, iterations in zip(found["commands"], (0, 2), strict=True):
        assert str(tmp_path) not in command and "--run-dir runs/solve/LiarsDice-Duel-v0/" in command
        agentgym, train, recipe, *flags = shlex.split(command)
        flags[1] = str(solve.CONFIG)
        assert (agentgym, train) == ("agentgym", "train")
        assert read_config(recipe, flags).run.iterations == iterations
    # A killed benchmark keeps its finished runs, and a finished one its results.
    settings.out.unlink()
    launched.clear()
    solve.main(settings)
    assert launched == []
    again = json.loads(settings.out.read_text())["environments"]["LiarsDice-Duel-v0"]
    assert {**again, "seconds": 0} == {**found, "seconds": 0}
    monkeypatch.setattr(solve, "measure", None)
    solve.main(settings)


@pytest.mark.parametrize(
    ("cloned", "trained", "kept"), [(0.5, 0.6, "trained"), (0.5, 0.5, "cloned"), (1, 0, "cloned")]
)
def test_the_policy_that_is_better_on_training_tasks_is_kept(
    cloned: float, trained: float, kept: str, tmp_path: Path, monkeypatch: Any
):
    """On held-out tasks, the trained policy is worse here. This must not count."""
    place = solve.Place("X-v0", solve.Settings(runs=tmp_path), {}, 1)
    decoded = {"cloned current": (0.0, cloned), "gigpo": (1.0, trained), "poad": (0.0, -1.0)}
    monkeypatch.setattr(solve.Place, "of", lambda *_: place)
    monkeypatch.setattr(solve.Place, "clone", lambda _: ("current", ["train"]))
    monkeypatch.setattr(solve.Place, "reinforce", lambda *_: ["train"])
    monkeypatch.setattr(solve.Place, "decode", lambda _, run: decoded[run])
    monkeypatch.setattr(solve, "read_metrics", lambda _: [{"env_steps": 10}])
    rewards = {"random": 0.0, "expert": 1.0, ("cloned current", 0.0): 0.5, ("gigpo", 1.0): 0.25}

    def play(_: Any, run: str, temperature: float, split: str, tasks: int) -> Report:
        assert (split, tasks) == ("test", 1)
        return report(run, [rewards[run, temperature]])

    monkeypatch.setattr(solve.Place, "play", play)
    monkeypatch.setattr(solve, "evaluate", lambda _, agent, **__: report(agent, [rewards[agent]]))
    found = solve.measure("X-v0", place.settings)
    assert (found["kept"], found["selected"]) == (kept, "gigpo")
    assert found["training_tasks"] == {"cloned": cloned, "gigpo": trained, "poad": -1}
    assert found["temperatures"] == {"cloned": 0.0, "gigpo": 1.0, "poad": 0.0}
    assert found["gain"][0] == (-0.25 if kept == "trained" else 0)


@pytest.mark.parametrize(("sampled", "best"), [(0.6, (1.0, 0.6)), (0.5, (0.0, 0.5))])
def test_a_policy_plays_at_the_temperature_that_is_better_on_training_tasks(
    sampled: float, best: tuple[float, float], monkeypatch: pytest.MonkeyPatch
):
    place = solve.Place("X-v0", solve.Settings(), {}, 200)
    rewards = {0.0: 0.5, 1.0: sampled}

    def play(_: Any, run: str, temperature: float, split: str, tasks: int) -> Report:
        assert (split, tasks) == ("train", 100)
        return report(run, [rewards[temperature]] * tasks)

    monkeypatch.setattr(solve.Place, "play", play)
    assert place.decode("trained") == pytest.approx(best)


def test_a_long_environment_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(solve, "mean_turns", lambda *_: 12.5)
    solve.main(solve.Settings(ids=("Ferry-v0",), longest=12, out=tmp_path / "solve.json"))
    assert "Ferry-v0: the expert needs 12.5 turns, more than 12." in capsys.readouterr().out
    assert not (tmp_path / "solve.json").exists()


def test_an_environment_without_expert_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def measure(name: str, settings: Any) -> None:
        raise NoExpertError(f"{name} has no scripted expert")

    monkeypatch.setattr(solve, "measure", measure)
    settings = solve.Settings(ids=("Jericho-v0",), out=tmp_path / "solve.json")
    solve.main(settings)
    assert "Jericho-v0: Jericho-v0 has no scripted expert" in capsys.readouterr().out
    assert not settings.out.exists()


def test_an_environment_that_fails_is_named_and_the_others_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    both = {"reward": [0.5, 0.4, 0.6]}
    row = {**dict.fromkeys(("random", "cloned", "trained", "expert"), both), "selected": "poad"}

    def measure(name: str, settings: Any) -> dict[str, Any]:
        if name == "Ferry-v0":
            raise KeyError("colour")
        return {**row, "gain": [0.0, 0.0, 0.0]}

    monkeypatch.setattr(solve, "measure", measure)
    settings = solve.Settings(ids=("Ferry-v0", "Maze-v0"), out=tmp_path / "solve.json")
    with pytest.raises(SystemExit, match=r"^Failed: Ferry-v0$"):
        solve.main(settings)
    assert "Ferry-v0: 'colour'" in capsys.readouterr().out
    assert list(json.loads(settings.out.read_text())["environments"]) == ["Maze-v0"]


def test_results_become_a_table(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(figures, "measured", lambda *_: {})
    empty = {name: block() for name, block in figures.BLOCKS.items() if name != "solve_limits"}
    assert {*empty.values()} == {"No results yet."}
    both = {"reward": [0.25, 0.2, 0.3], "success": [0.25, 0.2, 0.3]}
    agents = {name: both for name in figures.AGENTS}
    row = {**agents, "gain": [0.1, 0.05, 0.15], "scores": [0.1, 0.95], "selected": "poad"}
    row["failures"] = {"loop": 0.5, "wrong": 0.25}
    row["commands"] = ["agentgym train poad", "agentgym train gigpo"]
    monkeypatch.setattr(figures, "measured", lambda *_: {"X-v0": row})
    _, _, line = figures.solve_table().split("\n")
    assert line.startswith("| X-v0 | 0.25 [0.20, 0.30] |")
    assert line.endswith(
        "| +0.10 [+0.05, +0.15] | 0.10 to 0.95 | poad | repeated states 50 %, wrong end 25 % | - |"
    )
    row |= {"kept": "cloned", "trained": {"reward": [0.1, 0.0, 0.2]}}
    header, _, line = figures.solve_table().split("\n")
    row["temperatures"] = {"cloned": 1.0, "poad": 0.0}
    assert "| poad, sampled |" in figures.solve_table()
    assert "| Kept | Gain of RL |" in header and "| cloned | +0.10 [+0.05, +0.15] |" in line
    assert "| this one | 1 | 1 | 0 | 1 | 0 | 1 | 1 |" in figures.solve_summary()
    assert figures.solve_commands().split("\n")[1:4] == ["# X-v0", *row["commands"]]


def test_the_summary_counts_scores_that_cloning_had_and_the_steps_that_were_taken(
    monkeypatch: pytest.MonkeyPatch,
):
    agents = {name: {"reward": [0.25, 0.2, 0.3]} for name in figures.AGENTS}
    row = {**agents, "gain": [0.1, 0.05, 0.15]}
    scores = [(0.1, 0.95), (0.92, 0.95), (1.0, 1.0), (0.95, 0.5)]
    steps = [2000, 10_000, 9000, 30_000]
    rows = {
        str(n): row | {"scores": both, "env_steps": count}
        for n, (both, count) in enumerate(zip(scores, steps, strict=True))
    }
    monkeypatch.setattr(figures, "measured", lambda *_: rows)
    assert "| this one | 4 | 4 | 0 | 3 | 2 | - | - |" in figures.solve_summary()
    budget = figures.solve_budget()
    assert "from 2,000 to 30,000 (median 9,500)" in budget and "10,000" in budget
    assert "explains" not in budget
    rows["0"] |= {"explained_variance": [0.0, 0.1]}
    rows["1"] |= {"explained_variance": [0.2, 0.5]}
    assert figures.solve_budget().endswith(
        "a median of 0.10 of the variance of returns in the first quarter of its iterations and "
        "0.30 in the last one. It explains more than 0.1 in 1 of the 2 environments in which it "
        "was recorded and returns vary."
    )


@pytest.mark.parametrize(
    ("scores", "gain", "cloned", "failures", "limit"),
    [
        ((0.5, 0.95), 0.1, 0.5, {"wrong": 0.1}, "-"),
        ((0.3, 0.2), -0.1, 0.5, {"turns": 0.8}, "RL"),
        ((0.05, 0.2), 0.1, 0.05, {"turns": 0.8}, "exploration"),
        ((0.24, 0.26), 0.1, 0.0, {"wrong": 1.0}, "wrong answers"),  # graded rewards
        ((0.1, 0.2), 0.1, 0.2, {"turns": 0.3, "loop": 0.2, "wrong": 0.4}, "horizon"),
        ((0.1, 0.2), 0.1, 0.2, {"turns": 0.3, "wrong": 0.5}, "wrong answers"),
        (None, 0.1, 0.2, {}, "wrong answers"),
    ],
)
def test_the_limit_of_a_row_follows_from_its_numbers(
    scores: Any, gain: float, cloned: float, failures: Any, limit: str
):
    row: dict[str, Any] = {"gain": [gain, gain - 0.05, gain + 0.05], "failures": failures}
    row["cloned"] = {"success": [cloned, 0.0, 1.0]}
    assert figures.limit(row | ({} if scores is None else {"scores": scores})) == limit
