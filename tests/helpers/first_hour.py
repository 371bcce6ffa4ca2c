"""Runs the commands of a first hour, shortened, in the current folder, and checks that none warns.

`make check-wheel` runs it on the installed wheel, `tests/cli/test_first_hour.py` on the sources.
"""

import re
import subprocess
import sys
import time

SMALL = (
    "--env-id NumberLine-v0 --env-kwargs size=6 max_turns=8 --constrain "
    "--bc-demonstrations 8 --bc-epochs 2 --episodes-per-iteration 8 --eval-episodes 8 --threads 1"
)
COMMANDS = (
    f"train poad {SMALL} --model nano --iterations 1 --run-dir runs/a",
    "train poad --config runs/a --iterations 2 --resume --run-dir runs/a",
    f"train grpo {SMALL} --model runs/a/policy --lora-rank 4 --iterations 1 --run-dir runs/b",
    "eval NumberLine-v0 --agent random policy:runs/a --episodes 8",
    f"sweep turn rloo {SMALL} --model nano --iterations 1 --seeds 0 --out runs/compared",
    "plot runs/compared --out compared.png",
    "view runs/a --out first.html",
    "view runs/compared --out compared.html",
    "export runs/a --format hub --out first-hub",
    "list NumberLine",
)
PROGRESS = re.compile(r"^.*: \d+/\d+ episodes\n", re.MULTILINE)
"""The lines with which an evaluation shows its progress where it takes long."""


def check(command: str) -> str:
    """Runs a command of `agentgym`, and returns its standard output.

    Raises:
        AssertionError: if it fails, or prints anything but its progress to standard error.
    """
    words = [sys.executable, "-m", "agentgym", *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    rest = PROGRESS.sub("", done.stderr)
    assert not rest, f"{command} prints to standard error:\n{rest}"
    return done.stdout


if __name__ == "__main__":
    for each in COMMANDS:
        start = time.perf_counter()
        check(each)
        print(f"{time.perf_counter() - start:5.1f} s  agentgym {each}")
    print(f"Python {sys.version.split()[0]}")
