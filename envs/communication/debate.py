"""Debate: two sides play cards of evidence and argue, and a judge decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from agentgym.envs.communication.evidence import (
    SIDES,
    make_case,
    playable,
    shown,
    standing,
    turns,
    values,
    verdict,
    weights,
)
from agentgym.envs.lmrl.oracle import make_oracle
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.reading import find_clauses, normalized
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import bare, match_action
from agentgym.utils.marks import without_bold

Judge = Callable[[str], str]
"""Maps a transcript to a text. Its last "pro" or "con" is the verdict, otherwise a draw."""

MOVE = re.compile(
    r"(?:(?:i )?play )?(?:card )?#?(\d{1,2})\s*"
    r"(?::\s*(.*)|(?:[,.]|\s-(?=\s))(?!\s*(?:and |or )?\d)\s*(.*))?",
    re.DOTALL | re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n")
_SIDE = re.compile(r"\b(pro|con)\b")
MOST_READ = 5_000
"""Maximum number of characters of a judge's text that are read, from its end."""
JUDGE_SYSTEM = (
    "You judge a debate. Read the cards of evidence, the disputes between them and the arguments. "
    "Decide which side has made the better case. Answer with one word: pro or con."
)


@dataclass
class State:
    """The played cards in order, the argument of each, and the verdict (empty before the end)."""

    task: str
    table: list[int] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    verdict: str = ""


def make_judge(judge: str | Judge) -> Judge | None:
    """Returns the judge, or None for "rules".

    Raises:
        ConfigError: if a string is neither "rules" nor "chat:MODEL@URL".
    """
    if callable(judge):
        return judge
    oracle = make_oracle(judge, JUDGE_SYSTEM, "judge")
    return oracle and (lambda transcript: oracle("", transcript))


def ruling(text: str) -> str:
    """Returns the verdict in a judge's text, or "draw" if it names no side or not one clearly.

    Sides that are denied, compared or quoted ("not con", "unlike pro") do not count. Of several
    others, the last sentence that names one alone decides.
    """
    for sentence in reversed(_SENTENCE.split(text[-MOST_READ:].casefold())):
        named = set()
        for clause in find_clauses(sentence):
            stated = not (clause.negated or clause.replaced or clause.quoted or clause.question)
            named |= {*_SIDE.findall(clause.text)} if stated else set()
        if len(named) == 1:
            return named.pop()
    return "draw"


class Debate(TextGame):
    """Two debaters play cards of evidence for and against a motion, and a judge decides who wins.

    ## Description
    player_0 argues for the motion (pro), player_1 against it (con). Each has six cards of evidence
    of strength 1 to 4. A card may dispute cards of the other side. Both debaters see all cards. In
    each of three rounds both play a card, with an optional argument in words. Then the judge
    decides.

    The default judge applies rules and ignores arguments:

    - A card on the table stands if all cards on the table that dispute it fall.
    - A card falls if a standing card disputes it (the grounded extension of abstract
      argumentation).
    - The side whose standing cards have the greater total strength wins.

    The right verdict is that of these rules over all cards, played or not.

    ## Action Space
    Text:

    - Debater: the number of an own card that is not played yet, `3`, optionally with an argument,
      `3: Residents are for it.` Arguments are put on one line and cut after 280 characters.
    - Judge, if it is an agent: `pro` or `con`.

    With `action_mode="discrete"`: the index of the action, without an argument.

    ## Observation Space
    Text: the motion and the cards on the table with their arguments. Debaters also see the cards
    that are not played yet.

    ## Rewards
    - `task`: at the end, 1 for the winning debater, -1 for the loser, 0 for a draw (zero-sum). A
      judge that is an agent gets 1 for the right verdict, else -1.
    - `invalid`: minus `invalid_penalty` for an invalid action.

    ## Starting State
    No card is played. The task, `train/N` or `test/N`, determines the motion and the cards. The
    full set of cards is never a draw.

    ## Episode End
    Termination: the verdict. Truncation: after `max_turns` turns. After `max_invalid` invalid
    actions in a row, a random card is played or a random verdict is given.

    ## Information
    The common keys.

    - `success`: the debate is won, or the judge's verdict is right.
    - `progress`: for a debater, its share of the standing strength on the table (0.5 if no card
      stands), and at the end 1, 0.5 or 0 for a win, a draw or a loss. For a judge, 1 if the verdict
      is right.

    ## Arguments
    - `rounds` (int, default 3): number of rounds, from 1 to `cards`.
    - `cards` (int, default 6): cards per side, from 2 to 8.
    - `num_players` (int, default 2): 2, or 3 with player_2 as the judge.
    - `judge` (default "rules", two players only): "rules", "chat:MODEL@URL" for a language model
      behind an OpenAI-compatible server, or a function from the transcript to a text.
    - `max_turns` (int or None, default None): turns before truncation.
    - `seat` (single seat only): the seat of the agent.
    - `opponents` (single seat only, default "greedy" with two players, "minimax" with three): the
      players of the other seats.
      - "random": a random card or verdict.
      - "greedy": plays the card with the best immediate lead. As a judge, it adds up strengths.
      - "minimax": searches to the end, assuming the judge by rules, without arguments. As a judge,
        it applies the rules.

    ## Notes
    With the default judge, the game is one of choosing evidence, not of persuasion. Use a judge
    that reads the arguments to study persuasion.

    With minimax debaters, a judge that applies the rules is nearly always right, although it sees
    only half of the cards.

    ## References
    - Irving, Christiano and Amodei, AI Safety via Debate (arXiv 1805.00899): two debaters and a
      judge that sees only their evidence.
    - Dung, On the Acceptability of Arguments, Artificial Intelligence 77 (1995).

    Motions and cards are our own.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(2, 4)
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.floor_gap": "a judge chooses between two sides, and guesses half of them",
    }
    state: State
    levels = ("random", "greedy", "minimax")
    expert_level = "minimax"
    default_opponents = "greedy"

    def __init__(self, *, rounds: int = 3, cards: int = 6, judge: str | Judge = "rules", **kwargs):
        if not 2 <= cards <= 8:
            raise ConfigError(f"cards must be from 2 to 8, got {cards}.")
        if not 1 <= rounds <= cards:
            raise ConfigError(f"rounds must be from 1 to cards={cards}, got {rounds}.")
        super().__init__(**kwargs)
        self.rounds, self.cards = rounds, cards
        self.judge = make_judge(judge)
        self.judged = len(self.possible_agents) == 3
        self.zero_sum = not self.judged  # type: ignore[misc]  # fixed by the argument
        if self.judged:  # greedy judges add up strengths
            self.default_opponents = "minimax"  # type: ignore[misc]
        if self.judged and self.judge is not None:
            raise ConfigError("With three players player_2 is the judge: leave out judge.")
        self.order = tuple(turns(rounds))
        self.actions = tuple(str(i + 1) for i in range(2 * cards)) + SIDES * self.judged
        reads = (
            "player_2 is the judge and decides who wins. The judge sees only the cards and "
            "arguments on the table."
            if self.judged
            else "The judge decides by the rules below and ignores arguments."
            if self.judge is None
            else "The judge reads all cards and arguments on the table and decides who wins."
        )
        by_rules = self.judge is None and not self.judged
        wins = "wins. Equal totals are a draw." if by_rules else "should win."
        right = (
            " The judge gets 1 for the right verdict and -1 for a wrong one. The right verdict is "
            "the one that the rules give for all cards, including those not played."
        )
        self.instructions = (
            "Two players debate a motion. player_0 argues for the motion (pro), player_1 against "
            f"it (con). {reads}\n"
            "\n"
            "Rules:\n"
            f"- Each debater has {cards} cards of evidence. Both debaters see all cards.\n"
            "- A card has a strength from 1 to 4 and may dispute cards of the other side.\n"
            f"- There are {rounds} rounds. In each round, both debaters play one card. The side "
            "that begins changes every round.\n"
            "- A card on the table stands if all cards on the table that dispute it fall. It falls "
            "if a standing card disputes it.\n"
            "- The side whose standing cards have the greater total strength "
            f"{wins}\n"
            "\n"
            "Actions:\n"
            "- Debater: the number of one of your unplayed cards, for example 3. You can add an "
            f"argument of at most {MAX_MESSAGE} characters after a colon, for example 3: Residents "
            "are for it.\n"
            + "- Judge: pro or con.\n" * self.judged
            + "\nScore: at the end, 1 for the debater that wins and -1 for the other."
            + (right if self.judged else " A draw gives both 0.")
        )

    def _start(self, task: str) -> None:
        self.state = State(task)

    def _table(self) -> int:
        return sum(1 << card for card in self.state.table)

    def _acting(self) -> tuple[str, ...]:
        state = self.state
        if state.verdict:
            return ()
        done = len(state.table)
        return (self.possible_agents[self.order[done] if done < len(self.order) else 2],)

    def _transcript(self) -> str:
        """Returns the motion and the played cards with their arguments."""
        case = make_case(self.state.task, self.cards)
        lines = [f"Motion: {case.motion}"]
        lines.append("On the table:" + " nothing." * (not self.state.table))
        for card, argument in zip(self.state.table, self.state.arguments, strict=True):
            lines.append(shown(case)[card])
            if argument:
                lines.append(f"  {SIDES[card >= self.cards]} says: {argument}")
        return "\n".join(lines)

    def _look(self, agent: str) -> TimeStep:
        case = make_case(self.state.task, self.cards)
        me, table = self.possible_agents.index(agent), self._table()
        won = self.state.verdict == (SIDES[me] if me < 2 else self._right())
        role = ("for the motion (pro)", "against the motion (con)", "the judge")[me]
        lines = [f"You are {agent}, {role}. {self._asks(agent)}", self._transcript()]
        if me < 2:
            for side in (me, 1 - me):
                lines.append("Your cards:" if side == me else "Cards of your opponent:")
                lines += [shown(case)[i] for i in playable(case, table, side)]
            mine = weights(case, table)
            progress = mine[me] / sum(mine) if sum(mine) else 0.5
            options = self._options(agent)
        else:
            progress, options = 0.0, SIDES
        if self.state.verdict:
            progress = 0.5 if self.state.verdict == "draw" and me < 2 else float(won)
        return TimeStep(text="\n".join(lines), success=won, progress=progress, admissible=options)

    def _options(self, agent: str) -> tuple[str, ...]:
        """Returns the numbers of a debater's unplayed cards."""
        case = make_case(self.state.task, self.cards)
        side = self.possible_agents.index(agent)
        return tuple([str(i + 1) for i in playable(case, self._table(), side)])

    def _asks(self, agent: str) -> str:
        state = self.state
        if state.verdict:
            right = "right" if state.verdict == self._right() else "wrong"
            return f"The verdict is {state.verdict}. By all cards, it is {right}."
        if len(state.table) == len(self.order):
            return (
                "Which side has won, pro or con?" if agent == "player_2" else "The judge decides."
            )
        begins = f"Round {len(state.table) // 2 + 1} of {self.rounds}."
        return f"{begins} {'Play one of your cards.' if agent in self._acting() else 'Wait.'}"

    def _right(self) -> str:
        """Returns the verdict over all cards, played or not."""
        return verdict(make_case(self.state.task, self.cards), (1 << 2 * self.cards) - 1)

    def _parse(self, agent: str, action: str) -> str:
        if agent == "player_2":
            return super()._parse(agent, action)
        options = self._options(agent)
        match = MOVE.fullmatch(without_bold(normalized(bare(action[: 10 * MAX_MESSAGE]))))
        match = match or MOVE.fullmatch(match_action(action, options) or "")
        if match is None or str(int(match[1])) not in options:
            raise InvalidMove(
                f"{action[:40]!r} is not a valid move. Give the number of one of your unplayed "
                f"cards ({', '.join(options)}), optionally followed by a colon and an argument."
            )
        argument = clip(match[2] or match[3] or "")
        return f"{int(match[1])}: {argument}"

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        ((agent, move),) = moves.items()
        if agent == "player_2":
            state.verdict = move
        else:
            number, _, argument = move.partition(":")
            state.table.append(int(number) - 1)
            state.arguments.append(argument.strip())
            if len(state.table) < len(self.order) or self.judged:
                return {}
            if self.judge is None:
                state.verdict = verdict(make_case(state.task, self.cards), self._table())
            else:
                state.verdict = ruling(self.judge(self._transcript()))
        gains = {"pro": (1.0, -1.0), "con": (-1.0, 1.0), "draw": (0.0, 0.0)}[state.verdict]
        judged = (1.0 if state.verdict == self._right() else -1.0,)
        return self._pay(gains + judged * self.judged)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        case, table = make_case(self.state.task, self.cards), self._table()
        if agent == "player_2":
            stands = standing(case, table) if level == "minimax" else table
            totals = [0, 0]
            for card in self.state.table:
                totals[card >= case.hand] += case.strengths[card] * (stands >> card & 1)
            if totals[0] == totals[1]:
                return SIDES[int(rng.integers(2))]
            return SIDES[totals[1] > totals[0]]
        side = SIDES.index("pro") if agent == "player_0" else SIDES.index("con")
        gains = {}
        for card in playable(case, table, side):
            after = table | 1 << card
            if level == "minimax":
                gain = int(values(case, self.order)[after])
            else:
                pro, con = weights(case, after)
                gain = pro - con
            gains[card] = -gain if side else gain
        best = [card for card, gain in gains.items() if gain == max(gains.values())]
        return str(best[int(rng.integers(len(best)))] + 1)


env, raw_env, parallel_env = make_pettingzoo(Debate)
