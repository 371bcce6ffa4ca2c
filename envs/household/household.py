"""Household: ALFWorld's chores in generated homes."""

from __future__ import annotations

from agentgym.core import TextEnv
from agentgym.envs.household import rules
from agentgym.envs.household.expert import next_command
from agentgym.envs.household.levels import FAMILIES, Level, make_level
from agentgym.envs.household.rules import TREATED, Command, State
from agentgym.envs.household.things import OPENABLE, kind_of
from agentgym.errors import did_you_mean
from agentgym.tasks import NumberedTasks, Tasks
from agentgym.time_step import TimeStep

COMMANDS = (
    *("go to (receptacle)", "open (receptacle)", "close (receptacle)"),
    *("take (thing) from (receptacle)", "put (thing) in/on (receptacle)"),
    *("clean (thing) with (sinkbasin)", "heat (thing) with (microwave)"),
    *("cool (thing) with (fridge)", "use (desklamp)", "examine (thing or receptacle)"),
    *("inventory", "look", "help"),
)


def listed(names: list[str] | tuple[str, ...]) -> str:
    """Returns names as a list in a sentence."""
    return ", ".join(names) or "nothing"


def a(noun: str) -> str:
    """Returns a noun with its article."""
    # The only noun that begins with a u is "utility room".
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"


def plural(noun: str) -> str:
    """Returns the plural of a noun."""
    if noun.endswith("knife"):
        return f"{noun[:-2]}ves"
    return noun + ("es" if noun.endswith(("x", "ch")) else "s")


def chore(level: Level) -> str:
    """Returns the chore as a sentence."""
    kind, target = level.kind, level.target
    inside = rules.preposition(target)
    if level.family == "look":
        return f"Look at {a(kind)} under {a(target)} that is on."
    if level.family == "pick2":
        return f"Put two {plural(kind)} {inside} the same {target}."
    if level.family == "pick":
        return f"Put {a(kind)} {inside} {a(target)}."
    return f"{level.family.capitalize()} {a(kind)}, then put it {inside} {a(target)}."


class Household(TextEnv):
    """Find, carry, clean, heat and cool things in a home, observed one receptacle at a time.

    ## Description
    The six task families of ALFWorld in generated homes, with ALFWorld's command language:

    - `pick`: put a thing somewhere.
    - `pick2`: put two things of a kind in the same place.
    - `look`: look at a thing under a lamp.
    - `clean`, `heat`, `cool`: put a thing somewhere clean, hot or cold.

    A home is one room with about ten to thirty numbered receptacles and up to fifty things. The
    agent sees only the contents of the receptacle where it is, and many receptacles are closed. It
    has to search in likely places, remember its observations, and do things in the right order. It
    can hold one thing at a time.

    ## Action Space
    Text commands.

    - `go to desk 1`
    - `open drawer 2`, `close drawer 2`
    - `take mug 1 from desk 1`
    - `put mug 1 in/on shelf 2` (or `move mug 1 to shelf 2`)
    - `clean mug 1 with sinkbasin 1`
    - `heat mug 1 with microwave 1`
    - `cool mug 1 with fridge 1`
    - `use desklamp 1` (or `toggle desklamp 1`)
    - `examine mug 1`
    - `inventory`, `look`, `help`

    Admissible are all possible commands except `help`, going to the current receptacle and
    examining a thing that is not in hand.

    ## Observation Space
    Text: the location, the visible things, the thing in hand with its state, and the chore. At the
    start and after `look`, also the receptacles of the room.

    ## Rewards
    Term `task`: 1 when the chore is done, else 0.

    ## Starting State
    The agent is in the middle of the room and everything is closed. The task determines the home,
    the chore and the places of things.

    ## Episode End
    - Termination: the chore is done.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the share of the required steps (hold, treat, put) that is done.
    `state_key` covers the complete state, including hidden facts.

    ## Arguments
    - `family` (str, default "all"): "all", "pick", "look", "clean", "heat", "cool" or "pick2".
    - `test_homes` (str, default "seen"): "seen" or "unseen", as in ALFWorld. With "seen", the test
      tasks are other chores in the 120 training homes (kitchens, living rooms, bedrooms and
      bathrooms). With "unseen", they are in new homes of other kinds (studios, offices and utility
      rooms). There, no thing is in a place where it is found in training, and no chore (family,
      thing and target) is one of training.
    - `max_turns` (int or None, default 50): turn limit.

    ## Notes
    The expert knows the usual places of things in the training homes, and apart from that only its
    observations. It therefore needs more turns in unseen homes.

    ## References
    ALFWorld (arXiv 2010.03768): the families, the commands, the one-room homes and the two kinds of
    held-out tasks are its own. The homes, placements and texts are ours. In side-by-side play with
    ALFWorld's PDDL on the same homes, possible commands and episode ends are the same at every
    step, with two exceptions: there is no slicing, and a lamp that was turned off again does not
    count as on.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are in a room with numbered receptacles and things. Do the chore that each "
        "observation names.\n"
        "\n"
        "Rules:\n"
        "- You see only the things in or on the receptacle where you are. Go to other receptacles "
        "to search them, and open the closed ones.\n"
        "- You can hold one thing at a time.\n"
        "- Hold a thing to clean it at a sinkbasin, heat it at a microwave or cool it at a fridge. "
        "You do not need to open the microwave or the fridge for this.\n"
        "- To look at a thing under a lamp, hold it, go to the lamp and turn the lamp on.\n"
        "- You get a reward of 1 when the chore is done. The episode ends then, or when you run "
        "out of turns.\n"
        "\n"
        "Commands, with the numbers of things and receptacles:\n"
        "- go to desk 1\n"
        "- open drawer 2\n"
        "- close drawer 2\n"
        "- take mug 1 from desk 1\n"
        "- put mug 1 in/on shelf 2\n"
        "- clean mug 1 with sinkbasin 1\n"
        "- heat mug 1 with microwave 1\n"
        "- cool mug 1 with fridge 1\n"
        "- use desklamp 1 (turns the lamp on or off)\n"
        "- examine mug 1\n"
        "- inventory (shows the thing you hold)\n"
        "- look (shows the receptacles of the room)\n"
        "- help (shows the commands)\n"
        "\n"
        "Reply with exactly one command per turn."
    )
    State = State

    def __init__(
        self,
        *,
        family: str = "all",
        test_homes: str = "seen",
        max_turns: int | None = 50,
        **kwargs,
    ):
        if family not in ("all", *FAMILIES):
            hint = did_you_mean(family, ("all", *FAMILIES))
            known = ", ".join(("all", *FAMILIES))
            raise ValueError(f"family must be one of {known}, got {family!r}.{hint}")
        if test_homes not in ("seen", "unseen"):
            raise ValueError(f"test_homes must be 'seen' or 'unseen', got {test_homes!r}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.family = family
        self.test_homes = test_homes
        tasks = Tasks.generated()
        if test_homes == "unseen":
            tasks = Tasks(tasks.train, NumberedTasks("unseen/", range(len(tasks.test))))
        self.tasks = tasks

    @property
    def level(self) -> Level:
        """The home and the chore of the task."""
        return make_level(self.task, self.family)

    def _start(self, task: str) -> TimeStep:
        self.state = State(at="", places=dict(self.level.places))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        command = rules.parse(action)
        if command is None:
            return self._invalid(f"Unknown command. The commands are: {', '.join(COMMANDS)}.")
        why = rules.refusal(self.level, self.state, command)
        if why:
            return self._invalid(why)
        feedback = rules.apply(self.state, command)
        return self._look(feedback or self._answer(command))

    def _answer(self, command: Command) -> str:
        """Returns the feedback of a command that changes nothing."""
        verb, name, _ = command
        if verb == "look" and self.state.at:
            return self._around()
        if verb == "help":
            return f"The commands are: {', '.join(COMMANDS)}."
        if verb == "inventory":
            return self._hand()
        return f"This is {self._described(name)}." if name in self.state.places else ""

    def _around(self) -> str:
        return f"Around you: {listed(self.level.home.receptacles)}."

    def _described(self, thing: str) -> str:
        """Returns a thing with its state."""
        state = self.state
        facts = [TREATED[name] for name, things in state.treated.items() if thing in things]
        facts += ["on"] * (thing in state.lit)
        return f"{thing} ({listed(facts)})" if facts else thing

    def _hand(self) -> str:
        held = self.state.held
        return f"You are holding {self._described(held) if held else 'nothing'}."

    def _place(self) -> str:
        state = self.state
        if not state.at:
            return f"You are in the middle of {a(self.level.home.room)}. {self._around()}"
        if state.closed(state.at):
            return f"You are at {state.at}. It is closed."
        inside = [name + " (on)" * (name in state.lit) for name in state.inside(state.at)]
        is_open = " It is open." * (kind_of(state.at) in OPENABLE)
        where = rules.preposition(state.at).capitalize()
        return f"You are at {state.at}.{is_open} {where} it: {listed(inside)}."

    def _look(self, feedback: str = "") -> TimeStep:
        level, state = self.level, self.state
        progress = rules.progress(level, state)
        done = progress == 1
        return TimeStep(
            text=f"{self._place()}\n{self._hand()} Your chore: {chore(level)}",
            rewards={"task": float(done)},
            terminated=done,
            success=done,
            progress=progress,
            admissible=() if done else tuple(map(rules.say, rules.commands(level, state))),
            state_key=self._key(),
            feedback=feedback,
        )

    def _key(self) -> str:
        """Returns the complete state except the agent's memory."""
        state = self.state
        parts = [
            self.task,
            state.at,
            *(f"{thing}:{place}" for thing, place in state.places.items()),
        ]
        parts += sorted(state.opened) + sorted(state.lit)
        parts += [f"{name}:{thing}" for name, of in state.treated.items() for thing in sorted(of)]
        return "|".join(parts)

    def privileged_text(self) -> str:
        """Returns the chore, its progress, and the places of the things that it needs."""
        level, state = self.level, self.state
        mine = {t: place for t, place in state.places.items() if kind_of(t) == level.kind}
        where = ". ".join(f"{self._described(thing)}: {place}" for thing, place in mine.items())
        done = rules.progress(level, state)
        return f"{chore(level)} At: {state.at or 'start'}. {where}. {done:.0%} done."

    def expert(self) -> str | None:
        """Returns the next command of an expert that knows only its own observations."""
        if rules.progress(self.level, self.state) == 1:
            return None
        return rules.say(next_command(self.level, self.state))
