"""Generation of actions against `generate` of `transformers`, with the same model in one process.

Three comparisons in new tokens per second: free actions for prompts of several lengths; actions
constrained to WebShop's admissible ones, against `prefix_allowed_tokens_fn` with a trie; and
episodes of WebShop with the full history, against a loop that calls `generate` for all episodes in
progress. The programs alternate, and a ratio is the median of the ratios of each repetition. A
ratio above 1 means that this project is faster. Times are CPU times of one thread, which other
processes affect little. Weights are random. Prints a table and writes JSON.

    python benchmarks/peers.py [--rows 1 8 32 64] [--lengths 64 512]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from result_files import settings_of, versions, write
from rich.console import Console
from rich.table import Table

import agentgym  # noqa: F401  (registers the environments)
from agentgym.trainers.policy.policy import Policy, Request, Sample, Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import EnvPool, EpisodeSpec, Play, collect
from agentgym.trainers.rollout.context import ContextSettings

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
    seed: int = 0
    out: Path = Path(__file__).parent / "results" / "peers.json"


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


def act(policy: Policy, prompts: Sequence[np.ndarray], sampling: Sampling, choices: Any) -> int:
    """Returns the number of tokens that the policy generates."""
    requests = [
        Request(prompt, np.random.default_rng(i), choices and choices[i])
        for i, prompt in enumerate(prompts)
    ]
    return sum(len(sample.tokens) for sample in policy.act(requests, sampling))


def free(policy: Policy, settings: Settings, rows: int, length: int) -> tuple[Program, Program]:
    """Returns both programs for free actions after random prompts."""
    rng = np.random.default_rng(settings.seed)
    prompts = list(rng.integers(10, len(policy.tokenizer), (rows, length)).astype(np.int32))
    sampling = Sampling(max_new_tokens=settings.new_tokens)
    return (
        lambda: act(policy, prompts, sampling, None),
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

    return lambda: act(policy, prompts, Sampling(), choices), peer


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


def main(settings: Settings) -> None:
    """Runs all comparisons."""
    torch.set_num_threads(1)
    policy = tiny_policy(settings.env_id, seed=settings.seed, size=settings.size)
    results: dict[str, dict[str, float]] = {}
    for length in settings.lengths:
        for rows in settings.rows:
            name = f"free, {rows} x {length} tokens"
            results[name] = compare(free(policy, settings, rows, length), settings.repeats)
    for rows in settings.rows:
        name = f"admissible actions, {rows} prompts"
        results[name] = compare(constrained(policy, settings, rows), settings.repeats)
    name = f"{settings.episodes} episodes x {settings.turns} turns"
    results[name] = compare(episodes(policy, settings), settings.repeats)
    table = Table("comparison", "tokens/s", "generate", "ratio", title="Generation")
    for name, row in results.items():
        own, peer = row["tokens_per_second"], row["generate_tokens_per_second"]
        table.add_row(name, f"{own:,.0f}", f"{peer:,.0f}", f"{row['ratio']:.2f}")
    Console().print(table)
    about = {"settings": settings_of(settings), **versions("torch", "transformers")}
    write(settings.out, about | {"results": results})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
