"""An episode in progress: its request, its turns with the policy, and the trajectory at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np

from agentgym.errors import naming
from agentgym.registration.making import warn_if_endless
from agentgym.registration.mixture import id_in_play
from agentgym.time_limits import (
    NOT_STARTED,
    TIMED_OUT,
    BoundedCalls,
    CallTimeout,
    timed_out_info,
    unstarted_info,
)
from agentgym.time_step import UNJUDGED
from agentgym.tools.grammar import call_grammar
from agentgym.trainers.data.trajectory import RolloutStats, Segment, Trajectory, Turn
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.sampling import Request, Sample
from agentgym.trainers.rollout.action_room import Room
from agentgym.trainers.rollout.context import AtLimit, Context, Conversation, Tokens
from agentgym.trainers.rollout.env_pool import instructions_of, turns_of
from agentgym.trainers.rollout.thoughts import span_finder, thought_mask
from agentgym.wrappers.privileged_text import PRIVILEGED

if TYPE_CHECKING:
    from agentgym.trainers.policy.engine import Session
    from agentgym.trainers.policy.policy import Policy


@dataclass(frozen=True)
class EpisodeSpec:
    """A request to play an episode.

    Attributes:
        task: name of the task.
        seed: seed of the environment. Episodes with equal (task, seed) start in the same state.
        key: seed of the policy's action sampling, such as (run seed, iteration, index).
        opening: recorded actions that are replayed first. The policy acts after them.
        max_turns: turn limit of this episode. None: that of the environment.
        older: name of the weights that sample some of the turns, in place of the policy in training
            (see `Request.weights`).
        older_share: probability that they sample a turn.
        bootstraps: whether a truncated trajectory keeps its last observation, for a critic.
    """

    task: str
    seed: int
    key: tuple[int, ...]
    opening: tuple[Sample, ...] = ()
    max_turns: int | None = None
    older: str = ""
    older_share: float = 0.0
    bootstraps: bool = True

    @property
    def recorded(self) -> Sequence[Sample]:
        """The recorded actions that are replayed first."""
        return self.opening

    @property
    def replayed(self) -> int:
        """The number of recorded actions that are replayed first."""
        return len(self.recorded)

    def begin(self, index: int, slot: int, env: gymnasium.Env[Any, Any]) -> Playing:
        """Returns the episode to play in a slot."""
        return Play(index, self, slot, env)


class Playing(Protocol):
    """An episode in progress in a slot: of an environment (`Play`) or of a game (`GamePlay`)."""

    index: int
    slot: int
    calls: BoundedCalls | None
    timed_out: str

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        ...

    @property
    def asked(self) -> Sequence[Play]:
        """The agents that act next."""
        ...

    def start(self) -> None:
        """Starts the episode (may run on a worker)."""
        ...

    def read(self, context: Context, room: Room) -> None:
        """Processes the result of `start` or `step`."""
        ...

    def follow_opening(self, policy: Policy | Ensemble) -> bool:
        """Records the next action of the opening and returns whether there was one."""
        ...

    def step(self) -> None:
        """Takes the recorded actions (may run on a worker)."""
        ...

    def trajectories(self) -> list[Trajectory]:
        """Returns the trajectories of the finished episode."""
        ...

    def drop(self, cache: Session) -> None:
        """Removes the prompts of the episode from a cache."""
        ...


class Play:
    """An episode in progress in a slot: `start`, then `read`, `record` and `step` in a loop.

    Attributes:
        calls: runs the calls into the environment with a time limit. None: there is no limit.
        timed_out: description of the call that took too long, "" if there is none.
    """

    calls: BoundedCalls | None = None
    timed_out = ""

    def __init__(self, index: int, episode: EpisodeSpec, slot: int, env: gymnasium.Env[Any, Any]):
        self.index, self.episode, self.slot, self.env = index, episode, slot, env
        self.cache_key: int | str = index
        self.action_span = span_finder(env)
        self.sample: Sample | None = None
        self.observation, self.info = NOT_STARTED, unstarted_info(episode.task)
        self.rng = np.random.default_rng(np.random.SeedSequence(episode.key))
        self.turns: list[Turn] = []
        self.segments: list[Tokens] = []
        self.terminated = self.truncated = self.overflow = self.at_limit = False
        self.prompt: Tokens | None = None
        self.instructions = ""
        self.read_tokens = 0
        self._reward = 0.0

    def start(self) -> None:
        """Resets the environment (may run on a worker)."""
        options: dict[str, Any] = {"task": self.episode.task}
        if self.episode.max_turns is not None:
            options["max_turns"] = self.episode.max_turns
        seed = self.episode.seed
        try:
            with naming(self._place):
                self.observation, self.info = self._call(
                    lambda: self.env.reset(seed=seed, options=options)
                )
        except CallTimeout as error:  # an episode has a turn at least
            self._time_out(f"reset {error}.")

    def _call(self, call: Callable[[], Any]) -> Any:
        return call() if self.calls is None else self.calls(call)

    def _time_out(self, problem: str) -> None:
        name = id_in_play(self.env)
        self.timed_out = f"{name}, task {self.episode.task!r}, seed {self.episode.seed}: {problem}"

    def _instructions(self) -> str:
        return instructions_of(self.env)

    def read(self, context: Context, room: Room) -> None:
        """Processes the result of `start` or `step`. Sets `prompt` unless the episode is over."""
        self.admissible = tuple(self.info.get("admissible", ()))
        if self.sample is None:
            self.instructions = self._instructions()
            self.conversation: Conversation = context.begin(self.instructions)
            self.start_progress = float(self.info.get("progress", 0.0))
        else:
            self._complete_turn()
            # A call that took too long is no limit within which a task must be solved.
            if self.truncated and not self.at_limit and TIMED_OUT not in self.info:
                self.end_at_limit(context.settings.turn_limit)
        if not self.over:
            warn_if_endless(self.env, len(self.turns))
        if not self.over or self._bootstraps:
            self.conversation.observe(str(self.observation))
        self.prompt = None if self.over else self.conversation.prompt(room(self.admissible))
        if self.prompt is None and not self.over:
            self.overflow = True
            self.end_at_limit(context.settings.overflow)

    def end_at_limit(self, end: AtLimit) -> None:
        """Ends the episode at a limit."""
        self.at_limit = True
        self.terminated, self.truncated = end == "terminate", end == "truncate"

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated

    @property
    def _bootstraps(self) -> bool:
        return self.truncated and self.episode.bootstraps

    @property
    def settled(self) -> Sample | None:
        """The recorded action of the opening for this turn, or None after the opening."""
        opening = self.episode.opening
        return opening[len(self.turns)] if len(self.turns) < len(opening) else None

    @property
    def asked(self) -> Sequence[Play]:
        """The episode itself, which has one agent."""
        return (self,)

    def follow_opening(self, policy: Policy | Ensemble) -> bool:
        """Records the next action of the opening and returns whether there was one."""
        settled = self.settled
        if settled is not None:
            self.record(settled, policy)
        return settled is not None

    def request(self, constrain: bool) -> Request:
        """Returns the generation request of this turn."""
        assert self.prompt is not None
        candidates = self.admissible if constrain and self.admissible else None
        grammar = self._grammar if constrain and candidates is None else None
        share = self.episode.older_share
        weights = self.episode.older if share and self.rng.random() < share else ""
        return Request(
            self.prompt,
            self.rng,
            candidates,
            slot=self.cache_key,
            weights=weights,
            grammar=grammar,
        )

    @cached_property
    def _grammar(self) -> str | None:
        """The regular expression of an action, in an environment of tools."""
        return call_grammar(self.env)

    def record(self, sample: Sample, policy: Policy | Ensemble | None = None) -> None:
        """Records the model's action, which `step` passes to the environment.

        Args:
            sample: the action.
            policy: the policy that thought before it acted. None: there are no thoughts.

        Raises:
            ValueError: if the action has no tokens, which the engine must not return.
        """
        if not len(sample.tokens):
            raise ValueError(
                f"An action has at least one token, its end, but the engine returned {sample}."
            )
        assert self.prompt is not None
        segment, start = self._append(self.prompt)
        self.segments[segment] = np.concatenate([self.prompt, sample.tokens]).astype(np.int32)
        self.conversation.act(sample.tokens)
        self.read_tokens += len(self.prompt)
        self.sample = sample
        thought = None
        if policy is not None and self.action_span is not None:
            thought = thought_mask(sample, policy.decode, self.action_span)
        self.turns.append(
            Turn(
                segment=segment,
                start=start,
                stop=start + len(sample.tokens),
                logprobs=np.asarray(sample.logprobs, np.float32),
                support=sample.support,
                observation=str(self.observation),
                action=sample.text,
                reward=0.0,
                reward_terms={},
                valid=True,
                progress=0.0,
                state_key=self._state_key(),
                admissible=self.admissible,
                choice=sample.choice,
                thought=thought,
                version=sample.version,
                token_versions=sample.token_versions,
                privileged=self._privileged(),
            )
        )

    def step(self) -> None:
        """Steps the environment (may run on a worker)."""
        assert self.sample is not None
        text = self.sample.text
        if self.timed_out:
            self.stop()
            return
        try:
            with naming(self._place):
                self.observation, reward, terminated, truncated, self.info = self._call(
                    lambda: self.env.step(text)
                )
        except CallTimeout as error:
            self._time_out(f"step {error}, after the action {text!r:.300}.")
            self.stop()
            return
        self._reward, self.terminated = float(reward), bool(terminated)
        self.truncated = bool(truncated) and not self.terminated

    def _place(self) -> str:
        return (
            f"Raised by the environment in task {self.episode.task!r} with seed "
            f"{self.episode.seed}, after the actions {[t.action for t in self.turns]}."
        )

    def stop(self) -> None:
        """Truncates the episode, of which a call took too long. The turn has no reward."""
        self.info, self._reward = timed_out_info(self.info), 0.0
        self.terminated, self.truncated = False, True

    def _complete_turn(self) -> None:
        turn, info = self.turns[-1], self.info
        turn.reward = self._reward
        turn.reward_terms = dict(info.get("reward_terms", {"task": self._reward}))
        turn.valid = bool(info.get("valid", True))
        turn.progress = float(info.get("progress", 0.0))

    def _state_key(self) -> str:
        """Returns the key of the state, the observation in environments without one."""
        return str(self.info.get("state_key", self.observation))

    def _privileged(self) -> str:
        """Returns the text for the critic, "" unless it is in the info."""
        return str(self.info.get(PRIVILEGED, ""))

    @property
    def _env_turns(self) -> int:
        """See `RolloutStats`."""
        return turns_of(self.env)

    def _append(self, prompt: Tokens) -> tuple[int, int]:
        """Returns the index of the segment that a prompt extends (or starts), and its length."""
        if self.segments:
            last = self.segments[-1]
            if len(prompt) >= len(last) and np.array_equal(prompt[: len(last)], last):
                return len(self.segments) - 1, len(prompt)
        self.segments.append(prompt)
        return len(self.segments) - 1, len(prompt)

    def trajectories(self) -> list[Trajectory]:
        """Returns the trajectory of the finished episode."""
        return [self.trajectory()]

    def drop(self, cache: Session) -> None:
        """Removes the prompts of the episode from a cache."""
        cache.drop(self.cache_key)

    def trajectory(self) -> Trajectory:
        """Returns the trajectory of the finished episode."""
        bootstrap = None
        if self._bootstraps:
            prompt = self.conversation.prompt(room=0)
            assert prompt is not None
            bootstrap, _ = self._append(prompt)
            self.segments[bootstrap] = prompt
        return Trajectory(
            env_id=id_in_play(self.env),
            task=self.episode.task,
            seed=self.episode.seed,
            segments=[Segment(tokens) for tokens in self.segments],
            turns=self.turns,
            terminated=self.terminated,
            truncated=self.truncated,
            success=bool(self.info.get("success", False)),
            bootstrap=bootstrap,
            final_observation=str(self.observation),
            final_state_key=self._state_key(),
            final_privileged=self._privileged(),
            start_progress=self.start_progress,
            instructions=self.instructions,
            stats=RolloutStats(
                read_tokens=self.read_tokens,
                overflow=self.overflow,
                at_limit=self.at_limit,
                timed_out=TIMED_OUT in self.info,
                unjudged=UNJUDGED in self.info,
                left_out=self.conversation.left_out,
                cut=self.conversation.cut,
                env_turns=self._env_turns,
            ),
        )
