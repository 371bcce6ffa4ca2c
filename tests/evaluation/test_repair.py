"""Failed episodes as data: what is repaired or relabelled is what the environment answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentgym.agents.basic.expert import NoExpertError
from agentgym.cli.main import main
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.data.reading import read_episodes
from agentgym.errors import ConfigError, DataError
from agentgym.evaluation import repair
from agentgym.evaluation.repair import TRACE, conditioned, relabelled, repaired, traced
from agentgym.evaluation.runner import evaluate
from agentgym.goals import towards
from agentgym.registration.ids import TABLE
from agentgym.registration.making import make_env

REPAIRED: dict[str, dict[str, Any]] = {
    "NumberLine-v0": {"max_turns": 8},
    "Blocksworld-v0": {"blocks": 3, "max_turns": 6},
    "Minesweeper-v0": {},  # an error ends the episode
    "Wordle-Fixed-v0": {},
    "Household-v0": {"max_turns": 20, "wrap": ["Memory:size=2"]},
    "LiarsDice-v0": {},  # a game against sampled opponents
}
RELABELLED: dict[str, dict[str, Any]] = {
    "NumberLine-v0": {"size": 8, "max_turns": 4, "wrap": ["Memory:size=2"]},
    "Maze-v0": {"max_turns": 12},
    "Blocksworld-v0": {"blocks": 3, "max_turns": 6},
}


def failed(id: str, kwargs: dict[str, Any], tmp_path, tasks: int = 8) -> list[RecordedEpisode]:
    """Failed episodes of random play."""
    file = tmp_path / "random.jsonl"
    evaluate(id, "random", tasks=tasks, split="train", env_kwargs=kwargs, save=file)
    found = [episode for episode in read_episodes(file) if not episode.success]
    assert len(found) >= 3
    return found


def replayed(episode: RecordedEpisode, env: Any) -> bool:
    """Plays the actions and compares every answer. Returns whether they succeed."""
    text, info = env.reset(seed=episode.seed, options={"task": episode.task})
    terminated = False
    for number, turn in enumerate(episode.turns, 1):
        assert (turn.observation, turn.admissible) == (text, info["admissible"])
        text, reward, terminated, truncated, info = env.step(turn.action)
        assert (turn.reward, turn.reward_terms) == (reward, info["reward_terms"])
        assert (turn.valid, turn.progress) == (info["valid"], info["progress"])
        assert (terminated or truncated) == (number == len(episode.turns))
    assert (episode.last_observation, episode.terminated) == (text, terminated)
    assert episode.success == info["success"]
    return episode.success


def expert_succeeds_after(episode: RecordedEpisode, turns: int, env: Any) -> bool:
    """Plays the first actions from a reset, then the expert's, without snapshots."""
    _, info = env.reset(seed=episode.seed, options={"task": episode.task})
    over = False
    for turn in episode.turns[:turns]:
        *_, terminated, truncated, info = env.step(turn.action)
        over = terminated or truncated
    while not over and (action := env.get_wrapper_attr("expert")()) is not None:
        *_, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return info["success"]


def test_an_expert_without_an_end_repairs_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(repair, "MANY_TURNS", 20)
    before, *_ = failed("NumberLine-v0", {"max_turns": 8}, tmp_path)
    env = make_env("NumberLine-v0", max_turns=None)
    said = list[str]()

    def circles() -> str:
        said.append("?")
        return said[-1]

    monkeypatch.setattr(env.unwrapped, "expert", circles)
    assert repaired(before, env) is None
    assert len(said) == 21  # the first one tells whether there is an expert


@pytest.mark.parametrize("id", REPAIRED)
def test_the_expert_goes_on_from_the_last_state_from_which_it_succeeds(id, tmp_path):
    env, other = (make_env(id, **REPAIRED[id]) for _ in range(2))
    found = 0
    for before in failed(id, REPAIRED[id], tmp_path):
        after = repaired(before, env)
        if after is None:
            assert not expert_succeeds_after(before, 0, other)
            continue
        found += 1
        assert replayed(after, other)
        kept = sum(turn.weight == 0 for turn in after.turns)
        assert [turn.weight for turn in after.turns] == [0] * kept + [1] * (len(after.turns) - kept)
        assert [t.action for t in after.turns[:kept]] == [t.action for t in before.turns[:kept]]
        assert kept < len(after.turns) and kept < len(before.turns)
        assert not expert_succeeds_after(before, kept + 1, other)
    assert found >= 2


@pytest.mark.slow
def test_episodes_of_every_environment_with_an_expert_can_be_repaired():
    tried, found = 0, 0
    for id in (entry.id for entry in TABLE if entry.extra is None):
        env = make_env(id)
        text, info = env.reset(seed=0)
        if env.get_wrapper_attr("expert")() is not None:
            turns = [RecordedTurn(text, "")]  # an invalid action, and the episode was given up
            after = repaired(RecordedEpisode(turns, env=id, task=info["task"]), env)
            tried, found = tried + 1, found + (after is not None)
            assert after is None or replayed(after, make_env(id)), id
        env.close()
    assert tried > 100 and found > 0.8 * tried, (tried, found)


@pytest.mark.parametrize("id", RELABELLED)
def test_a_relabelled_episode_ends_when_its_goal_is_first_achieved(id, tmp_path):
    env, other = (make_env(id, **RELABELLED[id]) for _ in range(2))
    found = 0
    for before in failed(id, RELABELLED[id], tmp_path, 40):
        before.turns[0].weight = 0.5
        after = relabelled(before, env)
        assert not replayed(before, env)  # the goal of the task is back
        goal_env: Any = env.unwrapped
        goal = goal_env.achieved()
        if after is None:
            assert goal is None
            continue
        found += 1
        with towards(goal, other.unwrapped):
            assert replayed(after, other)
        assert after.terminated and after.reward > before.reward
        pairs = [*zip(after.turns, before.turns, strict=False)]
        assert len(pairs) == len(after.turns)
        assert all((a.action, a.weight) == (b.action, b.weight) for a, b in pairs)
    assert found >= 3


def test_an_environment_without_goals_or_expert_is_refused_in_words(tmp_path):
    [episode, *_] = failed("Wordle-Fixed-v0", {}, tmp_path)
    env = make_env("Wordle-Fixed-v0")
    with pytest.raises(ConfigError, match="Wordle-Fixed-v0 cannot relabel episodes"):
        relabelled(episode, env)
    env.unwrapped.expert = lambda: None  # type: ignore[attr-defined]
    with pytest.raises(NoExpertError, match="Wordle-Fixed-v0 has no scripted expert to repair"):
        repaired(episode, env)


def test_an_episode_that_cannot_be_played_again_is_refused_in_words(tmp_path):
    [episode, *_] = failed("NumberLine-v0", {"size": 8, "max_turns": 4}, tmp_path)
    with pytest.raises(DataError, match=r"does not repeat\. At turn 0, expected .*Give the"):
        relabelled(episode, make_env("NumberLine-v0", size=30))
    with pytest.raises(DataError, match="got the end of the episode"):
        relabelled(episode, make_env("NumberLine-v0", size=8, max_turns=3))


def test_an_episode_that_was_cut_short_is_continued_where_it_ends(tmp_path):
    kwargs: dict[str, Any] = {"size": 8, "max_turns": 30}
    [episode, *_] = failed("NumberLine-v0", {"size": 8, "max_turns": 4}, tmp_path)
    after = repaired(episode, make_env("NumberLine-v0", **kwargs))
    assert after is not None and replayed(after, make_env("NumberLine-v0", **kwargs))
    assert [turn.weight for turn in after.turns[:4]] == [0] * 4
    assert all(turn.weight == 1 for turn in after.turns[4:]) and len(after.turns) > 4


@pytest.mark.parametrize("format", ["chat", "own"])
def test_conditioned_instructions_are_those_of_the_wrapper_outcome(format, tmp_path):
    words = ["export", "NumberLine-v0", "--agent", "random", "--episodes", "8"]
    words += ["--env-kwargs", "size=8", "max_turns=4", "--failures", "condition"]
    assert main([*words, "--format", format, "--out", str(tmp_path / "all.jsonl")]) == 0
    found = read_episodes(tmp_path / "all.jsonl")
    assert len(found) == 8 and {episode.success for episode in found} == {True, False}
    for episode in found:
        env = make_env("NumberLine-v0", wrap=[f"Outcome:success={episode.success}"])
        assert episode.instructions == env.get_wrapper_attr("instructions")


def test_an_unknown_outcome_is_refused_in_words():
    with pytest.raises(DataError, match="no rewards, so its outcome is not known"):
        conditioned(RecordedEpisode([RecordedTurn("a", "b")]))


@pytest.mark.parametrize("how", ["repair", "hindsight"])
def test_export_uses_failures_and_keeps_successes(how, tmp_path, capsys):
    kwargs = {"size": 8, "max_turns": 4, "wrap": ["Memory:size=2"]}
    evaluate("NumberLine-v0", "random", tasks=16, env_kwargs=kwargs, save=tmp_path / "all.jsonl")
    every = read_episodes(tmp_path / "all.jsonl")
    words = ["export", str(tmp_path / "all.jsonl"), "--failures", how, "--out"]
    assert main([*words, str(tmp_path / "used.jsonl")]) == 0
    used = read_episodes(tmp_path / "used.jsonl")
    wrong = [episode for episode in every if not episode.success]
    right = [episode for episode in used if episode.agent == "random"]
    assert all(episode.success for episode in used)
    assert 0 < len(right) == len(every) - len(wrong) < len(used)
    message = f"{len(used) - len(right)} of {len(wrong)} failed episodes can be used ({how})."
    assert message in capsys.readouterr().out
    assert {episode.agent for episode in used} - {"random"} <= {
        "random repaired",
        "random relabelled",
    }


def test_a_repair_and_its_failure_are_a_pair_that_parts_at_the_repair(tmp_path):
    words = ["export", "Minesweeper-v0", "--episodes", "8", "--agent", "random"]
    words += ["--failures", "repair", "--format", "preferences", "--out"]
    assert main([*words, str(tmp_path / "pairs.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert rows
    for row in rows:
        assert row["chosen_reward"] > row["rejected_reward"]
        assert row["chosen"][0] != row["rejected"][0] and row["prompt"][-1]["role"] == "user"
        every = [*row["prompt"], *row["chosen"], *row["rejected"]]
        assert all(message.keys() == {"role", "content"} for message in every)
    # An error ends a game of Minesweeper, so it is the last action of the failure that differs.
    assert all(len(row["rejected"]) == 1 for row in rows)


def test_export_says_which_episodes_it_cannot_use(tmp_path, capsys):
    chat = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    (tmp_path / "chat.jsonl").write_text(json.dumps(chat))
    words = ["--failures", "hindsight", "--out", str(tmp_path / "x.jsonl")]
    assert main(["export", str(tmp_path / "chat.jsonl"), *words]) == 2
    assert "names no environment and task" in capsys.readouterr().err
    assert main(["export", "Wordle-v0", "--agent", "random", "--episodes", "3", *words]) == 2
    assert "Wordle-v0 cannot relabel episodes" in capsys.readouterr().err


@pytest.mark.parametrize("id", ["NumberLine-v0", "Blocksworld-v0", "Wordle-Fixed-v0"])
def test_the_label_of_a_tracer_is_the_turn_after_which_the_expert_fails(id: str, tmp_path):
    env, labels = make_env(id, **REPAIRED[id]), set()
    for episode in failed(id, REPAIRED[id], tmp_path):
        found = traced(episode, env)
        if found is None:
            assert not expert_succeeds_after(episode, 0, env)
            continue
        [turn] = found.turns
        label = int(turn.action.removeprefix("turn: "))
        labels.add(label)
        assert expert_succeeds_after(episode, label - 1, env)
        assert not expert_succeeds_after(episode, label, env)
        assert found.instructions == TRACE and f"Turn {len(episode.turns)}" in turn.observation
        assert all(each.action in turn.observation for each in episode.turns)
    assert labels


def test_labels_are_a_file_that_a_tracer_learns_from(tmp_path):
    file, out = tmp_path / "played.jsonl", tmp_path / "traced.jsonl"
    kwargs = REPAIRED["NumberLine-v0"]
    evaluate("NumberLine-v0", "random", tasks=12, env_kwargs=kwargs, save=file)
    assert main(["export", str(file), "--failures", "trace", "--out", str(out)]) == 0
    rows = [json.loads(line)["messages"] for line in out.read_text().splitlines()]
    lost = [episode for episode in read_episodes(file) if not episode.success]
    assert 0 < len(rows) <= len(lost)
    for messages in rows:
        assert [each["role"] for each in messages] == ["system", "user", "assistant"]
        assert messages[0]["content"] == TRACE and messages[2]["content"].startswith("turn: ")
