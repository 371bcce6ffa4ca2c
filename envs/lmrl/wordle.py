"""Wordle: find a five-letter word from what the marks of six guesses say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from agentgym.core import TextEnv, TimeStep, UnreadableAction
from agentgym.envs.lmrl.words import COMMON
from agentgym.errors import DataError
from agentgym.tasks import Tasks

LENGTH = 5
TRIES = 6
MARKS = "byg"
SOLVED = 3**LENGTH - 1
CODES = tuple("".join(MARKS[code // 3**i % 3] for i in range(LENGTH)) for code in range(3**LENGTH))
"""The marks of a guess by their code: b 0, y 1, g 2, the first letter in the lowest place."""
CODE = {marks: code for code, marks in enumerate(CODES)}
CACHED_BYTES = 64_000_000
"""Vocabularies whose marks fit, one byte for each pair of words, have them cached."""
POOL = 3000
"""Guesses, and words that may be hidden, which the expert weighs; of more, evenly spaced ones."""

History = tuple[tuple[str, str], ...]


@dataclass
class State:
    """Guesses with their marks, tries used (words that are none count), the fixed word if any."""

    history: History
    used: int
    secret: str


class Vocabulary:
    """Words that may be guessed and hidden, with what the marks of guesses say about them.

    Args:
        source: "common" for the words that come with AgentGym, or a file of one word a line.
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
        # Copies and other processes share or rebuild the tables instead of carrying them.
        return load_vocabulary, (self.source, self.letter_counts)

    def codes(self, guess: str, hidden: np.ndarray) -> np.ndarray:
        """Returns the codes of the guess's marks for hidden words by index, shape (n,) -> (n,)."""
        if len(self.words) ** 2 > CACHED_BYTES:
            every = len(hidden) == len(self.words)
            letters = self.letters if every else self.letters[:, hidden]
            return mark_codes(guess, letters, self.letter_counts)
        row = self._rows.get(guess)
        if row is None:
            row = self._rows[guess] = mark_codes(guess, self.letters, self.letter_counts)
        return row[hidden]

    def consistent(self, history: History) -> np.ndarray:
        """Returns the indices of the words for which all guesses would be marked as they are."""
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
        """Returns the guess whose marks are expected to tell most; at the last try, a candidate.

        "Most" is the entropy of the marks over the words that may be hidden.
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
        # Among the equally telling a word that may be the hidden one: these stand first.
        return self.words[pool[int(np.argmax(entropy.round(9)))]]


@cache
def load_vocabulary(source: str, letter_counts: bool) -> Vocabulary:
    """Returns the vocabulary of a source; made once in a process."""
    return Vocabulary(source, letter_counts)


def read_words(path: Path) -> tuple[str, ...]:
    """Returns the five-letter words of a file of one word a line, each once, in order."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The vocabulary {str(path)!r} cannot be read: {error}") from error
    words = tuple(dict.fromkeys(w for w in map(str.strip, lines) if re.fullmatch("[a-z]{5}", w)))
    if len(words) < 5:
        raise DataError(
            f"A vocabulary needs at least 5 words of {LENGTH} small letters a-z, one a line; "
            f"{str(path)!r} has {len(words)}."
        )
    return words


def as_letters(words: Sequence[str]) -> np.ndarray:
    """Returns the words' letters as bytes, shape (5, V): place by place."""
    letters = np.frombuffer("".join(words).encode(), dtype=np.uint8)
    return np.ascontiguousarray(letters.reshape(-1, LENGTH).T)


def mark_codes(guess: str, letters: np.ndarray, letter_counts: bool) -> np.ndarray:
    """Returns the codes of the guess's marks for hidden words as letters, shape (5, n) -> (n,).

    A letter in its place is g, one elsewhere in the word y, any other b. With `letter_counts` a
    letter gets, from left to right, no more y's than the word has left of it besides the g's.
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
    """Find a five-letter word from what the marks of six guesses say.

    ## Description
    Wordle as LMRL-Gym plays it: no word is fixed at the start. At each guess a word is drawn from
    those that all marks so far allow, and the guess is marked for it. What the agent sees is
    distributed as if a word had been drawn at the start, and nobody can
    have memorised it. With `fixed_secret=True` it is the usual game: the task is the hidden word.

    ## Action Space
    Text: a word of the vocabulary, its letters separated by spaces, as in `c r a n e`; `crane` and
    capitals are understood, too. Anything else is an invalid action and uses up a guess.

    ## Observation Space
    Text: guesses left, then a line for each guess: "c r a n e: b y g b b". g: right letter in the
    right place; y: the letter is elsewhere in the word; b: it is not in the word.

    ## Rewards
    Term `task`: 0 for the guess that solves, -1 for any other. An invalid action costs 1, too
    (`invalid_penalty`).

    ## Starting State
    No guess made. With `fixed_secret` the task names the hidden word.

    ## Episode End
    Termination: the word is found, or six guesses are used up. Truncation: after `max_turns`.

    ## Information
    The common keys; `progress` is 1 - log(n + 1) / log(N + 1) for n words left of N, 1 when solved.
    `admissible` lists the vocabulary if it has at most `list_limit` words.

    ## Arguments
    `vocabulary`: "common" (893 common English words) or the path of a file with one word a line.
    `fixed_secret`: see above; one word in five is a test task. `letter_counts`: mark a letter y
    only as often as the word has it, as newspapers do; by default, and in the original, each
    occurrence in the guess is marked by itself. `list_limit`: default 1,000. `max_turns`: default
    None.

    ## Example Transcript
    ```
    Guesses left: 6.
    > c r a n e
    Guesses left: 5.
    c r a n e: b y g b b
    ```

    ## Baselines
    Mean return and success on the test split, n = 200 episodes each. `Wordle-v0`: random words
    -5.97, 1 %; expert (most telling guess) -2.17, 100 %. `Wordle-Fixed-v0`: random -5.99, 0.5 %;
    expert -2.07, 100 %.
    Speed on one core: 70,000 steps/s; of 2,315 words 60,000 (the original 32), of 12,972 12,000.

    ## Registered Configurations
    `Wordle-v0`: the original's drawn words. `Wordle-Fixed-v0`: the usual game, letters counted.

    ## References
    LMRL-Gym (arXiv 2311.18232), section on Wordle; after Snell et al. (arXiv 2206.11871). Marks,
    sets of words left, rewards and endings are the same; the generator that draws is another.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Find a hidden English word of five letters within six guesses. Each guess must be a word "
        "of five letters; write it as letters separated by spaces, for example: c r a n e. Every "
        "letter of your guess is then marked: g - right letter in the right place; y - the letter "
        "is in the word, but elsewhere; b - the letter is not in the word. A guess that is no "
        "known word is not marked but is used up."
    )
    State = State
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
        self.tasks = Tasks(
            train=[w for i, w in enumerate(words) if i % 5] if fixed_secret else ["train"],
            test=words[::5] if fixed_secret else ["test"],
        )

    def _start(self, task: str) -> TimeStep:
        self.state = State((), 0, task if self.fixed_secret else "")
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        # Longer ones are no spelled words: they need not be searched for spaces.
        guess = "".join(action.split()).lower() if len(action) < 100 else ""
        if guess not in self.vocabulary.index:
            return self._wasted(f"{action[:40]!r} is no word of the vocabulary: a guess is lost.")
        state = self.state
        code = self.vocabulary.codes(guess, np.array([self._hidden()]))[0]
        state.history = (*state.history, (guess, CODES[code]))
        state.used += 1
        return self._look()

    def _hidden(self) -> int:
        """Returns the index of the fixed word, or of one drawn from those the marks allow."""
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

    def expert(self) -> str | None:
        """Returns the guess whose marks are expected to tell most about the hidden word."""
        last = self.state.used == TRIES - 1
        return " ".join(self.vocabulary.best_guess(self.state.history, last))
