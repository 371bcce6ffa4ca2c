"""The modules of a model that a LoRA adapter changes: by default all linear layers of its decoder.

`peft` adapts queries and values in most architectures, which learn less (Biderman et al., arXiv
2405.09673, and the clones of `benchmarks/learning/evidence_queue.py`). Some layers cannot have an
adapter, or should not: routers, experts that are stored in one tensor, layers that share a tensor,
the head, and vision parts that read no text. So the modules are looked up in the model itself.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn
from transformers.pytorch_utils import Conv1D

from agentgym.errors import ConfigError, did_you_mean

READ_AS_WEIGHTS = {
    "falcon_h1": {"out_proj"},
    "falcon_mamba": {"out_proj", "dt_proj"},
    "jamba": {"dt_proj"},
    "mamba": {"out_proj", "dt_proj"},
    "mamba2": {"out_proj"},
    "nemotron_h": {"out_proj"},
}
"""Names of linear layers whose weights an architecture, or a kernel of it, reads itself. An adapter
there would have no effect until it is merged."""
FUSED_EXPERTS = {"gate", "w1", "w2", "w3", "gate_proj", "up_proj", "down_proj"}
"""Names that `peft` takes for the weights of experts that are stored in one tensor."""
SELECTS = re.compile(r"(^|\.)(\w*router\w*|gate|\w+_gate|wg|classifier|indexer)(\.|$)")
"""Names of modules that select experts or tokens. Adapters there are unstable or learn nothing."""


class Targets(NamedTuple):
    """Arguments of `peft.LoraConfig`.

    Attributes:
        modules: names of modules, or ends of their names.
        excluded: names that would match but are not adapted, or None.
    """

    modules: list[str]
    excluded: list[str] | None


def lora_targets(
    model: Any, given: Sequence[str] | None, known: Mapping[str, Collection[str] | str]
) -> Targets:
    """Returns the modules that an adapter changes, and warns if most layers have none.

    By default these are the linear layers of the decoder, without routers, experts and modules that
    cannot have an adapter. Where all layers are of an architecture's own kind, as in Falcon, they
    are peft's for it.

    Args:
        model: a `transformers` causal LM.
        given: names that were asked for. None: the default.
        known: peft's names by architecture.

    Raises:
        ConfigError: if a name matches no module of the decoder, a named module shares its weights
            with another one or the model reads them itself, or there are no linear layers.
    """
    modules = dict(_decoder_modules(model))
    if given is not None:
        _check_names(model, given, modules)
        _check_tied(model, given, modules)
        chosen = {name for name in modules if _matches(name, given)}
        _check_read(model, given, chosen)
        _warn_of_few(model, chosen)
        return Targets(list(given), _outside(model, modules, given))
    linear = {n for n, each in modules.items() if _is_linear(each) and not SELECTS.search(n)}
    chosen = linear - _unfit(model, linear) - _sharing(model)
    if not chosen and not isinstance(listed := known.get(model.config.model_type, ()), str):
        chosen = {name for name in modules if _matches(name, listed)}
    if not chosen:
        raise ConfigError(
            f"{type(model).__name__} has no linear layers that can have a LoRA adapter. Name the "
            "modules to adapt with --lora-targets, or train all weights without --lora-rank."
        )
    _warn_of_few(model, chosen)
    ends = sorted({name.rpartition(".")[2] for name in chosen})
    if {name for name in modules if _matches(name, ends)} == chosen:
        return Targets(ends, _outside(model, modules, ends))
    return Targets(sorted(chosen), None)


def _decoder_modules(model: Any) -> list[tuple[str, nn.Module]]:
    """Returns the modules of the decoder and the head by name, without vision and audio parts."""
    everything = [(name, module) for name, module in model.named_modules() if name]
    decoder, head = model.get_decoder(), model.get_output_embeddings()
    prefix = next((f"{name}." for name, module in everything if module is decoder), "")
    if not any(isinstance(module, nn.ModuleList) for module in decoder.modules()):
        prefix = ""  # another meaning of the word, as in ModernBERT
    return [each for each in everything if each[0].startswith(prefix) or each[1] is head]


def _is_linear(module: nn.Module) -> bool:
    """Returns whether a module is a linear layer, and none of an architecture's own kind."""
    own = type(module).__module__.startswith("transformers.models.")
    return isinstance(module, nn.Linear | Conv1D) and not own


def _matches(name: str, targets: Collection[str]) -> bool:
    """Returns whether `peft` would adapt a module."""
    return any(name == target or name.endswith(f".{target}") for target in targets)


def _outside(
    model: Any, decoder: Mapping[str, nn.Module], targets: Collection[str]
) -> list[str] | None:
    """Returns the modules with matching names that are not in the decoder, or None."""
    names = [name for name, _ in model.named_modules() if _matches(name, targets)]
    return [name for name in names if name not in decoder] or None


def _unfit(model: Any, names: Collection[str]) -> set[str]:
    """Returns the linear layers for which `peft` has no adapter, or that stand for experts."""
    ends = set(READ_AS_WEIGHTS.get(model.config.model_type, ()))
    if any(p.dim() == 3 and "experts" in name for name, p in model.named_parameters()):
        ends |= FUSED_EXPERTS
    head = model.get_output_embeddings()
    return {
        name
        for name in names
        if name.rpartition(".")[2] in ends or model.get_submodule(name) is head
    }


def _sharing(model: Any) -> set[str]:
    """Returns the modules whose weights are those of another module too, as in Zamba2."""
    found: dict[int, list[str]] = {}
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, nn.Parameter):
            found.setdefault(id(weight), []).append(name)
    return {name for names in found.values() if len(names) > 1 for name in names}


def _layers(model: Any, names: Collection[str]) -> tuple[int, int]:
    """Returns how many layers of the decoder have one of some modules, and how many there are."""
    lists = [
        (name, len(module))
        for name, module in _decoder_modules(model)
        if isinstance(module, nn.ModuleList)
    ]
    if not lists:
        return bool(names), 1
    count = getattr(model.config.get_text_config(decoder=True), "num_hidden_layers", 0)
    stack, length = next((each for each in lists if each[1] == count), max(lists, key=_length))
    adapted = sum(any(n.startswith(f"{stack}.{i}.") for n in names) for i in range(length))
    return adapted, length


def _length(stack: tuple[str, int]) -> int:
    return stack[1]


def _warn_of_few(model: Any, names: Collection[str]) -> None:
    adapted, layers = _layers(model, names)
    if 2 * adapted < layers:
        warnings.warn(
            f"The LoRA adapter changes {adapted} of the {layers} layers of {type(model).__name__}. "
            "Name further modules with --lora-targets to adapt the others.",
            stacklevel=2,
        )


def _check_names(model: Any, given: Sequence[str], modules: Mapping[str, nn.Module]) -> None:
    """Raises ConfigError for a name that matches no module of the decoder and no experts."""
    ends = {name.rpartition(".")[2] for name in modules}
    experts = FUSED_EXPERTS if _unfit(model, [n for n in modules if n.endswith("gate")]) else set()
    for target in given:
        if not any(_matches(name, [target]) for name in modules) and target not in experts:
            linear = {
                name.rpartition(".")[2]
                for name, module in modules.items()
                if isinstance(module, nn.Linear | Conv1D)
            }
            raise ConfigError(
                f"--lora-targets: {target!r} was not found in {type(model).__name__}."
                f"{did_you_mean(target, ends)} Its linear layers are {', '.join(sorted(linear))}."
            )


def _check_tied(model: Any, given: Sequence[str], modules: Mapping[str, nn.Module]) -> None:
    """Raises ConfigError if a tensor has several uses, and one of them would change."""
    outer = model.get_input_embeddings(), model.get_output_embeddings()
    for name in sorted(_sharing(model) & modules.keys()):
        if _matches(name, given):
            tied = "its embeddings and its output head" if modules[name] in outer else "such layers"
            raise ConfigError(
                f"--lora-targets: {name.rpartition('.')[2]!r} cannot have an adapter, because "
                f"{type(model).__name__} ties {tied}: they are one tensor, and an adapter would "
                "change one of its uses only, so that merged weights would be those of another "
                "model. Leave it out."
            )


def _check_read(model: Any, given: Sequence[str], chosen: Collection[str]) -> None:
    """Raises ConfigError for modules whose weights the model reads itself."""
    known = READ_AS_WEIGHTS.get(model.config.model_type, ())
    for name in sorted(chosen):
        end = name.rpartition(".")[2]
        if end in known or isinstance(model.get_submodule(name), nn.Conv1d):
            raise ConfigError(
                f"--lora-targets: {end!r} cannot have an adapter in {type(model).__name__}, which "
                "reads the weights without calling the layer, so that the adapter would have no "
                "effect until it is merged. Leave it out."
            )
