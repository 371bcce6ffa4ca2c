"""The environments of AgentGym: one folder a family, one file an environment."""

if __name__ != "agentgym.envs":
    raise ImportError(
        f"This package is imported as 'agentgym.envs', not as {__name__!r}. "
        "Install the project (pip install -e .) and write `import agentgym.envs`."
    )
