"""Training commands of the tutorials learn: a short run of each, taken from its page.

The policy of the first minutes is clearly better than a random agent on held-out tasks.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentgym.evaluation import evaluate
from agentgym.evaluation.report import Report
from agentgym.trainers.cli.train import main, read_config
from agentgym.utils.serialization import from_json

from .test_tutorials import FENCE, ROOT

TUTORIALS = ROOT / "docs" / "tutorials"
COMMANDS = {
    "own_environment": ("vault:Vault-v0", "--iterations 2"),
    "comparing_recipes": ("KG-QA-v0", "--iterations 4"),
}
"""Page -> environment of its first training command, and the flags that shorten it."""


def command(page: Path) -> list[str]:
    """Returns the first `agentgym train` or `sweep` of a page, as the words of one run."""
    text = "\n".join(
        body for kind, _, body in FENCE.findall(page.read_text("utf-8")) if kind == "bash"
    )
    found = re.search(r"^agentgym (?:train|sweep) ((?:.*\\\n)*.*)", text, re.MULTILINE)
    assert found is not None
    words = shlex.split(found[1].replace("\\\n", " "))
    for flag in ("--seeds", "--jobs", "--vary", "--out"):  # of a sweep
        if flag in words:
            at = words.index(flag)
            stop = next((i for i in range(at + 1, len(words)) if words[i].startswith("--")), None)
            del words[at:stop]
    first = next(i for i, word in enumerate(words) if word.startswith("--"))
    return [words[0], *words[first:]]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_training_command_learns(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page, (env, flags) = TUTORIALS / f"{name}.md", COMMANDS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for _, title, body in FENCE.findall(page.read_text("utf-8")):
        if title:
            (tmp_path / title).write_text(body, "utf-8")
    recipe, *words = command(page)
    assert env in words
    words += shlex.split(f"--run-dir run --eval-episodes 100 --threads 1 --quiet {flags}")
    assert main([recipe, *words]) == 0
    *_, report = json.loads((tmp_path / "run" / "report.json").read_text("utf-8"))
    trained = from_json(Report, report).aggregate()["success"]
    settings = read_config(recipe, words).environment
    random = evaluate(env, "random", tasks=100, env_kwargs=dict(settings.env_kwargs))
    chance = random.aggregate()["success"]
    assert trained.low is not None and chance.high is not None
    assert trained.low > chance.high
