from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from agentgym.envs.babyai.macros import describe, look, objection
from agentgym.envs.babyai.view import (
    DROP,
    EMPTY,
    FORWARD,
    LEFT,
    MARGIN,
    NAMES,
    PICKUP,
    RIGHT,
    SIZE,
    TOGGLE,
    WALL,
    Map,
    code,
    move,
    spread,
)
from agentgym.errors import ConfigError, MissingExtraError

pytest.importorskip("minigrid")

from agentgym.envs.babyai.babyai_text import COMPLETED, LEVELS, BabyAIText
from agentgym.envs.babyai.levels import Level, check_level, known_levels

GOLDEN = Path(__file__).parents[4] / "shared" / "golden" / "babyai_text.jsonl.gz"
LETTERS = {"#": WALL, ".": EMPTY, "k": code(5, 0, 0), "b": code(6, 2, 0), "x": code(7, 4, 0)}
LETTERS |= {"D": code(4, 0, 1), "d": code(4, 0, 0), "L": code(4, 0, 2)}


def drawn(picture: str, direction: int, carrying: int = EMPTY) -> Map:
    """Parses a map: @ the agent, # wall, k key, b ball, x box, d, D, L doors."""
    rows = picture.split()
    width = len(rows[0]) + 2 * MARGIN
    grid = Map(width, bytearray([WALL]) * (width * (len(rows) + 2 * MARGIN)))
    for y, row in enumerate(rows):
        for x, letter in enumerate(row):
            if letter == "@":
                grid.position = grid.index(x, y)
            grid.cells[grid.index(x, y)] = LETTERS.get(letter, EMPTY)
    grid.direction, grid.carrying = direction, carrying
    return grid


ROOM = """
########
#......#
#.k..b.#
#......#
#..@..x#
#......D
########
"""


def seen_things(text: str) -> list[tuple[str, int, int, int]]:
    """Objects in the original's format: name, number, steps ahead, steps to the right."""
    where = r"(?:right in front of you (-?\d+) steps away|(-?\d+) steps in front of you and (\d+)"
    found = re.findall(rf"There is a (.*?) (\d+) {where} steps to your (\w+))", text)
    return [
        (name, int(n), int(straight or ahead), int(aside or 0) * (1 if side == "right" else -1))
        for name, n, straight, ahead, aside, side in found
    ]


def in_our_words(observation: str) -> str:
    """Returns our text, without the mission, for an observation of the reference."""
    page, _, listed = observation.partition("\nAvailable actions: ")
    page = page.removesuffix("\n " + COMPLETED)
    things = seen_things(page)
    assert len(things) == page.count("There is a")
    lines = ["You see:" if things else "You see nothing but the room."]
    for name, number, ahead, right in things:
        side = f", {abs(right)} {'right' if right > 0 else 'left'}" if right else ""
        lines.append(f"- {name} {number}: {ahead} ahead{side}")
    if barrier := re.search(r"You are facing a (\w+) (\d+) steps away", page):
        lines.append(f"Straight ahead, {barrier[2]} away: a {barrier[1]}.")
    carried = re.search(r"You are carrying a (.*?)\.", page)
    assert carried or "You are not carrying anything." in page
    lines.append(f"You carry {f'a {carried[1]}' if carried else 'nothing'}.")
    lines.append(f"Actions: {', '.join(json.loads(listed))}.")
    return "\n".join(lines)


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
def test_the_original_plays_the_same():
    records = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()]
    stale = completed = 0
    for record in records:
        env = BabyAIText(original=True, max_turns=None)
        start, info = env.reset(seed=0, options={"task": f"idx/{record['data_idx']}"})
        level = record["level"].removeprefix("BabyAI-").removesuffix("-v0")
        assert (env.state.level, env.state.seed) == (level, record["seed"])
        goal, _, page = record["obs0"].partition("\n")
        mission, _, text = start.partition("\n")
        expected = mission.removeprefix("Mission: ").replace("then", "and")
        assert goal == "Your goal: " + expected.replace("after you", "and")
        assert text == in_our_words(page)
        before = 0.0
        for step in record["steps"]:
            observation, reward, terminated, _, info = env.step(step["action"])
            feedback = observation.removesuffix(f"{mission}\n{text}")
            if step["obs"].startswith("In front of you in this room"):
                before = step["reward"]
                assert reward == pytest.approx(before, abs=1e-12)
                text = in_our_words(step["obs"])
                done = COMPLETED in step["obs"]
                completed += done
                assert observation == f"{COMPLETED}\n\n" * done + f"{mission}\n{text}"
            else:
                # The original reports the reward of the last move again; ours is paid once.
                assert (reward, step["reward"]) == (0.0, before)
                stale += before > 0
                assert feedback != observation and COMPLETED not in feedback
                known = step["obs"].startswith(("No change", "You can take"))
                assert info["valid"] == known or step["action"] == ""
            assert terminated == info["success"] == step["done"]
    assert (stale, completed) == (1, 6)


def test_a_stale_observation_has_a_key_of_its_own():
    env = BabyAIText(original=True)
    _, info = env.reset(seed=0, options={"task": "idx/22"})
    *_, turned = env.step("turn left")
    *_, back = env.step("turn right")
    assert back["admissible"] != info["admissible"]
    assert len({each["state_key"] for each in (info, turned, back)}) == 3


def test_the_view_is_minigrids():
    rng = np.random.default_rng(0)
    for name in ("BossLevel", "KeyCorridorS6R3", "GoToObjMazeS7"):
        level = Level(name)
        level.reset(int(rng.integers(100)))
        for _ in range(60):
            level.step(int(rng.choice([0, 1, 2, 2, 2, 3, 4, 5])))
            grid, seen = level.env.gen_obs_grid()
            image = grid.encode(seen)
            codes = [code(*(int(x) for x in image[i, j])) for j in range(7) for i in range(7)]
            expected = bytes(0 if c < EMPTY else c for c in codes)
            assert level.map.view() == expected


def test_moves_on_the_map_are_minigrids():
    rng = np.random.default_rng(1)
    for name in ("BossLevel", "UnlockPickupDist", "PutNextLocalS6N4"):
        level = Level(name)
        level.reset(int(rng.integers(100)))
        for _ in range(300):
            action = int(rng.choice([0, 1, 2, 2, 2, 3, 4, 5]))
            ahead = level.map.cells[level.map.ahead]
            if action == TOGGLE and NAMES[ahead].endswith("box"):
                continue
            twin = Map(level.map.width, bytearray(level.map.cells))
            twin.position, twin.direction = level.map.position, level.map.direction
            twin.carrying = level.map.carrying
            move(twin, action)
            level.step(action)
            assert twin == level.map


def test_sight_spreads_along_clear_cells():
    middle, all_clear = 0b0001000, 0b1111111
    assert spread(middle, all_clear) == (0b1111111, 0b1111111)
    assert spread(middle, 0) == (middle, 0)
    assert spread(middle, 0b0001000) == (0b0011100, 0b0011100)


def test_what_is_seen_and_can_be_done():
    grid = drawn(ROOM, 3)
    scene = look(grid, grid.view(), False)
    assert [(t.name, t.number, t.ahead, t.right) for t in scene.things] == [
        ("red key", 1, 2, -1),
        ("yellow box", 1, 0, 3),
        ("blue ball", 1, 2, 2),
    ]
    assert scene.barrier == ("wall", 4)
    assert scene.actions["go to blue ball 1"] == [FORWARD, FORWARD, RIGHT, FORWARD]
    assert scene.actions["pickup yellow box 1"] == [RIGHT, FORWARD, FORWARD, PICKUP]
    assert "drop" not in scene.actions and "toggle" not in scene.actions
    text = describe(scene, grid.carrying)
    assert "- red key 1: 2 ahead, 1 left\n- yellow box 1: 0 ahead, 3 right\n" in text
    assert "Straight ahead, 4 away: a wall.\nYou carry nothing.\nActions: turn left" in text


def test_doors():
    grid = drawn("###### #@D..# #....# ######", 0)
    scene = look(grid, grid.view(), False)
    assert scene.actions["toggle"] == [TOGGLE]
    assert scene.actions["toggle and go through red closed door 1"] == [TOGGLE, FORWARD]
    assert "not open" in objection("go through red closed door 1", scene, EMPTY)
    move(grid, TOGGLE)
    scene = look(grid, grid.view(), False)
    assert scene.actions["go through red open door 1"] == [FORWARD]
    assert "toggle" not in scene.actions
    for carrying, possible in ((EMPTY, False), (code(5, 2, 0), False), (code(5, 0, 0), True)):
        grid = drawn("###### #@L..# #....# ######", 0, carrying)
        scene = look(grid, grid.view(), False)
        name = "toggle and go through red locked door 1"
        assert (name in scene.actions) == possible
        assert possible or "no key" in objection(name, scene, carrying)


def test_numbers_in_actions_are_those_of_the_things():
    hidden = drawn("######### #k#..k..# ##......# #.......# #...@...# #########", 3)
    hidden.cells[hidden.index(2, 1)] = code(6, 0, 0)  # a ball: seen through, but in the way
    hidden.cells[hidden.index(1, 2)] = code(6, 0, 0)
    scene = look(hidden, hidden.view(), False)
    keys = [t for t in scene.things if t.name == "red key"]
    assert [(t.number, t.right) for t in keys] == [(1, 1), (2, -3)]
    assert "go to red key 1" in scene.actions and "go to red key 2" not in scene.actions
    assert "no path" in objection("pickup red key 2", scene, EMPTY)


def test_a_box_can_be_opened_but_not_in_the_original():
    grid = drawn("###### #@x..# #....# ######", 0)
    assert "toggle" in look(grid, grid.view(), False).actions
    assert "toggle" not in look(grid, grid.view(), True).actions
    assert "in the way" in objection("move forward", look(grid, grid.view(), False), EMPTY)


def test_dropping_needs_room():
    for ahead, possible in ((".", True), ("k", False), ("#", False)):
        grid = drawn(f"###### #@{ahead}..# #....# ######", 0, code(6, 0, 0))
        scene = look(grid, grid.view(), False)
        assert ("drop" in scene.actions) == possible
        assert "pickup" not in " ".join(scene.actions)
    assert "not empty" in objection("drop", scene, code(6, 0, 0))
    assert "carry nothing" in objection("drop", scene, EMPTY)
    assert objection("fly", scene, EMPTY).startswith("'fly' is not an available action.")


def test_moves():
    grid = drawn("###### #@k..# #....# ######", 0)
    move(grid, FORWARD)
    assert grid.position == grid.index(1, 1)
    move(grid, PICKUP)
    assert NAMES[grid.carrying] == "red key" and grid.cells[grid.ahead] == EMPTY
    move(grid, FORWARD)
    move(grid, LEFT)
    move(grid, DROP)
    assert NAMES[grid.carrying] == "red key"
    move(grid, RIGHT)
    move(grid, DROP)
    assert grid.carrying == EMPTY
    assert len(grid.view()) == SIZE * SIZE


def play(env: BabyAIText, turns: int = 100) -> dict[str, Any]:
    info: dict[str, Any] = {}
    for _ in range(turns):
        _, _, terminated, truncated, info = env.step(env.expert() or "")
        assert info["valid"]
        if terminated or truncated:
            break
    return info


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LEVELS if name != "OpenDoorsOrderN4Debug"])
def test_the_expert_completes_missions(name: str):
    env = BabyAIText(levels=name, max_turns=None)
    done = 0
    for seed in range(2):
        env.reset(seed=0, options={"task": f"idx/{seed}"})
        done += play(env)["success"]
    assert done >= 1


def test_success_ends_an_episode_whatever_it_pays():
    for original in (False, True):
        env = BabyAIText(levels="GoToRedBallGrey", original=original, max_turns=None)
        env.reset(seed=0, options={"task": "idx/0"})
        for _ in range(40):
            env.step("turn right")
            env.step("turn left")
        observation, reward, terminated, _, info = env.step("go to red ball 1")
        assert 0 <= reward <= 0.5
        assert terminated == info["success"] == (not original)
        assert observation.startswith(COMPLETED) == original
        assert observation.endswith("\nThe mission is completed.") == (not original)
        if original:
            assert COMPLETED not in env.step("turn left")[0]


def test_a_failure_ends_an_episode_but_not_in_the_original():
    for original in (False, True):
        env = BabyAIText(levels="PickupDistDebug", original=original, max_turns=None)
        start, info = env.reset(seed=0, options={"task": "idx/0"})
        wanted = start.partition("\n")[0].split()[-2:]
        pickups = [action for action in info["admissible"] if action.startswith("pickup")]
        wrong = next(action for action in pickups if not set(wanted) & set(action.split()))
        observation, reward, terminated, _, info = env.step(wrong)
        assert (reward, terminated, info["success"]) == (0.0, not original, False)
        assert observation.startswith(COMPLETED) == original
        assert observation.endswith("\nThe mission has failed.") == (not original)


def test_the_original_first_shows_a_carried_thing_where_it_was():
    env = BabyAIText(levels="PutNextS7N4Carrying", original=True)
    start, info = env.reset(seed=0, options={"task": "idx/0"})
    assert "- yellow box 1: 2 ahead, 1 left" in start and "You carry a yellow box." in start
    assert "go to yellow box 1" in info["admissible"]
    snapshot = env.snapshot()
    assert env.step("fly")[0].endswith(start)
    assert env.step("check")[0].endswith(start)
    env.step("turn left")
    text, _, _, _, info = env.step("turn right")
    assert "- yellow box" not in text and "go to yellow box 1" not in info["admissible"]
    twin = BabyAIText(levels="PutNextS7N4Carrying", original=True)
    assert twin.restore(snapshot)[0] == start
    assert twin.step("check")[0].endswith(start)
    ours = BabyAIText(levels="PutNextS7N4Carrying")
    assert "- yellow box" not in ours.reset(seed=0, options={"task": "idx/0"})[0]


def test_a_macro_action_ends_with_the_mission():
    env = BabyAIText(levels="GoToRedBallGrey", max_turns=None)
    env.reset(seed=0, options={"task": "idx/0"})
    _, reward, terminated, _, info = env.step("pickup red ball 1")
    assert (terminated, info["success"], info["admissible"]) == (True, True, ())
    assert env.state.primitives[-1] != PICKUP
    assert reward == pytest.approx(1 - 0.9 * len(env.state.primitives) / env._level.env.max_steps)


def test_what_does_nothing_is_valid():
    env = BabyAIText(levels="GoToRedBallGrey")
    start, _ = env.reset(seed=0, options={"task": "idx/0"})
    observation, reward, terminated, _, info = env.step("Check available actions")
    assert (reward, terminated, info["valid"]) == (0.0, False, True)
    assert observation.endswith(start)
    env.step("go to grey key 1")
    observation, *_, info = env.step("go to grey key 1")
    assert observation.startswith("Nothing changes.") and info["valid"]
    observation, *_, info = env.step("go to the moon")
    assert observation.startswith("'go to the moon' is not an available") and not info["valid"]
    assert not env.step("let me check the moon")[4]["valid"]


def test_the_state_key_sees_what_the_text_does_not():
    env = BabyAIText(levels="GoToRedBallGrey")
    first = env.reset(seed=0, options={"task": "idx/0"})[1]["state_key"]
    env.step("turn left")
    assert env.step("turn right")[4]["state_key"] == first
    env.step("pickup grey key 1")
    assert env.step("turn right")[4]["state_key"] != first


def test_parts_of_missions_count():
    env = BabyAIText(levels="GoToSeqS5R2", max_turns=None)
    for seed in range(10):
        _, info = env.reset(seed=0, options={"task": f"idx/{seed}"})
        assert info["progress"] == 0
        values = {0.0}
        for _ in range(40):
            _, _, terminated, _, info = env.step(env.expert() or "")
            values.add(info["progress"])
            if terminated:
                break
        assert max(values) == 1
        if len(values) > 2:
            return
    raise AssertionError("no mission of several parts")


def test_the_privileged_text_shows_all_things():
    env = BabyAIText(levels="KeyInBox", max_turns=None)
    env.reset(options={"task": "idx/3"})
    assert env.privileged_text() == (
        "Parts done: 0. Level: KeyInBox. Mission: open the door. At 11 10, facing down. "
        "Steps: 0 of 576. Things: green box with grey key at 8 12, grey locked door* at 7 12."
    )
    while "carried" not in env.privileged_text():
        env.step(env.expert() or "")
    assert "grey key carried, grey locked door* at 7 12" in env.privileged_text()


def test_levels():
    assert check_level("GoToRedBall") == check_level("BabyAI-GoToRedBall-v0") == "GoToRedBall"
    assert set(LEVELS) <= set(known_levels()) and len(LEVELS) == 40
    env = BabyAIText(levels=["GoToDoor", "Open"])
    assert env.tasks.test[0] == "idx/0" and len(env.tasks.test) == 50
    for number in (0, 1):
        env.reset(options={"task": f"idx/{number}"})
        assert env.state.level == ("GoToDoor", "Open")[number]
    with pytest.raises(ConfigError, match=r"Did you mean: .*GoToRedBall"):
        BabyAIText(levels="GoToReadBall")
    with pytest.raises(ConfigError, match="at least one"):
        BabyAIText(levels=[])


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "agentgym.envs.babyai.levels")
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingExtraError, match=r"agentgym-suite\[minigrid\]"):
        BabyAIText()


def test_a_room_where_every_cell_faces_a_thing_does_not_hang_the_generator():
    level = Level("SynthS5R2")
    missions = [level.reset(1741) for _ in range(2)]  # found by a scan: one of 600 seeds
    assert missions[0] == missions[1]
    assert level.map.cells[level.map.ahead] in (EMPTY, WALL)


@pytest.mark.parametrize("form", ["pick up {}", "Pick up the {}.", "**pick-up {}**", "PICK UP {}"])
def test_things_are_picked_up_in_two_words_as_well(form: str):
    results = []
    for template in ("pickup {}", form):
        env: Any = gymnasium.make("AgentGym/BabyAI-Text-v0")
        _, info = env.reset(seed=0)
        picked = next(a for a in info["admissible"] if a.startswith("pickup "))
        results.append(env.step(template.format(picked.removeprefix("pickup "))))
        assert not env.step("do not pick up anything")[4]["valid"]
    assert results[0] == results[1] and results[0][4]["valid"]
