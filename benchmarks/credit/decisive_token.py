"""Whether the advantage of an estimator points at the token that decides an episode.

As `decisive_turn.py`, for the tokens of an action: the word of an option that the shop is told to
choose, or the item that is crafted. A small policy is cloned. It plays groups of episodes on
held-out tasks. At every turn it also tries the other admissible actions, and plays continuations
after each, which give Q(s, a) without a critic. Constrained decoding gives the exact probability
pi(a | s) of each action. Both give the reference advantage of a token w_j:

    V(w_<j) = sum pi(a | s) Q(s, a) / sum pi(a | s)    over the actions a that begin with w_<j
    A*_j    = V(w_<=j) - V(w_<j)

Actions that are much less probable than the one taken are left out, since they hardly change V. A
token has a choice if more than one token could have been sampled, and A* of the others is 0. The
decisive token of an episode is the one with the largest |A*|, if this exceeds three standard
errors. Each estimator orders the tokens of the episode that have a choice by their advantage, in
the direction of A*, and the decisive token should come first. The columns of the table, which were
fixed before the first measurement:

- place: mean place of the decisive token, from 0 (first) to 1 (last). 0.5 is chance, and the place
  under estimators with one advantage per episode.
- sign: share of episodes in which its advantage has the sign of A*. An advantage of 0 counts half.
- within: mean place among the tokens with a choice of its own action, if there are others. It is
  0.5 under estimators with one advantage per turn.
- correlation: correlation of the advantages with A*, over all tokens with a choice.

The 95 % intervals are from a bootstrap over the starts of the groups. Estimators with a critic use
a token-level one ("state" in `critic.py`), whose explained variance is reported beside the best
possible. "vine" values each turn by continuations from the states before and after it. "lookahead"
values each token by that critic, which reads where the likely actions of the turn lead.
"lookahead, 1" has a GAE lambda of 1 inside an action. "progress" is the process reward of a turn, 1
if it raises the progress. Two further rows show the noise of the
measurement: "token values" is A* from a second set of continuations, and "action values" gives the
sum of these over an action to all of its tokens, as a perfect critic of actions would. Finished
environments are kept. Prints tables and writes JSON.

    python benchmarks/credit/decisive_token.py [--envs WebShop-v0]
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
import tyro
from accelerate import PartialState
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.compare import side_by_side
from agentgym.trainers.credit.two_clock import broadcast
from agentgym.trainers.critics.heads import TokenValueHead
from agentgym.trainers.critics.value_model import ValueModel
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.policy.candidates import sampling_logprobs
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.recipes.lookahead import Lookahead
from agentgym.trainers.rewards.shaping import turn_scores
from agentgym.trainers.rollout.branches import samples_of
from agentgym.trainers.update.metrics import correlation
from benchmarks.credit import critic_episodes
from benchmarks.credit.critic_episodes import ForkSpec, Player, clone, play
from benchmarks.credit.critic_fits import CRITICS, explained, fit, interval, possible
from benchmarks.credit.decisive_turn import advantages, place
from benchmarks.figures.credit_figures import COLUMNS
from benchmarks.shared.figure_results import interval as limits
from benchmarks.shared.result_files import RESULTS, measured, settings_of, versions

EPISODES = {"Overcooked-TomatoLettuceSalad-v0": 24, "TextCraft-v0": 24}
"""Number of held-out episodes, where others would take long."""
FITTED = {"WebShop-v0": 3000}
"""Number of episodes that the critic is fitted to, where `CASES` has too few (`critic_data.py`)."""
GAMMA, LEAST = 0.99, 0.02
"""Discount between turns, and the smallest probability of an action that "lookahead" tries."""
AHEAD = {"lookahead": (GAMMA, 0.95, 0.0), "lookahead, 1": (GAMMA, 0.95, 1.0)}
"""Discount and lambda between turns, and lambda inside an action, of the rows of "lookahead"."""


@dataclass
class Settings(critic_episodes.Settings):
    """Settings of the benchmark."""

    envs: tuple[str, ...] = ("WebShop-v0", "Overcooked-TomatoLettuceSalad-v0", "TextCraft-v0")
    """Environments, with admissible actions that are sampled token by token."""
    demonstrations: int | None = 100
    """Maximum number of demonstrations."""
    held_out: int = 96
    """Maximum number of episodes on held-out tasks."""
    group: int = 4
    """Episodes with the same start."""
    continuations: int = 4
    """Continuations per state, for the estimator vine."""
    tries: int = 4
    """Continuations per action, for A*."""
    again: int = 2
    """Further continuations per action, for "token values" and "action values"."""
    rare: float = 0.03
    """Actions of less than this times the probability of the action taken are left out."""
    tokens: int = 2_000_000
    """Tokens that the critic is fitted with."""
    out: Path = RESULTS / "decisive_token.json"
    """Results."""


class Tried(NamedTuple):
    """The actions that were tried at a turn.

    Attributes:
        tokens: the tokens of each action. The first one is that of the episode.
        probability: [C] probability of each action under the policy.
        returns: [C, K] returns of the continuations, from the action on.
    """

    tokens: list[list[int]]
    probability: NDArray[np.float64]
    returns: FloatArray

    def advantages(self, runs: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns A* [L] of the tokens of the action taken, and its standard errors [L].

        The variance of the returns of one action is pooled over the actions of the turn.

        Args:
            runs: the continuations to use, at least two.
        """
        returns = self.returns[:, runs].astype(np.float64)
        own = self.tokens[0]
        begins = np.array([[a[:j] == own[:j] for a in self.tokens] for j in range(len(own) + 1)])
        shares = begins * self.probability
        steps = np.diff(shares / shares.sum(axis=1, keepdims=True), axis=0)
        noise = returns.var(axis=1, ddof=1).mean() / returns.shape[1]
        return steps @ returns.mean(axis=1), np.sqrt(noise * (steps**2).sum(axis=1))


def likely_actions(
    agent: PolicyAgent, trajectory: Trajectory, rare: float
) -> Iterator[tuple[list[str], NDArray[np.float64]]]:
    """Yields the actions to try at each turn, the one taken first, and their probabilities [C]."""
    turns = trajectory.turns
    prompts = [trajectory.segments[turn.segment].tokens[: turn.start] for turn in turns]
    listed = [turn.admissible for turn in turns]
    logprobs = sampling_logprobs(agent.policy, prompts, listed, agent.sampling)
    for turn, each in zip(turns, logprobs, strict=True):
        taken = turn.admissible.index(turn.action)
        likely = np.flatnonzero(each >= each[taken] + np.log(rare))
        order = [taken, *likely[likely != taken].tolist()]
        yield [turn.admissible[c] for c in order], np.exp(each[order].astype(np.float64))


def try_actions(player: Player, batch: Batch, settings: Settings) -> list[Tried]:
    """Returns the actions that were tried at each turn of a batch [M]."""
    policy, count = player.agent.policy, settings.tries + settings.again
    known: dict[tuple[str, ...], FloatArray] = {}
    found = []
    for trajectory in batch.trajectories:
        start = trajectory.task, trajectory.seed
        before: tuple[str, ...] = (trajectory.task, str(trajectory.seed))
        wanted: dict[tuple[str, ...], list[ForkSpec]] = {}
        turns = []
        likely = likely_actions(player.agent, trajectory, settings.rare)
        for t, (texts, probability) in enumerate(likely):
            tokens = [policy.encode_action(text) for text in texts]
            turns.append((tokens, probability, [(*before, text) for text in texts]))
            for state, ids in zip(turns[-1][2], tokens, strict=True):
                if state in known or state in wanted:  # other episodes may begin alike
                    continue
                action = np.array(ids, np.int32)
                sample = Sample(action, np.zeros(len(ids), np.float32), None, state[-1], True)
                opening = (*samples_of(trajectory, t), sample)
                key = player.seed, 8, len(known) + len(wanted)
                wanted[state] = [
                    ForkSpec(*start, (*key, i), opening, tried=1) for i in range(count)
                ]
            before = (*before, texts[0])
        if specs := [spec for some in wanted.values() for spec in some]:
            known |= zip(wanted, player.returns(specs).reshape(-1, count), strict=True)
        for tokens, probability, states in turns:
            found.append(Tried(tokens, probability, np.stack([known[state] for state in states])))
    return found


def reference(turns: Sequence[Tried], runs: slice) -> tuple[FloatArray, FloatArray]:
    """Returns A* of the tokens of all turns [K], and its standard errors [K]."""
    both = [turn.advantages(runs) for turn in turns]
    exact, error = (np.concatenate(arrays).astype(np.float32) for arrays in zip(*both, strict=True))
    return exact, error


def look_ahead(player: Player, batch: Batch, critic: ValueModel, values: Values) -> Values:
    """Returns the values of the recipe lookahead, from those of a critic of states."""
    agent = player.agent
    config = SimpleNamespace(
        run=SimpleNamespace(seed=player.seed), sampling=lambda: agent.sampling,
        rollout=SimpleNamespace(normalization=agent.sampling.normalization),
    )  # fmt: skip
    trainer: Any = SimpleNamespace(
        policy=agent.policy, config=config, accelerator=PartialState(), own_critic=critic,
        play=lambda specs: player.play(specs).trajectories,
    )  # fmt: skip
    hooks = Lookahead(trainer, least=LEAST, gamma=GAMMA)
    hooks.on_rollout_end(list(batch.trajectories), 0, np.random.default_rng(player.seed))
    return hooks.on_values(batch, values)


def choices(batch: Batch) -> NDArray[np.bool_]:
    """Returns whether each token [K] was sampled from more than one."""
    supports = [turn.support for each in batch.trajectories for turn in each.turns]
    return np.concatenate([np.diff(s.offsets) > 1 for s in supports if s is not None])


class Decisive(NamedTuple):
    """A decisive token.

    Attributes:
        token: its index in the batch.
        sign: the sign of A*.
        among: the tokens of its episode that have a choice.
        within: those of its action.
    """

    token: int
    sign: float
    among: NDArray[np.int64]
    within: NDArray[np.int64]

    def scores(self, credit: FloatArray) -> tuple[float, float, float]:
        """Returns the place, the sign and the place within the action, NaN if it is alone there."""
        overall, within = (
            place(self.sign * credit[some], int(np.searchsorted(some, self.token)))[0]
            if len(some) > 1
            else np.nan
            for some in (self.among, self.within)
        )
        return overall, 0.5 + 0.5 * self.sign * float(np.sign(credit[self.token])), within


def decisive_tokens(
    batch: Batch, exact: FloatArray, error: FloatArray, chosen: NDArray[np.bool_]
) -> Iterator[Decisive]:
    """Yields the decisive tokens of the episodes that have one.

    Args:
        batch: the episodes.
        exact: [K] A* of their tokens.
        error: [K] its standard errors.
        chosen: [K] whether each token has a choice.
    """
    episode = batch.turn_trajectory[batch.token_turn]
    for n in range(len(batch.trajectories)):
        among = np.flatnonzero((episode == n) & chosen)
        if len(among) < 2:
            continue
        token = int(among[np.abs(exact[among]).argmax()])
        if abs(exact[token]) > max(3 * error[token], 1e-6):
            within = among[batch.token_turn[among] == batch.token_turn[token]]
            yield Decisive(token, float(np.sign(exact[token])), among, within)


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the scores of the estimators in an environment."""
    torch.set_num_threads(1)
    begun = time.process_time()
    settings = replace(settings, held_out=min(settings.held_out, EPISODES.get(name, 1 << 30)))
    agent = clone(name, settings)
    played = play(name, agent, settings, group=settings.group, every=True)
    held = played.held
    player = Player(name, agent, settings.seed)
    tried = try_actions(player, held, settings)
    exact, error = reference(tried, slice(settings.tries))
    again, _ = reference(tried, slice(settings.tries, None))
    train = player.episodes("train", FITTED[name]) if name in FITTED else played.train
    model, _ = fit(CRITICS["state"], agent, train, settings, TokenValueHead)
    values = model.evaluate(held)
    ahead = look_ahead(player, held, model, values)
    player.pool.close()
    actions = np.add.reduceat(again, held.token_offsets[:-1])
    found = {
        **side_by_side(held, values),
        "vine": broadcast(advantages(held, played.returns), held),
        **{name: two_clock.poad(*each)(held, ahead).advantages for name, each in AHEAD.items()},
        "progress": broadcast(turn_scores(held, "progress").astype(np.float32), held),
        "action values": broadcast(actions, held),
        "token values": again,
    }
    chosen = choices(held)
    decisive = list(decisive_tokens(held, exact, error, chosen))
    texts = [turn.action for each in held.trajectories for turn in each.turns]
    starts = held.groups[held.turn_trajectory]
    of_token = starts[held.token_turn]
    result: dict[str, Any] = {
        "episodes": len(held.trajectories),
        "return": float(np.mean([sum(t.reward for t in x.turns) for x in held.trajectories])),
        "tokens": int(chosen.sum()),
        "decided": len(decisive),
        "decided_within": sum(len(each.within) > 1 for each in decisive),
        "explained": interval(explained, starts, values.turns, played.returns),
        "possible": interval(possible, starts, played.returns),
        "decisive": sorted(texts[held.token_turn[each.token]] for each in decisive),
        "estimators": {},
    }
    of_decisive = of_token[[each.token for each in decisive]]
    for estimator, credit in found.items():
        row = result["estimators"][estimator] = {}
        scores = np.array([each.scores(credit) for each in decisive]).reshape(-1, 3)
        for column, each in zip(COLUMNS, scores.T, strict=False):
            known = ~np.isnan(each)
            if known.any():
                row[column] = interval(np.mean, of_decisive[known], each[known])
        row["correlation"] = interval(correlation, of_token[chosen], credit[chosen], exact[chosen])
    return {**result, "cpu_seconds": round(time.process_time() - begun, 1)}


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    about = {"versions": versions("torch"), "settings": settings_of(settings, "envs", "runs")}
    measures = {name: partial(measure, name, settings) for name in settings.envs}
    for name, result in measured(settings.out, about, "environments", measures):
        title = f"{name}: {result['decided']} of {result['episodes']} decided"
        table = Table("estimator", *COLUMNS, title=title)
        for estimator, row in result["estimators"].items():
            table.add_row(estimator, *(limits(row[c]) if c in row else "-" for c in COLUMNS))
        Console(width=110).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
