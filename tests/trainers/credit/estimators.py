"""Every estimator there is, found rather than listed: a new one is tested as soon as it exists."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import is_dataclass

import numpy as np

from agentgym.trainers import credit, recipes
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.group import GiGPO
from agentgym.trainers.credit.returns import OwnTargets
from agentgym.trainers.credit.two_clock import poad
from agentgym.trainers.data.batch import CreditFn

from ...helpers.worlds import random_batch


def of_recipe(name: str) -> CreditFn | None:
    """The credit function of a recipe with its default settings; None if its hooks assign it."""
    module = recipes.load(name)
    return module.build(module.Config()).estimator


def of_package() -> dict[str, CreditFn]:
    """The estimators of `trainers/credit/`: its dataclasses that can be called on a batch, and its
    functions that return one, with their default settings."""
    modules = [
        importlib.import_module(f"{credit.__name__}.{info.name}")
        for info in pkgutil.iter_modules(credit.__path__)
    ]
    own = [
        v for m in modules for v in vars(m).values() if getattr(v, "__module__", "") == m.__name__
    ]
    kinds = {
        kind.__name__: kind
        for kind in own
        if inspect.isclass(kind)
        and is_dataclass(kind)
        and kind is not Given  # the hooks assign credit
        and kind is not OwnTargets  # made of two others
        and list(inspect.signature(kind.__call__).parameters)[1:3] == ["batch", "values"]
    }
    makers = [
        f for f in own if inspect.isfunction(f) and inspect.signature(f).return_annotation in kinds
    ]
    return {maker.__name__: maker() for maker in [*kinds.values(), *makers]}


def every_estimator() -> dict[str, CreditFn]:
    """Those of recipes, those of the package and some other settings; each once."""
    found = {
        name: credit for name in recipes.names() if (credit := of_recipe(name)) is not None
    } | of_package()
    found |= {
        "poad, lambda_token": poad(0.9, 0.8, 0.8),
        "gigpo over steps": GiGPO(statistics="steps"),
    }
    seen: set[str] = set()
    return {n: e for n, e in found.items() if repr(e) not in seen and not seen.add(repr(e))}


def reads_values(estimator: CreditFn) -> bool:
    """Whether an estimator needs a critic."""
    try:
        estimator(random_batch(np.random.default_rng(0)), None)
    except ValueError:
        return True
    return False


ESTIMATORS = every_estimator()
WITH_CRITIC = {name: e for name, e in ESTIMATORS.items() if reads_values(e)}
