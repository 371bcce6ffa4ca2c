"""Recipes x environments x seeds from the same behaviour-cloned policies.

For each environment (`grid/NAME.yaml`) and seed, a small model is trained by behaviour cloning on a
few demonstrations. All recipes train this policy, with the same budget of environment steps. The
learning rate of each recipe and environment is selected from three candidates before, on a separate
seed, by the return on *training* tasks with half the budget. Recipes with a state-value critic have
one with a model of its own. All other settings are the defaults of the recipe.

Finished runs are kept and interrupted ones are resumed, so the same command continues an
interrupted grid. A finished run with other settings is an error. Results in `--out` stay as long as
the settings of their environment and their recipe are the same, also without their runs, so that
seeds, recipes and environments can be added.

    python benchmarks/learning/grid.py --jobs 4
    python benchmarks/learning/grid.py --envs dice --recipes poad turn --seeds 0
    python benchmarks/learning/grid.py --report          # results of finished runs
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
import yaml

from agentgym.errors import ConfigError
from agentgym.evaluation.runner import evaluate
from agentgym.evaluation.runs import training_return
from agentgym.trainers.run.logger import critic_curve, read_metrics
from benchmarks.figures.grid_tables import OVER_ENVIRONMENTS, over_environments, ranks, tables
from benchmarks.learning.learning import launch
from benchmarks.shared.parallel_jobs import end, finished
from benchmarks.shared.result_files import RESULTS, read, refuse_other, versions, whole, write

HERE = Path(__file__).parent
RESULT = RESULTS / "grid.json"
ENVS = ("questions", "forms", "words", "line", "dice")
CRITIC = ("poad", "ntpo", "bilevel", "turn", "vl_dac", "vetta", "poad, muon")
"""Recipes with a state-value critic, and a variant of one."""
GROUPS = "grpo rloo gigpo hgpo gagpo g2po graphgpo istar".split()
"""Recipes that compare episodes with the same start."""
VARIANTS = ("poad, head", "poad, muon", "rloo, pairs")
"""POAD with the default critic, a head on the policy, POAD with Muon in place of AdamW for hidden
matrices, and RLOO with groups of two episodes, that is more tasks per iteration. The recipe is the
part before the comma."""
RECIPES = (
    *(name for name in CRITIC if name not in VARIANTS),
    *"archer vine rae single_stream spa filtered_bc".split(),
    *GROUPS,
    *VARIANTS,
)
SMALLER = {"vine": 4}
"""Divisors of the episodes per iteration, of a recipe whose continuations are environment steps
too."""
FLAGS: dict[str, tuple[Any, ...]] = {
    **{name: ("--group-size", 8) for name in GROUPS},
    "rloo, pairs": ("--group-size", 2),
    **{
        name: ("--critic-backbone", "separate", "--critic-window", 1, "--critic-lr", 2e-3)
        for name in CRITIC
    },
}
FLAGS["poad, muon"] += ("--optimizer", "muon")
"""Settings of recipes beyond their defaults."""
CHOSEN = "model bc_demonstrations env_steps episodes_per_iteration eval_every eval_episodes".split()
"""Settings of environments that runs and trials replace."""
LEARNING_RATES = (2e-4, 5e-4, 1.2e-3)
TUNING_SEED = 100
EQUAL = "credit/group/all_equal"
"""Metric of the groups in which all returns are equal."""
LEARNED = 0.9
"""Part of the way from the random agent's reward to the expert's that counts as learned."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    envs: tuple[str, ...] = ENVS
    """Environments, names of files in grid/."""
    recipes: tuple[str, ...] = RECIPES
    """Recipes to compare."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
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
        return self.runs / self.name / run.replace(", ", "-")

    def clone_expert(self, seed: int) -> None:
        """Trains the initial policy of the runs with a seed by behaviour cloning."""
        flags = ["--seed", seed, "--iterations", 0, "--eval-every", 0, "--eval-episodes", 0]
        launch("poad", self.config, self.folder(f"start-{seed}"), flags)

    def train(self, recipe: str, run: str, seed: int, lr: float, steps: int, *others: Any) -> None:
        """Runs a recipe, with other flags, from the initial policy of a seed."""
        settings, divisor = self.settings, SMALLER.get(recipe, 1)
        start = self.folder(f"start-{seed}") / "policy"
        flags = ["--model", start, "--bc-demonstrations", 0, "--seed", seed, "--lr", lr]
        flags += ["--env-steps", steps, *FLAGS.get(recipe, ())]
        flags += ["--episodes-per-iteration", settings["episodes_per_iteration"] // divisor]
        flags += ["--eval-every", settings["eval_every"] * divisor, *others]
        launch(recipe.partition(",")[0], self.config, self.folder(run), flags)

    def tune(self, recipe: str, lr: float) -> None:
        """Runs the trial of a learning rate."""
        steps = self.settings["env_steps"] // 2
        flags = ("--eval-every", 0, "--eval-episodes", 0)
        self.train(recipe, f"tune-{recipe}-{lr:g}", TUNING_SEED, lr, steps, *flags)

    def earned(self, recipe: str) -> dict[str, float]:
        """Returns the mean training return of the second half of finished trials by rate."""
        runs = {f"{lr:g}": f"tune-{recipe}-{lr:g}" for lr in LEARNING_RATES}
        return {
            lr: round(training_return(self.folder(run)), 4)
            for lr, run in runs.items()
            if self.finished(run)
        }

    def finished(self, run: str) -> bool:
        """Returns whether a run has finished.

        Raises:
            SystemExit: if it has, with other settings than those of the environment.
        """
        folder = self.folder(run)
        if not (folder / "report.json").exists():
            return False
        before = json.loads((folder / "config.json").read_text(encoding="utf-8"))["config"]
        fixed = {name: value for name, value in self.settings.items() if name not in CHOSEN}
        refuse_other(folder, before, fixed, "--runs")
        return True


def own(recipe: str) -> list[Any]:
    """Returns the settings of a recipe beyond those of environments, with its divisor."""
    return [SMALLER.get(recipe, 1), *FLAGS.get(recipe, ())]


def earlier(path: Path) -> dict[str, Any]:
    """Returns the results in a file, without those of environments and recipes that changed."""
    found = read(path)
    now = {name: Place(name, Path()).settings for name in ENVS}
    changed = {name for name, before in found.get("recipes", {}).items() if before != own(name)}
    envs = {k: about for k, about in found.get("envs", {}).items() if about["config"] == now.get(k)}
    for about in envs.values():
        about["tuning"] = {k: v for k, v in about["tuning"].items() if k not in changed}
    runs = [r for r in found.get("runs", ()) if r["env"] in envs and r["recipe"] not in changed]
    return {"envs": envs, "runs": runs}


def play(
    settings: Settings, places: list[Place], known: Mapping[str, Any]
) -> dict[str, BaseException]:
    """Runs all that has not finished: initial policies, trials, then the runs by seed.

    Returns:
        The errors of those that fail, by name.
    """
    done = {(run["env"], run["recipe"], run["seed"]) for run in known["runs"]}
    tuned = {name: about["tuning"] for name, about in known["envs"].items()}
    runs = [
        (place, recipe, seed)
        for seed in settings.seeds
        for place in places
        for recipe in settings.recipes
        if (place.name, recipe, seed) not in done
    ]
    trials = [
        (place, recipe, lr)
        for place, recipe in dict.fromkeys((place, recipe) for place, recipe, _ in runs)
        for lr in LEARNING_RATES
        if recipe not in tuned.get(place.name, {})
    ]
    starts = dict.fromkeys((place, TUNING_SEED) for place, *_ in trials)
    starts |= dict.fromkeys((place, seed) for place, _, seed in runs)

    def run(place: Place, recipe: str, seed: int) -> None:
        returns = tuned.get(place.name, {}).get(recipe)
        if returns is None and len(returns := place.earned(recipe)) < len(LEARNING_RATES):
            raise ConfigError("not all trials of its learning rates have finished.")
        lr, steps = float(max(returns, key=lambda rate: returns[rate])), place.settings["env_steps"]
        place.train(recipe, f"{recipe}-{seed}", seed, lr, steps)

    failed: dict[str, BaseException] = {}
    for function, stage in ((Place.clone_expert, starts), (Place.tune, trials), (run, runs)):
        jobs = {f"{place.name} {' '.join(map(str, of))}": (place, *of) for place, *of in stage}
        list(finished(ThreadPoolExecutor(settings.jobs), function, jobs, failed))
    return failed


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
    equal = [row[EQUAL] for row in iterations if EQUAL in row]
    return {
        "env": place.name,
        "recipe": recipe,
        "seed": seed,
        "final": float(curve[-1, 1]),
        "mean": float(rewards.mean()),
        "steps_to_threshold": float(steps[reached[0]]) if len(reached) else None,
        "explained_variance": round(float(np.median(explained)), 4) if explained else None,
        "equal_groups": round(float(np.mean(equal)), 4) if equal else None,
        "tokens": iterations[-1]["charts/tokens"],
        "seconds": round(sum(r["time/collect"] + r["time/update"] for r in iterations), 1),
        "curve": curve.round(4).tolist(),
    }


def collect(settings: Settings, places: list[Place], known: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the results of all finished runs, with baselines and trials, and the known ones."""
    runs = {(run["env"], run["recipe"], run["seed"]): run for run in known["runs"]}
    envs = dict(known["envs"])
    for place in places:
        config = place.settings
        agents = {
            agent: whole(
                evaluate(
                    config["env_id"], agent, tasks=200, env_kwargs=config.get("env_kwargs", {})
                )
            )
            for agent in ("random", "expert")
        }
        rewards = {name: report.aggregate()["reward"].mean for name, report in agents.items()}
        threshold = rewards["random"] + LEARNED * (rewards["expert"] - rewards["random"])
        tuning = dict(envs.get(place.name, {"tuning": {}})["tuning"])
        for recipe in settings.recipes:
            for seed in settings.seeds:
                key = place.name, recipe, seed
                if key not in runs and place.finished(f"{recipe}-{seed}"):
                    runs[key] = summary(place, recipe, seed, threshold)
            if len(returns := place.earned(recipe)) == len(LEARNING_RATES):
                tuning[recipe] = returns
        starts = [run["curve"][0][1] for run in runs.values() if run["env"] == place.name]
        if starts:
            rewards["warm start"] = float(np.mean(starts))
            about = {"config": config, "baselines": rewards, "threshold": threshold}
            envs[place.name] = about | {"tuning": tuning}
    ordered = {name: envs[name] for name in ENVS if name in envs}
    return {
        "versions": versions("torch"),
        "recipes": {recipe: own(recipe) for _, recipe, _ in runs},
        "envs": ordered,
        "runs": list(runs.values()),
    }


def draw(found: dict[str, Any], path: Path) -> None:
    """Draws the mean curve of every recipe, one panel per environment."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    envs = list(found["envs"])
    columns = 2 if len(envs) > 3 else len(envs)
    rows = -(-len(envs) // columns)
    figure = Figure(figsize=(5.2 * columns, 4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[len(envs) :]:
        axes.set_axis_off()
    recipes = list(dict.fromkeys(run["recipe"] for run in found["runs"]))
    lines = {}
    for env, axes in zip(envs, panels, strict=False):
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
                linestyle=("-", "--", ":", "-.")[number % 2 + number // 20 * 2],
                linewidth=1.6,
            )[0]
        axes.axhline(about["baselines"]["expert"], color="0.5", linestyle=":")
        axes.set(title=f"{env} ({about['config']['env_id']})", xlabel="environment steps")
        axes.grid(alpha=0.3)
    figure.supylabel("reward on held-out tasks, mean of seeds (dotted: expert)")
    figure.legend(list(lines.values()), list(lines), loc="outside right center")
    figure.savefig(path, dpi=110)


def main(settings: Settings) -> None:
    """Runs the missing runs, then writes and prints all results."""
    places = [Place(name, settings.runs) for name in settings.envs]
    known = earlier(settings.out)
    failed = {} if settings.report else play(settings, places, known)
    found = collect(settings, places, known)
    if not found["runs"]:
        raise SystemExit("No run has finished yet.")
    write(settings.out, found)
    draw(found, settings.out.with_suffix(".png"))
    print(tables(found))
    for cells in (OVER_ENVIRONMENTS, *over_environments(found)):
        print("".join(f"{cell:32}" for cell in cells))
    end(failed)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
