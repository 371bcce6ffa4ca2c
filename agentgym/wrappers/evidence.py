"""`Evidence`: the agent cites observations, and a judge of the outcome reads these alone."""

from __future__ import annotations

import re
from typing import Any

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.errors import ConfigError
from agentgym.judges import Verdict, outcome_judge, outcome_of
from agentgym.time_step import UNJUDGED
from agentgym.wrappers.base import TextWrapper

TERM = "evidence"
"""Reward term of the judge's score."""
CLAIM = "I have solved the task. These observations show it."
"""Action of the last turn that the judge reads."""
_CITE = re.compile(r"cite\s+(\d{1,6})", re.IGNORECASE)


class Evidence(TextWrapper):
    """Lets the agent cite observations as evidence that it has solved its task.

    A judge reads the rules, the first observation and the cited ones, and no other turn, so that
    it is cheap, and the agent learns to look for evidence: "SmartSnap: Proactive Evidence Seeking
    for Self-Verifying Agents" (arXiv 2512.22322). Its score is a reward. To learn from it alone,
    apply `WeightedReward` on the outside.

    **Actions**: text. `cite 3` cites observation 3 and takes no turn in the environment. A citation
    of an observation that is not there, or beyond `size`, is an invalid action.

    **Observations**: text, each of which begins with its number, such as `Observation 3:`.

    **Rewards**: those of the environment, and the judge's score in [0, 1] at the end of an episode
    with a citation (term `evidence`). It is 0 if the judge's reply cannot be read, and training
    leaves the episode out.

    **Info**: `cited` (the numbers of the cited observations) is added. The admissible actions are
    unchanged. If the verdict cannot be read, `unjudged` is True. Otherwise this key is absent.

    Args:
        env: an environment with text observations and actions, and AgentGym's info keys.
        judge: a judge of episodes (see `agentgym.judges.make_judge`). Replies of a served model are
            kept in the cache.
        size: maximum number of citations.

    Raises:
        ConfigError: if observations or actions are not text, there is no such judge, or `size` is
            below 1.
    """

    own_actions = "also"

    def __init__(self, env: gymnasium.Env[Any, Any], judge: str, *, size: int = 3):
        super().__init__(env, judge=judge, size=size)
        self._need_text("observations")
        self._need_text("actions")
        if size < 1:
            raise ConfigError(f"size must be at least 1, got {size}.")
        outcome_judge(judge)
        self.judge, self.size = judge, size
        self._begin()

    @property
    def instructions(self) -> str:
        """The environment's instructions, followed by those for citations."""
        hint = _HINT.format(size=self.size)
        return f"{self.env.get_wrapper_attr('instructions')}\n\n{hint}"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Cites an observation, or plays the action: see `TextEnv.step`."""
        found = _CITE.fullmatch(action.strip()) if isinstance(action, str) else None
        if found and not self._over and not isinstance(action, UnreadableAction):
            number = int(found[1])
            if number not in self._cited and number < len(self._seen) and self._room():
                self._cited.append(number)
                observation, info = self._shown()
                return observation, 0.0, False, False, self._idle(info)
            reason = f"There is no observation {number} to cite, or it is cited, or too many are."
            action = UnreadableAction(action, reason)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._over = terminated or truncated
        self._seen.append(observation)
        observation, info = self._view(observation, info)
        if self._over and self._cited:
            score = self._judged().score
            info["reward_terms"][TERM] = score or 0.0
            reward = float(reward) + (score or 0.0)
            if score is None:
                info[UNJUDGED] = True
        return observation, float(reward), terminated, truncated, info

    def _room(self) -> bool:
        return len(self._cited) < self.size

    def _judged(self) -> Verdict:
        """Returns the judge's verdict on the evidence."""
        rules = str(self.env.get_wrapper_attr("instructions"))
        shown = [self._seen[number] for number in sorted({0, *self._cited})]
        turns = [RecordedTurn(text, "(not shown)") for text in shown[:-1]]
        episode = RecordedEpisode([*turns, RecordedTurn(shown[-1], CLAIM)], instructions=rules)
        return outcome_of(self.judge, episode)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._begin()
        self._seen.append(observation)
        return self._view(observation, info)

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._info = info
        return self._shown()

    def _shown(self) -> tuple[str, dict[str, Any]]:
        number = len(self._seen) - 1
        cited = [*self._cited]
        text = f"Observation {number}:\n{self._seen[-1]}"
        text += f"\nCited: {', '.join(map(str, cited))}." * bool(cited)
        terms = {**self._info.get("reward_terms", {}), TERM: 0.0}
        added = {"cited": tuple(cited), "reward_terms": terms}
        return text, self._keyed({**self._info, **added}, self._seen, cited)

    def _begin(self) -> None:
        self._seen, self._cited, self._over = list[str](), list[int](), False
        self._info = dict[str, Any]()

    def _memory(self) -> dict[str, Any]:
        return {"seen": [*self._seen], "cited": [*self._cited], "over": self._over}

    def _remember(self, memory: dict[str, Any]) -> None:
        seen, cited = [*map(str, memory["seen"])], [*map(int, memory["cited"])]
        if not all(0 <= number < len(seen) for number in cited):
            raise ValueError(f"expected citations of {len(seen)} observations, got {cited!r:.80}")
        self._seen, self._cited, self._over = seen, cited, bool(memory["over"])


_HINT = (
    "Before your last action, cite the observations that show that the task is solved: reply with "
    "cite and a number, such as `cite 3`, which takes no turn. You can cite at most {size}. A "
    "judge reads only these and the first one."
)
