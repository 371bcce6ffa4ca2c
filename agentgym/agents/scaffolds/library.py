"""`LibraryAgent`: functions of programs outlive the episode, and are revised after failures."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import (
    Program,
    ScaffoldAgent,
    check_counts,
    data_file,
    read_data,
    smoothed_success,
    transcript,
)
from agentgym.agents.scaffolds.examples import env_of
from agentgym.errors import DataError
from agentgym.utils.action_parsing import code_blocks
from agentgym.utils.files import replace_text

REVISE = (
    "The episode failed. Which functions would have helped, or have misled? Write new functions, "
    "or better ones with the same names, that also help in other tasks of this environment, each "
    "with a docstring. Reply with one Python code block of function definitions and nothing else."
)
TRIED = 3
"""Episodes after which a function is compared with the one that it has replaced."""


@dataclass
class Function:
    """A function of the library.

    Attributes:
        source: its definition.
        env: id of the environment that it is for.
        uses: number of finished episodes that have called it.
        wins: number of those that succeeded.
        before: the definition that it has replaced, if any.
        worth: the value of that one.
    """

    source: str
    env: str = ""
    uses: int = 0
    wins: int = 0
    before: str = ""
    worth: float = 0.0

    @property
    def value(self) -> float:
        """The mean success of the episodes, see `smoothed_success`."""
        return smoothed_success(self.wins, self.uses)


class LibraryAgent(ScaffoldAgent):
    """Keeps the functions that its programs define, for programs of later episodes.

    For environments with the wrapper `CodeAction`, whose actions are Python programs. Functions of
    a success join the library, as in DynaSaur ("Large Language Agents Beyond Predefined Actions",
    arXiv 2411.01747). After a failure, the writer reads the episode and writes or revises some, as
    in "Empowering Large Language Model Agents through Action Learning" (arXiv 2402.15809). A
    revised function that has been called in 3 episodes with less success than the old one is
    replaced by it again, the roll-back of "Training Language Model Agents without Modifying
    Language Models" (arXiv 2402.11359). If there are more than `size`, the one with the lowest mean
    success goes.

    The prompt lists the functions with their docstrings. A program that names one begins with its
    definition, and with those that it needs.

    The library outlives the episode, so results depend on the order of the episodes and on
    `num_envs`. Only the outermost agent of an evaluation learns how an episode ends.

    Args:
        agent: the agent that writes the programs, and revises functions.
        size: maximum number of functions per environment.
        length: maximum number of characters of a function. Longer ones are left out.
        data: JSON file of the library. It is read at the start if it exists, and written after
            each episode.
        name: name in reports.

    Raises:
        ConfigError: if a number is below 1, or the folder of the file does not exist.
        DataError: if the file holds anything else than functions.
    """

    kind = "library"

    def __init__(
        self,
        agent: Agent,
        *,
        size: int = 20,
        length: int = 2000,
        data: str | None = None,
        name: str | None = None,
    ):
        super().__init__(agent, name=name)
        check_counts(size=size, length=length)
        self.size, self.length, self.data = size, length, data_file(data)
        self.functions = _read(self.data, read_data(self.data) or "[]")
        self._failed: list[tuple[str, str]] = []  # environments and texts that nobody has read
        self._called: dict[int, dict[str, Function]] = {}  # of episodes in progress

    def known(self, env: str) -> dict[str, Function]:
        """Returns the functions for an environment by name."""
        found = [each for each in self.functions if each.env == env]
        return {definitions(each.source)[0][0]: each for each in found}

    def program(self, view: View) -> Program[None]:
        """Acts with the functions of earlier episodes, which are revised after failures."""
        env = env_of(view)
        failed = [text for where, text in self._failed if where == env]
        self._failed = [each for each in self._failed if each[0] != env]
        for text in failed:
            sources = [each.source for each in self.known(env).values()]
            shown = "\n\n".join(["The functions so far:", *(sources or ["(none)"])])
            reply = yield from self.write(view, shown, f"The episode:\n\n{text}", REVISE)
            self._add(env, *code_blocks(reply), replace=True)
        known = self.known(env)
        called = self._called[id(view.rng)] = {}
        own = self.begin(view, _listed(known.values()))
        while True:
            action = yield self.agent, own
            needed = _needed("\n".join(code_blocks(action)), known)
            called |= {name: known[name] for name in needed}
            observation = own.observation
            yield _prefixed(action, [known[name].source for name in needed])
            own.history.append((observation, action))  # as the agent has written it
            own.observation, own.info = view.observation, view.info

    def finish(self, view: View) -> None:
        """Keeps the functions of a success, and the outcome of those that were called."""
        called = self._called.pop(id(view.rng), None)
        if called is None:
            return
        env, won = env_of(view), bool(view.info["success"])
        for each in called.values():
            each.uses, each.wins = each.uses + 1, each.wins + won
            if each.before and each.uses >= TRIED and each.value < each.worth:
                each.source, each.before = each.before, ""
                each.uses = each.wins = 0
        if won:
            code = [block for _, action in view.history for block in code_blocks(action)]
            self._add(env, *code, replace=False)
        else:
            self._failed.append((env, transcript(view.history, view.observation)))
        if self.data is not None:
            rows = [asdict(each) for each in self.functions]
            replace_text(self.data, json.dumps(rows, indent=1) + "\n")

    def _add(self, env: str, *programs: str, replace: bool) -> None:
        """Adds the functions that programs define. The last definition of a name counts.

        Args:
            env: id of the environment.
            programs: the programs. One that is none defines nothing.
            replace: whether functions of the same name are replaced.
        """
        found = dict(pair for each in programs for pair in definitions(each))
        for name, source in found.items():
            old = self.known(env).get(name)
            if len(source) > self.length or (old and (not replace or old.source == source)):
                continue
            if old:
                old.before, old.worth = old.source, old.value
                old.source, old.uses, old.wins = source, 0, 0
            else:
                self.functions.append(Function(source, env))
        mine = [each for each in self.functions if each.env == env]
        for each in sorted(mine, key=lambda each: each.value)[: max(0, len(mine) - self.size)]:
            self.functions.remove(each)


def definitions(code: str) -> list[tuple[str, str]]:
    """Returns the name and the source of each function that a program defines, [] if it is none."""
    try:
        found = [each for each in ast.parse(code).body if isinstance(each, ast.FunctionDef)]
        return [(each.name, ast.unparse(each)) for each in found]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _needed(code: str, known: dict[str, Function]) -> list[str]:
    """Returns the functions of the library that a program needs, each after those it names."""
    own = {name for name, _ in definitions(code)}
    found: list[str] = []
    seen: set[str] = set()

    def visit(text: str) -> None:
        for name in sorted(_names(text) & known.keys() - own):
            if name not in seen:
                seen.add(name)
                visit(known[name].source)
                found.append(name)

    visit(code)
    return found


def _names(code: str) -> set[str]:
    """Returns the names that a program reads, none if it is no program."""
    try:
        return {each.id for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def _prefixed(action: str, sources: Sequence[str]) -> str:
    """Returns an action whose program begins with some definitions."""
    if not sources:
        return action
    code = "\n\n".join([*sources, *code_blocks(action)])
    return f"```python\n{code}\n```"


def _listed(functions: Iterable[Function]) -> str:
    """Returns functions as text: their signatures and docstrings."""
    lines = []
    for each in functions:
        [node] = ast.parse(each.source).body
        assert isinstance(node, ast.FunctionDef)
        says = " ".join((ast.get_docstring(node) or "").split())
        lines.append(f"- {node.name}({ast.unparse(node.args)})" + f": {says}" * bool(says))
    head = ["Functions of earlier episodes that programs can call:"] * bool(lines)
    return "\n".join([*head, *lines])


def _read(file: Any, text: str) -> list[Function]:
    """Returns the functions of a file."""
    try:
        found = [Function(**each) for each in json.loads(text)]
        good = all(len(definitions(each.source)) == 1 for each in found)
        good = good and all(type(n) is int for each in found for n in (each.uses, each.wins))
    except (ValueError, TypeError) as error:
        raise DataError(f"{file} holds no list of functions.") from error
    if not good:
        raise DataError(f"{file} must hold one definition and two counts per function.")
    return found
