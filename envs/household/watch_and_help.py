"""WatchAndHelp: help someone whose goal was only watched in another home."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.core import TextEnv
from agentgym.envs.household import rules
from agentgym.envs.household.household import listed, plural
from agentgym.envs.household.shared_home import (
    Chores,
    act,
    company_text,
    home_key,
    make_chores,
    missing,
    place_text,
    plan,
    understood,
)
from agentgym.envs.household.things import kind_of
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

SIGHT = (
    "- You see only the things in or on the receptacle where you are. Go to other receptacles to "
    "search them, and open the closed ones.\n"
)
"""The rule about visible things, for both persons."""
COMMANDS = (
    "\n"
    "Commands, with the numbers of things and receptacles:\n"
    "- go to desk 1\n"
    "- open drawer 2\n"
    "- close drawer 2\n"
    "- take mug 1 from desk 1\n"
    "- put mug 1 in/on shelf 2\n"
    "- examine mug 1\n"
    "- inventory (shows the thing you hold)\n"
    "- look (shows the receptacles of the room)\n"
    "\n"
    "Reply with exactly one command per turn."
)
"""The commands, for both persons."""


@dataclass
class State:
    """The state of the home as each person knows it.

    Attributes:
        me: hand, place and observations of the agent.
        partner: those of the partner.
        last: the partner's last command.
    """

    me: rules.State
    partner: rules.State
    last: str = ""


class WatchAndHelp(TextEnv):
    """Help a partner reach a goal that the agent has only watched the partner reach elsewhere.

    ## Description
    The Watch-And-Help challenge in the homes of `Household`. The agent has watched its partner put
    things of two kinds where they belong, in another home. Now both are in a new home of the same
    kind, with the same goal, which nobody names. The agent has to infer it, find things and bring
    them where they belong without getting in the way of the partner, who knows the goal and works
    on it. Both see the commands of each other.

    ## Action Space
    Text commands, as in `Household`.

    - `go to desk 1`
    - `open drawer 2`, `close drawer 2`
    - `take mug 1 from desk 1`
    - `put mug 1 in/on shelf 2`
    - `examine mug 1`
    - `inventory`, `look`

    Admissible are all possible commands.

    ## Observation Space
    Text: the things that the partner moved in the other home, the partner's last command and place,
    the agent's place, the visible things and the thing in hand.

    ## Rewards
    Term `task`: when the goal is reached, the speed-up L / T - 1, or 0 if it is negative. T is the
    number of turns, and L the number of commands that the partner needs without help.

    ## Starting State
    Both are in the middle of the room, and everything is closed. The task determines the homes, the
    goal and the places of things. No goal of a test task, apart from the numbers of things, is one
    of training.

    ## Episode End
    - Termination: the goal is reached.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `success`: the goal is reached in fewer turns than the partner needs alone.
    `progress`: the share of the things that are where they belong.

    ## Arguments
    - `max_turns` (int or None, default 100): turn limit.

    ## Notes
    In every turn, the agent's command comes first, and then that of the partner. After an invalid
    action, the partner waits too. The partner searches the usual places and counts on a thing in
    the agent's hand to be put where it belongs. The expert knows the goal, which can be inferred
    from the observation, and apart from that only its own observations. An agent that only looks
    has a speed-up of 0.

    ## References
    Watch-And-Help (arXiv 2010.09890): the two stages, watching and helping, and the score, which is
    the speed-up by the helper. The homes, goals and texts are ours, and the partner is a script
    in place of a planner with beliefs.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You help a partner in a room with numbered receptacles and things. You have watched your "
        "partner in another home, and your partner has the same goal here: things of the same "
        "kinds belong in or on receptacles of the same kinds.\n"
        "\n"
        "Rules:\n"
        "- Infer the goal from the things that your partner moved. The same number of things of "
        "each kind must be put here.\n"
        "- You and your partner act in every turn, you first.\n"
        f"{SIGHT}"
        "- You can hold one thing at a time. Your partner counts on you to put it where it "
        "belongs.\n"
        "- When the goal is reached, your reward is the speed-up: the number of turns that your "
        "partner would need alone, divided by the turns played, minus 1.\n"
        f"{COMMANDS}"
    )
    State = State
    state: State
    tasks = Tasks.generated()
    answer: rules.Command | None = None
    """The partner's command of the turn, from a second agent. None: the scripted partner's."""

    def __init__(self, *, max_turns: int | None = 100, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    @property
    def chores(self) -> Chores:
        """The goal and the homes of the task."""
        return make_chores(self.task)

    def _start(self, task: str) -> TimeStep:
        places = self.chores.level.places
        self.state = State(rules.State("", dict(places)), rules.State("", dict(places)))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        level, state = self.chores.level, self.state
        try:
            command = understood(level, state.me, action)
        except ValueError as error:
            return self._invalid(str(error))
        feedback = act(state.me, state.partner, command)
        if self._missing():
            answer = self.answer or plan(level, state.partner, self.chores.goals)
            state.last = rules.say(answer)
            act(state.partner, state.me, answer)
        return self._look(feedback)

    def _missing(self) -> int:
        """Returns the number of things that are not yet where they belong."""
        return sum(count for _, _, count in missing(self.chores.goals, self.state.me))

    def _look(self, feedback: str = "") -> TimeStep:
        chores, me = self.chores, self.state.me
        left, total = self._missing(), sum(count for _, _, count in chores.goals)
        turns = self._turn + 1  # with the one in progress
        gain = 0.0 if left else max(0.0, chores.alone / turns - 1)
        partner = company_text("partner", self.state.partner, self.state.last)
        return TimeStep(
            text=f"{self._watched()}\n{partner}\n{place_text(chores.level, me)}",
            rewards={"task": gain},
            terminated=not left,
            success=not left and turns < chores.alone,
            progress=1 - left / total,
            admissible=tuple(map(rules.say, rules.commands(chores.level, me))) if left else (),
            state_key=home_key(self.task, me, self.state.partner, self.state.last),
            feedback=feedback,
        )

    def _watched(self) -> str:
        commands = ", ".join(map(rules.say, self.chores.watched))
        return f"In another home, your partner did this: {commands}."

    def privileged_text(self) -> str:
        """Returns the goal, and the places of the things that it needs."""
        goals = [
            f"{count} {plural(kind)} {rules.preposition(target)} {target}"
            for kind, target, count in self.chores.goals
        ]
        kinds = {kind for kind, _, _ in self.chores.goals}
        places = self.state.me.places.items()
        where = [f"{thing}: {place}" for thing, place in places if kind_of(thing) in kinds]
        return f"Goal: {listed(goals)}. {listed(where)}."

    def expert(self) -> str | None:
        """Returns the next command of a helper that knows the goal and its own observations.

        It prefers the goals and the places that the partner leaves for the end.
        """
        chores, me = self.chores, self.state.me
        if not self._missing():
            return None
        home = replace(chores.level.home, receptacles=chores.level.home.receptacles[::-1])
        command = plan(replace(chores.level, home=home), me, chores.goals[::-1])
        return rules.say(command)
