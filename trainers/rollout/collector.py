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

from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sample, Sampling
from agentgym.trainers.rollout.action_room import action_room
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.rollout.episode import EpisodeSpec, Play, Playing
from agentgym.trainers.rollout.failures import Bound, Failures

if TYPE_CHECKING:
    from agentgym.trainers.policy.engine import Session
    from agentgym.trainers.policy.prefix_cache import Slot
    from agentgym.trainers.rollout.env_pool import EnvPool

POLL = 0.5
"""Seconds between two calls of `on_progress` while all episodes wait for their environments."""
PATIENCE = 10.0
"""Seconds that the end of a collection waits for steps in progress."""


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
    failures: Failures | None = None,
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
        failures: the episodes that may fail and are played again. None: an exception of an
            environment ends the collection.
        on_progress: callback with the number of finished episodes, before each call of the model,
            and every `POLL` seconds while all wait for environments. An exception in it ends the
            collection.
        on_episode: callback with the index and the trajectories of each finished episode.
    """
    cache: Any = context.session(policy)
    bound = (failures or Failures()).bound(len(episodes))
    rollout = _Rollout(
        policy, pool, episodes, context, sampling, cache, constrain, bound, on_progress, on_episode
    )
    patience = PATIENCE
    try:
        requests = rollout.answer((), False)
        if continuous:
            assert isinstance(policy, Policy)
            policy.serve(requests, sampling, cache, rollout.answer)
            requests = []
        while requests:
            samples = policy.act(requests, sampling, cache)
            requests = rollout.answer(list(zip(requests, samples, strict=True)), False)
    except KeyboardInterrupt:
        patience = 0.0
        raise
    finally:
        rollout.leave(patience)
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
        cache: Session,
        constrain: bool,
        failures: Bound,
        on_progress: Callable[[int], None] | None,
        on_episode: Callable[[int, list[Trajectory]], None] | None,
    ):
        self.policy, self.pool, self.context, self.cache = policy, pool, context, cache
        self.room, self.constrain = action_room(policy, sampling, constrain), constrain
        self.failures, self.on_progress, self.on_episode = failures, on_progress, on_episode
        self.episodes = episodes
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
                try:
                    play = episode.begin(index, slot, self.pool.env(slot))
                except Exception as error:
                    self._fail(index, slot, error)
                    continue
                play.calls = self.pool.calls(slot)
                self.running[self.pool.submit(play.start)] = play
            enough = 0 if busy else max(1, self.pool.num_envs // 2) - len(ready)
            ready += self._read(enough)
            if self.waiting and self.free:
                continue  # fill the free slots before calling the model
            self._progress()
            if ready or busy:
                break
        self.acting |= {agent.cache_key: (play, agent) for play in ready for agent in play.asked}
        self.asked |= {play.index: len(play.asked) for play in ready}
        return [agent.request(self.constrain) for play in ready for agent in play.asked]

    def _progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress(sum(result is not None for result in self.results))

    def _fail(self, index: int, slot: int, error: BaseException) -> None:
        """Plays an episode again in a fresh environment, or raises the exception that ended it."""
        self.failures.count(error)
        self.pool.renew(slot)
        self.waiting.appendleft((index, self.episodes[index]))
        self.free.append(slot)

    def leave(self, patience: float) -> None:
        """Waits for steps in progress: their slots must not be reset by the next collection.

        Args:
            patience: seconds after which environments are left alone that still have not answered.
        """
        for future in wait(self.running, timeout=patience).not_done:
            self.pool.abandon(self.running[future].slot)

    def _step(self, play: Playing) -> None:
        self.running[self.pool.submit(play.step)] = play

    def _read(self, enough: int) -> list[Playing]:
        """Reads new observations. Returns the episodes in which the policy acts."""
        ready: list[Playing] = []
        for play, error in self._answered(enough):
            if error is not None:
                play.drop(self.cache)
                self._fail(play.index, play.slot, error)
                continue
            play.read(self.context, self.room)
            if play.over:
                if play.timed_out:
                    self.pool.replace(play.slot, play.timed_out)
                self.results[play.index] = trajectories = play.trajectories()
                if self.on_episode is not None:
                    self.on_episode(play.index, trajectories)
                self.free.append(play.slot)
                play.drop(self.cache)
            elif play.follow_opening(self.policy):
                self._step(play)
            else:
                ready.append(play)
        return ready

    def _answered(self, enough: int) -> list[tuple[Playing, BaseException | None]]:
        """Waits until enough slots have finished. Removes all finished ones from `running`.

        Returns:
            The episodes, with what their environments raised.
        """
        running = self.running
        done = {future for future in running if future.done()}
        while len(done) < min(enough, len(running)):
            waiting = [future for future in running if future not in done]
            found = wait(waiting, timeout=POLL, return_when=FIRST_COMPLETED).done
            if not found:
                self._progress()
            done |= found
        answers = [(running.pop(future), future.exception()) for future in done]
        return sorted(answers, key=lambda answer: answer[0].index)
