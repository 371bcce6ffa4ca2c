"""`agentgym train`: settings from files and flags, and errors a user can read."""

from __future__ import annotations

import errno
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agentgym.cli import main as cli
from agentgym.errors import ConfigError
from agentgym.trainers import api, recipes
from agentgym.trainers.cli.train import main, read_config
from agentgym.trainers.recipes import poad
from agentgym.trainers.system.signals import Interrupted

FEW = (
    "--env-id NumberLine-v0 --model nano --iterations 1 --episodes-per-iteration 4 "
    "--eval-episodes 2 --device cpu --threads 1 --constrain --context current --quiet"
).split()


@pytest.fixture
def quick_runs() -> None:
    """Runs are whole here."""


def test_without_a_recipe_they_are_listed(capsys):
    for words in (["train"], ["train", "--help"]):
        assert cli.main(words) == 0
        shown = capsys.readouterr().out
        assert all(f"  {name} " in shown for name in recipes.names())
    assert cli.main(["train", "--env-id", "NumberLine-v0"]) == cli.WRONG_USE
    shown = capsys.readouterr().err
    assert shown.startswith("error: Name a recipe before the options, as in `agentgym train poad ")
    assert "`agentgym train` lists the recipes" in shown and "\n" not in shown.strip()


def settings(tmp_path: Path, text: str, *flags: str) -> poad.Config:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    return read_config("poad", ["--config", str(file), *flags])


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path):
    text = "lr: 0.25\niterations: 7\nconstrain: true\nenv_kwargs: {size: 5, max_turns: 9}\n"
    config = settings(tmp_path, text + "stop: [a, b]\n", "--iterations", "3")
    assert config.optimisation.lr == 0.25
    assert (config.run.iterations, config.rollout.constrain) == (3, True)
    assert config.environment.env_kwargs == {"size": 5, "max_turns": 9}
    assert config.rollout.stop == ("a", "b")
    assert config.gamma == poad.Config().gamma


@pytest.mark.parametrize("name", ["constrain", "instructions", "resume"])
def test_booleans_of_a_file_and_of_a_flag(name: str, tmp_path: Path):
    for value in (True, False):
        flag = ("--" if value else "--no-") + name.replace("_", "-")
        configs = settings(tmp_path, f"{name}: {value}\n"), settings(tmp_path, "", flag)
        assert [config.values()[name] for config in configs] == [value, value]


def test_an_unknown_setting_is_named_with_a_suggestion(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"'gama'.*gamma"):
        settings(tmp_path, "gama: 0.9\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lr: 0.1\nlr: 0.2\n", "'lr' is given twice"),
        ("env_kwargs: {size: 4, size: 5}\n", "'size' is given twice"),
        ("num-envs: 1\nnum_envs: 2\n", "'num_envs' is given twice"),
        ("[]", "`name: value` lines, got list"),
        ("false", "`name: value` lines, got bool"),
        ("iterations: yes\n", "sets 'iterations' to True, expected a value such as 100"),
        ("constrain: 1\n", "sets 'constrain' to 1, expected a value of true or false"),
        ("constrain: 'true'\n", "sets 'constrain' to 'true', expected a value of true or false"),
        ("run_dir:\n", "sets 'run_dir' to null: leave the line out for the default"),
        ("wrap: null\n", "sets 'wrap' to null"),
        ("stop: [a, ~]\n", "sets 'stop' to a list with null"),
        ("run_dir: 2026-05-01\n", "to 2026-05-01, which is no text, .* date: put texts in"),
        ("env_kwargs: {start: 2026-05-01}\n", "'env_kwargs' to .* date: put texts in"),
    ],
)
def test_wrong_lines_of_a_file_are_named(text: str, expected: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=expected):
        settings(tmp_path, text)


@pytest.mark.parametrize(
    "values", [{"stop": ["--"]}, {"stop": ["--end", "a"], "run_dir": "--"}, {"stop": ["-5", ""]},
               {"stop": []}, {"env_kwargs": {"name": "--x"}, "train_tasks": None}]
)  # fmt: skip
def test_values_of_a_file_may_begin_with_a_dash(values: dict[str, Any], tmp_path: Path):
    found = settings(tmp_path, json.dumps(values)).values()
    assert {name: found[name] for name in values} == {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }


def test_a_later_value_of_a_file_that_begins_with_a_dash_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="'stop' to 'a', '--': only the first value may begin"):
        settings(tmp_path, "stop: [a, '--']\n")


@pytest.mark.parametrize("values", [["--"], ["a", "--"], ["--", "--iterations", "3"]])
def test_dashes_alone_are_no_value(values: list[str]):
    assert read_config("poad", ["--stop=--"]).rollout.stop == ("--",)
    with pytest.raises(ConfigError, match=r"'--' alone is no value: .* --stop=--"):
        read_config("poad", ["--stop", *values])


def test_a_file_may_have_the_line_ends_of_windows(tmp_path: Path):
    file = tmp_path / "settings.yaml"
    file.write_bytes(b"\xef\xbb\xbfiterations: 7\r\nrun_dir: 'runs/a b'\r\n")
    run = read_config("poad", ["--config", str(file)]).run
    assert (run.iterations, run.run_dir) == (7, "runs/a b")


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"versions": {}}', '{"config": null}'])
def test_a_folder_without_the_settings_of_a_run_is_no_file_of_defaults(text: str, tmp_path: Path):
    """Else `--resume` would train with other settings, in another folder."""
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match="holds no settings of a run"):
        read_config("poad", ["--config", str(tmp_path), "--resume"])


def test_numbers_of_a_file_are_those_of_the_command_line(tmp_path: Path):
    numbers = ["1e-1", "1E3", "-2e-2", "0.5", "7", "-3", "1e5"]
    text = "".join(f"  name_{i}: {number}\n" for i, number in enumerate(numbers))
    found = settings(tmp_path, f"lr: 1e-3\nenv_kwargs:\n{text}")
    words = [f"name_{i}={number}" for i, number in enumerate(numbers)]
    same = read_config("poad", ["--lr", "1e-3", "--env-kwargs", *words])
    assert found.environment.env_kwargs == same.environment.env_kwargs
    assert found == same
    assert settings(tmp_path, "seed: 010\n").run.seed == 10
    for word, number in ((".inf", "Infinity"), ("-.Inf", "-Infinity"), (".INF", "Infinity")):
        found = settings(tmp_path, f"env_kwargs: {{size: {word}}}\n").environment.env_kwargs
        assert found == {"size": float(number)}
    with pytest.raises(SystemExit):
        settings(tmp_path, "seed: 1:30\n")


@pytest.mark.parametrize(
    "words",
    ["--data a.jsonl --data b.jsonl", "--env-kwargs size=3 --env_kwargs=max_turns=4",
     "--wrap A --lr 1 --wrap B", "--config a.yaml --config b.yaml"],
)  # fmt: skip
def test_values_of_a_repeated_flag_are_not_dropped(words: str):
    with pytest.raises(ConfigError, match=f"{words.split()[0]} is given twice"):
        read_config("poad", words.split())
    assert read_config("poad", ["--lr", "1", "--lr", "2"]).optimisation.lr == 2


@pytest.mark.parametrize("recipe", recipes.names())
def test_the_settings_of_a_run_are_those_of_its_file(recipe: str, tmp_path: Path):
    config = recipes.load(recipe).Config.of(
        env_id="Maze-v0",
        env_kwargs={"size": 3, "name": "a b", "code": "12", "word": "true", "cost": 1e-5},
        stop=("\n", "End"), seed=3,
        iterations=7, lr=1e-4, constrain=True, train_tasks=None, log_with=(),
    )  # fmt: skip
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"config": {"recipe": recipe, **config.to_json()}, "versions": {}}))
    assert read_config(recipe, ["--config", str(file)]) == config
    assert read_config(recipe, ["--config", str(file), "--seed", "4"]).run.seed == 4
    with pytest.raises(ConfigError, match=f"of a run of {recipe}: use `agentgym train {recipe}`"):
        read_config("turn" if recipe != "turn" else "poad", ["--config", str(file)])


def test_a_run_continues_with_the_settings_in_its_folder(tmp_path: Path):
    run = tmp_path / "run"
    assert main(["turn", *FEW, "--run-dir", str(run)]) == 0
    again = ["turn", "--config", str(run), "--resume", "--iterations", "2"]
    assert main(again) == 0
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    assert [row["iteration"] for row in rows if "time/update" in row] == [1, 2]


def test_the_folder_of_a_run_is_flat_and_an_older_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("corridor", "hallway"):
        (tmp_path / f"{module}.py").write_text(
            "import gymnasium\nfrom agentgym.envs.numbers.number_line import NumberLine\n"
            f"gymnasium.register('{module}/Line-v0', NumberLine)\n"
        )
        assert main(["turn", *FEW, "--env-id", f"{module}:{module}/Line-v0"]) == 0
    first, second = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert re.fullmatch(r"turn-corridor-corridor-Line-v0-\w{6}-0", first)
    assert re.fullmatch(r"turn-hallway-hallway-Line-v0-\w{6}-0", second)
    older = tmp_path / "runs" / "turn-corridor:corridor" / "Line-v0-0"
    older.parent.mkdir()
    (tmp_path / "runs" / first).rename(older)
    again = ["turn", *FEW, "--env-id", "corridor:corridor/Line-v0", "--resume"]
    assert main([*again, "--iterations", "2", "--run-dir", str(older)]) == 0
    rows = map(json.loads, (older / "metrics.jsonl").read_text().splitlines())
    assert [row["iteration"] for row in rows if "time/update" in row] == [1, 2]


def test_the_file_of_a_run_names_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["turn", *FEW, "--run-dir", "made/{recipe}-{seed}"]) == 0
    run, elsewhere = tmp_path / "made" / "turn-0", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    moved = run.rename(tmp_path / "braces {}")
    for file in (moved, moved / "config.json"):
        found = read_config("turn", ["--config", str(file), "--resume"]).run
        assert (Path(found.run_dir.format()), found.resume) == (moved, True)
        assert read_config("turn", ["--config", str(file)]).run.run_dir == "made/{recipe}-{seed}"
    flags = ["--config", str(moved), "--resume", "--run-dir", "other"]
    assert read_config("turn", flags).run.run_dir == "other"
    assert main(["turn", "--config", str(moved), "--resume", "--iterations", "2"]) == 0
    assert not any(elsewhere.iterdir())
    assert "There is no run" not in capsys.readouterr().out
    # A resumed run keeps the folder of its settings, for runs with other seeds.
    saved = json.loads((moved / "config.json").read_text())["config"]
    assert (saved["run_dir"], saved["iterations"]) == ("made/{recipe}-{seed}", 2)
    assert read_config("turn", ["--config", str(moved)]).run.iterations == 2
    # Without --resume, a folder that holds a run is refused, also one of an older version.
    assert "resume" not in saved
    (moved / "config.json").write_text(json.dumps({"config": saved | {"resume": True}}))
    again = ["turn", "--config", str(moved), "--iterations", "3"]
    assert main([*again, "--run-dir", str(moved).replace("{}", "{{}}")]) == 2
    assert "holds a run already" in capsys.readouterr().err


def test_a_run_that_cannot_be_resumed_is_a_new_one_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.chdir(tmp_path)
    few = [flag for flag in FEW if flag != "--quiet"]
    assert main(["turn", *few, "--iterations", "0", "--run-dir", "misspelt", "--resume"]) == 0
    line = f"There is no run in {tmp_path / 'misspelt'} to resume, so a new one starts."
    assert line in capsys.readouterr().out.splitlines()
    again = ["turn", *few, "--run-dir", "misspelt", "--resume"]
    assert main([*again, "--iterations", "0"]) == 0
    finished = "This run has finished. To train on, raise --iterations."
    assert finished in capsys.readouterr().out
    assert main([*again, "--iterations", "1"]) == 0
    assert finished not in capsys.readouterr().out


@pytest.mark.slow
def test_files_that_are_no_settings(tmp_path: Path):
    with pytest.raises(
        ConfigError, match=r"missing\.yaml': No such file.* in the folder '"
    ) as found:
        read_config("poad", ["--config", "missing.yaml"])
    assert "Errno" not in str(found.value) and str(Path.cwd()) in str(found.value)
    with pytest.raises(ConfigError, match="Cannot read"):
        settings(tmp_path, "lr: [1\n")
    for text in ("lr: " + "[" * 10_000, "lr: " + "9" * 5_000 + "\nx: !!int 0x\n", "\x00"):
        with pytest.raises(ConfigError, match="Cannot read"):
            settings(tmp_path, text)
    (tmp_path / "latin.yaml").write_bytes(b"lr: \xff\n")
    with pytest.raises(ConfigError, match="Cannot read"):
        read_config("poad", ["--config", str(tmp_path / "latin.yaml")])
    with pytest.raises(ConfigError, match="name: value"):
        settings(tmp_path, "- lr\n")


@pytest.mark.parametrize("recipe", recipes.names())
def test_every_recipe_has_settings_with_help(recipe: str, capsys):
    with pytest.raises(SystemExit) as left:
        read_config(recipe, ["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "--env-id" in shown and "Environment id" in shown
    assert shown.index("environment options") < shown.index("optimisation options")


def test_train_writes_what_it_promises_and_the_policy_plays(tmp_path: Path, capsys):
    folder = tmp_path / "run"
    assert cli.main(["train", "poad", *FEW, "--run-dir", str(folder)]) == 0
    for name in ("config.json", "metrics.jsonl", "trajectories.jsonl", "curve.png", "report.json"):
        assert (folder / name).stat().st_size > 0, name
    board = EventAccumulator(str(folder / "tensorboard")).Reload()
    drawn = {"advantages", "values", "rewards", "estimators/poad", "estimators/turn"}
    assert {f"credit/{name}" for name in drawn} <= set(board.Tags()["histograms"])
    page = tmp_path / "page.html"
    assert cli.main(["view", str(folder), "--out", str(page)]) == 0
    assert '"estimators":{"return":[' in page.read_text(encoding="utf-8")
    capsys.readouterr()
    again = ["eval", "NumberLine-v0", "--agent", f"policy:{folder}", "--episodes", "3"]
    assert cli.main(again) == 0
    shown = capsys.readouterr()
    assert "NumberLine-v0" in shown.out
    assert shown.err == "" and "was trained in" not in shown.out
    assert cli.main([*again, "--env-kwargs", "size=5"]) == 0
    assert "poad was trained in NumberLine-v0 with no --env-kwargs.\n" in capsys.readouterr().out
    assert cli.main([*again, "--agent-kwargs", "device=nowhere"]) == cli.WRONG_USE
    assert "device 'nowhere'" in capsys.readouterr().err
    there = ["--model", str(folder), "--run-dir", str(tmp_path / "other")]
    assert cli.main(["train", "poad", *FEW, *there]) == cli.WRONG_USE
    assert str(folder / "policy") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pod"], "Did you mean: poad"),
        (["poad", "--env-id", "NumberLin-v0"], "NumberLine-v0"),
        (["poad", "--env-kwargs", "sise=3"], "size"),
        (["poad", "--env-kwargs", "size=1"], "size must be from 2 to"),
        (["poad", "--model", "/no/such/folder"], "/no/such/folder"),
        (["poad", "--env-id", "CartPole-v1"], "not a text environment"),
        (["poad", "--run-dir", "runs/{task}"], "recipe, env or seed"),
        pytest.param(
            ["poad", "--device", "cuda"],
            "no such GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one"),
        ),
    ],
)
def test_what_a_user_can_get_wrong_is_one_message(words, expected, tmp_path, capsys):
    assert cli.main(["train", words[0], "--run-dir", str(tmp_path / "run"), *words[1:]]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("recipe", "setting", "value", "expected"),
    [
        ("poad", "temperature", "0", "temperature must be above 0"),
        ("bc", "bc_epochs", "1", "data of a recipe that does not learn offline"),
        ("poad", "lr", "nan", "must be finite"),
        ("poad", "gamma", "1.5", "gamma must be in"),
        ("archer_iql", "gamma", "1.5", "gamma must be in"),
        ("ilql", "expectile", "-1", "expectile must be above 0"),
        ("chunk", "chunk_size", "0", "chunk_size must be at least 1"),
        ("orm", "label_every", "0", "label_every must be at least 1"),
        ("poad", "device", "gpu", "cuda"),
        ("poad", "iterations", "1e3", "error: --iterations: expected an integer, got '1e3'"),
        ("poad", "gamma", "high", "error: --gamma: expected a number, got 'high'"),
        ("poad", "lr", "high", "error: --lr: expected {None}|FLOAT, got 'high' Argument"),
        ("poad", "epochs", "-1", "error: epochs must be at least"),
    ],
)
def test_settings_that_cannot_work_say_why(recipe, setting, value, expected, capsys):
    try:
        code: Any = cli.main(["train", recipe, f"--{setting}", value])
    except SystemExit as left:
        code = left.code
    assert code == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert expected in shown


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"ratio": "tokens"}, "ratio must be one of .*Did you mean: token"),
        ({"normalization": "words"}, "normalization must be one of .*'word', None"),
        ({"lr": float("nan")}, "'lr' of the settings must be finite, got nan"),
        ({"lr": float("inf")}, "'lr' of the settings must be finite, got inf"),
        ({"lora_alpha": float("nan")}, "'lora_alpha' of the settings must be finite, got nan"),
        ({"adam_betas": ("a", 0.9)}, "adam_betas must be numbers, got 'a'"),
        ({"adam_betas": (0.9,)}, "adam_betas must be 2 numbers"),
    ],
)
def test_settings_made_in_python_are_checked_at_once(setting, expected):
    with pytest.raises(ConfigError, match=expected):
        poad.Config.of(**setting)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("poad --data missing.jsonl", "missing.jsonl cannot be read"),
        ("poad --bc-demonstrations 1 --general-data missing.jsonl", "missing.jsonl cannot be read"),
        ("poad --data broken.jsonl", "broken.jsonl, line 1: not JSON"),
        ("poad --process-reward progresx", "has task, invalid. Did you mean: progress"),
        ("poad --reward-constraints formt=0 --wrap ExtractAction:format=tags,format_penalty=0.5 "
         "--no-constrain", "AgentGym/NumberLine-v0 has task, invalid, format. Did you"),
        ("filtered_bc --judge vald", "judge names the reward term 'vald'"),
        ("mt_grpo --turn-score vald --group-size 2", "turn_score names the reward term 'vald'"),
        ("exit --teacher search:mcst", "Unknown search 'mcst'. Did you mean: mcts"),
        ("exit --teacher search:mcst,budget=9 --guided", "Unknown search 'mcst'"),
        ("exit --teacher searc:mcts", "Unknown agent 'searc:mcts'"),
        ("poad --rollout-workers 2", "needs the package 'ray'"),
        ("poad --engine vllm", "needs the package 'vllm'"),
    ],
)  # fmt: skip
def test_faults_are_found_before_the_folder_is_made(
    words, expected, tmp_path, monkeypatch: pytest.MonkeyPatch, capsys
):
    for package in ("ray", "vllm"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    Path("broken.jsonl").write_text("{")
    recipe, *flags = words.split()
    assert main([recipe, *FEW, "--run-dir", "run", *flags]) == 2
    assert expected in capsys.readouterr().err
    assert not Path("run").exists()


def test_names_of_reward_terms_that_exist_are_accepted(tmp_path: Path):
    config = poad.Config.of(
        env_id="NumberLine-v0", model="nano", device="cpu", threads=1,
        process_reward="speed", reward_constraints={"speed": 0.5}, iterations=0, eval_episodes=0,
        run_dir=str(tmp_path / "run"), quiet=True, log_with=(),
    )  # fmt: skip
    api.train("poad", config, reward=lambda transition: {"speed": 1.0})
    with pytest.raises(ConfigError, match="'speed', and AgentGym/NumberLine-v0 has task, invalid"):
        api.train("poad", config)


def test_a_resumed_run_needs_its_data_no_more(tmp_path: Path):
    data, run = tmp_path / "data.jsonl", tmp_path / "run"
    messages = [{"role": "user", "content": "7"}, {"role": "assistant", "content": "right"}]
    data.write_text(json.dumps({"messages": messages}))
    flags = [*FEW, "--run-dir", str(run), "--data", str(data), "--bc-epochs", "1"]
    assert main(["turn", *flags]) == 0
    data.unlink()
    assert main(["turn", *flags, "--resume", "--iterations", "2"]) == 0


def test_an_environment_without_tasks(tmp_path, capsys):
    run = ["--env-id", "CartPole-v1", "--run-dir", str(tmp_path / "run")]
    assert cli.main(["train", "poad", *run]) == 2
    assert "textify" in capsys.readouterr().err


def test_instructions_that_do_not_fit_leave_no_run_behind(tmp_path: Path, capsys):
    words = [word for word in FEW if word != "--constrain"]
    words += ["--max-tokens", "20", "--run-dir", str(tmp_path / "run")]
    assert cli.main(["train", "poad", *words]) == 2
    assert "too few for the instructions" in capsys.readouterr().err
    assert not list((tmp_path / "run" / "checkpoints").iterdir()), "the folder is free"


def test_an_unwritable_run_folder(tmp_path: Path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["train", "poad", *FEW, "--run-dir", str(tmp_path / "file" / "run")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_model_folder_without_a_tokenizer(tmp_path: Path, capsys):
    import json

    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    run = ["--model", str(folder), "--run-dir", str(tmp_path / "run")]
    assert cli.main(["train", "poad", *FEW, *run]) == 2
    assert "tokenizer" in capsys.readouterr().err


def test_running_out_of_memory_is_an_error_with_its_remedy(monkeypatch, capsys):
    def train(*_: Any) -> None:
        error = torch.OutOfMemoryError("CUDA out of memory.")
        error.add_note("Set microbatch_tokens to 20.")
        raise error

    monkeypatch.setattr(api, "train", train)
    assert main(["poad"]) == 1
    assert capsys.readouterr().err == "error: CUDA out of memory.\nSet microbatch_tokens to 20.\n"


def test_a_full_disk_is_an_error_with_its_remedy(monkeypatch, capsys):
    def train(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(api, "train", train)
    assert main(["poad"]) == 1
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "error: [Errno 28] No space left on device"
    assert shown[-1] == "  agentgym train poad --resume"


@pytest.mark.parametrize(
    ("processes", "flags", "line"),
    [
        ("1", [], "  agentgym train poad --env-kwargs 'size=5 6' --resume"),
        ("2", [], "Start all processes again with --resume."),
        ("2", ["--resume"], "Start all processes again with --resume."),
        (
            "1",
            ["--config=a.yaml"],
            "  agentgym train poad --env-kwargs 'size=5 6' --config=a.yaml --run-dir 'a/{seed}' "
            "--resume",
        ),
        (
            "1",
            ["--config=a.yaml", "--run_dir=b"],
            "  agentgym train poad --env-kwargs 'size=5 6' --config=a.yaml --run_dir=b --resume",
        ),
    ],
)
def test_a_stopped_run_shows_how_to_continue(monkeypatch, capsys, tmp_path, processes, flags, line):
    def train(*_: Any) -> None:
        raise Interrupted(15)

    monkeypatch.setattr(api, "train", train)
    monkeypatch.setenv("WORLD_SIZE", processes)
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("run_dir: a/{seed}\n")
    assert main(["poad", "--env-kwargs", "size=5 6", *flags]) == 143
    assert capsys.readouterr().err.splitlines()[-1] == line


def test_settings_can_be_read_in_several_threads():
    """As in sweeps and benchmarks that run several processes."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: read_config("rloo", [f"--epochs={n}"]), range(1, 17)))
    finally:
        sys.setswitchinterval(interval)
    assert [config.optimisation.epochs for config in found] == list(range(1, 17))
