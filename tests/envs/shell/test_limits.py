"""Programs of a shell end, and tell what they cannot do."""

from __future__ import annotations

import pytest

from agentgym.envs.shell.interpreter import run
from agentgym.envs.shell.tree import HOME, Failed, Tree


def tree() -> Tree:
    """Returns a small tree."""
    made = Tree()
    made.make_folder("d")
    for name in ("a.txt", "z.tmp", "d/b.csv"):
        made.write(name, "one two\nthree\n")
    return made


@pytest.mark.parametrize(
    "line",
    [
        *(
            "while true; do echo x; done",
            "until false; do x=1; done",
            "for i in {1..900}; do cat big; done",
        ),
        *(
            "echo 'sh f; sh f' > f; sh f",
            "x=a; while true; do x=$x$x; done",
            "awk 'BEGIN { while (1); }'",
        ),
        *(
            "awk 'BEGIN { for (;;) x = x \"aa\" }'",
            "seq 900 | xargs -I{} sh -c 'sort big'",
            "$(" * 9,
        ),
        *(
            "sed -E 's/(a|(a|a)*)*/\\2/' big",
            "grep -E '(a{100}){100}' big",
            "awk 'BEGIN { $9999999 = 1 }'",
        ),
        *(
            "for i in {1..900}; do grep -E '(a*)*b' big; done",
            "diff <(seq 1 2 9000) <(seq 2 3 9000)",
        ),
        "echo " + "d/{1..999}* " * 80,
        "while true; do rm -f " + "{1..999} " * 80 + "; done",
        "while true; do for i in " + "{1..999} " * 80 + "; do break; done; done",
        "; ".join(["grep -E '(a*)*b' big"] * 20),
        "; ".join(["sed 's/a/a/g;s/a/a/g;s/a/a/g;s/a/a/g' big > q"] * 20),
        "find d " + "-name '*a*b' -o " * 50 + "-name '*a*c'",
        *(
            f"awk 'BEGIN {{ s = \"a b\"; while (length(s) < 50000) s = s s; for (;;) {body} }}'"
            for body in ("n = split(s, a)", "t = toupper(s)", 'gsub(/a/, "a", s)', "$0 = s")
        ),
        "awk 'BEGIN { for (i = 0; i < 15000; i++) a[i]; for (;;) for (k in a) break }'",
        "awk 'BEGIN { NF = 20000; for (;;) $1 = 2 }'",
        'awk \'BEGIN { printf "%d", "1e400" }\'',
    ],
)
def test_programs_end(line: str):
    made = Tree()
    made.write("big", "a" * 60_000 + "\n")
    made.make_folder("d")
    for number in range(400):
        made.write(f"d/{number}{'a' * 90}", "x")
    try:
        output, good = run(made, line)
    except Failed:
        return
    assert not good and len(output) < 100_100
    assert not any(path.startswith("/dev") for path in made.files)


def test_searches_in_loops_count_what_they_do():
    made = tree()
    made.write("log", "10:00 INFO something happens here\n" * 100)
    assert run(made, "for i in {1..20}; do grep -c INFO log; done") == ("100\n" * 20, True)


def test_file_patterns_do_not_wear_out():
    made = tree()
    for number in range(400):
        made.write(f"d/{number}.txt", "")
    for _ in range(200):
        assert run(made, "echo d/*.txt | wc -w") == ("400\n", True)


def test_variables_last_for_their_line():
    made = tree()
    assert run(made, "x=1; (x=2; cd d); echo $x; pwd") == (f"1\n{HOME}\n", True)
    with pytest.raises(Failed, match=r"\$x is not set"):
        run(made, "echo $x")


@pytest.mark.parametrize(
    "line",
    [
        *("awk '{ print > \"q\" }' a.txt", "awk '{ system(\"ls\") }' a.txt", "awk -f q a.txt"),
        *("awk 'BEGIN { printf \"%c\", 65 }'", "grep -E '*.txt' a.txt", "grep '\\d' a.txt"),
        *(
            "awk 'function f() { } { f() }' a.txt",
            "awk '{ print | \"sort\" }' a.txt",
            "xargs -t ls",
        ),
        *("awk 'BEGIN { getline }' a.txt", "echo x | xargs nosuch", "echo x | xargs -I{} cd {}"),
        *("sed 's/a/\\U&/' a.txt", "sed -i.bak s/a/b/ a.txt", "sed '1~2d' a.txt", "test -x a.txt"),
        *("find . -printf '%m'", "find . -mtime 1", "find . -perm 644", "find d -size +1k"),
        *("stat a.txt", "stat -c %a a.txt", "diff -u a.txt z.tmp", "printf '%q' a", "ls -t"),
        *("md5sum -c a.txt", "nl -w 3 a.txt", "sh -x a.txt", "seq 0.5 2", "break 2", "read -a x"),
    ],
)
def test_what_programs_cannot_do_is_told_and_changes_nothing(line: str):
    made = tree()
    output, good = run(made, f"{line} 2>/dev/null")
    assert not good and output.strip() and made == tree()


@pytest.mark.parametrize(
    "line", ["(( 5 > 3 ))", "x=5; (( $x > 3 ))", "echo {1..9..2}", "ls {a..Z}"]
)
def test_what_lines_cannot_hold_is_told_and_changes_nothing(line: str):
    made = tree()
    with pytest.raises(Failed, match="not supported"):
        run(made, line)
    assert made == tree()
