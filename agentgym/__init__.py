"""AgentGym: text and multi-agent environments for Gymnasium and PettingZoo.

`import agentgym` registers all environments, so that `gymnasium.make("AgentGym/WebShop-v0")` works.
"""

import importlib
from typing import TYPE_CHECKING, Any

from agentgym import checkout as checkout
from agentgym.core import TextEnv, UnreadableAction
from agentgym.integrations.trl import ToolEnvironment, tool_rows
from agentgym.registration.games import make_aec, make_parallel, register_game
from agentgym.registration.registry import REGISTRY, register_all
from agentgym.spaces import UnicodeText
from agentgym.tasks import NumberedTasks, Tasks
from agentgym.textify import textify
from agentgym.time_step import TimeStep
from agentgym.tools import (
    Call,
    FunctionToolEnv,
    ToolEnv,
    ToolError,
    ToolState,
    action_grammar,
    reward,
    tool,
)
from agentgym.version import __version__ as __version__

__all__ = [
    "REGISTRY",
    "Call",
    "FunctionToolEnv",
    "NumberedTasks",
    "Tasks",
    "TextEnv",
    "TimeStep",
    "ToolEnv",
    "ToolEnvironment",
    "ToolError",
    "ToolState",
    "UnicodeText",
    "UnreadableAction",
    "action_grammar",
    "make_aec",
    "make_parallel",
    "register_game",
    "reward",
    "textify",
    "tool",
    "tool_rows",
]

register_all()


if TYPE_CHECKING:
    from agentgym import wrappers as wrappers
    from agentgym.agents import make_agent as make_agent
    from agentgym.envs.team.importance import team_importance as team_importance
    from agentgym.envs.team.team import Team as Team
    from agentgym.envs.team.team_search import search_team as search_team
    from agentgym.evaluation.runner import evaluate as evaluate
    from agentgym.multiagent.game import TextGame as TextGame
    from agentgym.registration.making import make_env as make_env
else:
    _LAZY = {
        "Team": "agentgym.envs.team.team",
        "TextGame": "agentgym.multiagent.game",
        "evaluate": "agentgym.evaluation.runner",
        "make_agent": "agentgym.agents",
        "make_env": "agentgym.registration.making",
        "search_team": "agentgym.envs.team.team_search",
        "team_importance": "agentgym.envs.team.importance",
    }

    def __getattr__(name: str) -> Any:
        """Imports `agentgym.wrappers` and a few functions and classes on first access."""
        if name == "wrappers":
            return importlib.import_module("agentgym.wrappers")
        if name in _LAZY:
            return getattr(importlib.import_module(_LAZY[name]), name)
        raise AttributeError(f"module 'agentgym' has no attribute {name!r}")

    def __dir__() -> list[str]:
        """Names the attributes of first access too, for completion and suggestions."""
        return sorted({*globals(), *_LAZY, "wrappers"})
