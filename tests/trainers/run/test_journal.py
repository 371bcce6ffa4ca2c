"""Finished episodes survive a killed process, and nothing else in the journal counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.hooks.base import pack
from agentgym.trainers.recipes import poad
from agentgym.trainers.rollout import executor as executor_module
from agentgym.trainers.rollout.collector import EpisodeSpec, play_episodes
from agentgym.trainers.run.journal import Journal
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Support, Trajectory

from ...helpers.worlds import trajectory

EPISODES = [EpisodeSpec(f"task {i}", i, (0, 1, 2, i), max_turns=9) for i in range(4)]


def played(number: int) -> Trajectory:
    """An episode with numbers that do not survive careless printing."""
    found = trajectory([2, 3], [1 / 3, float(number)], task=f"task {number}", seed=number)
    turn = found.turns[0]
    turn.logprobs = np.array([-1 / 7, -1e-9], np.float32)
    turn.support = Support(np.array([0, 1, 3], np.int32), np.array([5, 6, 7], np.int32))
    turn.admissible = ("go", "stay \u00fc\n")
    turn.reward_terms = {"task": np.float32(1 / 3)}  # type: ignore[dict-item]
    return found


def journal(folder: Path, count: int = 4, *, exact: bool = False) -> Journal:
    """A journal of some episodes, opened again as by a resumed run."""
    first = Journal(folder, 0, exact=exact)
    for i in range(count):
        first.append(EPISODES[i], [played(i)])
    return Journal(folder, 0, exact=exact)


def test_episodes_come_back_exactly(tmp_path: Path):
    other = Journal(tmp_path, 1, exact=False)  # the file of another process
    other.append(EPISODES[3], [played(3)])
    found = journal(tmp_path, 3).read(EPISODES)
    assert sorted(found) == [0, 1, 2, 3]
    for number, [each] in found.items():
        assert pack(each) == pack(played(number))
        assert each.turns[0].logprobs.dtype == np.float32


@pytest.mark.parametrize(
    "other",
    [{"seed": 9}, {"task": "other"}, {"key": (0, 1, 3, 0)}, {"max_turns": 8}],
)
def test_another_episode_is_not_taken(other: dict[str, object], tmp_path: Path):
    assert journal(tmp_path).read([replace(EPISODES[0], **other)]) == {}


def test_an_exact_resume_takes_whole_rollouts_only(tmp_path: Path):
    reopened = journal(tmp_path, 3, exact=True)
    assert reopened.read(EPISODES) == {}
    assert sorted(reopened.read(EPISODES[:3])) == [0, 1, 2]


def test_a_checkpoint_ends_the_journal(tmp_path: Path):
    reopened = journal(tmp_path)
    reopened.clear()
    assert reopened.read(EPISODES) == Journal(tmp_path, 0, exact=False).read(EPISODES) == {}


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_damage_costs_its_own_line(data, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("journal")
    journal(folder, 3)
    file = folder / "journal" / "0.jsonl"
    whole = file.read_bytes()
    at = data.draw(st.integers(1, len(whole) - 1))
    hurt = whole[:at].count(b"\n") - 1  # the line of the damage
    if data.draw(st.booleans()):
        file.write_bytes(whole[:at])
        lost = set(range(hurt, 3))
    else:
        flipped = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
        file.write_bytes(whole[:at] + flipped + whole[at + 1 :])
        lost = {hurt, hurt + 1}  # the next one if it was a line break
    Journal(folder, 0, exact=False).append(EPISODES[3], [played(3)])
    found = Journal(folder, 0, exact=False).read(EPISODES)
    assert set(found) >= {0, 1, 2, 3} - lost
    for number, [each] in found.items():
        assert pack(each) == pack(played(number))


def test_a_resumed_run_plays_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = poad.Config.of(
        env_kwargs={"size": 5, "max_turns": 6}, model="nano", context="current", constrain=True,
        iterations=1, episodes_per_iteration=8, num_envs=3, eval_episodes=0, quiet=True,
        device="cpu", threads=1, run_dir=str(tmp_path), resume=True,
    )  # fmt: skip
    asked: list[int] = []

    def counted(policy, pool, episodes, *args, **kwargs):
        asked.append(len(episodes))
        return play_episodes(policy, pool, episodes, *args, **kwargs)

    monkeypatch.setattr(executor_module, "play_episodes", counted)

    class Killed(Exception):
        pass

    class Run(Trainer):
        def _save(self, keep_journal: bool = False) -> None:
            if self.state.iteration == 0:
                super()._save(keep_journal)

    def kill(*_: object) -> None:
        raise Killed

    for kept in (8, 5, 0):
        run = Run("poad", config, poad.build(config))
        run.journal.exact = False
        monkeypatch.setattr(run.updater, "update", kill)
        with pytest.raises(Killed):
            run.run()
        lines = (tmp_path / "journal" / "0.jsonl").read_text().split("\n")[1:]
        assert len(lines) == 8
        (tmp_path / "journal" / "0.jsonl").write_text("".join(f"\n{x}" for x in lines[:kept]))
    assert asked == [8, 0, 3]
