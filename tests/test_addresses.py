"""The public addresses are one setting, in `pyproject.toml`, and all texts are made of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures import addresses

ROOT = Path(__file__).resolve().parents[1]
SITE, CODE = "https://docs.example.org/gym", "https://example.org/lab/gym"


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project with all addresses."""
    facts = addresses.project()
    urls: dict[str, Any] = facts["urls"] | {"Documentation": f"{SITE}/", "Repository": CODE}
    monkeypatch.setattr(addresses, "project", lambda: facts | {"urls": urls})


def test_readme_has_the_badges_of_the_addresses():
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(r"<!-- figures:badges -->\s*(.*?)\s*<!-- end -->", text, re.DOTALL)
    assert found is not None and found[1] == addresses.badges()


def test_the_address_of_the_package_is_that_of_its_name():
    name = addresses.project()["name"]
    assert addresses.addresses()["Package"] == f"https://pypi.org/project/{name}"


def test_a_public_site_and_repository_have_badges(public: None):
    assert f"]({SITE})" in addresses.badges()
    workflow = f"{CODE}/actions/workflows/test.yml"
    assert f"[![Tests]({workflow}/badge.svg)]({workflow})" in addresses.badges()
    assert (ROOT / ".github" / "workflows" / "test.yml").exists()
    assert addresses.repository_name() == "lab/gym"


def test_the_site_has_the_public_addresses(public: None, monkeypatch: pytest.MonkeyPatch):
    config_module = pytest.importorskip("mkdocs.config", reason="needs the extra `docs`")
    pytest.importorskip("torch")  # pages of recipes read their settings
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_scripts"))
    import hooks

    config = config_module.load_config(str(ROOT / "mkdocs.yml"))
    monkeypatch.setattr(hooks, "SECTIONS", {})
    config = hooks.on_config(config)
    assert (config.site_url, config.repo_url, config.repo_name) == (f"{SITE}/", CODE, "lab/gym")


def test_no_page_names_an_address_that_the_setting_lacks():
    """An address of this project elsewhere would not follow the setting."""
    pattern = re.compile(r"https?://[^\s)\"'>]*agentgym[^\s)\"'>]*", re.IGNORECASE)
    known = (*addresses.addresses().values(), addresses.BADGE)
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for address in pattern.findall(page.read_text("utf-8")):
            assert address.startswith(known), f"{page.relative_to(ROOT)}: {address}"
