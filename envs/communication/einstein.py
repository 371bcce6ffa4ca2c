"""EinsteinPuzzle: a zebra puzzle whose clues are split among players, who must share them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TimeStep
from agentgym.envs.communication.zebra import (
    PEOPLE,
    VALUES,
    count_worlds,
    heard,
    make_puzzle,
    odds,
    solve,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.messages import clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks

MAX_MESSAGE = 100
QUIET = "I have nothing to add."
MOST_WORLDS = 2_000_000


@dataclass
class State:
    """The puzzle, what was said, and the answers.

    Attributes:
        hands: the clues of each player.
        about: attribute and value of the person who is asked for.
        answer: the right person.
        said: what the players said, by round.
        answers: who the players say it is, in their order.
    """

    hands: list[list[str]]
    about: tuple[int, int]
    answer: int
    said: list[list[str]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


class EinsteinPuzzle(TextGame):
    """Solve a zebra puzzle together: each player has some of the clues.

    ## Description
    A row of houses; each has a person, a pet and a drink of its own (and, if wanted, a colour).
    The clues have one solution together, and none can be spared, but they are split among two or
    three players, and nobody can answer the question alone. For some rounds all players speak,
    at the same time; then each says who it is that is asked for.

    ## Action Space
    Text. In talk: anything (put on one line, cut after 100 characters); with `speech="menu"` one of
    one's clues, or `I have nothing to add.`. At the end: a name, `Anna`. There is no discrete mode.

    ## Observation Space
    Text: one's clues, the question, all that was said.

    ## Rewards
    Term `task`, to all, at the end: the share of players whose answer is right. An invalid action
    costs `invalid_penalty`, the one who took it.

    ## Starting State
    Nothing was said. The task, `train/N` or `test/N`, makes puzzle, question and hands.

    ## Episode End
    Termination: all have answered. Truncation: after `max_turns` turns. After `max_invalid` invalid
    actions in a row a random name is said.

    ## Information
    The common keys; `success`: all answers are right; `progress`: 1 - log(n) / log(N) for n worlds
    of N that are possible by one's clues and those that others stated word by word; at the end 1
    if one's answer is right, else 0.

    ## Arguments
    `houses`: 3 to 5, default 4. `attributes`: 2 to 4, default 3 (people, pets, drinks, colours). At
    most two million worlds, (houses!) ** attributes, so that all can be tried. `num_players`: 2 or
    3. `rounds`: of talk, default 3. `speech`: "free" (default) or "menu". `max_turns`: default
    None. As a single seat: `seat` and `opponents` (the others): "random" (silent; any name; with a
    menu any choice), "sharer" (states its clues in their order, one a round) or "expert" (the
    default: states the clue that makes the answer surest for who knows what was said). The
    last two try all worlds, and say who is most likely.

    ## Example Transcript
    ```
    You are player_0. Talk, round 1 of 3: say something to the others.
    Question: who is the owner of the parrot?
    Your clues:
    Ben lives next to the owner of the cat.
    The one who drinks juice is David.
    > The one who drinks juice is David.
    ```

    ## Baselines
    A single seat with "expert" partners, 200 test episodes, mean return (success): random 0.29
    (8 %), with the menu 0.38 (14 %), of three 0.37 (5 %); expert 0.69 (50 %), of three 0.71 (54 %).
    The expert shares one clue a round, choosing without looking ahead: it is no upper bound. All
    alike, 200 games, return by `rounds`:

    | two players | 2 | 3 | 4 |
    |---|---|---|---|
    | random | 0.28 | 0.28 | 0.28 |
    | sharer | 0.46 | 0.61 | 0.90 |
    | expert | 0.60 | 0.72 | 0.92 |

    1,900 to 2,600 steps/s: a game of four turns needs a puzzle, and a turn goes through 13,824
    worlds for each player.

    ## Registered Configurations
    `EinsteinPuzzle-v0`: two players, free speech. `EinsteinPuzzle-Menu-v0`: clues from a menu.
    `EinsteinPuzzle-Three-v0`: three players, two rounds.

    ## References
    The zebra puzzle, Life International (17 December 1962). Puzzles, clues and their split are our
    own.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(2, 4)
    State = State
    state: State
    levels = ("random", "sharer", "expert")
    expert_level = "expert"
    default_opponents = "expert"

    def __init__(
        self,
        *,
        houses: int = 4,
        attributes: int = 3,
        rounds: int = 3,
        speech: str = "free",
        **kwargs,
    ):
        for name, number, low, high in (
            ("houses", houses, 3, len(PEOPLE)),
            ("attributes", attributes, 2, len(VALUES)),
            ("rounds", rounds, 1, 100),
        ):
            if not low <= number <= high:
                raise ConfigError(f"{name} must be from {low} to {high}, got {number}.")
        if count_worlds((houses, attributes)) > MOST_WORLDS:
            raise ConfigError(
                f"{houses} houses with {attributes} attributes are too many worlds to try: take "
                "fewer houses or attributes."
            )
        if speech not in ("free", "menu"):
            raise ConfigError(f"speech must be 'free' or 'menu', got {speech!r}.")
        super().__init__(**kwargs)
        self.size = (houses, attributes)
        self.rounds = rounds
        self.speech = speech
        self.names = PEOPLE[:houses]
        listed = "; and one of: ".join(", ".join(v[:houses]) for v in VALUES[1:attributes])
        talk = (
            f"When asked to talk, state one of your clues, word by word, or say: {QUIET}"
            if speech == "menu"
            else f"When asked to talk, write what all shall hear, {MAX_MESSAGE} characters at most "
            "(more is cut). Scripted players understand clues only word by word."
        )
        self.instructions = (
            f"{len(self.possible_agents)} players solve a puzzle together. {houses} houses stand "
            "in a row, numbered from left to right. In each lives one of: "
            f"{', '.join(self.names)}. Each of them is one of: {listed}. Every player has some of "
            f"the clues; all clues together have exactly one solution. {rounds} times all players "
            "speak, at the same time; what is said is heard by all. Then each player says the name "
            "of the person asked for; the more names are right, the better for all. "
            f"{talk} At the end say only a name."
        )

    def _start(self, task: str) -> None:
        puzzle = make_puzzle(task, self.size, len(self.possible_agents))
        self.state = State([list(hand) for hand in puzzle.hands], puzzle.about, puzzle.answer)

    def _talking(self) -> bool:
        return len(self.state.said) < self.rounds

    def _acting(self) -> tuple[str, ...]:
        return () if self.state.answers else self.possible_agents

    def _public(self) -> list[str]:
        """Returns the clues stated so far."""
        texts = (text for texts in self.state.said for text in texts)
        return [clue for text in texts for clue in heard(self.size, text)]

    def _known(self, me: int) -> frozenset[str]:
        """Returns the clues a player has or has heard; its own, should they contradict each other.

        Contradictions come from players who do not tell the truth.
        """
        own = frozenset(self.state.hands[me])
        known = own | frozenset(self._public())
        return known if solve(self.size, known) else own

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        a, v = state.about
        lines = [f"You are {agent}. {self._asks()}", f"Question: who is {VALUES[a][v]}?"]
        lines += ["Your clues:", *state.hands[me]]
        for number, texts in enumerate(state.said, 1):
            lines += [
                f"Round {number}, {name}: {text or '(says nothing)'}"
                for name, text in zip(self.possible_agents, texts, strict=True)
            ]
        right = [name == self.names[state.answer] for name in state.answers]
        if right:
            said = zip(self.possible_agents, state.answers, strict=True)
            lines += [f"Answer of {name}: {answer}" for name, answer in said]
            progress = float(right[me])
        else:
            left = solve(self.size, self._known(me))
            progress = 1 - float(np.log(left) / np.log(count_worlds(self.size)))
        menu = (*state.hands[me], QUIET) if self.speech == "menu" else ()
        return TimeStep(
            text="\n".join(lines),
            success=bool(right) and all(right),
            progress=progress,
            admissible=menu if self._talking() else self.names,
        )

    def _asks(self) -> str:
        if self.state.answers:
            return f"The game is over. It was {self.names[self.state.answer]}."
        if self._talking():
            number = len(self.state.said) + 1
            return f"Talk, round {number} of {self.rounds}: say something to the others."
        return "Answer the question with a name."

    def _read(self, agent: str, said: str) -> str:
        if self._talking() and self.speech == "free":
            return clip(said, MAX_MESSAGE)
        return super()._read(agent, said)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        said = [moves[agent] for agent in self.possible_agents]
        if self._talking():
            state.said.append(said)
            return {}
        state.answers = said
        share = said.count(self.names[state.answer]) / len(said)
        return {agent: {"task": share} for agent in self.possible_agents}

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state, me = self.state, self.possible_agents.index(agent)
        if not self._talking():
            chances = odds(self.size, self._known(me), state.about)
            best = [i for i, chance in enumerate(chances) if chance == max(chances)]
            return self.names[best[int(rng.integers(len(best)))]]
        public = frozenset(self._public())
        if not solve(self.size, public):
            public = frozenset()
        fresh = [clue for clue in state.hands[me] if clue not in public]
        if not fresh:
            return QUIET
        if level == "sharer":
            return fresh[0]
        return max(fresh, key=lambda clue: self._worth(public | {clue}))

    def _worth(self, known: frozenset[str]) -> tuple[float, int]:
        """Returns how sure clues make the answer, then how few worlds they leave (negative)."""
        chances = odds(self.size, known, self.state.about)
        return max(chances, default=0.0), -solve(self.size, known)


env, raw_env, parallel_env = make_pettingzoo(EinsteinPuzzle)
