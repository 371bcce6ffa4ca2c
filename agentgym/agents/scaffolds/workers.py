"""`WorkersAgent`: a controller passes each turn to a worker for one kind of action."""

from __future__ import annotations

import re
from dataclasses import replace

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import Program, ScaffoldAgent, transcript
from agentgym.errors import ConfigError
from agentgym.reading.typography import without_thoughts

CHOOSE = (
    "Several workers act in this environment, each by one kind of action: {kinds}. Which one "
    "should act now, and with which aim? Reply with the kind, a colon, and a short message to the "
    "worker, such as `{first}: ...`."
)
WORK = (
    "You are one of several workers. You take actions of one kind alone, which begin with "
    "`{kind}`. The controller has chosen you for this turn{message}"
)
SHOWN = 6
"""Number of last turns that the controller reads."""


class WorkersAgent(ScaffoldAgent):
    """Chooses the kind of the next action first, and asks a worker of this kind for it.

    "BOLAA: Benchmarking and Orchestrating LLM-augmented Autonomous Agents" (arXiv 2308.05960): a
    controller selects among agents that each have one kind of action, such as searching and
    clicking, and sends a message to it. Each worker is the inner agent with an assignment of its
    own, and with the admissible actions of its kind, if there are any. The controller is the
    writer, which may be another agent.

    Args:
        agent: the agent that acts.
        kinds: first words of actions, one per worker, as in "search/click", at least two.
        name: name in reports.

    Raises:
        ConfigError: for fewer than two different kinds.
    """

    kind = "workers"

    def __init__(self, agent: Agent, *, kinds: str = "search/click", name: str | None = None):
        super().__init__(agent, name=name)
        self.kinds = [kind.strip().lower() for kind in kinds.split("/")]
        if len({*self.kinds}) < max(2, len(self.kinds)) or not all(self.kinds):
            raise ConfigError(f"kinds must be two or more first words, got {kinds!r:.80}.")

    def program(self, view: View) -> Program[None]:
        """Asks the controller for a kind, and a worker of it for the action, turn by turn."""
        own, ask = self.begin(view), CHOOSE.format(kinds=", ".join(self.kinds), first=self.kinds[0])
        while True:
            now = transcript(own.history[-SHOWN:], own.observation)
            reply = yield from self.write(view, now, ask)
            kind, message = self.chosen(reply)
            note = WORK.format(kind=kind, message=f": {message}" if message else ".")
            mine = [each for each in own.info["admissible"] if each.lower().startswith(kind)]
            worker = replace(
                own,
                instructions=f"{own.instructions}\n\n{note}",
                info={**own.info, "admissible": tuple(mine) or own.info["admissible"]},
            )
            action = yield self.agent, worker
            yield from self.take(view, own, action)

    def chosen(self, reply: str) -> tuple[str, str]:
        """Returns the kind that a reply names, the first one if it names none, and the message."""
        line = " ".join(without_thoughts(reply).split())
        found = re.search(rf"\b({'|'.join(map(re.escape, self.kinds))})\b", line.lower())
        if found is None:
            return self.kinds[0], ""
        return found[1], line[found.end() :].lstrip("`*: ").strip()
