"""Codenames: spymasters give one-word clues and guessers find their team's words among 25."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

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
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.rendering.scene import BLUE, GREY, INK, PAPER, RED, Cell, Scene
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain
from agentgym.utils.marks import undressed

TEAMS = ("red", "blue")
PAINT = {"red": RED, "blue": BLUE, "neutral": GREY, "assassin": INK}
NEUTRAL, ASSASSIN = "neutral", "assassin"
PASS = "[pass]"
FIRST = 9
"""Number of words of the team that begins. The other team has one less."""
MENU_COUNTS = (1, 2, 3, 4)
CLUE = re.compile(r"[\[(]?\s*([^\W\d_]{1,30})(?:\s*[,:]\s*|\s+-\s+|\s+)([1-9])\s*[\])]?")


@dataclass
class Said:
    """A clue: index of the team, word, number, and count of words found for it so far."""

    team: int
    word: str
    count: int
    found: int = 0


@dataclass
class State:
    """The board and the history of the game.

    Attributes:
        key: the kind of every word of the board: a team, "neutral" or "assassin".
        shown: the uncovered words.
        team: index of the team whose turn it is.
        guesses: number of guesses left. 0 if its spymaster has to give a clue.
        clues: all clues so far.
        log: the public events, one line per event.
        winner: index of the winning team, or -1.
    """

    key: dict[str, str]
    shown: list[str] = field(default_factory=list)
    team: int = 0
    guesses: int = 0
    clues: list[Said] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    winner: int = -1


def board(task: str) -> dict[str, str]:
    """Returns the words of a task with their kinds."""
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
    """Returns the number of words left per team and the views of guessers and of spymasters."""
    left: dict[str, list[str]] = {kind: [] for kind in (*TEAMS, NEUTRAL, ASSASSIN)}
    for word, kind in key:
        if word not in shown:
            left[kind].append(word)
    red, blue = (len(left[team]) for team in TEAMS)
    words = ", ".join(word for word, _ in key if word not in shown)
    plain = f"Covered: {words}.\nOf these, {red} are red and {blue} are blue."
    sorted_out = [f"{kind}: {', '.join(some)}." for kind, some in left.items() if some]
    return (red, blue), (plain, "\n".join(sorted_out))


@lru_cache(maxsize=1024)
def menu(without: frozenset[str]) -> tuple[str, ...]:
    """Returns the clues of the menu without those of the given topics."""
    return tuple(
        f"[{topic} {n}]" for topic in topics() if topic not in without for n in MENU_COUNTS
    )


def give(state: State, word: str, count: int) -> None:
    """Plays a clue of the team whose turn it is."""
    state.clues.append(Said(state.team, word, count))
    state.log.append(f"{TEAMS[state.team]} clue: [{word} {count}]")
    state.guesses = count + 1


def guess(state: State, word: str) -> None:
    """Uncovers a word and updates the game."""
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
    """Codenames for two teams, each with a spymaster and a guesser.

    ## Description
    Of 25 words, 9 are red, 8 are blue, 7 are neutral and one is the assassin. Only the spymasters
    see the kinds of the words. The teams take turns, and red begins:

    - The spymaster gives a clue: one word and a number.
    - The guesser uncovers words one at a time, at most one more than the number. A word that does
      not belong to its team ends the turn.
    - A team wins as soon as all its words are uncovered, by either team.
    - A team that uncovers the assassin loses.

    ## Action Space
    Text:

    - Spymaster: `[word n]`, a word of letters and a number from 1 to 9. The word must not be a
      covered word, be part of one or contain one. With `clues="menu"`: a topic and a number from 1
      to 4.
    - Guesser: a covered word, such as `[apple]`, or `[pass]`, which ends the turn.

    The brackets are optional. With `action_mode="discrete"` (menu only): the index of the action.

    ## Observation Space
    Text: the role and the current request, the covered words (for a spymaster with their kinds),
    and all clues and guesses in order.

    ## Rewards
    - `task`: at the end, 1 for both players of the winning team and -1 for the others. Zero-sum.
    - `invalid`: minus `invalid_penalty` for an invalid action.

    ## Starting State
    All words are covered. The task, `train/N` or `test/N`, determines the board.

    ## Episode End
    Termination: a team has won. Truncation: after `max_turns` turns. Both teams then have the
    return 0, whereas in TextArena the team with more uncovered words of its own wins. After
    `max_invalid` invalid actions in a row, a spymaster gives a random clue and a guesser passes.

    ## Information
    The common keys.

    - `success`: whether the agent's team has won.
    - `progress`: the share of the team's words that are uncovered, 1 after a win.

    ## Arguments
    - `clues` ("free" or "menu", default "free"): any word as a clue, or a topic of a fixed list.
    - `max_turns` (int or None, default 80): turns before truncation. Each clue and each guess is a
      turn.
    - `seat` (single seat only): player_0 (red spymaster), player_1 (red guesser), player_2 (blue
      spymaster) or player_3 (blue guesser).
    - `opponents` (single seat only, default "strategic"): the players of the other three seats.
      - "random": any clue, any guess.
      - "literal": gives the topic with the most words of its team, whatever other words belong to
        it, and guesses words of the topic.
      - "strategic": gives the clue of the highest expected gain, including the cost of wrong words,
        and takes earlier clues into account.

    ## Notes
    Scripted players know only the topics of `associations.py`. Two words are related if they share
    a topic.

    ## References
    - Vlaada Chvatil, Codenames (2015): the rules.
    - TextArena (arXiv 2504.11442): the action format, passing at any time, and the limit of 80
      turns.

    Words and associations are our own.

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
        number = 4 if clues == "menu" else 9
        limit = ""
        if max_turns is not None:
            limit = f" If no team has won after {max_turns} turns (clues and guesses), all get 0."
        self.instructions = (
            "Codenames is a word game for two teams. player_0 is the spymaster and player_1 the "
            "guesser of the red team. player_2 is the spymaster and player_3 the guesser of the "
            "blue team. Your team wins when all its words are uncovered.\n"
            "\n"
            "Rules:\n"
            "- Of 25 words, 9 are red, 8 are blue, 7 are neutral and 1 is the assassin. Only the "
            "spymasters see which word is which.\n"
            "- The teams take turns. Red begins.\n"
            "- First, the spymaster gives a clue: one word and a number n. The clue points to n "
            "covered words of the team.\n"
            "- Then the guesser uncovers words one at a time, at most n+1. A word that does not "
            "belong to the team ends its turn. A word counts for its own team, whichever team "
            "uncovers it.\n"
            "- A team that uncovers the assassin loses.\n"
            "\n"
            "Actions:\n"
            f"- Spymaster: [word n], for example [animal 2], with n from 1 to {number}. The word "
            "must consist of letters only. It must not be a covered word, be part of one or "
            "contain one.\n"
            "- Guesser: [word], for example [apple], to uncover a word, or [pass] to end the turn."
            "\n\n"
            "Score: at the end, 1 for both players of the winning team and -1 for the others."
            f"{limit}\n"
            "\n"
            + (
                "The word of a clue must be one of"
                if clues == "menu"
                else "Scripted players understand"
            )
            + f" these topics: {', '.join(topics())}."
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
        seen = listed[me % 2 == 0]  # also at the end: a guesser could use the kinds once more
        lines = [f"You are {agent}, the {role} of {team}. {self._asks(agent)}", seen]
        total = FIRST - me // 2
        return TimeStep(
            text="\n".join([*lines, *state.log]),
            success=won,
            progress=1.0 if won else 1 - left[me // 2] / total,
            admissible=self._options(me) if agent in self.acting else (),
        )

    def _frame(self, agent: str | None) -> Scene:
        state = self.state
        knows = agent is None or self.possible_agents.index(agent) % 2 == 0  # a spymaster
        cells = []
        for word, kind in state.key.items():
            over = word in state.shown
            ground = PAINT[kind] if over else PAPER
            color = PAINT[kind] if knows and not over else INK
            cells.append(Cell(ground, color=color, label="" if over else word))
        side = math.isqrt(len(cells) - 1) + 1
        return Scene([cells[i : i + side] for i in range(0, len(cells), side)])

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

    def privileged_text(self, agent: str) -> str:
        """Returns the kinds of all covered words, the turn, and the clues with words to find."""
        state = self.state
        listed = summary(tuple(state.key.items()), frozenset(state.shown))[1][1]
        clues = [
            f"{TEAMS[clue.team]} {clue.word} {clue.count} (found {clue.found})"
            for clue in state.clues
            if clue.found < clue.count
        ]
        turn = ", ".join(self.acting) or "nobody"
        return (
            f"You are {agent}. Turn: {turn}. Guesses left: {state.guesses}. "
            f"Clues: {', '.join(clues) or 'none'}. {' '.join(listed.splitlines())}"
        )

    def _options(self, me: int) -> tuple[str, ...]:
        words = covered(self.state)
        if me % 2:
            return (*(f"[{word}]" for word in words), PASS)
        if self.clues == "free":
            return ()
        return menu(barred(words))

    def _parse(self, agent: str, action: str) -> str:
        action = plain(undressed(action[:200]))
        if self.state.guesses > 0 or self.clues == "menu":
            return super()._parse(agent, action if action.startswith("[") else f"[{action}]")
        match = CLUE.fullmatch(action)
        if match is None:
            raise InvalidMove(
                f"{action[:40]!r} is not a clue. Give one word of letters and a number from 1 to "
                "9, for example [animal 2]."
            )
        if not allowed(match[1], covered(self.state)):
            raise InvalidMove(
                f"{match[1]!r} is a covered word, part of one, or contains one. Give another clue."
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
        """Returns the kinds of the covered words from the view of the acting spymaster."""
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
