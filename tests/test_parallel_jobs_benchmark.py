"""Jobs of benchmarks in parallel: one that fails is named at once, and the others go on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from agentgym.errors import ConfigError
from benchmarks.shared import parallel_jobs as script


def test_a_job_that_fails_is_named_at_once_and_the_others_go_on(capsys: pytest.CaptureFixture[str]):
    errors = ConfigError("no way"), KeyError("colour")

    def work(value: int) -> int:
        if value < 2:
            raise errors[value]
        return value

    jobs, failed = {"a": (0,), "b": (1,), "c": (2,), "d": (3,)}, {}
    found = script.finished(ThreadPoolExecutor(1), work, jobs, failed)
    assert sorted(found) == [("c", 2), ("d", 3)]
    assert sorted(failed) == ["a", "b"]
    out, err = capsys.readouterr()
    assert "a: no way\n" in out and "b: 'colour'\n" in out
    assert "KeyError" in err and "in work" in err  # its place in the code
    assert "ConfigError" not in err
    script.end({})
    with pytest.raises(SystemExit, match=r"^Failed: a, b$"):
        script.end(sorted(failed))


def test_an_interrupted_benchmark_starts_no_further_jobs(monkeypatch: pytest.MonkeyPatch):
    begun, free = [], Event()

    class Pool(ThreadPoolExecutor):
        """Its first job ends when the others are cancelled."""

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            free.set()
            super().shutdown(wait)

    def work(name: str) -> None:
        begun.append(name)
        free.wait()

    def interrupt(jobs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(script, "as_they_end", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(script.finished(Pool(1), work, {"a": ("a",), "b": ("b",)}, {}))
    assert "b" not in begun
