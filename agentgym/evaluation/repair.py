"""Failed episodes as training data: repaired by the expert, relabelled, or told to be failures.

The first two play the recorded actions in the environment again, so that texts, rewards and episode
ends are its own.

- `repaired`: after "Where LLM Agents Fail and How They can Learn From Failures" (arXiv 2509.25370),
  which retries from the turn that caused the failure. Here the environment's snapshots and its
  expert decide which turn that is.
- `relabelled`: "Hindsight Experience Replay" (arXiv 1707.01495).
- `traced`: examples for a model that names the decisive turn (AgenTracer, arXiv 2509.03312).
- `conditioned`: feedback-aware fine-tuning (arXiv 2408.06318, see the wrapper `Outcome`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium

from agentgym.agents.basic.expert import NoExpertError
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.data.episode_text import episode_text, outcome_text
from agentgym.errors import ConfigError, DataError
from agentgym.goals import GoalConditioned, towards
from agentgym.registration.making import make_env, split_id
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.time_limits import MANY_TURNS
from agentgym.wrappers.outcome import with_outcome

TRACE = (
    "You read a failed episode of an agent: the rules, the turns and the end. Name the turn with "
    "the decisive mistake, after which the task could no longer be solved. Reply with its number "
    "alone, such as\nturn: 3"
)
"""Instructions of examples for a model that names the decisive turn."""
Point = tuple[dict[str, Any], int, bool]
"""A snapshot, the number of turns before it, and whether the episode is over."""


class Player:
    """Plays an episode and records its turns."""

    def __init__(self, episode: RecordedEpisode, env: gymnasium.Env[Any, Any]):
        self.episode, self.env, self.turns = episode, env, list[RecordedTurn]()
        self.observation, self.info = env.reset(seed=episode.seed, options={"task": episode.task})
        self.terminated = self.over = False

    def play(self, action: str, weight: float) -> None:
        """Plays and records a turn."""
        admissible = tuple(self.info["admissible"])
        turn = RecordedTurn(self.observation, action, weight=weight, admissible=admissible)
        self.observation, reward, self.terminated, truncated, self.info = self.env.step(action)
        turn.reward = float(reward)
        turn.reward_terms = self.info["reward_terms"]
        turn.valid, turn.progress = self.info["valid"], self.info["progress"]
        self.turns.append(turn)
        self.over = self.terminated or truncated

    def repeat(self, turns: Sequence[RecordedTurn], *, masked: bool = False) -> None:
        """Plays recorded turns, which must have the observations that were recorded."""
        for turn in turns:
            if self.over or turn.observation != self.observation:
                episode, number = self.episode, len(self.turns)
                here = "the end of the episode" if self.over else f"{self.observation!r:.200}"
                raise DataError(
                    f"The episode of {episode.env}, task {episode.task!r}, seed {episode.seed}, "
                    f"does not repeat. At turn {number}, expected {turn.observation!r:.200}, got "
                    f"{here}. Give the --env-kwargs and --wrap with which it was played."
                )
            self.play(turn.action, 0.0 if masked else turn.weight)

    def solve(self) -> bool:
        """Plays the expert's actions. Returns whether there were any and they solved the task.

        It gives up after `MANY_TURNS` turns.
        """
        expert, before = self.env.get_wrapper_attr("expert"), len(self.turns)
        while (
            not self.over
            and len(self.turns) < before + MANY_TURNS
            and (action := expert()) is not None
        ):
            self.play(action, 1.0)
        return len(self.turns) > before and bool(self.info["success"])

    def point(self) -> Point:
        """Returns a point of the episode to go back to."""
        return snapshot_of(self.env), len(self.turns), self.over

    def back(self, point: Point) -> None:
        """Goes back to a point."""
        snapshot, turns, self.over = point
        self.observation, self.info = restore_snapshot(self.env, snapshot)
        del self.turns[turns:]

    def record(self, agent: str) -> RecordedEpisode:
        """Returns the episode."""
        return replace(
            self.episode,
            turns=list(self.turns),
            agent=agent,
            success=bool(self.info["success"]),
            terminated=self.terminated,
            last_observation=self.observation,
            rewarded=True,
        )


def repaired(episode: RecordedEpisode, env: gymnasium.Env[Any, Any]) -> RecordedEpisode | None:
    """Returns an episode that the expert continues from the last state from which it succeeds.

    A bisection finds this state with a logarithmic number of expert episodes: the expert succeeds
    from it and fails from the next one. The actions before it have the weight 0: they are read, but
    not imitated.

    Args:
        episode: an episode that did not succeed.
        env: its environment, with the same arguments and wrappers.

    Returns:
        The repaired episode. None if the expert does not succeed from the start.

    Raises:
        NoExpertError: if the environment has no expert.
        DataError: if the environment answers differently.
    """
    player = Player(episode, env)
    if env.get_wrapper_attr("expert")() is None:
        raise NoExpertError(f"{episode.env} has no scripted expert to repair failed episodes.")
    point, name = player.point(), f"{episode.agent} repaired".strip()
    found = player.record(name) if player.solve() else None
    low, high = 0, 0 if found is None else len(episode.turns)
    while low < high:
        middle = (low + high + 1) // 2
        player.back(point)
        player.repeat(episode.turns[low:middle], masked=True)
        reached = player.point()
        if player.solve():
            low, point, found = middle, reached, player.record(name)
        else:
            high = middle - 1
    return found


def traced(episode: RecordedEpisode, env: gymnasium.Env[Any, Any]) -> RecordedEpisode | None:
    """Returns a failed episode as an example for a model that names its decisive turn.

    The label is found by counterfactual replay, as in AgenTracer (arXiv 2509.03312): the expert
    succeeds from the state before the turn and fails from the one after it (see `repaired`). The
    example has one turn: its observation is the text of the episode, and its action the number of
    the turn, as a judge writes it.

    Args:
        episode: an episode that did not succeed.
        env: its environment, with the same arguments and wrappers.

    Returns:
        The example. None if no turn is decisive: the expert does not succeed from the start, or
        does from the last turn.

    Raises:
        NoExpertError: if the environment has no expert.
        DataError: if the environment answers differently.
    """
    found = repaired(episode, env)
    if found is None:
        return None
    decisive = sum(turn.weight == 0 for turn in found.turns) + 1
    if decisive > len(episode.turns):
        return None
    turns = [("", turn.observation, turn.action) for turn in episode.turns]
    ending = [f"Last observation: {episode.last_observation}", outcome_text(False, episode.reward)]
    text = episode_text(episode.instructions or "", turns, ending)
    return replace(
        found,
        turns=[RecordedTurn(text, f"turn: {decisive}", reward=1.0)],
        instructions=TRACE,
        agent=f"{episode.agent} traced".strip(),
        last_observation="",
    )


def relabelled(episode: RecordedEpisode, env: gymnasium.Env[Any, Any]) -> RecordedEpisode | None:
    """Returns an episode with the goal that its final state achieves, up to its achievement.

    Args:
        episode: an episode that did not succeed.
        env: its environment, with the same arguments and wrappers.

    Returns:
        The relabelled episode. None if no useful goal was achieved. Its task is that of the
        episode, whose goal `agentgym.goals.towards` replaces.

    Raises:
        ConfigError: if the goal of the environment cannot be set.
        DataError: if the environment answers differently.
    """
    goal_env = env.unwrapped
    if not isinstance(goal_env, GoalConditioned):
        raise ConfigError(
            f"{episode.env} cannot relabel episodes: it does not tell the goal that a state "
            "fulfils (`achieved` and `pursue` of agentgym.goals). Repair them instead."
        )
    player = Player(episode, env)
    player.repeat(episode.turns)
    goal = goal_env.achieved()
    if goal is None:
        return None
    with towards(goal, goal_env):
        player = Player(episode, env)
    for turn in episode.turns:
        player.play(turn.action, turn.weight)
        if player.over:
            break
    return player.record(f"{episode.agent} relabelled".strip())


def conditioned(episode: RecordedEpisode) -> RecordedEpisode:
    """Returns an episode whose instructions end with its outcome, as the wrapper `Outcome` has it.

    Raises:
        DataError: if the outcome of the episode is not known.
    """
    if not (episode.rewarded and episode.decided):
        missing = "`success`" if episode.rewarded else "rewards"
        raise DataError(
            f"An episode has no {missing}, so its outcome is not known: expected a file of "
            "agentgym eval --save or agentgym export, or the folder of a run."
        )
    instructions = with_outcome(episode.instructions or "", episode.success)
    return replace(episode, instructions=instructions)


def learnable(
    failed: Sequence[RecordedEpisode],
    make: Callable[[RecordedEpisode, gymnasium.Env[Any, Any]], RecordedEpisode | None],
    env_kwargs: Mapping[str, Any],
) -> list[RecordedEpisode]:
    """Returns failed episodes repaired or relabelled, without those for which this fails.

    Args:
        failed: episodes that did not succeed.
        make: maps a failed episode and its environment to the new one, such as `repaired`.
        env_kwargs: arguments of the environments, in place of recorded ones of the same name.

    Raises:
        DataError: if an episode names no environment and task, or its environment answers
            differently.
    """
    found, envs = [], dict[str, Any]()
    for episode in failed:
        if not (episode.env and episode.task):
            raise DataError(
                "An episode names no environment and task, so it cannot be played again: expected "
                "a file of agentgym eval --save or agentgym export, or the folder of a run."
            )
        id, own = split_id(episode.env)
        kwargs = {**episode.env_kwargs, **env_kwargs, **own}
        key = f"{id} {kwargs}"
        if key not in envs:
            envs[key] = make_env(id, **kwargs)
        found.append(make(episode, envs[key]))
    for env in envs.values():
        env.close()
    return [episode for episode in found if episode is not None]
