"""Settings of a program of the user that plays the episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt

from agentgym.trainers.settings.fields import Positive
from agentgym.trainers.settings.schema import When, needs

HARNESS = When("harness", of="a program that plays the episodes", remedy="harness to its command")
ONE_AGENT = needs(
    "the program plays episodes of one agent from their start, with the weights of this process",
    opponents="scripted", rollout_workers=0, engine="own", cross_policy=0.0, epsilon=0.0,
)  # fmt: skip
OWN_LOOP = needs(
    "the program decides on the prompts and on the order of actions",
    context="full", continuous_batching=False, normalization=None,
)  # fmt: skip


@dataclass
class ProgramConfig:
    """A program of your own that plays the episodes, in place of the loop of the trainer."""

    harness: Annotated[str, ONE_AGENT, OWN_LOOP] = ""
    """Program that plays the episodes, in training and evaluations: a command such as "python
    my_agent.py", or module:function. It asks the policy at an OpenAI-compatible address and acts in
    the environment through another one, which environment variables name (empty: none)."""
    harness_score: Annotated[str, HARNESS] = ""
    """Function of the finished episode, as module:function, whose number is added to the reward of
    the last turn. It returns a number, numbers by name, or a list with a number for each turn."""
    tasks: Annotated[str, HARNESS] = ""
    """File of tasks, one JSON object per line, for a program with an environment of its own, in
    place of `env_id`. `prompt` is the first observation, and keys that begin with "_" are for
    `harness_score` alone (empty: the tasks of the environment)."""
    harness_seconds: Annotated[float, Gt(0.0), HARNESS] = 600.0
    """Maximum seconds of an episode. A slower program is ended, and its episode is truncated."""
    harness_calls: Annotated[Positive, HARNESS] = 256
    """Maximum number of requests of an episode. Later ones are answered by a request to stop."""
