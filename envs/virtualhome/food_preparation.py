"""VirtualHome's food preparation: put the food in the appliance and close it."""

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
"""The thing, the appliance and the chore of each variant."""


@dataclass(frozen=True)
class State:
    """The complete state.

    Attributes:
        room: room of the agent.
        thing_room: room of the thing in the simulator. For a held thing, the room before the last
            walk.
        holding: whether the agent holds the thing.
        close_to_thing: whether the thing is within reach.
        close_to_appliance: whether the appliance is within reach.
        open: whether the appliance is open.
        inside: whether the thing is in the appliance.
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
        """Whether the thing is visible. A closed door hides it."""
        if self.inside:
            return self.room == "kitchen" and self.open
        return self.holding or self.thing_room == self.room

    @property
    def done(self) -> bool:
        """Whether the agent is in the kitchen and the thing is in the closed appliance."""
        return self.room == "kitchen" and not self.sees_thing


def walk(state: State, target: str) -> State | None:
    """Returns the state after walking to a room, "thing" or "appliance", None if impossible."""
    left_in = state.room if state.holding else state.thing_room
    if target == "thing":
        if not state.sees_thing:
            return None
        # The simulator also walks to a held thing, in the room where it believes the thing is.
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
    """Returns the state after "grab", "put", "open" or "close", None if impossible."""
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
    """Put the food in the microwave and close it: a chore in a house of four rooms.

    ## Description
    The first VirtualHome task of TWOSOME and POAD, "heat the pancake", and six variants with other
    nouns. A thing stays within reach only until the agent walks somewhere else, part of the state
    is hidden, and the only reward comes at the end.

    ## Action Space
    Text: one of ten actions.

    - `walk to the kitchen` (or another room)
    - `walk to the pancake`, `walk to the microwave`
    - `grab the pancake`
    - `put the pancake in the microwave`
    - `open the microwave`, `close the microwave`

    `info["admissible"]` lists the reference's choice for the state. Some of these actions may have
    no effect. Other actions are accepted if they are possible.

    ## Observation Space
    Text: the room, visible things, things within reach, the thing in hand, whether the appliance is
    open, and the chore. From a distance, the text is the same for a thing inside the open appliance
    as for one beside it, as in the reference.

    ## Rewards
    Term `task`: 1 when the thing is in the closed appliance and the agent is in the kitchen.

    ## Starting State
    The thing is in the kitchen and the appliance is closed. The task names the agent's room. The
    reference starts in `start/kitchen`.

    ## Episode End
    - Termination: the chore is done.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the share of the shortest solution that is done.

    ## Arguments
    - `variant` (str, default "pancake"): "pancake", "cheese", "hamburger", "apple pie", "pizza",
      "plate" or "laundry".
    - `max_turns` (int or None, default 50): turn limit.

    ## Notes
    - There are only four initial states, so behaviour cloning alone solves the task. Use it to
      compare how fast methods learn from a single final reward, or how they generalise to the words
      of another variant. `Household-v0` is harder.
    - As in the simulator, walking to a held thing takes the agent back to the room where its last
      walk started.

    ## References
    TWOSOME (arXiv 2401.14151), POAD (arXiv 2405.15821), VirtualHome (arXiv 1806.07011). The
    automaton has the 52 states and 19 distinct observation vectors of the reference. Observation
    vectors, rewards and admissible actions are the same on all recorded steps, and two texts are
    equal exactly when the reference's prompts are. The wording of the texts is our own.

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
            f"To do the chore, put the {self.thing} in the {self.appliance} and close it.",
            "You can only use things within reach. Walk to a thing to reach it.",
            "When you walk somewhere else, only the thing you hold stays within reach.",
            f"Open the {self.appliance} before you put the {self.thing} in.",
            f"From a distance, you cannot see whether the {self.appliance} is empty.",
        )
        names = dict(zip(self.moves, names, strict=True))
        super().__init__(names, chore, rules, max_turns=max_turns, **kwargs)

    @staticmethod
    def apply(state: State, verb: str, target: str) -> State | None:
        """Returns the state after a move, None if the move is impossible."""
        return walk(state, target) if verb == "walk" else handle(state, verb)

    @staticmethod
    def offered(state: State) -> list[Move]:
        """Returns the reference's admissible moves, some of which may have no effect."""
        moves = [("walk", room) for room in ROOMS if room != state.room]
        if state.room == "kitchen":
            if state.sees_thing and (state.holding or not state.close_to_thing):
                moves.append(("walk", "thing"))
            if not state.close_to_appliance:
                moves.append(("walk", "appliance"))
            if state.close_to_thing and not (state.holding or state.inside):
                moves.append(("grab", ""))
            if state.close_to_appliance:
                moves += [("put", "")] * state.holding + [("open", ""), ("close", "")]
        return moves

    def describe(self, state: State) -> str:
        """Returns the observation of a state, equal for two states iff the reference's is."""
        thing, appliance = f"the {self.thing}", f"the {self.appliance}"
        door = "open" if state.open else "closed"
        # As in the reference, the agent sees that the thing is inside only from close by.
        inside = state.inside and state.close_to_thing and state.open
        seen = [thing] * (state.sees_thing and not (state.holding or inside))
        if state.room == "kitchen":
            seen.append(f"{appliance}, which is {door}" + f", with {thing} inside" * inside)
        lines = [f"You are in the {state.room}."]
        if seen:
            lines.append(f"You see {' and '.join(seen)}.")
        reach = [thing] * (state.close_to_thing and not state.holding and state.sees_thing)
        reach += [appliance] * state.close_to_appliance
        if reach:
            lines.append(f"Within reach: {' and '.join(reach)}.")
        if state.holding:
            lines.append(f"You are holding {thing}.")
        return " ".join(lines)
