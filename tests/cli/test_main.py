import errno
import importlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import types
from pathlib import Path

import gymnasium
import pytest

import agentgym
import agentgym.trainers
from agentgym.agents import ChatError, RandomAgent
from agentgym.agents.basic.chat import Usage
from agentgym.cli import command_line, eval_command
from agentgym.cli import main as cli
from agentgym.cli.catalogue import describe
from agentgym.cli.eval_output import ProgressLines
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.evaluation import runner as evaluate
from agentgym.evaluation.suites import SUITES, Suite
from agentgym.registration.making import author_class
from agentgym.registration.verdicts import verdicts
from agentgym.utils.arguments import parse_arguments


@pytest.fixture(autouse=True)
def plain_output(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)


def run(*words: str) -> int:
    try:
        return cli.main(words)
    except SystemExit as ended:  # tyro, for --help and wrong options
        return int(ended.code or 0)


def process(*words: str, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentgym", *words],
        capture_output=True,
        text=True,
        timeout=60,
        **kwargs,
    )


def test_wrong_options_are_answered_for_their_command(capsys):
    assert run("eval", "NumberLine-v0", "--taks", "3") == 2
    text = capsys.readouterr().err
    assert "agentgym eval --help" in text and "agentgym play" not in text


def test_arguments_are_json_where_they_can_be():
    words = ["a=1", "b=2.5", "c=true", "d=null", 'e="x=y"', "f=[1, 2]", "g=/data/x", "h-i=a=b"]
    assert parse_arguments([*words, "j=True", "k=None", "l=", "m=007"]) == {
        **{"a": 1, "b": 2.5, "c": True, "d": None, "e": "x=y", "f": [1, 2], "g": "/data/x"},
        **{"h_i": "a=b", "j": True, "k": None, "l": "", "m": "007"},
    }
    for wrong in (["size"], ["=3"], ["a b=3"], ["a=1", "a=2"]):
        with pytest.raises(ConfigError):
            parse_arguments(wrong)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(command_line, "on_terminal", lambda: True)


def test_list_shows_every_id(capsys, terminal):
    assert run("list") == 0
    shown = capsys.readouterr().out
    for id in agentgym.REGISTRY:
        assert id.partition("/")[2] in shown
    assert "Walk to a target number" in shown


def test_a_pipe_gets_one_line_per_id(capsys):
    assert run("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(agentgym.REGISTRY)
    found = {line.split()[0]: line.split(maxsplit=5)[1:] for line in lines}
    summary = "Walk to a target number, one step at a time."
    verdict = verdicts()["AgentGym/NumberLine-v0"]
    assert found["AgentGym/NumberLine-v0"] == ["single-agent", "15", "-", verdict, summary]
    assert found["AgentGym/Chess-v0"][:3] == ["single-agent", "400", "chess"]
    assert found["AgentGym/TicTacToe-v0"][:3] == ["multi-agent", "-", "-"]
    assert len({line.index(" single-agent ") for line in lines if " single-agent " in line}) == 1


BOUNDED = [
    entry
    for entry in agentgym.REGISTRY.values()
    if entry.extra is None and author_class(entry).__dict__.get("turn_bound") is not None
]


@pytest.mark.parametrize("entry", BOUNDED, ids=lambda entry: entry.name)
def test_the_rules_end_an_episode_after_the_turns_listed(entry):
    env = gymnasium.make(entry.id)
    env.reset(seed=0)
    ended = [env.step("")[2] for _ in range(describe(entry).max_turns or 0)]
    assert ended == [False] * (len(ended) - 1) + [True]


def test_a_narrow_terminal_has_the_list_without_columns(capsys, monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "80")
    assert run("list") == 0
    shown = capsys.readouterr().out
    assert "Numbers\n  NumberLine-v0  15 turns, certificate " in shown
    assert "Chess-v0  400 turns, extra chess" in shown
    assert "TicTacToe-v0  multi-agent" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["numberline"], {"NumberLine-v0", "Team-NumberLine-v0"}),
        (["CARDS", "multi-agent", "kuhn"], {"KuhnPoker-v0"}),
        (["negotiation"], {"DealOrNoDeal-v0", "ResourceTrading-v0"}),
    ],
)
def test_words_select_environments_by_id_family_and_summary(capsys, words, ids):
    assert run("list", *words) == 0
    lines = capsys.readouterr().out.splitlines()
    found = {line.split()[0].partition("/")[2] for line in lines}
    assert ids <= found and len(found) < 20


def test_words_that_match_nothing_name_the_closest_id(capsys):
    assert run("list", "NumbrLine-v0") == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "No environment matches 'NumbrLine-v0'. Did you mean: NumberLine-v0" in shown


def test_list_as_json(capsys):
    assert run("list", "--json") == 0
    listed = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed.keys() == agentgym.REGISTRY.keys()
    assert listed["AgentGym/NumberLine-v0"] == {
        "id": "AgentGym/NumberLine-v0",
        "family": "Numbers",
        "kind": "single-agent",
        "summary": "Walk to a target number, one step at a time.",
        "max_turns": 15,
        "extra": None,
        "certificate": verdicts()["AgentGym/NumberLine-v0"],
    }
    assert listed["AgentGym/TicTacToe-v0"]["kind"] == "multi-agent"
    assert listed["AgentGym/TowerOfHanoi-v0"]["max_turns"] == 30
    assert all(row["max_turns"] is None or row["max_turns"] > 0 for row in listed.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("list", ""),
        ("train poad --env-id WebShp-v0", "Did you mean: WebShop-v0"),
        ("train grpo --iterations 2 --eval_env_id NumberLine-v0 NumberLin-v0", "NumberLine-v0"),
        ("train poad --env-id=NumberLine-v0 --model=/no/such", "There is no model folder /no/such"),
        ("train poad --model nanno", "Did you mean: nano"),
        ("train pod --model nano", "Did you mean: poad"),
    ],
)
def test_lists_and_typos_load_no_torch(command: str, message: str):
    code = (
        f"import sys; from agentgym.cli.main import main; code = main({command.split()}); "
        f"assert code == {2 if message else 0}, code; "
        "assert not {'torch', 'transformers'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and message in " ".join(done.stderr.split())


def test_watching_the_expert(capsys):
    assert run("play", "NumberLine-v0", "--agent", "expert", "--task", "test/4", "--seed", "1") == 0
    shown = capsys.readouterr().out
    assert "task test/4  seed 1" in shown
    assert NumberLine.instructions in shown
    assert "> +" in shown or "> -" in shown
    assert "Done!" in shown
    assert "Solved after" in shown


def test_play_repeats_an_episode_of_an_evaluation(capsys):
    [record] = evaluate.evaluate("NumberLine-v0", "random", tasks=["test/11"]).episodes
    run(
        *("play", "NumberLine-v0", "--agent", "random"),
        *("--task", record.task, "--seed", str(record.seed)),
    )
    assert f"after {record.turns} turn" in capsys.readouterr().out


@pytest.mark.slow
def test_a_human_plays_in_a_terminal():
    words = ("play", "NumberLine-v0", "--task", "train/0", "--seed", "0", "--env-kwargs", "size=2")
    played = process(*words, input="[bold]\n+\n-\n")
    assert played.returncode == 0
    assert "Invalid action '[bold]'. Reply with + or -." in played.stdout
    assert "Actions: 1 + | 2 -" in played.stdout
    assert "Solved after" in played.stdout
    left = process(*words, input="quit\n")
    assert (left.returncode, left.stderr) == (0, "")
    assert "You left." in left.stdout


def test_a_human_plays_one_episode_of_an_evaluation_after_the_other(monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda prompt: "?!")
    words = ("--agent", "human", "--episodes", "2", "--env-kwargs", "max_turns=3")
    assert run("eval", "NumberLine-v0", *words) == 0
    first, second = capsys.readouterr().out.split("Type help for the commands.")[1:]
    assert [part.count("Actions: ") for part in (first, second)] == [3, 3]


def test_eval_compares_agents_and_writes_files(tmp_path, capsys):
    reports, played = tmp_path / "reports.json", tmp_path / "played.jsonl"
    words = ("--agent", "random", "expert", "--episodes", "20", "--num-envs", "3", "--seed", "4")
    files = ("--json", str(reports), "--save", str(played))
    assert run("eval", "NumberLine-v0", *words, "--env-kwargs", "size=6", *files) == 0
    shown = capsys.readouterr().out
    assert "NumberLine-v0 size=6" in shown
    assert "random" in shown
    assert "expert" in shown
    data = json.loads(reports.read_text())
    assert [report["agent"] for report in data] == ["random", "expert"]
    expected = evaluate.evaluate(
        "NumberLine-v0", "expert", tasks=20, seed=4, env_kwargs={"size": 6}
    )
    assert data[1] == expected.to_json()
    assert len(played.read_text().splitlines()) == 40
    assert run("eval", "NumberLine-v0", *files) == cli.WRONG_USE  # nothing is overwritten
    assert len(played.read_text().splitlines()) == 40


def test_an_environment_of_a_module_beside_the_user(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_module.py").write_text(
        "import gymnasium\n"
        "point = 'agentgym.envs.numbers.number_line:NumberLine'\n"
        "gymnasium.register('Mine/Line-v0', entry_point=point)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert run("eval", "my_module:Mine/Line-v0", "--episodes", "3") == 0
    assert "Mine/Line-v0" in capsys.readouterr().out
    del gymnasium.registry["Mine/Line-v0"]


def test_a_suite_goes_on_without_the_experts_that_do_not_exist(monkeypatch, capsys):
    monkeypatch.setitem(SUITES, "core", Suite("", {"core": ["NumberLine-v0"]}, ()))
    monkeypatch.setattr(NumberLine, "expert", lambda self: None)
    words = ("eval", "--suite", "core", "--agent", "expert", "random", "--episodes", "5")
    assert run(*words) == 0
    shown = capsys.readouterr().out
    assert "NumberLine has no scripted expert." in shown
    assert "random" in shown
    assert run("eval", "NumberLine-v0", "--agent", "expert") == cli.WRONG_USE


def test_what_was_found_before_an_error_is_shown_and_written(tmp_path, monkeypatch, capsys):
    calls = []

    def act(self, views):
        calls.append(len(views))
        if len(calls) > 20:
            raise ChatError("The server is gone.")
        return ["+"] * len(views)

    monkeypatch.setattr(RandomAgent, "act", act)
    path = tmp_path / "reports.json"
    words = ("eval", "NumberLine-v0", "--agent", "expert", "random", "--episodes", "50")
    assert run(*words, "--json", str(path)) == cli.WRONG_USE
    out, err = capsys.readouterr()
    assert "error: The server is gone." in err
    assert "short episodes are over-represented" in out
    expert, random = json.loads(path.read_text())
    assert len(expert["episodes"]) == 50
    assert 0 < len(random["episodes"]) < 50


def test_an_unfinished_report_replaces_no_earlier_one(tmp_path, monkeypatch, capsys):
    path, beside = tmp_path / "reports.json", tmp_path / "reports.partial.json"
    words = ("eval", "NumberLine-v0", "--agent", "random", "--episodes", "50", "--json", str(path))
    assert run(*words) == 0
    before, calls = path.read_bytes(), []
    act = RandomAgent.act

    def fails(self, views):
        calls.append(len(views))
        if len(calls) > 20:
            raise ChatError("The server is gone.")
        return act(self, views)

    monkeypatch.setattr(RandomAgent, "act", fails)
    capsys.readouterr()
    assert run(*words) == cli.WRONG_USE
    assert path.read_bytes() == before
    assert 0 < len(json.loads(beside.read_text())[0]["episodes"]) < 50
    assert f"{str(path)!r} is kept" in " ".join(capsys.readouterr().err.split())
    beside.unlink()
    assert run(*words) == cli.WRONG_USE  # at the first action
    assert path.read_bytes() == before and not beside.exists()


def test_an_evaluation_is_continued(tmp_path, monkeypatch, capsys):
    whole, path, json_path = (tmp_path / name for name in ("whole", "played", "reports"))
    words = ("eval", "NumberLine-v0", "--agent", "expert", "random", "--episodes", "30")
    assert run(*words, "--json", str(whole)) == 0
    act = RandomAgent.act
    left = [20]

    def fail(self, views):
        left[0] -= 1
        if left[0] < 0:
            raise ChatError("The server is gone.")
        return act(self, views)

    monkeypatch.setattr(RandomAgent, "act", fail)
    words += ("--num-envs", "2", "--save", str(path))
    assert run(*words) == cli.WRONG_USE
    assert "--resume continues" in capsys.readouterr().out.replace("\n", " ")
    before = path.read_bytes()
    assert 30 < len(before.splitlines()) < 60
    assert run(*words) == cli.WRONG_USE
    assert "--resume" in capsys.readouterr().err
    assert run(*words, "--resume", "--seed", "1", "--agent-kwargs") == cli.WRONG_USE
    assert "seed: 0 -> 1" in capsys.readouterr().err
    assert path.read_bytes() == before
    monkeypatch.setattr(RandomAgent, "act", act)
    assert run(*words, "--resume", "--json", str(json_path)) == 0
    assert json_path.read_text() == whole.read_text()
    assert path.read_bytes().startswith(before)
    assert len(path.read_bytes().splitlines()) == 60


def test_files_and_judges_are_checked_before_agents_which_may_load_models(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(eval_command, "make_agent", None)
    (tmp_path / "old").write_text("old")
    for words, message in {
        ("--save", str(tmp_path / "old")): "add --resume",
        ("--save", str(tmp_path / "old"), "--resume"): "its last line is not an episode",
        ("--json", str(tmp_path / "old")): "is no earlier result",
        ("--judge", "nowhere:judge"): "There is no module 'nowhere'",
        ("--judge", "rubric=none.md:chat:m@http://x"): "none.md",
        ("--price", "1", "-1"): "at least 0 and finite",
    }.items():
        assert run("eval", "NumberLine-v0", *words) == cli.WRONG_USE
        assert message in capsys.readouterr().err


def test_resume_needs_a_file(capsys):
    assert run("eval", "NumberLine-v0", "--resume") == cli.WRONG_USE
    assert "--save" in capsys.readouterr().err


def test_an_interrupted_evaluation_shows_what_is_there(monkeypatch, capsys):
    calls = []

    def act(self, views):
        calls.append(len(views))
        if len(calls) > 20:
            raise KeyboardInterrupt
        return ["+"] * len(views)

    monkeypatch.setattr(RandomAgent, "act", act)
    words = ("eval", "NumberLine-v0", "--agent", "random", "expert", "--episodes", "50")
    assert run(*words) == cli.INTERRUPTED
    shown = capsys.readouterr().out
    assert "/50" in shown
    assert "expert" not in shown  # not started


def test_wrong_use_is_explained_without_frames_in_any_encoding(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    with pytest.raises(SystemExit):
        cli.main(["list", "--jsn"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: Unrecognized options: --jsn"
    assert not any(line.startswith("-") for line in lines)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("eval NumberLin-v0", "Did you mean: NumberLine-v0"),
        ("eval webshop", "Did you mean: WebShop-v0"),
        ("eval Vault-v0", "your_module:YourEnv-v0"),
        ("eval", "agentgym list"),
        ("eval CartPole-v1", "not a text environment"),
        ("eval NumberLine-v0 --agent rundom", "Did you mean: random"),
        ("eval NumberLine-v0 --agent tests", "Did you mean: policy:tests?"),
        ("eval NumberLine-v0 --agent chat:x@http://127.0.0.1:1/v1", "No reply from"),
        ("eval NumberLine-v0 --agent random --agent-kwargs t=1", "it takes no arguments"),
        ("eval NumberLine-v0 --env-kwargs siz=3", "Did you mean: size"),
        ("eval NumberLine-v0 --env-kwargs size=x", "is int; got 'x'"),
        ("eval NumberLine-v0 --env-kwargs size=1", "size must be from 2 to"),
        ("eval NumberLine-v0 --env-kwargs size", "Expected key=value"),
        ("eval NumberLine-v0 --env-kwargs size=" + "[" * 100_000, "nested too deeply"),
        ("eval NumberLine-v0 --env-kwargs size=" + "[" * 900 + "]" * 900, "'size'"),
        ("eval NumberLine-v0 --env-kwargs size=" + "9" * 10_000, "'size'"),
        ("eval VirtualHome-Entertainment-v0 --env-kwargs chore=x", "keyword argument 'chore'"),
        ("eval KuhnPoker-v0 --env-kwargs rules=x", "keyword argument 'rules'"),
        ("eval Blocksworld-v0 --env-kwargs world=x", "keyword argument 'world'"),
        ("eval TicTacToe-v0 --env-kwargs game=x", "keyword argument 'game'"),
        ("eval NumberLine-v0 --env-kwargs invalid_penalty=NaN", "'invalid_penalty' of AgentGym"),
        ("eval ReferentialGame-v0 --env-kwargs word_cost=-Infinity", "must be finite"),
        (
            "eval Remote-v0",
            "AgentGym/Remote-v0 needs url: --env-kwargs url=... (`url=` in gym.make)",
        ),
        (
            "play ReasoningGym-v0",
            "AgentGym/ReasoningGym-v0 needs dataset: --env-kwargs dataset=...",
        ),
        ("serve TextArena-v0", "AgentGym/TextArena-v0 needs game: --env-kwargs game=..."),
        ("eval BrowserGym-v0", "AgentGym/BrowserGym-v0 needs task_id: --env-kwargs task_id=..."),
        (
            "eval policy:runs/a",
            "'policy' that could register 'policy:runs/a'. "
            "Start in the folder that holds it, or install it. An agent goes to --agent.",
        ),
        ("eval reflexion,trials=2:random", "An agent goes to --agent."),
        ("eval NumberLine-v0 --episodes 0", "at least 1"),
        ("eval NumberLine-v0 --episodes many", "--episodes: expected an integer, got 'many'"),
        ("eval NumberLine-v0 --price 1 x", "--price: expected {FLOAT FLOAT}, got '1' 'x'"),
        ("eval NumberLine-v0 --json no/such/folder/x.json", "no folder"),
        ("eval NumberLine-v0 --save .", "is a folder"),
        ("eval NumberLine-v0 --save no.json --json ./no.json", "give two names"),
        ("eval NumberLine-v0 --agent", "Name at least one agent"),
        ("eval NumberLine-v0 --episods 3", "--episodes"),
        ("eval NumberLine-v0 --split dev", "dev"),
        ("play NumberLin-v0", "Did you mean"),
        ("play NumberLine-v0 --task tset/1", "Unknown task 'tset/1'"),
        ("play NumberLine-v0 --seed -1", "seed must be"),
        ("play", "ID"),
        ("evl", "Unknown command 'evl'. Did you mean: eval? Known: list, play, eval, compare, "),
        ("draw --help", "Unknown command 'draw'."),
        ("eval NumberLine-v0 --wrap ExtractActon", "Did you mean: ExtractAction"),
        ("eval NumberLine-v0 --wrap ExtractAction:formt=tags", "Did you mean: format"),
        ("eval NumberLine-v0 --wrap ExtractAction:format=tag", "Did you mean: tags"),
        ("eval NumberLine-v0 --wrap ExtractAction:format=3", "is str; got 3"),
        ("eval NumberLine-v0 --wrap ExtractAction:tags", "Expected key=value"),
        ("eval NumberLine-v0 --wrap WeightedReward", "needs terms"),
        ("eval NumberLine-v0 --wrap HistoryObservation:k=-1", "k must be"),
        ("eval NumberLine-v0 --wrap AdmissibleAction:max_actions=9", "actions that are not texts"),
        ("eval NumberLine-v0 --wrap EncodeObservation", "observations that are not texts"),
        ("eval NumberLine-v0 --wrap nowhere:Wrapper", "no module 'nowhere'"),
        ("eval NumberLine-v0 --wrap json:JSONDecoder", "not a gymnasium.Wrapper"),
        ("eval NumberLine-v0 --price 1 -2", "price must be at least 0"),
        ("eval NumberLine-v0 --price 1", "--price"),
        ("eval NumberLine-v0 --price nan 1", "price must be at least 0 and finite, got nan"),
        ("eval NumberLine-v0 --env-kwargs id=x", "unexpected keyword argument 'id'"),
        ("eval CartPole-v1 --env-kwargs max_turns=5", "max_episode_steps limits the turns of any"),
        ("eval FrozenLake-v1 --env-kwargs map_nam=4x4", "Did you mean: map_name"),
        ("eval NumberLine-v0 --agent ''", "Unknown agent ''"),
        (
            "eval ./my_module.py:MyEnv-v0",
            "no module './my_module.py' that could register './my_module.py:MyEnv-v0'. "
            "Did you mean: my_module? A module is written as in an import.",
        ),
        ("eval NumberLine-v0 --wrap lab/mine.py:Wrapper", "Did you mean: lab.mine?"),
        ("certify lab/mine.py:MyEnv", "Did you mean: lab.mine?"),
        (
            "eval /home/me/mine.py:MyEnv-v0",
            "Did you mean: mine? A module is written as in an import. Start in the folder",
        ),
        ("eval ../mine.py:MyEnv-v0", "Did you mean: mine? A module is written as in an import. S"),
        ("eval .my_module:MyEnv-v0", "no module '.my_module'"),
        ("eval json:MyEnv-v0:b", "Expected module:Name-v0, got 'json:MyEnv-v0:b'"),
        ("eval NumberLine-v0 --agent expert --agent random", "--agent is given twice"),
        (
            "eval NumberLine-v0 --env-kwargs size=3 --env-kwargs=max_turns=4",
            "--env-kwargs is given",
        ),
        ("eval NumberLine-v0 --agent_kwargs a=3 --agent-kwargs b=4", "--agent-kwargs is given"),
    ],
)
def test_wrong_use_is_explained_without_a_traceback(line, message, capsys, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert run(*shlex.split(line)) == cli.WRONG_USE
    shown = "".join(capsys.readouterr())
    assert message in shown
    assert shown.startswith("error: "), "all errors look alike"
    assert "│" not in shown


def test_none_is_no_choice_on_the_command_line(capsys):
    assert run("eval", "--suite", "foo") == cli.WRONG_USE
    shown = capsys.readouterr().err
    assert "'agentboard'" in shown and "None" not in shown
    assert run("train", "poad", "--normalization", "foo") == cli.WRONG_USE
    assert "None" in capsys.readouterr().err, "a value of this setting"


def test_help_of_a_command_is_complete(capsys):
    assert run("eval", "--help") == 0
    shown, err = capsys.readouterr()
    assert "--wrap" in shown and "quick look" in shown
    assert "scaffolds that wrap another agent" in " ".join(re.sub("│", "", shown).split())
    assert not re.search(r"wrap another +│", shown), "line breaks of the source are not kept"
    assert err == ""
    assert run("--help") == 0
    assert "Tab completion" in capsys.readouterr().out


def test_eval_takes_wrappers(tmp_path, capsys):
    path = tmp_path / "played.jsonl"
    wrappers = ("HistoryObservation:k=1,keep_first=true", 'WeightedReward:terms={"task": 2.0}')
    words = ("--agent", "expert", "--episodes", "5", "--save", str(path), "--wrap", *wrappers)
    assert run("eval", "NumberLine-v0", *words) == 0
    assert "HistoryObservation:k=1,keep_first=true" in " ".join(capsys.readouterr().out.split())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line["reward"] == 2.0 for line in lines)
    assert all(line["env_kwargs"] == {"wrap": list(wrappers)} for line in lines)
    longest = max(lines, key=lambda line: line["turns"])
    action = longest["transcript"][0]["action"]
    assert f"> {action}" in longest["transcript"][1]["observation"]


def test_a_wrapper_of_a_module_is_taken(tmp_path):
    path = tmp_path / "reports.json"
    words = ("--agent", "random", "--episodes", "5", "--json", str(path))
    wrapper = "gymnasium.wrappers:TimeLimit:max_episode_steps=2"
    assert run("eval", "NumberLine-v0", *words, "--wrap", wrapper) == 0
    [report] = json.loads(path.read_text())
    assert max(episode["turns"] for episode in report["episodes"]) == 2


def test_agents_of_the_same_name_are_told_apart(monkeypatch, capsys):
    class Fixed(RandomAgent):
        name = "poad"

        def __init__(self, spec):
            self.name = "poad" if spec.startswith("policy") else spec

    monkeypatch.setattr(eval_command, "make_agent", Fixed)
    policies = ["policy:runs/A/policy", "policy:runs/B/policy", "policy:runs/B/best"]
    same = ["policy:runs/B/policy"]
    run("eval", "NumberLine-v0", "--episodes", "2", "--agent", "expert", *policies, *same)
    shown = capsys.readouterr().out
    for name in ("expert", "(A/policy)", "(B/policy)", "(B/best)", "(B/policy) #2"):
        assert name in " ".join(shown.split())


def test_tokens_and_cost_of_served_models_are_shown(monkeypatch, tmp_path, capsys):
    def act(self, views):
        for _ in views:
            self.usage.add({"prompt_tokens": 1000, "completion_tokens": 10})
        return ["+"] * len(views)

    monkeypatch.setattr(RandomAgent, "usage", Usage(), raising=False)
    monkeypatch.setattr(RandomAgent, "act", act)
    path = tmp_path / "reports.json"
    words = ("--episodes", "3", "--split", "both", "--price", "2", "30", "--json", str(path))
    assert run("eval", "NumberLine-v0", *words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    reports = json.loads(path.read_text())
    for report in reports:
        turns = sum(episode["turns"] for episode in report["episodes"])
        cost = pytest.approx(turns * (1000 * 2 + 10 * 30) / 1e6)
        assert report["usage"] == {
            **{"requests": turns, "prompt_tokens": 1000 * turns, "completion_tokens": 10 * turns},
            **{"unreported": 0, "cost": cost},
        }
        assert f"{turns} requests, {1000 * turns:,} prompt tokens" in shown
    assert shown.count(" requests, ") == 2
    assert run("eval", "NumberLine-v0", "--episodes", "1") == 0
    assert "cost" not in capsys.readouterr().out


def test_progress_without_a_terminal_is_a_line_every_ten_seconds():
    file, times = io.StringIO(), iter([0.0, 4.0, 11.0, 12.0, 22.0])
    lines = ProgressLines(file, lambda: next(times))
    advance = lines.start("NumberLine-v0 random", 9)
    for _ in range(4):
        advance()
    assert file.getvalue().splitlines() == [
        "NumberLine-v0 random: 2/9 episodes",
        "NumberLine-v0 random: 4/9 episodes",
    ]


class Trainers(types.ModuleType):
    """Stands in for `agentgym.trainers.cli.train`."""

    def __init__(self, error: Exception | None = None):
        super().__init__("agentgym.trainers.cli.train")
        self.error = error
        self.calls = []

    def main(self, argv: list[str]) -> int:
        self.calls.append(argv)
        if self.error is not None:
            raise self.error
        return 0


def test_train_hands_the_rest_of_the_line_on(monkeypatch):
    trainers = Trainers()
    monkeypatch.setitem(sys.modules, "agentgym.trainers.cli.train", trainers)
    assert run("train", "poad", "--env", "X", "--help") == 0
    assert run("train") == run("train", "--help") == 0
    assert trainers.calls == [["poad", "--env", "X", "--help"], [], ["--help"]]


def test_train_without_torch_says_what_to_install(monkeypatch, capsys):
    trainers = Trainers(ModuleNotFoundError("No module named 'torch'", name="torch"))
    monkeypatch.setitem(sys.modules, "agentgym.trainers.cli.train", trainers)
    assert run("train", "poad") == cli.WRONG_USE
    assert "pip install 'agentgym-suite[train]'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_core_installation_lists_recipes_and_says_what_training_needs():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {
            "torch", "transformers", "accelerate", "peft", "annotated_types", "yaml",
        }:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from agentgym.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", code]
    options = {"capture_output": True, "text": True, "timeout": 60}
    listed = subprocess.run([*command, "train"], **options)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "archer" in listed.stdout
    for words in (["train", "poad"], ["sweep", "poad", "--vary", "lr=1e-3"]):
        ran = subprocess.run([*command, *words], **options)
        assert ran.returncode == cli.WRONG_USE
        assert "pip install 'agentgym-suite[train]'" in ran.stderr
        assert "Traceback" not in ran.stderr


@pytest.mark.slow
def test_a_recipe_as_a_module_without_torch_says_what_to_install(tmp_path: Path):
    site = "import importlib.util as u\nf = u.find_spec\n"
    site += "u.find_spec = lambda name, *a: None if name == 'torch' else f(name, *a)\n"
    (tmp_path / "sitecustomize.py").write_text(site)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-m", "agentgym.trainers", "poad", "--help"]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": paths}
    )
    assert ran.returncode == cli.WRONG_USE
    assert "pip install 'agentgym-suite[train]'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_import_without_torch_says_what_to_install(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.delitem(vars(agentgym.trainers), "train", raising=False)  # of other tests
    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ImportError, match=r"pip install 'agentgym-suite\[train\]'"):
        from agentgym.trainers import train  # noqa: F401


def test_a_policy_without_torch_says_what_to_install(monkeypatch, capsys):
    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name == "agentgym.trainers.policy_agent":
                raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.delitem(sys.modules, "agentgym.trainers.policy_agent", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    assert run("eval", "NumberLine-v0", "--agent", "policy:runs/x") == cli.WRONG_USE
    assert "pip install 'agentgym-suite[train]'" in capsys.readouterr().err


def test_a_file_that_may_not_be_written_is_said_before_the_episodes(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(eval_command, "evaluate", None)
    assert run("eval", "NumberLine-v0", "--json", str(tmp_path / "x.json")) == cli.WRONG_USE
    assert "no permission to write" in capsys.readouterr().err


def test_a_full_disk_is_said_without_a_traceback(monkeypatch, capsys):
    def fail(reports):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(eval_command, "compare", fail)
    assert run("eval", "NumberLine-v0", "--episodes", "1") == cli.WRONG_USE
    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize("error", [TypeError("a bug"), ZeroDivisionError(), RuntimeError("a bug")])
def test_a_bug_keeps_its_traceback(error, monkeypatch):
    def fail(self, views):
        raise error

    monkeypatch.setattr(RandomAgent, "act", fail)
    with pytest.raises(type(error)):
        cli.main(["eval", "NumberLine-v0"])


def test_a_value_error_that_nobody_raised_on_purpose_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(RandomAgent, "act", lambda self, views: [int("x")])
    with pytest.raises(ValueError, match="invalid literal"):
        cli.main(["eval", "NumberLine-v0"])


def test_no_command_shows_the_help(capsys):
    assert run() == 0
    shown = capsys.readouterr().out
    for command in ("list", "play", "eval", "train"):
        assert command in shown


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == agentgym.__version__


def test_ctrl_c_at_the_prompt_ends_quietly(monkeypatch, capsys):
    def interrupt(prompt):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)
    assert run("play", "NumberLine-v0") == cli.INTERRUPTED
    assert "Interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["0", "-1", "wide"])
def test_a_width_of_nothing_hides_nothing(columns: str, capsys, monkeypatch):
    """Some terminals without a size set COLUMNS to 0."""
    monkeypatch.setenv("COLUMNS", columns)
    assert run("evl") == cli.WRONG_USE
    assert "Unknown command 'evl'" in capsys.readouterr().err
    monkeypatch.setenv("COLUMNS", columns)
    assert run("eval", "NumberLine-v0", "--episodes", "1") == 0
    assert "NumberLine-v0\n" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no such signal")
@pytest.mark.parametrize("words", ["list", "eval NumberLine-v0 --episodes 2 --json {}"])
def test_a_reader_that_leaves_is_no_error(words: str, tmp_path: Path):
    file = tmp_path / "result.json"
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "agentgym", *words.format(file).split()],
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (cli.BROKEN_PIPE, b"")
    assert file.exists() == ("--json" in words)


def test_a_pipe_gets_plain_text():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    environment.pop("COLUMNS")
    shown = process("eval", "NumberLine-v0", "--episodes", "3", env=environment)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\x1b" not in shown.stdout
