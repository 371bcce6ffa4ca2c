"""TextGeneration: write a text in one action or word by word, for a reward of the whole text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from agentgym.core import TextEnv, TimeStep, TurnLimit
from agentgym.envs.generation.lexicon import VOCABULARY, words_of
from agentgym.envs.generation.prompts import KINDS, Prompt, prompt_of, score
from agentgym.errors import ConfigError
from agentgym.tasks import Tasks
from agentgym.utils.action_parsing import command

LONGEST = 2000
"""Maximum number of characters of a text."""
END = "end"
RewardOfText = Callable[[Prompt, str], float]
"""(prompt, text) -> reward in [0, 1]."""


@dataclass
class State:
    """The words so far, and the reward at the end.

    Attributes:
        words: the words so far.
        reward: the reward, or -1 before the end.
    """

    words: list[str] = field(default_factory=list)
    reward: float = -1.0


class TextGeneration(TextEnv):
    """Write a text that fulfils a prompt, in one action or word by word.

    ## Description
    There are three kinds of prompts: a sentence with given words, a cheerful or gloomy sentence
    about two things, and a summary of a page in which three facts stand among other sentences.
    Sentences use a closed vocabulary, so that grammar is checked exactly. With `words`, each action
    adds a word, and the reward comes at the end: the decision problem of a language model's tokens.

    ## Action Space
    Text.

    - the whole text, at most 2,000 characters.
    - with `words`, one word of the vocabulary, or `end`.

    ## Observation Space
    Text: the prompt with the maximum number of words, and with `words` the text so far.

    ## Rewards
    The score of the text (term `task`), in [0, 1], at the end. A text that is too long has 0. For a
    sentence, it is the product of the share of required words, the share of the tone (an adjective
    of the other tone makes it 0), and the share of neighbouring words whose classes may follow each
    other (0 without exactly one verb, or if a content word is repeated). For a summary, it is
    ROUGE-L against a reference. `reward` replaces it. An invalid action costs `invalid_penalty`.

    ## Starting State
    A prompt sampled from the task name. No prompt is in both splits.

    ## Episode End
    Termination: the text, or with `words` `end` or the maximum number of words. Truncation: after
    `max_turns` turns.

    ## Information
    The common keys. `success` is a reward of 1, and `progress` the reward. `admissible` lists the
    words with `words`, else it is empty.

    ## Arguments
    - `kind` (str, default "mixed"): "words", "tone", "summary" or "mixed".
    - `words` (bool, default False): whether an action is a word instead of the whole text.
    - `reward` (callable or None, default None): (prompt, text) -> reward in [0, 1], where prompt is
      an `agentgym.envs.generation.prompts.Prompt`. None: the score above.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 3 for whole texts and
      60 for words.

    ## References
    Text generation as an environment with rewards of the whole text: RL4LMs and its tasks GRUE
    (arXiv 2210.01241). Sentences with given words: CommonGen (arXiv 1911.03705). Prompts, scores
    and texts are our own.

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(
        self,
        *,
        kind: str = "mixed",
        words: bool = False,
        reward: RewardOfText | None = None,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if kind not in (*KINDS, "mixed"):
            raise ConfigError(f"kind must be one of {(*KINDS, 'mixed')}, got {kind!r}.")
        limit = (60 if words else 3) if max_turns == "auto" else max_turns
        super().__init__(max_turns=limit, **kwargs)
        self.kind, self.words = kind, words
        self.reward = score if reward is None else reward
        self.tasks = Tasks.generated()
        self.instructions = _INSTRUCTIONS.format(action=_WORDS if words else _TEXT)

    @property
    def prompt(self) -> Prompt:
        """The prompt of the task."""
        return prompt_of(self.task, self.kind)

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        if self.words:
            return self._word(action)
        text = command(action)
        if len(text) > LONGEST or not (words := words_of(text)):
            return self._invalid(f"Reply with a text of at most {LONGEST:,} characters.")
        self.state.words = words
        return self._finish(text)

    def _word(self, action: str) -> TimeStep:
        state, prompt = self.state, self.prompt
        word = action.strip().lower()
        if word != END and word not in prompt.vocabulary:
            return self._invalid(f"Reply with one word of the vocabulary, or with {END}.")
        if word != END:
            state.words.append(word)
        if word == END or len(state.words) == prompt.limit:
            return self._finish(" ".join(state.words))
        return self._look()

    def _finish(self, text: str) -> TimeStep:
        """Scores the text and ends the episode."""
        reward = float(self.reward(self.prompt, text))
        if not (math.isfinite(reward) and 0 <= reward <= 1):
            raise ValueError(f"The reward of a text must lie in [0, 1], got {reward}.")
        self.state.reward = reward
        return self._look()

    def _look(self) -> TimeStep:
        state, prompt = self.state, self.prompt
        done = state.reward >= 0
        text = f"{prompt.text}\nUse at most {prompt.limit} words."
        if done:
            text = f"The score is {state.reward:.2f}."
        elif self.words:
            text += f"\nText so far: {' '.join(state.words) or '(empty)'}"
        reward = max(0.0, state.reward)
        return TimeStep(
            text=text,
            rewards={"task": reward},
            terminated=done,
            success=reward > 1 - 1e-9,
            progress=reward,
            admissible=(*prompt.vocabulary, END) if self.words and not done else (),
        )

    def expert(self) -> str | None:
        """Writes the reference."""
        if not self.words:
            return self.prompt.reference
        words, done = words_of(self.prompt.reference), len(self.state.words)
        return words[done] if done < len(words) else END


_TEXT = "Reply with the text and nothing else."
_WORDS = (
    f"Each turn, reply with the next word of the text and nothing else, or with {END} when the "
    "text is complete."
)
_INSTRUCTIONS = (
    "Write a text for a prompt.\n"
    "{action}\n"
    "Rules:\n"
    "- A sentence has one verb, and an article before each noun, as in: the tall sailor saw a boat "
    "near the bridge.\n"
    "- A sentence repeats no noun, verb or adjective, and has only these words: "
    f"{', '.join(VOCABULARY)}.\n"
    "- A sentence with an adjective of the other tone, cheerful or gloomy, earns nothing.\n"
    "- A summary may have any words. It is compared with one of the form: Lunwick is a town in the "
    "north, known for cheese.\n"
    "- A text that is too long earns nothing.\n"
    "The reward is the score of the text, from 0 to 1."
)
