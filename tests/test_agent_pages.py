"""Pages for coding agents: AGENTS.md, the index of the site, and the skill, which is followed."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs" / "_scripts"))

agent_pages = pytest.importorskip("agent_pages", reason="needs the extra `docs`")

from agentgym.cli.main import main  # noqa: E402

from .test_tutorials import FENCE, commands  # noqa: E402

SKILL = ROOT / "docs" / "skills" / "train-your-environment" / "SKILL.md"
SHORT = {"--iterations": "1", "--episodes-per-iteration": "8", "--eval-episodes": "16"}
"""Smaller numbers for the training commands, which take minutes as they are."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty folder with the files of the skill."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(gymnasium.registry)
    files = [(title, body) for _, title, body in FENCE.findall(SKILL.read_text("utf-8")) if title]
    for title, body in files:
        (tmp_path / title).write_text(body, "utf-8")
    yield tmp_path
    for id in set(gymnasium.registry) - known:
        del gymnasium.registry[id]
    for title, _ in files:
        sys.modules.pop(title.removesuffix(".py"), None)


def shortened(line: str) -> list[str]:
    words = shlex.split(line)
    if words[-1] == "--help":
        return words
    for flag, value in SHORT.items():
        if flag in words:
            words[words.index(flag) + 1] = value
        elif words[1] == "train":
            words += [flag, value]
    return words


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_skill_can_be_followed(project: Path, capsys: pytest.CaptureFixture[str]):
    lines = [line for line in commands(SKILL) if "Qwen" not in line and " sweep " not in line]
    assert sum(" train " in line for line in lines) >= 3
    for line in lines:
        words = shortened(line)
        if words[0] == "python":
            runpy.run_path(words[1], run_name="__main__")
        elif words[-1] == "--help":
            with pytest.raises(SystemExit):
                main(words[1:])
        else:
            assert main(words[1:]) == 0, line
    assert (project / "runs" / "desk" / "view.html").is_file()
    assert (project / "runs" / "stock" / "view.html").is_file()
    output = capsys.readouterr().out
    for agent in ("imitation", "poad"):
        [successes] = re.findall(rf"Desk-v0 *\n(?:  \w.*\n)*?  {agent} +16 +([\d.]+)", output)[-1:]
        assert float(successes) > 20, f"{agent} is no better than random actions:\n{output}"


def test_agents_md_names_files_and_targets_that_exist():
    text = (ROOT / "AGENTS.md").read_text("utf-8")
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"`make ([\w-]+)`", text)) <= set(targets)
    paths = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r"`([\w./]+/[\w.]*)`", text)
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert len(paths) > 15 and [path for path in missing if not path.startswith(".venv")] == []


def page(source: str, markdown: str, **meta: Any) -> Any:
    return SimpleNamespace(
        title="T", meta=meta, markdown=markdown, file=SimpleNamespace(src_uri=source)
    )


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("# T\n\nOne page. Another sentence.", "One page."),
        ("# T\n\n| a |\n|---|\n\nSee [here](x.md), in 2.5 s.\nMore. Two.", "See here, in 2.5 s."),
        ("<!-- note -->\n\n- item\n\n```python\nA = 1\n```\n\n`x` is a name.", "`x` is a name."),
        ("# T\n\nAbout arXiv 2402.01030. It is new.", "About arXiv 2402.01030."),
    ],
)
def test_a_page_is_described_by_its_first_sentence(markdown: str, expected: str):
    assert agent_pages.description(page("a.md", markdown)) == expected
    assert agent_pages.description(page("a.md", markdown, description="Own. Two.")) == "Own."


def test_a_page_without_a_sentence_is_named():
    with pytest.raises(agent_pages.MissingDescriptionError, match=r"a\.md .* front matter"):
        agent_pages.description(page("a.md", "# T\n\n| a |\n|---|\n"))


def test_the_index_has_the_form_of_llms_txt():
    listed = {"Guides": [page("a/b.md", "# T\n\nOne. Two.")]}
    text = agent_pages.render("Name", "Summary.", listed)
    assert text == "# Name\n\n> Summary.\n\n## Guides\n\n- [T](a/b.md): One.\n"
    text = agent_pages.render("Name", "Summary.", listed, "https://x.org/docs")
    assert "- [T](https://x.org/docs/a/b.md): One." in text
