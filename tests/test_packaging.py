"""Requirements for the package to install, import and type-check like the source tree."""

from __future__ import annotations

import configparser
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import agentgym
from agentgym import reading
from agentgym.trainers import recipes

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
HEAVY = ("torch", "transformers", "pettingzoo", "stable_baselines3", "tyro", "rich", "Stemmer")


def test_every_folder_of_modules_is_a_package():
    for top in ("agentgym", "envs", "trainers"):
        for module in (ROOT / top).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), f"{module.parent} has no __init__.py"


def sources() -> list[Path]:
    """Returns all files of the project that git tracks or would track."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        path
        for line in listed.stdout.splitlines()
        if (path := Path(line)) and (ROOT / path).exists()
    ]


@pytest.mark.slow
def test_the_wheel_holds_exactly_the_tree(tmp_path: Path):
    for path in sources():  # a copy: the working tree's build/ may hold files of other days
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, tmp_path / path, follow_symlinks=False)
    build = ["build", "--wheel", "--no-isolation", "--skip-dependency-check"]
    run([sys.executable, "-m", *build], tmp_path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tops = ("agentgym", "agentgym_verifiers", "envs", "trainers")
    files = [p for p in sources() if p.parts[0] in tops and not (ROOT / p).is_dir()]
    assert names == {
        (Path("agentgym") / path if path.parts[0] in ("envs", "trainers") else path).as_posix()
        for path in files
    }


def test_metadata_is_in_pyproject_only():
    assert "metadata" not in SETUP
    assert "packages" not in PROJECT.get("tool", {}).get("setuptools", {})
    assert PROJECT["project"]["dynamic"] == ["version"], "a tag is the version, no file"


def test_the_version_is_that_of_the_installed_files():
    assert agentgym.__version__ == importlib.metadata.version("agentgym-suite")


def test_the_version_of_a_checkout_that_is_not_installed_is_unknown(tmp_path: Path):
    (tmp_path / "agentgym").symlink_to(ROOT / "agentgym")
    script = (
        "import sys\n"
        "sys.path.insert(0, '.')\n"
        "from importlib import metadata\n"
        "def absent(name): raise metadata.PackageNotFoundError(name)\n"
        "metadata.version = absent\n"
        "from agentgym.version import __version__\n"
        "print(__version__)"
    )
    assert run([sys.executable, "-c", script], tmp_path) == "0+unknown\n"


def test_every_public_name_is_there_though_imported_on_first_access():
    for package in (agentgym, reading):
        assert set(package.__all__) <= set(dir(package))
        for name in package.__all__:
            assert getattr(package, name) is getattr(package, name), name
    assert agentgym.wrappers.__name__ == "agentgym.wrappers"
    assert callable(agentgym.textify), "the function, not the package of the same name"


def test_extras_of_the_table_exist():
    extras = PROJECT["project"]["optional-dependencies"]
    for entry in agentgym.REGISTRY.values():
        assert entry.extra is None or (entry.extra in extras and entry.package)
    names = set(extras) - {
        "dev",
        "docs",
        "all",
        "vllm",
        "verifiers",
        "browsergym",
    }  # they pin releases of others
    (everything,) = extras["all"]
    assert set(everything.partition("[")[2].rstrip("]").split(",")) == names


def test_every_environment_of_the_tests_has_the_plugins_of_their_settings():
    assert "timeout" in PROJECT["tool"]["pytest"]["ini_options"]
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    [testing] = [line for line in lines if line.startswith("TESTING :=")]
    assert "pytest-timeout" in testing.split()
    assert [line for line in lines if "hypothesis pytest" in line] == [testing]
    for file in ("constraints.txt", "constraints-vllm.txt"):
        assert "\npytest-timeout==" in (ROOT / file).read_text("utf-8")


def test_links_lead_to_the_sources():
    for name in ("envs", "trainers"):
        link = ROOT / "agentgym" / name
        assert link.is_symlink()
        assert os.readlink(link) == f"../{name}"


def test_a_checkout_whose_links_are_text_files_is_refused_with_the_remedy(tmp_path: Path):
    for file in ("__init__.py", "checkout.py"):
        (tmp_path / "agentgym").mkdir(exist_ok=True)
        shutil.copy(ROOT / "agentgym" / file, tmp_path / "agentgym")
    (tmp_path / "agentgym" / "envs").write_text("../envs")  # as git writes it without links
    done = subprocess.run(
        [sys.executable, "-c", "import agentgym"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "ImportError: agentgym/envs is a text file" in done.stderr
    assert "git config core.symlinks true" in done.stderr


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
    return set(run([sys.executable, "-W", "error", "-c", script], tmp_path).split())


def run(command: list[str], folder: Path) -> str:
    """Returns the output of a command that must succeed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


USER_SCRIPT = """\
import agentgym
import gymnasium

env = gymnasium.make("AgentGym/NumberLine-v0")
games = agentgym.make_parallel("AgentGym/TicTacToe-v0")
"""


def test_import_works_from_an_empty_folder_and_from_the_clones_parent(tmp_path: Path):
    for folder in (tmp_path, ROOT.parent):
        run([sys.executable, "-c", USER_SCRIPT], folder)


def test_import_works_beside_any_folder_called_agentgym(tmp_path: Path):
    """As in the folder that holds a clone: the name must not become a namespace package."""
    (tmp_path / "agentgym").mkdir()
    (tmp_path / "script.py").write_text(USER_SCRIPT, encoding="utf-8")
    run([sys.executable, "script.py"], tmp_path)
    run([sys.executable, "-c", USER_SCRIPT], tmp_path)


@pytest.mark.slow
def test_type_checkers_see_the_installed_package(tmp_path: Path):
    (tmp_path / "script.py").write_text(USER_SCRIPT, encoding="utf-8")
    run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "script.py"], tmp_path)


def test_import_loads_nothing_heavy_and_no_environment(tmp_path: Path):
    modules = loaded_by("import agentgym", tmp_path)
    assert not modules & set(HEAVY)
    ours = {m for m in modules if m.startswith(("agentgym.envs", "agentgym.trainers"))}
    assert not ours
    assert "agentgym.wrappers" not in modules
    late = {"agentgym.tools", "agentgym.version", "agentgym.reading.numbers"}
    assert not modules & late


def test_wrappers_are_there_when_asked_for(tmp_path: Path):
    modules = loaded_by("import agentgym; agentgym.wrappers.TokenAction", tmp_path)
    assert "agentgym.wrappers" in modules
    assert not hasattr(agentgym, "wraps")


def test_packages_are_there_when_asked_for(tmp_path: Path):
    asked = "agentgym.evaluation.evaluate, agentgym.trainers.train, agentgym.envs"
    modules = loaded_by(f"import agentgym; {asked}", tmp_path)
    assert {"agentgym.evaluation", "agentgym.trainers"} <= modules
    assert not hasattr(agentgym, "_wraps")
    assert not hasattr(agentgym, "nowhere.wraps")


def test_wrappers_and_environments_need_no_torch(tmp_path: Path):
    statement = (
        "import agentgym, agentgym.wrappers, agentgym.tokens.trie, gymnasium\n"
        "gymnasium.make('AgentGym/NumberLine-v0').reset(seed=0)"
    )
    assert not loaded_by(statement, tmp_path) & {"torch", "transformers"}


def test_settings_of_recipes_need_no_torch(tmp_path: Path):
    """`agentgym train RECIPE --help` is fast, except where a recipe trains a model of its own."""
    own = "agentprm archer archer_iql digi_q etpo ilql inverse_prm istar mc orm read sac_glam spa"
    light = sorted({*recipes.names()} - {*own.split(), "sweet_rl"})
    statement = (
        "import io, contextlib\n"
        "from agentgym.cli.main import main\n"
        "from agentgym.trainers import recipes\n"
        f"for name in {light}:\n"
        "    recipes.load(name)\n"
        "with contextlib.redirect_stdout(io.StringIO()) as help:\n"
        "    try:\n"
        "        main(['train', 'grpo', '--help'])\n"
        "    except SystemExit as end:\n"
        "        assert end.code == 0\n"
        "assert '--group-size' in help.getvalue()"
    )
    assert not loaded_by(statement, tmp_path) & {"torch", "transformers", "accelerate", "peft"}


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
