"""Turns as transitions: features of o, (o, a) and o', and replay buffers of them.

The encoder of an utterance-level critic is a copy of the policy before RL. If it is frozen, every
transition is encoded once, and critics train on feature vectors (`TransitionBuffer`). If the loss
of the critic trains it, transitions are kept as tokens and encoded when they are sampled
(`TurnBuffer`).

Shapes: b transitions, M turns, H features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.replay import ReplayBuffer
from agentgym.trainers.data.trajectory import RolloutStats, Segment, Trajectory, Turn
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.sampling import Sample, Tokens
from agentgym.trainers.update.microbatches import TokenBudget
from agentgym.trainers.update.optimizer import LOW_PRECISION
from agentgym.trainers.update.rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.policy.policy import Policy

Prompt = tuple[Tokens, tuple[str, ...]]
"""Prompt tokens, and the admissible actions."""


@dataclass(frozen=True)
class Features:
    """float32 features of the turns of a batch.

    Attributes:
        observation: [M, H] features at the end of the prompt.
        action: [M, H] features at the end of the action.
        following: [M, H] features at the end of the next prompt, zeros after a termination.
    """

    observation: Tensor
    action: Tensor
    following: Tensor

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        """The features of observation and action."""
        return self.observation, self.action

    def take(self, index: NDArray[np.int64] | slice) -> Features:
        """Returns the features of some turns."""
        return Features(self.observation[index], self.action[index], self.following[index])


def pack_prompts(prompts: Sequence[Prompt | None]) -> dict[str, Any]:
    """Returns prompts as two tensors and lists of texts. None has the length -1."""
    tokens = [np.zeros(0, np.int32), *(prompt[0] for prompt in prompts if prompt)]
    lengths = [len(prompt[0]) if prompt else -1 for prompt in prompts]
    return {
        "tokens": torch.from_numpy(np.concatenate(tokens).astype(np.int32)),
        "lengths": torch.tensor(lengths, dtype=torch.int64),
        "texts": [list(prompt[1]) if prompt else [] for prompt in prompts],
    }


def unpack_prompts(packed: dict[str, Any]) -> list[Prompt | None]:
    """Returns the prompts of `pack_prompts`."""
    lengths = packed["lengths"].numpy()
    tokens = np.split(packed["tokens"].numpy(), np.cumsum(lengths.clip(min=0)))
    return [
        (some, tuple(texts)) if length >= 0 else None
        for some, length, texts in zip(tokens, lengths, packed["texts"], strict=False)
    ]


class Encoder:
    """A copy of a policy as a feature encoder.

    Args:
        policy: policy to copy.
        tokens: number of tokens per forward pass, including padding. It is halved if a device runs
            out of memory.
        trained: whether its weights are trained. It then has a target network, in float32.

    Attributes:
        policy: the encoder.
        target: its target network. The encoder itself if it is frozen.
    """

    def __init__(self, policy: Policy, tokens: int = 16384, *, trained: bool = False):
        self.policy = policy.clone() if trained else policy.frozen_copy()
        self.target = policy.frozen_copy() if trained else self.policy
        if any(p.dtype in LOW_PRECISION and p.requires_grad for p in self.policy.parameters()):
            self._widen_target()  # in which changes by a small tau would be rounded away
        self.budget, self.trained = TokenBudget(tokens), trained
        self.size = policy.hidden_size

    def _widen_target(self) -> None:
        """Turns the weights of the target network to float32, but for those that both share."""
        if self.policy.has_adapter:
            own = self.target.own_weights()
            for name, weight in self.target.named_parameters():
                if name in own:
                    weight.data = weight.data.float()
            return
        dtype, kind = next(self.policy.parameters()).dtype, self.policy.device.type
        self.target.float().autocast = partial(torch.autocast, kind, dtype=dtype)

    @property
    def modules(self) -> tuple[Policy, ...]:
        """The networks that change: none of a frozen encoder."""
        return (self.policy, self.target) if self.trained else ()

    @torch.no_grad()
    def update_target(self, tau: float) -> None:
        """Updates the target network of a trained encoder with Polyak coefficient tau."""
        for slow, fast in zip(self.target.parameters(), self.policy.parameters(), strict=True):
            if fast.requires_grad:  # not the base of an adapter, which both share
                slow.lerp_(fast.to(slow.dtype), tau)

    @torch.no_grad()
    def encode(self, batch: Batch, *, target: bool = False) -> Features:
        """Returns `features` without gradients, by the target network with `target`."""
        return self.features(batch, target=target)

    def features(self, batch: Batch, *, target: bool = False) -> Features:
        """Encodes a batch. Each feature vector is normalised to mean 0 and standard deviation 1."""
        policy, rows = self.target if target else self.policy, Rows.of(batch)
        observation, action = (torch.zeros(batch.num_turns, self.size) for _ in range(2))
        last = torch.zeros(len(batch.trajectories), self.size)

        def step(part: NDArray[np.int64]) -> None:
            collated = collate(batch, [rows.rows[i] for i in part], policy.pad_token)
            turn = torch.from_numpy(batch.token_turn)[collated.index]
            changes = torch.ones(len(turn) + 1, dtype=torch.bool)
            changes[1:-1] = turn[1:] != turn[:-1]
            first, end = changes[:-1], changes[1:]
            both = replace(
                collated,
                row=torch.cat([collated.row[first], collated.row[end]]),
                column=torch.cat([collated.column[first], collated.column[end] + 1]),
            )
            states, final = policy.hidden(both.to(policy.device))
            before, after = states.float().cpu().chunk(2)
            observation[turn[first]], action[turn[end]] = before, after
            last[collated.bootstrap_trajectory] = final.float().cpu()

        self.budget.each(rows, np.arange(len(rows.rows)), step)
        observation, action, last = (
            torch.nn.functional.layer_norm(x, (self.size,)) for x in (observation, action, last)
        )
        following = torch.cat([observation[1:], observation[:1]])
        following[torch.from_numpy(batch.turn_offsets[1:] - 1)] = last
        following[torch.from_numpy(batch.turn_offsets[1:][batch.terminated] - 1)] = 0.0
        return Features(observation, action, following)


@dataclass(frozen=True)
class Sampled:
    """A minibatch of transitions from a buffer: features [b, H], rewards and flags [b]."""

    observation: Tensor
    action: Tensor
    following: Tensor
    reward: Tensor
    terminated: Tensor


class TransitionBuffer:
    """FIFO replay buffer of transitions.

    Args:
        size: capacity in transitions.

    Raises:
        ValueError: if `size` is below 1.
    """

    def __init__(self, size: int):
        if size < 1:
            raise ValueError(f"A buffer needs a size of at least 1, got {size}.")
        self.size = size
        self._vectors = torch.zeros(0, 3, 0)
        self._numbers = torch.zeros(0, 2)
        self._prompts: list[Prompt] = []

    def __len__(self) -> int:
        return len(self._prompts)

    def add(self, batch: Batch, features: Features) -> None:
        """Adds the turns of a batch and drops the oldest transitions beyond the capacity."""
        vectors = torch.stack([features.observation, features.action, features.following], 1)
        ended = np.zeros(batch.num_turns)
        ended[batch.turn_offsets[1:] - 1] = batch.terminated
        numbers = torch.from_numpy(np.stack([batch.rewards, ended], 1).astype(np.float32))
        old = self._vectors if len(self) else vectors[:0]
        self._vectors = torch.cat([old, vectors])[-self.size :]
        self._numbers = torch.cat([self._numbers, numbers])[-self.size :]
        for trajectory in batch.trajectories:
            for turn in trajectory.turns:
                prompt = trajectory.segments[turn.segment].tokens[: turn.start]
                self._prompts.append((prompt, turn.admissible))
        del self._prompts[: -self.size]

    def take(self, index: Any) -> Sampled:
        """Returns the transitions at an index (integers, a slice or a mask)."""
        vectors, numbers = self._vectors[index], self._numbers[index]
        observation, action, following = vectors.unbind(1)
        return Sampled(observation, action, following, numbers[:, 0], numbers[:, 1] > 0)

    def prompt(self, number: int) -> Prompt:
        """Returns the prompt and the admissible actions of a transition."""
        return self._prompts[number]

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as tensors and plain Python values."""
        prompts = pack_prompts(self._prompts)
        return {"vectors": self._vectors, "numbers": self._numbers, "prompts": prompts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self._vectors, self._numbers = state["vectors"], state["numbers"]
        self._prompts = [prompt for prompt in unpack_prompts(state["prompts"]) if prompt]


class TurnBuffer:
    """FIFO replay buffer of turns as episodes of one turn, each with its reward and what follows.

    Args:
        size: capacity in turns.
    """

    def __init__(self, size: int):
        self._kept = ReplayBuffer(size)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, batch: Batch) -> None:
        """Adds the turns of a batch and drops the oldest turns beyond the capacity."""
        for trajectory in batch.trajectories:
            self._kept.add(turns_of(trajectory), 0)

    def take(self, index: NDArray[np.int64]) -> list[Trajectory]:
        """Returns the turns at some indices."""
        return [self._kept[i] for i in index.tolist()]

    def prompt(self, number: int) -> Prompt:
        """Returns the prompt and the admissible actions of a turn."""
        return prompt_of(self._kept[number])

    def state_dict(self) -> dict[str, Any]:
        """Returns plain Python values."""
        return self._kept.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self._kept.load_state_dict(state)


def turns_of(trajectory: Trajectory) -> list[Trajectory]:
    """Returns the turns as episodes of one turn. The next prompt is their last observation."""
    found = []
    for number, turn in enumerate(trajectory.turns):
        segments = [Segment(trajectory.segments[turn.segment].tokens[: turn.stop])]
        ends = number == len(trajectory.turns) - 1
        if not ends:
            after = trajectory.turns[number + 1]
            segments.append(Segment(trajectory.segments[after.segment].tokens[: after.start]))
        elif trajectory.bootstrap is not None:
            segments.append(trajectory.segments[trajectory.bootstrap])
        goes_on = len(segments) > 1
        found.append(
            replace(
                trajectory,
                segments=segments,
                turns=[replace(turn, segment=0)],
                terminated=not goes_on,
                truncated=goes_on,
                bootstrap=1 if goes_on else None,
                stats=RolloutStats(),
            )
        )
    return found


def prompt_of(trajectory: Trajectory) -> Prompt:
    """Returns the prompt and the admissible actions of the first turn."""
    turn = trajectory.turns[0]
    return trajectory.segments[turn.segment].tokens[: turn.start], turn.admissible


def say(policy: Policy, prompt: Prompt, text: str) -> Trajectory:
    """Returns an episode of one turn with a given action and reward 0."""
    tokens = np.array(policy.encode_action(text), np.int32)
    sample = Sample(tokens, np.zeros(len(tokens), np.float32), None, text, True)
    return one_turn(0, *prompt, sample)


def one_turn(number: int, prompt: Tokens, texts: tuple[str, ...], sample: Sample) -> Trajectory:
    """Returns an episode of one turn with reward 0.

    Args:
        number: name and seed of its task.
        prompt: [P] prompt tokens.
        texts: the admissible actions.
        sample: the action.
    """
    tokens = np.concatenate([prompt, sample.tokens]).astype(np.int32)
    turn = Turn(
        segment=0, start=len(prompt), stop=len(tokens), logprobs=sample.logprobs,
        support=sample.support, observation="", action=sample.text, reward=0.0, reward_terms={},
        valid=True, progress=0.0, state_key="", admissible=texts, choice=sample.choice,
    )  # fmt: skip
    return Trajectory(
        "answer", str(number), number, [Segment(tokens)], [turn], terminated=True, truncated=False,
        success=False,
    )  # fmt: skip
