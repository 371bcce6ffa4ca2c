"""`agentgym sweep`: settings, runs that are kept, and tables with intervals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from agentgym.cli.main import main
from agentgym.errors import ConfigError
from agentgym.evaluation.runs import Evaluation, TrainingRun
from agentgym.trainers.cli import shared_card, sweep, sweep_report, sweep_runs
from agentgym.trainers.cli.subprocesses import Children
from agentgym.trainers.cli.sweep_settings import Run, flags_of, runs_of, settings_of
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.system.gpu_memory import ALLOCATOR, Card

from ...helpers.launch import fork_runs


def test_settings_are_a_grid_or_draws_that_more_draws_extend():
    grid = settings_of(["lr=1e-3,1e-4", "constrain=true,false"], 0)
    assert len(grid) == 4 and grid[0] == (("lr", "1e-3"), ("constrain", "true"))
    assert flags_of(grid[1]) == ["--lr=1e-3", "--no-constrain"]
    drawn = settings_of(["lr=1e-5..1e-3", "epochs=1,2"], 40)
    assert len(drawn) > 20 and drawn[:5] == settings_of(["lr=1e-5..1e-3", "epochs=1,2"], 5)
    rates = [float(dict(setting)["lr"]) for setting in drawn]
    assert 1e-5 <= min(rates) and max(rates) <= 1e-3
    assert 8 < sum(rate < 1e-4 for rate in rates) < 32  # uniform in the logarithm


def test_folders_above_are_no_range():
    folders = settings_of(["model=../a,../b"], 0)
    assert folders == [(("model", "../a"),), (("model", "../b"),)]


@pytest.mark.parametrize(
    ("word", "draws", "message"),
    [
        ("lr", 0, "NAME=A,B"),
        ("lr=", 0, "NAME=A,B"),
        ("lr=1e-3", -1, "--draws must be at least 0, got -1"),
        ("lr=1e-5..1e-3", 0, "--draws"),
        ("lr=0..1", 4, "0 < LOW < HIGH"),
        ("model=nano..tiny", 4, "0 < LOW < HIGH"),
    ],
)
def test_wrong_values_are_explained(word: str, draws: int, message: str):
    with pytest.raises(ConfigError, match=message):
        settings_of([word], draws)


def test_the_help_names_defaults(capsys):
    with pytest.raises(SystemExit):
        sweep.read_sweep(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("(default: [0, 1, 2])", "they then share (default: 1)", "(default: runs/sweep)"):
        assert words in shown


@pytest.mark.parametrize("option", ["--vary lr=1,2 --vary epochs=1", "--seeds 0 1 --seeds 2"])
def test_values_of_a_repeated_option_are_not_dropped(option: str):
    with pytest.raises(ConfigError, match=f"{option.split()[0]} is given twice"):
        sweep.read_sweep(["poad", *option.split()])


def test_a_sweep_needs_processes_and_names_each_setting_and_seed_once():
    words = ["poad", "--vary", "lr=1e-3", "--seeds", "0", "1", "0"]
    for option in ("--jobs", "--threads"):
        with pytest.raises(ConfigError, match=f"{option} must be at least 1, got 0"):
            sweep.read_sweep([*words, option, "0"])
    with pytest.raises(ConfigError, match="--vary names lr twice"):
        settings_of(["lr=1e-3", "lr=1e-4"], 0)
    found, _ = sweep.read_sweep(words)
    assert [run.seed for run in found.runs] == [0, 1]
    found, _ = sweep.read_sweep(["poad", "--vary", "stop=--,x"])
    stops = [read_config("poad", run.flags).rollout.stop for run in found.runs[:2]]
    assert stops == [("--",), ("x",)]
    assert settings_of(["lr=1,1,2"], 0) == [(("lr", "1"),), (("lr", "2"),)]
    found, _ = sweep.read_sweep(["poad", "--vary", "model=a/b,a:b", "--seeds", "0"])
    names = [run.name for run in found.runs]
    assert len(set(names)) == 2 and all(name.startswith("poad,model=a-b-") for name in names)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("seed=1,2", "--seed of its runs itself: name them in --seeds"),
        ("run_dir=a,b", "--run-dir of its runs itself: leave it out"),
        ("resume=true,false", "resume of its runs itself: leave it out"),
    ],
)
def test_what_a_sweep_sets_itself_does_not_vary(word: str, message: str):
    with pytest.raises(ConfigError, match=message):
        sweep.read_sweep(["poad", "--vary", "lr=1e-3", word])


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf"])
def test_a_time_limit_is_a_number_above_0(minutes: str):
    with pytest.raises(ConfigError, match=r"--minutes is a time limit above 0 .*, got .*no limit"):
        sweep.read_sweep(["rloo", "--minutes", minutes])


def _stop(children: Children) -> None:
    """Stops a sweep, by a signal that arrives in this thread and does not wake the main one."""
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    while children.heard is None:
        os.sched_yield()


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of runs that were started. A learning rate of 7 fails, 8 stops the sweep."""
    names: list[str] = []

    def run(children: Children, command: list[str], **_: Any) -> None:
        assert command[1:3] == ["-m", "agentgym.trainers"] and "--resume" in command
        config = read_config(command[3], command[4:])
        folder = Path(config.run.run_dir)
        if config.optimisation.lr == 8:
            _stop(children)
            raise subprocess.CalledProcessError(143, command, stderr="Stopped.\n")
        if config.optimisation.lr == 7:
            raise subprocess.CalledProcessError(1, command, stderr="...\nerror: diverged\n")
        folder.mkdir(parents=True)
        rows = [
            {"iteration": i, "env_steps": 8 * i, "rollout/return": 0.1 * i, "eval/reward": 0.2 * i}
            for i in (1, 2)
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        settings = {"recipe": command[3], **config.to_json()}
        (folder / "config.json").write_text(json.dumps({"config": settings}))
        (folder / "report.json").write_text("[]")
        names.append(f"{folder.parent.name}/{folder.name}")

    monkeypatch.setattr(Children, "run", run)
    # `test_two_recipes_are_compared_over_two_seeds` draws the figure.
    monkeypatch.setattr(sweep, "try_to_draw", lambda groups, file: f"Figure: {file}")
    return names


def test_a_sweep_continues_reports_and_refuses_other_settings(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = ["--out", str(tmp_path)]
    words = ["sweep", "rloo", "--constrain", *out]
    assert main([*words, "--vary", "lr=1e-3,7", "--seeds", "0"]) == 1
    shown = capsys.readouterr()
    assert "rloo,lr=7/seed-0 failed with status 1: error: diverged" in shown.err
    assert "1 of 2 runs have finished" in shown.out
    varied = ["--vary", "lr=1e-3", "epochs=1", "--seeds", "0", "1"]
    assert main([*words, *varied]) == 0
    assert trained == [
        "rloo,lr=1e-3/seed-0",
        "rloo,lr=1e-3,epochs=1/seed-0",
        "rloo,lr=1e-3,epochs=1/seed-1",
    ]
    assert main([*words, *varied, "--report"]) == 0 and len(trained) == 3
    text = capsys.readouterr().out
    assert "2 of 2 runs" in text and "epochs=1" in text and "best of n settings of rloo" in text
    saved = json.loads((tmp_path / "sweep.json").read_text())
    assert [run["seed"] for run in saved["runs"]] == [0, 1]
    assert (saved["runs"][0]["training_return"], saved["runs"][0]["reward"]) == (0.2, 0.4)
    for more, message in [
        (["--temperature", "0.5"], "run of other settings (temperature = 1.0 -> 0.5)"),
        (["--seed", "3"], "name them in --seeds"),
        (["--eval-episodes", "0"], "eval_episodes above 0"),
    ]:
        assert main([*words, *varied, *more]) == 2
        assert message in capsys.readouterr().err
    assert main(["sweep", "bc", *out, *varied]) == 2
    assert "bc plays no episodes" in capsys.readouterr().err


def test_a_sweep_refuses_finished_runs_of_another_settings_file(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "settings.yaml"
    file.write_text("constrain: true\nclip: 0.1\n")
    words = ["sweep", "rloo", "--config", str(file), "--out", str(tmp_path / "sweep")]
    assert main([*words, "--vary", "lr=1e-3", "--seeds", "0"]) == 0
    file.write_text("constrain: true\nclip: 0.3\n")
    for report in ([], ["--report"]):
        assert main([*words, "--vary", "lr=1e-3", "--seeds", "0", "1", *report]) == 2
        assert "run of other settings (clip = 0.1 -> 0.3)" in capsys.readouterr().err
    assert main([*words, "--vary", "lr=1e-3", "--seeds", "1"]) == 0
    assert trained == ["rloo,lr=1e-3/seed-0", "rloo,lr=1e-3/seed-1"]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", None, "settings cannot be read from config.json (FileNotFoundError"),
        ("config.json", '{"config": {"lr', "settings cannot be read from config.json (JSONDecode"),
        ("config.json", "[]", "settings cannot be read from config.json (TypeError"),
        ("metrics.jsonl", None, "results are not in metrics.jsonl"),
        ("metrics.jsonl", '{"iteration": 1, "eval/reward": 0.2}\n', "results are not in metrics"),
        (
            "metrics.jsonl",
            '{"iteration": 1, "eval/reward": 0.2}\n{"iteration": 2, "rollout/return": 0.1}\n{"it',
            "results are not in metrics.jsonl",
        ),
    ],
)
def test_damaged_files_of_a_finished_run_are_named(
    trained: list[str],
    file: str,
    text: str | None,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    words = ["sweep", "rloo", "--out", str(tmp_path), "--vary", "lr=1e-3", "--seeds", "0", "1"]
    assert main(words) == 0
    damaged = tmp_path / "rloo,lr=1e-3" / "seed-1"
    if text is None:
        (damaged / file).unlink()
    else:
        (damaged / file).write_text(text)
    for report in ([], ["--report"]):
        capsys.readouterr()
        assert main([*words, *report]) == 2 and len(trained) == 2
        shown = capsys.readouterr().err
        assert str(damaged) in shown and message in shown and "delete the folder" in shown
    shutil.rmtree(damaged)
    (tmp_path / "sweep.json").write_text("{")
    assert main(words) == 0 and trained[2:] == ["rloo,lr=1e-3/seed-1"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--env-id", "NumberLin-v0"], "Did you mean: NumberLine-v0"),
        (["--model", "nanoo"], "Did you mean: nano?"),
        (["--opponents", "mirror"], "NumberLine-v0 has one agent"),
        (["--critic-backbone", "separate"], "rloo has no critic_backbone"),
        (["--eval-env-id", "TextNaf-v0"], "Did you mean: TextNav-v0"),
    ],
)
def test_settings_that_cannot_run_are_explained_once_before_any_run(
    trained: list[str],
    flags: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    words = ["sweep", "rloo", *flags, "--vary", "lr=1e-3,1e-4", "--out", str(tmp_path / "out")]
    assert main(words) == 2 and not trained
    shown = capsys.readouterr().err
    assert shown.count("error: ") == 1 and shown.count(message) == 1 and "lr=" not in shown
    assert not (tmp_path / "out").exists()


def test_a_sweep_names_the_settings_that_cannot_run(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["sweep", "rloo", "--constrain", "--out", str(tmp_path), "--vary", "lr=1e-3,1e-4"]
    assert main([*words, "env_id=NumberLine-v0,NumberLin-v0"]) == 2 and not trained
    shown = capsys.readouterr().err
    assert shown.count("Did you mean: NumberLine-v0") == 1
    assert "lr=1e-3 env_id=NumberLin-v0, lr=1e-4 env_id=NumberLin-v0: " in shown


def test_the_log_of_a_finished_run_is_read_once_while_a_sweep_plays(
    trained: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    read: list[str] = []
    result_of = sweep_runs.result_of
    monkeypatch.setattr(
        sweep_runs, "result_of", lambda run, path: [read.append(run.name), result_of(run, path)][1]
    )
    words = ["rloo", "--constrain", "--out", str(tmp_path), "--vary", "lr=1e-3,1e-4"]
    found, _ = sweep.read_sweep(words)
    assert found.play() == [] and sorted(read) == sorted(trained)
    saved = json.loads((tmp_path / "sweep.json").read_text())
    assert [run["seed"] for run in saved["runs"]] == [0, 0, 1, 1, 2, 2]


def test_runs_that_fail_alike_are_named_together(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["sweep", "rloo", "--out", str(tmp_path), "--vary", "lr=1e-3,7", "--seeds", "0", "1"]
    assert main(words) == 1
    shown = capsys.readouterr()
    assert "rloo,lr=7/seed-0, rloo,lr=7/seed-1 failed with status 1: error: diverged" in shown.err
    assert "2 of 4 runs have finished" in shown.out


def test_a_sweep_that_is_stopped_starts_no_other_run(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["sweep", "rloo", "--constrain", "--out", str(tmp_path), "--seeds", "0"]
    before = signal.getsignal(signal.SIGTERM)
    assert main([*words, "--vary", "lr=1e-3,8,1e-4"]) == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    assert "The same command continues the sweep" in capsys.readouterr().err
    assert trained == ["rloo,lr=1e-3/seed-0"]
    assert len(json.loads((tmp_path / "sweep.json").read_text())["runs"]) == 1


@pytest.mark.parametrize("killed", [0, 1, 5])
def test_a_sweep_that_was_stopped_at_any_run_ends_with_the_same_table(
    trained: list[str],
    killed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def ends(out: str) -> tuple[str, Any]:
        shown = capsys.readouterr().out
        saved = json.loads((tmp_path / out / "sweep.json").read_text())
        return shown[shown.rindex("better %") :].replace(out, "OUT"), saved["groups"]

    words = ["sweep", "rloo", "poad", "--constrain", "--seeds", "0", "1", "2"]
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    whole = ends("whole")
    run, started = Children.run, len(trained)

    def stops(children: Children, command: list[str], **options: Any) -> None:
        if len(trained) - started == killed and children.heard is None:
            _stop(children)
            raise subprocess.CalledProcessError(143, command, stderr="Stopped.\n")
        run(children, command, **options)

    parts = [*words, "--out", str(tmp_path / "parts")]
    with monkeypatch.context() as patch:
        patch.setattr(Children, "run", stops)
        assert main(parts) == 128 + signal.SIGTERM
    assert len(trained) == started + killed
    assert main(parts) == 0 and len(trained) == 2 * started
    assert ends("parts") == whole


def test_a_sweep_stops_at_its_time_limit_and_the_same_command_continues_it(
    trained: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    run, late = Children.run, [True]

    def second_is_late(children: Children, command: list[str], **options: Any) -> None:
        if late and len(trained) == 1:
            children._expire()
            raise subprocess.CalledProcessError(143, command, stderr="Stopped.\n")
        run(children, command, **options)

    monkeypatch.setattr(Children, "run", second_is_late)
    words = ["sweep", "rloo", "--constrain", "--out", str(tmp_path), "--minutes", "600"]
    assert main(words) == 124 and trained == ["rloo/seed-0"]
    shown = capsys.readouterr()
    assert "Time limit: 2 runs have not ended. The same command continues the sweep." in shown.err
    assert "1 of 3 runs have finished" in shown.out and "error" not in shown.err
    assert json.loads((tmp_path / "sweep.json").read_text())["failed"] == {}
    late.clear()
    assert main(words) == 0 and trained == ["rloo/seed-0", "rloo/seed-1", "rloo/seed-2"]
    assert "Time limit" not in capsys.readouterr().err


def test_runs_on_one_gpu_get_shares_of_its_memory_unless_they_do_not_fit(
    trained: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    variables: list[str] = []
    run = Children.run

    def shares(children: Children, command: list[str], **options: Any) -> None:
        variables.append(options["env"][ALLOCATOR])
        run(children, command, **options)

    monkeypatch.setattr(Children, "run", shares)
    words = ["sweep", "rloo", "--constrain", "--out", str(tmp_path), "--jobs", "2"]
    monkeypatch.setattr(shared_card, "find_card", lambda: Card("Test GPU", 1 << 30, 8 << 30))
    assert main(words) == 2 and not trained  # two contexts take all
    shown = capsys.readouterr().err
    assert "rloo/seed-0 needs at least 0." in shown and "free on Test GPU. " in shown
    assert "cache" not in shown
    monkeypatch.setattr(shared_card, "find_card", lambda: Card("Test GPU", 8 << 30, 8 << 30))
    assert main(words) == 0
    assert variables == 3 * ["per_process_memory_fraction:0.3750"]


@pytest.mark.slow
def test_two_recipes_are_compared_over_two_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    fork_runs(monkeypatch.setattr)
    out = tmp_path / "sweep"
    words = [
        *("sweep", "poad", "rloo", "--env-id", "NumberLine-v0", "--model", "nano", "--constrain"),
        *("--context", "current", "--iterations", "2", "--episodes-per-iteration", "8"),
        *("--group-size", "4", "--eval-every", "1", "--eval-episodes", "8", "--device", "cpu"),
        *("--transcripts", "2", "--seeds", "0", "1", "--jobs", "2", "--out", str(out)),
    ]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "4 of 4 runs have finished" in shown and f"Figure: {out / 'compare.png'}" in shown
    assert max(map(len, shown.replace(str(out), "").splitlines())) <= 80
    saved = json.loads((out / "sweep.json").read_text())
    for group, name in zip(saved["groups"], ("poad", "rloo"), strict=True):
        assert group["name"] == name and group["seeds"] == [0, 1] and group["tokens"] > 0
        assert group["reward"]["low"] == min(group["rewards"]) >= 0
        assert group["reward"]["high"] == max(group["rewards"]) <= 1
    assert saved["groups"][0]["better"] is None
    assert 0 <= saved["groups"][1]["better"]["low"] <= saved["groups"][1]["better"]["high"] <= 1
    metrics = {path: path.stat().st_mtime_ns for path in out.rglob("metrics.jsonl")}
    assert main(words) == 0 and len(metrics) == 4  # nothing is run again
    assert all(path.stat().st_mtime_ns == time for path, time in metrics.items())
    assert main(["view", str(out)]) == 0
    assert len(list(out.rglob("view.html"))) == 5


def result(run: Run, training: float, reward: float) -> TrainingRun:
    curve = (Evaluation(0, 0, 0.0), Evaluation(800, 9000, reward))
    return TrainingRun(
        Path(run.name), run.recipe, run.seed, True, curve, training, 800, 9000, 12.0,
        {"env_id": "AgentGym/NumberLine-v0"},
    )  # fmt: skip


def test_settings_are_ordered_by_training_and_values_are_pooled(tmp_path: Path):
    settings = settings_of(["lr=1,2", "epochs=1,2"], 0)
    runs = runs_of(["poad", "turn"], settings, [0, 1])
    found = sweep_runs.Sweep(("poad", "turn"), (), runs, tmp_path)
    trained = {("1", "2"): 5.0, ("2", "1"): 1.0}
    for run in runs:
        lr, epochs = (value for _, value in run.setting)
        training = trained.get((lr, epochs), 0.0) + run.seed
        found._known[run] = result(run, training, 0.5 if run.recipe == "poad" else 0.75)
    names = [group.name for group in found.groups()]
    assert names[:2] == ["poad lr=1 epochs=2", "poad lr=2 epochs=1"]
    assert [name.split()[0] for name in names] == ["poad"] * 4 + ["turn"] * 4
    text = sweep_report.tables(found.groups(), found.results())
    assert max(map(len, text.splitlines())) <= 80
    [pooled] = [line for line in text.splitlines() if line.startswith("turn  ")]
    assert pooled.split()[1:7] == ["8", "0.750", "[0.750,", "0.750]", "100", "[100,"]
    assert any(line.startswith("lr=1 ") and line.split()[1] == "8" for line in text.splitlines())
    best = text[text.index("best of n settings of turn") :].splitlines()
    assert [line.split()[2] for line in best[1:]] == ["1", "2", "4"]
    assert best[-1].split()[3:] == ["0.750", "[0.750,", "0.750]"]


def test_recipes_are_an_axis_and_their_folders_are_portable():
    settings = settings_of(["env_id=A-v0", "lr=1e-3,1e-4"], 0)
    runs = runs_of(["poad", "my_lab.own"], settings, [0])
    assert [run.name for run in runs] == [
        "poad,env_id=A-v0,lr=1e-3/seed-0", "poad,env_id=A-v0,lr=1e-4/seed-0",
        "my_lab.own,env_id=A-v0,lr=1e-3/seed-0", "my_lab.own,env_id=A-v0,lr=1e-4/seed-0",
    ]  # fmt: skip
    alone = {run.name for run in runs_of(["poad"], settings, [0])}
    assert alone < {run.name for run in runs}  # more recipes extend a sweep
    found, _ = sweep.read_sweep(["poad", "turn", "poad", "--seeds", "1", "0", "--constrain"])
    assert found.recipes == ("poad", "turn") and found.flags == ("--constrain",)
    names = [run.name for run in found.runs]
    assert names == ["poad/seed-1", "turn/seed-1", "poad/seed-0", "turn/seed-0"]
    more, _ = sweep.read_sweep(["poad", "--seeds", "0", "1"])  # which more recipes extend
    assert {run.name for run in more.runs} <= set(names)


def test_folders_differ_on_disks_that_ignore_case():
    with pytest.raises(ConfigError, match=r"would have the same folder.*differ in letters"):
        sweep.read_sweep(["poad", "--vary", "env_id=Desk-v0,desk-v0"])


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["--seeds", "0"], ["Name at least one recipe before the options"]),
        (["poad", "turm"], ["Did you mean: turn?"]),
        (["poad", "bc"], ["bc plays no episodes", "suit poad, not bc", "agentgym plot"]),
        (["poad", "rloo", "turn", "--lambda-token", "0.9"],
         ["rloo and turn lack the setting lambda_token", "suit poad, not rloo, turn"]),
        (["poad", "rloo", "--vary", "critic_lr=1e-3,1e-4"],
         ["rloo lacks the setting critic_lr", "into a folder of its own (--out)"]),
        (["poad", "rloo", "--entropy-coeff", "1"], ["Did you mean: entropy_coef"]),
        (["poad", "--draws", "3"], ["name them with --vary"]),
    ],
)  # fmt: skip
def test_recipes_that_cannot_be_compared_are_named(words: list[str], messages: list[str]):
    with pytest.raises(ConfigError) as error:
        sweep.read_sweep([*words, "--constrain"])
    assert all(message in str(error.value) for message in messages), str(error.value)
