"""TrustAndSplit: repeated trust, ultimatum and dictator games."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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
    shared,
)
from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import (
    MAX_MESSAGE,
    amount,
    clip,
    heard,
    proposal,
    refuse_messages,
)
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep


class TrustAndSplit(TextGame):
    """Repeated trust, ultimatum and dictator games between two players, with messages.

    ## Description
    The players alternate as the leader of a round.

    - Trust: the leader sends some of ten tokens, the amount is tripled, and the other player
      returns any part of it.
    - Ultimatum: the leader offers some of ten tokens. If the other player rejects, both get
      nothing.
    - Dictator: the leader gives some of ten tokens.

    In a single round, a payoff-maximising responder returns nothing and accepts any positive offer.
    Repetition and messages allow for trust and fairness.

    ## Action Space
    Text: before each round, from both players, any message, which is put on one line and cut after
    280 characters. Then, from the player to move, a whole number, or `accept` or `reject`.

    ## Observation Space
    Text: the game, the round, the current decision, the actions of all previous rounds, and the
    messages before this round.

    ## Rewards
    Term `task`, after each round: the tokens earned, divided by the number of rounds and by the
    fair share, which is the earnings of each player if the maximum total is split equally (15 in
    the trust game, else 5). A return of 1 corresponds to full trust and fairness. More is possible
    only at the co-player's expense.

    ## Starting State
    No rounds have been played, and `player_0` leads first. The task is the game and the number of
    rounds, which are known to both, for example `trust/6`. 2, 6 and 10 rounds are training tasks,
    4, 8 and 12 are test tasks.

    ## Episode End
    - Termination: all rounds are played.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid actions in a row a random one is taken, or an empty message sent.

    ## Information
    The common keys. `success`: all rounds are played, the agent earned at least the fair share, and
    the co-player gave it some of it: a dictator that keeps every token earns a fair share alone.
    `progress`: the earnings so far, divided by the fair share of all rounds, at most 1.

    ## Arguments
    - `variant` (str, default "mixed"): "trust", "ultimatum", "dictator", or "mixed" for tasks of
      all three.
    - `messages` (int, default 1): number of messages each player sends before a round.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a random one.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "persuadable"): the co-player's policy.
        - "selfish": sends and returns nothing, offers 1, accepts any offer except 0.
        - "fair": sends everything, returns half, offers 5, accepts offers of at least 3.
        - "reciprocal": is as kind as the co-player was in its last decision.
        - "persuadable": sends everything to a player who promises to return at least 10 and has
          kept its promises. Offers and gives the requested number, up to 5. Accepts the number it
          was promised.
        - "best_response": infers which of these policies the co-player follows and plans against
          it.
        - "random": uniformly random decisions.
        - "unknown": one of the levels except "random", sampled at each reset.

    ## Notes
    The expert is "best_response". Behaviour cloning alone nearly matches it against the default and
    the unknown co-player. To compare learning methods, use `DealOrNoDeal-v0`.

    ## References
    Berg, Dickhaut and McCabe, Trust, Reciprocity, and Social History, Games and Economic Behavior
    10 (1995): ten units, tripled (there both players have ten). Gueth, Schmittberger and Schwarze,
    An Experimental Analysis of Ultimatum Bargaining, Journal of Economic Behavior & Organization 3
    (1982). Forsythe et al., Fairness in Simple Bargaining Experiments, Games and Economic Behavior
    6 (1994): the dictator game. The original games have a single round. Here they are repeated with
    alternating roles.

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
            "You and another player play several rounds of one of the games below. Earn as many "
            "tokens as you can over all rounds.\n"
            "Rules:\n"
            f"- You alternate as the leader, who gets {ENDOWMENT} tokens per round.\n"
            "- Trust game: the leader sends some of the tokens and keeps the rest. The other "
            f"player receives {FACTOR} times that amount and returns any part of it.\n"
            "- Ultimatum game: the leader offers some of the tokens. If the other player accepts, "
            "it gets them and the leader keeps the rest. Otherwise both get nothing.\n"
            "- Dictator game: the leader gives away some of the tokens and keeps the rest.\n"
            + "- Before each round both players exchange messages.\n" * bool(messages)
            + "Actions:\n"
            + f"- When asked for a message: any text, {MAX_MESSAGE} characters at most.\n"
            * bool(messages)
            + "- When asked for an amount: a whole number, for example: 4\n"
            "- When asked about an offer: accept or reject"
        )

    def _start(self, task: str) -> None:
        game, rounds = task.split("/")
        self.state = State(game, int(rounds))
        self._begin_round()

    def starts(self) -> Iterator[tuple[float, State]]:
        """Yields the start of the shortest training task: of "trust" if the variant is "mixed".

        Raises:
            ConfigError: if there are messages.
        """
        refuse_messages("TrustAndSplit", self.messages)
        game, rounds = self.tasks.train[0].split("/")
        yield 1.0, State(game, int(rounds), [Round(0, [-1, -1])])

    def _talking(self) -> bool:
        return len(self.state.talk) < self.messages

    def _begin_round(self) -> None:
        """Begins the next round if no messages are left to be sent before it."""
        if not self._talking():
            spoken = [proposal([said[i] for said in self.state.talk]) for i in (0, 1)]
            named = [-1 if number is None else number for number in spoken]
            self.state.played.append(Round(len(self.state.played) % 2, named))

    def _under_way(self) -> Round | None:
        """Returns the current round, or None during messages and at the end."""
        played = self.state.played
        return played[-1] if played and not over(self.state.game, played[-1]) else None

    def _acting(self) -> tuple[str, ...]:
        one = self._under_way()
        if one is None:
            return self.possible_agents if len(self.state.played) < self.state.rounds else ()
        leads = one.sent < 0
        return (self.possible_agents[one.leader if leads else 1 - one.leader],)

    def _choices(self, agent: str) -> tuple[str, ...]:
        """Returns the admissible actions. Empty for messages and if the agent does not act."""
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
            success=ended and state.earned[me] >= fair and shared(state, me),
            progress=min(1.0, state.earned[me] / fair),
            admissible=self._choices(agent),
        )

    def _question(self, agent: str) -> str:
        """Returns the status of the game and the decision that the agent faces."""
        state, one = self.state, self._under_way()
        number = len(state.played) + (one is None)
        head = f"{state.game.capitalize()} game, round {number} of {state.rounds}."
        if not self._acting():
            return "The game is over."
        leader = self.possible_agents[one.leader if one else len(state.played) % 2]
        leads = "You lead" if leader == agent else f"{leader} leads"
        if one is None:
            return f"{head} {leads}. Send a message to the other player."
        if agent not in self._acting():
            return f"{head} {leads}. Wait for the other player."
        if one.sent < 0:
            verb = {"trust": "send", "ultimatum": "offer", "dictator": "give"}[state.game]
            return f"{head} You lead: how many of your {ENDOWMENT} tokens do you {verb}?"
        if state.game == "ultimatum":
            return f"{head} You are offered {one.sent} of {ENDOWMENT}: accept or reject?"
        return f"{head} You hold {FACTOR * one.sent}: how many do you return?"

    def _parse(self, agent: str, action: str) -> str:
        choices = self._choices(agent)
        if not choices:
            return clip(action)
        if choices[0] == "accept":
            return super()._parse(agent, action)
        return amount(action, int(choices[-1]))

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
        """Returns the message of a scripted player before a round."""
        state, game = self.state, self.state.game
        leads = len(state.played) % 2 == me
        if leads or level == "selfish":
            return "Let us both be fair."
        if level == "best_response" and game == "trust":
            return f"I will return {promise(game, best_plan(state, me)[1])}."
        wishes = {"trust": f"I will return {FAIR[game]}.", "ultimatum": f"Offer me {FAIR[game]}."}
        return wishes.get(game, f"Give me {FAIR[game]}.")


def tell(game: str, one: Round, names: list[str]) -> str:
    """Describes a round."""
    leader, other = names[one.leader], names[1 - one.leader]
    if game == "trust":
        returned = f" and returned {one.answer}" * (one.answer >= 0)
        return f"{leader} sent {one.sent}, {other} received {FACTOR * one.sent}{returned}"
    if game == "dictator":
        return f"{leader} gave {one.sent} of {ENDOWMENT}"
    answer = {-1: "", 0: f", {other} rejected", 1: f", {other} accepted"}[one.answer]
    return f"{leader} offered {one.sent} of {ENDOWMENT}{answer}"


env, raw_env, parallel_env = make_pettingzoo(TrustAndSplit)
