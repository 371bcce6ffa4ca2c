"""Trains in two parts, with and without FSDP2, and saves the weights: `train_sharded.py FOLDER`.

The second part resumes the first. As one process, the model is whole. As several, it is sharded.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from torch.distributed.tensor import DTensor

from agentgym.trainers import recipes
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.trainer import Trainer

from .train_all import quicken, settings, shard

LAST = "checkpoints/000002/policy"
# A token critic, a frozen reference, copies of the policy in hooks, an adapter.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "critic": ("poad", {"microbatch_tokens": 64}),
    "reference": ("grpo", {"kl_coef": 0.1, "ratio": "trajectory"}),
    "networks": ("archer", {}),
    "adapter": ("rloo", {"lora_rank": 4, "bc_demonstrations": 0, "iterations": 2}),
}


def train(name: str, folder: Path) -> dict[str, Any]:
    """Trains two iterations and returns the weights and the evaluation at the end."""
    recipe, changes = RUNS[name]
    if name == "adapter":
        changes = {**changes, "model": str(folder / "critic" / LAST)}
    changes = {**changes, "run_dir": str(folder / name), "save_every": 1}
    for iterations, resume in ((1, False), (2, True)):
        config = settings(recipe, **changes | {"iterations": iterations, "resume": resume})
        run = Trainer(recipe, config, recipes.load(recipe).build(config))
        run.run()
    saved, acting = Policy.load(folder / name / LAST).state_dict(), run.policy.state_dict()
    assert saved.keys() == acting.keys()
    assert all(torch.equal(saved[key], acting[key]) for key in saved)
    trained = [p for p in run.updater.trained.parameters() if p.requires_grad]
    assert all(isinstance(p, DTensor) for p in trained) == (run.world > 1)
    return {"weights": run.updater.module.state_dict(), "last": run.state.last}


if __name__ == "__main__":
    state, target = PartialState(cpu=True), Path(sys.argv[1])
    quicken()
    if state.num_processes > 1:
        shard()
    results = {name: train(name, target) for name in RUNS if name in (sys.argv[2:] or RUNS)}
    torch.save(results, target / f"rank{state.process_index}.pt")
