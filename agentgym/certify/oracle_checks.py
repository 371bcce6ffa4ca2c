"""Checks of the expert and of the tasks that it plays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set

import numpy as np

from agentgym.certify.episodes import Episode, expert, mean, standard_error
from agentgym.certify.findings import FLOOR, ORACLE, SEMANTIC, SNAPSHOTS, Finding, Unchecked, check
from agentgym.certify.subject import EXPERT, Subject

TINY = 1e-6
WORDS = re.compile(r"[^\W\d_]{4,}|\d{2,}")
MARGIN = 0.1
"""Share of the range by which a return has to differ."""
LEAKED, ABOVE_CONTROL = 0.3, 0.2
"""Share of the words of an answer in the prompt that is a leak, and by how much it exceeds that of
wrong answers."""
LISTED = 4
"""Admissible actions of a list in which a place can be a hint."""
SEEDS = 10
"""Seeds of the episodes of one task whose returns are compared."""
NO_RANGE = "the expert earns no more than the floor"
VARIANCE = 0.2
"""Variance of the return of one task, in units of the squared range."""


def solved_elsewhere(subject: Subject, number: int) -> bool:
    """Returns whether another player, a search, or the expert with other luck solves a task."""
    others = [played[number] for played in subject.record.values() if number < len(played)]
    task = subject.experts[number].task
    searches = [search for search in subject.searches if search.task == task]
    if any(each.success for each in others) or any(each.solved for each in searches):
        return True
    seeds = range(SEEDS) if subject.uncertain else ()
    return any(subject.play(task, expert, seed=seed).success for seed in seeds)


@check(
    ORACLE,
    "Mend `expert`, or the reward that it does not reach.",
    needs=(*SEMANTIC, SNAPSHOTS),
    declarable=False,
)
def oracle_max(subject: Subject) -> list[Finding]:
    """There is an expert that solves each solvable task, and no search earns more."""
    if not subject.has_expert:
        return [Finding("`expert` returns None")]
    if subject.uncertain:  # luck decides single tasks, and a search knows hidden facts
        return outdone(subject)
    found = []
    for number, episode in enumerate(subject.experts):
        if not episode.success and solved_elsewhere(subject, number):
            text = f"task {episode.task}: the expert fails, another player succeeds"
            found.append(Finding(text))
    margin = MARGIN * max(subject.range, 0.0)
    for own, search in zip(subject.experts, subject.searches, strict=False):
        best = None if search.cycle else search.solved  # a cycle is a finding of its own
        if own.success and best is not None and best.total > own.total + margin + TINY:
            text = f"task {own.task}: a search earns {best.total:.3f}, the expert {own.total:.3f}"
            found.append(Finding(text, "warn"))
    return found


def outdone(subject: Subject) -> list[Finding]:
    """Returns the players that succeed more often than the expert, by more than chance."""
    found = []
    for player, played in subject.record.items():
        pairs = zip(subject.experts, played, strict=False)
        more = np.array([float(other.success) - float(own.success) for own, other in pairs])
        if more.mean() > 2 * standard_error(more) + TINY:
            text = f"{player}: success {subject.success(player):.0%}"
            found.append(Finding(f"{text}, the expert {subject.success(EXPERT):.0%}", "warn"))
    return found


@check(
    "semantic.unsolvable_tasks",
    "Generate tasks that have a solution, or leave the others out of Tasks.",
    needs=(*SEMANTIC, ORACLE),
)
def unsolvable_tasks(subject: Subject) -> list[Finding]:
    """Every task is solved by the expert, another player or a search."""
    failed = [
        episode.task
        for number, episode in enumerate(subject.experts)
        if not episode.success and not solved_elsewhere(subject, number)
    ]
    if not failed:
        return []
    severity = "warn" if subject.uncertain else "fail"
    share = f"{len(failed)} of {len(subject.experts)} tasks"
    return [Finding(f"{share} are solved by nobody: {', '.join(failed[:5])}", severity)]


def words_of(text: str) -> list[str]:
    """Returns the long words and numbers of a text, in order."""
    return WORDS.findall(text.casefold())


def shown(words: list[str], prompt: list[str], *, in_a_row: bool) -> float:
    """Returns the share of the words that a prompt shows.

    Args:
        words: words of an action, at least one.
        prompt: words of the prompt.
        in_a_row: whether they count only together, one after the other: where actions are made of
            the words of the prompt, as in arithmetic, each of them alone is no leak.
    """
    if not in_a_row:
        return len({*words} & {*prompt}) / len({*words})
    count = len(words)
    return float(any(prompt[at : at + count] == words for at in range(len(prompt))))


def prompt_shares(subject: Subject, ignored: Set[str]) -> tuple[float, float] | None:
    """Returns the share of the words of last actions that prompts show, and that of wrong actions.

    Args:
        subject: the environment.
        ignored: words that do not count.

    Returns:
        The two shares, or None if no word is left or there are no wrong actions.
    """
    episodes = [episode for episode in subject.experts if episode.actions]
    last = [episode.actions[-1] for episode in episodes]
    own, control = list[float](), list[float]()
    for number, episode in enumerate(episodes):
        prompt = words_of(f"{subject.env.instructions}\n{episode.prompt}")
        wrong = wrong_actions(episode)
        others = wrong or last[:number] + last[number + 1 :]
        for shares, actions in ((own, last[number : number + 1]), (control, others)):
            known = ([w for w in words_of(action) if w not in ignored] for action in actions)
            shares += [shown(words, prompt, in_a_row=not wrong) for words in known if words]
    return (mean(own), mean(control)) if own and control else None


@check(
    "semantic.no_solution_leakage",
    "Remove the words of the solution from the instructions and the first observation.",
    needs=(*SEMANTIC, ORACLE),
)
def no_solution_leakage(subject: Subject) -> list[Finding]:
    """The prompt shows no more words of the last action than of wrong ones."""
    last = [episode.actions[-1] for episode in subject.experts if episode.actions]
    counts = Counter(word for action in last for word in {*words_of(action)})
    common = {word for word, count in counts.items() if count > 0.6 * len(last)}
    shares = prompt_shares(subject, common)
    if shares is None:
        raise Unchecked("there are no wrong actions to compare with")
    if _leaks(shares):  # the instructions of all tasks are no hint to one of them
        shares = prompt_shares(subject, common | {*words_of(subject.env.instructions)})
    if shares is None or not _leaks(shares):
        return []
    leaked, usual = shares
    text = f"prompts show {leaked:.0%} of the words of the last action, {usual:.0%} of wrong ones"
    return [Finding(text)]


def _leaks(shares: tuple[float, float]) -> bool:
    leaked, usual = shares
    return leaked > LEAKED and leaked > usual + ABOVE_CONTROL


def wrong_actions(episode: Episode) -> list[str]:
    """Returns the actions that are listed at the end and that the expert never takes."""
    listed = episode.admissible(len(episode.actions) - 1)
    return [each for each in listed if each not in episode.actions] if len(listed) >= LISTED else []


@check(
    "semantic.answer_place",
    "Shuffle the admissible actions with the task's generator, or sort them.",
    needs=(*SEMANTIC, ORACLE),
)
def answer_place(subject: Subject) -> list[Finding]:
    """The expert's last action, if it differs between tasks, has no usual place in its list."""
    places, answers = [], list[str]()
    for episode in subject.experts:
        listed = episode.admissible(len(episode.actions) - 1) if episode.actions else []
        if len(listed) >= LISTED and episode.actions[-1] in listed:
            places.append((listed.index(episode.actions[-1]), len(listed)))
            answers.append(episode.actions[-1])
    count = len(places)
    if count < max(8, 0.8 * len(subject.experts)) or len({*answers}) < count / 2:
        raise Unchecked("the last actions are not listed, or do not differ")
    [(place, times)] = Counter(place for place, _ in places).most_common(1)
    if (
        len({text for text, (at, _) in zip(answers, places, strict=True) if at == place})
        < times / 2
    ):
        return []  # the same action: no hint beyond its text
    chance = float(np.mean([1 / length for _, length in places]))
    bound = max(0.6, chance + 3 * np.sqrt(chance * (1 - chance) / count))
    if times / count <= bound:
        return []
    return [Finding(f"the answer has place {place + 1} of the list in {times} of {count} tasks")]


@check(
    "statistical.variance_bound",
    "Reduce the part of the return that chance decides, or use more seeds per task.",
    needs=(*SEMANTIC, ORACLE, FLOOR),
)
def variance_bound(subject: Subject) -> list[Finding]:
    """The expert's return in one task depends little on the seed."""
    if not any(episode.chance for episode in subject.experts):
        raise Unchecked("the expert's episodes have no chance")
    if subject.range <= 0:
        raise Unchecked(NO_RANGE)
    task = subject.experts[0].task
    returns = [subject.play(task, expert, seed=seed).total for seed in range(SEEDS)]
    variance = float(np.var(returns)) / subject.range**2
    if variance <= VARIANCE:
        return []
    text = f"task {task}: variance {variance:.2f} of the squared range over {SEEDS} seeds"
    return [Finding(text, "warn")]
