"""No program leaves its sandbox. Every attack succeeds without one, so that a test can fail."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.sandbox import Interpreter, Limits, client, run_program

pytest.importorskip("sandlock", reason="needs the extra code")
pytest.importorskip("pydantic_monty", reason="needs the extra code")

# Each attack prints ESCAPED if it reaches anything. CANARY is a file with the text "secret", FOLDER
# its folder, PORT a port that the host listens on (TCP and UDP), PID the process of the test.
ATTACKS = {
    "read": "print('ESCAPED' * ('secret' in open('CANARY').read()))",
    "read by pathlib": """
from pathlib import Path
print('ESCAPED' * ('secret' in Path('CANARY').read_text()))""",
    "read above the standard library": """
import os
print('ESCAPED' * ('secret' in open(os.path.dirname(os.__file__) + '/..' * 20 + 'CANARY').read()))
""",
    "read beside an open folder": """
import os
folder = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
file = os.open('..' + '/..' * 20 + 'CANARY', os.O_RDONLY, dir_fd=folder)
print('ESCAPED' * (b'secret' in os.read(file, 10)))""",
    "read by C": """
import ctypes
print('ESCAPED' * (ctypes.CDLL(None).open(b'CANARY', 0) >= 0))""",
    "read packages": """
import os, sysconfig
print('ESCAPED' * bool(os.listdir(sysconfig.get_path('purelib'))))""",
    "read passwords": "print('ESCAPED' * ('root' in open('/etc/passwd').read()))",
    "list": "import os; print('ESCAPED' * bool(os.listdir('FOLDER')))",
    "write": "open('FOLDER/new', 'w').write('x'); print('ESCAPED')",
    "overwrite": "open('CANARY', 'a').write('x'); print('ESCAPED')",
    "remove": "import os; os.remove('CANARY'); print('ESCAPED')",
    "make a folder": "import os; os.mkdir('FOLDER/more'); print('ESCAPED')",
    "rename": "import os; os.rename('CANARY', 'FOLDER/other'); print('ESCAPED')",
    "truncate": "import os; os.truncate('CANARY', 0); print('ESCAPED')",
    "change a mode": "import os; os.chmod('CANARY', 0o777); print('ESCAPED')",
    "symbolic link": """
import os
os.symlink('CANARY', 'FOLDER/link')
print('ESCAPED' * ('secret' in open('FOLDER/link').read()))""",
    "hard link": "import os; os.link('CANARY', 'FOLDER/link'); print('ESCAPED')",
    "temporary file": "import tempfile; tempfile.TemporaryFile(); print('ESCAPED')",
    "shared memory": """
from multiprocessing.shared_memory import SharedMemory
SharedMemory(create=True, size=100).unlink(); print('ESCAPED')""",
    "memory of the host": """
import os
file = os.memfd_create('x'); os.posix_fallocate(file, 0, 1 << 28); print('ESCAPED')""",
    "memory of the host by C": """
import ctypes
print('ESCAPED' * (ctypes.CDLL(None).memfd_create(b'x', 0) >= 0))""",
    "list processes": "import os; print('ESCAPED' * ('PID' in os.listdir('/proc')))",
    "environment of a process": "open('/proc/PID/environ'); print('ESCAPED')",
    "memory of a process": "open('/proc/PID/mem'); print('ESCAPED')",
    "own maps": "open('/proc/self/maps'); print('ESCAPED')",
    "own environment": "import os; print('ESCAPED' * ('PATH' in os.environ))",
    "inherited files": """
import os
for number in range(3, 4096):
    try:
        os.fstat(number)
        print('ESCAPED')
    except OSError:
        pass""",
    "signal": "import os; os.kill(PID, 0); print('ESCAPED')",
    "TCP": "import socket; socket.create_connection(('127.0.0.1', PORT), 2); print('ESCAPED')",
    "UDP": """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))
print('ESCAPED')""",
    "listen": """
import socket
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(); print('ESCAPED')""",
    "Unix socket": """
import socket
socket.socket(socket.AF_UNIX).connect('FOLDER/socket'); print('ESCAPED')""",
    "abstract socket": """
import socket
socket.socket(socket.AF_UNIX).connect('\\0agentgym-PID'); print('ESCAPED')""",
    "fork": """
import os
if os.fork():
    print('ESCAPED')""",
    "subprocess": "import subprocess; subprocess.run(['true']); print('ESCAPED')",
    "system": "import os; print('ESCAPED' * (os.system('true') == 0))",
    "spawn": """
import os, sys
os.posix_spawn(sys.executable, [sys.executable, '-c', ''], {}); print('ESCAPED')""",
    "exec": "import os; os.execv('/bin/sh', ['sh', '-c', 'echo ESCAPED'])",
    "fork by C": """
import ctypes
if ctypes.CDLL(None).fork() > 0:
    print('ESCAPED')""",
    "pickle": """
import pickle
print('ESCAPED' * (pickle.loads(b"cposix\\nsystem\\n(S'true'\\ntR.") == 0))""",
    "subclasses": """
found = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close']
print('ESCAPED' * (found[0].__init__.__globals__['system']('true') == 0))""",
    "import by a dunder": "print('ESCAPED' * (__import__('os').system('true') == 0))",
    "eval": "print('ESCAPED' * (eval(\"__import__('os').system('true')\") == 0))",
    "globals of a function": """
import os
print('ESCAPED' * (os.walk.__globals__['system']('true') == 0))""",
    "namespaces": """
import ctypes
print('ESCAPED' * (ctypes.CDLL(None).unshare(0x10000000) == 0))""",
    "own limits": """
import resource
resource.setrlimit(resource.RLIMIT_CPU, resource.getrlimit(resource.RLIMIT_CPU)); print('ESCAPED')
""",
    "limits of a process": """
import resource
resource.prlimit(PID, resource.RLIMIT_CORE); print('ESCAPED')""",
    "priority of a process": """
import os
os.setpriority(os.PRIO_PROCESS, PID, os.getpriority(os.PRIO_PROCESS, 0)); print('ESCAPED')""",
    "processors of a process": """
import os
os.sched_setaffinity(PID, os.sched_getaffinity(0)); print('ESCAPED')""",
    "change times": "import os; os.utime('CANARY'); print('ESCAPED')",
    "change an owner": "import os; os.chown('CANARY', -1, os.getgid()); print('ESCAPED')",
    "change attributes": "import os; os.setxattr('CANARY', 'user.a', b'x'); print('ESCAPED')",
    "capabilities": """
import ctypes
print('ESCAPED' * (ctypes.CDLL(None).prctl(23, 0, 0, 0, 0) == 1))""",
}


@pytest.fixture
def fill(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The values of the names in the attacks."""
    (tmp_path / "canary").write_text("secret")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        port = server.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        local.bind(str(tmp_path / "socket"))
        local.listen()
        abstract.bind(f"\0agentgym-{os.getpid()}")
        abstract.listen()
        names = {"CANARY": tmp_path / "canary", "FOLDER": tmp_path, "PORT": port}
        yield {name: str(value) for name, value in {**names, "PID": os.getpid()}.items()}


def attack(name: str, fill: dict[str, str]) -> str:
    return re.sub("|".join(fill), lambda found: fill[found[0]], ATTACKS[name])


@pytest.mark.parametrize("interpreter", ["monty", "cpython"])
@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_outside_is_reached(name: str, interpreter: Interpreter, fill: dict[str, str]):
    outcome = run_program(attack(name, fill), interpreter=interpreter)
    assert "ESCAPED" not in outcome.output
    folder = Path(fill["FOLDER"])
    assert sorted(path.name for path in folder.iterdir()) == ["canary", "socket"]
    assert (folder / "canary").read_text() == "secret"


@pytest.mark.parametrize("name", ATTACKS)
def test_the_attack_succeeds_without_a_sandbox(name: str, fill: dict[str, str]):
    file = os.open(fill["CANARY"], os.O_RDONLY)
    command = [sys.executable, "-c", attack(name, fill)]
    done = subprocess.run(command, capture_output=True, text=True, pass_fds=[file])
    os.close(file)
    assert "ESCAPED" in done.stdout, done.stderr


BOMBS = {
    "forks": "import os\nwhile True:\n    os.fork()",
    "memory": "x = [0]\nwhile True:\n    x = x + x",
    "one large object": "x = 'x' * 10**11",
    "large number": "x = 10 ** 10 ** 10",
    "recursion": "def f(n):\n    return f(n + 1)\nf(0)",
    "nested source": "x = " + "(" * 20_000 + ")" * 20_000,
    "threads": """
import threading
while True:
    threading.Thread(target=threading.Event().wait, daemon=True).start()""",
    "files": "import os\nwhile True:\n    os.dup(1)",
}


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", ["monty", "cpython"])
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_an_error(name: str, interpreter: Interpreter):
    outcome = run_program(BOMBS[name], interpreter=interpreter, limits=Limits(seconds=1))
    assert outcome.error
    assert run_program("print(1)", interpreter=interpreter).output == "1\n"


STUBBORN = {
    "monty": "while True:\n    try:\n        while True:\n            pass\n"
    "    except BaseException:\n        pass",
    "cpython": "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
    "while True:\n    pass",
}


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", STUBBORN)
def test_a_loop_that_ignores_errors_and_signals_is_stopped(interpreter: Interpreter):
    outcome = run_program(STUBBORN[interpreter], interpreter=interpreter, limits=Limits(seconds=1))
    assert outcome.stopped in ("time", "crash")
    assert outcome.error


@pytest.mark.slow
def test_a_program_that_closes_its_output_and_sleeps_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "_idle", [])  # the program is a child of a worker of its own
    code = "import os, time\nos.close(1)\nos.close(2)\ntime.sleep(40)"
    outcome = run_program(code, interpreter="cpython", limits=Limits(seconds=1))
    assert outcome.stopped == "time"
    assert outcome.error == "TimeoutError: the program took too long and was stopped"
    [worker] = client._idle
    threads = Path(f"/proc/{worker._process.pid}/task").iterdir()
    assert not any((thread / "children").read_text() for thread in threads)
    worker.close()


@pytest.mark.parametrize("interpreter", ["monty", "cpython"])
def test_endless_output_is_cut(interpreter: Interpreter):
    code = "while True:\n    print('x' * 1000)"
    outcome = run_program(code, interpreter=interpreter, limits=Limits(seconds=1, output=5000))
    assert len(outcome.output) == 5000
    assert outcome.stopped in ("time", "output")


def test_a_result_is_never_evaluated_by_the_caller(tmp_path: Path):
    file = tmp_path / "made"
    payload = f"cposix\\nmkdir\\n(S'{file}'\\nI511\\ntR."
    for code in (f'b"{payload}"', f'print("{payload}")', f"__import__('os').mkdir('{file}')"):
        run_program(code)
        run_program(code, interpreter="cpython")
    assert not file.exists()
