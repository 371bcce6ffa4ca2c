"""`BeforeReset`: the error of an attribute that is read before the first reset."""

from __future__ import annotations

from typing import Any, NoReturn


class BeforeReset:
    """Class attribute in place of an attribute that a reset sets: reading it raises an error.

    A `__getattr__` would raise the error too, but a class with one reads every attribute of its
    instances several times as slowly.

    Args:
        error: the type of the error.
        message: its text, in which "{}" is the name of the class.
    """

    def __init__(self, error: type[Exception], message: str):
        self.error, self.message = error, message

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise self.error(self.message.format(owner.__name__))
