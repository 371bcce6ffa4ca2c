"""Demonstrations: episodes of the scripted expert, and of files, tokenised as rollouts.

Both are played through the prompt builder of the rollouts, so an exported episode has the tokens of
the episode that the expert plays itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from agentgym.agents.basic.view import Agent, View
from agentgym.data.episode import RecordedEpisode, judged_episodes
from agentgym.data.reading import read_episodes
from agentgym.errors import ConfigError, DataError
from agentgym.multiagent.seats import refresh, seat_view
from agentgym.registration.making import warn_if_endless
from agentgym.registration.single_seat import SingleSeat
from agentgym.time_limits import MANY_TURNS
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.policy.support import candidate_support
from agentgym.trainers.rollout.action_room import Room, action_room
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.rollout.env_pool import EnvPool, instructions_of
from agentgym.trainers.rollout.episode import EpisodeSpec, Play
from agentgym.trainers.rollout.failures import Bound
from agentgym.trainers.rollout.recorded import RecordedEnv
from agentgym.trainers.rollout.seats import GamePlay, GameSpec, SeatPlay
from agentgym.trainers.settings.config import TrainConfig

if TYPE_CHECKING:
    from agentgym.trainers.policy.policy import Policy


@dataclass(frozen=True)
class Taught:
    """An episode of a teacher.

    Attributes:
        trajectory: the episode, tokenised as a rollout of the policy.
        costs: the costs of an agent as the teacher (see `View`).
        advice: the teacher's actions in the turns of the opening, which were not played.
    """

    trajectory: Trajectory
    costs: Mapping[str, float] = field(default_factory=dict)
    advice: Sequence[Sample] = ()


def demonstrate(
    policy: Policy,
    pool: EnvPool,
    episodes: Sequence[EpisodeSpec],
    context: Context,
    room: Room,
    constrain: bool = False,
    teacher: Agent | None = None,
    failures: Bound | None = None,
) -> list[Trajectory]:
    """Plays episodes with a teacher and returns them tokenised as rollouts of the policy.

    See `teach`.
    """
    found = teach(policy, pool, episodes, context, room, constrain, teacher, failures=failures)
    return [each.trajectory for each in found]


def teach(
    policy: Policy,
    pool: EnvPool,
    episodes: Sequence[EpisodeSpec],
    context: Context,
    room: Room,
    constrain: bool = False,
    teacher: Agent | None = None,
    advised: bool = False,
    failures: Bound | None = None,
) -> list[Taught]:
    """Plays episodes with a teacher.

    In a game (`GameSpec`), the teacher plays all seats, and there is an episode of each. An episode
    ends after `MANY_TURNS` turns, unless its environment has a higher limit, and is played again if
    its environment fails.

    Args:
        policy: the policy whose tokenizer is used.
        pool: the environment pool.
        episodes: the episodes to play. Those of games have no frozen policies in their seats.
        context: builds the prompts.
        room: number of tokens reserved for an action, given the admissible actions.
        constrain: record the legal tokens at every position under the admissible actions, so that
            the policy can compute the probability of the teacher's action under its constraint.
        teacher: the agent that acts after the opening of an episode. None: the scripted expert.
        advised: in games, ask the teacher for its advice in the turns of the opening, too.
        failures: counts the failures. None: those of the pool, in these episodes.

    Raises:
        ConfigError: if the environment has no expert.
    """

    def played(each: EpisodeSpec, most: int) -> list[Taught]:
        if isinstance(each, GameSpec) and each.max_turns is None:
            each = replace(each, max_turns=most)
        play: Any = each.begin(0, 0, pool.env(0))
        play.calls = pool.calls(0)
        play.start()
        own: list[Taught] = []
        if play.timed_out:
            pass
        elif isinstance(play, GamePlay):
            own = _play_game(policy, play, context, room, constrain, teacher, advised)
        else:
            own = _play(policy, play, context, room, constrain, teacher)
        if play.timed_out:
            pool.replace(0, play.timed_out)
        return own

    from agentgym.trainers.system.signals import Interrupted  # imports torch

    bound = failures or pool.failures.bound(len(episodes))
    found, waiting = list[Taught](), [*reversed(episodes)]
    while waiting:
        try:
            most = _most_turns(pool.env(0))
            own = played(waiting[-1], most)
        except (ConfigError, Interrupted):
            raise
        except Exception as error:
            bound.count(error)
            pool.renew(0)
            continue
        waiting.pop()
        found += own
        ends = [each.trajectory for each in own if each.trajectory.stats.at_limit]
        if any(len(each.turns) == most for each in ends):
            warn_if_endless(pool.env(0), most)
    return found


def _play(
    policy: Policy,
    play: Play,
    context: Context,
    room: Room,
    constrain: bool,
    teacher: Agent | None = None,
) -> list[Taught]:
    """Plays a started episode with a teacher and returns it."""
    view, most = None, _most_turns(play.env)  # the scripted expert needs no view
    if teacher is not None:
        text, env = str(play.observation), play.env
        view = View(instructions_of(env), text, play.info, play.rng, env)
    while not play.over:
        text = _taught(play, view, teacher)
        play.read(context, partial(_larger, room, len(policy.encode_action(text))))
        if not play.over:
            play.record(_sample(policy, play, text, constrain))
            play.step()
            play.truncated |= not play.over and len(play.turns) >= most
            if view is not None:
                view.history.append((view.observation, text))
                view.observation, view.info = str(play.observation), play.info
    if not play.overflow:
        play.read(context, room)
    return [Taught(play.trajectory(), {} if view is None else dict(view.costs))]


def _play_game(
    policy: Policy,
    play: GamePlay,
    context: Context,
    room: Room,
    constrain: bool,
    teacher: Agent | None = None,
    advised: bool = False,
) -> list[Taught]:
    """Plays a started game with a teacher in all seats. Returns the episode of each seat."""
    game = play.table.game
    views = {seat.agent: seat_view(game, seat.agent, seat.rng) for seat in play.seats}
    advice: dict[str, list[Sample]] = {seat.agent: [] for seat in play.seats}
    while True:
        acting = [seat for seat in play.seats if seat.agent in play.table.acting]
        texts = {seat.agent: _chosen(play, seat, views[seat.agent], teacher) for seat in acting}
        longest = max((len(policy.encode_action(text)) for text in texts.values()), default=0)
        play.read(context, partial(_larger, room, longest))
        if play.over:
            break
        for seat in play.asked:
            text, view = texts[seat.agent], views[seat.agent]
            if advised and seat.settled is not None:
                answer = _answer(play, view, teacher)
                advice[seat.agent].append(_sample(policy, seat, answer, constrain))
            view.history.append((view.observation, text))
            seat.record(seat.settled or _sample(policy, seat, text, constrain))
        play.step()
    return [
        Taught(each, dict(views[each.agent].costs), advice[each.agent])
        for each in play.trajectories()
    ]


def _chosen(play: GamePlay, seat: SeatPlay, view: View, teacher: Agent | None) -> str:
    """Returns the next action in a seat: of the opening, or else of the teacher or the expert."""
    refresh(view)
    if seat.settled is not None:
        return seat.settled.text
    return _answer(play, view, teacher)


def _answer(play: GamePlay, view: View, teacher: Agent | None) -> str:
    """Returns the action of the teacher or the expert in a seat."""
    if teacher is not None:
        [action] = teacher.act([view])
    else:
        seat: Any = view.env
        action = seat.expert()
    if action is None:
        raise ConfigError(f"{play.env} has no scripted expert to clone: set bc_demonstrations = 0.")
    return action if play.wrapper is None else play.wrapper.answer_format.write(action)


def _sample(policy: Policy, play: Play, text: str, constrain: bool) -> Sample:
    """Returns a teacher's action as a sample of the policy, for the turn that was read."""
    tokens = np.array(policy.encode_action(text), np.int32)
    support = candidate_support(policy, play.admissible, text) if constrain else None
    return Sample(tokens, np.zeros(len(tokens), np.float32), support, text, True)


def _taught(play: Play, view: View | None, teacher: Agent | None) -> str:
    """Returns the next action: of the opening, or else of the teacher or the scripted expert."""
    if play.settled is not None:
        return play.settled.text
    if teacher is not None and view is not None:
        return teacher.act([view])[0]
    action = play.env.get_wrapper_attr("expert")()
    if action is None:
        raise ConfigError(f"{play.env} has no scripted expert to clone: set bc_demonstrations = 0.")
    return action


def _most_turns(env: gymnasium.Env[Any, Any]) -> int:
    """Returns the number of turns after which an episode of a teacher ends."""
    inner: Any = env.unwrapped
    game = inner.game if isinstance(inner, SingleSeat) else inner
    limits = getattr(game, "max_turns", None), getattr(env.spec, "max_episode_steps", None)
    return max(MANY_TURNS, *(limit or 0 for limit in limits))


def _larger(room: Room, own: int, admissible: Sequence[str]) -> int:
    """Returns the room for an action that may be longer than those of the policy."""
    return max(room(admissible), own)


def recorded(
    policy: Policy,
    episodes: Sequence[RecordedEpisode],
    context: Context,
    room: Room,
    constrain: bool = False,
    *,
    mask_invalid: bool = True,
    named: str = "episodes in the data",
) -> list[Trajectory]:
    """Returns the trajectories of recorded episodes.

    Prompts are those of rollouts, so an episode that exceeds a full context is truncated. An
    episode is left out if the context does not hold its instructions and one of its actions. A
    warning counts both.

    Args:
        policy: the policy whose tokenizer is used.
        episodes: the episodes.
        context: builds the prompts.
        room: number of tokens reserved for an action, given the admissible actions.
        constrain: record the legal tokens at every position, as in `demonstrate`.
        mask_invalid: whether invalid actions have the weight 0 in losses.
        named: what messages call the episodes.

    Raises:
        DataError: if none of the episodes fits.
    """
    found, cut = [], 0
    for number, episode in enumerate(episodes):
        spec = EpisodeSpec(episode.task, episode.seed, (number,))
        try:
            env = RecordedEnv(episode)
            play = Play(0, spec, 0, env)
            play.start()
            [taught] = _play(policy, play, context, room, constrain)
        except ConfigError:  # the context does not hold the instructions and an action
            continue
        trajectory = taught.trajectory
        trajectory.env_id = episode.env or "data"
        for turn, own in zip(trajectory.turns, episode.turns, strict=False):
            turn.weight = 0.0 if mask_invalid and not own.valid else own.weight
        cut += len(trajectory.turns) < len(episode.turns)
        found.append(trajectory)
    if not found:
        raise DataError(
            f"None of the {len(episodes)} {named} fits into the context: raise max_tokens, or use "
            "a model with a longer context."
        )
    left_out, remedy = len(episodes) - len(found), "Raise max_tokens, or choose another context."
    if left_out:
        _warn(
            f"{left_out} of {len(episodes)} {named} are left out: the context does not hold their "
            f"instructions and an action. {remedy}"
        )
    if cut:
        _warn(
            f"{cut} of {len(episodes)} {named} do not fit into the context, and end before their "
            f"last turns. {remedy}"
        )
    return found


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def read_data(
    policy: Policy,
    env: gymnasium.Env[Any, Any],
    context: Context,
    config: TrainConfig,
    *,
    constrain: bool = False,
    rewarded: bool = False,
) -> list[Trajectory]:
    """Returns the episodes of the setting `data` as trajectories.

    Args:
        policy: the policy whose tokenizer is used.
        env: the environment, for the instructions that files do not hold.
        context: builds the prompts.
        config: the settings of a run.
        constrain: record the legal tokens at every position, as in `demonstrate`.
        rewarded: whether the recipe learns from rewards.

    Raises:
        DataError: if a file cannot be used, no episode has a readable verdict, or the files have no
            rewards and they are needed.
    """
    episodes = judged_episodes(read_episodes(config.cloning.data))
    without = sum(not episode.rewarded for episode in episodes)
    if rewarded and without:
        raise DataError(
            f"{without} of {len(episodes)} episodes in the data have no rewards, which this recipe "
            "learns from: add `rewards`, one number per reply, or use the recipe bc."
        )
    for episode in episodes:
        episode.complete(env)
    return _tokenised(policy, episodes, context, config, constrain)


def with_general(
    policy: Policy, trajectories: Sequence[Trajectory], context: Context, config: TrainConfig
) -> list[Trajectory]:
    """Returns trajectories to imitate, with the general text of the settings added.

    A token of general text weighs as much as makes its share in the mean loss `general_share`: the
    objective (1 - share) E[agent] + share E[general] of AgentTuning (arXiv 2310.12823).

    Raises:
        DataError: if a file cannot be used.
    """
    files, share = config.cloning.general_data, config.cloning.general_share
    if not files:
        return list(trajectories)
    general = _tokenised(policy, read_episodes(files), context, config)
    ratio = share / (1 - share) * _weight(trajectories) / max(_weight(general), 1.0)
    for turn in chain.from_iterable(trajectory.turns for trajectory in general):
        turn.weight *= ratio
    return [*trajectories, *general]


def _tokenised(
    policy: Policy,
    episodes: Sequence[RecordedEpisode],
    context: Context,
    config: TrainConfig,
    constrain: bool = False,
) -> list[Trajectory]:
    room = action_room(policy, config.sampling(), config.rollout.constrain)
    masked = config.cloning.data_mask
    return recorded(policy, episodes, context, room, constrain, mask_invalid=masked)


def _weight(trajectories: Sequence[Trajectory]) -> float:
    """Returns the sum of the weights of action tokens."""
    turns = chain.from_iterable(trajectory.turns for trajectory in trajectories)
    return float(sum(turn.weight * (turn.stop - turn.start) for turn in turns))
