"""The state of a run: its counters, its checkpoints, and the models that are written once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agentgym.errors import CheckpointError
from agentgym.trainers.data.run_state import RunState
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.roles import role_folder
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system import checkpoint
from agentgym.trainers.system.checkpoint import load_tensors
from agentgym.trainers.system.processes import broadcast_value
from agentgym.trainers.system.signals import Interrupted
from agentgym.trainers.update.updater import Diverged, Updater
from agentgym.utils.masking import masked
from agentgym.utils.serialization import from_json

if TYPE_CHECKING:
    from agentgym.trainers.run.parts import Parts


class Saver:
    """Writes the checkpoints of a run and restores it from one.

    Args:
        trainer: the trainer of the run.

    Attributes:
        cloning: the progress of behaviour cloning, until the first iteration may begin.
        saved: the progress of the newest checkpoint: finished iterations, the iteration of the last
            evaluation, and epochs of behaviour cloning that is under way. None: there is none.
    """

    def __init__(self, trainer: Parts):
        self._trainer = trainer
        self.cloning: dict[str, Any] | None = None
        self.saved: tuple[int, int, int | None] | None = None
        self._time = time.monotonic()

    def restore(self, start: Path) -> None:
        """Restores hooks, critic and rollouts from a checkpoint."""
        trainer, saved = self._trainer, load_hooks(start)
        self.cloning = saved.get("cloning")
        if self.cloning is None:
            trainer.make_hooks()
            self._check_written_once()
        with checkpoint.loading(start / "hooks.pt"):
            if trainer.own_critic is not None:
                trainer.own_critic.restore(saved["critic"])
            trainer.hooks.load_frozen_state(load_frozen(trainer.folder))
            trainer.hooks.load_state_dict(saved["hooks"])
            trainer.rewards.load_state_dict(saved.get("rewards", {}))
            trainer.rollouts.load_state_dict(saved)
        self.saved, self._time = self._progress(), time.monotonic()

    def _check_written_once(self) -> None:
        """Raises CheckpointError if a folder is gone that is written once and needed again."""
        trainer = self._trainer
        fixed = trainer.wants_reference and not trainer.config.loss.reference_every
        needed = {"reference": fixed, "frozen": bool(trainer.hooks.frozen_state())}
        for name, content in checkpoint.ONCE.items():
            folder = trainer.folder.path / name
            if needed[name] and not folder.exists():
                raise CheckpointError(
                    f"The {content} is missing, so the run cannot be continued: there is no "
                    f"folder {folder}. Start again with another --run-dir."
                )

    def save_if_due(self) -> None:
        """Writes a checkpoint every `save_every` iterations, `save_minutes` apart."""
        run, waited = self._trainer.config.run, time.monotonic() - self._time
        # Clocks differ, so the main process decides.
        due = broadcast_value(self._trainer.accelerator, waited >= 60 * run.save_minutes)
        if due and self._trainer.state.iteration % run.save_every == 0:
            self.save()

    def save_cloning(self, progress: dict[str, Any]) -> None:
        """Writes a checkpoint of behaviour cloning every `save_every` epochs."""
        self.cloning = progress
        if progress["epochs"] % self._trainer.config.run.save_every == 0:
            self.save()

    def save(self, keep_journal: bool = False) -> None:
        """Writes a checkpoint unless the newest one is of the same state.

        Args:
            keep_journal: keep the finished episodes of an iteration that was interrupted.
        """
        if self.current:
            return
        trainer, at = self._trainer, self._progress()
        parts, state = trainer.updaters.parts, trainer.state
        optimizers = {role: part.state_of(part.optimizer) for role, part in parts.items()}
        if trainer.is_main:
            trainer.folder.save(
                state.iteration,
                lambda path: write_checkpoint(
                    path,
                    trainer.config,
                    parts,
                    optimizers,
                    trainer.agent(trainer.recipe),
                    self._hooks(),
                    state,
                ),
                keep=trainer.config.run.keep,
                best=state.best_iteration,
            )
        trainer.accelerator.wait_for_everyone()
        if not keep_journal:
            trainer.rollouts.forget()
        self.saved, self._time = at, time.monotonic()

    def _hooks(self) -> dict[str, Any]:
        """Returns the states of everything that `restore` restores."""
        trainer = self._trainer
        critic = trainer.own_critic
        return trainer.rollouts.state_dict() | {
            "hooks": trainer.hooks.state_dict(),
            "rewards": trainer.rewards.state_dict(),
            "cloning": self.cloning,
            "critic": None if critic is None else critic.states(),
        }

    @property
    def current(self) -> bool:
        """Whether the newest checkpoint holds all finished iterations."""
        return self.saved == self._progress()

    def _progress(self) -> tuple[int, int, int | None]:
        epochs = None if self.cloning is None else self.cloning["epochs"]
        return self._trainer.state.iteration, self._trainer.state.evaluated, epochs


@contextmanager
def saved_first(trainer: Parts, *, credits: bool = False) -> Iterator[None]:
    """Returns a context for what runs between updates: an error in it loses no iteration.

    A run that diverged keeps its last good checkpoint instead.

    Args:
        trainer: the trainer of the run, which writes a checkpoint before the error is raised.
        credits: whether it assigns credit. If that changes a state, of hooks or of counts, the
            error has left it between two iterations, and --resume repeats those since the last
            checkpoint.
    """
    try:
        yield
    except Exception as error:
        alone = trainer.accelerator.num_processes == 1  # others would wait for this process
        hooks, counts = trainer.hooks, trainer.config.reward.count_bonus
        changed = credits and (hooks.state_dict() or hooks.modules() or counts)
        if alone and not changed and not isinstance(error, Interrupted | Diverged):
            trainer.save()
            at = trainer.state.iteration
            error.add_note(f"Saved after iteration {at}. --resume continues the run.")
        raise


def load_run_state(start: Path | None) -> RunState:
    """Returns the counters of a checkpoint, or those of a new run."""
    if start is None:
        return RunState()
    file = start / "state.json"
    with checkpoint.loading(file):
        state = json.loads(file.read_text(encoding="utf-8"))
        return from_json(RunState, state["progress"])


def write_reference(folder: checkpoint.RunFolder, policies: Mapping[str, Policy]) -> None:
    """Writes the policies before RL by role, the reference policies."""

    def write(path: Path) -> None:
        for role, policy in policies.items():
            policy.save(role_folder(path, role))

    checkpoint.replace_folder(folder.path / "reference", write, checksums=True)


def load_reference(
    policy: Policy, folder: checkpoint.RunFolder, start: Path, role: str, options: dict[str, Any]
) -> None:
    """Loads the reference policy of a role, if the run has one: from the checkpoint if it moves."""
    moving, shared = role_folder(start, role) / "reference.pt", folder.path / "reference"
    own = role_folder(shared, role)
    fixed = own if own.exists() else shared  # that of all roles in runs of earlier versions
    if moving.exists():
        weights = load_tensors(moving)
        with checkpoint.loading(moving):
            policy.load_reference_weights(weights)
    elif fixed.exists():
        with checkpoint.loading(fixed):
            policy.load_reference(fixed, **options)


def load_hooks(start: Path) -> dict[str, Any]:
    """Returns the states of hooks and curriculum in a checkpoint."""
    return load_tensors(start / "hooks.pt")


def write_frozen(folder: checkpoint.RunFolder, state: dict[str, Any]) -> None:
    """Writes the state of hooks that never changes, if there is any."""
    if state:
        target = folder.path / "frozen"
        write = lambda path: torch.save(state, path / "hooks.pt")  # noqa: E731
        checkpoint.replace_folder(target, write, checksums=True)


def load_frozen(folder: checkpoint.RunFolder) -> dict[str, Any]:
    """Returns the state that `write_frozen` wrote."""
    file = folder.path / "frozen" / "hooks.pt"
    return load_tensors(file) if file.exists() else {}


def write_checkpoint(
    folder: Path,
    config: TrainConfig,
    updaters: Mapping[str, Updater],
    optimizers: Mapping[str, dict[str, Any]],
    agent: PolicyAgent | RoleAgent,
    hooks: dict[str, Any],
    state: RunState,
) -> None:
    """Writes everything that a resumed run needs."""
    write_policy(folder / "policy", agent, config, state)
    for role, updater in updaters.items():
        target = role_folder(folder, role)
        target.mkdir(parents=True, exist_ok=True)
        critic = updater.module.critic
        if critic is not None:
            torch.save(critic.state_dict(), target / "critic.pt")
        saved = {"optimizer": optimizers[role]}
        if updater.accelerator.scaler is not None:
            saved["scaler"] = updater.accelerator.scaler.state_dict()
        torch.save(saved, target / "optimizer.pt")
        if config.loss.reference_every and (weights := updater.policy.reference_weights()):
            torch.save(weights, target / "reference.pt")
    torch.save(hooks, folder / "hooks.pt")
    text = json.dumps({"progress": asdict(state), "versions": checkpoint.versions()})
    (folder / "state.json").write_text(text + "\n", encoding="utf-8")


def write_policy(
    folder: Path, agent: PolicyAgent | RoleAgent, config: TrainConfig, state: RunState
) -> None:
    """Writes the policy, or those of all roles, with everything needed to act."""
    agent.save(
        folder,
        env_id=masked(config.environment.env_id),
        env_kwargs=masked(config.environment.env_kwargs),
        iteration=state.iteration,
    )
