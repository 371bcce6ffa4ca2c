"""Codenames: spymasters give one-word clues, guessers find their team's words among 25."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from agentgym.core import TimeStep
from agentgym.envs.communication.associations import topics, vocabulary
from agentgym.envs.communication.codenames_players import (
    SPYMASTERS,
    allowed,
    barred,
    literal_guess,
    random_clue,
    strategic_guess,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import InvalidMove, Rewards, TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks, task_rng
from agentgym.utils.action_parsing import plain

TEAMS = ("red", "blue")
NEUTRAL, ASSASSIN = "neutral", "assassin"
PASS = "[pass]"
FIRST = 9
"""Words of the team that begins; the other has one less."""
MENU_COUNTS = (1, 2, 3, 4)
CLUE = re.compile(r"\[?\s*([^\W\d_]{1,30})\s*,?\s+([1-9])\s*\]?")


@dataclass
class Said:
    """A clue: the number of the team, the word, for how many, and how many were found for it."""

    team: int
    word: str
    count: int
    found: int = 0


@dataclass
class State:
    """The board and what happened.

    Attributes:
        key: the words of the board and what they are: a team, "neutral" or "assassin".
        shown: the words that are uncovered.
        team: number of the team whose turn it is.
        guesses: how many more guesses it has; 0: its spymaster is to give a clue.
        clues: all clues so far.
        log: what everybody saw, as lines.
        winner: number of the team that has won; -1: none yet.
    """

    key: dict[str, str]
    shown: list[str] = field(default_factory=list)
    team: int = 0
    guesses: int = 0
    clues: list[Said] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    winner: int = -1


def board(task: str) -> dict[str, str]:
    """Returns the words of a task and what they are."""
    rng = task_rng(task)
    words = [vocabulary()[i] for i in rng.choice(len(vocabulary()), 25, replace=False)]
    kinds = ["red"] * FIRST + ["blue"] * (FIRST - 1) + [ASSASSIN]
    kinds += [NEUTRAL] * (len(words) - len(kinds))
    key = dict(zip(words, kinds, strict=True))
    return {word: key[word] for word in sorted(words)}


def covered(state: State, kind: str | None = None) -> list[str]:
    """Returns the covered words, or those of a kind."""
    shown = set(state.shown)
    return [w for w, k in state.key.items() if w not in shown and kind in (None, k)]


@lru_cache(maxsize=64)
def summary(
    key: tuple[tuple[str, str], ...], shown: frozenset[str]
) -> tuple[tuple[int, int], tuple[str, str]]:
    """Returns the words left of each team, and the covered words as guessers and spymasters see."""
    left: dict[str, list[str]] = {kind: [] for kind in (*TEAMS, NEUTRAL, ASSASSIN)}
    for word, kind in key:
        if word not in shown:
            left[kind].append(word)
    red, blue = (len(left[team]) for team in TEAMS)
    words = ", ".join(word for word, _ in key if word not in shown)
    plain = f"Covered: {words}.\nOf these, {red} red and {blue} blue."
    sorted_out = [f"{kind}: {', '.join(some)}." for kind, some in left.items() if some]
    return (red, blue), (plain, "\n".join(sorted_out))


@lru_cache(maxsize=1024)
def menu(without: frozenset[str]) -> tuple[str, ...]:
    """Returns the clues of the menu, but for these topics."""
    return tuple(
        f"[{topic} {n}]" for topic in topics() if topic not in without for n in MENU_COUNTS
    )


def give(state: State, word: str, count: int) -> None:
    """Plays a clue of the team whose turn it is."""
    state.clues.append(Said(state.team, word, count))
    state.log.append(f"{TEAMS[state.team]} clue: [{word} {count}]")
    state.guesses = count + 1


def guess(state: State, word: str) -> None:
    """Uncovers a word, with all that follows."""
    kind, team = state.key[word], TEAMS[state.team]
    state.shown.append(word)
    state.log.append(f"{team} guess: {word} ({kind})")
    for number, name in enumerate(TEAMS):
        if not covered(state, name):
            state.winner = number
    if kind == ASSASSIN:
        state.winner = 1 - state.team
    if kind == team:
        state.clues[-1].found += 1
        state.guesses -= 1
    else:
        state.guesses = 0
    if state.guesses == 0:
        state.team = 1 - state.team


class Codenames(TextGame):
    """Codenames for two teams of a spymaster and a guesser.

    ## Description
    Of 25 words, 9 are red, 8 blue, 7 neutral, and one is the assassin. Only the spymasters know
    which. In turn, a spymaster gives a clue of one word and a number; its guesser then uncovers
    words one by one. Red begins. The team whose words are all uncovered wins, whoever uncovered
    them; whoever uncovers the assassin loses.

    ## Action Space
    Text. A spymaster: `[word n]`, one word of letters that is no covered word, no part of one and
    contains none, and a number from 1 to 9 (with `clues="menu"` a topic and a number up to 4). A
    guesser: a covered word, `[apple]`, or `[pass]`, which ends the turn. Brackets may be left out.
    With `action_mode="discrete"` (menu only): the index of the action.

    ## Observation Space
    Text: who one is and what is to do; the covered words (a spymaster sees what they are), the
    words uncovered, and all clues and guesses in order.

    ## Rewards
    Term `task`, at the end: 1 for both of the team that wins, -1 for the others. Zero-sum. An
    invalid action costs `invalid_penalty`.

    ## Starting State
    All words are covered. The task, `train/N` or `test/N`, makes the board: 25 of 199 words.

    ## Episode End
    Termination: a team has won. Truncation: after `max_turns` turns. After `max_invalid` invalid
    actions in a row a clue on any topic is given, or the guesser passes.

    ## Information
    The common keys; `success`: one's team has won; `progress`: the share of its words that are
    uncovered, 1 when won.

    ## Arguments
    `clues`: "free" (default) or "menu". `max_turns`: default 80. As a single seat: `seat`
    (player_0: red spymaster, player_1: red guesser, player_2 and player_3: blue) and `opponents`
    (one's partner and both of the other team): "random", "literal" (a clue for the topic of most of
    one's words, whatever else belongs to it; guesses words of the topic) or "strategic" (the
    default: the clue that is worth most, dangers counted; remembers all clues). They know the
    topics of `associations.py` only, and what words have a topic in common.

    ## Example Transcript
    ```
    You are player_0, the spymaster of red. Give a clue.
    red: anchor, apple, bear, cherry, lion, moon, needle, owl, snow.
    blue: ...
    neutral: ...
    assassin: shark.
    > [animal 2]
    You are player_1, the guesser of red. The clue is [animal 2]. Guesses left: 3.
    Covered: anchor, apple, ...
    > [lion]
    ```

    ## Baselines
    A single seat, 200 test episodes, mean return (success). With and against "strategic": random
    -1.00 (0 %), with the menu too; expert ("strategic") -0.09 (46 %). With and against "literal":
    random -0.81 (9 %); expert 0.29 (64 %). How often red wins, 200 games:

    | red | blue random | blue literal | blue strategic |
    |---|---|---|---|
    | random | 42 % | 4 % | 0 % |
    | literal | 94 % | 47 % | 20 % |
    | strategic | 100 % | 67 % | 44 % |

    A step of a seat takes some four turns of the game, each seen by four players, and most made by
    players that search: 3,500 (with the menu) to 5,700 steps/s.

    ## Registered Configurations
    `Codenames-v0`: any clue. `Codenames-Menu-v0`: clues from the list of topics.

    ## References
    Vlaada Chvatil, Codenames (2015): the rules. TextArena (arXiv 2504.11442): the form of actions,
    passing at any time, and the limit of 80 turns. Words and associations are our own.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(4, 5)
    State = State
    state: State
    zero_sum = True
    levels = ("random", "literal", "strategic")
    expert_level = "strategic"
    default_opponents = "strategic"

    def __init__(self, *, clues: str = "free", max_turns: int | None = 80, **kwargs):
        if clues not in ("free", "menu"):
            raise ConfigError(f"clues must be 'free' or 'menu', got {clues!r}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.clues = clues
        if clues == "menu":
            said = menu(frozenset())
            self.actions = (*(f"[{word}]" for word in vocabulary()), PASS, *said)
        self.instructions = (
            "Codenames. player_0 is the spymaster of the red team and player_1 its guesser; "
            "player_2 and player_3 are those of the blue team. Of 25 words, 9 are red, 8 blue, 7 "
            "neutral and one is the assassin; only the spymasters see which. A team wins when all "
            "its words are uncovered, and loses when it uncovers the assassin. In its turn, a "
            "spymaster says one word and for how many covered words of its team it stands, as "
            "[word n], n from 1 to 9. The word has letters only; it must not be a covered word, "
            "be part of one or contain one. Its guesser then names covered words one by one, each "
            "as [word]: at most n+1; a word of another kind than the team's ends the turn, and so "
            "does [pass]. Then it is the other team's turn. Scripted players understand these "
            f"clues: {', '.join(topics())}."
        )

    def _start(self, task: str) -> None:
        self.state = State(board(task))

    def _acting(self) -> tuple[str, ...]:
        if self.state.winner >= 0:
            return ()
        return (self.possible_agents[2 * self.state.team + (self.state.guesses > 0)],)

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        team = TEAMS[me // 2]
        role = ("spymaster", "guesser")[me % 2]
        won = state.winner == me // 2
        left, listed = summary(tuple(state.key.items()), frozenset(state.shown))
        seen = listed[me % 2 == 0 or state.winner >= 0]
        lines = [f"You are {agent}, the {role} of {team}. {self._asks(agent)}", seen]
        total = FIRST - me // 2
        return TimeStep(
            text="\n".join([*lines, *state.log]),
            success=won,
            progress=1.0 if won else 1 - left[me // 2] / total,
            admissible=self._options(me) if agent in self.acting else (),
        )

    def _asks(self, agent: str) -> str:
        state = self.state
        if state.winner >= 0:
            return f"The {TEAMS[state.winner]} team has won."
        if agent not in self.acting:
            return f"It is the turn of {self._acting()[0]}."
        if state.guesses == 0:
            return "Give a clue."
        clue = state.clues[-1]
        return f"The clue is [{clue.word} {clue.count}]. Guesses left: {state.guesses}."

    def _options(self, me: int) -> tuple[str, ...]:
        words = covered(self.state)
        if me % 2:
            return (*(f"[{word}]" for word in words), PASS)
        if self.clues == "free":
            return ()
        return menu(barred(words))

    def _read(self, agent: str, said: str) -> str:
        said = plain(said[:200])
        if self.state.guesses > 0 or self.clues == "menu":
            return super()._read(agent, said if said.startswith("[") else f"[{said}]")
        match = CLUE.fullmatch(said)
        if match is None:
            raise InvalidMove(
                f"{said[:40]!r} is no clue. Say one word of letters and a number from 1 to 9, such "
                "as [animal 2]."
            )
        if not allowed(match[1], covered(self.state)):
            raise InvalidMove(
                f"{match[1]!r} is a covered word, part of one, or contains one: give another clue."
            )
        return f"[{match[1]} {match[2]}]"

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        ((_, move),) = moves.items()
        if state.guesses == 0:
            word, count = move.strip("[]").split()
            give(state, word, int(count))
        elif move == PASS:
            state.log.append(f"{TEAMS[state.team]} passes.")
            state.team, state.guesses = 1 - state.team, 0
        else:
            guess(state, move.strip("[]"))
        if state.winner < 0:
            return {}
        return self._pay(1.0 if team == state.winner else -1.0 for team in (0, 0, 1, 1))

    def _fallback(self, agent: str) -> str:
        return PASS if self.state.guesses else self._random(agent, self.np_random)

    def _kinds(self) -> dict[str, str]:
        """Returns the covered words as the spymaster whose turn it is sees them."""
        state, mine = self.state, TEAMS[self.state.team]
        sides = {mine: "own", TEAMS[1 - state.team]: "other"}
        return {word: sides.get(state.key[word], state.key[word]) for word in covered(state)}

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        if self.state.guesses or self.clues == "menu":
            return super()._random(agent, rng)
        word, count = random_clue(self._kinds(), rng)
        return f"[{word} {count}]"

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state = self.state
        if state.guesses == 0:
            word, count = SPYMASTERS[level](self._kinds(), rng)
            return f"[{word} {min(count, MENU_COUNTS[-1])}]"
        *earlier, last = state.clues
        words, clue = covered(state), (last.word, last.count)
        if level == "literal":
            choice = literal_guess(words, clue, last.found, rng)
        else:
            owed = [c.word for c in earlier if c.team == state.team and c.found < c.count]
            warned = [c.word for c in earlier if c.team != state.team]
            choice = strategic_guess(words, clue, last.found, owed, warned, rng)
        return f"[{choice}]" if choice else PASS


env, raw_env, parallel_env = make_pettingzoo(Codenames)
