"""Commands on files and folders: ls, cd, pwd, find, mkdir, cp, mv, rm, touch, echo."""

from __future__ import annotations

from collections.abc import Callable

from agentgym.envs.shell.arguments import joined, number, options
from agentgym.envs.shell.patterns import file_pattern
from agentgym.envs.shell.tree import HOME, MOST_DEPTH, Failed, Tree, parent


def _pwd(tree: Tree, arguments: list[str], stdin: str) -> str:
    return f"{tree.here}\n"


def _cd(tree: Tree, arguments: list[str], stdin: str) -> str:
    target = tree.absolute(arguments[0] if arguments else HOME)
    if target not in tree.folders:
        reason = "Not a directory" if target in tree.files else "No such file or directory"
        raise Failed(f"{arguments[0][:200]}: {reason}")
    tree.here = target
    return ""


def _ls(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, paths = options(arguments, "a1lRAF")
    output, errors = "", []
    files = [path for path in paths if tree.absolute(path) in tree.files]
    output += joined(files)
    for path in paths or ["."]:
        full = tree.absolute(path)
        if full in tree.files:
            continue
        if full not in tree.folders:
            errors.append(f"{path[:200]}: No such file or directory")
            continue
        output += "\n" * bool(output)
        folders = [full, *(tree.below(full)[0] if "R" in found else [])]
        for folder in folders:
            if len(folders) > 1 or len(paths) > 1:
                output += f"{path.rstrip('/') or '/'}{folder[len(full.rstrip('/')) :]}:\n"
            output += _listed(tree, folder, found)
    if errors:
        raise Failed("; ".join(errors[:3]), output)
    return output


def _listed(tree: Tree, folder: str, found: dict[str, str]) -> str:
    lines = []
    for name in tree.names(folder):
        if name.startswith(".") and not {"a", "A"} & set(found):
            continue
        full = f"{folder.rstrip('/')}/{name}"
        shown = f"{name}/" if full in tree.folders else name
        size = len(tree.files.get(full, ""))
        lines.append(f"{size:>7} {shown}" if "l" in found else shown)
    return joined(lines)


def _find(tree: Tree, arguments: list[str], stdin: str) -> str:
    paths, rest = [], list(arguments)
    while rest and not rest[0].startswith("-"):
        paths.append(rest.pop(0))
    kinds, names, depth, delete = [], [], MOST_DEPTH, False
    while rest:
        test = rest.pop(0)
        if test == "-delete":
            delete = True
        elif test in ("-name", "-iname", "-type", "-maxdepth") and rest:
            value = rest.pop(0)
            if test == "-maxdepth":
                depth = number(value)
            elif test == "-type":
                kinds.append(value)
            else:
                names.append(_name_test(value, ignore_case=test == "-iname"))
        else:
            raise Failed(
                f"unknown test {test[:40]!r}: use -name, -iname, -type, -maxdepth or -delete"
            )
    for kind in kinds:
        if kind not in ("f", "d"):
            raise Failed(f"unknown type {kind[:40]!r}: use f or d")
    shown = []
    for path in paths or ["."]:
        full = tree.absolute(path)
        if full not in tree.folders and full not in tree.files:
            raise Failed(f"{path[:200]}: No such file or directory", joined(shown))
        folders, files = tree.below(full) if full in tree.folders else ([], [])
        for entry in sorted([full, *folders, *files], reverse=delete):  # what is in a folder first
            below = entry[len(full.rstrip("/")) :] if entry != full else ""
            found = path.rstrip("/") + below if below else path
            name = found.rstrip("/").rpartition("/")[2] or "/"
            if below.count("/") > depth or not all(test(name) for test in names):
                continue
            if any((entry in tree.folders) != (kind == "d") for kind in kinds):
                continue
            shown.append(found)
            if delete and entry != tree.here:
                _check_removable(tree, entry)
                if entry in tree.folders and any(tree.below(entry)):
                    raise Failed(f"{entry[:200]}: Directory not empty")
                tree.remove(entry)
    return "" if delete else joined(shown)


def _name_test(pattern: str, *, ignore_case: bool) -> Callable[[str], bool]:
    """Returns a test of names by a file name pattern."""
    if set(pattern) & set("*?[\\"):
        return file_pattern(pattern, ignore_case=ignore_case).fullmatch
    fold = str.lower if ignore_case else str
    return lambda name: fold(name) == fold(pattern)


def _mkdir(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, paths = options(arguments, "pv")
    for path in _some(paths):
        tree.make_folder(path, parents="p" in found)
    return ""


def _touch(tree: Tree, arguments: list[str], stdin: str) -> str:
    for path in _some(options(arguments, "")[1]):
        if tree.absolute(path) not in tree.folders:
            tree.write(path, "", append=True)
    return ""


def _rm(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, paths = options(arguments, "rRfv")
    for path in _some(paths) if "f" not in found else paths:
        full = tree.absolute(path)
        if full in tree.folders and not {"r", "R"} & set(found):
            raise Failed(f"{path[:200]}: Is a directory")
        if full not in tree.folders and full not in tree.files:
            if "f" in found:
                continue
            raise Failed(f"{path[:200]}: No such file or directory")
        _check_removable(tree, full)
        tree.remove(full)
    return ""


def _rmdir(tree: Tree, arguments: list[str], stdin: str) -> str:
    for path in _some(options(arguments, "")[1]):
        full = tree.absolute(path)
        if full not in tree.folders:
            raise Failed(f"{path[:200]}: No such directory")
        if tree.names(full):
            raise Failed(f"{path[:200]}: Directory not empty")
        _check_removable(tree, full)
        tree.remove(full)
    return ""


def _cp(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, paths = options(arguments, "rRafv")
    for full, target in _pairs(tree, paths):
        if full in tree.folders and not {"r", "R", "a"} & set(found):
            raise Failed(f"{full}: is a directory (use -r)")
        tree.copy_to(full, target)
    return ""


def _mv(tree: Tree, arguments: list[str], stdin: str) -> str:
    for full, target in _pairs(tree, options(arguments, "fv")[1]):
        _check_removable(tree, full)
        if target in tree.folders:
            raise Failed(f"{target}: File exists")
        tree.copy_to(full, target)
        tree.remove(full)
    return ""


def _pairs(tree: Tree, paths: list[str]) -> list[tuple[str, str]]:
    """Returns the absolute sources and targets of cp and mv."""
    if len(paths) < 2:
        raise Failed("expected a source and a target")
    *sources, last = paths
    target = tree.absolute(last)
    into = target in tree.folders
    if not into and (len(sources) > 1 or last.endswith("/")):
        raise Failed(f"{last[:200]}: No such directory")
    pairs = []
    for source in sources:
        full = tree.absolute(source)
        if full not in tree.files and full not in tree.folders:
            raise Failed(f"{source[:200]}: No such file or directory")
        end = f"{target.rstrip('/')}/{full.rpartition('/')[2]}" if into else target
        if end == full:
            raise Failed(f"{source[:200]}: source and target are the same")
        pairs.append((full, end))
    return pairs


def _check_removable(tree: Tree, full: str) -> None:
    if full == "/" or f"{tree.here}/".startswith(f"{full}/"):
        raise Failed(f"{full}: cannot remove or move the current folder or one above it")


def _some(paths: list[str]) -> list[str]:
    if not paths:
        raise Failed("expected a file or folder")
    return paths


def _echo(tree: Tree, arguments: list[str], stdin: str) -> str:
    bare = arguments[:1] == ["-n"]
    if arguments[:1] in (["-e"], ["-ne"], ["-en"]):
        raise Failed("unknown option -e: use quotes with a line break inside")
    return " ".join(arguments[bare:]) + "\n" * (not bare)


def _basename(tree: Tree, arguments: list[str], stdin: str) -> str:
    found, paths = options(arguments, "a", "s")
    paths, suffix = _some(paths), found.get("s", "")
    if not found:
        if len(paths) > 2:
            raise Failed(f"extra operand {paths[2][:200]!r}: several paths need -a")
        paths, suffix = paths[:1], "".join(paths[1:])
    names = [path.rstrip("/").rpartition("/")[2] or path[:1] for path in paths]
    return joined([name if name == suffix else name.removesuffix(suffix) for name in names])


def _dirname(tree: Tree, arguments: list[str], stdin: str) -> str:
    return joined([parent(path) if "/" in path else "." for path in _some(arguments)])


COMMANDS = {
    "pwd": _pwd,
    "cd": _cd,
    "ls": _ls,
    "find": _find,
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
