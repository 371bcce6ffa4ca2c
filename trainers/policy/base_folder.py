"""The folder of the base model of an adapter. It needs no torch."""

from __future__ import annotations

from pathlib import Path

from agentgym.errors import BaseModelError


def find_base(base: str, folder: Path) -> str:
    """Returns the base model of an adapter, as a folder or an id of the hub.

    Adapters name a folder by its absolute path. Older ones have a path relative to the working
    directory of their training, and a run may have been moved together with its model. Then the
    folder is looked for beside the folders that the adapter is in.

    Args:
        base: the name in the adapter.
        folder: the folder of the adapter.

    Raises:
        BaseModelError: if it is a folder that does not exist.
    """
    path = Path(base)
    if not path.is_absolute():
        places = [parent / path for parent in folder.resolve().parents]
    else:
        places = [parent / path.name for parent in list(folder.resolve().parents)[:6]]
    for place in (path, *places):
        if (place / "config.json").is_file():
            return str(place.resolve())
    if path.is_absolute() or base.startswith((".", "~")) or len(path.parts) > 2:
        raise BaseModelError(
            f"The adapter in {folder} changes the model in {base}, and there is no such folder. "
            "The adapter itself is intact: put the model back there, or write its new path into "
            f'"base_model_name_or_path" in {folder / "adapter_config.json"}.'
        )
    return base
