"""Shortens runs by parts that tests of training do not look at."""

from __future__ import annotations

import copy
import hashlib
import shutil
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from agentgym.trainers import trainer
from agentgym.trainers.data.packing import pack
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.imitation import behaviour_cloning
from agentgym.trainers.imitation.behaviour_cloning import fit_demonstrations
from agentgym.trainers.policy import loading
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.run import conclusion, evaluation, setup
from agentgym.trainers.run.journal import Journal
from agentgym.trainers.run.saving import Saver

open_policy, open_model = setup._open_policy, loading._load_base
MADE: dict[tuple[str, int, str], Path] = {}
"""Folders of new models, by environment, seed and size."""
OPENED: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
"""The models and tokenizers that were opened last, by the files of their folder."""
KEPT = 8
FITTED: dict[str, list[torch.Tensor]] = {}
"""Weights at the end of behaviour cloning, by all that determines them."""


def copied_policy(make_env: Callable[[], Any], *, seed: int, size: str, folder: Path) -> None:
    """Does as `tiny_policy`, but copies the folder that it wrote for the same arguments before."""
    env = make_env()
    env.close()
    key = (repr(env.spec), seed, size)
    if env.spec is not None and key in MADE and MADE[key].is_dir():
        shutil.copytree(MADE[key], folder, dirs_exist_ok=True)
    else:
        tiny_policy(make_env, seed=seed, size=size, folder=folder)
        MADE[key] = folder


def copied_model(name: str, dtype: str, trust: bool) -> tuple[Any, Any]:
    """Does as `open_model`, but copies the model that the same files gave before."""
    if not (files := sorted(Path(name).glob("*.*"))):
        return open_model(name, dtype, trust)  # of the hub, or none
    digest = hashlib.sha256(repr((dtype, trust)).encode())
    for file in files:
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    key = digest.hexdigest()
    if key not in OPENED:
        OPENED[key] = open_model(name, dtype, trust)
    OPENED.move_to_end(key)
    while len(OPENED) > KEPT:
        OPENED.popitem(last=False)
    model, tokenizer = copy.deepcopy(OPENED[key])
    model.name_or_path = model.config._name_or_path = tokenizer.name_or_path = name
    return model, tokenizer


def opened_policy(*arguments: Any) -> Policy:
    """Opens the policy of a run, copied if the same files were opened before."""
    with mock.patch.object(loading, "_load_base", copied_model):
        return open_policy(*arguments)


def copied_fit(
    accelerator: Any,
    learner: Any,
    optimizer: Any,
    trajectories: Sequence[Trajectory],
    *,
    rngs: Callable[[int], np.random.Generator],
    on_epoch: Callable[[int, dict[str, float]], None],
    check: Callable[[], None],
    **settings: Any,
) -> None:
    """Does as `fit_demonstrations`, but copies the weights that it found from the same before."""
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    shown = [pack(trajectory) for trajectory in trajectories]
    start = [settings, shown, optimizer.defaults, rngs(0).bit_generator.state]
    digest = hashlib.sha256(repr(start).encode())
    for weight in weights:
        digest.update(weight.detach().numpy().tobytes())
    key = digest.hexdigest()
    if key in FITTED:
        with torch.no_grad():
            for weight, fitted in zip(weights, FITTED[key], strict=True):
                weight.copy_(fitted)
        on_epoch(settings["epochs"], {})
    else:
        arguments = accelerator, learner, optimizer, trajectories
        callbacks = {"rngs": rngs, "on_epoch": on_epoch, "check": check}
        fit_demonstrations(*arguments, **callbacks, **settings)
        FITTED[key] = [weight.detach().clone() for weight in weights]


def leave_out_files(change: Callable[[Any, str, Any], None] = setattr) -> None:
    """Leaves out checkpoints, journal and report, and fits the same demonstrations once.

    Args:
        change: sets an attribute, such as `monkeypatch.setattr`.
    """
    change(trainer, "conclude", lambda *_, **__: [])
    change(evaluation, "replace_folder", lambda *_, **__: None)
    change(Saver, "save", lambda *_, **__: None)
    change(Journal, "append", lambda *_: None)
    change(behaviour_cloning, "fit_demonstrations", copied_fit)


def quicken(change: Callable[[Any, str, Any], None] = setattr) -> None:
    """Makes and opens a new model once, and draws no curve.

    Args:
        change: sets an attribute, such as `monkeypatch.setattr`.
    """
    change(setup, "tiny_policy", copied_policy)
    change(setup, "_open_policy", opened_policy)
    change(conclusion, "draw_curve", lambda *_: None)
