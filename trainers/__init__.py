"""Training of language-model policies: rollouts, credit assignment, losses, recipes."""

import importlib.util
import sys

if __name__ != "agentgym.trainers":
    raise ImportError(
        f"This package is imported as 'agentgym.trainers', not as {__name__!r}. "
        "Install the project (pip install -e .) and write `import agentgym.trainers`."
    )

# Python still looks for the module that `python -m agentgym.trainers.recipes.poad` is to run.
if sys.argv[:1] == ["-m"] and importlib.util.find_spec("torch") is None:
    from agentgym.errors import MissingExtraError

    print(f"error: {MissingExtraError('Training', 'train', 'torch')}", file=sys.stderr)
    sys.exit(2)
