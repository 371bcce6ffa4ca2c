"""Commands on files and folders: ls, cd, pwd, find, mkdir, cp, mv, rm, touch, echo."""

from __future__ import annotations

import re
from collections.abc import Callable

from agentgym.envs.shell.arguments import Command, Input, joined, options, per_operand, some
from agentgym.envs.shell.find import find
from agentgym.envs.shell.formats import unescaped
from agentgym.envs.shell.tree import HOME, Failed, Tree, Unknown


def _pwd(tree: Tree, arguments: list[str], stdin: Input) -> str:
    return f"{tree.here}\n"


def _cd(tree: Tree, arguments: list[str], stdin: Input) -> str:
    if len(arguments) > 1:
        raise Failed("too many arguments")
    path = arguments[0] if arguments else HOME
    if path.startswith("-"):
        raise Unknown(f"{path[:40]}: options and - are not supported")
    full = tree.existing(path)
    if full in tree.files:
        raise Failed(f"{path[:200]}: Not a directory")
    tree.here = full
    return ""


_LS_NAMES = {"--all": "a", "--almost-all": "A", "--recursive": "R", "--reverse": "r"}


def _ls(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, paths = options(arguments, "a1lRAFdrShp", names=_LS_NAMES)
    status: list[Failed] = []
    folders, files = [], []
    for path in _ordered(tree, sorted(paths or ["."]), "", found):
        try:
            full = tree.existing(path)
        except Failed as error:
            status.append(error)
            continue
        kept = files if full in tree.files or "d" in found else folders
        kept.append((path, full))
    output = joined([_entry(tree, path, full, found) for path, full in files])
    for path, full in folders:
        below = [full, *(tree.below(full)[0] if "R" in found else [])]
        for folder in below:
            inside = folder[len(full.rstrip("/")) :] if folder != full else ""
            if not {"a", "A"} & set(found) and "/." in inside:
                continue
            output += "\n" * bool(output)
            if "R" in found or len(paths) > 1:
                output += f"{path.rstrip('/') if inside else path}{inside}:\n"
            output += _listed(tree, folder, found)
    if status:
        raise Failed("\n".join(map(str, status)), output, 2)
    return output


def _listed(tree: Tree, folder: str, found: dict[str, str]) -> str:
    names = tree.names(folder)
    if not {"a", "A"} & set(found):
        names = [name for name in names if not name.startswith(".")]
    if "a" in found:
        names = sorted([".", "..", *names])
    before = folder.rstrip("/")
    names = _ordered(tree, names, f"{before}/", found)
    return joined([_entry(tree, name, f"{before}/{name}", found) for name in names])


def _entry(tree: Tree, name: str, full: str, found: dict[str, str]) -> str:
    """Returns the line of a file or folder."""
    mark = "/" * (tree.absolute(full) in tree.folders and not name.endswith("/"))
    amount = len(tree.files.get(full, ""))
    shown = _human(amount) if "h" in found else str(amount)
    size = f"{shown:>7} " if "l" in found else ""
    return f"{size}{name}{mark}"


def _ordered(tree: Tree, names: list[str], before: str, found: dict[str, str]) -> list[str]:
    """Returns names in the order of -S, which puts large files first, and of -r."""
    if "S" in found:

        def size(name: str) -> int:
            try:
                full = tree.absolute(before + name)
            except Failed:
                return 0
            if full in tree.folders:
                raise Unknown("option -S with folders is not supported: name the files")
            return len(tree.files.get(full, ""))

        names = sorted(names, key=size, reverse=True)
    return names[::-1] if "r" in found else names


def _human(size: int) -> str:
    """Returns a size with a unit, rounded up, as `ls -h` does."""
    if size < 1024:
        return str(size)
    tenths = -(-size * 10 // 1024)
    return f"{tenths // 10}.{tenths % 10}K" if tenths < 100 else f"{-(-size // 1024)}K"


def _mkdir(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, paths = options(arguments, "p")

    def make(path: str) -> str:
        tree.make_folder(path, parents="p" in found)
        return ""

    return per_operand(some(paths), make)


def _touch(tree: Tree, arguments: list[str], stdin: Input) -> str:
    def touch(path: str) -> str:
        if tree.absolute(path) not in tree.folders:
            tree.write(path, "", append=True)
        return ""

    return per_operand(some(options(arguments, "")[1]), touch)


def _rm(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, paths = options(arguments, "rRf")

    def remove(path: str) -> str:
        try:
            full = tree.existing(path)
        except Failed:
            if "f" in found:
                return ""
            raise
        if full in tree.folders and not {"r", "R"} & set(found):
            raise Failed(f"{path[:200]}: Is a directory")
        tree.check_removable(full)
        tree.remove(full)
        return ""

    return per_operand(some(paths) if "f" not in found else paths, remove)


def _rmdir(tree: Tree, arguments: list[str], stdin: Input) -> str:
    def remove(path: str) -> str:
        full = tree.existing(path)
        if full in tree.files:
            raise Failed(f"{path[:200]}: Not a directory")
        if tree.names(full):
            raise Failed(f"{path[:200]}: Directory not empty")
        tree.check_removable(full)
        tree.remove(full)
        return ""

    return per_operand(some(options(arguments, "")[1]), remove)


def _cp(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, paths = options(arguments, "rRafp")

    def copy(full: str, target: str) -> None:
        if full in tree.folders and not {"r", "R", "a"} & set(found):
            raise Failed(f"{full}: is a directory (use -r)")
        tree.copy_to(full, target)

    return _pairs(tree, paths, copy)


def _mv(tree: Tree, arguments: list[str], stdin: Input) -> str:
    def move(full: str, target: str) -> None:
        tree.check_removable(full)
        if target in tree.folders:
            if full in tree.files:
                raise Failed(f"{target[:200]}: Is a directory")
            if tree.names(target):
                raise Failed(f"{target[:200]}: Directory not empty")
        tree.copy_to(full, target)
        tree.remove(full)

    return _pairs(tree, options(arguments, "f")[1], move)


def _pairs(tree: Tree, paths: list[str], act: Callable[[str, str], None]) -> str:
    """Calls a function with the absolute source and target for each source of cp and mv."""
    if len(paths) < 2:
        raise Failed("expected a source and a target")
    *sources, last = paths
    target = tree.absolute(last)
    into = target in tree.folders
    if not into and len(sources) > 1:
        raise Failed(f"{last[:200]}: No such directory")

    def one(source: str) -> str:
        full = tree.existing(source)
        if not into and last.endswith("/") and full in tree.files:
            raise Failed(f"{last[:200]}: No such directory")
        end = f"{target.rstrip('/')}/{full.rpartition('/')[2]}" if into else target
        if end == full:
            raise Failed(f"{source[:200]}: source and target are the same")
        act(full, end)
        return ""

    return per_operand(sources, one)


def _echo(tree: Tree, arguments: list[str], stdin: Input) -> str:
    words, letters = list(arguments), ""
    while words and re.fullmatch("-[neE]+", words[0]):
        letters += words.pop(0)[1:]
    text = " ".join(words)
    if letters.replace("n", "").endswith("e"):
        text = unescaped(text)
    return text + "\n" * ("n" not in letters)


def _basename(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, paths = options(arguments, "a", "s")
    paths, suffix = some(paths), found.get("s", "")
    if not found:
        if len(paths) > 2:
            raise Failed(f"extra operand {paths[2][:200]!r}: several paths need -a")
        paths, suffix = paths[:1], "".join(paths[1:])
    names = [path.rstrip("/").rpartition("/")[2] or path[:1] for path in paths]
    return joined([name if name == suffix else name.removesuffix(suffix) for name in names])


def _dirname(tree: Tree, arguments: list[str], stdin: Input) -> str:
    paths = some(options(arguments, "")[1])
    return joined([_above(path.rstrip("/") or path[:1]) for path in paths])


def _above(path: str) -> str:
    """Returns the folder of a path as dirname does, which looks at the text alone."""
    before, slash, _ = path.rpartition("/")
    return (before.rstrip("/") or "/") if slash else "."


COMMANDS: dict[str, Command] = {
    "pwd": _pwd,
    "cd": _cd,
    "ls": _ls,
    "find": find,
    "mkdir": _mkdir,
    "rmdir": _rmdir,
    "touch": _touch,
    "rm": _rm,
    "cp": _cp,
    "mv": _mv,
    "echo": _echo,
    "basename": _basename,
    "dirname": _dirname,
}
