"""The original data of tau-bench: observations, database hashes and rewards of the reference."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.service.airline import Airline
from agentgym.envs.service.retail import Retail
from agentgym.envs.service.retail_world import shop
from agentgym.envs.service.tau_desk import TauDesk
from agentgym.errors import ConfigError, DataError
from agentgym.tools import Call, write_call

SHARED = Path(__file__).resolve().parents[4] / "shared"
DOMAINS: dict[str, type[TauDesk]] = {"retail": Retail, "airline": Airline}


def stops(instruction: str, conversation: list[list[str]]) -> str:
    """A user who stops after the first message of the agent."""
    return "###STOP###" if len(conversation) > 1 else instruction


def replay(env: TauDesk, record: dict[str, Any]) -> None:
    env.reset(seed=0, options={"task": f"{record['split']}/{record['task']}"})
    told = [o for o in record["outputs"] if record["info"].get("outputs", {}).get(o, True)]
    digest = reward = None
    for step in record["steps"]:
        if step["name"] == "respond":
            digest = env.database.digest()
            _, reward, terminated, _, _ = env.step(f"Answer: {' '.join(told)}")
        else:
            call = write_call(Call(step["name"], step["kwargs"]))
            observation, reward, terminated, _, _ = env.step(call)
            found = hashlib.sha1(observation.encode()).hexdigest()
            assert found == step["observation_sha1"], (step, observation)
        assert terminated == step["done"]
    if "hash_before_stop" in record:
        assert digest == record["hash_before_stop"]
    assert reward == record["reward"]


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_recorded_episodes_are_reproduced(domain: str):
    golden = SHARED / "golden" / f"tau_{domain}.jsonl.gz"
    folder = SHARED / "data" / "tau_bench" / domain
    if not golden.is_file() or not folder.is_dir():
        pytest.skip("needs the original's data and recorded episodes")
    env = DOMAINS[domain](data_dir=str(folder), user=stops, max_turns=None)
    with gzip.open(golden, "rt") as lines:
        for line in lines:
            replay(env, json.loads(line))


def test_missing_and_damaged_files_are_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"no file tasks_train\.json|no file wiki\.md"):
        Retail(data_dir=str(tmp_path))
    (tmp_path / "wiki.md").write_text("Policy.")
    for split in ("train", "dev", "test"):
        task = {"instruction": "Hi.", "actions": [], "outputs": []}
        (tmp_path / f"tasks_{split}.json").write_text(json.dumps([task]))
    for name in ("orders", "products", "users"):
        (tmp_path / f"{name}.json").write_text("[1]")
    with pytest.raises(DataError, match=r"table orders in .* must be an object of records"):
        Retail(data_dir=str(tmp_path))
    for name in ("orders", "products", "users"):
        (tmp_path / f"{name}.json").write_text("{}")
    assert Retail(data_dir=str(tmp_path)).reset(seed=0)[0] == "Hi."


@pytest.fixture
def tau2_retail(tmp_path: Path) -> tuple[Path, Call]:
    """A folder of tau2-bench with two tasks, and the call that solves both."""
    records = shop(0).records
    order = next(key for key, order in records["orders"].items() if order["status"] == "pending")
    call = Call("cancel_pending_order", {"order_id": order, "reason": "no longer needed"})
    write_json(tmp_path / "db.json", records)
    write_json(tmp_path / "split_tasks.json", {"train": ["a"], "test": ["b"], "base": ["a", "b"]})
    tasks = [tau2_task("a", call, ["DB", "COMMUNICATE"]), tau2_task("b", call, ["DB"])]
    write_json(tmp_path / "tasks.json", tasks)
    (tmp_path / "policy.md").write_text("The policy.")
    return tmp_path, call


def tau2_task(id: str, call: Call, basis: list[str]) -> dict[str, Any]:
    """Returns a task of tau2-bench with one output."""
    told = {"reason_for_call": "Cancel it.", "known_info": "I am Ada.", "unknown_info": None}
    calls = (Call("get_item_details", {"item_id": "1"}), call)
    actions = [{"action_id": c.key, "name": c.name, "arguments": c.arguments} for c in calls]
    criteria = {"actions": actions, "communicate_info": ["1234"], "reward_basis": basis}
    user = {"persona": None, "instructions": {**told, "task_instructions": "Be short."}}
    scenario = {"user_scenario": user, "evaluation_criteria": criteria}
    return {"id": id, "initial_state": None, **scenario}


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("task", "calls", "message", "reward"),
    [
        ("train/a", True, "You get 1,234 dollars.", 1),
        ("train/a", True, "Done.", 0),
        ("train/a", False, "You get 1,234 dollars.", 0),
        ("test/b", True, "Done.", 1),
        ("test/b", False, "Done.", 0),
    ],
)
def test_tasks_of_tau2_are_judged_by_their_basis(
    tau2_retail: tuple[Path, Call], task: str, calls: bool, message: str, reward: float
):
    folder, call = tau2_retail
    env = Retail(data_dir=str(folder), user=stops)
    assert env.tasks.train == ("train/a",) and env.tasks.test == ("test/b",)
    assert "The policy." in env.instructions
    observation, _ = env.reset(seed=0, options={"task": task})
    assert observation == "Cancel it.\nI am Ada.\nBe short."
    if calls:
        assert env.step(write_call(call))[1:3] == (0, False)
    assert env.step(message)[1:3] == (reward, True)


def test_episodes_and_copies_read_no_files(tau2_retail: tuple[Path, Call]):
    folder, call = tau2_retail
    env = Retail(data_dir=str(folder), user=stops)
    shutil.rmtree(folder)
    env.reset(seed=0, options={"task": "test/b"})
    for each in (copy.deepcopy(env), env):
        assert each.step(write_call(call))[4]["valid"]
        assert each.step("Done.")[1:3] == (1, True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("db.json", {"orders": {}}, "table products .* must be an object of records"),
        ("tasks.json", [{"id": "a"}], "an entry without 'user_scenario'|'evaluation_criteria'"),
        ("tasks.json", {"id": 1}, r"tasks\.json in .* has an entry without"),
        ("split_tasks.json", {"train": []}, "has no list 'test'"),
        ("split_tasks.json", {"train": [], "test": ["c"]}, "has no task 'c'"),
        ("split_tasks.json", {"train": [], "test": ["b"]}, "has a split without tasks"),
    ],
)
def test_damaged_files_of_tau2_are_named(
    tau2_retail: tuple[Path, Call], name: str, content: Any, message: str
):
    write_json(tau2_retail[0] / name, content)
    with pytest.raises(DataError, match=message):
        Retail(data_dir=str(tau2_retail[0]))


def test_another_initial_state_is_refused(tau2_retail: tuple[Path, Call]):
    folder, call = tau2_retail
    task = {**tau2_task("a", call, ["DB"]), "initial_state": {"message_history": []}}
    write_json(folder / "tasks.json", [task])
    with pytest.raises(DataError, match="'a' has an initial state, which is not supported"):
        Retail(data_dir=str(folder))


def test_an_unknown_user_is_refused():
    with pytest.raises(ConfigError, match="user must be 'scripted', 'chat:MODEL@URL'"):
        Retail(user="chatty")


TASKS_FILE = """from tau_bench.types import Action, Task

TASKS_{split} = [
    Task(
        annotator="0",
        user_id="ann_1",
        instruction="You are Ann, "
        "and patient.",
        actions=[Action(name="calculate", kwargs={{"expression": "1 + 1"}})],
        outputs=["2"],
    ),
]
"""


def cloned(folder: Path) -> Path:
    """A folder as in a clone of tau-bench: tables in `data`, and tasks in Python."""
    (folder / "data").mkdir()
    (folder / "wiki.md").write_text("Policy.")
    for name in ("orders", "products", "users"):
        (folder / "data" / f"{name}.json").write_text("{}")
    for split in ("train", "dev", "test"):
        text = TASKS_FILE.format(split=split.upper())
        (folder / f"tasks_{split}.py").write_text(text)
    return folder


def test_a_clone_of_tau_bench_is_read_as_it_is(tmp_path: Path):
    env = Retail(data_dir=str(cloned(tmp_path)), user=stops)
    assert env.reset(seed=0, options={"task": "test/0"})[0] == "You are Ann, and patient."
    assert env.case.calls == (Call("calculate", {"expression": "1 + 1"}),)
    assert env.case.outputs == ("2",)


@pytest.mark.parametrize("annotation", ["list", "List[Task]"])
def test_an_annotated_list_of_tasks_is_read(tmp_path: Path, annotation: str):
    folder = cloned(tmp_path)
    for file in folder.glob("tasks_*.py"):
        text = re.sub(
            r"^(\w+) = \[", rf"\1: {annotation} = [", file.read_text(), flags=re.MULTILINE
        )
        assert f": {annotation} = [" in text
        file.write_text(text)
    env = Retail(data_dir=str(folder), user=stops)
    assert env.reset(seed=0, options={"task": "test/0"})[0] == "You are Ann, and patient."


@pytest.mark.parametrize(
    "text", ["x = 1", "TASKS = [Task(f(1))]", "TASKS = [print('hi')]", "TASKS = [", "TASKS = [1]"]
)
def test_tasks_in_python_are_not_run(tmp_path: Path, text: str):
    (cloned(tmp_path) / "tasks_dev.py").write_text(text)
    with pytest.raises(DataError, match=r"tasks_dev\.py"):
        Retail(data_dir=str(tmp_path))
