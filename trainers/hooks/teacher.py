"""`Teacher`: log-probabilities of the policy's actions under another model, or another prompt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentgym.errors import ConfigError
from agentgym.trainers.critics.privileged import PrivilegedView
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.hooks.served_teacher import SERVED, ServedTeacher
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.update.action_logprobs import action_logprobs

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

SELF = "self"
HINT = "hint:"


@dataclass(frozen=True)
class Teacher:
    """A model that scores the actions of the policy, possibly with more in its prompts.

    Attributes:
        run: the run, with the policy and the decoding parameters.
        model: the model of the teacher, or its server. None: the policy itself, with its current
            weights.
        sees: "own" for the prompts of the policy, "hidden" for the hidden state of the environment
            after each of them, "hint:TEXT" for a text.
    """

    run: Run
    model: Policy | ServedTeacher | None
    sees: str

    @classmethod
    def of(cls, run: Run, source: str, sees: str) -> Teacher:
        """Returns the teacher of a run.

        Args:
            run: the run.
            source: "self", a model id or folder, or chat:MODEL@URL.
            sees: as the attribute.

        Raises:
            ConfigError: if the model does not exist or has another tokenizer than the policy, or
                if its server cannot score tokens.
        """
        if source == SELF:
            return cls(run, None, sees)
        settings, policy = run.config.model, run.policy
        if source.startswith(SERVED):
            return cls(run, ServedTeacher(source, policy, run.context.limit, run.accelerator), sees)
        model = Policy.load(
            source,
            dtype=settings.dtype,
            device=policy.device,
            trust_remote_code=settings.trust_remote_code,
        )
        if model.tokenizer.get_vocab() != policy.tokenizer.get_vocab():
            raise ConfigError(
                f"The tokenizer of the teacher {source!r} differs from that of the policy, whose "
                "tokens it scores: take a teacher of the same family."
            )
        model.requires_grad_(False)
        model.autocast = policy.autocast
        return cls(run, model, sees)

    def logprobs(self, batch: Batch) -> FloatArray:
        """Returns the log-probabilities of the action tokens under the teacher [K].

        They are those of the distribution that the policy sampled from (see `action_logprobs`).
        """
        seen, run = self._seen(batch), self.run
        if isinstance(self.model, ServedTeacher):
            return self.model.logprobs(seen)
        return action_logprobs(self.model or run.policy, seen, run.config.sampling())

    def _seen(self, batch: Batch) -> Batch:
        """Returns the batch with the prompts of the teacher."""
        if self.sees == "own":
            return batch
        if self.sees.startswith(HINT):
            text = self.sees.removeprefix(HINT)
            batch = replace(batch, trajectories=[_hinted(t, text) for t in batch.trajectories])
        return PrivilegedView(self.run.context)(batch)


def _hinted(trajectory: Trajectory, text: str) -> Trajectory:
    """Returns a trajectory whose turns have a text beside their prompts, in place of any other."""
    turns = [replace(turn, privileged=text) for turn in trajectory.turns]
    return replace(trajectory, turns=turns, final_privileged=text)
