"""Tyreworld: replace flat wheels and put the tools away."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from agentgym.core import TurnLimit
from agentgym.envs.planning.env import PlanningEnv
from agentgym.envs.planning.strips import Domain, Fact, Facts, Schema, World

DOMAIN = Domain(
    sentences={
        "open": "the boot is open",
        "closed": "the boot is closed",
        "stowed": "{} is in the boot",
        "have": "you have {}",
        "inflated": "{} is inflated",
        "limp": "{} is not inflated",
        "down": "{} is on the ground",
        "under": "{1} is under {0}, which is off the ground",
        "tight": "{} is tight on {}",
        "loose": "{} is loose on {}",
        "fitted": "{} is on {}",
        "bare": "{} has no wheel",
        "undone": "{} has no nut",
    },
    schemas=(
        Schema("open the boot", "b:boot", when="closed", then="open, not closed"),
        Schema("close the boot", "b:boot", when="open", then="closed, not open"),
        Schema(
            "take {x} out",
            "x:thing",
            when="stowed x, open",
            then="have x, not stowed x",
            also=("take out {x}", "take {x} out of boot"),
        ),
        Schema(
            "put {x} away",
            "x:thing",
            when="have x, open",
            then="stowed x, not have x",
            also=("put away {x}", "put {x} in boot", "put {x} into boot"),
        ),
        Schema(
            "inflate {w}",
            "w:spare p:pump",
            when="have p, limp w",
            then="inflated w, not limp w",
        ),
        Schema(
            "loosen {n}",
            "n:nut h:hub w:wrench",
            when="have w, tight n h, down h",
            then="loose n h, not tight n h",
            also=("loosen {n} on {h}",),
        ),
        Schema(
            "tighten {n}",
            "n:nut h:hub w:wrench",
            when="have w, loose n h, down h",
            then="tight n h, not loose n h",
            also=("tighten {n} on {h}",),
        ),
        Schema(
            "jack up {h}",
            "h:hub j:jack",
            when="have j, down h",
            then="under h j, not down h, not have j",
        ),
        Schema(
            "jack down {h}",
            "h:hub j:jack",
            when="under h j",
            then="down h, have j, not under h j",
        ),
        Schema(
            "undo {n}",
            "n:nut h:hub w:wrench j:jack",
            when="have w, under h j, loose n h",
            then="have n, undone h, not loose n h",
            also=("undo {n} on {h}", "undo {n} from {h}"),
        ),
        Schema(
            "do up {n} on {h}",
            "n:nut h:hub w:wrench j:jack",
            when="have w, have n, under h j, undone h",
            then="loose n h, not have n, not undone h",
        ),
        Schema(
            "remove {x}",
            "x:wheel h:hub j:jack",
            when="under h j, fitted x h, undone h",
            then="have x, bare h, not fitted x h",
            also=("remove {x} from {h}",),
        ),
        Schema(
            "put {x} on {h}",
            "x:wheel h:hub j:jack",
            when="have x, under h j, bare h, undone h",
            then="fitted x h, not have x, not bare h",
        ),
    ),
)
TOOLS = ("the wrench", "the jack", "the pump")


@lru_cache
def world(hubs: int) -> World:
    """Returns the world with a number of flat wheels."""
    flats, spares = ([f"{kind}{i + 1}" for i in range(hubs)] for kind in ("flat", "spare"))
    objects = {
        "boot": ["boot"],
        "wrench": TOOLS[:1],
        "jack": TOOLS[1:2],
        "pump": TOOLS[2:],
        "hub": [f"hub{i + 1}" for i in range(hubs)],
        "nut": [f"nut{i + 1}" for i in range(hubs)],
        "spare": spares,
        "wheel": [*flats, *spares],
        "thing": [*TOOLS, *flats, *spares],
    }
    return World(DOMAIN, objects)


class Tyreworld(PlanningEnv):
    """Replace flat wheels with inflated spare wheels and put the tools into the boot.

    ## Description
    A classic planning domain with long chains of necessary steps: open the boot, take the tools
    out, loosen the nut before the hub is jacked up, undo it, swap the wheels, do the nut up, jack
    the hub down before the nut is tightened, inflate the spare wheel, put everything away and close
    the boot. There is one jack, so the hubs are handled one after the other.

    ## Action Space
    Text, one of:

    - `open the boot`, `close the boot`
    - `take the wrench out`, `put the wrench away`: with the boot open.
    - `inflate spare1`: with the pump.
    - `loosen nut1`, `tighten nut1`: with the wrench, hub on the ground.
    - `jack up hub1`, `jack down hub1`: with the jack.
    - `undo nut1`, `do up nut1 on hub1`: with the wrench, hub jacked up.
    - `remove flat1`, `put spare1 on hub1`: hub jacked up, nut undone.

    ## Observation Space
    Text: the goal, then all facts that currently hold, one sentence per fact.

    ## Rewards
    1 (term `task`) when all goal facts hold, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Sampled from the task name: the spare wheel of each hub, whether the boot is open, which nuts
    are loose, which spare wheels are inflated, and the contents of the boot. There are 2,048
    initial states with two hubs and 128 with one.

    ## Episode End
    Termination: all goal facts hold. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the maximum so far of the fraction of goal facts that hold, as in
    AgentBoard.

    ## Arguments
    - `hubs` (int, default 2): number of hubs with a flat wheel, 1 to 4.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 15 plus 15 per hub. A
      shortest plan takes at most 8 plus 11 per hub.

    ## References
    Russell's flat-tyre domain of the UCPOP collection, 1992. AgentBoard (arXiv 2401.13178) uses it
    to evaluate language models.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Replace the flat wheels of a car until every sentence of the goal is true. You can use "
        "the tools and wheels that you have, not those in the boot.\n"
        "Each turn, reply with one action:\n"
        "- open the boot, close the boot\n"
        "- take the wrench out: take a tool or wheel out of the open boot.\n"
        "- put the wrench away: put a tool or wheel that you have into the open boot.\n"
        "- inflate spare1: inflate a spare wheel. You need the pump.\n"
        "- loosen nut1, tighten nut1: the hub must be on the ground. You need the wrench.\n"
        "- jack up hub1: you need the jack, which stays under the hub.\n"
        "- jack down hub1: lower the hub and take the jack back.\n"
        "- undo nut1: take a loose nut off a jacked up hub. You need the wrench.\n"
        "- do up nut1 on hub1: put a nut on a jacked up hub, where it is loose. You need the "
        "wrench.\n"
        "- remove flat1: take a wheel off a jacked up hub without a nut.\n"
        "- put spare1 on hub1: put a wheel on a jacked up hub without a wheel.\n"
        "The episode ends with a reward of 1 when every sentence of the goal is true."
    )

    def __init__(self, *, hubs: int = 2, max_turns: TurnLimit = "auto", **kwargs):
        if not 1 <= hubs <= 4:
            raise ValueError(f"hubs must be in [1, 4], got {hubs}.")
        self.hubs = hubs
        turns = 15 + 15 * hubs if max_turns == "auto" else max_turns
        super().__init__(world(hubs), max_turns=turns, **kwargs)

    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        def either(*names: str) -> str:
            return names[int(rng.integers(len(names)))]

        numbers = range(1, self.hubs + 1)
        facts: list[Fact] = [(either("open", "closed"),)]
        facts += [(either("stowed", "have"), tool) for tool in TOOLS]
        goal: list[Fact] = [("closed",), *(("stowed", tool) for tool in TOOLS)]
        spares = rng.permutation(self.hubs) + 1
        for i, spare in zip(numbers, spares, strict=True):
            facts += [("fitted", f"flat{i}", f"hub{i}"), ("down", f"hub{i}")]
            facts.append((either("tight", "loose"), f"nut{i}", f"hub{i}"))
            facts.append((either("stowed", "have"), f"spare{i}"))
            facts.append((either("limp", "inflated"), f"spare{i}"))
            goal += [("fitted", f"spare{spare}", f"hub{i}"), ("tight", f"nut{i}", f"hub{i}")]
            goal += [("inflated", f"spare{i}"), ("stowed", f"flat{i}"), ("down", f"hub{i}")]
        return frozenset(facts), frozenset(goal)

    @staticmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Counts the remaining actions per hub and the handling of the boot, tools and wheels."""
        wrench, jack, pump = TOOLS
        needed = {fact[1] for fact in goal - facts if fact[0] == "fitted"}
        nuts = {fact[2]: fact[1] for fact in goal if fact[0] == "tight"}
        total = 0
        for _, wheel, hub in (fact for fact in goal if fact[0] == "fitted"):
            left = _left(facts, hub, nuts[hub], wheel)
            total += left
            if left > 1:
                needed.add(wrench)
            if left > 3 and ("down", hub) in facts:
                needed.add(jack)
        limp = sum(fact[0] == "inflated" for fact in goal - facts)
        if limp:
            needed.add(pump)
        away = {fact[1] for fact in facts if fact[0] == "stowed"}
        stow = {fact[1] for fact in goal if fact[0] == "stowed"}
        handling = len(needed & away) + len(stow - away) + len(needed & stow & away)
        shut = ("closed",) in facts
        return total + limp + handling + (2 * (handling > 0) if shut else 1)


def _left(facts: Facts, hub: str, nut: str, wheel: str) -> int:
    """Returns a lower bound of the remaining actions at a hub."""
    down = ("down", hub) in facts
    tight, loose = ("tight", nut, hub) in facts, ("loose", nut, hub) in facts
    if ("fitted", wheel, hub) in facts:
        if tight:
            return 0 if down else 1
        if loose:
            return 1 if down else 2
        return 4 if down else 3
    # Take off the old wheel, put the new one on, do the nut up, jack down, tighten.
    swap = 4 if ("bare", hub) in facts else 5
    undo = 2 if tight else 1 if loose else 0
    jack_up = 1 if down else 2 if tight else 0
    return swap + undo + jack_up
