"""Folders of training runs, also damaged, unfinished and foreign ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.evaluation.comparison import compare_groups, grouped, table
from agentgym.evaluation.runs import Evaluation, find_runs, read_run, run_folders


def write_run(folder: Path, recipe: str = "poad", seed: int = 0, finished: bool = True) -> Path:
    """Writes the files of a run that are read."""
    (folder / "policy").mkdir(parents=True)
    (folder / "policy" / "config.json").write_text('{"model_type": "llama"}')
    config = {"recipe": recipe, "seed": seed, "env_id": "AgentGym/NumberLine-v0", "lr": 1e-3}
    (folder / "config.json").write_text(json.dumps({"config": config}))
    rows: list[dict[str, Any]] = [
        {"iteration": 0, "env_steps": 0, "eval/reward": 0.25, "time/evaluate": 1.0},
        {"iteration": 1, "env_steps": 90, "rollout/return": 0.5, "charts/tokens": 800.0,
         "time/collect": 2.0, "time/update": 3.0},
        {"iteration": 2, "env_steps": 180, "rollout/return": 0.75, "charts/tokens": 1600.0},
        {"iteration": 2, "env_steps": 180, "eval/reward": 0.5 + seed / 8, "eval/success": 0.5},
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if finished:
        (folder / "report.json").write_text("[]")
    return folder


def test_a_run_has_its_evaluations_and_its_budget(tmp_path: Path):
    run = read_run(write_run(tmp_path / "a", seed=1))
    assert run.curve == (Evaluation(0, 0, 0.25), Evaluation(180, 1600, 0.625, 0.5))
    assert (run.recipe, run.seed, run.env, run.finished) == ("poad", 1, "NumberLine-v0", True)
    assert (run.reward, run.training_return) == (0.625, 0.75)
    assert (run.env_steps, run.tokens, run.seconds) == (180, 1600, 6.0)
    assert not read_run(write_run(tmp_path / "b", finished=False)).finished


def test_runs_are_found_at_any_depth_once_and_in_the_order_of_their_numbers(tmp_path: Path):
    for seed in (0, 2, 10):
        write_run(tmp_path / "sweep" / "poad" / f"seed-{seed}", seed=seed)
    assert [path.name for path in run_folders(tmp_path)] == ["seed-0", "seed-2", "seed-10"]
    found, notes = find_runs([tmp_path, tmp_path / "sweep" / "poad" / "seed-2"])
    assert [run.seed for run in found] == [0, 2, 10] and notes == []


def test_damaged_unfinished_and_foreign_folders_are_named(tmp_path: Path):
    write_run(tmp_path / "good")
    files = {
        "no-settings": ("config.json", None),
        "list": ("config.json", "[]"),
        "no-recipe": ("config.json", '{"config": {}}'),
        "number": ("config.json", '{"config": {"recipe": 5}}'),
        "no-log": ("metrics.jsonl", None),
        "half": ("metrics.jsonl", '{"iteration": 1, "rollout/return": 0.1}\n{"iteration"'),
        "binary": ("metrics.jsonl", "\x00\x01"),
        "nan": ("metrics.jsonl", '{"iteration": 1, "eval/reward": NaN}\n'),
    }
    for name, (file, text) in files.items():
        path = write_run(tmp_path / name) / file
        path.unlink() if text is None else path.write_text(text)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "metrics.jsonl").write_text('{"loss": 1}\n')
    (tmp_path / "empty").mkdir()
    found, notes = find_runs([tmp_path, tmp_path / "empty"])
    assert [run.folder.name for run in found] == ["good"]
    for name in (*files, "foreign", "empty"):
        assert sum(str(tmp_path / name) in note for note in notes) == 1, name
    assert "delete the folder" in " ".join(notes)
    with pytest.raises(ConfigError, match="no run to show"):
        find_runs([tmp_path / "empty", tmp_path / "half"])
    with pytest.raises(ConfigError, match="There is no folder"):
        find_runs([tmp_path / "nowhere"])


def test_a_run_without_evaluations_says_why(tmp_path: Path):
    folder = write_run(tmp_path / "a", finished=False)
    log = folder / "metrics.jsonl"
    log.write_text(log.read_text().replace("eval/reward", "eval/other"))
    with pytest.raises(ConfigError, match="no evaluation yet: wait"):
        read_run(folder)
    file = folder / "config.json"
    file.write_text(file.read_text().replace('"seed"', '"eval_episodes": 0, "seed"'))
    with pytest.raises(ConfigError, match="its eval_episodes is 0"):
        read_run(folder)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    file=st.sampled_from(["config.json", "metrics.jsonl"]),
    damage=st.one_of(
        st.binary(max_size=40),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["config", "recipe", "seed", "iteration", "eval/reward"]), inner
                )
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_no_file_of_a_run_is_a_traceback(file: str, damage: bytes, tmp_path: Path):
    shutil.rmtree(tmp_path / "runs", ignore_errors=True)
    write_run(tmp_path / "runs" / "good")
    (write_run(tmp_path / "runs" / "damaged") / file).write_bytes(damage)
    found, notes = find_runs([tmp_path / "runs"])
    assert len(found) + len(notes) in (1, 2) and any(run.folder.name == "good" for run in found)
    assert table(compare_groups(grouped(found)))
