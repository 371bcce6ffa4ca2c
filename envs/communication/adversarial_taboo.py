"""AdversarialTaboo: an attacker lures a defender into a word, which the defender tries to guess."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.envs.communication.taboo_players import attack, defend
from agentgym.envs.communication.taboo_talk import GUESS, GUESS_START, MOST, ROLES, guess, spoken
from agentgym.envs.communication.taboo_words import notes, says, words
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

ENDS = {
    "lured": "The defender has said the word. The attacker wins.",
    "slip": "The attacker has said the word. The defender wins.",
    "right": "The guess is right. The defender wins.",
    "wrong": "The guess is wrong. The attacker wins.",
    "tie": "All rounds are over. Nobody wins.",
}
GAINS = {"lured": 1.0, "slip": -1.0, "right": -1.0, "wrong": 1.0, "tie": 0.0}
"""The reward of the attacker for each end. That of the defender is the opposite."""


@dataclass
class State:
    """The target word, all messages from the attacker's first one on, and the end.

    `end` is a key of `ENDS`, or "" before the end. A message of the attacker with the word is not
    kept, so that the defender never reads it.
    """

    word: str
    said: list[str] = field(default_factory=list)
    end: str = ""


class AdversarialTaboo(TextGame):
    """An attacker talks a defender into uttering a hidden word, which the defender may guess.

    ## Description
    The game of SPAG. player_0, the attacker, knows a target word and must not say it. player_1, the
    defender, does not know it. They talk in turns, the attacker first:

    - The attacker wins if the defender utters the word without guessing it.
    - The defender wins if it guesses the word with the sentence `I know the word! It is ...!`. A
      wrong guess loses.
    - The attacker loses if it utters the word. It cannot guess: "I guess kite" utters it, too.
    - After the last round, nobody wins.

    Any form of the word counts: plurals, "-ing", "-ed", "'s" and other words with the same stem.
    Case, accents and marks do not matter. The parts of a hyphenated word count, each and together,
    and so do letters that are spelled out. A part of a longer word does not count: "carpet" does
    not say "car". A guess with hyphens is one word.

    ## Action Space
    Text: a message of at most 500 characters, which is put on one line. The name of the player
    before it ("Defender:") and marks around it are left out. Invalid are:

    - a message without words, with more characters, or with lines of the other player
    - a guess that names no word, or not clearly one, or that is in other words ("The word is ...",
      "I guess ...").

    ## Observation Space
    Text: the role, the round, the messages so far, and at the end who wins and why. The attacker
    also sees the word and, with `notes`, what is true of it. The defender never reads the word,
    unless it has uttered it.

    ## Rewards
    - `task`: at the end, 1 for the winner and -1 for the loser, or 0 for both. Zero-sum.
    - `invalid`: minus `invalid_penalty` for an invalid action.

    ## Starting State
    No message. The task is the word, one of 201. One word in five is a test task. `info["task"]`
    must be hidden from the defender.

    ## Episode End
    Termination: a player wins, or `rounds` are over. Truncation: after `max_turns` turns. After
    `max_invalid` invalid actions in a row, a random message is sent, which may be a guess.

    ## Information
    The common keys.

    - `success`: whether the agent has won.
    - `progress`: 1 after a win, 0 after a loss, else 0.5.

    ## Arguments
    - `rounds` (int, default 5): messages of each player.
    - `notes` (bool, default True): show the attacker up to eight facts about the word, for policies
      that know little of the world.
    - `max_turns` (int or None, default None): turns before truncation.
    - `seat` (single seat only): player_0 (attacker) or player_1 (defender).
    - `opponents` (single seat only, default "simple"): the player of the other seat.
      - "random": asks about two random facts. As a defender, names a random word, evades, or
        guesses.
      - "simple": asks about the word with two facts at a time. As a defender, names a word that
        fits the last question.
      - "sly": asks about another word first. If the defender then names anything, it asks about
        the word, else it leads to a wrong guess. As a defender, names a word that does not fit
        first, then evades, and guesses when one word is left. Questions that contradict each other
        make it forget the earlier ones.

    ## Notes
    Scripted players understand the facts of `TwentyQuestions-v0`, in free words. Of other messages
    they understand nothing, and evade.

    A defender that evades and never guesses does not lose. Between perfect players, nobody wins.

    ## References
    Cheng et al., Self-playing Adversarial Language Game Enhances LLM Reasoning (arXiv 2404.10642):
    the rules, the sentence of a guess, and five rounds. In the authors' code, a message with a
    longer word that contains the target counts, a guess counts if it begins with the word, and
    no one is rewarded if the attacker utters it. Their target words are a list of common words.
    Words and facts here are our own, and so are the notes.

    ## Version History
    v0: first version.
    """

    tasks = Tasks([word for i, word in enumerate(words()) if i % 5], list(words()[::5]))
    State = State
    state: State
    zero_sum = True
    levels = ("random", "simple", "sly")
    expert_level = "sly"
    default_opponents = "simple"

    def __init__(self, *, rounds: int = 5, notes: bool = True, **kwargs):
        if rounds < 1:
            raise ConfigError(f"rounds must be at least 1, got {rounds}.")
        super().__init__(**kwargs)
        self.rounds, self.notes = rounds, notes
        self.instructions = (
            "A word game for two players, who talk about anything they like. player_0, the "
            "attacker, knows a target word and wants player_1, the defender, to say it without "
            "noticing. The defender does not know the word.\n"
            "\n"
            "Rules:\n"
            "- The players speak in turns. The attacker begins. Each speaks "
            f"{rounds} time{'s' * (rounds > 1)}.\n"
            "- The attacker must not say the word, or it loses.\n"
            "- If the defender says the word, the attacker wins.\n"
            "- The defender may guess the word once. A right guess wins, a wrong one loses.\n"
            "- Plurals and other forms of the word count as the word.\n"
            "\n"
            "Actions:\n"
            f"- Both: a message of at most {MOST} characters, for example: What do you see in the "
            "sky?\n"
            f"- Defender, to guess: {GUESS.format('lamp')}\n"
            "\n"
            "Score: 1 for the winner and -1 for the loser. If nobody wins, both get 0."
        )

    def _start(self, task: str) -> None:
        self.state = State(task)

    def _acting(self) -> tuple[str, ...]:
        return () if self.state.end else (self.possible_agents[len(self.state.said) % 2],)

    def role(self, agent: str) -> str:
        """Returns "attacker" or "defender"."""
        return ROLES[self.possible_agents.index(agent)]

    def possible_roles(self, agent: str) -> tuple[str, ...]:
        """Returns the role of the seat, which is the same in all episodes."""
        return (self.role(agent),)

    def _look(self, agent: str) -> TimeStep:
        state, role = self.state, self.role(agent)
        gain = GAINS[state.end] * (1 if role == "attacker" else -1) if state.end else 0.0
        lines = [f"You are {agent}, the {role}. {self._asks()}"]
        if role == "attacker":
            lines.append(f"The word is: {state.word}")
            if self.notes:
                lines.append(f"Facts about it: {', '.join(notes(state.word))}.")
        for i, message in enumerate(state.said):
            lines.append(f"{ROLES[i % 2].capitalize()}: {message}")
        return TimeStep(text="\n".join(lines), success=gain > 0, progress=(1 + gain) / 2)

    def _asks(self) -> str:
        if self.state.end:
            return ENDS[self.state.end]
        return f"Round {len(self.state.said) // 2 + 1} of {self.rounds}."

    def privileged_text(self, agent: str) -> str:
        """Returns the word, the role and the number of messages left."""
        left = 2 * self.rounds - len(self.state.said)
        return f"You are the {self.role(agent)}. Word: {self.state.word}. Messages left: {left}."

    def _parse(self, agent: str, action: str) -> str:
        role = self.role(agent)
        text = spoken(action, role)
        word = guess(text) if role == "defender" else None
        return text if word is None else GUESS.format(word)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        ((agent, message),) = moves.items()
        if self.role(agent) == "attacker":
            if says(message, state.word):
                state.end = "slip"
            else:
                state.said.append(message)
        else:
            state.said.append(message)
            named = says(message, state.word)
            if message.startswith(GUESS_START):
                state.end = "right" if named else "wrong"
            elif named:
                state.end = "lured"
            elif len(state.said) == 2 * self.rounds:
                state.end = "tie"
        if not state.end:
            return {}
        return self._pay((GAINS[state.end], -GAINS[state.end]))

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        return self._script("random", agent, rng)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        if self.role(agent) == "attacker":
            return attack(level, self.state.word, self.state.said, rng)
        return defend(level, self.state.said, rng)


env, raw_env, parallel_env = make_pettingzoo(AdversarialTaboo)
