"""Joint trajectories: all agents' turns in order of acting, and credit over hops between them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.credit.group import dr_grpo
from agentgym.trainers.credit.joint import Joint, JointGAE, JointReturns
from agentgym.trainers.credit.returns import is_joint, turn_discount
from agentgym.trainers.credit.two_clock import TwoClockGAE, poad, turn
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.recipes import cory, marft
from agentgym.trainers.rewards.reward_options import RewardOptions
from agentgym.trainers.rewards.shaping import shape_by_progress

from ...helpers.worlds import generators, random_batch, trajectory, values

few = settings(deadline=None, max_examples=25)


def agent(
    name: str,
    rewards: list[float],
    clocks: list[int],
    orders: list[int] | None = None,
    *,
    episode: int = 0,
    lengths: list[int] | None = None,
    **changes: object,
) -> Trajectory:
    """The trajectory of an agent of a game that acts in these turns of the environment."""
    found = trajectory(lengths or [1] * len(rewards), rewards, agent=name, **changes)  # type: ignore[arg-type]
    found.episode = (7, episode)
    for action, clock, order in zip(found.turns, clocks, orders or clocks, strict=True):
        action.clock, action.order = clock, order
    return found


def team(rng: np.random.Generator, episode: int, agents: int, turns: int) -> list[Trajectory]:
    """Agents that act one after another in every turn, with a shared reward."""
    rewards = rng.normal(size=turns).tolist()
    return [
        agent(
            f"player_{i}", rewards, [*range(turns)], [t * agents + i for t in range(turns)],
            episode=episode, lengths=rng.integers(0, 4, turns).tolist(), task="task",
        )
        for i in range(agents)
    ]  # fmt: skip


def test_turns_are_in_order_of_acting_with_the_rewards_of_the_team():
    one = agent("a", [1.0, 3.0], [0, 1], [0, 2], lengths=[2, 1])
    two = agent("b", [1.0, 5.0], [0, 1], [1, 3], lengths=[1, 3])
    alone = agent("a", [4.0], [0], episode=1)
    joint = Joint.of(Batch.of([two, alone, one]))
    assert joint.turns.tolist() == [3, 0, 4, 1, 2]
    assert joint.hops.tolist() == [True, False, True, False, False]
    assert joint.batch.rewards.tolist() == [0.0, 1.0, 0.0, 4.0, 4.0]
    assert joint.clock.tolist() == [0, 0, 1, 1, 0]
    assert joint.episode.tolist() == [0, 1, 0]
    assert joint.tokens.tolist() == [5, 6, 0, 7, 1, 2, 3, 4]
    [first, _] = joint.batch.trajectories
    assert [turn.segment for turn in first.turns] == [1, 0, 1, 0]
    assert len(first.segments) == 2


def test_a_delayed_reward_counts_when_it_was_received():
    """An agent that is busy gets the team's reward while the other one acts."""
    busy = agent("a", [3.0], [0])
    busy.turns[0].delayed = ((1, 2.0, "task"), (3, 0.5, "task"))
    other = agent("b", [0.0, 2.0, 0.5], [0, 1, 2], [0, 1, 2])
    other.turns[2].delayed = ((3, 0.5, "task"),)
    joint = Joint.of(Batch.of([busy, other]))
    assert joint.batch.rewards.tolist() == [0.0, 0.25, 2.0, 0.5]


def test_common_rewards_are_those_of_the_team_up_to_the_next_action():
    """By hand: the team has 0.25, 2 and 0.5 in the turns of the second agent."""
    busy = agent("a", [3.0], [0])
    busy.turns[0].delayed = ((1, 2.0, "task"), (3, 0.5, "task"))
    other = agent("b", [0.0, 2.0, 0.5], [0, 1, 2], [0, 1, 2])
    other.turns[2].delayed = ((3, 0.5, "task"),)
    alone = agent("a", [1.0, 2.0], [0, 1], episode=1)
    batch = Batch.of([busy, other, alone])
    assert Joint.of(batch).common_rewards().tolist() == [2.75, 0.25, 2.0, 0.5, 1.0, 2.0]
    hooks = cory.build(cory.Config()).hooks
    assert hooks is not None
    trainer: Any = SimpleNamespace()
    found = hooks(trainer).on_rewards(batch, None, 0, np.random.default_rng(0))
    assert found.rewards.tolist() == [2.75, 0.25, 2.0, 0.5, 1.0, 2.0]


def test_an_agent_that_acts_twice_in_a_turn_has_the_common_reward_once():
    talks = agent("a", [0.0, 1.0, 4.0], [0, 0, 1], [0, 2, 4])
    listens = agent("b", [3.0, 0.0], [0, 1], [1, 3])
    found = Joint.of(Batch.of([talks, listens])).common_rewards()
    assert found.tolist() == [0.0, 2.0, 2.0, 2.0, 2.0]


def test_the_hop_has_no_discount_in_the_first_turn_either():
    """By hand: two agents, two turns. A wrong mask after the reset would leave -V for the first."""
    gamma, lambda_ = 0.9, 0.8
    batch = Batch.of(
        [agent("a", [1.0, 2.0], [0, 1], [0, 2]), agent("b", [1.0, 2.0], [0, 1], [1, 3])]
    )
    v = np.array([[0.3, 0.7], [0.5, 0.2]], np.float32)  # [agent, turn]
    critic = Values(None, v.reshape(-1), np.zeros(2, np.float32))
    last = 2.0 - v[1, 1]
    third = v[1, 1] - v[0, 1] + last
    second = 1.0 + gamma * v[0, 1] - v[1, 0] + gamma * lambda_ * third
    first = v[1, 0] - v[0, 0] + second
    found = JointGAE(turn(gamma, lambda_))(batch, critic)
    assert found.advantages == pytest.approx([first, third, second, last], abs=1e-6)
    assert found.targets == pytest.approx(found.advantages + critic.turns, abs=1e-6)
    discounted = JointGAE(turn(gamma, lambda_), gamma, lambda_)(batch, critic).advantages
    assert discounted[3] == pytest.approx(last, abs=1e-6)
    assert discounted[1] == pytest.approx(gamma * v[1, 1] - v[0, 1] + gamma * lambda_ * last)


@given(rng=generators)
@few
def test_the_credit_of_a_single_agent_is_that_of_its_own_trajectory(rng: np.random.Generator):
    batch = random_batch(rng)
    critic = values(batch, rng)
    for gae in (poad(0.9, 0.8, 0.7), turn(0.9, 0.8)):
        one, two = gae(batch, critic), JointGAE(gae)(batch, critic)
        assert np.array_equal(one.advantages, two.advantages)
        assert one.targets is not None and two.targets is not None
        assert np.array_equal(one.targets, two.targets)


@given(rng=generators)
@few
def test_an_action_that_two_agents_share_has_the_credit_of_the_whole_action(
    rng: np.random.Generator,
):
    """Agents of a turn are to each other as tokens of an action, wherever the action is divided."""
    batch = random_batch(rng, min_tokens=2)
    critic = values(batch, rng)
    assert critic.tokens is not None
    lengths = np.diff(batch.token_offsets)
    cuts = rng.integers(1, lengths)
    place = np.arange(batch.num_tokens) - np.repeat(batch.token_offsets[:-1], lengths)
    trajectories, tokens = [], []
    for n, whole in enumerate(batch.trajectories):
        turns = np.arange(*batch.turn_offsets[n : n + 2])
        for i, parts in enumerate((cuts, lengths - cuts)):
            part = agent(
                "ab"[i], [t.reward for t in whole.turns], [*range(len(turns))],
                [2 * k + i for k in range(len(turns))], episode=n, lengths=parts[turns].tolist(),
                terminated=whole.terminated,
            )  # fmt: skip
            trajectories.append(part)
            mine = np.isin(batch.token_turn, turns) & ((place >= cuts[batch.token_turn]) == i)
            tokens.append(np.flatnonzero(mine))
    index = np.concatenate(tokens)
    divided = Batch.of(trajectories)
    part = Values(
        critic.tokens[index], critic.tokens[index][divided.token_offsets[:-1]],
        np.repeat(critic.bootstrap, 2),
    )  # fmt: skip
    for lambda_token in (1.0, 0.7):
        gae = poad(0.9, 0.8, lambda_token)
        one, two = gae(batch, critic), JointGAE(gae, 1.0, lambda_token)(divided, part)
        assert two.advantages == pytest.approx(one.advantages[index], abs=1e-5)
    biased = JointGAE(poad(0.9, 0.8), gamma_hop=0.9)(divided, part).advantages
    assert not np.allclose(biased, poad(0.9, 0.8)(batch, critic).advantages[index], atol=1e-4)


@given(rng=generators, agents=st.integers(2, 4))
@few
def test_the_advantages_of_a_turn_add_up_to_that_of_the_joint_action(
    rng: np.random.Generator, agents: int
):
    """Multi-agent advantage decomposition, with lambda 0: A(o, a1..an) = sum of A_i."""
    members = [each for e in range(3) for each in team(rng, e, agents, int(rng.integers(1, 4)))]
    batch = Batch.of(members)
    critic = values(batch, rng)
    gae = TwoClockGAE(gamma_turn=0.9, lambda_turn=0.0, reads="turns")
    joint = Joint.of(batch)
    deltas = JointGAE(gae, lambda_hop=0.0)(batch, critic).targets
    assert deltas is not None
    deltas = (deltas - critic.turns)[joint.turns]
    leaders = [each for each in batch.trajectories if each.agent == "player_0"]
    first = np.array([m.agent == "player_0" for m in batch.trajectories])
    alone = Values(None, critic.turns[first[batch.turn_trajectory]], critic.bootstrap[first])
    whole = gae(Batch.of(leaders), alone).targets
    assert whole is not None
    sums = np.add.reduceat(deltas, np.flatnonzero(joint.begins))
    assert sums == pytest.approx(whole - alone.turns, abs=1e-5)


def test_the_value_after_a_truncation_is_the_mean_over_the_agents_in_the_game():
    cut = [agent(name, [0.0], [0], [i], terminated=name == "c") for i, name in enumerate("abc")]
    critic = Values(None, np.zeros(3, np.float32), np.array([1.0, 2.0, 9.0], np.float32))
    found = JointGAE(turn(0.5, 1.0))(Batch.of(cut), critic)
    assert found.advantages == pytest.approx([0.75] * 3)


def test_every_agent_has_the_joint_return_relative_to_the_group_in_each_turn():
    def played(episode: int, rewards: list[float]) -> list[Trajectory]:
        places = range(len(rewards))
        return [
            agent(name, rewards, [*places], [2 * t + i for t in places], episode=episode)
            for i, name in enumerate("ab")
        ]

    batch = Batch.of([*played(0, [1.0, 2.0]), *played(1, [0.0, 4.0]), *played(2, [2.0])])
    found = JointReturns(gamma=0.5)(batch).advantages
    returns, later = np.array([2.0, 2.0, 2.0]), np.array([2.0, 4.0])
    first, second = returns - returns.mean(), later - later.mean()
    episodes = [[first[0], second[0]], [first[1], second[1]], [first[2]]]
    expected = [a for episode in episodes for a in episode * 2]
    assert found == pytest.approx(expected, abs=1e-6)
    scaled = JointReturns(gamma=0.5, scale=True)(batch).advantages
    assert scaled[1] == pytest.approx(-1 / 2**0.5, abs=1e-5)


@given(rng=generators)
@few
def test_single_turns_of_one_agent_are_compared_as_dr_grpo_does(rng: np.random.Generator):
    batch = random_batch(rng, max_turns=1)
    assert np.allclose(JointReturns()(batch).advantages, dr_grpo()(batch).advantages, atol=1e-6)


@given(rng=generators, agents=st.integers(1, 3))
@few
def test_permuting_agents_and_episodes_permutes_joint_credit(rng: np.random.Generator, agents: int):
    members = [each for e in range(4) for each in team(rng, e, agents, int(rng.integers(1, 4)))]
    order = rng.permutation(len(members))
    batch, moved = Batch.of(members), Batch.of([members[n] for n in order])
    turns = np.concatenate([np.arange(*batch.turn_offsets[n : n + 2]) for n in order])
    tokens = np.concatenate([np.arange(*batch.token_offsets[m : m + 2]) for m in turns])
    critic = values(batch, rng)
    assert critic.tokens is not None
    other = Values(critic.tokens[tokens], critic.turns[turns], critic.bootstrap[order])
    for estimator in (JointGAE(), JointReturns(0.9)):
        one, two = estimator(batch, critic), estimator(moved, other)
        assert np.allclose(two.advantages, one.advantages[tokens], atol=1e-5)


def test_replaced_rewards_and_logprobs_are_those_of_the_batch():
    one, two = agent("a", [1.0], [0], [0]), agent("b", [1.0], [0], [1])
    batch = replace(Batch.of([two, one]).with_rewards([4.0, 6.0]), logprobs=np.array([-2.0, -3.0]))
    joint = Joint.of(batch)
    assert joint.batch.rewards.tolist() == [0.0, 5.0]
    assert joint.batch.logprobs.tolist() == [-3.0, -2.0]


def game(rng: np.random.Generator, episode: int) -> list[Trajectory]:
    """Agents that act in some turns of a game, in any order, and see their progress there."""
    turns, agents = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    acts = rng.random((turns, agents)) < 0.6
    acts[rng.integers(turns, size=agents), range(agents)] = True
    order, found = 0, list[Trajectory]()
    times: list[list[tuple[int, int]]] = [[] for _ in range(agents)]
    for clock in range(turns):
        for agent in rng.permutation(agents).tolist():
            for _ in range(acts[clock, agent] * int(rng.choice([1, 1, 2]))):
                times[agent].append((clock, order))
                order += 1
    for agent, own in enumerate(times):
        each = trajectory([1] * len(own), rng.normal(size=len(own)).tolist(), agent=str(agent))
        each.episode, each.start_progress = (episode,), float(rng.random())
        each.terminated = bool(rng.random() < 0.5)
        each.truncated = not each.terminated
        for action, place in zip(each.turns, own, strict=True):
            action.clock, action.order, action.progress = 2 * place[0], place[1], rng.random()
        found.append(each)
    return found


@given(generators, st.floats(0.1, 1.0), st.booleans())
@few
def test_shaping_lowers_the_return_of_a_team_by_what_its_agents_have_seen(rng, gamma, bootstraps):
    """Not by what they see later, which depends on the actions of the others in between."""
    batch = Batch.of([each for number in range(3) for each in game(rng, number)])
    shaped = shape_by_progress(batch, 0.7, gamma, bootstraps=bootstraps, joint=True)
    plain, other = Joint.of(batch), Joint.of(shaped)
    change = other.returns(gamma) - plain.returns(gamma)
    last = plain.clock[plain.batch.turn_offsets[1:] - 1]
    for place, (episode, now) in enumerate(
        zip(plain.batch.turn_trajectory, plain.clock, strict=True)
    ):
        seen = []
        for n in np.flatnonzero(plain.episode == episode).tolist():
            each, own = batch.trajectories[n], slice(*batch.turn_offsets[n : n + 2])
            levels = [each.start_progress, *(action.progress for action in each.turns)]
            # The first one of several in a turn.
            known = dict(zip(plain.time[own][::-1].tolist(), levels[-2::-1], strict=True))
            seen.append(known.get(max((time for time in known if time <= now), default=-1), 0.0))
            if bootstraps and each.truncated:  # the value of the last state falls as much
                seen[-1] -= gamma ** (last[episode] + 1 - now) * levels[-1]
        assert change[place] == pytest.approx(-0.7 * np.mean(seen), abs=1e-6)


def test_the_progress_that_a_partner_meets_is_no_loss_of_the_agent_that_made_it():
    first, second = trajectory([1], [0.0], agent="a"), trajectory([1], [0.0], agent="b")
    for clock, each in enumerate((first, second)):
        each.episode, each.turns[0].clock, each.turns[0].order = (0,), clock, clock
    first.turns[0].progress = second.start_progress = 1.0
    config = marft.Config.of(shape_progress=1.0)
    estimator = marft.build(config).estimator
    gamma, joint = turn_discount(estimator), is_joint(estimator)
    options = RewardOptions(config, gamma=gamma, bootstraps=True, joint=joint)
    assert Joint.of(options(Batch.of([first, second]), 0)).returns(gamma)[0] == pytest.approx(0.0)
