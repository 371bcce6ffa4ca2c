"""Generated diaries: entries with facts that replace each other, and questions about them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np

from agentgym.tasks import task_rng

PEOPLE = (
    *("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo"),
    *("Iris", "Jon", "Kim", "Lea", "Max", "Nina", "Omar", "Pia"),
)
THINGS = (
    *("key", "passport", "camera", "umbrella", "map", "torch", "scissors", "ring", "tent"),
    *("violin", "ladder", "sewing kit"),
)
NUMBERS = tuple(map(str, range(10)))


@dataclass(frozen=True)
class Relation:
    """A property of a person or a thing that changes in the course of the diary.

    Attributes:
        name: its name in notes.
        values: its possible values.
        told: sentences about a change. {who} and {value} are filled in.
        now: question about the current value.
        before: question about the value before it.
        last: question about the person or thing that got a value last.
        count: question about the number of changes.
        near: a sentence that names a value but changes nothing.
    """

    name: str
    values: tuple[str, ...]
    told: tuple[str, ...]
    now: str
    before: str
    last: str
    count: str
    near: str


RELATIONS = (
    Relation(
        "home",
        (
            *("Rome", "Oslo", "Paris", "Cairo", "Lima", "Delhi", "Quito", "Hanoi"),
            *("Dublin", "Accra", "Porto", "Kyoto"),
        ),
        (
            "{who} moved to {value}.",
            "{who} lives in {value} from today on.",
            "I helped {who} to move to a flat in {value}.",
        ),
        "Where does {who} live now?",
        "Where did {who} live before the last move?",
        "Who moved to {value} last?",
        "How many times did {who} move?",
        "{who} told me about a holiday in {value}.",
    ),
    Relation(
        "job",
        (
            *("baker", "pilot", "nurse", "teacher", "lawyer", "farmer", "painter", "chemist"),
            *("tailor", "barber", "sailor", "writer"),
        ),
        (
            "{who} started to work as a {value}.",
            "{who} has a new job as a {value}.",
            "From today on, {who} earns money as a {value}.",
        ),
        "What is the job of {who} now?",
        "What was the job of {who} before the last change?",
        "Who became a {value} last?",
        "How many times did {who} start a job?",
        "{who} had a talk with a {value} on the train.",
    ),
    Relation(
        "pet",
        (
            *("cat", "dog", "parrot", "rabbit", "turtle", "hamster", "goldfish", "lizard"),
            *("pony", "canary", "hedgehog", "goat"),
        ),
        (
            "{who} has a new pet, a {value}.",
            "The only pet of {who} is a {value} now.",
            "{who} gave the old pet away and took a {value} home.",
        ),
        "Which pet does {who} have now?",
        "Which pet did {who} have before the last one?",
        "Who got a {value} last?",
        "How many times did {who} get a pet?",
        "{who} saw a {value} in the park.",
    ),
    Relation(
        "hobby",
        (
            *("chess", "tennis", "rowing", "pottery", "archery", "singing", "fencing", "knitting"),
            *("sailing", "juggling", "climbing", "gardening"),
        ),
        (
            "The new hobby of {who} is {value}.",
            "{who} does nothing but {value} now.",
            "{who} has taken up {value} instead of the old hobby.",
        ),
        "What is the hobby of {who} now?",
        "What was the hobby of {who} before the last change?",
        "Who took up {value} last?",
        "How many times did {who} take up a hobby?",
        "{who} read an article about {value}.",
    ),
    Relation(
        "place",
        (
            *("attic", "cellar", "garage", "kitchen", "drawer", "wardrobe", "shed", "desk"),
            *("basket", "suitcase", "bookcase", "cupboard"),
        ),
        (
            "I put the {who} into the {value}.",
            "The {who} is in the {value} from today on.",
            "I tidied up. The {who} went to the {value}.",
        ),
        "Where is the {who} now?",
        "Where was the {who} before the last move?",
        "What did I put into the {value} last?",
        "How many times did I put the {who} somewhere?",
        "I thought about the {who} while I cleaned the {value}.",
    ),
)
_THINGS_AT = RELATIONS[-1]
FILLERS = (
    *("It rained all day.", "The sun was out.", "I slept badly.", "I had soup for lunch."),
    *("The bus was late.", "I went for a long walk.", "Nothing much happened.", "I felt well."),
    *("The neighbours were loud.", "I wrote two letters.", "It was windy.", "I cleaned the house."),
)


@dataclass(frozen=True)
class Fact:
    """A change: the property of someone or something gets a value."""

    relation: int
    who: str
    value: str

    @property
    def key(self) -> tuple[int, str]:
        """Its property and owner."""
        return self.relation, self.who


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        after: number of entries before it.
        evidence: index of the entry that holds the answer. -1: all entries about the subject.
        text: the question.
        answer: the answer.
        options: all possible answers.
    """

    after: int
    evidence: int
    text: str
    answer: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Pages:
    """The entries, the fact of each (or None), and the questions in order."""

    entries: tuple[str, ...]
    facts: tuple[Fact | None, ...]
    questions: tuple[Question, ...]

    def history(self, key: tuple[int, str], until: int) -> list[int]:
        """Returns the indices of the facts about a key among the first `until` entries."""
        found = self._places.get(key, [])
        return found[: bisect_left(found, until)]

    def told_again(self, evidence: int, until: int) -> bool:
        """Returns whether a fact before `until` gives the value of an earlier one to any owner."""
        fact = self.facts[evidence]
        assert fact is not None
        found = self._values[fact.relation, fact.value]
        return bisect_left(found, until) > bisect_left(found, evidence) + 1

    @cached_property
    def _places(self) -> dict[tuple[int, str], list[int]]:
        """The indices of the facts about each key."""
        found: dict[tuple[int, str], list[int]] = {}
        for i, fact in enumerate(self.facts):
            if fact is not None:
                found.setdefault(fact.key, []).append(i)
        return found

    @cached_property
    def _values(self) -> dict[tuple[int, str], list[int]]:
        """The indices of the facts with each property and value."""
        found: dict[tuple[int, str], list[int]] = {}
        for i, fact in enumerate(self.facts):
            if fact is not None:
                found.setdefault((fact.relation, fact.value), []).append(i)
        return found


@lru_cache(maxsize=256)
def pages_of(task: str, entries: int, questions: int, distance: int | None) -> Pages:
    """Returns the diary of a task.

    Args:
        task: name of the task.
        entries: number of entries.
        questions: number of questions.
        distance: entries from the fact to its question. None: all questions come at the end.
    """
    rng = task_rng(task, "diary")
    while (pages := _draw_pages(rng, entries, questions, distance)) is None:
        pass  # ends soon, since `enough_questions` has found diaries
    return pages


@lru_cache(maxsize=256)
def enough_questions(entries: int, questions: int, distance: int | None) -> bool:
    """Returns whether a tenth or more of some diaries have the questions: see `pages_of`.

    The more questions, the more alike are diaries in this, and the fewer are drawn.
    """
    rng = task_rng(f"{entries} {questions} {distance}", "diary")
    count = min(20, max(3, 200 // questions))
    drawn = (_draw_pages(rng, entries, questions, distance) for _ in range(count))
    needed = -(-count // 10)
    return len([*islice(filter(None, drawn), needed)]) == needed


def _draw_pages(
    rng: np.random.Generator, entries: int, questions: int, distance: int | None
) -> Pages | None:
    """Returns a random diary, or None if too few different questions are found about it."""
    facts = _draw_facts(rng, entries)
    diary = Pages(tuple(_entry(rng, fact, facts) for fact in facts), facts, ())
    found: dict[str, Question] = {}
    for _ in range(100 * questions):
        # It yields nothing if the fact is out of date.
        for question in _draw_questions(rng, diary, distance):
            if question.text not in found:
                found[question.text] = question
                break
        if len(found) == questions:
            ordered = sorted(found.values(), key=lambda question: question.after)
            return replace(diary, questions=tuple(ordered))
    return None


def _draw_facts(rng: np.random.Generator, entries: int) -> tuple[Fact | None, ...]:
    """Returns the fact of each entry. Each subject changes about three times."""
    size = min(len(PEOPLE), max(2, entries // 18))
    people = [PEOPLE[i] for i in rng.permutation(len(PEOPLE))[:size].tolist()]
    things = [THINGS[i] for i in rng.permutation(len(THINGS))[: max(2, size * 3 // 4)].tolist()]
    current: dict[tuple[int, str], str] = {}
    facts: list[Fact | None] = []
    for _ in range(entries):
        relation = int(rng.integers(len(RELATIONS)))
        owners = things if RELATIONS[relation] is _THINGS_AT else people
        who = owners[int(rng.integers(len(owners)))]
        others = [v for v in RELATIONS[relation].values if v != current.get((relation, who))]
        value = others[int(rng.integers(len(others)))]
        if rng.random() < 0.15:
            facts.append(None)
            continue
        current[relation, who] = value
        facts.append(Fact(relation, who, value))
    return tuple(facts)


def _entry(rng: np.random.Generator, fact: Fact | None, facts: tuple[Fact | None, ...]) -> str:
    """Returns the text of an entry: its fact, among sentences without facts."""
    sentences = [FILLERS[int(rng.integers(len(FILLERS)))]]
    other = facts[int(rng.integers(len(facts)))]
    if other is not None and rng.random() < 0.3:
        values = RELATIONS[other.relation].values
        value = values[int(rng.integers(len(values)))]
        sentences.append(RELATIONS[other.relation].near.format(who=other.who, value=value))
    if fact is not None:
        told = RELATIONS[fact.relation].told
        sentence = told[int(rng.integers(len(told)))].format(who=fact.who, value=fact.value)
        sentences.insert(int(rng.integers(len(sentences) + 1)), sentence)
    return " ".join(sentences)


def _draw_questions(
    rng: np.random.Generator, diary: Pages, distance: int | None
) -> Iterator[Question]:
    """Yields the questions of random forms whose evidence is a random entry."""
    entries = len(diary.facts)
    evidence = int(rng.integers(entries if distance is None else entries - distance + 1))
    fact, after = diary.facts[evidence], entries if distance is None else evidence + distance
    if fact is None:
        return
    relation, who, value = RELATIONS[fact.relation], fact.who, fact.value
    owners = THINGS if relation is _THINGS_AT else PEOPLE
    changes = diary.history(fact.key, after)
    for form in rng.permutation(4).tolist():
        if form == 0 and changes[-1] == evidence:
            text = relation.now.format(who=who)
            yield Question(after, evidence, text, value, relation.values)
        if form == 1 and changes[-2:-1] == [evidence]:
            text = relation.before.format(who=who)
            yield Question(after, evidence, text, value, relation.values)
        if form == 2 and not diary.told_again(evidence, after):
            yield Question(after, evidence, relation.last.format(value=value), who, owners)
        if form == 3 and distance is None and len(changes) < len(NUMBERS):
            text = relation.count.format(who=who)
            yield Question(after, -1, text, NUMBERS[len(changes)], NUMBERS)
