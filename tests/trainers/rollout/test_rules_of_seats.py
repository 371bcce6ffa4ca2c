"""A model that reads the episode of a seat gets the rules of this seat, not those of the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agentgym.registration.making import make_env
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.packing import pack, pack_all, unpack, unpack_all
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.adversary import AdversarialPairs
from agentgym.trainers.recipes import agent_rlvr
from agentgym.trainers.recipes.agent_q import State, TreePreferences
from agentgym.trainers.rewards.chat_judge import ChatJudge
from agentgym.trainers.rewards.model_judge import ModelJudge
from agentgym.trainers.rollout.branches import single_turn
from agentgym.trainers.rollout.env_pool import instructions_by_id
from agentgym.trainers.rollout.episode import EpisodeSpec

from .test_seats import Talker, play, specs_of

GAME = "Retail-TwoPlayer-v0"
RULES = instructions_by_id(make_env(GAME))
OF_AGENT, OF_USER = "Policy:", "Reveal only what is necessary"
READERS = ["chat", "model", "adversary", "agent_q"]


def talk(request: Any) -> str:
    return "I need help."


def texts(reader: str, trajectory: Trajectory) -> list[str]:
    """Returns what a model reads about the rules of an episode."""
    if reader == "chat":
        return [ChatJudge("chat:m@http://127.0.0.1:9/v1", RULES).text(trajectory)]
    if reader == "model":
        held: Any = SimpleNamespace(instructions=RULES)
        return [view.instructions for view in ModelJudge._views(held, trajectory)]
    if reader == "adversary":
        held = SimpleNamespace(rules=RULES)
        return [AdversarialPairs._text(held, trajectory, turn) for turn in trajectory.turns]
    held = SimpleNamespace(_rules=RULES)
    return [TreePreferences._view(held, State(trajectory, 0)).instructions]


@pytest.fixture(scope="module")
def seats() -> dict[str, Trajectory]:
    """An episode in which the policy plays both seats."""
    [found] = play(GAME, specs_of(GAME, [0]), Talker(talk), kwargs={"max_turns": 6})
    return {trajectory.agent: trajectory for trajectory in found}


@pytest.mark.parametrize("reader", READERS)
def test_each_seat_is_read_with_its_own_rules(reader: str, seats: dict[str, Trajectory]):
    assert all(part in text for text in RULES.values() for part in (OF_AGENT, OF_USER))
    for text in texts(reader, seats["player_0"]):
        assert OF_AGENT in text and OF_USER not in text
    for text in texts(reader, seats["player_1"]):
        assert OF_USER in text and OF_AGENT not in text


@pytest.mark.parametrize("reader", READERS)
def test_a_sampled_seat_beside_scripts_is_read_with_its_own_rules(reader: str):
    tasks = [spec.task for spec in specs_of(GAME, range(6))]
    alone = [EpisodeSpec(task, seed, (7, seed)) for seed, task in enumerate(tasks)]
    found = [each for [each] in play(GAME, alone, Talker(talk), kwargs={"max_turns": 6})]
    users = ["You are the user." in each.turns[0].observation for each in found]
    assert len(set(users)) == 2
    for trajectory, user in zip(found, users, strict=True):
        for text in texts(reader, trajectory):
            assert (OF_USER in text, OF_AGENT in text) == (user, not user)


def test_a_hint_is_for_the_start_of_its_attempt(monkeypatch: pytest.MonkeyPatch):
    """Another seed of the same task can give the other seat, which must not read the hint."""
    spec = specs_of(GAME, [0])[0]
    specs = [EpisodeSpec(spec.task, seed, (7, seed)) for seed in range(6)]
    failed = [each for [each] in play(GAME, specs, Talker(talk), kwargs={"max_turns": 6})]
    asked: list[str] = []

    def ask(some: list[str]) -> list[str]:
        asked.extend(some)
        return ["policy" if OF_AGENT in text else "user" for text in some]

    monkeypatch.setattr(agent_rlvr, "text_model", lambda *parts: ask)
    state = SimpleNamespace(process_index=0, num_processes=1)
    pool = SimpleNamespace(env=lambda slot: make_env(GAME))
    held: Any = SimpleNamespace(
        trainer=SimpleNamespace(accelerator=state, pool=pool),
        config=SimpleNamespace(hint="chat:m@http://127.0.0.1:9/v1"),
    )
    agent_rlvr.Guidance._write(held, failed)
    assert not any(OF_AGENT in text and OF_USER in text for text in asked)
    env = agent_rlvr.Hinted(make_env(GAME), agent_rlvr.Guidance._hint(held), 1)
    shown = [env.reset(seed=s.seed, options={"task": s.task})[0] for s in specs]
    users = ["You are the user." in text for text in shown]
    assert len(set(users)) == 2
    assert [text.endswith("Hint: user") for text in shown] == users


def test_a_judge_of_the_whole_team_reads_the_rules_of_each(seats: dict[str, Trajectory]):
    [joint] = Joint.of(Batch.of([*seats.values()])).batch.trajectories
    for reader in ("agent", "user"):
        assert f"Rules of {reader}:\n" in joint.instructions
    assert OF_AGENT in joint.instructions and OF_USER in joint.instructions


def test_episodes_keep_their_rules_in_checkpoints(seats: dict[str, Trajectory]):
    one = seats["player_1"]
    assert unpack(pack(one)).instructions == one.instructions != ""
    assert single_turn(one, 0).instructions == one.instructions
    assert unpack_all(pack_all([one]))[0].instructions == one.instructions
    earlier = {name: value for name, value in pack(one).items() if name != "instructions"}
    assert unpack(earlier).instructions == ""
