"""Values of states from copies of a served session, as in VinePPO, with several clients."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")
pytest.importorskip("starlette", reason="needs the extra `serve`")
pytest.importorskip("websockets", reason="needs the extra `serve`")

import agentgym
from agentgym.registration.making import make_env
from agentgym.serving.server import Limits, make_app
from agentgym.snapshots import restore_snapshot, snapshot_of

from ..integrations.test_libraries import MAKE_A_MODEL
from .test_server import running

PAGE = Path(__file__).parents[2] / "docs" / "plug_in.md"
COPIES = 8


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    makers = {"FrozenLake-v0": partial(make_env, "FrozenLake-v0")}
    for address in running(make_app(makers, Limits(sessions=32))):
        yield f"{address}/FrozenLake-v0"


def drawn(rng: np.random.Generator, info: Any) -> str:
    return str(rng.choice(info["admissible"]))


def value(env: Any, info: Any, rng: np.random.Generator) -> float:
    """Returns the mean return of continuations, and leaves the environment as it was."""
    saved, total = snapshot_of(env), 0.0
    for seed in range(COPIES):
        restore_snapshot(env, saved)
        env.unwrapped.reseed(seed)
        here, over = info, False
        while not over:
            _, reward, terminated, truncated, here = env.step(drawn(rng, here))
            total, over = total + reward, terminated or truncated
    restore_snapshot(env, saved)
    return total / COPIES


def advantages(env: Any) -> list[float]:
    """Returns the advantages of the turns of an episode."""
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=1, options={"task": "train/3"})
    found, over, before = list[float](), False, value(env, info, rng)
    while not over:
        _, reward, terminated, truncated, info = env.step(drawn(rng, info))
        over = terminated or truncated
        after = 0.0 if over else value(env, info, rng)
        found.append(reward + after - before)
        before = after
    return found


@pytest.fixture(scope="module")
def expected() -> list[float]:
    found = advantages(make_env("FrozenLake-v0"))
    assert len(found) > 1 and any(found)
    return found


def test_the_loop_of_the_page_equals_one_in_the_environment(
    url: str, expected: list[float], capsys: pytest.CaptureFixture[str]
):
    [code] = re.findall(
        r"```py\n(import json\nfrom urllib.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    assert "http://localhost:8000/FrozenLake-v0" in code
    names: dict[str, Any] = {}
    exec(code.replace("http://localhost:8000/FrozenLake-v0", url), names)
    assert names["advantages"] == expected
    assert capsys.readouterr().out == f"{expected}\n"


def test_the_loop_in_a_remote_environment_equals_one_in_the_environment(
    url: str, expected: list[float]
):
    env = make_env("Remote-v0", url=url)
    assert advantages(env) == expected
    env.close()


def test_the_loop_with_the_client_of_openenv(url: str, expected: list[float]):
    """Also the client of verifiers, which plays servers of OpenEnv with it."""
    core = pytest.importorskip("openenv.core", reason="needs the extra `openenv`")
    rng = np.random.default_rng(0)

    class Forking(core.GenericEnvClient):
        async def ask(self, kind: str, **data: Any) -> dict[str, Any]:
            return (await self._send_and_receive({"type": kind, "data": data}))["data"]

    async def mean_return(client: Any, copy: Any, seen: Any) -> float:
        saved, total = await client.ask("snapshot"), 0.0
        for seed in range(COPIES):
            await copy.ask("restore", snapshot=saved["snapshot"], seed=seed)
            here, done = seen, False
            while not done:
                result = await copy.step({"text": drawn(rng, here)})
                here, done, total = result.observation, result.done, total + result.reward
        return total / COPIES

    async def episode() -> list[float]:
        async with Forking(base_url=url) as client, Forking(base_url=url) as copy:
            result, found = await client.reset(seed=1, task="train/3"), list[float]()
            before = await mean_return(client, copy, result.observation)
            while not result.done:
                result = await client.step({"text": drawn(rng, result.observation)})
                left = 0.0 if result.done else await mean_return(client, copy, result.observation)
                found.append(result.reward + left - before)
                before = left
            return found

    assert asyncio.run(episode()) == expected


class Bootstrapped(agentgym.ToolEnvironment):
    """Adds the value of the last state to the return of a rollout that was cut off."""

    def get_reward(self) -> float:
        rest = 0.0 if self.over else value(self.env, self._info(), np.random.default_rng(0))
        return super().get_reward() + rest

    def _info(self) -> dict[str, Any]:
        return restore_snapshot(self.env, snapshot_of(self.env))[1]


def test_the_environment_of_trl_has_values_and_one_tool(url: str):
    """TRL makes a tool of each public method that `inspect` finds in the class."""
    import inspect

    env = Bootstrapped(make_env("Remote-v0", url=url))
    local = Bootstrapped("FrozenLake-v0")
    methods = inspect.getmembers(Bootstrapped, predicate=inspect.isfunction)
    tools = {name for name, _ in methods if not name.startswith("_")} - {"reset", "get_reward"}
    assert tools == {"act"}
    for each in (env, local):
        each.reset(task="train/3", seed=1)
    for action in ("right", "down", "right"):
        assert env.act(action) == local.act(action)
        assert env.get_reward() == local.get_reward()
    env.env.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of TRL
def test_trl_trains_on_values_of_a_served_environment(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trl = pytest.importorskip("trl", reason="needs the package trl")
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    monkeypatch.chdir(tmp_path)
    exec(MAKE_A_MODEL, {})
    rewards, remotes = list[float](), list[Any]()

    class Logged(Bootstrapped):
        def get_reward(self) -> float:
            rewards.append(super().get_reward())
            return rewards[-1]

    def factory() -> Logged:
        remotes.append(make_env("Remote-v0", url=url))
        return Logged(remotes[-1])

    rows = agentgym.tool_rows("FrozenLake-v0", 1) * 4
    config = trl.GRPOConfig(
        "run", use_cpu=True, bf16=False, max_steps=1, per_device_train_batch_size=4,
        num_generations=4, report_to=[], max_completion_length=8,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model="model", args=config, train_dataset=datasets.Dataset.from_list(rows),
        environment_factory=factory,
    )  # fmt: skip
    assert [tool.__name__ for tool in trainer.tools] == ["act"]
    trainer.train()
    local = Bootstrapped("FrozenLake-v0")
    local.reset(task=rows[0]["task"], seed=rows[0]["seed"])
    assert rewards == [local.get_reward()] * 4  # an untrained model calls no tool
    for env in remotes:
        env.close()
