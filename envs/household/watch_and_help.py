"""WatchAndHelp: help someone whose goal was only watched in another home."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.core import TextEnv
from agentgym.envs.household import rules
from agentgym.envs.household.household import a, listed, plural
from agentgym.envs.household.shared_home import Chores, follow, make_chores, missing, plan
from agentgym.envs.household.things import OPENABLE, kind_of
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep


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
        "- You see only the things in or on the receptacle where you are. Go to other receptacles "
        "to search them, and open the closed ones.\n"
        "- You can hold one thing at a time. Your partner counts on you to put it where it "
        "belongs.\n"
        "- When the goal is reached, your reward is the speed-up: the number of turns that your "
        "partner would need alone, divided by the turns played, minus 1.\n"
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
    State = State
    state: State
    tasks = Tasks.generated()

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
        command = rules.parse(action)
        if command is not None and command not in rules.commands(level, state.me):
            why = rules.refusal(level, state.me, command) or "That changes nothing."
            return self._invalid(why)
        if command is None:
            return self._invalid("Unknown command. The instructions list the commands.")
        feedback = rules.apply(state.me, command)
        follow(level, state.me, state.partner)
        if self._missing():
            answer = plan(level, state.partner, self.chores.goals)
            state.last = rules.say(answer)
            rules.apply(state.partner, answer)
            follow(level, state.partner, state.me)
        return self._look(feedback)

    def _missing(self) -> int:
        """Returns the number of things that are not yet where they belong."""
        return sum(count for _, _, count in missing(self.chores.goals, self.state.me))

    def _look(self, feedback: str = "") -> TimeStep:
        chores, me = self.chores, self.state.me
        left, total = self._missing(), sum(count for _, _, count in chores.goals)
        turns = self._turn + 1  # with the one in progress
        gain = 0.0 if left else max(0.0, chores.alone / turns - 1)
        return TimeStep(
            text=f"{self._watched()}\n{self._partner()}\n{self._place()}",
            rewards={"task": gain},
            terminated=not left,
            success=not left and turns < chores.alone,
            progress=1 - left / total,
            admissible=tuple(map(rules.say, rules.commands(chores.level, me))) if left else (),
            state_key=self._key(),
            feedback=feedback,
        )

    def _watched(self) -> str:
        commands = ", ".join(map(rules.say, self.chores.watched))
        return f"In another home, your partner did this: {commands}."

    def _partner(self) -> str:
        state = self.state
        where = f"at {state.partner.at}" if state.partner.at else "in the middle of the room"
        last = f" and did this: {state.last}" if state.last else ""
        return f"Your partner is {where}{last}."

    def _place(self) -> str:
        level, me = self.chores.level, self.state.me
        hand = f"You are holding {me.held or 'nothing'}."
        around = f"Around you: {listed(level.home.receptacles)}."
        if not me.at:
            return f"You are in the middle of {a(level.home.room)}. {around} {hand}"
        if me.closed(me.at):
            return f"You are at {me.at}. It is closed. {around} {hand}"
        is_open = " It is open." * (kind_of(me.at) in OPENABLE)
        where = rules.preposition(me.at).capitalize()
        inside = listed(me.inside(me.at))
        return f"You are at {me.at}.{is_open} {where} it: {inside}. {around} {hand}"

    def _key(self) -> str:
        """Returns the complete state except the agent's memory."""
        me, partner = self.state.me, self.state.partner
        places = [f"{thing}:{place}" for thing, place in me.places.items()]
        known = [*sorted(me.opened), "", *sorted(partner.checked)]
        return "|".join([self.task, me.at, partner.at, *places, *known, self.state.last])

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
