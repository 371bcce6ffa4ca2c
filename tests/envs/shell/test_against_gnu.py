"""Generated command lines have the outputs, statuses and changes of bash and the GNU tools."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.bash import check, gnu

pytestmark = pytest.mark.skipif(not gnu(), reason="needs bash and the GNU tools")
FILE = ("a.txt", "b.txt", "d/b.csv", "d/e/c.log", "logs/x.log", "z.tmp", '"a b.txt"', "./a.txt")
FOLDER = ("d", "logs", "empty", "d/e", "logs/", ".", "d/..")
WORDS = (
    *(*FILE, *FOLDER, "nothing", "no/such", "*.txt", "logs/*", "d/*", "'*'", "x*y", "a\\ b.txt"),
    *('"$HOME/a.txt"', "~/b.txt", "$PWD/z.tmp", "a.txt/", "[ab].txt", "?.tmp", '"$HOME"/logs'),
)
operand = st.sampled_from(WORDS)
operands = st.lists(operand, max_size=3).map(" ".join)
some = st.lists(operand, min_size=1, max_size=3).map(" ".join)
plain = st.lists(st.sampled_from((*FILE, "nothing")), max_size=3).map(" ".join)
"""Without folders, at which the status of sed depends on the script."""
target = st.sampled_from(("new", "d/new", "d", "empty", "a.txt", "no/such", "logs/old", "new/"))


def command(name: str, *parts: st.SearchStrategy[str] | tuple[str, ...]) -> st.SearchStrategy[str]:
    chosen = [st.sampled_from(part) if isinstance(part, tuple) else part for part in parts]
    return st.tuples(st.just(name), *chosen).map(lambda words: " ".join(filter(None, words)))


PATTERN = ("three", "ERROR", "'^[a-z]*$'", "e", "-i error", "-E '(o|e)n'", "-w a", "-F .", "''")
READERS = (
    command("cat", ("", "-n", "-b"), operands),
    command("tac", operands),
    command("rev", operands),
    command("head", ("", "-n 1", "-2"), operands),
    command("tail", ("", "-n 1", "-n +2"), operands),
    command("tail -1", (*FILE, *FOLDER, "nothing")),
    command("wc", ("", "-l", "-w", "-c", "-lw"), operands),
    command("grep", ("", "-c", "-v", "-l", "-n", "-o", "-h", "-H", "-q", "-s"), PATTERN, operands),
    command("grep -r", ("", "-l", "-c", "-h"), PATTERN, operand, ("| sort",)),
    command("sort", ("", "-r", "-n", "-u", "-f", "-k 2", "-t , -k 2,2", "-nr", "-k2n"), operands),
    command("uniq", ("", "-c", "-d", "-u"), ("", *FILE, "nothing", "a.txt new")),
    command("cut", ("-d , -f 2", "-c 1-3", "-d ' ' -f 2-", "-f 1", "-d , -f 3,1"), operands),
    command("sed", ("s/e/E/g", "-n 2p", "'$d'", "/three/d", "-n s/t/T/p", "2,3d"), plain),
    command("base64", ("", *FILE, "nothing", "d")),
    command("ls", ("", "-a", "-A", "-1", "-R"), operands),
    command("find", operand, ("", "-type f", "-name '*.txt'", "-maxdepth 1", "-type d -name d")),
    command("find", operand, ("! -name '*.txt'", "-not -type d -print", "-mindepth 2", "-empty")),
)
FILTERS = (
    *("wc -l", "sort", "sort -n", "uniq -c", "head -n 2", "tail -n 1", "grep -c e", "rev", "cat"),
    *("tr a-z A-Z", "tr -d e", "tr -s ' '", "cut -c 2-4", "sed s/a/b/", "cat a.txt -", "tac"),
)
ABOVE = {".", "d/..", "empty"}
"""Operands of which cp copies a part before it finds that they hold the target."""
WRITERS = (
    command("rm", ("", "-r", "-f", "-rf"), some),
    command("mkdir", ("", "-p"), st.lists(target | operand, min_size=1, max_size=2).map(" ".join)),
    command("rmdir", some),
    command("touch", st.lists(target | operand, min_size=1, max_size=2).map(" ".join)),
    command("cp", some, target),
    command("cp -r", some, ("new", "empty", "no/such", "a.txt")).filter(
        lambda line: not ABOVE & {*line.split()[2:-1]}
    ),
    command("mv", some, target),
    command("sed -i", ("s/e/E/", "1d", "'$d'"), plain.filter(bool)),
    command("cat", operands, (">", ">>"), ("new", "d/new", "d", "no/such", "new/", "logs/old")),
    command("sort", operands, (">", ">>"), ("a.txt", "b.txt", "new")),
    command("cd", ("", "d", "nothing", "a.txt", "~", '"$HOME"/logs', "d/..", "~/d/e", "d logs")),
)
ECHOES = (
    *('echo $? "$?" ${?}', "echo ~ '~' \"~\" ~/d a~", "echo $PWD ${HOME} '$HOME' \\$HOME"),
    *('echo "a$" $ "x\\$HOME"', "echo *.txt logs/* '*'", "basename d/b.csv .csv", "pwd"),
    *("dirname d/b.csv d/ / a //x// d//e", "echo a # b", "echo 'a\nb' \\\n c", "echo a\\\nb"),
)


def quiet(line: str) -> str:
    """Returns a line without error messages, whose texts differ."""
    if "#" in line:
        return line
    first, pipe, last = line.partition(" | ")
    return f"{first} 2>/dev/null{pipe}{last}"


simple = st.one_of(*READERS, *WRITERS, st.sampled_from(ECHOES)).map(quiet)
piped = st.tuples(st.one_of(*READERS).map(quiet), st.sampled_from(FILTERS)).map(" | ".join)
lines = st.lists(
    st.tuples(st.one_of(simple, simple, piped), st.sampled_from(("; ", " && ", " || ", "\n"))),
    min_size=1,
    max_size=3,
).map(lambda parts: "".join(part + joint for part, joint in parts).rstrip("\n ;&|") or "pwd")


@settings(max_examples=150)
@given(st.one_of(*READERS).map(quiet))
def test_commands_that_read(line: str):
    check(line)


@settings(max_examples=100)
@given(st.one_of(*WRITERS).map(quiet))
def test_commands_that_write(line: str):
    check(line)


@settings(max_examples=100)
@given(lines)
def test_lines(line: str):
    check(line)
