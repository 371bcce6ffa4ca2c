"""Pages of the API reference: which objects, in which order. The text comes from docstrings.

Objects are imported, so that a page follows a class that moves to another module.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import agentgym
from agentgym import (
    agents,
    core,
    errors,
    reading,
    rendering,
    sandbox,
    snapshots,
    spaces,
    tasks,
    testing,
    time_step,
    tools,
    wrappers,
)
from agentgym.agents import scaffolds
from agentgym.agents.basic.view import View
from agentgym.envs.team import importance, team_search
from agentgym.envs.team.roles import Role
from agentgym.evaluation.report import Estimate, Record, Report, compare
from agentgym.evaluation.runner import evaluate
from agentgym.multiagent.aec import AECGame
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.parallel import ParallelGame
from agentgym.multiagent.rules import GameRules, InvalidMove
from agentgym.registration.entry import Entry
from agentgym.registration.making import make_env
from agentgym.registration.single_seat import SingleSeat
from agentgym.trainers import algorithm
from agentgym.trainers.api import LoadedPolicy, PlayedEpisode, load_policy, train
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.credit import chunk, group, normalize, turn_rewards, two_clock
from agentgym.trainers.data import batch, learn, trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.settings import groups_of
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.kinds import (
    ActorCriticConfig,
    GroupConfig,
    ImitationConfig,
    PolicyGradientConfig,
    PreferenceConfig,
    RewardedConfig,
)
from agentgym.trainers.trainer import Trainer

KINDS = [
    PolicyGradientConfig,
    RewardedConfig,
    ActorCriticConfig,
    GroupConfig,
    ImitationConfig,
    PreferenceConfig,
]
PAGES: dict[str, tuple[str, str, list[Any]]] = {
    "agentgym": (
        "agentgym",
        "The top level of the package. `import agentgym` registers every environment.",
        [
            agentgym.make_aec,
            agentgym.make_parallel,
            agentgym.register_game,
            agentgym.textify,
            agentgym.ToolEnvironment,
            agentgym.tool_rows,
            Entry,
        ],
    ),
    "core": (
        "Environment contract",
        "The base class of text environments, the result of one turn, and snapshots of "
        "environments in wrappers.",
        [
            core.TextEnv,
            time_step.TimeStep,
            core.UnreadableAction,
            snapshots.snapshot_of,
            snapshots.restore_snapshot,
        ],
    ),
    "rendering": (
        "Pictures",
        "Scenes of cells, which environments and games declare, and how they are drawn.",
        [
            rendering.Scene,
            rendering.Cell,
            rendering.from_map,
            rendering.hand,
            rendering.card,
            rendering.table,
            rendering.draw,
        ],
    ),
    "tasks": (
        "Tasks and spaces",
        "Names of tasks, their split into training and test tasks, and the text space.",
        [tasks.Tasks, tasks.NumberedTasks, tasks.task_rng, spaces.UnicodeText],
    ),
    "tools": (
        "Tools",
        "Python functions as tools of an agent, environments of tools, and tool calls as text. See "
        "[Your own tools](../tutorials/own_tools.md).",
        [
            agentgym.tool,
            tools.Tool,
            tools.ToolError,
            tools.ToolEnv,
            tools.FunctionToolEnv,
            tools.ToolState,
            tools.Call,
            tools.Grammar,
            tools.action_grammar,
            tools.read_call,
            tools.write_call,
        ],
    ),
    "reading": (
        "Reading of free text",
        "Readers of people's and models' words, by value and as a whole. Each accounts for all "
        "that it reads, or raises `NotUnderstood` with the reason.",
        [
            reading.normalized,
            reading.without_end_marks,
            reading.final_answer,
            reading.find_numbers,
            reading.Number,
            reading.parse_number,
            reading.parse_whole,
            reading.same_number,
            reading.find_dates,
            reading.Date,
            reading.find_clauses,
            reading.Clause,
            reading.asserted,
            reading.read_counts,
            reading.NotUnderstood,
        ],
    ),
    "sandbox": (
        "Sandbox",
        "Untrusted Python programs under limits, with Monty or confined CPython (extra `code`).",
        [
            sandbox.run_program,
            sandbox.run_cell,
            sandbox.run_calls,
            sandbox.check_sandbox,
            sandbox.Limits,
            sandbox.Outcome,
            sandbox.Cell,
        ],
    ),
    "multiagent": (
        "Multi-agent games",
        "The rules of a game, its PettingZoo environments, and one seat of it as a Gymnasium "
        "environment.",
        [
            *(TextGame, GameRules, InvalidMove, AECGame, ParallelGame, SingleSeat),
            *(agentgym.Team, Role, importance.team_importance, importance.TeamImportance),
            *(team_search.search_team, team_search.TeamSearch),
        ],
    ),
    "wrappers": (
        "Wrappers",
        "Every wrapper also has [a page of its own](../wrappers/index.md).",
        [wrappers.TextWrapper, wrappers.Transition],
    ),
    "agents": (
        "Agents",
        "Agents that play environments, made by name or from their classes.",
        [
            agents.make_agent,
            agents.Agent,
            View,
            agents.RandomAgent,
            agents.ExpertAgent,
            agents.HumanAgent,
            agents.ChatAgent,
            agents.SearchAgent,
            scaffolds.ScaffoldAgent,
            *scaffolds.SCAFFOLDS.values(),
            PolicyAgent,
        ],
    ),
    "evaluation": (
        "Evaluation",
        "Evaluation of agents on held-out tasks, with confidence intervals.",
        [evaluate, make_env, Report, Record, Estimate, compare],
    ),
    "trainers": (
        "Trainer",
        "Training from Python, settings, callbacks and trajectories. Needs the extra `train`.",
        [
            train,
            load_policy,
            LoadedPolicy,
            PlayedEpisode,
            Callback,
            Run,
            trajectory.Trajectory,
            trajectory.RolloutStats,
            trajectory.Turn,
            trajectory.Segment,
            trajectory.Support,
            batch.Batch,
            batch.Values,
            batch.Credit,
            TrainConfig,
            algorithm.Algorithm,
            algorithm.PolicyGradient,
            algorithm.Imitation,
            algorithm.Preference,
            Trainer,
            RecipeHooks,
            learn.Learn,
            learn.Pair,
            Policy,
            LanguageModel,
            Sampling,
            ContextSettings,
        ],
    ),
    "settings": (
        "Settings",
        "The kinds of recipes, and their groups of settings. On the command line, flags are flat.",
        [*KINDS, *groups_of(ActorCriticConfig).values()],
    ),
    "credit": (
        "Credit assignment",
        "Estimators map a `Batch` and `Values` to a `Credit`, without a model.",
        [two_clock, chunk, group, turn_rewards, normalize],
    ),
    "testing": (
        "Tests of credit",
        "What every function that assigns credit keeps, and its bias and noise.",
        [
            testing.check_credit,
            testing.credit_quality,
            testing.CreditQuality,
            testing.Episodes,
            testing.CreditError,
        ],
    ),
    "errors": ("Errors", "Exceptions for callers.", [errors]),
}


BEHIND = ("---", "search:", "  boost: 0.01", "---", "")
"""Front matter: in the search, names of the API stand behind the pages that explain them."""


def pages() -> dict[str, str]:
    """Returns the generated Markdown by path."""
    found = {"reference/index.md": _index()}
    for name, (title, summary, objects) in PAGES.items():
        lines = [*BEHIND, f"# {title}", "", summary]
        for thing in objects:
            lines += ["", f"::: {identifier(thing)}"]
        found[f"reference/{name}.md"] = "\n".join(lines) + "\n"
    return found


def navigation() -> list[Any]:
    """Returns the section of the navigation."""
    lines = ({title: f"reference/{name}.md"} for name, (title, _, _) in PAGES.items())
    return ["reference/index.md", *lines]


def identifier(thing: Any) -> str:
    """Returns the dotted path of a module, class or function."""
    if isinstance(thing, ModuleType):
        return thing.__name__
    return f"{inspect.unwrap(thing).__module__}.{thing.__qualname__}"


def _index() -> str:
    lines = ["# API reference", "", "The public API, from docstrings.", ""]
    lines += [f"- [{title}]({name}.md): {text}" for name, (title, text, _) in PAGES.items()]
    return "\n".join(lines) + "\n"
