"""Trains recipes one after another and saves their weights: `train_all.py FOLDER RECIPE ...`.

"rae-mirror" is the recipe rae in all seats of a game, "rae-league" is rae against a pool of its
earlier policies, "poad-roles" is poad with a policy for each role, and "turn-central" is turn with
policies that exchange their roles and one critic that sees all, and "poad-two-hot" is poad with a
two-hot critic.

Started once, or as several processes with the variables of `torchrun`. In every process except the
main one, the networks of the hooks are disturbed when they are made, as if they had drifted apart.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin, PartialState
from accelerate.utils import DistributedType
from torch import nn

from agentgym.trainers import recipes, trainer
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.trainer import Trainer

from . import quick

SETTINGS: dict[str, Any] = {
    "env_id": "NumberLine-v0",
    "env_kwargs": {"size": 4, "max_turns": 4},
    "model": "nano",
    "context": "current",
    "instructions": False,
    "constrain": True,
    "bc_demonstrations": 4,
    "bc_epochs": 1,
    "iterations": 2,
    "episodes_per_iteration": 12,
    "epochs": 1,
    "minibatches": 2,
    "eval_episodes": 3,
    "device": "cpu",
    "threads": 1,
    "quiet": True,
    "save_every": 100,
    "transcripts": 0,
    "log_with": (),
}
# Sizes of what single recipes learn from, and of what they learn beside the policy.
FEW: dict[str, Any] = {
    "dataset_episodes": 9, "dataset_demonstrations": 3, "demonstrations": 3, "transitions": 9,
    "held_out": 1, "world_iterations": 1, "critic_steps": 4, "head_epochs": 1, "model_epochs": 2,
    "simulations": 4, "continuations": 2,
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    # Adam would magnify rounding errors of the features, and the critic those of its features.
    "archer": {"replayed": 9, "critic_lr": 1e-5},
    "digi_q": {"replayed": 9, "best_of": 2, "representation_lr": 1e-5},
    "sac_glam": {"replayed": 9},
    "agentprm": {"best_of": 2, "group_size": 4},
    "nlpo": {"mask_every": 1},
    "rloo": {"ratio": "trajectory"},
    "rae-mirror": {
        "env_id": "KuhnPoker-v0",
        "env_kwargs": {"hands": 2},
        "opponents": "mirror",
        "bc_demonstrations": 0,
    },
    "rae-league": {
        "env_id": "KuhnPoker-v0",
        "env_kwargs": {"hands": 1},
        "opponents": ("league=0.5", "mirror=0.5"),
        "snapshot_every": 1,
        "bc_demonstrations": 0,
    },
    "poad-roles": {
        "env_id": "KuhnPoker-v0",
        "env_kwargs": {"hands": 1},
        "opponents": "mirror",
        "roles": "separate",
        "alternate": 1,
    },
    "turn-central": {
        "env_id": "KuhnPoker-v0",
        "env_kwargs": {"hands": 1},
        "opponents": "mirror",
        "roles": "separate",
        "exchange": 1,
        "critic_backbone": "separate",
        "critic_sees": "all",
        "bc_demonstrations": 0,
    },
    "poad-two-hot": {
        "critic_backbone": "separate",
        "critic_head": "two_hot",
        "critic_episodes": 6,
    },
    "magrpo-cross": {
        "env_id": "StagHunt-v0",
        "env_kwargs": {"max_turns": 2},
        "opponents": "mirror",
        "depth": 2,
        "joint": "cross",
        "group_size": 2,
        "episodes_per_iteration": 4,
        "bc_demonstrations": 0,
    },
    "optima-dpo": {"update": "dpo", "threshold": 0.01},
}


def settings(recipe: str, **changes: Any) -> Any:
    """Returns tiny settings of a recipe."""
    kind = recipes.load(recipe.partition("-")[0]).Config
    known = kind().values()
    few = {name: value for name, value in FEW.items() if name in known}
    chosen = SETTINGS | few | OWN.get(recipe, {}) | changes
    if not chosen["bc_demonstrations"]:
        del chosen["bc_epochs"]
    if known.get("group_size", 1) > 1:
        chosen.setdefault("group_size", 4)
    return kind.of(**chosen)


class Drifted(Trainer):
    """A trainer whose hooks differ between processes, and that evaluates at the end alone."""

    def make_hooks(self) -> None:
        super().make_hooks()
        self.state.evaluated = self.state.iteration  # no evaluation but the last one is compared
        if not self.is_main:
            for module in vars(self.hooks).values():
                if isinstance(module, nn.Module) and module is not self.policy:
                    disturb(module, torch.Generator().manual_seed(self.rank))
            disturb_results(self.hooks)


def disturb(module: nn.Module, generator: torch.Generator) -> None:
    """Adds noise to the weights of a module."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


def disturb_results(hooks: Any) -> None:
    """Lets hooks return other trajectories and advantages and count other steps."""
    on_rollout_end, on_advantages = hooks.on_rollout_end, hooks.on_advantages

    def other_trajectories(*args: Any) -> Learn:
        found = on_rollout_end(*args).trajectories
        hooks.env_steps += 1
        return Learn([*found[::-1], found[0]])

    def other_advantages(*args: Any) -> Any:
        credit = on_advantages(*args)
        return replace(credit, advantages=credit.advantages[::-1] + 1)

    hooks.on_rollout_end, hooks.on_advantages = other_trajectories, other_advantages


def train(recipe: str, folder: Path) -> dict[str, Any]:
    """Trains a recipe and returns its weights and its last evaluation."""
    config = settings(recipe, run_dir=str(folder / recipe))
    run = Drifted(recipe, config, recipes.load(recipe.partition("-")[0]).build(config))
    run.run()
    found = {
        f"{role}/{name}": value
        for role, part in run.updaters.parts.items()
        for name, value in part.module.state_dict().items()
    }
    for i, module in enumerate(run.hooks.modules()):
        found |= {f"hooks.{i}.{name}": value for name, value in module.state_dict().items()}
    return {"weights": found, "last": run.state.last, "env_steps": run.state.env_steps}


def shard() -> None:
    """Makes accelerators that shard the model by FSDP2, which accelerate does on GPUs only."""
    make, state = trainer.make_accelerator, PartialState._shared_state
    started = state["distributed_type"]

    def make_accelerator(*args: Any) -> Accelerator:
        state["distributed_type"] = started
        accelerator = make(*args)
        state["distributed_type"] = accelerator.state.distributed_type = DistributedType.FSDP
        accelerator.state.fsdp_plugin = plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="transformer_based_wrap"
        )
        if accelerator.mixed_precision != "no":
            plugin.set_mixed_precision(accelerator.mixed_precision)
        return accelerator

    trainer.make_accelerator = make_accelerator


def quicken() -> None:
    """Leaves out parts of a run that the tests do not look at."""
    quick.quicken()
    trainer.conclude = lambda *_, **__: []


if __name__ == "__main__":
    rank = PartialState(cpu=True).process_index
    folder = Path(sys.argv[1])
    quicken()
    quick.leave_out_files()
    results = {recipe: train(recipe, folder) for recipe in sys.argv[2:]}
    torch.save(results, folder / f"rank{rank}.pt")
