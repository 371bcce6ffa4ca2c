"""Built folders appear completely or not at all, and stored data can be read back."""

from __future__ import annotations

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
