"""The benchmark of notes: prompts keep to their length, and readers use all that is in them."""

from __future__ import annotations

import pytest

from agentgym.envs.diary.pages import pages_of
from benchmarks.planning import notes


def test_facts_are_read_from_every_form_of_an_entry():
    diary = pages_of("test/0", 200, 20, None)
    for entry, fact in zip(diary.entries, diary.facts, strict=True):
        assert notes.facts_of(entry) == ([(*fact.key, fact.value)] if fact else [])


@pytest.mark.parametrize("title", ["Diary, questions 10 entries later", "Wordle"])
@pytest.mark.parametrize("kind", ["window", "notes"])
def test_prompts_keep_to_their_budget(title, kind):
    setting = next(s for name, s in notes.SETTINGS.items() if name.startswith(title))
    row = notes.measure(setting, kind, 330, notes.Settings(episodes=2))
    assert 219 < row["longest_prompt"] <= 330


@pytest.mark.parametrize("kind", ["window", "notes"])
def test_a_reader_with_room_for_everything_makes_no_mistake(kind):
    setting = notes.SETTINGS["Diary, questions at the end"]
    row = notes.measure(setting, kind, 20_000, notes.Settings(episodes=2))
    assert row["progress"][0] == 1.0


def test_with_room_for_everything_each_kind_of_memory_searches_a_home_alike():
    setting = notes.SETTINGS["Household, two things to find"]
    rows = [notes.measure(setting, k, 20_000, notes.Settings(episodes=4)) for k in notes.KINDS]
    assert all(row["success"][0] == 1.0 for row in rows)
    assert len({tuple(row["turns"]) for row in rows}) == 1


@pytest.mark.parametrize("kind", ["window", "notes", "edited notes"])
def test_prompts_in_a_home_keep_to_their_budget(kind):
    setting = notes.SETTINGS["Household, two things to find"]
    row = notes.measure(setting, kind, 460, notes.Settings(episodes=4))
    assert 400 < row["longest_prompt"] <= 460


def test_a_prompt_without_room_for_a_note_has_no_result():
    setting = notes.SETTINGS["Diary, questions at the end"]
    assert notes.measure(setting, "notes", 220, notes.Settings(episodes=2)) == {}
