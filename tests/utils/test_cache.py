"""Built folders appear completely or not at all, and stored data can be read back."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from agentgym.errors import DataError
from agentgym.utils import cache


def test_a_damaged_cache_is_built_again(tmp_path: Path):
    target = tmp_path / "made"
    cache.built(target, lambda to: cache.save(to, "x", [1, 2], "int64"))
    (target / "x.npy").write_bytes(b"short")
    cache.built(target, lambda to: cache.save(to, "x", [3], "int64"))
    assert cache.load(target, "x").tolist() == [3]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["made"]


def change(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("at", [0, 100, -1])
def test_damage_that_keeps_the_size_is_found(tmp_path: Path, at: int):
    target, numbers = tmp_path / "made", list(range(500))
    builds = []

    def build(folder: Path) -> None:
        builds.append(folder)
        cache.save(folder, "x", numbers, "int64")
        cache.save(folder, "y", numbers, "int64")

    cache.built(target, build)
    cache.built(target, build)
    assert len(builds) == 1
    change(target / "y.npy", at)
    cache.built(target, build)
    assert len(builds) == 2
    assert cache.load(target, "y").tolist() == numbers


@pytest.mark.parametrize("place", [0, 150_000, 299_999])
def test_large_files_are_checked_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
):
    monkeypatch.setattr(cache, "WHOLE", 1000)
    monkeypatch.setattr(cache, "BLOCK", 2000)
    path = tmp_path / "x"
    path.write_bytes(bytes(300_000))
    before = cache._checksum(path)
    change(path, place)
    assert cache._checksum(path)[0] == before[0] == 300_000
    assert cache._checksum(path) != before


@pytest.mark.parametrize(
    "manifest", ["{}", "[]", "", "5", '{"x.npy": 136}', '{"gone": [1, 2]}', "[" * 100_000]
)
def test_a_manifest_that_proves_nothing_is_not_believed(tmp_path: Path, manifest: str):
    target = tmp_path / "made"
    cache.built(target, lambda to: cache.save(to, "x", [1], "int64"))
    (target / cache.MANIFEST).write_text(manifest)
    (target / "x.npy").unlink()
    cache.built(target, lambda to: cache.save(to, "x", [1], "int64"))
    assert cache.load(target, "x").tolist() == [1]


def test_half_built_folders_of_killed_processes_are_deleted(tmp_path: Path):
    (tmp_path / ".made.0123").mkdir()
    (tmp_path / ".made.0123" / "x.npy").write_bytes(b"half")
    (tmp_path / ".other.0123").mkdir()
    cache.built(tmp_path / "made", lambda to: cache.save(to, "x", [1], "int64"))
    assert {p.name for p in tmp_path.iterdir() if p.is_dir()} == {"made", ".other.0123"}


KILLED = """
import os, signal, sys, tempfile
from agentgym.utils import cache
tempfile.tempdir = sys.argv[1]
print(cache.temporary_folder(), flush=True)
if sys.argv[2] == "wait":
    sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_temporary_folders_of_killed_processes_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    dead = Path(subprocess.run([*command, "die"], capture_output=True, text=True).stdout.strip())
    assert dead.is_dir()
    (tmp_path / "agentgym-of-somebody").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*command, "wait"], text=True, **pipes) as running:  # type: ignore[call-overload]
        assert running.stdin is not None and running.stdout is not None
        live = Path(running.stdout.readline().strip())
        mine = cache.temporary_folder()
        assert live.is_dir() and mine.is_dir() and not dead.exists()
        running.stdin.close()
        running.wait()
    again = cache.temporary_folder()
    assert again.is_dir() and mine.is_dir() and not live.exists()
    assert (tmp_path / "agentgym-of-somebody").is_dir()


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("AGENTGYM_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cache.cache_root() == tmp_path / "agentgym"


def test_a_failed_build_leaves_nothing(tmp_path: Path):
    def fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise DataError("no")

    with pytest.raises(DataError):
        cache.built(tmp_path / "made", fail)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_an_unwritable_cache_is_replaced_with_a_warning(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    target = blocked / "cache" / "made"
    with pytest.warns(RuntimeWarning, match="AGENTGYM_CACHE"):
        folder = cache.built(target, lambda to: cache.save(to, "x", [5], "int64"))
    assert cache.load(folder, "x").tolist() == [5]
    assert cache.built(target, lambda _: None) == folder


def test_string_tables_find_exactly_what_they_hold(tmp_path: Path):
    strings = ["", "a", "ab", "b", "é", "日本", "\ud800"]
    cache.StringTable.write(tmp_path, "t", sorted(map(cache.encode, strings)))
    table = cache.StringTable(tmp_path, "t")
    assert [cache.decode(table[table.find(s) or 0]) for s in strings] == strings
    assert table.find("aa") is None and table.find("zz") is None and len(table) == 7


def test_arrays_come_back_read_only(tmp_path: Path):
    for size in (0, 3, 100_000):
        cache.save(tmp_path, "x", np.arange(size), "int32")
        array = cache.load(tmp_path, "x")
        assert array.tolist() == list(range(size)) and array.dtype == np.int32
        assert not array.flags.writeable
