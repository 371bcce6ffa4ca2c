"""`Gateway`: sessions of programs that the caller starts, and the end of their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError

import pytest

from agentgym import make_env
from agentgym.errors import AgentGymError, ConfigError
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.harness import Harness
from agentgym.trainers.gateway.task import Task, TaskError
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.settings.config import TrainConfig
from tests.gateway import episodes as programs
from tests.helpers.chat_models import chat_model

SECONDS = 30
ORPHAN = """
import sys, time
from pathlib import Path
from agentgym.trainers.gateway.processes import Groups
process, _ = Groups().start(["sleep", "600"], {"PATH": "/usr/bin:/bin"}, Path("/"))
print(process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy(*chat_model("base"))


def test_a_session_records_what_a_program_plays(policy: Policy):
    env = make_env("NumberLine-v0", size=3, max_turns=2)
    found = []
    for _ in range(2):
        with (
            Gateway(policy, Sampling(max_new_tokens=3)) as gateway,
            gateway.session("train/1", 5, env, key=(1, 2)) as session,
        ):
            assert session.environ["OPENAI_BASE_URL"] == session.openai["base_url"]
            programs.chat(session.task)
        found.append(session.trajectory(reward=[0.0, 2.0]))
    one, other = found
    assert one is not None and other is not None
    assert one.env_id == "AgentGym/NumberLine-v0" and len(one.turns) == 2
    assert one.turns[1].reward == pytest.approx(2.0 + one.turns[1].reward_terms["task"] - 2.0)
    assert one.segments[0].tokens.tolist() == other.segments[0].tokens.tolist()


def test_the_address_of_an_ended_session_answers_nobody(policy: Policy):
    with Gateway(policy) as gateway:
        with gateway.session(env=make_env("NumberLine-v0")) as session:
            pass
        with pytest.raises(TaskError, match="no session"):
            session.task.step("+")
        assert session.trajectory() is None


def test_no_session_begins_when_nobody_answers_any_more(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
):
    """A program would wait for ever."""
    gateway = Gateway(policy, Sampling(max_new_tokens=3))

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("no memory")

    monkeypatch.setattr(gateway.sessions, "_begin", fail)

    def play() -> None:
        with gateway:
            with gateway.session() as session, pytest.raises(HTTPError):
                programs.ask(session.task, [{"role": "user", "content": "hello"}])
            with gateway.session():
                pytest.fail("nobody would answer")

    with pytest.raises(AgentGymError, match="answers no more"):
        play()


def test_a_port_in_use_is_an_error(policy: Policy):
    first = Gateway(policy)
    try:
        with pytest.raises(ConfigError, match="Choose another port"):
            Gateway(policy, port=int(first.url.rpartition(":")[2]))
    finally:
        first.close()


def test_programs_end_when_the_trainer_is_killed():
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE) as trainer:
        assert trainer.stdout is not None
        child = Path(f"/proc/{int(trainer.stdout.readline())}/stat")
        assert child.exists()
        os.kill(trainer.pid, signal.SIGKILL)
        deadline = time.monotonic() + SECONDS
        while child.exists() and child.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_program_outside_a_gateway_is_told_so():
    with pytest.raises(TaskError, match="AGENTGYM_TASK is not set"):
        Task.of_environ({})


def test_functions_are_named_in_the_settings_of_a_run():
    settings = {"harness": programs.chat, "harness_score": "my_rewards:score", "lr": 1e-3}
    harness = Harness.taken_from(settings)
    assert harness == Harness(programs.chat, "my_rewards:score")
    assert settings["harness"] == "tests.gateway.episodes:chat"
    assert Harness.taken_from({"harness": "python a.py"}) is None


@pytest.mark.parametrize(
    "harness", [Harness("no-such-program"), Harness("true", "no_such_module:score")]
)
def test_a_program_or_a_score_that_does_not_exist_is_refused_before_the_run(harness: Harness):
    with pytest.raises(ConfigError, match=r"no-such-program|no_such_module"):
        harness.check()


@pytest.mark.parametrize(
    ("harness", "message"),
    [
        ("tests.gateway.episodes:chta", "has no function 'chta'. Did you mean: chat"),
        ("tests.gateway.episodes:json", "a module"),
        ("tests.gateway.episode:chat", "There is no module 'tests.gateway.episode'"),
        ("fails_at_import:run", r"fails_at_import.py, line 2: KeyError: 'OPENAI'"),
        ("breaks:run", r"SyntaxError: .*breaks.py, line 1"),
        ("exits:run", "exits.py, line 1: SystemExit: 3"),
        ("dies:run", "ended before it returned"),
        ("python no_such_agent.py --fast", "no file 'no_such_agent.py'"),
    ],
)
def test_a_function_that_cannot_be_imported_is_refused_before_the_run(
    harness: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It would fail in every episode. The module is imported with the variables of a task."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    for name, text in {
        "fails_at_import": "import os\nos.environ['OPENAI']\n",
        "breaks": "def run(:\n",
        "exits": "raise SystemExit(3)\n",
        "dies": "import os\nos._exit(3)\n",
        "reads": "import os\nurl = os.environ['OPENAI_BASE_URL']\nrun = print\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(ConfigError, match=message):
        Harness(harness).check()
    Harness("reads:run").check()


@pytest.mark.parametrize(
    "settings",
    [
        {"harness_score": "my_rewards:score"},
        {"harness": "true", "opponents": "mirror"},
        {"harness": "true", "context": "window"},
        {"harness": "true", "rollout_workers": 2},
        {"harness": "true", "harness_calls": 0},
    ],
)
def test_settings_that_do_not_fit_a_program_are_refused(settings: dict[str, object]):
    with pytest.raises(ConfigError, match="harness"):
        TrainConfig.of(**settings)
