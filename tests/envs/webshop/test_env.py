from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.envs.webshop.catalogue import Catalogue
from agentgym.envs.webshop.env import WebShop, split_goals
from agentgym.errors import DataError, SnapshotError, UnknownTaskError

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "webshop"


@pytest.fixture(scope="module")
def env() -> WebShop:
    return WebShop()


@pytest.fixture
def real_env(real_catalogue: Catalogue) -> WebShop:
    return WebShop(data_dir=REAL, split="test")


def play_randomly(env: WebShop, seed: int, turns: int = 15) -> list[Any]:
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    seen: list[Any] = [observation]
    for _ in range(turns):
        action = info["admissible"][rng.integers(len(info["admissible"]))]
        *result, info = env.step(action)
        assert info["valid"]
        seen.append((action, *result))
        if result[2] or result[3]:
            break
    return seen


def open_product(env: WebShop, task: str = "goal/0") -> dict[str, Any]:
    env.reset(seed=0, options={"task": task})
    *_, info = env.step("search[red]")
    *_, info = env.step(info["admissible"][2])
    return info


def test_an_episode_from_search_to_purchase(env: WebShop):
    observation, info = env.reset(seed=0, options={"task": "goal/4"})
    assert observation.startswith("WebShop [SEP] Instruction: [SEP] Find me ")
    assert info["task"] == "goal/4"
    total, done, truncated = 0.0, False, False
    while not done:
        action = env.expert()
        assert action is not None
        observation, reward, done, truncated, info = env.step(action)
        total += reward
    assert not truncated and total == 1.0 and info["success"] and info["progress"] == 1.0
    assert info["reward_terms"] == {"task": 1.0, "invalid": 0.0}
    assert "Your score (min 0.0, max 1.0) [SEP] 1.0" in observation
    assert info["admissible"] == () and env.expert() is None


def test_a_purchase_in_part_is_no_success(env: WebShop):
    open_product(env)
    _, reward, terminated, _, info = env.step("click[buy now]")
    assert terminated and 0 <= reward < 1
    assert not info["success"] and info["progress"] == reward


def test_every_admissible_action_is_valid(env: WebShop, real_env: WebShop):
    for seed in range(40):
        play_randomly(env, seed)
        play_randomly(real_env, seed)


def test_the_search_page_suggests_searches_that_can_be_read_off_it(env: WebShop):
    for task in range(50):
        observation, info = env.reset(options={"task": f"goal/{task}"})
        assert 1 <= len(info["admissible"]) <= 4
        for action in info["admissible"]:
            words = action.removeprefix("search[").removesuffix("]")
            assert words in observation.lower()


def test_an_invalid_action_shows_the_same_page_in_silence(env: WebShop):
    before = open_product(env)
    text, *_ = env.step("click[reviews]")
    again, reward, terminated, truncated, info = env.step("click[buy now]")
    assert again == text and not info["valid"]
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert before["valid"] and info["turn"] == 4


def test_invalid_actions_can_be_explained_and_cost(env: WebShop):
    told = WebShop(explain_invalid=True, invalid_penalty=0.1)
    first, _ = told.reset(seed=3)
    text, reward, *_, info = told.step("buy it")
    assert text == f"Expected search[words] or click[text], got 'buy it'.\n\n{first}"
    assert reward == -0.1 and info["reward_terms"] == {"task": 0.0, "invalid": -0.1}
    assert "nothing to click named 'buy now'" in told.step("click[Buy Now]")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "action", ["[" * 10_000_000, "search[" + "a b" * 3_000_000 + "]", "click[" + "x" * 10_000_000]
)
def test_ten_megabytes_are_only_another_action(env: WebShop, action: str):
    env.reset(seed=0)
    *_, info = env.step(action)
    assert info["valid"] is action.startswith("search")
    assert env._last is not None and len(env._last.state_key) < 1000


def test_rich_pages_tell_what_was_chosen():
    env = WebShop(observation_mode="text_rich")
    info = open_product(env)
    option = next(action for action in info["admissible"][6:] if action != "click[buy now]")
    text, *_ = env.step(option)
    value = option.removeprefix("click[").removesuffix("]")
    assert text.startswith(f"You have clicked {value}.\nInstruction:\n")


def test_random_products_are_drawn_by_the_seed(env: WebShop):
    found = []
    for seed in (1, 1, 2):
        env.reset(seed=seed, options={"task": "goal/0"})
        found.append(env.step("search[<r> ]")[0])
    assert found[0] == found[1] != found[2]


def test_max_turns_truncates_and_can_be_removed(env: WebShop):
    short = WebShop(max_turns=2)
    short.reset(seed=0)
    assert short.step("x")[3] is False
    assert short.step("x")[2:4] == (False, True)
    endless = WebShop(max_turns=None)
    endless.reset(seed=0)
    endless.step("search[red]")
    for _ in range(100):
        *_, truncated, _ = endless.step("click[next >]")
        assert not truncated
    assert len(endless.state.seen) <= 64


# Reading of actions.

DRESSES = (
    *(" {}", "{}\n", "{}.", "`{}`", "**{}**", '"{}"', "```\n{}\n```", "{}, I think"),
    *("Action: {}", "**Action:** `{}`.", "Action: {}\nObservation: click[buy now]"),
    "Thought: search[blue] found nothing.\nAction: {}\nObservation: made up",
)


def spoken(action: str) -> list[str]:
    """The action with additions that do not change its meaning."""
    name, _, rest = action.partition("[")
    cased = (action.upper(), f"{name.capitalize()} [{rest}")
    return [dress.format(way) for dress in DRESSES for way in (action, *cased)]


def accepted(action: str, clickables: list[str]) -> bool:
    """Whether the original carries an action out, by its regular expression."""
    match = re.match(r"(.+)\[(.+)\]", action)
    if match is None:
        return False
    argument = match[2].lower()
    return match[1] == "search" or (match[1] == "click" and argument in clickables)


@pytest.mark.parametrize("action", ["search[Red Shoes]", "click[features]", "click[buy now]"])
def test_lenient_parsing_treats_searches_and_clicks_alike(env: WebShop, action: str):
    open_product(env)
    start = env.snapshot()
    expected = env.step(action)
    assert expected[-1]["valid"]
    for said in spoken(action):
        env.restore(start)
        assert env.step(said) == expected, said


@pytest.mark.parametrize("action", ["search[Red Shoes]", "click[features]", "click[buy now]"])
def test_exact_parsing_accepts_the_actions_of_the_original_only(action: str):
    exact = WebShop(action_parsing="exact")
    clickables = [text[6:-1] for text in open_product(exact)["admissible"]]
    start = exact.snapshot()
    found = set()
    for said in (action, *spoken(action), "click[buy now", "buy now"):
        exact.restore(start)
        *_, info = exact.step(said)
        assert info["valid"] == accepted(said, clickables), said
        found.add(info["valid"])
    assert found == {True, False}


@pytest.mark.parametrize("parsing", ["lenient", "exact"])
def test_two_actions_are_refused_unless_the_original_is_followed(parsing: str):
    env = WebShop(action_parsing=parsing, explain_invalid=True)
    open_product(env)
    text, _, terminated, _, info = env.step("search[blue]\nAction: click[buy now]")
    assert info["valid"] == (parsing == "exact") and not terminated
    assert ("Reply with one action" in text) == (parsing == "lenient")
    assert env.state.session.keywords == "blue" or parsing == "lenient"


@pytest.mark.parametrize(
    "action", ["I will click[buy now]", "search[red] click[buy now]", "click buy now", "buy now"]
)
def test_lenient_parsing_guesses_nothing(env: WebShop, action: str):
    open_product(env)
    *_, info = env.step(action)
    assert not info["valid"]


def test_actions_are_parsed_exactly_in_the_original_shop(env: WebShop, real_env: WebShop):
    for shop, valid in ((env, True), (real_env, False)):
        shop.reset(seed=0)
        assert shop.step(" search[red]")[-1]["valid"] is valid
    lenient = WebShop(data_dir=REAL, action_parsing="lenient")
    lenient.reset(seed=0)
    assert lenient.step(" search[red]")[-1]["valid"]


# Tasks.


def test_tasks_are_the_goals_in_the_originals_order(real_env: WebShop):
    assert len(real_env.tasks.test) == 500 and len(real_env.tasks.train) == 6410
    observation, _ = real_env.reset(options={"task": "goal/5102"})
    assert "Find me anti slip, non slip women's slippers with faux fur" in observation
    with pytest.raises(UnknownTaskError):
        real_env.reset(options={"task": "goal/6910"})


@pytest.mark.parametrize(
    ("goals", "test", "train"), [(9000, 500, 8500), (100, 10, 90), (13, 1, 12), (2, 1, 1)]
)
def test_a_tenth_is_held_out_where_there_are_few_goals(goals: int, test: int, train: int):
    tasks = split_goals(goals)
    assert (len(tasks.test), len(tasks.train)) == (test, train)
    assert not set(tasks.test) & set(tasks.train)


def test_the_only_goal_is_both(env: WebShop):
    assert list(split_goals(1).train) == list(split_goals(1).test) == ["goal/0"]


def test_human_goals(real_catalogue: Catalogue):
    env = WebShop(data_dir=REAL, goals="human")
    assert len(env.tasks.train) + len(env.tasks.test) == 13
    for task in [*env.tasks.train, *env.tasks.test]:
        env.reset(options={"task": task})
        for _ in range(15):
            action = env.expert()
            assert action is not None
            _, reward, terminated, truncated, info = env.step(action)
            assert info["valid"]
            if terminated or truncated:
                break
        assert 0 <= reward <= 1  # pyright: ignore[reportPossiblyUnboundVariable]


# Snapshots, copies, memory.


def test_a_snapshot_continues_in_another_process(env: WebShop):
    open_product(env, "goal/9")
    env.step("search[<r>]")
    env.step("click[features]")
    snapshot = json.dumps(env.snapshot())
    actions = ["click[next >]", "search[<r>]", "click[next >]", "click[< prev]"]
    code = (
        "import json, sys\n"
        "from agentgym.envs.webshop.env import WebShop\n"
        "env = WebShop()\n"
        "snapshot, actions = json.load(sys.stdin)\n"
        "start = env.restore(snapshot)\n"
        "print(json.dumps([start, *(env.step(a) for a in actions)]))\n"
    )
    feed = json.dumps([json.loads(snapshot), actions])
    run = subprocess.run(
        [sys.executable, "-c", code], input=feed, capture_output=True, text=True, check=True
    )
    there = json.loads(run.stdout)
    here = [env.restore(json.loads(snapshot)), *(env.step(action) for action in actions)]
    assert there == json.loads(json.dumps(here))


def test_a_snapshot_of_another_shop_is_refused(env: WebShop):
    env.reset(seed=0)
    for other in (WebShop(num_products=100), WebShop(data_seed=1), WebShop(catalogue_seed=1)):
        with pytest.raises(SnapshotError, match="other products, prices or goals"):
            other.restore(env.snapshot())


def test_the_65th_environment_costs_less_than_a_mebibyte(env: WebShop):
    crowd = [WebShop() for _ in range(64)]
    tracemalloc.start()
    try:
        one = WebShop()
        for seed in range(3):
            play_randomly(one, seed)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(other.shop is env.shop for other in crowd)
    assert size < 1 << 20
    assert len(pickle.dumps(one)) < 1 << 14


def test_a_pickled_environment_finds_its_shop_again(env: WebShop):
    open_product(env)
    copy = pickle.loads(pickle.dumps(env))
    assert copy.shop is env.shop
    assert copy.step("click[features]") == env.step("click[features]")


# Pictures.


def test_the_first_picture_leaves_the_users_random_alone():
    code = (
        "import random, gymnasium, agentgym\n"
        "env = gymnasium.make('AgentGym/WebShop-v0', render_mode='ansi')\n"
        "env.reset(seed=0)\n"
        "before = random.getstate()\n"
        "env.render()\n"
        "assert random.getstate() == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_pages_as_a_person_sees_them(capsys: pytest.CaptureFixture[str]):
    env = WebShop(render_mode="human")
    info = open_product(env)
    option = info["admissible"][-2]
    env.step("nonsense")
    env.step(option)
    env.step("click[features]")
    env.step("click[< prev]")
    env.step("click[buy now]")
    shown = capsys.readouterr().out
    assert "WebShop · Search" in shown and "WebShop · Results for “red”, page 1" in shown
    assert f"● {option[6:-1]}" in shown and "Options: click[value]" in shown
    assert "This action is not possible here." in shown
    assert "Your score: " in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observation_mode": "html"}, "observation_mode must be one of"),
        ({"goals": "robot"}, "goals must be one of"),
        ({"action_parsing": "strict"}, "action_parsing must be one of"),
        ({"num_products": 0}, "num_products must be at least 1"),
        ({"num_products": 2_000_000}, "num_products must be in"),
        ({"num_products": None}, "num_products must be a number"),
        ({"tagger": "nltk"}, "tagger must be one of"),
        ({"catalogue_seed": -1}, "catalogue_seed must be"),
        ({"max_turns": 0}, "max_turns must be"),
        ({"split": "eval"}, "split must be"),
        ({"data_dir": "/nowhere/at/all"}, "/nowhere/at/all"),
        ({"goals": "human"}, "no human goal"),
    ],
)
def test_bad_arguments_are_explained(arguments: dict[str, Any], message: str):
    with pytest.raises((ValueError, DataError), match=message):
        WebShop(**arguments)


def test_an_own_tagger_is_asked(env: WebShop):
    mine = WebShop(tagger=no_nouns)
    open_product(mine)
    _, reward, *_ = mine.step("click[buy now]")
    assert mine.shop is not env.shop and reward >= 0


def no_nouns(text: str) -> list[str]:
    return []
