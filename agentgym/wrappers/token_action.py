"""`TokenAction`: a text environment as a token-level Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from agentgym.tokens.context import ActionFormat, PromptContext
from agentgym.tokens.tokenizer import Tokenizer
from agentgym.tokens.view import TokenOptions, TokenSettings, TokenView
from agentgym.utils.action_parsing import numbered
from agentgym.wrappers.base import TextWrapper


class TokenAction(TextWrapper):
    """Makes each step one token. The environment is stepped when an action is complete.

    With the per-step discount in the info, the token-level Bellman backup is that of POAD
    ("Reinforcing LLM Agents via Policy Optimization with Action Decomposition", arXiv 2405.15821):
    no discount within an action, and gamma at its end. The undiscounted return is equal to that of
    the wrapped environment for the same actions.

    **Actions**: `Discrete(V)`, token ids of a vocabulary of size V. An action is complete after the
    end token or `max_action_tokens` tokens. If the turn is constrained to admissible actions, only
    the end token completes one, as in the trainer, so that both count the same tokens. A token that
    does not continue an admissible action completes an invalid action.

    **Observations**: `Dict` of

    - `tokens`, int64 (max_tokens,): the tokens of the prompt and of the current action, padded with
      0 on the right. The prompt holds the instructions, the earlier turns with the action tokens as
      they were sampled, and the observation. If it does not fit, the oldest turns are left out and
      then the end of the observation, so that the task at its beginning is kept.
    - `length`, int64 (1,): the number of tokens without padding.
    - `action_mask`, int8 (V,): 1 for the tokens that may follow.

    **Rewards**: the environment's reward when an action is complete, and 0 within an action.

    **Info**: `turn_end` (bool: whether this step completed an action) and `discount` (gamma if
    `turn_end`, else 1) are added. Within an action, the other keys have the values of the start of
    the turn, but `valid` is True, `reward_terms` are 0 and no attempt of `MultiTrial` ends.

    Args:
        env: an environment with text observations and actions.
        tokenizer: any tokenizer of `transformers`, or an object with `encode(text,
            add_special_tokens=False)`, `decode(ids)` and `__len__` or `vocab_size`.
        max_action_tokens: maximum number of tokens per action in turns without constraint.
        max_tokens: length of the observation, and maximum length of prompt plus action.
        constrain: whether actions are constrained to `info["admissible"]`. Turns in which it is
            empty (an open action set) are not constrained.
        end_token: id of the token that completes an action. None: the tokenizer's `eos_token_id`.
        format: the delimiters of actions, in place of `end_token`: several end tokens, stop strings
            and the text before an action. `load_policy(folder).format` is that of a trained policy.
        gamma: discount per turn, in [0, 1].
        instructions: whether prompts start with the environment's instructions.
        context: builds the prompts. `load_policy(folder).context` is that of a trained policy, with
            its `max_tokens` and chat template: the tokens are then those of its rollouts. None:
            plain text, each action after "> ".

    Raises:
        ConfigError: if observations or actions are not text, or an argument is invalid. From
            `reset`: if `max_tokens` is too small for the instructions and an action.
    """

    own_actions = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        tokenizer: Tokenizer,
        *,
        max_action_tokens: int = 32,
        max_tokens: int = 512,
        constrain: bool = False,
        end_token: int | None = None,
        format: ActionFormat | None = None,
        gamma: float = 1.0,
        instructions: bool = True,
        context: PromptContext | None = None,
    ):
        options: TokenOptions = {
            "max_action_tokens": max_action_tokens,
            "max_tokens": max_tokens,
            "constrain": constrain,
            "end_token": end_token,
            "format": format,
            "gamma": gamma,
            "instructions": instructions,
            "context": context,
        }
        super().__init__(env, tokenizer=tokenizer, **options)
        self._need_text("observations")
        self._need_text("actions")
        self.settings = TokenSettings.checked("TokenAction", tokenizer, options)
        self.action_space = self.settings.action_space
        self.observation_space = self.settings.observation_space
        self._tokens = TokenView(self.settings)
        self._ready = False

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Appends one token to the action, and steps the environment if the action is complete.

        Raises:
            TypeError: if the token is not an integer.
            ValueError: if the token is not in [0, V).
            gymnasium.error.ResetNeeded: before the first reset or after the end of an episode.
        """
        token = numbered(action)
        if not 0 <= token < self.settings.size:
            raise ValueError(f"A token is an integer in [0, {self.settings.size}), got {token}.")
        if not self._ready:
            raise ResetNeeded("Call reset() before step(): there is no episode in progress.")
        text = self._tokens.append(token)
        if text is None:
            return self._tokens.observation(), 0.0, False, False, self._idle(self._info)
        observation, reward, terminated, truncated, info = self.env.step(text)
        self._ready = not (terminated or truncated)
        tokens, info = self._view(observation, info)
        info = {**info, "turn_end": True, "discount": self.settings.gamma}
        return tokens, float(reward), terminated, truncated, info

    def action_masks(self) -> np.ndarray:
        """Returns the mask of tokens that may follow, bool (V,), for `sb3_contrib.MaskablePPO`."""
        return self._tokens.mask()

    def expert(self) -> int | None:
        """Returns the next token of the expert's action.

        None if there is no expert or the current action deviates from the expert's.
        """
        text = self.env.get_wrapper_attr("expert")()
        return None if text is None else self._tokens.next_token(text)

    def _view(
        self, observation: str, info: dict[str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        self._tokens.read(observation, info, self._instructions(), ended=not self._ready)
        info = {**info, "turn_end": False, "discount": 1.0}
        self._info = self._kept(info)
        return self._tokens.observation(), info

    def _instructions(self) -> str:
        try:
            return str(self.env.get_wrapper_attr("instructions"))
        except AttributeError:
            return ""

    def _begin(self) -> None:
        self._tokens.begin()
        self._ready = True

    def _memory(self) -> dict[str, Any]:
        return {**self._tokens.memory(), "ready": self._ready}

    def _remember(self, memory: dict[str, Any]) -> None:
        self._tokens.remember(memory)
        self._ready = memory["ready"]
