"""Trains in two parts, with and without FSDP2, and saves the weights: `train_sharded.py FOLDER`.

The second part resumes the first. As one process, the model is whole. As several, it is sharded.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.state import AcceleratorState
from torch.distributed.tensor import DTensor

from agentgym.trainers import recipes
from agentgym.trainers.policy.adapters import REFERENCE
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.roles import role_folder
from agentgym.trainers.run.setup import load_dtype
from agentgym.trainers.trainer import Trainer

from .train_all import quicken, settings, shard

LAST = "checkpoints/000002/policy"
# A token critic, a frozen reference, copies of the policy in hooks, actions scored as a whole under
# autocast, an adapter whose reference is the imitating policy, weights in bfloat16, adapters of a
# base in bfloat16, without and with autocast, an adapter for each seat of a game, a clone for each.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "critic": ("poad", {"microbatch_tokens": 64}),
    "reference": ("grpo", {"kl_coef": 0.1, "ratio": "trajectory"}),
    "networks": ("archer", {}),
    "autocast": ("twosome", {"mixed_precision": "bf16", "bc_demonstrations": 0}),
    "adapter": ("rloo", {"lora_rank": 4, "kl_coef": 0.1}),
    "half": ("poad", {"dtype": "bfloat16", "microbatch_tokens": 64, "bc_demonstrations": 0}),
    "half adapter": ("rloo", {"lora_rank": 4, "kl_coef": 0.1, "dtype": "bfloat16"}),
    "cast adapter": ("rloo", {"lora_rank": 4, "kl_coef": 0.1, "mixed_precision": "bf16"}),
    "roles": ("poad-roles", {"roles": "adapters", "lora_rank": 4, "kl_coef": 0.1}),
    "cloned roles": ("poad-roles", {"roles": "separate", "alternate": 0, "bc_lr": 1e-2}),
}


def train(name: str, folder: Path) -> dict[str, Any]:
    """Trains two iterations and returns the weights and the evaluation at the end."""
    recipe, changes = RUNS[name]
    if "lora_rank" in changes:
        changes = {**changes, "model": str(folder / "critic" / LAST)}
    changes = {**changes, "run_dir": str(folder / name), "save_every": 1}
    for iterations, resume in ((1, False), (2, True)):
        config = settings(recipe, **changes | {"iterations": iterations, "resume": resume})
        AcceleratorState._reset_state()  # it keeps the mixed precision of the first accelerator
        run = Trainer(recipe, config, recipes.load(recipe.partition("-")[0]).build(config))
        sizes = watch_acting_weights(run)
        run.run()
        assert all((size > 0) == (run.world == 1) for size in sizes)
    weights, frozen = {}, set()
    for role, part in run.updaters.parts.items():
        path = role_folder(folder / name / LAST, role)
        dtype: Any = load_dtype(run.config.model, path)
        saved = Policy.load(path, dtype=dtype).state_dict()
        acting = part.policy.state_dict()
        assert all(torch.equal(saved[key], acting[key]) for key in saved)
        trained = [p for n, p in part.trained.named_parameters() if REFERENCE not in n]
        assert all(isinstance(p, DTensor) for p in trained) == (run.world > 1)
        frozen.add(tuple(address(p) for p in trained if not p.requires_grad))
        weights |= {f"{role}/{key}": value for key, value in part.module.state_dict().items()}
    assert len(frozen) == 1  # roles share the base of their adapters
    return {"weights": weights, "last": run.state.last}


def address(parameter: torch.Tensor) -> int:
    """Returns the address of the values of a parameter, of which a process may hold a shard."""
    local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
    return local.data_ptr()


def watch_acting_weights(run: Trainer) -> list[int]:
    """Returns a list to which every step of the optimiser adds the bytes of the acting weights."""
    updater, sizes = run.updater, []
    step = updater.optimizer.step

    def watched(*args: Any, **kwargs: Any) -> Any:
        acting = updater.module.named_parameters()
        sizes.append(sum(p.untyped_storage().nbytes() for n, p in acting if REFERENCE not in n))
        return step(*args, **kwargs)

    updater.optimizer.step = watched
    return sizes


if __name__ == "__main__":
    state, target = PartialState(cpu=True), Path(sys.argv[1])
    quicken()
    if state.num_processes > 1:
        shard()
    results = {name: train(name, target) for name in RUNS if name in (sys.argv[2:] or RUNS)}
    torch.save(results, target / f"rank{state.process_index}.pt")
