"""Turns as transitions: frozen features of (o), (o, a), (o'), and a buffer of them.

Utterance-level critics read an encoder that never changes - a copy of the policy as it was before
learning from reward - so every transition is encoded once, and critics train on vectors.

Shapes: b transitions, H features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.policy import Policy, Request
from agentgym.trainers.policy.sampling import Sample, Sampling, Tokens
from agentgym.trainers.trajectory import Batch, Segment, Trajectory, Turn
from agentgym.trainers.update.learner import Rows

Prompt = tuple[Tokens, tuple[str, ...]]
"""What was read, and what was admissible."""


@dataclass(frozen=True)
class Features:
    """What the encoder says of the turns of a batch; float32.

    Attributes:
        observation: [M, H] at the end of what was read.
        action: [M, H] at the end of what was said.
        following: [M, H] at the end of what was read next; zeros after a termination.
    """

    observation: Tensor
    action: Tensor
    following: Tensor


class Encoder:
    """A frozen copy of a policy.

    Args:
        policy: what is copied.
        tokens: tokens, padding included, in one forward pass.
    """

    def __init__(self, policy: Policy, tokens: int = 16384):
        self.policy = policy.frozen_copy()
        self.tokens = tokens
        self.size = policy.hidden_size

    @torch.no_grad()
    def encode(self, batch: Batch) -> Features:
        """Reads a batch; every state normalised to mean 0 and deviation 1 over its features."""
        policy, rows = self.policy, Rows.of(batch)
        seen, said = (torch.zeros(batch.num_turns, self.size) for _ in range(2))
        last = torch.zeros(len(batch.trajectories), self.size)
        for part in rows.microbatches(np.arange(len(rows.rows)), self.tokens):
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
            read, spoke = states.float().cpu().chunk(2)
            seen[turn[first]], said[turn[end]] = read, spoke
            last[collated.bootstrap_trajectory] = final.float().cpu()
        seen, said, last = (
            torch.nn.functional.layer_norm(x, (self.size,)) for x in (seen, said, last)
        )
        following = torch.cat([seen[1:], seen[:1]])
        following[torch.from_numpy(batch.turn_offsets[1:] - 1)] = last
        following[torch.from_numpy(batch.turn_offsets[1:][batch.terminated] - 1)] = 0.0
        return Features(seen, said, following)


@dataclass(frozen=True)
class Sampled:
    """Transitions drawn from a buffer; [b, H] and [b]."""

    observation: Tensor
    action: Tensor
    following: Tensor
    reward: Tensor
    terminated: Tensor


class TransitionBuffer:
    """The latest transitions, as many as fit.

    Args:
        size: how many.
    """

    def __init__(self, size: int):
        if size < 1:
            raise ValueError(f"A buffer holds at least one transition, got size {size}.")
        self.size = size
        self._vectors = torch.zeros(0, 3, 0)
        self._numbers = torch.zeros(0, 2)
        self._prompts: list[Prompt] = []

    def __len__(self) -> int:
        return len(self._prompts)

    def add(self, batch: Batch, features: Features) -> None:
        """Keeps the turns of a batch; the oldest make room."""
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
        """Returns the transitions of these numbers."""
        vectors, numbers = self._vectors[index], self._numbers[index]
        observation, action, following = vectors.unbind(1)
        return Sampled(observation, action, following, numbers[:, 0], numbers[:, 1] > 0)

    def prompt(self, number: int) -> Prompt:
        """Returns what was read before a transition, and what was admissible."""
        return self._prompts[number]

    def state_dict(self) -> dict[str, Any]:
        """Returns tensors and plain Python values."""
        prompts = [(tokens.tolist(), list(texts)) for tokens, texts in self._prompts]
        return {"vectors": self._vectors, "numbers": self._numbers, "prompts": prompts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self._vectors, self._numbers = state["vectors"], state["numbers"]
        self._prompts = [(np.array(t, np.int32), tuple(texts)) for t, texts in state["prompts"]]


def answer(
    policy: Policy,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    constrain: bool,
    rng: np.random.Generator,
) -> list[Trajectory]:
    """Lets the policy answer prompts anew; each answer is an episode of one turn, without reward.

    Args:
        policy: who answers.
        prompts: what is read, and what is admissible there.
        sampling: how.
        constrain: whether answers are admissible ones.
        rng: draws.
    """
    seeds = rng.integers(2**63, size=len(prompts))
    requests = [
        Request(tokens, np.random.default_rng(seed), texts if constrain and texts else None)
        for (tokens, texts), seed in zip(prompts, seeds, strict=True)
    ]
    samples = policy.act(requests, sampling)
    return [
        one_turn(number, tokens, texts, sample)
        for number, ((tokens, texts), sample) in enumerate(zip(prompts, samples, strict=True))
    ]


def say(policy: Policy, prompt: Prompt, text: str) -> Trajectory:
    """Returns an episode of one turn in which a given answer is given."""
    tokens = np.array([*policy.encode(text), policy.end_token], np.int32)
    sample = Sample(tokens, np.zeros(len(tokens), np.float32), None, text, True)
    return one_turn(0, *prompt, sample)


def one_turn(number: int, prompt: Tokens, texts: tuple[str, ...], sample: Sample) -> Trajectory:
    """Returns an episode of one turn, without reward."""
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
