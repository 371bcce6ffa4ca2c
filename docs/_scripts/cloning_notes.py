"""Notes on behaviour cloning: ids without a result, and solved ids with a harder configuration."""

from __future__ import annotations

import project
from writing import table

HARDER: dict[str, tuple[str, ...]] = {
    "TextNav-Random-v0": ("TextNav-v0", "TextNav-Partial-v0"),
    "Overcooked-TomatoLettuceSalad-v0": ("Overcooked-TomatoSalad-v0",),
    "Household-v0": (
        "VirtualHome-FoodPreparation-v0",
        "VirtualHome-FoodPreparation-Cheese-v0",
        "VirtualHome-FoodPreparation-Hamburger-v0",
        "VirtualHome-FoodPreparation-ApplePie-v0",
        "VirtualHome-FoodPreparation-Pizza-v0",
        "VirtualHome-FoodPreparation-Plate-v0",
        "VirtualHome-FoodPreparation-Laundry-v0",
        "VirtualHome-Entertainment-v0",
    ),
    "PrisonersDilemma-v0": ("PrisonersDilemma-Unknown-v0",),
    "StagHunt-Unknown-v0": ("StagHunt-v0", "StagHunt-Talk-v0"),
    "Chicken-Unknown-v0": ("Chicken-v0", "Chicken-Talk-v0"),
    "RockPaperScissors-Unknown-v0": ("RockPaperScissors-v0", "RockPaperScissors-Talk-v0"),
    "LeducPoker-v0": ("KuhnPoker-v0",),
    "GuessTwoThirds-Unknown-v0": ("GuessTwoThirds-v0",),
    "Team-Countdown-v0": ("Team-NumberLine-v0",),
}
"""Id in which behaviour cloning is not as good as the expert -> similar ids in which it is."""


def skipped() -> str:
    """Returns the ids without behaviour cloning, with their reasons."""
    reasons = project.results("imitation")["skipped"]
    ids = ", ".join(f"`{name}` ({reason})" for name, reason in reasons.items())
    return f"Not cloned: {ids}."


def solved() -> list[str]:
    """Returns the ids in which behaviour cloning has at least the mean reward of the expert."""
    return [
        name
        for name, row in project.results("imitation")["environments"].items()
        if row["imitation"]["reward"] >= row["expert"]["reward"]
    ]


def solved_section() -> list[str]:
    """Returns the section on solved ids."""
    rows = [(", ".join(f"`{n}`" for n in easy), f"`{hard}`") for hard, easy in HARDER.items()]
    return [
        "## Solved by Behaviour Cloning",
        "",
        "In these ids, the cloned policy has at least the expert's mean reward on the same test",
        "tasks. In the harder ones it has not: compare learning methods there.",
        "",
        *table(("Solved", "Harder"), rows),
    ]
