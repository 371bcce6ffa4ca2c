"""CrafterText: recipes, needs, creatures and descriptions are those of Crafter."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.crafter.crafter_text import CrafterText, described, nearest
from agentgym.envs.crafter.creatures import NEAR
from agentgym.envs.crafter.expert import best_action
from agentgym.envs.crafter.rules import possible, turn
from agentgym.envs.crafter.state import ACHIEVEMENTS, ACTIONS, MOST, RIPE, VITALS, State
from agentgym.envs.crafter.world import HEALTH, MATERIALS, SIZE, START, Creature, generate, noise

NIGHT = 210
"""A turn with the least daylight."""


def meadow(**items: int) -> State:
    """A world of grass without creatures, in which the player faces south."""
    state = State(["." * SIZE] * SIZE, [])
    state.items |= {name.replace("_", " "): count for name, count in items.items()}
    return state


def play(state: State, *actions: str, seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    for action in actions:
        turn(state, action, rng)
    return state


def beside(kind: str, **items: int) -> State:
    """A player who faces a creature that cannot move."""
    state = meadow(**items)
    x, y = state.front
    for spot in ((x - 1, y), (x + 1, y), (x, y + 1)):
        state.put(spot, "s")
    state.creatures = [Creature(kind, x, y, HEALTH[kind])]
    return state


def test_there_are_22_achievements_and_17_actions():
    assert len(set(ACHIEVEMENTS)) == 22 and len(set(ACTIONS)) == 17


def test_worlds_have_the_densities_of_crafter():
    found, kinds = Counter(), Counter()
    for number in range(12):
        rows, creatures = generate(f"train/{number}")
        assert [len(row) for row in rows] == [SIZE] * SIZE
        assert rows[START[1]][START[0]] == "."
        found.update("".join(rows))
        kinds.update(creature.kind for creature in creatures)
        for c in creatures:
            assert rows[c.y][c.x] == "p" if c.kind == "skeleton" else rows[c.y][c.x] in ".pa"
            assert abs(c.x - START[0]) + abs(c.y - START[1]) > 3
    share = {name: found[key] / (12 * SIZE * SIZE) for key, name in MATERIALS.items()}
    assert share["grass"] > 0.3 and share["water"] > 0.1 and share["stone"] > 0.08
    assert 0 < share["diamond"] < share["iron"] < share["coal"] < 0.03
    assert min(kinds[name] for name in ("cow", "zombie", "skeleton")) > 20


def test_noise_is_smooth_with_the_deviation_of_simplex_noise():
    rng = np.random.default_rng(0)
    fields = np.stack([noise(rng, 7, 7) for _ in range(40)])
    assert abs(fields.mean()) < 0.03
    assert fields.std() == pytest.approx(0.325, abs=0.02)
    assert np.abs(np.diff(fields, axis=1)).max() < 0.5


def test_splits_share_no_worlds():
    worlds = {tuple(generate(f"{split}/{i}")[0]) for split in ("train", "test") for i in range(5)}
    assert len(worlds) == 10


@pytest.mark.parametrize(
    ("material", "tool", "item", "left"),
    [
        ("t", "", "wood", "."),
        ("s", "wood_pickaxe", "stone", "p"),
        ("c", "wood_pickaxe", "coal", "p"),
        ("i", "stone_pickaxe", "iron", "p"),
        ("d", "iron_pickaxe", "diamond", "p"),
    ],
)
def test_materials_need_their_tool(material: str, tool: str, item: str, left: str):
    state = meadow()
    state.put(state.front, material)
    if tool:
        play(state, "do")
        assert item not in state.items and "do" not in possible(state)
        state.items[tool.replace("_", " ")] = 1
    assert "do" in possible(state)
    play(state, "do")
    assert state.items[item] == 1 and state.material(state.front) == left
    assert state.achieved == [f"collect {item}"]


def test_every_tenth_try_gives_a_sapling():
    state, tries = meadow(), 0
    rng = np.random.default_rng(0)
    for _ in range(2000):
        before = state.items.get("sapling", 0)
        turn(state, "do", rng)
        tries += state.items.get("sapling", 0) > before
        state.items.pop("sapling", None)
        state.creatures, state.items["health"] = [], MOST
    assert 150 < tries < 250


def test_things_are_placed_and_tools_are_made_of_their_items():
    state = meadow(wood=9, stone=9, coal=2, iron=2, sapling=1)
    assert not any(action.startswith("make") for action in possible(state))
    play(state, "place table")
    assert state.items["wood"] == 7 and state.material(state.front) == "T"
    play(state, "make wood pickaxe", "make wood sword", "make stone pickaxe", "make stone sword")
    assert state.items["wood"] == 3 and state.items["stone"] == 7
    play(state, "make iron pickaxe")
    assert "iron pickaxe" not in state.items  # no furnace yet
    state.dx, state.dy = 1, 0
    play(state, "place furnace", "make iron pickaxe", "make iron sword")
    assert state.items["stone"] == 3 and state.items["wood"] == 1
    assert "coal" not in state.items and "iron" not in state.items
    state.dx, state.dy = -1, 0
    play(state, "place plant")
    state.dx, state.dy = 0, -1
    play(state, "place stone")
    made = [name for name in ACHIEVEMENTS if name.startswith(("make", "place"))]
    assert sorted(state.achieved) == sorted(made)


@pytest.mark.parametrize(("sword", "strikes"), [("", 5), ("wood", 3), ("stone", 2), ("iron", 1)])
def test_swords_decide_the_number_of_strikes(sword: str, strikes: int):
    state = beside("zombie", **({f"{sword}_sword": 1} if sword else {}))
    for left in range(strikes, 0, -1):
        assert state.creature(state.front) is not None, left
        state.items["health"] = MOST
        play(state, "do")
    assert state.creature(state.front) is None
    assert state.achieved == ["defeat zombie"]


def test_zombies_strike_every_sixth_turn_and_harder_in_sleep():
    state = beside("zombie")
    healths = []
    for _ in range(8):
        play(state, "noop")
        healths.append(state.items["health"])
    assert healths == [7] * 6 + [5] * 2
    state = beside("zombie")
    state.items["energy"] = 3
    play(state, "sleep")
    assert state.items["health"] == 2 and not state.sleeping  # it woke up


def test_cows_are_eaten_and_plants_ripen():
    state = beside("cow")
    state.items["food"] = 2
    play(state, *["do"] * 3)
    assert state.items["food"] == 8 and state.achieved == ["eat cow"]
    state = beside("plant")
    state.items["food"] = 2
    assert "do" not in possible(state)
    state.creatures[0].timer = RIPE
    play(state, "noop", "do")
    assert state.items["food"] == 6 and state.creatures[0].timer == 1
    cow = Creature("cow", state.front[0] + 1, state.front[1], 3)
    state.creatures.append(cow)
    play(state, "noop")
    assert [c.kind for c in state.creatures] == ["cow"]  # it tramples the plant


def test_arrows_hurt_and_skeletons_shoot():
    state = meadow()
    state.creatures = [Creature("arrow", state.x - 2, state.y, 1, 0, 1, 0)]
    play(state, "noop")
    assert state.items["health"] == MOST
    play(state, "noop")
    assert state.items["health"] == MOST - 2 and not state.creatures
    tunnel = meadow()
    tunnel.rows[tunnel.y] = "p" * SIZE
    tunnel.creatures = [Creature("skeleton", tunnel.x - 4, tunnel.y, 3)]
    for number in range(20):
        play(tunnel, "noop", seed=number)
    assert tunnel.items["health"] < MOST


def test_needs_fall_at_their_pace():
    state = play(meadow(), *["noop"] * 21)
    assert [state.items[name] for name in VITALS] == [9, 9, 8, 9]
    state = play(state, *["noop"] * 10)
    assert [state.items[name] for name in VITALS] == [9, 8, 8, 8]
    state.items |= {"food": 0}
    state.recover, state.creatures = 0, []
    play(state, *["noop"] * 16)
    assert state.items["health"] == 8


def test_sleep_restores_energy_and_ends_when_it_is_full():
    state = meadow()
    state.items["energy"] = 8
    state.rows = ["s" * SIZE] * SIZE
    play(state, "sleep")
    assert state.sleeping and possible(state) == ("noop",)
    for _ in range(40):
        before = state.x, state.y
        play(state, "move west")
        if not state.sleeping:
            break
        assert (state.x, state.y) == before
    assert state.items["energy"] == MOST and "wake up" in state.achieved


def test_lava_kills_and_ends_the_episode():
    env = CrafterText()
    env.reset(seed=0)
    env.state.put(env.state.front, "l")
    observation, reward, terminated, truncated, info = env.step("move south")
    assert (observation, terminated, truncated) == ("You are dead.", True, False)
    assert reward == pytest.approx(-0.9) and info["admissible"] == ()


def test_night_brings_zombies():
    found = {}
    for clock in (0, NIGHT):
        state = meadow()
        for number in range(60):
            state.clock = clock + 9
            state.items["health"] = MOST
            play(state, "noop", seed=number)
        found[clock] = sum(c.kind == "zombie" for c in state.creatures)
    assert found[NIGHT] > 3 * found[0] + 10


def test_only_near_creatures_act():
    state = meadow()
    state.creatures = [Creature("cow", state.x + NEAR, state.y, 3)]
    for number in range(8):
        play(state, "noop", seed=number)
    assert (state.creatures[0].x, state.creatures[0].y) == (state.x + NEAR, state.y)


def test_the_description_names_the_nearest_of_each_kind():
    state = meadow(wood=2)
    for dx, dy in ((4, 3), (-1, 2), (5, 0)):
        state.put((state.x + dx, state.y + dy), "t")
    state.put((state.x, state.y - 4), "w")  # out of view
    state.put(state.front, "i")
    state.creatures = [Creature("plant", state.x + 1, state.y, 1, RIPE + 1)]
    assert nearest(state) == {"tree": (-1, 2), "iron": (0, 1), "ripe plant": (1, 0)}
    assert described(state) == (
        "You see:\n- iron 1 step south\n- ripe plant 1 step east\n"
        "- tree 2 steps south and 1 step west\n\nYou face iron.\n\n"
        "Your status:\n- health: 9/9\n- food: 9/9\n- drink: 9/9\n- energy: 9/9\n\n"
        "Your inventory:\n- wood: 2"
    )


@given(st.integers(0, 50), st.lists(st.sampled_from(ACTIONS), max_size=60))
@settings(deadline=None, max_examples=15)
def test_the_state_stays_possible(number: int, actions: list[str]):
    state = State(*generate(f"train/{number}"))
    state.items |= {"wood": 9, "stone": 9, "sapling": 1}
    rng = np.random.default_rng(number)
    for action in actions:
        before = len(state.achieved)
        able = possible(state)
        turn(state, action, rng)
        assert action in able or len(state.achieved) - before <= ("wake up" in state.achieved)
        assert all(0 <= amount <= MOST for amount in state.items.values())
        spots = [(c.x, c.y) for c in state.creatures]
        assert len(set(spots)) == len(spots) and (state.x, state.y) not in spots
        assert all(state.material(spot) for spot in spots)
        if state.items["health"] <= 0:
            break


def test_a_turn_without_effect_is_valid_and_told():
    env = CrafterText()
    env.reset(seed=0)
    observation, reward, *_, info = env.step("make iron sword")
    assert observation.startswith("You cannot make iron sword now.") and info["valid"]
    assert reward == 0.0
    assert not env.step("fly")[-1]["valid"]


@pytest.mark.slow
def test_the_expert_unlocks_most_achievements():
    counts = []
    for number in range(2):
        env = CrafterText(split="test", max_turns=400)
        _, info = env.reset(seed=number, options={"task": f"test/{number}"})
        done = False
        while not done:
            action = env.expert()
            assert action in ACTIONS
            *_, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        counts.append(22 * info["progress"])
    assert np.mean(counts) > 14


def fenced(age: int) -> State:
    """A player with a pickaxe and all achievements but one, whose plant stands between stones."""
    state = meadow(wood_pickaxe=1)
    x, y = state.x + 12, state.y
    state.creatures = [Creature("plant", x, y, 1, age)]
    for spot in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
        state.put(spot, "s")
    state.achieved = [name for name in ACHIEVEMENTS if name != "eat plant"]
    return state


def led(state: State, turns: int) -> State:
    """Lets the expert play in a world in which no creature appears."""
    rng = np.random.default_rng(0)
    for _ in range(turns):
        turn(state, best_action(state), rng)
        state.creatures = [c for c in state.creatures if c.kind == "plant"]
    return state


def test_the_expert_opens_the_fence_of_a_ripe_plant():
    assert led(fenced(RIPE + 1), 15).achieved[-1] == "eat plant"


def test_the_expert_waits_near_its_plant():
    state = led(fenced(0), 20)
    assert abs(state.x - state.creatures[0].x) + abs(state.y - state.creatures[0].y) <= 8


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rows", ["."]),
        ("rows", ["?" * SIZE] * SIZE),
        ("x", 99),
        ("dx", 2),
        ("items", {"health": 9}),
        ("items", dict.fromkeys(VITALS, 10)),
        ("achieved", ["fly"]),
        ("creatures", [vars(Creature("dragon", 1, 1, 1))]),
    ],
)
def test_a_damaged_snapshot_is_refused(key: str, value: object):
    env = CrafterText()
    env.reset(seed=0)
    snapshot = json.loads(json.dumps(env.snapshot()))
    snapshot["state"][key] = value
    with pytest.raises(ValueError, match="snapshot"):
        env.restore(snapshot)
