"""Exported episodes as datasets of Minari."""

from __future__ import annotations

import pytest

from agentgym.cli.main import main
from agentgym.data.reading import read_episodes

minari = pytest.importorskip("minari", reason="needs the extra `minari`")


@pytest.mark.filterwarnings("ignore")
def test_a_dataset_holds_the_exported_episodes(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    words = ["export", "NumberLine-v0", "--episodes", "4", "--env-kwargs", "size=6"]
    name = "agentgym/numberline-expert-v0"
    assert main([*words, "--format", "minari", "--out", name]) == 0
    assert main([*words, "--format", "own", "--out", str(tmp_path / "own.jsonl")]) == 0
    dataset = minari.load_dataset(name)
    episodes = read_episodes([tmp_path / "own.jsonl"])
    assert dataset.total_episodes == len(episodes) == 4
    for found, episode in zip(dataset.iterate_episodes(), episodes, strict=True):
        texts = [turn.observation for turn in episode.turns]
        assert list(found.observations) == [*texts, episode.last_observation]
        assert list(found.actions) == [turn.action for turn in episode.turns]
        assert found.rewards.tolist() == [turn.reward for turn in episode.turns]
        assert bool(found.terminations[-1]) == episode.terminated
        env = dataset.recover_environment()
        start = {"seed": episode.seed, "options": {"task": episode.task}}
        assert env.reset(**start)[0] == texts[0]
    assert main([*words, "--format", "minari", "--out", name]) == 2
    assert "Minari cannot create" in capsys.readouterr().err
