from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path

import pytest
from gymnasium.error import ResetNeeded

from agentgym.envs.jericho import emulator
from agentgym.envs.jericho import env as module
from agentgym.envs.jericho.emulator import END
from agentgym.envs.jericho.env import PROMPT, WON, Jericho
from agentgym.errors import ConfigError, DataError, MissingExtraError, SnapshotError

installed = pytest.mark.skipif(
    importlib.util.find_spec("jericho") is None or importlib.util.find_spec("textworld") is None,
    reason="needs the extra textworld",
)


def story(folder: Path, name: str) -> str:
    path = folder / name
    path.write_bytes(b"\5" + b"\0" * 100)
    return str(path)


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates Jericho without TextWorld. Neither is needed before the first reset."""
    monkeypatch.setattr(
        module.importlib.util, "find_spec", lambda name: name if name == "jericho" else None
    )


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"agentgym-suite\[textworld\]"):
        Jericho()


def test_story_files(anywhere: None, tmp_path: Path):
    with pytest.raises(ConfigError, match="needs a story file"):
        Jericho()
    with pytest.raises(ConfigError, match="at least one"):
        Jericho(rom=[])
    with pytest.raises(DataError, match="There is no story file"):
        Jericho(rom=str(tmp_path / "none.z5"))
    with pytest.raises(DataError, match="is not a Z-machine story file"):
        Jericho(rom=story(tmp_path, "a.txt"))
    empty = tmp_path / "empty.z5"
    empty.write_bytes(b"")
    with pytest.raises(DataError, match="is not a Z-machine story file"):
        Jericho(rom=str(empty))
    with pytest.warns(RuntimeWarning, match=r"a\.z5 is the only story .* not held out"):
        lone = Jericho(rom=story(tmp_path, "a.z5"))
    assert (lone.tasks.train, lone.tasks.test) == (("train/0/a",), ("test/0/a",))
    several = Jericho(rom=[story(tmp_path, f"{name}.z8") for name in "abc"])
    assert (several.tasks.train, several.tasks.test) == (("train/1/b", "train/2/c"), ("test/0/a",))


def test_endings_are_understood():
    found = END.search("You grab it.\n\n    *** You have won ***\n\n")
    assert found is not None and found[1] == "You have won" and WON.search(found[1])
    lost = END.search("*** You have died ***")
    assert lost is not None and not WON.search(lost[1])
    assert END.search("a * b ** c") is None
    assert PROMPT.sub("", "A cell.\n\n>  -= Cell =-0/1") == "A cell."


WAY = ("go west", "go north", "go east", "go north", "take coin")


@pytest.mark.slow
@installed
def test_the_small_game_can_be_won():
    env = Jericho()
    start, info = env.reset(seed=0)
    assert "coin" in start and info["admissible"] == ()
    keys = {info["state_key"]}
    for command in WAY[:-1]:
        _, reward, terminated, _, info = env.step(command)
        assert (reward, terminated) == (0.0, False)
        keys.add(info["state_key"])
    assert len(keys) == len(WAY)
    twin = Jericho()
    twin.restore(env.snapshot())
    for each in (env, twin):
        _, reward, terminated, _, info = each.step("take coin")
        assert (reward, terminated, info["success"], info["progress"]) == (1.0, True, True, 1.0)


@pytest.mark.slow
@installed
def test_surroundings_are_told_and_take_no_time():
    env, plain = Jericho(surroundings=True), Jericho()
    (text, info), (said, expected) = env.reset(seed=0), plain.reset(seed=0)
    assert text.startswith(said) and text.count("-=") == 2 and "carrying" in text[len(said) :]
    assert info["state_key"] == expected["state_key"]
    for command in WAY:
        text, reward, terminated, _, info = env.step(command)
        said, *rest, expected = plain.step(command)
        assert text.startswith(said) and [reward, terminated] == rest[:2]
        assert terminated or "carrying" in text[len(said) :]
        assert info["state_key"] == expected["state_key"]


@installed
def test_what_cannot_be_typed_is_invalid():
    env = Jericho()
    env.reset(seed=0)
    for action in (
        "",
        "\n\t",
        "東西",
        "go 東",
        "\0",
        "look " * 50,
        r"\boxed{look}",
        r"look\x",
        "\\",
    ):
        text, *_, truncated, info = env.step(action)
        assert "for example: look" in text and not info["valid"] and not truncated
    assert env.step("\n look" + " " * 500)[4]["valid"]
    assert env.state.commands == ["look"]


FAKE = """
import time


class FrotzEnv:
    is_fully_supported = True

    def __init__(self, path, seed):
        self.played = []

    def reset(self):
        return "A cell.", {}

    def step(self, command):
        if "\\\\" in command or command == "hang":
            while True:
                print("x" * 1000)
        if command == "crash":
            __import__("os")._exit(3)
        if command == "fail":
            raise OSError("no spaCy")
        self.played.append(command)
        return f"{len(self.played)}: {command}", 1, False, {}

    def get_world_state_hash(self):
        return "|".join(self.played)

    def victory(self):
        return False

    def get_score(self):
        return len(self.played)

    def get_max_score(self):
        return 10

    def close(self):
        pass
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jericho:
    """An environment on an emulator that hangs, crashes or fails on request."""
    (tmp_path / "jericho.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(emulator, "SECONDS", 10.0)
    return Jericho(rom=[story(tmp_path, "b.z5"), story(tmp_path, "a.z5")])


def hurry(env: Jericho) -> None:
    """Shortens the time limit of an emulator that has started, which may take seconds."""
    assert env._emulator is not None
    env._emulator._seconds = 1.0


@pytest.mark.parametrize("command", ["hang", "crash"])
def test_a_command_that_never_returns_truncates_the_episode(fake: Jericho, command: str):
    fake.reset(seed=0)
    assert fake.step("look")[0] == "1: look"
    hurry(fake)
    text, reward, terminated, truncated, info = fake.step(command)
    assert text.startswith("The game has stopped") and text.endswith("1: look")
    assert (reward, terminated, truncated, info["valid"]) == (0.0, False, True, False)
    with pytest.raises(ResetNeeded):
        fake.step("look")
    over = fake.snapshot()
    assert fake.reset(seed=1)[0] == "A cell." and fake.step("look")[4]["progress"] == 0.1
    assert fake.restore(over)[1]["turn"] == 2
    fake.close()


def test_commands_of_a_snapshot_do_not_hang(fake: Jericho):
    fake.reset(seed=0)
    fake.step("look")
    snapshot = fake.snapshot()
    for commands, played in (([r"\\x"], 1), (["look", "\\", r"\\boxed{wait}"], 2)):
        changed = {**snapshot, "state": {**snapshot["state"], "commands": commands}}
        fake.restore(changed)
        assert fake.step("north")[0] == f"{played + 1}: north"
    hurry(fake)
    with pytest.raises(SnapshotError, match="took more than 1 seconds"):
        fake.restore({**snapshot, "state": {**snapshot["state"], "commands": ["hang"]}})
    assert fake.step("south")[0].endswith("south")
    fake.close()


def test_a_copy_replays_the_commands(fake: Jericho):
    fake.reset(seed=0)
    fake.step("look")
    twin = pickle.loads(pickle.dumps(fake))
    for each in (fake, twin):
        assert each.step("wait")[0] == "2: wait"
        each.close()
    assert twin.step("north")[0] == "3: north"  # a closed one too
    twin.close()


def test_errors_of_the_emulator_are_named(fake: Jericho):
    fake.reset(seed=0)
    with pytest.raises(DataError, match="OSError: no spaCy"):
        fake.step("fail")
    fake.close()
    assert fake._emulator is not None and not fake._emulator.alive


@installed
@pytest.mark.parametrize("form", ["{}", "Action: {}", "**{}**", "`{}`", "> {}", "```\n{}\n```"])
def test_marks_around_a_command_are_not_typed(form: str):
    env = Jericho()
    env.reset(seed=0)
    assert env.step(form.format("go west"))[4]["valid"]
    assert env.state.commands == ["go west"]


@installed
def test_two_lines_are_not_typed_as_one():
    env = Jericho()
    env.reset(seed=0)
    for action in ("go west\nlook", "I go west, then north.\n\ngo west"):
        text, *_, info = env.step(action)
        assert not info["valid"] and "one command on one line" in text
    assert env.state.commands == []
