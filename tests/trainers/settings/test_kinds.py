"""A recipe has the settings that act in it, and each of them acts or is an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from agentgym.errors import ConfigError
from agentgym.trainers import recipes
from agentgym.trainers.algorithm import Imitation, PolicyGradient, Preference
from agentgym.trainers.cli.train import main, read_config
from agentgym.trainers.hooks.dataset import OfflineConfig
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.effects import IdleSettingError, idle_settings, unknown_setting
from agentgym.trainers.settings.kinds import (
    ActorCriticConfig,
    GroupConfig,
    ImitationConfig,
    PolicyGradientConfig,
    PreferenceConfig,
    RewardedConfig,
)
from agentgym.trainers.settings.names import FAMILIAR, RENAMED
from agentgym.trainers.settings.schema import Setting, field_docs, settings_of

from ...helpers.setting_reads import plain

KINDS: tuple[type[TrainConfig], ...] = (
    ActorCriticConfig, GroupConfig, ImitationConfig, OfflineConfig, PolicyGradientConfig,
    PreferenceConfig, RewardedConfig,
)  # fmt: skip
SIGNALS: dict[type, type[TrainConfig]] = {
    PolicyGradient: PolicyGradientConfig,
    Imitation: ImitationConfig,
    Preference: PreferenceConfig,
}
SHARED = {name: each for kind in KINDS for name, each in settings_of(kind).items()}


def others(setting: Setting) -> Iterator[Any]:
    """Values other than the default. Some are out of bounds."""
    default = setting.default
    for kind in plain(setting.hint):
        if get_origin(kind) is Literal:
            yield from (choice for choice in get_args(kind) if choice != default)
        elif kind is bool:
            yield not default
        elif kind is int:
            yield (default or 0) + 7
        elif kind is float:
            yield from (x for x in (0.25, 0.75, 3.5) if x != default)
        elif kind is str:
            yield "moving:3"
        elif get_origin(kind) is tuple or kind is tuple:
            yield ("player_0",) if str in get_args(kind) else (3,)
        elif get_origin(kind) is dict:
            yield {"name": 0.5}


@pytest.mark.parametrize("recipe", recipes.names())
def test_a_setting_that_others_switch_off_is_an_error_that_names_them(recipe: str):
    kind = recipes.load(recipe).Config
    for name, when in idle_settings(kind()).items():
        found = []
        for value in others(settings_of(kind)[name]):
            with pytest.raises(ConfigError) as error:
                kind.of(**{name: value})
            found.append(error.value)
        named = [each for each in found if isinstance(each, IdleSettingError)]
        assert named, name
        for each in named:
            assert str(each) == when.advice(name) and f"leave out {name}" in str(each)


@pytest.mark.parametrize("recipe", recipes.names())
def test_a_shared_setting_that_a_recipe_lacks_is_an_error_that_names_others(recipe: str):
    kind = recipes.load(recipe).Config
    known = settings_of(kind)
    for name in SHARED.keys() - known.keys():
        with pytest.raises(ConfigError, match=f"^{recipe} has no {name}: it is a setting of "):
            kind.of(**{name: SHARED[name].default})
    assert kind().as_dict().keys() <= known.keys()


@pytest.mark.parametrize("recipe", recipes.names())
def test_the_recipes_that_an_error_names_have_the_setting(recipe: str):
    kind = recipes.load(recipe).Config
    for name in SHARED.keys() - settings_of(kind).keys():
        *_, examples = str(unknown_setting(kind, name)).partition("such as ")
        for example in examples.partition(".")[0].split(" and "):
            assert name in settings_of(recipes.load(example).Config), (name, example)


@pytest.mark.parametrize("kind", KINDS)
def test_the_recipes_that_stand_for_a_kind_are_of_it(kind: type[TrainConfig]):
    *_, examples = kind.described.partition("such as ")
    for recipe in examples.split(" and "):
        assert issubclass(recipes.load(recipe).Config, kind)


@pytest.mark.parametrize("recipe", recipes.names())
def test_the_kind_of_the_settings_is_that_of_the_algorithm(recipe: str):
    module = recipes.load(recipe)
    algorithm = module.build(module.Config())
    config = module.Config()
    assert (algorithm.critic is not None) == isinstance(config, ActorCriticConfig)
    assert isinstance(config, SIGNALS[type(algorithm.signal)])
    assert config.uses_reference == (algorithm.signal.reference or config.loss.kl_coef > 0)


@pytest.mark.parametrize(("recipe", "most"), [("poad", 80), ("grpo", 65), ("bc", 50)])
def test_few_settings_act_by_default(recipe: str, most: int):
    assert len(recipes.load(recipe).Config().as_dict()) <= most


@pytest.mark.parametrize("recipe", ["poad", "grpo", "bc", "archer", "optima"])
def test_the_short_help_is_short(recipe: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        read_config(recipe, ["--help"])
    shown = capsys.readouterr().out
    assert shown.count("\n") <= 100 and "--help-all" in shown
    assert "--env-id" in shown and "--adam-betas" not in shown


def test_names_of_other_libraries_are_understood(tmp_path: Path, capsys):
    kind = recipes.load("poad").Config
    for name, meant in FAMILIAR.items():
        if name in settings_of(kind) or not any(each in settings_of(kind) for each in meant):
            continue
        hint = f"Did you mean: {next(each for each in meant if each in settings_of(kind))}?"
        with pytest.raises(ConfigError, match=hint.replace("?", r"\?")):
            kind.of(**{name: 1})
        assert main(["poad", f"--{name.replace('_', '-')}", "1"]) == 2
        assert hint in capsys.readouterr().err
    (tmp_path / "run.yaml").write_text("learning_rate: 0.1\n")
    with pytest.raises(ConfigError, match=r"run\.yaml sets 'learning_rate'.*Did you mean: lr\?"):
        read_config("poad", ["--config", str(tmp_path / "run.yaml")])


@pytest.mark.parametrize("name", ["critic_trunk", "critic_rounds"])
def test_older_names_are_read(name: str, tmp_path: Path):
    new, values = RENAMED[name]
    old = {"critic_trunk": "own"} | ({} if values else {name: 7})
    expected = recipes.load("poad").Config.of(
        critic_backbone="separate", **{} if values else {new: 7}
    )
    assert recipes.load("poad").Config.of(**old) == expected
    (tmp_path / "run.yaml").write_text(json.dumps(old))
    assert read_config("poad", ["--config", str(tmp_path / "run.yaml")]) == expected
    flags = [f"--{key.replace('_', '-')}" for key in old]
    words = [word for pair in zip(flags, map(str, old.values()), strict=True) for word in pair]
    assert read_config("poad", words) == expected
    assert (
        read_config("poad", [f"{a}={b}" for a, b in zip(words[::2], words[1::2], strict=True)])
        == expected
    )


@pytest.mark.parametrize("on", [False, True])
def test_an_older_switch_is_read_as_a_choice(on: bool, tmp_path: Path):
    expected = recipes.load("grpo").Config.of(surrogate="aepo" if on else "ppo")
    assert recipes.load("grpo").Config.of(clip_gradient=on) == expected
    (tmp_path / "run.yaml").write_text(json.dumps({"clip_gradient": on}))
    assert read_config("grpo", ["--config", str(tmp_path / "run.yaml")]) == expected
    assert read_config("grpo", ["--clip-gradient" if on else "--no-clip-gradient"]) == expected
    with pytest.raises(ConfigError, match="bc has no surrogate"):
        recipes.load("bc").Config.of(clip_gradient=on)


def test_a_bounded_weight_has_no_second_bound():
    kind = recipes.load("grpo").Config
    with pytest.raises(ConfigError, match="dual_clip belongs to surrogate: set surrogate to ppo"):
        kind.of(surrogate="cispo", dual_clip=3.0)
    with pytest.raises(ConfigError, match="surrogate belongs to a probability ratio"):
        kind.of(surrogate="cispo", ratio="none")


def test_defaults_of_settings_that_a_recipe_lacks_are_read_from_files(tmp_path: Path):
    file = tmp_path / "config.json"
    old = {
        "recipe": "grpo",
        "value_coef": 0.5,
        "critic_trunk": "policy",
        "bc_lr": 1e-3,
        "clip": 0.2,
    }
    file.write_text(json.dumps({"config": old}))
    assert read_config("grpo", ["--config", str(file)]) == recipes.load("grpo").Config()
    file.write_text(json.dumps({"config": old | {"value_coef": 2.0}}))
    with pytest.raises(ConfigError, match="grpo has no value_coef"):
        read_config("grpo", ["--config", str(file)])


def test_a_flag_switches_off_the_settings_of_a_file_that_belong_to_it(tmp_path: Path):
    file = tmp_path / "run.yaml"
    file.write_text("bc_demonstrations: 8\nbc_epochs: 3\neval_episodes: 4\neval_baselines: true\n")
    off = ["--bc-demonstrations", "0", "--eval-episodes", "0"]
    assert read_config("poad", ["--config", str(file), *off]).cloning.bc_epochs == 10
    with pytest.raises(ConfigError, match="bc_epochs belongs to behaviour cloning"):
        read_config("poad", ["--config", str(file), *off, "--bc-epochs", "3"])


@pytest.mark.parametrize("setting", [{"engine_memory": 0.5}, {"engine_sleep": True}])
def test_the_memory_of_a_server_is_not_set_here(setting: dict[str, Any]):
    server = {"engine": "vllm", "engine_url": "http://localhost:8000"}
    with pytest.raises(
        ConfigError, match="belongs to vLLM in this process: set engine_url to None"
    ):
        recipes.load("poad").Config.of(**server, **setting)
    recipes.load("poad").Config.of(engine="vllm", **setting)


def test_a_description_of_a_class_stands_for_that_of_its_base():
    @dataclass
    class Base:
        one: int = 1
        """The first
        one."""
        two: int = 2
        """The second one."""

    @dataclass
    class Derived(Base):
        two: int = 3
        """Another one."""

    assert field_docs(Derived) == {"one": "The first one.", "two": "Another one."}
    assert field_docs(Base) == {"one": "The first one.", "two": "The second one."}
