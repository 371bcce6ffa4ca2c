from __future__ import annotations

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
