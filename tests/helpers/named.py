"""`Named`: a string whose `str()` is another one, as that of a member of a `str, Enum`."""


class Named(str):
    """A string of its letters, which neither `str` nor a format shows."""

    __slots__ = ()

    def __str__(self) -> str:
        return "Class.NAME"

    def __format__(self, spec: str) -> str:
        return "Class.NAME"
