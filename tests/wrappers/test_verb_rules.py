"""`ToolRules` of commands: which may follow which, in environments without tools."""

from __future__ import annotations

import pytest

from agentgym import make_env
from agentgym.errors import ConfigError
from agentgym.wrappers import ToolRules

RULES = {"": ["search"], "search": ["open", "search"], "open": ["answer", "open"]}


def made() -> ToolRules:
    env = ToolRules(make_env("SearchQA-v0", invalid_penalty=0.5), follow=RULES, verbs=True)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(
    ("actions", "denied"),
    [
        (["answer[Ada]"], [1]),
        (["search[works]", "answer[Ada]", "Open[nothing]", "search[cities]"], [0, 1, 1, 1]),
        (["Action: jump", "search[works]"], [1, 1]),
    ],
)
def test_only_what_may_follow_is_played(actions: list[str], denied: list[int]):
    env, plain = made(), make_env("SearchQA-v0", invalid_penalty=0.5)
    plain.reset(seed=0)
    before = 0
    for action, count in zip(actions, denied, strict=True):
        observation, reward, ended, _, info = env.step(action)
        assert info["denied"] == count
        if count > before:
            assert "only these are allowed" in observation and reward == -0.5
            assert not info["valid"] and not ended
        else:
            assert observation == plain.step(action)[0]
        before = count
    copy = made()
    copy.restore(env.snapshot())
    for action in ("answer[Ada]", "search[works]", "open[x]"):
        assert copy.step(action) == env.step(action)


def test_the_last_valid_action_counts():
    """An action that the environment refuses is followed by what could follow the one before."""
    env = made()
    env.step("search[works]")
    observation = env.step("open[a page that does not exist]")[0]
    assert "only these" not in observation
    assert "After search, only these are allowed: open, search." in env.step("answer[Ada]")[0]


def test_the_rules_are_part_of_the_instructions():
    plain = make_env("SearchQA-v0", invalid_penalty=0.5).get_wrapper_attr("instructions")
    assert made().instructions == (
        f"{plain}\n\nActions that may follow others:\n- At first: search.\n"
        "- After search: open, search.\n- After open: answer, open."
    )
    assert ToolRules(make_env("SearchQA-v0")).instructions == make_env(
        "SearchQA-v0"
    ).get_wrapper_attr("instructions")


def test_admissible_actions_follow_the_rules():
    rules = {"": ["left"], "left": ["right"], "right": ["*"]}
    env = ToolRules(make_env("FrozenLake-v0"), follow=rules, verbs=True)
    _, info = env.reset(seed=0)
    words = {word.split()[-1] for word in info["admissible"]}
    assert words < {
        word.split()[-1] for word in make_env("FrozenLake-v0").reset(seed=0)[1]["admissible"]
    }


@pytest.mark.parametrize(
    "text",
    [
        "Action: move left",
        "Sure!\nAction: Move left.",
        "Thought: out of here\n**Action:** move left\n\nThis leads out.",
        "<think>move right?</think> move left",
        " " * 12 + "move left",
        "\u200b" * 12 + "move left",
        "```text\nmove left\n```",
        "`" * 10 + "move left",
    ],
)
def test_an_action_is_read_as_the_environment_reads_it(text: str):
    """What surrounds an action does not hide it from the rules."""
    plain = make_env("Maze-v0")
    plain.reset(seed=0)
    assert plain.step(text)[4]["valid"]
    env = ToolRules(make_env("Maze-v0"), limit={"move": 0}, verbs=True)
    env.reset(seed=0)
    assert env.step(text)[4]["denied"] == 1


def test_a_snapshot_of_before_the_rules_is_restored():
    env = ToolRules(make_env("SearchQA-v0"), limit={"search": 1}, verbs=True)
    env.reset(seed=0)
    env.step("search[works]")
    snapshot = env.snapshot()
    del snapshot["memory"]["last"]  # of a version without `follow`
    copy = ToolRules(make_env("SearchQA-v0"), limit={"search": 1}, verbs=True)
    copy.restore(snapshot)
    assert copy.step("search[cities]") == env.step("search[cities]")


@pytest.mark.parametrize("names", ["open", []])
@pytest.mark.parametrize("option", ["after", "follow"])
def test_a_rule_needs_a_list_of_tools(option: str, names: str | list[str]):
    """A string is not read as the list of its letters."""
    with pytest.raises(ConfigError, match=f"{option} needs a list of at least one"):
        ToolRules(make_env("SearchQA-v0"), **{option: {"search": names}})  # type: ignore[arg-type]
