from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from agentgym.errors import DataError, UnknownArgumentError
from agentgym.utils.arguments import keyword_parameters


def test_parameters_have_resolved_types_and_are_read_once():
    def make(size: int = 3, *rest: str, name: str | None = None) -> None: ...

    known = keyword_parameters(make)
    found = {name: (p.annotation, p.default) for name, p in known.items()}
    assert found == {"size": (int, 3), "name": (str | None, None)}
    assert keyword_parameters(make) is known


def test_parameters_of_base_classes_are_included_if_a_class_passes_arguments_on():
    class Base:
        def __init__(self, size: int, depth: int = 1): ...

    class Derived(Base):
        def __init__(self, size: float = 2.0, **kwargs: int): ...

    found = {name: p.annotation for name, p in keyword_parameters(Derived).items()}
    assert found == {"size": float, "depth": int}


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("Blocksworld-v0", "world"),
        ("VirtualHome-Entertainment-v0", "chore"),
        ("TextWorld-CoinCollector-v0", "kind"),
    ],
)
def test_arguments_that_a_subclass_sets_itself_are_unknown(id: str, name: str):
    options: dict[str, Any] = {name: "x"}
    with pytest.raises(UnknownArgumentError, match=f"unexpected keyword argument '{name}'"):
        gymnasium.make(f"AgentGym/{id}", **options)


@pytest.mark.parametrize("id", ["WebShop-v0", "Retail-v0", "Airline-v0"])
def test_a_folder_whose_name_is_too_long_is_missing(id: str):
    with pytest.raises(DataError):
        gymnasium.make(f"AgentGym/{id}", data_dir="x" * 100_000).reset(seed=0)
