from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import TextEnv, TimeStep
from agentgym.cli.main import main
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.integrations.hub import write_hub_folder
from agentgym.registration.making import make_env
from agentgym.utils.masking import MASK, filled, is_secret, masked, masked_text

PLANTED = "pl4nted-v4lue"
NAMES = ("token", "TOKEN", "api_key", "apiKey", "password", "client_secret", "Authorization",
         "http-authorization", "DB_PASSWORD", "accessToken", "tokens")  # fmt: skip


class Guarded(NumberLine):
    """A line of numbers behind a login."""

    def __init__(self, *, token: str = "", url: str = "", headers: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        if token != PLANTED:
            raise ConfigError(f"The token is wrong: got {masked(token, 'token')!r}.")


gymnasium.register("Guarded-v0", entry_point=Guarded)
assert issubclass(Guarded, TextEnv) and TimeStep
ENV = "tests.utils.test_masking:Guarded-v0"
KWARGS = (
    f"token={PLANTED}",
    f"url=https://me:{PLANTED}@host.example/x?api_key={PLANTED}&n=1",
    "headers=" + json.dumps({"deep": {"Authorization": f"Bearer {PLANTED}"}}),
)
VALUES = st.recursive(
    st.sampled_from([PLANTED, 1, None, True]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", NAMES)
def test_secrets_are_known_by_their_names(name: str):
    assert is_secret(name)
    value = {"a": [{name: PLANTED}], name: [PLANTED, {"b": PLANTED}], "n": 3, "e": {name: ""}}
    assert PLANTED not in json.dumps(masked(value))
    assert masked(value)["n"] == 3 and masked(value)["e"] == {name: ""}


@pytest.mark.parametrize(
    "name", ["max_turns", "api_key_env", "author", "monkey", "size", "keyword"]
)
def test_other_names_are_not(name: str):
    assert not is_secret(name) and masked({name: "x"}) == {name: "x"}


def test_numbers_of_tokens_stay():
    numbers = {"max_new_tokens": 256, "gamma_token": 1.0, "token_baseline": True, "key": None}
    assert masked(numbers) == numbers
    assert masked({"token": 12345}) == {"token": MASK}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:pass@host/x", "https://***@host/x"),
        ("postgres://me:p@ss@host", "postgres://***@host"),
        ("ws://host/?token=abc&n=1", "ws://host/?token=***&n=1"),
        ("Remote-v0:url=http://h,token=abc", "Remote-v0:url=http://h,token=***"),
        ("Authorization: Bearer abcdef", "Authorization: Bearer ***"),
        ("mail me@host.example", "mail me@host.example"),
        ("a=1 https://host/x", "a=1 https://host/x"),
    ],
)
def test_secrets_in_texts(text: str, expected: str):
    assert masked_text(text) == expected


@settings(deadline=None, max_examples=200)
@given(VALUES)
def test_nothing_below_a_secret_name_is_left(value: Any):
    for name in NAMES:
        assert PLANTED not in json.dumps(masked({name: value}))
        assert masked(masked({name: value})) == masked({name: value})


def test_masked_secrets_are_read_again_or_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTGYM_TOKEN", PLANTED)
    assert filled({"token": MASK, "n": 1}) == {"token": PLANTED, "n": 1}
    make_env("Guarded-v0", token=MASK)
    monkeypatch.delenv("AGENTGYM_TOKEN")
    with pytest.raises(ConfigError, match=r"set the environment variable AGENTGYM_TOKEN, or give"):
        make_env("Guarded-v0", token=MASK)
    other: Any
    for other in ({"url": "https://***@host"}, {"headers": {"deep": {"token": MASK}}}):
        with pytest.raises(ConfigError, match="is not saved with the other settings"):
            make_env("Guarded-v0", token=PLANTED, **other)


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in
            path.read_bytes()]  # fmt: skip


def test_evaluations_leave_no_secret(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    out = str(tmp_path / "saved.jsonl")
    words = ["eval", ENV, "--episodes", "2", "--env-kwargs", *KWARGS, "--save", out]
    assert main([*words, "--json", str(tmp_path / "r.json")]) == 0
    assert main([*words, "--resume"]) == 0
    assert main(["view", out, "--out", str(tmp_path / "page.html")]) == 0
    shown = capfd.readouterr()
    assert not files_with(tmp_path, PLANTED) and PLANTED not in shown.out + shown.err
    assert files_with(tmp_path, MASK) and MASK in shown.out


@pytest.mark.slow
def test_runs_leave_no_secret(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("torch", reason="needs the extra `train`")
    run = tmp_path / "run"
    words = ["train", "grpo", "--env-id", ENV, "--iterations", "1", "--episodes-per-iteration", "4",
             "--group-size", "2", "--eval-episodes", "2", "--run-dir", str(run), "--model", "nano",
             "--device", "cpu", "--threads", "1"]  # fmt: skip
    assert main([*words, "--env-kwargs", *KWARGS]) == 0
    write_hub_folder(run, tmp_path / "hub")
    again = ["train", "grpo", "--config", str(run), "--resume", "--iterations", "2"]
    assert main(again) == 2  # the secret is asked for
    asked = capfd.readouterr()
    assert "is not saved with the other settings" in asked.err
    assert main([*again, "--env-kwargs", *KWARGS]) == 0
    shown = capfd.readouterr()
    assert not files_with(tmp_path, PLANTED)
    assert PLANTED not in asked.out + asked.err + shown.out + shown.err


def test_deep_values_are_no_error():
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    masked(deep)
    assert filled({"size": deep})["size"] is deep
