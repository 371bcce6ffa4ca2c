"""Training of language-model policies: rollouts, credit assignment, losses, recipes."""

import importlib
from typing import TYPE_CHECKING, Any

if __name__ != "agentgym.trainers":
    raise ImportError(
        f"This package is imported as 'agentgym.trainers', not as {__name__!r}. "
        "Install the project (pip install -e .) and write `import agentgym.trainers`."
    )

if TYPE_CHECKING:
    from agentgym.trainers.algorithm import Algorithm as Algorithm
    from agentgym.trainers.api import load_policy as load_policy
    from agentgym.trainers.api import make_trainer as make_trainer
    from agentgym.trainers.api import train as train
    from agentgym.trainers.callbacks import Callback as Callback
    from agentgym.trainers.hooks.run import Run as Run
    from agentgym.trainers.settings.config import TrainConfig as TrainConfig
    from agentgym.trainers.trainer import Trainer as Trainer

_HOMES = {
    "Algorithm": "algorithm",
    "Callback": "callbacks",
    "Run": "hooks.run",
    "TrainConfig": "settings.config",
    "Trainer": "trainer",
    "load_policy": "api",
    "make_trainer": "api",
    "train": "api",
}
__all__ = [
    "Algorithm",
    "Callback",
    "Run",
    "TrainConfig",
    "Trainer",
    "load_policy",
    "make_trainer",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that torch is loaded only then."""
    from agentgym.errors import needs_extra

    if name in _HOMES:
        with needs_extra("agentgym.trainers", "train"):
            return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
