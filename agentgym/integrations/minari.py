"""`create_dataset`: recorded episodes as a dataset of Minari."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agentgym.data.episode import RecordedEpisode
from agentgym.errors import ConfigError, needs_extra
from agentgym.registration.making import make_env
from agentgym.spaces import UnicodeText
from agentgym.utils.masking import masked


def create_dataset(
    dataset_id: str,
    episodes: Sequence[RecordedEpisode],
    env_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Creates a `MinariDataset` in the local folder of Minari and returns it.

    Observations and actions are texts. `infos` holds `valid` and `progress`. The description of
    the dataset is the instructions of the first episode.

    Args:
        dataset_id: id of the new dataset, such as "agentgym/webshop-expert-v0".
        episodes: episodes of one environment, with rewards.
        env_kwargs: arguments of the environment, for `recover_environment`, besides those that the
            first episode was recorded with.

    Raises:
        MissingExtraError: without the package minari.
        ConfigError: if the episodes are of several environments or have no rewards, or Minari
            refuses the id, for example because the dataset exists.
    """
    with needs_extra("A Minari dataset", "minari"):
        import minari
        from minari.data_collector import EpisodeBuffer  # pyright: ignore[reportMissingImports]
    ids = {episode.env for episode in episodes}
    if len(ids) != 1 or not all(episode.rewarded for episode in episodes):
        raise ConfigError(
            "A Minari dataset holds episodes of one environment with rewards, got environments "
            f"{', '.join(sorted(ids))!r}."
        )
    [id] = ids
    spec = spec_of(id, {**episodes[0].env_kwargs, **(env_kwargs or {})})
    buffers = [
        EpisodeBuffer(
            id=number,
            seed=episode.seed,
            options={"task": episode.task},
            observations=[*(t.observation for t in episode.turns), episode.last_observation],
            actions=[turn.action for turn in episode.turns],
            rewards=[turn.reward for turn in episode.turns],
            terminations=_last(episode, episode.terminated),
            truncations=_last(episode, not episode.terminated),
            infos={
                "valid": [True, *(turn.valid for turn in episode.turns)],
                "progress": [0.0, *(turn.progress for turn in episode.turns)],
            },
        )
        for number, episode in enumerate(episodes)
    ]
    try:
        return minari.create_dataset_from_buffers(  # pyright: ignore[reportAttributeAccessIssue]
            dataset_id,
            buffers,
            env=spec,
            observation_space=UnicodeText(),
            action_space=UnicodeText(),
            algorithm_name=episodes[0].agent or None,
            description=episodes[0].instructions or None,
        )
    except (ImportError, ValueError) as error:
        raise ConfigError(f"Minari cannot create {dataset_id!r}: {error}") from error


def spec_of(id: str, arguments: Mapping[str, Any]) -> EnvSpec | None:
    """Returns the specification of an environment in its wrappers, None if it is not registered.

    Args:
        id: the full id.
        arguments: those of `make_env`, with the wrappers as `wrap`.
    """
    if id not in gymnasium.registry:
        return None
    env = make_env(id, **arguments)
    env.close()
    spec = copy.deepcopy(env.spec)
    if spec is not None:
        spec.kwargs = masked(spec.kwargs)
    return spec


def _last(episode: RecordedEpisode, value: bool) -> list[bool]:
    """Returns False for all turns but the last, and `value` for it."""
    return [False] * (len(episode.turns) - 1) + [value]
