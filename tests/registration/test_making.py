"""`make_env`, by position and by keyword."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agentgym import make_env
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, UnknownArgumentError


def test_the_id_may_be_a_keyword_as_in_gymnasium():
    one, other = make_env("NumberLine-v0", size=5), make_env(id="NumberLine-v0", size=5)
    assert one.spec == other.spec
    assert one.reset(seed=3) == other.reset(seed=3)
    assert make_env(id="NumberLine-v0", wrap=["ExtractAction"]).get_wrapper_attr("instructions")


@pytest.mark.parametrize(
    ("arguments", "kwargs", "error", "message"),
    [
        (("NumberLine-v0",), {"id": "x"}, UnknownArgumentError, "unexpected keyword argument 'id'"),
        ((), {"id": "NumberLime-v0"}, ConfigError, "Did you mean: NumberLine-v0"),
        ((), {}, ConfigError, "Unknown environment ''"),
        ((), {"id": 3}, ConfigError, "Unknown environment ''"),
    ],
)
def test_wrong_ids_are_named(
    arguments: tuple[str, ...], kwargs: dict[str, Any], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        make_env(*arguments, **kwargs)


class Fails(NumberLine):
    """An environment of others, whose constructor raises an error."""

    def __init__(self, error: str = "KeyError", **kwargs: Any):
        super().__init__(**kwargs)
        raise {"KeyError": KeyError, "TypeError": TypeError, "OSError": OSError}[error]("room")


@pytest.fixture
def fails() -> Iterator[str]:
    gymnasium.register("Theirs/Fails-v0", Fails)
    yield "Theirs/Fails-v0"
    del gymnasium.registry["Theirs/Fails-v0"]


@pytest.mark.parametrize("error", ["KeyError", "TypeError", "OSError"])
def test_a_constructor_of_others_that_fails_is_named_with_its_line(fails: str, error: str):
    line = next(
        number
        for number, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if text.startswith("        raise {")
    )
    with pytest.raises(ConfigError) as found:
        make_env(fails, error=error)
    assert f"{fails} cannot be made: {__file__}, line {line}: {error}: " in str(found.value)
    assert "room" in str(found.value) and "--env-kwargs" in str(found.value)


class Strange(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper of others, whose constructor raises an error."""

    def __init__(self, env: gymnasium.Env[Any, Any]):
        super().__init__(env)
        raise KeyError("room")


def test_a_wrapper_of_others_that_fails_is_named_with_its_line():
    with pytest.raises(
        ConfigError, match=r"Strange' fails: .*test_making.py, line \d+: KeyError: 'room'"
    ):
        make_env("NumberLine-v0", wrap=[f"{__name__}:Strange"])


def test_an_error_of_a_registered_environment_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch):
    def fails(self: NumberLine, **kwargs: Any) -> None:
        raise KeyError("room")

    monkeypatch.setattr(NumberLine, "__init__", fails)
    with pytest.raises(KeyError):
        make_env("NumberLine-v0")
