"""`agentgym view`: the page contains the files of the run, with any characters."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentgym.cli.main import main
from agentgym.cli.viewer import TEMPLATE, render
from agentgym.errors import ConfigError

NASTY = "</script><b>&amp; $data ${x} \u2028 \U0001f600"


def trajectory(iteration: int, action: str) -> dict[str, object]:
    turn = {
        "observation": NASTY,
        "action": action,
        "reward": 1.0,
        "valid": True,
        "progress": 1.0,
        "tokens": [action, ""],
        "free": [True, False],
        "logprobs": [-0.5, 0.0],
        "advantages": [0.25, -0.25],
        "estimators": {"turn": [0.1, 0.1]},
        "value": None,
    }
    return {
        "iteration": iteration,
        "env": "AgentGym/NumberLine-v0",
        "task": "train/1",
        "seed": 3,
        "reward": 1.0,
        "success": True,
        "terminated": True,
        "truncated": False,
        "turns": [turn],
        "last_observation": "over",
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lines = [trajectory(1, "+"), trajectory(2, NASTY)]
    (tmp_path / "trajectories.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    metrics = {"iteration": 1, "env_steps": 9, "rollout/return": 0.5, "eval/reward": None}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(metrics) + "\n")
    (tmp_path / "config.json").write_text(json.dumps({"config": {"recipe": "poad"}}))
    return tmp_path


def data_of(page: str) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert len(found) == 1
    return json.loads(found[0])["runs"]


def test_the_page_holds_every_trajectory_unchanged(run: Path):
    page = render(run)
    [data] = data_of(page)
    first, second = trajectory(1, "+"), trajectory(2, NASTY)
    shown = [first | {"group": 1, "index": 0}, second | {"group": 2, "index": 0}]
    assert data["trajectories"] == shown
    assert data["label"] == "poad"
    assert data["curve"] == [{"env_steps": 9, "train": 0.5, "held_out": None}]
    assert "<title>poad on NumberLine-v0</title>" in page
    assert data_of(render(run, last=1))[0]["trajectories"] == shown[1:]
    with pytest.raises(ConfigError, match="at least 1"):
        render(run, last=0)


def test_the_page_needs_no_network(run: Path):
    page = render(run)
    assert not re.search(r"(src|href)\s*=|@import|fetch\(", page)


def test_a_line_that_is_being_written_is_left_out(run: Path):
    with (run / "trajectories.jsonl").open("a") as file:
        file.write('{"iteration": 3, "env')
    assert len(data_of(render(run))[0]["trajectories"]) == 2


def test_folders_without_anything_to_show_are_named(tmp_path: Path, capsys):
    with pytest.raises(ConfigError, match=r"trajectories\.jsonl"):
        render(tmp_path)
    assert main(["view", str(tmp_path)]) == 2
    assert "Give the folder of a training run" in capsys.readouterr().err


def test_the_command_writes_the_page(run: Path, tmp_path: Path):
    assert main(["view", str(run), "--out", str(tmp_path / "page.html")]) == 0
    [data] = data_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert data["summary"] == "2 trajectories of 2 iterations"


@pytest.mark.parametrize("name", ["trajectories.jsonl", "metrics.jsonl"])
@pytest.mark.parametrize(
    "damage",
    [
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"[1]",
        b'"text"',
        b"{}",
        b'{"iteration": 1, "env": "x", "task": "t", "turns": 5, "last_observation": ""}',
        b'{"iteration": 1, "env": "x", "task": "t", "turns": [5], "last_observation": ""}',
        b'{"env_steps": "many"}',
        b"not JSON",
    ],
)
def test_damaged_files_are_named(run: Path, capsys, name: str, damage: bytes):
    (run / name).write_bytes(damage + b"\n")
    assert main(["view", str(run)]) == 2
    assert name in capsys.readouterr().err.replace("\n", "")


@pytest.mark.parametrize("damage", [b"\xff", b"[" * 100_000, b"[1]", b'{"config": 3}'])
def test_damaged_settings_cost_only_the_title(run: Path, damage: bytes):
    (run / "config.json").write_bytes(damage)
    assert data_of(render(run))[0]["label"] == "credit"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + 400 * "0"])
def test_numbers_that_are_not_finite_become_null(run: Path, number: str):
    line = json.dumps(trajectory(1, "+")).replace('"reward": 1.0', f'"reward": {number}')
    (run / "trajectories.jsonl").write_text(line + "\n")
    [data] = data_of(render(run))
    assert data["trajectories"][0]["reward"] is None


def test_an_estimator_that_equals_the_credit_of_the_run_is_shown_once(run: Path):
    lines = [trajectory(1, "+"), trajectory(2, "-")]
    for line in lines:
        [turn] = line["turns"]  # type: ignore[misc]
        turn["estimators"] |= {"poad": list(turn["advantages"]), "return": list(turn["advantages"])}
    lines[1]["turns"][0]["estimators"]["return"] = [0.0, 0.0]  # type: ignore[index]
    (run / "trajectories.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    [data] = data_of(render(run))
    for line in data["trajectories"]:
        assert line["turns"][0]["estimators"].keys() == {"turn", "return"}


def test_a_saved_evaluation_is_shown(tmp_path: Path):
    path = tmp_path / "played.jsonl"
    words = ["eval", "NumberLine-v0", "--agent", "random", "expert", "--episodes", "3"]
    assert main([*words, "--save", str(path)]) == 0
    assert main(["view", str(path)]) == 0
    [data] = data_of((tmp_path / "played.html").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert data["grouping"] == "agent"
    assert data["summary"] == "6 episodes of 2 agents"
    assert data["instructions"] == [lines[0]["instructions"]]
    groups = [(line["group"], line["index"]) for line in data["trajectories"]]
    assert groups == [(name, i) for name in ("random", "expert") for i in range(3)]
    for line, shown in zip(lines, data["trajectories"], strict=True):
        assert [turn["action"] for turn in shown["turns"]] == [
            turn["action"] for turn in line["transcript"]
        ]
        assert shown["turns"][0]["alternatives"] == [["+", None], ["-", None]]
        assert (shown["reward"], shown["task"]) == (line["reward"], line["task"])


def test_a_saved_evaluation_marks_the_actions_of_replies(tmp_path: Path):
    path = tmp_path / "played.jsonl"
    words = ["eval", "NumberLine-v0", "--agent", "expert", "--episodes", "1"]
    assert main([*words, "--wrap", "ExtractAction:format=tags", "--save", str(path)]) == 0
    [data] = data_of(render(path))
    for turn in data["trajectories"][0]["turns"]:
        assert turn["action_span"] == [0, len("<action>+</action>")]
    assert main([*words, "--save", str(tmp_path / "plain.jsonl")]) == 0
    [data] = data_of(render(tmp_path / "plain.jsonl"))
    assert data["trajectories"][0]["turns"][0]["action_span"] is None


REPLY = """
const make = (tag, props, ...children) => ({...props, children});
%s
const turn = {action: "😀 hm. <action>+</action>!", action_span: [6, 24]};
console.log(JSON.stringify([turn, {action: "+"}].map(each => reply(each).children)));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_thoughts_are_set_apart_from_the_action():
    [function] = re.findall(r"^function reply\(.*?^}\n", TEMPLATE.read_text("utf-8"), re.S | re.M)
    done = subprocess.run(["node", "-e", REPLY % function], capture_output=True, check=True)
    thinking, plain = json.loads(done.stdout)
    thought = {"className": "thought", "title": "thought", "children": []}
    assert thinking == [
        "> ",
        thought | {"textContent": "😀 hm. "},
        "<action>+</action>",
        thought | {"textContent": "!"},
    ]
    assert plain == ["> ", "+"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_an_unknown_outcome_is_shown_as_such():
    [function] = re.findall(r"^function outcome\(.*?^}\n", TEMPLATE.read_text("utf-8"), re.S | re.M)
    found = [{"success": each} for each in (True, False, None)]
    found += [{"success": False, "unjudged": True}, {"success": False, "failure": "unjudged"}]
    program = f"{function}\nconsole.log(JSON.stringify({json.dumps(found)}.map(outcome)))"
    done = subprocess.run(["node", "-e", program], capture_output=True, check=True)
    unread = ["verdict unreadable"] * 2
    assert json.loads(done.stdout) == ["success", "no success", "outcome unknown", *unread]


def test_runs_are_shown_side_by_side(run: Path, tmp_path: Path):
    other = tmp_path / "nested" / run.name
    other.mkdir(parents=True)
    (other / "trajectories.jsonl").write_text(json.dumps(trajectory(7, "-")) + "\n")
    page = render([run, other, other])
    names = [data["name"] for data in data_of(page)]
    assert len(set(names)) == 3, "links name the run"
    assert names[1] == f"nested/{run.name}"
    assert "<title>poad on NumberLine-v0 and credit on NumberLine-v0" in page
    assert main(["view", str(run), str(other)]) == 0
    assert (run / "view.html").exists()
    assert main(["view"]) == main(["plot"]) == 2


def test_seats_of_a_game_are_linked(tmp_path: Path):
    """In order of the file: two games with the same task and seed, and another one."""
    seats = [("player_0", 3), ("player_1", 3), ("player_0", 3), ("player_1", 3), ("player_1", 4)]
    lines = [trajectory(1, "+") | {"seat": seat, "seed": seed} for seat, seed in seats]
    text = "".join(json.dumps(line) + "\n" for line in [*lines, trajectory(1, "+")])
    (tmp_path / "trajectories.jsonl").write_text(text)
    [data] = data_of(render(tmp_path))
    assert [line.get("game") for line in data["trajectories"]] == [0, 0, 1, 1, 2, None]


GRID = "%s\nconsole.log(JSON.stringify(%s.map(isGrid)))"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_maps_and_boards_are_told_from_prose():
    [function] = re.findall(r"^function isGrid\(.*?^}\n", TEMPLATE.read_text("utf-8"), re.S | re.M)
    texts = [
        "Push.\n####\n#P_#\n####",
        "1 2 3\n. X .\nO . .",
        "- a dog\n- a cat\n- a cow",
        "a\n\nb",
    ]
    program = GRID % (function, json.dumps([*texts, "one man\nten men\nsix men\n"]))
    done = subprocess.run(["node", "-e", program], capture_output=True, check=True)
    assert json.loads(done.stdout) == [True, True, False, False, False]


def test_the_file_of_trajectories_stands_for_its_run(run: Path):
    [data] = data_of(render(run / "trajectories.jsonl"))
    assert data["label"] == "poad"


def test_placeholders_in_texts_stay(run: Path):
    line = trajectory(1, "__DATA__ __TITLE__ $data")
    (run / "trajectories.jsonl").write_text(json.dumps(line) + "\n")
    [data] = data_of(render(run))
    assert data["trajectories"][0]["turns"][0]["action"] == "__DATA__ __TITLE__ $data"


def saved_line(turn: dict[str, Any] = {}, **more: Any) -> str:  # noqa: B006
    """Returns a line of a saved evaluation."""
    turns = [{"observation": "o", "action": "a", **turn}]
    line = {"env": "x", "agent": "a", "task": "t", "transcript": turns, "last_observation": ""}
    return json.dumps({**line, "success": True, "reward": 1.0, **more})


@pytest.mark.parametrize(
    "damage",
    [
        "{}",
        "[1]",
        '{"env": "x", "agent": "a", "task": 3}',
        "x\n{}",
        saved_line({"admissible": 3}),
        saved_line({"progress": "half"}),
        saved_line(seed=[1]),
        saved_line(seat=[1]),
    ],
)
def test_a_damaged_evaluation_is_named(tmp_path: Path, capsys: Any, damage: str):
    path = tmp_path / "played.jsonl"
    path.write_text(damage + "\n")
    assert main(["view", str(path)]) == 2
    assert "played.jsonl is damaged" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "text", ['[{"env": "x"}]', '{"messages": []}\n', '{\n "config": {}\n}\n', ""]
)
def test_a_file_without_saved_episodes_is_told_which_files_are_shown(
    tmp_path: Path, capsys: Any, text: str
):
    path = tmp_path / "other.json"
    path.write_text(text)
    assert main(["view", str(path)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "files of agentgym eval --save (not of --json), agentgym export --format own" in message


def test_a_saved_evaluation_may_be_of_any_characters_and_line_ends(tmp_path: Path):
    path = tmp_path / "played.jsonl"
    lines = [
        saved_line({"admissible": None, "progress": None}, env="\ud800", costs={"a": 10**400})
    ] * 2
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n")
    assert main(["view", str(path)]) == 0
    [data] = data_of((tmp_path / "played.html").read_text(encoding="utf-8"))
    assert [line["env"] for line in data["trajectories"]] == ["\ud800"] * 2


def test_the_page_has_dark_colours_and_a_narrow_layout(run: Path):
    page = render(run)
    assert "prefers-color-scheme: dark" in page and "max-width: 760px" in page


def played(path: Path, *rows: tuple[str, bool, list[tuple[str, bool, float]]]) -> Path:
    """Writes a saved evaluation: the agent, the success and the turns of each episode."""
    lines = [
        {
            "env": "AgentGym/NumberLine-v0",
            "agent": agent,
            "task": f"test/{number}",
            "seed": 1,
            "reward": float(success),
            "success": success,
            "terminated": success,
            "truncated": not success,
            "costs": {"completion_tokens": 10.0},
            "transcript": [
                {"observation": "x", "action": action, "valid": valid, "progress": progress}
                for action, valid, progress in turns
            ],
            "last_observation": "over",
        }
        for number, (agent, success, turns) in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def board_of(page: str) -> list[dict[str, Any]]:
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text)["board"]


@pytest.fixture
def saved(tmp_path: Path) -> list[Path]:
    good, half = [("+", True, 1.0)], [("-", True, 0.5), ("+", True, 0.25), ("?", True, 0.0)]
    a = played(tmp_path / "a.jsonl", ("p", True, good), ("p", False, half))
    b = played(
        tmp_path / "b.jsonl", ("p", False, [("+", True, 0.0)] * 3), ("p", True, [*half, *good])
    )
    return [a, b]


def test_the_board_compares_evaluations_of_an_environment(saved: list[Path]):
    first, second = board_of(render(saved))
    assert [row["name"] for row in (first, second)] == ["p (a.jsonl)", "p (b.jsonl)"]
    assert first["success"][0] == 0.5 and first["success"][1] < 0.1
    assert first["costs"] == {"completion_tokens": 10.0}
    assert first["curve"] == [0.75, 0.75, 0.75], "the best progress so far, kept after the end"
    assert second["curve"] == [0.25, 0.25, 0.25, 0.5]
    loop = "repeated states"
    assert first["failures"] == {loop: {"count": 1, "examples": [["a.jsonl", "p", 1]]}}
    assert second["failures"] == {loop: {"count": 1, "examples": [["b.jsonl", "p", 0]]}}
    assert (first["solved"]["count"], first["lost"]["count"], first["common"]) == (0, 0, 2)
    assert second["solved"]["examples"] == [["b.jsonl", "p", 1]]
    assert second["lost"]["examples"] == [["b.jsonl", "p", 0]]


def test_other_arguments_and_splits_have_rows_of_their_own(tmp_path: Path):
    path = tmp_path / "both.jsonl"
    words = ["eval", "NumberLine-v0", "--agent", "random", "--episodes", "2", "--split", "both"]
    assert main([*words, "--env-kwargs", "size=6", "--save", str(path)]) == 0
    assert [row["env"] for row in board_of(render(path))] == [
        "NumberLine-v0 size=6 (training tasks)",
        "NumberLine-v0 size=6",
    ]


def test_the_board_has_training_runs_too(run: Path):
    [row] = board_of(render(run))
    assert (row["env"], row["name"], row["episodes"]) == ("NumberLine-v0", run.name, 2)
    assert row["costs"] == {"completion_tokens": 2.0}
    assert board_of(render(run / "trajectories.jsonl", last=1))[0]["episodes"] == 1


DRAW = Path(__file__).with_name("draw_board.js")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_page_draws_the_board(saved: list[Path], tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text(render(saved), encoding="utf-8")
    done = subprocess.run(["node", str(DRAW), str(page)], capture_output=True, check=True)
    shown = json.loads(done.stdout)
    assert shown["open"] and shown["curves"] == 2
    assert "50.0 [9.4, 90.5]" in shown["text"] and "repeated states" in shown["text"]
    assert "completion tokens 10.0" in shown["text"]
    assert "#b.jsonl/p/1" in shown["links"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_a_long_list_is_shown_in_parts(saved: list[Path], tmp_path: Path):
    lines = saved[0].read_text(encoding="utf-8").splitlines()
    (tmp_path / "long.jsonl").write_text("\n".join(lines[:1] * 1300) + "\n", encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text(render(tmp_path / "long.jsonl"), encoding="utf-8")
    shown = json.loads(subprocess.check_output(["node", str(DRAW), str(page)]))
    assert (shown["rows"], shown["more"], shown["shown"]) == (501, "show 500 more of 800", 1001)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_page_opens_on_the_largest_spread_of_credit(run: Path, tmp_path: Path):
    line = trajectory(7, "-")
    lines = [json.loads(json.dumps(line)) for _ in range(4)]
    lines.append(trajectory(1, "-"))
    for i, spread in enumerate((0.1, 0.9, 0.4, 0.2, 2.0)):  # the last one is of an early iteration
        lines[i]["task"] = f"test/{i}"
        for turn in lines[i]["turns"]:
            turn["advantages"] = [0.0, 3.0 * i]  # the second token is forced
        lines[i]["turns"][0]["advantages"][0] = -spread
    folder = tmp_path / "spread"
    folder.mkdir()
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (folder / "trajectories.jsonl").write_text(text)
    page = render(folder)
    (function,) = re.findall(r"function decisive\(run\) \{.*?\n\}\n", page, re.DOTALL)
    [data] = data_of(page)
    script = f"{function}\nconsole.log(decisive({json.dumps(data)}).task)"
    shown = subprocess.check_output(["node", "-e", script], text=True)
    assert shown.strip() == "test/1"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_page_scrolls_to_the_turn_with_the_largest_credit_of_a_free_token():
    turns = [
        {"advantages": credit, "free": [True, False]} for credit in ([0.2, 0], [-0.5, 0], [0.1, 9])
    ]
    turns.append({})  # a turn without tokens
    (function,) = re.findall(
        r"function decisiveTurn\(t\) \{.*?\n\}\n", TEMPLATE.read_text(), re.DOTALL
    )
    script = f"{function}\nconsole.log(decisiveTurn({json.dumps({'turns': turns})}))"
    assert subprocess.check_output(["node", "-e", script], text=True).strip() == "1"


def audit(run: Path, **changes: Any) -> None:
    turn = {"exact": 0.5, "error": 0.1, "value": 0.2, "moot": False, "decisive": True}
    episode = {"task": "train/1", "seed": 3, "turns": [turn | changes]}
    (run / "audit.json").write_text(json.dumps({"iteration": 2, "episodes": [episode]}))


def test_an_audited_run_shows_exact_advantages(run: Path):
    audit(run)
    first, second = data_of(render(run))[0]["trajectories"]
    [turn] = second["turns"]
    assert list(turn["estimators"].items()) == [("exact", [0.5, 0.5]), ("turn", [0.1, 0.1])]
    assert turn["exact"] == {"error": 0.1, "moot": False, "decisive": True}
    assert "exact" not in first["turns"][0]


@pytest.mark.parametrize("other", [{"task": "train/2"}, {"seed": 4}, {"turns": []}])
def test_an_audit_of_other_trajectories_is_left_out(run: Path, other: dict[str, Any]):
    before = data_of(render(run))
    audit(run)
    found = json.loads((run / "audit.json").read_text())
    found["episodes"][0] |= other
    (run / "audit.json").write_text(json.dumps(found))
    assert data_of(render(run)) == before


@pytest.mark.parametrize("text", ["{", "[]", '{"iteration": 2}', '{"iteration": 2, "episodes": 1}'])
def test_a_damaged_audit_is_named(run: Path, text: str):
    (run / "audit.json").write_text(text)
    with pytest.raises(ConfigError, match=r"audit\.json is damaged.*Delete it"):
        render(run)
    audit(run, exact=float("nan"))
    with pytest.raises(ConfigError, match="expected finite numbers"):
        render(run)
