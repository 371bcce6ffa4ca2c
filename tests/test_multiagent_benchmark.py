"""The experiments of the multi-agent benchmark: their settings, and the summary of measures."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml

pytest.importorskip("torch")

import agentgym
from agentgym.errors import ConfigError
from agentgym.trainers import make_trainer
from agentgym.trainers.cli.train import read_config
from benchmarks.figures import multiagent_figures
from benchmarks.games import board_reading, multiagent, multiagent_measures
from benchmarks.speed import game_cost

SMALL = {
    "cooks": {"bc_demonstrations": 1, "episodes_per_iteration": 2},
    "cooks_in_a_hurry": {"bc_demonstrations": 1, "episodes_per_iteration": 2},
    "dilemma": {"train_tasks": 1, "group_size": 2, "episodes_per_iteration": 4},
    "branches": {"group_size": 2, "episodes_per_iteration": 2},
    "scales": {"group_size": 2, "episodes_per_iteration": 4},
    "codenames": {"bc_demonstrations": 1, "episodes_per_iteration": 2},
    "referential": {
        "model": "nano",
        "bc_demonstrations": 4,
        "group_size": 2,
        "episodes_per_iteration": 4,
    },
    "signalling": {"bc_demonstrations": 4, "episodes_per_iteration": 4},
}
"""Settings of the quickest run of an experiment."""


@pytest.fixture(scope="module")
def benchmark():
    """The benchmark. The game that it registers is there for these tests alone."""
    tables = agentgym.REGISTRY, gymnasium.registry
    before = [dict(entries) for entries in tables]
    yield multiagent
    for entries, known in zip(tables, before, strict=True):
        for id in entries.keys() - known.keys():
            del entries[id]
    sys.modules.pop("benchmarks.games.two_scales", None)  # the next import registers it again


@pytest.fixture
def run_small(benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Trains in this process, for an iteration of a few episodes, and measures few games."""

    def launch(recipe: str, file: Path, folder: Path, flags: list[Any]) -> None:
        small = {"iterations": 1, "bc_epochs": 1} | SMALL[folder.parent.name]
        settings = yaml.safe_load(file.read_text()) | small
        file.write_text(yaml.safe_dump(settings))
        words = ["--config", str(file), "--run-dir", str(folder), *map(str, flags), "--quiet"]
        make_trainer(recipe, read_config(recipe, words)).run()

    monkeypatch.setattr(benchmark, "launch", launch)
    monkeypatch.setattr(multiagent_measures, "GAMES", 2)
    return benchmark.Settings(runs=tmp_path, seeds=(0, 1))


@pytest.mark.slow
def test_all_variants_have_valid_settings(benchmark: Any, tmp_path: Path):
    file = tmp_path / "settings.yaml"
    for experiment in benchmark.EXPERIMENTS.values():
        for settings in experiment.variants.values():
            chosen = {**experiment.settings, **settings}
            if experiment.demonstrate is not None:
                chosen["data"] = ["demonstrations.jsonl"]
            file.write_text(yaml.safe_dump({k: v for k, v in chosen.items() if k != "recipe"}))
            recipe = settings.get("recipe", experiment.recipe)
            config = read_config(recipe, ["--config", str(file)])
            assert config.game.mixture


def test_measures_are_kept_and_summarised_over_seeds(benchmark: Any, tmp_path: Path):
    settings = benchmark.Settings(runs=tmp_path, seeds=(0, 1, 2))
    for seed in (0, 1):  # the third one is not finished
        folder = benchmark.Job("kuhn", "psro:nash", seed, tmp_path).folder
        folder.mkdir(parents=True)
        (folder / "report.json").write_text("[]")
        (folder / "measure.json").write_text(json.dumps({"NashConv, last": 0.1 + 0.1 * seed}))
        (folder / "curve.json").write_text(json.dumps([[0, 0.9], [5, 0.1]]))
    [(variant, found)] = benchmark.summary("kuhn", settings)["variants"].items()
    assert variant == "psro:nash" and sorted(found["seeds"]) == ["0", "1"]
    assert found["means"]["NashConv, last"]["mean"] == pytest.approx(0.15)
    assert found["curves"] == {"0": [[0, 0.9], [5, 0.1]], "1": [[0, 0.9], [5, 0.1]]}


def test_a_new_seed_joins_the_earlier_ones_with_the_same_settings(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def finish(seed: int, value: float) -> Any:
        folder = benchmark.Job("kuhn", "league", seed, tmp_path / str(seed)).folder
        folder.mkdir(parents=True)
        (folder / "report.json").write_text("[]")
        (folder / "measure.json").write_text(json.dumps({"NashConv, last": value}))
        (folder / "curve.json").write_text(json.dumps([[seed, value]]))
        return benchmark.Settings(
            experiments=("kuhn",), report=True, runs=tmp_path / str(seed), out=tmp_path / "out.json"
        )

    def written(settings: Any) -> dict[str, Any]:
        benchmark.main(settings)
        return json.loads(settings.out.read_text())["experiments"]

    (tmp_path / "out.json").write_text(json.dumps({"experiments": {"cooks": {"goal": "kept"}}}))
    written(finish(0, 0.2))  # the runs of seed 0 are gone when seed 1 is reported
    both = written(finish(1, 0.4))
    assert both["cooks"] == {"goal": "kept"}
    league = both["kuhn"]["variants"]["league"]
    assert league["seeds"] == {"0": {"NashConv, last": 0.2}, "1": {"NashConv, last": 0.4}}
    assert league["curves"] == {"0": [[0, 0.2]], "1": [[1, 0.4]]}
    assert league["means"]["NashConv, last"]["mean"] == pytest.approx(0.3)

    kuhn = benchmark.EXPERIMENTS["kuhn"]
    changed = replace(kuhn, settings={**kuhn.settings, "lr": 0.5})
    monkeypatch.setitem(benchmark.EXPERIMENTS, "kuhn", changed)
    [only] = written(finish(2, 0.9))["kuhn"]["variants"].values()
    assert only["seeds"] == {"2": {"NashConv, last": 0.9}}


def test_a_run_that_fails_is_named_and_the_others_are_reported(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    def train(job: Any) -> None:
        if job.seed == 0:
            raise ConfigError("no way")
        job.folder.mkdir(parents=True)
        (job.folder / "report.json").write_text("[]")
        (job.folder / "measure.json").write_text(json.dumps({"NashConv, last": 0.5}))
        (job.folder / "curve.json").write_text("[]")

    monkeypatch.setattr(benchmark.Job, "train", train)
    settings = benchmark.Settings(
        experiments=("kuhn",), variants=("league",), runs=tmp_path, out=tmp_path / "out.json"
    )
    with pytest.raises(SystemExit, match=r"^Failed: kuhn league-0$"):
        benchmark.main(settings)
    assert "kuhn league-0: no way" in capsys.readouterr().out
    found = json.loads(settings.out.read_text())["experiments"]["kuhn"]["variants"]["league"]
    assert list(found["seeds"]) == ["1", "2"]


def test_cross_play_of_some_seeds_does_not_replace_that_of_all(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    counted = replace(
        benchmark.EXPERIMENTS["kuhn"], across=lambda folders: {"seeds": float(len(folders))}
    )
    monkeypatch.setitem(benchmark.EXPERIMENTS, "kuhn", counted)
    for seed in range(3):
        folder = benchmark.Job("kuhn", "league", seed, tmp_path).folder
        folder.mkdir(parents=True)
        for name, content in (("report", []), ("measure", {"x": 0.1}), ("curve", [[0, 0.1]])):
            (folder / f"{name}.json").write_text(json.dumps(content))
    every = benchmark.summary("kuhn", benchmark.Settings(runs=tmp_path))
    some = benchmark.summary("kuhn", benchmark.Settings(runs=tmp_path, seeds=(0, 1)), every)
    for found in (every, some):
        assert found["variants"]["league"]["across"] == {"seeds": 3.0}


def test_interrupted_demonstrations_are_played_again(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def demonstrate(file: Path) -> None:
        for line in ("a\n", "b\n"):
            with file.open("a") as out:
                out.write(line)
            if interruptions:
                raise interruptions.pop()

    interruptions = [KeyboardInterrupt()]
    dilemma = replace(benchmark.EXPERIMENTS["dilemma"], demonstrate=demonstrate)
    monkeypatch.setitem(benchmark.EXPERIMENTS, "dilemma", dilemma)
    with pytest.raises(KeyboardInterrupt):
        benchmark.demonstrations("dilemma", tmp_path)
    assert benchmark.demonstrations("dilemma", tmp_path).read_text() == "a\nb\n"


def test_results_become_a_table_and_a_picture(benchmark: Any, monkeypatch: pytest.MonkeyPatch):
    assert list(multiagent_figures.NAMES) == list(benchmark.EXPERIMENTS)
    monkeypatch.setattr(multiagent_figures, "measured", dict)
    assert multiagent_figures.experiment_table("kuhn") == "No results yet."
    assert multiagent_figures.picture_link() == "No results yet."
    rows = {
        "means": {"success": {"mean": 0.5, "low": 0.4, "high": 0.6}, "steps": {"mean": 20_000}},
        "seeds": {"0": {}, "1": {}},
        "curves": {"0": [[1, 0.0], [2, 0.5]], "1": [[1, 0.1]], "2": []},
        "across": {"cross-play": 0.25},
    }
    found = {"variants": {"mirror": rows}, "axes": ["environment steps", "return"]}
    monkeypatch.setattr(multiagent_figures, "measured", lambda: {"kuhn": found})
    header, _, row = multiagent_figures.experiment_table("kuhn").split("\n")
    assert header == "| Variant | Seeds | success | steps | cross-play (mean) |"
    assert row == "| mirror | 2 | 0.50 ± 0.10 | 20,000 | 0.25 |"
    digest, draw = multiagent_figures.picture()
    assert draw().startswith(b"\x89PNG") and digest.encode() in draw()


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_an_experiment_is_trained_and_measured(benchmark: Any, run_small: Any, name: str):
    experiment = benchmark.EXPERIMENTS[name]
    last = [*experiment.variants][-1]
    seeds = run_small.seeds if experiment.across else run_small.seeds[:1]
    for seed in seeds:
        benchmark.Job(name, last, seed, run_small.runs).train()
    found = benchmark.summary(name, run_small)["variants"][last]
    assert all(np.isfinite(each["mean"]) for each in found["means"].values())
    assert len(found["curves"]["0"]) == 1
    assert ("across" in found) == (experiment.across is not None)


@pytest.mark.slow
def test_single_agents_read_the_prompts_of_the_seats(
    benchmark: Any, monkeypatch: pytest.MonkeyPatch
):
    def texts(trajectories: Any) -> Any:
        return [[(t.observation, t.admissible) for t in each.turns] for each in trajectories]

    def play(trainer: Any, trajectories: Any) -> Any:
        again = original(trainer, trajectories)
        assert texts(again) == texts(trajectories) and len(again) == 2 * 4
        return again

    original = game_cost.play_alone
    monkeypatch.setattr(game_cost, "play_alone", play)
    settings = game_cost.Settings(episodes=2, parallel=2, repetitions=1)
    found = game_cost.measure("LiarsDice-Four-v0", settings)
    assert found["collection"] == found["game"] / found["single"]


def test_the_memory_of_roles_counts_their_base_once(
    benchmark: Any, monkeypatch: pytest.MonkeyPatch
):
    from benchmarks.speed import game_cost, memory

    small = {
        **{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 128},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True},
    }
    monkeypatch.setitem(memory.SIZES, "tiny", small)
    settings = game_cost.Settings(model="tiny", rank=2, roles=3)
    found = game_cost.measure_memory(settings, ("q_proj", "v_proj"))
    one, roles = found["one"], found["roles"]
    adapter = 2 * 2 * 2 * ((32 + 32) + (32 + 16))  # bfloat16, rank, layers, projections
    moments_and_masters = 3 * 2 * adapter  # in float32, as the gradients
    assert one["gradients"] == 2 * adapter
    assert one["optimizer"] == pytest.approx(moments_and_masters, rel=0.1)
    assert roles["gradients"] == 3 * 2 * adapter and roles["optimizer"] == 3 * one["optimizer"]
    buffers = 100  # of rotary embeddings, which are not shared
    assert 0 <= roles["weights"] - one["weights"] - 2 * adapter < buffers
    layer = 2 * (32 * 32) + 32 + 2 * (32 * 16 + 16) + 3 * 32 * 64 + 2 * 32
    base = 2 * (128 * 32 + 2 * layer + 32)  # bfloat16, the head is tied to the embeddings
    assert 0 <= one["weights"] - base - adapter < buffers
    assert found["ratio"] == sum(roles.values()) / sum(one.values())
    measured = json.loads(game_cost.Settings().out.read_text())["memory"]
    assert measured["queries and values"]["ratio"] <= 1.15  # the demand of multi-agent training


def test_a_decoder_clones_a_teacher_who_never_loses(benchmark: Any, tmp_path: Path):
    boards = board_reading.reachable()
    assert len(boards) == 4520
    assert all(board_reading.losses(mark, board_reading.taught) == 0 for mark in "XO")
    settings = board_reading.Settings(samples=10, batch=2, out=tmp_path / "found.json")
    found = board_reading.run("line", settings)
    assert [row["samples"] for row in found["rows"]] == [2, 4, 6, 8, 10] and found["tokens"] == 24
    assert all(0 < row[f"losses as {mark}"] < 1 for row in found["rows"] for mark in "XO")


def test_a_search_is_measured_in_all_positions(benchmark: Any):
    from benchmarks.games import board_reading, board_search

    boards = board_reading.reachable()
    perfect = board_search.measures({board: board_reading.taught(board) for board in boards})
    assert {*perfect.values()} == {0.0} and len(perfect) == 5
    first = board_search.measures({board: board.index(".") for board in boards})
    assert first["errors"] > 0.1 and first["losses against perfect as O"] == 1.0
    threats = ["XX.OO....", "X.OX.O...", "XXO.OX.O."]
    assert board_search.searched(threats, budget=100) == dict(zip(threats, [2, 6, 6], strict=True))
    late = [board for board in boards if board.count(".") < 4]
    errors = [
        move not in board_reading.keeping(board)
        for board, move in board_search.searched(late, budget=1).items()
    ]
    assert 0 < sum(errors) < len(late)
