"""EinsteinPuzzle: a zebra puzzle whose clues are split among players."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

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
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

MAX_MESSAGE = 100
QUIET = "I have nothing to add."
MOST_WORLDS = 2_000_000


@dataclass
class State:
    """The puzzle, the messages and the answers.

    Attributes:
        hands: the clues of each player.
        about: attribute and value of the question.
        answer: index of the right person.
        said: the messages of all players, by round.
        answers: the answers of all players.
    """

    hands: list[list[str]]
    about: tuple[int, int]
    answer: int
    said: list[list[str]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


class EinsteinPuzzle(TextGame):
    """Players solve a zebra puzzle together, each with a part of the clues.

    ## Description
    Each house in a row has a person, a pet and a drink (and optionally a colour). All clues
    together have exactly one solution and none is redundant. They are split among two or three
    players, and no player can answer the question alone. For some rounds, all players send a
    message at the same time. Then each player names the person asked for.

    ## Action Space
    Text:

    - While talking: any message, put on one line and cut after 100 characters. With
      `speech="menu"`: one of the player's clues, or `I have nothing to add.`.
    - At the end: a name, such as `Anna`.

    There is no discrete mode.

    ## Observation Space
    Text: the player's clues, the question, and all messages. At the end, the player's answer and
    the number of right answers.

    ## Rewards
    - `task`: at the end, all players get the share of players with the right answer.
    - `invalid`: minus `invalid_penalty` for an agent's own invalid action.

    ## Starting State
    No messages. The task, `train/N` or `test/N`, determines the puzzle, the question and the split.

    ## Episode End
    Termination: all players have answered. Truncation: after `max_turns` turns. After `max_invalid`
    invalid actions in a row, a random action is taken.

    ## Information
    The common keys.

    - `success`: whether all answers are right.
    - `progress`: 1 - log(n) / log(N) if n of N worlds are consistent with the player's clues and
      the clues quoted by others. At the end 1 if the player's answer is right, else 0.

    ## Arguments
    - `houses` (int, default 4): number of houses, from 3 to 5.
    - `attributes` (int, default 3): number of attributes, from 2 to 4 (people, pets, drinks,
      colours). (houses!) ** attributes must be at most two million.
    - `num_players` (int, default 2): 2 or 3.
    - `rounds` (int, default 3): rounds of talk.
    - `speech` ("free" or "menu", default "free"): any message, or a clue from a menu.
    - `max_turns` (int or None, default None): turns before truncation.
    - `seat` (single seat only): the seat of the agent.
    - `opponents` (single seat only, default "expert"): the players of the other seats.
      - "random": silent (with a menu, any choice) and answers with a random name.
      - "sharer": quotes its clues in order, one per round.
      - "expert": quotes the clue that makes the answer most certain given all quoted clues.

      The last two enumerate all worlds and answer with the most likely person.

    ## Notes
    The expert shares one clue per round and does not plan ahead, so its return is not an upper
    bound. More rounds make the game easier.

    The environment is slow because it enumerates all worlds for every player in every turn.

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
    common_reward = True
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
                f"{houses} houses with {attributes} attributes have too many worlds to enumerate. "
                "Use fewer houses or attributes."
            )
        if speech not in ("free", "menu"):
            raise ConfigError(f"speech must be 'free' or 'menu', got {speech!r}.")
        super().__init__(**kwargs)
        self.size = (houses, attributes)
        self.rounds = rounds
        self.speech = speech
        self.names = PEOPLE[:houses]
        listed = "".join(
            f"- Each person has a different one of these descriptions: {', '.join(v[:houses])}.\n"
            for v in VALUES[1:attributes]
        )
        talk = (
            f"one of your clues, word for word, or: {QUIET}"
            if speech == "menu"
            else f"any text of at most {MAX_MESSAGE} characters. The rest is cut. Scripted players "
            "only understand clues that you quote word for word."
        )
        self.instructions = (
            f"{len(self.possible_agents)} players solve a logic puzzle together. All players have "
            "to answer the same question.\n"
            "\n"
            "Rules:\n"
            f"- {houses} houses stand in a row, numbered from 1 on the left. In each house lives "
            f"one of: {', '.join(self.names)}.\n"
            f"{listed}"
            "- Every player has some of the clues. All clues together have exactly one solution.\n"
            f"- There {'is' if rounds == 1 else 'are'} {rounds} round{'s' * (rounds > 1)} of talk. "
            "In each round, all players send a message at the same time. All players read all "
            "messages.\n"
            "- Then each player answers the question.\n"
            "\n"
            "Actions:\n"
            f"- Message: {talk}\n"
            "- Answer: only a name, for example Anna.\n"
            "\n"
            "Score: all players get the share of right answers."
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
        """Returns a player's own and heard clues, or only its own if they contradict each other.

        Contradictions come from untruthful players.
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
                f"Round {number}, {name}: {text or '(no message)'}"
                for name, text in zip(self.possible_agents, texts, strict=True)
            ]
        right = [name == self.names[state.answer] for name in state.answers]
        if right:
            # Right answers of others would solve the puzzle for another attempt.
            lines.append(f"Your answer: {state.answers[me]}")
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

    def privileged_text(self, agent: str) -> str:
        """Returns the question, the right answer, and all clues with a mark on the quoted ones."""
        state, public = self.state, set(self._public())
        a, v = state.about
        hands = [
            f"{name}: {' '.join(clue + ' (quoted)' * (clue in public) for clue in hand)}"
            for name, hand in zip(self.possible_agents, state.hands, strict=True)
        ]
        return (
            f"You are {agent}. Question: {VALUES[a][v]}. Right answer: {self.names[state.answer]}. "
            f"Answers: {', '.join(state.answers) or 'none'}. "
            f"Rounds of talk left: {self.rounds - len(state.said)}. Clues of {' '.join(hands)}"
        )

    def _asks(self) -> str:
        if self.state.answers:
            right = self.state.answers.count(self.names[self.state.answer])
            return f"The game is over. Right answers: {right} of {len(self.state.answers)}."
        if self._talking():
            number = len(self.state.said) + 1
            return f"Round {number} of {self.rounds}: send a message to the other players."
        return "Answer the question with a name."

    def _parse(self, agent: str, action: str) -> str:
        if self._talking() and self.speech == "free":
            return clip(action, MAX_MESSAGE)
        return super()._parse(agent, action)

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
        """Returns the confidence in the answer and minus the number of worlds left."""
        chances = odds(self.size, known, self.state.about)
        return max(chances, default=0.0), -solve(self.size, known)


env, raw_env, parallel_env = make_pettingzoo(EinsteinPuzzle)
