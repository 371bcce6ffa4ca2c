"""Runs survive: kill, resume, signals, two processes in one folder, folders that cannot be used."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from accelerate import Accelerator
from safetensors import SafetensorError

from agentgym.agents import make_agent
from agentgym.errors import CheckpointError
from agentgym.trainers import train
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.data.run_state import RunState
from agentgym.trainers.run import setup
from agentgym.trainers.run.logger import METRICS, TRANSCRIPTS, RunLog, read_metrics
from agentgym.trainers.settings.running import RunConfig
from agentgym.trainers.system.checkpoint import (
    CHECKSUMS,
    RunFolder,
    damage,
    loading,
    replace_folder,
    write_text,
)
from agentgym.trainers.system.json_lines import truncate_jsonl

from ...helpers.launch import Child, finish

pytestmark = pytest.mark.xdist_group("processes")

FLAGS = (
    "--env-id NumberLine-v0 --env-kwargs size=5 max_turns=6 --model nano --context current "
    "--no-instructions --constrain --iterations 6 --episodes-per-iteration 16 --eval-every 3 "
    "--eval-episodes 8 --device cpu --threads 1 --bc-demonstrations 8 --bc-epochs 3"
).split()

QUIET = RunConfig(iterations=5, quiet=True)


def run(folder: Path, *flags: str, code: int = 0) -> Child:
    """A run that has ended with an exit code."""
    child = Child(["-m", "agentgym.trainers", "poad", *FLAGS, "--run-dir", str(folder), *flags])
    finish([child], code)
    return child


def curve(folder: Path) -> list[dict[str, Any]]:
    """What a run logged, without what depends on the clock."""
    return [
        {name: value for name, value in row.items() if not name.startswith("time/")}
        for row in read_metrics(folder)
    ]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "whole"
    train("poad", read_config("poad", [*FLAGS, "--run-dir", str(folder)]))
    return folder


# The child sends itself a signal the moment it has logged, played or computed, or begins to write,
# what the marker says: at a point that is the same in every test run.
SIGNAL = """
import os, sys
import agentgym.trainers.system.checkpoint as checkpoint
import agentgym.trainers.rollout.episode as episode
import agentgym.trainers.run.logger as log
import agentgym.trainers.imitation.behaviour_cloning as cloning
import agentgym.trainers.update.updater as updater
place, count, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
target = {
    "row": (log.RunLog, "row"),
    "save": (checkpoint, "replace_folder"),
    "cloning": (cloning, "clip_gradients"),
    "episode": (episode.Play, "trajectory"),
    "update": (updater, "clip_gradients"),
}[place]
original = getattr(*target)
calls = 0
def counted(*args, **kwargs):
    global calls
    calls += 1
    if calls == count and place == "save":
        path, write = args
        def half(folder):
            (folder / "half").write_text("half")
            os.kill(os.getpid(), number)
        return original(path, half)
    result = original(*args, **kwargs)
    if calls == count:
        os.kill(os.getpid(), number)
    return result
setattr(*target, counted)
if place == "save":
    import agentgym.trainers.run.evaluation as evaluation
    evaluation.replace_folder = counted
from agentgym.trainers.cli.train import main
sys.exit(main(["poad", *sys.argv[4:]]))
"""


def signalled(folder: Path, place: str, count: int, number: signal.Signals, *flags: str) -> Child:
    """Starts a run that sends itself a signal."""
    marker = [place, str(count), str(int(number))]
    return Child(["-c", SIGNAL, *marker, *FLAGS, "--run-dir", str(folder), *flags])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("row", 1),
        ("row", 4),
        ("save", 2),
        ("save", 6),
        ("cloning", 20),  # the second of three epochs, each of 15 steps
        ("episode", 8 + 16 + 5),
        ("update", 3 * 8 + 2),
    ],
)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    place: str, count: int, uninterrupted: Path, tmp_path: Path
):
    folder = tmp_path / "killed"
    finish([signalled(folder, place, count, signal.SIGKILL)], -signal.SIGKILL)
    resumed = run(folder, "--resume")
    assert curve(folder) == curve(uninterrupted)
    assert not (folder / "journal").exists()
    if place == "cloning":
        assert "epoch   1" not in resumed.output
        assert "epoch   2" in resumed.output


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_cleanly(number: signal.Signals, tmp_path: Path):
    folder = tmp_path / "run"
    (errors,) = finish([signalled(folder, "row", 2, number)], 128 + number)
    assert "Stopping at the next safe point" in errors
    *_, note, command = errors.splitlines()
    assert note == "Stopped after iteration 1. --resume continues the run."
    words = shlex.split(command)
    assert words[:3] == ["agentgym", "train", "poad"]
    assert words[-3:] == ["--run-dir", str(folder), "--resume"]
    assert "Traceback" not in errors
    newest = RunFolder(folder, resume=True)
    assert newest.latest() is not None
    newest.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "when"), [((), "at the next forward pass"), (("--save-every", "3"), "after this upd")]
)
def test_a_signal_in_an_update_stops_at_once_where_nothing_is_lost(
    flags: tuple[str, ...], when: str, uninterrupted: Path, tmp_path: Path
):
    folder, inside = tmp_path / "run", 4 * 8 + 2  # of the fifth update, the fourth one is saved
    child = signalled(folder, "update", inside, signal.SIGINT, *flags)
    (errors,) = finish([child], 128 + signal.SIGINT)
    assert f"Stopping {when}" in errors
    finished = max(row["iteration"] for row in curve(folder))
    assert finished == (5 if flags else 4)
    run(folder, "--resume", *flags)
    assert curve(folder) == curve(uninterrupted)


@pytest.mark.slow
def test_other_settings_are_listed(uninterrupted: Path):
    changed = run(uninterrupted, "--resume", "--lr", "0.5", "--gamma", "0.5", code=2)
    assert "lr: 0.0003 -> 0.5" in changed.errors
    assert "gamma: 0.99 -> 0.5" in changed.errors
    assert "Traceback" not in changed.errors


@pytest.mark.slow
def test_a_finished_run_is_not_overwritten(uninterrupted: Path):
    assert "--resume" in run(uninterrupted, code=2).errors


@pytest.mark.parametrize("text", ["{", "[]", '{"config": 5}'])
def test_damaged_settings_are_named(text: str, tmp_path: Path):
    folder = RunFolder(tmp_path)
    (folder.checkpoints / "000001").mkdir(parents=True)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json is damaged"):
        folder.record_config("poad", {})
    folder.close()


def test_an_id_may_be_given_with_or_without_the_namespace_of_the_suite(tmp_path: Path):
    folder = RunFolder(tmp_path)
    folder.record_config("poad", {"env_id": "AgentGym/NumberLine-v0"})
    (folder.checkpoints / "000001").mkdir(parents=True)
    folder.record_config("poad", {"env_id": "NumberLine-v0"})
    with pytest.raises(CheckpointError, match="'NumberLine-v0' -> 'Mine/NumberLine-v0'"):
        folder.record_config("poad", {"env_id": "Mine/NumberLine-v0"})
    folder.close()


def test_a_setting_that_an_earlier_version_did_not_have_had_its_default(tmp_path: Path):
    folder = RunFolder(tmp_path)
    folder.record_config("poad", {"lr": 1.0})
    (folder.checkpoints / "000001").mkdir(parents=True)
    new = {"lr": 1.0, "turn_limit": "truncate", "horizons": ()}
    folder.record_config("poad", new, defaults={**new, "lr": 2.0})
    assert json.loads((tmp_path / "config.json").read_text())["config"]["turn_limit"] == "truncate"
    with pytest.raises(CheckpointError, match="turn_limit: 'truncate' -> 'terminate'"):
        folder.record_config("poad", {**new, "turn_limit": "terminate"}, defaults=new)
    with pytest.raises(CheckpointError, match=r"lr: 1\.0 -> 2\.0"):
        folder.record_config("poad", {**new, "lr": 2.0}, defaults={**new, "lr": 2.0})
    folder.close()


# Damage to a checkpoint, as disks, copies and people do it.


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "garbage": lambda data: b"\xff\xfe" * (len(data) // 2),
    "flipped bit": flip,
    "deleted": None,
}
FILES = (
    "state.json optimizer.pt critic.pt hooks.pt policy/model.safetensors policy/config.json"
).split()


def spoil(file: Path, kind: str) -> None:
    change = DAMAGES[kind]
    if change is None:
        file.unlink()
    else:
        data = change(file.read_bytes())
        file.unlink()  # it may be a hard link
        file.write_bytes(data)


@pytest.fixture
def finished(uninterrupted: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, with checkpoints 5 and 6."""
    return Path(shutil.copytree(uninterrupted, tmp_path / "copy"))


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("file", [*FILES, CHECKSUMS])
def test_a_damaged_checkpoint_is_set_aside(file: str, kind: str, finished: Path):
    spoil(finished / "checkpoints" / "000006" / file, kind)
    folder = RunFolder(finished, resume=True)
    if (file, kind) == (CHECKSUMS, "deleted"):  # as in a checkpoint of an older version
        folder.set_damaged_aside()
        assert [path.name for path in folder.found()][-1] == "000006"
    else:
        name = "" if file == CHECKSUMS else Path(file).name
        with pytest.warns(RuntimeWarning, match=f"{name}.*continues from 000005"):
            folder.set_damaged_aside()
        assert [path.name for path in folder.found()][-1] == "000005"
        assert (finished / "checkpoints" / "damaged-000006").is_dir()
    folder.close()


def test_an_intact_run_stays_as_it_is(finished: Path):
    before = sorted(path for path in finished.rglob("*"))
    folder = RunFolder(finished, resume=True)
    folder.set_damaged_aside()
    folder.close()
    assert sorted(path for path in finished.rglob("*")) == before


def test_an_empty_folder_is_no_checkpoint(finished: Path):
    (finished / "checkpoints" / "999999").mkdir()
    folder = RunFolder(finished, resume=True)
    with pytest.warns(RuntimeWarning, match=r"999999.*state\.json is missing"):
        folder.set_damaged_aside()
    latest = folder.latest()
    folder.close()
    assert latest is not None
    assert latest.name == "000006"


def test_without_an_intact_checkpoint_nothing_is_changed(finished: Path):
    checkpoints = finished / "checkpoints"
    for path in checkpoints.iterdir():
        spoil(path / "state.json", "flipped bit")
    before = sorted(path for path in finished.rglob("*"))
    folder = RunFolder(finished, resume=True)
    with pytest.raises(CheckpointError, match=r"(?s)No checkpoint .*000005: the SHA-256 of state"):
        folder.set_damaged_aside()
    folder.close()
    assert sorted(path for path in finished.rglob("*")) == before


def test_a_damaged_reference_is_named(finished: Path):
    def write(path: Path) -> None:
        (path / "x").write_text("1")

    replace_folder(finished / "reference", write, checksums=True)
    (finished / "reference" / "x").write_text("2")
    folder = RunFolder(finished, resume=True)
    with pytest.raises(CheckpointError, match=r"reference is damaged.*SHA-256 of x"):
        folder.set_damaged_aside()
    folder.close()


@pytest.mark.slow
def test_a_run_continues_from_an_older_checkpoint_bit_for_bit(finished: Path, uninterrupted: Path):
    spoil(finished / "checkpoints" / "000006" / "policy" / "model.safetensors", "flipped bit")
    resumed = run(finished, "--resume")
    assert "continues from 000005" in resumed.errors
    assert curve(finished) == curve(uninterrupted)
    names = ["policy/model.safetensors", "best/model.safetensors", "checkpoints/000006/state.json"]
    for name in names:
        assert (finished / name).read_bytes() == (uninterrupted / name).read_bytes()


@pytest.mark.parametrize("file", FILES)
def test_a_part_that_cannot_be_loaded_is_named(file: str, finished: Path):
    newest = finished / "checkpoints" / "000006"
    (newest / CHECKSUMS).unlink()  # as in a checkpoint of an older version
    spoil(newest / file, "garbage")
    flags = [*FLAGS, "--run-dir", str(finished), "--resume"]
    with pytest.raises(CheckpointError) as caught:
        train("poad", read_config("poad", flags))
    assert str(newest / Path(file).parts[0]) in str(caught.value)
    assert f"To continue from 000005, delete {newest}" in str(caught.value)


def test_a_part_without_an_older_checkpoint(tmp_path: Path):
    with (
        pytest.raises(CheckpointError, match="There is no older checkpoint"),
        loading(tmp_path / "checkpoints" / "000001" / "critic.pt"),
    ):
        raise KeyError("weights")


def test_two_runs_in_one_folder(tmp_path: Path):
    first = RunFolder(tmp_path / "run")
    with pytest.raises(CheckpointError, match=f"pid {os.getpid()}"):
        RunFolder(tmp_path / "run", resume=True)
    first.close()
    RunFolder(tmp_path / "run").close()


def test_a_folder_that_cannot_be_written(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        RunFolder(file / "run")


# What plain Python, safetensors and torch say when a disk is full.
FULL = (
    OSError(28, "No space left on device"),
    SafetensorError("I/O error: No space left on device (os error 28)"),
    RuntimeError("No space left on device: unexpected pos 576 vs 534"),
)


@pytest.mark.parametrize("error", FULL, ids=lambda error: type(error).__name__)
def test_a_checkpoint_is_whole_or_absent(error: Exception, tmp_path: Path):
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise error

    target = tmp_path / "000001"
    replace_folder(target, lambda folder: (folder / "whole").touch())
    with pytest.raises(CheckpointError, match="No space left"):
        replace_folder(target, fail)
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert [path.name for path in tmp_path.iterdir()] == ["000001"]


def test_the_newest_and_the_best_checkpoints_are_kept(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    for iteration in range(6):
        folder.save(iteration, lambda path: (path / "x").touch(), keep=2, best=1)
    kept = sorted(path.name for path in folder.checkpoints.iterdir())
    folder.close()
    assert kept == ["000001", "000004", "000005"]


def test_logs_are_cut_back_to_the_checkpoint(tmp_path: Path):
    log = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"iteration": i}) + "\n" for i in range(4)]
    log.write_text("".join(lines) + '{"iteration": 4, "re')
    truncate_jsonl(log, lambda line: line["iteration"] <= 2)
    assert log.read_text() == "".join(lines[:3])


@pytest.mark.parametrize(
    "damaged", [b"\xff\xfe\n", b"[1]\n", b"5\n", b"[" * 100_000 + b"\n", b'{"iteration": "x"}\n']
)
@pytest.mark.parametrize("name", [METRICS, TRANSCRIPTS])
def test_damaged_lines_of_a_log_are_dropped(name: str, damaged: bytes, tmp_path: Path):
    lines = [json.dumps({"iteration": i, "env_steps": i}).encode() + b"\n" for i in range(4)]
    (tmp_path / name).write_bytes(b"".join([lines[0], damaged, *lines[1:]]))
    assert len(read_metrics(tmp_path)) == (4 if name == METRICS else 0)
    with pytest.warns(RuntimeWarning, match=f"{name} is damaged: 1 of"):
        RunLog(tmp_path, RunState(iteration=2), QUIET, Accelerator(cpu=True)).close()
    assert (tmp_path / name).read_bytes() == b"".join(lines[:3])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_while_a_log_is_written(tmp_path: Path):
    log = RunLog(tmp_path, RunState(), QUIET, Accelerator(cpu=True))
    (tmp_path / METRICS).symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl could not be written.*No space"):
        log.row(RunState(), {"x": 1.0})
    log.close()


@pytest.mark.parametrize("error", FULL[:2], ids=lambda error: type(error).__name__)
def test_a_full_disk_while_the_fresh_model_is_written(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(setup, "tiny_policy", fail)
    flags = [*FLAGS, "--run-dir", str(tmp_path / "run")]
    with pytest.raises(CheckpointError, match=r"model could not be written.*No space left"):
        train("poad", read_config("poad", flags))


def test_a_full_disk_while_a_text_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*args: Any, **kwargs: Any) -> None:
        raise FULL[0]

    (tmp_path / "report.json").write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CheckpointError, match=r"report\.json could not be written.*No space"):
        write_text(tmp_path / "report.json", "new")
    assert (tmp_path / "report.json").read_text() == "old"


def test_a_text_is_on_the_disk_before_it_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("replace"), replace(*paths)))
    write_text(tmp_path / "config.json", "new")
    assert done == ["fsync", "replace"]
    assert (tmp_path / "config.json").read_text() == "new"


def test_a_checkpoint_knows_the_checksums_of_all_its_files(uninterrupted: Path):
    newest = uninterrupted / "checkpoints" / "000006"
    files = {str(file.relative_to(newest)) for file in newest.rglob("*") if file.is_file()}
    assert set(json.loads((newest / CHECKSUMS).read_text())) == files - {CHECKSUMS}
    assert set(FILES) <= files
    assert damage(newest) is None


@pytest.mark.parametrize(
    "values", [[], [float("nan")], [float("inf"), 1.0], [1e30, -1e30], [1e308, 0.0], [0.0]]
)
def test_histograms_of_any_numbers(values: list[float], tmp_path: Path):
    log = RunLog(tmp_path, RunState(), QUIET, Accelerator(cpu=True))
    log.histogram("x", values, 1)
    log.close()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "5", "{}", "[" * 100_000, '{"sampling": 5, "context": {}}'),
        '{"sampling": {}, "context": {"mode": "full", "unknown": 1}, "constrain": true}',
        '{"sampling": {"temperature": "hot"}, "context": {}, "constrain": true}',
        '{"sampling": {}, "context": {}}',
    ],
)
def test_damaged_settings_of_a_policy_are_named(text: str, finished: Path):
    (finished / "policy" / "agentgym_policy.json").unlink()  # it may be a hard link
    (finished / "policy" / "agentgym_policy.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"agentgym_policy\.json is damaged"):
        make_agent(f"policy:{finished / 'policy'}")


@pytest.mark.parametrize("name", ["steering.pt", "judge.pt"])
def test_damaged_parts_of_a_policy_are_named(name: str, finished: Path):
    (finished / "policy" / name).write_bytes(b"garbage")
    with pytest.raises(CheckpointError, match=f"{name} cannot be loaded"):
        make_agent(f"policy:{finished / 'policy'}")


@pytest.mark.parametrize(
    ("recipe", "changes", "gone"),
    [("poad", {"kl_coef": 0.1}, "reference"), ("sac_glam", {}, "frozen")],
)
def test_a_folder_that_is_written_once_and_gone_is_named(
    recipe: str, changes: dict[str, Any], gone: str, tmp_path: Path
):
    settings: dict[str, Any] = dict(
        env_id="NumberLine-v0", model="nano", context="current", constrain=True, eval_episodes=0,
        iterations=0, device="cpu", threads=1, log_with=(), quiet=True, run_dir=str(tmp_path),
    )  # fmt: skip
    train(recipe, **settings, **changes)
    assert (tmp_path / gone).is_dir()
    train(recipe, **settings, **changes, resume=True)
    shutil.rmtree(tmp_path / gone)
    with pytest.raises(
        CheckpointError, match=f"is missing, .* there is no folder {tmp_path / gone}"
    ):
        train(recipe, **settings, **changes, resume=True)
