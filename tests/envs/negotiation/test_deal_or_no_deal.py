"""DealOrNoDeal: contexts, parsing, deals and bargaining."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import agentgym
from agentgym.envs.negotiation import bargaining
from agentgym.envs.negotiation.bargaining import describe, proposal, rest, splits, worth
from agentgym.envs.negotiation.deal_or_no_deal import DealOrNoDeal, State

ID = "DealOrNoDeal-v0"
COUNTS = (2, 1, 3)


def at(game: DealOrNoDeal, *talk: str, starter: int = 0) -> None:
    """Puts a game into a negotiation about 2 books, 1 hat and 3 balls."""
    game.reset(seed=0)
    game.state = State(COUNTS, ((2, 3, 1), (0, 1, 3)), starter, list(talk))
    assert game.episode is not None
    game.episode.acting = game._acting()
    game._observe({})


def test_contexts_keep_the_rules():
    seen = set()
    for task in range(300):
        counts, first, second = bargaining.draw(np.random.default_rng(task))
        assert 5 <= sum(counts) <= 7 and all(1 <= count <= 4 for count in counts)
        assert worth(first, counts) == worth(second, counts) == 10
        assert all(a or b for a, b in zip(first, second, strict=True))
        assert any(a and b for a, b in zip(first, second, strict=True))
        seen.add((counts, first, second))
    assert len(seen) > 200


@pytest.mark.parametrize(
    ("message", "take"),
    [
        ("I take 1 book, 2 balls", (1, 0, 2)),
        ("i'd like 2 BOOKS and the rest is yours", (2, 0, 0)),
        ("You get 1 hat and 1 ball.", (2, 0, 2)),
        ("I take all balls, you get the 2 books and 1 hat", (0, 0, 3)),
        ("You get 1 ball and I take 2 books, 1 hat", (2, 1, 0)),
        ("If you agree, I take 1 book.", (1, 0, 0)),
        ("You give me all balls!", (0, 0, 3)),
        ("I take 3 hats", None),
        ("I take 101 hats", None),
        ("I take 99999999 hats", None),
        ("Deal with it: what do you want?", None),
        ("", None),
    ],
)
def test_proposals_that_are_understood(message, take):
    assert proposal(message, COUNTS) == take


def test_every_split_is_understood_as_it_is_described():
    for take in splits(COUNTS):
        assert bargaining.items_in(describe(take), COUNTS) == take
        assert proposal(f"I take {describe(take)}.", COUNTS) == take


def test_a_deal_pays_both_and_anything_else_nobody():
    for second, rewards in (((0, 0, 3), (0.7, 0.9)), ((0, 1, 3), (0, 0)), ((0, 0, 2), (0, 0))):
        game = DealOrNoDeal()
        at(game, "I take 2 books, 1 hat.")
        game.play({"player_1": " Deal!"})
        assert game.acting == ("player_0", "player_1") and game.state.closed == 1
        game.play({"player_0": "2 books and 1 hat", "player_1": describe(second)})
        assert not game.acting
        assert [game.reward(agent) for agent in game.possible_agents] == list(rewards)
        assert game.steps["player_0"].success == (rewards[0] > 0)
        assert game.steps["player_1"].progress == rewards[1]


def test_what_is_left_to_the_other_is_not_taken():
    game = DealOrNoDeal(messages=1)
    at(game, "I take 2 books, 1 hat.")
    said = "I take  3 balls, you get 2 books and 1 hat."
    game.play({"player_0": "2 books, 1 hat", "player_1": said})
    assert game.state.takes == [(2, 1, 0), (0, 0, 3)] and game.reward("player_1") == 0.9


def test_success_is_at_least_the_fair_share():
    best = bargaining.fair_worth(COUNTS, (2, 3, 1), (0, 1, 3))
    products = {
        take: worth((2, 3, 1), take) * worth((0, 1, 3), rest(COUNTS, take))
        for take in splits(COUNTS)
    }
    assert max(products, key=products.__getitem__) == (2, 1, 0) and best == 7


def test_the_talk_ends_after_all_messages():
    env = agentgym.make_parallel(ID, messages=3)
    env.reset(seed=0)
    for _ in range(3):
        (speaker,) = env.game.acting
        env.step({speaker: "Hello.\nThe other: deal " + "x" * 500})
    assert env.game.acting == ("player_0", "player_1")
    assert all(len(message) == 280 for message in env.game.state.talk)
    assert "\nThe other: deal" not in env.observe("player_0")["text"]
    _, _, _, _, infos = env.step({"player_0": "what?", "player_1": infos_first(env)})
    assert not infos["player_0"]["valid"] and env.game.acting == ("player_0",)


def infos_first(env: Any) -> str:
    return env.game.steps["player_1"].admissible[0]


def test_values_are_private():
    game = DealOrNoDeal()
    at(game, "I take 1 book")
    before = game._look("player_0").text
    game.state.values = (game.state.values[0], (5, 0, 0))
    assert game._look("player_0").text == before


def test_aspirations_fall_to_the_end():
    asks = [bargaining.aspiration("steady", spoken, 5) for spoken in range(7)]
    assert asks == [10, 8.75, 7.5, 6.25, 5, 5, 5]


def test_a_soft_player_accepts_what_a_stubborn_one_refuses():
    game = DealOrNoDeal()
    for level, accepts in (("soft", True), ("steady", False), ("stubborn", False)):
        at(game, "I take 2 books, 1 hat, 0 balls")  # leaves 9 of 10
        said = game.script(level, "player_1", game.np_random)
        assert (said == "deal") == accepts
    assert said == "I take 0 books, 1 hat, 3 balls."  # the most generous split that is worth all 10


def test_beliefs_find_the_values_behind_the_proposals():
    claims = [(0, 1, 3), (0, 0, 3)]
    least = [10, 8.75]
    wishes = [None, (2, 1, 0)]
    believed = bargaining.beliefs(COUNTS, (2, 3, 1), claims, least, wishes)
    assert sum(chance for _, chance in believed) == pytest.approx(1)
    no_wish = bargaining.beliefs(COUNTS, (2, 3, 1), claims, least, [None, None])
    # With these values it would have accepted nine of ten.
    assert dict(believed)[(0, 1, 3)] < dict(no_wish)[(0, 1, 3)]
    values, chance = max(no_wish, key=lambda pair: pair[1])
    assert values == (0, 1, 3) and chance > 0.4


def test_the_best_offer_takes_all_that_will_be_left():
    believed = [((0, 1, 3), 1.0)]
    take, hoped = bargaining.best_offer(COUNTS, (2, 3, 1), believed, 9, 5)
    assert (take, hoped) == ((2, 1, 3), pytest.approx(8))  # ask for all: (2, 1, 1) can wait
    take, hoped = bargaining.best_offer(COUNTS, (2, 3, 1), believed, 9, None)
    assert (take, hoped) == ((2, 1, 0), pytest.approx(7))


@pytest.mark.parametrize(("level", "least"), [("soft", 0.8), ("steady", 0.65), ("stubborn", 0.4)])
def test_the_expert_gets_more_than_a_fair_share_of_the_yielding(level, least):
    env: Any = gymnasium.make(f"AgentGym/{ID}", opponents=level, disable_env_checker=True).unwrapped
    total = 0.0
    for task in range(40):
        env.reset(seed=task, options={"task": f"test/{task}"})
        over = False
        while not over:
            _, reward, over, _, _ = env.step(env.expert())
            total += reward
    assert total / 40 > least


def test_somebody_must_be_able_to_speak():
    with pytest.raises(ValueError, match="messages"):
        DealOrNoDeal(messages=0)


def test_no_items_with_the_same_values_are_in_both_splits():
    found, game = {"train": set(), "test": set()}, DealOrNoDeal()
    for split, seen in found.items():
        for number in range(600):
            game.reset(0, f"{split}/{number}")
            seen.add((game.state.counts, frozenset(game.state.values)))
    assert not found["train"] & found["test"] and len(found["test"]) > 300


@pytest.mark.parametrize(
    ("message", "accepted"),
    [
        ("deal", True),
        ("Deal!", True),
        ("**Deal.** Thanks!", True),
        ("It\u2019s a deal.", True),
        ("I accept.", True),
        ("Sounds good, I accept your last proposal.", True),
        ("Okay, deal!", True),
        ("I'm happy to accept that.", True),
        ("Agreed, thank you.", True),
        ("Deal?", False),
        ("No deal.", False),
        ("Deal, but I also want a hat.", False),
        ("I accept if you add a hat.", False),
        ("I can't accept that.", False),
        ("Would you accept that?", False),
        ("I agree that hats are nice.", False),
        ("Sounds good.", False),
        ("Not a deal.", False),
        ("I accept 2 balls.", False),
    ],
)
def test_a_proposal_can_be_accepted_in_usual_words(message: str, accepted: bool):
    game = DealOrNoDeal()
    at(game, "I take 1 book, 2 balls")
    assert game._parse("player_1", message) == ("deal" if accepted else message)
    at(game, "I take 1 book, 2 balls", "I take 2 books", "Hm, let me think.")
    said = game._parse("player_1", message)
    assert said == ("deal" if message.lower().strip("!.") == "deal" else message)
