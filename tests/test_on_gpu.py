"""The plugin that runs the tests of the trainer on a GPU, tried on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from .helpers.launch import Child

pytestmark = pytest.mark.xdist_group("processes")
MODULES = {
    "test_needs.py": "import no_such_package\n\n\ndef test_it():\n    pass\n",
    "test_broken.py": "import agentgym.no_such_module\n\n\ndef test_it():\n    pass\n",
    "test_own.py": """
from agentgym.errors import MissingExtraError
from agentgym.trainers import trainer
from agentgym.trainers.cli.train import read_config


def test_needs():
    import no_such_package


def test_needs_an_extra():
    raise MissingExtraError("This", "code", "no_such_package")


def test_wrong():
    from agentgym import no_such_name


def test_device():
    config = read_config("rloo", ["--constrain", "--device", "cpu"])
    trainer.make_accelerator(config)
    assert config.model.device == "cpu"
""",
}
RUN = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.mark.slow
def test_what_needs_other_packages_or_more_time_is_skipped(tmp_path: Path):
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    words = [str(tmp_path), "--rootdir", str(tmp_path), "-p", "tests.helpers.on_gpu"]
    words += ["--device", "cpu", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    found = Child(["-c", RUN, *words])
    assert found.wait() == 1
    for line in ("3 skipped", "1 passed", "1 failed", "1 error", "2  Skipped: needs no_such_"):
        assert line in found.output, found.output
    late = Child(["-c", RUN, *words, "--minutes", "0"])
    late.wait()
    assert "0 minutes" in late.output and "passed" not in late.output
    cuda = Child(["-c", RUN, *words, "--device", "cuda"])
    assert cuda.wait() == pytest.ExitCode.USAGE_ERROR and "needs a GPU" in cuda.errors
