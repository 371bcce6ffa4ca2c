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
