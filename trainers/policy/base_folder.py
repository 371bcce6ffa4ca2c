"""The folder of the base model of an adapter. It needs no torch."""

from __future__ import annotations

import warnings
from pathlib import Path

from agentgym.errors import BaseModelError


def find_base(base: str | None, folder: Path, *, warn: bool = False) -> str:
    """Returns the base model of an adapter, as a folder or an id of the hub.

    Adapters name a folder by its absolute path. Older ones have a path relative to the working
    directory of their training, and a run may have been moved together with its model. Then the
    folder is looked for beside the folders that the adapter is in.

    Args:
        base: the name in the adapter.
        folder: the folder of the adapter.
        warn: whether to warn if another folder of the same name takes the place of a missing one.

    Raises:
        BaseModelError: if there is none, or it is a folder without a model.
    """
    remedy = (
        'write its path, or its id on the Hugging Face hub, into "base_model_name_or_path" in '
        f"{folder / 'adapter_config.json'}."
    )
    if not base:
        raise BaseModelError(f"The adapter in {folder} names no base model: {remedy}")
    path = Path(base := str(base))
    if not path.is_absolute():
        places = [parent / path for parent in folder.resolve().parents]
    else:
        places = [parent / path.name for parent in list(folder.resolve().parents)[:6]]
    for place in (path, *places):
        if (place / "config.json").is_file():
            if warn and path.is_absolute() and place != path:
                warnings.warn(
                    f"The adapter in {folder} changes the model in {base}, which is gone. The "
                    f"folder of the same name in {place} is used.",
                    stacklevel=2,
                )
            return str(place.resolve())
    if path.is_absolute() or base.startswith((".", "~")) or len(path.parts) > 2:
        there = f"{base} holds no whole model" if path.is_dir() else "there is no such folder"
        raise BaseModelError(
            f"The adapter in {folder} changes the model in {base}, and {there}. "
            f"The adapter itself is intact: put the model back there, or {remedy}"
        )
    return base
