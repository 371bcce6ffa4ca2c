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
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any

from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sample, Sampling
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.rollout.episode import EpisodeSpec, Play, Playing, action_room
from agentgym.trainers.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym.trainers.policy.engine import Session
    from agentgym.trainers.policy.prefix_cache import Slot
    from agentgym.trainers.rollout.env_pool import EnvPool


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


def _answered(running: dict[Future[None], Playing], enough: int) -> list[Playing]:
    """Waits until enough slots have finished, and removes all finished ones from `running`."""
    done = {future for future in running if future.done()}
    while len(done) < min(enough, len(running)):
        done |= wait([f for f in running if f not in done], return_when=FIRST_COMPLETED).done
    for future in done:
        future.result()  # re-raises exceptions of the environment
    return sorted((running.pop(future) for future in done), key=lambda play: play.index)
