"""AgentGym: text and multi-agent environments for Gymnasium and PettingZoo.

`import agentgym` registers all environments, so that `gymnasium.make("AgentGym/WebShop-v0")` works.
"""

from typing import TYPE_CHECKING

from agentgym import checkout as checkout
from agentgym.core import TextEnv, UnreadableAction
from agentgym.lazy_names import lazy_names
from agentgym.registration.games import make_aec, make_parallel, register_game
from agentgym.registration.registry import REGISTRY, register_all
from agentgym.spaces import UnicodeText
from agentgym.tasks import NumberedTasks, Tasks
from agentgym.textify import textify
from agentgym.time_step import TimeStep

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
    from agentgym.envs.team.aec import Team as Team
    from agentgym.envs.team.importance import team_importance as team_importance
    from agentgym.envs.team.team_search import search_team as search_team
    from agentgym.evaluation.runner import evaluate as evaluate
    from agentgym.integrations.trl import ToolEnvironment, tool_rows
    from agentgym.multiagent.game import TextGame as TextGame
    from agentgym.registration.making import make_env as make_env
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
else:
    _TOOLS = "Call FunctionToolEnv ToolEnv ToolError ToolState action_grammar reward tool"
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Team": "agentgym.envs.team.aec",
            "TextGame": "agentgym.multiagent.game",
            "ToolEnvironment": "agentgym.integrations.trl",
            "__version__": "agentgym.version",
            "evaluate": "agentgym.evaluation.runner",
            "make_agent": "agentgym.agents",
            "make_env": "agentgym.registration.making",
            "search_team": "agentgym.envs.team.team_search",
            "team_importance": "agentgym.envs.team.importance",
            "tool_rows": "agentgym.integrations.trl",
            "wrappers": "agentgym.wrappers",
            **dict.fromkeys(_TOOLS.split(), "agentgym.tools"),
        },
    )
