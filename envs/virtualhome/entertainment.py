"""VirtualHome's entertainment: watch TV from the sofa with chips and milk at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.envs.virtualhome.house import ROOMS, Chore, Move

THINGS = ("chips", "milk")
FURNITURE = ("coffee table", "TV", "sofa")
TABLE, TV, SOFA = FURNITURE


@dataclass(frozen=True)
class State:
    """Everything there is to know.

    Attributes:
        room: where the agent is.
        rooms: where the simulator believes the chips and the milk: a held thing in the room before
            the last walk.
        held: which of them the agent holds.
        laid: which of them lie on the coffee table.
        close: things and furniture within reach.
        tv_on: whether the TV is on.
        seated: whether the agent sits, so that it cannot walk.
        on_sofa: whether the agent ever sat down; the simulator forgets to undo it.
        faces_tv: whether the agent has sat down since it last walked.
    """

    room: str = "kitchen"
    rooms: tuple[str, str] = ("kitchen", "kitchen")
    held: frozenset[str] = frozenset()
    laid: frozenset[str] = frozenset()
    close: frozenset[str] = frozenset()
    tv_on: bool = False
    seated: bool = False
    on_sofa: bool = False
    faces_tv: bool = False

    def sees(self, thing: str) -> bool:
        """Whether the chips or the milk can be seen."""
        return thing in self.held or self.rooms[THINGS.index(thing)] == self.room

    @property
    def sees_furniture(self) -> bool:
        """Whether coffee table, TV and sofa can be seen."""
        return self.room == "living room"

    @property
    def done(self) -> bool:
        """Whether the agent watches TV with chips and milk at hand."""
        watches = self.tv_on and self.faces_tv and self.on_sofa and self.sees_furniture
        return watches and (self.close | self.laid).issuperset(THINGS)


def walk(state: State, target: str) -> State | None:
    """Returns the state after walking to a room, a thing or furniture; None where impossible."""
    if state.seated:
        return None
    room, reached = target, set(state.held)
    if target in THINGS:
        if not state.sees(target):
            return None
        # To a held thing too, the simulator walks to where it believes the thing.
        room = state.rooms[THINGS.index(target)]
        reached |= {target, TABLE} if target in state.laid else {target}
    elif target in FURNITURE:
        if not state.sees_furniture:
            return None
        room = state.room
        reached.add(target)
    chips, milk = (
        state.room if thing in state.held else there
        for thing, there in zip(THINGS, state.rooms, strict=True)
    )
    return replace(state, room=room, rooms=(chips, milk), close=frozenset(reached), faces_tv=False)


def handle(state: State, verb: str, thing: str) -> State | None:
    """Returns the state after "grab" or "put"; None where that is impossible."""
    if verb == "put":
        if thing not in state.held or TABLE not in state.close:
            return None
        return replace(state, held=state.held - {thing}, laid=state.laid | {thing})
    lies_near = thing in state.laid and TABLE in state.close
    if thing in state.held or not state.sees(thing) or not (thing in state.close or lies_near):
        return None
    chips, milk = (
        state.room if one == thing else there
        for one, there in zip(THINGS, state.rooms, strict=True)
    )
    return replace(
        state,
        rooms=(chips, milk),
        held=state.held | {thing},
        laid=state.laid - {thing},
        close=state.close | {thing},
    )


def operate(state: State, verb: str) -> State | None:
    """Returns the state after "on", "off", "sit" or "stand"; None where that is impossible."""
    if verb == "sit":
        possible = SOFA in state.close and not state.seated
        after = replace(state, seated=True, on_sofa=True, faces_tv=True)
    elif verb == "stand":
        possible, after = state.seated, replace(state, seated=False)
    else:
        free_hand = len(state.held) < len(THINGS)
        possible = TV in state.close and free_hand and state.tv_on == (verb == "off")
        after = replace(state, tv_on=verb == "on")
    return after if possible else None


class Entertainment(Chore):
    """Fetch chips and milk, turn the TV on, sit down to it: a chore with traps.

    ## Description
    The second VirtualHome task of TWOSOME and POAD: watch TV with snacks. Seventeen actions, two
    hands, a single reward at the end. With both hands full the TV cannot be turned on, so that
    something must go on the coffee table first; whoever sits down too early does not get up unless
    they say so; and much of the state is not told.

    ## Action Space
    Text: one of seventeen. Those that make sense are admissible; the others are understood and
    change nothing where they are impossible.

    ## Observation Space
    Text: the room, what is seen there, what the agent stands at, what it holds, the chore. Only at
    the TV and the sofa does it say whether the TV is on.

    ## Rewards
    1 (term `task`) when the agent sits on the sofa facing the running TV, chips and milk each
    within reach or on the coffee table.

    ## Starting State
    Chips and milk are in the kitchen, the TV is off; the task names the agent's room. Task
    `start/kitchen` is the reference's.

    ## Episode End
    Termination: the chore is done. Truncation: after `max_turns`.

    ## Information
    The common keys; `progress` says how much shorter the shortest way has become, `state_key` names
    the whole state, also what the text does not tell.

    ## Arguments
    `max_turns`: default 50.

    ## Example Transcript
    ```
    You are in the kitchen. You see the chips (within reach) and the milk. Your hands are empty. ...
    > grab the chips
    You are in the kitchen. You see the milk. You hold the chips. ...
    ```

    ## Baselines
    100 test episodes: random 0.01 return, 1 % success; expert (a shortest way) 1.00, 100 %, in
    eleven turns. With four starts, imitation alone learns it (1.00 after 300 demonstrations): it
    compares how fast methods learn from its one reward. `Household-v0` is a harder chore.

    ## Registered Configurations
    `VirtualHome-Entertainment-v0`.

    ## References
    TWOSOME (arXiv 2401.14151), POAD (arXiv 2405.15821), VirtualHome (arXiv 1806.07011). The
    automaton has the reference's 213 distinct observations and transitions between them (and 576
    states for its 821, which tell the hands apart); on all recorded steps the observation bits,
    rewards and admissible actions are the same, and two texts are equal exactly where the
    reference's are, in other words. One slip is not followed: where only one of the two things is
    in the kitchen, the reference offers to walk to the other.

    ## Version History
    v0: first version.
    """

    State = State
    moves = (
        *(("walk", target) for target in (*ROOMS, *THINGS, *FURNITURE)),
        *((verb, thing) for verb in ("grab", "put") for thing in THINGS),
        *((verb, "") for verb in ("on", "off", "sit", "stand")),
    )

    def __init__(self, *, max_turns: int | None = 50, **kwargs):
        names = (
            *(f"walk to the {target}" for target in (*ROOMS, *THINGS, *FURNITURE)),
            *(f"grab the {thing}" for thing in THINGS),
            *(f"put the {thing} on the {TABLE}" for thing in THINGS),
            *(f"turn {way} the {TV}" for way in ("on", "off")),
            f"sit on the {SOFA}",
            f"stand up from the {SOFA}",
        )
        rules = (
            f"It is done when you sit on the {SOFA} in the living room, facing the {TV}, which is "
            f"on, and the chips and the milk are each in your hand or on the {TABLE}. You can only "
            "use what is within reach: walk to it first; then you leave everything else but what "
            f"you hold. Each hand holds one thing; turning the {TV} on needs a free hand. Sitting "
            f"down turns you to the {TV}; while you sit you cannot walk, and once you have walked "
            "away you must sit down again. What you read is not everything: remember what you did."
        )
        names = dict(zip(self.moves, names, strict=True))
        chore = "enjoy the chips and the milk while watching TV"
        super().__init__(names, chore, rules, max_turns=max_turns, **kwargs)

    @staticmethod
    def apply(state: State, verb: str, target: str) -> State | None:
        """Returns the state after a move; None where it is impossible."""
        if verb == "walk":
            return walk(state, target)
        return handle(state, verb, target) if target else operate(state, verb)

    @staticmethod
    def offered(state: State) -> list[Move]:
        """Returns the reference's choice of what makes sense; some of it may do nothing."""
        moves = [("walk", room) for room in ROOMS if room != state.room]
        if state.room == "kitchen":
            loose = [thing for thing in THINGS if state.sees(thing) and thing not in state.held]
            moves += [("walk", thing) for thing in loose if thing not in state.close]
            moves += [("grab", thing) for thing in loose if thing in state.close]
        if not state.sees_furniture or (SOFA in state.close and state.on_sofa):
            return moves
        if TABLE in state.close and not state.held:
            return moves
        moves += [("walk", target) for target in FURNITURE if target not in state.close]
        if TABLE in state.close and not state.laid:
            moves += [("put", thing) for thing in THINGS if thing in state.held]
        elif TV in state.close and not state.tv_on:
            moves += [("on", ""), ("off", "")]
        elif SOFA in state.close and state.tv_on:
            moves += [("sit", ""), ("stand", "")]
        return moves

    def describe(self, state: State) -> str:
        """Returns what the agent reads of a state."""
        lines = [f"You are in the {state.room}."]
        if state.sees_furniture:
            lines += self._furniture(state)
        elif state.room == "kitchen":
            loose = [thing for thing in THINGS if state.sees(thing) and thing not in state.held]
            seen = [f"the {t}" + " (within reach)" * (t in state.close) for t in loose]
            if seen:
                lines.append(f"You see {' and '.join(seen)}.")
        held = [f"the {thing}" for thing in THINGS if thing in state.held]
        lines.append(f"You hold {' and '.join(held)}." if held else "Your hands are empty.")
        return " ".join(lines)

    def _furniture(self, state: State) -> list[str]:
        """What the reference tells of the living room, which is not everything."""
        lines = ["Here are a coffee table, a TV and a sofa."]
        at = [piece for piece in FURNITURE if piece in state.close]
        if not at:
            return [*lines, "None of them is within reach."]
        seated = at == [SOFA] and state.on_sofa
        lines.append(f"You are on the {SOFA}." if seated else f"You stand at the {at[0]}.")
        if at == [TV] or (at == [SOFA] and state.held):
            lines.append(f"The TV is {'on' if state.tv_on else 'off'}.")
        if len(state.held) == 1:
            lines += [f"The {thing} is on the {TABLE}." for thing in state.laid]
        return lines
