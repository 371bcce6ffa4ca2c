"""A run's folder: its lock, its checkpoints, and the check of settings on resume.

    run_dir/
      lock                  held while a process trains here
      config.json           settings, recipe and versions
      metrics.jsonl  trajectories.jsonl  tensorboard/  curve.png  report.json
      checkpoints/000012/   policy/ critic.pt hooks.pt optimizer.pt state.json checksums.json
                            reference.pt of a reference policy that moves
                            of roles with policies of their own: policy/roles/NAME/, roles/NAME/
      journal/              finished episodes that no checkpoint includes yet
      reference/  frozen/   written once: the reference policy, other models that never change
      policy/  best/        the last and the best policy, as agents (`--agent policy:FOLDER`)

A checkpoint is written to a temporary folder and renamed, so it is complete or absent. It contains
the SHA-256 of each of its files, which is checked on resume.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pickle
import platform
import shutil
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import torch
from safetensors import SafetensorError

from agentgym.errors import AgentGymError, CheckpointError
from agentgym.registration.entry import NAMESPACE
from agentgym.utils.files import replace_text
from agentgym.utils.masking import masked_settings
from agentgym.version import __version__

CHECKSUMS = "checksums.json"
ONCE = {"reference": "reference policy", "frozen": "state of frozen models"}
"""Folders that are written once per run, because their content never changes."""
_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "peft", "numpy", "gymnasium")


@cache
def versions() -> Mapping[str, str]:
    """Returns the versions of Python, AgentGym and the packages that results depend on."""
    found = {"python": platform.python_version(), "agentgym": __version__}
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
        self.path = Path(path).absolute()  # an environment may change the working folder
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

    def found(self) -> list[Path]:
        """Returns all checkpoints, the oldest first."""
        paths = self.checkpoints.glob("[0-9]*")
        return sorted((p for p in paths if p.is_dir() and p.name.isdecimal()), key=_iteration)

    def latest(self) -> Path | None:
        """Returns the newest checkpoint."""
        found = self.found()
        return found[-1] if found else None

    def set_damaged_aside(self) -> None:
        """Renames damaged checkpoints so that the newest intact one is the latest.

        A run that is resumed from an older checkpoint repeats the iterations since then, with the
        same results. A warning names the damaged file.

        Raises:
            CheckpointError: if no checkpoint is intact.
        """
        intact = self.found()
        problems: dict[Path, str] = {}
        while intact and (problem := damage(intact[-1])) is not None:
            problems[intact.pop()] = problem
        if problems and not intact:
            listed = "\n".join(f"  {path}: {problem}" for path, problem in problems.items())
            raise CheckpointError(
                f"No checkpoint in {self.path} is intact, so the run cannot be continued. Start "
                f"again with another --run-dir.\n{listed}"
            )
        for name, content in ONCE.items():
            folder = self.path / name
            if (folder / CHECKSUMS).exists() and (problem := damage(folder)) is not None:
                raise CheckpointError(
                    f"The {content} in {folder} is damaged, so the run cannot be continued: "
                    f"{problem}. Start again with another --run-dir."
                )
        for damaged, problem in problems.items():
            aside = damaged.with_name(f"damaged-{damaged.name}")
            shutil.rmtree(aside, ignore_errors=True)
            damaged.rename(aside)
            warnings.warn(
                f"The checkpoint {damaged} is damaged ({problem}). It is now {aside.name}, and the "
                f"run continues from {intact[-1].name}.",
                RuntimeWarning,
                stacklevel=2,
            )

    def record_config(
        self,
        recipe: str,
        config: Mapping[str, Any],
        free: Collection[str] = (),
        defaults: Mapping[str, Any] | None = None,
        read: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
    ) -> None:
        """Writes the settings. If there is a run to resume, checks them against its settings.

        `resume` is not written, and a run that is resumed keeps its `run_dir`, which may hold the
        names of settings: the file is read for other runs too.

        Args:
            recipe: name of the recipe.
            config: the settings as JSON values.
            free: settings that may differ.
            defaults: the values of settings that the file of an earlier version does not have.
            read: maps the settings in the file, which may be of an earlier version, to those that
                the run was started with.

        Raises:
            CheckpointError: if other settings differ, with a list of them, or cannot be read.
        """
        file = self.path / "config.json"
        new = masked_settings({"recipe": recipe, **json.loads(json.dumps(config))})
        new.pop("resume", None)
        if self.latest() is not None and file.exists():
            try:
                before = json.loads(file.read_text(encoding="utf-8"))["config"]
                old = masked_settings(read(before))
            except (ValueError, KeyError, TypeError) as error:
                raise CheckpointError(
                    f"{file} is damaged ({error!r}): the run cannot be continued."
                ) from error
            before = {**json.loads(json.dumps(defaults or {})), **old}
            different = [
                f"  {key}: {before.get(key)!r} -> {new.get(key)!r}"
                for key in sorted({*old, *new} - set(free))
                if not same_setting(before.get(key), new.get(key))
            ]
            if different:
                raise CheckpointError(
                    f"The run in {self.path} was started with other settings and can only be "
                    "continued with the same ones:\n" + "\n".join(different)
                )
            if "run_dir" in old:
                new["run_dir"] = old["run_dir"]
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
        replace_folder(target, write, checksums=True)
        for path in self.found()[:-keep]:
            if _iteration(path) != best:
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


def same_setting(old: Any, new: Any) -> bool:
    """Returns whether two values are equal, ids with or without the namespace of AgentGym."""
    if isinstance(old, str) and isinstance(new, str):
        return old.removeprefix(f"{NAMESPACE}/") == new.removeprefix(f"{NAMESPACE}/")
    return bool(old == new)


def _iteration(path: Path) -> int:
    return int(path.name)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damage(folder: Path) -> str | None:
    """Returns the first difference between the files of a folder and its checksums, or None.

    A checkpoint of an older version, without checksums, counts as intact if it has a state.
    """
    if not (folder / CHECKSUMS).exists():
        return None if (folder / "state.json").exists() else "state.json is missing"
    try:
        checksums = json.loads((folder / CHECKSUMS).read_text(encoding="utf-8"))
        for name, expected in checksums.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            if _digest(folder / name) != expected:
                return f"the SHA-256 of {name} differs"
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        return f"{CHECKSUMS} cannot be read: {error}"
    return None if checksums else f"{CHECKSUMS} is empty"


@contextlib.contextmanager
def loading(path: Path) -> Iterator[None]:
    """Context manager that converts errors of loading into CheckpointErrors with the path.

    Args:
        path: the file or folder. If it is below `checkpoints/NUMBER`, the message names the newest
            intact older checkpoint.
    """
    try:
        yield
    except CheckpointError:
        raise
    except (
        AgentGymError, ArithmeticError, AttributeError, EOFError, LookupError, OSError,
        RuntimeError, SafetensorError, TypeError, ValueError, pickle.UnpicklingError,
    ) as error:  # fmt: skip
        found = [folder for folder in path.parents if folder.parent.name == "checkpoints"]
        if not found:
            raise CheckpointError(f"{path} cannot be loaded: {error!s:.500}") from error
        checkpoint = found[0]
        older = sorted(
            other.name
            for other in checkpoint.parent.glob("[0-9]*")
            if other.name < checkpoint.name and damage(other) is None
        )
        advice = (
            f"To continue from {older[-1]}, delete {checkpoint} and use --resume."
            if older
            else "There is no older checkpoint."
        )
        raise CheckpointError(f"{path} cannot be loaded: {error!s:.500} {advice}") from error


@contextlib.contextmanager
def writing(target: Path, *more: type[Exception]) -> Iterator[None]:
    """Context manager that converts errors of writing into CheckpointErrors.

    Args:
        target: the file or folder.
        more: further types of errors. PyTorch reports a full disk as a RuntimeError.
    """
    try:
        yield
    except AgentGymError:
        raise
    except (OSError, SafetensorError, *more) as error:
        raise CheckpointError(
            f"{target} could not be written ({getattr(error, 'strerror', None) or error}). "
            "Checkpoints are untouched. Free some space and continue with --resume."
        ) from error


def replace_folder(target: Path, write: Callable[[Path], None], *, checksums: bool = False) -> None:
    """Writes a folder under a temporary name and renames it, so it is always complete.

    Args:
        target: the folder.
        write: writes its contents into a given folder.
        checksums: whether to add the SHA-256 of its files, for `damage`.
    """
    partial = target.with_name(f".partial-{target.name}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with writing(target, RuntimeError):
            partial.mkdir(parents=True)
            write(partial)
            files = sorted(file for file in partial.rglob("*") if file.is_file())
            if checksums:
                sums = {file.relative_to(partial).as_posix(): _digest(file) for file in files}
                text = json.dumps(sums, indent=1) + "\n"
                (partial / CHECKSUMS).write_text(text, encoding="utf-8")
                files.append(partial / CHECKSUMS)
            for file in files:
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
    except CheckpointError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if target.exists():
        old = target.with_name(f".partial-old-{target.name}")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        partial.rename(target)
        shutil.rmtree(old)
    else:
        partial.rename(target)


def write_text(path: Path, text: str) -> None:
    """Writes a file of a run atomically: it holds either the old text or the new one."""
    with writing(path):
        replace_text(path, text)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def load_tensors(file: Path) -> dict[str, Any]:
    """Returns tensors and plain values from a file of a checkpoint."""
    with loading(file):
        if not isinstance(saved := torch.load(file, map_location="cpu", weights_only=True), dict):
            raise TypeError(f"expected a dict, got {type(saved).__name__}")
        return saved
