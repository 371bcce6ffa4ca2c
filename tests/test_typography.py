"""An action in typographic characters acts as the plain one or is refused, in every id.

Models write "−3" with a minus sign, "“look”" with curly quotes, or an end mark behind an action. No
such form may have another effect than the plain one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.reading import normalized

from .test_all_envs import ENTRIES, parameter

TURNS = 12
TASKS = 2
FULL_WIDTH = str.maketrans("0123456789", "０１２３４５６７８９")
FORMS: dict[str, Callable[[str], str]] = {
    "minus sign": lambda text: text.replace("-", "\u2212"),
    "en dash": lambda text: text.replace("-", "\u2013"),
    "hyphen that does not break": lambda text: text.replace("-", "\u2011"),
    "curly apostrophe": lambda text: text.replace("'", "\u2019"),
    "curly quotes": lambda text: text.replace('"', "\u201d"),
    "no-break space": lambda text: text.replace(" ", "\u00a0"),
    "narrow no-break space": lambda text: text.replace(" ", "\u202f"),
    "full-width digits": lambda text: text.translate(FULL_WIDTH),
    "full-width colon": lambda text: text.replace(":", "\uff1a"),
    "end mark": lambda text: f"{text}<|im_end|>",
    "label": lambda text: f"Action: {text}",
    "full-width label": lambda text: f"Action\uff1a {text}",
    "spaces around": lambda text: f"\u00a0{text}\u3000\n",
}
PROGRAMS = dict.fromkeys(
    ("PythonMath-v0", "PythonMath-Reset-v0"), "an interpreter runs the code as it is written"
)
"""Ids whose actions are programs, with the reason why a form may have an effect of its own."""
some_forms = st.lists(st.sampled_from(sorted(FORMS)), min_size=1, max_size=3, unique=True).filter(
    lambda forms: sum("label" in form for form in forms) < 2
)


class State(NamedTuple):
    """A state on the expert's path.

    Attributes:
        snapshot: the state.
        key: its key.
        action: the expert's action.
        result: the effect of the action.
    """

    snapshot: dict[str, Any]
    key: str
    action: str
    result: tuple[Any, ...]


def effect(env: gymnasium.Env[Any, Any], action: str) -> tuple[Any, ...]:
    text, reward, terminated, truncated, info = env.step(action)
    facts = info["valid"], reward, terminated, truncated, info["success"], info["progress"]
    return (*facts, info["state_key"], " ".join(normalized(text).split()))


@cache
def states(id: str) -> tuple[gymnasium.Env[Any, Any], list[State]]:
    """Returns states on the path of the expert in some tasks."""
    env = gymnasium.make(id)
    inner: Any = env.unwrapped
    found: list[State] = []
    for number in range(TASKS):
        task = inner.tasks.train[number % len(inner.tasks.train)]
        _, info = env.reset(seed=number, options={"task": task})
        for _ in range(TURNS):
            action = inner.expert()
            if action is None:
                break
            snapshot = inner.snapshot()
            result = effect(env, action)
            found.append(State(snapshot, info["state_key"], action, result))
            if result[2] or result[3]:
                break
            info = {"state_key": result[6]}
    return env, found


def difference(env: gymnasium.Env[Any, Any], state: State, action: str) -> str:
    """Returns how the effect of an action differs from the expert's, "" if it does not."""
    inner: Any = env.unwrapped
    inner.restore(state.snapshot)
    got = effect(env, action)
    if not got[0] or not state.result[0]:
        return ""
    same = got[:6] == state.result[:6] and (got[6] == state.result[6] or got[7] == state.result[7])
    return "" if same else f"{action!r} acts as {got[:6]}, not {state.result[:6]}: {got[7][:200]}"


def parameters() -> list[Any]:
    found = []
    for entry in ENTRIES:
        if entry.name in PROGRAMS:
            continue
        param = parameter(entry)
        found.append(param)
    return found


@pytest.mark.parametrize("id", parameters())
@settings(max_examples=25)
@given(data=st.data())
def test_typographic_forms_act_as_the_plain_action_or_are_refused(id: str, data: st.DataObject):
    env, found = states(id)
    if not found:
        return
    state = data.draw(st.sampled_from(found))
    action = state.action
    for form in data.draw(some_forms):
        action = FORMS[form](action)
    assert not difference(env, state, action)


@pytest.mark.parametrize("id", parameters())
def test_thoughts_before_an_action_change_nothing(id: str):
    env, found = states(id)
    for state in found[:3]:
        for thoughts in ("<think>\nAction: look. Or not?\n</think>\n\n", "Or not?\n</think>\n\n"):
            env.unwrapped.restore(state.snapshot)  # type: ignore[attr-defined]
            got = effect(env, thoughts + state.action)
            assert got[:6] == state.result[:6]
            assert "think>" not in got[7]


MARKS = ("Answer: {}", "\\boxed{{{}}}", "**{}**", "<answer>{}</answer>", "My move is {}", "- {}")


@pytest.mark.parametrize("id", parameters())
def test_a_marked_answer_acts_as_the_listed_action_or_is_refused(id: str):
    env, found = states(id)
    inner: Any = env.unwrapped
    for state in found[:4]:
        _, info = inner.restore(state.snapshot)
        if state.action not in info["admissible"]:
            continue
        for form in MARKS[: -1 if id.endswith("Drafts-v0") else None]:  # a bullet is text there
            said = form.format(state.action)
            assert not difference(env, state, said)
            if "?" in state.action or inner.cased:  # questions and texts may have any words
                continue
            inner.restore(state.snapshot)
            assert not env.step(form.format(f"not {state.action}"))[4]["valid"]
