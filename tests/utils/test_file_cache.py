"""Results of files are kept until the files change, in all functions that read files of users."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym import make_env
from agentgym.envs.worlds.rules import EXAMPLE
from agentgym.errors import DataError
from agentgym.evaluation.runner import evaluate
from agentgym.judges import outcome_judge
from agentgym.utils.file_cache import cached_by_files, file_state
from agentgym.wrappers.own_start import starts_of
from tests.helpers.solved_tools import solved


def test_results_are_kept_until_a_file_changes(tmp_path: Path):
    read: list[str] = []

    @cached_by_files("path", maxsize=2)
    def length(path: str, times: int = 1) -> int:
        read.append(path)
        return times * sum(len(each.read_text()) for each in Path(path).rglob("*.txt"))

    file, folder = tmp_path / "below" / "a.txt", str(tmp_path)
    file.parent.mkdir()
    file.write_text("one")
    assert length(folder) == length(path=folder) == length(folder) == 3 and len(read) == 2
    assert length(folder, times=2) == 6
    file.write_text("three")
    assert length(folder) == 5
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))  # another text as long
    read.clear()
    assert length(folder) == 5 and read == [folder]
    (file.parent / "b.txt").write_text("more")
    assert length(folder) == 9
    length.cache_clear()
    read.clear()
    assert length(folder) == 9 and read == [folder]


def test_the_result_of_earlier_contents_is_not_kept(tmp_path: Path):
    class Model:
        """A large result."""

    @cached_by_files("path", maxsize=8)
    def model(path: str) -> Model:
        if not Path(path).read_text():
            raise DataError("empty")
        return Model()

    file = tmp_path / "weights"
    file.write_text("one")
    earlier = weakref.ref(model(str(file)))
    assert model(str(file)) is earlier()
    file.write_text("")
    with pytest.raises(DataError):
        model(str(file))
    file.write_text("three")
    assert model(str(file)) is model(str(file))
    gc.collect()
    assert earlier() is None


def test_sources_of_models_name_their_files(tmp_path: Path):
    rubric, policy = tmp_path / "rubric.md", tmp_path / "policy"
    rubric.write_text("- good: Is it good?")
    policy.mkdir()
    (policy / "config.json").write_text("{}")
    for source, file in (
        (f"rubric={rubric}:chat:m@http://localhost:1/v1", rubric),
        (f"rubric={rubric}:policy:{policy}", policy / "config.json"),
        (f"policy:{policy}", policy / "config.json"),
        (f"model:{policy}", policy / "config.json"),
        (f"{rubric}", rubric),
    ):
        before = file_state(source)
        assert file_state(source) == before
        file.write_text(file.read_text() + "\n")
        assert file_state(source) != before
    for source in ("chat:m@http://localhost:1/v1", "model:nano", "module:function", None, "a\0b"):
        assert not any(file_state(source))


def test_a_path_that_reads_like_a_source_is_one_path(tmp_path: Path):
    for name in ("policy:1", "rubric=2", "a:policy:b"):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "q.jsonl"
        file.write_text("one")
        assert file_state(file) == ((file.stat().st_mtime_ns, 3),)


def world(file: Path, first: bool) -> Callable[[], Any]:
    file.write_text(EXAMPLE if first else EXAMPLE.replace("A lamp", "A lantern"))
    return lambda: make_env("GeneratedWorlds-v0", dynamics=str(file)).reset(seed=0)[0]


def tools(file: Path, first: bool) -> Callable[[], Any]:
    tasks = json.loads(Path(solved(str(file.parent))).read_text())
    file.write_text(json.dumps([task | {"goal": f"Go {first}."} for task in tasks]))
    return lambda: make_env("Todo-v0", wrap=[f"ToolTasks:file={file}"]).reset(seed=0)[0]


def documents(file: Path, first: bool) -> Callable[[], Any]:
    corpus = file.parent / "corpus"
    corpus.mkdir(exist_ok=True)
    (corpus / "a.txt").write_text("One page.")
    rows = [{"question": f"What is {i}? {first}", "answer": "a"} for i in range(2)]
    file.write_text("\n".join(map(json.dumps, rows)))
    kwargs = {"corpus": str(corpus), "questions": str(file)}
    return lambda: make_env("SearchQA-v0", **kwargs).reset(seed=0)[0].partition("?")[2]


def pages(file: Path, first: bool) -> Callable[[], Any]:
    corpus = file.parent / "corpus"
    (corpus / "deep").mkdir(parents=True, exist_ok=True)
    (corpus / "deep" / "a.txt").write_text(f"The page {first}.")
    rows = [{"question": f"What is {i}?", "answer": "a"} for i in range(2)]
    file.write_text("\n".join(map(json.dumps, rows)))

    def opened() -> str:
        env = make_env("SearchQA-v0", corpus=str(corpus), questions=str(file))
        env.reset(seed=0)
        return env.step("open[deep/a]")[0]

    return opened


def hotpot(file: Path, first: bool) -> Callable[[], Any]:
    context = {"context": [["page", ["Text."]]], "supporting_facts": [["page", 0]], "answer": "a"}
    rows = [{"_id": str(i), "question": f"What is {i}? {first}"} | context for i in range(2)]
    file.write_text(json.dumps(rows))
    return lambda: make_env("SearchQA-v0", data_file=str(file)).reset(seed=0)[0].partition("?")[2]


def words(file: Path, first: bool) -> Callable[[], Any]:
    file.write_text("\n".join(["apple", "berry", "cedar", "delta", "eagle", *["fjord"] * first]))
    return lambda: make_env("Wordle-v0", vocabulary=str(file)).reset(seed=0)[1]["admissible"]


def recipes(file: Path, first: bool) -> Callable[[], Any]:
    folder = file.parent / "recipes"
    folder.mkdir(exist_ok=True)
    for number in range(6):
        recipe = {
            "type": "minecraft:crafting_shapeless",
            "ingredients": [{"item": "minecraft:wood" if first else "minecraft:stone"}],
            "result": {"item": f"minecraft:thing_{number}"},
        }
        (folder / f"{number}.json").write_text(json.dumps(recipe))
    return lambda: make_env("TextCraft-v0", recipes=str(folder)).reset(seed=0)[0]


def rubric(file: Path, first: bool) -> Callable[[], Any]:
    file = file.with_suffix(".md")
    file.write_text(f"- good: Is it {first}?\noutcome: hidden")
    source = f"rubric={file}:chat:m@http://localhost:1/v1"
    return lambda: outcome_judge(source).prompt  # type: ignore[attr-defined]


def starts(file: Path, first: bool) -> Callable[[], Any]:
    task = "train/1" if first else "train/2"
    kwargs = {"size": 4, "max_turns": 4}
    file.unlink(missing_ok=True)
    evaluate("NumberLine-v0", "random", tasks=[task] * 20, env_kwargs=kwargs, save=file)
    return lambda: [*starts_of(str(file))]


READERS = (world, tools, documents, pages, hotpot, words, recipes, rubric, starts)


@pytest.mark.parametrize("reader", READERS)
def test_a_changed_file_is_read_anew(reader: Callable[[Path, bool], Any], tmp_path: Path):
    file = tmp_path / "file.json"
    first = reader(file, True)()
    assert reader(file, True)() == first
    second = reader(file, False)()
    assert second != first
    assert reader(file, True)() == first


@pytest.mark.parametrize("of_copy", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_of_environments_share_what_was_read(of_copy: Any, tmp_path: Path):
    documents(tmp_path / "questions.jsonl", True)
    recipes(tmp_path / "x", True)
    files = {"corpus": f"{tmp_path}/corpus", "questions": f"{tmp_path}/questions.jsonl"}
    env = make_env("SearchQA-v0", **files)
    assert of_copy(env).unwrapped.corpus is env.unwrapped.corpus  # type: ignore[attr-defined]
    env = make_env("TextCraft-v0", recipes=f"{tmp_path}/recipes")
    assert of_copy(env).unwrapped.book is env.unwrapped.book  # type: ignore[attr-defined]


def test_copies_go_on_after_the_files_have_changed(tmp_path: Path):
    documents(tmp_path / "questions.jsonl", True)
    recipes(tmp_path / "x", True)
    words(tmp_path / "words.txt", True)
    files = {"corpus": f"{tmp_path}/corpus", "questions": f"{tmp_path}/questions.jsonl"}
    envs = [
        make_env("SearchQA-v0", **files),
        make_env("TextCraft-v0", recipes=f"{tmp_path}/recipes"),
        make_env("Wordle-v0", vocabulary=f"{tmp_path}/words.txt"),
    ]
    actions = ("search[page]", "inventory", "eagle")
    for env in envs:
        env.reset(seed=0)
    for folder in ("corpus", "recipes"):
        shutil.rmtree(tmp_path / folder)
    for name in ("questions.jsonl", "words.txt"):
        (tmp_path / name).unlink()
    for env, action in zip(envs, actions, strict=True):
        assert copy.deepcopy(env).step(action) == env.step(action)
