"""Families of environments: the packages of `agentgym.envs`."""

from __future__ import annotations

from agentgym.registration.entry import Entry

FAMILIES: dict[str, str] = {
    "webshop": "Web shopping",
    "lmrl": "LMRL-Gym games",
    "household": "Households",
    "virtualhome": "VirtualHome",
    "overcooked": "Overcooked",
    "kitchen": "Asynchronous kitchen",
    "textcraft": "Crafting",
    "planning": "Classical planning",
    "travel": "Travel planning",
    "service": "Customer service",
    "office": "Office tools",
    "clinic": "Clinic",
    "database": "Databases",
    "search": "Search and knowledge",
    "web": "Web pages",
    "tabular": "Tables",
    "diary": "Memory",
    "generation": "Text generation",
    "shell": "Shell",
    "code": "Code",
    "grid": "Grid worlds",
    "baba": "Baba Is AI",
    "crafter": "Crafter",
    "babyai": "BabyAI",
    "puzzle": "Puzzles",
    "worlds": "Generated worlds",
    "numbers": "Numbers",
    "bandit": "Bandits",
    "textworld": "TextWorld",
    "scienceworld": "ScienceWorld",
    "jericho": "Interactive fiction",
    "chess": "Chess",
    "board": "Board games",
    "cards": "Cards and dice",
    "matrix": "Matrix games",
    "social": "Social dilemmas",
    "economics": "Economic games",
    "negotiation": "Negotiation",
    "communication": "Communication games",
    "social_deduction": "Social deduction",
    "team": "Teams",
    "propose_solve": "Tasks by agents",
}
"""Titles of the environment families, in the order of lists and of the site. Others come last."""


def family_of(entry: Entry) -> str:
    """Returns the family of an id: the name of its package under `agentgym.envs`."""
    return entry.entry_point.split(".")[2]


def family_title(family: str) -> str:
    """Returns the title of a family."""
    return FAMILIES.get(family, family.replace("_", " ").capitalize())
