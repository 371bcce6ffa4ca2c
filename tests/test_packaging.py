"""Requirements for the package to install, import and type-check like the source tree."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import agentgym

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
PACKAGES = SETUP["options"]["packages"].split()
FOLDERS = dict(line.split(" = ") for line in SETUP["options"]["package_dir"].strip().splitlines())
HEAVY = ("torch", "transformers", "pettingzoo", "stable_baselines3", "tyro", "rich", "Stemmer")


def folders_of_packages() -> dict[str, str]:
    """Returns every folder with an `__init__.py`, by its import name."""
    found = {"agentgym": "agentgym"}
    for top, name in (
        ("agentgym", "agentgym"),
        ("envs", "agentgym.envs"),
        ("trainers", "agentgym.trainers"),
    ):
        for init in sorted((ROOT / top).rglob("__init__.py")):
            relative = init.parent.relative_to(ROOT / top)
            if top == "agentgym" and relative.parts[:1] in (("envs",), ("trainers",)):
                continue  # the links
            found[".".join((name, *relative.parts))] = init.parent.relative_to(ROOT).as_posix()
    return found


def test_setup_cfg_lists_every_package_folder():
    missing = folders_of_packages().items() - FOLDERS.items()
    assert folders_of_packages() == FOLDERS, f"setup.cfg, package_dir: add {sorted(missing)}"
    assert sorted(PACKAGES) == sorted(FOLDERS), "setup.cfg: packages and package_dir differ"
    assert len(PACKAGES) == len(set(PACKAGES))


def test_every_folder_of_modules_is_a_package():
    for top in ("agentgym", "envs", "trainers"):
        for module in (ROOT / top).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), f"{module.parent} has no __init__.py"


def test_data_files_are_listed():
    data = SETUP["options.package_data"]
    for name, folder in FOLDERS.items():
        suffixes = {".py", ".pyc"}
        files = [f for f in (ROOT / folder).iterdir() if f.is_file() and f.suffix not in suffixes]
        patterns = data.get(name, "").replace(",", " ").split()
        for file in files:
            assert any(file.match(pattern) for pattern in patterns), f"{file} is not installed"


def test_metadata_is_in_pyproject_only():
    assert "metadata" not in SETUP
    assert "packages" not in PROJECT.get("tool", {}).get("setuptools", {})
    assert PROJECT["project"]["version"] == agentgym.__version__


def test_extras_of_the_table_exist():
    extras = PROJECT["project"]["optional-dependencies"]
    for entry in agentgym.REGISTRY.values():
        assert entry.extra is None or (entry.extra in extras and entry.package)
    names = set(extras) - {"dev", "all"}
    (everything,) = extras["all"]
    assert set(everything.partition("[")[2].rstrip("]").split(",")) == names


def test_links_lead_to_the_sources():
    for name in ("envs", "trainers"):
        link = ROOT / "agentgym" / name
        assert link.is_symlink()
        assert os.readlink(link) == f"../{name}"


@pytest.mark.parametrize("name", ["envs", "trainers"])
def test_the_wrong_import_is_refused_and_the_right_one_named(name: str):
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert f"ImportError: This package is imported as 'agentgym.{name}'" in done.stderr


def loaded_by(statement: str, tmp_path: Path) -> set[str]:
    """Returns the modules loaded by a statement in another folder and process."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_loads_nothing_heavy_and_no_environment(tmp_path: Path):
    modules = loaded_by("import agentgym", tmp_path)
    assert not modules & set(HEAVY)
    ours = {m for m in modules if m.startswith(("agentgym.envs", "agentgym.trainers"))}
    assert not ours
    assert "agentgym.wrappers" not in modules


def test_wrappers_are_there_when_asked_for(tmp_path: Path):
    modules = loaded_by("import agentgym; agentgym.wrappers.TokenAction", tmp_path)
    assert "agentgym.wrappers" in modules
    assert not hasattr(agentgym, "wraps")


def test_wrappers_and_environments_need_no_torch(tmp_path: Path):
    statement = (
        "import agentgym, agentgym.wrappers, agentgym.trie, gymnasium\n"
        "gymnasium.make('AgentGym/NumberLine-v0').reset(seed=0)"
    )
    assert not loaded_by(statement, tmp_path) & {"torch", "transformers"}


def test_importing_leaves_the_global_generators_alone(tmp_path: Path):
    statement = (
        "import random, numpy\n"
        "before = random.getstate(), numpy.random.get_state()[1].tolist()\n"
        "import agentgym\n"
        "assert before == (random.getstate(), numpy.random.get_state()[1].tolist())"
    )
    loaded_by(statement, tmp_path)


def test_gymnasium_finds_the_ids_by_the_name_of_the_module(tmp_path: Path):
    loaded_by("import gymnasium; gymnasium.make('agentgym:AgentGym/NumberLine-v0')", tmp_path)


def test_types_are_shipped():
    assert (ROOT / "agentgym" / "py.typed").exists()
    assert "py.typed" in SETUP["options.package_data"]["agentgym"]
