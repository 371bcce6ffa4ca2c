"""`AskExpert`: questions to an expert, with a price and a budget."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.agents.text_model import MODELS, text_model
from agentgym.core import UnreadableAction
from agentgym.data.episode_text import LONGEST
from agentgym.errors import ConfigError
from agentgym.utils.action_parsing import text_of
from agentgym.utils.printable import printable
from agentgym.wrappers.base import TextWrapper

ASK = "ask"
TERM = "questions"
"""Reward term of the cost."""
EXPERT, HUMAN = "expert", "human"
"""Helpers other than language models."""
SHOWN = 5
"""Number of last turns that a helper reads."""
PROMPT = (
    "An agent asks you for help. You read its rules, its last turns and its current observation. "
    "Reply with the action that it should take next, in the format of its rules, and nothing else."
)


class AskExpert(TextWrapper):
    """Lets the agent ask for an expert's next action, at a cost and within a budget.

    A policy has to learn when help is worth its price: the return minus the cost of questions as in
    ReHAC (arXiv 2402.12914) and AGILE (arXiv 2405.14751), with a budget as in "Self-Regulation and
    Requesting Interventions" (arXiv 2502.04576).

    **Actions**: text. `ask` shows the action that the expert would take. It takes no turn in the
    environment. A question beyond the budget is an invalid action.

    **Observations**: text. The answer precedes the observation until the next action.

    **Rewards**: -`cost` for a question (term `questions`).

    **Info**: `questions_left` (int) is added. If the environment lists admissible actions, `ask` is
    added to them within the budget.

    Args:
        env: an environment with text observations and actions, and an expert unless another one
            helps. Where the expert has no action, it has no advice, and the question costs nothing
            but counts.
        cost: cost of a question, at least 0.
        budget: maximum number of questions per episode.
        helper: "expert" (the environment's), "human" (a person at the terminal, as in ReHAC), or a
            language model (chat:MODEL@URL, policy:FOLDER, model:NAME), which read the rules, the
            observation and the last turns. Answers of a served model are kept in the cache.

    Raises:
        ConfigError: if observations or actions are not text, the cost is negative, the budget is
            below 1, or there is no such helper.
    """

    own_actions = "also"

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        cost: float = 0.1,
        budget: int = 3,
        helper: str = EXPERT,
    ):
        super().__init__(env, cost=cost, budget=budget, helper=helper)
        self._need_text("observations")
        self._need_text("actions")
        if not 0 <= cost < float("inf"):
            raise ConfigError(f"cost must be at least 0, got {cost}.")
        if budget < 1:
            raise ConfigError(f"budget must be at least 1, got {budget}.")
        if helper.startswith(MODELS):
            text_model(helper, PROMPT)
        elif helper not in (EXPERT, HUMAN):
            raise ConfigError(
                f"helper must be {EXPERT!r}, {HUMAN!r}, chat:MODEL@URL, policy:FOLDER or "
                f"model:NAME, got {helper!r:.80}."
            )
        self.cost, self.budget, self.helper = float(cost), budget, helper
        self._begin()
        self._over = True  # until `reset`

    @property
    def instructions(self) -> str:
        """The environment's instructions, followed by those for questions."""
        hint = _HINT.format(budget=self.budget, cost=self.cost)
        return f"{self.env.get_wrapper_attr('instructions')}\n\n{hint}"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answers a question, or plays the action: see `TextEnv.step`."""
        self._check_turn(action)
        asks = action.strip().lower() == ASK
        if asks and self._left:
            return self._answered()
        if asks:
            action = UnreadableAction(action, "No questions are left.")
        self._advice = ""
        before = self._current[0]
        result = super().step(action)
        self._turns = [*self._turns, [before, text_of(action)]][-SHOWN:]
        self._over = result[2] or result[3]
        return result

    def _answered(self) -> tuple[str, float, bool, bool, dict[str, Any]]:
        advice = self._help()
        self._left -= 1
        self._advice = "The expert has no advice." if advice is None else f"Expert: {advice}"
        reward = -self.cost if advice is not None and self.cost else 0.0
        observation, info = self._shown()
        info = self._idle(info)
        info["reward_terms"][TERM] = reward
        return observation, reward, False, False, info

    def _help(self) -> str | None:
        """Returns the action that the helper would take, or None if it has no advice."""
        if self.helper == EXPERT:
            return self.env.get_wrapper_attr("expert")()
        rules = str(self.env.get_wrapper_attr("instructions"))
        turns = [f"Observation: {seen[:LONGEST]}\nAction: {action}" for seen, action in self._turns]
        now = f"Observation: {self._current[0][:LONGEST]}"
        text = "\n\n".join([rules, *turns, now])
        if self.helper == HUMAN:
            question = f"{printable(text)}\n\nThe agent asks for help. Next action: "
            try:
                return input(question).strip() or None
            except EOFError:  # nobody is at the terminal
                return None
        return text_model(self.helper, PROMPT)([text])[0] or None

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._current = observation, info
        return self._shown()

    def _shown(self) -> tuple[str, dict[str, Any]]:
        observation, info = self._current
        admissible = tuple(info.get("admissible", ()))
        if admissible and self._left:
            admissible = (*admissible, ASK)
        if self._advice:
            observation = f"{self._advice}\n\n{observation}"
        terms = {**info.get("reward_terms", {}), TERM: 0.0}
        added = {"admissible": admissible, "questions_left": self._left, "reward_terms": terms}
        return observation, self._keyed({**info, **added}, self._left, self._advice)

    def _begin(self) -> None:
        self._left, self._advice, self._over = self.budget, "", False
        self._current: tuple[str, dict[str, Any]] = "", {}
        self._turns: list[list[str]] = []

    def _memory(self) -> dict[str, Any]:
        memory = {"left": self._left, "advice": self._advice, "over": self._over}
        return {**memory, "turns": self._turns}

    def _remember(self, memory: dict[str, Any]) -> None:
        left, advice = memory["left"], str(memory["advice"])
        if type(left) is not int or not 0 <= left <= self.budget:
            raise ValueError(f"expected 0 to {self.budget} questions left, got {left!r}")
        turns = [[str(seen), str(action)] for seen, action in memory["turns"]]
        self._left, self._advice, self._over = left, advice, bool(memory["over"])
        self._turns = turns


_HINT = (
    "You can ask an expert for the next action, at most {budget} times: reply with ask. A question "
    "costs {cost:g} and takes no turn."
)
