"""Files of a model: its tokenizer, its weights without gaps, and the base model of an adapter."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from agentgym.errors import BaseModelError, CheckpointError, ConfigError

PREFIXES = re.compile(r"^((_orig_mod|module)\.)+")
"""Prefixes of names in files that `torch.compile` and data-parallel training wrote."""
TEKKEN = "tekken.json"
SHOWN = 5
"""Names of tensors in an error."""


def load_tokenizer(name: str, trust: bool) -> Any:
    """Returns the tokenizer of a model.

    Where mistral-common is installed, `transformers` reads a `tekken.json` with it. This class has
    no chat template and cannot encode special tokens as plain text, so the same vocabulary is
    loaded as an ordinary tokenizer, with the template of the folder or of mistral-common.

    Args:
        name: a folder or an id of the hub.
        trust: whether to run Python code of the folder.
    """
    from transformers import AutoTokenizer
    from transformers.utils.hub import cached_file

    tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=trust)
    if type(tokenizer).__name__ != "MistralCommonBackend":
        return tokenizer
    if cached_file(name, "tokenizer.json", _raise_exceptions_for_missing_entries=False):
        ordinary = AutoTokenizer.from_pretrained(
            name, trust_remote_code=trust, mistral_format=False
        )
        if ordinary.eos_token_id is not None:
            return ordinary
    from transformers.integrations.mistral.tokenizer import convert_tekken_tokenizer

    return convert_tekken_tokenizer(str(cached_file(name, TEKKEN)))


def load_weights(name: str, **options: Any) -> Any:
    """Returns a causal language model all of whose weights are in its files.

    Args:
        name: a folder or an id of the hub.
        **options: further arguments of `from_pretrained`.

    Raises:
        ConfigError: if weights are missing, with their names.
    """
    from transformers import AutoModelForCausalLM

    def load(**renamed: Any) -> Any:
        # Weights missing in the files are initialised with the global random generator.
        with torch.random.fork_rng():
            return AutoModelForCausalLM.from_pretrained(
                name, output_loading_info=True, **options, **renamed
            )

    model, info = load()
    prefixed = [key for key in info["unexpected_keys"] if PREFIXES.match(key)]
    if info["missing_keys"] and prefixed:
        model, info = load(key_mapping={PREFIXES.pattern: ""})
        model._weight_conversions = None  # files that are written have no prefix
    if missing := sorted(info["missing_keys"]):
        spare = sorted(info["unexpected_keys"])
        instead = f" They hold {listed(spare)} instead." if spare else ""
        raise ConfigError(
            f"{len(missing)} of the weights of {type(model).__name__} are missing in the files of "
            f"{name!r}: {listed(missing)}.{instead} They would be random. Save the whole model "
            "with save_pretrained, under the names of transformers."
        )
    return model


def listed(names: Iterable[str]) -> str:
    """Returns the first of some names, and how many there are beside them."""
    every = list(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


def check_adapter(found: Iterable[str], expected: Iterable[str], folder: str | Path) -> None:
    """Checks that the weights in an adapter's file are those of the adapter.

    Args:
        found: names in the file.
        expected: names in the model.
        folder: the folder of the adapter.

    Raises:
        CheckpointError: if names are missing or unknown.
    """
    # A file may also hold embeddings of the base model, with tokens that were added.
    found, expected = ({name for name in each if "lora_" in name} for each in (found, expected))
    problems = [
        f"{len(names)} weights are {kind}: {listed(sorted(names))}"
        for kind, names in (("missing", expected - found), ("unknown", found - expected))
        if names
    ]
    if problems:
        raise CheckpointError(
            f"The adapter in {folder} does not fit its model: {'. '.join(problems)}. They would be "
            "random or left out. Copy the whole adapter again, or train a new one."
        )


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
