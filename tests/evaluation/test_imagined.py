"""Imagined episodes: what a model writes becomes data with judged rewards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.cli.main import main
from agentgym.data.episode import RecordedEpisode
from agentgym.data.reading import read_episodes
from agentgym.errors import ConfigError
from agentgym.evaluation.imagined import DIALOGUE, SITUATIONS, SKILLS, imagined, read_dialogue
from agentgym.registration.making import make_env

from ..helpers.chat_server import ChatServer, Messages, chat_server


def write(messages: Messages) -> str:
    """Invents cities, and writes dialogues in which careless agents guess wrong."""
    system, text = messages[0]["content"], messages[-1]["content"]
    if system == SITUATIONS:
        taken = len(re.findall(r"^The city is number", text, re.MULTILINE))
        return "\n".join(f"{i}. The city is number {taken + i}." for i in range(1, 4))
    assert system == DIALOGUE and "The first observation:\n" in text
    number = int(re.findall(r"The city is number (\d+)", text)[-1])
    if number == 5:
        return "Environment: I begin.\nAgent: No."
    guess = number if SKILLS[0] in text else number + 1
    answer = "Yes.\nWell done." if guess == number else "No."
    return (
        "Here it is.\n**Agent:** Is it large?\nEnvironment: No.\n"
        f"Agent: Is it number {guess}?\nEnvironment: {answer}"
    )


def found_it(episode: RecordedEpisode) -> float:
    return float(episode.last_observation.startswith("Yes."))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with chat_server(write) as running:
        yield running


def test_situations_differ_and_dialogues_out_of_turn_are_left_out(server: ChatServer):
    found = imagined("GuessMyCity-v0", f"chat:m@{server.url}", tasks=8)
    assert len(found) == 7
    env = make_env("GuessMyCity-v0")
    observation, _ = env.reset(seed=0)
    for number, episode in enumerate(found):
        place = number + (number > 3)  # the fifth is left out
        assert episode.instructions == env.get_wrapper_attr("instructions")
        assert [turn.observation for turn in episode.turns] == [observation, "No."]
        last = f"Is it number {place + 1 + place % 2}?"
        assert [turn.action for turn in episode.turns] == ["Is it large?", last]
        assert episode.last_observation == ("No." if place % 2 else "Yes.\nWell done.")
        assert not (episode.rewarded or episode.success) and episode.task == ""
    asked = len(server.requests)
    assert imagined("GuessMyCity-v0", f"chat:m@{server.url}", tasks=8) == found
    assert len(server.requests) == asked == 3 + 8


def test_judged_dialogues_are_data_of_offline_recipes(server: ChatServer, tmp_path: Path):
    file = tmp_path / "imagined.jsonl"
    command = ["export", "GuessMyCity-v0", "--agent", f"imagined:chat:m@{server.url}"]
    more = ["--episodes", "4", "--judge", f"{__name__}:found_it", "--out", str(file)]
    assert main([*command, *more]) == 0
    found = read_episodes(file)
    assert [[turn.reward for turn in each.turns] for each in found] == [[0.0, 1.0], [0.0, 0.0]] * 2
    assert [each.success for each in found] == [True, False] * 2
    assert all(each.rewarded for each in found)  # as offline recipes need it


def follow(messages: Messages) -> str:
    """Asks what a text tells to ask."""
    system, text = messages[0]["content"], messages[-1]["content"]
    assert system == DIALOGUE and "The first observation:\n" in text
    return f"Agent: {text.rpartition('Ask: ')[2]}\nEnvironment: Yes."


def test_texts_take_the_place_of_situations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "texts" / "more").mkdir(parents=True)
    (tmp_path / "texts" / "a.md").write_text("How to begin.\nAsk: Is it in Asia?")
    (tmp_path / "texts" / "more" / "b.TXT").write_text("Ask: Is it large?\n")
    (tmp_path / "texts" / "c.png").write_text("Ask: no")
    (tmp_path / "texts" / "d.md").write_text(" ")
    with chat_server(follow) as server:
        source = f"texts={tmp_path / 'texts'}:chat:m@{server.url}"
        found = imagined("GuessMyCity-v0", source, tasks=3)
        asked = [each.turns[0].action for each in found]
        assert asked == ["Is it in Asia?", "Is it large?", "Is it in Asia?"]
        assert all(each.agent == f"imagined:chat:m@{server.url}" for each in found)
    with pytest.raises(ConfigError, match="must be a folder with texts"):
        imagined("GuessMyCity-v0", f"texts={tmp_path / 'cache'}:chat:m@http://127.0.0.1:9")


def test_imagined_episodes_have_no_failures_to_repair(capsys: pytest.CaptureFixture[str]):
    command = ["export", "GuessMyCity-v0", "--agent", "imagined:chat:m@http://127.0.0.1:9"]
    assert main([*command, "--failures", "repair", "--out", "none.jsonl"]) == 2
    assert "nothing is played" in capsys.readouterr().err


def test_a_judge_leaves_the_recorded_outcome_of_played_episodes(tmp_path: Path):
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    said = [{"role": "user", "content": "Is it large?"}, {"role": "assistant", "content": "No."}]
    old.write_text(json.dumps({"messages": said, "success": True}) + "\n")
    assert main(["export", str(old), "--judge", f"{__name__}:found_it", "--out", str(new)]) == 0
    [found] = read_episodes(new)
    assert found.success and found.judged == found.reward == 0 and found.rewarded


@pytest.mark.parametrize(
    ("reply", "messages"),
    [
        ("Agent: a\nEnvironment: b\nAgent: c", ["a", "b", "c"]),
        ("<think>Agent: x</think>Agent: a\nb", ["a\nb"]),
        *(("", []), ("Environment: b", []), ("Agent: a\nAgent: c", []), ("Agent:\nAgent: c", [])),
    ],
)
def test_messages_take_turns(reply: str, messages: list[str]):
    assert read_dialogue(reply) == messages


def test_a_model_writes():
    with pytest.raises(ConfigError, match="Unknown agent 'nobody'"):
        imagined("GuessMyCity-v0", "nobody", tasks=1)
    source = "chat:m@http://127.0.0.1:1/v1"
    with pytest.raises(ConfigError, match="leave split out of env_kwargs"):
        imagined("GuessMyCity-v0", source, tasks=1, env_kwargs={"split": "train"})
