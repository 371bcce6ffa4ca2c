"""ALFWorld: games, splits, names and play as in ALFWorld, and the same rules as Household."""

from __future__ import annotations

import copy
import importlib.util
import json
import pickle
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from agentgym.envs.household import alfworld, rules
from agentgym.envs.household.alfworld import ALFWorld, find_games, readable, split_games, where
from agentgym.envs.household.expert import next_command
from agentgym.envs.household.levels import FAMILIES, make_level
from agentgym.errors import DataError, MissingExtraError, SnapshotError

HERE = Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("alfworld_games", HERE / "alfworld_games.py")
assert SPEC is not None and SPEC.loader is not None
games = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(games)

NAMES = {
    "pick": "train/pick_and_place_simple-Mug-None-Desk-301/trial_1",
    "cool": "train/pick_cool_then_place_in_recep-Cup-None-Shelf-7/trial_2",
    "look": "valid_seen/look_at_obj_in_light-Book-None-DeskLamp-301/trial_3",
    "heat": "valid_unseen/pick_heat_then_place_in_recep-Egg-None-Shelf-10/trial_4",
}
playable = pytest.mark.skipif(
    None in map(importlib.util.find_spec, ("textworld", "fast_downward"))
    or not games.LOGIC.exists(),
    reason="needs the extra alfworld and ALFWorld's logic",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Creates empty game files in ALFWorld's layout, and some that it skips."""
    for name in NAMES.values():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "game.tw-pddl").write_text('{"solvable": true}')
    for name, text in {
        "train/pick_and_place_simple-AppleSliced-None-Desk-1/trial_5": "{}",
        "train/pick_and_place_with_movable_recep-Pen-Mug-Desk-1/trial_6": "{}",
        "train/pick_and_place_simple-Pen-None-Desk-1/trial_7": '{"solvable": false, "walk": []}',
    }.items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "game.tw-pddl").write_text(text)
    return tmp_path


def test_games_are_chosen_as_there(folder: Path):
    found = find_games(folder)
    assert sorted(found) == sorted(NAMES.values())
    assert find_games(found[NAMES["pick"]]) == {"game": folder / NAMES["pick"] / "game.tw-pddl"}
    (folder / "json_2.1.1").mkdir()
    assert where(folder) == folder / "json_2.1.1"


def test_splits_are_the_folders_or_the_last_tenth():
    names = list(NAMES.values())
    seen, unseen = split_games(names, "valid_seen"), split_games(names, "valid_unseen")
    assert seen.train == unseen.train == (NAMES["pick"], NAMES["cool"])
    assert seen.test == (NAMES["look"],) and unseen.test == (NAMES["heat"],)
    numbered = [f"game{i}" for i in range(20)]
    assert split_games(numbered, "valid_seen").test == ("game18", "game19")
    with pytest.warns(RuntimeWarning, match="1 of 1 test tasks are training tasks, such as 'one'"):
        lone = split_games(["one"], "valid_seen")
    assert lone.train == lone.test


def test_names_are_numbered_as_there():
    ids = [
        "mug_bar__minus_00_dot_1",
        "mug_bar__plus_00_dot_2",
        "sink_bar__1_bar_sinkbasin",
        "loc_1",
    ]
    assert readable(ids) == dict(zip(ids, ("mug 2", "mug 1", "sinkbasin 1", "loc_1"), strict=True))


def test_what_is_missing_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(DataError, match="alfworld-download"):
        where(None)
    with pytest.raises(DataError, match="does not exist"):
        where(tmp_path / "nowhere")
    with pytest.raises(DataError, match="found none"):
        find_games(folder / "train" / "pick_and_place_simple-Pen-None-Desk-1")
    monkeypatch.setenv("ALFWORLD_DATA", str(folder))
    assert where(None) == folder
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'agentgym-suite\[alfworld\]'"):
        ALFWorld(path=folder)


def test_arguments_are_checked(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alfworld, "textworld", lambda: None)  # nothing is played
    with pytest.raises(ValueError, match="test_games"):
        ALFWorld(path=folder, test_games="seen")
    with pytest.raises(ValueError, match="family"):
        ALFWorld(path=folder, family="picks")
    with pytest.raises(DataError, match="family 'clean'"):
        ALFWorld(path=folder, family="clean")
    with pytest.warns(RuntimeWarning, match="test tasks are training tasks"):
        assert ALFWorld(path=folder, family="cool").tasks.train == (NAMES["cool"],)


def test_the_planner_s_translator_leaves_the_program_s_arguments():
    before = list(sys.argv)
    with alfworld.arguments_kept():
        sys.argv = ["other"]
    assert sys.argv == before


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes two small playable games."""
    folder = tmp_path_factory.mktemp("games")
    for family in ("pick", "look"):
        games.write_game(folder / NAMES[family], make_level("train/3", family))
    return folder


@playable
def test_the_expert_wins_and_the_texts_are_the_game_s(played: Path):
    env = ALFWorld(path=played, split="test")
    arguments, state = list(sys.argv), random.getstate()
    text, info = env.reset(seed=0)
    assert text.startswith("You are in the middle of a room.") and "Your task is to: look" in text
    rewards = []
    while not info["success"]:
        text, reward, terminated, _, info = env.step(str(env.expert()))
        assert info["valid"] and "Your task is to: look" in text
        assert terminated == info["success"]
        rewards.append(reward)
    assert sum(rewards) == 1 and info["progress"] == 1 and env.expert() is None
    assert (sys.argv, random.getstate()) == (arguments, state)


@playable
@pytest.mark.slow
def test_it_keeps_the_contract(played: Path):
    env = ALFWorld(path=played)
    check_env(env, skip_render_check=True)
    _, info = env.reset(seed=0)
    start = info["state_key"]
    for nonsense in ("", "dance", "x" * 10**6, "\0", "go to ２", "look\nlook"):
        text, _, _, _, info = env.step(nonsense)
        assert not info["valid"] and info["state_key"] == start
        assert text.startswith("Nothing happens.")
    _, _, _, _, info = env.step(info["admissible"][0])
    assert info["state_key"] != start
    snapshot = json.loads(json.dumps(env.snapshot()))
    restored = ALFWorld(path=played)
    assert restored.restore(snapshot)[1] == info
    twins = (restored, pickle.loads(pickle.dumps(env)), copy.deepcopy(env))
    after = env.step(info["admissible"][1])
    assert all(twin.step(info["admissible"][1]) == after for twin in twins)
    with pytest.raises(SnapshotError):
        ALFWorld(path=played, split="train", family="look").restore({**snapshot, "task": "other"})


@playable
@pytest.mark.slow
def test_put_is_understood_as_move(played: Path):
    env = ALFWorld(path=played, split="train")
    env.reset(seed=0)
    while not str(env.expert()).startswith("move"):
        env.step(str(env.expert()))
    command = re.sub(r"move (.*) to (.*)", r"Put \1 in/on \2", str(env.expert()))
    assert env.step(command)[1] == 1


@playable
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_other_games_of_textworld_are_played_too(tmp_path: Path):
    textworld = alfworld.textworld()
    options = textworld.GameOptions()
    options.path, options.seeds, options.nb_rooms = str(tmp_path / "small.z8"), 1, 1
    textworld.make(options)
    env = ALFWorld(path=tmp_path, max_turns=None)
    text, info = env.reset(seed=0)
    assert info["task"] == "small" and info["admissible"] and not text.endswith("0/1")
    text, _, _, _, info = env.step("dance")
    assert info["valid"] and env.expert() is None  # the game itself reports unknown commands
    restored = ALFWorld(path=tmp_path, max_turns=None)
    restored.restore(json.loads(json.dumps(env.snapshot())))
    assert restored.step("look") == env.step("look")


@playable
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_household_s_rules_are_alfworld_s(family: str, tmp_path: Path):
    """Plays both side by side in the same home: same commands, same endings."""
    level = make_level("unseen/1", family)
    env = ALFWorld(path=games.write_game(tmp_path, level), max_turns=None)
    _, info = env.reset(seed=0)
    # ALFWorld numbers objects in reverse order, so match them by id.
    ids = {games.object_id(name): name for name in (*level.home.receptacles, *dict(level.places))}
    ours = {name: ids[id] for id, name in readable(list(ids)).items()}

    def translated(command: str, names: dict[str, str]) -> str:
        return re.sub(r"[a-z]+ \d+", lambda m: names.get(m[0], m[0]), command)

    theirs = {name: other for other, name in ours.items()}
    state = rules.State("", dict(level.places))
    rng = np.random.default_rng(0)
    for _ in range(25):
        here = f"go to {state.at}"
        listed = {translated(command, ours) for command in info["admissible"]}
        listed = {re.sub("move (.*) to (.*)", r"put \1 in/on \2", command) for command in listed}
        listed = {c for c in listed if not c.startswith(("help", "slice")) and c != here}
        possible = {rules.say(command) for command in rules.commands(level, state)}
        assert possible == listed
        command = rules.say(next_command(level, state))
        if rng.random() < 0.3:
            command = str(rng.choice(sorted(possible - {f"use {lamp}" for lamp in state.lit})))
        told = env.step(translated(command, theirs))
        rules.apply(state, rules.parse(command) or ("", "", ""))
        info = told[4]
        assert info["valid"] and info["success"] == (rules.progress(level, state) == 1)
        if info["success"]:
            break
