"""Runs command lines on a file tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentgym.envs.shell import file_commands, text_commands
from agentgym.envs.shell.arguments import bounded
from agentgym.envs.shell.find import find
from agentgym.envs.shell.parser import Call, Word, parse
from agentgym.envs.shell.patterns import NotSupported, PatternError
from agentgym.envs.shell.tree import HOME, Failed, Tree

Command = Callable[[Tree, list[str], str], str]
"""Returns the output of a command for a tree, its arguments and its input."""


def _find(tree: Tree, arguments: list[str], stdin: str) -> str:
    return find(tree, arguments, COMMANDS)


COMMANDS: dict[str, Command] = {
    **file_commands.LOOKING,
    "find": _find,
    **file_commands.COMMANDS,
    **text_commands.COMMANDS,
}


def run(tree: Tree, line: str, commands: Mapping[str, Command] = COMMANDS) -> tuple[str, bool]:
    """Runs a command line.

    Args:
        tree: the file tree, which the commands change.
        line: the command line.
        commands: the commands by name.

    Returns:
        The output with error messages, and whether the last command succeeded.

    Raises:
        Failed: for a syntax error or an unknown command, before any command runs.
    """
    pipelines = parse(line)
    for _, calls in pipelines:
        for call in calls:
            if call.words and call.words[0].text not in commands:
                raise Failed(f"{call.words[0].text[:100]}: command not found")
    shown, status = "", 0
    try:
        for operator, calls in pipelines:
            if (operator == "&&" and status) or (operator == "||" and not status):
                continue
            if not calls[0].empty:
                output, status = _pipeline(tree, calls, commands, status)
                shown = bounded(shown + output)
    except Failed as error:
        return f"{shown}sh: {error}\n", False
    return shown, status == 0


def _pipeline(
    tree: Tree, calls: list[Call], commands: Mapping[str, Command], before: int
) -> tuple[str, int]:
    """Returns the output of a pipeline with its error messages, and its status."""
    text, errors, status = "", "", 0
    values = {"HOME": HOME, "PWD": tree.here, "USER": HOME.rpartition("/")[2], "?": str(before)}
    for call in calls:
        try:
            stdin = text if call.source is None else tree.read(_only(call.source, tree, values))
            target = None if call.target is None else _only(call.target, tree, values)
            if target is not None:  # an old file is emptied before the command runs
                tree.write(target, "", append=call.append)
        except (Failed, PatternError) as error:
            text, errors, status = "", f"{errors}sh: {str(error)[:300]}\n", 1
            continue
        output, messages, status, loud = _run(tree, call, commands, values, stdin)
        text, merged = "", messages if call.merged and not loud else ""
        errors += "" if (call.merged or call.silent) and not loud else messages
        if call.merged == "file" or target is None:
            output, merged = merged + output, ""
        if target is None:
            text = output
        else:
            try:
                tree.write(target, output, append=True)
            except Failed as error:
                errors, status = f"{errors}sh: {str(error)[:300]}\n", 1
            text = merged
    return errors + text, status


def _only(word: Word, tree: Tree, values: Mapping[str, str]) -> str:
    """Returns the file of a redirection."""
    found = word.expanded(tree, values)
    if len(found) > 1:
        raise Failed(f"{word.text[:100]}: ambiguous redirect")
    return found[0]


def _run(
    tree: Tree,
    call: Call,
    commands: Mapping[str, Command],
    values: Mapping[str, str],
    stdin: str,
) -> tuple[str, str, int, bool]:
    """Returns the output, the error messages and the status of a command.

    The last value tells whether it asks for what is not supported. Its message is always shown.
    """
    if not call.words:
        return "", "", 0, False
    name = call.words[0].text
    try:
        arguments = [path for word in call.words[1:] for path in word.expanded(tree, values)]
        return bounded(commands[name](tree, arguments, stdin)), "", 0, False
    except (Failed, PatternError) as error:
        lines = [line for line in str(error).split("\n") if line]
        messages = "".join(f"{name}: {line[:300]}\n" for line in lines)
        status = getattr(error, "status", 1)
        return getattr(error, "output", ""), messages, status, isinstance(error, NotSupported)
