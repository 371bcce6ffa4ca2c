"""CTFLite: challenges have a way and no short cut, and permissions, archives and services hold."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.shell.arguments import LARGEST
from agentgym.envs.shell.challenges import challenge_of
from agentgym.envs.shell.ctf_lite import CTFLite
from agentgym.envs.shell.host import HOST_COMMANDS, Host, pack, unpack
from agentgym.envs.shell.interpreter import run
from agentgym.envs.shell.tree import HOME, Failed
from agentgym.errors import ConfigError

FILES = {
    f"{HOME}/a.txt": "one\n",
    f"{HOME}/own.key": "mine\n",
    f"{HOME}/x.tgz": pack([("in.txt", "inside\n"), ("in.log", "log\n")]),
    "/etc/services.d/login.conf": "port=10\nprotocol=login\npassword=/srv/p\nfile=/srv/s\n",
    "/etc/services.d/files.conf": "port=20\nprotocol=files\nfolder=/srv/public\n",
    "/srv/public/index.txt": "Welcome.\n",
    "/srv/p": "word\n",
    "/srv/s": "secret\n",
}
DENIED = "Permission denied\n"
MISSING = "No such file or directory\n"
STAT = "a.txt: 4 characters, owner user, mode 644\n"


def host() -> Host:
    """Returns a small computer."""
    folders = {"/", "/home", HOME, "/tmp", "/etc", "/etc/services.d", "/srv", "/srv/public"}
    return Host(dict(FILES), folders, HOME, {"/srv/p", "/srv/s", f"{HOME}/own.key"})


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("cat own.key", f"cat: own.key: {DENIED}"),
        ("cat < own.key", f"sh: own.key: {DENIED}"),
        ("cp own.key b; ls b", f"cp: {HOME}/own.key: {DENIED}ls: b: No such file or directory\n"),
        ("chmod u+r own.key && cat own.key", "mine\n"),
        ("chmod 400 own.key && cat own.key", "mine\n"),
        ("chmod -r a.txt && chmod 044 own.key; cat a.txt", f"cat: a.txt: {DENIED}"),
        ("chmod +x own.key && cat own.key", f"cat: own.key: {DENIED}"),
        ("chmod +r /srv/s", "chmod: /srv/s: Operation not permitted\n"),
        ("echo x > own.key", f"sh: own.key: {DENIED}"),
        ("echo x > /srv/p", f"sh: /srv/p: {DENIED}"),
        ("rm /srv/public/index.txt", f"rm: /srv/public/index.txt: {DENIED}"),
        ("mkdir /srv/x", f"mkdir: /srv/x: {DENIED}"),
        ("mkdir /tmp/x && echo a > /tmp/x/b && cat /tmp/x/b && rm -r /tmp/x", "a\n"),
        ("grep -r -l e /srv", "/srv/public/index.txt\n"),
        (
            "stat a.txt own.key",
            "a.txt: 4 characters, owner user, mode 644\n"
            "own.key: 5 characters, owner user, mode 000\n",
        ),
        ("stat /srv/s", "/srv/s: 7 characters, owner root, mode 600\n"),
        ("stat nothing a.txt", f"stat: nothing: {MISSING}{STAT}"),
        ("chmod -r nothing a.txt; cat a.txt", f"chmod: nothing: {MISSING}cat: a.txt: {DENIED}"),
        ("stat", "stat: expected a file or folder\n"),
        ("stat /srv", "/srv: 0 characters, owner root, mode 755\n"),
        ("tar -tzf x.tgz", "in.txt\nin.log\n"),
        ("tar xzf x.tgz && cat in.txt", "inside\n"),
        ("tar -xvzf x.tgz -C /tmp && cat /tmp/in.log", "in.txt\nin.log\nlog\n"),
        ("tar -xzf x.tgz -C /srv", f"tar: /srv/in.txt: {DENIED}"),
        ("tar -tzf a.txt", "tar: this is not an archive\n"),
        ("echo hi | xxd -p", "68690a\n"),
        ("echo 68690a | xxd -r -p", "hi\n"),
        ("echo 6g | xxd -r -p", "xxd: invalid input\n"),
        ("cat /srv/p", f"cat: /srv/p: {DENIED}"),
        ("echo word | nc localhost 10", "secret\n"),
        ("echo wrong | nc localhost 10", "Send the password.\n"),
        ("echo GET index.txt | nc 127.0.0.1 20", "Welcome.\n"),
        ("echo GET ../s | nc localhost 20", "secret\n"),
        ("echo GET nothing | nc localhost 20", "There is no such file.\n"),
        ("nc localhost 20", "Send GET and the name of a file.\n"),
        ("nc localhost 30", "nc: 30: Connection refused\n"),
        ("nc example.org 80", "nc: use nc localhost PORT\n"),
    ],
)
def test_commands(line: str, output: str):
    assert run(host(), line, HOST_COMMANDS)[0] == output


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text("ab./", min_size=1), st.text("ab \n"), min_size=1))
def test_archives_hold_their_files(files: dict[str, str]):
    assert unpack(pack(files.items())) == list(files.items())


@pytest.mark.parametrize(
    "text",
    [
        "archive ",
        "archive x",
        f"archive {base64.b64encode(b'no').decode()}",
        f"archive {base64.b64encode(zlib.compress(b'odd')).decode()}",
        f"archive {base64.b64encode(zlib.compress(b'a' * 10**7)).decode()}",
        pack([("a", "b")]).removeprefix("archive "),
    ],
)
def test_other_texts_are_no_archives(text: str):
    with pytest.raises(Failed, match="not an archive"):
        unpack(text)


def test_files_of_an_archive_stay_in_the_users_folders_and_below_the_limit():
    made = host()
    made.files[f"{HOME}/bad.tgz"] = pack([("../../../etc/services.d/login.conf", "port=1\n")])
    assert run(made, "tar -xzf bad.tgz", HOST_COMMANDS)[0].endswith(DENIED)
    bomb = pack([("a", "b" * 10**7)])
    assert sum(len(content) for _, content in unpack(bomb)) <= LARGEST


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_the_commands_find_every_text_and_the_flag_last(stages: int):
    texts = set()
    for i in range(40):
        challenge = challenge_of(f"{('train', 'test')[i % 2]}/{i}", stages, True)
        hints = challenge.text.partition("Hints: ")[2].split(". ")
        assert stages <= len(hints) <= max(2, stages)
        texts |= {hint.partition(":")[0].strip(".") for hint in hints}
        made, shown = challenge.start.copy(), []
        for line in challenge.commands:
            output, good = run(made, line, HOST_COMMANDS)
            assert good, (line, output)
            shown.append(output)
        first = [
            next(i for i, text in enumerate(shown) if secret in text)
            for secret in challenge.secrets
        ]
        assert first == sorted(first)
        assert first[-1] == len(shown) - 1
        assert challenge.secrets[-1] == challenge.answer
    assert len(texts) == 7


def test_the_flag_cannot_be_read_without_the_last_stage():
    for i in range(40):
        challenge = challenge_of(f"train/{i}", 3, False)
        assert "Hint" not in challenge.text
        host = challenge.start
        readable = [text for path, text in host.files.items() if host.readable(path)]
        assert not any(str(challenge.answer) in text for text in readable)
        everything = run(host.copy(), "grep -r -h flag{ / | grep -o flag{.*", HOST_COMMANDS)[0]
        assert str(challenge.answer) not in everything


def test_no_flag_is_in_both_splits():
    train, test = (
        {challenge_of(f"{split}/{i}", 1, True).answer for i in range(100)}
        for split in ("train", "test")
    )
    assert len(train) > 95 and not train & test


def test_progress_counts_the_texts_that_were_shown():
    env = CTFLite(stages=3)
    env.reset(seed=0)
    env.step("ls")  # a detour
    seen = [0.0]
    while (action := env.expert() or "").partition(" ")[0] != "submit":
        seen.append(env.step(action)[-1]["progress"])
    assert seen == sorted(seen) and seen[-1] == 0.75
    assert env.step(f"{action}x")[1:3] == (0.0, True)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["progress"]) == (1.0, True, 1.0)


def test_permissions_are_part_of_the_state():
    env = CTFLite()
    env.reset(seed=0)
    env.step("echo x > new")
    saved = json.loads(json.dumps(env.snapshot()))
    closed = env.step("chmod -r new")[-1]["state_key"]
    assert "Permission denied" in env.step("cat new")[0]
    env.restore(saved)
    assert env.step("chmod +r new")[-1]["state_key"] != closed
    assert env.step("cat new")[0].startswith("x\n")


def test_other_numbers_of_stages_are_refused():
    with pytest.raises(ConfigError, match="stages must be 1 to 3"):
        CTFLite(stages=4)


def test_a_loop_tries_few_passwords():
    output, good = run(
        host(), "for i in {1..900}; do echo word$i | nc localhost 10; done", HOST_COMMANDS
    )
    assert not good and output.count("Send the password") <= 10
