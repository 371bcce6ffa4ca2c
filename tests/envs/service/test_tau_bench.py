"""The original data of tau-bench: observations, database hashes and rewards of the reference."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.service.airline import Airline
from agentgym.envs.service.retail import Retail
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
    with pytest.raises(DataError, match=r"orders\.json in .* must be an object of records"):
        Retail(data_dir=str(tmp_path))
    for name in ("orders", "products", "users"):
        (tmp_path / f"{name}.json").write_text("{}")
    assert Retail(data_dir=str(tmp_path)).reset(seed=0)[0] == "Hi."


def test_an_unknown_user_is_refused():
    with pytest.raises(ConfigError, match="user must be 'scripted', 'chat:MODEL@URL'"):
        Retail(user="chatty")
