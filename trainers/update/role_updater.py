"""`RoleUpdater`: evaluates and updates the policies of several roles with their own episodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import FloatArray, IntArray
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.sharding import copy_policy
from agentgym.trainers.update.updater import Diverged, Updater


@dataclass(frozen=True)
class Part:
    """The trajectories of a role in a batch.

    Attributes:
        batch: the trajectories.
        trajectories: their indices in the whole batch.
        turns: the indices of their turns.
        tokens: the indices of their action tokens.
    """

    batch: Batch
    trajectories: IntArray
    turns: IntArray
    tokens: IntArray

    @classmethod
    def of(cls, whole: Batch, mask: NDArray[np.bool_]) -> Part:
        """Returns the part of a batch with the trajectories in a mask [N]."""
        chosen = np.flatnonzero(mask)
        turns = mask[whole.turn_trajectory]
        tokens = np.flatnonzero(turns[whole.token_turn])
        return cls(whole.select(chosen), chosen, np.flatnonzero(turns), tokens)

    def forward(self, whole: ForwardPass | None) -> ForwardPass | None:
        """Returns the part of a forward pass."""
        if whole is None:
            return None
        values, reference = whole.values, whole.reference
        if values is not None:
            tokens = None if values.tokens is None else values.tokens[self.tokens]
            values = Values(tokens, values.turns[self.turns], values.bootstrap[self.trajectories])
        return ForwardPass(
            None if whole.logprobs is None else whole.logprobs[self.tokens],
            values,
            None if reference is None else reference[self.tokens],
            None if whole.entropy is None else whole.entropy[self.tokens],
        )

    def credit(self, whole: Credit) -> Credit:
        """Returns the part of a credit, whose targets belong to tokens or to turns."""
        targets = whole.targets
        if targets is not None:
            per_token = len(targets) == len(whole.advantages)
            targets = targets[self.tokens if per_token else self.turns]
        returns = None if whole.returns is None else whole.returns[self.turns]
        chunks = None if whole.chunks is None else whole.chunks[self.turns]
        own = whole.advantages[self.tokens]
        return replace(whole, advantages=own, targets=targets, returns=returns, chunks=chunks)


class RoleUpdater:
    """The updaters of the roles of a game, of which each sees the trajectories of its role.

    An update of one role changes no weights of another.

    Args:
        parts: the updater of each role. A single one with the name "" sees all trajectories.
        learning: maps the number of finished iterations to the roles that learn. The others act.
    """

    def __init__(
        self, parts: Mapping[str, Updater], learning: Callable[[int], Collection[str]]
    ) -> None:
        self.parts, self._learning = dict(parts), learning

    def split(self, batch: Batch) -> dict[str, Part]:
        """Returns the part of each role that has trajectories in a batch."""
        single = "" in self.parts
        roles = np.array(["" if single else t.role for t in batch.trajectories], object)
        assert set(roles) <= self.parts.keys()
        return {role: Part.of(batch, roles == role) for role in self.parts if role in roles}

    def evaluate_actions(
        self, batch: Batch, reference: bool, *, reuse: bool = False
    ) -> ForwardPass:
        """Returns log-probabilities, entropies and values: see `Updater.evaluate_actions`."""
        parts = self.split(batch)
        found = [
            self.parts[role].evaluate_actions(part.batch, reference, reuse=reuse)
            for role, part in parts.items()
        ]
        trajectories = [part.trajectories for part in parts.values()]
        turns = [part.turns for part in parts.values()]
        tokens = [part.tokens for part in parts.values()]
        values = None
        if some := [each.values for each in found if each.values is not None]:
            values = Values(
                _joined(tokens, [each.tokens for each in some]),
                _whole(turns, [each.turns for each in some]),
                _whole(trajectories, [each.bootstrap for each in some]),
            )
        return ForwardPass(
            _joined(tokens, [each.logprobs for each in found]),
            values,
            _joined(tokens, [each.reference for each in found]),
            _joined(tokens, [each.entropy for each in found]),
        )

    def share(self) -> None:
        """Gives each role the policy of the first one, such as a clone. All processes take part."""
        first, *others = self.parts.values()
        for each in others:
            copy_policy(first.trained, each.trained)
            each.publish()

    def exchange(self) -> None:
        """Gives each role the policy, critic and optimiser of the role before it, cyclically.

        The reference of a policy goes with it.

        Source: the exchange of roles of CORY (arXiv 2410.06101).
        """
        updaters = list(self.parts.values())
        states = [
            copy.deepcopy((each.policy.own_weights(), _critic(each), each.optimizer.state_dict()))
            for each in updaters
        ]
        self._exchange_references([each.policy for each in updaters])
        for updater, state in zip(updaters, states[-1:] + states[:-1], strict=True):
            weights, critic, optimizer = state
            updater.policy.load_own_weights(weights)
            if updater.module.critic is not None:
                updater.module.critic.load_state_dict(critic)
            updater.optimizer.load_state_dict(optimizer)

    @staticmethod
    def _exchange_references(policies: Sequence[Policy]) -> None:
        """Gives each policy the reference of the one before it, if they differ."""
        found = [policy.reference_weights() for policy in policies]
        first = found[0]
        if all(
            torch.equal(x, each[name].to(x.device))
            for each in found[1:]
            for name, x in first.items()
        ):
            return
        found = copy.deepcopy(found)
        for policy, weights in zip(policies, found[-1:] + found[:-1], strict=True):
            policy.load_reference_weights(weights)

    def update(
        self,
        batch: Batch,
        credit: Credit,
        forward: ForwardPass | None,
        iteration: int,
        *,
        first_pass: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> dict[str, float]:
        """Updates the roles that learn and returns scalars to log: see `Updater.update`.

        Returns:
            The means over the roles, and the scalars of each role as "ROLE/NAME".
        """
        learning = self._learning(iteration) if len(self.parts) > 1 else self.parts
        found: dict[str, dict[str, float]] = {}
        for role, part in self.split(batch).items():
            if role not in learning:
                self.parts[role].forget()
                continue
            own = part.credit(credit), part.forward(forward)
            try:
                found[role] = self.parts[role].update(
                    part.batch, *own, iteration, first_pass=first_pass, check=check
                )
            except Diverged as error:
                if role:
                    error.add_note(f"It was the policy of {role}.")
                raise
        names = next(iter(found.values()), {})
        means = {name: float(np.mean([each[name] for each in found.values()])) for name in names}
        each = {f"{role}/{name}": x for role in found if role for name, x in found[role].items()}
        return means | each


def _critic(updater: Updater) -> dict[str, Any]:
    critic = updater.module.critic
    return {} if critic is None else critic.state_dict()


def _whole(indices: list[IntArray], pieces: list[FloatArray]) -> FloatArray:
    """Returns the array whose entries at each of the indices are those of a piece."""
    whole = np.zeros(sum(map(len, indices)), np.float32)
    for index, piece in zip(indices, pieces, strict=True):
        whole[index] = piece
    return whole


def _joined(indices: list[IntArray], pieces: list[FloatArray | None]) -> FloatArray | None:
    """Does as `_whole`, or returns None if there are no pieces."""
    known = [piece for piece in pieces if piece is not None]
    return _whole(indices, known) if known else None
