"""New actions of the policy at states that were met before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.trainers.critics.transitions import Prompt, one_turn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.policy.sampling import Request
from agentgym.trainers.rollout.thoughts import span_finder, thought_mask


def answer(trainer: Run, prompts: Sequence[Prompt], rng: np.random.Generator) -> list[Trajectory]:
    """Samples a new action for each prompt, as an episode of one turn with reward 0.

    Args:
        trainer: the trainer of the policy.
        prompts: prompts with their admissible actions.
        rng: random generator.
    """
    constrain, span = trainer.config.rollout.constrain, span_finder(trainer.pool.env(0))
    seeds = rng.integers(2**63, size=len(prompts))
    requests = [
        Request(tokens, np.random.default_rng(seed), texts if constrain and texts else None)
        for (tokens, texts), seed in zip(prompts, seeds, strict=True)
    ]
    samples = trainer.act(requests)
    found = [
        one_turn(number, tokens, texts, sample)
        for number, ((tokens, texts), sample) in enumerate(zip(prompts, samples, strict=True))
    ]
    if span is not None:
        for trajectory, sample in zip(found, samples, strict=True):
            trajectory.turns[0].thought = thought_mask(sample, trainer.policy.decode, span)
    return found
