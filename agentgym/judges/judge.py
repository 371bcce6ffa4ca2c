"""`make_judge`: a model, a function or a jury that judges whole episodes by a rubric."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from agentgym.agents import Agent, make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.agents.text_model import MODELS
from agentgym.data.episode import RecordedEpisode
from agentgym.data.episode_text import episode_text, outcome_text
from agentgym.errors import ConfigError, naming
from agentgym.judges.rubric import Rubric, read_rubric
from agentgym.judges.verdict import CAUSES, UNREADABLE, Verdict, read_verdict
from agentgym.utils.file_cache import cached_by_files
from agentgym.utils.importing import imported
from agentgym.utils.returned_numbers import finite_number

FORMS = "chat:MODEL@URL, policy:FOLDER, model:NAME, rubric=FILE:MODEL or module:function"
PROMPT = """\
You judge an episode of an agent. You read the rules, the turns with their observations and \
actions, and the last observation.{guidance}

Give each criterion a score from 0 (not met at all) to 10 (fully met):
{criteria}

If the agent has failed, name the cause as well, and the number of the turn with the decisive \
mistake. The causes:
{causes}

Reply with one line per criterion, then the cause and the turn, such as
{example}
cause: planning
turn: 3
For an episode without a mistake, reply with cause: none and turn: none."""


class Judge(Protocol):
    """Judges episodes.

    Attributes:
        name: name of the judge in reports.
    """

    name: str

    def __call__(self, episodes: Sequence[RecordedEpisode]) -> list[Verdict]:
        """Returns the verdict of each episode."""
        ...


class EpisodeJudge:
    """A language model that reads whole episodes and scores them by a rubric.

    Answers of a served model are kept in a file of the cache by their question, so that a judgement
    repeats, and continues after an interruption, without new requests.

    Args:
        agent: the model.
        source: its specification.
        rubric: the criteria.
    """

    def __init__(self, agent: Agent, source: str, rubric: Rubric):
        self.agent, self.rubric, self.name = agent, rubric, agent.name
        guidance = f"\n\n{rubric.text}" if rubric.text else ""
        example = "\n".join(f"{i}: {7 * (i % 2)}" for i in range(1, len(rubric.criteria) + 1))
        causes = "\n".join(f"{name}: the agent {text}" for name, text in CAUSES.items())
        self.prompt = PROMPT.format(
            guidance=guidance, criteria=rubric.lines, causes=causes, example=example
        )
        self._replies = Replies(agent, source, self.prompt)

    def __call__(self, episodes: Sequence[RecordedEpisode]) -> list[Verdict]:
        """Returns the verdict of each episode.

        Raises:
            ChatError: if a server sends no usable reply. Earlier replies are kept.
        """
        replies = self._replies([self.text(episode) for episode in episodes])
        return [
            read_verdict(reply, self.rubric, len(episode.turns))
            for reply, episode in zip(replies, episodes, strict=True)
        ]

    def text(self, episode: RecordedEpisode) -> str:
        """Returns the text of an episode that the model reads."""
        ending = [f"Last observation: {episode.last_observation}"] * bool(episode.last_observation)
        if self.rubric.outcome:
            ending.append(outcome_text(episode.success, episode.reward))
        turns = [("", turn.observation, turn.action) for turn in episode.turns]
        return episode_text(episode.instructions or "", turns, ending)


class FunctionJudge:
    """A function that maps a `RecordedEpisode` to a score, a `Verdict`, or None (no judgement).

    Args:
        source: "module:function".

    Raises:
        ConfigError: if there is no such function.
    """

    def __init__(self, source: str):
        self.name = source
        self._function: Callable[[RecordedEpisode], Any] = imported(source, "judge")

    def __call__(self, episodes: Sequence[RecordedEpisode]) -> list[Verdict]:
        """Returns the verdict of each episode.

        Raises:
            ConfigError: for a score that is not a number in [0, 1].
        """
        return [self._judged(episode) for episode in episodes]

    def _judged(self, episode: RecordedEpisode) -> Verdict:
        task, seed = episode.task, episode.seed
        with naming(lambda: f"Raised by the judge {self.name} on task {task!r} with seed {seed}."):
            return self._verdict(self._function(episode))

    def _verdict(self, found: Any) -> Verdict:
        verdict = found if isinstance(found, Verdict) else Verdict(found)
        if verdict.score is None:
            return verdict
        score = finite_number(verdict.score)
        if score is None or not 0 <= score <= 1:
            raise ConfigError(
                f"The judge {self.name} must return a score in [0, 1], a Verdict, or None, got "
                f"{found!r:.80}."
            )
        return Verdict(score, verdict.scores, verdict.cause, verdict.turn)


class Jury:
    """Several judges of the same episodes.

    The score is the mean of those that can be read, if these are more than half of the judges. The
    cause is the most frequent one that they name, the first of several, with the first turn that is
    named beside it.

    Args:
        judges: the judges.
    """

    def __init__(self, judges: Sequence[Judge]):
        self.judges = judges
        self.name = " + ".join(judge.name for judge in judges)

    def __call__(self, episodes: Sequence[RecordedEpisode]) -> list[Verdict]:
        """Returns the verdict of each episode."""
        found = [judge(episodes) for judge in self.judges]
        return [joined(verdicts) for verdicts in zip(*found, strict=True)]


def joined(verdicts: Sequence[Verdict]) -> Verdict:
    """Returns the verdict of a jury: see `Jury`."""
    scores = [each.score for each in verdicts if each.score is not None]
    if 2 * len(scores) <= len(verdicts):
        return UNREADABLE
    joint = Verdict(fmean(scores))
    if joint.success:
        return joint
    causes = Counter(each.cause for each in verdicts if each.cause)
    cause = causes.most_common(1)[0][0] if causes else ""
    turns = [each.turn for each in verdicts if each.cause == cause and each.turn is not None]
    return Verdict(joint.score, {}, cause, turns[0] if turns else None)


def split_source(source: str) -> tuple[Rubric | None, str]:
    """Returns the rubric of a source, None without one, and the source without its rubric.

    Raises:
        ConfigError: if there is no such file, or it holds no rubric.
    """
    found = re.fullmatch(rf"rubric=(.+?):((?:{'|'.join(MODELS)}).+)", source)
    return (None, source) if found is None else (read_rubric(Path(found[1])), found[2])


def make_judge(*sources: str) -> Judge:
    """Returns a judge of whole episodes.

    Args:
        *sources: a language model (chat:MODEL@URL, policy:FOLDER or model:NAME), a model with the
            criteria of a file (rubric=FILE:chat:MODEL@URL, see `read_rubric`), or a function of a
            `RecordedEpisode` (module:function, see `FunctionJudge`). Several are a jury.

    Raises:
        ConfigError: for anything else.
    """
    if not sources:
        raise ConfigError(f"Expected a judge: {FORMS}.")
    judges = [_single(source) for source in sources]
    return judges[0] if len(judges) == 1 else Jury(judges)


@cached_by_files("source", maxsize=8)
def outcome_judge(source: str) -> Judge:
    """Returns the judge of a source whose score is the outcome of an episode.

    Environments share it, and copies of them need no pickling.

    Raises:
        ConfigError: for anything else than in `make_judge`, or a rubric whose judge reads the
            outcome, which an episode has from the judge alone.
    """
    judge = make_judge(source)
    if isinstance(judge, EpisodeJudge) and judge.rubric.outcome:
        raise ConfigError(
            f"The rubric of {source!r} has 'outcome: shown', and its score is the outcome. Write "
            "'outcome: hidden'."
        )
    return judge


def outcome_of(source: str, episode: RecordedEpisode) -> Verdict:
    """Returns the verdict of `outcome_judge` on an episode.

    An environment then marks it with `agentgym.time_step.UNJUDGED` if it is unreadable.

    Warns:
        RuntimeWarning: if it is unreadable.
    """
    judge = outcome_judge(source)
    [verdict] = judge([episode])
    if verdict.score is None:
        warnings.warn(
            f"A reply of the judge {judge.name} cannot be read. Expected one score for each "
            "criterion: its episode has no outcome.",
            RuntimeWarning,
            stacklevel=2,
        )
    return verdict


def _single(source: str) -> Judge:
    rubric, model = split_source(source)
    if model.startswith(MODELS):
        return EpisodeJudge(make_agent(model), model, rubric or Rubric())
    if ":" not in source or source.startswith("rubric="):
        raise ConfigError(f"Unknown judge {source!r}. Expected {FORMS}.")
    return FunctionJudge(source)
