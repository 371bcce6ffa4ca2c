"""ResourceTrading: offers, trades, winners and scripted traders."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym.envs.negotiation import trading
from agentgym.envs.negotiation.resource_trading import ResourceTrading, State
from agentgym.envs.negotiation.trading import Offer, offer_in, written
from agentgym.multiagent.rules import InvalidMove

ID = "ResourceTrading-v0"
PRICES = list(trading.PRICES.values())


def at(game: ResourceTrading, **changes: Any) -> State:
    """Puts a game into a state with ten pieces of everything for both and typical values."""
    game.reset(seed=0)
    full = [10] * 5
    state = State((PRICES, PRICES), ([*full], [*full]), ([*full], [*full]), mover=0)
    for name, value in changes.items():
        setattr(state, name, value)
    game.state = state
    assert game.episode is not None
    game.episode.acting = game._acting()
    game._observe({})
    return state


@pytest.mark.parametrize(
    ("message", "gives", "wants"),
    [
        ("[Offer: 3 salt, 2 silver -> 5 copper]", [3, 0, 0, 0, 2], [0, 0, 0, 5, 0]),
        ("Look! [OFFER 1 Grain->1 cloth and 1 salt.] Well?", [0, 1, 0, 0, 0], [1, 0, 1, 0, 0]),
        ("[Offer: 3\u00a0salt, two silver \u2192 \uff15 copper]", [3, 0, 0, 0, 2], [0, 0, 0, 5, 0]),
        ("I cannot pay more. [Offer: 3 salt => 1 cloth]", [3, 0, 0, 0, 0], [0, 0, 1, 0, 0]),
        ("[offer: I give 1 salt, 1 salt -> 1 grain]", [2, 0, 0, 0, 0], [0, 1, 0, 0, 0]),
    ],
)
def test_offers_that_are_understood(message, gives, wants):
    assert offer_in(message) == Offer(gives, wants)


@pytest.mark.parametrize(
    "message",
    [
        "[Offer: 3 salt]",
        "[Offer: 3 gold -> 1 salt]",
        "[Offer: -> 1 salt]",
        "[Offer: 0 salt -> 1 grain]",
        "[Offer: salt -> grain]",
        "[Offer: 10001 salt -> 1 grain]",
        "[Offer: 1 salt -> 1 grain -> 1 cloth]",
        "[Offer: 1.5 silver -> 9 grain]",
        "[Offer: 1 silver -> 1,000 salt, 2 grain]",
        "[Offer: -3 salt -> 2 grain]",
        "[Offer: \u22123 salt -> 2 grain]",
        "[Offer: 3 salt and a horse -> 2 grain]",
        "[Offer: 3 salt or 2 grain -> 2 cloth]",
        "[Offer: 3 salt, some grain -> 2 cloth]",
        "[Offer: 3 salt 4 -> 2 cloth]",
        "[Offer: all salt -> 2 cloth]",
        "[Offer: 1 salt -> 1 grain] or [Offer: 2 salt -> 1 grain]",
        "I would never make this: [Offer: 1 salt -> 1 grain]",
        "[Offer: 1 salt -> 1 grain] if you like",
    ],
)
def test_offers_that_are_not_understood_are_invalid(message):
    with pytest.raises(ValueError):
        offer_in(message)
    env = agentgym.make_parallel(ID)
    env.reset(seed=0)
    (agent,) = env.game.acting
    _, _, _, _, infos = env.step({agent: message})
    assert not infos[agent]["valid"] and env.game.acting == (agent,)


@pytest.mark.parametrize(
    ("message", "valid"),
    [
        ("[Accept]", True),
        ("All right. [ACCEPT] Thank you, and I don't want more.", True),
        ("\uff3baccept\uff3d", True),
        ("I will not [Accept]", False),
        ("If you add 2 salt, I [Accept]", False),
        ("[Accept] if you add 2 salt", False),
        ("[Accept] [Deny]", False),
    ],
)
def test_an_acceptance_under_a_condition_or_a_denial_is_invalid(message, valid):
    game = ResourceTrading()
    state = at(game, offer=Offer([1, 0, 0, 0, 0], [0, 1, 0, 0, 0]))
    before = [*state.stock[0]]
    game.play({"player_0": message})
    assert game.steps["player_0"].valid == valid and (state.stock[0] != before) == valid


@given(st.text(max_size=100))
def test_any_text_in_an_offer_is_survived(text):
    try:
        offer_in(f"[Offer: {text}]")
    except ValueError as reason:
        assert str(reason)


def test_an_offer_is_written_as_it_is_read():
    offer = Offer([1, 0, 2, 0, 0], [0, 0, 0, 0, 3])
    assert written(offer) == "[Offer: 1 salt, 2 cloth -> 3 silver]"
    assert offer_in(written(offer)) == offer and offer_in("offer: 1 salt -> 1 grain") is None


def test_a_trade_by_hand():
    game = ResourceTrading(turns=4)
    state = at(game, values=([5, 8, 15, 25, 40], [5, 12, 15, 25, 40]))
    game.play({"player_0": "[Offer: 5 grain -> 3 cloth]"})
    assert "You are offered 5 grain for 3 cloth." in game.steps["player_1"].text
    game.play({"player_1": "[accept] [Offer: 3 grain -> 1 silver]"})
    assert state.stock == ([10, 5, 13, 10, 10], [10, 15, 7, 10, 10])
    assert (state.gain(0), state.gain(1)) == (5, 15)
    game.play({"player_0": "I will not take that."})
    assert state.offer is None
    game.play({"player_1": "Why not?"})
    assert game.reward("player_0") == -1 and game.reward("player_1") == 1
    assert game.steps["player_1"].success and not game.steps["player_0"].success
    assert "You gained 5, the other player 15." in game.steps["player_0"].text


def test_own_gain_counts_where_it_is_asked_for():
    game = ResourceTrading(turns=2, reward="gain")
    at(game, values=([5, 8, 15, 25, 40], [5, 12, 15, 25, 40]))
    game.play({"player_0": "[Offer: 5 grain -> 3 cloth]"})
    game.play({"player_1": "[Accept]"})
    assert game.reward("player_0") == pytest.approx(5 / 930)
    assert game.reward("player_1") == pytest.approx(15 / 970)
    assert game.steps["player_0"].success and game.steps["player_1"].success


@pytest.mark.parametrize(
    ("offer", "said", "words"),
    [
        (None, "[Accept]", "no offer"),
        (Offer([1, 0, 0, 0, 0], [0, 0, 0, 0, 11]), "[Accept]", "do not have"),
        (None, "[Offer: 11 salt -> 1 grain]", "do not have"),
        (Offer([5, 0, 0, 0, 0], [0, 1, 0, 0, 0]), "[Deny] [Offer: 11 salt -> 1 grain]", "not have"),
    ],
)
def test_nobody_gives_what_it_does_not_have(offer, said, words):
    game = ResourceTrading()
    at(game, offer=offer)
    game.play({"player_0": said})
    assert not game.steps["player_0"].valid and words in game.steps["player_0"].feedback


def test_what_was_just_accepted_can_be_offered():
    game = ResourceTrading()
    state = at(game, offer=Offer([5, 0, 0, 0, 0], [0, 1, 0, 0, 0]))
    game.play({"player_0": "[Accept] [Offer: 15 salt -> 1 grain]"})
    assert game.steps["player_0"].valid and state.stock[0][:2] == [15, 9]


def test_starts_keep_the_rules():
    game = ResourceTrading()
    for task in range(100):
        game.reset(seed=0, task=f"test/{task}")
        for values, stock in zip(game.state.values, game.state.stock, strict=True):
            assert all(5 <= number <= 25 for number in stock)
            for value, price in zip(values, PRICES, strict=True):
                assert 0.8 * price <= value <= 1.2 * price and 5 <= value <= 40


@pytest.mark.parametrize("level", ResourceTrading.levels)
def test_goods_and_values_are_private(level):
    for seed in range(4):
        game = ResourceTrading()
        game.reset(seed)
        while game.acting:
            (agent,) = game.acting
            said = game.script(level, agent, np.random.default_rng(seed))
            state, other = game.state, 1 - game.state.mover
            seen, snapshot = game._look(agent), game.snapshot()
            state.stock[other][:], state.start[other][:] = [7] * 5, [8] * 5
            state.values[other][:] = [5, 12, 18, 20, 40]
            assert game._look(agent) == seen
            assert game.script(level, agent, np.random.default_rng(seed)) == said
            game.restore(snapshot)
            game.play({agent: said})


def test_the_naive_take_any_gain_and_the_wary_mind_the_others():
    values = [5, 12, 15, 25, 40]
    kind, sly = Offer([0, 5, 0, 0, 0], [0, 0, 3, 0, 0]), Offer([0, 4, 0, 0, 0], [0, 0, 3, 0, 0])
    poor = Offer([0, 1, 0, 0, 0], [0, 0, 0, 0, 1])
    for level, answers in (("naive", (True, True, False)), ("wary", (True, False, False))):
        game = ResourceTrading()
        for offer, taken in zip((kind, sly, poor), answers, strict=True):
            at(game, values=(values, PRICES), offer=offer)
            said = game.script(level, "player_0", game.np_random)
            assert trading.accepts(said) == taken


def test_beliefs_follow_answers():
    grain_for_cloth = ([0, 4, -3, 0, 0], True)
    values, weights = trading.beliefs("naive", [grain_for_cloth] * 2)
    gains = values @ np.array(grain_for_cloth[0])
    assert weights[gains > 0].sum() > 0.95
    _, prior = trading.beliefs("naive", [])
    assert prior == pytest.approx(np.full(len(prior), 1 / len(prior)))


def test_no_offer_without_goods():
    empty = [0] * 5
    assert trading.simple_offer("naive", PRICES, empty, np.random.default_rng(0)) is None
    game = ResourceTrading()
    for level in game.levels:
        at(game, stock=(empty, [10] * 5))
        assert "[Offer" not in game.script(level, "player_0", game.np_random)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["naive", "wary"])
def test_the_expert_beats_the_simple_traders(level):
    env: Any = gymnasium.make(f"AgentGym/{ID}", opponents=level, disable_env_checker=True).unwrapped
    total = 0.0
    for task in range(30):
        env.reset(seed=task, options={"task": f"test/{task}"})
        over = False
        while not over:
            _, reward, over, _, info = env.step(env.expert())
            assert info["valid"]
            total += reward
    assert total / 30 > 0.4


@pytest.mark.parametrize("wrong", [{"turns": 0}, {"reward": "both"}])
def test_wrong_arguments(wrong):
    with pytest.raises(ValueError):
        ResourceTrading(**wrong)


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("[Accept]? No.", "question"),
        ("[Accept the offer]", "none of [Accept], [Deny] and [Offer: ...]"),
        ("[Counter: 3 salt -> 2 copper]", "none of"),
        ("I accept.", "write [Accept]"),
        ("Okay, I accept your offer, thanks!", "write [Accept]"),
        ("Offer: 1 salt -> 1 grain", "needs brackets"),
        ("How about 1 salt \u2192 1 grain?", "needs brackets"),
    ],
)
def test_a_tag_in_other_words_does_not_lose_the_turn(message: str, hint: str):
    game = ResourceTrading()
    at(game, offer=Offer([1, 0, 0, 0, 0], [0, 0, 0, 0, 1]))
    with pytest.raises(InvalidMove, match=re.escape(hint)):
        game._parse("player_0", message)


@pytest.mark.parametrize(
    "message",
    [
        "\\[Accept\\]", "[Accept]. No problem!", "I would accept 3 salt.", "[Deny] Would you?",
        "I cannot accept that.", "How about [Offer: 1 salt -> 1 grain]?", "Salt is cheap -> no.",
        "[Hello] salt and grain", "[Offer: 1 salt -> 1 grain]. No salt, no deal.",
        "[Deny] 1 salt -> 1 grain is bad.", "You offered 3 salt -> 2 copper before.",
        "Salt -> grain is my wish.",
    ],
)  # fmt: skip
def test_other_messages_stay_messages(message: str):
    game = ResourceTrading()
    at(game, offer=Offer([1, 0, 0, 0, 0], [0, 0, 0, 0, 1]))
    assert game._parse("player_0", message) == message


def test_an_agreement_without_an_offer_is_a_message():
    game = ResourceTrading()
    game.reset(seed=0)
    agent = game.acting[0]
    assert game._parse(agent, "Okay, deal!") == "Okay, deal!"
