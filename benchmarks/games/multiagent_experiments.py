"""The experiments of the multi-agent benchmark: settings of their runs, and their measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.games import multiagent_measures as measures
from benchmarks.games.multiagent_demonstrations import MATCHES, matches_of_tit_for_tat
from benchmarks.games.multiagent_measures import Measures, Points
from benchmarks.games.multiagent_settings import (
    CENTRAL,
    CLONED,
    COOK_VARIANTS,
    COOKS,
    ENTROPY,
    NANO,
    NOT_CLONED,
    POKER,
)


@dataclass(frozen=True)
class Experiment:
    """Training runs to compare, and their measure.

    Attributes:
        goal: the result that is hoped for.
        recipe: the recipe of all variants, unless a variant names its own.
        settings: the settings of all variants.
        variants: the further settings of each variant, by name.
        measure: returns numbers for the folder of a finished run.
        curve: a metric of training, or a function that returns a curve for the folder of a run.
        axes: the quantities of the curve.
        across: returns numbers for the folders of all seeds of a variant, if there are several.
        demonstrate: writes a file of episodes that are cloned before RL.
    """

    goal: str
    recipe: str
    settings: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    measure: Callable[[Path], Measures]
    curve: str | Callable[[Path], Points] = "rollout/return"
    axes: tuple[str, str] = ("environment steps", "return in training")
    across: Callable[[Sequence[Path]], Measures] | None = None
    demonstrate: Callable[[Path], None] | None = None

    def points(self, folder: Path) -> Points:
        """Returns the curve of a finished run."""
        if isinstance(self.curve, str):
            return measures.metric_curve(folder, self.curve)
        return self.curve(folder)


EXPERIMENTS: dict[str, Experiment] = {
    "kuhn": Experiment(
        goal="NashConv of the average policy below 0.1",
        recipe="rae",
        settings=POKER | {"env_id": "KuhnPoker-v0"},
        variants={
            "mirror": {"opponents": ["mirror=1", "past:20=0"]},
            "mirror, moving reference": {
                "opponents": ["mirror=1", "past:20=0"],
                "kl_coef": 0.2,
                "kl_reference": "moving:10",
            },
            "mirror, moving reference, central critic": {"recipe": "turn", **CENTRAL},
            "league": {"opponents": ["league=0.5", "mirror=0.5"]},
            "league, moving reference, central critic": {
                "recipe": "turn",
                **CENTRAL,
                "opponents": ["league=0.5", "mirror=0.5"],
            },
            "league in a fifth of games, moving reference, central critic": {
                "recipe": "turn",
                **CENTRAL,
                "opponents": ["league=0.2", "mirror=0.8"],
            },
            "league in a fifth of games, moving reference, central critic, 300 iterations": {
                "recipe": "turn",
                **CENTRAL,
                "opponents": ["league=0.2", "mirror=0.8"],
                "iterations": 300,
            },
            "psro:nash": {"opponents": "psro:nash", "payoff_deals": 200},
        },
        measure=measures.exploitability,
        curve=measures.exploitability_curve,
        axes=("iteration", "NashConv"),
    ),
    "leduc": Experiment(
        goal="exploitability of the average policy at most 0.5, that is NashConv at most 1",
        recipe="turn",
        settings=POKER | {"env_id": "LeducPoker-v0"},
        variants={
            "mirror, moving reference, central critic": CENTRAL,
            "mirror, much entropy, central critic": ENTROPY,
        },
        measure=measures.exploitability,
        curve=measures.exploitability_curve,
        axes=("iteration", "NashConv"),
    ),
    "tictactoe": Experiment(
        goal="no loss in 500 games against random, and draws with perfect play (reached: at most "
        "0.005 and 0.02 of games lost, the mean of three seeds)",
        recipe="turn",
        settings=NANO
        | {
            "env_id": "TicTacToe-v0",
            "episodes_per_iteration": 256,
            "num_envs": 256,
            "iterations": 80,
            "lr": 1e-3,
            "lr_schedule": "linear",
            "entropy_coef": 0.03,
        },
        variants={
            "mirror": {"opponents": "mirror", "gamma": 0.97},
            "expert iteration": {
                "recipe": "exit",
                "opponents": "mirror",
                "env_kwargs": {"board": "line"},
                "train_tasks": 1,
                "teacher": "search:mcts,budget=800,per_state=true",
                "visited": True,
                "epsilon": 0.8,
                "explorers": "one",
                "replayed": 4000,
                "iterations": 200,
                "epochs": 1,
                "minibatches": 94,
                "entropy_coef": 0.0,
            },
            "cloned from perfect play": CLONED
            | {
                "opponents": "mirror",
                "gamma": 0.97,
                "iterations": 0,
                "bc_demonstrations": 1500,
                "bc_epochs": 6,
            },
        },
        measure=measures.tictactoe,
        curve="rollout/player_0/return",
        axes=("environment steps", "return of the first player in training"),
    ),
    "cooks": Experiment(
        goal="two cooks who both learn serve more per step than one beside a scripted cook",
        recipe="turn",
        settings=COOKS,
        variants=COOK_VARIANTS,
        measure=measures.cooks,
    ),
    "cooks_in_a_hurry": Experiment(
        goal="with half of the time, the pair serves more per step than one beside a planner",
        recipe="turn",
        settings=COOKS
        | {
            "env_kwargs": COOKS["env_kwargs"] | {"horizon": 28},
            "bc_demonstrations": 300,
            "bc_epochs": 5,
            "episodes_per_iteration": 48,
            "num_envs": 48,
            "entropy_coef": 0.01,
        },
        variants=COOK_VARIANTS,
        measure=measures.cooks,
    ),
    "dilemma": Experiment(
        goal="advantage alignment keeps the cooperation that independent learners lose",
        recipe="advantage_alignment",
        settings=NANO
        | CLONED
        | {
            "env_id": "PrisonersDilemma-v0",
            "train_tasks": len(MATCHES),
            "eval_temperature": 1.0,
            "opponents": "mirror",
            "bc_epochs": 6,
            "episodes_per_iteration": 64,
            "group_size": 16,
            "num_envs": 64,
            "iterations": 60,
            "epochs": 1,
            "lr": 1e-3,
        },
        variants={
            "cloned": {"iterations": 0},
            "independent": {"beta": 0.0},
            "alignment": {"beta": 1.0},
            "alignment, beta 3": {"beta": 3.0},
        },
        measure=measures.dilemma,
        axes=("environment steps", "payoff per round in training"),
        demonstrate=matches_of_tit_for_tat,
    ),
    "branches": Experiment(
        goal="at_grpo learns more than independent samples from as many environment steps",
        recipe="at_grpo",
        settings=NANO
        | CLONED
        | {
            "env_id": "Team-NumberLine-v0",
            "env_kwargs": {
                "env_kwargs": {"size": 6, "max_turns": 8},
                "roles": [
                    {"name": "adviser", "kind": "act", "instructions": "Propose a move."},
                    {"name": "mover", "kind": "act", "instructions": "Decide on the move."},
                ],
            },
            "opponents": "mirror",
            "eval_temperature": 1.0,
            "bc_demonstrations": 32,
            "bc_epochs": 6,
            "bc_batch_tokens": 8192,
            "bc_lr": 2e-3,
            "group_size": 4,
            "num_envs": 128,
            "env_steps": 40_000,
            "iterations": 1000,
            "target_kl": 0.1,
            "entropy_coef": 0.02,
            "lr": 5e-4,
        },
        variants={
            "cloned": {"iterations": 0, "env_steps": None},
            "branches": {"episodes_per_iteration": 32},
            "branches, rewards of turns": {"episodes_per_iteration": 32, "outcome": "reward"},
            "independent": {"recipe": "dr_mas", "episodes_per_iteration": 128},
        },
        measure=measures.team_success,
    ),
    "scales": Experiment(
        goal="statistics per agent: gradients of roles with different rewards are as large",
        recipe="dr_mas",
        settings=NANO
        | {
            "env_id": "benchmarks.games.two_scales:AgentGym/TwoScales-v0",
            "opponents": "mirror",
            "roles": "separate",
            "group_size": 8,
            "episodes_per_iteration": 128,
            "num_envs": 128,
            "iterations": 30,
            "epochs": 1,
            "lr": 1e-3,
        },
        variants={"per agent": {}, "over all agents": {"by_agent": False}},
        measure=measures.two_scales,
        curve="rollout/player_0/success",
        axes=("environment steps", "right answers of player 0"),
    ),
    "codenames": Experiment(
        goal="spymaster and guesser both learn: more wins than after behaviour cloning",
        recipe="turn",
        settings=NANO
        | CLONED
        | {
            "env_id": "Codenames-Menu-v0",
            "env_kwargs": {"opponents": "random"},
            "opponents": "mirror",
            "learners": ["player_0", "player_1"],
            "eval_temperature": 1.0,
            "bc_demonstrations": 60,
            "bc_epochs": 10,
            "episodes_per_iteration": 32,
            "num_envs": 32,
            "iterations": 20,
            "epochs": 1,
            "critic_detach": True,
            "lr": 5e-4,
        },
        variants={
            "cloned": {"iterations": 0},
            "both learn": {},
            "spymaster learns": {"learners": ["player_0"]},
            "guesser learns": {"learners": ["player_1"]},
        },
        measure=measures.codenames,
    ),
    "referential": Experiment(
        goal="a shared reward improves the speaker and the listener after cloning",
        recipe="magrpo",
        settings=NANO
        | CLONED
        | {
            "model": "reader",
            "env_id": "ReferentialGame-Menu-v0",
            "env_kwargs": {"rounds": 1, "objects": 3, "values": 4, "max_words": 1},
            "opponents": "mirror",
            "eval_temperature": 1.0,
            "bc_demonstrations": 6000,
            "bc_epochs": 10,
            "group_size": 8,
            "episodes_per_iteration": 256,
            "num_envs": 256,
            "iterations": 70,
            "epochs": 1,
            "entropy_coef": 0.003,
            "lr": 1e-3,
        },
        variants={
            "nothing cloned": NOT_CLONED,
            "800 games cloned": {"iterations": 0, "bc_demonstrations": 800, "bc_epochs": 5},
            "both learn": {},
            "both learn, entropy bonus": {"entropy_coef": 0.03},
            "both learn, without groups": {
                "recipe": "rae",
                "group_size": 1,
                "lr": 3e-4,
                "entropy_coef": 0.01,
                "iterations": 200,
            },
        },
        measure=measures.referential,
        across=measures.cross_play_of_seeds,
    ),
    "signalling": Experiment(
        goal="a shared reward completes a half-cloned code: success above that of the clone",
        recipe="rae",
        settings=NANO
        | CLONED
        | {
            "env_id": "ReferentialGame-Menu-v0",
            "env_kwargs": {
                "rounds": 1,
                "objects": 4,
                "attributes": 1,
                "values": 4,
                "max_words": 1,
                "pick_by": "words",
            },
            "opponents": "mirror",
            "eval_temperature": 1.0,
            "bc_demonstrations": 500,
            "bc_epochs": 10,
            "episodes_per_iteration": 256,
            "num_envs": 256,
            "iterations": 80,
            "epochs": 2,
            "entropy_coef": 0.01,
            "lr": 5e-4,
            "lr_schedule": "linear",
            "target_kl": 0.1,
        },
        variants={
            "nothing cloned": NOT_CLONED,
            "cloned": {"iterations": 0},
            "both learn": {},
            "both learn, a policy each": {"roles": "separate"},
        },
        measure=measures.referential,
        across=measures.cross_play_of_seeds,
    ),
}
