"""What is checked before a command line runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from agentgym.envs.shell.syntax import Block, Call, Expansion, Pipeline, Word
from agentgym.envs.shell.tree import Failed, Tree

VARIABLES = ("HOME", "PWD", "USER", "?")
"""The variables that are always set. `?` is the status of the last command."""
_SETTERS = ("read", "export")
_COSTLY = {"nc": 100_000}
"""Work of commands that ask another computer, where a loop must not guess passwords."""


def check(pipelines: list[Pipeline], commands: Collection[str], *, arguments: bool) -> None:
    """Checks that the commands and variables of a line are known.

    Args:
        pipelines: the commands.
        commands: the names of all commands.
        arguments: whether `$1` and its like are known.

    Raises:
        Failed: for another command or variable.
    """
    calls = [call for pipeline in pipelines for call in _calls(pipeline)]
    for call in calls:
        first = call.words[0] if call.words else None
        if first is not None and first.fixed and first.text not in commands:
            raise Failed(f"{first.text[:100]}: command not found")
    known = {*VARIABLES, "IFS", *(name for call in calls for name in _names(call))}
    for call in calls:
        for word in _words(call):
            for part in word.pieces:
                if isinstance(part, Expansion) and part.kind == "variable":
                    _check_name(part, known, arguments)


def _check_name(part: Expansion, known: set[str], arguments: bool) -> None:
    name = part.name
    if name in known or part.operator == ":-" or (arguments and not name.isidentifier()):
        return
    names = ", ".join(f"${name}" for name in VARIABLES)
    raise Failed(f"${name[:40]} is not set in this line: the other variables are {names}")


def _calls(pipeline: Pipeline) -> Iterator[Call]:
    """Returns all commands of a pipeline, also those within them."""
    for call in pipeline.calls:
        yield call
        for word in _words(call):
            for inner in word.commands:
                yield from _calls(inner)
        for inner in [p for part in call.block.parts for p in part] if call.block else ():
            yield from _calls(inner)


def _words(call: Call) -> Iterator[Word]:
    """Returns the words of a command, also those within its words, but not its commands."""
    block = call.block or Block("")
    left = [*call.words, *block.words, *(word for *_, word in call.assignments)]
    left += [word for word in (call.source, call.text, call.target) if word is not None]
    while left:
        word = left.pop(0)
        yield word
        for part in word.pieces:
            left += part.rest if isinstance(part, Expansion) else []


def _names(call: Call) -> Iterator[str]:
    """Returns the variables that a command sets."""
    yield from (name for name, _, _ in call.assignments)
    if call.block is not None and call.block.name:
        yield call.block.name
    if call.words and call.words[0].text in _SETTERS:
        yield from (word.text.partition("=")[0] for word in call.words[1:])
        yield "REPLY"


def work(tree: Tree, words: list[str]) -> int:
    """Returns a bound of the characters that a command reads, with 1,000 for its start."""
    deep = words[0] in ("find", "ls")
    deep = deep or any(word[:1] == "-" and ("r" in word or "R" in word) for word in words)
    total = _COSTLY.get(words[0], 1000)
    for word in (*words[1:], *(["."] if deep else [])):
        try:
            full = tree.absolute(word)
        except Failed:
            continue
        total += len(tree.files.get(full, ""))
        if deep and full in tree.folders:
            total += len(tree.files) + len(tree.folders)
            total += sum(len(tree.files[file]) for file in tree.below(full)[1])
    return total
