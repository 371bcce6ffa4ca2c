"""The command find: tests and actions on files and folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from agentgym.envs.shell.arguments import bounded, number
from agentgym.envs.shell.patterns import PatternError, file_pattern
from agentgym.envs.shell.tree import MOST_DEPTH, Failed, Tree, Unknown

Run = Callable[[Tree, list[str], str], str]
_NONE: Mapping[str, Run] = MappingProxyType({})
MOST_WORK = 1_000_000
"""Number of characters that the commands of one search may read."""
_KNOWN = (
    "-name, -iname, -type, -maxdepth, -mindepth, -empty, -not, -print, -delete or "
    "-exec COMMAND {} \\;"
)


@dataclass
class _Search:
    """What is looked for, and what is done with it.

    Attributes:
        tests: (tree, absolute path, name) -> whether a file or folder is meant.
        least: least depth below the starting point.
        most: most depth below it.
        actions: "print", "delete", or the words of a command.
    """

    tests: list[Callable[[Tree, str, str], bool]] = field(default_factory=list)
    least: int = 0
    most: int = MOST_DEPTH
    actions: list[str | tuple[list[str], bool]] = field(default_factory=list)


def with_find(commands: Mapping[str, Run]) -> dict[str, Run]:
    """Returns commands whose find runs each of them with `-exec`."""
    known = dict(commands)
    known["find"] = partial(find, commands=known)
    return known


def find(
    tree: Tree, arguments: list[str], stdin: str = "", *, commands: Mapping[str, Run] = _NONE
) -> str:
    """Returns the output of find.

    Args:
        tree: the file tree.
        arguments: starting points, tests and actions.
        stdin: its input, which it does not read.
        commands: the commands that `-exec` may run.

    Raises:
        Failed: if a starting point or an action fails.
        Unknown: for another test or action, or a command that is not known.
    """
    paths, rest = [], list(arguments)
    while rest and not rest[0].startswith("-") and rest[0] != "!":
        paths.append(rest.pop(0))
    search = _search(rest, commands)
    done = _Done()
    for path in paths or ["."]:
        try:
            _below(tree, path, search, commands, done)
        except Unknown:
            raise
        except Failed as error:
            done.fail(str(error))
    for place, names in done.together.items():
        if not done.run(tree, [*search.actions[place][0], *names], commands):
            done.status = 1
    if done.errors or done.status:
        raise Failed("\n".join(done.errors), done.output, done.status)
    return done.output


def _search(rest: list[str], commands: Mapping[str, Run]) -> _Search:
    """Returns the search that words describe."""
    search, negated = _Search(), False
    while rest:
        word = rest.pop(0)
        if word in ("-name", "-iname", "-type", "-maxdepth", "-mindepth") and not rest:
            raise Failed(f"{word} needs a value")
        test: Callable[[Tree, str, str], bool] | None = None
        if word in ("-not", "!"):
            negated = not negated
            continue
        if word in ("-a", "-and") and not negated:
            continue
        if word in ("-name", "-iname"):
            test = _name_test(rest.pop(0), ignore_case=word == "-iname")
        elif word == "-type":
            test = _type_test(rest.pop(0))
        elif word == "-empty":
            test = _is_empty
        elif word in ("-maxdepth", "-mindepth") and not negated:
            depth = number(rest.pop(0))
            if word == "-maxdepth":
                search.most = depth
            else:
                search.least = depth
        elif word in ("-print", "-delete") and not negated:
            search.actions.append(word[1:])
        elif word == "-exec" and not negated:
            search.actions.append(_command(rest, commands))
        else:
            raise Unknown(f"unknown test {word[:40]!r}: use {_KNOWN}")
        if test is not None:
            if search.actions:
                raise Unknown(f"{word} behind an action: write tests first")
            search.tests.append(_not(test) if negated else test)
            negated = False
    if negated:
        raise Failed("-not needs a test")
    search.actions = search.actions or ["print"]
    return search


def _command(rest: list[str], commands: Mapping[str, Run]) -> tuple[list[str], bool]:
    """Returns the words of a command, and whether it runs once for all files."""
    end = next((i for i, word in enumerate(rest) if word == ";" or rest[i - 1 : i + 1] == _ALL), 0)
    words, together = rest[:end], bool(end) and rest[end] == "+"
    if not words or words == ["{}"]:
        raise Failed("-exec needs a command that ends in \\; or {} +")
    if words[0] not in commands or words[0] == "cd":  # which is part of the shell
        raise Unknown(f"-exec {words[0][:40]}: command not found")
    del rest[: end + 1]
    return (words[:-1] if together else words), together


_ALL = ["{}", "+"]


def _name_test(pattern: str, *, ignore_case: bool) -> Callable[[Tree, str, str], bool]:
    """Returns a test of names by a file name pattern."""
    if set(pattern) & set("*?[\\"):
        meant = file_pattern(pattern, ignore_case=ignore_case)
        return lambda tree, full, name: meant.fullmatch(name)
    fold = str.lower if ignore_case else str
    return lambda tree, full, name: fold(name) == fold(pattern)


def _type_test(kind: str) -> Callable[[Tree, str, str], bool]:
    if kind not in ("f", "d"):
        raise Unknown(f"unknown type {kind[:40]!r}: use f or d")
    return lambda tree, full, name: (full in tree.folders) == (kind == "d")


def _is_empty(tree: Tree, full: str, name: str) -> bool:
    return not (any(tree.below(full)) if full in tree.folders else tree.files[full])


def _not(test: Callable[[Tree, str, str], bool]) -> Callable[[Tree, str, str], bool]:
    return lambda tree, full, name: not test(tree, full, name)


@dataclass
class _Done:
    """What a search has done.

    Attributes:
        work: number of characters that its commands may have read.
        output: the output.
        errors: the messages.
        status: the exit status.
        together: files for each action that runs once for all.
    """

    output: str = ""
    errors: list[str] = field(default_factory=list)
    status: int = 0
    together: dict[int, list[str]] = field(default_factory=dict)
    work: int = 0

    def fail(self, message: str) -> None:
        """Adds an error of the search itself."""
        self.errors.append(message)
        self.status = 1

    def run(self, tree: Tree, words: list[str], commands: Mapping[str, Run]) -> bool:
        """Runs a command, and returns whether it succeeds."""
        self.work += _work(tree, words)
        if self.work > MOST_WORK:
            raise Unknown("-exec reads too much: search fewer files, or run the command once")
        try:
            self.output = bounded(self.output + commands[words[0]](tree, words[1:], ""))
        except Unknown:
            raise
        except (Failed, PatternError) as error:
            self.errors += [f"{words[0]}: {line}" for line in str(error).split("\n") if line]
            self.output = bounded(self.output + getattr(error, "output", ""))
            return False
        return True


def _work(tree: Tree, words: list[str]) -> int:
    """Returns a bound of the characters that a command reads, with 1,000 for its start."""
    deep = words[0] in ("find", "ls")
    deep = deep or any(word[:1] == "-" and ("r" in word or "R" in word) for word in words)
    total = 1000
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


def _below(
    tree: Tree, path: str, search: _Search, commands: Mapping[str, Run], done: _Done
) -> None:
    """Searches at and below a starting point."""
    full = tree.existing(path)
    folders, files = tree.below(full) if full in tree.folders else ([], [])
    deletes = "delete" in search.actions
    for entry in sorted([full, *folders, *files], reverse=deletes):  # content before its folder
        below = entry[len(full.rstrip("/")) :] if entry != full else ""
        shown = path.rstrip("/") + below if below else path
        name = shown.rstrip("/").rpartition("/")[2] or "/"
        exists = entry in tree.files or entry in tree.folders  # else an action has removed it
        if not exists or not search.least <= below.count("/") <= search.most:
            continue
        if not all(test(tree, entry, name) for test in search.tests):
            continue
        for place, action in enumerate(search.actions):
            if action == "print":
                done.output = bounded(f"{done.output}{shown}\n")
            elif action == "delete":
                try:
                    delete(tree, entry)
                except Failed as error:
                    done.fail(str(error))
            elif action[1]:
                done.together.setdefault(place, []).append(shown)
            elif not done.run(tree, [w.replace("{}", shown) for w in action[0]], commands):
                break  # it is a test, too


def delete(tree: Tree, full: str) -> None:
    """Removes a file or an empty folder, unless it is the current one."""
    if full == tree.here:
        return
    tree.check_removable(full)
    if full in tree.folders and any(tree.below(full)):
        raise Failed(f"{full[:200]}: Directory not empty")
    tree.remove(full)
