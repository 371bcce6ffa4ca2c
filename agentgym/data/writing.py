"""Episodes as rows of JSON in the formats of other projects. `read_episodes` reads them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from agentgym.data.episode import RecordedEpisode
from agentgym.time_step import UNJUDGED
from agentgym.utils.masking import masked

Rows = Iterator[dict[str, Any]]


def chat_rows(episodes: Iterable[RecordedEpisode]) -> Rows:
    """Yields chats in the format of OpenAI and TRL. An action has its `weight`, unless it is 1."""
    for episode in episodes:
        yield {"messages": _messages(episode), **_facts(episode), **_rewards(episode)}


def sharegpt_rows(episodes: Iterable[RecordedEpisode]) -> Rows:
    """Yields conversations in the format of ShareGPT. A masked action has `loss` false.

    An action of another weight has its `weight`, which other projects ignore.
    """
    names = {"system": "system", "user": "human", "assistant": "gpt"}
    for episode in episodes:
        turns = [
            {"from": names[message["role"]], "value": message["content"]}
            | _mask(message.get("weight"))
            for message in _messages(episode)
        ]
        yield {"conversations": turns, **_facts(episode), **_rewards(episode)}


def _mask(weight: float | None) -> dict[str, Any]:
    return {"loss": False} if weight == 0 else {} if weight is None else {"weight": weight}


def own_rows(episodes: Iterable[RecordedEpisode]) -> Rows:
    """Yields episodes in the format of `agentgym eval --save`, which `agentgym view` shows."""
    for episode in episodes:
        unknown = {} if episode.rewarded else {"reward": None}
        yield {
            **_facts(episode),
            "env_kwargs": masked(episode.env_kwargs),
            "reward": episode.reward,
            "instructions": episode.instructions,
            "transcript": [
                vars(turn) | {"admissible": list(turn.admissible)} | unknown
                for turn in episode.turns
            ],
            **unknown,
        }


def preference_rows(episodes: Iterable[RecordedEpisode]) -> Rows:
    """Yields pairs of episodes with the same start and different returns, as TRL reads them.

    `prompt` holds the messages that both share, `chosen` and `rejected` the others. Each episode
    with the highest return of its start is paired with each one of a lower return. If all of a
    start are judged, their scores take the place of the returns.
    """
    starts: dict[tuple[str, str, int, str, str], list[RecordedEpisode]] = {}
    for episode in episodes:
        first = episode.turns[0].observation
        key = (episode.env, episode.task, episode.seed, episode.seat, first)
        starts.setdefault(key, []).append(episode)
    for group in starts.values():
        judged = all(episode.judged is not None for episode in group)
        values = [episode.value if judged else episode.reward for episode in group]
        best = max(values)
        ranked = [*zip(group, values, strict=True)]
        for chosen in (episode for episode, value in ranked if value == best):
            for rejected in (episode for episode, value in ranked if value < best):
                yield from _pair(chosen, rejected)


def _pair(chosen: RecordedEpisode, rejected: RecordedEpisode) -> Rows:
    """Yields the pair, or nothing if chance made the same actions better in one of them."""
    better, worse = _messages(chosen, masks=False), _messages(rejected, masks=False)
    shared = 0
    while shared < min(len(better), len(worse)) and better[shared] == worse[shared]:
        shared += 1
    if shared == min(len(better), len(worse)) or better[shared]["role"] != "assistant":
        return
    yield {
        "prompt": better[:shared],
        "chosen": better[shared:],
        "rejected": worse[shared:],
        "chosen_reward": chosen.reward,
        "rejected_reward": rejected.reward,
        **({} if chosen.judged is None else {"chosen_judged": chosen.judged}),
        **({} if rejected.judged is None else {"rejected_judged": rejected.judged}),
        "env": chosen.env,
        "task": chosen.task,
        "seed": chosen.seed,
    }


def _messages(episode: RecordedEpisode, *, masks: bool = True) -> list[dict[str, Any]]:
    """Returns the messages of an episode, without the last observation."""
    messages: list[dict[str, Any]] = []
    if episode.instructions:
        messages.append({"role": "system", "content": episode.instructions})
    for turn in episode.turns:
        messages.append({"role": "user", "content": turn.observation})
        reply: dict[str, Any] = {"role": "assistant", "content": turn.action}
        weighted = masks and turn.weight != 1
        messages.append({**reply, "weight": turn.weight or 0} if weighted else reply)
    return messages


def _facts(episode: RecordedEpisode) -> dict[str, Any]:
    return {
        "env": episode.env,
        "agent": episode.agent,
        "task": episode.task,
        "seed": episode.seed,
        "seat": episode.seat,
        "success": episode.success if episode.decided else None,
        "terminated": episode.terminated,
        "last_observation": episode.last_observation,
        **({} if episode.judged is None else {"judged": episode.judged}),
        **({UNJUDGED: True} if episode.unjudged else {}),
    }


def _rewards(episode: RecordedEpisode) -> dict[str, Any]:
    """Returns the rewards of the turns, if they are known, and which actions are valid."""
    valid = [turn.valid for turn in episode.turns]
    if episode.rewarded:
        return {"rewards": [turn.reward for turn in episode.turns], "valid": valid}
    return {} if all(valid) else {"valid": valid}


WRITERS: dict[str, Callable[[Sequence[RecordedEpisode]], Rows]] = {
    "chat": chat_rows,
    "sharegpt": sharegpt_rows,
    "preferences": preference_rows,
    "own": own_rows,
}
"""The writers by the name of their format."""
