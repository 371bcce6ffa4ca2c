"""MiniWoBText: every kind can be solved, wrong fields and clicks fail, pages lead back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agentgym.envs.web.miniwob_text import MiniWoBText
from agentgym.envs.web.sites import KINDS, sites_of
from agentgym.errors import ConfigError


def solved(env: MiniWoBText) -> bool:
    """Plays the expert to the end and returns whether the task is solved."""
    while True:
        action = env.expert()
        assert action is not None
        _, _, terminated, truncated, info = env.step(action)
        assert info["valid"], action
        if terminated or truncated:
            return info["success"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_expert_solves_every_kind_also_after_detours(kind: str):
    env, rng = MiniWoBText(kind=kind, max_turns=40), np.random.default_rng(0)
    for i in range(25):
        _, info = env.reset(seed=0, options={"task": f"{('train', 'test')[i % 2]}/{i}"})
        finals = {w.end for page in env.site.pages.values() for w in page if w.end}
        assert env.site.end in finals
        for _ in range(i % 6):
            shown = env.site.pages[env.state.page]
            # Any action but a final click.
            options = [
                action for action in info["admissible"] if not shown[int(action.split()[1]) - 1].end
            ]
            if options:
                info = env.step(options[int(rng.integers(len(options)))])[-1]
        assert solved(env)


@pytest.mark.parametrize("kind", ["choose-option", "mixed"])
def test_no_task_is_in_both_splits_whatever_texts_are_suggested(kind: str):
    train, test = (
        {
            repr([replace(site, texts=()) for site in sites_of(f"{split}/{i}", kind, 1)])
            for i in range(800)
        }
        for split in ("train", "test")
    )
    assert len(test) > 400 and not train & test


@pytest.fixture
def form() -> MiniWoBText:
    """An environment at the start of a log-in."""
    env = MiniWoBText(kind="log-in")
    env.reset(seed=0)
    return env


def test_all_fields_must_be_right_at_the_final_click(form: MiniWoBText):
    name, password = form.site.goal.values()
    observation, *_ = form.step(f"type 1 {name}")
    assert f'[1] textbox "User name": "{name}"' in observation
    before = form.snapshot()
    assert form.step("click 3")[1:3] == (0.0, True)
    form.restore(before)
    form.step(f"type 2 {password}")
    form.step("clear 1")
    form.step(f"type [1] {name}")
    _, reward, terminated, _, info = form.step("click 3")
    assert (reward, terminated, info["success"]) == (1.0, True, True)


@pytest.mark.parametrize("kind", ["enter-text", "answer-mail", "forward-mail", "add-event"])
def test_the_order_of_the_listed_texts_does_not_reveal_the_right_one(kind: str):
    env, first = MiniWoBText(kind=kind), []
    for i in range(40):
        _, info = env.reset(seed=0, options={"task": f"train/{i}"})
        while not (texts := [a for a in info["admissible"] if a.startswith("type")]):
            info = env.step(str(env.expert()))[-1]
        first.append(texts[0].split()[-1] in env.site.goal.values())
    assert 5 < sum(first) < 35


def test_a_wrong_final_click_fails(form: MiniWoBText):
    _, reward, terminated, _, info = form.step("click 4")
    assert (reward, terminated, info["success"]) == (0.0, True, False)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("press 1", "Reply with click, type, clear or select and a number."),
        ("click 9", "The page has the widgets 1 to 4, got 9."),
        ("click 1", "'click 1' is not possible with the textbox 1."),
        ("type 3 Ada", "'type 3 Ada' is not possible with the button 3."),
        ("select 1 Ada", "'select 1 Ada' is not possible with the textbox 1."),
        (f"type 1 {'x' * 101}", "is not possible with the textbox 1."),
        ("type 1", "'type 1' is not possible with the textbox 1."),
    ],
)
def test_impossible_actions_are_explained(form: MiniWoBText, action: str, message: str):
    observation, *_, info = form.step(action)
    assert message in observation
    assert not info["valid"] and not form.state.fields


def test_tasks_follow_each_other_with_empty_fields():
    env = MiniWoBText(kind="book-flight", length=2)
    observation, _ = env.reset(seed=0)
    assert observation.startswith("Task 1 of 2: Book a flight")
    while env.state.site == 0:
        observation, *_ = env.step(env.expert() or "")
    assert observation.startswith("Task 2 of 2: Book a flight")
    assert not env.state.fields
    assert solved(env)


@pytest.mark.parametrize("arguments", [{"kind": "games"}, {"length": 0}, {"length": 11}])
def test_other_arguments_are_refused(arguments: dict):
    with pytest.raises(ConfigError, match=f"^{next(iter(arguments))} must be"):
        MiniWoBText(**arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_keys_have_equal_outcomes(kind: str):
    """Fields that another page shows are part of the state, in whatever order they were set."""
    env = MiniWoBText(kind=kind, max_turns=None)
    outcomes: dict[tuple[str, str], set[tuple[str, float]]] = {}
    for seed in range(40):
        _, info = env.reset(seed=seed, options={"task": "train/0"})
        rng = np.random.default_rng(seed)
        terminated = False
        while not terminated:
            key, action = info["state_key"], str(rng.choice(info["admissible"]))
            _, reward, terminated, _, info = env.step(action)
            outcomes.setdefault((key, action), set()).add((info["state_key"], float(reward)))
    assert all(len(found) == 1 for found in outcomes.values())
    assert len(outcomes) > 1


def login() -> MiniWoBText:
    env = MiniWoBText(kind="log-in")
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(
    "form", ['type 1 "{}"', "type 1 '{}'", "type [1] \u201c{}\u201d", "type 1: {}"]
)
def test_quotes_around_a_text_are_not_typed(form: str):
    env = login()
    env.step(form.format("Henry Ford"))
    assert list(env.state.fields.values()) == ["Henry Ford"]


def test_a_quoted_text_may_name_actions():
    env = login()
    env.step('type 1 "Ada and click 3"')
    assert list(env.state.fields.values()) == ["Ada and click 3"]


@pytest.mark.parametrize(
    "action",
    [
        "type 1 Ada, type 2 tea", "type 1 Ada and type 2 tea", "type 1 Ada; click 3",
        "click 3 and 4", "click 3, 4", "click 3 (Cancel)", "click 3 later", "clear 1 and 2",
        "type 1 Ada then click 3", "type 1 Ada. Click 3",
    ],
)  # fmt: skip
def test_two_actions_are_none(action: str):
    env = login()
    text, _, ended, _, info = env.step(action)
    assert not info["valid"] and not ended and not env.state.fields
    assert text.startswith(("Reply with", "Widget 3 is the button 'Log in'."))


@pytest.mark.parametrize("action", ["Click 3.", "click [3]", "click 3 (Log in)", "click 3 button"])
def test_a_click_may_name_its_widget(action: str):
    assert login().step(action)[2]
