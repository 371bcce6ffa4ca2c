"""Imagined episodes: a language model writes both sides of dialogues from a description.

"Zero-Shot Goal-Directed Dialogue via RL on Imagined Conversations" (arXiv 2311.05584): a model
invents situations and writes a dialogue for each, some with a skilled and some with a careless
agent. With the scores of a judge as rewards, they are data for offline RL. Nothing is played: the
environment gives its instructions and first observations only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.agents import make_agent
from agentgym.agents.basic.chat import hide_userinfo
from agentgym.agents.basic.replies import Replies
from agentgym.agents.text_model import MODELS
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.data.episode_text import LONGEST
from agentgym.errors import ConfigError
from agentgym.evaluation.runner import check_no_split, plan_episodes
from agentgym.reading.typography import without_thoughts
from agentgym.registration.making import env_name, make_env, split_names_tasks, tasks_of

PREFIX = "imagined:"
"""Beginning of a source of imagined episodes in place of an agent."""
SITUATIONS = (
    "You invent situations for dialogues between an agent and its environment, such as a user. You "
    "read the rules that the agent gets and the first observation. Each situation is one sentence "
    "about what the agent does not know: the secret, the wish or the character of the other side. "
    "All situations differ. Reply with a numbered list, one situation per line, and nothing else."
)
DIALOGUE = (
    "You write a dialogue between an agent and its environment, such as a user. You read the rules "
    "that the agent gets, the first observation, and a situation that the agent does not know and "
    "that the environment keeps to. Go on from the first observation to the end, in the format of "
    "the rules. The agent and the environment take turns, the agent first. Begin each message on a "
    "new line with `Agent:` or `Environment:`."
)
SKILLS = (
    "The agent is skilled, and reaches its goal.",
    "The agent is careless, makes plausible mistakes, and may fail.",
)
"""The agents of dialogues with even and odd numbers."""
TUTORIAL = (
    "The agent is skilled. It does what the text below tells people to do, as far as this "
    "environment allows it. The situation and the goal are those of the text.\n\nThe text:\n"
)
"""The agent and the situation of an episode from a text."""
SUFFIXES = (".txt", ".md", ".rst")
AT_ONCE = 20
"""Situations of a request."""
_LISTED = re.compile(r"\s*\d{1,4}[.):]\s+(\S.*)")
_MESSAGE = re.compile(r"^[*_ ]*(Agent|Environment)[*_ ]*:[*_]*[ \t]*", re.MULTILINE)

Start = tuple[str, str]
"""The instructions and the first observation of an episode."""


def imagined(
    env: str,
    source: str,
    *,
    tasks: int = 200,
    split: str = "train",
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
) -> list[RecordedEpisode]:
    """Returns episodes that a language model writes, without rewards and outcomes.

    Dialogues that cannot be read, in which the messages do not take turns, are left out. Replies of
    a served model are kept (see `Replies`).

    With texts, such as tutorials, each episode is about one of them in place of an invented
    situation: "Synatra: Turning Indirect Knowledge into Direct Demonstrations for Digital Agents at
    Scale" (arXiv 2409.15637).

    Args:
        env: id of an environment with text.
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME. With texts=FOLDER: before
            it, those of a folder and its subfolders are taken, each in turn.
        tasks: number of dialogues, whose starts are those of as many tasks.
        split: "train" or "test".
        seed: samples the tasks.
        env_kwargs: arguments of the environment, and its wrappers as "wrap".

    Raises:
        ConfigError: for an unknown id, an argument that cannot work, another source, or a folder
            without texts.
        ChatError: if a server sends no usable reply. Earlier replies are kept.
    """
    texts, source = _texts(source)
    model, made = make_agent(source), make_env(env, **(env_kwargs or {}))
    try:
        if split_names_tasks(made):
            check_no_split(env_kwargs or {})
        starts: list[Start] = []
        for task, each in plan_episodes(tasks_of(made), tasks, split, seed):
            observation, _ = made.reset(seed=each, options={"task": task})
            starts.append((made.get_wrapper_attr("instructions"), observation))
    finally:
        made.close()
    invented = {} if texts else _invent(Counter(starts), Replies(model, source, SITUATIONS))
    written: list[tuple[Start, str]] = []
    for number, start in enumerate(starts):
        if texts:
            text = texts[number % len(texts)]
            written.append((start, f"{_shown(start)}\n\n{TUTORIAL}{text}"))
        elif invented[start]:
            situation = f"The situation: {invented[start].pop(0)}"
            written.append((start, "\n\n".join([_shown(start), situation, SKILLS[number % 2]])))
    replies = Replies(model, source, DIALOGUE)([text for _, text in written])
    found = []
    for (start, _), reply in zip(written, replies, strict=True):
        if messages := read_dialogue(reply):
            episode = _episode(start, messages)
            episode.env, episode.agent = env_name(made), PREFIX + hide_userinfo(source)
            found.append(episode)
    return found


def _texts(source: str) -> tuple[list[str], str]:
    """Returns the texts of a source, none without a folder, and the source without it."""
    found = re.fullmatch(rf"texts=(.+?):((?:{'|'.join(MODELS)}).+)", source)
    if found is None:
        return [], source
    files = sorted(each for each in Path(found[1]).rglob("*") if each.suffix.lower() in SUFFIXES)
    try:
        texts = [file.read_text(encoding="utf-8-sig").strip()[:LONGEST] for file in files]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{found[1]}: expected texts in UTF-8: {error}.") from error
    if not any(texts):
        raise ConfigError(f"{found[1]} must be a folder with texts ({', '.join(SUFFIXES)}).")
    return [text for text in texts if text], found[2]


def read_dialogue(reply: str) -> list[str]:
    """Returns the messages of a dialogue, of agent and environment in turn, [] if there is none.

    The agent's are the first, the third and so on. Text before the first message is ignored.
    """
    _, *parts = _MESSAGE.split(without_thoughts(reply))
    speakers, texts = parts[::2], [text.strip() for text in parts[1::2]]
    in_turn = all(
        name == ("Agent", "Environment")[number % 2] for number, name in enumerate(speakers)
    )
    return texts if in_turn and all(texts) else []


def _invent(wanted: Mapping[Start, int], ask: Replies) -> dict[Start, list[str]]:
    """Returns different situations for each start, too few if the model repeats itself."""
    found: dict[Start, list[str]] = {start: [] for start in wanted}
    left = list(wanted)
    while left:
        texts = []
        for start in left:
            count = min(AT_ONCE, wanted[start] - len(found[start]))
            earlier = "\n".join(found[start])
            known = f"Situations that are taken:\n{earlier}\n\n" if earlier else ""
            texts.append(f"{_shown(start)}\n\n{known}Invent {count} situations.")
        going_on = []
        for start, reply in zip(left, ask(texts), strict=True):
            lines = map(_LISTED.fullmatch, without_thoughts(reply).split("\n"))
            listed = [match[1].strip() for match in lines if match]
            new = [each for each in dict.fromkeys(listed) if each not in found[start]]
            found[start] = (found[start] + new)[: wanted[start]]
            if new and len(found[start]) < wanted[start]:
                going_on.append(start)
        left = going_on
    return found


def _shown(start: Start) -> str:
    instructions, observation = start
    return f"The rules:\n{instructions}\n\nThe first observation:\n{observation}"


def _episode(start: Start, messages: Sequence[str]) -> RecordedEpisode:
    """Returns the episode of a start and the messages after it."""
    instructions, observation = start
    observations = [observation, *messages[1::2]]
    turns = [RecordedTurn(*turn) for turn in zip(observations, messages[::2], strict=False)]
    last = observations[len(turns)] if len(observations) > len(turns) else ""
    return RecordedEpisode(turns, instructions, decided=False, last_observation=last)
