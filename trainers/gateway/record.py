"""`Record`: the calls of an episode of a foreign program, and the trajectory that they give.

A call extends a token sequence only if its prompt starts with exactly these tokens. Any other call,
of a sub-agent, after a summary, with an edited history, begins a sequence of its own, in which
earlier tokens are context. So every sampled token is trained once.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.trainers.data.trajectory import RolloutStats, Segment, Tokens, Trajectory, Turn
from agentgym.trainers.gateway.messages import call_key
from agentgym.trainers.gateway.prompts import Prompt
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, ToolCall
from agentgym.trainers.policy.sampling import Sample


@dataclass(slots=True)
class Call:
    """A request of the program and its reply.

    Attributes:
        number: number of the request in the episode.
        request: the request.
        prompt: its prompt.
        begun: time of the request, in requests and replies of the episode.
        state: the `info` of the environment at that time. Empty without an environment.
        late: whether the environment had ended.
        ended: time of the reply. None: there is none.
        sample: the generated action. None: there is no reply.
        reply: the reply as it was sent.
        reward: sum of the rewards that answer the reply.
        terms: its components by name.
        valid: whether the environment accepted all that the program did with the reply.
        progress: progress after it. None: that before it.
        answered: the tool calls of the reply that have a result.
    """

    number: int
    request: ChatRequest
    prompt: Prompt
    begun: int
    state: Mapping[str, Any]
    late: bool = False
    ended: int | None = None
    sample: Sample | None = None
    reply: ChatReply | None = None
    reward: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)
    valid: bool = True
    progress: float | None = None
    answered: set[str] = field(default_factory=set)


class Record:
    """The calls of an episode, and what an environment did with them.

    It is used by one thread at a time. `tick` may be called by any.

    Args:
        info: the `info` of the environment after its reset. Empty without an environment.

    Attributes:
        calls: all calls.
        info: the last `info` of the environment.
        terminated: whether the environment reached a terminal state.
        truncated: whether it cut the episode off.
    """

    def __init__(self, info: Mapping[str, Any] | None = None):
        self.calls: list[Call] = []
        self.info: Mapping[str, Any] = info or {}
        self.terminated = self.truncated = False
        self._start = float(self.info.get("progress", 0.0))
        self._clock = itertools.count(1)

    @property
    def over(self) -> bool:
        """Whether the environment has ended the episode."""
        return self.terminated or self.truncated

    def tick(self) -> int:
        """Returns the time of a request or a reply, in requests and replies."""
        return next(self._clock)

    def begin(self, request: ChatRequest, prompt: Prompt, begun: int | None = None) -> Call:
        """Adds a request that came at a time, such as now."""
        number, begun = len(self.calls), self.tick() if begun is None else begun
        self.calls.append(Call(number, request, prompt, begun, self.info, self.over))
        return self.calls[-1]

    def end(self, call: Call, sample: Sample, reply: ChatReply) -> None:
        """Adds the reply to a call. Calls without one, and those that were lost, are no turns."""
        call.ended, call.sample, call.reply = self.tick(), sample, reply

    def lose(self, call: Call) -> None:
        """Takes back a reply that nobody read, because its client had gone."""
        call.ended = call.sample = call.reply = None

    # Rewards.

    def step(
        self,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any],
        call: ToolCall | None = None,
    ) -> None:
        """Adds a step of the environment: its reward belongs to the reply that asked for it.

        Args:
            reward: reward of the step.
            terminated: whether it reached a terminal state.
            truncated: whether it cut the episode off.
            info: the `info` after it.
            call: the tool call that the program passed on, by name and arguments. None: its action
                was a text.
        """
        self.terminated |= terminated
        self.truncated |= truncated and not terminated
        self.info = info
        owner = self._owner(call)
        if owner is None:
            return
        owner.reward += float(reward)
        for name, term in dict(info.get("reward_terms", {"task": reward})).items():
            owner.terms[name] = owner.terms.get(name, 0.0) + float(term)
        owner.valid &= bool(info.get("valid", True))
        owner.progress = float(info.get("progress", 0.0))

    def _owner(self, call: ToolCall | None) -> Call | None:
        """Returns the latest call whose reply has an open tool call like this, or the latest."""
        replies = [each for each in self.calls if each.reply is not None]
        for each in reversed(replies) if call is not None else ():
            assert each.reply is not None and call is not None
            for made in each.reply.calls:
                if made.id not in each.answered and call_key(made) == call_key(call):
                    each.answered.add(made.id)
                    return each
        return replies[-1] if replies else None

    def score(self, scores: float | Mapping[str, float] | Sequence[float]) -> None:
        """Adds the score of a finished episode.

        Args:
            scores: reward of the last turn, by terms or as a number, or rewards of all turns.

        Raises:
            ValueError: if the number of rewards is not that of the turns, or one is not finite.
        """
        turns = self.turns()
        if isinstance(scores, Mapping):
            terms = [dict(scores)] if turns else []
            turns = turns[-1:]
        elif isinstance(scores, Sequence):
            terms = [{"task": float(score)} for score in scores]
        else:
            terms = [{"task": float(scores)}] if turns else []
            turns = turns[-1:]
        if len(terms) != len(turns):
            raise ValueError(f"Expected {len(turns)} scores, one per turn, got {len(terms)}.")
        if not all(np.isfinite(score) for each in terms for score in each.values()):
            raise ValueError(f"Expected finite scores, got {scores!r:.200}.")
        for call, each in zip(turns, terms, strict=True):
            call.reward += sum(each.values())
            for name, score in each.items():
                call.terms[name] = call.terms.get(name, 0.0) + score

    # The trajectory.

    def turns(self) -> list[Call]:
        """Returns the calls with a reply, in the order of the replies."""
        return sorted((c for c in self.calls if c.ended is not None), key=lambda c: c.ended or 0)

    def weights(self, *, auxiliary: bool = False) -> list[float]:
        """Returns the weight of each turn in policy losses, 0 for those that decide nothing.

        - A repetition of a request in place of its reply: of calls with equal prompts, one after
          the other, only those count from which the conversation went on, or else the last one.
        - A call that the client marks as a repetition takes the place of the earlier one.
        - A single call without tools beside a conversation with tools, such as one for a title.
        - A call after the end of the environment's episode.

        Args:
            auxiliary: whether single calls without tools count.
        """
        turns = self.turns()
        parents = {call.prompt.parent for call in turns}
        with_tools = any(call.request.tools for call in turns)
        weights = []
        for call in turns:
            goes_on = call.number in parents
            alone = call.prompt.relation == "root" and not goes_on and not call.request.tools
            helper = alone and with_tools and not auxiliary
            replaced = not goes_on and self._is_repeated(call, turns, parents)
            weights.append(0.0 if call.late or helper or replaced else 1.0)
        return weights

    @staticmethod
    def _is_repeated(call: Call, turns: Sequence[Call], parents: Collection[int | None]) -> bool:
        """Whether another call with the same prompt, not at the same time, takes its place."""
        for other in turns:
            if other is call or not np.array_equal(other.prompt.tokens, call.prompt.tokens):
                continue
            assert call.ended is not None and other.ended is not None
            later, earlier = other.begun > call.ended, other.ended < call.begun
            if later or (earlier and other.number in parents):
                return True
            if other.request.retry and other.begun > call.begun:
                return True
        return False

    def trajectory(
        self,
        env_id: str,
        task: str,
        seed: int,
        *,
        episode: tuple[int, ...] = (),
        success: bool | None = None,
        cut_off: bool = False,
        pending: Tokens | None = None,
        auxiliary: bool = False,
        instructions: str = "",
    ) -> Trajectory | None:
        """Returns the trajectory, or None if no turn has a weight.

        Args:
            env_id: id of the environment, or a name for the tasks.
            task: name of the task.
            seed: seed of the episode.
            episode: key of the episode.
            success: whether the task was solved. None: that of the environment.
            cut_off: whether a time limit ended the program.
            pending: prompt of a request that was not answered, the last state of an episode that
                was cut off.
            auxiliary: see `weights`.
            instructions: the instructions of the environment, of the program's seat in a game.
        """
        turns, weights = self.turns(), self.weights(auxiliary=auxiliary)
        if not any(weights):
            return None
        segments: list[Tokens] = []
        made = [
            self._turn(call, weight, _append(segments, call.prompt.tokens, call.sample))
            for call, weight in zip(turns, weights, strict=True)
        ]
        truncated = not self.terminated and (self.truncated or cut_off)
        bootstrap = None
        if truncated and pending is not None:
            bootstrap, _ = _append(segments, pending, None)
        return Trajectory(
            env_id=env_id,
            task=task,
            seed=seed,
            segments=[Segment(tokens) for tokens in segments],
            turns=made,
            terminated=not truncated,
            truncated=truncated,
            success=bool(self.info.get("success", False)) if success is None else success,
            bootstrap=bootstrap,
            final_state_key=str(self.info.get("state_key", "")),
            episode=episode,
            start_progress=self._start,
            instructions=instructions,
            stats=RolloutStats(
                read_tokens=sum(len(call.prompt.tokens) for call in turns),
                at_limit=truncated,
                timed_out=cut_off,
            ),
        )

    @staticmethod
    def _turn(call: Call, weight: float, place: tuple[int, int]) -> Turn:
        """Returns the turn of a call whose prompt has a place: its segment and its length."""
        sample, (segment, start) = call.sample, place
        assert sample is not None
        before, observation = float(call.state.get("progress", 0.0)), observed(call.request)
        return Turn(
            segment=segment,
            start=start,
            stop=start + len(sample.tokens),
            logprobs=np.asarray(sample.logprobs, np.float32),
            support=sample.support,
            observation=observation,
            action=sample.text,
            reward=call.reward,
            reward_terms=dict(call.terms),
            valid=call.valid,
            progress=before if call.progress is None else call.progress,
            state_key=str(call.state.get("state_key", observation)),
            admissible=tuple(call.state.get("admissible", ())),
            version=sample.version,
            token_versions=sample.token_versions,
            weight=weight,
        )


def observed(request: ChatRequest) -> str:
    """Returns the text of the messages after the last one of the assistant."""
    texts: list[str] = []
    for message in reversed(request.messages):
        if message.role in ("assistant", "system"):
            break
        texts.append(message.text or "")
    return "\n".join(reversed(texts))


def _append(segments: list[Tokens], prompt: Tokens, sample: Sample | None) -> tuple[int, int]:
    """Adds a prompt and its sample to the longest segment that it starts with, or a new one.

    Returns:
        The index of the segment, and the length of the prompt.
    """
    found = [
        i
        for i, tokens in enumerate(segments)
        if len(tokens) <= len(prompt) and np.array_equal(prompt[: len(tokens)], tokens)
    ]
    whole = prompt if sample is None else np.concatenate([prompt, sample.tokens])
    if not found:
        segments.append(whole.astype(np.int32))
        return len(segments) - 1, len(prompt)
    longest = max(found, key=lambda i: len(segments[i]))
    segments[longest] = whole.astype(np.int32)
    return longest, len(prompt)
