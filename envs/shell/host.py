"""A computer of a capture-the-flag challenge: permissions, archives and services on a file tree."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentgym.envs.shell.arguments import (
    LARGEST,
    Command,
    Input,
    contents,
    joined,
    options,
    per_operand,
    some,
)
from agentgym.envs.shell.interpreter import COMMANDS
from agentgym.envs.shell.tree import HOME, Failed, Tree

OWN = (HOME, "/tmp")
"""Folders in which the user may write. All other files belong to root."""
SERVICES = "/etc/services.d"
"""Folder of the descriptions of services."""
_OCTAL = re.compile(r"[0-7]{3,4}")
_SYMBOLIC = re.compile(r"[ugoa]*([+-])[rwx]*")
_MAGIC = "archive "


@dataclass
class Host(Tree):
    """A file tree with permissions.

    Attributes:
        closed: absolute paths of the files that the user may not read.
    """

    closed: set[str] = field(default_factory=set)

    def copy(self) -> Host:
        """Returns an independent copy."""
        return Host(dict(self.files), set(self.folders), self.here, set(self.closed))

    def key(self) -> tuple[object, ...]:
        """Returns the content, the same for equal trees."""
        return (*super().key(), sorted(self.closed))

    def readable(self, full: str) -> bool:
        """Whether the user may read the file with an absolute path."""
        return full not in self.closed

    def write(self, path: str, content: str, *, append: bool = False) -> None:
        """Writes a file of the user."""
        full = self.absolute(path)
        if full != "/dev/null":
            self.check_own(full, path)
            if not self.readable(full):
                raise Failed(f"{path}: Permission denied")
        super().write(path, content, append=append)

    def make_folder(self, path: str, *, parents: bool = False) -> None:
        """Makes a folder of the user."""
        full = self.absolute(path)
        if full not in self.folders:
            self.check_own(full, path)
        super().make_folder(path, parents=parents)

    def remove(self, full: str) -> None:
        """Removes a file or folder of the user."""
        self.check_own(full, full)
        super().remove(full)
        self.closed &= self.files.keys()

    def check_own(self, full: str, path: str) -> None:
        """Raises `Failed` unless an absolute path is below a folder of the user."""
        if not full.startswith(tuple(f"{folder}/" for folder in OWN)):
            raise Failed(f"{path}: Permission denied")


def pack(files: Iterable[tuple[str, str]]) -> str:
    """Returns an archive of files, given by their relative paths and contents."""
    text = "\0".join(part for file in files for part in file)
    return _MAGIC + base64.b64encode(zlib.compress(text.encode())).decode() + "\n"


def unpack(archive: str) -> list[tuple[str, str]]:
    """Returns the relative paths and contents of the files in an archive.

    Raises:
        Failed: for another text, or more than 100,000 characters.
    """
    try:
        data = base64.b64decode(archive.removeprefix(_MAGIC).strip(), validate=True)
        parts = zlib.decompressobj().decompress(data, LARGEST).decode().split("\0")
    except (binascii.Error, zlib.error, ValueError):
        parts = []
    if not archive.startswith(_MAGIC) or not parts or len(parts) % 2:
        raise Failed("this is not an archive")
    return list(zip(parts[::2], parts[1::2], strict=True))


def _host(tree: Tree) -> Host:
    assert isinstance(tree, Host), "these commands run on a host"
    return tree


def _tar(tree: Tree, arguments: list[str], stdin: Input) -> str:
    first, *rest = arguments or [""]
    found, names = options([f"-{first.removeprefix('-')}", *rest], "txzv", "fC")
    if "f" not in found or names or len({"t", "x"} & set(found)) != 1:
        raise Failed("use tar -tzf ARCHIVE or tar -xzf ARCHIVE -C FOLDER")
    files = unpack(tree.read(found["f"]))
    if "t" in found:
        return joined([name for name, _ in files])
    for name, content in files:
        tree.write(f"{found.get('C', '.')}/{name}", content)
    return joined([name for name, _ in files]) if "v" in found else ""


def _stat(tree: Tree, arguments: list[str], stdin: Input) -> str:
    host = _host(tree)

    def described(path: str) -> str:
        full = host.existing(path)
        own = full.startswith(OWN)
        mode = "755" if full in host.folders else "644"
        if not host.readable(full):
            mode = "000" if own else "600"
        size = len(host.files.get(full, ""))
        owner = "user" if own else "root"
        return f"{path}: {size} characters, owner {owner}, mode {mode}\n"

    return per_operand(some(options(arguments, "")[1]), described)


def _chmod(tree: Tree, arguments: list[str], stdin: Input) -> str:
    host = _host(tree)
    mode, *paths = arguments or [""]
    symbolic = _SYMBOLIC.fullmatch(mode)
    if not paths or not (symbolic or _OCTAL.fullmatch(mode)):
        raise Failed("use chmod MODE FILE with a mode such as u+r or 644")

    def change_mode(path: str) -> str:
        full = host.existing(path)
        if full not in host.files:
            raise Failed(f"{path[:200]}: the modes of folders cannot be changed")
        if not full.startswith(OWN):
            raise Failed(f"{path[:200]}: Operation not permitted")
        if symbolic:
            change = symbolic[1] if "r" in mode else ""
        else:
            change = "+" if int(mode[-3]) & 4 else "-"
        if change == "+":
            host.closed.discard(full)
        elif change:
            host.closed.add(full)
        return ""

    return per_operand(paths, change_mode)


def _xxd(tree: Tree, arguments: list[str], stdin: Input) -> str:
    found, files = options(arguments, "pr")
    if "p" not in found:
        raise Failed("use xxd -p or xxd -r -p")
    text = contents(tree, files, stdin)
    if "r" not in found:
        return text.encode("utf-8", "replace").hex() + "\n"
    try:
        return bytes.fromhex(text).decode("utf-8", "replace")
    except ValueError:
        raise Failed("invalid input") from None


def _nc(tree: Tree, arguments: list[str], stdin: Input) -> str:
    host = _host(tree)
    if len(arguments) != 2 or arguments[0] not in ("localhost", "127.0.0.1"):
        raise Failed("use nc localhost PORT")
    for path in host.below(SERVICES)[1]:
        pairs = (line.partition("=") for line in host.files[path].splitlines())
        service = {key: value for key, _, value in pairs}
        if service.get("port") == arguments[1]:
            return _answer(host, service, stdin.read().strip())
    raise Failed(f"{arguments[1][:20]}: Connection refused")


def _answer(host: Host, service: dict[str, str], request: str) -> str:
    """Returns the answer of a service. Services run as root."""
    if service["protocol"] == "login":
        if request != host.files[service["password"]].strip():
            return "Send the password.\n"
        return host.files[service["file"]]
    verb, _, name = request.partition(" ")
    if verb != "GET":
        return "Send GET and the name of a file.\n"
    full = host.absolute(f"{service['folder']}/{name}")
    return host.files.get(full, "There is no such file.\n")


HOST_COMMANDS: dict[str, Command] = {
    **COMMANDS,
    "tar": _tar,
    "stat": _stat,
    "chmod": _chmod,
    "xxd": _xxd,
    "nc": _nc,
}
"""The commands of a host."""
