"""The rules of `SearchQA` as its agents read them."""

from __future__ import annotations

from agentgym.envs.search.questions import exact_match, f1
from agentgym.envs.search.reports import REPORT

ANSWERS = {"em": exact_match, "f1": f1}
"""Scores of short answers by name."""
ENDS = "This ends the episode."


def instructions(
    *, generated: bool, documents: bool, counted: bool, score: str, answered: bool, cost: float
) -> str:
    """Returns the rules for the agent.

    Args:
        generated: whether the pages are generated.
        documents: whether they are documents of one's own.
        counted: whether an answer may be a number.
        score: the score of an answer, or a judge of reports.
        answered: whether another model answers from the opened pages.
        cost: cost of a search.
    """
    place = "documents" if documents else "an encyclopedia"
    lines = [
        f"Answer a question with the pages of {place}{' about a made-up world' * generated}.",
        "Each turn, reply with one action and nothing else:",
        "- search[author of The Silver Lantern]: search for pages. Five results are shown.",
        "- open[The Silver Lantern]: read the page with this title.",
    ]
    if answered:
        lines += [f"- answer[]: another model answers from the pages that you opened. {ENDS}"]
    elif score in ANSWERS:
        lines += [f"- answer[Ada Brin]: give your answer. {ENDS}"]
    else:
        lines += [f"- report[...]: write your report of up to {REPORT} characters. {ENDS}"]
    lines += ["Rules:"]
    if not documents:
        lines += ["- The page of a thing states its facts. Facts on gossip pages may be wrong."]
    if answered:
        lines += ["- The other model reads these pages and the question, and nothing else."]
    elif score in ANSWERS:
        number = ", or a number" * counted
        lines += [f"- The answer is a few words, written as on the pages{number}."]
    else:
        lines += ["- The report answers the question by the facts of the pages that you opened."]
    if cost:
        lines += [f"- Each search costs {cost:g}."]
    reward = {"em": "1 if it is right", "f1": "the F1 score of its words"}
    if score in ANSWERS:
        return "\n".join([*lines, f"The reward for the answer is {reward[score]}."])
    return "\n".join([*lines, "The reward for the report is the score of a judge, from 0 to 1."])
