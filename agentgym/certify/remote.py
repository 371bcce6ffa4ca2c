"""`certify_url`: checks of an environment on a server, as far as they go without its expert.

A server shows no solutions. Episodes of players that know nothing are compared between sessions,
and if the server names an id that is known here, with the local environment, in which the expert
plays (`hub.cross_host_determinism` of OpenEnv's RFC 008).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import gymnasium

from agentgym.certify.budget import Budget
from agentgym.certify.certificate import result_of
from agentgym.certify.episodes import (
    Choose,
    Episode,
    Row,
    difference,
    digest,
    expert,
    follow,
    mean,
    random_player,
    row_of,
    seed_of,
)
from agentgym.certify.findings import (
    DETERMINISM,
    ISOLATION,
    ORACLE,
    SNAPSHOTS,
    STARTUP,
    Check,
    Finding,
    Unchecked,
)
from agentgym.certify.making import make_text_env
from agentgym.certify.players import COMMON, first_listed, last_listed
from agentgym.certify.registry import CHECKS
from agentgym.certify.report import PlayerScore, Report, Result
from agentgym.certify.subject import some_tasks
from agentgym.errors import AgentGymError
from agentgym.registration.making import make_env
from agentgym.time_step import INFO_KEYS

HOSTS = "hub.cross_host_determinism"
"""Id of the check that the server plays as the local environment."""
TURNS = 30
"""Turns of an episode."""
PLAYERS: dict[str, Callable[[str], Choose]] = {
    "nonsense": lambda task: follow([]),
    "random": lambda task: random_player(task, COMMON),
    "first listed": lambda task: first_listed,
    "last listed": lambda task: last_listed,
}
"""Players that know nothing, by name."""
EXPLORERS = ("random", "first listed", "last listed")
"""Those whose episodes are repeated."""
NO_EXPERT = "a server shows no solutions"
_NO_ORACLE = f"{NO_EXPERT}: the checks that need an expert were not made"
_ITS_AUTHOR = "Certify the package or the class of the environment."
SEEDS = "runtime.seed_control"


def is_url(name: str) -> bool:
    """Returns whether a name is the address of a server."""
    return name.startswith(("http://", "https://", "ws://", "wss://"))


def certify_url(
    url: str, env_kwargs: Mapping[str, Any] | None = None, budget: Budget | None = None
) -> Report:
    """Returns the certificate of an environment on a server, which at best warns.

    Args:
        url: address of a server of `agentgym serve` or of OpenEnv. Its token is that of the
            environment variable AGENTGYM_TOKEN.
        env_kwargs: arguments with which the server plays, for the comparison with the local
            environment.
        budget: the number of tasks.

    Raises:
        RemoteError: if the server does not answer.
        MissingExtraError: without the package websockets.
    """
    with _Server(url, dict(env_kwargs or {}), budget or Budget()) as server:
        own: dict[str, Callable[[], list[Finding]]] = {
            STARTUP: server.starts,
            SEEDS: server.repeats_starts,
            DETERMINISM: server.repeats_episodes,
            ISOLATION: server.keeps_sessions_apart,
            SNAPSHOTS: server.continues_elsewhere,
            HOSTS: server.plays_as_here,
        }
        found: dict[str, Result] = {}
        for each in (*CHECKS, _HOSTS):
            failed = next((id for id in (STARTUP, DETERMINISM) if _fails(found.get(id))), None)
            if each.id == ORACLE:
                found[each.id] = Result(ORACLE, "warn", (_NO_ORACLE,), remedy=_ITS_AUTHOR)
            elif each.id not in own or failed:
                reason = f"{failed} does not pass" if each.id in own else NO_EXPERT
                found[each.id] = Result(each.id, "skip", reason=reason)
            else:
                found[each.id] = _result(each, own[each.id])
        scores: dict[str, PlayerScore] = {}
        if not _fails(found[STARTUP]):
            try:
                scores = server.scores()
            except AgentGymError as error:
                [check] = [each for each in CHECKS if each.id == DETERMINISM]
                found[DETERMINISM] = _no_answer(check, error)
        return Report(url, tuple(found.values()), scores, None, digest(server.tasks))


def _fails(result: Result | None) -> bool:
    return result is not None and result.status in ("fail", "error")


def _result(check: Check, run: Callable[[], list[Finding]]) -> Result:
    try:
        return result_of(check, run(), "")
    except Unchecked as reason:
        return Result(check.id, "skip", reason=str(reason))
    except AgentGymError as error:
        return _no_answer(check, error)


def _no_answer(check: Check, error: AgentGymError) -> Result:
    """Returns the result of a check in which the server refuses, or a connection is lost."""
    return Result(check.id, "error", (f"{error!s:.300}",), remedy=check.remedy)


_HOSTS = Check(
    HOSTS, lambda subject: [], "Serve the version that is installed here, with equal arguments."
)


class _Server:
    """The sessions of a certificate, and the episodes that the first one has played.

    Args:
        url: address of the server.
        env_kwargs: arguments of the local environment.
        budget: the number of tasks.
    """

    def __init__(self, url: str, env_kwargs: dict[str, Any], budget: Budget):
        self._url, self._env_kwargs, self._open = url, env_kwargs, contextlib.ExitStack()
        self._env, self._known = self._session(), dict[tuple[str, str], Episode]()
        self.tasks = some_tasks(self._env.tasks.test, budget.tasks, "certify/tasks")

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _session(self) -> Any:
        """Returns another session, a `RemoteEnv`."""
        env = make_env("Remote-v0", url=self._url)
        self._open.callback(env.close)
        return env.unwrapped

    def _episode(self, player: str, task: str) -> Episode:
        """Returns an episode of the first session, played once."""
        if (player, task) not in self._known:
            self._known[player, task] = played(self._env, task, PLAYERS[player](task))
        return self._known[player, task]

    def _explored(self) -> list[Episode]:
        """Returns the episodes whose actions other sessions repeat."""
        return [self._episode(player, task) for player in EXPLORERS for task in self.tasks]

    def starts(self) -> list[Finding]:
        """Episodes of test tasks start."""
        for task in self.tasks[:3]:
            begun(self._env, task)
        return []

    def repeats_starts(self) -> list[Finding]:
        """The same task and seed give the same start in two sessions."""
        other = self._session()
        for task in self.tasks:
            if differs := difference(begun(self._env, task).rows, begun(other, task).rows):
                return [Finding(f"task {task}: {differs}")]
        return []

    def repeats_episodes(self) -> list[Finding]:
        """The same actions give the same episodes in another session, in reverse order."""
        episodes, other = self._explored(), self._session()
        for each in reversed(episodes):
            again = played(other, each.task, follow(each.actions, None))
            if differs := difference(each.rows, again.rows):
                return [Finding(f"task {each.task}, {differs}")]
        return []

    def keeps_sessions_apart(self) -> list[Finding]:
        """Two sessions whose steps alternate play as each one does alone."""
        envs = self._session(), self._session()
        for pair in pairwise(self._explored()):
            found = [begun(env, each.task) for env, each in zip(envs, pair, strict=True)]
            going = [follow(each.actions, None) for each in pair]
            steps = True
            while steps:
                steps = sum(turn(*each) for each in zip(envs, found, going, strict=True)) > 0
            for alone, beside in zip(pair, found, strict=True):
                if differs := difference(alone.rows, beside.rows):
                    return [Finding(f"task {alone.task} beside another session, {differs}")]
        return []

    def continues_elsewhere(self) -> list[Finding]:
        """Episodes continue from a snapshot in another session as in their own."""
        if not self._env.has_snapshots:
            raise Unchecked("the server has no snapshots")
        other = self._session()
        for whole in self._explored():
            half = whole.actions[: len(whole.actions) // 2]
            rest = played(self._env, whole.task, follow(half, None))
            other.restore(self._env.snapshot())
            while turn(other, rest, follow(whole.actions, None)):
                pass
            if differs := difference(whole.rows, rest.rows):
                return [Finding(f"task {whole.task}, {differs}")]
        return []

    def plays_as_here(self) -> list[Finding]:
        """The server plays as the local environment of its name, in which the expert acts."""
        name = str(self._env.about_server().get("name", ""))
        try:
            local = make_text_env(name, **self._env_kwargs)
        except (AgentGymError, gymnasium.error.Error) as error:
            raise Unchecked(f"there is no environment {name!r} here") from error
        for task in self.tasks:
            if task not in local.tasks.test:
                return [Finding(f"{name} has no test task {task} here")]
            here = played(local, task, expert)
            there = played(self._env, task, follow(here.actions, None))
            if differs := difference(here.rows, there.rows):
                return [Finding(f"task {task}, {differs}")]
        return []

    def scores(self) -> dict[str, PlayerScore]:
        """Returns the scores of players that know nothing."""
        found = {}
        for player in PLAYERS:
            episodes = [self._episode(player, task) for task in self.tasks]
            found[player] = PlayerScore(
                mean([each.total for each in episodes]),
                mean([each.success for each in episodes]),
                mean([len(each.actions) for each in episodes]),
                len(episodes),
            )
        return found


def begun(env: Any, task: str) -> Episode:
    """Returns an episode of a task after its reset."""
    episode = Episode(task, seed_of(task))
    observation, info = env.reset(seed=episode.seed, options={"task": task})
    episode.rows.append(_row(observation, 0.0, False, False, info))
    return episode


def turn(env: Any, episode: Episode, choose: Choose) -> bool:
    """Plays a turn of an episode, and returns whether it was not at its end."""
    if episode.over or len(episode.actions) >= TURNS:
        return False
    action = choose(env, episode)
    if action is None:
        return False
    episode.rows.append(_row(*env.step(action)))
    episode.actions.append(action)
    return True


def played(env: Any, task: str, choose: Choose) -> Episode:
    """Returns an episode of a player."""
    episode = begun(env, task)
    while turn(env, episode, choose):
        pass
    return episode


def _row(
    observation: str, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
) -> Row:
    """Returns the result of a reset or step with the keys of info that every environment has."""
    known = {name: info[name] for name in INFO_KEYS}
    return row_of(observation, known, reward, terminated, truncated)
