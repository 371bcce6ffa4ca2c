"""Pages of the wrappers: one each, and an index."""

from __future__ import annotations

import inspect
from typing import Any

import project
from writing import table


def pages() -> dict[str, str]:
    """Returns the generated Markdown by path."""
    found = {"wrappers/index.md": _index()}
    for name, cls in project.wrappers().items():
        path = f"agentgym.wrappers.{name}"
        lines = [f"::: {path}", "    options:", "      heading_level: 1"]
        source = inspect.getsourcefile(cls)
        assert source is not None
        lines += ["", "## Source", "", f"`agentgym/wrappers/{source.rpartition('/')[2]}`"]
        found[f"wrappers/{name}.md"] = "\n".join(lines) + "\n"
    return found


def navigation() -> list[Any]:
    """Returns the section of the navigation."""
    return ["wrappers/index.md", *({name: f"wrappers/{name}.md"} for name in project.wrappers())]


INDEX = """
`agentgym.wrappers` holds Gymnasium wrappers for text environments. They are combined as other
Gymnasium wrappers are, and stay picklable and serialisable.

```python
import agentgym
import gymnasium as gym
from agentgym.wrappers import AdmissibleAction, EncodeObservation

env = gym.make("AgentGym/WebShop-v0")
env = EncodeObservation(env, size=256, max_actions=30)
env = AdmissibleAction(env, 30, overflow="first")
```
"""


def _index() -> str:
    rows = [
        (f"[{name}]({name}.md)", (inspect.getdoc(cls) or "").partition("\n")[0])
        for name, cls in project.wrappers().items()
    ]
    lines = ["# Wrappers", "", *inspect.cleandoc(INDEX).split("\n"), ""]
    return "\n".join([*lines, *table(("Wrapper", "Description"), rows)]) + "\n"
