"""The journal of a run: finished episodes that no checkpoint includes yet.

Every finished episode is appended to a file of its process, as one line of JSON with a checksum. A
resumed run takes them from there instead of playing them again. The next checkpoint deletes the
journal. An episode is identified by its task, its seed and the seed of its actions, which contains
the iteration and the number of the episode.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Sequence
from pathlib import Path

from agentgym.trainers.data.packing import pack, unpack
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.system.checkpoint import writing


class Journal:
    """Finished episodes in `folder/journal/`.

    Args:
        folder: the folder of the run.
        rank: the number of this process, which writes a file of its own.
        exact: whether a resumed run must repeat an uninterrupted one bit by bit. The numbers of an
            episode depend, in their last bits, on the episodes that are played beside it. `read`
            then returns all of the requested episodes or none.
    """

    def __init__(self, folder: Path, rank: int, *, exact: bool):
        self.folder, self.exact = folder / "journal", exact
        self._rank = rank
        self._file = self.folder / f"{rank}.jsonl"
        self._found: dict[str, list[Trajectory]] | None = None

    def append(self, episode: EpisodeSpec, trajectories: Sequence[Trajectory]) -> None:
        """Adds a finished episode, unless it is to be played again.

        Those with an opening are, which others determine, and those on which the verdict of a judge
        is unreadable.
        """
        if episode.replayed or any(each.stats.unjudged for each in trajectories):
            return
        body = json.dumps([pack(t) for t in trajectories], default=lambda number: number.item())
        line = json.dumps([_name(episode), zlib.crc32(body.encode()), body])
        with writing(self._file):
            self.folder.mkdir(exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}")  # first, as a killed process may have left half a line

    def read(self, episodes: Sequence[EpisodeSpec]) -> dict[int, list[Trajectory]]:
        """Returns the trajectories of the episodes that were finished before the run was resumed.

        Only the main process reads.

        Args:
            episodes: the requested episodes. The result has their indices as keys.
        """
        if self._found is None:
            self._found = self._load() if self._rank == 0 else {}
        names = [_name(episode) for episode in episodes]
        found = {i: self._found[name] for i, name in enumerate(names) if name in self._found}
        return {} if self.exact and len(found) < len(episodes) else found

    def clear(self) -> None:
        """Deletes the journals of all processes, in the main one."""
        if self._rank == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._found = {}

    def _load(self) -> dict[str, list[Trajectory]]:
        found: dict[str, list[Trajectory]] = {}
        for file in sorted(self.folder.glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
                try:
                    name, checksum, body = json.loads(line)
                except (ValueError, TypeError):
                    continue  # half a line
                if zlib.crc32(str(body).encode()) == checksum:
                    found[name] = [unpack(packed) for packed in json.loads(body)]
        return found


def _name(episode: EpisodeSpec) -> str:
    return json.dumps([episode.task, episode.seed, episode.key, episode.max_turns])
