"""The command find: tests and actions on files and folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from agentgym.envs.shell.arguments import Command, Input, bounded, number
from agentgym.envs.shell.patterns import Work, file_pattern
from agentgym.envs.shell.tree import MOST_DEPTH, Failed, Tree, Unknown
from agentgym.envs.shell.xargs import Runs

_NONE: Mapping[str, Command] = MappingProxyType({})
_KNOWN = (
    "-name, -iname, -path, -type, -size, -maxdepth, -mindepth, -empty, -not, -o, ( ), -prune, "
    "-print, -printf, -delete or -exec COMMAND {} \\;"
)
_TIMES = re.compile(r"-(newer\w*|daystart|([acm](min|time)))")
_OWNERS = re.compile(r"-(perm|user|group|nouser|nogroup|uid|gid|readable|writable|executable)")
_VALUED = ("-name", "-iname", "-path", "-ipath", "-wholename", "-type", "-size", "-printf")
_SIZE = re.compile(r"([+-]?)([0-9]{1,9})([ckMGwb]?)")
_UNITS = {"c": 1, "w": 2, "b": 512, "": 512, "k": 1024, "M": 1024**2, "G": 1024**3}
_FORMAT = re.compile(r"%(.?)|\\(.?)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
_ALL = ["{}", "+"]


@dataclass
class _Entry:
    """A file or folder.

    Attributes:
        full: the absolute path.
        shown: the path below the starting point, as it is printed.
        below: the path behind the starting point, which starts with a slash or is empty.
    """

    tree: Tree
    full: str
    shown: str
    below: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.shown.rstrip("/").rpartition("/")[2] or "/"

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return self.full in self.tree.folders

    @property
    def size(self) -> int:
        """The number of bytes."""
        if self.folder:
            raise Unknown("the size of a folder is not supported: write -type f before it")
        return len(self.tree.files[self.full].encode("utf-8", "replace"))


Test = Callable[[_Entry], bool]
"""A test or an action, which returns whether it succeeds."""


@dataclass
class _Search:
    """What is looked for, and what is done with it.

    Attributes:
        commands: the commands that actions may run.
        runs: the work that has been done.
        least: least depth below the starting point.
        most: most depth below it.
        acts: whether there is an action.
        deep: whether the content of a folder comes before it.
        together: words and files of the commands that run once for all files.
        pruned: folders whose content is left out.
        work: the work of its patterns.
    """

    commands: Mapping[str, Command]
    runs: Runs = field(default_factory=Runs)
    least: int = 0
    most: int = MOST_DEPTH
    acts: bool = False
    deep: bool = False
    together: list[tuple[list[str], list[str]]] = field(default_factory=list)
    pruned: set[str] = field(default_factory=set)
    work: Work = field(default_factory=Work)

    # Reading. The words that have been read are removed.

    def either(self, words: list[str], *, inner: bool = False) -> Test:
        """Reads tests with -o between them."""
        tests = [self.both(words)]
        while words and words[0] in ("-o", "-or"):
            del words[0]
            tests.append(self.both(words))
        if bool(words) != inner:
            raise Failed("a parenthesis is missing or too many")
        return tests[0] if len(tests) == 1 else lambda entry: any(test(entry) for test in tests)

    def both(self, words: list[str]) -> Test:
        """Reads tests that all have to succeed."""
        tests: list[Test] = []
        while not tests or (words and words[0] not in ("-o", "-or", ")")):
            if words and words[0] in ("-a", "-and") and tests:
                del words[0]
            kind, acts = words[:1], self.acts
            test = self.one(words)
            tests.insert(0 if kind == ["-type"] and not acts else len(tests), test)
        return lambda entry: all(test(entry) for test in tests)

    def one(self, words: list[str]) -> Test:
        """Reads a test or an action."""
        if not words:
            raise Failed("a test is missing")
        word = words.pop(0)
        if word in ("-not", "!"):
            if words and words[0] in ("-delete", "-maxdepth", "-mindepth", "-exec", "-print"):
                raise Unknown(f"{word} before {words[0]}")
            test = self.one(words)
            return lambda entry: not test(entry)
        if word == "(":
            test = self.either(words, inner=True)
            if words.pop(0) != ")":
                raise Failed("a parenthesis is missing")
            return test
        if word in (*_VALUED, "-maxdepth", "-mindepth") and not words:
            raise Failed(f"{word} needs a value")
        if word in ("-maxdepth", "-mindepth"):
            depth = number(words.pop(0))
            self.most, self.least = (
                (depth, self.least) if word == "-maxdepth" else (self.most, depth)
            )
            return lambda entry: True
        if word in _VALUED:
            return self.valued(word, words.pop(0))
        return self.plain(word, words)

    def valued(self, word: str, value: str) -> Test:
        """Returns a test with a value."""
        if word in ("-name", "-iname"):
            matches = _matcher(value, self.work, ignore_case=word == "-iname")
            return lambda entry: matches(entry.name)
        if word in ("-path", "-ipath", "-wholename"):
            matches = _matcher(value, self.work, ignore_case=word == "-ipath")
            return lambda entry: matches(entry.shown)
        if word == "-type":
            if value not in ("f", "d"):
                raise Unknown(f"unknown type {value[:40]!r}: use f or d")
            return lambda entry: entry.folder == (value == "d")
        if word == "-size":
            return _size_test(value)
        self.acts = True
        _FORMAT.sub(lambda match: _formatted(match, None), value)  # refuses what is not known
        return lambda entry: self.write(_FORMAT.sub(lambda m: _formatted(m, entry), value))

    def plain(self, word: str, words: list[str]) -> Test:
        """Returns a test or an action without a value."""
        if word == "-empty":
            return _is_empty
        if word == "-prune":
            return lambda entry: self.pruned.add(entry.full) is None
        if word in ("-true", "-false"):
            return lambda entry: word == "-true"
        if word == "-depth":
            self.deep = True
            return lambda entry: True
        if word in ("-print", "-print0"):
            self.acts, end = True, "\n" if word == "-print" else "\0"
            return lambda entry: self.write(entry.shown + end)
        if word == "-delete":
            self.acts = self.deep = True
            return self.delete
        if word == "-exec":
            self.acts = True
            return self.command(words)
        if _TIMES.fullmatch(word):
            raise Unknown(f"unknown test {word!r}: files have no times here")
        if _OWNERS.fullmatch(word):
            raise Unknown(f"unknown test {word!r}: files have no owners and modes here")
        raise Unknown(f"unknown test {word[:40]!r}: use {_KNOWN}")

    def command(self, words: list[str]) -> Test:
        """Returns an action that runs a command."""
        ends = (i for i, word in enumerate(words) if word == ";" or words[i - 1 : i + 1] == _ALL)
        end = next(ends, 0)
        run, together = words[:end], bool(end) and words[end] == "+"
        if not run or run == ["{}"]:
            raise Failed("-exec needs a command that ends in \\; or {} +")
        if run[0] not in self.commands:
            raise Unknown(f"-exec {run[0][:40]}: command not found")
        del words[: end + 1]
        if not together:
            return lambda entry: self.runs.run(
                entry.tree, [word.replace("{}", entry.shown) for word in run], self.commands
            )
        paths: list[str] = []
        self.together.append((run[:-1], paths))
        return lambda entry: paths.append(entry.shown) is None

    # Actions.

    def start(self, tree: Tree, path: str, test: Test) -> None:
        """Searches at and below a starting point."""
        try:
            _below(tree, path, self, test)
        except Unknown:
            raise
        except Failed as error:
            self.runs.fail(str(error))

    def write(self, text: str) -> bool:
        """Prints a text."""
        self.runs.output = bounded(self.runs.output + text)
        return True

    def delete(self, entry: _Entry) -> bool:
        """Removes a file or an empty folder, unless it is the current one."""
        tree, full = entry.tree, entry.full
        try:
            if full == tree.here:
                return True
            tree.check_removable(full)
            if full in tree.folders and any(tree.below(full)):
                raise Failed(f"{full[:200]}: Directory not empty")
            tree.remove(full)
        except Unknown:
            raise
        except Failed as error:
            self.runs.fail(str(error))
            return False
        return True


def find(
    tree: Tree, arguments: list[str], stdin: Input, *, commands: Mapping[str, Command] = _NONE
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
    while rest and not rest[0].startswith("-") and rest[0] not in ("!", "("):
        paths.append(rest.pop(0))
    search = _Search(commands)
    test = search.either(rest) if rest else lambda entry: True
    try:
        for path in paths or ["."]:
            search.start(tree, path, test)
    finally:
        stdin.work += search.work.count
    for words, found in search.together:
        if found and not search.runs.run(tree, [*words, *found], commands):
            search.runs.status = 1
    return search.runs.result()


def _below(tree: Tree, path: str, search: _Search, test: Test) -> None:
    """Searches at and below a starting point."""
    full = tree.existing(path)
    search.work.step(len(tree.files) + len(tree.folders))
    folders, files = tree.below(full) if full in tree.folders else ([], [])
    for each in sorted([full, *folders, *files], reverse=search.deep):
        below = each[len(full.rstrip("/")) :] if each != full else ""
        exists = each in tree.files or each in tree.folders  # else an action has removed it
        if not exists or not search.least <= below.count("/") <= search.most:
            continue
        if any(each.startswith(f"{folder}/") for folder in search.pruned) and not search.deep:
            continue
        entry = _Entry(tree, each, path.rstrip("/") + below if below else path, below)
        if test(entry) and not search.acts:
            search.write(f"{entry.shown}\n")


def _matcher(pattern: str, work: Work, *, ignore_case: bool) -> Callable[[str], bool]:
    """Returns a test of texts by a file name pattern."""
    if set(pattern) & set("*?[\\"):
        return file_pattern(pattern, work, ignore_case=ignore_case).fullmatch
    fold = str.lower if ignore_case else str
    return lambda text: fold(text) == fold(pattern)


def _size_test(value: str) -> Test:
    match = _SIZE.fullmatch(value)
    if match is None:
        raise Unknown(f"unknown size {value[:40]!r}: use +10c or -2k")
    sign, count, unit = match[1], int(match[2]), _UNITS[match[3]]

    def test(entry: _Entry) -> bool:
        size = -(-entry.size // unit)  # in full units, rounded up
        return size > count if sign == "+" else size < count if sign == "-" else size == count

    return test


def _is_empty(entry: _Entry) -> bool:
    tree, full = entry.tree, entry.full
    return not (any(tree.below(full)) if full in tree.folders else tree.files[full])


def _formatted(match: re.Match[str], entry: _Entry | None) -> str:
    """Returns the text of a directive of -printf for a file or folder."""
    letter, escaped = match.groups()
    if escaped is not None:
        if escaped not in _ESCAPES:
            raise Unknown(f"\\{escaped} is not supported in -printf")
        return _ESCAPES[escaped]
    if letter not in tuple("pfhPsdy%"):
        raise Unknown(f"%{letter} is not supported in -printf: use %p %f %h %P %s %d %y")
    if entry is None or letter == "%":
        return "%"
    above = entry.shown.rstrip("/").rpartition("/")[0]
    values: dict[str, Callable[[], object]] = {
        "p": lambda: entry.shown,
        "f": lambda: entry.name,
        "h": lambda: above or ("" if entry.shown.startswith("/") else "."),
        "P": lambda: entry.below[1:],
        "s": lambda: entry.size,
        "d": lambda: entry.below.count("/"),
        "y": lambda: "d" if entry.folder else "f",
    }
    return str(values[letter]())
