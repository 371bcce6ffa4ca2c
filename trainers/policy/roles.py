"""Policies of several roles in one folder, each in a folder of its own: `roles/NAME`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from agentgym.trainers.policy.adapters import load_adapter
from agentgym.trainers.policy.policy import Policy


def role_folder(folder: Path, role: str) -> Path:
    """Returns the folder of a role, or `folder` itself for the name "", that of all roles."""
    return folder / "roles" / quote(role, safe=" ") if role else folder


def role_names(folder: Path) -> list[str]:
    """Returns the roles that have policies in a folder, in alphabetical order."""
    return sorted(unquote(path.name) for path in (folder / "roles").glob("*") if path.is_dir())


def load_sibling(policy: Policy, folder: Path, **options: Any) -> Policy:
    """Loads another policy. If it is an adapter, it shares the base model in memory.

    Args:
        policy: a policy without or with an adapter, like the one in the folder.
        folder: the folder that `Policy.save` wrote.
        **options: options of `Policy.load`, with which `policy` was loaded.

    Raises:
        ConfigError: if the folder holds no such policy, or the adapter of another base model.
    """
    if not policy.has_adapter:
        return Policy.load(folder, **options)
    sibling = policy.clone()
    load_adapter(sibling.model, folder)
    return sibling
