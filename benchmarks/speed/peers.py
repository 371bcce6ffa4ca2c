"""Generation of actions against `generate` of `transformers`, with the same model in one process.

Three comparisons in new tokens per second: free actions for prompts of several lengths; actions
constrained to WebShop's admissible ones, against `prefix_allowed_tokens_fn` with a trie; and
episodes of WebShop with the full history, against a loop that calls `generate` for all episodes in
progress. The programs alternate, and a ratio is the median of the ratios of each repetition. A
ratio above 1 means that this project is faster. Times are CPU times of one thread, which other
processes affect little. Weights are random. Prints a table and writes JSON.

A fourth comparison is of updates of GRPO with TRL's `GRPOTrainer`, each side in its own process
(`peers_grpo.py` lists what is equal): with returns that differ in every group, and with equal
returns in half of the groups, as in training on tasks that a policy always or never solves. It is
left out if TRL, which is in the extra `dev`, is not installed:
`pip install "trl>=1.16" -c constraints.txt`.

    python benchmarks/speed/peers.py [--rows 1 8 32 64] [--lengths 64 512] [--grpo-updates 3]
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

import agentgym  # noqa: F401  (registers the environments)
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sample, Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec, Play
from benchmarks.shared.result_files import RESULTS, kept, settings_of, versions, write

Program = Callable[[], int]
"""Runs once and returns the number of new tokens."""


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        size: size of the random model (nano, tiny or small).
        env_id: environment of the constrained and the multi-turn comparison.
        rows: numbers of prompts per call.
        lengths: lengths of the free comparison's prompts in tokens.
        new_tokens: length of a free action in tokens.
        episodes: episodes of the multi-turn comparison, all in parallel.
        turns: turns per episode.
        turn_tokens: length of an action in an episode in tokens.
        repeats: repetitions of each comparison, after one warm-up.
        grpo_env_id: environment of the comparison with TRL, of one turn per episode.
        grpo_episodes: episodes per update of GRPO, a multiple of 8.
        grpo_tokens: maximum length of their actions in tokens.
        grpo_updates: measured updates per process. 0 leaves the comparison out.
        seed: seed of the model, the prompts and the actions.
        out: file of the results.
    """

    size: str = "tiny"
    env_id: str = "AgentGym/WebShop-v0"
    rows: tuple[int, ...] = (1, 8, 32, 64)
    lengths: tuple[int, ...] = (64, 512)
    new_tokens: int = 32
    episodes: int = 64
    turns: int = 8
    turn_tokens: int = 16
    repeats: int = 3
    grpo_env_id: str = "AgentGym/Countdown-v0"
    grpo_episodes: int = 64
    grpo_tokens: int = 64
    grpo_updates: int = 3
    seed: int = 0
    out: Path = RESULTS / "peers.json"


@torch.no_grad()
def generate(
    policy: Policy, prompts: Sequence[np.ndarray], new_tokens: int, allowed: Any = None
) -> list[list[int]]:
    """Returns the tokens that `transformers` generates for prompts of any lengths."""
    width = max(map(len, prompts))
    mask = np.arange(width) >= width - np.array([[len(prompt)] for prompt in prompts])
    ids = np.full(mask.shape, policy.pad_token)
    ids[mask] = np.concatenate(prompts)
    out = policy.model.generate(
        input_ids=torch.from_numpy(ids),
        attention_mask=torch.from_numpy(mask).long(),
        max_new_tokens=new_tokens,
        do_sample=True,
        top_k=0,
        top_p=1.0,
        temperature=1.0,
        eos_token_id=policy.end_token,
        pad_token_id=policy.pad_token,
        prefix_allowed_tokens_fn=allowed,
    )
    rows = []
    for row in out[:, width:].tolist():
        stop = row.index(policy.end_token) + 1 if policy.end_token in row else len(row)
        rows.append(row[:stop])
    return rows


def acting(
    policy: Policy, prompts: Sequence[np.ndarray], sampling: Sampling, choices: Any = None
) -> Program:
    """Returns the program of the policy, which samples anew in each call, as `generate` does."""
    calls = itertools.count()

    def act() -> int:
        rngs = np.random.default_rng(next(calls)).spawn(len(prompts))
        requests = [
            Request(prompt, rng, choices and choices[i])
            for i, (prompt, rng) in enumerate(zip(prompts, rngs, strict=True))
        ]
        return sum(len(sample.tokens) for sample in policy.act(requests, sampling))

    return act


def free(policy: Policy, settings: Settings, rows: int, length: int) -> tuple[Program, Program]:
    """Returns both programs for free actions after random prompts."""
    rng = np.random.default_rng(settings.seed)
    prompts = list(rng.integers(10, len(policy.tokenizer), (rows, length)).astype(np.int32))
    sampling = Sampling(max_new_tokens=settings.new_tokens)
    return (
        acting(policy, prompts, sampling),
        lambda: sum(map(len, generate(policy, prompts, settings.new_tokens))),
    )


def first_turns(policy: Policy, settings: Settings, count: int) -> list[Play]:
    """Returns episodes at their first turn."""
    context = make_context(policy, ContextSettings())
    plays = []
    for i in range(count):
        env = gymnasium.make(settings.env_id)
        plays.append(Play(i, specs(settings, env, count)[i], i, env))
        plays[-1].start()
        plays[-1].read(context, lambda _: settings.turn_tokens)
    return plays


def specs(settings: Settings, env: gymnasium.Env[Any, Any], count: int) -> list[EpisodeSpec]:
    """Returns the episodes to play."""
    tasks = env.get_wrapper_attr("tasks").train
    return [
        EpisodeSpec(tasks[i % len(tasks)], i, (settings.seed, i), max_turns=settings.turns)
        for i in range(count)
    ]


def constrained(policy: Policy, settings: Settings, rows: int) -> tuple[Program, Program]:
    """Returns both programs for admissible actions. Both know the tries from earlier calls."""
    plays = first_turns(policy, settings, rows)
    for play in plays:  # to a page with many actions
        text = play.admissible[0]
        tokens = np.array([*policy.encode(text), policy.end_token], np.int32)
        play.record(Sample(tokens, np.zeros(len(tokens), np.float32), None, text, True))
        play.step()
        play.read(make_context(policy, ContextSettings()), lambda _: settings.turn_tokens)
    prompts = [play.prompt for play in plays if play.prompt is not None]
    choices = [play.admissible for play in plays if play.prompt is not None]
    tries = []
    for texts in choices:
        root: dict[int, Any] = {}
        for text in texts:
            node = root
            for token in (*policy.encode(text), policy.end_token):
                node = node.setdefault(token, {})
        tries.append(root)
    longest = max(len(policy.encode(text)) + 1 for texts in choices for text in texts)

    def peer() -> int:
        width = max(map(len, prompts))

        def allowed(row: int, tokens: torch.Tensor) -> list[int]:
            node = tries[row]
            for token in tokens[width:].tolist():
                node = node.get(token, {})
            return list(node) or [policy.pad_token]

        return sum(map(len, generate(policy, prompts, longest, allowed)))

    return acting(policy, prompts, Sampling(), choices), peer


def episodes(policy: Policy, settings: Settings) -> tuple[Program, Program]:
    """Returns both programs for episodes with the full history as the context."""
    context = make_context(policy, ContextSettings())
    pool = EnvPool(lambda: gymnasium.make(settings.env_id), settings.episodes)
    todo = specs(settings, pool.env(0), settings.episodes)
    sampling = Sampling(max_new_tokens=settings.turn_tokens)

    def own() -> int:
        played = collect(policy, pool, todo, context, sampling)
        return sum(turn.stop - turn.start for each in played for turn in each.turns)

    def peer() -> int:
        plays = [Play(i, episode, i, pool.env(i)) for i, episode in enumerate(todo)]
        for play in plays:
            play.start()
            play.read(context, lambda _: settings.turn_tokens)
        count = 0
        while live := [(play, play.prompt) for play in plays if play.prompt is not None]:
            rows = generate(policy, [prompt for _, prompt in live], settings.turn_tokens)
            for (play, _), row in zip(live, rows, strict=True):
                tokens, text = np.array(row, np.int32), policy.decode(row)
                play.record(Sample(tokens, np.zeros(len(row), np.float32), None, text, True))
                play.step()
                play.read(context, lambda _: settings.turn_tokens)
                count += len(row)
        return count

    return own, peer


def compare(programs: tuple[Program, Program], repeats: int) -> dict[str, float]:
    """Returns the median tokens per second of both programs, and the median of their ratios."""
    speeds = []
    for _ in range(1 + repeats):
        pair = []
        for program in programs:
            start = time.process_time()
            tokens = program()
            pair.append(tokens / (time.process_time() - start))
        speeds.append(pair)
    own, peer = np.array(speeds[1:]).T
    return {
        "tokens_per_second": float(np.median(own)),
        "generate_tokens_per_second": float(np.median(peer)),
        "ratio": float(np.median(own / peer)),
    }


def grpo(settings: Settings, equal: float) -> dict[str, float]:
    """Returns the figures of GRPO on both sides, and the medians of their ratios.

    Args:
        settings: settings of the benchmark.
        equal: share of the tasks whose groups have equal returns.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tiny_policy(settings.grpo_env_id, seed=settings.seed, size=settings.size).save(folder)
        of_sides = {
            "model": folder,
            "env_id": settings.grpo_env_id,
            "episodes": settings.grpo_episodes,
            "tokens": settings.grpo_tokens,
            "updates": settings.grpo_updates,
            "equal": equal,
            "seed": settings.seed,
        }
        path = Path(folder) / "settings.json"
        path.write_text(json.dumps(of_sides))
        program = Path(__file__).with_name("peers_grpo.py")
        for _ in range(settings.repeats):
            pair = []
            for side in ("own", "trl"):
                command = [sys.executable, str(program), side, str(path)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
                pair.append(json.loads(done.stdout.strip().splitlines()[-1]))
            rows.append(pair)
    seconds = np.array([[sum(side["seconds"]) for side in pair] for pair in rows])
    tokens = np.array([[sum(side["tokens"]) for side in pair] for pair in rows])
    peak = np.array([[side["peak_bytes"] for side in pair] for pair in rows])
    added = peak - np.array([[side["start_bytes"] for side in pair] for pair in rows])
    speed, episodes = tokens / seconds, settings.grpo_episodes * settings.grpo_updates / seconds
    figures = {
        "tokens_per_second": speed,
        "episodes_per_second": episodes,
        "peak_megabytes": peak / 2**20,
        "peak_megabytes_over_imports": added / 2**20,
    }
    result = {}
    for name, values in figures.items():
        result[name], result[f"trl_{name}"] = np.median(values, 0).tolist()
    for name, values in (("", speed), ("memory_", peak), ("memory_over_imports_", added)):
        result[f"{name}ratio"] = float(np.median(values[:, 0] / values[:, 1]))
    return result


def comparisons(settings: Settings) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields the name and the result of each comparison."""
    policy = tiny_policy(settings.env_id, seed=settings.seed, size=settings.size)
    for length in settings.lengths:
        for rows in settings.rows:
            name = f"free, {rows} x {length} tokens"
            yield name, compare(free(policy, settings, rows, length), settings.repeats)
    for rows in settings.rows:
        name = f"admissible actions, {rows} prompts"
        yield name, compare(constrained(policy, settings, rows), settings.repeats)
    name = f"{settings.episodes} episodes x {settings.turns} turns"
    yield name, compare(episodes(policy, settings), settings.repeats)
    if settings.grpo_updates and find_spec("trl") is None:
        Console().print("TRL is not installed, so the comparison of GRPO is left out.")
    elif settings.grpo_updates:
        yield "GRPO against TRL", grpo(settings, equal=0.0)
        yield "GRPO against TRL, half of the groups equal", grpo(settings, equal=0.5)


def main(settings: Settings) -> None:
    """Runs all comparisons. Results of others are kept."""
    torch.set_num_threads(1)
    about = {"settings": settings_of(settings), **versions("torch", "transformers")}
    results = kept(settings.out, about["settings"], "results")
    table = Table("comparison", "tokens/s", "peer", "ratio", title="This project and its peers")
    for name, row in comparisons(settings):
        results[name] = row
        write(settings.out, about | {"results": results})
        own, peer = (row[key] for key in row if key.endswith("tokens_per_second"))
        table.add_row(name, f"{own:,.0f}", f"{peer:,.0f}", f"{row['ratio']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
