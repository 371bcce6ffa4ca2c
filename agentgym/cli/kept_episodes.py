"""Episodes in temporary files, which outlast an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp


@contextmanager
def kept_after_errors(advice: str) -> Iterator[Path]:
    """Yields a folder, which is deleted at the end unless an error leaves files in it.

    Args:
        advice: how the command goes on from the files, "{}". It becomes a note of the error.
    """
    folder = Path(mkdtemp(prefix="agentgym-"))
    try:
        yield folder
    except BaseException as error:  # Ctrl-C too
        if files := sorted(folder.iterdir()):
            error.add_note(f"The episodes are kept: {advice.format(' '.join(map(str, files)))}")
            raise
        rmtree(folder)
        raise
    rmtree(folder)
