"""Pre-trains a small reader: a decoder that has learned to match, copy, follow and count.

A new decoder ("nano") spends most of its demonstrations on learning to read: to find the item of a
page that a wish names, and to leave out the options that are selected already. The reader learns
this before it sees an environment, from two sources:

- generated pages: select the options of a wish that are not selected yet, find the entry that a
  wish describes, copy a phrase, look up keys, follow arrows, count items, compare prices. Words,
  separators and forms of actions are drawn anew for every page;
- episodes of scripted experts in the environments of the suite, without the held-out ones.

All have the prompts of the trainer. The tokenizer is trained on the same texts and encodes any
text (bytes). Losses and accuracies of fresh pages are written by kind and step.

    python benchmarks/reader.py [--minutes 40] [--out runs/reader]

The same settings with --steps give the same weights.
"""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from result_files import settings_of, versions, write

from agentgym.errors import AgentGymError
from agentgym.making import make_env
from agentgym.registration import TABLE
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import TinySize, tiny_model
from agentgym.trainers.rollout.context import Context, ContextSettings, Mode

Rng = np.random.Generator
Exchange = tuple[str, str]
"""An observation and the action that answers it."""
Row = tuple[np.ndarray, np.ndarray]
"""Tokens [S] and which of them belong to an answer [S]."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    layers: int = 3
    """Number of blocks."""
    hidden: int = 64
    """Hidden size."""
    heads: int = 4
    """Number of attention heads."""
    vocabulary: int = 4096
    """Maximum number of tokens."""
    steps: int = 10000
    """Optimiser steps."""
    batch_tokens: int = 4096
    """Tokens per step, padding included."""
    lr: float = 3e-3
    """Highest learning rate. It rises for 100 steps and then decays on a cosine to a tenth."""
    share: float = 0.25
    """Share of the rows that are expert episodes."""
    other: float = 0.1
    """Share of the tokens outside of answers that are targets, too."""
    episodes: int = 40
    """Expert episodes of each environment."""
    longest: int = 512
    """Maximum length of a row in tokens."""
    held_out: tuple[str, ...] = ("WebShop", "TextCraft", "Blocksworld")
    """Environments without episodes in the data, by the beginning of their ids."""
    seed: int = 0
    """Random seed."""
    every: int = 250
    """Steps between two measurements."""
    runs: Path = Path("runs/reader")
    """Folder of the weights."""
    out: Path = Path(__file__).parent / "results" / "reader.json"
    """Results."""


# Extras need Java or large files; a few experts search for seconds.
SLOW = ("Chess", "BabyAI", "ALFWorld", "TextWorld", "ScienceWorld", "Jericho", "ConnectFour")
SLOW += ("Gops-Carry", "PublicGoods", "ResourceTrading", "SQL")


def expert_episodes(settings: Settings) -> dict[str, list[list[Exchange]]]:
    """Returns episodes of the experts on training tasks, by environment."""
    found: dict[str, list[list[Exchange]]] = {}
    for entry in TABLE:
        if entry.extra or entry.files or entry.name.startswith((*settings.held_out, *SLOW)):
            continue
        env = make_env(entry.name)
        try:
            found[entry.name] = [_expert(env, settings.seed + i) for i in range(settings.episodes)]
        except AgentGymError:
            continue
        finally:
            env.close()
    return {name: episodes for name, episodes in found.items() if all(episodes)}


def _expert(env: Any, seed: int) -> list[Exchange]:
    """Plays an episode of up to 16 turns, none if there is no expert."""
    turns: list[Exchange] = []
    observation, _ = env.reset(seed=seed)
    for _ in range(16):
        action = env.get_wrapper_attr("expert")()
        if action is None:
            return []
        turns.append((observation, action))
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
    return turns


SEPARATORS = (" [SEP] ", "\n", ", ", " | ", "; ", "\n- ", " / ", "\n* ")
VERBS = ("click[{}]", "take {}", "choose[{}]", "{}", "open {}", "press '{}'", "select: {}")
ENDS = ("done", "buy now", "finish", "submit", "check out", "stop")
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "or", "el")]


@dataclass
class Pages:
    """Generates pages with questions and their answers.

    Args:
        words: the words of the pages, the frequent ones first.
        rng: random generator.
    """

    words: list[str]
    rng: Rng
    kinds: dict[str, Callable[[], list[Exchange]]] = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = {
            "select": self.select,
            "find": self.find,
            "copy": self.copy,
            "look up": self.look_up,
            "follow": self.follow,
            "count": self.count,
        }

    def word(self) -> str:
        """Returns a word of the suite, or a new one."""
        if self.rng.random() < 0.25:
            return "".join(self.pick(SYLLABLES) for _ in range(self.rng.integers(2, 4)))
        return self.pick(self.words)

    def name(self) -> str:
        """Returns a name of one to three words, or one with a number."""
        if self.rng.random() < 0.2:
            return f"{self.rng.integers(1, 100)} {self.word()}"
        return " ".join(self.word() for _ in range(self.rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1])))

    def names(self, count: int) -> list[str]:
        """Returns different names. Some share a word."""
        found: list[str] = []
        while len(found) < count:
            name = self.name()
            if found and self.rng.random() < 0.25:
                name = f"{name.split()[0]} {found[-1].split()[-1]}"
            if name not in found:
                found.append(name)
        return found

    def pick(self, values: Any) -> Any:
        """Returns one of some values."""
        return values[int(self.rng.integers(len(values)))]

    def some(self, values: list[Any], count: int) -> list[Any]:
        """Returns some of some values in random order."""
        return [values[i] for i in self.rng.permutation(len(values))[:count]]

    def lines(self, count: int) -> list[str]:
        """Returns lines that do not matter."""
        return [
            self.name().title() if self.rng.random() < 0.5 else self.name() for _ in range(count)
        ]

    def select(self) -> list[Exchange]:
        """Choose the options of a wish in the order of the page, then end."""
        separator, verb, end = self.pick(SEPARATORS), self.pick(VERBS), self.pick(ENDS)
        groups = int(self.rng.integers(1, 5))
        options = self.names(int(self.rng.integers(2 * groups, 4 * groups + 1)))
        cuts = sorted(self.some(list(range(1, len(options))), groups - 1))
        parts = [list(part) for part in np.split(np.array(options, object), cuts)]
        titles = self.names(groups)
        wished = [self.pick(part) if self.rng.random() < 0.85 else None for part in parts]
        phrases = [
            self.pick((f"{title}: {option}", str(option)))
            for title, option in zip(titles, wished, strict=True)
            if option
        ]
        wish = f"{self.pick(('Find me', 'I want', 'Wanted:', 'Goal:'))} {self.name()} with "
        wish += self.pick((", and ", ", ", " and ")).join(self.some(phrases, len(phrases)))
        body = [wish, *self.lines(int(self.rng.integers(0, 4)))]
        for title, part in zip(titles, parts, strict=True):
            body += [title, *part] if self.rng.random() < 0.8 else part
        body += [*self.lines(int(self.rng.integers(0, 4))), end.title()]
        page = separator.join(body)
        actions = [verb.format(option.lower()) for option in wished if option]
        return [(page, action) for action in (*actions, verb.format(end))]

    def find(self) -> list[Exchange]:
        """Choose the number of the first entry with all the words of the wish and a low price."""
        separator, verb = self.pick(SEPARATORS), self.pick(VERBS)
        traits = self.names(6)
        kinds = self.some(traits, 3)
        entries, right = [], None
        wish, most = self.some(traits, 2), int(self.rng.integers(20, 100))
        for _ in range(int(self.rng.integers(2, 9))):
            own = [*wish, self.pick(kinds)] if self.rng.random() < 0.4 else self.some(traits, 3)
            price, number = int(self.rng.integers(5, 120)), str(self.rng.integers(10**6, 10**7))
            fits = set(wish) <= set(own) and price < most
            right = right or (number if fits else None)
            entries += [number, " ".join(self.some(own, 3)).title(), f"${price}.49"]
        goal = f"Find {wish[0]}, {wish[1]}, and price lower than {most}.00 dollars"
        page = separator.join([goal, *self.lines(int(self.rng.integers(0, 3))), *entries])
        return [(page, verb.format(right or "back"))]

    def copy(self) -> list[Exchange]:
        """Copy the phrase after a marker up to the next sign."""
        separator, marker = self.pick(SEPARATORS), self.name()
        phrase = " ".join(self.names(int(self.rng.integers(1, 6))))
        sign, verb = self.pick((":", " =", " is", ",")), self.pick(("search[{}]", "say {}", *VERBS))
        before, after = self.lines(int(self.rng.integers(0, 4))), self.lines(2)
        page = separator.join([*before, f"{marker}{sign} {phrase}, and {after[0]}", after[1]])
        return [(f"{page}\nCopy {marker}", verb.format(phrase.lower()))]

    def look_up(self) -> list[Exchange]:
        """Answer several questions about a table."""
        separator, sign = self.pick(SEPARATORS), self.pick((": ", " = ", " -> ", " has "))
        count = int(self.rng.integers(2, 9))
        keys, values = self.names(count), self.names(count)
        page = separator.join(k + sign + v for k, v in zip(keys, values, strict=True))
        asked = [int(self.rng.integers(count)) for _ in range(5)]
        texts = [f"{page}\n{keys[asked[0]]}?", *(f"{keys[i]}?" for i in asked[1:])]
        return [(text, values[i]) for text, i in zip(texts, asked, strict=True)]

    def follow(self) -> list[Exchange]:
        """Follow arrows from place to place."""
        places = self.names(int(self.rng.integers(3, 8)))
        arrows = dict(zip(places, [*places[1:], places[0]], strict=True))
        page = self.pick(SEPARATORS).join(
            f"{a} leads to {arrows[a]}" for a in self.some(places, len(places))
        )
        at, turns = self.pick(places), []
        for _ in range(4):
            turns.append((f"{'' if turns else page}\nYou are at {at}.", f"go to {arrows[at]}"))
            at = arrows[at]
        return turns

    def count(self) -> list[Exchange]:
        """Count the items of a list."""
        kinds = self.names(3)
        items = [self.pick(kinds) for _ in range(int(self.rng.integers(1, 10)))]
        page = self.pick(SEPARATORS).join(items)
        texts = [f"How many {kind}?" for kind in kinds]
        return [
            (text if i else f"{page}\n{text}", str(items.count(kind)))
            for i, (text, kind) in enumerate(zip(texts, kinds, strict=True))
        ]


class Rows:
    """Turns exchanges to rows of tokens, as the trainer's prompts.

    Args:
        policy: the policy whose tokenizer is used.
        longest: maximum length of a row.
    """

    def __init__(self, policy: Policy, longest: int):
        self._policy, self._longest = policy, longest
        self._contexts = {
            mode: Context(
                ContextSettings(mode=mode, instructions=False, max_tokens=longest),
                policy.tokenizer, policy.format,
            )
            for mode in ("full", "actions", "current")
        }  # fmt: skip

    def of(self, turns: list[Exchange], mode: Mode, rng: Rng) -> Row:
        """Returns the row of an episode: all turns in mode "full", else the prompt of one."""
        last = len(turns) - 1 if mode == "full" else int(rng.integers(len(turns)))
        conversation = self._contexts[mode].begin("")
        answers: list[tuple[int, int]] = []
        row = np.zeros(0, np.int32)
        for i, (observation, action) in enumerate(turns[: last + 1]):
            conversation.observe(observation)
            tokens = np.array(self._policy.encode_action(action), np.int32)
            if mode == "full" or i == last:
                prompt = conversation.prompt(0 if mode == "full" else len(tokens))
                assert prompt is not None
                if mode == "full" and len(prompt) + len(tokens) > self._longest and i:
                    break
                row = np.concatenate([prompt, tokens])
                answers.append((len(prompt), len(row)))
            conversation.act(tokens)
        mask = np.zeros(len(row), bool)
        for start, stop in answers:
            mask[start:stop] = True
        return row[: self._longest], mask[: self._longest]


def words_of(texts: list[str]) -> list[str]:
    """Returns the words of texts, the frequent ones first."""
    count = Counter(word for text in texts for word in re.findall(r"[a-z]{3,}", text.lower()))
    return [word for word, _ in count.most_common()]


class Data:
    """Rows for training and measuring.

    Args:
        settings: settings of the benchmark.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.suite = expert_episodes(settings)
        texts = [f"{o}\n> {a}" for episodes in self.suite.values() for e in episodes for o, a in e]
        self.words = words_of(texts)
        pages = self.pages(1)
        generated = [
            f"{o}\n> {a}" for _ in range(500) for k in pages.kinds.values() for o, a in k()
        ]
        size = TinySize(
            settings.layers, settings.hidden, settings.heads, 2 * settings.hidden,
            settings.vocabulary, 8192,
        )  # fmt: skip
        self.policy = Policy(*tiny_model([*texts, *generated], seed=settings.seed, size=size))
        self.rows = Rows(self.policy, settings.longest)

    def pages(self, key: int) -> Pages:
        """Returns a generator of pages."""
        return Pages(self.words, np.random.default_rng((self.settings.seed, key)))

    def batches(self) -> Iterator[list[Row]]:
        """Yields the rows of training steps, of similar length in a step."""
        pages, rng = self.pages(2), np.random.default_rng((self.settings.seed, 3))
        kinds, modes = list(pages.kinds.values()), ("full", "actions", "current")
        chances = np.array([0.35, 0.2, 0.15, 0.15, 0.1, 0.05])
        names = list(self.suite)
        while True:
            rows = []
            for _ in range(1024):
                if rng.random() < self.settings.share:
                    episodes = self.suite[names[int(rng.integers(len(names)))]]
                    turns = episodes[int(rng.integers(len(episodes)))]
                    mode = modes[int(rng.integers(3))]
                else:
                    kind = kinds[int(rng.choice(len(kinds), p=chances))]
                    turns = kind()
                    mode = "actions" if kind == pages.select and rng.random() < 0.7 else "full"
                rows.append(self.rows.of(turns, mode, rng))
            rows.sort(key=lambda row: len(row[0]))
            steps, start = [], 0
            for stop in range(1, len(rows) + 1):
                following = len(rows[min(stop, len(rows) - 1)][0])
                if stop == len(rows) or (stop + 1 - start) * following > self.settings.batch_tokens:
                    steps.append(rows[start:stop])
                    start = stop
            yield from (steps[i] for i in rng.permutation(len(steps)))

    def held_out(self, count: int = 48) -> dict[str, list[Row]]:
        """Returns rows of fresh pages, by kind."""
        pages, rng = self.pages(4), np.random.default_rng((self.settings.seed, 5))
        return {
            name: [
                self.rows.of(kind(), "actions" if name == "select" else "full", rng)
                for _ in range(count)
            ]
            for name, kind in pages.kinds.items()
        }


def padded(rows: list[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns tokens [B, S] and which of them are answers [B, S]."""
    longest = max(len(tokens) for tokens, _ in rows)
    ids, mask = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), bool)
    for i, (tokens, answers) in enumerate(rows):
        ids[i, : len(tokens)], mask[i, : len(tokens)] = tokens, answers
    return torch.from_numpy(ids), torch.from_numpy(mask)


def scores(model: Any, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the logits [k, V] that predict the tokens marked in `targets` [B, S]."""
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
    return model.lm_head(hidden[:, :-1][targets[:, 1:]])


@torch.no_grad()
def measure(model: Any, held_out: dict[str, list[Row]]) -> dict[str, float]:
    """Returns the share of answers, by kind, of which every token is the most probable."""
    found = {}
    for name, rows in held_out.items():
        ids, mask = padded(rows)
        right = torch.ones_like(ids[:, 1:], dtype=torch.bool)
        right[mask[:, 1:]] = scores(model, ids, mask).argmax(-1) == ids[:, 1:][mask[:, 1:]]
        found[name] = float(right.all(1).float().mean())
    return found


def train(data: Data, log: Callable[[dict[str, Any]], None]) -> None:
    """Trains the model of the data."""
    settings, model = data.settings, data.policy.model
    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=(0.9, 0.98), weight_decay=0.01
    )
    held_out, begun, tokens = data.held_out(), time.perf_counter(), 0
    generator = torch.Generator().manual_seed(settings.seed)
    losses = np.zeros(4)
    for step, rows in zip(range(settings.steps), data.batches(), strict=False):
        progress = step / settings.steps
        rate = settings.lr * min(1, (step + 1) / 100) * (0.55 + 0.45 * np.cos(np.pi * progress))
        optimizer.param_groups[0]["lr"] = rate
        ids, answers = padded(rows)
        some = torch.rand(ids.shape, generator=generator) < settings.other
        real = torch.arange(ids.shape[1]) < torch.tensor([len(r) for r, _ in rows])[:, None]
        targets = answers | (some & real)
        targets[:, 0] = False
        logits = scores(model, ids, targets)
        loss = torch.nn.functional.cross_entropy(
            logits, ids[:, 1:][targets[:, 1:]], reduction="none"
        )
        mine = answers[:, 1:][targets[:, 1:]]
        total = loss[mine].mean() + settings.other * loss[~mine].mean()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += int(real.sum())
        losses += [
            float(loss[mine].sum()),
            int(mine.sum()),
            float(loss[~mine].sum()),
            int((~mine).sum()),
        ]
        if (step + 1) % settings.every == 0:
            spent = time.perf_counter() - begun
            row = {"step": step + 1, "tokens": tokens, "seconds": round(spent, 1),
                   "answers": losses[0] / losses[1], "others": losses[2] / losses[3],
                   **measure(model, held_out)}  # fmt: skip
            log({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
            losses[:] = 0
            if (step + 1) % (10 * settings.every) == 0:
                data.policy.save(settings.runs)
    model.eval()
    data.policy.save(settings.runs)


def main(settings: Settings) -> None:
    """Trains a reader, saves it and writes the curve."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = Data(settings)
    curve: list[dict[str, Any]] = []
    print(len(data.suite), "environments", len(data.words), "words", len(data.policy.tokenizer))

    def log(row: dict[str, Any]) -> None:
        print(row, flush=True)
        curve.append(row)

    train(data, log)
    about = {k: v for k, v in settings_of(settings).items() if k != "runs"}
    write(settings.out, {"versions": versions("torch"), "settings": about, "curve": curve})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
