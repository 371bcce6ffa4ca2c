"""TrustAndSplit: who trusts whom with what, and how a sum is split between two."""

from __future__ import annotations

import numpy as np

from agentgym.core import TimeStep
from agentgym.envs.social.trust import (
    ENDOWMENT,
    FACTOR,
    FAIR,
    GAMES,
    Round,
    State,
    best_plan,
    earnings,
    lead,
    move,
    over,
    promise,
    reply,
)
from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, amount, clip, heard, proposal
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks


class TrustAndSplit(TextGame):
    """Trust another with your money, or split a sum: who is kind to whom, round after round?

    ## Description
    Two players lead in turn. Trust: the leader sends some of ten tokens, three times as much
    arrives, and the other returns what it likes of it. Ultimatum: the leader offers some of ten,
    and both get nothing if the other rejects. Dictator: the leader gives some of ten. Who plays
    once and counts tokens only returns nothing and takes any offer; but there are rounds to come,
    and words.

    ## Action Space
    Text: before each round, from both, any text (put on one line and cut after 280 characters);
    then, from who has to move, a whole number, or `accept` or `reject`.

    ## Observation Space
    Text: the game, the round, what is asked, what was done in all rounds so far, and what was said
    before this one.

    ## Rewards
    Term `task`, after each round: the tokens earned, divided by the number of rounds and by what
    each would earn if all that can be gained were split alike (15 in the trust game, else 5): 1 is
    a game of trust and fairness, more is won at the other's expense.

    ## Starting State
    Nothing has been played; player_0 leads first. The task is the game and the number of rounds,
    which both know: `trust/6`; 2, 6, 10 rounds are for training, 4, 8, 12 for testing.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns` turns. After `max_invalid`
    invalid actions in a row one sends or returns nothing, or accepts.

    ## Information
    The common keys; `success`: all is played and one earned at least the fair share; `progress`:
    one's earnings so far as a part of that share, at most 1.

    ## Arguments
    `variant`: "trust", "ultimatum", "dictator" or "mixed", the default: tasks of all three.
    `messages`: how many times both may speak before each round; default 1. `max_turns`: default
    None. As a single seat: `seat` and `opponents`: "selfish" (sends and returns nothing, offers 1,
    accepts everything but 0), "fair" (sends everything, returns half, offers 5, accepts 3 or more),
    "reciprocal" (as kind as the other was last time), "persuadable" (the default: sends everything
    to who says that it will return 10 or more and has kept its word, offers and gives what it is
    asked for up to 5, accepts what it was promised), "best_response" (guesses which of these the
    other is, and plans against that) or "random".

    ## Example Transcript
    ```
    Trust game, round 2 of 6. You lead: how many of your 10 tokens do you send?
    Round 1: player_0 sent 10, 30 arrived, you returned 15.
    player_0 said: I will return 15.
    > 10
    ```

    ## Baselines
    Mean return (share of successes) of a single seat, 100 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | 0.71 (0.20) | 1.09 (0.51) |
    | selfish | 0.36 (0.00) | 0.75 (0.49) |
    | fair | 0.81 (0.27) | 1.32 (1.00) |
    | reciprocal | 0.65 (0.09) | 1.12 (1.00) |
    | persuadable | 0.41 (0.00) | 1.32 (1.00) |
    | unknown | 0.58 (0.08) | 1.12 (0.91) |

    The expert is "best_response".

    Imitation alone (300 demonstrations) nearly plays as the expert does, against the default (1.22
    of 1.32) and an unknown opponent (1.09 of 1.12): to compare learning methods take
    `DealOrNoDeal-v0`.

    ## Registered Configurations
    `TrustAndSplit-v0`. `TrustAndSplit-Unknown-v0`: the opponent is drawn anew in every episode; one
    has to find out who it is.

    ## References
    Berg, Dickhaut and McCabe, Trust, Reciprocity, and Social History, Games and Economic Behavior
    10 (1995): ten units, tripled (there both have ten). Gueth, Schmittberger and Schwarze, An
    Experimental Analysis of Ultimatum Bargaining, Journal of Economic Behavior & Organization 3
    (1982). Forsythe et al., Fairness in Simple Bargaining Experiments, Games and Economic Behavior
    6 (1994): the dictator game. Those were played once; here rounds are repeated in turn.

    ## Version History
    v0: first version.
    """

    State = State
    state: State
    levels = ("random", "selfish", "fair", "reciprocal", "persuadable", "best_response")
    expert_level = "best_response"
    default_opponents = "persuadable"

    def __init__(self, *, variant: str = "mixed", messages: int = 1, **kwargs):
        if variant not in (*GAMES, "mixed"):
            known = (*GAMES, "mixed")
            hint = did_you_mean(variant, known)
            raise ConfigError(f"variant must be one of {', '.join(known)}, got {variant!r}.{hint}")
        if messages < 0:
            raise ConfigError(f"messages must be at least 0, got {messages}.")
        super().__init__(**kwargs)
        games = GAMES if variant == "mixed" else (variant,)
        self.messages = messages
        self.tasks = Tasks(
            train=tuple(f"{name}/{rounds}" for name in games for rounds in (2, 6, 10)),
            test=tuple(f"{name}/{rounds}" for name in games for rounds in (4, 8, 12)),
        )
        self.instructions = (
            "You and another player play a number of rounds of one of these games and lead in "
            f"turn. The leader of a round gets {ENDOWMENT} tokens. Trust: the leader sends some of "
            f"them; what is sent is multiplied by {FACTOR} and is the other's, who returns as much "
            "of it as it likes. Ultimatum: the leader offers some of them; if the other accepts, "
            "it gets these and the leader the rest, otherwise both get nothing. Dictator: the "
            "leader gives some of them, and that is all. Earn as much as you can over all rounds. "
            + "Before a round both can say something to each other: write it as it is, "
            f"{MAX_MESSAGE} characters at most. "
            * bool(messages)
            + "When asked how many, say only a whole number; when asked about an offer, say accept "
            "or reject."
        )

    def _start(self, task: str) -> None:
        game, rounds = task.split("/")
        self.state = State(game, int(rounds))
        self._begin_round()

    def _talking(self) -> bool:
        return len(self.state.talk) < self.messages

    def _begin_round(self) -> None:
        """Begins the next round if there is nothing to be said before it."""
        if not self._talking():
            spoken = [proposal([said[i] for said in self.state.talk]) for i in (0, 1)]
            named = [-1 if number is None else number for number in spoken]
            self.state.played.append(Round(len(self.state.played) % 2, named))

    def _under_way(self) -> Round | None:
        """Returns the round under way; None while there is talk and at the end."""
        played = self.state.played
        return played[-1] if played and not over(self.state.game, played[-1]) else None

    def _acting(self) -> tuple[str, ...]:
        one = self._under_way()
        if one is None:
            return self.possible_agents if len(self.state.played) < self.state.rounds else ()
        leads = one.sent < 0
        return (self.possible_agents[one.leader if leads else 1 - one.leader],)

    def _choices(self, agent: str) -> tuple[str, ...]:
        """Returns what the agent can say now; nothing: anything, or it does not move."""
        one = self._under_way()
        if one is None or agent not in self._acting():
            return ()
        if one.sent < 0:
            return tuple(str(number) for number in range(ENDOWMENT + 1))
        if self.state.game == "ultimatum":
            return ("accept", "reject")
        return tuple(str(number) for number in range(FACTOR * one.sent + 1))

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        names = ["you" if i == me else name for i, name in enumerate(self.possible_agents)]
        lines = [self._question(agent)]
        for number, one in enumerate(state.played, 1):
            lines += [f"Round {number}: {tell(state.game, one, names)}."] * (one.sent >= 0)
        lines += heard(state.talk, names)
        ended, fair = not self._acting(), FAIR[state.game] * state.rounds
        return TimeStep(
            text="\n".join(lines),
            success=ended and state.earned[me] >= fair,
            progress=min(1.0, state.earned[me] / fair),
            admissible=self._choices(agent),
        )

    def _question(self, agent: str) -> str:
        """Returns where the game stands, and what is asked of the agent."""
        state, one = self.state, self._under_way()
        number = len(state.played) + (one is None)
        head = f"{state.game.capitalize()} game, round {number} of {state.rounds}."
        if not self._acting():
            return "The game is over."
        leader = self.possible_agents[one.leader if one else len(state.played) % 2]
        leads = "You lead" if leader == agent else f"{leader} leads"
        if one is None:
            return f"{head} {leads}. Say something to the other."
        if agent not in self._acting():
            return f"{head} {leads}. Wait for the other."
        if one.sent < 0:
            verb = {"trust": "send", "ultimatum": "offer", "dictator": "give"}[state.game]
            return f"{head} You lead: how many of your {ENDOWMENT} tokens do you {verb}?"
        if state.game == "ultimatum":
            return f"{head} You are offered {one.sent} of {ENDOWMENT}: accept or reject?"
        return f"{head} You hold {FACTOR * one.sent}: how many do you return?"

    def _read(self, agent: str, said: str) -> str:
        choices = self._choices(agent)
        if not choices:
            return clip(said)
        if choices[0] == "accept":
            return super()._read(agent, said)
        return amount(said, int(choices[-1]))

    def _fallback(self, agent: str) -> str:
        return next(iter(self._choices(agent)), "")

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state, one = self.state, self._under_way()
        if one is None:
            state.talk.append([moves[agent] for agent in self.possible_agents])
            self._begin_round()
            return {}
        (said,) = moves.values()
        if one.sent < 0:
            one.sent = int(said)
            if state.game == "trust" and not one.sent:
                one.answer = 0
        else:
            one.answer = int(said == "accept") if state.game == "ultimatum" else int(said)
        if not over(state.game, one):
            return {}
        gains = earnings(state.game, one)
        state.earned = [sum(pair) for pair in zip(state.earned, gains, strict=True)]
        state.talk.clear()
        if len(state.played) < state.rounds:
            self._begin_round()
        worth = FAIR[state.game] * state.rounds
        return self._pay(gain / worth for gain in gains)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state, me = self.state, self.possible_agents.index(agent)
        one = self._under_way()
        if one is None:
            return self._speech(level, me)
        if level != "best_response":
            number = move(level, state.game, state.played, me)
        else:
            kind = best_plan(state, me)
            leads = one.leader == me
            number = lead(state.game, kind[0]) if leads else reply(state.game, kind[1], one)
        if state.game == "ultimatum" and one.sent >= 0:
            return "accept" if number else "reject"
        return str(number)

    def _speech(self, level: str, me: int) -> str:
        """Returns what a scripted player says before a round."""
        state, game = self.state, self.state.game
        leads = len(state.played) % 2 == me
        if leads or level == "selfish":
            return "Let us both be fair."
        if level == "best_response" and game == "trust":
            return f"I will return {promise(game, best_plan(state, me)[1])}."
        wishes = {"trust": f"I will return {FAIR[game]}.", "ultimatum": f"Offer me {FAIR[game]}."}
        return wishes.get(game, f"Give me {FAIR[game]}.")


def tell(game: str, one: Round, names: list[str]) -> str:
    """Returns a round in words."""
    leader, other = names[one.leader], names[1 - one.leader]
    if game == "trust":
        returned = f", {other} returned {one.answer}" * (one.answer >= 0)
        return f"{leader} sent {one.sent}, {FACTOR * one.sent} arrived{returned}"
    if game == "dictator":
        return f"{leader} gave {one.sent} of {ENDOWMENT}"
    answer = {-1: "", 0: f", {other} rejected", 1: f", {other} accepted"}[one.answer]
    return f"{leader} offered {one.sent} of {ENDOWMENT}{answer}"


env, raw_env, parallel_env = make_pettingzoo(TrustAndSplit)
