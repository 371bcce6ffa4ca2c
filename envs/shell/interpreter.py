"""Runs command lines on a file tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentgym.envs.shell import file_commands, text_commands
from agentgym.envs.shell.arguments import bounded
from agentgym.envs.shell.parser import Call, parse
from agentgym.envs.shell.patterns import PatternError
from agentgym.envs.shell.tree import Failed, Tree

Command = Callable[[Tree, list[str], str], str]
"""Returns the output of a command for a tree, its arguments and its input."""

COMMANDS: dict[str, Command] = {**file_commands.COMMANDS, **text_commands.COMMANDS}


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
    shown, good = "", True
    try:
        for operator, calls in pipelines:
            if (operator == "&&" and not good) or (operator == "||" and good):
                continue
            if calls[0].words or calls[0].target:
                output, good = _pipeline(tree, calls, commands)
                shown = bounded(shown + output)
    except Failed as error:
        return f"{shown}sh: {error}\n", False
    return shown, good


def _pipeline(tree: Tree, calls: list[Call], commands: Mapping[str, Command]) -> tuple[str, bool]:
    text, errors, good = "", "", True
    for call in calls:
        name = call.words[0].text if call.words else ""
        arguments = [path for word in call.words[1:] for path in word.expanded(tree)]
        try:
            stdin = text if call.source is None else tree.read(call.source.text)
            text, good = "", True
            if name:
                text = bounded(commands[name](tree, arguments, stdin))
        except (Failed, PatternError) as error:
            text, good = getattr(error, "output", ""), False
            message = f"{name}: {str(error)[:300]}\n" if str(error) else ""
            if call.merged:
                text = message + text
            elif not call.silent:
                errors += message
        if call.target is not None:
            tree.write(call.target.text, text, append=call.append)
            text = ""
    return errors + text, good
