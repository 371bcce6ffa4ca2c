"""A run's folder: its lock, its checkpoints, and the check of settings on resume.

    run_dir/
      lock                  held while a process trains here
      config.json           settings, recipe and versions
      metrics.jsonl  trajectories.jsonl  tensorboard/  curve.png  report.json
      checkpoints/000012/   policy/ critic.pt optimizer.pt state.json
      policy/  best/        the last and the best policy, as agents (`--agent policy:FOLDER`)

A checkpoint is written to a temporary folder and renamed, so existing checkpoints are complete.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from agentgym.errors import CheckpointError

_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "peft", "numpy", "gymnasium")


def versions() -> dict[str, str]:
    """Returns the versions of Python, AgentGym and the packages that results depend on."""
    import agentgym

    found = {"python": platform.python_version(), "agentgym": agentgym.__version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


class RunFolder:
    """The folder of one run, locked for this process until `close`.

    The lock belongs to the process, not to the file: a killed process holds none, so there is no
    stale lock to clear.

    Args:
        path: the folder, created if it does not exist.
        resume: continue the run in the folder, if there is one.
        lock: whether to lock the folder. False: only read, as another process holds the lock.

    Raises:
        CheckpointError: if the folder cannot be written, another process trains in it, or it holds
            a run and `resume` is False.
    """

    def __init__(self, path: str | Path, *, resume: bool = False, lock: bool = True):
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self._lock: IO[str] | None = None
        if not lock:
            return
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path / "lock", "a+", encoding="utf-8")
        except OSError as error:
            raise CheckpointError(
                f"The run folder {self.path} cannot be written ({error.strerror}). "
                "Choose another one with --run-dir."
            ) from error
        self._acquire()
        self._tidy()
        if self.latest() is not None and not resume:
            self.close()
            raise CheckpointError(
                f"{self.path} holds a run already. Add --resume to continue it, choose another "
                "--run-dir, or delete the folder."
            )

    def _acquire(self) -> None:
        assert self._lock is not None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.seek(0)
            holder = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise CheckpointError(
                f"Another process ({holder}) is training in {self.path}. Wait for it, stop it, or "
                "choose another --run-dir."
            ) from error
        self._lock.truncate(0)
        self._lock.write(f"pid {os.getpid()} on {platform.node()}\n")
        self._lock.flush()

    def _tidy(self) -> None:
        """Completes or removes the unfinished changes of a killed process."""
        for folder in (self.path, self.checkpoints):
            for leftover in folder.glob(".partial-old-*"):
                target = leftover.with_name(leftover.name.removeprefix(".partial-old-"))
                if not target.exists():
                    leftover.rename(target)
            for leftover in folder.glob(".partial-*"):
                shutil.rmtree(leftover, ignore_errors=True)

    def close(self) -> None:
        """Releases the lock."""
        if self._lock is not None and not self._lock.closed:
            self._lock.truncate(0)
            self._lock.close()

    def latest(self) -> Path | None:
        """Returns the newest checkpoint."""
        found = sorted(path for path in self.checkpoints.glob("[0-9]*") if path.is_dir())
        return found[-1] if found else None

    def record_config(
        self, recipe: str, config: Mapping[str, Any], free: Collection[str] = ()
    ) -> None:
        """Writes the settings. If there is a run to resume, checks them against its settings.

        Args:
            recipe: name of the recipe.
            config: the settings as JSON values.
            free: settings that may differ.

        Raises:
            CheckpointError: if other settings differ, with a list of them, or cannot be read.
        """
        file = self.path / "config.json"
        new = {"recipe": recipe, **json.loads(json.dumps(config))}
        if self.latest() is not None and file.exists():
            try:
                old = dict(json.loads(file.read_text(encoding="utf-8"))["config"])
            except (ValueError, KeyError, TypeError) as error:
                raise CheckpointError(
                    f"{file} is damaged ({error!r}): the run cannot be continued."
                ) from error
            different = [
                f"  {key}: {old.get(key)!r} -> {new.get(key)!r}"
                for key in sorted({*old, *new} - set(free))
                if old.get(key) != new.get(key)
            ]
            if different:
                raise CheckpointError(
                    f"The run in {self.path} was started with other settings and can only be "
                    "continued with the same ones:\n" + "\n".join(different)
                )
        text = json.dumps({"config": new, "versions": versions()}, indent=1)
        write_text(file, text + "\n")

    def save(self, iteration: int, write: Callable[[Path], None], keep: int, best: int) -> Path:
        """Writes a checkpoint and removes those no longer needed.

        Args:
            iteration: number of finished iterations.
            write: writes the checkpoint into a given folder.
            keep: number of newest checkpoints to keep.
            best: iteration of the best checkpoint, which is also kept.
        """
        target = self.checkpoints / f"{iteration:06d}"
        replace_folder(target, write)
        found = sorted(path for path in self.checkpoints.glob("[0-9]*") if path.is_dir())
        for path in found[:-keep]:
            if int(path.name) != best:
                # Renamed first, so that no partly deleted checkpoint looks complete.
                doomed = path.with_name(f".partial-{path.name}")
                path.rename(doomed)
                shutil.rmtree(doomed)
        return target

    def publish(self, name: str, policy: Path) -> None:
        """Copies a policy's folder to `run_dir/name`, with hard links if possible."""

        def write(folder: Path) -> None:
            shutil.copytree(policy, folder, copy_function=_link, dirs_exist_ok=True)

        replace_folder(self.path / name, write)


def replace_folder(target: Path, write: Callable[[Path], None]) -> None:
    """Writes a folder under a temporary name and renames it, so it is always complete."""
    partial = target.with_name(f".partial-{target.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        write(partial)
        for file in partial.rglob("*"):
            if file.is_file():
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
    except (OSError, RuntimeError, SafetensorError) as error:  # a full disk, by library
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"{target} could not be written ({getattr(error, 'strerror', None) or error}). Earlier "
            "checkpoints are untouched. Free some space and continue with --resume."
        ) from error
    if target.exists():
        old = target.with_name(f".partial-old-{target.name}")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        partial.rename(target)
        shutil.rmtree(old)
    else:
        partial.rename(target)


def write_text(path: Path, text: str) -> None:
    """Writes a file atomically: it holds either the old text or the new one."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def truncate_jsonl(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Keeps the lines of a log for which `keep` is true, and drops incomplete lines."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if keep(json.loads(line)):
                kept.append(line + "\n")
        except (ValueError, KeyError):
            continue
    write_text(path, "".join(kept))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)
