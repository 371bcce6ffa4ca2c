"""Fingerprints of tasks: transcripts of the expert, compared between and within splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.certify.budget import Part
from agentgym.certify.episodes import Episode, digest, expert, play
from agentgym.core import TextEnv

PRINTED_TURNS = 60
"""Turns of the transcript of a task."""


@dataclass(frozen=True)
class Print:
    """The fingerprint of a task.

    Attributes:
        task: name of the task.
        transcript: digest of everything that the episode shows, and of the hidden facts.
        answer: digest of the prompt and the expert's actions.
        turns: turns of the episode.
    """

    task: str
    transcript: str
    answer: str
    turns: int


def fingerprint(env: TextEnv, task: str) -> Print:
    """Returns the fingerprint of a task, at one seed for all tasks."""
    hidden: list[str] = []

    def choose(env: TextEnv, episode: Episode) -> str:
        if not episode.actions:
            hidden.append(env.privileged_text() or "")
        return expert(env, episode)

    episode = play(env, task, choose, turns=PRINTED_TURNS, seed=0)
    shown = [[row["observation"], row["reward"]] for row in episode.rows]
    answer = [env.instructions, episode.prompt, episode.actions]
    turns = len(episode.actions)
    return Print(task, digest([answer, hidden, shown]), digest(answer), turns)


def fingerprints(
    env: TextEnv, train: Sequence[str], test: Sequence[str], part: Part
) -> tuple[list[Print], list[Print]]:
    """Returns the fingerprints of training and test tasks, as many as the steps allow."""
    found: tuple[list[Print], list[Print]] = [], []
    for number in range(max(len(train), len(test))):
        for pool, prints in zip((train, test), found, strict=True):
            if number < len(pool) and (number < 2 or not part.over):
                prints.append(fingerprint(env, pool[number]))
                part.spend(prints[-1].turns)
    return found
