"""Tyreworld: change flat wheels, in the right order, and tidy up."""

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
        ),
        Schema(
            "put {x} away",
            "x:thing",
            when="have x, open",
            then="stowed x, not have x",
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
        ),
        Schema(
            "tighten {n}",
            "n:nut h:hub w:wrench",
            when="have w, loose n h, down h",
            then="tight n h, not loose n h",
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
    """Returns the world of a car of which so many wheels are flat."""
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
    """Replace flat wheels by inflated spare ones; at the end all tools are in the closed boot.

    ## Description
    A classic planning domain with long chains of necessary steps: open the boot, take the tools
    out, loosen the nut before the hub is jacked up, undo it, swap the wheels, do the nut up,
    jack down before it can be tightened, inflate the spare wheel, put everything away, close the
    boot. There is one jack, so the hubs come one after the other.

    ## Action Space
    Text: `open the boot`, `close the boot`, `take the wrench out`, `put the wrench away`, `inflate
    spare1`, `loosen nut1`, `tighten nut1`, `jack up hub1`, `jack down hub1`, `undo nut1`, `do up
    nut1 on hub1`, `remove flat1`, `put spare1 on hub1`.

    ## Observation Space
    Text: the goal, then everything that holds.

    ## Rewards
    1 (term `task`) when the goal holds, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Drawn by the task's name: which spare wheel belongs on which hub, whether the boot is open,
    nuts are loose, spare wheels inflated, and what lies in the boot; 2,048 different starts with
    two hubs, 128 with one.

    ## Episode End
    Termination: the goal holds. Truncation: after `max_turns` turns.

    ## Information
    The common keys; `progress` is the largest share of the goal's facts that held at one time, as
    AgentBoard counts it.

    ## Arguments
    `hubs`: 1 to 4. `max_turns`: default 15 + 15 a hub; a shortest plan takes at most 8 + 11 a hub.

    ## Example Transcript
    ```
    Goal: the boot is closed. flat1 is in the boot. ...
    the boot is closed.
    flat1 is in the boot. the jack is in the boot. the pump is in the boot. ...
    > open the boot
    Goal: the boot is closed. flat1 is in the boot. ...
    the boot is open.
    flat1 is in the boot. the jack is in the boot. the pump is in the boot. ...
    ```

    ## Baselines
    200 test tasks, mean return and success: random 0.00, 0 %, progress 0.58; expert (a shortest
    plan, 25.0 turns) 1.00, 100 %.

    ## Registered Configurations
    `Tyreworld-v0`: 2 hubs.

    ## References
    Russell's flat-tyre domain of the UCPOP collection, 1992. AgentBoard (arXiv 2401.13178) plays
    it with language models.

    ## Version History
    v0: first version.
    """

    instructions = (
        "A car has flat wheels that you replace. What is in the boot can be taken out while the "
        "boot is open, and what you have can be put away there. With the wrench you loosen and "
        "tighten the nut of a hub that is on the ground, and undo and do up the nut of a hub that "
        "is jacked up (a nut must be loose to be undone, and is loose when it is done up). With "
        "the jack you jack up a hub; you have the jack again when you jack the hub down. From a "
        "jacked up hub without a nut you can remove the wheel, and put another wheel that you have "
        "on it. With the pump you inflate a spare wheel. Make all sentences of the goal true. Each "
        "turn, say one action, such as: open the boot, close the boot, take the wrench out, put "
        "the wrench away, inflate spare1, loosen nut1, tighten nut1, jack up hub1, jack down hub1, "
        "undo nut1, do up nut1 on hub1, remove flat1, put spare1 on hub1."
    )

    def __init__(self, *, hubs: int = 2, max_turns: TurnLimit = "auto", **kwargs):
        if not 1 <= hubs <= 4:
            raise ValueError(f"hubs must be in [1, 4], got {hubs}.")
        self.hubs = hubs
        turns = 15 + 15 * hubs if max_turns == "auto" else max_turns
        super().__init__(world=world(hubs), max_turns=turns, **kwargs)

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
        """Counts what is left to do at each hub, and what that takes out of the boot."""
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
    """Returns how many actions at a hub are left, at least."""
    down = ("down", hub) in facts
    tight, loose = ("tight", nut, hub) in facts, ("loose", nut, hub) in facts
    if ("fitted", wheel, hub) in facts:
        if tight:
            return 0 if down else 1
        if loose:
            return 1 if down else 2
        return 4 if down else 3
    # Put the wheel on, do the nut up, jack down, tighten; before that, take off what is there.
    swap = 4 if ("bare", hub) in facts else 5
    undo = 2 if tight else 1 if loose else 0
    jack_up = 1 if down else 2 if tight else 0
    return swap + undo + jack_up
