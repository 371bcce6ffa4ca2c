"""Records and transcripts of episodes, and the file of an evaluation that holds them."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.agents import View
from agentgym.errors import ConfigError
from agentgym.evaluation.exploration import exploration
from agentgym.evaluation.failures import OVERFLOWS, failure_of
from agentgym.evaluation.report import Record
from agentgym.utils.serialization import from_json

MOST_SAVED = 64
"""Transcripts hold the admissible actions of a turn if they are not more than this."""


OPTIONAL = {"extracted": "action", "regret": "regret"}
"""Keys of a turn in a transcript that only some infos have, with their names there."""


class EpisodeLog:
    """The turns of an agent in an episode: its view, its rewards and infos.

    Args:
        view: the view of the agent.
        task: the task.
        seed: the seed of the episode.
    """

    def __init__(self, view: View, task: str, seed: int):
        self.view = view
        self.task = task
        self.seed = seed
        self.state_key = str(view.info["state_key"])
        self.admissible: list[tuple[str, ...]] = []
        self.rewards: list[float] = []
        self.infos: list[dict[str, Any]] = []
        self.terminated = False
        self.truncated = False

    def record(self) -> Record:
        """Returns the record of the episode, which must have at least one turn."""
        terms: Counter[str] = Counter()
        for info in self.infos:
            terms.update(info["reward_terms"])
        last = self.infos[-1]
        costs = {name: float(cost) for name, cost in self.view.costs.items()}
        if "regret" in last:
            costs["regret"] = float(last["regret"])
        stationary = self._attribute("stationary", False)
        measured = exploration([self.transcript()]) if stationary else {}
        return Record(
            task=self.task,
            seed=self.seed,
            reward=sum(self.rewards),
            reward_terms={name: float(terms[name]) for name in last["reward_terms"]},
            success=bool(last["success"]),
            progress=float(last["progress"]),
            turns=len(self.infos),
            valid=sum(bool(info["valid"]) for info in self.infos) / len(self.infos),
            terminated=bool(self.terminated),
            truncated=bool(self.truncated),
            costs=costs,
            failure=failure_of(
                self.state_key,
                self.infos,
                terminated=bool(self.terminated),
                overflows=self.view.costs[OVERFLOWS],
            ),
            exploration={name: each for name, each in measured.items() if not math.isnan(each)},
        )

    def transcript(self) -> dict[str, Any]:
        """Returns instructions, observations, actions and rewards as JSON values.

        `action_span` holds the indices of the first character of the action in a reply, with its
        marks, and of the one after it. It is None without `ExtractAction`, and if the reply has no
        action. `extracted` is the action without marks, with this wrapper. `regret` is the regret
        so far, if the environment measures it.
        """
        span = self._attribute("action_span", lambda reply: None)
        turns = [
            {
                "observation": observation,
                "action": action,
                "action_span": span(action),
                "admissible": admissible if len(admissible) <= MOST_SAVED else (),
                "reward": reward,
                "reward_terms": info["reward_terms"],
                "valid": info["valid"],
                "progress": info["progress"],
                **{key: info[name] for key, name in OPTIONAL.items() if name in info},
            }
            for (observation, action), admissible, reward, info in zip(
                self.view.history, self.admissible, self.rewards, self.infos, strict=True
            )
        ]
        return {
            "instructions": self.view.instructions,
            "transcript": turns,
            "last_observation": self.view.observation,
        }

    def _attribute(self, name: str, default: Any) -> Any:
        """Returns an attribute of the environment or a wrapper, `default` if there is none."""
        try:
            return self.view.env.get_wrapper_attr(name)
        except AttributeError:
            return default


def append_episode(
    path: Path, header: Mapping[str, Any], record: Record, episode: EpisodeLog
) -> None:
    """Appends an episode with its transcript to a file, as one line of JSON."""
    line = json.dumps({**header, **vars(record), **episode.transcript()}, allow_nan=False)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def read_saved(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a file written by `evaluate`. Removes an incomplete last line.

    Raises:
        ConfigError: if the file is damaged or was not written by `evaluate`.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    lines = []
    for number, line in enumerate(data[:end].split(b"\n")[:-1], 1):
        try:
            lines.append(json.loads(line))
            from_json(Record, lines[-1])
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{path} cannot be continued: line {number} is not an episode of an evaluation "
                f"({error!s:.200})."
            ) from error
    if end < len(data):  # the process was killed, or the disk full, while it was written
        if not data[end:].startswith(b'{"env"'[: len(data) - end]):
            raise ConfigError(f"{path} cannot be continued: its last line is not an episode.")
        os.truncate(path, end)
    return lines


def continued(
    path: Path, header: Mapping[str, Any], plan: Sequence[tuple[str, int]]
) -> dict[int, Record]:
    """Returns the episodes of a file by their place in the plan.

    Args:
        path: a file written by `append_episode`.
        header: the values that their lines must have.
        plan: the task and the seed of each episode.

    Raises:
        ConfigError: if the file is damaged, or holds an episode twice or one of another plan.
    """
    places = {episode: index for index, episode in enumerate(plan)}
    found: dict[int, Record] = {}
    for line in read_saved(path):
        if any(line.get(name) != value for name, value in header.items()):
            continue
        record = from_json(Record, line)
        place = places.get((record.task, record.seed))
        if place is None or place in found:
            raise ConfigError(
                f"{path} cannot be continued: task {record.task!r} with seed {record.seed} "
                + ("is there twice." if place in found else "is not of this evaluation. ")
                + "Give the same tasks and seed as before, or another file."
            )
        found[place] = record
    return found
