"""The input of a critic that knows more than the policy: `PrivilegedView`, `StateView`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Segment, Trajectory, Turn
from agentgym.trainers.rollout.context import Context, Tokens


def critic_view(sees: str, context: Context) -> Callable[[Batch], Batch] | None:
    """Returns the view of a critic, given the setting `critic_sees`. None: the prompts."""
    views = {"own": None, "all": PrivilegedView, "hidden": PrivilegedView, "state": StateView}
    view = views[sees]
    return None if view is None else view(context)


@dataclass(frozen=True)
class View:
    """Maps a batch to what a critic reads in place of the prompts.

    Attributes:
        context: the prompt builder, whose tokenizer and length limit are used.
    """

    context: Context

    def __call__(self, batch: Batch) -> Batch:
        """Returns the batch with other segments, and its actions moved in them."""
        return replace(batch, trajectories=[self._trajectory(t) for t in batch.trajectories])

    def _trajectory(self, trajectory: Trajectory) -> Trajectory:
        raise NotImplementedError


class PrivilegedView(View):
    """Maps a batch to one in which the privileged text of a state follows its prompt.

    The text is the observations of the other agents of a game, or the hidden state of an
    environment. Only the critic reads the result: the trajectories of the policy stay as they are.
    If a segment would exceed the length limit, the inserted texts are cut, all to the same length.

    Sources: the critic of "Asymmetric Actor Critic for Image-Based Robot Learning" (arXiv
    1710.06542), from the full state, and the central value function of MAPPO, "The Surprising
    Effectiveness of PPO in Cooperative Multi-Agent Games" (arXiv 2103.01955).
    """

    def _trajectory(self, trajectory: Trajectory) -> Trajectory:
        places: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for turn in trajectory.turns:
            places[turn.segment].append((turn.start, turn.privileged))
        last = trajectory.bootstrap
        if last is not None:
            end = len(trajectory.segments[last].tokens)
            places[last].append((end, trajectory.final_privileged))
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


class StateView(View):
    """Maps a batch to one in which a description of the state replaces every prompt.

    The description is the number of the turn and the privileged text. It is much shorter than a
    prompt, so that a critic learns from it with less computation. Facts that it does not mention
    are unknown to the critic.

    Source: "Asymmetric Actor Critic for Image-Based Robot Learning" (arXiv 1710.06542), whose
    critic has the state as its input and no images.
    """

    def _trajectory(self, trajectory: Trajectory) -> Trajectory:
        """Returns the trajectory with one segment per turn: description and action."""
        segments: list[Segment] = []
        turns: list[Turn] = []
        for m, turn in enumerate(trajectory.turns):
            action = trajectory.segments[turn.segment].tokens[turn.start : turn.stop]
            prompt = self._described(m, turn.privileged, len(action))
            segments.append(Segment(np.concatenate([prompt, action])))
            stop = len(prompt) + len(action)
            turns.append(replace(turn, segment=m, start=len(prompt), stop=stop))
        bootstrap = None
        if trajectory.bootstrap is not None:
            bootstrap = len(segments)
            segments.append(Segment(self._described(len(turns), trajectory.final_privileged, 0)))
        return replace(trajectory, segments=segments, turns=turns, bootstrap=bootstrap)

    def _described(self, turn: int, text: str, room: int) -> Tokens:
        """Returns the tokens of a description, cut to leave room for an action."""
        tokens = self.context.observation_tokens(f"Turn {turn + 1}. {text}")
        limit = self.context.limit
        return tokens if limit is None else self.context.shorten(tokens, limit - room)
