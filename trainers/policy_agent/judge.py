"""`Judge`: a reward model from a folder, which scores the actions of any agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from agentgym.agents.basic.view import View
from agentgym.errors import CheckpointError
from agentgym.trainers.critics.log_ratio import LogRatio
from agentgym.trainers.critics.transitions import say
from agentgym.trainers.critics.value_model import ValueModel, action_model
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.policy import Policy

if TYPE_CHECKING:
    from agentgym.trainers.policy_agent.agent import PolicyAgent

FILE, REFERENCE = "head.pt", "reference"


class Judge:
    """Scores actions by a model with a prompt and a tokenizer of its own.

    Recipes with a learned model of turns (`agentprm`, `orm`, `spa`, `inverse_prm`, `read`, `istar`)
    write one to the folder `judge` of their run.

    Args:
        model: model that scores actions (see `action_model`, `LogRatio`).
        reader: agent whose context builds the prompts of the model. Its policy is the model's.
        whole: whether a score predicts the return of the whole episode (`agentprm`, `orm`), and not
            that of the rest, from the action on.

    Attributes:
        tokens: the tokens that `scores` has read so far, prompts included.
    """

    def __init__(self, model: ValueModel | LogRatio, reader: PolicyAgent, *, whole: bool):
        self.model, self.reader, self.whole = model, reader, whole
        self.tokens = 0

    def read(self, views: Sequence[View], actions: Sequence[Sequence[str]]) -> list[Trajectory]:
        """Returns the tokens of all actions and their prompts, those of the first view first.

        Args:
            views: the episodes.
            actions: some actions for each of them.
        """
        found = []
        for view, texts in zip(views, actions, strict=True):
            prompt = self.reader.request(view, constrain=False).prompt
            found += [say(self.model.trunk, (prompt, ()), text) for text in texts]
        return found

    def scores(self, views: Sequence[View], actions: Sequence[str]) -> list[float]:
        """Returns the score of an action in each view, and counts the tokens."""
        candidates = self.read(views, [[action] for action in actions])
        self.tokens += sum(len(each.segments[0].tokens) for each in candidates)
        return self.model.predict(Batch.of(candidates)).tolist()

    def save(self, folder: Path) -> None:
        """Saves the model and the settings of its prompts to a folder."""
        self.reader.save(folder)
        model = self.model
        if isinstance(model, LogRatio):
            model.reference.save(folder / REFERENCE)
            torch.save({"beta": model.beta, "whole": self.whole}, folder / FILE)
            return
        saved = {"head": model.head.state_dict(), "mean": model.mean, "scale": model.scale}
        saved["whole"] = self.whole
        torch.save(saved, folder / FILE)

    @classmethod
    def load(cls, folder: Path, reader: PolicyAgent) -> Judge:
        """Loads the judge of a folder.

        Args:
            folder: a folder that `save` wrote to.
            reader: the agent that was loaded from it.

        Raises:
            CheckpointError: if the folder holds a policy only.
        """
        if not (folder / FILE).exists():
            raise CheckpointError(
                f"{folder} holds no judge: {FILE} is missing. Give the folder `judge` of a run of "
                "agentprm, orm, spa, inverse_prm, read or istar."
            )
        saved = torch.load(folder / FILE, map_location="cpu", weights_only=True)
        if "beta" in saved:
            device = reader.policy.device
            reference = Policy.load(folder / REFERENCE, dtype="auto", device=device)
            return cls(LogRatio(reader.policy, reference, saved["beta"]), reader, whole=False)
        model = action_model(reader.policy, seed=0)
        model.head.load_state_dict(saved["head"])
        model.mean.copy_(saved["mean"])
        model.scale.copy_(saved["scale"])
        whole = saved["whole"] if "whole" in saved else _trained_on_returns(folder)
        return cls(model, reader, whole=whole)


def _trained_on_returns(folder: Path) -> bool:
    """Returns whether the run of a folder that does not record it trained on whole returns."""
    try:
        run = json.loads((folder.parent / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True  # a judge that was moved away from its run
    return run.get("recipe") in ("agentprm", "orm")
