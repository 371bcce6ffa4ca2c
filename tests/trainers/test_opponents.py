"""The words of `opponents`, and the faults in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents.scaffolds import SCAFFOLDS
from agentgym.errors import ConfigError
from agentgym.multiagent.seats import game_agent
from agentgym.registration.making import make_env
from agentgym.trainers import recipes
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.settings.opponents import FORMS, Opponent, parse_opponents

WORDS = [
    "scripted", "scripted:tight", "mirror", "past:5", "policy:runs/a=b/policy",
    "chat:llama@http://localhost:80/v1?k=v", "plan_execute:chat:llama@http://localhost:80/v1?k=v",
    "adapt,depth=2,steps=5:policy:runs/a=b",
]  # fmt: skip


@pytest.mark.parametrize("pool", ["past:1", "winrate:0.7", "league", "psro", "psro:alpharank"])
def test_one_opponent_is_a_word(pool: str):
    kind, _, argument = pool.partition(":")
    assert parse_opponents(pool) == (Opponent(kind, argument),)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.sampled_from(WORDS), st.floats(0.01, 9)), min_size=1, unique_by=lambda w: w[0]
    )
)
def test_a_mixture_keeps_words_and_weights(parts: list[tuple[str, float]]):
    found = parse_opponents([f"{word}={weight}" for word, weight in parts])
    assert [(each.word, each.weight) for each in found] == parts
    alike = parse_opponents([word for word, _ in parts])
    assert [(each.word, each.weight) for each in alike] == [(word, 1.0) for word, _ in parts]


@pytest.mark.parametrize(
    ("opponents", "message"),
    [
        ("mirrors", "unknown kind 'mirrors'. Did you mean: mirror"),
        ("past", "expected past:K .*, got 'past'"),
        ("past:0", "expected past:K .*, got 'past:0'"),
        ("past:x", "expected past:K .*, got 'past:x'"),
        ("mirror:2", "expected mirror, got 'mirror:2'"),
        ("league:", "expected league, got 'league:'"),
        ("winrate:1.5", "win rate R between 0 and 1"),
        ("winrate:often", "win rate R between 0 and 1"),
        ("psro:nahs", "uniform, nash, alpharank, got 'psro:nahs'. Did you mean: nash"),
        ("policy", "expected policy:FOLDER, got 'policy'"),
        ("chat:", "expected chat:MODEL@URL, got 'chat:'"),
        ("plan_execute", "expected plan_execute:AGENT, got 'plan_execute'"),
        ("plan_execut:random", "unknown kind 'plan_execut'. Did you mean: plan_execute"),
        ("mirror,a=b:c", "unknown kind 'mirror,a=b'"),
        ("mirrox", "Did you mean: mirror.* Known: (?!.*(reflexion|rules)).*instructions:AGENT"),
        ("reflexion,trials=2:chat:m@http://h/v1", "reflexion cannot be an opponent.*adapt:AGENT"),
        ("rules:random", "rules cannot be an opponent.* policy:FOLDER, .*cases:AGENT"),
        ("mirror=-1", "weight must be at least 0 and finite"),
        ("mirror=nan", "weight must be at least 0 and finite"),
        ("mirror=0", "at least one weight must be above 0"),
        (("mirror=1", "past:2"), "give each one a weight"),
        (("mirror", "mirror"), "name each one once"),
        (("past:2", "league"), "one pool, got past:2 and league"),
    ],
)  # fmt: skip
def test_each_fault_has_its_message(opponents: str | tuple[str, ...], message: str):
    with pytest.raises(ConfigError, match=f"opponents: .*{message}"):
        recipes.load("poad").Config.of(opponents=opponents)


def test_the_documented_opponents_are_those_that_are_accepted():
    page = (Path(__file__).parents[2] / "docs/tutorials/self_play.md").read_text(encoding="utf-8")
    rows = page.partition("| opponent |")[2].partition("\n\n")[0].splitlines()[2:]
    named = {kind for row in rows for kind in re.findall(r"`(\w+)", row.split("|")[1])}
    assert named == set(FORMS)
    game = make_env("KuhnPoker-v0").unwrapped.game  # type: ignore[attr-defined]
    for kind in SCAFFOLDS:
        if kind in FORMS:
            assert game_agent(game, f"{kind}:random").name == f"{kind}:random"
        else:
            with pytest.raises(ConfigError, match=f"{kind}.*several attempts.* seats.*adapt:AGENT"):
                game_agent(game, f"adapt:{kind}:random")


def test_the_command_line_takes_one_word_or_several():
    one = read_config("rae", ["--opponents", "mirror"])
    assert one.game.opponents == "mirror"
    flags = ["--opponents", "mirror=0.7", "past:5=0.3", "--seed", "1"]
    config = read_config("rae", flags)
    assert config.game.opponents == ("mirror=0.7", "past:5=0.3")
    assert config.game.pool == Opponent("past", "5", 0.3)
    assert config.game.frozen and not config.game.scripted
    assert config.to_json()["opponents"] == ["mirror=0.7", "past:5=0.3"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rollout_workers": 1}, "Rollout workers hold one policy"),
        ({"continuous_batching": True}, "several policies act"),
        ({"adaptive_groups": True, "group_size": 4}, "groups of one size"),
    ],
)
def test_settings_that_need_a_single_policy_are_refused(settings: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        recipes.load("rae").Config.of(opponents=("mirror", "league"), **settings)
