"""An agent with examples: which episodes it keeps, finds, shows and saves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym.agents import ExpertAgent, RandomAgent, View, make_agent
from agentgym.agents.scaffolds import CasesAgent, ExamplesAgent, InstructionsAgent
from agentgym.data.reading import read_episodes
from agentgym.errors import ConfigError, DataError
from agentgym.evaluation import cross_play, evaluate
from agentgym.registration.making import make_env

ID = "AgentGym/TextCraft-v0"


class Watched(ExpertAgent):
    """An expert that fails some tasks, and keeps the instructions of its first turns."""

    def __init__(self, fails: Sequence[str] = ()):
        self.fails, self.seen = fails, []

    def act(self, views: Sequence[View]) -> list[str]:
        self.seen += [view.instructions for view in views if not view.history]
        acted = super().act(views)
        pairs = zip(views, acted, strict=True)
        return ["?" if v.info["task"] in self.fails else action for v, action in pairs]


def chat(first: str, **facts: Any) -> str:
    """Returns a line of a file with an episode of one turn."""
    roles = {"system": "Rules.", "user": first, "assistant": f"do {first}"}
    messages = [{"role": role, "content": content} for role, content in roles.items()]
    return json.dumps({"messages": messages, **facts}) + "\n"


def begun(agent: ExamplesAgent, observation: str) -> list[str]:
    """Returns the first observations of the examples for an observation."""
    return [e.turns[0].observation for e in agent.select(View.of_text("Rules.", observation))]


def test_successes_become_examples_of_later_episodes(tmp_path: Path):
    file = tmp_path / "cases.jsonl"
    tasks = list(make_env(ID).get_wrapper_attr("tasks").test[:4])
    inner = Watched(fails=tasks[1:2])
    agent = ExamplesAgent(inner, data=str(file), k=1)
    kwargs = {"max_turns": 20}
    report = evaluate(ID, agent, tasks=tasks, num_envs=1, env_kwargs=kwargs)
    won = [episode.task for episode in report.episodes if episode.success]
    assert tasks[1] not in won and len(won) == 3
    assert [each.task for each in agent.episodes] == won
    assert ["Example 1" in text for text in inner.seen] == [False, True, True, True]
    assert "Example 2" not in inner.seen[3]
    # The example is the whole episode, and the file holds the same.
    first = agent.episodes[0]
    assert f"> {first.turns[0].action}\n\n" in inner.seen[1]
    assert inner.seen[1].endswith(first.last_observation)
    assert all(first.instructions == each.instructions for each in agent.episodes)
    saved = read_episodes([file])
    assert [each.turns for each in saved] == [each.turns for each in agent.episodes]
    assert not any(each.rewarded for each in saved)
    again = Watched()
    reloaded = make_agent(f"examples,data={file},k=3,keep=false:random")
    assert isinstance(reloaded, ExamplesAgent) and reloaded.episodes == saved
    reloaded.agent = again
    evaluate(ID, reloaded, tasks=tasks[:1], env_kwargs=kwargs)
    assert "Example 3" in again.seen[0]
    assert len(reloaded.episodes) == 3 and file.read_text().count("\n") == 3


def test_the_nearest_examples_of_the_same_environment_are_shown(tmp_path: Path):
    file = tmp_path / "cases.jsonl"
    file.write_text(
        chat("craft a red lamp")
        + chat("find the blue shoes", env=ID)  # of another environment than the view's
        + chat("craft a red boat", rewards=[0.0], success=False)
        + chat("craft a wooden boat", rewards=[1.0], success=True)
    )
    agent = ExamplesAgent(Watched(), data=str(file), k=2)
    assert begun(agent, "a boat, wooden and red") == ["craft a wooden boat", "craft a red lamp"]
    assert begun(agent, "blue shoes") == [] and begun(agent, "xyz") == []
    assert begun(ExamplesAgent(Watched(), data=str(file), k=1), "red") == ["craft a red lamp"]
    kept = ExamplesAgent(Watched(), data=str(file), size=1).episodes
    assert [each.turns[0].observation for each in kept] == ["craft a wooden boat"]


def test_a_long_example_is_cut(tmp_path: Path):
    file = tmp_path / "cases.jsonl"
    file.write_text(chat("word " * 100))
    inner = Watched()
    agent = ExamplesAgent(inner, data=str(file), length=20)
    view = View.of_text("Rules.", "word")
    assert agent._shown(view) == f"Example 1 of a solved task:\n\n{'word ' * 4}"


@pytest.mark.parametrize(
    "text",
    ["", "no json", '{"a": 1}', "[" * 100_000, '{"messages": 3}', "!!python/object:os.system"],
)
def test_a_file_that_holds_anything_else_is_refused(text: str, tmp_path: Path):
    file = tmp_path / "cases.jsonl"
    file.write_text(text)
    with pytest.raises(DataError, match=r"cases\.jsonl"):
        ExamplesAgent(Watched(), data=str(file))


def test_successes_follow_the_lines_of_a_file(tmp_path: Path):
    file = tmp_path / "cases.jsonl"
    file.write_text(chat("a lamp").rstrip("\n"))
    agent = ExamplesAgent(Watched(), data=str(file))
    agent.finish(View.of_text("Rules.", "Done.", [("a boat", "row")], {"success": True}))
    assert [each.turns[0].observation for each in read_episodes(file)] == ["a lamp", "a boat"]


def test_what_cannot_take_lines_is_refused(tmp_path: Path):
    (tmp_path / "trajectories.jsonl").write_text(chat("a lamp"))
    (tmp_path / "list.json").write_text(f"\n[{chat('a lamp')}]")
    for data in (tmp_path, tmp_path / "list.json"):
        with pytest.raises(ConfigError, match="keep=false"):
            ExamplesAgent(Watched(), data=str(data))
        assert len(ExamplesAgent(Watched(), data=str(data), keep=False).episodes) == 1


def test_arguments_are_checked(tmp_path: Path):
    for wrong in ("k=0", "size=0", "length=0"):
        with pytest.raises(ConfigError, match="must be at least 1, got 0"):
            make_agent(f"examples,{wrong}:random")
    with pytest.raises(DataError, match=r"none\.jsonl cannot be read"):
        make_agent("examples,data=none.jsonl,keep=false:random")
    with pytest.raises(ConfigError, match="no folder"):
        ExamplesAgent(Watched(), data=str(tmp_path / "none" / "cases.jsonl"))


# Cases: retrieval that is learned.


def test_cases_that_help_are_shown_more_often(tmp_path: Path):
    file = tmp_path / "cases.jsonl"
    texts = [f"craft a boat {name}" for name in ("oak", "elm", "fir", "ash")]
    file.write_text("".join(map(chat, texts)))
    agent = CasesAgent(Watched(), data=str(file), k=1, keep=False, temperature=0.1)
    shown = []
    for seed in range(60):
        view = View.of_text("Rules.", "craft a boat", seed=seed)
        next(agent.program(view))  # asks the inner agent for an action
        [case] = agent._cases[id(view.rng)]
        shown.append(case[2])
        view.info["success"] = case[2].endswith("fir")
        agent.finish(view)
    assert len(set(shown)) > 1 and shown[30:].count("craft a boat fir") > 25
    for text in texts:
        assert agent.outcomes.get(("", "", text), (0, 0))[0] == shown.count(text)
    values = {text: agent.value(("", "", text)) for text in texts}
    assert values.pop(texts[2]) > 0.9 > 0.5 >= max(values.values()) > min(values.values())
    assert not agent._cases


def test_cases_are_sampled_among_the_most_similar(tmp_path: Path):
    file = tmp_path / "cases.jsonl"
    file.write_text(chat("craft a boat") + chat("craft a lamp") + chat("craft a hat"))
    agent = CasesAgent(Watched(), data=str(file), k=1, pool=2)
    views = [View.of_text("Rules.", "craft a boat", seed=seed) for seed in range(30)]
    found = [[each.turns[0].observation for each in agent.select(view)] for view in views]
    assert sorted({*map(tuple, found)}) == [("craft a boat",), ("craft a lamp",)]
    again = [View.of_text("Rules.", "craft a boat", seed=seed) for seed in range(30)]
    assert [[e.turns[0].observation for e in agent.select(view)] for view in again] == found


def test_arguments_of_cases_are_checked():
    with pytest.raises(ConfigError, match="pool must be at least k = 2, got 1"):
        make_agent("cases,pool=1:random")
    with pytest.raises(ConfigError, match="temperature must be positive, got 0"):
        make_agent("cases,temperature=0.0:random")


def test_agents_learn_from_the_games_of_cross_play():
    for agent in (ExamplesAgent(RandomAgent()), InstructionsAgent(RandomAgent(), data=None)):
        result = cross_play("TicTacToe-v0", [agent, "random"], episodes=4)
        seats = [
            gain
            for m in result.matches
            for i, gain in zip(m.lineup, m.returns, strict=True)
            if not i
        ]
        if isinstance(agent, ExamplesAgent):
            assert len(agent.episodes) == sum(gain > 0 for gain in seats) > 0
        else:
            assert sum(each.episodes for each in agent.population) == len(seats)
            assert sum(each.successes for each in agent.population) == sum(g > 0 for g in seats)
