"""Rollout collection: a policy plays many episodes in parallel and returns their trajectories.

A slot is an environment. When its episode ends, the next one starts before the next call of the
model, so finished episodes are never part of a model batch and no slot is idle while episodes are
waiting. An episode depends on the weights and its `EpisodeSpec` alone, up to rounding: actions are
sampled with a generator per episode, independently of the other episodes and of their speed. The
last bits of probabilities depend on the batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np

from agentgym.trainers.policy.engine import Session
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.policy import Policy, Request, Sample, Sampling
from agentgym.trainers.policy.prefix_cache import Slot
from agentgym.trainers.rollout.context import Context, Conversation, Tokens
from agentgym.trainers.rollout.thoughts import span_finder, thought_mask
from agentgym.trainers.trajectory import Segment, Trajectory, Turn
from agentgym.wrappers.privileged_text import PRIVILEGED

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]
Room = Callable[[Sequence[str]], int]
"""Maps the admissible actions to the maximum number of tokens of an action."""


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
    def replayed(self) -> int:
        """The number of recorded actions that are replayed first."""
        return len(self.opening)

    def begin(self, index: int, slot: int, env: gymnasium.Env[Any, Any]) -> Playing:
        """Returns the episode to play in a slot."""
        return Play(index, self, slot, env)


class EnvPool:
    """Pool of environments for rollouts, created lazily and reused.

    Args:
        make_env: creates one environment.
        num_envs: number of slots (episodes played in parallel).
        workers: number of threads that step environments. 0 steps them sequentially in the calling
            thread, which is fastest for environments that need microseconds per step. With workers,
            the model continues as soon as half of the slots have finished their step, so slow
            environments do not block the others.

    Raises:
        ValueError: if `num_envs` is below 1.
    """

    def __init__(self, make_env: MakeEnv, num_envs: int, workers: int = 0):
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}.")
        self._make_env = make_env
        self.num_envs = num_envs
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._threads = ThreadPoolExecutor(workers, "env") if workers else None

    def env(self, slot: int) -> gymnasium.Env[Any, Any]:
        """Returns the environment of a slot."""
        while len(self._envs) <= slot:
            self._envs.append(self._make_env())
        return self._envs[slot]

    def submit(self, call: Callable[[], None]) -> Future[None]:
        """Runs a call on a worker, or immediately if there are no workers."""
        if self._threads is not None:
            return self._threads.submit(call)
        future: Future[None] = Future()
        call()
        future.set_result(None)
        return future

    def close(self) -> None:
        """Closes the environments and ends the workers."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for env in self._envs:
            env.close()
        self._envs.clear()

    def __enter__(self) -> EnvPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Playing(Protocol):
    """An episode in progress in a slot: of an environment (`Play`) or of a game (`GamePlay`)."""

    index: int
    slot: int

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
    """An episode in progress in a slot: `start`, then `read`, `record` and `step` in a loop."""

    def __init__(self, index: int, episode: EpisodeSpec, slot: int, env: gymnasium.Env[Any, Any]):
        self.index, self.episode, self.slot, self.env = index, episode, slot, env
        self.cache_key: int | str = index
        self.action_span = span_finder(env)
        self.sample: Sample | None = None
        self.rng = np.random.default_rng(np.random.SeedSequence(episode.key))
        self.turns: list[Turn] = []
        self.segments: list[Tokens] = []
        self.terminated = self.truncated = self.overflow = False
        self.prompt: Tokens | None = None
        self.read_tokens = 0
        self._reward = 0.0

    def start(self) -> None:
        """Resets the environment (may run on a worker)."""
        options: dict[str, Any] = {"task": self.episode.task}
        if self.episode.max_turns is not None:
            options["max_turns"] = self.episode.max_turns
        self.observation, self.info = self.env.reset(seed=self.episode.seed, options=options)

    def read(self, context: Context, room: Room) -> None:
        """Processes the result of `start` or `step`. Sets `prompt` unless the episode is over."""
        self.admissible = tuple(self.info.get("admissible", ()))
        if self.sample is None:
            self.conversation: Conversation = context.begin(instructions_of(self.env))
        else:
            self._complete_turn()
        if not self.over or self._bootstraps:
            self.conversation.observe(str(self.observation))
        self.prompt = None if self.over else self.conversation.prompt(room(self.admissible))
        if self.prompt is None and not self.over:
            self.overflow = True
            self.terminated = context.settings.overflow == "terminate"
            self.truncated = not self.terminated

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
        share = self.episode.older_share
        weights = self.episode.older if share and self.rng.random() < share else ""
        return Request(self.prompt, self.rng, candidates, slot=self.cache_key, weights=weights)

    def record(self, sample: Sample, policy: Policy | Ensemble | None = None) -> None:
        """Records the model's action, which `step` passes to the environment.

        Args:
            sample: the action.
            policy: the policy that thought before it acted. None: there are no thoughts.
        """
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
                state_key=str(self.info.get("state_key", self.observation)),
                admissible=self.admissible,
                choice=sample.choice,
                thought=thought,
                version=sample.version,
                privileged=self._privileged(),
            )
        )

    def step(self) -> None:
        """Steps the environment (may run on a worker)."""
        assert self.sample is not None
        try:
            self.observation, reward, terminated, truncated, self.info = self.env.step(
                self.sample.text
            )
        except Exception as error:
            error.add_note(
                f"Raised by the environment in task {self.episode.task!r} with seed "
                f"{self.episode.seed}, after the actions {[t.action for t in self.turns]}."
            )
            raise
        self._reward, self.terminated = float(reward), bool(terminated)
        self.truncated = bool(truncated) and not self.terminated

    def _complete_turn(self) -> None:
        turn, info = self.turns[-1], self.info
        turn.reward = self._reward
        turn.reward_terms = dict(info.get("reward_terms", {"task": self._reward}))
        turn.valid = bool(info.get("valid", True))
        turn.progress = float(info.get("progress", 0.0))

    def _privileged(self) -> str:
        """Returns the text for the critic, "" unless it is in the info."""
        return str(self.info.get(PRIVILEGED, ""))

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
            env_id=self.env.spec.id if self.env.spec else type(self.env.unwrapped).__name__,
            task=self.episode.task,
            seed=self.episode.seed,
            segments=[Segment(tokens) for tokens in self.segments],
            turns=self.turns,
            terminated=self.terminated,
            truncated=self.truncated,
            success=bool(self.info.get("success", False)),
            bootstrap=bootstrap,
            final_observation=str(self.observation),
            final_privileged=self._privileged(),
            extras={
                "overflow": self.overflow,
                "left_out": self.conversation.left_out,
                "cut": self.conversation.cut,
                "read_tokens": self.read_tokens,
            },
        )


def collect(*args: Any, **kwargs: Any) -> list[Trajectory]:
    """Plays episodes and returns all trajectories. The arguments are those of `play_episodes`."""
    return [each for played in play_episodes(*args, **kwargs) for each in played]


def play_episodes(
    policy: Policy | Ensemble,
    pool: EnvPool,
    episodes: Sequence[EpisodeSpec],
    context: Context,
    sampling: Sampling,
    *,
    constrain: bool = False,
    continuous: bool = False,
    on_progress: Callable[[int], None] | None = None,
    on_episode: Callable[[int, list[Trajectory]], None] | None = None,
) -> list[list[Trajectory]]:
    """Plays episodes and returns the trajectories of each one, in the order of `episodes`.

    An episode has one trajectory, that of a game one for each seat that is trained.

    Args:
        policy: behaviour policy.
        pool: environment pool.
        episodes: episodes to play.
        context: prompt builder.
        sampling: sampling parameters.
        constrain: whether to restrict actions to `info["admissible"]` if it is not empty.
        continuous: whether episodes go on while the actions of others are generated. Otherwise all
            environments that have answered act together.
        on_progress: callback with the number of finished episodes, before each call of the model.
            An exception in it ends the collection.
        on_episode: callback with the index and the trajectories of each finished episode.
    """
    cache: Any = policy.session() if context.repeats else None
    rollout = _Rollout(
        policy, pool, episodes, context, sampling, cache, constrain, on_progress, on_episode
    )
    try:
        requests = rollout.answer((), False)
        if continuous:
            assert isinstance(policy, Policy)
            policy.serve(requests, sampling, cache, rollout.answer)
            requests = []
        while requests:
            samples = policy.act(requests, sampling, cache)
            requests = rollout.answer(list(zip(requests, samples, strict=True)), False)
    finally:
        wait(rollout.running)  # a slot still stepping must not be reset by the next collection
    return [result for result in rollout.results if result is not None]


class _Rollout:
    """Episodes in progress. Arguments as those of `play_episodes`, and the policy's session."""

    def __init__(
        self,
        policy: Policy | Ensemble,
        pool: EnvPool,
        episodes: Sequence[EpisodeSpec],
        context: Context,
        sampling: Sampling,
        cache: Session | None,
        constrain: bool,
        on_progress: Callable[[int], None] | None,
        on_episode: Callable[[int, list[Trajectory]], None] | None,
    ):
        self.policy, self.pool, self.context, self.cache = policy, pool, context, cache
        self.room, self.constrain = action_room(policy, sampling, constrain), constrain
        self.on_progress, self.on_episode = on_progress, on_episode
        self.results: list[list[Trajectory] | None] = [None] * len(episodes)
        self.waiting = deque(enumerate(episodes))
        self.free = deque(range(min(pool.num_envs, len(episodes))))
        self.running: dict[Future[None], Playing] = {}
        self.acting: dict[Slot, tuple[Playing, Play]] = {}
        self.asked: dict[int, int] = {}  # agents of an episode whose actions are in progress

    def answer(self, done: Sequence[tuple[Request, Sample]], busy: bool) -> list[Request]:
        """Steps environments and returns the requests of the next turns, or none at the end.

        Args:
            done: requests and their actions.
            busy: whether other actions are in progress. If not, half of the slots must answer.
        """
        for request, sample in done:
            assert request.slot is not None
            play, agent = self.acting.pop(request.slot)
            agent.record(sample, self.policy)
            self.asked[play.index] -= 1
            if not self.asked[play.index]:
                self._step(play)
        ready: list[Playing] = []
        while self.waiting or self.running:
            while self.waiting and self.free:
                index, episode = self.waiting.popleft()
                slot = self.free.popleft()
                play = episode.begin(index, slot, self.pool.env(slot))
                self.running[self.pool.submit(play.start)] = play
            enough = 0 if busy else max(1, self.pool.num_envs // 2) - len(ready)
            ready += self._read(enough)
            if self.waiting and self.free:
                continue  # fill the free slots before calling the model
            if self.on_progress is not None:
                self.on_progress(sum(result is not None for result in self.results))
            if ready or busy:
                break
        self.acting |= {agent.cache_key: (play, agent) for play in ready for agent in play.asked}
        self.asked |= {play.index: len(play.asked) for play in ready}
        return [agent.request(self.constrain) for play in ready for agent in play.asked]

    def _step(self, play: Playing) -> None:
        self.running[self.pool.submit(play.step)] = play

    def _read(self, enough: int) -> list[Playing]:
        """Reads new observations. Returns the episodes in which the policy acts."""
        ready: list[Playing] = []
        for play in _answered(self.running, enough):
            play.read(self.context, self.room)
            if play.over:
                self.results[play.index] = trajectories = play.trajectories()
                if self.on_episode is not None:
                    self.on_episode(play.index, trajectories)
                self.free.append(play.slot)
                if self.cache is not None:
                    play.drop(self.cache)
            elif play.follow_opening(self.policy):
                self._step(play)
            else:
                ready.append(play)
        return ready


def action_room(policy: Policy | Ensemble, sampling: Sampling, constrain: bool) -> Room:
    """Returns a function from admissible actions to the maximum length of an action in tokens."""

    def room(admissible: Sequence[str]) -> int:
        lengths = [len(policy.encode_action(text)) for text in admissible] if constrain else []
        return max(lengths, default=sampling.max_new_tokens)

    return room


def samples_of(trajectory: Trajectory, turns: int) -> tuple[Sample, ...]:
    """Returns the first `turns` actions of a trajectory, as the `opening` of another episode."""
    found = []
    for turn in trajectory.turns[:turns]:
        tokens = trajectory.segments[turn.segment].tokens[turn.start : turn.stop]
        found.append(
            Sample(
                tokens, turn.logprobs, turn.support, turn.action, True, turn.choice, turn.version
            )
        )
    return tuple(found)


def _answered(running: dict[Future[None], Playing], enough: int) -> list[Playing]:
    """Waits until enough slots have finished, and removes all finished ones from `running`."""
    done = {future for future in running if future.done()}
    while len(done) < min(enough, len(running)):
        done |= wait([f for f in running if f not in done], return_when=FIRST_COMPLETED).done
    for future in done:
        future.result()  # re-raises exceptions of the environment
    return sorted((running.pop(future) for future in done), key=lambda play: play.index)


def instructions_of(env: gymnasium.Env[Any, Any]) -> str:
    """Returns the instructions of an environment, or "" if it has none."""
    try:
        return str(env.get_wrapper_attr("instructions"))
    except AttributeError:
        return ""


def rollout_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns the rollout metrics of a set of trajectories."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    lengths = [turn.stop - turn.start for turn in turns]

    def share(values: Sequence[Any]) -> float:
        return float(np.mean(values)) if len(values) else 0.0

    return {
        "return": share([t.episode_return for t in trajectories]),
        "success": share([t.success for t in trajectories]),
        "progress": share([t.turns[-1].progress for t in trajectories]),
        "turns": share([len(t.turns) for t in trajectories]),
        "valid": share([turn.valid for turn in turns]),
        "truncated": share([t.truncated for t in trajectories]),
        "action_tokens": share(lengths),
        "thought_tokens": share([0 if t.thought is None else t.thought.sum() for t in turns]),
        "prompt_tokens": sum(t.extras.get("read_tokens", 0) for t in trajectories) / len(turns),
        "context_overflows": float(sum(t.extras.get("overflow", False) for t in trajectories)),
        "turns_left_out": float(sum(t.extras.get("left_out", False) for t in trajectories)),
        "observations_cut": float(sum(t.extras.get("cut", False) for t in trajectories)),
    }


def by_env_id(trajectories: Sequence[Trajectory]) -> list[tuple[str, list[Trajectory]]]:
    """Returns the trajectories of each environment, with its id without namespace."""
    found: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        found.setdefault(trajectory.env_id.rpartition("/")[2], []).append(trajectory)
    return sorted(found.items())


def by_role(trajectories: Sequence[Trajectory]) -> list[tuple[str, list[Trajectory]]]:
    """Returns the trajectories of each role of a game, none of single-agent environments."""
    found: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if trajectory.role:
            found.setdefault(trajectory.role, []).append(trajectory)
    return sorted(found.items())


def draw_tasks(
    tasks: Sequence[str], count: int, rng: np.random.Generator, first: int | None = None
) -> list[tuple[str, int]]:
    """Samples tasks, each with a seed, without replacement as long as there are enough tasks.

    Args:
        tasks: tasks to sample from.
        count: number of tasks to sample.
        rng: random generator.
        first: samples from the first `first` tasks only. None samples from all tasks.
    """
    size = len(tasks) if first is None else min(first, len(tasks))
    numbers: list[int] = []
    while len(numbers) < count:
        numbers += rng.choice(size, min(size, count - len(numbers)), replace=False).tolist()
    return [(tasks[number], int(rng.integers(2**31))) for number in numbers]
