"""A model in the cache of the hub opens at once without internet."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from huggingface_hub import constants

from agentgym.errors import ConfigError
from agentgym.trainers.policy.hub_cache import cache_first
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import tiny_policy

COMMIT = "a" * 40


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub may be asked, unlike in other tests."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts that were asked for. None answers."""
    hosts: list[str] = []

    def refuse(host: str, *_: Any, **__: Any) -> Any:
        hosts.append(host)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(httpx.Client, "send", lambda self, request, **_: refuse(request.url.host))
    return hosts


@pytest.fixture
def snapshot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache with the model some/model."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.setattr(constants, name, str(tmp_path))
    folder = tmp_path / "models--some--model"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    tiny_policy("NumberLine-v0", size="nano").save(folder / "snapshots" / COMMIT)
    return folder / "snapshots" / COMMIT


@pytest.mark.parametrize("lora", [None, LoraSettings(2)])
def test_a_model_in_the_cache_opens_without_a_request(snapshot, asked, lora, tmp_path, capsys):
    policy = Policy.load("some/model", lora=lora)
    if lora is not None:
        assert policy.model.peft_config["default"].base_model_name_or_path == "some/model"
        policy.model.save_pretrained(str(tmp_path / "a"), save_embedding_layers=False)
        Policy.load(tmp_path / "a")
    assert asked == []
    assert "asking the Hugging Face hub" not in capsys.readouterr().err
    assert not constants.HF_HUB_OFFLINE


def test_a_hint_comes_before_the_hub_is_asked(asked, capsys):
    calls = []

    @cache_first
    def load(name: str) -> None:
        calls.append((name, constants.HF_HUB_OFFLINE, capsys.readouterr().err))

    load("some/other-model")
    [(name, offline, hint)] = calls
    assert (name, offline) == ("some/other-model", False)
    assert "some/other-model: the local cache does not have it, asking" in hint


def test_a_cache_without_all_files_is_completed_by_the_hub(snapshot, capsys):
    found = []

    @cache_first
    def load(name: str) -> str:
        found.append(constants.HF_HUB_OFFLINE)
        if constants.HF_HUB_OFFLINE:
            raise ConfigError("There are no weights.")
        return name

    assert load("some/model") == "some/model"
    assert found == [True, False]
    assert "the local cache has not all of its files" in capsys.readouterr().err
