"""Rewards that are added to those of the environment before credit assignment, in every recipe.

Each function returns rewards, scores or a batch with other rewards. The trajectories keep the
environment's rewards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.credit.group import members_of
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch, Delayed
from agentgym.trainers.data.trajectory import IntArray, Trajectory
from agentgym.trainers.rewards.chat_judge import ChatJudge
from agentgym.trainers.rewards.model_judge import PREFIX, ModelJudge
from agentgym.utils.importing import imported
from agentgym.utils.returned_numbers import as_number

ScoreFn = Callable[[Trajectory], Sequence[float]]
"""Scores the turns of a trajectory, in [0, 1]."""
Scorer = Callable[[Sequence[Trajectory]], Sequence[Sequence[float]]]
"""Scores the turns of several trajectories, in [0, 1]."""
PROGRESS = "progress"
"""Term of the rewards of `shape_by_progress` that are received in turns of others."""
OWN_SCORES = ("progress", "valid")
"""Sources of scores in every environment."""
Combine = Literal["mean", "outcome", "gated", "episode", "turn"]


def shape_by_progress(
    batch: Batch, coef: float, gamma: float, *, bootstraps: bool, joint: bool = False
) -> Batch:
    """Adds potential-based shaping, with the progress as the potential.

        r'_t = r_t + coef (gamma Phi_{t+1} - Phi_t)

    Phi_t is the progress before turn t. It is 0 after the end of an episode, so the discounted
    return from turn t on changes by -coef Phi_t, which no later action influences, and optimal
    policies stay optimal. After a truncation it is the last progress if the critic bootstraps,
    since the value of the last state changes by -coef Phi too, and 0 otherwise. Undiscounted
    returns, and those with a discount per token, change so for gamma = 1 only.

    With joint credit, t counts the turns of the environment, and Phi_t is the progress that an
    agent has last seen before turn t, 0 if it has not acted. What it sees later depends on the
    actions of the others in between.

    Sources: "Policy Invariance Under Reward Transformations: Theory and Application to Reward
    Shaping" (Ng et al., ICML 1999). "Reward Shaping in Episodic Reinforcement Learning" (Grzes,
    AAMAS 2017) for the potential 0 at the end.

    Args:
        batch: the trajectories.
        coef: weight of the potential.
        gamma: discount per turn of the credit function.
        bootstraps: whether truncated trajectories are bootstrapped by a critic.
        joint: whether the credit of an agent counts the rewards of all (see `joint.Joint`).
    """
    after = np.array([turn.progress for turn in batch.turns], np.float64)
    before = np.append(0.0, after[:-1])
    before[batch.turn_offsets[:-1]] = [each.start_progress for each in batch.trajectories]
    ended = batch.terminated if bootstraps else np.ones_like(batch.terminated)
    after[batch.turn_offsets[1:][ended] - 1] = 0.0
    if joint:
        return _shaped_in_games(batch, coef, gamma, before, after[batch.turn_offsets[1:] - 1])
    return batch.with_rewards(batch.rewards + coef * (gamma * after - before))


def _shaped_in_games(
    batch: Batch, coef: float, gamma: float, before: Float64, last: Float64
) -> Batch:
    """Returns the batch with rewards in all turns of the environment of an episode.

    Those in which an agent does not act are delayed parts of the reward of its action before.

    Args:
        batch: the trajectories.
        coef: weight of the potential.
        gamma: discount per turn of the environment.
        before: [M] progress before each turn.
        last: [N] potential after the last turn of the environment.
    """
    joint, owner = Joint.of(batch), batch.turn_trajectory
    time, rewards, delayed = joint.time, batch.rewards.copy(), list(batch.delayed)
    clocks = joint.clocks
    for n in range(len(batch.trajectories)):
        own = np.flatnonzero(owner == n)
        ends = clocks[joint.episode[n]]
        # The turn in which the agent has last seen its progress, -1 before the first one.
        acted = np.searchsorted(time[own], np.arange(len(ends)), side="right") - 1
        first = np.searchsorted(time[own], time[own][acted])  # of several in one turn of all
        seen = np.where(acted >= 0, before[own][first], 0.0)
        gains = coef * (gamma * np.append(seen[1:], last[n]) - seen)
        for t, gain in enumerate(gains.tolist()):
            m = int(own[max(acted[t], 0)])
            rewards[m] += gain
            if time[m] != t:
                delayed.append(Delayed(m, ends[t], gain, PROGRESS))
    return replace(batch.with_rewards(rewards), delayed=tuple(delayed))


def new_states(batch: Batch) -> Float64:
    """Returns 1 for turns that lead to a state not seen before in the episode, else 0 [M].

    States are compared by `state_key`. The last turn counts as 0: no action follows its state.
    """
    found = np.zeros(batch.num_turns)
    for trajectory, start in zip(batch.trajectories, batch.turn_offsets, strict=False):
        keys = [turn.state_key for turn in trajectory.turns]
        found[start : start + len(keys) - 1] = [
            keys[t + 1] not in keys[: t + 1] for t in range(len(keys) - 1)
        ]
    return found


def rarity(batch: Batch, counts: dict[str, int]) -> Float64:
    """Returns 1 / sqrt(N) of each turn [M], N times having taken its action in its state so far.

    This turn counts too, unless it is replayed. States are compared by `state_key`. Without a
    coefficient, it is the bonus of "An Analysis of Model-Based Interval Estimation for Markov
    Decision Processes" (Strehl and Littman, 2008), MBIE-EB.

    Args:
        batch: the trajectories.
        counts: the N of earlier batches by digest of environment, state and action. Updated.
    """
    found = np.zeros(batch.num_turns)
    owners = batch.turn_trajectory.tolist()
    for m, (owner, turn) in enumerate(zip(owners, batch.turns, strict=True)):
        trajectory = batch.trajectories[owner]
        where = f"{trajectory.env_id}\0{turn.state_key}\0{turn.action}"
        digest = hashlib.blake2b(where.encode(), digest_size=8).hexdigest()
        if not trajectory.replayed:  # it was counted when it was played
            counts[digest] = counts.get(digest, 0) + 1
        found[m] = counts.get(digest, 1) ** -0.5
    return found


def turn_scores(batch: Batch, source: str, score: Scorer | None = None) -> Float64:
    """Returns process scores in [0, 1] of the turns [M].

    The trajectories to score are joint ones: they hold the turns of all agents of an episode, in
    the order of acting (see `joint.Joint`). Progress is an agent's own, up to its next turn, and a
    reward model reads the turns of one agent.

    Args:
        batch: the trajectories.
        source: "progress" (1 for a turn that raises the progress), "valid" (1 for a valid action),
            a reward term of the environment, "module:function" with a `ScoreFn`, "judge:FOLDER"
            (see `ModelJudge`), "chat:MODEL@URL", or "rubric=FILE:chat:MODEL@URL" (see `ChatJudge`).
        score: the function of the source. None: `scorer(source)`.

    Raises:
        ConfigError: for an unknown source, or scores that are not numbers in [0, 1], one per turn.
    """
    trajectories, turns = batch.trajectories, np.arange(batch.num_turns)
    if source != "progress" and not source.startswith(PREFIX):
        joint = Joint.of(batch)
        trajectories, turns = joint.batch.trajectories, joint.turns
    scores = (score or scorer(source))(trajectories)
    numbers: list[float] = []
    for trajectory, given in zip(trajectories, scores, strict=True):
        turns_here = len(trajectory.turns)
        some = _numbers(given, turns_here)
        numbers += some
        if len(some) != turns_here:
            raise ConfigError(
                f"Process scores of {source!r} must be numbers, one per turn, {turns_here}, got "
                f"{given!r:.80}."
            )
    found = np.empty(batch.num_turns)
    found[turns] = numbers
    if not ((found >= 0) & (found <= 1)).all():
        wrong = found[~((found >= 0) & (found <= 1))][0]
        raise ConfigError(
            f"Process scores of {source!r} must lie in [0, 1], got {wrong}. A function "
            "(module:function) may rescale them."
        )
    return found


def _numbers(given: Any, count: int) -> list[float]:
    """Returns the numbers of a function of the user, [] if they are not so many."""
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):  # lists of different lengths, tensors of a model
        return []
    if found.shape != (count,):
        return []
    numbers = [as_number(each) for each in found.tolist()]
    return [number for number in numbers if number is not None]


def scorer(
    source: str, instructions: Mapping[str, str] | None = None, option: str = "process_reward"
) -> Scorer:
    """Returns the function of a source of process scores (see `turn_scores`).

    Args:
        source: the source.
        instructions: instructions of the environments by id, which a language model reads.
        option: the name of the setting that names the source.

    Raises:
        ConfigError: if there is no such function in the module or no judge in the folder, or for a
            malformed address.
        CheckpointError: if the judge is damaged.
    """
    if source.startswith(PREFIX):
        return ModelJudge(source, instructions, option)
    if source.startswith(("chat:", "rubric=")):
        return ChatJudge(source, instructions or {})
    rule = _rule(source, option)
    return lambda trajectories: [rule(trajectory) for trajectory in trajectories]


def _rule(source: str, option: str) -> ScoreFn:
    if source == "valid":
        return lambda trajectory: [float(turn.valid) for turn in trajectory.turns]
    if source == "progress":
        return _raises_progress
    if ":" in source:
        return imported(source, option)
    return lambda trajectory: [reward_term(turn.reward_terms, source) for turn in trajectory.turns]


def process_rewards(batch: Batch, scores: Float64, combine: Combine = "mean") -> Float64:
    """Returns rewards [M] from process scores p, which add up to a mean over the T turns.

        "mean"     p_t / T
        "outcome"  (p_t + o - 1) / (sigma T), with o = 1 for a success, else 0
        "gated"    o p_t / T

    and sigma the standard deviation of the numerator over the turns of the group. With "outcome",
    no turn of a success has a negative reward and no turn of a failure a positive one, whatever its
    score. This is the idea of ReNorm, "Hybrid Reward Normalization for Process-supervised
    Non-verifiable Agentic Tasks" (arXiv 2509.25598), with a scale of our own. With "gated",
    turns are only scored in successes, as the turn-level verifier of DeepTravel (arXiv 2509.21842)
    only sees what the one of trajectories has accepted. With "episode" and "turn", the scores
    divide the rewards of the batch instead (see `split_rewards`).

    Args:
        batch: the trajectories.
        scores: [M] scores in [0, 1].
        combine: the combination with the outcome.
    """
    if combine in ("episode", "turn"):
        return split_rewards(batch, scores, combine)
    owner = batch.turn_trajectory
    success = np.array([t.success for t in batch.trajectories], np.float64)[owner]
    rewards = scores * success if combine == "gated" else scores
    if combine == "outcome":
        rewards = scores + success - 1.0
        group = members_of(batch.groups[owner])
        sigma = np.sqrt(group.mean((rewards - group.mean(rewards)) ** 2))
        rewards = rewards / np.where(sigma > 1e-6, sigma, 1.0)
    return rewards / np.diff(batch.turn_offsets)[owner]


def split_rewards(batch: Batch, scores: Float64, over: Literal["episode", "turn"]) -> Float64:
    """Returns rewards [M] that are divided anew in proportion to scores p: credit re-assignment.

        r'_t = R+ p_t / sum_k p_k + R- (1 - p_t) / sum_k (1 - p_k)

    with R+ the sum of the positive and R- that of the negative rewards of all agents. The sum over
    k and both totals are over an episode, or over the agents that act in a turn of the environment.
    Shares are equal if all p (for R-, all 1 - p) are 0. The sum of all rewards stays the same.

    A judge that assigns credit to agents and turns is the idea of "Advancing Language Multi-Agent
    Learning with Credit Re-Assignment for Interactive Environment Generalization" (arXiv
    2502.14496), whose judge replaces rewards by its scores (`combine` "mean").

    Args:
        batch: the trajectories.
        scores: [M] scores in [0, 1].
        over: the turns among which rewards are divided: of an episode, or of a turn of the
            environment.
    """
    joint = Joint.of(batch)
    labels = joint.shared_turn if over == "turn" else joint.episode[batch.turn_trajectory]
    gains = np.bincount(labels, np.maximum(batch.rewards, 0.0))[labels]
    losses = np.bincount(labels, np.minimum(batch.rewards, 0.0))[labels]
    return gains * _shares(scores, labels) + losses * _shares(1.0 - scores, labels)


def _shares(parts: Float64, labels: IntArray) -> Float64:
    """Returns each part divided by the sum of its label, equal shares if this is 0."""
    total, count = np.bincount(labels, parts)[labels], np.bincount(labels)[labels]
    return np.where(total > 1e-9, parts / np.maximum(total, 1e-9), 1.0 / count)


def _raises_progress(trajectory: Trajectory) -> list[float]:
    levels = [trajectory.start_progress, *(turn.progress for turn in trajectory.turns)]
    return [float(b > a) for a, b in pairwise(levels)]


def reward_term(terms: dict[str, float], name: str) -> float:
    """Returns a reward term of a turn.

    Raises:
        ConfigError: if the environment has no such term.
    """
    if name not in terms:
        raise ConfigError(
            f"There is no reward term {name!r}. The environment has {', '.join(terms) or 'none'}."
        )
    return float(terms[name])
