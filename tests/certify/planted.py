"""An environment with one planted flaw, named by its argument. Each has a check that finds it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any, ClassVar

from agentgym.core import TextEnv
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

LETTERS = "bcdfghklmnpr"
WORDS, TURNS = 12, 10


class Clock:
    """A clock that only a slow environment moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


def endless() -> None:
    """Never returns."""
    while True:
        time.sleep(0.01)


@dataclass
class State:
    """The code, whether the box is open, coins in the hand, and steps to the wall and back."""

    code: str
    open: bool = False
    coin: bool = False
    steps: int = 0


class Planted(TextEnv):
    """Open the box to read a code, and name it. A third of the reward is for the box."""

    instructions = "Open the box, then name the word in it: open box, or a word."
    State = State
    state: State
    started: ClassVar[set[str]] = set()

    def __init__(self, *, flaw: str = "none", **kwargs: Any):
        super().__init__(max_turns=TURNS, **kwargs)
        self.flaw, self.tasks = flaw, Tasks.generated()
        if flaw == "names":
            self.tasks = Tasks(["a", "b", "c"], ["c", "d", "e"])
        self.hidden = 0

    def _level(self) -> str:
        """The name that the words depend on."""
        number = self.task.rpartition("/")[2]
        if self.flaw == "contaminated":
            return str(int(number) % 3000)
        if self.flaw == "duplicates":
            return f"{self.task.partition('/')[0]}/{int(number) % 60}"
        return self.task

    def _words(self) -> list[str]:
        rng = task_rng(self._level(), "words")
        return ["".join(LETTERS[int(i)] for i in rng.integers(12, size=8)) for _ in range(WORDS)]

    def _start(self, task: str) -> TimeStep:
        place = int(task_rng(self._level(), "place").integers(WORDS))
        if self.flaw == "endless start" and task.startswith("test"):
            endless()
        words = self._words()
        code = words[2 if self.flaw == "place" else place]
        if self.flaw == "constant":
            code = "always"
        if self.flaw == "unsolvable" and task_rng(task, "lost").random() < 0.4:
            code = "z" * 8
        self.state, self.hidden = State(code), 0
        return self._look()

    def _admissible(self) -> tuple[str, ...]:
        words = self._words() if self.flaw != "constant" else [*self._words()[1:], "always"]
        more = {"loop": ("take coin", "drop coin"), "loop-agent": ("take coin", "drop coin")}
        more |= {"gameable": ("hit it",), "passive": ("walk",)}
        return ("open box", *more.get(self.flaw, ()), *words)

    def _look(self, text: str = "", reward: float = 0.0, **end: Any) -> TimeStep:
        state = self.state
        leak = f" (debug: {state.code})" if self.flaw == "leak" else ""
        coin = " You have a coin." if state.coin else ""
        room = int(task_rng(self._level(), "room").integers(10**9))
        box = f"The box is open: {state.code}." if state.open else "There is a closed box."
        box = f"Room {room}. {box}"
        key = f"{state.open} {state.coin} {end}"
        if self.flaw == "state-key":
            key = f"{state.coin} {end}"
        if self.flaw == "snapshot" and self.hidden > 1:
            box += " A bird sings."
            key += " bird"
        admissible = () if end.get("terminated") else self._admissible()
        return TimeStep(
            f"{text}{box}{coin}{leak}",
            {"task": reward},
            admissible=admissible,
            state_key=key,
            **end,
        )

    def _advance(self, action: str) -> TimeStep:
        state = self.state
        self.hidden += 1
        if self.flaw == "loop-agent":
            state.steps += 1
        if self.flaw == "slow":
            CLOCK.now += 3.0
        if self.flaw == "endless step" and action == "zzz":
            endless()
        if action not in self._admissible():
            return self._invalid("No such word.")
        if action == "open box":
            return self._open()
        if action.endswith("coin"):
            gain = 0.1 if action == "take coin" and not state.coin else 0.0
            state.coin = action == "take coin"
            return self._look(reward=gain)
        if action == "hit it":
            return self._look(reward=0.9, terminated=True)
        return self._name(action)

    def _open(self) -> TimeStep:
        first, self.state.open = not self.state.open, True
        reward, text = 0.3 * first, ""
        if self.flaw == "unseeded" and random.random() < 0.5:
            text = "It creaks. "
        if self.flaw == "hash":
            text = f"{next(iter({*LETTERS}))}. "
        if self.flaw == "clock":
            text = f"{time.time() // 86_400:.0f}. "
        if self.flaw == "sticky":
            text = "Again. " if Planted.started else ""
            Planted.started.add(self.task)
        if self.flaw == "revoked":
            return self._look(text, reward, success=True, progress=0.3)
        if self.flaw == "passive":
            reward -= 0.05
        return self._look(text, reward)

    def _name(self, word: str) -> TimeStep:
        state = self.state
        right = word == state.code and (state.open or self.flaw == "shortcut")
        if self.flaw == "vacuous":
            return self._look(reward=0.7, terminated=True, success=True)
        reward = 0.7 * right
        if self.flaw == "passive" and not right:
            reward = -0.5
        return self._look(reward=reward, terminated=True, success=right)

    def expert(self) -> str:
        return self.state.code if self.state.open else "open box"
