"""`agentgym compare`: flips, paired intervals, the noise of reruns, and the gate."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.agents import View
from agentgym.cli.main import main
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate
from agentgym.evaluation.paired import (
    ALL,
    compare_pairs,
    flip_interval,
    mcnemar,
    newly_solved,
    noise_floor,
    paired_interval,
)
from agentgym.evaluation.report import Record, Report
from agentgym.evaluation.saved_evaluations import Evaluation, read_evaluation

RECORD = Record("t", 0, 0.0, {}, False, 0.0, 1, 1.0, True, False)


def record(task: str, success: bool, seed: int = 0, reward: float = 0.0) -> Record:
    progress = float(success)
    return replace(RECORD, task=task, seed=seed, success=success, reward=reward, progress=progress)


def evaluation(outcomes: Sequence[bool], env: str = "A-v0", start: int = 0) -> Evaluation:
    tasks = enumerate(outcomes, start)
    return {env: {(f"t{i}", 0): record(f"t{i}", bool(s)) for i, s in tasks}}


def saved(path: Path, found: Evaluation, agent: str = "random") -> Path:
    """Writes an evaluation as `agentgym eval --save` does."""
    lines = [
        json.dumps({"env": env, "env_kwargs": {}, "agent": agent, **vars(each)})
        for env, episodes in found.items()
        for each in episodes.values()
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_planted_flips_are_found():
    before = evaluation([True] * 10 + [False] * 10 + [True] * 5)
    after = evaluation([False] * 3 + [True] * 7 + [True] * 8 + [False] * 2)
    [found] = compare_pairs(before, after)
    assert (found.pairs, found.tasks, found.unpaired) == (20, 20, 5)
    assert found.lost == [(f"t{i}", 0) for i in range(3)]
    assert found.solved == [(f"t{i}", 0) for i in range(10, 18)]
    change = found.changes["success"]
    assert (change.before, change.after) == (0.5, 0.75)
    assert change.difference.mean == pytest.approx(0.25)
    assert found.p == pytest.approx(2 * sum(math.comb(11, i) for i in range(4)) / 2**11)
    assert found.changes["progress"].difference.mean == pytest.approx(0.25)
    assert change.floor is None


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_exact_test_is_symmetric_and_a_probability(gained: int, lost: int):
    p = mcnemar(gained, lost)
    assert 0 < p <= 1 and p == mcnemar(lost, gained)
    assert p == 1 or gained != lost
    assert mcnemar(gained + lost, 0) <= p or not gained + lost


@given(st.integers(1, 60), st.data())
def test_the_interval_of_flips_is_in_range_and_holds_the_difference(
    pairs: int, data: st.DataObject
):
    gained = data.draw(st.integers(0, pairs))
    lost = data.draw(st.integers(0, pairs - gained))
    found, mirrored = flip_interval(gained, lost, pairs), flip_interval(lost, gained, pairs)
    assert found.low is not None and found.high is not None
    assert -1 <= found.low <= found.mean <= found.high <= 1
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))


def coverage(n: int, up: float, down: float) -> float:
    """Returns the exact probability that the interval of n pairs holds the true difference."""
    total, stay = 0.0, 1 - up - down
    for gained in range(n + 1):
        for lost in range(n + 1 - gained):
            found = flip_interval(gained, lost, n)
            assert found.low is not None and found.high is not None
            if found.low <= up - down <= found.high:
                ways = math.comb(n, gained) * math.comb(n - gained, lost)
                total += ways * up**gained * down**lost * stay ** (n - gained - lost)
    return total


@pytest.mark.parametrize("n", [8, 25, 60])
def test_the_interval_of_flips_covers_the_difference(n: int):
    shares = [0.02, 0.1, 0.3, 0.5]
    found = [coverage(n, up, down) for up in shares for down in shares]
    assert min(found) > 0.92
    assert np.mean(found) > 0.95


def test_repeated_tasks_are_clusters():
    """Episodes of a task that go the same way are no independent evidence."""
    rng = np.random.default_rng(0)
    covered, naive = 0, 0
    for _ in range(400):
        effects = rng.normal(size=12)
        tasks = [rng.normal(effect, 0.3, 5 + i % 2).tolist() for i, effect in enumerate(effects)]
        found = paired_interval(tasks, flips=False)
        alone = paired_interval([[each] for task in tasks for each in task], flips=False)
        for interval in (found, alone):
            assert interval.low is not None and interval.high is not None
        covered += found.low <= 0 <= found.high  # type: ignore[operator]
        naive += alone.low <= 0 <= alone.high  # type: ignore[operator]
    assert covered > 0.92 * 400 > 0.75 * 400 > naive


@pytest.mark.parametrize("repeats", [2, 5, 50])
def test_repeats_of_few_tasks_that_never_flip_are_little_evidence(repeats: int):
    found = paired_interval([[0.0] * repeats] * 2, flips=True)
    alone = paired_interval([[0.0]] * 2, flips=True)
    assert found == alone and found.low is not None and found.low < -0.5


@given(
    st.lists(st.lists(st.integers(-1, 1), min_size=3, max_size=3), min_size=2, max_size=9),
    st.booleans(),
)
def test_equal_numbers_of_repeats_give_the_interval_of_task_means(
    tasks: list[list[int]], flips: bool
):
    means = paired_interval([[float(np.mean(task))] for task in tasks], flips=False)
    if flips and len({sum(task) for task in tasks}) == 1:  # tasks that agree have no spread
        up, down = (sum(task.count(sign) for task in tasks) / 3 for sign in (1, -1))
        means = replace(flip_interval(up, down, len(tasks)), mean=means.mean)
    found = paired_interval(tasks, flips=flips)
    assert (found.low, found.mean, found.high) == pytest.approx(
        (means.low, means.mean, means.high), abs=1e-9
    )


def test_the_noise_floor_is_the_largest_difference_of_reruns():
    one, two, three = ([True] * k + [False] * (10 - k) for k in (5, 6, 3))
    repeated = [evaluation(each)["A-v0"] for each in (one, two, three)]
    assert noise_floor("success", repeated) == pytest.approx(0.3)
    assert noise_floor("success", [repeated[0], repeated[0]]) == 0
    [found] = compare_pairs(evaluation(one), evaluation(two), [evaluation(three)])
    assert found.changes["success"].floor == pytest.approx(0.2)
    with pytest.raises(ConfigError, match="rerun has no episode in common"):
        compare_pairs(evaluation(one), evaluation(two), [evaluation(three, start=50)])


def test_environments_are_compared_apart_and_together():
    before = evaluation([False] * 4) | evaluation([True] * 4, "B-v0") | evaluation([True], "C-v0")
    after = evaluation([True] * 4) | evaluation([False] * 2 + [True] * 2, "B-v0")
    one, other, both = compare_pairs(before, after)
    assert [each.env for each in (one, other, both)] == ["A-v0", "B-v0", ALL]
    assert (both.pairs, both.tasks, both.unpaired) == (8, 8, 1)
    assert both.changes["success"].difference.mean == pytest.approx(0.25)
    assert "reward" in one.changes and "reward" not in both.changes
    assert both.lost == [("B-v0 t0", 0), ("B-v0 t1", 0)]


def test_evaluations_without_common_episodes_are_refused():
    with pytest.raises(ConfigError, match="no episode in common"):
        compare_pairs(evaluation([True]), evaluation([True], start=9))
    with pytest.raises(ConfigError, match="first one holds A-v0, the second one B-v0"):
        compare_pairs(evaluation([True]), evaluation([True], "B-v0"))


def test_saved_files_reports_and_folders_are_the_same_evaluation(tmp_path: Path):
    found = evaluation([True, False, True])
    file = saved(tmp_path / "a.jsonl", found)
    episodes = list(found["A-v0"].values())
    report = Report("AgentGym/A-v0", "random", "test", 0, 3, {"wrap": ["X"]}, episodes)
    (folder := tmp_path / "folder").mkdir()
    (folder / "report.json").write_text(json.dumps([report.to_json()], indent=1))
    assert read_evaluation(file) == read_evaluation(folder) == found
    with file.open("a") as more:
        more.write('{"env": "A-v')  # a process was killed here
    assert read_evaluation(file) == found


@pytest.mark.parametrize("change", ["no line end", "blank lines", "mark", "windows"])
def test_an_edited_file_loses_no_episode(change: str, tmp_path: Path):
    found = evaluation([True, False, True])
    file = saved(tmp_path / "a.jsonl", found)
    text = file.read_text()
    changed = {
        "no line end": text.rstrip("\n"),
        "blank lines": text.replace("\n", "\n\n"),
        "mark": f"\ufeff{text}",
        "windows": text.replace("\n", "\r\n"),
    }
    file.write_bytes(changed[change].encode())
    assert read_evaluation(file) == found


@pytest.mark.parametrize(
    "part",
    [
        '"env_kwargs": null',
        '"env_kwargs": [1]',
        '"progress": NaN',
        '"valid": Infinity',
        '"costs": {"tokens": NaN}',
    ],
)
def test_a_damaged_episode_is_named(part: str, tmp_path: Path):
    file = saved(tmp_path / "a.jsonl", evaluation([True]))
    file.write_text(file.read_text().rstrip("}\n") + f"}}, {part}}}\n")
    with pytest.raises(ConfigError, match="is not an evaluation"):
        read_evaluation(file)


def test_unreadable_verdicts_are_counted(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    found = evaluation([True, False, False, True])
    for task in ("t1", "t2"):
        found["A-v0"][task, 0] = replace(found["A-v0"][task, 0], failure="unjudged")
    [one] = compare_pairs(evaluation([True] * 3), found)
    assert one.unjudged == 2 and len(one.lost) == 2
    assert main(["compare", files[0], str(saved(tmp_path / "judged.jsonl", found))]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "2 episodes with an unreadable verdict counted as failures" in text


def test_wrong_files_are_refused(tmp_path: Path):
    good = saved(tmp_path / "a.jsonl", evaluation([True]))
    twice = tmp_path / "twice.jsonl"
    twice.write_text(good.read_text() * 2)
    several = tmp_path / "several.jsonl"
    other = saved(tmp_path / "b.jsonl", evaluation([True], start=1), "expert")
    several.write_text(good.read_text() + other.read_text())
    (empty := tmp_path / "empty.jsonl").write_text("")
    (chat := tmp_path / "chat.jsonl").write_text('{"messages": []}\n')
    (folder := tmp_path / "folder").mkdir()
    for path, message in {
        twice: "twice",
        several: "several agents, expert and random",
        empty: "holds no episode",
        chat: "is not an evaluation",
        folder: "holds no .jsonl or .json",
        tmp_path / "none.jsonl": "cannot be read",
    }.items():
        with pytest.raises(ConfigError, match=message):
            read_evaluation(path)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """An evaluation, one in which a twentieth of the tasks is lost, and a rerun of the first."""
    before = [True] * 120 + [False] * 80
    after, rerun = [False] * 12 + before[12:198] + [True] * 2, [*before[:-4], *[True] * 4]
    outcomes = {"before.jsonl": before, "after.jsonl": after, "rerun.jsonl": rerun}
    return [str(saved(tmp_path / name, evaluation(each))) for name, each in outcomes.items()]


def test_the_gate_decides_the_exit_status(files: list[str], capsys: pytest.CaptureFixture[str]):
    words = ["compare", *files[:2]]
    assert main(words) == 0
    assert "PASSED" not in capsys.readouterr().out
    assert main([*words, "--fail-below", "-0.2"]) == 0
    assert "PASSED: the difference in success may be as low as -8.77 points" in (
        capsys.readouterr().out
    )
    assert main([*words, "--fail-below", "-0.02"]) == 1
    assert "is below -2" in capsys.readouterr().out
    same = ["compare", files[0], files[0], "--fail-below", "-0.05"]
    assert main(same) == 0
    assert main([*same[:-1], "0.05"]) == 1
    assert main([*words, "--fail-below", "-0.2", "--metric", "reward"]) == 0


def test_the_page_fits_a_terminal_and_shows_the_flips(
    files: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    out = tmp_path / "out.json"
    assert main(["compare", *files, "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for part in (
        "A-v0: 200 pairs of 200 tasks",
        "2 newly solved, 12 lost (McNemar p = 0.013)",
        "lost: t0 (seed 0), t1 (seed 0), t2 (seed 0) and 9 more",
        "60.0     55.0",
        "2.0",
    ):
        assert part in text
    [row] = json.loads(out.read_text())
    assert len(row["lost"]) == 12 and row["changes"]["success"]["floor"] == pytest.approx(0.02)


def test_wrong_use_is_explained(files: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["compare", files[0]]) == 2
    assert "Expected two evaluations" in capsys.readouterr().err
    assert main(["compare", *files, "--json", "/no/such/folder/x.json"]) == 2
    assert "There is no folder" in capsys.readouterr().err
    two = saved(
        Path(files[0]).parent / "two.jsonl", evaluation([True]) | evaluation([True], "B-v0")
    )
    words = ["compare", str(two), str(two), "--fail-below", "0", "--metric", "reward"]
    assert main(words) == 2
    assert "choose success or progress" in capsys.readouterr().err
    for threshold in ("nan", "inf", "-inf"):
        assert main(["compare", *files[:2], "--fail-below", threshold]) == 2
        assert "--fail-below must be finite" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["compare", "view"])
def test_a_result_never_replaces_what_it_is_made_of(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    evaluate("NumberLine-v0", "expert", tasks=2, save=(file := tmp_path / "a.jsonl"))
    before = file.read_text()
    (link := tmp_path / "link.jsonl").symlink_to(file)
    out = "--json" if command == "compare" else "--out"
    for path in (file, link):
        assert main([command, str(file), str(file), out, str(path)]) == 2
        assert "would be replaced" in capsys.readouterr().err
    assert file.read_text() == before


@pytest.mark.parametrize("name", ["a.jsonl", "link.json"])
def test_a_result_never_replaces_a_file_of_a_folder(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "saved"
    folder.mkdir()
    evaluate("NumberLine-v0", "expert", tasks=2, save=(file := folder / "a.jsonl"))
    before = file.read_text()
    (tmp_path / "link.json").symlink_to(file)
    out = (folder if name == "a.jsonl" else tmp_path) / name
    assert main(["compare", str(folder), str(file), "--json", str(out)]) == 2
    assert "would be replaced" in capsys.readouterr().err
    assert main(["compare", str(folder), str(folder), "--json", str(out)]) == 2
    assert "would be replaced" in capsys.readouterr().err
    assert file.read_text() == before
    assert main(["compare", str(folder), str(folder), "--json", str(tmp_path / "new.json")]) == 0


class Reader:
    """Walks to the target that it reads, and up if it cannot read it."""

    name = "reader"

    def act(self, views: Sequence[View]) -> list[str]:
        return [self.reply(view.observation) for view in views]

    def reply(self, text: str) -> str:
        numbers = [int(each) for each in re.findall(r"\d+", text)]
        return "-" if len(numbers) > 1 and numbers[0] > numbers[1] else "+"


def test_an_evaluation_in_a_perturbed_environment_is_paired(tmp_path: Path):
    """The difference is the robustness of an agent to hidden words."""
    files = []
    for name, wrap in (("plain", []), ("hidden", ["PartialObservation:share=0.5"])):
        files.append(str(tmp_path / f"{name}.jsonl"))
        kwargs = {"size": 8, "max_turns": 8, "wrap": wrap}
        evaluate("NumberLine-v0", Reader(), tasks=16, env_kwargs=kwargs, save=Path(files[-1]))
    before, after = (read_evaluation(Path(file)) for file in files)
    [found] = compare_pairs(before, after)
    assert found.pairs == 16 and found.unpaired == 0 and len(found.lost) > 2 and not found.solved
    assert main(["compare", *files, "--fail-below", "-0.05"]) == 1


def test_evaluations_of_the_command_line_are_paired(tmp_path: Path):
    """The expert solves all that random play does not."""
    files = []
    for agent in ("random", "expert"):
        files.append(str(tmp_path / f"{agent}.jsonl"))
        words = ["eval", "NumberLine-v0", "--agent", agent, "--episodes", "12", "--save", files[-1]]
        assert main(words) == 0
    before, after = (read_evaluation(Path(file)) for file in files)
    [found] = compare_pairs(before, after)
    assert found.pairs == 12 and not found.lost and found.changes["success"].after == 1
    assert main(["compare", *reversed(files), "--fail-below", "0"]) == 1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8))
def test_tasks_that_only_the_second_evaluation_solves(counts: list[tuple[int, int]]):
    """Of four episodes per task, at least two solve it."""
    sides = [
        {
            (f"t{i}", seed): record(f"t{i}", seed < pair[side], seed)
            for i, pair in enumerate(counts)
            for seed in range(4)
        }
        for side in (0, 1)
    ]
    sides[1]["other", 0] = record("other", True)  # without a partner
    found, known = newly_solved({"A-v0": sides[0]}, {"A-v0": sides[1]})
    assert found == [f"t{i}" for i, (one, other) in enumerate(counts) if one < 2 <= other]
    assert known == len(counts)


def test_tasks_to_train_on_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    before = saved(tmp_path / "a.jsonl", evaluation([True, False, False]))
    after = saved(tmp_path / "b.jsonl", evaluation([True, True, False]))
    words = ["compare", str(before), str(after), "--solved"]
    assert main([*words, str(tmp_path / "tasks.json")]) == 0
    assert "1 of 3 tasks are solved by the second evaluation alone" in capsys.readouterr().out
    assert json.loads((tmp_path / "tasks.json").read_text()) == ["t1"]
    for wrong in ("tasks.json", "tasks.txt"):
        assert main([*words, str(tmp_path / wrong)]) == 2
        assert "must be a new file that ends in .json" in capsys.readouterr().err
    two = saved(tmp_path / "c.jsonl", evaluation([True]) | evaluation([True], "B-v0"))
    assert main(["compare", str(two), str(two), "--solved", str(tmp_path / "more.json")]) == 2
    assert "Tasks are chosen in one environment" in capsys.readouterr().err
