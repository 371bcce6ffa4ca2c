"""Wordle: find a hidden five-letter word in six guesses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from agentgym.core import TextEnv, UnreadableAction
from agentgym.envs.lmrl.words import COMMON
from agentgym.errors import DataError
from agentgym.rendering import Cell, Scene
from agentgym.rendering.scene import DARK, GOLD, GREEN, PALE
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain
from agentgym.utils.file_cache import Shared, cached_by_files
from agentgym.utils.marks import undressed

LENGTH = 5
TRIES = 6
MARKS = "byg"
SOLVED = 3**LENGTH - 1
CODES = tuple("".join(MARKS[code // 3**i % 3] for i in range(LENGTH)) for code in range(3**LENGTH))
"""The marks of a guess by their code: digits b 0, y 1, g 2, the first letter least significant."""
CODE = {marks: code for code, marks in enumerate(CODES)}
MARK_COLORS = {"b": DARK, "y": GOLD, "g": GREEN}
CACHED_BYTES = 64_000_000
"""Marks of all pairs of words, one byte per pair, are cached up to this size."""
POOL = 3000
"""Most guesses, and most hidden words, that the expert evaluates. More are thinned out evenly."""

_GAPS = str.maketrans("", "", " ,-")
FORM = "Answer with one five-letter word, for example: c r a n e"
INDEPENDENT = "If your guess repeats a letter, each occurrence is marked on its own."
COUNTED = "A letter is marked g or y at most as often as it occurs in the word."
"""The instructions' rule for repeated letters, by `letter_counts`."""

History = tuple[tuple[str, str], ...]


@dataclass
class State:
    """Guesses with their marks, tries used (including invalid ones), the fixed word if any."""

    history: History
    used: int
    secret: str


class Vocabulary(Shared):
    """The words that may be guessed and hidden, with cached marks of guesses.

    Args:
        source: "common" for the words that come with AgentGym, or a file with one word per line.
        letter_counts: whether a letter guessed twice is marked twice only if it occurs twice.
    """

    def __init__(self, source: str, letter_counts: bool):
        self.source = source
        self.letter_counts = letter_counts
        self.words = COMMON if source == "common" else read_words(Path(source))
        self.index = {word: i for i, word in enumerate(self.words)}
        self.letters = as_letters(self.words)
        self.spelled = tuple(" ".join(word) for word in self.words)
        self._rows: dict[str, np.ndarray] = {}
        self._known: dict[History, np.ndarray] = {(): np.arange(len(self.words))}
        self._best: dict[tuple[History, bool], str] = {}

    def __reduce__(self):
        # Other processes rebuild the tables instead of carrying them.
        return load_vocabulary, (self.source, self.letter_counts)

    def codes(self, guess: str, hidden: np.ndarray) -> np.ndarray:
        """Returns the codes of a guess's marks for the indices of hidden words, (n,) -> (n,)."""
        if len(self.words) ** 2 > CACHED_BYTES:
            every = len(hidden) == len(self.words)
            letters = self.letters if every else self.letters[:, hidden]
            return mark_codes(guess, letters, self.letter_counts)
        row = self._rows.get(guess)
        if row is None:
            row = self._rows[guess] = mark_codes(guess, self.letters, self.letter_counts)
        return row[hidden]

    def consistent(self, history: History) -> np.ndarray:
        """Returns the indices of the words that are consistent with all marks so far."""
        found = self._known.get(history)
        if found is None:
            guess, marks = history[-1]
            before = self.consistent(history[:-1])
            found = before[self.codes(guess, before) == CODE[marks]]
            if len(self._known) >= 4096:
                self._known = {(): self._known[()]}
            self._known[history] = found
        return found

    def best_guess(self, history: History, last: bool) -> str:
        """Returns the guess with the largest entropy of marks over the consistent words.

        At the last try, returns a consistent word.
        """
        key = (history, last)
        if key not in self._best:
            if len(self._best) >= 4096:
                self._best.clear()
            self._best[key] = self._weigh(self.consistent(history), last)
        return self._best[key]

    def _weigh(self, candidates: np.ndarray, last: bool) -> str:
        if last or len(candidates) <= 2:
            return self.words[candidates[0]]
        hidden = candidates[:: -(-len(candidates) // POOL)]
        pool = np.arange(0, len(self.words), -(-len(self.words) // POOL))
        pool = np.concatenate([hidden, pool])
        codes = np.stack([self.codes(self.words[i], hidden) for i in pool]).astype(np.int64)
        codes += 3**LENGTH * np.arange(len(pool))[:, None]
        counts = np.bincount(codes.ravel(), minlength=3**LENGTH * len(pool))
        share = counts.reshape(len(pool), -1) / len(hidden)
        entropy = -(share * np.log(share, out=np.zeros_like(share), where=share > 0)).sum(axis=1)
        # Consistent words stand first, so they win ties.
        return self.words[pool[int(np.argmax(entropy.round(9)))]]


@cached_by_files("source", maxsize=8)
def load_vocabulary(source: str, letter_counts: bool) -> Vocabulary:
    """Returns the vocabulary of a source, which is built once per process."""
    return Vocabulary(source, letter_counts)


def read_words(path: Path) -> tuple[str, ...]:
    """Returns the distinct five-letter words of a file with one word per line, in order."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The vocabulary {str(path)!r} cannot be read: {error}") from error
    words = tuple(dict.fromkeys(w for w in map(str.strip, lines) if re.fullmatch("[a-z]{5}", w)))
    if len(words) < 5:
        raise DataError(
            f"A vocabulary needs at least 5 words of {LENGTH} lower-case letters a-z, one per "
            f"line, but {str(path)!r} has {len(words)}."
        )
    return words


def as_letters(words: Sequence[str]) -> np.ndarray:
    """Returns the words' letters as bytes, one row per place, shape (5, V)."""
    letters = np.frombuffer("".join(words).encode(), dtype=np.uint8)
    return np.ascontiguousarray(letters.reshape(-1, LENGTH).T)


def mark_codes(guess: str, letters: np.ndarray, letter_counts: bool) -> np.ndarray:
    """Returns the codes of a guess's marks for hidden words given as letters, (5, n) -> (n,).

    A letter in the right place is g, a letter elsewhere in the word is y, any other is b. With
    `letter_counts`, a letter gets as many marks as the word has of it: first g, then y from left to
    right.
    """
    codes = np.zeros(letters.shape[1], dtype=np.uint8)
    for i, letter in enumerate(guess):
        is_letter = letters == ord(letter)
        green = is_letter[i]
        if letter_counts:
            same = [j for j in range(LENGTH) if guess[j] == letter]
            left = is_letter.sum(axis=0) - is_letter[same].sum(axis=0)
            yellow = left > (~is_letter[[j for j in same if j < i]]).sum(axis=0)
        else:
            yellow = is_letter.any(axis=0)
        codes += (green.view(np.uint8) + (green | yellow)) * np.uint8(3**i)
    return codes


class Wordle(TextEnv):
    """Find a hidden five-letter word in six guesses, from the marks of each guess.

    ## Description
    Wordle as in LMRL-Gym, where no word is fixed at the start. At each guess, a word is sampled
    from those consistent with all marks so far, and the guess is marked for it. Observations have
    the same distribution as with a word sampled at the start, and the secret cannot be memorised.
    With `fixed_secret=True` it is the usual game, and the task is the hidden word.

    ## Action Space
    Text: a word of the vocabulary with its letters separated by spaces, for example `c r a n e`.
    `crane` and capitals are accepted too. Any other text is an invalid action and uses up a guess.

    ## Observation Space
    Text: the number of guesses left, then one line per guess, for example "c r a n e: b y g b b".
    - g: right letter in the right place
    - y: the letter is elsewhere in the word
    - b: the letter is not in the word

    ## Rewards
    Term `task`: 0 for the guess that finds the word, -1 for any other. An invalid action also costs
    1 (`invalid_penalty`).

    ## Starting State
    No guesses. With `fixed_secret`, the task is the hidden word. Otherwise the seed of the episode
    determines it. Few starts exist then: one task per split, and the splits share all words.

    ## Episode End
    - Termination: the word is found, or six guesses are used up.
    - Truncation: after `max_turns`.

    ## Information
    The common keys.
    - `progress`: 1 - log(n + 1) / log(N + 1) for n consistent words out of N, and 1 when the word
      is found.
    - `admissible`: the vocabulary if it has at most `list_limit` words, otherwise empty.

    ## Arguments
    - `vocabulary` (str, default "common"): "common" (893 common English words) or the path of a
      file with one word per line.
    - `fixed_secret` (bool, default False): fix the hidden word at the start. Every fifth word is a
      test task.
    - `letter_counts` (bool, default False): mark a letter at most as often as it occurs in the
      word, as newspapers do. By default, as in LMRL-Gym, each letter of the guess is marked
      independently.
    - `list_limit` (int, default 1,000): largest vocabulary that is listed as admissible actions.
    - `max_turns` (int or None, default None): turns before truncation.
    - `invalid_penalty` (float, default 1): cost of an invalid action.

    ## References
    LMRL-Gym (arXiv 2311.18232), section on Wordle, after Snell et al. (arXiv 2206.11871). Marks,
    consistent words, rewards and endings are the same. The random generator differs.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Find a hidden English word of five letters in at most six guesses.\n"
        "Each turn, answer with one five-letter word, with its letters separated by spaces, for "
        "example: c r a n e\n"
        "Each letter of your guess is then marked:\n"
        "- g: the letter is in the right place\n"
        "- y: the letter is in the word, but in another place\n"
        "- b: the letter is not in the word\n"
        "Rules:\n"
        "- {repeated}\n"
        "- A guess that is not a known word gets no marks but is used up.\n"
        "Each guess except the right one scores -1. The game ends when you find the word or have "
        "no guesses left."
    )
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "the seed chooses the word: both splits have all words",
    }
    turn_bound = TRIES

    def __init__(
        self,
        *,
        vocabulary: str = "common",
        fixed_secret: bool = False,
        letter_counts: bool = False,
        list_limit: int = 1000,
        max_turns: int | None = None,
        invalid_penalty: float = 1.0,
        **kwargs,
    ):
        super().__init__(max_turns=max_turns, invalid_penalty=invalid_penalty, **kwargs)
        self.vocabulary = load_vocabulary(vocabulary, letter_counts)
        self.fixed_secret = fixed_secret
        words = self.vocabulary.words
        self.list_limit = list_limit
        repeated = COUNTED if letter_counts else INDEPENDENT
        self.instructions = self.instructions.replace("{repeated}", repeated)
        self.tasks = Tasks(
            train=[w for i, w in enumerate(words) if i % 5] if fixed_secret else ["train"],
            test=words[::5] if fixed_secret else ["test"],
        )

    def _start(self, task: str) -> TimeStep:
        self.state = State((), 0, task if self.fixed_secret else "")
        return self._look()

    def _parse(self, action: str) -> str:
        spelled = action.translate(_GAPS) in self.vocabulary.index
        return action if spelled else super()._parse(action)  # which searches a long list

    def _advance(self, action: str) -> TimeStep:
        guess = action.translate(_GAPS)
        if guess not in self.vocabulary.index:  # longer texts cannot be spelled words
            guess = plain(undressed(action)).translate(_GAPS) if len(action) < 100 else ""
        if guess not in self.vocabulary.index:
            return self._wasted(f"{action[:40]!r} is not a known word, and a guess is lost. {FORM}")
        state = self.state
        code = self.vocabulary.codes(guess, np.array([self._hidden()]))[0]
        state.history = (*state.history, (guess, CODES[code]))
        state.used += 1
        return self._look()

    def _hidden(self) -> int:
        """Returns the index of the fixed word, or of a sampled word consistent with all marks."""
        if self.fixed_secret:
            return self.vocabulary.index[self.state.secret]
        left = self.vocabulary.consistent(self.state.history)
        return int(left[self._draw(len(left))])

    def _draw(self, count: int) -> int:
        return int(self.np_random.integers(count))

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        return self._wasted(action.feedback)

    def _wasted(self, feedback: str) -> TimeStep:
        self.state.used += 1
        return self._look(valid=False, feedback=feedback)

    def _look(self, valid: bool = True, feedback: str = "") -> TimeStep:
        state, words = self.state, self.vocabulary.words
        solved = bool(state.history) and state.history[-1][1] == CODES[SOLVED]
        over = solved or state.used == TRIES
        lines = [f"{' '.join(guess)}: {' '.join(marks)}" for guess, marks in state.history]
        left = len(self.vocabulary.consistent(state.history))
        listed = not over and len(words) <= self.list_limit
        return TimeStep(
            text="\n".join([f"Guesses left: {TRIES - state.used}.", *lines]),
            rewards={"task": -1.0} if valid and state.used and not solved else {},
            terminated=over,
            valid=valid,
            success=solved,
            progress=1.0 if solved else 1 - float(np.log(left + 1) / np.log(len(words) + 1)),
            admissible=self.vocabulary.spelled if listed else (),
            feedback=feedback,
        )

    def privileged_text(self) -> str:
        """Returns the number of possible words, and the secret word if it is fixed."""
        secret = f" Secret: {' '.join(self.state.secret)}." if self.fixed_secret else ""
        return f"Possible words: {len(self.vocabulary.consistent(self.state.history))}.{secret}"

    def _frame(self) -> Scene:
        rows = [
            [
                Cell(MARK_COLORS[mark], color="#ffffff", label=letter.upper())
                for letter, mark in zip(guess, marks, strict=True)
            ]
            for guess, marks in self.state.history
        ]
        blank = [[Cell(PALE)] * LENGTH] * (TRIES - len(rows))
        return Scene([*rows, *blank])

    def expert(self) -> str | None:
        """Returns the guess with the most informative marks."""
        last = self.state.used == TRIES - 1
        return " ".join(self.vocabulary.best_guess(self.state.history, last))
