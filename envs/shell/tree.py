"""A file tree in memory, with limits on its size."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.envs.shell.automaton import NotSupported, PatternError
from agentgym.envs.shell.patterns import Work, file_pattern

HOME = "/home/user"
MOST_CHARACTERS = 100_000
MOST_ENTRIES = 500
MOST_DEPTH = 12
LONGEST_NAME = 100
_MISSING = "No such file or directory"


class Failed(Exception):
    """Raised if a command fails.

    Args:
        message: one line per error.
        output: the output of the command in spite of its errors.
        status: the exit status.
    """

    def __init__(self, message: str, output: str = "", status: int = 1):
        super().__init__(message)
        self.output, self.status = output, status


class Unknown(Failed, NotSupported):
    """Raised for an option or a script that the command does not know."""


@dataclass
class Tree:
    """Files and folders by absolute path, and the current folder.

    Attributes:
        files: the content of each file.
        folders: all folders, with "/".
        here: the current folder.
    """

    files: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=lambda: {"/", "/home", HOME})
    here: str = HOME

    def copy(self) -> Tree:
        """Returns an independent copy."""
        return Tree(dict(self.files), set(self.folders), self.here)

    def key(self) -> tuple[object, ...]:
        """Returns the content, the same for equal trees."""
        return sorted(self.files.items()), sorted(self.folders), self.here

    def absolute(self, path: str) -> str:
        """Returns the absolute path without `.`, `..` and repeated slashes.

        Raises:
            Failed: for an empty path, or `..` and `.` behind something that is no folder.
        """
        if not path:
            raise Failed(f"'': {_MISSING}")
        parts: list[str] = []
        for part in (path if path.startswith("/") else f"{self.here}/{path}").split("/"):
            if part in (".", ".."):
                if (before := "/" + "/".join(parts)) not in self.folders:
                    reason = "Not a directory" if before in self.files else _MISSING
                    raise Failed(f"{path[:200]}: {reason}")
                parts = parts[:-1] if part == ".." else parts
            elif part:
                parts.append(part)
        return "/" + "/".join(parts)

    def existing(self, path: str) -> str:
        """Returns the absolute path of a file or folder.

        Raises:
            Failed: if there is none.
        """
        full = self.absolute(path)
        if full in self.files and path.endswith("/"):
            raise Failed(f"{path[:200]}: Not a directory")
        if full not in self.files and full not in self.folders:
            raise Failed(f"{path[:200]}: {_MISSING}")
        return full

    def readable(self, full: str) -> bool:
        """Whether the user may read the file with an absolute path."""
        return True

    def read(self, path: str) -> str:
        """Returns the content of a file."""
        full = self.absolute(path)
        if full == "/dev/null":
            return ""
        if full in self.folders:
            raise Failed(f"{path[:200]}: Is a directory")
        self.existing(path)
        if not self.readable(full):
            raise Failed(f"{path[:200]}: Permission denied")
        return self.files[full]

    def write(self, path: str, content: str, *, append: bool = False) -> None:
        """Writes a file, whose folder must exist."""
        full = self.absolute(path)
        if full == "/dev/null":
            return
        if full in self.folders or path.endswith("/"):
            raise Failed(f"{path}: Is a directory")
        old = self.files.get(full, "")
        if full not in self.files:
            self._check_new(full, path)
        total = sum(map(len, self.files.values())) - len(old) * (not append)
        if total + len(content) > MOST_CHARACTERS:
            raise Failed(f"{path}: No space left on device")
        self.files[full] = old + content if append else content

    def make_folder(self, path: str, *, parents: bool = False) -> None:
        """Makes a folder, with missing folders above it if `parents` is set."""
        full = self.absolute(path)
        if full in self.folders:
            if parents:
                return
            raise Failed(f"{path}: File exists")
        above = parent(full)
        if full.count("/") > MOST_DEPTH:
            raise Failed(f"{path[:40]}: File name too long")
        if parents and above not in self.folders and above not in self.files:
            self.make_folder(above, parents=True)
        if full in self.files:
            raise Failed(f"{path}: File exists")
        self._check_new(full, path)
        self.folders.add(full)

    def check_removable(self, full: str) -> None:
        """Raises Failed for the current folder and those above it."""
        if full == "/" or f"{self.here}/".startswith(f"{full}/"):
            raise Failed(f"{full}: cannot remove or move the current folder or one above it")

    def remove(self, full: str) -> None:
        """Removes a file, or a folder with its content."""
        below = full.rstrip("/") + "/"
        self.files = {p: c for p, c in self.files.items() if p != full and not p.startswith(below)}
        self.folders = {p for p in self.folders if p != full and not p.startswith(below)}

    def copy_to(self, source: str, target: str) -> None:
        """Copies a file, or a folder with its content, between absolute paths."""
        if source in self.files:
            self.write(target, self.read(source))
            return
        if target == source or target.startswith(source.rstrip("/") + "/"):
            raise Failed(f"cannot copy {source} into itself")
        folders, files = self.below(source)
        self.make_folder(target, parents=target in self.folders)
        for folder in folders:
            self.make_folder(target + folder[len(source) :], parents=True)
        for file in files:
            self.write(target + file[len(source) :], self.read(file))

    def below(self, folder: str) -> tuple[list[str], list[str]]:
        """Returns the folders and files below a folder at any depth, sorted."""
        start = folder.rstrip("/") + "/"
        return (
            sorted(p for p in self.folders if p.startswith(start) and p != "/"),
            sorted(p for p in self.files if p.startswith(start)),
        )

    def names(self, folder: str) -> list[str]:
        """Returns the names of the files and folders in a folder, sorted."""
        entries = [*self.files, *self.folders]
        return sorted(p.rpartition("/")[2] for p in entries if p != "/" and parent(p) == folder)

    def expand(self, pattern: str, work: Work) -> list[str]:
        """Returns the paths that match a pattern with `*`, `?` and `[...]`, sorted."""
        found = ["/" if pattern.startswith("/") else ""]
        for part in [part for part in pattern.split("/") if part]:
            found = [path for base in found for path in self._expand_part(base, part, work)]
            if len(found) > MOST_ENTRIES:
                raise Failed("too many matching files")
        if pattern.endswith("/"):  # folders only
            found = [f"{path}/" for path in found if self.absolute(path) in self.folders]
        return found

    def _expand_part(self, base: str, part: str, work: Work) -> list[str]:
        folder = self.absolute(base or ".")
        before = base if base in ("", "/") else f"{base}/"
        plain = part.replace("\\", "")
        if not set(part) & set("*?["):
            full = self.absolute(before + plain)
            return [before + plain] if full in self.files or full in self.folders else []
        if folder not in self.folders:
            return []
        try:
            work.step(len(self.files) + len(self.folders))
            pattern = file_pattern(part, work)
            names = [name for name in self.names(folder) if pattern.fullmatch(name)]
        except PatternError as error:
            raise Failed(str(error)) from None
        return [before + name for name in names if not name.startswith(".") or part[0] == "."]

    def _check_new(self, full: str, path: str) -> None:
        above = parent(full)
        if above not in self.folders:
            reason = "Not a directory" if above in self.files else _MISSING
            raise Failed(f"{path[:200]}: {reason}")
        name = full.rpartition("/")[2]
        if len(name) > LONGEST_NAME or full.count("/") > MOST_DEPTH:
            raise Failed(f"{path[:40]}: File name too long")
        if len(self.files) + len(self.folders) >= MOST_ENTRIES:
            raise Failed(f"{path}: No space left on device")


def parent(full: str) -> str:
    """Returns the folder of an absolute path."""
    return full.rpartition("/")[0] or "/"
