"""Files of a model: its tokenizer, and its weights or those of its adapter without gaps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from agentgym.errors import CheckpointError, ConfigError

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


def check_adapter_file(folder: str | Path) -> None:
    """Raises ConfigError if an adapter has no weights, for which `peft` would ask the hub."""
    files = "adapter_model.safetensors", "adapter_model.bin"
    if not any((Path(folder) / file).is_file() for file in files):
        raise ConfigError(
            f"Cannot open the adapter in {folder}: {files[0]} is missing. Copy the whole adapter "
            "again."
        )


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
    found, expected = {*found}, {*expected}
    unknown = {name for name in found - expected if "lora_" in name}
    problems = [
        f"{len(names)} weights are {kind}: {listed(sorted(names))}"
        for kind, names in (("missing", expected - found), ("unknown", unknown))
        if names
    ]
    if problems:
        raise CheckpointError(
            f"The adapter in {folder} does not fit its model: {'. '.join(problems)}. They would be "
            "random or left out. Copy the whole adapter again, or train a new one."
        )
