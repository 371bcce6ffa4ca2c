"""Generated capture-the-flag challenges, with the commands that find the flag."""

from __future__ import annotations

import base64
import codecs
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from agentgym.envs.shell.base import Problem
from agentgym.envs.shell.host import SERVICES, Host, pack
from agentgym.envs.shell.tasks import WORDS, Generator
from agentgym.envs.shell.tree import HOME, parent
from agentgym.tasks import task_rng

WRAPPING = ("encoding", "login")
HOLDING = ("file", "archive", "permissions", "log", "share")
"""Stages that hide another text, and stages that hold one."""
MOST_STAGES = len(WRAPPING) + 1
_CODES: dict[str, tuple[Callable[[str], str], str]] = {
    "base64": (lambda text: base64.b64encode(text.encode()).decode(), "base64 -d"),
    "hexadecimal": (lambda text: text.encode().hex(), "xxd -r -p"),
    "rot13": (lambda text: codecs.encode(text, "rot13"), "tr A-Za-z N-ZA-Mn-za-m"),
    "reversal": (lambda text: text[::-1], "rev"),
}
"""Name of a code -> its encoder, and the command that decodes it."""
_SERVICES = "vault depot beacon ledger courier archive".split()


@dataclass(frozen=True)
class Challenge(Problem):
    """A hidden flag.

    Attributes:
        secrets: the text that each stage hides, in the order in which they are found. The last one
            is the flag.
    """

    start: Host
    secrets: tuple[str, ...]


@lru_cache(maxsize=1024)
def challenge_of(task: str, stages: int, hints: bool) -> Challenge:
    """Returns a challenge. Environments share it.

    Args:
        task: name of the task.
        stages: number of stages, 1 to 3.
        hints: whether the request describes the stages.
    """
    rng = random.Random(int(task_rng(task, f"ctf {stages}").integers(2**63)))
    return _Draft(rng).challenge(stages, hints)


class _Draft:
    """A challenge in the making.

    Each stage hides a text and returns the pipeline that prints it. Stages that wrap others hide
    another text with the stages that are left.

    Args:
        rng: samples everything.
    """

    def __init__(self, rng: random.Random):
        self.rng = rng
        generator = Generator(rng)
        self.folders = generator.folders
        self.host = Host(dict(generator.tree.files), {*generator.tree.folders, "/tmp"})
        self.commands = ["find / -type f"]
        self.hints: list[str] = []
        self.secrets: list[str] = []
        self.left: list[str] = []

    def challenge(self, stages: int, hints: bool) -> Challenge:
        """Returns a challenge with a number of stages."""
        self.left = [*self.rng.sample(WRAPPING, stages - 1), self.rng.choice(HOLDING)]
        if stages == 1 and self.rng.random() < 0.3:
            self.left = [self.rng.choice(WRAPPING), "file"]
        flag = f"flag{{{self.word()}_{self.word()}_{self.rng.randint(1000, 9999)}}}"
        self.commands.append(self.hide(flag))
        text = "Find the flag, which looks like flag{word_word_1234}."
        hint = f" Hints: {' '.join(reversed(self.hints))}" if hints else ""
        return Challenge(
            text + hint,
            self.host,
            tuple(self.commands),
            flag,
            tuple(reversed(self.secrets)),
        )

    def hide(self, text: str) -> str:
        """Hides a text with the next stage and returns the pipeline that prints it."""
        self.secrets.append(text)
        return getattr(self, f"_{self.left.pop(0)}")(text)

    def word(self) -> str:
        """Samples a word."""
        return self.rng.choice(WORDS)

    def put(self, path: str, content: str, *, closed: bool = False) -> str:
        """Writes a file, with missing folders, and returns its path."""
        self.host.files[path] = content
        folder = parent(path)
        while folder not in self.host.folders:
            self.host.folders.add(folder)
            folder = parent(folder)
        if closed:
            self.host.closed.add(path)
        return path

    def path(self, name: str) -> str:
        """Returns the path of a file in one of the user's folders, which is sampled."""
        return f"{HOME}/{self.rng.choice(self.folders)}/{name}"

    def service(self, name: str, protocol: str, settings: str) -> int:
        """Describes a service and returns its port."""
        port = self.rng.randint(1024, 9999)
        text = f"name={name}\nport={port}\nprotocol={protocol}\n{settings}"
        self.commands.append(f"cat {self.put(f'{SERVICES}/{name}.conf', text)}")
        return port

    # Stages that hold a text.

    def _file(self, text: str) -> str:
        self.hints.append("Look for a file whose name starts with a dot.")
        path = self.put(self.path(f".{self.word()}"), f"{text}\n")
        return f"cat {path}"

    def _archive(self, text: str) -> str:
        self.hints.append("Look into an archive.")
        names = [f"{name}.tgz" for name in self.rng.sample(WORDS, self.rng.randint(1, 3))]
        last = inner = f"{self.word()}.txt"
        content = f"{text}\n"
        for name in names:
            content = pack([(inner, content), (f"{self.word()}.log", "all is well\n")])
            inner = name
        paths = [self.put(self.path(inner), content), *(f"/tmp/{name}" for name in names[-2::-1])]
        self.commands += [f"tar -xvzf {path} -C /tmp" for path in paths]
        return f"cat /tmp/{last}"

    def _permissions(self, text: str) -> str:
        self.hints.append("A file of yours has lost its permissions.")
        path = self.put(self.path(f"{self.word()}.key"), f"{text}\n", closed=True)
        self.commands += [f"stat {path}", f"chmod u+r {path}"]
        return f"cat {path}"

    def _log(self, text: str) -> str:
        self.hints.append("A log holds numbered parts of a text.")
        rng, jobs = self.rng, self.rng.sample(WORDS, 3)
        cuts = sorted(rng.sample(range(1, len(text)), 3))
        parts = [text[i:j] for i, j in zip([0, *cuts], [*cuts, None], strict=True)]
        sent = [f"{jobs[0]} {i} {part}" for i, part in enumerate(parts, start=1)]
        sent += [f"{job} {i} {rng.randbytes(4).hex()}" for job in jobs[1:] for i in range(1, 5)]
        rng.shuffle(sent)
        lines = [f"{7 + i}:{rng.randint(10, 59)} {line}\n" for i, line in enumerate(sent)]
        content = f"# time, job, number, part (the text is that of {jobs[0]}.)\n{''.join(lines)}"
        path = self.put(self.path(f"{self.word()}-jobs.log"), content)
        self.commands.append(f"cat {path}")
        return f"grep ' {jobs[0]} ' {path} | sort -k 3 -n | cut -d ' ' -f 4 | tr -d '\\n'"

    def _share(self, text: str) -> str:
        self.hints.append("A service hands out files, and does not check their names.")
        name, word = self.rng.choice(_SERVICES), self.word()
        self.put(f"/srv/{name}/public/index.txt", "Welcome.\n")
        self.put(f"/srv/{name}/private/{word}", f"{text}\n", closed=True)
        port = self.service(name, "files", f"folder=/srv/{name}/public\n")
        return f"echo GET ../private/{word} | nc localhost {port}"

    # Stages that wrap another one. The expert first prints the text of the inner stage.

    def _encoding(self, text: str) -> str:
        codes = self.rng.sample(sorted(_CODES), self.rng.randint(1, 3))
        self.hints.append(f"A text has been encoded: {', then '.join(codes)}.")
        for code in codes:
            text = _CODES[code][0](text)
        pipeline = self.hide(text)
        for code in reversed(codes):
            self.commands.append(pipeline)
            pipeline += f" | {_CODES[code][1]}"
        return pipeline

    def _login(self, text: str) -> str:
        self.hints.append("A service asks for a password.")
        password = f"{self.word()}{self.rng.randint(100, 999)}"
        pipeline = self.hide(password)
        self.commands.append(pipeline)
        wanted = self.put("/srv/login/password", f"{password}\n", closed=True)
        secret = self.put("/srv/login/secret", f"{text}\n", closed=True)
        port = self.service("login", "login", f"password={wanted}\nfile={secret}\n")
        return f"{pipeline} | nc localhost {port}"
