"""The public addresses of the project, read from `pyproject.toml`, and the texts made of them.

`[project] name` is where the package is installed from, and `[project.urls]` has the addresses. The
site, README's badges and the notebooks' first cells are made of these.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlparse

ROOT = Path(__file__).resolve().parents[2]
BADGE = "https://img.shields.io"


def project() -> dict[str, Any]:
    """Returns the table `[project]` of `pyproject.toml`."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def addresses() -> dict[str, str]:
    """Returns the addresses by their names, such as "Documentation", without a last slash."""
    return {name: address.rstrip("/") for name, address in project()["urls"].items()}


def repository_name() -> str | None:
    """Returns "OWNER/NAME" of the repository, or None while it has no public address."""
    address = addresses().get("Repository")
    return None if address is None else urlparse(address).path.strip("/")


def badges() -> str:
    """Returns README's badges: of the package, and of the site and the tests if they are public."""
    found, facts = addresses(), project()
    package = found["Package"]
    oldest = facts["requires-python"].removeprefix(">=")
    rows = [
        _badge("PyPI", f"{BADGE}/pypi/v/{facts['name']}", package),
        _badge("Python", _static("python", f"{oldest}+"), package),
        _badge("Licence", _static("licence", facts["license"]), facts["license-files"][0]),
    ]
    if "Documentation" in found:
        rows.append(_badge("Documentation", _static("docs", "site"), found["Documentation"]))
    if "Repository" in found:
        workflow = f"{found['Repository']}/actions/workflows/test.yml"
        rows.append(_badge("Tests", f"{workflow}/badge.svg", workflow))
    return "\n".join(rows)


def _badge(title: str, picture: str, target: str) -> str:
    return f"[![{title}]({picture})]({target})"


def _static(label: str, message: str) -> str:
    """Returns the address of a badge that asks no service for its message."""
    return f"{BADGE}/badge/{label}-{quote(message.replace('-', '--'))}-blue"


def install_cell(extras: str = "train") -> str:
    """Returns the first code cell of a notebook, which installs the package where it is absent."""
    return (
        "import importlib.util\n\n"
        'if importlib.util.find_spec("agentgym") is None:  # such as on Colab\n'
        f'    %pip install --quiet "{project()["name"]}[{extras}]"'
    )


BLOCKS = {"badges": badges}
