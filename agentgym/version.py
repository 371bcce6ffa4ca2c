"""The version of AgentGym. `pyproject.toml` has the same one."""

__version__ = "0.1.0"
