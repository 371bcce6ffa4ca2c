"""`--wrap`: wrappers in training, in evaluations and in the folder of the policy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agentgym.cli import main as cli
from agentgym.core import UnreadableAction
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.trainers import Callback, load_policy, make_trainer, train
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.policy_agent import load_agent
from agentgym.wrappers.wrapping import answer_format

WRAP = ("ExtractAction:format=tags", "HistoryObservation:k=1")
SMALL: dict[str, Any] = {
    "model": "nano", "context": "current", "iterations": 1, "episodes_per_iteration": 4,
    "num_envs": 2, "eval_episodes": 2, "max_new_tokens": 12, "bc_demonstrations": 2,
    "bc_epochs": 1, "device": "cpu", "threads": 1, "log_with": (), "quiet": True,
}  # fmt: skip
NUMBER_LINE: dict[str, Any] = {"env_id": "NumberLine-v0", "env_kwargs": {"size": 4, "max_turns": 4}}


def names(env: Any) -> list[str]:
    found = []
    while hasattr(env, "env"):
        found.append(type(env).__name__)
        env = env.env
    return found


def test_the_flag_takes_several_wrappers():
    config = read_config("poad", ["--wrap", *WRAP, "--lr", "1e-4"])
    assert config.environment.wrap == WRAP
    assert config.to_json()["wrap"] == list(WRAP)


@pytest.mark.parametrize("made", [None, NumberLine(size=4), lambda: NumberLine(size=4)])
def test_every_environment_of_a_run_is_wrapped_in_the_order_given(made: Any, tmp_path: Path):
    own = NUMBER_LINE if made is None else {"env": made}
    trainer = make_trainer("rloo", **SMALL, **own, group_size=2, wrap=WRAP, run_dir=str(tmp_path))
    try:
        assert names(trainer.pool.env(0))[:2] == ["HistoryObservation", "ExtractAction"]
        assert names(trainer.make_env())[:2] == ["HistoryObservation", "ExtractAction"]
    finally:
        trainer.pool.close()
        trainer.folder.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"wrap": ("ExtractActions",)}, r"Unknown wrapper 'ExtractActions'. Did you mean"),
        ({"wrap": ("Transition",)}, "Unknown wrapper 'Transition'"),
        ({"wrap": ("ExtractAction:formt=tags",)}, "unexpected keyword argument 'formt'"),
        ({"wrap": ("ExtractAction:format=tag",)}, "Did you mean: tags"),
        ({"wrap": ("MultiTrial",)}, "MultiTrial:n="),
        ({"wrap": ("AdmissibleAction:max_actions=3",)}, "actions that are not texts"),
        ({"wrap": "ExtractAction"}, "a sequence of str"),
        ({"env_kwargs": {"wrap": ["MultiTrial:n=2"]}}, "use wrap, not env_kwargs"),
        ({"env_kwargs": {"split": "test"}}, "leave split out"),
        ({"wrap": WRAP, "constrain": True}, "constrain"),
    ],
)
def test_wrong_wrappers_are_explained(settings: Any, message: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=message):
        train("poad", **SMALL | NUMBER_LINE | settings, run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_policy_is_evaluated_and_played_with_its_wrappers(tmp_path: Path, capsys):
    run = tmp_path / "run"
    [*_, last] = train("poad", **SMALL, **NUMBER_LINE, wrap=WRAP, run_dir=str(run))
    assert json.loads((run / "config.json").read_text())["config"]["wrap"] == list(WRAP)
    assert last.env_kwargs == {**NUMBER_LINE["env_kwargs"], "wrap": list(WRAP)}
    for folder in (run, run / "best", *(run / "checkpoints").iterdir()):
        assert load_agent(str(folder)).wrap == WRAP

    assert answer_format(("no_such_module:Wrapper", "ExtractAction:format=tags,format_reward=1"))
    assert answer_format(("no_such_module:Wrapper",)) is None
    loaded, replies = load_policy(run), iter(["hm <action>+</action>", "no action"])
    loaded.agent.act = lambda views: [next(replies)]  # type: ignore[method-assign]
    assert loaded.act("You are at 1. Go to 3.") == "+"
    unreadable = loaded.act("You are at 1. Go to 3.")
    assert isinstance(unreadable, UnreadableAction) and unreadable == "no action"
    assert "<action>" in unreadable.feedback
    loaded.agent.act = lambda views: ["hm <action>+</action>"]  # type: ignore[method-assign]
    assert loaded.reply("You are at 1. Go to 3.") == "hm <action>+</action>"

    report = tmp_path / "report.json"
    words = ["--agent", f"policy:{run}", "expert", "--episodes", "2", "--json", str(report)]
    kwargs = ["--env-kwargs", "size=4", "max_turns=4"]
    assert cli.main(["eval", "NumberLine-v0", *words, *kwargs]) == 0
    policy, expert = json.loads(report.read_text())
    assert policy["env_kwargs"]["wrap"] == list(WRAP)
    assert policy["episodes"] == last.to_json()["episodes"]
    assert "wrap" not in expert["env_kwargs"]
    given = ["--wrap", "HistoryObservation:k=2"]
    assert cli.main(["eval", "NumberLine-v0", *words, *kwargs, *given]) == 0
    policy, expert = json.loads(report.read_text())
    assert policy["env_kwargs"]["wrap"] == expert["env_kwargs"]["wrap"] == given[1:]

    capsys.readouterr()
    play = ["play", "NumberLine-v0", "--agent", f"policy:{run}", "--seed", "1", *kwargs]
    assert cli.main(play) == 0
    assert "<action>...</action>" in capsys.readouterr().out
    assert cli.main([*play, *given]) == 0
    assert "<action>...</action>" not in capsys.readouterr().out


class HalfThought(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes every character of a reply but the last one for a thought."""

    def action_span(self, answer: str) -> tuple[int, int]:
        return max(len(answer) - 1, 0), len(answer)


@pytest.mark.parametrize("changes", [{"thought_coef": 0.0}, {"thought_credit": "turn"}])
def test_thoughts_need_a_wrapper_that_extracts_actions(changes: dict[str, Any], tmp_path: Path):
    with pytest.raises(ConfigError, match=r"belongs to thoughts.*set wrap to ExtractAction"):
        make_trainer("poad", **NUMBER_LINE, **changes, run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


class Losses(Callback):
    def on_update_end(self, trainer: Any, metrics: Mapping[str, float]) -> None:
        self.metrics = metrics


@pytest.mark.slow
def test_thoughts_are_trained_as_the_settings_tell(tmp_path: Path):
    found = {}
    for name, changes in {
        "plain": {},
        "default": {"wrap": (f"{__name__}:HalfThought",)},
        "action": {"wrap": (f"{__name__}:HalfThought",), "thought_coef": 0.0},
        "turn": {"wrap": (f"{__name__}:HalfThought",), "thought_credit": "turn"},
    }.items():
        losses = Losses()
        settings = SMALL | NUMBER_LINE | changes | {"bc_demonstrations": 0, "eval_episodes": 0}
        del settings["bc_epochs"]
        train("poad", **settings, run_dir=str(tmp_path / name), callbacks=[losses])
        found[name] = losses.metrics
    lines = (tmp_path / "default" / "trajectories.jsonl").read_text().splitlines()
    turns = [turn for line in lines for turn in json.loads(line)["turns"]]
    masks = [turn["thought"] for turn in turns if turn["thought"]]
    assert masks and all(mask[0] and not mask[-1] for mask in masks)
    names = ["losses/policy_grad_norm", "losses/policy_loss", "losses/kl"]
    plain, default, action, turn = ([found[run][name] for name in names] for run in found)
    assert default == plain
    assert len({tuple(plain), tuple(action), tuple(turn)}) == 3
    assert found["plain"]["rollout/thought_tokens"] == 0
    informed = {run for run in found if "rollout/thought_information" in found[run]}
    assert informed == {"default", "action", "turn"}
    assert (
        0 < found["default"]["rollout/thought_tokens"] < found["default"]["rollout/action_tokens"]
    )
