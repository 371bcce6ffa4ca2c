"""`CentralView`: the input of a central critic, the observations of all agents of a game."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentgym.trainers.rollout.context import Context, Tokens
from agentgym.trainers.trajectory import Batch, Segment, Trajectory


@dataclass(frozen=True)
class CentralView:
    """Maps a batch to one in which the observations of the other agents follow every prompt.

    The value of a state is then read from what all agents see at that time. Only the critic reads
    the result: the trajectories of the policy stay as they are. If a segment would exceed the
    length limit, the inserted texts are cut, all to the same length.

    Source: the central value function of MAPPO, "The Surprising Effectiveness of PPO in Cooperative
    Multi-Agent Games" (arXiv 2103.01955), from the agent's own and the global state.

    Attributes:
        context: the prompt builder, whose tokenizer and length limit are used.
    """

    context: Context

    def __call__(self, batch: Batch) -> Batch:
        """Returns the batch with longer segments, and its actions moved in them."""
        return replace(batch, trajectories=[self._trajectory(t) for t in batch.trajectories])

    def _trajectory(self, trajectory: Trajectory) -> Trajectory:
        places: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for turn in trajectory.turns:
            places[turn.segment].append((turn.start, turn.others))
        last = trajectory.bootstrap
        if last is not None:
            end = len(trajectory.segments[last].tokens)
            places[last].append((end, trajectory.final_others))
        turns, segments = list(trajectory.turns), list(trajectory.segments)
        for number, inserts in places.items():
            tokens, begins = self._inserted(segments[number].tokens, inserts)
            segments[number] = Segment(tokens)
            of_segment = [m for m, turn in enumerate(turns) if turn.segment == number]
            for m, begin in zip(of_segment, begins, strict=False):
                turn = turns[m]
                turns[m] = replace(turn, start=begin, stop=begin + turn.stop - turn.start)
        return replace(trajectory, segments=segments, turns=turns)

    def _inserted(
        self, tokens: Tokens, inserts: Sequence[tuple[int, str]]
    ) -> tuple[Tokens, list[int]]:
        """Returns tokens with texts inserted at some positions, and the positions after each."""
        limit, room = self.context.limit, None
        if limit is not None:
            room = max(0, limit - len(tokens)) // len(inserts)
        pieces: list[Tokens] = []
        begins: list[int] = []
        before = length = 0
        for place, text in inserts:
            more = self.context.observation_tokens(text)[:room]
            pieces += [tokens[before:place], more]
            length += place - before + len(more)
            begins.append(length)
            before = place
        return np.concatenate([*pieces, tokens[before:]]).astype(np.int32), begins
