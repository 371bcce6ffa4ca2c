"""Further commands, which the instructions do not list."""

from __future__ import annotations

from agentgym.envs.shell.arguments import Command

COMMANDS: dict[str, Command] = {}
