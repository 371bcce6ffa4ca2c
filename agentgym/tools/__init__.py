"""Tools: Python functions that a language model calls, and environments made of them."""

from __future__ import annotations

from agentgym.tools.calls import Call, read_call, write_call
from agentgym.tools.decorator import Tool, ToolError, tool
from agentgym.tools.env import ToolEnv, ToolState
from agentgym.tools.functions import FunctionToolEnv
from agentgym.tools.grammar import Grammar, action_grammar
from agentgym.tools.rewards import Reward, reward

__all__ = [
    "Call",
    "FunctionToolEnv",
    "Grammar",
    "Reward",
    "Tool",
    "ToolEnv",
    "ToolError",
    "ToolState",
    "action_grammar",
    "read_call",
    "reward",
    "tool",
    "write_call",
]
