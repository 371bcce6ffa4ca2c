"""Rollouts of games: one trajectory per seat, as a single seat has it, without hidden facts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.agents import RandomAgent
from agentgym.multiagent.search import GameSearch
from agentgym.multiagent.table import Table
from agentgym.registration.making import make_env, tasks_of
from agentgym.registration.mixture import Mixture
from agentgym.time_limits import CallTimeout
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.imitation.demonstrations import demonstrate, teach
from agentgym.trainers.policy.sampling import Sample, Sampling
from agentgym.trainers.rollout.branches import samples_of
from agentgym.trainers.rollout.collector import collect, play_episodes
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.seats import GameSpec
from agentgym.wrappers import ExtractAction

from .test_collector import RandomWalk, context, facts, letters

GAMES: dict[str, dict[str, Any]] = {
    "KuhnPoker-v0": {"hands": 3},  # one seat acts at a time
    "LeducPoker-v0": {"hands": 2},
    "RockPaperScissors-v0": {},  # both at once
    "LiarsDice-Four-v0": {},  # players drop out
    "Werewolf-Menu-v0": {},  # some never act
    "Overcooked-Cooks-v0": {"max_turns": 12},  # busy for several turns, shared reward, truncated
}


class Talker(RandomWalk):
    """Samples an admissible action, sometimes an invalid one, and remembers the requests."""

    def __init__(self, choose: Callable[[Any], str] | None = None, invalid: float = 0.0) -> None:
        super().__init__()
        self.choose, self.invalid = choose or self.sampled, invalid
        self.weights: list[list[str]] = []

    def decode(self, tokens: Any) -> str:
        return letters(tokens).removesuffix("$")

    def sampled(self, request: Any) -> str:
        if not request.candidates:
            return "ignored"
        place = int(request.rng.integers(len(request.candidates)))
        return "hm" if request.rng.random() < self.invalid else request.candidates[place]

    def act(self, requests: Any, sampling: Sampling, cache: Any = None) -> list[Sample]:
        self.calls.append([letters(r.prompt) for r in requests])
        self.weights.append([r.weights for r in requests])
        return [self.say(self.choose(r)) for r in requests]


def play(
    game: str,
    specs: Sequence[EpisodeSpec],
    policy: Any = None,
    num_envs: int = 3,
    workers: int = 0,
    kwargs: dict[str, Any] | None = None,
    limit: int | None = None,
    **settings: Any,
) -> list[list[Trajectory]]:
    """Plays episodes of a game, with a policy that samples admissible actions."""
    kwargs = GAMES.get(game, {}) | (kwargs or {})
    with EnvPool(lambda: make_env(game, **kwargs), num_envs, workers) as pool:
        return play_episodes(
            cast(Any, policy or Talker()),
            pool,
            specs,
            context(limit, **settings),
            Sampling(),
            constrain=True,
        )


def agents_of(game: str) -> tuple[str, ...]:
    return tuple(agentgym.make_parallel(game).possible_agents)


def specs_of(game: str, seeds: Sequence[int], seats: Sequence[str] | None = None) -> list[GameSpec]:
    """Requests in which the policy plays some seats, by default all."""
    tasks = tasks_of(make_env(game)).train
    chosen = tuple((agent, "") for agent in seats or agents_of(game))
    return [
        GameSpec(tasks[seed % len(tasks)], seed, (7, 1, 0, seed), seats=chosen) for seed in seeds
    ]


def everything(trajectory: Trajectory) -> list[Any]:
    """All that a trajectory holds, apart from the names of the players."""
    turns = [
        (turn.observation, turn.action, turn.reward, turn.reward_terms, turn.valid, turn.progress,
         turn.state_key, turn.admissible, turn.logprobs.tolist())
        for turn in trajectory.turns
    ]  # fmt: skip
    start = trajectory.start_progress
    return [*facts([trajectory]), turns, start, trajectory.env_id, trajectory.stats]


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("invalid", [0.0, 0.3])
def test_a_single_seat_beside_scripts_is_the_single_seat_environment(game: str, invalid: float):
    compared = 0
    for agent in agents_of(game)[-2:]:
        specs = specs_of(game, range(4), [agent])
        played = play(game, specs, Talker(invalid=invalid))
        alone = [EpisodeSpec(s.task, s.seed, s.key) for s in specs]
        single = play(game, alone, Talker(invalid=invalid), kwargs={"seat": agent})
        for mine, [expected] in zip(played, single, strict=True):
            # A player that is out before its first action has no trajectory, where `SingleSeat`
            # asks for an action that it ignores.
            assert len(mine) == 1 or (game.startswith("Werewolf") and len(expected.turns) == 1)
            for trajectory in mine:
                assert everything(trajectory) == everything(expected)
                assert (trajectory.agent, expected.agent) == (agent, "")
                compared += 1
    assert compared >= 4


@pytest.mark.parametrize("game", GAMES)
def test_a_demonstration_of_all_seats_is_the_rollout_of_its_actions(game: str):
    """Prompts, rewards and seats of a rollout of the same actions, of the expert or a teacher."""
    policy, limit = Talker(), 2 if game.startswith("Overcooked") else None
    kwargs: Any = GAMES[game] | ({"max_turns": 4} if limit else {})
    specs, shown = specs_of(game, range(3)), []
    with EnvPool(lambda: make_env(game, **kwargs), 1) as pool:
        seat: Any = pool.env(0).unwrapped
        expert = seat.game.expert_level is not None
        teacher = None if expert else RandomAgent()
        for spec in specs:
            shown.append(
                demonstrate(
                    cast(Any, policy), pool, [spec], context(), lambda _: 90, False, teacher
                )
            )
    openings = [{each.agent: samples_of(each, 99) for each in members} for members in shown]
    again = [replace(spec, openings=own) for spec, own in zip(specs, openings, strict=True)]
    played = play(game, again, policy, kwargs=kwargs)
    assert not policy.calls
    for mine, expected in zip(shown, played, strict=True):
        assert {each.agent for each in mine} <= {*agents_of(game)} and len(mine) > 1
        assert [(t.agent, t.role, t.opponent) for t in mine] == [
            (t.agent, t.role, t.opponent) for t in expected
        ]
        for one, other in zip(mine, expected, strict=True):
            assert everything(one) == everything(other)


def test_a_teacher_goes_on_from_the_actions_of_the_opening():
    policy, [spec] = Talker(), specs_of("KuhnPoker-v0", [1])
    with EnvPool(lambda: make_env("KuhnPoker-v0", hands=3), 1) as pool:
        play_on = partial(teach, cast(Any, policy), pool, context=context(), room=lambda _: 90)
        first = play_on([spec], teacher=RandomAgent())
        opening = {each.agent: samples_of(each, 2) for each in (t.trajectory for t in first)}
        other = replace(spec, openings=opening, key=(9,))
        second = play_on([other], teacher=GameSearch(budget=2))
    for before, after in zip(first, second, strict=True):
        acted = [[t.action for t in each.trajectory.turns] for each in (before, after)]
        assert acted[0][:2] == acted[1][:2]
        assert after.costs.get("searches", 0) == len(acted[1]) - 2


def test_an_expert_thinks_in_the_format_of_the_wrapper():
    [spec] = specs_of("KuhnPoker-v0", [1])
    make = lambda: make_env("KuhnPoker-v0", hands=1, wrap=["ExtractAction:format=tags"])  # noqa: E731
    with EnvPool(make, 1) as pool:
        shown = demonstrate(cast(Any, Talker()), pool, [spec], context(), lambda _: 90)
    turns = [turn for each in shown for turn in each.turns]
    assert turns and all(turn.valid and "<action>" in turn.action for turn in turns)


@pytest.mark.parametrize(("penalty", "reward"), [(0.0, 0.0), (0.5, 0.25)])
def test_a_seat_that_thinks_before_it_acts_is_the_wrapped_single_seat(
    penalty: float, reward: float
):
    def think(request: Any) -> str:
        place = int(request.rng.integers(len(request.candidates) + 1))
        said = [*(f"hm <action>{each}</action>" for each in request.candidates), "hm"]
        return said[place]

    scores = f"format_penalty={penalty},format_reward={reward}"
    kwargs = {"hands": 3, "wrap": [f"ExtractAction:format=tags,{scores}"]}
    actions = []
    for agent in agents_of("KuhnPoker-v0"):
        specs = specs_of("KuhnPoker-v0", range(6), [agent])
        played = play("KuhnPoker-v0", specs, Talker(think), kwargs=kwargs)
        alone = [EpisodeSpec(s.task, s.seed, s.key) for s in specs]
        single = play("KuhnPoker-v0", alone, Talker(think), kwargs=kwargs | {"seat": agent})
        for [mine], [expected] in zip(played, single, strict=True):
            assert everything(mine) == everything(expected)
            actions += mine.turns
    assert {turn.valid for turn in actions} == {True, False}
    assert all(turn.valid == (turn.action != "hm") for turn in actions)
    for turn in actions:
        thought = None if turn.thought is None else int(turn.thought.sum())
        assert thought == (len("hm ") if turn.valid else None)
        assert turn.reward_terms.get("format", 0.0) == (reward if turn.valid else -penalty)


@pytest.mark.parametrize("game", GAMES)
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 10**6))
def test_seats_see_and_get_what_agents_of_the_aec_environment_do(game: str, seed: int):
    """There, a reward is the sum since the agent's last action as well, or before the first one."""
    [spec] = specs_of(game, [seed])
    [played] = play(game, [spec], Talker(invalid=0.1))
    single: Any = make_env(game, **GAMES[game]).unwrapped
    aec = agentgym.make_aec(game, **GAMES[game]).unwrapped
    aec.reset()
    aec.game.restore(single.open_table(spec.task, spec.seed, agents_of(game)).game.snapshot())
    aec._report()
    aec.agent_selection = aec.game.acting[0]
    turns = {t.agent: list(t.turns) for t in played}
    waiting: dict[str, Any] = {}
    early: dict[str, float] = {}
    for agent in aec.agent_iter():
        observation, reward, terminated, truncated, info = aec.last()
        if agent in waiting:
            turn = waiting.pop(agent)
            assert turn.reward == pytest.approx(reward + early.pop(agent, 0.0))
            assert turn.progress == info["progress"]
        elif not turns.get(agent):
            assert terminated or truncated  # out before its first action
        else:
            early[agent] = reward
        if terminated or truncated:
            aec.step(None)
            continue
        turn = waiting[agent] = turns[agent].pop(0)
        assert turn.observation == observation["text"]
        assert turn.admissible == info["admissible"]
        aec.step(turn.action)
    assert not waiting and not any(turns.values())


@pytest.mark.parametrize("game", [*GAMES, "Team-NumberLine-v0"])
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 10**6))
def test_joint_trajectories_hold_all_actions_in_order_and_all_rewards_when_received(
    game: str, seed: int
):
    """Replayed by hand: who acted when, and the mean reward of the seats in each turn."""
    [spec] = specs_of(game, [seed])
    [played] = play(game, [spec], Talker(invalid=0.1))
    batch = Batch.of(played)
    joint = Joint.of(batch)
    [whole] = joint.batch.trajectories
    owners = batch.turn_trajectory[joint.turns].tolist()
    actions = iter([batch.trajectories[owner].agent for owner in owners])
    single: Any = make_env(game, **GAMES.get(game, {})).unwrapped
    table = single.open_table(spec.task, spec.seed, agents_of(game))
    rules, names = table.game, {t.agent for t in played}
    turns, rewards = iter(whole.turns), np.zeros(joint.clock[-1] + 1)
    clocks: list[int] = []
    while not table.over:
        acting = table.acting
        assert {next(actions) for _ in acting} == set(acting)
        clocks.append(rules.clock())
        playing = [agent for agent in names if not rules.over(agent)]
        table.play({agent: next(turns).action for agent in acting})
        rewards[len(set(clocks)) - 1] += sum(map(rules.reward, playing)) / len(names)
    assert next(actions, None) is None
    assert np.bincount(joint.clock, joint.batch.rewards) == pytest.approx(rewards)
    assert joint.batch.rewards.sum() == pytest.approx(np.mean([t.episode_return for t in played]))


def test_the_roles_of_a_team_act_in_one_turn_of_its_environment():
    [played] = play("Team-NumberLine-v0", specs_of("Team-NumberLine-v0", [0]))
    joint = Joint.of(Batch.of(played))
    assert np.bincount(joint.clock).max() > 1
    assert joint.hops.sum() == len(joint.hops) - len(set(joint.clock))


@pytest.mark.parametrize("game", ["KuhnPoker-v0", "Overcooked-Cooks-v0", "Team-NumberLine-v0"])
def test_every_turn_of_every_seat_is_trained_to_its_end_token(game: str):
    """Published trainers keep the last turn of an episode only, or leave out the last token."""
    talker = Talker(invalid=0.2)
    played = play(game, specs_of(game, range(3)), talker)
    batch = Batch.of([each for members in played for each in members])
    assert batch.num_turns == sum(map(len, talker.calls)) > 2 * len(batch.trajectories)
    assert np.all(batch.weights() == 1)
    for n, turn in zip(batch.turn_trajectory, batch.turns, strict=True):
        tokens = batch.trajectories[n].segments[turn.segment].tokens[turn.start : turn.stop]
        assert letters(tokens).endswith("$") and talker.decode(tokens) == turn.action


FEW = ("KuhnPoker-v0", "RockPaperScissors-v0", "LiarsDice-Four-v0")


@pytest.mark.parametrize("game", FEW)
def test_results_do_not_depend_on_the_number_of_environments(game: str):
    def found(**settings: Any) -> Any:
        played = play(game, specs_of(game, range(5)), **settings)
        return [[everything(t) for t in each] for each in played]

    assert found(num_envs=1) == found(num_envs=8) == found(num_envs=3, workers=2)


@pytest.mark.parametrize("game", FEW)
def test_permuted_seats_have_permuted_trajectories(game: str):
    agents = agents_of(game)
    turned = [*agents[1:], agents[0]]
    [usual], [other] = (play(game, specs_of(game, [3], order)) for order in (agents, turned))
    assert [t.agent for t in other] == [a for a in turned if a in {t.agent for t in usual}]
    by_agent = {t.agent: everything(t) for t in usual}
    assert all(everything(t) == by_agent[t.agent] for t in other)


@pytest.mark.parametrize("game", ["KuhnPoker-v0", "LeducPoker-v0"])
def test_prompts_do_not_depend_on_the_cards_of_others(game: str):
    """With actions that do not depend on cards, a prompt is a function of the own cards."""
    single: Any = make_env(game, hands=1).unwrapped
    for place in range(2):
        prompts: dict[Any, set[str]] = defaultdict(set)
        hidden: dict[Any, set[int]] = defaultdict(set)
        for spec in specs_of(game, range(40)):
            policy = Talker(lambda request: request.candidates[0])
            play(game, [spec], policy, kwargs={"hands": 1})
            single.open_table(spec.task, spec.seed, ())
            cards = single.game.state.deals[0]
            mine = (cards[place], *cards[2:])
            acted = [call[0] for call in policy.calls]
            prompts[mine].add("|".join(acted[place::2]))
            hidden[mine].add(cards[1 - place])
        assert all(len(found) == 1 for found in prompts.values())
        assert max(map(len, hidden.values())) > 1


def test_seats_that_act_at_once_are_asked_at_once_and_do_not_see_each_other():
    policy, game = Talker(), "RockPaperScissors-v0"
    specs = specs_of(game, [0, 0])
    [_, [first, second]] = play(game, specs, policy, num_envs=2)
    assert [len(call) for call in policy.calls] == [4] * len(first.turns)
    assert first.turns[0].observation == second.turns[0].observation
    assert "the other player" not in first.turns[0].observation
    assert len(first.turns) == len(second.turns)


def test_a_seat_has_a_role_and_an_opponent():
    [played] = play("Werewolf-Menu-v0", specs_of("Werewolf-Menu-v0", [2]))
    roles = Counter(t.role for t in played)
    assert roles["werewolf"] == 2 and set(roles) <= {"werewolf", "seer", "doctor", "villager"}
    assert {t.opponent for t in played} == {"self"}
    for seats, opponent in [
        ([("player_1", "")], "maniac"),
        ([("player_1", ""), ("player_0", "iteration 4")], "iteration 4"),
    ]:
        [[one]] = play("KuhnPoker-v0", [GameSpec("train/0", 0, (1,), seats=tuple(seats))])
        assert (one.agent, one.role, one.opponent) == ("player_1", "player_1", opponent)
        assert one.group == ("AgentGym/KuhnPoker-v0", "train/0", 0, "player_1")


def test_frozen_seats_are_asked_with_their_weights_and_leave_no_trajectory():
    policy = Talker()
    seats = (("player_0", "old"), ("player_1", ""))
    [[trajectory]] = play(
        "RockPaperScissors-v0", [GameSpec("rounds/4", 0, (1,), seats=seats)], policy
    )
    assert trajectory.agent == "player_1"
    assert policy.weights == [["old", ""]] * len(trajectory.turns)


@pytest.mark.parametrize("game", ["TicTacToe-v0", "Hanabi-v0"])
def test_penalties_do_not_decide_who_wins_against_frozen_policies(game: str):
    agents = agents_of(game)
    specs = [
        replace(
            spec, seats=tuple((a, "" if a == agents[i % len(agents)] else "old") for a in agents)
        )
        for i, spec in enumerate(specs_of(game, range(12)))
    ]
    kwargs: Any = {"invalid_penalty": 0.5, "max_turns": 40}
    played = play(game, specs, Talker(invalid=0.2), kwargs=kwargs)
    trajectories = [trajectory for [trajectory] in filter(None, played)]
    assert any(not turn.valid for each in trajectories for turn in each.turns)
    for each in trajectories:
        gained = sum(turn.reward_terms["task"] for turn in each.turns)
        won = 0.5 + 0.5 * np.sign(gained) if game.startswith("TicTacToe") else 0.5
        assert each.result == won


def test_a_frozen_seat_that_never_acts_has_the_rewards_that_it_got():
    spec = GameSpec("train/0", 0, (1,), seats=(("player_0", ""), ("player_1", "old")))
    game = spec.begin(0, 0, make_env("KuhnPoker-v0", hands=1))
    game.start()
    game.table.rewards["player_1"]["task"] = 2.0
    assert [seat.total for seat in game.seats] == [0.0, 2.0]


@pytest.mark.parametrize("turn_limit", ["truncate", "terminate"])
@pytest.mark.parametrize("overflow", ["truncate", "terminate"])
def test_a_prompt_that_outgrows_the_context_ends_the_episode_for_all_seats(
    overflow: str, turn_limit: str
):
    played = play(
        "KuhnPoker-v0", specs_of("KuhnPoker-v0", range(8)), limit=1500, mode="full",
        overflow=overflow, turn_limit=turn_limit, kwargs={"hands": 10},
    )  # fmt: skip
    for first, second in played:
        assert first.stats.overflow or second.stats.overflow
        for t in (first, second):
            assert (t.terminated, t.truncated) == (overflow != "truncate", overflow == "truncate")
            assert (t.bootstrap is None) == t.terminated
            assert len(t.segments[-1].tokens) <= 1500
        gains = [t.episode_return for t in (first, second)]
        assert sum(gains) == pytest.approx(0)  # rewards of unfinished steps count


@pytest.mark.parametrize("turn_limit", ["truncate", "terminate"])
@pytest.mark.parametrize("by", ["the game", "a seat"])
def test_the_turn_limit_ends_the_episode_for_all_seats(by: str, turn_limit: str):
    """The limit of a game, or that of an iteration (`horizons`), which counts a seat's turns."""
    game, specs = "Overcooked-Cooks-v0", specs_of("Overcooked-Cooks-v0", range(4))
    if by == "a seat":
        specs = [replace(spec, max_turns=5) for spec in specs]
    kwargs = {"max_turns": 12 if by == "the game" else 40}
    for members in play(game, specs, turn_limit=turn_limit, kwargs=kwargs):
        assert len(members) == 2
        for t in members:
            assert t.terminated == (turn_limit == "terminate") != t.truncated
            assert t.stats.at_limit and not t.stats.overflow
            assert (t.bootstrap is None) == t.terminated
        if by == "a seat":
            assert max(len(t.turns) for t in members) == 5


def test_games_of_a_mixture():
    games = {id: make_env(id) for id in ("KuhnPoker-v0", "RockPaperScissors-v0")}
    seats = tuple((agent, "") for agent in agents_of("KuhnPoker-v0"))
    specs = [
        GameSpec(f"{id} {tasks_of(env).train[0]}", 0, (1,), seats=seats)
        for id, env in games.items()
    ]
    with EnvPool(lambda: Mixture({id: make_env(id) for id in games}), 1) as pool:
        played = collect(Talker(), pool, specs, context(), Sampling(), constrain=True)
    names = [(t.env_id, t.task, t.agent) for t in played]
    assert names == [
        (f"AgentGym/{id}", spec.task, agent)
        for id, spec in zip(games, specs, strict=True)
        for agent, _ in seats
    ]
    assert "Kuhn" in letters(played[0].segments[0].tokens)
    assert "paper" in letters(played[2].segments[0].tokens)


def test_a_seat_is_prompted_with_its_own_instructions():
    env = ExtractAction(make_env("Retail-TwoPlayer-v0"), "json")
    seats = (("player_1", ""), ("player_0", ""))
    played = GameSpec("train/0", 0, (0,), seats=seats).begin(0, 0, env)
    played.start()
    prompts = {seat.agent: seat._instructions() for seat in played.seats}
    assert "Policy:" in prompts["player_0"] and "Policy:" not in prompts["player_1"]
    assert all(env.answer_format.hint in text for text in prompts.values())


@pytest.mark.filterwarnings("ignore:.*The episode is truncated")
@pytest.mark.parametrize("turn_limit", ["truncate", "terminate"])
def test_a_game_that_takes_too_long_is_at_no_limit(turn_limit: str, monkeypatch: Any):
    turn, taken = Table.play, []

    def slow(table: Table, actions: Any) -> None:
        taken.append(actions)
        if len(taken) == 3:
            raise CallTimeout("took more than 1 s")
        turn(table, actions)

    monkeypatch.setattr(Table, "play", slow)
    settings: Any = {"turn_limit": turn_limit, "kwargs": {"hands": 10}}
    [members] = play("KuhnPoker-v0", specs_of("KuhnPoker-v0", [0]), **settings)
    assert len(members) == 2
    for found in members:
        assert found.stats.timed_out and not found.stats.at_limit
        assert found.truncated and not found.terminated and found.bootstrap is not None
