"""`BrowserGym`: the tasks of BrowserGym, on real pages in Chromium, as text environments."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, SnapshotError, did_you_mean, needs_extra
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

INSTRUCTIONS = (
    "Reach the goal on the web pages. Observations list the elements of the page, with the id of "
    "each in brackets. Reply with one call.\n\n"
)


@dataclass
class State:
    """The actions so far, from which the episode is replayed, and the page after them."""

    played: list[str] = field(default_factory=list)
    page: str = ""


class BrowserGym(TextEnv):
    """Do a task of BrowserGym ("The BrowserGym Ecosystem", arXiv 2412.05467) in Chromium.

    Observations are the goal and the accessibility tree of the page, actions are calls such as
    `click('13')`, and the reward is that of the task. A call that fails is an invalid action, and
    its error is the feedback. Each task name is a seed of the page. Snapshots replay the actions:
    pages that change by themselves cannot be restored. All environments must be used by the thread
    that made them, as Playwright demands.

        gymnasium.make("AgentGym/BrowserGym-v0", task_id="miniwob.click-test-2")

    Args:
        task_id: id of BrowserGym. The pages of "miniwob." ids are those of the package miniwob.
        browser: path of a Chromium, such as /usr/bin/chromium. None: the one that `playwright
            install chromium` fetches. The first environment of a process sets it for all.
        calls: sets of calls that agents may use, by their names in BrowserGym.
        settings: arguments of BrowserGym's environment, such as {"pre_observation_delay": 0.1}.
        **kwargs: arguments of `TextEnv`.

    Raises:
        MissingExtraError: without the package of BrowserGym that has the task.
        ConfigError: for an unknown task, or if the browser cannot be started.
    """

    State = State
    state: State
    cased = True

    def __init__(
        self,
        *,
        task_id: str,
        browser: str | None = None,
        calls: Sequence[str] = ("chat", "infeas", "bid", "nav"),
        settings: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        _register(task_id)
        from browsergym.core.action.highlevel import HighLevelActionSet  # pyright: ignore[reportMissingImports]
        from browsergym.utils.obs import flatten_axtree_to_str  # pyright: ignore[reportMissingImports]

        known = [id.removeprefix("browsergym/") for id in gymnasium.registry if "browsergym/" in id]
        if task_id not in known:
            raise ConfigError(
                f"BrowserGym has no task {task_id!r}.{did_you_mean(task_id, sorted(known))}"
            )
        try:
            actions = HighLevelActionSet(subsets=list(calls), multiaction=False)
        except ValueError as error:
            raise ConfigError(f"calls must name action sets of BrowserGym: {error}") from error
        self.task_id, self._flatten = task_id, flatten_axtree_to_str
        self.instructions = INSTRUCTIONS + actions.describe(with_long_description=False).strip()
        self.tasks = Tasks.generated()
        options = dict(settings or {})
        if task_id.startswith("miniwob."):
            options["task_kwargs"] = {"base_url": _miniwob()} | options.get("task_kwargs", {})
        if browser is not None:
            _use(browser)
        self._env = gymnasium.make(
            f"browsergym/{task_id}",
            disable_env_checker=True,
            action_mapping=actions.to_python_code,
            **options,
        )

    def close(self) -> None:
        """Closes the browser."""
        self._env.close()

    def _start(self, task: str) -> TimeStep:
        self.task, self.state = task, State()
        return self._see(self._open(), "")

    def _open(self) -> dict[str, Any]:
        """Opens the first page of the task."""
        from playwright.sync_api import Error  # pyright: ignore[reportMissingImports]

        seed = int(task_rng(self.task, f"browsergym/{self.task_id}").integers(2**31))
        try:
            return self._env.reset(seed=seed)[0]
        except Error as error:
            raise ConfigError(
                f"BrowserGym cannot start {self.task_id}: {str(error).strip()[:300]}\n"
                "Run `playwright install chromium`, or name a Chromium: browser=/usr/bin/chromium."
            ) from error

    def _see(self, seen: Mapping[str, Any], error: str, **result: Any) -> TimeStep:
        """Returns the step of an observation of BrowserGym."""
        tree = self._flatten(seen["axtree_object"])
        lines = [line for line in tree.split("\n") if not line.lstrip().startswith("InlineTextBox")]
        said = [m["message"] for m in seen["chat_messages"] if m["role"] == "user"]
        self.state.page = "\n".join(lines)
        goal = str(seen["goal"] or "\n".join(said))
        return TimeStep(
            text=f"Goal: {goal}\n\n{self.state.page}",
            valid=not error,
            feedback=f"Error: {error}" if error else "",
            **result,
        )

    def _parse(self, action: str) -> str:
        return action

    def _advance(self, action: str) -> TimeStep:
        self.state.played.append(action)
        seen, reward, terminated, truncated, _ = self._env.step(action)
        reward, ended = float(reward), bool(terminated or truncated)
        # The click that ends a task may wait for a page that does not change any more.
        error = "" if ended else str(seen["last_action_error"]).partition("\n")[0]
        return self._see(
            seen,
            error,
            rewards={"task": reward},
            terminated=ended,
            success=ended and reward > 0,
            progress=min(1.0, max(0.0, reward)),
        )

    def _restored(self) -> None:
        """Replays the recorded actions.

        Raises:
            SnapshotError: if they lead to another page than before.
        """
        before, seen = self.state.page, self._open()
        for action in self.state.played:
            seen = self._env.step(action)[0]
        self._see(seen, "")
        if self.state.page != before:
            raise SnapshotError(f"{self.task_id} cannot be replayed: the page is another one.")


def _register(task_id: str) -> None:
    """Imports the package of BrowserGym that registers a task."""
    benchmark = task_id.partition(".")[0]
    with needs_extra("AgentGym/BrowserGym-v0", "browsergym"):
        importlib.import_module("browsergym.core")
        if benchmark == "miniwob" or importlib.util.find_spec(f"browsergym.{benchmark}"):
            importlib.import_module(f"browsergym.{benchmark}")


def _miniwob() -> str:
    """Returns the address of the pages of the package miniwob, which is not imported."""
    with needs_extra("AgentGym/BrowserGym-v0", "browsergym"):
        found = importlib.util.find_spec("miniwob")
        if found is None or found.origin is None:
            raise ImportError("No module named 'miniwob'")
    return (Path(found.origin).parent / "html" / "miniwob").as_uri() + "/"


def _use(browser: str) -> None:
    """Makes BrowserGym start another browser than Playwright's, for pages and for the chat."""
    if not Path(browser).is_file():
        raise ConfigError(f"browser must be the path of a Chromium, got {browser!r}.")
    import browsergym.core  # pyright: ignore[reportMissingImports]

    chromium: Any = browsergym.core._get_global_playwright().chromium
    if not isinstance(chromium.launch, functools.partial):
        chromium.launch = functools.partial(chromium.launch, executable_path=browser)
