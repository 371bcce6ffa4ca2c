"""VirtualHome's food preparation: put the food into the appliance and close it."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.core import TextEnv, TimeStep
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks

ROOMS = ("living room", "kitchen", "bathroom", "bedroom")
VARIANTS = {
    "pancake": ("pancake", "microwave", "heat the pancake"),
    "cheese": ("cheese", "microwave", "heat the cheese"),
    "hamburger": ("hamburger", "microwave", "heat the hamburger"),
    "apple pie": ("apple pie", "microwave", "heat the apple pie"),
    "pizza": ("pizza", "microwave", "heat the pizza"),
    "plate": ("plate", "dishwasher", "wash the plate"),
    "laundry": ("clothes", "washing machine", "wash the clothes"),
}
"""For each variant the thing, the appliance and the chore."""


@dataclass
class State:
    """Everything there is to know.

    Attributes:
        room: where the agent is.
        thing_room: where the thing was last put down or found.
        holding: whether the agent holds it.
        close_to_thing: whether it is within reach.
        close_to_appliance: whether the appliance is.
        open: whether the appliance is open.
        inside: whether the thing is in it.
    """

    room: str = "kitchen"
    thing_room: str = "kitchen"
    holding: bool = False
    close_to_thing: bool = False
    close_to_appliance: bool = False
    open: bool = False
    inside: bool = False

    @property
    def sees_thing(self) -> bool:
        """Whether the thing can be seen: not through a closed door."""
        if self.inside:
            return self.room == "kitchen" and self.open
        return self.holding or self.thing_room == self.room

    @property
    def done(self) -> bool:
        """Whether the thing is shut away and the agent stands in the kitchen."""
        return self.room == "kitchen" and not self.sees_thing and not self.holding


def walk(state: State, target: str) -> bool:
    """Walks to a room, "thing" or "appliance"; returns whether that was possible."""
    if target == "thing":
        if not state.sees_thing:
            return False
        if state.holding:  # the simulator walks to where it thinks the held thing is
            state.room = state.thing_room
        state.close_to_thing = True
        state.close_to_appliance = state.close_to_appliance and state.inside
        return True
    if target == "appliance":
        if state.room != "kitchen":
            return False
        state.close_to_appliance = True
        state.close_to_thing = state.close_to_thing and (state.holding or state.inside)
        return True
    state.room, state.close_to_appliance = target, False
    state.close_to_thing = state.holding
    return True


def handle(state: State, verb: str) -> bool:
    """Does "grab", "put", "open" or "close"; returns whether that was possible."""
    if verb == "grab":
        possible = state.close_to_thing and state.sees_thing and not state.holding
        if possible:
            state.holding, state.inside = True, False
    elif verb == "put":
        possible = state.holding and state.close_to_appliance and state.open
        if possible:
            state.holding, state.inside, state.thing_room = False, True, "kitchen"
    else:
        possible = state.close_to_appliance and state.open == (verb == "close")
        if possible:
            state.open = verb == "open"
    return possible


class FoodPreparation(TextEnv):
    """Find the food, put it into the microwave, close it; a chore in a house of four rooms.

    ## Description
    The first VirtualHome task of TWOSOME and POAD, "heat the pancake", and six variants with other
    nouns. Ten actions; hidden state (what is in reach stays so only while nothing else is walked
    to); a single reward at the end.

    ## Action Space
    Text: one of ten. Those that make sense are admissible; the others are understood and change
    nothing where they are impossible.

    ## Observation Space
    Text: the room, what is seen, what is within reach, what is held, the appliance, the chore.

    ## Rewards
    1 (term `task`) when the thing is in the closed appliance and the agent in the kitchen.

    ## Starting State
    The thing lies in the kitchen, the appliance is closed; the task names the agent's room. Task
    `start/kitchen` is the reference's.

    ## Episode End
    Termination: the chore is done. Truncation: after `max_turns`.

    ## Information
    The common keys; `progress` counts the steps of the shortest way that are done.

    ## Arguments
    `variant`: "pancake", "cheese", "hamburger", "apple pie", "pizza", "plate" or "laundry".
    `max_turns`: default 50.

    ## Example Transcript
    ```
    You are in the kitchen. You see the pancake and the microwave, which is closed. ...
    > walk to the pancake
    ... The pancake is within reach. ...
    ```

    ## Baselines
    200 test episodes: random 0.01 return, 1.5 % success; expert 1.00, 100 %. From the reference's
    start the expert takes six steps, the fewest possible.

    ## Registered Configurations
    `VirtualHome-FoodPreparation-v0` and one id for each variant, such as
    `VirtualHome-FoodPreparation-Pizza-v0`.

    ## References
    TWOSOME (arXiv 2401.14151), POAD (arXiv 2405.15821), VirtualHome (arXiv 1806.07011). On all 637
    recorded steps the reference's observation bits, rewards and admissible actions are the same;
    texts are in other words.

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(self, *, variant: str = "pancake", max_turns: int | None = 50, **kwargs):
        if variant not in VARIANTS:
            hint = did_you_mean(variant, VARIANTS)
            known = ", ".join(VARIANTS)
            raise ValueError(f"variant must be one of {known}, got {variant!r}.{hint}")
        super().__init__(max_turns=max_turns, **kwargs)
        self.variant = variant
        self.thing, self.appliance, self.chore = VARIANTS[variant]
        self.tasks = Tasks(
            train=("start/kitchen", "start/living room"), test=("start/bathroom", "start/bedroom")
        )
        self.actions = {f"walk to the {room}": ("walk", room) for room in ROOMS} | {
            f"walk to the {self.thing}": ("walk", "thing"),
            f"walk to the {self.appliance}": ("walk", "appliance"),
            f"grab the {self.thing}": ("grab", ""),
            f"put the {self.thing} in the {self.appliance}": ("put", ""),
            f"open the {self.appliance}": ("open", ""),
            f"close the {self.appliance}": ("close", ""),
        }
        self.instructions = (
            f"You are at home, in a house with four rooms: {', '.join(ROOMS)}. Your chore: "
            f"{self.chore}. It is done when the {self.thing} is in the closed {self.appliance}. "
            f"You can only use what is within reach: walk to it first. Actions: "
            f"{'; '.join(self.actions)}. Answer with one of them, nothing else."
        )

    def _start(self, task: str) -> TimeStep:
        self.state = State(room=task.removeprefix("start/"))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        known = self.actions.get(action.strip().lower())
        if known is None:
            return self._invalid(f"Say one of: {'; '.join(self.actions)}.")
        verb, target = known
        offered = action.strip().lower() in self._admissible()
        possible = walk(self.state, target) if verb == "walk" else handle(self.state, verb)
        if not possible and not offered:
            return self._invalid("That is not possible now.")
        return self._look("" if possible else "Nothing happens.")

    def _look(self, feedback: str = "") -> TimeStep:
        state = self.state
        done = state.done
        left = len(self._plan())
        return TimeStep(
            text=self._describe(),
            rewards={"task": float(done)},
            terminated=done,
            success=done,
            progress=1.0 if done else max(0.0, 1 - left / 7),
            admissible=() if done else tuple(self._admissible()),
            feedback=feedback,
        )

    def _admissible(self) -> list[str]:
        """The reference's choice of what makes sense; some of it may do nothing."""
        state = self.state
        names = [f"walk to the {room}" for room in ROOMS if room != state.room]
        if state.room == "kitchen":
            if state.sees_thing and (state.holding or not state.close_to_thing):
                names.append(f"walk to the {self.thing}")
            if not state.close_to_appliance:
                names.append(f"walk to the {self.appliance}")
            if state.sees_thing and state.close_to_thing and not state.holding:
                names.append(f"grab the {self.thing}")
            if state.close_to_appliance:
                if state.holding:
                    names.append(f"put the {self.thing} in the {self.appliance}")
                names += [f"open the {self.appliance}", f"close the {self.appliance}"]
        return names

    def _describe(self) -> str:
        state, thing, appliance = self.state, f"the {self.thing}", f"the {self.appliance}"
        door = "open" if state.open else "closed"
        seen = [thing] * (state.sees_thing and not state.holding and not state.inside)
        seen += [f"{appliance}, which is {door}"] * (state.room == "kitchen")
        lines = [f"You are in the {state.room}."]
        if seen:
            lines.append(f"You see {' and '.join(seen)}.")
        if state.inside and state.sees_thing:
            lines.append(f"In {appliance} is {thing}.")
        reach = [thing] * (state.close_to_thing and not state.holding and state.sees_thing)
        reach += [appliance] * state.close_to_appliance
        if reach:
            lines.append(f"Within reach: {' and '.join(reach)}.")
        if state.holding:
            lines.append(f"You hold {thing}.")
        return " ".join([*lines, f"Your chore: {self.chore}."])

    def _plan(self) -> list[str]:
        """The shortest way to the end."""
        state = self.state
        fetch = [f"walk to the {self.thing}"] * (not state.close_to_thing)
        fetch.append(f"grab the {self.thing}")
        reach = [f"walk to the {self.appliance}"] * (not state.close_to_appliance)
        unlock = [f"open the {self.appliance}"] * (not state.open)
        put, shut = f"put the {self.thing} in the {self.appliance}", f"close the {self.appliance}"
        plan = [] if state.room == "kitchen" else ["walk to the kitchen"]
        if state.inside:
            return [*plan, *reach, shut] if state.open else plan
        if not state.holding:
            plan += fetch
            if not state.close_to_thing:  # walking there leaves the appliance
                reach = [f"walk to the {self.appliance}"]
        return [*plan, *reach, *unlock, put, shut]

    def expert(self) -> str | None:
        """Returns the next action of a shortest way."""
        return self._plan()[0]
