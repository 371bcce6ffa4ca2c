from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.trainers.cli.subprocesses import Children

SIGNAL = "import os, signal, sys; os.kill(os.getppid(), int(sys.argv[1])); signal.pause()"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_and_repeated(number: signal.Signals):
    children = Children()
    with children, ThreadPoolExecutor(1) as pool:
        command = [sys.executable, "-c", SIGNAL, str(int(number))]
        for _ in range(2):
            with pytest.raises(subprocess.CalledProcessError) as failed:
                pool.submit(children.run, command, stderr=subprocess.PIPE, text=True).result()
            assert failed.value.returncode == -signal.SIGTERM
    assert children.heard == number


def test_a_time_limit_stops_a_process_and_no_signal_is_heard():
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    with Children(minutes=1e-4) as children, pytest.raises(subprocess.CalledProcessError) as failed:
        children.run(command, stderr=subprocess.PIPE, text=True)
    assert failed.value.returncode == -signal.SIGTERM
    assert children.late and children.stopping and children.heard is None


def test_a_block_that_ends_before_its_time_limit_leaves_no_timer():
    with Children(minutes=600) as children:
        children.run([sys.executable, "-c", ""])
    assert not children.stopping and children._timer is not None
    children._timer.join(10)
    assert not children._timer.is_alive() and not children.late
