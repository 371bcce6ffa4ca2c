"""Help for evaluations: names of agents, tokens and cost, progress without a terminal, JSON."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, TextIO

from agentgym.agents import Agent
from agentgym.evaluation.report import Report
from agentgym.registration.making import short_id
from agentgym.utils.files import replace_text

COUNTS = ("requests", "prompt_tokens", "completion_tokens", "unreported")
EVERY = 10.0
"""Seconds between two lines of progress."""


def write_json(path: Path, found: Any) -> None:
    """Writes a result. An earlier one is replaced as a whole."""
    replace_text(path, json.dumps(found, indent=1, allow_nan=False) + "\n")


def other_arguments(agent: Agent, env: str, arguments: Mapping[str, Any]) -> list[str]:
    """Returns a line if a policy was trained in an environment with other arguments.

    Args:
        agent: the agent. Policies have `trained_in`, the id and arguments of their environment.
        env: the full id of the environment to play.
        arguments: its arguments.
    """
    id, trained = getattr(agent, "trained_in", ("", {}))
    played = {name: value for name, value in arguments.items() if name != "wrap"}
    if not isinstance(id, str) or short_id(id) != short_id(env) or trained == played:
        return []
    words = " ".join(f"{name}={value}" for name, value in trained.items())
    how = f"--env-kwargs {words}" if words else "no --env-kwargs"
    return [f"{agent.name} was trained in {short_id(env)} with {how}."]


def tell_apart(agents: Sequence[Agent], specs: Sequence[str]) -> None:
    """Renames agents of the same name, by their folder or server, or else by a number.

    Args:
        agents: the agents.
        specs: the words they were made from.
    """
    before = [agent.name for agent in agents]
    for name, count in Counter(before).items():
        if count == 1:
            continue
        places = [i for i, n in enumerate(before) if n == name]
        endings = _endings([specs[i].partition(":")[2] for i in places])
        seen: Counter[str] = Counter()
        for i, ending in zip(places, endings, strict=True):
            seen[ending] += 1
            renamed = f"{name} ({ending})" if ending else name
            agents[i].name = renamed + (f" #{seen[ending]}" if seen[ending] > 1 else "")


def _endings(texts: Sequence[str]) -> list[str]:
    """Returns the shortest endings of paths or addresses that tell different ones apart."""
    parts = [PurePath(text).parts for text in texts]
    for length in range(1, max(map(len, parts), default=0) + 1):
        endings = ["/".join(part[-length:]) for part in parts]
        if len(set(endings)) == len(set(texts)):
            return endings
    return list(texts)


class Usages:
    """Requests and tokens that agents behind a server used, by report.

    An agent counts them in an attribute `usage` with the fields `COUNTS`: see
    `agentgym.agents.basic.chat.Usage`.

    Args:
        price: prices per million prompt tokens and completion tokens. None: those that the agent
            was made with, if any.
    """

    def __init__(self, price: tuple[float, float] | None = None):
        self.price = price
        self._found: list[tuple[Report, dict[str, float]]] = []

    @contextmanager
    def of(self, agent: Agent, reports: Sequence[Report]) -> Iterator[None]:
        """Records for the reports that are added meanwhile how much the agent used."""
        count, before = len(reports), _counts(agent)
        try:
            yield
        finally:
            after = _counts(agent)
            if after is not None:
                used = {name: n - (before or {}).get(name, 0) for name, n in after.items()}
                used = self._priced(agent, used)
                self._found += [(report, used) for report in reports[count:]]

    def _priced(self, agent: Any, used: dict[str, float]) -> dict[str, float]:
        names = ("prompt_price", "completion_price")
        prices = self.price or tuple(getattr(agent.usage, name, None) for name in names)
        tokens = used["prompt_tokens"], used["completion_tokens"]
        parts = [p * n for p, n in zip(prices, tokens, strict=True) if p is not None]
        return used | {"cost": round(sum(parts) / 1e6, 6)} if len(parts) == 2 else used

    def to_json(self, report: Report) -> dict[str, Any]:
        """Returns {"usage": counts} of a report, {} if its agent counts nothing."""
        return next(({"usage": used} for r, used in self._found if r is report), {})

    def lines(self) -> list[str]:
        """Returns a line per report whose agent counts."""
        lines = []
        for report, used in self._found:
            line = (
                f"{report.agent} on {report.env.removeprefix('AgentGym/')}: "
                f"{used['requests']:,.0f} requests, {used['prompt_tokens']:,.0f} prompt tokens, "
                f"{used['completion_tokens']:,.0f} completion tokens"
            )
            if "cost" in used:
                line += f", cost {used['cost']:,.4f}"
            if used["unreported"]:
                line += f" ({used['unreported']:,.0f} requests without reported tokens)"
            lines.append(f"{line}.")
        return lines


def _counts(agent: Agent) -> dict[str, float] | None:
    usage = getattr(agent, "usage", None)
    if usage is None:
        return None
    return {name: getattr(usage, name, 0) for name in COUNTS}


class ProgressLines:
    """Writes how many episodes are finished, one line every ten seconds at most.

    Args:
        file: where to write.
        clock: returns the time in seconds.
    """

    def __init__(self, file: TextIO, clock: Callable[[], float] = time.monotonic):
        self._file, self._clock = file, clock
        self._last = clock()

    def start(self, name: str, total: int) -> Callable[[], None]:
        """Returns a function to call after each of so many episodes."""
        finished = 0

        def advance() -> None:
            nonlocal finished
            finished += 1
            now = self._clock()
            if now - self._last >= EVERY:
                self._last = now
                print(f"{name}: {finished}/{total} episodes", file=self._file, flush=True)

        return advance
