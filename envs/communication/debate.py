"""Debate: two sides lay cards of evidence and argue; a judge decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TimeStep
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
from agentgym.multiagent.game import InvalidMove, Rewards, TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks
from agentgym.utils.action_parsing import match_action

Judge = Callable[[str], str]
"""transcript -> a text; the last "pro" or "con" in it is the verdict, without one it is a draw."""

MOVE = re.compile(r"(?:card )?(\d{1,2})\s*(?:[:,.]\s*(.*))?", re.DOTALL | re.IGNORECASE)
JUDGE_SYSTEM = (
    "You judge a debate. Read the cards of evidence, what they dispute, and the arguments. Say "
    "which side has made the better case: pro or con. Say only that word."
)


@dataclass
class State:
    """The cards on the table in order, what was said with each, and the verdict, once there is."""

    task: str
    table: list[int] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    verdict: str = ""


def make_judge(judge: str | Judge) -> Judge | None:
    """Returns the judge, or None for "rules".

    Raises:
        ConfigError: for another word than "rules" or "chat:MODEL@URL".
    """
    if callable(judge):
        return judge
    oracle = make_oracle(judge, JUDGE_SYSTEM, "judge")
    return oracle and (lambda transcript: oracle("", transcript))


def ruling(text: str) -> str:
    """Returns the verdict that a judge's text comes to."""
    found = re.findall(r"\b(pro|con)\b", text.casefold())
    return found[-1] if found else "draw"


class Debate(TextGame):
    """Two debaters lay cards of evidence for and against a motion; a judge decides who wins.

    ## Description
    player_0 speaks for the motion (pro), player_1 against it (con). Each has six cards of evidence
    of strength 1 to 4; a card may dispute cards of the other side. All cards are known to both. In
    each of three rounds both lay a card, with an argument in words if they like. Then the judge
    decides.

    The default judge goes by rules and does not read arguments. A card on the table stands if all
    cards on the table that dispute it fall; it falls if one that stands disputes it (the grounded
    extension of abstract argumentation). The side whose standing cards are stronger wins. So with
    this judge the game is one of choosing evidence, not of persuasion; for the latter, put in a
    judge that reads. The right verdict is that of the rules over all cards, played or not.

    ## Action Space
    Text. Debater: the number of a card of one's own that is not played, `3`, with an argument if
    wanted: `3: Residents are for it.` (on one line, cut after 280 characters). Judge, if it is an
    agent: `pro` or `con`. With `action_mode="discrete"`: the index of the bare action.

    ## Observation Space
    Text: the motion, the cards on the table with the arguments, and, for a debater, the cards not
    played yet. A judge sees only what is on the table.

    ## Rewards
    Term `task`, at the end: 1 for the debater that wins, -1 for the other, 0 in a draw: zero-sum.
    A judge that is an agent gets 1 for the right verdict, else -1. An invalid action costs
    `invalid_penalty`.

    ## Starting State
    No card is played. The task, `train/N` or `test/N`, makes the motion and the cards. By all cards
    one side is right.

    ## Episode End
    Termination: the verdict. Truncation: after `max_turns` turns. After `max_invalid` invalid
    actions in a row a random card is played or a random verdict given.

    ## Information
    The common keys; `success`: the debate is won, or judged rightly; `progress`: for a debater its
    share of the strength that stands on the table (0.5 if none does), at the end 1, 0.5 or 0 for a
    win, a draw, a loss; for a judge 1 if it was right.

    ## Arguments
    `rounds`: from 1 to the number of cards, default 3. `cards`: of each side, 2 to 8, default 6.
    `num_players`: 2, or 3: then player_2 is the judge. `judge`, with two players: "rules",
    "chat:MODEL@URL" for a language model behind an OpenAI-compatible server, or a function from the
    transcript to a text. `max_turns`: default None. As a single seat: `seat` and `opponents`:
    "random", "greedy" (the default with two players: lays what leads most at once; as a judge it
    adds up strengths) or "minimax" (the default with three: searches to the end, against the judge
    by rules, and says nothing; as a judge it goes by the rules).

    ## Example Transcript
    ```
    You are player_0, for the motion (pro). Round 1 of 3. Play one of your cards.
    Motion: The ferry should run on Sundays.
    On the table: nothing.
    Your cards:
    1 (pro, strength 3): a survey of residents; disputes 8, 11.
    ...
    > 1: Nine of ten residents want it.
    ```

    ## Baselines
    A single seat, 200 test episodes, mean return (success): `Debate-v0`, the other "greedy", random
    -0.56 (18 %), expert 0.42 (66 %); `Debate-Judge-v0`, the others "minimax", random -0.53 (24 %),
    expert 0.29 (65 %).
    300 games of equal debaters, and how often a judge that guesses in a draw is right by all cards:

    | debaters | pro, draw, con | judge by rules | judge that adds up |
    |---|---|---|---|
    | random | 39, 10, 51 % | 66 % | 54 % |
    | greedy | 31, 14, 55 % | 77 % | 55 % |
    | minimax | 44, 7, 49 % | 94 % | 61 % |

    So with debaters at their best the judge sees half of the cards and is nearly always right.

    `Debate-Judge-v0`: some 2,300 steps/s, as minimax thinks for the others.

    ## Registered Configurations
    `Debate-v0`: two debaters, judge by rules. `Debate-Judge-v0`: the judge is an agent, too.

    ## References
    Irving, Christiano and Amodei, AI Safety via Debate (arXiv 1805.00899): two debaters, a judge
    that sees only what they show. Dung, On the Acceptability of Arguments, Artificial Intelligence
    77 (1995). Motions and cards are our own.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(2, 4)
    State = State
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
        if self.judged:  # a judge that adds up is lost on who argues by the rules
            self.default_opponents = "minimax"  # type: ignore[misc]
        if self.judged and self.judge is not None:
            raise ConfigError("With three players player_2 is the judge: leave out judge.")
        self.order = tuple(turns(rounds))
        self.actions = tuple(str(i + 1) for i in range(2 * cards)) + SIDES * self.judged
        reads = (
            "player_2, the judge, who sees only what was laid and said,"
            if self.judged
            else "a judge, who goes by the rules and does not read arguments,"
            if self.judge is None
            else "a judge, who reads all that was laid and said,"
        )
        rules = (
            "By the rules a card on the table stands if all cards on the table that dispute it "
            "fall, and falls if one that stands disputes it; the side whose standing cards have "
            "the greater total strength is to win."
        )
        self.instructions = (
            "A debate. player_0 is for the motion (pro), player_1 against it (con). Each has "
            f"{cards} cards of evidence, known to both; a card has a strength from 1 to 4 and may "
            f"dispute cards of the other side. In each of {rounds} rounds both lay one card; who "
            f"begins changes every round. Then {reads} decides who wins. {rules} "
            "To play, say the number of a card of yours, and your argument, if you have one, after "
            f"a colon, in {MAX_MESSAGE} characters at most, such as 3: Residents are for it."
            + " The judge says only pro or con; right is the verdict by the rules over all cards, "
            "also those not played." * self.judged
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
        """Returns the motion and all that was laid and said."""
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
                lines.append("Your cards:" if side == me else "Cards of the other:")
                lines += [shown(case)[i] for i in playable(case, table, side)]
            mine = weights(case, table)
            progress = mine[me] / sum(mine) if sum(mine) else 0.5
            options = tuple(str(i + 1) for i in playable(case, table, me))
        else:
            progress, options = 0.0, SIDES
        if self.state.verdict:
            progress = 0.5 if self.state.verdict == "draw" and me < 2 else float(won)
        return TimeStep(text="\n".join(lines), success=won, progress=progress, admissible=options)

    def _asks(self, agent: str) -> str:
        state = self.state
        if state.verdict:
            right = self._right()
            return f"The verdict: {state.verdict}. By all cards it is: {right}."
        if len(state.table) == len(self.order):
            return "Who has won: pro or con?" if agent == "player_2" else "The judge decides."
        begins = f"Round {len(state.table) // 2 + 1} of {self.rounds}."
        return f"{begins} {'Play one of your cards.' if agent in self._acting() else 'Wait.'}"

    def _right(self) -> str:
        """Returns the verdict over all cards."""
        return verdict(make_case(self.state.task, self.cards), (1 << 2 * self.cards) - 1)

    def _read(self, agent: str, said: str) -> str:
        if agent == "player_2":
            return super()._read(agent, said)
        options = self.seen(agent).admissible
        match = MOVE.fullmatch(match_action(said, options) or said[: 10 * MAX_MESSAGE].strip())
        if match is None or str(int(match[1])) not in options:
            raise InvalidMove(
                f"{said[:40]!r} is no move. Say the number of a card of yours that is not played "
                f"({', '.join(options)}), with an argument after a colon if you like."
            )
        argument = clip(match[2] or "")
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
