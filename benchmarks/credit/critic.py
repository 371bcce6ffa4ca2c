"""How much of the return a critic can explain, and how much critics do explain.

A model of 0.2 million parameters is trained by behaviour cloning in each environment, for WebShop
with the model and the settings of `demo.yaml`. Its policy plays episodes on training tasks, to
which critics are fitted, and on held-out tasks. From states of the held-out episodes it plays
several continuations, with fresh randomness of policy and environment. They split the variance of
the return into the part within states, which no critic can predict, and the part between states:

    best possible explained variance = 1 - E[Var[G | s]] / Var[G]
    explained variance of a critic   = 1 - Var[G - V(s)] / Var[G]

G is the return that follows the state, without a discount. Both are measured on the same
continuations, for all turns and by turn, with 95 % intervals from a bootstrap over episodes. The
targets of the critics are the returns of the training episodes:

- shared: a head on the policy's hidden states, as the default critic has it.
- shared, normalised: the same, of returns in standard deviations from their mean.
- own: a separate backbone and normalised values, as with `--critic-backbone separate`.
- hidden: the same, with the hidden state of the environment beside the prompt, as with
  `--critic-sees hidden`. The best possible variance is that of the complete state.
- hidden, 3 x: the same, fitted with three times as many tokens.
- state: the hidden state in place of the prompt, as with `--critic-sees state`.

All other critics of an environment are fitted with about the same number of tokens, so that those
with short inputs make more epochs over the same episodes.

Policies, episodes and finished critics are kept, so the same command continues an interrupted
benchmark. Prints a table, writes JSON and a figure.

    python benchmarks/credit/critic.py [--jobs 2] [--envs WebShop-v0]
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console

from agentgym.trainers.update.metrics import correlation
from benchmarks.credit import critic_episodes
from benchmarks.credit.critic_episodes import CASES, clone, play
from benchmarks.credit.critic_figures import draw, tabulate
from benchmarks.credit.critic_fits import CRITICS, explained, fit, interval, possible
from benchmarks.shared.parallel_jobs import end, finished
from benchmarks.shared.result_files import kept, settings_of, versions, write

TURNS = {"1": slice(0, 1), "2-3": slice(1, 3), "4-": slice(3, None)}
"""Groups of turns, by label."""


@dataclass
class Settings(critic_episodes.Settings):
    """Settings of the benchmark."""

    jobs: int = 1
    """Environments measured in parallel."""


def fixed(settings: Settings) -> dict[str, Any]:
    """Returns the settings that all results in a file share."""
    return settings_of(settings, "envs", "jobs", "runs")


def measure(name: str, settings: Settings, known: dict[str, Any]) -> dict[str, Any]:
    """Returns the explained variances of an environment, over all turns and by turn.

    Args:
        name: id of the environment.
        settings: the settings of the benchmark.
        known: results of an earlier call, whose critics are kept.
    """
    begun = time.process_time()
    unfinished = settings.runs / name / f"unfinished-{settings.out.stem}.json"
    about = fixed(settings)
    known = known | kept(unfinished, about, "unfinished")
    torch.set_num_threads(1)
    agent = clone(name, settings)
    played = play(name, agent, settings)
    held, states, returns = played.held, played.states, played.returns
    episode = held.turn_trajectory[states]
    turn = states - held.turn_offsets[episode]
    some = {label: np.isin(turn, np.arange(turn.max() + 1)[span]) for label, span in TURNS.items()}
    parts = {"all": np.ones(len(turn), bool), **{k: mask for k, mask in some.items() if mask.any()}}
    critics = dict(known.get("critics", {}))
    for critic in CRITICS:
        if critic in critics:
            continue
        model, epochs = fit(CRITICS[critic], agent, played.train, settings)
        values = model.predict(held)[states]
        critics[critic] = {
            **{k: interval(explained, episode[m], values[m], returns[m]) for k, m in parts.items()},
            "correlation": correlation(values, returns.mean(axis=1)),
            "epochs": epochs,
        }
        spent = round(known.get("cpu_seconds", 0.0) + time.process_time() - begun, 1)
        part = {"critics": critics, "cpu_seconds": spent}
        write(unfinished, {"settings": about, "unfinished": part})
    unfinished.unlink(missing_ok=True)
    return {
        "mean": float(returns.mean()),
        "variance": float(returns.var()),
        "states": {label: int(mask.sum()) for label, mask in parts.items()},
        "training_states": played.train.num_turns,
        "possible": {k: interval(possible, episode[m], returns[m]) for k, m in parts.items()},
        "critics": {critic: critics[critic] for critic in CRITICS},
        "cpu_seconds": round(known.get("cpu_seconds", 0.0) + time.process_time() - begun, 1),
    }


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    about = fixed(settings)
    known = kept(settings.out, about)
    missing = {name: known.get(name, {"critics": {}}) for name in settings.envs}
    missing = {k: v for k, v in missing.items() if not CRITICS.keys() <= v["critics"].keys()}
    failed: dict[str, BaseException] = {}
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(settings.jobs, mp_context=spawn)
    jobs = {name: (name, settings, before) for name, before in missing.items()}
    for done, result in finished(pool, measure, jobs, failed):
        known[done] = result
        found = {name: known[name] for name in CASES if name in known}
        results = {"versions": versions("torch"), "settings": about, "environments": found}
        write(settings.out, results)
        draw(found, settings.out.with_suffix(".png"))
    Console(width=120).print(tabulate(known))
    end(failed)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
