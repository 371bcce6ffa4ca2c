"""Files that are replaced as a whole, names for them, and paths as they are printed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

UNSAFE = re.compile(r"[^\w.+=,-]+", re.ASCII)
"""Characters that a name of a file cannot have everywhere, or that a shell reads."""
LONGEST_NAME = 100
"""Maximum number of characters of a portable name: file systems have 255 bytes for all parts."""


def portable_name(text: str) -> str:
    """Returns a text as part of the name of a file on any system.

    A text that is such a name stays. Any other is shortened, gets `-` for its other characters,
    and ends in a digest, so that different texts have different names:
    `portable_name("desk:Desk-v0")` is "desk-Desk-v0-1ba1f8".
    """
    name = UNSAFE.sub("-", text)[:LONGEST_NAME]
    if name == text:
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=3)
    return f"{name}-{digest.hexdigest()}"


def shown(path: Path) -> str:
    """Returns a path as it is printed: relative to the working directory if it lies inside."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):  # the working directory is gone, or another one
        return str(path)


def replace_text(path: Path, text: str) -> None:
    """Writes a file atomically: it holds either the old text or the new one.

    See `replace_bytes`.
    """
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: Path, content: bytes) -> None:
    """Writes a file atomically: it holds either the old content or the new one.

    A link stays, and the file that it names is written. A device or a pipe is written to, and so is
    a file in a folder that takes no other file.
    """
    if path.exists() and not path.is_file():  # before links, as /dev/stdout is one to no path
        path.write_bytes(content)
        return
    path = path.resolve() if path.is_symlink() else path
    partial = path.with_name(f".{path.name}.partial")
    try:
        file = partial.open("wb")
    except PermissionError:
        if not path.exists():
            raise
        path.write_bytes(content)
        return
    with file:
        if path.exists():
            shutil.copymode(path, partial)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # else a power failure may leave an empty file
    os.replace(partial, path)
