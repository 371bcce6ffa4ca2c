"""VirtualHome's entertainment: watch TV from the sofa with chips and milk."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.envs.virtualhome.house import ROOMS, Chore, Move

THINGS = ("chips", "milk")
FURNITURE = ("coffee table", "TV", "sofa")
TABLE, TV, SOFA = FURNITURE


@dataclass(frozen=True)
class State:
    """The complete state.

    Attributes:
        room: room of the agent.
        rooms: rooms of the chips and the milk in the simulator. For a held thing, the room before
            the last walk.
        held: things that the agent holds.
        laid: things on the coffee table.
        close: things and furniture within reach.
        tv_on: whether the TV is on.
        seated: whether the agent sits, so that it cannot walk.
        on_sofa: whether the agent ever sat down. The simulator never resets it.
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
        """Whether the chips or the milk are visible."""
        return thing in self.held or self.rooms[THINGS.index(thing)] == self.room

    @property
    def sees_furniture(self) -> bool:
        """Whether the coffee table, the TV and the sofa are visible."""
        return self.room == "living room"

    @property
    def done(self) -> bool:
        """Whether the agent watches TV with chips and milk at hand."""
        watches = self.tv_on and self.faces_tv and self.on_sofa and self.sees_furniture
        return watches and (self.close | self.laid).issuperset(THINGS)


def walk(state: State, target: str) -> State | None:
    """Returns the state after walking to a room, a thing or furniture, None if impossible."""
    if state.seated:
        return None
    room, reached = target, set(state.held)
    if target in THINGS:
        if not state.sees(target):
            return None
        # The simulator also walks to a held thing, in the room where it believes the thing is.
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
    """Returns the state after "grab" or "put", None if impossible."""
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
    """Returns the state after "on", "off", "sit" or "stand", None if impossible."""
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
    """Fetch chips and milk, turn on the TV and watch it from the sofa.

    ## Description
    The second VirtualHome task of TWOSOME and POAD: watch TV with snacks. The agent has two hands,
    part of the state is hidden, and the only reward comes at the end. The chore has two traps:

    - With both hands full, the TV cannot be turned on. One thing must go on the coffee table first.
    - An agent that sits down too early cannot walk until it stands up.

    ## Action Space
    Text: one of seventeen actions.

    - `walk to the kitchen` (or another room)
    - `walk to the chips` (or the milk, the coffee table, the TV, the sofa)
    - `grab the chips`, `grab the milk`
    - `put the chips on the coffee table`, `put the milk on the coffee table`
    - `turn on the TV`, `turn off the TV`
    - `sit on the sofa`, `stand up from the sofa`

    `info["admissible"]` lists the reference's choice for the state. Some of these actions may have
    no effect. Other actions are accepted if they are possible.

    ## Observation Space
    Text: the room, visible things, the furniture within reach, the things in hand, and the chore.
    The text shows only at the TV and on the sofa whether the TV is on.

    ## Rewards
    Term `task`: 1 when the agent sits on the sofa facing the TV, the TV is on, and the chips and
    the milk are each within reach or on the coffee table.

    ## Starting State
    The chips and the milk are in the kitchen and the TV is off. The task names the agent's room.
    The reference starts in `start/kitchen`.

    ## Episode End
    - Termination: the chore is done.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the share of the shortest solution that is done. `state_key`
    covers the complete state, including facts that the text leaves out.

    ## Arguments
    - `max_turns` (int or None, default 50): turn limit.

    ## Notes
    - There are only four initial states, so behaviour cloning alone solves the task. Use it to
      compare how fast methods learn from a single final reward. `Household-v0` is harder.
    - As in the simulator, walking to a held thing takes the agent back to the room where its last
      walk started.

    ## References
    TWOSOME (arXiv 2401.14151), POAD (arXiv 2405.15821), VirtualHome (arXiv 1806.07011). The
    automaton has the 213 distinct observation vectors of the reference and the same transitions
    between them. It has 576 states and the reference 821, because the reference tells the hands
    apart. Observation vectors, rewards and admissible actions are the same on all recorded steps,
    and two texts are equal exactly when the reference's prompts are. The wording of the texts is
    our own. One slip of the reference is not reproduced: if only one of the two things is in the
    kitchen, the reference offers to walk to the other.

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
            f"To do the chore, sit on the {SOFA} in the living room, facing the {TV}. The {TV} "
            f"must be on. The chips and the milk must each be in your hand or on the {TABLE}.",
            "You can only use things within reach. Walk to a thing to reach it.",
            "When you walk somewhere else, only the things you hold stay within reach.",
            f"Each hand holds one thing. You need a free hand to turn the {TV} on or off.",
            f"Sitting down on the {SOFA} turns you to face the {TV}.",
            "You cannot walk while you sit: stand up first. After walking, sit down again.",
            "Observations leave some facts out, so remember your actions.",
        )
        names = dict(zip(self.moves, names, strict=True))
        chore = "enjoy the chips and the milk while watching TV"
        super().__init__(names, chore, rules, max_turns=max_turns, **kwargs)

    @staticmethod
    def apply(state: State, verb: str, target: str) -> State | None:
        """Returns the state after a move, None if the move is impossible."""
        if verb == "walk":
            return walk(state, target)
        return handle(state, verb, target) if target else operate(state, verb)

    @staticmethod
    def offered(state: State) -> list[Move]:
        """Returns the reference's admissible moves, some of which may have no effect."""
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
        """Returns the observation of a state, equal for two states iff the reference's is."""
        lines = [f"You are in the {state.room}."]
        if state.sees_furniture:
            lines += self._furniture(state)
        elif state.room == "kitchen":
            loose = [thing for thing in THINGS if state.sees(thing) and thing not in state.held]
            seen = [f"the {t}" + " (within reach)" * (t in state.close) for t in loose]
            if seen:
                lines.append(f"You see {' and '.join(seen)}.")
        held = [f"the {thing}" for thing in THINGS if thing in state.held]
        lines.append(f"You are holding {' and '.join(held)}." if held else "Your hands are empty.")
        return " ".join(lines)

    def _furniture(self, state: State) -> list[str]:
        """Returns the sentences about the living room, which is only partly observed."""
        lines = ["You see a coffee table, a TV and a sofa."]
        at = [piece for piece in FURNITURE if piece in state.close]
        if not at:
            return [*lines, "None of them is within reach."]
        seated = at == [SOFA] and state.on_sofa
        lines.append(f"You are on the {SOFA}." if seated else f"You are standing at the {at[0]}.")
        if at == [TV] or (at == [SOFA] and state.held):
            lines.append(f"The TV is {'on' if state.tv_on else 'off'}.")
        if len(state.held) == 1:
            verbs = {"chips": "are", "milk": "is"}
            lines += [f"The {thing} {verbs[thing]} on the {TABLE}." for thing in state.laid]
        return lines
