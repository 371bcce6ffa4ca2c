"""Pre-trains a reader: a small decoder that has read generated pages and expert episodes.

The model has the size and the initial weights of `--model reader`, and one tokenizer for all
environments. It learns the answers to questions about generated pages (`reading_pages.py`) and the
actions of experts in `IDS`, in the format of the trainer's prompts, and some tokens of their text.
The showcase environments that `reader.py` measures, and their variants, are not in the data.

The folder always holds the moving average of the weights, so that a run may be stopped at any time:
a Hugging Face folder for `--model`, with the accuracy on held-out pages and episodes in
`pretraining.json`. The same arguments give the same weights on the same machine.

    python benchmarks/learning/pretrain_reader.py --out runs/reader [--steps 6000]
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from agentgym.registration.making import make_env
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import SIZES, tiny_model
from benchmarks.learning.reading_pages import KINDS, page
from benchmarks.shared.result_files import settings_of, versions, write

IDS = (
    "NumberLine-v0", "Maze-v0", "TextNav-v0", "TwentyQuestions-Menu-v0", "GuessMyCity-Menu-v0",
    "CarDealer-v0", "FrozenLake-Dry-v0", "TowerOfHanoi-v0", "Countdown-Steps-v0", "BabaIsAI-v0",
    "Overcooked-TomatoSalad-v0", "Gripper-v0", "Ferry-v0", "Logistics-v0", "Retail-v0",
    "Airline-v0", "SQL-v0", "SearchQA-v0", "KG-QA-v0", "Todo-v0", "Sheet-v0", "Weather-v0",
    "Movie-v0", "Academia-v0", "MiniWoB-Text-v0", "MiniWoB-Text-Long-v0", "Shell-v0", "CTF-Lite-v0",
    "BabyAI-Text-v0", "ConnectFour-v0", "LeducPoker-v0", "LiarsDice-Duel-v0", "Gops-v0",
    "DealOrNoDeal-v0", "ResourceTrading-v0", "Codenames-Menu-v0", "EinsteinPuzzle-Menu-v0",
)  # fmt: skip
"""Environments whose experts are read."""
TEXT = 0.15
"""Share of the tokens outside of answers that are predicted, too."""

Turns = list[tuple[str, str]]
Row = tuple[np.ndarray, np.ndarray]
"""Token ids, and whether each is part of an answer."""


@dataclass
class Settings:
    """Settings of the pre-training."""

    out: Path = Path("runs/reader")
    """Folder of the model."""
    steps: int = 6000
    """Steps of the optimiser, one half on pages and one half on episodes."""
    tokens: int = 2048
    """Tokens per step."""
    longest: int = 512
    """Maximum length of a row in tokens. A longer episode is divided."""
    vocabulary: int = 4096
    """Maximum number of tokens of the tokenizer."""
    episodes: int = 100
    """Expert episodes per environment. One in ten is held out."""
    most_turns: int = 16
    """Turns of an episode that are read."""
    lr: float = 2e-3
    """Learning rate after a warm-up. It decays to a tenth."""
    average: float = 0.99
    """Decay of the moving average of the weights."""
    save_every: int = 200
    """Steps between evaluations, after which the model is saved."""
    device: str = "cpu"
    """Device of the model."""
    seed: int = 0
    """Seed of the weights, the pages and the episodes."""


def played(name: str, settings: Settings) -> list[Turns]:
    """Returns expert episodes on training tasks: observations and actions."""
    env, episodes = make_env(name), []
    for number in range(settings.episodes):
        observation, _ = env.reset(seed=settings.seed * 100_000 + number)
        turns: Turns = []
        over = False
        while not over and len(turns) < settings.most_turns:
            action = env.get_wrapper_attr("expert")()
            if action is None:
                break
            turns.append((str(observation), action))
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
        episodes.append(turns)
    env.close()
    return episodes


def asked(rng: random.Random, kind: str | None = None) -> Turns:
    """Returns a generated page with its questions as turns. Some questions repeat the page."""
    text, questions = page(rng, kind)
    again = rng.random() < 0.2
    return [
        (f"{text}\n{question}" if again or not number else question, answer)
        for number, (question, answer) in enumerate(questions)
    ]


def rows(policy: Policy, turns: Turns, longest: int) -> Iterator[Row]:
    """Yields an episode as the trainer renders it, divided where it is too long."""
    after, between = policy.encode(policy.format.prompt), policy.encode("\n")
    tokens: list[int] = []
    answers: list[bool] = []
    for observation, action in turns:
        reply = policy.encode_action(action)
        room = longest - len(after) - len(reply) - len(between)
        if room < 16:
            continue
        shown = [*policy.encode(observation)[:room], *after]
        if len(tokens) + len(shown) + len(reply) + len(between) > longest:
            yield np.array(tokens), np.array(answers)
            tokens, answers = [], []
        tokens += [*shown, *reply, *between]
        answers += [False] * len(shown) + [True] * len(reply) + [False] * len(between)
    if tokens:
        yield np.array(tokens), np.array(answers)


def batch(found: Sequence[Row], pad: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns token ids and the mask of answers [B, S] on a device, padded at their ends."""
    length = max(len(tokens) for tokens, _ in found)
    ids = np.full((len(found), length), pad)
    answers = np.zeros((len(found), length), bool)
    for line, (tokens, own) in enumerate(found):
        ids[line, : len(tokens)], answers[line, : len(own)] = tokens, own
    return torch.from_numpy(ids).to(device), torch.from_numpy(answers).to(device)


def fill(found: Iterator[Row], tokens: int) -> list[Row]:
    """Returns rows until their tokens, padded to the longest, reach a number."""
    kept: list[Row] = []
    while not kept or (len(kept) + 1) * max(len(row[0]) for row in kept) <= tokens:
        kept.append(next(found))
    return kept


def mean_loss(
    model: Any, ids: torch.Tensor, answers: torch.Tensor, text: torch.Tensor
) -> torch.Tensor:
    """Returns the mean cross-entropy of answers, plus half that of the selected other tokens."""
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    targets = ids[:, 1:]

    def entropy(mask: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model.lm_head(hidden[mask]), targets[mask])

    return entropy(answers[:, 1:]) + 0.5 * entropy(text[:, 1:])


@torch.no_grad()
def accuracy(model: Any, found: Sequence[Row], pad: int) -> float:
    """Returns the share of answers whose tokens are all the most probable ones."""
    right = total = 0
    for start in range(0, len(found), 16):
        ids, answers = batch(found[start : start + 16], pad, model.device)
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        for line, own in enumerate(answers.cpu().numpy()):
            at = np.flatnonzero(own)
            best = model.lm_head(hidden[line, at - 1]).argmax(-1)
            wrong = (best != ids[line, at]).cpu().numpy()
            parts = np.split(wrong, np.flatnonzero(np.diff(at) > 1) + 1)
            right += sum(not part.any() for part in parts)
            total += len(parts)
    return round(right / max(total, 1), 4)


def stream(rng: random.Random, kept: Sequence[Row]) -> Iterator[Row]:
    """Yields rows in random order for ever, those of similar length together."""
    order = sorted(range(len(kept)), key=lambda i: len(kept[i][0]))
    while True:
        start = rng.randrange(len(order))
        for index in rng.sample(order[start : start + 32], min(8, len(order) - start)):
            yield kept[index]


def generated(policy: Policy, rng: random.Random, longest: int) -> Iterator[Row]:
    """Yields rows of new pages for ever."""
    while True:
        yield from rows(policy, asked(rng), longest)


def read_all(
    settings: Settings, rng: random.Random
) -> tuple[Policy, list[Row], dict[str, list[Row]]]:
    """Returns the new model, the rows of episodes to learn, and the held-out ones by name."""
    episodes = {name: played(name, settings) for name in IDS}
    texts = [
        text for each in episodes.values() for turns in each for turn in turns for text in turn
    ]
    texts += [text for _ in range(2000) for turn in asked(rng) for text in turn]
    size = replace(SIZES["reader"], vocabulary=settings.vocabulary)
    policy = Policy(*tiny_model(texts, seed=settings.seed, size=size))
    learned: list[Row] = []
    held_out: dict[str, list[Row]] = {}
    for name, each in episodes.items():
        found = [list(rows(policy, turns, settings.longest)) for turns in each]
        held_out[name] = [row for own in found[::10] for row in own]
        learned += [row for number, own in enumerate(found) if number % 10 for row in own]
    unseen = random.Random(f"held out {settings.seed}")
    for kind in KINDS:
        pages = [asked(unseen, kind) for _ in range(40)]
        held_out[kind] = [row for turns in pages for row in rows(policy, turns, settings.longest)]
    return policy, learned, held_out


def pretrain(
    policy: Policy, learned: Sequence[Row], settings: Settings, rng: random.Random
) -> Iterator[tuple[int, float, Any]]:
    """Trains a model. Yields the steps, the loss and the averaged model before each evaluation."""
    model, pad = policy.model, policy.tokenizer.pad_token_id
    sources = generated(policy, rng, settings.longest), stream(rng, learned)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(settings.average))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=(0.9, 0.98), weight_decay=0.01
    )
    generator = torch.Generator().manual_seed(settings.seed)
    for step in range(1, settings.steps + 1):
        rate = min(1.0, step / 100) * max(0.1, 1 - step / settings.steps)
        optimizer.param_groups[0]["lr"] = settings.lr * rate
        ids, answers = batch(fill(sources[step % 2], settings.tokens), pad, model.device)
        drawn = (torch.rand(ids.shape, generator=generator) < TEXT).to(model.device)
        other = ~answers & (ids != pad) & drawn
        loss = mean_loss(model, ids, answers, other)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update_parameters(model)
        if step % settings.save_every == 0 or step == settings.steps:
            yield step, loss.item(), average.module


def main(settings: Settings) -> None:
    """Reads the experts, trains the model and keeps the folder up to date."""
    torch.set_num_threads(1)
    begun, rng = time.process_time(), random.Random(settings.seed)
    policy, learned, held_out = read_all(settings, rng)
    policy.to(settings.device)
    print(f"{time.process_time() - begun:.0f} s: data, tokenizer and practice", flush=True)
    about = {"versions": versions("torch"), "settings": settings_of(settings)}
    pad = policy.tokenizer.pad_token_id
    for step, loss, model in pretrain(policy, learned, settings, rng):
        seen = {name: accuracy(model, found, pad) for name, found in held_out.items()}
        seconds = round(time.process_time() - begun, 1)
        Policy(model, policy.tokenizer).save(settings.out)
        found = {"steps": step, "cpu_seconds": seconds, "accuracy": seen}
        write(settings.out / "pretraining.json", about | found)
        mean = np.mean([seen[name] for name in IDS])
        pages = "  ".join(f"{kind} {seen[kind]:.2f}" for kind in KINDS)
        print(f"{seconds:.0f} s: step {step}  loss {loss:.3f}  actions {mean:.3f}  {pages}")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
