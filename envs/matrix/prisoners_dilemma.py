"""PrisonersDilemma: the iterated prisoner's dilemma, with or without talking before each choice."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TimeStep
from agentgym.errors import ConfigError
from agentgym.games import Rewards, TextGame
from agentgym.multiagent import faces
from agentgym.tasks import NumberedTasks, Tasks, task_number

CHOICES = ("cooperate", "defect")
MAX_MESSAGE = 280
EXPECTED_ROUNDS = 10
"""What the expert reckons with where the number of rounds is not told."""

History = list[tuple[str, str]]
Payoffs = dict[tuple[str, str], tuple[float, float]]


@dataclass
class State:
    """The rounds to play, the choices of both in the rounds played, and what was said in this one.

    `payoffs` are the sums so far.
    """

    rounds: int
    history: History = field(default_factory=list)
    talk: History = field(default_factory=list)
    payoffs: tuple[float, float] = (0.0, 0.0)


def scripted(level: str, mine: list[str], theirs: list[str]) -> str:
    """Returns the next choice of a classic strategy after these choices in the rounds so far."""
    if level == "defect":
        return "defect"
    if level == "tit_for_tat":
        return theirs[-1] if theirs else "cooperate"
    if level == "grim":
        return "defect" if "defect" in theirs else "cooperate"
    if level == "win_stay":
        return "cooperate" if mine[-1:] == theirs[-1:] else "defect"
    return "cooperate"


def best_response(mine: list[str], theirs: list[str], left: int, payoff: Payoffs) -> str:
    """Returns the choice that pays best against what the other may be, judged by its choices.

    Every scripted strategy is as likely as it explains the other's choices so far (with one slip in
    twenty). Considered are plans to cooperate for some rounds and then to defect, and tit for tat.

    Args:
        mine: choices so far.
        theirs: the other's.
        left: rounds to be played, or to be expected.
        payoff: payoffs of both by their choices.
    """
    models = ("cooperate", "defect", "tit_for_tat", "grim", "win_stay", "random")
    weights = []
    for model in models:
        weight = 1.0
        for t, choice in enumerate(theirs):
            agrees = model != "random" and scripted(model, theirs[:t], mine[:t]) == choice
            weight *= 0.5 if model == "random" else 0.95 if agrees else 0.05
        weights.append(weight)

    def worth(plan: int | None) -> float:
        total = 0.0
        for model, weight in zip(models, weights, strict=True):
            ours, others = list(mine), list(theirs)
            for turn in range(left):
                choice = (
                    scripted("tit_for_tat", ours, others) if plan is None else CHOICES[turn >= plan]
                )
                answers = CHOICES if model == "random" else (scripted(model, others, ours),)
                total += weight * sum(payoff[choice, a][0] for a in answers) / len(answers)
                ours.append(choice)
                others.append(answers[turn % len(answers)])
        return total

    plans: list[int | None] = [*range(left, -1, -1), None]
    best = max(plans, key=worth)
    return scripted("tit_for_tat", mine, theirs) if best is None else CHOICES[best == 0]


def clip(message: str) -> str:
    """Returns the message as one short line, so that it cannot pass for anything else."""
    return " ".join(message.split())[:MAX_MESSAGE]


class PrisonersDilemma(TextGame):
    """The iterated prisoner's dilemma, optionally with cheap talk.

    ## Description
    In every round both players choose at the same time to cooperate or to defect. Defecting pays
    more whatever the other does, but mutual cooperation pays more than mutual defection. With
    `messages`, both can say something to each other, at the same time, before they choose.

    ## Action Space
    Text: `cooperate` or `defect`; in the talking phase any text (put on one line and cut after 280
    characters). With `action_mode="discrete"` (without messages only): the index of the choice.

    ## Observation Space
    Text: the round, all choices so far, and what was said in this round.

    ## Rewards
    Term `task`, after each round: one's payoff divided by the number of rounds, so that the return
    is the mean payoff of a round. An invalid action costs `invalid_penalty`.

    ## Starting State
    Nothing has been played. The task is the number of rounds: `rounds/4`; even numbers from 4 to 20
    are for training, odd ones from 5 to 19 for testing.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns` turns. After `max_invalid`
    invalid actions in a row the choice is made at random.

    ## Information
    The common keys; `success`: all is played and the mean payoff is at least that of mutual
    cooperation; `progress`: the sum of payoffs so far between its possible extremes at the end.

    ## Arguments
    `temptation`, `reward`, `punishment`, `sucker`: the payoffs for (defect, cooperate), (cooperate,
    cooperate), (defect, defect), (cooperate, defect); default 5, 3, 1, 0. `messages`: how many
    times per round both may speak; default 0. `announce_rounds`: whether the number of rounds is
    told; default true. `max_turns`: default None. As a single seat: `seat` and `opponents`:
    "cooperate", "defect", "tit_for_tat", "grim" (defects for ever once it was defected),
    "win_stay" (cooperates if both chose alike in the last round), "best_response" (guesses which of
    these the other is, and plans against that) or "random".

    ## Example Transcript
    ```
    Round 2 of 4. Choose: cooperate or defect.
    Round 1: you cooperate, the other defects.
    > defect
    ```

    ## Baselines
    Mean return (share of successes) of a single seat without messages, 500 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | 2.26 (0.12) | 2.80 (0.36) |
    | cooperate | 4.01 (1.00) | 3.84 (1.00) |
    | defect | 0.51 (0.00) | 0.96 (0.00) |
    | tit_for_tat | 2.41 (0.05) | 3.02 (0.62) |
    | grim | 1.19 (0.02) | 2.46 (0.62) |
    | win_stay | 2.42 (0.15) | 3.20 (1.00) |

    The expert is "best_response". It cannot know before the end who is on the other side.

    ## Registered Configurations
    `PrisonersDilemma-v0`: no talk. `PrisonersDilemma-Talk-v0`: one message each per round.

    ## References
    Axelrod and Hamilton, The Evolution of Cooperation, Science 211 (1981): the payoffs and tit for
    tat. Nowak and Sigmund, Nature 364 (1993): win-stay, lose-shift.

    ## Version History
    v0: first version.
    """

    tasks = Tasks(
        NumberedTasks("rounds/", range(4, 21, 2)), NumberedTasks("rounds/", range(5, 20, 2))
    )
    State = State
    state: State
    levels = (
        "random", "cooperate", "defect", "tit_for_tat", "grim", "win_stay", "best_response"
    )  # fmt: skip
    expert_level = "best_response"

    def __init__(
        self,
        *,
        temptation: float = 5,
        reward: float = 3,
        punishment: float = 1,
        sucker: float = 0,
        messages: int = 0,
        announce_rounds: bool = True,
        **kwargs,
    ):
        if not (temptation > reward > punishment > sucker and 2 * reward > temptation + sucker):
            raise ConfigError(
                "A prisoner's dilemma needs temptation > reward > punishment > sucker and "
                f"2 reward > temptation + sucker, got "
                f"{temptation}, {reward}, {punishment}, {sucker}."
            )
        if messages < 0:
            raise ConfigError(f"messages must be at least 0, got {messages}.")
        super().__init__(**kwargs)
        c, d = CHOICES
        self.payoff = {
            (c, c): (reward, reward),
            (c, d): (sucker, temptation),
            (d, c): (temptation, sucker),
            (d, d): (punishment, punishment),
        }
        self.messages = messages
        self.announce_rounds = announce_rounds
        self.actions = () if messages else CHOICES
        self.instructions = (
            "You and another player choose at the same time, round after round, to cooperate or to "
            f"defect. If both cooperate, each gets {reward:g}; if both defect, each gets "
            f"{punishment:g}; if only one defects, that one gets {temptation:g} and the other "
            f"{sucker:g}. Get as much as you can. "
            + "Before you choose, you can say something to each other: write it as it is. "
            * bool(messages)
            + "When asked to choose, say only cooperate or defect."
        )

    def _start(self, task: str) -> None:
        self.state = State(task_number(task))

    def _talking(self) -> bool:
        return len(self.state.talk) < self.messages

    def _acting(self) -> tuple[str, ...]:
        return self.possible_agents if len(self.state.history) < self.state.rounds else ()

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        played, over = len(state.history), not self._acting()
        limit = f" of {state.rounds}" * self.announce_rounds
        asks = "Say something to the other." if self._talking() else "Choose: cooperate or defect."
        lines = ["The game is over." if over else f"Round {played + 1}{limit}. {asks}"]
        lines += [
            f"Round {i}: you {pair[me]}, the other {pair[1 - me]}s."
            for i, pair in enumerate(state.history, 1)
        ]
        lines += [f"You said: {pair[me]}\nThe other said: {pair[1 - me]}" for pair in state.talk]
        payoffs = sorted(pay for pair in self.payoff.values() for pay in pair)
        low, high = payoffs[0] * state.rounds, payoffs[-1] * state.rounds
        gain = state.payoffs[me]
        return TimeStep(
            text="\n".join(lines),
            success=over and gain >= self.payoff["cooperate", "cooperate"][0] * state.rounds - 1e-9,
            progress=min(1.0, max(0.0, (gain - low) / (high - low))),
            admissible=() if self._talking() else CHOICES,
        )

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        first, second = (moves[agent] for agent in self.possible_agents)
        if self._talking():
            state.talk.append((clip(first), clip(second)))
            return {}
        state.history.append((first, second))
        state.talk.clear()
        gains = self.payoff[first, second]
        state.payoffs = (state.payoffs[0] + gains[0], state.payoffs[1] + gains[1])
        return {
            agent: {"task": gain / state.rounds}
            for agent, gain in zip(self.possible_agents, gains, strict=True)
        }

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        return self._promise() if self._talking() else super()._random(agent, rng)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        if self._talking():
            return self._promise()
        me = self.possible_agents.index(agent)
        mine, theirs = ([pair[i] for pair in self.state.history] for i in (me, 1 - me))
        if level == "best_response":
            left = self.state.rounds - len(mine) if self.announce_rounds else EXPECTED_ROUNDS
            return best_response(mine, theirs, left, self.payoff)
        return scripted(level, mine, theirs)

    def _promise(self) -> str:
        """Returns what every scripted player says: some mean it."""
        return "Let us both cooperate."


env, raw_env, parallel_env = faces(PrisonersDilemma)
