"""Training of language-model policies: rollouts, credit assignment, losses, recipes."""

if __name__ != "agentgym.trainers":
    raise ImportError(
        f"This package is imported as 'agentgym.trainers', not as {__name__!r}. "
        "Install the project (pip install -e .) and write `import agentgym.trainers`."
    )
