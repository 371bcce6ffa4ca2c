"""Every setting that acts by its declaration is read by a run: none is accepted without effect."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from agentgym.errors import ConfigError
from agentgym.trainers import recipes, train
from agentgym.trainers.api import make_trainer
from agentgym.trainers.hooks.dataset import OfflineConfig
from agentgym.trainers.policy.model_defaults import NEW_MODEL_KEY
from agentgym.trainers.settings import When, settings_of
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.effects import idle_settings
from agentgym.trainers.settings.kinds import (
    ActorCriticConfig,
    GroupConfig,
    ImitationConfig,
    PreferenceConfig,
)
from agentgym.trainers.settings.schema import Setting

from ...helpers.setting_reads import plain, reads_of

# Nothing is on that can be off.
SPARSE: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 4, "max_turns": 3}, "model": "nano",
    "context": "current", "instructions": False, "constrain": True, "iterations": 1,
    "episodes_per_iteration": 8, "group_size": 4, "num_envs": 8, "epochs": 1, "minibatches": 1,
    "eval_episodes": 0, "log_with": (), "transcripts": 0, "device": "cpu", "threads": 1,
    "quiet": True, "max_new_tokens": 4, "normalize_advantages": "none",
}  # fmt: skip
# Sizes of a recipe's own, so that a run takes a fraction of a second.
SMALL: dict[str, Any] = {
    "critic_steps": 2, "critic_batch": 16, "replayed": 4, "model_epochs": 1, "head_epochs": 1,
    "dataset_episodes": 4, "dataset_demonstrations": 2, "utterance_layers": (8, 8),
    "demonstrations": 2, "world_iterations": 1, "transitions": 4, "held_out": 1,
}  # fmt: skip
GAMES: tuple[dict[str, Any], ...] = (
    {"env_id": "StagHunt-v0", "env_kwargs": {"max_turns": 2}},
    {"env_id": "KuhnPoker-v0", "env_kwargs": {"hands": 1}},
)
"""Environments of runs with opponents. Credit of teams needs a common interest, psro a conflict."""
ELSEWHERE = {
    "engine": "needs vLLM",
    "rollout_workers": "needs Ray",
    "harness": "needs a program: tests/gateway",
}
"""Settings whose own settings are read in tests of their own, with the reason."""

KINDS = (ActorCriticConfig, GroupConfig, ImitationConfig, OfflineConfig, PreferenceConfig)
EXAMPLES = [kind.described.partition("such as ")[2].split(" and ")[0] for kind in KINDS]
"""A recipe of each kind."""
SHARED = {name: each for kind in KINDS for name, each in settings_of(kind).items()}


@dataclass
class Ways:
    """Finds settings beside which another one acts, by the remedies of its conditions.

    Attributes:
        kind: the configuration class.
        sparse: settings with which nothing is on that can be off.
        resources: values of settings that name files.
    """

    kind: type[TrainConfig]
    sparse: dict[str, Any]
    resources: dict[str, Any]

    def made(self, changes: dict[str, Any], game: dict[str, Any] = GAMES[0]) -> dict[str, Any]:
        """The settings of a run, in a game if there are opponents, with prompts of a program."""
        played = game if "opponents" in changes else {}
        prompts = {"context": "full"} if "harness" in changes else {}
        return self.sparse | played | prompts | changes

    def unmet(self, name: str, changes: dict[str, Any]) -> When | None:
        """The condition that a setting lacks. ConfigError: the changes are refused."""
        return idle_settings(self.kind.of(**self.made(changes))).get(name)

    def to(self, name: str, changes: dict[str, Any]) -> dict[str, Any] | None:
        """Settings beside which one acts, None if there are none among those tried."""
        when = self.unmet(name, changes)
        if when is None:
            return changes
        for chosen, value in self._remedies(when):
            further = changes | {chosen: value}
            try:
                # A setting that does not act itself is switched on first.
                before = self.to(chosen, changes) if chosen not in changes else changes
                if before is None or self.unmet(name, before | further) == when:
                    continue
            except ConfigError:
                continue
            if (found := self.to(name, before | further)) is not None:
                return found
        return None

    def _remedies(self, when: When) -> Iterator[tuple[str, Any]]:
        known = settings_of(self.kind)
        words = when.remedy.replace(",", " ").split()
        for name in dict.fromkeys(word for word in (when.setting, *words) if word in known):
            if name in self.resources:
                yield name, self.resources[name]
                continue
            for value in (*when.values, *values_of(known[name]), *words):
                yield name, value


def values_of(setting: Setting) -> Iterator[Any]:
    """Values of a setting other than its default. Some are refused."""
    for kind in plain(setting.hint):
        if get_origin(kind) is Literal:
            yield from (choice for choice in get_args(kind) if choice != setting.default)
        elif kind is bool:
            yield not setting.default
        elif kind is int:
            yield from (1, 2, 4)
        elif kind is float:
            yield 0.5
        elif kind is str:
            yield from ("progress", "moving:1")
        elif get_origin(kind) is tuple or kind is tuple:
            yield from ((2,), ("NumberLine-v0:size=3", "NumberLine-v0:size=4"))
        elif get_origin(kind) is dict:
            yield {"task": 0.5}


def unread(recipe: str, settings: dict[str, Any], folder: Path) -> tuple[set[str], set[str]]:
    """The settings that act in a run, and those of them that it does not read."""
    kind = recipes.load(recipe).Config
    with reads_of(kind) as found:
        make_trainer(recipe, **settings, run_dir=str(folder)).run()
    acting = set(kind.of(**settings).acting())
    return acting, acting - found


def own(kind: type[TrainConfig], name: str) -> bool:
    """Whether a setting, or a condition of it, is of a recipe's own."""
    setting, shared = settings_of(kind)[name], SHARED.get(name)
    return shared is None or setting.conditions != shared.conditions


def runs_of(ways: Ways, names: Iterable[str]) -> list[tuple[dict[str, Any], list[str]]]:
    """A few runs in which settings act that the sparse one switches off.

    Returns:
        The changes of each run, and the settings that it is for.
    """
    runs: list[tuple[dict[str, Any], list[str]]] = []
    for name in names:
        alone = ways.to(name, {})
        assert alone is not None, f"No remedy of its message switches {name} on."
        if alone.keys() & ELSEWHERE.keys():
            continue
        for number, (changes, names) in enumerate(runs):
            if _fits(ways, changes, alone, [*names, name]):
                runs[number] = changes | alone, [*names, name]
                break
        else:
            runs.append((alone, [name]))
    return runs


def _fits(ways: Ways, changes: dict[str, Any], more: dict[str, Any], names: list[str]) -> bool:
    """Whether all the settings act beside both changes."""
    if any(changes.get(name, value) != value for name, value in more.items()):
        return False
    if {"opponents", "env_id"} <= changes.keys() | more.keys():
        return False  # a run with opponents is in the game
    try:
        return all(ways.unmet(name, changes | more) is None for name in names)
    except ConfigError:
        return False


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A loaded model, which reads chats, and a file with chats."""
    folder = tmp_path_factory.mktemp("resources")
    few: dict[str, Any] = SPARSE | {"iterations": 0}
    train("grpo", **few, run_dir=str(folder / "run"))
    chat = {"messages": [
        {"role": "user", "content": "You are at 1. Go to 0."},
        {"role": "assistant", "content": "-"},
    ]}  # fmt: skip
    config = folder / "run" / "policy" / "config.json"
    entries = json.loads(config.read_text())
    del entries[NEW_MODEL_KEY]  # as if it was pre-trained
    config.write_text(json.dumps(entries))
    (folder / "chats.jsonl").write_text("".join(f"{json.dumps(chat)}\n" for _ in range(4)))
    files = (str(folder / "chats.jsonl"),)
    model = str(folder / "run" / "policy")
    return {"model": model, "data": files, "general_data": files, "harness": "python agent.py"}


def ways_of(kind: type[TrainConfig], resources: dict[str, Any]) -> Ways:
    """The ways to switch on the settings of a configuration class."""
    sparse = {name: value for name, value in (SPARSE | SMALL).items() if name in settings_of(kind)}
    return Ways(kind, sparse, resources)


@pytest.mark.parametrize("name", recipes.names())
def test_a_run_reads_the_settings_that_act(name: str, resources: dict[str, Any], tmp_path: Path):
    ways = ways_of(recipes.load(name).Config, resources)
    acting, idle = unread(name, ways.made({}), tmp_path)
    assert acting and not idle


@pytest.mark.parametrize("recipe", recipes.names())
def test_a_run_reads_the_settings_that_others_switch_on(
    recipe: str, resources: dict[str, Any], tmp_path: Path
):
    """Those of a kind with one of its recipes, and those of a recipe's own."""
    ways = ways_of(recipes.load(recipe).Config, resources)
    off = idle_settings(ways.kind.of(**ways.sparse))
    waiting = runs_of(ways, (n for n in off if recipe in EXAMPLES or own(ways.kind, n)))
    for number, (changes, names) in enumerate(waiting):
        try:
            acting, idle = played(ways, recipe, changes, tmp_path / str(number))
        except ConfigError as error:  # the algorithm refuses some of them
            assert any(name in str(error) for name in changes), error
            if len(names) > 1:
                waiting += [(ways.to(name, {}) or {}, [name]) for name in names]
            continue
        assert acting >= set(names) and not idle, changes


def played(
    ways: Ways, recipe: str, changes: dict[str, Any], folder: Path
) -> tuple[set[str], set[str]]:
    """Does as `unread`, in the first game that the changes allow."""
    for number, game in enumerate(GAMES[:-1]):
        with contextlib.suppress(ConfigError):
            return unread(recipe, ways.made(changes, game), folder / str(number))
    return unread(recipe, ways.made(changes, GAMES[-1]), folder)


def test_a_setting_that_nothing_reads_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    module = recipes.load("grpo")

    @dataclass
    class Config(module.Config):
        """Settings with one that nothing reads."""

        forgotten: int = 3
        """Read by nothing."""

    monkeypatch.setattr(module, "Config", Config)
    acting, idle = unread("grpo", ways_of(Config, {}).made({}), tmp_path)
    assert idle == {"forgotten"} < acting
