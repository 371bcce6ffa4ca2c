import dataclasses
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import NoExpertError, Quit, RandomAgent, View
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, UnknownTaskError
from agentgym.evaluation.crossplay import cross_play
from agentgym.evaluation.failures import FAILURES
from agentgym.evaluation.report import Record, Report, compare, mean_interval, share_interval, t_95
from agentgym.evaluation.runner import episode_seed, evaluate, plan_episodes
from agentgym.registration.making import MANY_TURNS, full_id, make_env, tasks_of
from agentgym.registration.mixture import MixedTasks
from agentgym.tasks import NumberedTasks, Tasks
from agentgym.utils import serialization
from agentgym.wrappers import RewardFunction
from agentgym.wrappers.reward_function import Transition


class Always:
    """Repeats one action and records its observations."""

    name = "always"

    def __init__(self, action: str):
        self.action = action
        self.batches = []

    def act(self, views):
        self.batches.append([(id(view), view.info["turn"]) for view in views])
        for view in views:
            assert not view.observation.endswith("Done!")
        return [self.action] * len(views)


class ShortLine(NumberLine):
    """NumberLine with three test tasks."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        numbers = range(3)
        self.tasks = Tasks(NumberedTasks("train/", numbers), NumberedTasks("test/", numbers))


class NoisyAgent(RandomAgent):
    """Takes an invalid action in half of the turns."""

    def _draw(self, view):
        return "what?" if view.rng.random() < 0.5 else super()._draw(view)


@pytest.mark.parametrize("agent", ["random", "expert"])
def test_the_result_does_not_depend_on_the_number_of_environments(agent):
    reports = [evaluate("NumberLine-v0", agent, tasks=80, num_envs=n) for n in (1, 8, 64, 100)]
    assert len(reports[0].episodes) == 80
    assert all(report == reports[0] for report in reports)


def test_another_seed_draws_other_tasks_and_the_same_seed_the_same():
    first, again, other = (evaluate("NumberLine-v0", "random", tasks=20, seed=s) for s in (1, 1, 2))
    assert first == again
    assert not {e.task for e in first.episodes} & {e.task for e in other.episodes}


def test_an_episode_is_the_same_whatever_is_played_beside_it():
    task = "test/7"
    alone = evaluate("NumberLine-v0", "random", tasks=[task], seed=3)
    among = evaluate("NumberLine-v0", "random", tasks=["test/1", task, "train/2"], seed=3)
    assert among.episodes[1] == alone.episodes[0]
    assert [episode.task for episode in among.episodes] == ["test/1", task, "train/2"]


def test_a_record_starts_the_same_episode_again():
    [record] = evaluate("NumberLine-v0", "expert", tasks=1).episodes
    env = NumberLine()
    env.reset(seed=record.seed, options={"task": record.task})
    assert env.state.distance == record.turns
    assert record.seed == episode_seed(0, record.task, 0)


def test_tasks_are_drawn_without_repetition_from_the_split():
    for split in ("train", "test"):
        report = evaluate("NumberLine-v0", "expert", tasks=150, split=split)
        names = [episode.task for episode in report.episodes]
        assert len(set(names)) == 150
        assert all(name.startswith(split) for name in names)


def test_a_small_split_is_played_in_whole_rounds_with_new_seeds():
    report = evaluate(ShortLine, "random", tasks=8)
    names = [episode.task for episode in report.episodes]
    assert [names.count(f"test/{i}") for i in range(3)].count(3) == 2
    assert len({(e.task, e.seed) for e in report.episodes}) == 8


def test_none_plays_every_task_of_the_split_once():
    report = evaluate(ShortLine, "expert", tasks=None)
    assert [episode.task for episode in report.episodes] == ["test/0", "test/1", "test/2"]
    with pytest.raises(ConfigError, match="Pass the number of tasks"):
        evaluate("NumberLine-v0", "expert", tasks=None)


def test_slots_stay_busy_and_finished_episodes_are_never_shown():
    agent = Always("+")
    evaluate("NumberLine-v0", agent, tasks=40, num_envs=8)
    sizes = [len(batch) for batch in agent.batches]
    assert max(sizes) == 8
    assert sizes == sorted(sizes, reverse=True)  # fewer only if no episode is left to start
    assert all(turn < 15 for batch in agent.batches for _, turn in batch)


def test_what_is_counted():
    def make():
        return NumberLine(invalid_penalty=0.25, max_turns=4)

    wrong = evaluate(make, Always("hello"), tasks=10)
    for episode in wrong.episodes:
        assert episode.reward == -1.0
        assert episode.reward_terms == {"task": 0.0, "invalid": -1.0}
        assert (episode.valid, episode.turns, episode.progress) == (0.0, 4, 0.0)
        assert (episode.success, episode.terminated, episode.truncated) == (False, False, True)
    right = evaluate(make, "expert", tasks=30)
    for episode in right.episodes:
        assert episode.success == episode.terminated == (not episode.truncated)
        assert episode.reward == episode.success
    assert 0 < sum(episode.truncated for episode in right.episodes) < 30
    mixed = evaluate(make, NoisyAgent(), tasks=30)
    assert 0 < mixed.aggregate()["valid"].mean < 1
    for episode in mixed.episodes:
        invalid = episode.turns * (1 - episode.valid)
        assert episode.reward_terms["invalid"] == pytest.approx(-0.25 * invalid)
        assert episode.reward == pytest.approx(sum(episode.reward_terms.values()))


def test_the_aggregate():
    report = evaluate("NumberLine-v0", "random", tasks=50)
    found = report.aggregate()
    assert set(found) == {
        *("success", "truncated", "reward", "progress", "valid", "turns"),
        *("reward/task", "reward/invalid"),
        *(f"failure/{kind}" for kind in FAILURES),
    }
    assert found["success"] == share_interval(sum(e.success for e in report.episodes), 50)
    assert found["turns"] == mean_interval([e.turns for e in report.episodes])
    assert found["reward"] == found["reward/task"]


class StopsAt:
    """A random agent that raises at its n-th call."""

    name = "stops"

    def __init__(self, n: int, error: BaseException):
        self.left, self.error = n, error

    def act(self, views):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return RandomAgent().act(views)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Quit()])
def test_an_interrupt_keeps_what_is_there(error):
    whole = evaluate("NumberLine-v0", "random", tasks=40, num_envs=4)
    report = evaluate("NumberLine-v0", StopsAt(20, error), tasks=40, num_envs=4)
    assert 0 < len(report.episodes) < 40
    assert report.interrupted
    assert report.planned == 40
    assert all(episode in whole.episodes for episode in report.episodes)
    order = [whole.episodes.index(episode) for episode in report.episodes]
    assert order == sorted(order)


def test_an_interrupt_before_the_first_episode_leaves_an_empty_report():
    report = evaluate("NumberLine-v0", StopsAt(0, KeyboardInterrupt()), tasks=4)
    assert report.episodes == []
    assert report.aggregate() == {}
    assert "0/4" in str(report)


def test_files_of_earlier_versions_without_costs_and_failures_are_continued(tmp_path):
    path = tmp_path / "played.jsonl"
    report = evaluate("NumberLine-v0", "search:mcts", tasks=3, save=path)
    assert all(episode.costs["search_steps"] > 0 for episode in report.episodes)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["costs"], line["failure"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = evaluate("NumberLine-v0", "search:mcts", tasks=3, save=path, resume=True)
    assert [e.task for e in again.episodes] == [e.task for e in report.episodes]
    assert all((e.costs, e.failure) == ({}, "") for e in again.episodes)


def test_saved_lines_hold_the_whole_transcripts(tmp_path):
    path = tmp_path / "played.jsonl"
    report = evaluate("NumberLine-v0", NoisyAgent(), tasks=20, num_envs=3, save=path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 20
    for line in lines:
        record = serialization.from_json(Record, line)
        assert record in report.episodes
        env = NumberLine()
        observation, _ = env.reset(seed=line["seed"], options={"task": line["task"]})
        assert line["instructions"] == env.instructions
        for turn in line["transcript"]:
            assert turn["observation"] == observation
            observation, reward, _, _, info = env.step(turn["action"])
            assert (turn["reward"], turn["valid"]) == (reward, info["valid"])
            assert turn["reward_terms"] == info["reward_terms"]
        assert line["last_observation"] == observation
        assert len(line["transcript"]) == record.turns


def test_a_crash_loses_no_finished_episode(tmp_path):
    path = tmp_path / "played.jsonl"
    seen: list[int] = []
    with pytest.raises(RuntimeError, match="crash"):
        evaluate(
            "NumberLine-v0",
            StopsAt(25, RuntimeError("crash")),
            tasks=40,
            num_envs=4,
            save=path,
            on_episode=lambda report: seen.append(len(report.episodes)),
        )
    assert seen == list(range(1, len(seen) + 1))
    assert len(path.read_text().splitlines()) == len(seen) > 0


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_report_is_json_whatever_the_arguments_are(number, tmp_path, monkeypatch):
    whole = evaluate("NumberLine-v0", "random", tasks=2)
    assert "NaN" not in json.dumps(whole.to_json())
    with pytest.raises(ValueError, match="'task'"):
        dataclasses.replace(whole.episodes[0], reward_terms={"task": number, "invalid": 0.0})
    report = evaluate(
        "NumberLine-v0", "random", tasks=2, save=tmp_path / "x", settings={"t": [number]}
    )
    report.save(tmp_path / "report.json")
    strict: dict[str, Any] = {"parse_constant": lambda name: pytest.fail(name)}
    json.loads((tmp_path / "report.json").read_text(), **strict)
    line, _ = (tmp_path / "x").read_text().splitlines()
    assert json.loads(line, **strict)["settings"] == {
        "t": ["NaN" if number != number else "Infinity"]
    }


def test_an_error_carries_the_finished_episodes():
    whole = evaluate("NumberLine-v0", "random", tasks=40, num_envs=4)
    with pytest.raises(RuntimeError, match="crash") as caught:
        evaluate("NumberLine-v0", StopsAt(25, RuntimeError("crash")), tasks=40, num_envs=4)
    report = caught.value.report  # type: ignore[attr-defined]
    assert report.interrupted
    assert 0 < len(report.episodes) < 40
    order = [whole.episodes.index(episode) for episode in report.episodes]
    assert order == sorted(order)


class Random(RandomAgent):
    """The random agent, which counts its actions and may crash."""

    def __init__(self, left: int = 10**9):
        self.left = left
        self.actions = 0

    def act(self, views):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("crash")
        self.actions += len(views)
        return super().act(views)


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_an_evaluation_is_continued_from_its_file(tmp_path, cut):
    path, whole_path = tmp_path / "played.jsonl", tmp_path / "whole.jsonl"
    whole = evaluate("NumberLine-v0", "random", tasks=40, num_envs=4, save=whole_path)
    with pytest.raises(RuntimeError, match="crash"):
        evaluate("NumberLine-v0", Random(25), tasks=40, num_envs=4, save=path)
    with path.open("ab") as file:
        file.write(b'{"env": "AgentGym/NumberLine-v0", "env_kwargs": {}'[:cut])
    before = len(path.read_text().splitlines()) - (cut > 0)
    seen: list[int] = []
    agent = Random()
    report = evaluate(
        "NumberLine-v0",
        agent,
        tasks=40,
        num_envs=3,
        save=path,
        resume=True,
        on_episode=lambda report: seen.append(len(report.episodes)),
    )
    assert report == whole
    assert 0 < before < 40
    assert seen == list(range(1, 41))
    assert agent.actions < sum(episode.turns for episode in whole.episodes)
    lines, expected = (sorted(p.read_text().splitlines()) for p in (path, whole_path))
    assert lines == expected
    again = Random()
    assert evaluate("NumberLine-v0", again, tasks=40, save=path, resume=True) == whole
    assert again.actions == 0


@pytest.mark.parametrize(
    "changed", [{"env_kwargs": {"size": 5}}, {"split": "train"}, {"settings": {"temperature": 1}}]
)
def test_episodes_of_other_settings_do_not_count(tmp_path, changed):
    path = tmp_path / "played.jsonl"
    evaluate("NumberLine-v0", "random", tasks=10, save=path)
    agent = Random()
    report = evaluate("NumberLine-v0", agent, tasks=10, save=path, resume=True, **changed)
    assert report == evaluate("NumberLine-v0", "random", tasks=10, **changed)
    assert agent.actions == sum(episode.turns for episode in report.episodes)
    assert len(path.read_text().splitlines()) == 20


@pytest.mark.parametrize("changed", [{"seed": 1}, {"tasks": 5}])
def test_episodes_that_are_not_in_the_plan_are_refused(tmp_path, changed):
    path = tmp_path / "played.jsonl"
    evaluate("NumberLine-v0", "random", tasks=10, save=path)
    data = path.read_bytes()
    with pytest.raises(ConfigError, match="not of this evaluation"):
        evaluate(
            "NumberLine-v0", "random", **{"tasks": 10, "save": path, "resume": True, **changed}
        )
    assert path.read_bytes() == data


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("text", ["no JSON", "[1]", "[" * 100_000, '{"env": "x"}', '{"task": 3}'])
def test_files_that_cannot_be_continued(tmp_path, text, place):
    path = tmp_path / "played.jsonl"
    evaluate("NumberLine-v0", "random", tasks=10, save=path)
    data = path.read_bytes()
    data = text.encode() + b"\n" + data if place == "first" else data + text.encode() + b"\n"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="cannot be continued"):
        evaluate("NumberLine-v0", "random", tasks=10, save=path, resume=True)
    assert path.read_bytes() == data


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("a text without a newline")
    with pytest.raises(ConfigError, match="not an episode"):
        evaluate("NumberLine-v0", "random", tasks=10, save=path, resume=True)
    assert path.read_text() == "a text without a newline"


def test_wrapped_environments_are_played_as_wrapped():
    class Shout(gymnasium.ObservationWrapper):
        def observation(self, observation):
            return observation.upper()

    class Listener(RandomAgent):
        def act(self, views):
            assert all(view.observation.isupper() for view in views)
            return super().act(views)

    report = evaluate(lambda: Shout(NumberLine()), Listener(), tasks=5)
    plain = evaluate(NumberLine, "random", tasks=5)
    assert report.episodes == plain.episodes
    assert report.env == "NumberLine"


def test_environments_are_closed(monkeypatch):
    closed = []
    monkeypatch.setattr(NumberLine, "close", lambda self: closed.append(self))
    evaluate(NumberLine, "random", tasks=10, num_envs=3)
    with pytest.raises(UnknownTaskError):
        evaluate(NumberLine, "random", tasks=["nonsense"])
    assert len(closed) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": "NumberLin-v0"}, "Did you mean: NumberLine-v0"),
        ({"env": "CartPole-v1"}, "not a text environment"),
        ({"env": "nowhere:Some/Env-v0"}, "no module 'nowhere'"),
        ({"env": "os.path.no:Some/Env-v0"}, "no module 'os.path.no'"),
        ({"env": ":Some/Env-v0"}, "no module ''"),
        ({"env": "os:"}, "Expected module:Name-v0, got 'os:'"),
        ({"env_kwargs": {"siz": 3}}, "keyword argument 'siz'.*Did you mean: size"),
        ({"env_kwargs": {"size": "big"}}, "'size'.*is int; got 'big'"),
        ({"env_kwargs": {"size": True}}, "'size'.*is int; got True"),
        ({"env_kwargs": {"max_turns": 1.5}}, "is int or 'auto' or None"),
        ({"env_kwargs": {"max_turns": "often"}}, "is int or 'auto' or None; got 'often'"),
        ({"env": NumberLine, "env_kwargs": {"size": 3}}, "env_kwargs go with an id"),
        ({"env_kwargs": {"split": "train"}}, "leave split out of env_kwargs"),
        ({"agent": "rundom"}, "Did you mean: random"),
        ({"tasks": 0}, "at least 1"),
        ({"tasks": []}, "at least one task"),
        ({"tasks": "tset/3"}, "Unknown task 'tset/3'"),
        ({"split": "validation"}, "split must be"),
        ({"num_envs": 0}, "num_envs must be"),
        ({"num_envs": "many"}, "'num_envs' of evaluate is int; got 'many'"),
        ({"tasks": 2.5}, "'tasks' of evaluate is int or Sequence or None; got 2.5"),
        ({"env": None}, "an environment or a function that makes one, got None"),
        ({"env": dict}, r"must return a gymnasium\.Env, got {}"),
        ({"agent": lambda view: "+"}, "agent must be a specification for make_agent"),
    ],
)
def test_wrong_arguments_are_explained(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**({"env": "NumberLine-v0", "agent": "random"} | arguments))


def test_an_environment_is_copied():
    env: Any = gymnasium.make("AgentGym/NumberLine-v0", size=7)
    env.reset(seed=5)
    before = env.unwrapped.snapshot()
    report = evaluate(env, "random", tasks=6, num_envs=3)
    by_id = evaluate("NumberLine-v0", "random", tasks=6, num_envs=3, env_kwargs={"size": 7})
    assert report.episodes == by_id.episodes
    assert env.unwrapped.snapshot() == before


def test_a_function_that_makes_the_same_environment_again_is_refused():
    env = NumberLine()
    with pytest.raises(ConfigError, match="a new environment at each call"):
        evaluate(lambda: env, "random", tasks=2, num_envs=2)


def test_a_number_of_tasks_may_be_one_of_numpy():
    assert len(evaluate("NumberLine-v0", "random", tasks=np.int64(3)).episodes) == 3  # type: ignore[arg-type]


def test_an_environment_without_an_expert_is_named():
    class NoExpert(NumberLine):
        def expert(self):
            return None

    with pytest.raises(NoExpertError, match="NoExpert"):
        evaluate(NoExpert, "expert")


def test_an_agent_must_answer_every_view():
    class Lazy(Always):
        def act(self, views):
            return ["+"]

    with pytest.raises(ValueError, match="must return 16 actions, got 1"):
        evaluate("NumberLine-v0", Lazy("+"))


@pytest.mark.parametrize("answer", [None, "++", {"a": "+", "b": "+"}, iter("++"), 2])
def test_an_agent_answers_with_a_list(answer: Any):
    class Loose:
        name = "loose"

        def act(self, views: Any) -> Any:
            return answer

    message = "Agent 'loose' must return a list of actions, one for each view, got"
    with pytest.raises(TypeError, match=message):
        evaluate("NumberLine-v0", Loose(), tasks=2)
    with pytest.raises(TypeError, match=message):
        cross_play("StagHunt-v0", [Loose(), "random"], episodes=2)
    seat = gymnasium.make("AgentGym/TicTacToe-v0", seat="player_1", opponents=Loose())
    with pytest.raises(TypeError, match=message):
        seat.reset(seed=0, options={"task": "opening/"})


def test_ids_may_be_short():
    assert full_id("NumberLine-v0") == full_id("agentgym:AgentGym/NumberLine-v0")
    assert make_env("NumberLine-v0", size=5).unwrapped.size == 5  # type: ignore[attr-defined]
    assert full_id("CartPole-v1") == "CartPole-v1"


@pytest.mark.parametrize("df", [1, 2, 3, 5, 8, 12, 13, 14, 20, 49, 199, 5000])
def test_t_quantiles_against_the_integrated_density(df):
    # x = sqrt(df) tan(a) turns the density into cos(a)^(df-1), integrated by the midpoint rule.
    n = 400_000
    angles = (np.arange(n) + 0.5) / n * (math.pi / 2)
    half = np.cos(angles) ** (df - 1)
    inside = half[angles < math.atan(t_95(df) / math.sqrt(df))].sum() / half.sum()
    assert 0.5 + inside / 2 == pytest.approx(0.975, abs=2e-6 + 2 * math.sqrt(df) / n)


def test_wilson_intervals_against_the_equation_they_solve():
    # The bounds p solve (hits/n - p)^2 = z^2 p (1 - p) / n.
    z = 1.959963984540054
    for hits, n in ((0, 10), (1, 10), (5, 10), (10, 10), (199, 200), (1, 1)):
        estimate = share_interval(hits, n)
        assert estimate.mean == hits / n
        for bound in (estimate.low, estimate.high):
            assert bound is not None
            assert (hits / n - bound) ** 2 == pytest.approx(z**2 * bound * (1 - bound) / n)
        assert 0 <= estimate.low <= estimate.mean <= estimate.high <= 1  # type: ignore[operator]


def test_the_mean_interval():
    estimate = mean_interval([1.0, 2.0, 3.0, 4.0])
    half = 3.182446 * math.sqrt(5 / 3) / 2
    assert estimate.mean == 2.5
    assert estimate.low == pytest.approx(2.5 - half)
    assert estimate.high == pytest.approx(2.5 + half)
    assert mean_interval([2.0]) == dataclasses.replace(estimate, mean=2.0, low=None, high=None)
    assert mean_interval([0.1] * 7).low == pytest.approx(0.1)


def test_intervals_cover_the_truth_in_95_percent_of_samples():
    rng = np.random.default_rng(0)
    trials = 2000
    mean_hits = share_hits = 0
    for _ in range(trials):
        mean = mean_interval(rng.normal(3.0, 2.0, size=6).tolist())
        share = share_interval(int(rng.binomial(60, 0.8)), 60)
        mean_hits += mean.low <= 3.0 <= mean.high  # type: ignore[operator]
        share_hits += share.low <= 0.8 <= share.high  # type: ignore[operator]
    assert 0.935 < mean_hits / trials < 0.965
    assert 0.93 < share_hits / trials < 0.975


def test_a_report_is_json_and_comes_back(tmp_path):
    report = evaluate("NumberLine-v0", "random", tasks=1, env_kwargs={"size": 12})
    report.save(tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text())
    assert serialization.from_json(Report, data) == report
    assert data["env"] == "AgentGym/NumberLine-v0"
    assert data["env_kwargs"] == {"size": 12}
    assert data["aggregate"]["turns"] == {
        "mean": report.episodes[0].turns,
        "low": None,
        "high": None,
    }


def printed(reports: list[Report], width: int) -> list[str]:
    """Returns the lines of the table of reports in a terminal."""
    from rich.console import Console

    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(compare(reports))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_table_has_a_row_for_each_agent_under_its_environment():
    agents = ("random", "expert")
    reports = [evaluate("NumberLine-v0", agent, tasks=30) for agent in agents]
    reports += [evaluate("NumberLine-v0", "expert", tasks=30, env_kwargs={"size": 4})]
    lines = printed(reports, 80)
    assert lines == printed(reports, 120)
    assert [line.split()[0] for line in lines[2:7]] == [
        *("NumberLine-v0", "random", "expert"),
        *("NumberLine-v0", "expert"),
    ]
    assert lines[5].endswith("size=4")
    assert "100.0 [88.6, 100.0]" in lines[4]
    assert "[low, high]: 95 % confidence" in lines[7]
    assert "random" in str(reports[0])


NAMES = st.text("abc-:/=_ä", min_size=1, max_size=60)


@settings(deadline=None)
@given(
    named=st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4),
    rewards=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3),
)
def test_every_table_fits_into_80_columns(named: list[tuple[str, str]], rewards: list[float]):
    """Each row is one line, whatever the names and numbers are, and no name is cut."""
    record = Record("test/0", 0, 0.0, {}, True, 1.0, 10, 1.0, True, False)
    episodes = [dataclasses.replace(record, reward=reward) for reward in rewards]
    reports = [
        Report(f"AgentGym/{env}-v0", agent, "test", 0, len(rewards), episodes=episodes)
        for env, agent in named
    ]
    lines = printed(reports, 80)
    assert max(map(len, lines)) <= 80
    assert sum(line.endswith("100.0  10.0   0.0") for line in lines) == len(reports)
    text = "".join(line.strip() for line in lines)
    assert all(f"{env}-v0" in text and agent.strip() in text for env, agent in named)


def test_long_arguments_are_not_cut():
    wrap = ["ExtractAction:format=tags", "HistoryObservation:k=4"]
    report = evaluate("NumberLine-v0", "random", tasks=2, env_kwargs={"size": 4, "wrap": wrap})
    lines = printed([report, report], 80)
    assert "".join(lines[2:4]).startswith('NumberLine-v0 size=4 wrap=["ExtractAction:format=tags"')
    assert [line.split()[0] for line in lines[4:6]] == ["random", "random"]


@pytest.mark.parametrize("count", [2, 3, 4, 20, 21, 23, 44])
def test_the_environments_of_a_mixture_have_their_shares_of_the_episodes(count: int):
    parts = {name: [f"task/{k}" for k in range(size)] for name, size in (("A", 50), ("B", 5))}
    known = Tasks(MixedTasks(parts, (9, 1)), MixedTasks(parts, (9, 1)))
    plan = plan_episodes(known, count, "test", 0)
    found = Counter(task.partition(" ")[0] for task, _ in plan)
    assert found.total() == count and abs(found["A"] - 0.9 * count) <= 1 and found["B"] >= 1
    for name, tasks in parts.items():  # those of an evaluation of this environment alone
        alone = plan_episodes(Tasks(["other"], tasks), found[name], "test", 0)
        assert [f"{name} {task}" for task, _ in alone] == [t for t, _ in plan if t[0] == name]


def test_a_few_episodes_are_of_all_environments_of_a_mixture():
    parts = {name: [f"{k}" for k in range(40)] for name in "ABCDE"}
    tasks = MixedTasks(parts, (1,) * 5)
    for seed in range(9):
        plan = plan_episodes(Tasks(tasks, tasks), 5, "test", seed)
        assert sorted(task[0] for task, _ in plan) == list(parts)
    assert len(plan_episodes(Tasks(tasks, tasks), 3, "test", 0)) == 3


def test_an_episode_that_ends_at_a_time_limit_is_not_truncated():
    make = lambda: gymnasium.make("AgentGym/NumberLine-v0", max_episode_steps=4)  # noqa: E731
    episodes = evaluate(make, "expert", tasks=20).episodes
    solved = [episode.turns for episode in episodes if episode.success]
    assert 4 in solved and len(solved) < 20
    assert all(episode.truncated == (not episode.success) for episode in episodes)


def test_an_episode_without_an_end_is_named():
    endless = lambda: NumberLine(max_turns=MANY_TURNS + 2)  # noqa: E731
    with pytest.warns(UserWarning, match="NumberLine .* 1,000 turns.*max_episode_steps"):
        [record] = evaluate(endless, Always("wait"), tasks=1).episodes
    assert record.turns == MANY_TURNS + 2


@pytest.mark.filterwarnings("error")
def test_an_episode_that_ends_at_a_thousand_turns_is_no_fault():
    assert evaluate(lambda: NumberLine(max_turns=MANY_TURNS), Always("wait"), tasks=1).episodes


def test_errors_of_agents_and_environments_name_the_task():
    class Fails:
        name = "fails"

        def act(self, views: Sequence[View]) -> list[str]:
            raise KeyError("room")

    with pytest.raises(KeyError) as caught:
        evaluate("NumberLine-v0", Fails(), tasks=1)
    [task] = [name for name, _ in plan_episodes(tasks_of(make_env("NumberLine-v0")), 1, "test", 0)]
    assert caught.value.__notes__ == [f"Raised by the agent 'fails' in the tasks [{task!r}]."]

    def reward(step: Transition) -> float:
        return {}["reward"]

    with pytest.raises(KeyError) as caught:
        evaluate(lambda: RewardFunction(make_env("NumberLine-v0"), reward), "random", tasks=1)
    [note] = caught.value.__notes__
    assert f"in turn 1 of task {task!r} with seed" in note and "after the action '" in note
