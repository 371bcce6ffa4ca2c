"""The runs of a sweep: recipes, settings and seeds, and the values of `--vary`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.errors import ConfigError
from agentgym.utils.files import portable_name

Setting = tuple[tuple[str, str], ...]
"""Names and values of the settings that vary."""


@dataclass(frozen=True)
class Run:
    """A run of a sweep.

    Attributes:
        recipe: the name of its recipe.
        setting: values of the varied settings, by name.
        seed: its seed.
        alone: whether the sweep varies settings of this recipe only, which its name leaves out.
    """

    recipe: str
    setting: Setting
    seed: int
    alone: bool = False

    @property
    def parts(self) -> list[str]:
        """Its recipe, unless it is the only one, and its settings."""
        recipe = [] if self.alone else [self.recipe]
        return recipe + [f"{name}={value}" for name, value in self.setting]

    @property
    def name(self) -> str:
        """The name of its folder, such as `poad,lr=0.001/seed-0`."""
        words = [self.recipe, *(f"{name}={value}" for name, value in self.setting)]
        return f"{portable_name(','.join(words))}/seed-{self.seed}"

    @property
    def words(self) -> str:
        """Its recipe and setting, such as `poad lr=0.001 epochs=1`."""
        return " ".join(self.parts)

    @property
    def flags(self) -> list[str]:
        """Its flags of `agentgym train`."""
        return [*flags_of(self.setting), "--seed", str(self.seed)]


def runs_of(
    recipes: Sequence[str], settings: Sequence[Setting], seeds: Sequence[int]
) -> tuple[Run, ...]:
    """Returns the runs of a sweep, those of the first seed first."""
    alone = len(recipes) == 1 and any(settings)
    return tuple(
        Run(recipe, setting, seed, alone)
        for seed in dict.fromkeys(seeds)
        for recipe in recipes
        for setting in settings
    )


def flags_of(setting: Setting) -> list[str]:
    """Returns the values of settings as flags of `agentgym train`."""
    flags = []
    for name, value in setting:
        flag = name.replace("_", "-")
        if value in ("true", "false"):
            flags.append(f"--{flag}" if value == "true" else f"--no-{flag}")
        else:
            flags.append(f"--{flag}={value}")
    return flags


def settings_of(vary: Sequence[str], draws: int, seed: int = 0) -> list[Setting]:
    """Returns the settings of a sweep: the whole grid, or random draws from it.

    Args:
        vary: NAME=A,B,C for a choice, or NAME=LOW..HIGH for a number that is drawn log-uniformly.
        draws: number of random draws (0: the grid). The first ones do not depend on their number.
        seed: seed of the draws.

    Raises:
        ConfigError: for other words, or for a range without draws.
    """
    if draws < 0:
        raise ConfigError(f"--draws must be at least 0, got {draws}.")
    if draws and not vary:
        raise ConfigError("--draws samples the values of settings: name them with --vary.")
    spaces: dict[str, list[str] | tuple[float, float]] = {}
    for word in vary:
        name, equals, values = word.partition("=")
        if not name or not equals or not values:
            raise ConfigError(f"--vary takes NAME=A,B or NAME=LOW..HIGH, got {word!r}.")
        if (name := name.replace("-", "_")) in spaces:
            raise ConfigError(f"--vary names {name} twice: list all of its values together.")
        spaces[name] = _space(word, values)
    if not draws:
        ranged = [name for name, space in spaces.items() if isinstance(space, tuple)]
        if ranged:
            raise ConfigError(f"{ranged[0]} has a range: set --draws N to sample from it.")
        grid = dict.fromkeys(itertools.product(*spaces.values()))
        return [tuple(zip(spaces, values, strict=True)) for values in grid]  # type: ignore[misc]
    rng, found = np.random.default_rng(seed), []
    for _ in range(draws):
        found.append(tuple((name, _drawn(space, rng)) for name, space in spaces.items()))
    return list(dict.fromkeys(found))


def _space(word: str, values: str) -> list[str] | tuple[float, float]:
    low, dots, high = values.partition("..")
    if not dots or "/" in values:  # no range, but the folder above
        return values.split(",")
    try:
        limits = float(low), float(high)
    except ValueError:
        limits = 0.0, 0.0
    if not 0 < limits[0] < limits[1]:
        raise ConfigError(f"A range needs numbers 0 < LOW < HIGH, got {word!r}.")
    return limits


def _drawn(space: list[str] | tuple[float, float], rng: np.random.Generator) -> str:
    if isinstance(space, list):
        return space[int(rng.integers(len(space)))]
    return f"{np.exp(rng.uniform(*np.log(space))):.3g}"
