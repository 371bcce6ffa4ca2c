"""CrafterText: survive in an open world and unlock achievements, played as text."""

from __future__ import annotations

from typing import ClassVar

from agentgym.core import TextEnv
from agentgym.envs.crafter.expert import best_action
from agentgym.envs.crafter.picture import picture
from agentgym.envs.crafter.rules import possible, turn
from agentgym.envs.crafter.state import (
    ACHIEVEMENTS,
    ACTIONS,
    DIRECTIONS,
    ITEMS,
    MAKE,
    MOST,
    PLACE,
    RIPE,
    VITALS,
    State,
)
from agentgym.envs.crafter.world import HEALTH, MATERIALS, SIZE, generate
from agentgym.rendering import Scene
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

ACROSS, DOWN = 4, 3
"""Squares that are visible to the west and east, and to the north and south."""
DARK = 0.3
"""Daylight below which it is night."""
_UNSEEN = frozenset(".pa")


class CrafterText(TextEnv):
    """Survive in an open world, collect resources, craft tools and unlock 22 achievements.

    ## Description
    Crafter as text. The world of 64 by 64 squares has grassland with trees and cows, lakes, and
    mountains with caves, ores, lava and skeletons. The player must eat, drink and sleep. Zombies
    attack on grass, more of them at night. Tools need materials and a table nearby, iron tools a
    furnace as well. Each of 22 achievements counts once per episode, such as "collect wood", "make
    stone pickaxe" or "eat plant".

    ## Action Space
    Text: `noop`, `move west`, `move east`, `move north`, `move south`, `do` (collects the material
    in front, strikes a creature, eats a ripe plant), `sleep`, `place stone`, `place table`,
    `place furnace`, `place plant`, `make wood pickaxe`, `make stone pickaxe`, `make iron pickaxe`,
    `make wood sword`, `make stone sword` or `make iron sword`. A move turns the player in its
    direction, even if the square is not free.

    ## Observation Space
    Text: the nearest object of each kind in the 9 by 7 squares around the player with its distance,
    what the player faces, whether it is night, the vital values and the inventory. Grass, sand and
    paths are only described in front of the player.

    ## Rewards
    - Term `achievements`: 1 for a turn that unlocks an achievement.
    - Term `health`: 0.1 times the change of the health.

    An invalid action costs `invalid_penalty`.

    ## Starting State
    A world sampled from the task name. The player stands in its middle with full vital values and
    no items. Training and test tasks share no worlds.

    ## Episode End
    Termination: death. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the share of the 22 achievements, as in BALROG. `success` means
    that all are unlocked. `admissible` lists the actions that have an effect. An action that has
    none passes the turn, and so does every action of a player who sleeps.

    ## Arguments
    - `max_turns` (int or None, default 1000): turn limit. Crafter has 10,000.

    ## References
    "Benchmarking the Spectrum of Agent Capabilities" (Hafner, arXiv 2109.06780), release 1.8.3: its
    achievements, recipes, vital values, creatures and daylight, and the layers and densities of its
    worlds. The description follows BALROG (arXiv 2411.13543). Differences: worlds come from another
    noise, a creature that was defeated does not act once more, the nearest object of a kind is the
    one with the fewest steps, health does not rise from 0, damage ends sleep one turn earlier, the
    player does not act in the turn in which it wakes up with full energy, and night is named
    instead of drawn.

    ## Version History
    v0: first version.
    """

    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.unsolvable_tasks": "success is all 22 achievements, which no known agent reaches",
    }
    state: State
    reward_names = ("achievements", "health")

    def __init__(self, *, max_turns: int | None = 1000, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)
        self.tasks = Tasks.generated()
        self.instructions = _INSTRUCTIONS

    def _start(self, task: str) -> TimeStep:
        self.state = State(*generate(task))
        return self._look(0, 0, "")

    def _advance(self, action: str) -> TimeStep:
        if action not in ACTIONS:
            return self._invalid(
                f"Invalid action {action[:40]!r}. Valid actions: {', '.join(ACTIONS)}."
            )
        state = self.state
        health, count = state.items["health"], len(state.achieved)
        idle = "" if action in self._last.admissible else f"You cannot {action} now."  # type: ignore[union-attr]
        turn(state, action, self.np_random)
        new = state.achieved[count:]
        told = [idle, f"Achievement: {', '.join(new)}." if new else ""]
        return self._look(len(new), state.items["health"] - health, " ".join(filter(None, told)))

    def _look(self, unlocked: int, healed: int, feedback: str) -> TimeStep:
        state = self.state
        dead = state.items["health"] <= 0
        count = len(state.achieved)
        return TimeStep(
            text="You are dead." if dead else described(state),
            rewards={"achievements": float(unlocked > 0), "health": healed / 10},
            terminated=dead,
            success=count == len(ACHIEVEMENTS),
            progress=count / len(ACHIEVEMENTS),
            admissible=() if dead else possible(state),
            feedback=feedback,
        )

    def _frame(self) -> Scene:
        return picture(self.state, ACROSS, DOWN)

    def expert(self) -> str | None:
        """Meets the needs, then collects, crafts and hunts in a fixed order. It knows the world."""
        return best_action(self.state)

    def _restored(self) -> None:
        state = self.state
        if len(state.rows) != SIZE or any(len(row) != SIZE for row in state.rows):
            raise ValueError(f"the world is not of {SIZE} by {SIZE} squares")
        if not set().union(*state.rows) <= MATERIALS.keys():
            raise ValueError("the world has unknown materials")
        if any(c.kind not in HEALTH or not state.material((c.x, c.y)) for c in state.creatures):
            raise ValueError("a creature is unknown or outside of the world")
        if not state.material((state.x, state.y)) or (state.dx, state.dy) not in _WAYS:
            raise ValueError("the player is outside of the world or faces nowhere")
        if not set(VITALS) <= state.items.keys() <= {*VITALS, *ITEMS}:
            raise ValueError(f"the items are {[*state.items]}")
        if not all(0 <= amount <= MOST for amount in state.items.values()):
            raise ValueError(f"amounts must lie in [0, {MOST}]")
        if not set(state.achieved) <= set(ACHIEVEMENTS):
            raise ValueError("there are unknown achievements")


_WAYS = frozenset(DIRECTIONS.values())


def described(state: State) -> str:
    """Returns the surroundings, the vital values and the inventory as text."""
    seen = sorted((abs(x) + abs(y), name, x, y) for name, (x, y) in nearest(state).items())
    lines = ["You see:", *(f"- {name} {_away(x, y)}" for _, name, x, y in seen)]
    creature = state.creature(state.front)
    front = state.material(state.front)
    faced = _name(creature.kind, creature.timer) if creature else MATERIALS.get(front, "the edge")
    lines = lines if seen else ["You see nothing of use."]
    lines += ["", f"You face {faced}."]
    if state.daylight < DARK:
        lines.append("It is night.")
    if state.sleeping:
        lines.append("You sleep until your energy is full or you are hurt.")
    items = state.items
    held = [f"- {name}: {items[name]}" for name in ITEMS if name in items]
    lines += ["", "Your status:", *(f"- {name}: {items[name]}/{MOST}" for name in VITALS), ""]
    lines += ["Your inventory:", *held] if held else ["Your inventory is empty."]
    return "\n".join(lines)


def nearest(state: State) -> dict[str, tuple[int, int]]:
    """Returns the nearest visible object of each kind, as steps (east, south) from the player.

    Of equally near ones the northernmost counts, then the westernmost.
    """
    left, top = state.x - ACROSS, state.y - DOWN
    found: dict[str, tuple[int, int, int]] = {}

    def see(name: str, x: int, y: int) -> None:
        away = abs(x) + abs(y), y, x
        if name not in found or away < found[name]:
            found[name] = away

    hidden = set()
    for c in state.creatures:
        x, y = c.x - state.x, c.y - state.y
        if abs(x) <= ACROSS and abs(y) <= DOWN:
            hidden.add((x, y))
            see(_name(c.kind, c.timer), x, y)
    for y in range(max(top, 0), min(top + 2 * DOWN + 1, SIZE)):
        row = state.rows[y][max(left, 0) : left + 2 * ACROSS + 1]
        if _UNSEEN.issuperset(row):
            continue
        for x, material in enumerate(row, max(left, 0) - state.x):
            if material not in _UNSEEN and (x, y - state.y) not in hidden:
                see(MATERIALS[material], x, y - state.y)
    return {name: (x, y) for name, (_, y, x) in found.items()}


def _name(kind: str, timer: int) -> str:
    """Returns the name of a creature. Plants have another one when they are ripe."""
    if kind != "plant":
        return kind
    return "ripe plant" if timer > RIPE else "young plant"


def _away(x: int, y: int) -> str:
    """Returns a relative position, such as "1 step north and 2 steps east"."""
    parts = [
        f"{abs(way)} step{'s' * (abs(way) > 1)} {names[way > 0]}"
        for way, names in ((y, ("north", "south")), (x, ("west", "east")))
        if way
    ]
    return " and ".join(parts) or "here"


def _listed(uses: dict[str, int]) -> str:
    return ", ".join(f"{count} {item}" for item, count in uses.items())


_INSTRUCTIONS = (
    "Survive in an open world and unlock as many achievements as you can.\n"
    "Each turn, reply with one action:\n"
    f"- {', '.join(ACTIONS[:5])}: a move turns you, and takes you there if the square is free\n"
    "- do: collect the material that you face, drink water, strike a creature, or eat a ripe "
    "plant\n"
    "- sleep: sleep until your energy is full\n"
    "- place and a thing, onto the square that you face:\n"
    + "".join(f"  - place {name}: uses {_listed(uses)}\n" for name, (uses, *_) in PLACE.items())
    + "- make and a tool, next to a table (iron tools: next to a table and a furnace):\n"
    + "".join(f"  - make {name}: uses {_listed(uses)}\n" for name, (uses, _) in MAKE.items())
    + "Rules:\n"
    "- Wood comes from trees. Grass gives a sapling at about one try in ten.\n"
    "- Stone and coal need a wood pickaxe, iron needs a stone pickaxe, diamond an iron pickaxe.\n"
    "- Cows give food, and so does a plant that was placed and is ripe. Creatures beside a plant "
    "trample it.\n"
    "- Food, drink and energy fall with time. At 0 of one of them your health falls, otherwise it "
    "rises.\n"
    "- Zombies attack on grass, skeletons shoot arrows in tunnels, and lava kills.\n"
    f"Achievements: {', '.join(ACHIEVEMENTS)}.\n"
    "The reward is 1 for each new achievement, and 0.1 times the change of your health. Death ends "
    "the episode."
)
