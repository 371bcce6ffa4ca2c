"""The tutorials: their Python code runs, their output is real. Command lines of all guides parse.

The Python blocks of a page run in order, in one namespace and in an empty folder. A block with a
title is the file of that name. A block of kind `text` right after a Python block is its output.
`pytest --update-golden` rewrites these blocks.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agentgym.agents import make_agent
from agentgym.cli import main as cli
from agentgym.errors import CheckpointError, DataError
from agentgym.evaluation.report import Estimate, Record, Report
from agentgym.registration.making import full_id
from agentgym.trainers import recipes, train
from agentgym.trainers.cli import gateway
from agentgym.trainers.cli.sweep import read_sweep
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.run.exploitability import Measured

from .helpers.training_calls import NOT_COMPARED, below_start, checked

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
SLOW = {
    *("callbacks.md", "own_environment.md", "own_game.md", "own_reward.md", "own_tools.md"),
    "own_documents.md",
    *("own_agent.md", "real_model.md", "self_play.md", "tensorboard.md", "served_model.md"),
    "evaluating_games.md",
}
"""Pages that train, which takes seconds."""
FENCE = re.compile(r'^```(\w*)(?: title="([\w.]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
GUIDES = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("index", "overview", "plug_in", "data_files")),
]
"""Other pages with command lines."""
OTHER_COMMANDS = (
    *("pip install ", "tensorboard --logdir ", "vllm serve ", "VLLM_", "ray start "),
    *("git clone ", "hf upload ", "vf-eval ", "make ", "python -m venv "),
)
"""Beginnings of command lines that are not checked."""


def blocks(page: Path, language: str) -> list[str]:
    """Returns the code blocks of a language."""
    return [body for kind, _, body in FENCE.findall(page.read_text("utf-8")) if kind == language]


def commands(page: Path) -> list[str]:
    """Returns the command lines of the bash blocks, without comments and line breaks."""
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").split("\n")
    return [line for line in lines if line.strip() and not line.startswith("#")]


@dataclass
class Output:
    """The output of a Python block, and the block on the page that shows it."""

    real: str
    shown: str
    place: slice


def run(page: Path, namespace: dict[str, Any]) -> list[Output]:
    """Runs the Python blocks of a page. Returns the outputs that the page shows."""
    text = page.read_text("utf-8")
    found = []
    fences = list(FENCE.finditer(text))
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        if fence[1] != "python":
            continue
        if fence[2]:
            Path(fence[2]).write_text(fence[3], "utf-8")
            continue
        code = compile("\n" * text.count("\n", 0, fence.start(3)) + fence[3], str(page), "exec")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, namespace)
        if following is None or following[1] != "text":
            continue
        if not text[fence.end() : following.start()].strip():
            real = re.sub(r" +$", "", output.getvalue(), flags=re.MULTILINE)
            found.append(Output(real, following[3], slice(*following.span(3))))
    return found


def test_there_are_tutorials_and_all_are_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text("utf-8")
    assert len(PAGES) > 10
    for page in PAGES:
        assert f"tutorials/{page.name}" in navigation
        assert page.name == "index.md" or f"({page.name})" in index
    assert {page.name for page in PAGES} >= SLOW


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.name in SLOW else [])
        for page in PAGES
        if blocks(page, "python")
    ],
)
@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("own_ids")
def test_the_code_of_a_tutorial_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("agentgym.trainers.train", checked(train))
    found = run(page, {"__name__": "__main__"})
    if request.config.getoption("--update-golden"):
        text = page.read_text("utf-8")
        for output in reversed(found):
            text = text[: output.place.start] + output.real + text[output.place.stop :]
        page.write_text(text, "utf-8")
        return
    for output in found:
        assert output.real == output.shown


def report(agent: str, rewards: list[float]) -> Report:
    """The report of an agent with these rewards."""
    episodes = [
        Record(f"test/{i}", 0, reward, {}, False, 0.0, 1, 1.0, True, False)
        for i, reward in enumerate(rewards)
    ]
    return Report("NumberLine-v0", agent, "test", 0, len(episodes), episodes=episodes)


def test_training_that_ends_below_its_start_is_found():
    random, clone = report("random", [0.0] * 20), report("imitation", [1.0, 0.8] * 10)
    worse = report("poad", [0.8, 0.6] * 10)
    assert below_start([random, clone, worse])
    assert not below_start([clone, report("poad", [1.0, 0.8] * 9 + [0.8, 0.7])])
    with pytest.raises(AssertionError, match="before and after"):
        below_start([random, clone])
    with pytest.raises(AssertionError, match="ends below its start"):
        checked(lambda **_: [clone, worse])(run_dir="runs/a")


def test_every_run_that_is_not_compared_is_on_a_page_or_in_a_notebook():
    notebooks = (ROOT / "notebooks").glob("*.ipynb")
    texts = [path.read_text("utf-8") for path in (*PAGES, *notebooks)]
    for folder in NOT_COMPARED:
        assert any(f'run_dir="{folder}"' in text.replace("\\", "") for text in texts), folder


# Command lines.


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Replaces the subcommands by recorders that keep the parsed arguments."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def recorder(name: str, command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def record(*args: Any, **kwargs: Any) -> int:
            calls.append((name, {"": args, **kwargs}))
            return 0

        return record

    for name, command in cli.COMMANDS.items():
        monkeypatch.setitem(cli.COMMANDS, name, recorder(name, command))
    return calls


def check_agent(spec: str) -> None:
    """Checks that an agent can be written so; a model, policy or file of data need not exist."""
    if spec.startswith(("model:", "harness:")):  # never downloaded, or a program of a page
        return
    try:
        make_agent(spec)
    except CheckpointError:
        assert spec.startswith("policy:") or "policy=" in spec or "world=" in spec
    except DataError:
        assert "data=" in spec


def check_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line, comments=True)
    if words[:2] == ["accelerate", "launch"]:
        place = words.index("-m")
        assert words[place + 1] == "agentgym.trainers", line
        words = ["agentgym", "train", *words[place + 2 :]]
    if words[0] == "python" and words[1].startswith("benchmarks/"):
        assert (ROOT / words[1]).is_file(), line
        return
    if words[0] != "agentgym":
        assert line.startswith(OTHER_COMMANDS), f"not checked: {line}"
        return
    if words[1] == "sweep":
        sweep, _ = read_sweep(words[2:])
        assert len(sweep.runs) > 1, line
        return
    if words[1] == "train":
        if words[3:] == ["--help"]:
            assert words[2] in recipes.names()
            return
        words = [word for word in words if word != "..."]  # of a fragment: more settings
        # The settings and the judge of runs that are not here.
        files = ["benchmarks/numberline.yaml" if w.endswith("/config.json") else w for w in words]
        files = ["progress" if word == "judge:runs/orm" else word for word in files]
        config = read_config(words[2], files[3:])
        full_id(config.environment.env_id)
        return
    if words[1] == "gateway":
        full_id(gateway.parser().parse_args(words[2:]).env_id)
        return
    calls = parsed(monkeypatch)
    assert cli.main(words[1:]) == 0, line
    [(name, arguments)] = calls
    if name in ("play", "eval"):
        ids = arguments[""][0]
        for id in [ids] if isinstance(ids, str) else ids:
            full_id(id)
        agents = arguments.get("agent", ())
        for agent in [agents] if isinstance(agents, str) else agents:
            check_agent(agent)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [pytest.param(p, id=p.stem) for p in [*PAGES, *GUIDES] if commands(p)]
)
def test_the_command_lines_of_a_page_parse(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    for line in commands(page):
        with monkeypatch.context() as patch:
            check_command(line, patch)


@pytest.mark.slow
def test_the_page_about_tensorboard_lists_every_scalar(tmp_path: Path):
    settings: dict[str, Any] = {
        "env_id": "NumberLine-v0", "model": "nano", "context": "current", "constrain": True,
        "iterations": 1, "episodes_per_iteration": 4, "eval_episodes": 4, "threads": 1,
        "device": "cpu", "quiet": True, "kl_coef": 0.01, "env_failures": 0.5,
        "importance_cap": 5.0, "mask_truncated": "answers",
    }  # fmt: skip
    train("poad", **settings, run_dir=str(tmp_path))
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Tags()
    named = ("eval/reward/", "eval/failure/", "eval/cost/")
    scalars = {name for name in board["scalars"] if not name.startswith(named)}
    histograms = {name for name in board["histograms"] if "/estimators/" not in name}
    page = (ROOT / "docs" / "tutorials" / "tensorboard.md").read_text("utf-8")
    listed = set(re.findall(r"`((?:rollout|eval|losses|credit|charts|time)/\w+)`", page))
    value = Estimate(0.1, 0.0, 0.2)
    in_games = {
        name
        for exact in (False, True)
        for name in Measured(value, exact, 2, 0.5, {}, 1.0, zero_sum=True).metrics()
    }
    with_thoughts, with_judges = {"rollout/thought_information"}, {"rollout/unjudged"}
    assert listed == scalars | histograms | in_games | with_thoughts | with_judges


WRITTEN = re.compile(
    r"""--(?:out|save|json|record|run-dir) ([^\s\]]+)|\b(?:save|out|run_dir)=["']([^"']+)"""
)
"""A file or folder that a step writes. One that exists is refused."""


def written_twice(page: Path) -> set[str]:
    """Returns what two steps of a page write, so that the second one is refused."""
    steps = [line for line in commands(page) if not re.search(r"--resume|agentgym sweep", line)]
    names = [
        "".join(found)
        for step in (*steps, *blocks(page, "python"))
        for found in WRITTEN.findall(step)
    ]
    return {name for name in names if names.count(name) > 1}


@pytest.mark.parametrize("page", [pytest.param(p, id=p.stem) for p in [*PAGES, *GUIDES]])
def test_no_two_steps_of_a_page_write_the_same_file(page: Path):
    assert not written_twice(page)


def test_a_file_that_is_written_twice_is_found(tmp_path: Path):
    page = tmp_path / "page.md"
    step = "```bash\nagentgym eval Maze-v0 --agent random --save e.jsonl{}\n```\n"
    page.write_text(
        step.format("") + '```python\nevaluate("Maze-v0", "random", save="e.jsonl")\n```\n'
    )
    assert written_twice(page) == {"e.jsonl"}
    page.write_text(step.format("") + step.format(" --resume"))
    assert not written_twice(page)


def test_a_wrong_command_line_is_found(monkeypatch: pytest.MonkeyPatch):
    for line in (
        "agentgym evaluate WebShop-v0",
        "agentgym eval WebShop-v1",
        "agentgym eval WebShop-v0 --agnt random",
        "agentgym eval WebShop-v0 --agent randm",
        "agentgym train poad --env-id WebShop-v1",
        "agentgym train poad --learning-rate 1e-4",
        "agentgym train pod",
        "accelerate launch -m agentgym.trainers poad --gpus 2",
        "curl https://example.org",
    ):
        with monkeypatch.context() as patch, pytest.raises((Exception, SystemExit)):
            check_command(line, patch)


def test_other_output_is_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    [output] = run(page, {})
    assert (output.real, output.shown) == ("2\n", "3\n")
    page.write_text("```python\nprint(1 + 1)\n```\n\nSomething else:\n\n```text\n3\n```\n")
    assert run(page, {}) == []
