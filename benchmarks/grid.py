"""Recipes x environments x seeds from the same behaviour-cloned policies.

For each environment (`grid/NAME.yaml`) a small model is trained by behaviour cloning on a few
demonstrations. Every run starts from this policy and has the same budget of environment steps. The
learning rate of each recipe and environment is selected from two candidates before, on a separate
seed, by the return on *training* tasks with half the budget. All other settings are the defaults of
the recipe. Finished runs are kept and interrupted ones are resumed, so the same command continues
an interrupted grid.

    python benchmarks/grid.py --jobs 4
    python benchmarks/grid.py --envs salad --recipes poad turn --seeds 0
    python benchmarks/grid.py --report          # results of finished runs

Pieces of the grid, in any order, share a folder of runs and have an `--out` of their own:

    python benchmarks/grid.py --envs tictactoe --recipes poad --seeds 0 --out piece.json
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
import yaml
from grid_tables import OVER_ENVIRONMENTS, THRESHOLDS, over_environments, ranks, tables
from learning import launch
from result_files import versions, write

from agentgym.evaluation.runner import evaluate
from agentgym.trainers.run.logger import critic_curve, read_metrics
from agentgym.trainers.run.sweep import training_return

HERE = Path(__file__).parent
RESULT = HERE / "results" / "grid.json"
RECIPES = "poad ntpo turn twosome bilevel grpo rloo gigpo archer spa istar filtered_bc".split()
# Settings beyond the defaults: groups for recipes with group-relative credit, and shorter
# iterations for the off-policy recipe.
FLAGS: dict[str, tuple[Any, ...]] = {
    **{name: ("--group-size", 8) for name in ("grpo", "rloo", "gigpo", "istar")},
    "archer": ("--episodes-per-iteration", 32, "--eval-every", 8),
}
LEARNING_RATES = (5e-4, 1.2e-3)
TUNING_SEED = 100


@dataclass
class Settings:
    """Settings of the benchmark."""

    envs: tuple[str, ...] = ("salad", "webshop", "cars")
    """Environments, names of files in grid/."""
    recipes: tuple[str, ...] = tuple(RECIPES)
    """Recipes to compare."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of each recipe."""
    jobs: int = 1
    """Runs in parallel."""
    runs: Path = Path("runs/grid")
    """Folder of the runs."""
    out: Path = RESULT
    """Results, and their figure with the suffix .png."""
    report: bool = False
    """Start no runs, and report the finished ones."""


@dataclass(frozen=True)
class Place:
    """An environment of the grid.

    Attributes:
        name: the name of its file.
        runs: the folder of all runs.
    """

    name: str
    runs: Path

    @property
    def config(self) -> Path:
        """The file with the settings of every run."""
        return HERE / "grid" / f"{self.name}.yaml"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of every run."""
        return yaml.safe_load(self.config.read_text(encoding="utf-8"))

    def folder(self, run: str) -> Path:
        """Returns the folder of a run."""
        return self.runs / self.name / run

    def clone_expert(self) -> None:
        """Trains the initial policy of every run by behaviour cloning."""
        launch("poad", self.config, self.folder("start"), ["--iterations", 0])

    def train(self, recipe: str, run: str, seed: int, lr: float, steps: int) -> None:
        """Runs a recipe from the initial policy."""
        start = self.folder("start") / "policy"
        flags = ["--model", start, "--bc-demonstrations", 0, "--seed", seed, "--lr", lr]
        flags += ["--env-steps", steps, *FLAGS.get(recipe, ())]
        launch(recipe, self.config, self.folder(run), flags)

    def can_play(self, recipe: str) -> bool:
        """Returns whether the environment supports a recipe. TWOSOME needs admissible actions."""
        return recipe != "twosome" or bool(self.settings["constrain"])

    def tune(self, recipe: str, lr: float) -> None:
        """Runs the trial of a learning rate."""
        steps = self.settings["env_steps"] // 2
        self.train(recipe, f"tune-{recipe}-{lr:g}", TUNING_SEED, lr, steps)

    def earned(self, recipe: str, lr: float) -> float:
        """Returns the mean training return of the second half of a trial."""
        return training_return(self.folder(f"tune-{recipe}-{lr:g}"))

    def learning_rate(self, recipe: str) -> float:
        """Returns the learning rate with the highest return in its trial."""
        return max(LEARNING_RATES, key=lambda lr: self.earned(recipe, lr))


def play(settings: Settings, places: list[Place]) -> None:
    """Runs all that has not finished: initial policies, trials, then the runs by seed."""
    pairs = [(p, recipe) for p in places for recipe in settings.recipes if p.can_play(recipe)]
    trials = [(*pair, lr) for pair in pairs for lr in LEARNING_RATES]
    runs = [(*pair, seed) for seed in settings.seeds for pair in pairs]

    def run(place: Place, recipe: str, seed: int) -> None:
        lr, steps = place.learning_rate(recipe), place.settings["env_steps"]
        place.train(recipe, f"{recipe}-{seed}", seed, lr, steps)

    with ThreadPoolExecutor(settings.jobs) as pool:
        list(pool.map(Place.clone_expert, places))
        list(pool.map(lambda trial: Place.tune(*trial), trials))
        list(pool.map(lambda item: run(*item), runs))


def summary(place: Place, recipe: str, seed: int, threshold: float) -> dict[str, Any]:
    """Returns the results of a run.

    Args:
        place: the environment.
        recipe: the name of the recipe.
        seed: the seed of the run.
        threshold: the reward that counts as learned.
    """
    rows = read_metrics(place.folder(f"{recipe}-{seed}"))
    curve = np.array([[r["env_steps"], r["eval/reward"]] for r in rows if "eval/reward" in r])
    budget = place.settings["env_steps"]
    steps = np.linspace(0, budget, 201)
    rewards = np.interp(steps, curve[:, 0], curve[:, 1])
    reached = np.flatnonzero(rewards >= threshold)
    iterations = [row for row in rows if "time/update" in row]
    explained = [value for _, value in critic_curve(rows)]
    return {
        "env": place.name,
        "recipe": recipe,
        "seed": seed,
        "final": float(curve[-1, 1]),
        "mean": float(rewards.mean()),
        "steps_to_threshold": float(steps[reached[0]]) if len(reached) else None,
        "explained_variance": round(float(np.mean(explained)), 4) if explained else None,
        "tokens": iterations[-1]["charts/tokens"],
        "seconds": round(sum(r["time/collect"] + r["time/update"] for r in iterations), 1),
        "curve": curve.round(4).tolist(),
    }


def collect(settings: Settings, places: list[Place]) -> dict[str, Any]:
    """Returns the results of all finished runs, with baselines and trials."""
    found: dict[str, Any] = {"versions": versions("torch")}
    found["envs"], found["runs"] = {}, []
    for place in places:
        config = place.settings
        agents = {
            agent: evaluate(
                config["env_id"], agent, tasks=200, env_kwargs=config.get("env_kwargs", {})
            )
            for agent in ("random", "expert")
        }
        rewards = {name: report.aggregate()["reward"].mean for name, report in agents.items()}
        rewards["warm start"] = next(
            row["eval/reward"]
            for row in read_metrics(place.folder("start"))
            if "eval/reward" in row
        )
        runs = [
            summary(place, recipe, seed, THRESHOLDS[place.name])
            for recipe in settings.recipes
            for seed in settings.seeds
            if (place.folder(f"{recipe}-{seed}") / "report.json").exists()
        ]
        tuning = {
            recipe: {f"{lr:g}": round(place.earned(recipe, lr), 4) for lr in LEARNING_RATES}
            for recipe in dict.fromkeys(run["recipe"] for run in runs)
        }
        found["envs"][place.name] = {"config": config, "baselines": rewards, "tuning": tuning}
        found["runs"] += runs
    return found


def draw(found: dict[str, Any], path: Path) -> None:
    """Draws the mean curve of every recipe, one panel per environment."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    envs = list(found["envs"])
    figure = Figure(figsize=(5.2 * len(envs), 5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(envs), squeeze=False)[0]
    recipes = list(dict.fromkeys(run["recipe"] for run in found["runs"]))
    lines = {}
    for env, axes in zip(envs, panels, strict=True):
        about = found["envs"][env]
        steps = np.linspace(0, about["config"]["env_steps"], 201)
        for recipe in ranks(found, env):
            curves = [
                np.interp(steps, *np.array(run["curve"]).T)
                for run in found["runs"]
                if (run["env"], run["recipe"]) == (env, recipe)
            ]
            number = recipes.index(recipe)
            lines[recipe] = axes.plot(
                steps,
                np.mean(curves, axis=0),
                color=colormaps["tab20"](number % 20),
                linestyle=("-", "--")[number % 2],
                linewidth=1.6,
            )[0]
        axes.axhline(about["baselines"]["expert"], color="0.5", linestyle=":")
        axes.set(title=f"{env} ({about['config']['env_id']})", xlabel="environment steps")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("reward on held-out tasks, mean of seeds (dotted: expert)")
    figure.legend(list(lines.values()), list(lines), loc="outside right center")
    figure.savefig(path, dpi=110)


def main(settings: Settings) -> None:
    """Runs the missing runs, then writes and prints all results."""
    places = [Place(name, settings.runs) for name in settings.envs]
    if not settings.report:
        play(settings, places)
    found = collect(settings, places)
    if not found["runs"]:
        raise SystemExit("No run has finished yet.")
    write(settings.out, found)
    draw(found, settings.out.with_suffix(".png"))
    print(tables(found))
    for cells in (OVER_ENVIRONMENTS, *over_environments(found)):
        print("".join(f"{cell:32}" for cell in cells))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
