"""Shell: commands act as the GNU tools, hostile lines are bounded, tasks have one right end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.shell.base import SHOWN
from agentgym.envs.shell.interpreter import run
from agentgym.envs.shell.patterns import Pattern, PatternError, file_pattern
from agentgym.envs.shell.shell import Shell
from agentgym.envs.shell.tasks import task_of
from agentgym.envs.shell.tree import HOME, MOST_CHARACTERS, MOST_ENTRIES, Failed, Tree
from agentgym.errors import SnapshotError
from agentgym.registration.making import make_env

FILES = {
    "a.txt": "one two\nthree\nfour five six\nthree\n",
    "d/b.csv": "anna,rome,30\nben,oslo,7\ncara,rome,120\ndan,kyiv,7\n",
    "d/e/c.log": "2024 ERROR disk\n2024 INFO ok\n2025 error net\n",
    "d/conf.ini": "port=80\nhost=local.host\n",
    "z.tmp": "",
}

# Outputs of bash 5.2 with GNU coreutils 9.1, grep 3.8 and sed 4.9 in the locale C, with ls -p for
# ls and without the padding of wc.
OUTPUTS = {
    "ls": "a.txt\nd/\nz.tmp\n",
    "ls -d d a.txt */; ls -a d/e": "a.txt\nd/\nd/\n./\n../\nc.log\n",
    "cat < a.txt | head -n 1": "one two\n",
    "tail -n +3 a.txt": "four five six\nthree\n",
    "wc -l a.txt d/b.csv": "4 a.txt\n4 d/b.csv\n8 total\n",
    "wc -w < a.txt": "7\n",
    "grep -c three a.txt": "2\n",
    "grep -in error d/e/c.log": "1:2024 ERROR disk\n3:2025 error net\n",
    "grep -v ERROR d/e/c.log | wc -l": "2\n",
    "grep -rl rome .": "./d/b.csv\n",
    "grep -r oslo d": "d/b.csv:ben,oslo,7\n",
    "grep -rh oslo": "ben,oslo,7\n",
    "grep -o '[a-z]*,rome' d/b.csv": "anna,rome\ncara,rome\n",
    "grep -E '^(ben|dan),' d/b.csv": "ben,oslo,7\ndan,kyiv,7\n",
    "grep '\\(one\\|five\\)' a.txt": "one two\nfour five six\n",
    "grep -w tw a.txt || echo no": "no\n",
    "grep 'local\\.host' d/conf.ini && echo yes": "host=local.host\nyes\n",
    "sort -u a.txt": "four five six\none two\nthree\n",
    "sort -t , -k 3 -nr d/b.csv": "cara,rome,120\nanna,rome,30\ndan,kyiv,7\nben,oslo,7\n",
    "sort -t, -k2,2 d/b.csv | cut -d, -f1": "dan\nben\nanna\ncara\n",
    "sort -t, -k3,3nr d/b.csv": "cara,rome,120\nanna,rome,30\nben,oslo,7\ndan,kyiv,7\n",
    "sort -t, -k 3n,3 d/b.csv": "ben,oslo,7\ndan,kyiv,7\nanna,rome,30\ncara,rome,120\n",
    "sort -t, -k2,2r d/b.csv | cut -d, -f1": "anna\ncara\nben\ndan\n",
    "sort -r -t, -k2,2 d/b.csv | cut -d, -f1": "cara\nanna\nben\ndan\n",
    "tac d/b.csv | sort -u -t, -k2,2": "dan,kyiv,7\nben,oslo,7\ncara,rome,120\n",
    "head -n 1 a.txt d/b.csv": "==> a.txt <==\none two\n\n==> d/b.csv <==\nanna,rome,30\n",
    "tail -1 a.txt d/b.csv": "==> a.txt <==\nthree\n\n==> d/b.csv <==\ndan,kyiv,7\n",
    "cut -d , -f 2 d/b.csv | sort | uniq -c": "      1 kyiv\n      1 oslo\n      2 rome\n",
    "cut -d, -f1,3- d/b.csv | tail -1": "dan,7\n",
    "echo */": "d/\n",
    "cd d; echo */ ../*/ x*/ */*": "e/ ../d/ x*/ e/c.log\n",
    "cut -c 1-3 a.txt | head -2": "one\nthr\n",
    "sort a.txt | uniq -d": "three\n",
    "tr a-z A-Z < d/conf.ini": "PORT=80\nHOST=LOCAL.HOST\n",
    "cat a.txt | tr -d e | tr ' ' _ | tail -n 2": "four_fiv_six\nthr\n",
    "head -n 2 a.txt | tr -s e": "one two\nthre\n",
    "sed 's/e/E/g' a.txt | head -n 2": "onE two\nthrEE\n",
    "sed 's/[a-z]*/<&>/' a.txt | head -n 1": "<one> two\n",
    "echo six | sed 's/x*/-/g'": "-s-i-\n",
    "sed -n '2,3p' a.txt": "three\nfour five six\n",
    "sed '/three/d' a.txt": "one two\nfour five six\n",
    "sed -E 's/(one|two)/N/g' a.txt | head -1": "N N\n",
    "find . -type d": ".\n./d\n./d/e\n",
    "find d -name '*.csv'": "d/b.csv\n",
    "find / -type d | head -n 3": "/\n/home\n/home/user\n",
    "find . -iname '*.CSV'; find -iname A.TXT": "./d/b.csv\n./a.txt\n",
    "find . -iname '[C]*' -name '*i'; find . -name '*.csv' -name 'a*'": "./d/conf.ini\n",
    "find . -maxdepth 0; find . -maxdepth 1": ".\n.\n./a.txt\n./d\n./z.tmp\n",
    "find d/ -maxdepth 1 -type f; find a.txt -maxdepth 0": "d/b.csv\nd/conf.ini\na.txt\n",
    "find d/ -maxdepth 0; find . -name user; find . -name .": "d/\n.\n",
    "cat -n a.txt z.tmp d/conf.ini | tail -n 2": "     5\tport=80\n     6\thost=local.host\n",
    "echo -n x | cat -n": "     1\tx",
    "sed s/three// a.txt | cat -n | tail -n 2": "     3\tfour five six\n     4\t\n",
    "sed s/three// a.txt | cat -nb": "     1\tone two\n\n     2\tfour five six\n\n",
    "cat --number z.tmp; cat --number-nonblank d/conf.ini | head -n 1": "     1\tport=80\n",
    "echo \"a  b\" 'c  d' e\\ f  # comment": "a  b c  d e f\n",
    "echo *.t* '*.t*' nothing*": "a.txt z.tmp *.t* nothing*\n",
    "cd d && pwd; cd; pwd": f"{HOME}/d\n{HOME}\n",
    "mkdir x && touch x/a x/b && rm x/a && ls x": "b\n",
    "cat nothing 2> /dev/null || echo missing": "missing\n",
    "cat nothing 2>&1 | wc -l; echo x 1>o; cat o": "1\nx\n",
    "> o; cat o; wc -l < o": "0\n",
    "echo 'carve -a' | tr -d '\\r'; echo 'a-b c' | tr 'a\\-z' X": "carve -a\nXXb c\n",
    "echo 'a.b:c' | tr '[:punct:]' ' '; echo 'x 1' | tr '[:alnum:]' z": "a b c\nz z\n",
    "head -1 d/b.csv | sed 's/,/\\n/g'": "anna\nrome\n30\n",
    "sed -n '3,1p' a.txt": "four five six\n",
    "basename d/b.csv .csv; basename / /; basename .csv .csv": "b\n/\n.csv\n",
    "basename -a d/b.csv a.txt; basename -s .csv d/b.csv c/e.csv": "b.csv\na.txt\nb\ne\n",
    "echo abc | rev | base64 | base64 -d": "cba\n",
}
CHANGES = {
    "rm *.tmp": {"z.tmp": None},
    "find . -name '*.tmp' -delete": {"z.tmp": None},
    "find . -maxdepth 1 -iname '*.T*' -delete": {"a.txt": None, "z.tmp": None},
    "find d -delete": {path: None for path in FILES if path.startswith("d/")},
    "cd d; find -delete": {path: None for path in FILES if path.startswith("d/")},
    "mkdir n && mv d/*.csv z.tmp n": {"d/b.csv": None, "n/b.csv": FILES["d/b.csv"], "z.tmp": None}
    | {"n/z.tmp": ""},
    "cp -r d copy": {f"copy{path[1:]}": FILES[path] for path in FILES if path.startswith("d/")},
    "mv d/e .": {"e/c.log": FILES["d/e/c.log"], "d/e/c.log": None},
    "sed -i s/port=.*/port=99/ d/conf.ini": {"d/conf.ini": "port=99\nhost=local.host\n"},
    "echo x >> a.txt": {"a.txt": FILES["a.txt"] + "x\n"},
    "grep oslo d/b.csv > o.txt; cat o.txt o.txt > p": {
        "o.txt": "ben,oslo,7\n",
        "p": "ben,oslo,7\nben,oslo,7\n",
    },
    "rm -r d": {path: None for path in FILES if path.startswith("d/")},
}


def tree() -> Tree:
    made = Tree()
    for path, content in FILES.items():
        made.make_folder(str(Path(path).parent), parents=True)
        made.write(path, content)
    return made


@pytest.mark.parametrize("line", OUTPUTS)
def test_outputs_are_those_of_the_gnu_tools(line: str):
    assert run(tree(), line) == (OUTPUTS[line], True)


# The errors of operands come before the output of the others.
PER_OPERAND = {
    "cat a.txt nothing 2>/dev/null | wc -l": ("4\n", True),
    "grep ERROR d/e/*.log d": ("grep: d: Is a directory\nd/e/c.log:2024 ERROR disk\n", False),
    "grep ERROR nothing d/e/c.log; echo $?": (
        "grep: nothing: No such file or directory\nd/e/c.log:2024 ERROR disk\n2\n",
        True,
    ),
    "rm nothing z.tmp; ls": ("rm: nothing: No such file or directory\na.txt\nd/\n", True),
    "wc -l nothing a.txt d": (
        "wc: nothing: No such file or directory\nwc: d: Is a directory\n4 a.txt\n0 d\n4 total\n",
        False,
    ),
    "mkdir d x; ls": ("mkdir: d: File exists\na.txt\nd/\nx/\nz.tmp\n", True),
    "sort a.txt nothing": ("sort: nothing: No such file or directory\n", False),
    "cp nothing z.tmp d; ls d": (
        "cp: nothing: No such file or directory\nb.csv\nconf.ini\ne/\nz.tmp\n",
        True,
    ),
    "echo x > d; echo y": ("sh: d: Is a directory\ny\n", True),
    "cat < nothing | wc -l": ("sh: nothing: No such file or directory\n0\n", True),
    "cat nothing z.tmp 2>&1 > o | wc -l; wc -l < o": ("1\n0\n", True),
    "sort a.txt > a.txt; wc -l < a.txt": ("0\n", True),  # emptied before it is read
}


@pytest.mark.parametrize("line", PER_OPERAND)
def test_an_operand_that_fails_does_not_stop_the_others(line: str):
    assert run(tree(), line) == PER_OPERAND[line]


def test_variables_have_the_values_of_a_shell():
    line = "echo $HOME ~ ${PWD}/d \"$USER\" '$HOME' $; cd ~/d/e; cat x 2>/dev/null; echo $PWD $?"
    expected = f"{HOME} {HOME} {HOME}/d user $HOME $\n{HOME}/d/e 1\n"
    assert run(tree(), line) == (expected, True)


# A has "b" and "abc" without a newline at its end, B the lines "12" and "x".
UNENDED = {
    "sort A B": "12\nabc\nb\nx\n",
    "cut -c 1 A B": "b\na\n1\nx\n",
    "sed s/q/r/ A B": "b\nabc\n12\nx\n",
    "sed s/q/r/ B A": "12\nx\nb\nabc",
    "sed '1,$p' A": "b\nb\nabc\nabc",
    "sed -n 1p A": "b\n",
    "sed '$d' A": "b\n",
    "sed -n '$p' A": "abc",
    "sed -i s/c/d/ A; cat A B": "b\nabd12\nx\n",
    "rev A": "b\ncba",
    "rev A B": "b\ncba21\nx\n",
    "head A": "b\nabc",
    "head -n 1 A": "b\n",
    "tail -n 1 A": "abc",
    "head A B": "==> A <==\nb\nabc\n==> B <==\n12\nx\n",
    "uniq A": "b\nabc\n",
    "tac A": "abcb\n",
    "tac A B": "abcb\nx\n12\n",
}


@pytest.mark.parametrize("line", UNENDED)
def test_a_last_line_without_a_newline_is_as_with_the_gnu_tools(line: str):
    made = Tree(files={f"{HOME}/A": "b\nabc", f"{HOME}/B": "12\nx\n"})
    assert run(made, line) == (UNENDED[line], True)


@pytest.mark.parametrize("line", CHANGES)
def test_changes_are_those_of_the_gnu_tools(line: str):
    made = tree()
    assert run(made, line) == ("", True)
    expected = {**FILES, **CHANGES[line]}
    files = {path.removeprefix(f"{HOME}/"): content for path, content in made.files.items()}
    assert files == {path: content for path, content in expected.items() if content is not None}
    assert f"{HOME}/z.tmp" in made.files or "z.tmp" in CHANGES[line]


@pytest.mark.parametrize(
    "line",
    [
        *("rm d", "cat d", "cd a.txt", "mkdir d", "mkdir q/r", "cp d q", "mv q r", "rm q", "ls q"),
        *(
            "rm -r /",
            "rm -r ..",
            "mv . q",
            "cp -r d d/e",
            "cp a.txt a.txt",
            "rmdir d",
            "head -n x a.txt",
        ),
        *(
            "echo x > d",
            "echo x > q/r",
            "touch a.txt/b",
            "sort -q",
            "cut a.txt",
            "grep",
            "sed w a.txt",
            "sed 0d a.txt",
            "sed -n 0,2p a.txt",
        ),
        *(
            "grep '[a' a.txt",
            "grep '\\(a' a.txt",
            "sed 's/\\(a\\)/\\2/' a.txt",
            "find q",
            "find -size 3",
            "find -maxdepth x",
            "find -maxdepth",
            "find -maxdepth 1 -iname D -delete",
            "find -name d -delete",
            "basename a b c",
            "basename",
            "sort -k 1.2 a.txt",
            "echo -e '\\x41'",
            "grep '\\W' a.txt",
            "grep -i '\\W' a.txt",
            "echo x | tr '[:any:]' y",
        ),
    ],
)
def test_a_command_that_fails_changes_nothing(line: str):
    made = tree()
    output, good = run(made, line)
    assert not good and output and made == tree()
    assert run(made, f"{line} 2> /dev/null || echo no")[1] or "sh: " in output


@pytest.mark.parametrize(
    "line",
    [
        *("nosuch", "ls | nosuch", "cat |", "| cat", "echo >", "echo 'a", "ls &", "echo $(nosuch)"),
        *("`nosuch`", "ls && && ls", "echo " * 300, ";".join(["ls"] * 51), 'echo "$(ls', "> > a"),
        *("cat q 2> err", "ls &> a", "echo a > b > c", "ls &&", "ls ;; ls", "; ls", "()", "(ls"),
        *(
            "X=(1 2)",
            "echo $X",
            "echo $1",
            "echo ${HOME^}",
            "echo $((1+1)",
            "echo $'\\x41'",
            "echo $$",
        ),
        *("echo ~root", "cat << E\na\nE", "echo a |& cat", "f() { ls; }", "echo a(b)", "ls >(cat)"),
        *("for f in a; echo $f; done", "if ls; echo a; fi", "while ls; do done", "do ls", "fi"),
        *("case a in a) ls;; esac", "[[ -f a ]]", "let x=1", "eval ls", "for 1 in a; do ls; done"),
        *("if ls; then nosuch; fi", "for f in $(nosuch); do ls; done", "echo {1..9999}", "{ ls }"),
        *("{ ls;", "echo ${X", "echo `ls", "cat < a.txt < a.txt", "! ", "X=1; echo $Y", "$(" * 20),
        # typographic forms of quotes, dashes, spaces and operators
        *("grep “one” a.txt", "echo ‘a’", "ls –a", "ls —a", "head −1 a.txt", "ls\u00a0d"),
        *("cat a.txt ｜ wc", "ls；ls", "wc a.txt\u200b", "cat＜a.txt"),
    ],
)
def test_a_line_that_cannot_be_read_runs_nothing(line: str):
    made = tree()
    with pytest.raises(Failed):
        run(made, f"rm z.tmp; {line}")
    assert made == tree()


@settings(deadline=None, max_examples=150)
@given(st.text("ab*+?|()[]^$.\\-", max_size=12), st.text("abc-", max_size=8), st.booleans())
def test_patterns_never_crash_and_matches_are_slices(source: str, line: str, extended: bool):
    try:
        found = Pattern(source, extended=extended).search(line)
    except PatternError:
        return
    assert found is None or 0 <= found[0] <= found[1] <= len(line)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.sampled_from(["a", "b", ".", "a*", "[ab]", "[^a]", "(ab)*", "b+", "a?", "(a|b)"])),
    st.text("abc", max_size=8),
)
def test_patterns_match_as_pythons_do(parts: list[str], line: str):
    source = "".join(parts)
    found, theirs = Pattern(source, extended=True).search(line), re.search(source, line)
    assert (found is None) == (theirs is None)
    if found is not None and theirs is not None:
        assert found[0] == theirs.start() and found[1] >= theirs.end()  # the longest one counts
        assert re.fullmatch(source, line[slice(*found)]) is not None


def test_file_patterns():
    for pattern, name, match in (
        *(("*.txt", "a.txt", True), ("*.txt", "a.txt.b", False), ("[ab]?", "bx", True)),
        *(("\\*", "*", True), ("\\*", "a", False), ("a.c", "abc", False), ("[!a]", "b", True)),
    ):
        assert file_pattern(pattern).fullmatch(name) == match


def test_hostile_lines_are_bounded():
    made = Tree()
    made.write("big", "a" * 60_000 + "\n")
    for line in (
        "grep -E '(a*)*b' big",
        "grep -E '(a|a)*(a|a)*(a|a)*b' big",
        "sed s/a/" + "b" * 900 + "/g big",
        "cat " + "big " * 200,
        "cat big big > huge",
        "tr '" + "!-\u2fff" * 300 + "' x < big",
        "sed s/" + "\\" * 900,
        "mkdir -p " + "a/" * 490,
        "touch " + "x" * 900,
        "grep '" + "\\(" * 90 + "' big",
        "head -n 99999999999999999999 big",
        "cut -c 1-99999999999 big",
        "cat ../../../../../etc/passwd",
        "cat /etc/passwd /proc/self/environ",
    ):
        output, good = run(made, line)
        assert not good and len(output) < 1000, line
    for number in range(12):
        run(made, "touch " + " ".join(f"f{number}x{i}" for i in range(90)))
    assert len(made.files) + len(made.folders) <= MOST_ENTRIES
    for _ in range(12):
        run(made, "cat big >> more")
    assert sum(map(len, made.files.values())) <= MOST_CHARACTERS
    run(made, "echo x > /etc/agentgym; mkdir -p /tmp/agentgym-shell")
    assert not Path("/tmp/agentgym-shell").exists() and not Path("/etc/agentgym").exists()


@pytest.mark.parametrize("kind", ["question", "change"])
def test_tasks_are_solved_by_their_commands_only(kind: str):
    texts = set()
    for number in range(40):
        task = task_of(f"test/{number}", kind, 0.5)
        texts.add(task.text)
        assert (task.answer is not None) == (kind == "question")
        assert {"{", "}"}.isdisjoint(task.text)
        end, output = task.start.copy(), ""
        for command in task.commands:
            output, good = run(end, command)
            assert good
        if kind == "question":
            assert output.strip() == task.answer
        else:
            assert (end.files, end.folders) == (task.goal.files, task.goal.folders)
            assert (end.files, end.folders) != (task.start.files, task.start.folders)
        if len(task.commands) > 1:
            name = task.commands[0].split()[-1]
            assert name in task.text and f"/{name}" not in task.text
    assert len(texts) > 30


def test_only_the_right_end_is_rewarded():
    env = Shell(kind="change", hidden=0.0)
    env.reset(seed=0)
    start = env.snapshot()
    assert env.step("submit")[1] == 0
    for extra, reward in (("ls", 1), ("touch extra", 0), ("cd /", 1), ("mkdir extra", 0)):
        env.restore(start)
        assert env.step(extra)[4]["valid"]
        for line in env.problem.commands:
            env.step(f"cd; {line}" if extra == "cd /" else line)
        assert env.step("submit")[1:3] == (reward, True)
    env = Shell(kind="question")
    for text, reward in (("{}", 1), (" ./{} ", 1), ('"{}".', 1), ("{} is it", 0), ("", 0)):
        env.reset(seed=4)
        answer = env.problem.answer
        assert answer is not None
        assert env.step(f"submit {text.format(answer)}")[1] == reward


def test_a_path_may_be_relative_to_the_current_folder():
    env = Shell(kind="question")
    for path, reward in (
        ("grove.log", 1),
        ("./grove.log", 1),
        ("../archive/grove.log", 1),
        ("x", 0),
    ):
        env.reset(seed=0, options={"task": "train/8"})
        assert env.problem.answer == "reports/archive/grove.log"
        env.step("cd reports/archive")
        assert env.step(f"submit {path}")[1] == reward, path


def test_feedback_and_long_outputs():
    env = Shell()
    text = env.reset(seed=0)[0]
    assert "Folder: ~\n" in text
    for line in ("nosuch", "", "ls |", "x" * 2000):
        assert not env.step(line)[4]["valid"]
    failed = env.step("cat nothing")
    assert failed[4]["valid"] and "No such file" in failed[0]
    assert len(env.step("echo " + "x" * 900 + " > f; cat f f f f f")[0]) < SHOWN + 300
    keys = {env.step(line)[4]["state_key"] for line in ("touch q", "rm q", "cd /home", "cd")}
    assert len(keys) == 3


def test_a_damaged_snapshot_is_refused():
    env = Shell()
    env.reset(seed=0)
    saved = json.loads(json.dumps(env.snapshot()))
    saved["state"]["tree"]["here"] = "/nowhere"
    with pytest.raises(SnapshotError, match="current folder"):
        env.restore(saved)


@pytest.mark.parametrize("arguments", [{"kind": "both"}, {"hidden": 1.5}])
def test_arguments_out_of_range(arguments: dict[str, object]):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        Shell(**arguments)  # type: ignore[arg-type]


def test_typographic_characters_in_quotes_are_text():
    made = tree()
    run(made, "echo 'it’s “x” – y' > q")
    assert run(made, 'grep -c "’s “x” –" q') == ("1\n", True)
    assert run(made, "echo é東 naïve") == ("é東 naïve\n", True)


def test_a_comment_ends_with_its_line_and_a_list_goes_on_after_a_line_break():
    assert run(tree(), "# first\nls d # here\npwd") == (f"b.csv\nconf.ini\ne/\n{HOME}\n", True)
    made = tree()
    assert run(made, "cat nothing 2> /dev/null &&\nrm z.tmp")[1] is False
    assert f"{HOME}/z.tmp" in made.files
    assert run(made, "cat a.txt |\nwc -l") == ("4\n", True)


@pytest.mark.parametrize(
    "line",
    [
        *("ls -t", "ls --color", "cat -A a.txt", "rm -v z.tmp", "cp -n a.txt q", "mkdir -v q"),
        *("tac -s x a.txt", "rev -x a.txt", "cut -d, -c1 a.txt", "cut -f0 a.txt"),
        *("tr -x a b", "tr -t a b", "uniq a.txt q z.tmp", "sort -k0 a.txt", "cut -f3-1 a.txt"),
        *("cd d d", "cd -", "dirname -z a", "base64 a.txt z.tmp", "sed -i s/a/b/", "cp -u a.txt q"),
        *("head -z a.txt", "wc -L a.txt", "grep -EF a a.txt", "find -size 3", "touch -d x a.txt"),
        *("grep -P a a.txt", "tail -f a.txt", "ls --help", "cat --squeeze-blank a.txt"),
    ],
)
def test_an_option_that_is_not_supported_is_named_and_changes_nothing(line: str):
    made = tree()
    output, good = run(made, line)
    assert not good and output.startswith(line.split()[0] + ": ") and made == tree()


@pytest.mark.parametrize("kind", ["question", "change", "mixed"])
def test_no_request_is_in_both_splits(kind: str):
    train, test = (
        {task_of(f"{split}/{i}", kind, 0.5).text for i in range(300)} for split in ("train", "test")
    )
    assert not train & test and len(test) > 200


@pytest.mark.parametrize(
    "form", ["Submit {}", "submit: {}", "**submit {}**", "SUBMIT {}.", "$ submit {}"]
)
def test_a_submission_may_have_marks(form: str):
    env = Shell()
    for number in range(100):
        env.reset(seed=0, options={"task": f"train/{number}"})
        if env.problem.answer:
            break
    task, answer = env.task, str(env.problem.answer)
    assert env.step(form.format(answer))[1:3] == (1, True)
    env.reset(seed=0, options={"task": task})
    for text in ("do not submit", f"submitted {answer}", f"echo {answer} > submit"):
        assert not env.step(text)[2]


def test_a_prompt_before_a_command_is_left_out():
    env = Shell()
    env.reset(seed=0)
    assert env.step("$ pwd")[0].startswith(HOME)
    assert env.step("echo $ 5")[0].startswith("$ 5")
    assert env.step("$ cd /\n$ pwd")[0] == env.step("cd /\npwd")[0]
    assert not env.step("$ cd /\n/home")[4]["valid"]


def test_find_runs_commands_for_what_it_finds():
    made = tree()
    made.write("d/old.tmp", "three\n")
    assert run(made, "find . -name '*.t*' -type f -exec grep -l three {} + 2>/dev/null") == (
        "./a.txt\n./d/old.tmp\n",
        True,
    )
    assert run(made, "find . -name '*.tmp' -exec grep -q three {} \\; -print")[0] == "./d/old.tmp\n"
    assert run(made, "find d -name '*.tmp' -exec cp {} b.txt ';' && cat b.txt") == ("three\n", True)
    output, good = run(made, "find d -name '*.tmp' -exec cat nothing {} \\;")
    assert good and output.endswith("\nthree\n") and "nothing: No such file" in output
    assert run(made, "find . ! -type d -name '*.tmp' -exec rm {} +; find . -name '*.tmp'") == (
        "",
        True,
    )
    assert run(made, "find . -name nothing -exec cat {} +") == ("", True)


@pytest.mark.parametrize(
    "line",
    [
        "find . -exec cd {} ';'",
        *("find . -exec nosuch {} ';'", "find . -exec cat {}", "find . -exec", "find . -not"),
        *(
            "find . -name",
            "find . -newer a.txt",
            "find . -print -perm 644",
            "find . -mtime 3 -delete",
            "find . -not -delete",
        ),
    ],
)
def test_what_find_cannot_do_is_told_and_changes_nothing(line: str):
    made = tree()
    output, good = run(made, line)
    assert not good and output.startswith("find: ") and made == tree()


@pytest.mark.parametrize(
    "line",
    [
        *(
            "find . -size +3 2>/dev/null",
            "ls -t 2> /dev/null | head -n 1",
            "sort -R a.txt 2>&1 | wc -l",
        ),
        *(
            "grep '\\Wone' a.txt 2>/dev/null",
            "sed 'N;P;D' a.txt 2>/dev/null",
            "ls --color 2>&1 > q",
            "find . -exec ls -t {} ';' 2>/dev/null",
        ),
    ],
)
def test_what_is_not_supported_is_told_even_if_errors_are_dropped(line: str):
    output, _ = run(tree(), line)
    assert "unknown" in output or "not supported" in output


def test_other_errors_are_dropped():
    assert run(tree(), "cat nothing 2>/dev/null | wc -l") == ("0\n", True)


def test_a_command_in_a_code_block_may_have_sentences_around_it():
    env = Shell()
    env.reset(seed=0)
    text, *_, info = env.step("I see where I am.\n\n```bash\npwd\n```\n\nThis prints the folder.")
    assert info["valid"] and text.startswith("/home/user\n")


def test_the_work_of_find_is_bounded():
    made = tree()
    made.write("d/long", "aab" * 20_000)
    for line in (
        f"find {'. ' * 200} -exec find {'. ' * 200} -name q \\;",
        f"find {'. ' * 100} -exec grep -rE '(a|b)*c' {'. ' * 100} \\; 2>/dev/null",
        f"find {'. ' * 300} -exec grep -E '(a|b)*c' d/long \\; 2>/dev/null",
        f"find {'. ' * 300} -exec echo {{}} \\; > q",
    ):
        output, good = run(made, line)
        assert not good and "reads too much" in output


@pytest.mark.parametrize(
    "said", ["```\nls\n```\nand\n```\npwd\n```", "I list:\n```\nls\n```\nthen\n```\npwd\n```"]
)
def test_no_command_of_several_code_blocks_is_run(said: str):
    env = make_env("Shell-v0")
    env.reset(seed=0)
    text, _, _, _, info = env.step(said)
    assert not info["valid"] and "one code block" in text


def test_a_command_is_read_in_code_marks_and_a_fence_in_quotes_is_text():
    env = make_env("Shell-v0")
    env.reset(seed=0)
    assert "notes/" in env.step("```ls```")[0]
    text, _, _, _, info = env.step("printf '%s\n' 'a\n```\nb'")
    assert info["valid"] and "a\n```\nb" in text
