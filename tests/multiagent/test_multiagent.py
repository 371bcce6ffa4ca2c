"""The contract of `TextGame`, on small games with the features of larger ones."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from agentgym import REGISTRY, Tasks, TimeStep
from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError, SnapshotError, UnknownArgumentError, UnknownTaskError
from agentgym.multiagent.aec import AECGame
from agentgym.multiagent.game import GAME_INFO_KEYS, TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.pettingzoo_mixin import NUMBERS
from agentgym.multiagent.rules import InvalidMove, Rewards, listed
from agentgym.registration.entry import Entry
from agentgym.registration.games import make_aec, make_parallel
from agentgym.registration.single_seat import SingleSeat

from ..helpers.named import Named


@dataclass
class CouncilState:
    spy: str
    alive: list[str]
    spoke: int = 0


class Council(TextGame):
    """Players talk in turn, then vote together. Most votes eliminate. One player is a spy."""

    instructions = "Find the spy."
    tasks = Tasks.generated(100)
    players = range(3, 11)
    State = CouncilState
    state: CouncilState
    reward_names = ("task", "vote")

    def _start(self, task: str) -> None:
        agents = self.possible_agents
        self.state = CouncilState(str(self.np_random.choice(agents)), list(agents))

    def _present(self) -> tuple[str, ...]:
        return tuple(self.state.alive)

    def _acting(self) -> tuple[str, ...]:
        alive = self._present()
        if self.state.spy not in alive or len(alive) == 2:
            return ()
        return alive if self.state.spoke == len(alive) else (alive[self.state.spoke],)

    def _look(self, agent: str) -> TimeStep:
        state = self.state
        role = "the spy" if agent == state.spy else "loyal"
        voting = state.spoke == len(state.alive)
        votes = tuple(a for a in state.alive if a != agent)
        text = f"You are {role}. Present: {', '.join(state.alive)}."
        return TimeStep(text, admissible=votes if voting else ())

    def _parse(self, agent: str, action: str) -> str:
        if action == "":
            raise InvalidMove("Say something.")
        return super()._parse(agent, action)

    def _random(self, agent: str, rng) -> str:
        return super()._random(agent, rng) or "Hm."

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        if state.spoke < len(state.alive):
            ((agent, words),) = moves.items()
            self._tell(f"{agent}: {words}", [a for a in state.alive if a != agent])
            state.spoke += 1
            return {}
        votes = list(moves.values())
        out = max(state.alive, key=votes.count)
        self._tell(f"{out} is out.")
        rewards = {agent: {"task": 0.1} for agent in state.alive} | {out: {"vote": -1.0}}
        state.alive.remove(out)
        state.spoke = 0
        return rewards


@dataclass
class KitchenState:
    clock: int = 0
    free_at: dict[str, int] = field(default_factory=dict)


class Kitchen(TextGame):
    """Cooks take actions of 1 to 3 minutes and act again as soon as they are done."""

    instructions = "Cook."
    tasks = Tasks.generated(100)
    players = range(2, 5)
    State = KitchenState
    state: KitchenState
    actions = ("1", "2", "3")

    def _start(self, task: str) -> None:
        self.state = KitchenState(0, dict.fromkeys(self.possible_agents, 0))

    def _acting(self) -> tuple[str, ...]:
        state = self.state
        free = (a for a in self.possible_agents if state.free_at[a] <= state.clock)
        return tuple(free) if state.clock < 12 else ()

    def _look(self, agent: str) -> TimeStep:
        return TimeStep(f"It is {self.state.clock}.", admissible=self.actions)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        for agent, minutes in moves.items():
            state.free_at[agent] = state.clock + int(minutes)
        state.clock = min(state.free_at.values())
        done = [agent for agent, time in state.free_at.items() if time == state.clock]
        return {agent: {"task": 1.0} for agent in done}


@dataclass
class DuelState:
    done: bool = False
    gifts: int = 0


class Duel(TextGame):
    """player_0 gives two presents or shoots player_1. The game has no end."""

    instructions = "Be kind."
    tasks = Tasks.generated(100)
    State = DuelState
    state: DuelState
    levels = ("random", "cruel", "kind")
    default_opponents = "kind"

    def _start(self, task: str) -> None:
        self.state = DuelState()

    def _present(self) -> tuple[str, ...]:
        return self.possible_agents[: 1 if self.state.done else 2]

    def _acting(self) -> tuple[str, ...]:
        return ("player_0",) if self.state.done or self.state.gifts < 2 else ("player_1",)

    def _look(self, agent: str) -> TimeStep:
        state = self.state
        return TimeStep(f"{state.gifts} gifts.", success=state.done, admissible=("give", "shoot"))

    def _advance(self, moves: dict[str, str]) -> Rewards:
        if self.state.done:
            return {}
        if "give" in moves.values():
            self.state.gifts += 1
            return {"player_1": {"task": 1.0}}
        self.state.done = True
        return {"player_1": {"task": -5.0}}

    def _script(self, level: str, agent: str, rng) -> str:
        return "shoot" if level == "cruel" and self.state.gifts == 1 else "give"


GAMES = (Council, Kitchen, Duel)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Registers the games as AgentGym/Council-v0 ..., for `SingleSeat`."""
    for game in GAMES:
        entry = Entry(f"{game.__name__}-v0", __name__, game=game)
        monkeypatch.setitem(REGISTRY, entry.id, entry)


def seat(game: type[TextGame], **kwargs: Any) -> SingleSeat:
    return SingleSeat(game=f"AgentGym/{game.__name__}-v0", **kwargs)


def parallel(game: type[TextGame], **kwargs: Any) -> Any:
    return make_pettingzoo(game)[2](**kwargs)


def say(game: TextGame, agent: str, seed: int) -> str:
    assert game.episode is not None
    rng = random.Random(f"{seed} {agent} {game.episode.turn}")
    if rng.random() < 0.2:
        return ""
    admissible = game.steps[agent].admissible
    return rng.choice(admissible) if admissible else f"word {rng.randrange(9)}"


def test_import_agentgym_loads_neither_pettingzoo_nor_a_game():
    code = (
        "import sys, agentgym, agentgym.multiagent.game\n"
        "assert not {m for m in sys.modules if m.startswith(('pettingzoo', 'agentgym.envs.'))}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("seed", range(5))
def test_aec_and_parallel_agree_in_every_turn_with_snapshots_in_between(game, seed):
    count = game.players[-1]
    kwargs = {"num_players": count, "max_turns": 60, "invalid_penalty": 0.5}
    aec, together = make_pettingzoo(game)[1](**kwargs), parallel(game, **kwargs)
    aec.reset(seed=seed)
    together.reset(seed=seed)
    left: set[str] = set()
    while together.agents:
        alive = list(together.agents)
        said = {agent: say(together.game, agent, seed) for agent in together.game.acting}
        observations, rewards, terminations, truncations, infos = together.step(said)
        for agent, words in said.items():
            assert aec.agent_selection == agent
            copy = make_pettingzoo(game)[1](**kwargs)
            copy.restore(json.loads(json.dumps(aec.snapshot())))
            aec = copy
            aec.step(words)
        assert aec.rewards == rewards
        assert aec.terminations == terminations
        assert aec.truncations == truncations
        assert aec.infos == infos
        assert {agent: aec.observe(agent) for agent in alive} == observations
        over = {a for a in alive if terminations[a] or truncations[a]}
        while aec.agents and aec.agent_selection in over:
            left.add(aec.agent_selection)
            aec.step(None)
        assert aec.agents == together.agents
    assert left == set(aec.possible_agents)


def test_private_information_stays_private_and_words_reach_who_listens():
    env = parallel(Council, num_players=4)
    observations, _ = env.reset(seed=1)
    spy = env.game.state.spy
    for agent, observation in observations.items():
        assert ("the spy" in observation["text"]) == (agent == spy)
    observations, *_ = env.step({"player_0": "I am not the spy.", "player_1": "Not my turn."})
    assert "player_0: I am not" not in observations["player_0"]["text"]
    assert observations["player_1"]["text"].startswith("player_0: I am not the spy.\n\nYou are")
    observations, *_ = env.step({"player_1": "Nor me."})
    assert "player_0: I am" not in observations["player_1"]["text"]  # heard and answered
    assert "player_0: I am not the spy.\nplayer_1: Nor me.\n\n" in observations["player_3"]["text"]


def test_agents_leave_for_good_one_by_one():
    env = make_pettingzoo(Council)[0](num_players=5)
    env.reset(seed=0)
    spy, total = env.unwrapped.game.state.spy, dict.fromkeys(env.possible_agents, 0.0)
    victims = [agent for agent in env.possible_agents if agent != spy]
    order = []
    for agent in env.agent_iter(200):
        _, reward, terminated, _, _ = env.last()
        total[agent] += reward
        if terminated:
            order.append(agent)
            env.step(None)
            continue
        alive = env.unwrapped.game.state.alive
        victim = next(v for v in victims if v in alive)
        vote = victim if victim != agent else spy
        env.step(vote if env.infos[agent]["admissible"] else "Hello.")
    assert order[:2] == victims[:2] and len(order) == 5
    assert total[victims[0]] == -1.0
    assert total[spy] == pytest.approx(0.3)


def test_busy_agents_are_not_asked():
    env = make_pettingzoo(Kitchen)[1](num_players=2)
    env.reset(seed=0)
    asked = []
    for agent in env.agent_iter(100):
        _, _, terminated, _, info = env.last()
        if not terminated:
            asked.append((env.game.state.clock, agent))
            assert info["acting"]
        env.step(None if terminated else {"player_0": "1", "player_1": "3"}[agent])
    assert [time for time, agent in asked if agent == "player_0"] == list(range(12))
    assert [time for time, agent in asked if agent == "player_1"] == [0, 3, 6, 9]


def test_invalid_actions_are_asked_again_alone_then_replaced():
    env = parallel(Kitchen, num_players=3, invalid_penalty=0.25, max_invalid=2)
    env.reset(seed=0)
    said = {"player_0": "1", "player_1": "dance", "player_2": "2"}
    observations, rewards, _, _, infos = env.step(said)
    assert env.game.acting == ("player_1",)
    assert rewards == {"player_0": 0.0, "player_1": -0.25, "player_2": 0.0}
    assert [info["valid"] for info in infos.values()] == [True, False, True]
    assert infos["player_0"]["admissible"] == ()
    assert infos["player_1"]["admissible"] == ("1", "2", "3")
    words = observations["player_1"]["text"]
    assert words == "Invalid action 'dance'. Valid actions: 1, 2, 3.\n\nIt is 0."
    assert observations["player_0"]["text"] == "It is 0."
    observations, rewards, _, _, infos = env.step({"player_1": UnreadableAction("?", "Eh?")})
    assert rewards["player_1"] in (-0.25, 0.75)  # the fallback move may pay at once
    assert rewards["player_0"] == 1.0
    assert observations["player_1"]["text"].startswith("Eh?\nThis was your last attempt. Your move")
    assert env.game.state.clock == 1
    assert infos["player_1"]["turn"] == 2


def test_feedback_lists_actions_in_quotes_if_they_are_sentences():
    assert listed(("rock", "paper")) == "rock, paper"
    assert listed(("Yes.", "No, thanks")) == '"Yes.", "No, thanks"'
    assert listed(("a", "b", "c"), most=2) == "a, b, ... (3 in total)"


def test_a_pending_unreadable_action_survives_a_snapshot():
    envs = [make_pettingzoo(Kitchen)[1]() for _ in range(2)]
    envs[0].reset(seed=0)
    envs[0].step(UnreadableAction("1", "Say it plainly."))
    envs[1].restore(json.loads(json.dumps(envs[0].snapshot())))
    for env in envs:
        env.step("1")
        assert env.observe("player_0")["text"].startswith("Say it plainly.")


def test_action_numbers():
    env = parallel(Kitchen, action_mode="discrete")
    observations, _ = env.reset(seed=0)
    assert observations["player_0"]["action_mask"].tolist() == [1, 1, 1]
    observations, *_ = env.step({"player_0": 0, "player_1": 2})
    assert observations["player_0"]["action_mask"].tolist() == [1, 1, 1]
    assert observations["player_1"]["action_mask"].tolist() == [0, 0, 0]
    *_, infos = env.step({"player_0": 3})
    assert not infos["player_0"]["valid"]
    with pytest.raises(TypeError):
        env.step({"player_0": "1"})
    with pytest.raises(ValueError, match="free text"):
        parallel(Council, action_mode="discrete")
    with pytest.raises(ValueError, match="action_mode"):
        parallel(Council, action_mode="numbers")


@pytest.mark.parametrize("number", [np.int8(1), np.array(1), np.array([[1]])[0, 0], True])
def test_an_action_number_may_be_any_integer(number: Any):
    env = parallel(Kitchen, action_mode="discrete")
    env.reset(seed=0)
    assert env.step({"player_0": number, "player_1": 0})[4]["player_0"]["valid"]


@pytest.mark.parametrize("other", [1.0, "1", None, np.array([1, 2])])
def test_what_is_no_action_number_is_named(other: Any):
    env = parallel(Kitchen, action_mode="discrete")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="expected one integer, got"):
        env.step({"player_0": other, "player_1": 0})


def test_spaces_are_attributes_too():
    for make in make_pettingzoo(Kitchen):
        env = make(action_mode="discrete")
        assert env.action_spaces["player_1"] is env.action_space("player_1")
        assert env.observation_spaces["player_1"] is env.observation_space("player_1")


def test_infos_keep_what_an_agent_that_says_texts_needs():
    _, infos = parallel(Kitchen, observation_size=8).reset(seed=0)
    assert infos["player_0"]["admissible"] and set(infos["player_0"]) == set(GAME_INFO_KEYS)
    _, infos = parallel(Kitchen, observation_size=8, action_mode="discrete").reset(seed=0)
    assert set(infos["player_0"]) == set(NUMBERS)


def test_an_admissible_action_that_has_no_number_is_named(monkeypatch):
    monkeypatch.setattr(Duel, "actions", ("give",))
    with pytest.raises(ValueError, match=r"Duel\._look lists 'shoot' as admissible"):
        parallel(Duel, action_mode="discrete").reset(seed=0)


@pytest.mark.parametrize("game", [Council, Kitchen])
def test_a_seat_of_any_game_passes_the_checker(game):
    check_env(seat(game), skip_render_check=True)


def test_a_seat_gets_what_it_earned_before_it_could_act():
    env = seat(Duel, seat="player_1", opponents="kind")
    _, info = env.reset(seed=0)
    assert info["reward_terms"] == {"task": 0.0, "invalid": 0.0}
    snapshot = json.loads(json.dumps(env.snapshot()))
    for _ in range(2):
        _, reward, terminated, _, info = env.step("give")
        assert reward == 3.0 and info["turn"] == 1 and not terminated
        env.restore(snapshot)


def test_a_seat_that_is_out_before_it_could_act_ends_at_once():
    env = seat(Duel, seat="player_1", opponents={"player_0": "cruel"})
    observation, info = env.reset(seed=0)
    assert observation == "1 gifts." and not info["success"], "nothing has been played yet"
    snapshot = json.loads(json.dumps(env.snapshot()))
    for _ in range(2):
        _, *result, info = env.step("anything")
        assert result == [-4.0, True, False] and info["success"]
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step("more")
        env.restore(snapshot)


def test_the_limit_of_turns_of_the_game_truncates_the_seat():
    env = seat(Duel, seat="player_0", opponents="kind", max_turns=5)
    env.reset(seed=0)
    assert env.step("give")[2:4] == (False, False)
    assert env.step("give")[2:4] == (False, True)
    assert env.game.episode is not None and env.game.episode.turn == 5
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("give")


def test_seats_are_drawn_by_the_seed_and_opponents_checked():
    env = seat(Council, num_players=6)
    drawn = {env.reset(seed=seed) and env.state.agent for seed in range(60)}
    assert drawn == set(env.game.possible_agents)
    for wrong in (
        {"seat": "player_6"},
        {"opponents": "geniuses"},
        {"opponents": {"bob": "random"}},
    ):
        with pytest.raises(ValueError):
            seat(Council, num_players=6, **wrong)


def test_an_unknown_opponent_is_drawn_at_every_reset_and_not_told():
    env = gymnasium.make("AgentGym/StagHunt-Unknown-v0", seat="player_0").unwrapped
    assert isinstance(env, SingleSeat)
    drawn = Counter()
    for seed in range(70):
        env.reset(seed=seed)
        drawn[env.state.levels["player_1"]] += 1
        env.reset(seed=seed)
        assert drawn[env.state.levels["player_1"]]
    assert drawn.keys() == set(env.game.levels) - {"random"} and min(drawn.values()) > 3
    assert not env.game.opponents, "the expert must find out, too"
    snapshot = json.loads(json.dumps(env.snapshot()))
    played = [env.step("stag")[:3] for _ in range(3)]
    env.reset(seed=1)
    env.restore(snapshot)
    assert [env.step("stag")[:3] for _ in range(3)] == played
    one = gymnasium.make(
        "AgentGym/LiarsDice-Four-v0", opponents={"player_1": "unknown", "player_2": "random"}
    ).unwrapped
    assert isinstance(one, SingleSeat)
    one.reset(seed=0)
    assert one.state.levels["player_1"] != "random" == one.state.levels["player_2"]


def test_the_start_depends_on_task_and_seed_not_on_who_chose_the_task_or_the_seat():
    for seed in range(10):
        drawn, given = (Council(num_players=10) for _ in range(2))
        drawn.reset(seed=seed)
        assert drawn.episode is not None
        given.reset(seed=seed, task=drawn.episode.task)
        assert given.state == drawn.state
        one, two = seat(Council, num_players=10), seat(Council, num_players=10, seat="player_0")
        one.reset(seed=seed)
        two.reset(seed=seed, options={"task": one.task})
        assert one.game.state.spy == two.game.state.spy


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"levels": ("random", "kind")}, r"Other\.default_opponents .* \('kind',\), got 'random'"),
        ({"default_opponents": "keen"}, r"\('cruel', 'kind'\), got 'keen'"),
        ({"levels": ("kind", "random")}, r"Other\.levels must start with \"random\""),
        ({"levels": ()}, r"must start with \"random\""),
    ],
)
def test_the_default_opponents_of_a_game_are_scripted(attributes: dict[str, Any], message: str):
    inherited = {"default_opponents": TextGame.default_opponents, **attributes}
    with pytest.raises(ConfigError, match=message):
        make_pettingzoo(type("Other", (Duel,), inherited))


def test_restoring_into_another_game_is_refused():
    env, other = seat(Duel), seat(Kitchen)
    env.reset(seed=0)
    other.reset(seed=0)
    before = other.snapshot()
    with pytest.raises(SnapshotError, match="Expected a snapshot of Kitchen"):
        other.restore(env.snapshot())
    assert other.snapshot() == before
    big = seat(Council, num_players=4)
    big.reset(seed=0)
    with pytest.raises(SnapshotError, match="other arguments"):
        seat(Council, num_players=5).restore(big.snapshot())


def test_a_damaged_snapshot_of_a_seat_changes_nothing():
    env, later = seat(Duel), seat(Duel)
    env.reset(seed=0)
    later.reset(seed=1)
    before = json.loads(json.dumps(env.snapshot()))
    for key in ("state", "last", "rng", "seed"):
        damaged = later.snapshot()
        del damaged[key]
        with pytest.raises(SnapshotError, match="damaged"):
            env.restore(damaged)
        assert json.loads(json.dumps(env.snapshot())) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_players": 2},
        {"num_players": 11},
        {"max_turns": 0},
        {"split": "all"},
        {"max_invalid": 0},
    ],
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Council(**wrong)


def test_an_unknown_argument_has_suggestions_from_wherever_it_may_be_known():
    for make in make_pettingzoo(Council):
        with pytest.raises(UnknownArgumentError, match=r"Council got .*mean: action_mode\?"):
            make(actionmode="text")
        with pytest.raises(UnknownArgumentError, match=r"Council got .*'game'"):
            make(game="Council")
    with pytest.raises(UnknownArgumentError, match=r"'oponents': .*Did you mean: opponents\?"):
        seat(Council, oponents="random")


@pytest.mark.parametrize("name", ["action_mode", "observation_size"])
def test_a_seat_says_which_wrappers_make_numbers_of_it(name: str):
    with pytest.raises(UnknownArgumentError, match="AdmissibleAction or EncodeObservation"):
        seat(Kitchen, **{name: None})


class Mistaken(Kitchen):
    mistake: tuple[str, dict[str, float]] = ("player_0", {"typo": 1.0})

    def _advance(self, moves: dict[str, str]) -> Rewards:
        super()._advance(moves)
        return dict([self.mistake])


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (("player_0", {"typo": 1.0}), "reward term 'typo'"),
        (("bob", {"task": 1.0}), "'bob'"),
        (("player_1", {"task": float("nan")}), "nan for the reward term 'task'"),
        (("player_1", {"task": -float("inf")}), "-inf for the reward term 'task'"),
    ],
)
def test_an_authors_mistakes_are_named(mistake, message):
    game = Mistaken()
    game.mistake = mistake
    game.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        game.play({"player_0": "1", "player_1": "1"})


class Forgetful(Kitchen):
    """Returns what a test gives it."""

    shown: Any = TimeStep("x")
    paid: Any = {}  # noqa: RUF012

    def _look(self, agent: str) -> TimeStep:
        return self.shown

    def _advance(self, moves: dict[str, str]) -> Rewards:
        super()._advance(moves)
        return self.paid


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (None, "Forgetful._look must return a TimeStep, got NoneType"),
        ("x", "Forgetful._look must return a TimeStep, got str"),
        (TimeStep(3), "whose text is a str, got int"),  # type: ignore[arg-type]
        (TimeStep("x", admissible=["1"]), "whose admissible is a tuple, got list"),  # type: ignore[arg-type]
        (TimeStep("x", admissible=(1,)), "whose admissible actions are str, got int"),  # type: ignore[arg-type]
        (TimeStep("x", success=np.True_), "is a bool, got numpy.bool"),  # type: ignore[arg-type]
        (TimeStep("x", progress=1.5), r"progress must lie in \[0, 1\], got 1.5"),
    ],
)
def test_an_observation_that_an_author_got_wrong_is_named(shown: Any, message: str):
    game = Forgetful()
    game.reset(seed=0)
    game.shown = shown
    with pytest.raises((TypeError, ValueError), match=message):
        game.seen("player_0")


@pytest.mark.parametrize(
    ("paid", "message"),
    [
        (None, "Forgetful._advance must return rewards by agent, got None"),
        (1.0, "Forgetful._advance must return rewards by agent, got 1.0"),
        ({"player_0": 1.0}, "Forgetful._advance must return reward terms by name, got 1.0"),
        ({"player_0": None}, "Forgetful._advance must return reward terms by name, got None"),
    ],
)
def test_rewards_that_an_author_got_wrong_are_named(paid: Any, message: str):
    game = Forgetful()
    game.reset(seed=0)
    game.paid = paid
    with pytest.raises(TypeError, match=message):
        game.play({"player_0": "1", "player_1": "1"})


def test_a_penalty_of_a_game_is_finite():
    with pytest.raises(ConfigError, match="'invalid_penalty' of Kitchen must be finite"):
        Kitchen(invalid_penalty=float("nan"))


def test_a_view_that_fails_fails_whenever_it_is_asked_for():
    class Blind(Kitchen):
        def _look(self, agent: str) -> TimeStep:
            raise RuntimeError("too dark")

    game = Blind()
    game.reset(seed=0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="too dark"):
            game.seen("player_0")


def test_a_raw_environment_without_agents_left_asks_for_a_reset():
    env = make_pettingzoo(Kitchen)[1](max_turns=1)
    env.reset(seed=0)
    assert isinstance(env, AECGame)
    for action in ("1", "1", None, None):
        env.step(action)
    assert env.agents == []
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("1")


@pytest.mark.parametrize("make", [make_aec, make_parallel])
def test_options_of_reset_are_a_mapping(make):
    for options in (["task"], [], ""):
        with pytest.raises(TypeError, match="options must be a mapping"):
            make("RockPaperScissors-v0").reset(options=options)


@pytest.mark.parametrize("make", [make_aec, make_parallel])
def test_a_refused_reset_of_a_game_changes_nothing(make):
    env = make("KuhnPoker-v0")
    env.reset(seed=0)
    before = env.unwrapped.snapshot()
    for wrong, error in (({"task": "x"}, UnknownTaskError), ("x", TypeError)):
        with pytest.raises(error):
            env.reset(seed=1, options=wrong)
        assert env.unwrapped.snapshot() == before


@pytest.mark.parametrize("actions", [None, ["5"], "5", [("player_0", "5")]])
def test_actions_of_a_turn_are_a_mapping(actions: Any):
    env = make_parallel("TicTacToe-v0")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="actions must be a mapping from agents to actions, got"):
        env.step(actions)


def test_a_string_of_any_class_is_an_action():
    for make in (make_aec, make_parallel):
        env, other = make("TicTacToe-v0"), make("TicTacToe-v0")
        for each, said in ((env, Named("5")), (other, "5")):
            each.reset(seed=0, options={"task": "opening/"})
            each.step(said if make is make_aec else {"player_0": said})
        assert env.unwrapped.game.info("player_0")["valid"]
        assert repr(env.unwrapped.snapshot()) == repr(other.unwrapped.snapshot())


@pytest.mark.parametrize("make", [make_aec, make_parallel])
def test_both_interfaces_show_the_instructions(make: Any):
    env = make("TicTacToe-v0")
    seat = gymnasium.make("AgentGym/TicTacToe-v0").unwrapped
    assert env.unwrapped.instructions == seat.instructions  # type: ignore[attr-defined]
    assert len(env.unwrapped.instructions) > 100
