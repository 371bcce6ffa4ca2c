"""Hidden information does not affect an agent's observation, admissible actions or advice.

The tests replace everything that is hidden from an agent in a running game. Its observation and
the actions of all scripted players and of the expert in its seat must stay the same. The text for
critics must change.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agentgym
from agentgym.envs.communication.codenames import covered
from agentgym.envs.communication.einstein import make_puzzle
from agentgym.envs.communication.referential import make_state
from agentgym.envs.communication.taboo_words import says, words
from agentgym.envs.communication.twenty_questions import things
from agentgym.envs.economics.auction import Auction
from agentgym.envs.household.things import LAMP, kind_of
from agentgym.envs.household.two_player import WatchAndHelpTwoPlayer
from agentgym.envs.negotiation.deal_or_no_deal import TOTAL
from agentgym.envs.negotiation.trading import draw_values
from agentgym.envs.overcooked.brigade import in_view
from agentgym.envs.overcooked.cooks import Cooks
from agentgym.envs.overcooked.kitchen import FOODS
from agentgym.envs.social_deduction.avalon_rules import known_evil
from agentgym.envs.social_deduction.deduction import DOCTOR, SEER, WOLF

Hide = Callable[[Any, int, np.random.Generator], bool]
"""Replaces the information hidden from an agent (by index). Returns whether any was replaced."""


def poker(game: Any, me: int, rng: np.random.Generator) -> bool:
    state, rules = game.state, game.rules
    if state.hand == game.hands:
        return False
    now = list(state.deals[state.hand])
    mine = (me + state.hand) % 2
    shown = [mine, 2] if len(now) > 2 and game._board() is not None else [mine]
    deck = [*range(rules.ranks)] * rules.copies
    for place in shown:
        deck.remove(now[place])
    hidden = [place for place in range(len(now)) if place not in shown]
    for place, card in zip(hidden, rng.permutation(deck).tolist(), strict=False):
        now[place] = card
    state.deals[state.hand :] = [tuple(now), *reversed(state.deals[state.hand + 1 :])]
    return True


def dice(game: Any, me: int, rng: np.random.Generator) -> bool:
    hands = game.state.hands
    game.state.hands = [
        hand if i == me else tuple(sorted(rng.integers(6, size=len(hand)).tolist()))
        for i, hand in enumerate(hands)
    ]
    return True


def gops(game: Any, me: int, rng: np.random.Generator) -> bool:
    state, now = game.state, len(game.state.bids)
    state.prizes[now + 1 :] = rng.permutation(state.prizes[now + 1 :]).tolist()
    return now < game.cards


def hanabi(game: Any, me: int, rng: np.random.Generator) -> bool:
    """Shuffles the player's own cards and the deck."""
    state, hand = game.state, game.state.hands[me]
    cards = [*state.deck, *((card.color, card.rank) for card in hand)]
    cards = [cards[i] for i in rng.permutation(len(cards))]
    for card in hand:
        card.color, card.rank = cards.pop()
    state.deck = cards
    return True


def codenames(game: Any, me: int, rng: np.random.Generator) -> bool:
    state = game.state
    if me % 2 == 0 or state.winner >= 0:
        return False
    words = covered(state)
    kinds = rng.permutation([state.key[word] for word in words]).tolist()
    state.key.update(zip(words, kinds, strict=True))
    return True


def referential(game: Any, me: int, rng: np.random.Generator) -> bool:
    state, now = game.state, game._round()
    if now == game.rounds:
        return False
    other = make_state(f"train/{rng.integers(999)}", game.rounds, game.objects, game.values)
    for hidden in ("scenes", "targets", "orders"):
        getattr(state, hidden)[now + 1 :] = getattr(other, hidden)[now + 1 :]
    if me:
        state.targets[now] = other.targets[now]
    else:
        state.orders[now] = other.orders[now]
    return True


def einstein(game: Any, me: int, rng: np.random.Generator) -> bool:
    state, players = game.state, len(game.possible_agents)
    if state.answers:
        return False
    other = make_puzzle(f"train/{rng.integers(999)}", game.size, players)
    state.hands = [
        hand if i == me else list(clues)
        for i, (hand, clues) in enumerate(zip(state.hands, other.hands, strict=True))
    ]
    state.answer = int(rng.integers(game.size[0]))
    return True


def questions(game: Any, me: int, rng: np.random.Generator) -> bool:
    if not me or not game._acting():
        return False
    game.state.thing = int(rng.integers(len(things())))
    return True


def taboo(game: Any, me: int, rng: np.random.Generator) -> bool:
    state, other = game.state, words()[int(rng.integers(len(words())))]
    if not me or not game._acting() or any(says(message, other) for message in state.said):
        return False
    state.word = other
    return True


def deal(game: Any, me: int, rng: np.random.Generator) -> bool:
    state = game.state
    if state.takes:
        return False
    values = list(state.values)
    values[1 - me] = tuple(rng.integers(TOTAL, size=3).tolist())
    state.values = tuple(values)
    return True


def trading(game: Any, me: int, rng: np.random.Generator) -> bool:
    state = game.state
    if not game._acting():
        return False
    values = list(state.values)
    values[1 - me] = draw_values(rng, 1)[0].tolist()
    state.values = tuple(values)
    moved = rng.integers(0, 9, size=len(values[0])).tolist()
    for goods in (state.stock, state.start):
        goods[1 - me][:] = [n + more for n, more in zip(goods[1 - me], moved, strict=True)]
    return True


def auction(game: Any, me: int, rng: np.random.Generator) -> bool:
    state, played = game.state, len(game.state.bids)
    for number, row in enumerate(state.values):
        other = rng.integers(game.largest + 1, size=len(row)).tolist()
        if number > played:
            row[:] = other
        elif number == played:
            row[:] = [value if i == me else other[i] for i, value in enumerate(row)]
    return played < game.rounds


def werewolf(game: Any, me: int, rng: np.random.Generator) -> bool:
    """Deals the roles unknown to the player anew."""
    state = game.state
    role = state.roles[me]
    if not game._acting():
        return False
    told = set(state.seen) if role == SEER else set()
    if role == WOLF:
        told = {i for i, other in enumerate(state.roles) if other == WOLF}
    unknown = [i for i, alive in enumerate(state.alive) if alive and i not in told | {me}]
    roles = rng.permutation([state.roles[i] for i in unknown]).tolist()
    for i, other in zip(unknown, roles, strict=True):
        state.roles[i] = other
    if role != WOLF:
        state.proposal = int(rng.integers(7))
    if role != DOCTOR:
        state.guarded = int(rng.integers(7))
    if role != SEER:
        state.seen = {int(i): bool(rng.integers(2)) for i in rng.integers(7, size=2)}
    return True


def avalon(game: Any, me: int, rng: np.random.Generator) -> bool:
    """Deals the roles anew. The sets of players that the player can tell apart stay the same."""
    state = game.state
    if state.winner or state.phase == "assassinate":
        return False
    told = known_evil(state.roles, me)
    others = [i for i in range(len(state.roles)) if i != me and i not in told]
    for some in (told, others):
        roles = rng.permutation([state.roles[i] for i in some]).tolist()
        for i, role in zip(some, roles, strict=True):
            state.roles[i] = role
    return True


def cooks(game: Any, me: int, rng: np.random.Generator) -> bool:
    """Changes the objects out of sight and the beliefs of the others."""
    state = game.state
    for i, cook in enumerate(state.cooks):
        if i != me:
            cook.seen = dict(state.cooks[rng.integers(len(state.cooks))].seen)
            cook.heard = ["nothing"]
    mine = state.cooks[me]
    for name in FOODS:
        if not in_view(mine, state.where[name], game.radius):
            state.chops[name] = int(rng.integers(4))
    return True


def household(game: Any, me: int, rng: np.random.Generator) -> bool:
    """Moves the things in receptacles that the agent has not seen, none to where it belongs."""
    inner, home = game.inner, game.home()
    person = (home.me, home.partner)[me]
    wanted = {kind: target for kind, target, _ in inner.chores.goals}
    spots = [
        place
        for place in inner.chores.level.home.receptacles
        if place not in person.checked and kind_of(place) not in wanted.values()
    ]
    places = inner.state.me.places
    things = [
        thing
        for thing, place in places.items()
        if place in spots and place == home.me.places[thing] and kind_of(thing) != LAMP
    ]
    if not game._acting() or not any(kind_of(thing) in wanted for thing in things):
        return False
    for thing in things:
        place = spots[rng.integers(len(spots))]
        places[thing] = inner.state.partner.places[thing] = place
    inner._last = inner._look(inner._last.feedback)
    return True


HIDDEN: dict[str, tuple[Hide, dict[str, Any]]] = {
    "KuhnPoker-v0": (poker, {}),
    "LeducPoker-v0": (poker, {}),
    "LiarsDice-v0": (dice, {}),
    "LiarsDice-Duel-v0": (dice, {}),
    "LiarsDice-Four-v0": (dice, {}),
    "Gops-v0": (gops, {}),
    "Gops-Carry-v0": (gops, {}),
    "Hanabi-v0": (hanabi, {"num_players": 3}),
    "Hanabi-Small-v0": (hanabi, {}),
    "Codenames-v0": (codenames, {}),
    "Codenames-Menu-v0": (codenames, {}),
    "ReferentialGame-v0": (referential, {}),
    "ReferentialGame-Menu-v0": (referential, {}),
    "EinsteinPuzzle-v0": (einstein, {}),
    "EinsteinPuzzle-Menu-v0": (einstein, {}),
    "EinsteinPuzzle-Three-v0": (einstein, {}),
    "TwentyQuestions-TwoPlayer-v0": (questions, {}),
    "TwentyQuestions-TwoPlayer-Menu-v0": (questions, {}),
    "AdversarialTaboo-v0": (taboo, {}),
    "DealOrNoDeal-v0": (deal, {}),
    "ResourceTrading-v0": (trading, {}),
    "ResourceTrading-Gain-v0": (trading, {}),
    "Auction-v0": (auction, {"rounds": 4}),
    "Auction-SecondPrice-v0": (auction, {"rounds": 4}),
    "Werewolf-v0": (werewolf, {}),
    "Werewolf-Menu-v0": (werewolf, {}),
    "Avalon-v0": (avalon, {}),
    "Avalon-Menu-v0": (avalon, {"num_players": 7}),
    "Overcooked-Cooks-v0": (cooks, {"radius": 1, "talk": True}),
    "WatchAndHelp-TwoPlayer-v0": (household, {}),
    "Overcooked-Cooks-Three-v0": (cooks, {"radius": 1, "talk": True}),
}
TESTED_APART = {
    "communication/test_debate.py": (
        "test_the_judge_as_an_agent_sees_the_table_only_and_should_be_right",
        ["Debate-Judge-v0"],
    ),
    "service/test_two_player.py": (
        "test_the_agent_does_not_see_the_situation_and_the_user_no_calls",
        ["Retail-TwoPlayer-v0", "Airline-TwoPlayer-v0", "Telecom-TwoPlayer-v0"],
    ),
    "propose_solve/test_propose_solve.py": (
        "test_solvers_see_the_task_and_no_other_answer_before_the_end",
        ["ProposeSolve-v0", "ProposeSolve-Programs-v0"],
    ),
}
"""Games with secrets that have no text for critics: the file in `tests/envs`, the test, the ids."""
OPEN = {
    # All agents see the board.
    "TicTacToe-v0", "ConnectFour-v0", "CommonsHarvest-v0",
    # Agents act at once. Before that there is nothing to see, and after it everybody sees all.
    "PrisonersDilemma-v0", "PrisonersDilemma-Talk-v0", "PrisonersDilemma-Unknown-v0",
    "StagHunt-v0", "StagHunt-Talk-v0", "StagHunt-Unknown-v0",
    "Chicken-v0", "Chicken-Talk-v0", "Chicken-Unknown-v0",
    "RockPaperScissors-v0", "RockPaperScissors-Talk-v0", "RockPaperScissors-Unknown-v0",
    "PublicGoods-v0", "GuessTwoThirds-v0", "GuessTwoThirds-Unknown-v0", "CoWriting-v0",
    # Offers, replies and messages are shown to both.
    "TrustAndSplit-v0", "TrustAndSplit-Unknown-v0",
    # Both debaters see all cards. The judge, who does not, is a rule.
    "Debate-v0",
    # The members of a team see the same task and all messages.
    "Team-Countdown-v0", "Team-Countdown-Checker-v0", "Team-Arithmetic-v0",
    "Team-Arithmetic-Checker-v0", "Team-NumberLine-v0",
}  # fmt: skip
"""Games in which no agent has information that another one lacks."""


def test_each_game_has_a_place_in_these_tables():
    apart = [name for _, names in TESTED_APART.values() for name in names]
    games = [e.id.removeprefix("AgentGym/") for e in agentgym.REGISTRY.values() if e.multi_agent]
    assert sorted([*HIDDEN, *apart, *OPEN]) == sorted(games)
    folder = Path(__file__).parent.parent / "envs"
    for file, (test, _) in TESTED_APART.items():
        assert f"def {test}():" in (folder / file).read_text(), f"{file} has no {test}"


def known(game: Any, agent: str) -> tuple[Any, ...]:
    """Returns the agent's inputs and the actions of all scripted players in its seat."""
    step = game._look(agent)
    advice = [
        game.script(level, agent, np.random.default_rng(0))
        for level in game.levels
        if agent in game.acting
    ]
    # The progress of cooks includes steps of the order out of their sight. That of bidders is a
    # share of the gain that the values of all rounds allow.
    progress = 0 if isinstance(game, Cooks | Auction) else step.progress
    # The key of a home is one of the complete state, as in WatchAndHelp-v0.
    key = "" if isinstance(game, WatchAndHelpTwoPlayer) else step.state_key
    picture = game._frame(agent) if game.has_pictures() else None
    seen = step.text, step.feedback, step.admissible, key, step.success, progress, picture
    return (*seen, advice, game.expert(agent))


@pytest.mark.slow
@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("told", [True, False])  # whether the opponents are known
def test_nothing_depends_on_what_an_agent_may_not_know(name, told):
    hide, kwargs = HIDDEN[name]
    game = agentgym.make_parallel(f"AgentGym/{name}", max_turns=60, **kwargs).game
    rng, compared, revealed = random.Random(name), 0, 0
    for seed in range(6):
        if told:
            game.opponents = {a: rng.choice(game.levels) for a in game.possible_agents}
        game.reset(seed=seed)
        while game.acting and compared < 150:
            for me, agent in enumerate(game.possible_agents):
                if agent not in game._present() or (agent not in game.acting and seed % 2):
                    continue
                other = copy.deepcopy(game)
                if hide(other, me, np.random.default_rng(rng.randrange(10**6))):
                    assert known(other, agent) == known(game, agent), agent
                    compared += 1
                    revealed += game.privileged_text(agent) != other.privileged_text(agent)
            level = rng.choice(game.levels)
            game.play({a: game.script(level, a, np.random.default_rng(seed)) for a in game.acting})
    assert compared > 10
    # The information drawn anew can be the same, such as the order of a single prize.
    assert revealed > compared / 3, (revealed, compared)
