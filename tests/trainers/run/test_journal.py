"""Finished episodes survive a killed process, and nothing else in the journal counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers import recipes
from agentgym.trainers.data.packing import pack, unpack
from agentgym.trainers.data.trajectory import Support, Trajectory
from agentgym.trainers.recipes import poad
from agentgym.trainers.rollout import executor as executor_module
from agentgym.trainers.rollout.collector import play_episodes
from agentgym.trainers.rollout.episode import EpisodeSpec, Play
from agentgym.trainers.run.journal import Journal
from agentgym.trainers.system.signals import Interrupted
from agentgym.trainers.trainer import Trainer

from ...helpers import train_all
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


def test_an_episode_of_an_earlier_version_has_no_key_of_its_last_state():
    old = pack(replace(played(0), final_state_key="room 3"))
    assert unpack(old).final_state_key == "room 3"
    del old["final_state_key"]
    assert unpack(old).final_state_key == ""


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


@pytest.mark.slow
@pytest.mark.parametrize("patience", [None, 3])
def test_an_interrupted_epoch_of_cloning_leaves_nothing(
    patience: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def weights(folder: str, interrupted_step: int | None) -> dict[str, torch.Tensor]:
        config = poad.Config.of(
            env_kwargs={"size": 5, "max_turns": 6}, model="nano", context="current",
            bc_demonstrations=4, bc_epochs=4, bc_patience=patience, bc_batch_tokens=64,
            save_every=2, iterations=0,
            eval_episodes=0, quiet=True, device="cpu", threads=1, run_dir=str(tmp_path / folder),
            resume=True, log_with=(),
        )  # fmt: skip
        run, steps = Trainer("poad", config, poad.build(config)), 0

        def agree() -> None:
            nonlocal steps
            steps += 1
            if steps == interrupted_step:
                raise Interrupted(15)

        monkeypatch.setattr(run.stop, "agree", agree)
        if interrupted_step is None:
            run.run()
            total.append(steps)
        else:
            with pytest.raises(Interrupted):
                run.run()
        return {name: tensor.clone() for name, tensor in run.policy.state_dict().items()}

    total: list[int] = []
    whole = weights("whole", None)
    weights("interrupted", total[0] - 1)  # in the last epoch, after two that are saved and one not
    resumed = weights("interrupted", None)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert total[1] < total[0]


@pytest.mark.slow
def test_an_interruption_between_cloning_and_training_leaves_out_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The critic with a separate backbone is fitted then, and the reference policy frozen."""

    def weights(folder: str, interrupted: bool) -> dict[str, torch.Tensor]:
        config = poad.Config.of(
            env_kwargs={"size": 5, "max_turns": 6}, model="nano", context="current",
            bc_demonstrations=4, bc_epochs=2, kl_coef=0.1, critic_backbone="separate",
            critic_episodes=4,
            save_every=1, iterations=1, episodes_per_iteration=4, eval_episodes=0, quiet=True,
            device="cpu", threads=1, run_dir=str(tmp_path / folder), resume=True, log_with=(),
        )  # fmt: skip
        run = Trainer("poad", config, poad.build(config))
        if not interrupted:
            run.run()
        else:
            make_hooks = run.make_hooks

            def then_a_signal() -> None:
                make_hooks()
                run.stop.heard = 15

            monkeypatch.setattr(run, "make_hooks", then_a_signal)
            with pytest.raises(Interrupted):
                run.run()
        assert run.own_critic is not None
        named = {**run.policy.state_dict(), **run.own_critic.state_dict()}
        return {name: tensor.clone() for name, tensor in named.items()}

    whole = weights("whole", interrupted=False)
    weights("interrupted", interrupted=True)
    resumed = weights("interrupted", interrupted=False)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


class Killed(Exception):
    """Stands for SIGKILL: nothing is written after it."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "episode"),
    [
        ("poad", 12 + 7),  # in the second iteration
        ("archer", 12 + 7),  # with a replay buffer
        ("arpo_entropy", 8 + 3),  # among the branches of complete rollouts
        ("agentprm", 12 + 7),  # with a learned reward
    ],
)
def test_a_run_killed_in_a_collection_is_repeated_bit_by_bit(
    recipe: str, episode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    play, finished = Play.trajectory, 0

    def trajectory(self: Play) -> Trajectory:
        nonlocal finished
        finished += 1
        if finished == episode:
            raise Killed
        return play(self)

    def run(folder: str) -> dict[str, torch.Tensor]:
        config = train_all.settings(
            recipe, run_dir=str(tmp_path / folder), resume=True, save_every=1, num_envs=5,
            bc_demonstrations=0, eval_episodes=0,
        )  # fmt: skip
        trainer = Trainer(recipe, config, recipes.load(recipe).build(config))
        trainer.run()
        return trainer.updater.module.state_dict()

    whole = run("whole")
    monkeypatch.setattr(Play, "trajectory", trajectory)
    with pytest.raises(Killed):
        run("killed")
    assert (tmp_path / "killed" / "journal" / "0.jsonl").exists()
    monkeypatch.setattr(Play, "trajectory", play)
    resumed = run("killed")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


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

    def kill(*_: object, **__: object) -> None:
        raise Killed

    for kept in (8, 5, 0):
        run = Trainer("poad", config, poad.build(config))
        run.rollouts.journal.exact = False
        monkeypatch.setattr(run.updater, "update", kill)
        with pytest.raises(Killed):
            run.run()
        lines = (tmp_path / "journal" / "0.jsonl").read_text().split("\n")[1:]
        assert len(lines) == 8
        (tmp_path / "journal" / "0.jsonl").write_text("".join(f"\n{x}" for x in lines[:kept]))
    assert asked == [8, 0, 3]
