"""`ExamplesAgent`: shows the agent its own successful episodes in similar tasks."""

from __future__ import annotations

import json
import os
from pathlib import Path

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import (
    Program,
    ScaffoldAgent,
    check_counts,
    data_file,
    transcript,
)
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.data.reading import read_episodes
from agentgym.data.writing import chat_rows
from agentgym.errors import ConfigError
from agentgym.utils.bm25 import TextIndex


class ExamplesAgent(ScaffoldAgent):
    """Keeps successful episodes, and puts the most similar ones into the prompt.

    "Self-Generated In-Context Examples Improve LLM Agents for Sequential Decision-Making Tasks"
    (arXiv 2505.00234). Episodes are similar if their first observations are (BM25). The examples
    for an episode are those that are kept when it begins, so results depend on the order of the
    episodes and on `num_envs` unless `keep` is False.

    Only the outermost agent of an evaluation learns how an episode ends. Put this one there.

    Args:
        agent: the agent that acts.
        data: file of episodes in any format of `read_episodes`, such as that of `agentgym export`.
            Its failed episodes are left out. If it does not exist, it begins with the first
            success. New successes are appended as chats, one line of JSON each.
        k: maximum number of examples in the prompt.
        keep: whether the agent's own successes are kept.
        size: maximum number of kept episodes, the last ones.
        length: maximum number of characters of an example, which is cut at its end.
        name: name in reports.

    Raises:
        ConfigError: if a number is below 1, the folder of the file does not exist, or `keep` is
            True and the file holds a JSON list or is a folder.
        DataError: if the file has no episodes or holds anything else, or does not exist and `keep`
            is False.
    """

    kind = "examples"

    def __init__(
        self,
        agent: Agent,
        *,
        data: str | None = None,
        k: int = 2,
        keep: bool = True,
        size: int = 200,
        length: int = 4000,
        name: str | None = None,
    ):
        super().__init__(agent, name=name)
        check_counts(k=k, size=size, length=length)
        self.data = data_file(data)
        self.k, self.keep, self.size, self.length = k, keep, size, length
        begins = self.data is not None and keep and not self.data.exists()
        found = [] if self.data is None or begins else read_episodes([self.data])
        if self.data is not None and found and keep:
            _check_lines(self.data)
        self.episodes = [each for each in found if each.success or not each.rewarded][-size:]

    def program(self, view: View) -> Program[None]:
        """Acts with examples after the instructions."""
        own = self.begin(view, self._shown(view))
        while True:
            yield from self.play(view, own)

    def finish(self, view: View) -> None:
        """Keeps a finished episode if it is a success."""
        if not (self.keep and view.info["success"] and view.history):
            return
        turns = [RecordedTurn(observation, action) for observation, action in view.history]
        episode = RecordedEpisode(
            turns,
            view.instructions,
            env=env_of(view),
            agent=self.name,
            task=str(view.info.get("task", "")),
            success=True,
            last_observation=view.observation,
        )
        self.episodes = [*self.episodes, episode][-self.size :]
        if self.data is not None:
            [row] = chat_rows([episode])  # without rewards, which agents do not see
            with self.data.open("a+b") as file:
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read() != b"\n":  # the last line, written by others, does not end
                        file.write(b"\n")
                file.write(json.dumps(row).encode() + b"\n")

    def similar(self, view: View, k: int) -> list[RecordedEpisode]:
        """Returns the k kept episodes of the same environment that begin most like this one."""
        known = [each for each in self.episodes if each.env in ("", env_of(view))]
        index = TextIndex([each.turns[0].observation for each in known])
        return [known[i] for i in index.search(view.observation, k)]

    def select(self, view: View) -> list[RecordedEpisode]:
        """Returns the examples for an episode that begins."""
        return self.similar(view, self.k)

    def _shown(self, view: View) -> str:
        parts = []
        for episode in self.select(view):
            turns = [(turn.observation, turn.action) for turn in episode.turns]
            text = transcript(turns, episode.last_observation)[: self.length]
            parts.append(f"Example {len(parts) + 1} of a solved task:\n\n{text}")
        return "\n\n".join(parts)


def _check_lines(data: Path) -> None:
    """Raises a ConfigError if lines cannot be appended to a file of episodes."""
    first = ""
    if not data.is_dir():
        with data.open(encoding="utf-8-sig") as lines:
            first = next(filter(str.strip, lines), "")
    if data.is_dir() or first.lstrip().startswith("["):
        raise ConfigError(
            f"New successes are appended as lines, which {data}, a folder or a JSON list, cannot "
            "take: name a file of lines, or add keep=false."
        )


def env_of(view: View) -> str:
    """Returns the id of the environment, "" if it has none."""
    return str(getattr(getattr(view.env, "spec", None), "id", ""))
