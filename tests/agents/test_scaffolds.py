"""Agents around an agent, with a writer whose replies are scripted."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym.agents import View, make_agent
from agentgym.agents.scaffolds import (
    SCAFFOLDS,
    AdaptAgent,
    PlanExecuteAgent,
    PlanRefineAgent,
    RciAgent,
    ReflexionAgent,
    RulesAgent,
)
from agentgym.agents.scaffolds.base import WRITER, smoothed_success
from agentgym.agents.scaffolds.cases import CasesAgent
from agentgym.agents.scaffolds.instructions import Instruction
from agentgym.agents.scaffolds.lessons import Lesson
from agentgym.agents.scaffolds.library import Function
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate
from agentgym.evaluation.runner import EpisodeRunner
from agentgym.registration.making import make_env
from agentgym.wrappers import MultiTrial

from ..helpers.echo import Echo


class Scripted:
    """A stand-in for a chat model: two functions of a view reply to questions and observations."""

    name = "scripted"

    def __init__(
        self, act: Callable[[View], str], write: Callable[[View], str] = lambda view: "text"
    ):
        self.reply, self.write = act, write
        self.questions: list[str] = []
        self.seen: list[str] = []
        self.batches: list[int] = []

    def act(self, views: Sequence[View]) -> list[str]:
        self.batches.append(len(views))
        return [self._one(view) for view in views]

    def _one(self, view: View) -> str:
        if view.instructions == WRITER:
            self.questions.append(view.observation)
            return self.write(view)
        self.seen.append(view.instructions)
        return self.reply(view)


def play(env: Any, agent: Any, seed: int = 0) -> EpisodeRunner:
    """Plays an episode to its end."""
    episode = EpisodeRunner(env, env.get_wrapper_attr("tasks").train[0], seed)
    while not episode.play(agent.act([episode.view])[0]):
        pass
    return episode


def actions(episode: EpisodeRunner) -> list[str]:
    return [action for _, action in episode.view.history]


def test_one_formula_values_all_that_is_tried():
    lesson, instruction = Lesson("a", uses=3, wins=2), Instruction("a", episodes=3, successes=2)
    function = Function("a", uses=3, wins=2)
    cases = CasesAgent(Scripted(learner))
    cases.outcomes[("", "", "a")] = (3, 2)
    values = {lesson.value, instruction.value, function.value, cases.value(("", "", "a"))}
    assert values == {smoothed_success(2, 3)} == {2.5 / 4}
    assert smoothed_success(0, 0) == Lesson("a").value == cases.value(("", "", "b")) == 0.5


# Reflexion.


def learner(view: View) -> str:
    """Ends the episode in success as soon as a reflection says so."""
    return "stop" if "say stop" in view.instructions else f"try {len(view.history)}"


def test_reflexion_acts_on_the_reflection_on_the_failed_attempt():
    model = Scripted(learner, lambda view: "Next time, say stop.\n")
    agent = ReflexionAgent(model, trials=3)
    assert agent.wrap == ("MultiTrial:n=3",)
    env = MultiTrial(Echo(max_turns=2), 3)
    episode = play(env, agent)
    assert actions(episode) == ["try 0", "try 1", "stop"]
    assert episode.terminated and episode.infos[-1]["success"]
    [question] = model.questions
    # The whole attempt, with its last observation, and the rules.
    assert "> try 0\n\ntry 0\n\n> try 1\n\ntry 1" in question
    assert Echo.instructions in question
    assert model.seen[-1].endswith("at this task:\n\nNext time, say stop.")
    assert model.seen[0] == Echo.instructions
    assert episode.view.costs == {"questions": 1}


def test_reflexion_keeps_the_last_reflections():
    count = iter(range(10))
    model = Scripted(lambda view: "no", lambda view: f"lesson {next(count)}")
    play(MultiTrial(Echo(max_turns=1), 5), ReflexionAgent(model, memory=2))
    assert len(model.questions) == 4  # the episode ends with the last attempt
    assert "lesson 1\n\nlesson 2" in model.questions[3] and "lesson 0" not in model.questions[3]
    assert model.seen[-1].endswith("task:\n\nlesson 2\n\nlesson 3")


def test_reflexion_explains_that_it_needs_attempts():
    with pytest.raises(ConfigError, match="--wrap MultiTrial:n=3"):
        play(Echo(max_turns=2), ReflexionAgent(Scripted(learner)))
    with pytest.raises(ConfigError, match="trials must be at least 1, got 0"):
        ReflexionAgent(Scripted(learner), trials=0)


# Rules.


def tries(view: View) -> str:
    """Succeeds in half of the attempts, and in all of them as soon as a rule says so."""
    return "stop" if "say stop" in view.instructions or view.rng.random() < 0.5 else "no"


def group(agent: RulesAgent, seed: int) -> EpisodeRunner:
    return play(MultiTrial(Echo(max_turns=1), 4, stop_on_success=False), agent, seed)


def test_numbers_of_edits_are_those_of_the_rules_shown(tmp_path: Path):
    file = tmp_path / "rules.txt"
    file.write_text("one\ntwo\nthree\n")
    model = Scripted(tries, lambda view: "forget 1\nforget 2\nremember: four\nremember 3: five")
    agent = RulesAgent(model, data=str(file))
    for seed in range(20):
        group(agent, seed)
        if model.questions:
            break
    assert agent.rules == ["five", "four"]


def test_rules_that_other_episodes_have_edited_keep_their_numbers():
    replies = ["forget 1\nremember: four", "forget 1\nremember 2: five\nforget 3"]
    first = lambda view: view.info["trial"] < 2  # noqa: E731
    model = Scripted(lambda v: "stop" if first(v) else "no", lambda view: replies.pop(0))
    agent = RulesAgent(model)
    agent.rules = ["one", "two", "three"]
    env = lambda: MultiTrial(Echo(max_turns=1), 4, stop_on_success=False)  # noqa: E731
    evaluate(env, agent, tasks=2, num_envs=2)
    assert len(model.questions) == 2 and all("3. three" in each for each in model.questions)
    assert agent.rules == ["five", "four"]


def test_attempts_with_different_outcomes_become_rules_for_other_tasks(tmp_path: Path):
    file = tmp_path / "rules.txt"
    replies = ["- remember: Always say stop.\nremember\nforget 7\nWell done!"]
    model = Scripted(tries, lambda view: replies.pop())
    agent = RulesAgent(model, data=str(file))
    assert agent.wrap == ("MultiTrial:n=4,stop_on_success=false",)
    first: list[bool] = []
    for seed in range(20):
        episode = group(agent, seed)
        first = [info["trial_success"] for info in episode.infos[:3]]
        assert bool(agent.rules) == (len(set(first)) == 2)
        if agent.rules:
            break
    [question] = model.questions
    assert question.count("which succeeded:") == sum(first) and "which failed:" in question
    assert "> stop" in question and "> no" in question
    assert agent.rules == ["Always say stop."] == file.read_text().splitlines()
    rule = "Rules that you have learned from earlier tasks:\n1. Always say stop."
    assert model.seen[-1] == f"{Echo.instructions}\n\n{rule}"
    assert model.seen[-2] == Echo.instructions
    # The next task begins with the rule, and so does another agent with the same file.
    assert actions(group(agent, 99)) == ["stop"] * 4
    assert RulesAgent(model, data=str(file)).rules == agent.rules


def test_rules_survive_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(file: int) -> None:
        os.ftruncate(file, 3)
        raise OSError("No space left on device")

    file = tmp_path / "rules.txt"
    file.write_text("Go home\n")
    agent = RulesAgent(Scripted(lambda view: ""), data=str(file))
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        agent._edit("remember: Go out", agent.rules)
    assert file.read_text() == "Go home\n"


def test_rules_need_attempts_and_a_folder(tmp_path: Path):
    model = Scripted(tries)
    with pytest.raises(ConfigError, match="--wrap MultiTrial:n=4,stop_on_success=false"):
        play(Echo(max_turns=2), RulesAgent(model))
    with pytest.raises(ConfigError, match="trials must be at least 3, got 2"):
        RulesAgent(model, trials=2)
    with pytest.raises(ConfigError, match="no folder"):
        RulesAgent(model, data=str(tmp_path / "none" / "rules.txt"))


# Plans.


def test_a_plan_is_made_once_and_shown_in_every_turn():
    model = Scripted(lambda view: "go" if len(view.history) < 2 else "stop", lambda _: "1. stop")
    episode = play(Echo(max_turns=5), PlanExecuteAgent(model))
    assert actions(episode) == ["go", "go", "stop"]
    [question] = model.questions
    assert "start " in question and "Write a plan" in question
    assert set(model.seen) == {f"{Echo.instructions}\n\nYour plan:\n1. stop"}


def test_a_plan_is_refined_after_a_failed_action():
    plans = iter(["1. nonsense", "1. same\n2. same", "1. stop"])
    model = Scripted(
        lambda view: view.instructions.rpartition("1. ")[2].partition("\n")[0],
        lambda view: next(plans),
    )
    episode = play(Echo(max_turns=9), PlanRefineAgent(model))
    # "same" is valid, but the second one leaves the observation as it was.
    assert actions(episode) == ["nonsense", "same", "same", "stop"]
    first, second, third = model.questions
    assert "The last action failed." not in first
    assert "Your plan:\n1. nonsense" in second and "> nonsense" in second
    assert "1. same\n2. same" in third and third.index("> nonsense") < third.index("> same")


def test_refinements_are_limited():
    model = Scripted(lambda view: "nonsense")
    episode = play(Echo(max_turns=6), PlanRefineAgent(model, refinements=2))
    assert len(model.questions) == 3 and len(episode.view.history) == 6
    with pytest.raises(ConfigError, match="plan_execute"):
        PlanRefineAgent(model, refinements=0)


# ADaPT.


def goal(view: View) -> str:
    """Returns the current subtask."""
    return view.instructions.partition("current subtask: ")[2].partition("\n")[0]


def worker(view: View) -> str:
    """Can do single letters, and reports."""
    wanted = goal(view)
    if len(wanted) == 1:
        return "Task completed" if view.history else wanted
    return "task failed"


def splitter(view: View) -> str:
    """Splits the word of the current subtask into halves."""
    word = view.observation.partition("current subtask: ")[2].partition("\n")[0] or "abc"
    return f"Step 1: {word[0]}\nStep 2: {word[1:]}\nExecution order: Step 1 AND Step 2"


def test_adapt_splits_what_fails_and_only_that():
    model = Scripted(worker, splitter)
    episode = play(Echo(max_turns=3), AdaptAgent(model))
    assert actions(episode) == ["a", "b", "c"]
    assert len(model.questions) == 2  # for the task, and for "bc"
    assert "Part of: bc\nAlready done: b\nYour current subtask: c\n" in model.seen[-1]
    assert "current subtask" not in model.seen[0]


def test_adapt_splits_no_deeper_than_asked_and_always_acts():
    model = Scripted(worker, splitter)
    episode = play(Echo(max_turns=4), AdaptAgent(model, depth=2))
    # "bc" cannot be split, so the task has failed: one plain action, then again from the start.
    assert actions(episode) == ["a", "task failed", "a", "task failed"]
    assert len(model.questions) == 2


@pytest.mark.parametrize(
    ("order", "played"),
    [
        ("Step 1 AND Step 2", ["1"]),  # the first one fails: so does all
        ("Step 1 OR Step 2", ["1", "2"]),
        ("(Step 1 AND Step 2) OR Step 3", ["1"]),  # read as AND
        ("none", ["1"]),
    ],
)
def test_adapt_follows_the_order_of_a_plan(order: str, played: list[str]):
    def act(view: View) -> str:
        wanted = goal(view)
        if not wanted:
            return "task failed"
        if not view.history:
            return wanted
        return "task failed" if wanted == "1" else "task completed"

    model = Scripted(act, lambda view: f"Plan.\nStep 1: 1\nStep 2: 2\nExecution order: {order}")
    episode = play(Echo(max_turns=3), AdaptAgent(model, depth=2))
    assert actions(episode)[: len(played) + 1] == [*played, "task failed"]


def test_adapt_gives_up_an_attempt_after_its_steps():
    model = Scripted(lambda view: "on", lambda view: "no plan")
    play(Echo(max_turns=7), AdaptAgent(model, steps=3))
    assert len(model.questions) == 1  # after 3 turns, then one turn, then 3 turns


def test_every_number_has_a_bound():
    with pytest.raises(ConfigError, match="depth must be at least 1, got 0"):
        AdaptAgent(Scripted(worker), depth=0)
    with pytest.raises(ConfigError, match="steps must be at least 1, got 0"):
        AdaptAgent(Scripted(worker), steps=0)


# RCI.


def test_rci_acts_with_the_criticised_action():
    env = NumberLine(size=60)
    start, _ = env.reset(seed=0, options={"task": env.tasks.train[0]})

    def write(view: View) -> str:
        wrong = "The next action:\n-" in view.observation
        return "It goes away." if wrong else f"text {len(model.questions)}"

    def act(view: View) -> str:
        return "+" if "It goes away." in view.instructions else "-"

    model = Scripted(act, write)
    episode = EpisodeRunner(env, env.tasks.train[0], 0)
    agent = RciAgent(model)
    for _ in range(3):
        episode.play(agent.act([episode.view])[0])
    assert [action for _, action in episode.view.history] == ["+"] * 3
    plans, critiques = model.questions[:3], model.questions[3:]
    assert len(critiques) == 3 and all(start in plan for plan in plans)
    assert "Find the problems with this plan." in plans[1] and "text 1" in plans[1]
    assert "Problems with it:\ntext 2" in plans[2]
    assert all("Your plan:\ntext 3" in each for each in [*critiques, *model.seen])
    assert [each.count("Your proposal:\n-") for each in model.seen] == [0, 1] * 3
    assert episode.view.costs["questions"] == 6


def test_more_rounds_are_more_critiques():
    model = Scripted(lambda view: "+")
    play(NumberLine(size=4, max_turns=2), RciAgent(model, rounds=2))
    assert len(model.questions) == 1 + 2 * 2 + 2 * len(model.seen) // 3
    with pytest.raises(ConfigError, match="rounds must be at least 1"):
        RciAgent(model, rounds=0)


# All of them.

every = pytest.mark.parametrize("kind", SCAFFOLDS)


@pytest.mark.parametrize("kind", [kind for kind in SCAFFOLDS if kind not in ("lessons", "library")])
def test_episodes_do_not_depend_on_the_batch(kind: str):
    """Whatever the number of episodes at once, and the requests of a batch are sent together.

    Lessons and libraries grow after each episode, so that they do depend on it.
    """

    def act(view: View) -> str:
        done = view.history[-1][1] if view.history else ""
        return "-" if done == "+" and view.rng.random() < 0.5 else "+"

    reports, models = [], []
    for num_envs in (1, 5):
        models.append(Scripted(act, lambda view: f"Step 1: plan {view.rng.integers(9)}"))
        agent = SCAFFOLDS[kind](models[-1])
        reports.append(evaluate("NumberLine-v0", agent, tasks=6, num_envs=num_envs))
    assert reports[0].episodes == reports[1].episodes
    assert sorted(models[0].questions) == sorted(models[1].questions)
    assert max(models[1].batches) == 5 and max(models[0].batches) == 1


@every
@pytest.mark.parametrize("inner", ["random", "expert"])
def test_any_agent_can_be_inside(kind: str, inner: str):
    agent = make_agent(f"{kind}:{inner}")
    assert agent.name == f"{kind}:{inner}"
    report = evaluate("NumberLine-v0", agent, tasks=2)
    assert len(report.episodes) == 2
    if inner == "expert":
        assert all(episode.success for episode in report.episodes)


def test_scaffolds_are_nested_and_share_a_writer():
    model = Scripted(learner, lambda view: "say stop")
    agent = ReflexionAgent(PlanExecuteAgent(model), trials=2)
    assert agent.writer is model and agent.name == "reflexion:plan_execute:scripted"
    play(MultiTrial(Echo(max_turns=1), 2), agent)
    assert [("Write a plan" in q) for q in model.questions] == [True]
    assert "Your plan:\nsay stop" in model.seen[-1]


def test_options_go_to_the_agent_that_has_them():
    agent: Any = make_agent(
        "reflexion,trials=4:plan_refine:chat:m@http://localhost/v1",
        temperature=0.5, refinements=1, memory=2,
    )  # fmt: skip
    assert agent.wrap == ("MultiTrial:n=4",) and agent.memory == 2
    assert agent.agent.refinements == 1
    assert agent.writer.temperature == 0.5 and agent.usage is agent.writer.usage


@pytest.mark.parametrize(
    ("spec", "options", "match"),
    [
        ("reflexion", {}, "reflexion wraps another agent: reflexion:chat:MODEL@URL"),
        ("reflexion:nobody", {}, "Unknown agent 'nobody'"),
        ("reflexio:random", {}, "Did you mean: reflexion"),
        ("adapt,width=3:random", {}, "unexpected keyword argument 'width'"),
        ("adapt:random", {"trials": 3}, "unexpected keyword argument 'trials'"),
        ("adapt,depth=x:random", {}, "depth"),
    ],
)
def test_a_wrong_specification_is_explained(spec: str, options: dict[str, Any], match: str):
    with pytest.raises(ConfigError, match=match):
        make_agent(spec, **options)


def test_an_error_of_the_agent_leaves_nothing_half_done():
    def act(view: View) -> str:
        if not failed:
            failed.append(True)
            raise RuntimeError("gone")
        return "stop"

    failed: list[bool] = []
    model = Scripted(act)
    agent = PlanExecuteAgent(model)
    view = View.start(make_env("NumberLine-v0"), "train/1", 0)
    with pytest.raises(RuntimeError, match="gone"):
        agent.act([view])
    assert agent.act([view]) == ["stop"] and len(model.questions) == 2


def test_finished_episodes_are_forgotten():
    agent = PlanExecuteAgent(Scripted(lambda view: "+"))
    view = View.start(NumberLine(), "train/1", 0)
    agent.act([view])
    gone = weakref.ref(view)
    del view
    gc.collect()
    assert gone() is None and not agent._programs
