"""The command diff, with the normal format of its output."""

from __future__ import annotations

import re

from agentgym.envs.shell.arguments import Input, bounded, options
from agentgym.envs.shell.tree import Failed, Tree, Unknown

MOST_CELLS = 250_000
"""Number of pairs of lines that are compared."""
_NAMES = {"--brief": "q", "--recursive": "r", "--report-identical-files": "s"}
_UNENDED = "\\ No newline at end of file\n"


def diff(tree: Tree, arguments: list[str], stdin: Input) -> str:
    """Returns how two files or folders differ.

    Raises:
        Failed: with the output, if they differ or cannot be read.
    """
    found, paths = options(arguments, "qrs", names=_NAMES)
    if len(paths) != 2:
        raise Failed("expected two files or folders", status=2)
    switches = " ".join(word for word in arguments if word.startswith("-") and word != "-")
    first, second = paths
    try:
        folders = [path != "-" and tree.existing(path) in tree.folders for path in paths]
        if folders[0] != folders[1]:  # the file of the same name in the folder
            place = folders.index(True)
            name = paths[1 - place].rstrip("/").rpartition("/")[2]
            paths[place] = f"{paths[place].rstrip('/')}/{name}"
            first, second = paths
        if all(folders):
            output = _folders(tree, first, second, found, switches)
        else:
            old, new = (stdin.read() if path == "-" else tree.read(path) for path in paths)
            output = _files(first, second, old, new, found, "")
    except Unknown:
        raise
    except Failed as error:
        raise Failed(str(error), status=2) from None
    same = all(line.endswith(" are identical") for line in output.splitlines())
    if not same:
        raise Failed("", output)
    return output


def _files(first: str, second: str, old: str, new: str, found: dict[str, str], header: str) -> str:
    if old == new:
        return f"Files {first} and {second} are identical\n" if "s" in found else ""
    if "q" in found:
        return f"Files {first} and {second} differ\n"
    return header + _hunks(_lines(old), _lines(new))


def _folders(tree: Tree, first: str, second: str, found: dict[str, str], switches: str) -> str:
    starts = [path.rstrip("/") + "/" for path in (first, second)]
    here = [set(tree.names(tree.existing(path))) for path in (first, second)]
    output = ""
    for name in sorted(here[0] | here[1]):
        paths = (starts[0] + name, starts[1] + name)
        if not (name in here[0] and name in here[1]):
            output += f"Only in {(first, second)[name in here[1]]}: {name}\n"
            continue
        folders = [tree.absolute(path) in tree.folders for path in paths]
        if all(folders) and "r" in found:
            output += _folders(tree, paths[0], paths[1], found, switches)
        elif all(folders):
            output += f"Common subdirectories: {paths[0]} and {paths[1]}\n"
        elif any(folders):
            kinds = ["directory" if f else "regular file" for f in folders]
            raise Unknown(f"a {kinds[0]} against a {kinds[1]} is not supported: {name[:100]}")
        else:
            header = f"diff {switches} {paths[0]} {paths[1]}\n".replace("  ", " ")
            output += _files(*paths, tree.read(paths[0]), tree.read(paths[1]), found, header)
        output = bounded(output)
    return output


def _lines(text: str) -> list[str]:
    """Returns the lines, of which an unended one has a mark behind it."""
    rows = re.findall(r"[^\n]*\n|[^\n]+", text)
    return [row if row.endswith("\n") else f"{row}\n{_UNENDED}" for row in rows]


def _hunks(old: list[str], new: list[str]) -> str:
    """Returns the changes from old to new lines, which are as few as possible."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    ends = 0
    while ends < min(len(old), len(new)) - start and old[-1 - ends] == new[-1 - ends]:
        ends += 1
    rows, columns = old[start : len(old) - ends], new[start : len(new) - ends]
    if (len(rows) + 1) * (len(columns) + 1) > MOST_CELLS:
        raise Unknown("files that differ in so many lines are not supported: use comm or grep")
    common = [[0] * (len(columns) + 1) for _ in range(len(rows) + 1)]  # from here to the ends
    for i in range(len(rows) - 1, -1, -1):
        for j in range(len(columns) - 1, -1, -1):
            equal = rows[i] == columns[j]
            common[i][j] = (
                common[i + 1][j + 1] + 1 if equal else max(common[i + 1][j], common[i][j + 1])
            )
    i = j = 0
    output = ""
    while i < len(rows) or j < len(columns):
        if i < len(rows) and j < len(columns) and rows[i] == columns[j]:
            i, j = i + 1, j + 1
            continue
        first = i, j
        while (i < len(rows) or j < len(columns)) and not (
            i < len(rows) and j < len(columns) and rows[i] == columns[j]
        ):
            if j == len(columns) or (i < len(rows) and common[i + 1][j] >= common[i][j + 1]):
                i += 1
            else:
                j += 1
        output += _hunk(
            rows[first[0] : i], columns[first[1] : j], start + first[0], start + first[1]
        )
    return bounded(output)


def _hunk(old: list[str], new: list[str], before: int, behind: int) -> str:
    """Returns a change of lines behind so many lines of each file."""
    kind = "c" if old and new else "d" if old else "a"
    ranges = [
        f"{place + 1},{place + len(rows)}" if len(rows) > 1 else f"{place + len(rows)}"
        for rows, place in ((old, before), (new, behind))
    ]
    gap = "---\n" * (kind == "c")
    removed, added = (
        "".join(mark + row for row in rows) for mark, rows in (("< ", old), ("> ", new))
    )
    return f"{ranges[0]}{kind}{ranges[1]}\n{removed}{gap}{added}"
