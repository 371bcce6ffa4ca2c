"""Tasks of BrowserGym as environments, with the pages of MiniWoB++ in a real Chromium."""

from __future__ import annotations

import importlib
import re
import shutil
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest

from agentgym.errors import ConfigError
from agentgym.registration.making import make_env

pytest.importorskip("browsergym.miniwob", reason="needs the extra `browsergym`")
pytest.importorskip("playwright", reason="needs the extra `browsergym`")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
QUICK: dict[str, Any] = {"browser": BROWSER, "settings": {"slow_mo": 0}}


@pytest.fixture(scope="module", autouse=True)
def no_event_loop_afterwards() -> Iterator[None]:
    """BrowserGym's Playwright keeps an event loop running, in which no other can begin."""
    yield
    core = importlib.import_module("browsergym.core")
    if core._PLAYWRIGHT is not None:
        core._PLAYWRIGHT.stop()
        core._set_global_playwright(None)


@pytest.fixture
def env() -> Iterator[Any]:
    env = make_env("BrowserGym-v0", task_id="miniwob.click-test-2", max_turns=5, **QUICK)
    yield env
    env.close()


def button(text: str, right: bool = True) -> str:
    """The click on the button that the goal names, or on the other one."""
    [goal] = re.findall(r"Goal: Click button (\w+)", text)
    found = dict(map(reversed, re.findall(r"\[(\w+)\] button '(\w+)'", text)))  # type: ignore
    assert set(found) == {"ONE", "TWO"}
    return f"click('{found[goal] if right else next(v for k, v in found.items() if k != goal)}')"


@needs_browser
@pytest.mark.filterwarnings("ignore")  # of BrowserGym and of the processes of the browser
def test_a_page_is_played_as_in_browsergym(env: Any):
    assert "click(bid: str" in env.get_wrapper_attr("instructions")
    text, _ = env.reset(seed=0, options={"task": "test/1"})
    unknown = env.step("click('999')")
    assert unknown[0].startswith("Error: ") and '"999"' in unknown[0]
    assert not unknown[4]["valid"] and unknown[1:4] == (0.0, False, False)
    for nonsense in ("", "nonsense(", "import os"):
        assert not env.step(nonsense)[4]["valid"]
    _, reward, terminated, truncated, info = env.step(button(text))
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)

    assert env.reset(seed=3, options={"task": "test/1"})[0] == text, "the task sets the page"
    saved = env.unwrapped.snapshot()
    wrong = env.step(button(text, right=False))
    assert wrong[1] <= 0 and wrong[2] and not wrong[4]["success"]
    env.unwrapped.restore(saved)
    _, reward, terminated, _, _ = env.step(button(text))
    assert (reward, terminated) == (1.0, True)


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match=r"no task 'miniwob.click-tset'. Did you mean"):
        make_env("BrowserGym-v0", task_id="miniwob.click-tset")
    with pytest.raises(ConfigError, match="path of a Chromium, got '/no/browser'"):
        make_env("BrowserGym-v0", task_id="miniwob.click-test", browser="/no/browser")
    with pytest.raises(ConfigError, match="calls must name action sets"):
        make_env("BrowserGym-v0", task_id="miniwob.click-test", calls=["fly"])
    assert "browsergym/miniwob.click-test" in gymnasium.registry
