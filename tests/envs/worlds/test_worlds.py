"""Generated worlds: exact checks, layers that swap alone, and rules that a model writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.worlds.generated_worlds import GeneratedWorlds
from agentgym.envs.worlds.kinds import KINDS, MOST_TURNS
from agentgym.envs.worlds.rules import EXAMPLE, Case, Rules, load_rules, parse_rules
from agentgym.envs.worlds.world import LUCK, World, check_world, difficulty, make_world
from agentgym.envs.worlds.written import PROMPT, rules_text, write_rules
from agentgym.errors import ConfigError, DataError

from ...helpers.chat_server import ChatServer, Messages, chat_server

PLAIN: dict[str, Any] = {"words": "named", "observation": "full", "reward": "goal"}


def plain(rules: Rules) -> World:
    return World(rules, {name: name for name in rules.actions})


def counter(places: int, *, back: bool = True, **changes: tuple[Case, ...]) -> Rules:
    values = tuple(map(str, range(places)))
    actions = {"on": (Case(add={"number": 1}),), "back": (Case(add={"number": -1}),)}
    actions = actions if back else {"on": actions["on"]}
    return Rules("A counter.", {"number": values}, actions | changes, ("number",))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_and_its_levels_are_neither_trivial_nor_impossible(kind: str):
    env = GeneratedWorlds(dynamics=kind, **PLAIN)
    for number in range(5):
        env.reset(seed=0, options={"task": f"test/{number}"})
        world, level, distances = env._level()
        assert check_world(world, 30) == []
        assert 2 <= distances[world.places[level.start]] <= 8
        turns, info = 0, dict[str, Any]()
        while (action := env.expert()) is not None:
            _, _, _, _, info = env.step(action)
            turns += 1
        assert info["success"] and turns == distances[world.places[level.start]]


def effects(rules: Rules) -> list[Any]:
    """Returns what actions do in 25 to 50 states, whatever the names and their order."""
    known = [*rules.variables]

    def in_order(names: Sequence[str]) -> list[Any]:
        sizes, found = [len(rules.variables[name]) for name in names], []
        states = [*product(*map(range, sizes))]
        states = states[:: 1 + len(states) // 51]
        places, back = [names.index(n) for n in known], [known.index(n) for n in names]
        for action in rules.actions:
            after = (rules.move(tuple(each[i] for i in places), action) for each in states)
            found.append([tuple(each[i] for i in back) for each in after])
        return [sizes, sorted(found)]

    return min(map(in_order, permutations(known)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_worlds_of_test_tasks_equal_no_other_world_but_for_names(kind: str):
    env = GeneratedWorlds(dynamics=kind, **PLAIN)
    seen = [effects(env.world_of(f"train/{i}").rules) for i in range(40)]
    seen += [effects(make_world(f"world/{i}", 30, kind, **PLAIN).rules) for i in range(20)]
    assert not any(effects(env.world_of(f"test/{i}").rules) in seen for i in range(15))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_the_content_of_rules_depends_on_no_names_and_no_order(kind: str, seed: int):
    rng = np.random.default_rng(seed)
    rules = KINDS[kind](rng)
    words = {*rules.variables, *(v for values in rules.variables.values() for v in values)}
    other_word = {word: f"w{i}" for i, word in enumerate(rng.permutation(sorted(words)))}

    def mixed(of: Mapping[str, Any]) -> dict[str, Any]:
        return {other_word[str(name)]: of[str(name)] for name in rng.permutation([*of])}

    def renamed(case: Case) -> Case:
        when = {name: tuple(other_word[v] for v in values) for name, values in case.when.items()}
        put = {name: other_word[value] for name, value in case.put.items()}
        copy = {name: other_word[of] for name, of in case.copy.items()}
        return Case(mixed(when), mixed(put), mixed(case.add), mixed(copy))

    variables = {n: tuple(other_word[v] for v in of) for n, of in rules.variables.items()}
    actions = {
        f"do {name}": tuple(map(renamed, rules.actions[str(name)]))
        for name in rng.permutation([*rules.actions])
    }
    other = Rules("A world.", mixed(variables), actions, ())
    assert other.content() == rules.content() and effects(other) == effects(rules)
    name = next(iter(actions))
    assert replace(other, actions=actions | {name: ()}).content() != rules.content()


@pytest.mark.parametrize("turns", [2, 3, 7])
def test_every_level_can_be_solved_within_a_small_turn_limit(turns: int):
    env = GeneratedWorlds(max_turns=turns)
    for number in range(40):
        env.reset(seed=0, options={"task": f"train/{number}"})
        world, level, distances = env._level()
        assert 2 <= distances[world.places[level.start]] <= turns


def test_a_turn_limit_below_every_level_is_refused():
    with pytest.raises(ConfigError, match=r"max_turns must be at least 2.*got 1\. Give more turns"):
        GeneratedWorlds(max_turns=1)


@pytest.mark.parametrize("dynamics", ["drawn", *MOST_TURNS])
def test_a_turn_limit_within_which_random_actions_reach_every_goal_is_refused(dynamics: str):
    most = MOST_TURNS.get(dynamics, 100)
    GeneratedWorlds(dynamics=dynamics, max_turns=most)
    with pytest.raises(ConfigError, match=rf"at most {most} .*got {most + 1}\. Give fewer turns"):
        GeneratedWorlds(dynamics=dynamics, max_turns=most + 1)


def test_worlds_are_checked_soon_with_many_turns():
    rules = KINDS["rooms"](np.random.default_rng(0))
    (problem,) = check_world(plain(rules), 10**9)
    assert "0 of 100 pairs of states make a level" in problem


def test_the_probability_of_luck_is_that_of_playing_at_random():
    world, rng, episodes = (
        make_world("world/3", 30, "dials", **PLAIN),
        np.random.default_rng(0),
        4000,
    )
    for number in range(3):
        level = world.level(f"train/{number}", 30)
        start, reached = world.places[level.start], world.met(level.goal)
        at, won = np.full(episodes, start), np.zeros(episodes, bool)
        for _ in range(30):
            at = world.moves[rng.integers(len(world.moves), size=episodes), at]
            won |= reached[at]
        assert world.luck(start, reached, 30) <= LUCK
        assert LUCK < world.luck(start, reached, 10**9, LUCK) < 1
        assert abs(won.mean() - world.luck(start, reached, 30)) < 4 * np.sqrt(0.25 / episodes)


def test_a_layer_is_swapped_and_the_others_stay():
    base = GeneratedWorlds(world=5)
    layers: dict[str, Any] = {"words": "inverse", "observation": "hidden", "reward": "progress"}
    for layer, value in layers.items():
        other = GeneratedWorlds(world=5, **{layer: value})
        one, two = base.world_of("train/0"), other.world_of("train/0")
        assert one.rules == two.rules and getattr(two, layer) == value
        for name in layers.keys() - {layer}:
            assert getattr(one, name) == getattr(two, name)
        assert one.level("train/3", 30) == two.level("train/3", 30)
    other = GeneratedWorlds(world=5, dynamics="dials").world_of("train/0")
    assert other.rules != base.world_of("train/0").rules
    assert other.words == base.world_of("train/0").words


def test_words_observations_and_rewards_do_what_they_say():
    def begun(**layers: Any) -> tuple[GeneratedWorlds, str]:
        env = GeneratedWorlds(world=1, dynamics="levers", **PLAIN | layers)
        return env, env.reset(seed=0, options={"task": "train/2"})[0]

    env, text = begun(words="told")
    world, level, distances = env._level()
    assert all(f"- {name}: {world.rules.told(name)}" in text for name in world.rules.actions)
    assert "moves on by 1" not in begun()[1]
    named = begun(words="invented")[0].world_of("train/2").names
    assert not {*named} & {*world.rules.actions} and [*named.values()] == [*world.rules.actions]
    inverse = begun(words="inverse")[0].world_of("train/2").names
    assert {*inverse} == {*world.rules.actions}
    assert all(name != action for name, action in inverse.items())

    env, first = begun(observation="changes")
    assert "Now: " in first
    action = str(env.expert())
    shown = env.step(action)[0]
    assert f"Changed: {action.removeprefix('pull ')} " in shown and "Now" not in shown
    env, first = begun(observation="hidden")
    hidden = env.world_of("train/2").hidden
    now = env.step(str(env.expert()))[0].partition("Now: ")[2].partition("\n")[0]
    assert hidden in first and hidden not in now

    for reward, wanted in (("goal", 1.0), ("progress", 1.0), ("price", None)):
        env, _ = begun(reward=reward)
        rewards = []
        while (action := env.expert()) is not None:
            rewards.append(env.step(action)[1])
        turns = distances[world.places[level.start]]
        assert sum(rewards) == pytest.approx(1 - 0.5 * turns / 30 if wanted is None else wanted)
        assert (reward == "progress") == (rewards[0] > 0)


def test_the_checks_name_what_is_wrong():
    def wrong(rules: Rules, turns: int = 30) -> str:
        return "; ".join(check_world(plain(rules), turns))

    assert "it has 3 states" in wrong(counter(3))
    assert "more than 5000 states" in wrong(counter(6000))
    assert "'wait' never changes" in wrong(counter(30, wait=(Case(),)))
    assert "always do the same" in wrong(counter(30, further=(Case(add={"number": 1}),)))
    stop = (Case({"number": ("0",)}), Case(put={"number": "7"}))
    trap = (Case({"number": ("7",)}), Case(add={"number": 1}))
    rules = Rules("A trap.", counter(8).variables, {"on": trap, "jump": stop}, ("number",))
    assert "no way back to the first state from 7 of 8" in wrong(rules)
    assert "make a level" in wrong(counter(8))  # random actions arrive
    assert wrong(counter(8), 3) == ""
    still = Rules("One.", {**counter(30).variables, "lamp": ("on", "off")}, counter(30).actions, ())
    assert "'lamp' never changes" in wrong(still)
    world = World(counter(8), {"on": "on", "back": "back"}, observation="hidden", hidden="number")
    assert "only variable is hidden" in "; ".join(check_world(world, 3))


def test_distances_are_those_of_trying_all_plans():
    world = make_world("world/3", 30, "dials", **PLAIN)
    reached = world.met({world.rules.goal[0]: "2"})
    distances = world.distances(reached)
    actions = [*world.rules.actions]
    for place in range(0, len(world.states), 7):
        found = [0] if reached[place] else []
        for length in range(1, 4):
            for plan in product(actions, repeat=length):
                state = world.states[place]
                for action in plan:
                    state = world.rules.move(state, action)
                if reached[world.places[state]]:
                    found.append(length)
        assert min(found, default=4) == min(distances[place], 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"variables": {}}, "variables must be an object"),
        ({"variables": {"plug": ["out"]}}, "two or more"),
        ({"variables": {"plug": ["out", "out"]}}, "different"),
        ({"actions": {"push": []}}, "must be a list"),
        ({"actions": {"push": [{"if": {}}]}}, "cases of when, set, add and copy"),
        ({"actions": {"push": [{"when": {"cable": "in"}}]}}, "'cable'"),
        ({"actions": {"push": [{"set": {"plug": "off"}}]}}, "'off'"),
        ({"actions": {"push": [{"add": {"plug": 0}}]}}, "whole number"),
        ({"actions": {"push": [{"copy": {"plug": "lamp"}}]}}, "other values"),
        ({"goal": ["roof"]}, "'roof'"),
        ({"about": "two\nlines"}, "texts of 1 to"),
        ({"colour": "red"}, "object of about"),
    ],
)
def test_an_error_in_rules_is_named(change: dict[str, object], said: str):
    with pytest.raises(DataError, match=said):
        parse_rules(json.dumps(json.loads(EXAMPLE) | change))


def test_a_file_of_rules_is_that_of_the_folder_in_which_the_environment_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "rules.json").write_text(EXAMPLE)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    env = GeneratedWorlds(dynamics="rules.json", **PLAIN)
    monkeypatch.chdir(tmp_path / "other")
    assert "workshop" in env.reset(seed=0, options={"task": "train/5"})[0]


def test_a_file_of_rules_is_played_and_a_bad_one_is_refused(tmp_path: Path):
    rules = make_world("world/0", 30, "levers", **PLAIN).rules
    assert parse_rules(rules_text(rules)) == rules
    (tmp_path / "good.json").write_text(rules_text(rules))
    env = GeneratedWorlds(dynamics=str(tmp_path / "good.json"), **PLAIN)
    assert rules.about in env.reset(seed=0)[0]
    (tmp_path / "small.json").write_text(rules_text(counter(3)))
    with pytest.raises(DataError, match="no good world"):
        GeneratedWorlds(dynamics=str(tmp_path / "small.json"))
    with pytest.raises(DataError, match="must be a JSON object"):
        parse_rules('{"about": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(DataError, match="cannot be read"):
        load_rules(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="dynamics must be"):
        GeneratedWorlds(dynamics="dice")
    with pytest.raises(ConfigError, match="words must be"):
        GeneratedWorlds(words="rude")


SIMPLE = rules_text(counter(9, back=False))
"""Goals in a circle of nine, which a single action always reaches: too easy for 30 turns."""
EASY, HARD = (rules_text(counter(n)) for n in (13, 40))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def write(messages: Messages) -> str:
        """Makes an error, then a world that is too easy, and then obeys."""
        text = messages[-1]["content"]
        assert messages[0]["content"] == PROMPT and "The theme: a clock" in text
        if "What is wrong" not in text:
            return "I cannot."
        if text.count("What is wrong") == 1:
            assert "must hold a JSON object" in text
            return f"Here:\n{SIMPLE}"
        assert "make a level" in text
        case = '```json\n{"put": {"hour": "1"}}\n```'
        return f"<think>{{}}</think>\nA case is\n{case}\nThe rules:\n```json\n{HARD}\n```"

    with chat_server(write) as running:
        yield running


def test_a_model_repairs_its_rules_and_its_replies_are_kept(server: ChatServer):
    source = f"chat:m@{server.url}"
    rules = write_rules(source, "a clock")
    assert rules == parse_rules(HARD) and len(server.requests) == 3
    assert write_rules(source, "a clock") == rules and len(server.requests) == 3
    with pytest.raises(DataError, match=r"no good rules in 2 attempts: .*make a level"):
        write_rules(source, "a clock", attempts=2)


def test_changed_rules_count_only_if_they_are_harder_or_easier(server: ChatServer):
    source, easy = f"chat:m@{server.url}", parse_rules(EASY)
    assert difficulty(easy) < difficulty(parse_rules(HARD))
    assert write_rules(source, "a clock", like=easy, be="harder") == parse_rules(HARD)
    with pytest.raises(DataError, match="its goals need"):
        write_rules(source, "a clock", like=easy, be="easier")
