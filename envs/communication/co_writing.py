"""CoWriting: players write a text together whose constraints are checked by rules."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from agentgym.envs.communication.associations import vocabulary
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

MAX_SENTENCE = 200
LENGTHS = range(6, 21)
"""Possible numbers of words of a sentence."""
LINK = 5
"""Least number of letters of a word that links two sentences."""
COMMON = ("and", "but", "then", "there", "when", "with", "from", "they")
"""Words of which some are forbidden."""
WORD = re.compile(r"[a-z]+")
OPENINGS = ("Somebody noticed", "Our story describes")
MOST_LISTED = 6
"""Maximum number of keywords in a sentence of a scripted player."""


@dataclass
class State:
    """The constraints and the text.

    Attributes:
        keywords: words that the text must contain exactly once.
        forbidden: words that it must not contain.
        rounds: the sentences of all players by round.
    """

    keywords: list[str]
    forbidden: list[str]
    rounds: list[list[str]] = field(default_factory=list)


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case."""
    return WORD.findall(text.lower())


def links(sentence: str, before: str, keywords: list[str]) -> bool:
    """Returns whether two sentences share a word of at least five letters, not a keyword."""
    shared = {*words(sentence)} & {*words(before)}
    return any(len(word) >= LINK and word not in keywords for word in shared)


def checks(state: State) -> dict[str, bool]:
    """Returns all constraints of the text so far and whether they are fulfilled.

    A sentence must be linked with the sentence of the previous player in the previous round.
    """
    counts = Counter(word for said in state.rounds for text in said for word in words(text))
    found = {f"{word!r} is used exactly once": counts[word] == 1 for word in state.keywords}
    for number, said in enumerate(state.rounds):
        for i, text in enumerate(said):
            name = f"round {number + 1}, player_{i}"
            found[f"{name}: {LENGTHS[0]} to {LENGTHS[-1]} words"] = len(words(text)) in LENGTHS
            found[f"{name}: no forbidden word"] = not {*words(text)} & {*state.forbidden}
            if number:
                before = state.rounds[number - 1][i - 1]
                found[f"{name}: linked"] = links(text, before, state.keywords)
    return found


def compose(opening: str, nouns: list[str], link: str = "village") -> str:
    """Returns a sentence of 9 to 20 words with the first six nouns and a word as a link."""
    listed = ", ".join(f"the {noun}" for noun in nouns[:MOST_LISTED])
    return f"{opening} {listed or 'nothing new'} beside that {link} again today."


TEMPLATE = {word for opening in OPENINGS for word in words(compose(opening, []))}
"""The words of the scripted players, which are no keywords."""


class CoWriting(TextGame):
    """Players write a text together, at the same time, under constraints.

    ## Description
    In each round every player writes one sentence, at the same time. All players see the keywords,
    and the text must contain each exactly once, so the players have to divide them. Sentences have
    a minimum and a maximum length, must not contain forbidden words, and must be linked: a sentence
    shares a word of at least five letters that is not a keyword with the last sentence of the
    previous player. All constraints are checked by rules.

    ## Action Space
    Text: a sentence, put on one line and cut after 200 characters.

    ## Observation Space
    Text: the request, the keywords with the number of their uses, the forbidden words and the text.

    ## Rewards
    - `task`: at the end, the share of fulfilled constraints, for all players.
    - `invalid`: minus `invalid_penalty` for an agent's own invalid action.

    ## Starting State
    No text. The task, `train/N` or `test/N`, determines the keywords and the forbidden words.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns` turns.

    ## Information
    The common keys.

    - `success`: whether all constraints are fulfilled at the end.
    - `progress`: the share of keywords used exactly once. At the end, the share of fulfilled
      constraints.

    ## Arguments
    - `num_players` (int, default 2): from 2 to 4.
    - `keywords` (int, default 8): number of keywords, from 1 to 16.
    - `forbidden` (int, default 3): number of forbidden words, from 0 to 8.
    - `rounds` (int, default 2): number of rounds, from 1 to 10.
    - `max_turns` (int or None, default None): turns before truncation.
    - `seat` (single seat only): the seat of the agent.
    - `opponents` (single seat only, default "divide"): the other players.
      - "random": random keywords.
      - "greedy": the first six keywords that are not used yet.
      - "divide": every player uses its share of the keywords, by the order of the players, and
        links its sentences.

    ## Notes
    The scripted players write from a template. "divide" follows a convention that a partner has to
    find out. A partner that uses the same keywords costs both uses.

    ## References
    Liu et al., LLM Collaboration with Multi-Agent Reinforcement Learning (arXiv 2508.04867): two
    models write parts of a text at the same time, with rewards for length, style and links. The
    constraints are our own.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(2, 5)
    State = State
    state: State
    common_reward = True
    levels = ("random", "greedy", "divide")
    expert_level = "divide"
    default_opponents = "divide"

    def __init__(self, *, keywords: int = 8, forbidden: int = 3, rounds: int = 2, **kwargs):
        for name, number, low, high in (
            ("keywords", keywords, 1, 16),
            ("forbidden", forbidden, 0, len(COMMON)),
            ("rounds", rounds, 1, 10),
        ):
            if not low <= number <= high:
                raise ConfigError(f"{name} must be from {low} to {high}, got {number}.")
        super().__init__(**kwargs)
        self.keywords, self.forbidden, self.rounds = keywords, forbidden, rounds
        count = len(self.possible_agents)
        self.instructions = (
            f"{count} players write a text together. In each of {rounds} "
            f"round{'s' * (rounds > 1)}, every player writes one sentence, all at the same time.\n"
            "\n"
            "Rules:\n"
            "- The whole text must contain each keyword exactly once, so divide the keywords.\n"
            f"- A sentence has {LENGTHS[0]} to {LENGTHS[-1]} words.\n"
            "- Forbidden words must not occur.\n"
            f"- From round 2 on, your sentence must share a word of at least {LINK} letters, not a "
            "keyword, with the last sentence of the player before you in the order of the names. "
            f"The player before player_0 is player_{count - 1}.\n"
            "\n"
            f"Action: only one sentence of at most {MAX_SENTENCE} characters\n"
            "\n"
            "Score: at the end, all players get the share of fulfilled rules. Each keyword counts "
            "as one rule, and each sentence as one rule for its length, one for its words and, "
            "from round 2 on, one for its link."
        )

    def _start(self, task: str) -> None:
        rng = task_rng(task, "co-writing")
        known = [word for word in vocabulary() if word not in TEMPLATE]
        chosen = [known[i] for i in rng.choice(len(known), self.keywords, replace=False)]
        refused = [COMMON[i] for i in rng.choice(len(COMMON), self.forbidden, replace=False)]
        self.state = State(chosen, sorted(refused))

    def _acting(self) -> tuple[str, ...]:
        return self.possible_agents if len(self.state.rounds) < self.rounds else ()

    def _uses(self) -> Counter[str]:
        """Returns the number of uses of all words."""
        return Counter(w for said in self.state.rounds for text in said for w in words(text))

    def _look(self, agent: str) -> TimeStep:
        state, uses = self.state, self._uses()
        played, over = len(state.rounds), not self._acting()
        found = checks(state)
        asks = f"Round {played + 1} of {self.rounds}: write a sentence."
        listed = ", ".join(f"{word} ({uses[word]})" for word in state.keywords)
        lines = [
            f"You are {agent}. {'The text is complete.' if over else asks}",
            f"Keywords, with their number of uses: {listed}.",
            f"Forbidden words: {', '.join(state.forbidden) or 'none'}.",
        ]
        for number, said in enumerate(state.rounds, 1):
            for name, text in zip(self.possible_agents, said, strict=True):
                lines.append(f"Round {number}, {name}: {text or '(nothing)'}")
        if over:
            broken = [rule for rule, holds in found.items() if not holds]
            lines += [f"Broken rule: {rule}." for rule in broken] or ["All rules are fulfilled."]
        used = [uses[word] == 1 for word in state.keywords]
        return TimeStep(
            text="\n".join(lines),
            success=over and all(found.values()),
            progress=float(np.mean(list(found.values()) if over else used)),
        )

    def _parse(self, agent: str, action: str) -> str:
        return clip(action, MAX_SENTENCE)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        self.state.rounds.append([moves[agent] for agent in self.possible_agents])
        if self._acting():
            return {}
        share = float(np.mean(list(checks(self.state).values())))
        return self._pay([share] * len(self.possible_agents))

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        some = rng.choice(self.state.keywords, min(4, self.keywords), replace=False)
        return compose(OPENINGS[int(rng.integers(2))], some.tolist())

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state, me = self.state, self.possible_agents.index(agent)
        uses, played = self._uses(), len(state.rounds)
        free = [word for word in state.keywords if not uses[word]]
        if level == "greedy":
            return compose(OPENINGS[0], free)
        mine = [word for word in state.keywords[me :: len(self.possible_agents)] if word in free]
        share = -(-len(mine) // (self.rounds - played))
        return compose(OPENINGS[0], mine[:share], self._link(me))

    def _link(self, me: int) -> str:
        """Returns a word that links the next sentence of a player."""
        state = self.state
        before = words(state.rounds[-1][me - 1]) if state.rounds else []
        barred = {*state.keywords, *state.forbidden}
        return next(
            (word for word in before if len(word) >= LINK and word not in barred), "village"
        )


env, raw_env, parallel_env = make_pettingzoo(CoWriting)
