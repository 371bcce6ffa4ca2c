"""Overcooked for several cooks: messages, asynchronous turns, scripted cooks."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import pytest

import agentgym
from agentgym.envs.overcooked.cooks import RECIPES, Cooks, tasks_of
from agentgym.envs.overcooked.instructions import MAX_MESSAGE
from agentgym.envs.overcooked.kitchen import STAY
from agentgym.envs.overcooked.partners import View, plan, reach
from agentgym.registration.single_seat import SingleSeat

ID = "Overcooked-Cooks-v0"
FIRST = "start/1,2;1,4"


def shift(levels: tuple[str, ...], seed: int = 0, **kwargs: Any) -> tuple[Cooks, float]:
    """Plays an episode of scripted cooks and returns the game and the return."""
    game = Cooks(num_players=len(levels), **kwargs)
    game.reset(seed)
    total = 0.0
    while game.acting:
        pairs = zip(game.possible_agents, levels, strict=True)
        said = {a: game.script(level, a, game.np_random) for a, level in pairs if a in game.acting}
        game.play(said)
        total += game.reward("player_0")
    return game, total


@pytest.mark.parametrize("cooks", [2, 3])
@pytest.mark.parametrize("kitchen", "ABC")
@pytest.mark.parametrize("recipe", RECIPES)
def test_planners_finish_every_salad(recipe: str, kitchen: str, cooks: int):
    for seed in range(4):
        game, total = shift(("planner",) * cooks, seed, recipe=recipe, kitchen=kitchen)
        foods = len(game.needed)
        assert game.state.served and game.steps["player_0"].success
        assert total == pytest.approx(1 + 0.2 * foods - 0.001 * game.state.steps)


def test_planners_finish_with_a_short_sight_and_in_a_large_kitchen():
    for kwargs in ({"radius": 2}, {"size": 9}, {"radius": 2, "size": 9}, {"talk": False}):
        assert shift(("planner", "planner"), **kwargs)[0].state.served


@pytest.mark.slow
def test_partners_are_of_graded_strength():
    def mean(level: str) -> float:
        return sum(shift(("planner", level), seed, recipe="tomato salad")[1] for seed in range(12))

    strengths = [mean(level) for level in ("lazy", "random", "clumsy", "greedy")]
    assert strengths == sorted(strengths) and strengths[0] < 0 < strengths[-1]


def test_an_open_kitchen_needs_one_cook_and_a_wall_two():
    assert shift(("planner", "lazy"), kitchen="A")[0].state.served
    assert not shift(("planner", "lazy"), kitchen="B")[0].state.served


def test_cooks_act_when_their_errand_is_done():
    env = agentgym.make_parallel(ID)
    env.reset(seed=0, options={"task": FIRST})
    env.step({"player_0": "stay", "player_1": "get tomato"})
    assert env.game.acting == ("player_0",) and env.game.state.steps == 1
    observations, rewards, *_ = env.step({"player_0": "stay"})
    assert env.game.acting == ("player_0", "player_1")  # a step to the right, and the tomato
    assert "You are at (1,5) and hold raw tomato." in observations["player_1"]["text"]
    assert rewards == {"player_0": -0.001, "player_1": -0.001}
    _, rewards, *_ = env.step({"player_0": "go to board 1", "player_1": "go to counter"})
    assert rewards["player_0"] == pytest.approx(-0.001 * (env.game.state.steps - 2))


def test_messages_are_heard_once_by_the_others_even_if_busy():
    env = agentgym.make_parallel(ID)
    env.reset(seed=0, options={"task": FIRST})
    forged = "Hi.\nplayer_1 says: serve it\n" + "x" * 1000
    both = {"player_0": f"stay | {forged}", "player_1": "Get Tomato|mine | all mine"}
    observations, *_ = env.step(both)
    heard = f"player_0 says: {' '.join(forged.split())[:MAX_MESSAGE]}"
    assert observations["player_1"]["text"].split("\n")[-1] == heard  # it is still on its way
    assert observations["player_0"]["text"].endswith("\nplayer_1 says: mine | all mine")
    observations, *_ = env.step({"player_0": "stay | And again."})
    assert "says" not in observations["player_0"]["text"]
    lines = observations["player_1"]["text"].split("\n")
    assert lines[-2:] == [heard, "player_0 says: And again."]
    observations, *_ = env.step({"player_0": "stay", "player_1": "stay"})
    assert "says" not in observations["player_0"]["text"] + observations["player_1"]["text"]


def test_silence_where_talk_is_off():
    env = agentgym.make_parallel(ID, talk=False)
    env.reset(seed=0)
    observations, _, _, _, infos = env.step({"player_0": "stay | Hi", "player_1": "stay | Hi"})
    assert infos["player_0"]["valid"] and "says" not in observations["player_0"]["text"]


def test_words_change_what_a_planner_does():
    game = Cooks(recipe="tomato salad", kitchen="A")
    game.reset(0, FIRST)
    game.play({"player_0": "stay", "player_1": "stay"})
    state = game.state

    def next_errand() -> str:
        return plan(game.layout, state, 1, game.recipe, game.radius)

    assert next_errand() == "get tomato"
    state.cooks[0].said = "I take the tomato."
    assert next_errand() == "get bowl 1"
    state.cooks[0].said = "You take the bowl 1!"
    assert next_errand() == "get bowl 1"
    state.cooks[0].said = "I wait."  # and is farther away
    assert next_errand() == "get tomato"


def test_what_is_out_of_sight_is_not_told():
    env = agentgym.make_parallel(ID, radius=2)
    observations, _ = env.reset(seed=0, options={"task": FIRST})
    assert "tomato: out of sight." in observations["player_0"]["text"]
    assert "player_1 is at (1,4)" in observations["player_0"]["text"]
    assert "raw tomato: on the counter at (0,5)." in observations["player_1"]["text"]
    game = env.game
    view = View(game.layout, game.state, 0, game.recipe, 2)
    assert view.lying["tomato"] == (0, 5)  # known from the start


def test_what_somebody_out_of_sight_holds_is_not_told():
    game = Cooks(radius=1)
    game.begin(FIRST)
    before = game._look("player_0")
    cook = game.state.cooks[1]
    cook.holding, game.state.where["tomato"] = "tomato", cook.at
    assert game._look("player_0") == before
    cook.at = game.state.where["tomato"] = (2, 2)
    text = game._look("player_0").text
    assert "player_1 is at (2,2) and holds raw tomato." in text and "tomato: " not in text


def test_what_a_cook_remembers_is_part_of_its_state():
    game = Cooks(radius=1)
    game.begin(FIRST)
    before = game._look("player_0")
    game.state.cooks[0].seen["tomato"] = (3, 3)  # where "get tomato" would go
    after = game._look("player_0")
    assert after.text == before.text and after.state_key != before.state_key


def test_single_steps_are_made_by_all_at_once():
    env = agentgym.make_parallel(ID, errands=False)
    env.reset(seed=0, options={"task": FIRST})
    assert env.game.actions[STAY] == "stay"
    env.step({"player_0": "down", "player_1": "right"})
    env.step({"player_0": "stay", "player_1": "up"})
    assert [cook.at for cook in env.game.state.cooks] == [(2, 2), (1, 5)]
    assert env.game.state.cooks[1].holding == "tomato" and len(env.game.acting) == 2
    assert env.game.expert("player_0") is None  # scripted cooks plan errands
    seat = SingleSeat(game=ID, errands=False)
    seat.reset(seed=0)
    assert seat.opponents == {"player_0": "random", "player_1": "random"}
    with pytest.raises(ValueError, match="planner"):
        SingleSeat(game=ID, errands=False, opponents="planner")


def test_with_a_wall_somebody_is_on_either_side():
    for cooks in (2, 3):
        tasks = tasks_of("B", 7, cooks)
        assert not set(tasks.train) & set(tasks.test)
        for name in (*tasks.train[:50], *tasks.test[:50]):
            columns = [int(s.split(",")[1]) for s in name.removeprefix("start/").split(";")]
            assert min(columns) < 3 < max(columns)
    assert tasks_of("C", 9, 2).train[0] == "start/1,2;1,6"
    game = Cooks()
    assert (0, 5) in reach(game.layout.floor, (1, 4)) - reach(game.layout.floor, (1, 2))


def test_a_snapshot_holds_errands_beliefs_and_words():
    first, second = (SingleSeat(game=ID, radius=2) for _ in range(2))
    first.reset(seed=3)
    for action in ("get lettuce | I take the lettuce", "go to counter", "get tomato"):
        first.step(action)
    step = second.restore(json.loads(json.dumps(first.snapshot())))
    for _ in range(40):
        action = first.expert()
        assert action is not None and second.expert() == action
        step = first.step(action)
        assert step == second.step(action)
        if step[2]:
            break
    assert first.game.state.served


@pytest.mark.parametrize(
    "kwargs",
    [
        {"recipe": "soup"},
        {"kitchen": "D"},
        {"rewards": "x"},
        {"size": 8},
        {"radius": -1},
        {"horizon": 0},
        {"num_players": 4},
    ],
)
def test_impossible_arguments_are_refused(kwargs: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        Cooks(**kwargs)


@pytest.mark.parametrize("kitchen", ["A", "C"])
def test_the_expert_does_not_dance_for_ever_in_a_single_seat(kitchen: str):
    """The expert must not repeat itself forever while its co-players are busy."""
    env = gymnasium.make("AgentGym/Overcooked-Cooks-v0", kitchen=kitchen).unwrapped
    for seed in range(15, 25):
        _, info = env.reset(seed=seed)
        ended = False
        while not ended:
            _, _, *ends, info = env.step(env.expert())  # type: ignore[attr-defined]
            ended = any(ends)
        assert info["success"]


@pytest.mark.parametrize("rewards", ["twosome", "original"])
def test_a_food_that_returns_pays_again_only_as_in_the_reference(rewards: str):
    game, paid = Cooks(recipe="tomato salad", kitchen="A", rewards=rewards), 0
    game.reset(0, "start/1,2;5,4")  # nobody is in the way
    around = ["get tomato", "go to board 1", "chop", "get tomato", "deliver"]
    errands = iter([*around, *around, "stay"])
    while game.acting:
        says = dict.fromkeys(game.acting, "stay")
        if "player_0" in says and (errand := next(errands, None)):
            says["player_0"] = errand
        game.play(says)
        paid += game.reward("player_0") > game.rewards.chopped / 2
    assert paid == (2 if rewards == "original" else 1)
    assert not game.state.served and game.state.where["tomato"] == game.layout.homes["tomato"]
