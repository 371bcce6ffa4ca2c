"""Structure of the project: folders and imports, the way to a loss, settings, words and lines.

A room is a folder or a module directly below the folder that is counted. An arrow leads from a room
to another one that it imports, in functions and under `TYPE_CHECKING` too. It leads back up if it
leads to a floor above, of `FLOORS` in the checkout's tests/test_layers.py (`--floors`: in those of
another checkout). Files between a batch and the loss of POAD are traced: those of `trainers/` that
run in the first update from `on_rollout_end` on until the first backward pass, apart from the
model. Prints a table and writes JSON.

    python benchmarks/structure/house.py [CHECKOUT ...] [--site] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.structure.module_imports import (
    TRAINERS,
    back_up,
    circles,
    floors,
    imports,
    modules,
    rooms,
)

HERE = Path(__file__).resolve()
ROOT = next(path for path in HERE.parents if (path / "pyproject.toml").exists())
RECIPES = ("poad", "grpo", "bc")
Levels = Mapping[str, Iterable[Iterable[str]]]
"""The floors of packages, from the ground up."""
APART = ("policy", "policy_agent", "rollout")
"""Folders of the model and of rollouts, through which no loss need be followed."""


def structure(root: Path, levels: Levels) -> dict[str, Any]:
    """Returns rooms, arrows and circles of the package and of its parts."""
    files = modules(root)
    found: dict[str, Any] = {}
    for scope in ("agentgym", "agentgym.envs", TRAINERS):
        chosen = {n: path for n, path in files.items() if f"{n}.".startswith(f"{scope}.")}
        arrows = rooms(imports(chosen), scope)
        own = found[scope] = {
            "rooms": len(arrows),
            "arrows": sum(map(len, arrows.values())),
            "circles_of_folders": circles(arrows),
            "circles_of_files": circles(imports(chosen)),
            "circles_of_files_without_types": circles(imports(chosen, types=False)),
        }
        if scope in levels:
            own["back_up"] = back_up(arrows, levels[scope])
    return found


TRACE = """
import json, sys
import torch
from agentgym.trainers import Callback, train
root, out = sys.argv[1:]
calls, frames = {}, []
def learns(value):
    if isinstance(value, torch.Tensor):
        return value.requires_grad
    fields = [getattr(value, name, None) for name in getattr(value, "__dataclass_fields__", ())]
    return any(map(learns, value if isinstance(value, tuple) else fields))
def stack_of(frame):
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(root):
            yield code.co_filename, code.co_qualname
        frame = None if code is train.__code__ else frame.f_back
def watch(frame, event, value):
    code = frame.f_code
    if code.co_name == "backward" and "torch" in code.co_filename:
        sys.setprofile(None)
    elif code.co_filename.startswith(root) and code.co_name[0] != "<" and event == "call":
        calls.setdefault(code.co_filename, set()).add(code)
    elif event == "return" and "loss" in code.co_filename.rpartition("/")[2] and learns(value):
        frames[:] = min(filter(None, (frames, [*stack_of(frame)][::-1])), key=len)
class Begin(Callback):
    def on_rollout_end(self, trainer, trajectories):
        sys.setprofile(watch)
train("poad", model="nano", env_id="NumberLine-v0", context="current", constrain=True, iterations=1,
      env_kwargs={"size": 4, "max_turns": 4}, episodes_per_iteration=4, eval_episodes=0,
      device="cpu", threads=1, quiet=True, log_with=(), run_dir=out, callbacks=[Begin()])
span = lambda code: max(line for *_, line in code.co_lines() if line) - code.co_firstlineno + 1
files = {file: sum(map(span, codes)) for file, codes in calls.items()}
print(json.dumps({"frames": frames, "files": files}))
"""
SIZES = """
import json, sys
from agentgym.trainers import recipes
print(json.dumps({name: len(recipes.load(name).Config().as_dict()) for name in sys.argv[1:]}))
"""


def run_python(root: Path, *arguments: str) -> str:
    """Returns the output of Python in an empty folder, where `agentgym` is that of a checkout."""
    own = {"PYTHONPATH": str(root), "COLUMNS": "100", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True, text=True, env=os.environ | own, cwd=folder,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"python {arguments[0]} failed in {root}:\n{done.stderr[-2000:]}")
    return done.stdout


def lines(path: Path) -> int:
    """Returns the number of lines of a text file."""
    return path.read_bytes().count(b"\n")


def way_to_the_loss(root: Path) -> dict[str, Any]:
    """Returns the files and lines between a batch and POAD's loss, and the frames above it."""
    top = root / "trainers"
    found = json.loads(run_python(root, "-c", TRACE, f"{root}/", "run").splitlines()[-1])
    real = {Path(f).resolve(): own for f, own in found["files"].items()}
    parts = {p.relative_to(top): own for p, own in real.items() if p.is_relative_to(top)}
    followed = {path: own for path, own in parts.items() if path.parts[0] not in APART}
    frames = [f"{Path(f).resolve().relative_to(root)}: {name}" for f, name in found["frames"]]
    return {
        "files": {str(path): lines(top / path) for path in sorted(followed)},
        "lines": sum(lines(top / path) for path in followed),
        "lines_that_run": sum(followed.values()),
        "frames": frames,
    }


def words(text: str) -> int:
    """Returns the number of words of a text."""
    return len(re.findall(r"\w[\w'-]*", re.sub(r"<[^>]*>", " ", text)))


def paper(root: Path, site: bool) -> dict[str, int]:
    """Returns the words of the texts of a checkout, and of its site if that is built."""
    read = partial(Path.read_text, encoding="utf-8")
    found = {n: words(read(root / n)) for n in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")}
    found["docs"] = sum(words(read(path)) for path in (root / "docs").rglob("*.md"))
    found["benchmarks"] = sum(words(read(path)) for path in (root / "benchmarks").rglob("*.md"))
    if site:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
            own = {"PYTHONPATH": str(root), "NO_MKDOCS_2_WARNING": "1"}
            subprocess.run(command, check=True, cwd=root, env=os.environ | own)
            index = json.loads(read(Path(folder) / "search" / "search_index.json"))
        found["site"] = sum(words(part["text"]) for part in index["docs"])
    return found


def sizes(root: Path) -> dict[str, int]:
    """Returns the lines of the tracked Python files of a checkout by folder, and of all texts."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    paths = [p for p in map(Path, listed) if (root / p).is_file() and not (root / p).is_symlink()]
    found: dict[str, int] = {}
    for path in paths:
        kind = path.parts[0] if path.suffix == ".py" else path.suffix or "other"
        if path.suffix in (".py", ".md", ".toml", ".cfg", ".yml", ".yaml"):
            found[kind] = found.get(kind, 0) + lines(root / path)
    return found | {"python": sum(n for kind, n in found.items() if kind[0] != ".")}


def measure(root: Path, levels: Levels, site: bool = False) -> dict[str, Any]:
    """Returns all measures of a checkout."""
    shown = {n: run_python(root, "-m", "agentgym", "train", n, "--help") for n in RECIPES}
    commit = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True)
    return {
        "commit": commit.stdout.decode().strip(),
        "structure": structure(root, levels),
        "poad_loss": way_to_the_loss(root),
        "settings": json.loads(run_python(root, "-c", SIZES, *RECIPES)),
        "help_lines": {name: len(text.splitlines()) for name, text in shown.items()},
        "words": paper(root, site),
        "lines": sizes(root),
    }


def rows(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the numbers of a checkout by label, for the table."""
    table: dict[str, Any] = {"commit": found["commit"][:8]}
    for scope, own in found["structure"].items():
        for name, value in own.items():
            shown = [len(group) for group in value] if "circles" in name else value
            table[f"{scope} {name}"] = len(value) if name == "back_up" else shown
    loss = found["poad_loss"]
    table["from batch to POAD's loss: files"] = len(loss["files"])
    table["from batch to POAD's loss: lines"] = loss["lines"]
    table["from batch to POAD's loss: lines that run"] = loss["lines_that_run"]
    table["frames from train() to the loss"] = len(loss["frames"])
    for part in ("settings", "help_lines", "words", "lines"):
        table |= {f"{part} {name}": value for name, value in found[part].items()}
    return table


def main() -> None:
    """Measures checkouts, prints a table with a column for each, and writes JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--floors", type=Path, help="checkout whose floors count for all")
    parser.add_argument("--site", action="store_true", help="build the site and count its words")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    for root in (path.resolve() for path in options.checkouts):
        found.append(measure(root, floors(options.floors or root), options.site))
    columns = [rows(each) for each in found]
    for label in dict.fromkeys(label for column in columns for label in column):
        print(f"{label:58}", *(f"{column.get(label, '')!s:>24}" for column in columns))
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
