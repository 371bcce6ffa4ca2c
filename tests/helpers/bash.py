"""Command lines in our shell and in bash with the GNU tools, on the same files."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from agentgym.envs.shell.interpreter import run
from agentgym.envs.shell.tree import HOME, Tree

FILES = {
    "a.txt": "one two\nthree\nfour five  six\nthree\n\n",
    "b.txt": "Three\nx-1\n10 b\n9 a",
    "d/b.csv": "anna,rome,30\nben,oslo,7\ncara,rome,120\ndan,kyiv,7\n",
    "d/e/c.log": "2024 ERROR disk\n2024 INFO ok\n2025 error net\n",
    "d/.hidden": "ERROR\n",
    "logs/x.log": "10:00 ERROR river\n10:05 INFO stone\n",
    "logs/old/y.log": "09:00 WARN paper\n",
    "a b.txt": "blank name\n",
    "z.tmp": "",
}
FOLDERS = ("empty",)
# Differences that the environment documents: `ls` marks folders, `wc` does not pad its columns,
# `find` and recursive searches are sorted.
PRELUDE = """
ls() { command ls -p "$@"; }
wc() ( set -o pipefail; command wc "$@" | command sed 's/^ *//; s/  */ /g' )
find() ( set -o pipefail; command find "$@" | command sort )
"""
NEEDED = (
    "bash",
    "ls",
    "wc",
    "find",
    "grep",
    "sed",
    "sort",
    "rev",
    "base64",
    "tac",
    "awk",
    "xargs",
    "diff",
)


@functools.cache
def gnu() -> bool:
    """Whether bash and the GNU tools are installed."""
    if not all(map(shutil.which, NEEDED)):
        return False
    return all(
        b"GNU" in subprocess.run([tool, "--version"], capture_output=True, check=False).stdout
        for tool in ("bash", "ls", "grep", "sed", "find")
    )


Result = tuple[str, bool, dict[str, str], set[str], str]
"""Output, success, files, folders and the current folder."""


def ours(line: str) -> Result:
    """Returns what our shell does."""
    tree = Tree()
    for path, content in FILES.items():
        tree.make_folder(f"{HOME}/{path}".rpartition("/")[0], parents=True)
        tree.write(f"{HOME}/{path}", content)
    for path in FOLDERS:
        tree.make_folder(path)
    output, good = run(tree, line)
    # Errors of the shell itself come before a redirection of errors is made.
    output = re.sub(r"sh: .*\n", "", output)
    return output, good, tree.files, {f for f in tree.folders if f.startswith(HOME)}, tree.here


def theirs(line: str) -> Result:
    """Returns what bash does."""
    with tempfile.TemporaryDirectory() as root:
        root = os.path.realpath(root)
        home = Path(root + HOME)
        for path, content in FILES.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(content)
        for path in FOLDERS:
            (home / path).mkdir()
        environment = {
            "HOME": str(home), "USER": "user", "LC_ALL": "C", "PATH": os.environ["PATH"]
        }  # fmt: skip
        script = f"{PRELUDE}\n{line}\nstatus=$?; builtin pwd > {root}/here; exit $status"
        done = subprocess.run(
            ["bash", "-c", script], cwd=home, env=environment, input=b"", capture_output=True,
            timeout=60, check=False,
        )  # fmt: skip
        here = Path(f"{root}/here").read_text().strip().removeprefix(root)
        found = sorted(home.rglob("*"))
        return (
            done.stdout.decode().replace(root, ""),
            done.returncode == 0,
            {str(p).removeprefix(root): p.read_text() for p in found if p.is_file()},
            {HOME, *(str(p).removeprefix(root) for p in found if p.is_dir())},
            here,
        )


def check(line: str) -> None:
    """Compares both."""
    assert ours(line) == theirs(line), line
