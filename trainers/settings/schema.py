"""The settings of a configuration class by their flat names: which it has, and when they act.

A configuration class is a dataclass whose fields are settings, or groups of settings, which are
dataclasses too. It has the settings of its fields, except for those that it or a base class names
in `lacks`. A setting that means something only beside another one says so in its annotation, with
`When`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


@dataclass(frozen=True)
class When:
    """An annotation: the setting acts only beside some values of another one.

    Attributes:
        setting: the other setting, or a property of the configuration.
        values: its values with which the setting acts. Empty: all that are not zero, empty or None.
        but: values with which it does not act.
        of: names the values in messages, as in "a loaded model".
        remedy: names such a value in messages, as in "model to a folder".
    """

    setting: str
    values: tuple[Any, ...] = ()
    but: tuple[Any, ...] = ()
    of: str = ""
    remedy: str = ""

    def holds(self, value: Any) -> bool:
        """Returns whether the annotated setting acts beside a value of the other one."""
        if self.values:
            return value in self.values
        return value not in self.but if self.but else bool(value)

    def advice(self, name: str) -> str:
        """Returns a sentence that names the setting, where it belongs and the remedy."""
        value = f" {self.values[0]}" if self.values else ""
        of = self.of or f"{self.setting}{value}"
        remedy = self.remedy or f"{self.setting} to {self.values[0]}" if value else self.remedy
        return f"{name} belongs to {of}: set {remedy or self.setting}, or leave out {name}."


@dataclass(frozen=True, eq=False)  # hashed by identity: values may be dictionaries
class Needs:
    """An annotation: the setting works only beside certain values of others.

    Attributes:
        because: the reason, in a sentence that begins with the value of the setting.
        others: the value that each of them must have. They are settings, or properties of the
            configuration, for which `remedy` names the settings to change.
        of: the values of the annotated setting that need them. Empty: all that switch it on.
        remedy: names the values to set in messages, as in "opponents to 'mirror'".
    """

    because: str
    others: Mapping[str, Any]
    of: tuple[Any, ...] = ()
    remedy: str = ""

    def concerns(self, value: Any) -> bool:
        """Returns whether a value of the annotated setting needs the others."""
        return value in self.of if self.of else bool(value)

    def advice(self, name: str, value: Any, default: Any, unmet: Mapping[str, Any]) -> str:
        """Returns a sentence that names the setting, the reason and the remedies."""
        shown = self.remedy or ", ".join(f"{key} to {each!r}" for key, each in unmet.items())
        return f"With {name} = {value!r}, {self.because}: set {shown}, or {name} to {default!r}."


def needs(because: str, remedy: str = "", of: tuple[Any, ...] = (), **others: Any) -> Needs:
    """Returns the annotation of a setting that works only beside certain values of others."""
    return Needs(because, others, of, remedy)


@dataclass(frozen=True)
class Setting:
    """A setting of a configuration class.

    Attributes:
        name: its flat name.
        group: the name of its group, "" for a field of the configuration class itself.
        owner: the dataclass that declares it.
        hint: its type, with bounds.
        default: its default in the configuration class.
        conditions: the settings beside which it acts.
        needs: the settings beside which it works.
    """

    name: str
    group: str
    owner: type
    hint: Any
    default: Any
    conditions: tuple[When, ...] = ()
    needs: tuple[Needs, ...] = ()

    @property
    def help(self) -> str:
        """The docstring below the field."""
        return field_docs(self.owner).get(self.name, "")

    @property
    def several(self) -> bool:
        """Whether it takes any number of values, and not one value or several."""
        hint = self.hint
        while get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        many = (get_origin(each) is dict or get_args(each)[1:] == (...,) for each in kinds)
        return str not in kinds and any(many)


@cache
def groups_of(kind: type) -> dict[str, type]:
    """Returns the groups of settings of a configuration class, by the names of its fields."""
    made = {each.name: each.default_factory for each in fields(kind)}
    values = {name: make() for name, make in made.items() if callable(make)}
    return {name: type(value) for name, value in values.items() if is_dataclass(value)}


@cache
def group_of(kind: type) -> dict[str, str]:
    """Returns the group of each grouped setting of a configuration class."""
    return {each.name: each.group for each in settings_of(kind).values() if each.group}


@cache
def settings_of(kind: type) -> dict[str, Setting]:
    """Returns the settings that a configuration class has, by their flat names."""
    declared = _declared(kind)
    lacking = _lacking(kind, declared)
    return {name: each for name, each in declared.items() if name not in lacking}


@cache
def lacking_settings(kind: type) -> dict[str, Setting]:
    """Returns the settings in the groups of a configuration class that it does not have."""
    known = settings_of(kind)
    return {name: each for name, each in _declared(kind).items() if name not in known}


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """Returns the types of the fields of a dataclass, with their bounds and conditions."""
    return get_type_hints(kind, include_extras=True)


@cache
def _declared(kind: type) -> dict[str, Setting]:
    """Returns the fields of a configuration class and of its groups, by their flat names."""
    return {each.name: each for each in _fields(kind)}


def _fields(kind: type) -> Iterator[Setting]:
    groups, own = groups_of(kind), hints_of(kind)
    for each in fields(kind):
        default: Any = each.default_factory() if callable(each.default_factory) else each.default
        if each.name not in groups:
            yield _setting(kind, each.name, "", kind, own[each.name], default)
            continue
        hints = hints_of(type(default))
        for name in (inner.name for inner in fields(default)):
            value = getattr(default, name)
            yield _setting(kind, name, each.name, type(default), hints[name], value)


def _setting(kind: type, name: str, group: str, owner: type, hint: Any, default: Any) -> Setting:
    """Returns a setting with the conditions in its annotation and those that the class adds."""
    added = (vars(base).get("conditions", {}).get(name) for base in kind.__mro__)
    conditions = (*_extras(hint, When), *(when for when in added if when is not None))
    return Setting(name, group, owner, hint, default, conditions, _extras(hint, Needs))


def _lacking(kind: type, declared: Mapping[str, Setting]) -> set[str]:
    """Returns the names in `lacks` of a class and its bases, and the settings that need them."""
    named = {name for base in kind.__mro__ for name in vars(base).get("lacks", ())}
    lacking = {each.name for each in declared.values() if {each.name, each.group} & named}
    while True:
        more = {
            each.name
            for each in declared.values()
            for when in each.conditions
            if when.setting in lacking and not when.holds(declared[when.setting].default)
        }
        if more <= lacking:
            return lacking
        lacking |= more


def _extras(hint: Any, kind: type[T]) -> tuple[T, ...]:
    """Returns the extras of a type in an annotation."""
    if get_origin(hint) is not Annotated:
        return ()
    inner, *extras = get_args(hint)
    return (*_extras(inner, kind), *(each for each in extras if isinstance(each, kind)))


def field_docs(kind: type) -> dict[str, str]:
    """Returns the docstrings below the fields of a dataclass and of its bases, in one line each."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            found |= _own_docs(base)
    return found


@cache
def _own_docs(kind: type) -> dict[str, str]:
    """Returns the docstrings below the fields of a dataclass itself, in one line each."""
    found: dict[str, str] = {}
    [body] = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for node, following in pairwise(body.body):
        match node, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def all_but(group: type, *names: str) -> tuple[str, ...]:
    """Returns the names of the settings in a group except some of them, for `lacks`."""
    return tuple(each.name for each in fields(group) if each.name not in names)


def defaults(group: type, **changes: Any) -> Any:
    """Returns a dataclass field for a group of settings with other defaults.

    Args:
        group: the dataclass of the group.
        **changes: the settings that differ, by name.
    """
    group(**changes)  # an unknown name fails where the recipe is defined
    return field(default_factory=lambda: group(**changes))


def is_set(value: Any) -> bool:
    """Returns whether a setting has a value: it is neither None, "none" nor empty."""
    return value not in (None, "none") and not (isinstance(value, Collection) and not value)
