"""`RulesAgent`: compares attempts at a task, and keeps a list of rules from task to task."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import (
    Program,
    ScaffoldAgent,
    check_counts,
    data_file,
    read_data,
    transcript,
)
from agentgym.errors import ConfigError
from agentgym.utils.files import replace_text
from agentgym.utils.note_edits import apply_edits

COMPARE = (
    "Compare the attempts. Why did some of them succeed and others fail? Edit the list of rules, "
    "so that it helps with other tasks in this environment too. Reply with edits, one per line, "
    "and nothing else:\n"
    "- remember: TEXT (add a rule)\n"
    "- remember 2: TEXT (replace rule 2)\n"
    "- forget 2 (delete rule 2)"
)


class RulesAgent(ScaffoldAgent):
    """Learns rules from groups of attempts, and acts with them in its prompt.

    "Training-Free Group Relative Policy Optimization" (arXiv 2510.08191): the group's advantage is
    a text, and the update is an edit of a list of experiences instead of weights. "AutoManual"
    (arXiv 2405.16247) builds such a list by edits, too. Each task is attempted `trials` times
    (`MultiTrial`). Before the last attempt, if some have failed and some not, the writer compares
    them and edits the rules. Attempts with equal outcomes teach nothing, as in GRPO.

    The rules outlive the episode, so results depend on the order of the episodes and on `num_envs`.

    Args:
        agent: the agent that acts and compares.
        trials: number of attempts, at least 3, for the wrapper `MultiTrial`.
        size: maximum number of rules. If there are more, the oldest is lost.
        length: maximum number of characters of a rule.
        data: file of rules, one per line. It is read at the start if it exists, and written after
            each change.
        name: name in reports.

    Raises:
        ConfigError: if a number is too small, or the folder of the file does not exist. From `act`:
            if the environment is not wrapped in `MultiTrial`.
        DataError: if the file is no text.
    """

    kind = "rules"

    def __init__(
        self,
        agent: Agent,
        *,
        trials: int = 4,
        size: int = 20,
        length: int = 300,
        data: str | None = None,
        name: str | None = None,
    ):
        super().__init__(agent, name=name)
        check_counts(3, trials=trials)
        check_counts(size=size, length=length)
        self.trials, self.size, self.length = trials, size, length
        self.data = data_file(data)
        self.rules = (read_data(self.data) or "").splitlines()[-size:]
        self.wrap = (*self.wrap, f"MultiTrial:n={trials},stop_on_success=false")

    def program(self, view: View) -> Program[None]:
        """Attempts the task with the rules, and compares the attempts before the last one."""
        if "trial_observation" not in view.info:
            raise ConfigError(
                f"{self.kind} needs an environment with several attempts: add the wrapper "
                f"MultiTrial, such as --wrap MultiTrial:n={self.trials},stop_on_success=false."
            )
        attempts: list[tuple[bool, str]] = []
        while True:
            own = self.begin(view, self._shown())
            yield from self.play(view, own)
            while not view.info["trial_end"]:
                yield from self.play(view, own)
            last = transcript(own.history, view.info["trial_observation"])
            attempts.append((bool(view.info["trial_success"]), last))
            if len(attempts) == self.trials - 1 and len({won for won, _ in attempts}) == 2:
                texts = [
                    f"Attempt {number}, which {'succeeded' if won else 'failed'}:\n\n{text}"
                    for number, (won, text) in enumerate(attempts, 1)
                ]
                numbered, shown = self.rules.copy(), [self._shown()] if self.rules else []
                reply = yield from self.write(view, *shown, *texts, COMPARE)
                self._edit(reply, numbered)

    def _edit(self, reply: str, numbered: Sequence[str]) -> None:
        """Applies the edits of a reply to the rules, which it numbers as they were shown."""
        apply_edits(reply, self.rules, numbered, size=self.size, length=self.length)
        if self.data is not None:
            replace_text(self.data, "".join(f"{rule}\n" for rule in self.rules))

    def _shown(self) -> str:
        if not self.rules:
            return ""
        numbered = (f"{number}. {rule}" for number, rule in enumerate(self.rules, 1))
        return "\n".join(["Rules that you have learned from earlier tasks:", *numbered])
