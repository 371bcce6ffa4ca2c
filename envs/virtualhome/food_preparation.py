"""VirtualHome's food preparation: put the food into the appliance and close it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.envs.virtualhome.house import ROOMS, Chore, Move
from agentgym.errors import did_you_mean

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


@dataclass(frozen=True)
class State:
    """Everything there is to know.

    Attributes:
        room: where the agent is.
        thing_room: where the simulator believes the thing: a held one in the room before the last
            walk.
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
        return self.room == "kitchen" and not self.sees_thing


def walk(state: State, target: str) -> State | None:
    """Returns the state after walking to a room, "thing" or "appliance"; None where impossible."""
    left_in = state.room if state.holding else state.thing_room
    if target == "thing":
        if not state.sees_thing:
            return None
        # To a held thing too, the simulator walks to where it believes the thing.
        room, thing, appliance = state.thing_room, True, state.inside
    elif target == "appliance":
        if state.room != "kitchen":
            return None
        room, thing, appliance = "kitchen", state.holding or state.inside, True
    else:
        room, thing, appliance = target, state.holding, False
    return replace(
        state, room=room, thing_room=left_in, close_to_thing=thing, close_to_appliance=appliance
    )


def handle(state: State, verb: str) -> State | None:
    """Returns the state after "grab", "put", "open" or "close"; None where that is impossible."""
    if verb == "grab":
        possible = state.close_to_thing and state.sees_thing and not state.holding
        after = replace(state, holding=True, inside=False, thing_room=state.room)
    elif verb == "put":
        possible = state.holding and state.close_to_appliance and state.open
        after = replace(state, holding=False, inside=True, thing_room="kitchen")
    else:
        possible = state.close_to_appliance and state.open == (verb == "close")
        after = replace(state, open=verb == "open")
    return after if possible else None


class FoodPreparation(Chore):
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
    start the expert takes six steps, the fewest possible. With four starts, imitation alone learns
    it (1.00 after 300 demonstrations): it compares how fast methods learn from its one reward, and
    what they make of another variant's words. `Household-v0` is a harder chore.

    ## Registered Configurations
    `VirtualHome-FoodPreparation-v0` and one id for each variant, such as
    `VirtualHome-FoodPreparation-Pizza-v0`.

    ## References
    TWOSOME (arXiv 2401.14151), POAD (arXiv 2405.15821), VirtualHome (arXiv 1806.07011). The
    automaton has the reference's 52 states and 19 distinct observations; on all recorded steps the
    observation bits, rewards and admissible actions are the same; texts are in other words.

    ## Version History
    v0: first version.
    """

    State = State
    moves = (
        *(("walk", target) for target in (*ROOMS, "thing", "appliance")),
        *((verb, "") for verb in ("grab", "put", "open", "close")),
    )

    def __init__(self, *, variant: str = "pancake", max_turns: int | None = 50, **kwargs):
        if variant not in VARIANTS:
            hint = did_you_mean(variant, VARIANTS)
            known = ", ".join(VARIANTS)
            raise ValueError(f"variant must be one of {known}, got {variant!r}.{hint}")
        self.variant = variant
        self.thing, self.appliance, chore = VARIANTS[variant]
        names = (
            *(f"walk to the {place}" for place in (*ROOMS, self.thing, self.appliance)),
            f"grab the {self.thing}",
            f"put the {self.thing} in the {self.appliance}",
            f"open the {self.appliance}",
            f"close the {self.appliance}",
        )
        rules = (
            f"It is done when the {self.thing} is in the closed {self.appliance}. "
            f"You can only use what is within reach: walk to it first."
        )
        names = dict(zip(self.moves, names, strict=True))
        super().__init__(names, chore, rules, max_turns=max_turns, **kwargs)

    @staticmethod
    def apply(state: State, verb: str, target: str) -> State | None:
        """Returns the state after a move; None where it is impossible."""
        return walk(state, target) if verb == "walk" else handle(state, verb)

    @staticmethod
    def offered(state: State) -> list[Move]:
        """Returns the reference's choice of what makes sense; some of it may do nothing."""
        moves = [("walk", room) for room in ROOMS if room != state.room]
        if state.room == "kitchen":
            if state.sees_thing and (state.holding or not state.close_to_thing):
                moves.append(("walk", "thing"))
            if not state.close_to_appliance:
                moves.append(("walk", "appliance"))
            if state.sees_thing and state.close_to_thing and not state.holding:
                moves.append(("grab", ""))
            if state.close_to_appliance:
                moves += [("put", "")] * state.holding + [("open", ""), ("close", "")]
        return moves

    def describe(self, state: State) -> str:
        """Returns what the agent reads of a state."""
        thing, appliance = f"the {self.thing}", f"the {self.appliance}"
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
        return " ".join(lines)
