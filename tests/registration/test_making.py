"""`make_env`, by position and by keyword."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym import make_env
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
