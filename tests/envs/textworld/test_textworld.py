from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.envs.textworld.base import TextWorldGame
from agentgym.envs.textworld.coin_collector import CoinCollector
from agentgym.envs.textworld.cooking import Cooking
from agentgym.envs.textworld.treasure_hunter import TreasureHunter
from agentgym.envs.textworld.words import describe, listed, recipe
from agentgym.errors import DataError, MissingExtraError

try:
    import textworld
except ImportError:
    textworld = None
installed = pytest.mark.skipif(textworld is None, reason="needs the extra textworld")

COOKING = {"recipe": 2, "take": 1, "open": True, "cook": False, "cut": False, "drop": False,
           "split": "train"}  # fmt: skip
NAMES = {
    **{"r_0": "kitchen", "r_1": "garden", "c_0": "fridge", "s_0": "table", "d_0": "plain door"},
    **{"f_0": "apple", "f_1": "egg", "o_0": "knife"},
}
FACTS = [
    *(("at", "P", "r_0"), ("at", "c_0", "r_0"), ("at", "s_0", "r_0"), ("closed", "c_0")),
    *(("in", "f_0", "c_0"), ("on", "f_1", "s_0"), ("needs_cooking", "f_1"), ("uncut", "f_1")),
    *(("in", "o_0", "I"), ("north_of", "r_1", "r_0"), ("south_of", "r_0", "r_1")),
    *(("link", "r_0", "d_0", "r_1"), ("closed", "d_0"), ("raw", "f_0"), ("uncut", "f_0")),
]


def test_what_is_seen_is_told():
    assert describe(FACTS, NAMES).splitlines() == [
        "You are in the kitchen.",
        "Here: fridge (closed), table.",
        "On the table: egg (raw, uncut).",
        "Exits: north through the plain door (closed).",
        "You carry: knife.",
    ]
    opened = [("open", "c_0") if fact == ("closed", "c_0") else fact for fact in FACTS]
    text = describe(opened, NAMES)
    assert "Here: fridge (open), table.\nIn the fridge: apple (raw, uncut).\n" in text
    elsewhere = [("at", "P", "r_1") if fact[:2] == ("at", "P") else fact for fact in FACTS]
    text = describe(elsewhere, NAMES)
    assert text.startswith("You are in the garden.\nHere: nothing.\nExits: south.\n")


def test_words():
    assert listed([]) == "nothing"
    assert listed(["b", "a"]) == "a, b"
    told = recipe([["egg", "fried", "uncut"], ["apple", "raw", "diced"], ["milk", "raw", "uncut"]])
    assert told.startswith("Recipe: egg (fried); apple (diced); milk. Then prepare")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "textworld", None)
    for kind in (Cooking, CoinCollector, TreasureHunter):
        with pytest.raises(MissingExtraError, match=r"agentgym-suite\[textworld\]"):
            kind()


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (Cooking, {"recipe": 0}, "recipe"),
        (Cooking, {"recipe": 1, "take": 2}, "take"),
        (Cooking, {"go": 2}, "go"),
        (Cooking, {"words": "mine"}, "words"),
        (Cooking, {"games": 0}, "games"),
        (CoinCollector, {"mode": "extreme"}, "mode"),
        (Cooking, {"take": 0}, "take"),
        (CoinCollector, {"quest_length": 0}, "quest_length"),
        (CoinCollector, {"mode": "medium", "quest_length": 51}, "quest_length"),
        (CoinCollector, {"mode": "hard", "quest_length": 34}, "quest_length"),
        (TreasureHunter, {"rooms": 1}, "rooms"),
        (TreasureHunter, {"rooms": 3, "quest_length": 9}, "quest_length"),
    ],
)
@installed
def test_bad_arguments(kind: Any, arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        kind(**arguments)


def solve(env: TextWorldGame, seed: int) -> tuple[float, dict[str, Any]]:
    _, info = env.reset(seed=seed)
    total = 0.0
    while True:
        command = env.expert()
        assert command in info["admissible"] or env.words == "original"
        _, reward, terminated, truncated, info = env.step(command or "")
        total += reward
        assert info["valid"] and not truncated
        if terminated:
            return total, info


SMALL = [
    (Cooking, {"recipe": 1, "take": 1, "go": 1}),
    (CoinCollector, {"quest_length": 3}),
    (TreasureHunter, {"rooms": 5, "quest_length": 3}),
]


@pytest.mark.slow
@installed
@pytest.mark.parametrize(("kind", "arguments"), SMALL)
@pytest.mark.parametrize("words", ["own", "original"])
def test_the_expert_wins_in_both_words(
    kind: Any, arguments: dict[str, Any], words: str, global_rng_untouched: None
):
    env = kind(**arguments, words=words, games=1)
    total, info = solve(env, 0)
    assert info["success"] and info["progress"] == 1
    assert total == env._engine.most
    assert "Goal: " in env._last.text and env._last.text.endswith("You have won.")


@pytest.mark.slow
@installed
def test_both_engines_play_the_same_game():
    own, original = (CoinCollector(quest_length=3, games=1, words=w) for w in ("own", "original"))
    for env in (own, original):
        env.reset(seed=0)
    while True:
        command = own.expert()
        assert command == original.expert()
        results = [env.step(command or "") for env in (own, original)]
        assert results[0][1:4] == results[1][1:4]
        said = {"look", "inventory"}
        rest = [c for c in results[1][4]["admissible"] if c not in said and "examine" not in c]
        assert list(results[0][4]["admissible"]) == rest
        if results[0][2]:
            return


@pytest.mark.slow
@installed
def test_the_recipe_is_shown_once_it_was_read():
    env = Cooking(recipe=1, take=1, go=1, games=1)
    start, _ = env.reset(seed=0)
    assert "Recipe:" not in start
    observation, *_, info = env.step("examine cookbook")
    assert "Recipe:" in observation
    twin = Cooking(recipe=1, take=1, go=1, games=1)
    assert twin.restore(env.snapshot()) == (observation, info)
    assert "Recipe:" in twin.step("look")[0]
    assert env.expert() != "examine cookbook"


@pytest.mark.slow
@installed
def test_a_burned_meal_is_lost():
    env = Cooking(recipe=1, take=1, go=1, games=5, cut=False)
    for seed in range(5):
        env.reset(seed=seed)
        while True:
            command = env.expert() or ""
            _, _, terminated, _, info = env.step(command)
            if command.startswith("cook"):
                _, _, terminated, _, info = env.step(command)
                assert terminated and not info["success"] and info["admissible"] == ()
                return
            if terminated:
                break
    raise AssertionError("nothing to cook in five games")


@pytest.mark.slow
@installed
def test_the_decoy_loses():
    env = TreasureHunter(mode="easy", rooms=3, quest_length=2, games=1)
    start, _ = env.reset(seed=0)
    treasure = start.partition("Take the ")[2].partition(".")[0]
    seen = set()
    for _ in range(200):
        for command in env._engine.commands:  # type: ignore[union-attr]
            if command.startswith("take ") and treasure not in command:
                _, reward, terminated, _, info = env.step(command)
                assert (reward, terminated, info["success"]) == (0.0, True, False)
                return
        moves = [c for c in env._engine.commands if c.startswith("go")]  # type: ignore[union-attr]
        move = moves[len(seen) % len(moves)]
        seen.add((len(seen), move))
        env.step(move)
    raise AssertionError("no decoy found")


@pytest.mark.slow
@installed
def test_games_of_files(tmp_path: Path):
    from agentgym.envs.textworld.games import generate

    for seed in range(2):
        game = generate("coin", {"mode": "easy", "quest_length": 2}, seed)
        game.save(str(tmp_path / f"game{seed}.json"))
    env = CoinCollector(files=str(tmp_path))
    assert (env.tasks.train, env.tasks.test) == (("train/1/game1",), ("test/0/game0",))
    _, info = solve(env, 0)
    assert info["success"]
    (tmp_path / "broken.json").write_text("{}")
    with pytest.warns(RuntimeWarning, match=r"broken\.json is the only game .* not held out"):
        lone = CoinCollector(files=[str(tmp_path / "broken.json")])
    assert (lone.tasks.train, lone.tasks.test) == (("train/0/broken",), ("test/0/broken",))
    with pytest.raises(DataError, match="no TextWorld game"):
        lone.reset(seed=0)
    with pytest.raises(DataError, match=r"no \.z8 or \.json"):
        CoinCollector(files=str(tmp_path / "none"))
    (tmp_path / "story.z8").write_bytes(b"")
    with pytest.raises(DataError, match="Jericho"), pytest.warns(RuntimeWarning, match="only game"):
        CoinCollector(files=str(tmp_path / "story.z8")).reset(seed=0)


@pytest.mark.slow
@installed
def test_what_is_reached_again_is_what_textworld_reaches():
    games = importlib.import_module("agentgym.envs.textworld.games")
    env = Cooking(recipe=2, take=1, go=6, cut=True)
    rng = np.random.default_rng(0)
    walks: list[list[str]] = []
    for _ in range(12):
        env.reset(options={"task": "train/1"})
        engine: Any = env._engine
        plain = games.GameProgression(engine.game)
        again = walks[rng.integers(len(walks))][: rng.integers(20)] if walks else []
        walk: list[str] = []
        while not plain.done and len(walk) < 20:
            names, policy = (
                [*map(str, engine._inform.gen_commands_from_actions(actions))]
                for actions in (plain.valid_actions, plain.winning_policy or ())
            )
            assert {*names} == {*engine._actions}
            assert policy == engine.policy()
            assert set(plain.state.facts) == set(engine._progression.state.facts)
            # A way of before and then another one, often on the solution.
            onward = policy[:1] if rng.random() < 0.7 else []
            command = [*again[len(walk) :], *onward, names[rng.integers(len(names))]][0]
            plain.update(dict(zip(names, plain.valid_actions, strict=True))[command])
            walk.append(command)
            env.step(command)
            if engine.won or engine.lost:
                assert (engine.won, engine.lost) == (plain.completed, plain.failed)
        assert engine.score == plain.score
        walks.append(walk)


GENERATE = """
from agentgym.envs.textworld.cooking import Cooking
env = Cooking(recipe=2, take=1, go=6, games=3)
text, info = env.reset(options={"task": "train/1"})
print(text, info["state_key"], env.expert())
"""


@installed
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("coin", {"mode": "medium", "quest_length": 3}),
        ("cooking", {**COOKING, "cook": True, "cut": True, "go": 6}),
        ("cooking", {**COOKING, "open": False, "drop": True, "go": 1}),
    ],
)
def test_games_are_those_of_textworld(
    kind: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """Its own makers compile a game and play it to find the actions of its solution."""
    games = importlib.import_module("agentgym.envs.textworld.games")
    ours = games.generate(kind, settings, 7).serialize()
    for module in (games.coin_collector, games.cooking):
        monkeypatch.setattr(module, "textworld", textworld)
        monkeypatch.setattr(module, "KnowledgeBase", games.KnowledgeBase)
    assert ours == games.generate(kind, settings, 7).serialize()
    found = [event["actions"] for quest in ours["quests"] for event in quest["win_events"]]
    assert any(found) != bool(settings.get("drop"))  # TextWorld knows no solution beside "drop"


@pytest.mark.slow
@installed
def test_games_do_not_depend_on_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "here"))
    exec(GENERATE, {})
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", GENERATE],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={
            "PYTHONHASHSEED": "1",
            "AGENTGYM_CACHE": str(tmp_path / "there"),
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "PATH": "",
            "HOME": str(tmp_path),
        },
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == capsys.readouterr().out


def test_the_global_generator_is_left_alone_also_by_the_first_game():
    code = (
        "import numpy as np, agentgym, gymnasium as gym\n"
        "np.random.seed(3)\n"
        "gym.make('AgentGym/TextWorld-Cooking-v0').reset(seed=1)\n"
        "print(np.random.rand() == np.random.RandomState(3).rand())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.strip() == "True"
