"""Questions: chains of facts in a generated world, and the scores of answers."""

from __future__ import annotations

import random
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentgym.envs.search.world import (
    BY_NAME,
    BY_SUBJECT,
    SIZES,
    YEAR,
    World,
    world,
)
from agentgym.tasks import task_number, task_rng

WORLDS = 64
"""Number of worlds per split."""
MOST_HOPS = 4
MOST_CHAINS = SIZES["work"]
_WHOLE = frozenset(("yes", "no", "noanswer"))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Question:
    """A question with its answer.

    Attributes:
        text: the question.
        answer: the answer. "": none is known.
        titles: the pages that are needed, in order.
        searches: a query that finds the page, for each title that the question describes instead of
            naming it.
        relations: the names of the relations of a chain.
        others: other accepted answers.
    """

    text: str
    answer: str
    titles: tuple[str, ...]
    searches: Mapping[str, str] = field(default_factory=dict)
    relations: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def score(self, given: str, measure: Callable[[str, str], float]) -> float:
        """Returns the score of an answer: the best over the accepted ones, 0 without one."""
        known = (self.answer, *self.others) if self.answer else ()
        return max((measure(given, answer) for answer in known), default=0.0)


def normalised(text: str) -> str:
    """Returns an answer in lower case without punctuation and articles, as in SQuAD."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(given: str, answer: str) -> float:
    """Returns 1 if two answers are equal after normalisation, else 0."""
    return float(normalised(given) == normalised(answer))


def f1(given: str, answer: str) -> float:
    """Returns the F1 score of the words of an answer, in [0, 1], as HotpotQA's script does.

    The answers "yes", "no" and "noanswer" share no words with others, whole or not at all. Answers
    without any word, such as "The", score 0.
    """
    ours, theirs = normalised(given), normalised(answer)
    if ours != theirs and not _WHOLE.isdisjoint((ours, theirs)):
        return 0.0
    words = ours.split(), theirs.split()
    common = sum((Counter(words[0]) & Counter(words[1])).values())
    return 2 * common / sum(map(len, words)) if common else 0.0


# Chains in a generated world.


def world_of(task: str, misleading: float) -> World:
    """Returns the world of a task. Training and test tasks have different ones."""
    return world(f"{task.partition('/')[0]}/{task_number(task) % WORLDS}", misleading)


def draw_question(
    task: str, found: World, hops: int | None, *, masked: int = 0, described: bool = True
) -> Question:
    """Samples the question of a task: a chain of facts through different entities.

    Args:
        task: name of the task.
        found: its world.
        hops: number of facts, or None to sample 1 to `MOST_HOPS`.
        masked: number of gaps of a text in place of the question, one sentence each.
        described: whether the first entity may be described instead of named.
    """
    rng = random.Random(int(task_rng(task, f"chain {hops}").integers(2**63)))
    count = max(masked, rng.randint(1, MOST_HOPS)) if hops is None else hops
    while (chain := _chain(rng, found, count)) is None:
        pass
    titles, relations, answer = chain
    first = titles[0]
    search = found.descriptions.get(first, "") if described and rng.random() < 0.5 else ""
    searches = {first: search} if search else {}
    text = search or first
    for name in relations[: -max(1, masked)]:
        text = rng.choice(BY_NAME[name].phrases).format(x=text)
    last = BY_NAME[relations[-1]]
    if masked > 1:
        text = _gaps(rng, text, relations[-masked:])
        answer = "; ".join([*titles[len(titles) - masked + 1 :], answer])
    elif masked:
        sentence = rng.choice(last.sentences).format(x=text, o="____")
        text = f"Fill the gap: {sentence[0].upper()}{sentence[1:]}"
    else:
        phrase = rng.choice(last.phrases).format(x=text)
        ask = "Who is {}?" if last.object == "person" else "What is {}?"
        text = rng.choice((ask, "Find {}.", "Name {}.")).format(phrase)
    return Question(text, answer, tuple(titles), searches, tuple(relations))


def _gaps(rng: random.Random, first: str, relations: list[str]) -> str:
    """Returns a text with a gap per relation, each of which the next sentence is about."""
    text, subject = "Fill the gaps in order, with semicolons between them:", first
    for number, name in enumerate(relations, 1):
        gap = f"(gap {number})"
        sentence = rng.choice(BY_NAME[name].sentences).format(x=subject, o=gap)
        text += f" {sentence[0].upper()}{sentence[1:]}"
        subject = gap
    return text


def _chain(rng: random.Random, found: World, hops: int) -> tuple[list[str], list[str], str] | None:
    """Returns the entities, relations and last object of a random chain, or None if it loops."""
    entity = rng.choice(list(found.kinds))
    titles, relations = [], []
    for hop in range(hops):
        titles.append(entity)
        choices = BY_SUBJECT[found.kinds[entity]]
        relation = rng.choice([r for r in choices if r.object != YEAR or hop == hops - 1])
        relations.append(relation.name)
        entity = found.facts[entity, relation.name]
        if entity in titles:
            return None
    return titles, relations, entity


def draw_comparison(task: str, found: World, hops: int | None, chains: int) -> Question:
    """Samples a question that compares the ends of chains from several works.

    All chains have the same relations. The answer is the most frequent end, the number of different
    ends, the number of ends with a value, or the title of the work with the first or last year.

    Args:
        task: name of the task.
        found: its world.
        hops: number of facts of a chain, or None to sample 1 to `MOST_HOPS`.
        chains: number of works, all of which are described instead of named.
    """
    rng = random.Random(int(task_rng(task, f"comparison {chains} {hops}").integers(2**63)))
    count = rng.randint(1, MOST_HOPS) if hops is None else hops
    while (question := _comparison(rng, found, count, chains)) is None:
        pass
    return question


def _comparison(rng: random.Random, found: World, hops: int, chains: int) -> Question | None:
    """Returns a random comparison, or None if its answer is not unique."""
    works = rng.sample([entity for entity, kind in found.kinds.items() if kind == "work"], chains)
    relations, kind, phrase = [], "work", "each work"
    for hop in range(hops):
        options = [r for r in BY_SUBJECT[kind] if r.object != YEAR or hop == hops - 1]
        relation = rng.choice(options)
        relations.append(relation.name)
        kind, phrase = relation.object, rng.choice(relation.phrases).format(x=phrase)
    walks = [_walk(found, work, relations) for work in works]
    ask, answer = _compare(rng, kind, {walk[0]: walk[-1] for walk in walks})
    if not answer:
        return None
    searches = {work: found.descriptions[work] for work in works}
    text = f"Here are {chains} works: {'; '.join(searches.values())}. Find {phrase}. {ask}"
    titles = tuple(dict.fromkeys(title for walk in walks for title in walk[:-1]))
    return Question(text, answer, titles, searches, tuple(relations))


def _walk(found: World, entity: str, relations: list[str]) -> list[str]:
    """Returns the entities of a chain, and its end."""
    walk = [entity]
    for name in relations:
        walk.append(found.facts[walk[-1], name])
    return walk


def _compare(rng: random.Random, kind: str, ends: dict[str, str]) -> tuple[str, str]:
    """Returns a question about the ends of chains by title, and its answer, "" for a tie."""
    counts = Counter(ends.values())
    if kind == YEAR:
        word, choose = rng.choice((("earliest", min), ("latest", max)))
        year = choose(ends.values())
        title = next(title for title, end in ends.items() if end == year)
        ask = f"For which work is it the {word}? Answer with the title."
        return ask, title if counts[year] == 1 else ""
    if kind == "country":
        value = rng.choice([*counts])
        return f"For how many works is it {value}?", str(counts[value])
    if rng.random() < 0.5:
        return "How many different ones are there?", str(len(counts))
    (value, most), *others = counts.most_common(2)
    unique = not others or others[0][1] < most
    return "Which one occurs most often?", value if unique else ""
