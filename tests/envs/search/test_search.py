"""Search: worlds are consistent, the index ranks as the shop's, chains have one answer."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.search.kg_qa import KGQA
from agentgym.envs.search.question_files import load_questions
from agentgym.envs.search.questions import (
    draw_comparison,
    draw_question,
    exact_match,
    f1,
    normalised,
    world_of,
)
from agentgym.envs.search.search_qa import SearchQA
from agentgym.envs.search.world import BY_SUBJECT, SIZES, YEAR, World
from agentgym.envs.webshop.analysis import terms
from agentgym.envs.webshop.search import document
from agentgym.envs.webshop.shop import open_shop
from agentgym.errors import DataError
from agentgym.registration.making import make_env
from agentgym.utils.bm25 import TextIndex

WORLD = World("train/0", 0.5)
RECORDS = [
    {
        "_id": f"q{number}",
        "question": f"Question {number}?",
        "answer": "Ada  Brin",
        "supporting_facts": [["first  Page", 0], [f"Page {number}", 0], ["No such page", 1]],
        "context": [
            ["First page", [f"Text {number}.", " More."]],
            [f"Page {number}", ["Words. "]],
        ],
    }
    for number in range(10)
]


def test_facts_are_functional_and_of_the_right_kind():
    assert all(len(World(f"test/{n}", 0).kinds) == sum(SIZES.values()) for n in range(5))
    for entity, kind in WORLD.kinds.items():
        for relation in BY_SUBJECT[kind]:
            value = WORLD.facts[entity, relation.name]
            assert value != entity
            if relation.object == YEAR:
                assert value.isdigit()
            else:
                assert WORLD.kinds[value] == relation.object
    capitals = {e: WORLD.facts[e, "capital"] for e, k in WORLD.kinds.items() if k == "country"}
    assert all(WORLD.facts[city, "country"] == country for country, city in capitals.items())


def test_a_page_states_the_facts_of_its_entity_and_gossip_pages_state_other_ones():
    for entity, kind in WORLD.kinds.items():
        page = WORLD.page(f" {entity.upper()} ")
        assert page is not None and page.title == entity
        for relation in BY_SUBJECT[kind]:
            value = WORLD.facts[entity, relation.name]
            assert any(s.format(x=entity, o=value) in page.text for s in relation.sentences)
    gossip = [page for page in WORLD.pages if page.title.startswith("Gossip")]
    assert 20 < len(gossip) < 90
    for page in gossip:
        entity = page.title.removeprefix("Gossip about ")
        right = WORLD.page(entity)
        assert right is not None and not set(right.sentences) & set(page.sentences)
    assert not [page for page in World("train/0", 0.0).pages if page.title.startswith("Gossip")]
    assert World("train/0", 0.5).pages == WORLD.pages != World("test/0", 0.5).pages


def test_pages_are_ranked_by_rare_terms_and_ties_by_position():
    texts = ["red shoes for running", "a red lamp", "", "blue shoes, blue laces", "the lamp"]
    index = TextIndex(texts, terms)
    assert index.search("red lamp", 5) == [1, 4, 0]
    assert index.search("shoe", 5) == [0, 3] and index.search("the of", 5) == []
    assert index.search("red lamp", 1) == [1] and TextIndex([]).search("lamp", 5) == []


def test_the_ranking_is_the_shops():
    shop = open_shop(None, 200, False, 0, 0, "alphabetic")
    index = TextIndex([document(product) for product in shop.catalogue], terms)
    for query in ("red running shoes", "wooden floor lamp black", "coffee"):
        found, scores = shop.index.search_scored(query, 20)
        theirs = dict(zip(found.tolist(), scores.tolist(), strict=True))
        ours = [theirs[i] for i in index.search(query, 20) if i in theirs]
        assert len(ours) >= 0.8 * len(theirs) > 0
        # The shop rounds the lengths of documents to one byte, as Lucene does.
        assert all(one >= other - 0.05 for one, other in pairwise(ours))


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
def test_following_the_chain_gives_the_answer(hops: int):
    for number in range(30):
        task = f"test/{number}"
        found = world_of(task, 0.3)
        question = draw_question(task, found, hops)
        entity = question.titles[0]
        for title, relation in zip(question.titles, question.relations, strict=True):
            assert entity == title
            entity = found.facts[entity, relation]
        assert entity == question.answer and len(question.titles) == hops
        assert question.answer not in question.text
        named = [title for title in question.titles if title in question.text]
        assert named == ([] if question.searches else [question.titles[0]])
        for title, query in question.searches.items():
            assert title in [page.title for page in found.search(query, 2)]
        assert question == draw_question(task, found, hops)


@pytest.mark.parametrize("hops", [1, 2, 3, 4, None])
def test_comparing_the_ends_of_chains_gives_the_answer(hops: int | None):
    asked = Counter[str]()
    for number in range(40):
        task = f"train/{number}"
        found = world_of(task, 0.3)
        question = draw_comparison(task, found, hops, 12)
        assert question == draw_comparison(task, found, hops, 12)
        needed, ends = set[str](), dict[str, str]()
        for work, query in question.searches.items():
            assert found.kinds[work] == "work" and query in question.text
            assert work not in question.text
            assert work in [page.title for page in found.search(query, 2)]
            entity = work
            for relation in question.relations:
                needed.add(entity)
                entity = found.facts[entity, relation]
            ends[work] = entity
        assert len(ends) == 12 and len(question.relations) == (hops or len(question.relations))
        assert needed == set(question.titles) and len(question.titles) == len(needed)
        counts, ask = Counter(ends.values()), question.text.rpartition(". ")[2]
        if "Answer with the title" in question.text:
            years = sorted(ends.values())
            wanted = years[0] if "earliest" in question.text else years[-1]
            assert [work for work, year in ends.items() if year == wanted] == [question.answer]
            ask = "year"
        elif ask.startswith("For how many works is it "):
            value = ask.removeprefix("For how many works is it ").removesuffix("?")
            assert question.answer == str(counts[value]) != "0"
            ask = "count"
        elif ask == "How many different ones are there?":
            assert question.answer == str(len(counts))
        else:
            assert ask == "Which one occurs most often?"
            others = [n for value, n in counts.items() if value != question.answer]
            assert counts[question.answer] > max(others, default=0)
        asked[ask] += 1
    assert len(asked) >= 3


def test_a_long_question_takes_more_than_40_turns():
    env = make_env("SearchQA-Long-v0")
    solver = env.unwrapped
    assert isinstance(solver, SearchQA)
    for number in range(20):
        split = "test" if number % 2 else "train"
        env.reset(seed=0, options={"task": f"{split}/{number}"})
        over, progress, info, reward = False, [0.0], {}, 0.0
        while not over:
            action = solver.expert()
            assert action is not None
            _, reward, over, truncated, info = env.step(action)
            assert info["valid"] and not truncated
            progress.append(info["progress"])
        assert reward == 1 and 40 < info["turn"] < 120
        assert progress == sorted(progress)


def test_the_expert_goes_on_after_searches_and_pages_of_the_agent():
    env = SearchQA(hops=2, chains=5, max_turns=60)
    env.reset(seed=3)
    first, *_, last = env.question.searches
    for action in (f"open[{last}]", "search[novel]", "search[author]", f"open[{first}]", "nothing"):
        env.step(action)
    played = []
    while not played or not played[-1][2]:
        action = env.expert()
        assert action is not None
        played.append(env.step(action))
    assert played[-1][1] == 1


def test_masked_questions_have_a_gap():
    question = draw_question("train/1", world_of("train/1", 0.3), 3, masked=True)
    assert question.text.startswith("Fill the gap: ") and question.text.count("____") == 1
    env = SearchQA(masked=True, hops=2)
    assert "____" in env.reset(seed=0)[0]


@pytest.mark.parametrize(
    ("given", "answer", "match", "score"),
    [
        ("The Silver Lantern!", "silver lantern", 1, 1),
        ("Ada", "Ada Brin", 0, 2 / 3),
        ("Ada Ada Brin", "Ada Brin", 0, 0.8),
        ("yes it is", "yes", 0, 0),
        ("Yes.", "yes", 1, 1),
        ("no", "yes", 0, 0),
        ("yes", "Yes it is", 0, 0),
        ("Symphony No. 7 in A", "Symphony No. 7", 0, 6 / 7),  # an article is no word
        ("Symphony No. 7 by Haydn and Brin", "Symphony No. 7", 0, 0.6),
        ("No", "Symphony No. 7", 0, 0),
        ("Yes Minister", "Yes, Prime Minister", 0, 0.8),
        ("", "Ada", 0, 0),
        ("the", "The", 1, 0),  # as the script of HotpotQA
    ],
)
def test_scores_of_answers(given: str, answer: str, match: int, score: float):
    assert exact_match(given, answer) == match
    assert f1(given, answer) == pytest.approx(score)


def f1_of_hotpotqa(prediction: str, gold: str) -> float:
    """The steps of HotpotQA's evaluation script, written out."""
    whole = ("yes", "no", "noanswer")
    ours, theirs = normalised(prediction), normalised(gold)
    if (ours in whole or theirs in whole) and ours != theirs:
        return 0.0
    left = theirs.split()
    same = 0
    for word in ours.split():
        if word in left:
            left.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = same / len(ours.split()), same / len(theirs.split())
    return 2 * precision * recall / (precision + recall)


ANSWERS = st.lists(
    st.sampled_from("yes no noanswer No. the A an symphony 7 1,858 Ada's Brin (1999)".split()),
    max_size=4,
).map(" ".join)


@given(ANSWERS, ANSWERS)
def test_scores_are_those_of_the_script_of_hotpotqa(prediction: str, gold: str):
    assert f1(prediction, gold) == pytest.approx(f1_of_hotpotqa(prediction, gold))
    assert exact_match(prediction, gold) == (normalised(prediction) == normalised(gold))


def test_rewards_and_costs():
    env = SearchQA(query_cost=0.1, score="f1")
    env.reset(seed=0, options={"task": "train/4"})
    _, reward, _, _, info = env.step("search[author]")
    assert reward == -0.1 and info["reward_terms"] == {"task": 0, "queries": -0.1, "invalid": 0}
    assert env.step(f"Action: open[{env.question.titles[0].lower()}].")[4]["progress"] > 0
    more = "search[a] open[b]", "open[First]\nanswer[Ada]", "search[a] and search[b]"
    more = *more, "search[a] and then open[b]", "search[a], lookup[b]", "search[a] or answer [b]"
    for action in ("open[nothing]", "search[]", f"answer[{'x' * 501}]", "open", "find[x]", *more):
        _, reward, terminated, _, info = env.step(action)
        assert not info["valid"] and reward == 0 and not terminated
    text, reward, terminated, _, info = env.step(f"answer[{env.question.answer} and more]")
    assert 0 < reward < 1 and terminated and not info["success"] and "Wrong" in text


@pytest.mark.parametrize(
    ("said", "valid"),
    [
        ("search[a]. Then I open[b]", False),
        ("search[a] rather than open[b]", False),
        ("answer[a] or [b]", False),
        ("answer[a] (not [b])", False),
        ("search[C[1] and x[2]]", True),
        ("search[the list [a], [b]]", True),
    ],
)
def test_brackets_are_one_action(said: str, valid: bool):
    env = SearchQA()
    env.reset(seed=0)
    _, _, terminated, _, info = env.step(said)
    assert info["valid"] == valid and not terminated


def test_dropped_results_are_missing_and_reproducible():
    lists = {}
    for drop in (0.0, 0.5, 1.0):
        env = SearchQA(drop=drop)
        env.reset(seed=2)
        lists[drop] = [env.step("search[the teacher of the author]")[0] for _ in range(5)]
    assert len(set(lists[0.0])) == 1 and len(set(lists[0.5])) > 1
    assert all(text.startswith("No results") for text in lists[1.0])


def test_the_graph_accepts_known_entities_only():
    env = KGQA(hops=2)
    _, info = env.reset(seed=0)
    first, second = env.question.titles
    relations = env.question.relations
    assert not env.step(f"get[{second} | {relations[1]}]")[4]["valid"]
    assert env.step(f"answer[{env.question.answer}]")[4]["valid"] is False
    assert info["admissible"] and env.step(f"get[{first} | {relations[0]}]")[4]["valid"]
    _, reward, terminated, _, _ = env.step(f"answer[{second}]")
    assert reward == 0 and terminated


def test_a_file_of_hotpotqa(tmp_path: Path):
    file = tmp_path / "hotpot.json"
    file.write_text(json.dumps(RECORDS))
    env = SearchQA(data_file=str(file))
    assert len(env.tasks.train) == 8 and list(env.tasks.test) == ["question/q1", "question/q6"]
    env.reset(seed=0, options={"task": "question/q6"})
    assert len(env.corpus.pages) == 11 and env.corpus.search("page text more", 1)
    played = []
    while not played or not played[-1][2]:
        action = env.expert()
        assert action is not None
        played.append(env.step(action))
    assert len(played) == 3 and played[-1][1] == 1
    assert played[0][0].startswith("First page: Text 0. More.")


def columns(record: dict[str, Any]) -> dict[str, Any]:
    """A question with the columns of the copy on Hugging Face."""
    titles, sentences = zip(*record["context"], strict=True)
    named, numbers = zip(*record["supporting_facts"], strict=True)
    return {
        "id": record["_id"],
        **{key: record[key] for key in ("question", "answer")},
        "context": {"title": list(titles), "sentences": list(sentences)},
        "supporting_facts": {"title": list(named), "sent_id": list(numbers)},
    }


def test_the_copy_of_hotpotqa_on_hugging_face_reads_the_same(tmp_path: Path):
    published, copied, rows = (tmp_path / name for name in ("a.json", "b.json", "c.jsonl"))
    published.write_text(json.dumps(RECORDS))
    copied.write_text(json.dumps([columns(record) for record in RECORDS]))
    rows.write_text("\n".join(json.dumps(columns(record)) for record in RECORDS))
    expected = load_questions(str(published))
    for file in (copied, rows):
        found = load_questions(str(file))
        assert found.questions == expected.questions
        assert found.corpus.pages == expected.corpus.pages


def test_a_question_whose_id_is_there_twice_is_named(tmp_path: Path):
    file = tmp_path / "twice.json"
    file.write_text(json.dumps([*RECORDS, RECORDS[3]]))
    with pytest.raises(DataError, match=r"twice\.json has two questions with the id 'q3'"):
        load_questions(str(file))


def test_titles_that_differ_by_capitals_are_two_pages(tmp_path: Path):
    file = tmp_path / "capitals.json"
    extra = {**RECORDS[0], "_id": "more", "context": [["first page", ["Another text."]]]}
    file.write_text(json.dumps([*RECORDS, extra]))
    corpus = load_questions(str(file)).corpus
    for title, text in (("First page", "Text 0."), ("first  page", "Another text.")):
        page = corpus.page(title)
        assert page is not None and page.sentences[0] == text
    assert corpus.page("FIRST PAGE") == corpus.page("First page") == corpus.pages[0]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[1, 2]",
        "[]",
        json.dumps([{**RECORDS[0], "answer": 3}] * 2),
        json.dumps([{**RECORDS[0], "context": {"title": ["a"], "sentences": ["b"]}}] * 2),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str):
    file = tmp_path / "broken.json"
    file.write_text(content)
    with pytest.raises(DataError, match=r"broken\.json"):
        load_questions(str(file))
    with pytest.raises(DataError, match=r"nowhere\.json"):
        load_questions(str(tmp_path / "nowhere.json"))


@pytest.mark.parametrize(
    "arguments",
    [
        *({"hops": 0}, {"hops": 5}, {"chains": 0}, {"chains": 25}, {"masked": True, "chains": 2}),
        *({"misleading": 2.0}, {"drop": -1.0}, {"score": "bleu"}),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, object]):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        SearchQA(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("gaps", [2, 3, 4])
def test_each_gap_is_what_the_next_sentence_is_about(gaps: int):
    for number in range(6):
        env = SearchQA(masked=gaps)
        env.reset(seed=0, options={"task": f"train/{number}"})
        question = env.question
        fills = question.answer.split("; ")
        assert len(fills) == gaps and len(question.titles) >= gaps
        # The fills are the pages after the first ones of the chain, and its end.
        assert fills[:-1] == list(question.titles[len(question.titles) - gaps + 1 :])
        for gap in range(1, gaps + 1):
            assert question.text.count(f"(gap {gap})") == 1 + (gap < gaps)
        assert not any(fill in question.text for fill in fills[:-1])
        ended, info = False, {}
        while not ended:
            _, _, terminated, truncated, info = env.step(str(env.expert()))
            ended = terminated or truncated
        assert info["success"]
        env.reset(seed=0, options={"task": f"train/{number}"})
        assert not env.step(f"answer[{'; '.join(reversed(fills))}]")[4]["success"]
    with pytest.raises(ValueError, match="masked must be 0 to 1"):
        SearchQA(masked=gaps, hops=1)


@pytest.mark.parametrize(
    ("form", "valid"),
    [
        ("get[{}|{}]", True),
        ("get[{} | {}].", True),
        ("Get['{}' | '{}']", True),
        ("get [\u201c{}\u201d | {}]", True),
        ("get[{0} | {1} | {1}]", False),
        ("get[{1} | {0}]", False),
        ("do not get[{} | {}]", False),
        ("get[{0} | {1}] get[{0} | {1}]", False),
    ],
)
def test_a_look_up_may_have_other_spaces_and_quotes(form: str, valid: bool):
    env = KGQA()
    listed = env.reset(seed=0)[1]["admissible"][0]
    entity, relation = listed.removeprefix("get[").rstrip("]").split(" | ")
    expected = env.step(f"get[{entity} | {relation}]")[0]
    env.reset(seed=0)
    text, _, _, _, info = env.step(form.format(entity, relation.replace(" ", "_")))
    assert info["valid"] == valid == (text == expected)


@pytest.mark.parametrize("form", ["open['{}']", 'open["{}"]', "**open[{}]**"])
def test_a_title_may_be_quoted(form: str):
    env = SearchQA()
    env.reset(seed=0)
    title = env.corpus.pages[0].title
    assert env.step(form.format(title))[0].startswith(f"{title}: ")
