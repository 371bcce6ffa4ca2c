"""Generated file trees and tasks, with the commands that solve them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from agentgym.envs.shell.base import Problem
from agentgym.envs.shell.interpreter import run
from agentgym.envs.shell.tree import HOME, Tree
from agentgym.tasks import draw_level, task_rng

KINDS = ("question", "change", "mixed")
_FOLDERS = "docs data logs projects archive reports notes backup images drafts".split()
_STEMS = "alpha birch cedar delta ember fjord grove heron iris jasper koala lotus maple".split()
WORDS = (
    "river stone window paper garden signal market engine winter copper valley pencil bridge "
    "harbor silver basket candle meadow rocket violin"
).split()
_CITIES = "Rome Oslo Kyiv Lima Cairo".split()
_NAMES = "anna ben cara dan ella finn gina hugo iris jack kira liam".split()
_LEVELS = "ERROR INFO WARN DEBUG".split()
_SETTINGS = "port host mode user level limit".split()


@dataclass(frozen=True)
class Task(Problem):
    """A question about a tree or a change of it.

    Attributes:
        goal: the tree at the end, if it is to be changed.
    """

    goal: Tree


class Generator:
    """Samples a tree and keeps the files of each kind.

    Args:
        rng: samples everything.

    Attributes:
        tree: the tree.
        files: paths relative to the home folder, by extension.
    """

    def __init__(self, rng: random.Random):
        self.rng, self.tree = rng, Tree()
        tops = rng.sample(_FOLDERS, 4)
        rest = [name for name in _FOLDERS if name not in tops]
        folders = [*tops, *(f"{rng.choice(tops)}/{name}" for name in rng.sample(rest, 3))]
        for folder in folders:
            self.tree.make_folder(folder)
        self.folders = folders
        self.files: dict[str, list[str]] = {}
        writers = {"csv": self._table, "log": self._log, "ini": self._settings, "txt": self._prose}
        kinds = (*writers, *rng.choices(list(writers), k=6))
        for kind, stem in zip(kinds, rng.sample(_STEMS, len(kinds)), strict=True):
            self._add(f"{rng.choice(folders)}/{stem}.{kind}", writers[kind]())
        for _ in range(rng.randint(3, 6)):
            self._add(f"{rng.choice(folders)}/{rng.choice(WORDS)}.tmp", "temporary\n")

    def file(self, kind: str) -> str:
        """Samples a file of a kind."""
        return self.rng.choice(self.files[kind])

    def new_name(self, ending: str) -> str:
        """Samples the name of a file that does not exist in the home folder."""
        return f"{self.rng.choice(('result', 'output', 'summary', 'selection'))}.{ending}"

    def say(self, *paraphrases: str) -> str:
        """Returns one of several paraphrases."""
        return self.rng.choice(paraphrases)

    def _add(self, path: str, content: str) -> None:
        if path not in self.files.setdefault(path.rpartition(".")[2], []):
            self.files[path.rpartition(".")[2]].append(path)
            self.tree.write(path, content)

    def _table(self) -> str:
        rng = self.rng
        names = rng.sample(_NAMES, rng.randint(6, 12))
        amounts = rng.sample(range(5, 500), len(names))
        rows = zip(names, amounts, strict=True)
        return "".join(f"{name},{rng.choice(_CITIES)},{amount}\n" for name, amount in rows)

    def _log(self) -> str:
        rng = self.rng
        minutes = sorted(rng.sample(range(24 * 60), rng.randint(8, 18)))
        return "".join(
            f"{m // 60:02}:{m % 60:02} {rng.choice(_LEVELS)} {' '.join(rng.choices(WORDS, k=2))}\n"
            for m in minutes
        )

    def _settings(self) -> str:
        rng = self.rng
        keys = rng.sample(_SETTINGS, 4)
        return "".join(f"{key}={rng.choice(WORDS)}{rng.randint(1, 99)}\n" for key in keys)

    def _prose(self) -> str:
        rng = self.rng
        return "".join(
            " ".join(rng.choices(WORDS, k=rng.randint(3, 7))) + "\n"
            for _ in range(rng.randint(4, 9))
        )


Form = Callable[[Generator, str], tuple[str, str]]
"""Returns the request and the command for a generator and a file, named in the request by {}."""


def _count_level(g: Generator, file: str) -> tuple[str, str]:
    level = g.rng.choice(_LEVELS)
    ask = g.say(
        f"How many lines of {{}} contain {level}?", f"Count the lines with {level} in {{}}."
    )
    return ask, f"grep -c {level} {file}"


def _most_common(g: Generator, file: str) -> tuple[str, str]:
    levels = Counter(line.split()[1] for line in g.tree.read(file).splitlines())
    (_, most), *others = levels.most_common(2)
    if others and others[0][1] == most:
        return _count_level(g, file)
    column = f"cut -d ' ' -f 2 {file}"
    ask = g.say(
        "Which level (second column) is the most frequent in {}?",
        "Find the most frequent level, the second word of a line, in {}.",
    )
    return ask, f"{column} | sort | uniq -c | sort -n | tail -n 1 | tr -s ' ' | cut -d ' ' -f 3"


def _distinct(g: Generator, file: str) -> tuple[str, str]:
    ask = g.say(
        "How many different cities does the second column of {} have?",
        "Count the different values in the second column of {}.",
    )
    return ask, f"cut -d , -f 2 {file} | sort -u | wc -l"


def _largest(g: Generator, file: str) -> tuple[str, str]:
    word, end = g.rng.choice((("largest", "tail"), ("smallest", "head")))
    ask = g.say(
        f"Which name has the {word} number (third column) in {{}}?",
        f"Find the name of the row of {{}} with the {word} number.",
    )
    return ask, f"sort -t , -k 3 -n {file} | {end} -n 1 | cut -d , -f 1"


def _in_city(g: Generator, file: str) -> tuple[str, str]:
    city = g.rng.choice(_CITIES)
    ask = g.say(f"How many rows of {{}} are about {city}?", f"Count the rows with {city} in {{}}.")
    return ask, f"grep -c {city} {file}"


def _setting(g: Generator, file: str) -> tuple[str, str]:
    keys = [line.partition("=")[0] for line in g.tree.read(file).split("\n") if line]
    key = g.rng.choice(keys)
    ask = g.say(f"What is the value of {key} in {{}}?", f"To which value is {key} set in {{}}?")
    return ask, f"grep {key}= {file} | cut -d = -f 2"


def _words(g: Generator, file: str) -> tuple[str, str]:
    number = g.rng.randint(2, 4)
    choice = g.rng.random() < 0.5
    if choice:
        return f"How many words does line {number} of {{}} have?", (
            f"head -n {number} {file} | tail -n 1 | wc -w"
        )
    word = g.rng.choice(WORDS)
    return f"How often does the word {word} occur in {{}}?", f"grep -o {word} {file} | wc -l"


QUESTIONS: dict[str, tuple[Form, ...]] = {
    "log": (_count_level, _most_common),
    "csv": (_distinct, _largest, _in_city),
    "ini": (_setting,),
    "txt": (_words,),
}


def _keep_lines(g: Generator, file: str) -> tuple[str, str]:
    level, new = g.rng.choice(_LEVELS), g.new_name("log")
    ask = g.say(
        f"Write the lines of {{}} that contain {level} to a new file {new}.",
        f"Make a file {new} with all lines of {{}} that contain {level}.",
    )
    return ask, f"grep {level} {file} > {new}"


def _column(g: Generator, file: str) -> tuple[str, str]:
    new = g.new_name("txt")
    ask = g.say(
        f"Write the different cities (second column) of {{}}, sorted, to a new file {new}.",
        f"Make a file {new} with the sorted values of the second column of {{}}, each once.",
    )
    return ask, f"cut -d , -f 2 {file} | sort -u > {new}"


def _sorted(g: Generator, file: str) -> tuple[str, str]:
    new = g.new_name("csv")
    word, flag = g.rng.choice((("smallest", "-n"), ("largest", "-n -r")))
    ask = f"Write the rows of {{}} to a new file {new}, sorted by the third column, {word} first."
    return ask, f"sort -t , -k 3 {flag} {file} > {new}"


def _set_value(g: Generator, file: str) -> tuple[str, str]:
    key = g.rng.choice([line.partition("=")[0] for line in g.tree.read(file).split("\n") if line])
    value = f"{g.rng.choice(WORDS)}{g.rng.randint(100, 999)}"
    ask = g.say(f"Set {key} to {value} in {{}}.", f"Change the value of {key} in {{}} to {value}.")
    return ask, f"sed -i s/^{key}=.*/{key}={value}/ {file}"


def _capitals(g: Generator, file: str) -> tuple[str, str]:
    new = g.new_name("txt")
    ask = f"Write the text of {{}} in capitals to a new file {new}."
    return ask, f"tr a-z A-Z < {file} > {new}"


def _append(g: Generator, file: str) -> tuple[str, str]:
    text = " ".join(g.rng.sample(WORDS, 2))
    ask = g.say(f'Append the line "{text}" to {{}}.', f'Add "{text}" as the last line of {{}}.')
    return ask, f"echo {text} >> {file}"


def _rename(g: Generator, file: str) -> tuple[str, str]:
    folder, _, name = file.rpartition("/")
    new = f"old-{name}"
    ask = g.say(f"Rename {{}} to {new}.", f"Give {{}} the name {new}, in the same folder.")
    return ask, f"mv {file} {folder}/{new}"


def _copy(g: Generator, file: str) -> tuple[str, str]:
    folder = g.rng.choice([f for f in g.folders if f != file.rpartition("/")[0]])
    return f"Copy {{}} to the folder {folder}.", f"cp {file} {folder}"


CHANGES: dict[str, tuple[Form, ...]] = {
    "log": (_keep_lines, _rename, _copy),
    "csv": (_column, _sorted, _copy),
    "ini": (_set_value, _rename),
    "txt": (_capitals, _append),
}


# Tasks about folders.


def _count_files(g: Generator, folder: str) -> tuple[str, str]:
    kind = g.rng.choice(("csv", "log", "ini", "txt", "tmp"))
    ask = f"How many .{kind} files are there in {{}} and the folders below it?"
    return ask, f"find {folder} -type f -name '*.{kind}' | wc -l"


def _clean(g: Generator, folder: str) -> tuple[str, str]:
    ask = g.say(
        "Delete all .tmp files in {} and the folders below it.",
        "Remove every .tmp file below {}, at any depth.",
    )
    return ask, f"find {folder} -name '*.tmp' -delete"


def _collect(g: Generator, folder: str) -> tuple[str, str]:
    kinds = [k for k in g.files if any(f.rpartition("/")[0] == folder for f in g.files[k])]
    kind, new = g.rng.choice(kinds or ["txt"]), g.rng.choice(("moved", "collected", "sorted"))
    ask = f"Make a folder {new} in your home folder and move all .{kind} files of {{}} to it."
    return ask, f"mkdir {new} && mv {folder}/*.{kind} {new}"


def _backup(g: Generator, folder: str) -> tuple[str, str]:
    new = f"{folder.rpartition('/')[2]}-copy"
    return f"Copy {{}} with all it holds to a new folder {new}.", f"cp -r {folder} {new}"


def _where(g: Generator, folder: str) -> tuple[str, str]:
    word = g.rng.choice(WORDS)
    ask = f"Which file in {{}} or below it contains the word {word}? Give its path."
    return ask, f"grep -r -l {word} {folder}"


FOLDER_QUESTIONS: tuple[Form, ...] = (_count_files, _where)
FOLDER_CHANGES: tuple[Form, ...] = (_clean, _collect, _backup)


@lru_cache(maxsize=2048)
def task_of(name: str, kind: str, hidden: float) -> Task:
    """Returns a task. Environments share it. No request is in both splits.

    Args:
        name: name of the task.
        kind: "question", "change" or "mixed".
        hidden: probability that the folder of the file is not given.
    """
    rng = random.Random(int(task_rng(name, f"shell {kind}").integers(2**63)))
    while True:
        generator = Generator(rng)
        asked = kind == "question" or (kind == "mixed" and rng.random() < 0.5)
        text, commands = draw_level(
            name, partial(_draw, generator, asked, hidden), lambda drawn: drawn[0]
        )
        end = generator.tree.copy()
        output, good = "", True
        for command in commands:
            output, good = run(end, command)
        changed = (end.files, end.folders) != (generator.tree.files, generator.tree.folders)
        # Questions have an answer of one line, not always 0.
        right = output.count("\n") == 1 if asked else changed
        if good and right and (output.strip() != "0" or rng.random() < 0.1):
            answer = output.strip() if asked else None
            return Task(text, generator.tree, tuple(commands), answer, end)


def _draw(g: Generator, asked: bool, hidden: float) -> tuple[str, list[str]]:
    """Samples the request and the commands of a task."""
    if g.rng.random() < 0.25:
        forms, place = FOLDER_QUESTIONS if asked else FOLDER_CHANGES, g.rng.choice(g.folders)
        text, command = g.rng.choice(forms)(g, place)
        return text.format(f"the folder {place}"), [command]
    kind = g.rng.choice(sorted(QUESTIONS))
    place = g.file(kind)
    text, command = g.rng.choice((QUESTIONS if asked else CHANGES)[kind])(g, place)
    if g.rng.random() >= hidden:
        return text.format(place), [command]
    name = place.rpartition("/")[2]
    return text.format(name), [f"find {HOME} -name {name}", command]
