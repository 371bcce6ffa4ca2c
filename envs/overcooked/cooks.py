"""Overcooked for two or three cooks that make one salad together and can send messages."""

from __future__ import annotations

from functools import cache
from itertools import permutations, product

import numpy as np

from agentgym.envs.overcooked.brigade import (
    ITEMS,
    STARTS,
    Cook,
    State,
    fresh,
    in_view,
    is_chopped,
    layout_of,
    look,
    primitive,
)
from agentgym.envs.overcooked.errands import BOARDS, MOVES, errands_of, tick
from agentgym.envs.overcooked.instructions import MAX_MESSAGE, instructions
from agentgym.envs.overcooked.kitchen import CHOPS, ORDER, Square
from agentgym.envs.overcooked.partners import View, announce, aside, plan, reach
from agentgym.envs.overcooked.picture import picture
from agentgym.envs.overcooked.salad import REWARDS
from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.rendering import Scene
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

RECIPES = (
    "tomato salad",
    "lettuce salad",
    "onion salad",
    "lettuce-tomato salad",
    "onion-tomato salad",
    "lettuce-onion salad",
    "lettuce-onion-tomato salad",
)
PRIMITIVES = (*MOVES, "stay")


@cache
def tasks_of(kitchen: str, size: int, cooks: int) -> Tasks:
    """Returns the initial squares as tasks. With a wall, both sides have a cook."""
    layout = layout_of(kitchen, size)
    first = STARTS[size][:cooks]
    starts = [first]
    for squares in permutations(sorted(layout.floor), cooks):
        sides = {reach(layout.floor, square) for square in squares}
        if squares != first and (kitchen != "B" or len(sides) == 2):
            starts.append(squares)
    names = ["start/" + ";".join(f"{row},{column}" for row, column in s) for s in starts]
    return Tasks(
        train=tuple(name for i, name in enumerate(names) if i % 3 != 2), test=tuple(names[2::3])
    )


class Cooks(TextGame):
    """Make a salad with two or three cooks in one kitchen, with messages.

    ## Description
    The Overcooked kitchen of the macro-action domain: foods are fetched, chopped on one of two
    boards, put into a bowl and served. Cooks act asynchronously: a macro action ("errand"), such as
    "get tomato", takes as long as its path, and each cook that has finished chooses the next one.
    In kitchen "B" a wall divides the kitchen, and items on the right have to be passed over it.
    Each action can carry a message.

    ## Action Space
    Text: an errand, optionally followed by " | " and a message of up to 200 characters to the
    co-players, such as `get tomato | I take the tomato`. Errands:

    - `get tomato`, `get lettuce`, `get onion`, `get bowl 1`, `get bowl 2`
    - `go to board 1`, `go to board 2`
    - `chop`, `deliver`
    - `go to counter` (in kitchens with a wall)
    - `right`, `down`, `left`, `up`, `stay`

    With `action_mode="discrete"`: the index of the errand, without a message.

    ## Observation Space
    Text: the remaining steps, the order, the positions and held items of visible cooks, the
    positions of visible items, and the messages since the agent's last action.

    ## Rewards
    Term `task`, shared by all cooks: the sum of the primitive rewards of a turn.

    | event | `rewards="twosome"` | `rewards="original"` |
    |---|---|---|
    | primitive step | -0.001 | -0.1 |
    | food of the order is chopped, the first time | 0.2 | 10 |
    | right dish is served | 1 | 200 |
    | anything else is served | -0.1 | -5 |

    A wrongly served item returns to its initial place, unchopped. With `rewards="original"`, as in
    the reference, chopping it again pays again, so that serving chopped foods and chopping them
    again is profitable without end. An invalid action costs `invalid_penalty`.

    ## Starting State
    All items are at their initial places. The task names the initial squares of the cooks. The
    first training task (`start/1,2;1,4` with two cooks and `size=7`) is the only initial state of
    the reference. In kitchen "B" both sides of the wall have a cook.

    ## Episode End
    Termination: the right dish is served, or `horizon` primitive steps are used up. Truncation:
    after `max_turns` turns. After `max_invalid` consecutive invalid actions the cook stays in
    place.

    ## Information
    The common keys. `admissible` lists the errands, without messages, which are free text.
    `state_key` leaves out the remaining steps and, with a `radius`, includes the memory of the
    cook. `progress` is the fraction of completed work: chops, foods in the fuller bowl and serving,
    with equal weights per food. It covers the whole kitchen, including parts that are out of sight.

    ## Arguments
    - `recipe` (str, default "lettuce-tomato salad"): any salad of tomato, lettuce and onion.
    - `kitchen` (str, default "B"): "A" (open), "B" (a wall) or "C" (a wall with a gap).
    - `num_players` (int, default 2): 2 or 3.
    - `size` (int, default 7): rows and columns of the grid, 7 or 9.
    - `radius` (int, default 0): visibility radius. 0 means full visibility.
    - `rewards` (str, default "twosome"): "twosome" or "original".
    - `errands` (bool, default True): whether actions are errands. If False, every cook makes one
      primitive move per turn, and the only scripted cooks are "random".
    - `talk` (bool, default True): whether messages are delivered.
    - `horizon` (int, default 200): limit of primitive steps.
    - `seat` and `opponents`, as a single seat: the seat of the agent and the scripted co-players.

    Levels of scripted co-players:

    - "random": random errands.
    - "lazy": only keeps out of the way.
    - "clumsy": "greedy", but one errand in three is random.
    - "greedy": takes the most urgent job.
    - "planner" (default): shares the jobs and announces its own. It leaves the tomato to the sender
      of "I take the tomato" and fulfils requests such as "you take the bowl 1".

    ## Notes
    - The expert is a "planner". Planners finish every salad in every kitchen with full visibility.
      With a "lazy" co-player, kitchen "B" cannot be solved.
    - Two greedy cooks are as fast as two planners, but three greedy cooks obstruct each other in
      the open kitchen.
    - A step of a single seat is slower with three cooks, because the two co-players plan several
      errands.

    ## References
    Xiao, Tan and Amato, Asynchronous Actor-Critic for Multi-Agent Reinforcement Learning (arXiv
    2209.10113), which introduces the domain. Wang et al., Too Many Cooks (arXiv 2003.11778), its
    origin. Rewards, episode ends, transitions, durations and initial squares equal those of the
    authors' gym-macro-overcooked on all recorded joint steps, primitive and macro. Messages, texts
    and the step limit are additions. With a `radius`, cooks remember the chops of foods that are
    out of sight, whereas the reference lets this number decay.

    ## Version History
    v0: first version.
    """

    players = range(2, 4)
    State = State
    state: State
    common_reward = True
    levels = ("random", "lazy", "clumsy", "greedy", "planner")
    expert_level = "planner"
    default_opponents = "planner"

    def __init__(
        self,
        *,
        recipe: str = "lettuce-tomato salad",
        kitchen: str = "B",
        size: int = 7,
        radius: int = 0,
        rewards: str = "twosome",
        errands: bool = True,
        talk: bool = True,
        horizon: int = 200,
        **kwargs,
    ):
        for name, value, known in (
            ("recipe", recipe, RECIPES),
            ("kitchen", kitchen, ("A", "B", "C")),
            ("rewards", rewards, tuple(REWARDS)),
        ):
            if value not in known:
                hint = did_you_mean(value, known)
                raise ConfigError(f"{name} must be one of {', '.join(known)}, got {value!r}.{hint}")
        if size not in STARTS:
            raise ConfigError(f"size must be one of {[*STARTS]}, got {size!r}.")
        if radius < 0:
            raise ConfigError(f"radius must be at least 0, got {radius}.")
        if horizon < 1:
            raise ConfigError(f"horizon must be at least 1, got {horizon}.")
        super().__init__(**kwargs)
        self.recipe, self.radius, self.errands, self.talk = recipe, radius, errands, talk
        self.horizon, self.rewards = horizon, REWARDS[rewards]
        if not errands:
            self.levels, self.default_opponents = ("random",), "random"  # type: ignore[misc]
            self.expert_level = None  # type: ignore[misc]  # scripted cooks plan errands
        self.layout = layout_of(kitchen, size)
        self.actions = errands_of(self.layout) if errands else PRIMITIVES
        self.needed = [name for name in ORDER if name in recipe]
        self.tasks = tasks_of(kitchen, size, len(self.possible_agents))
        self.instructions = instructions(
            self.layout,
            self.rewards,
            cooks=len(self.possible_agents),
            horizon=horizon,
            radius=radius,
            errands=errands,
            talk=talk,
        )

    def _start(self, task: str) -> None:
        squares = [square.split(",") for square in task.removeprefix("start/").split(";")]
        self.state = fresh(self.layout, [(int(row), int(column)) for row, column in squares])
        look(self.layout, self.state, self.radius)

    def _over(self) -> bool:
        return self.state.served or self.state.steps >= self.horizon

    def _acting(self) -> tuple[str, ...]:
        if self._over():
            return ()
        pairs = zip(self.possible_agents, self.state.cooks, strict=True)
        return tuple(agent for agent, cook in pairs if not cook.errand)

    def _parse(self, agent: str, action: str) -> str:
        move, _, message = action.partition("|")
        errand = super()._parse(agent, move.strip())
        return f"{errand}|{clip(message, MAX_MESSAGE)}" if self.talk else errand

    def _fallback(self, agent: str) -> str:
        return "stay"

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state, chosen = self.state, []
        for agent, cook in zip(self.possible_agents, state.cooks, strict=True):
            if agent in moves:
                action, _, cook.said = moves[agent].partition("|")
                chosen.append(action)
                cook.errand = action if self.errands else ""
                cook.heard.clear()
        for agent in moves:
            self._spread(agent)
        if self.errands:
            reward = 0.0
            while not self._over() and all(cook.errand for cook in state.cooks):
                reward += tick(self.layout, state, self.recipe, self.rewards, self.radius)
        else:
            numbers = [PRIMITIVES.index(action) for action in chosen]
            reward = primitive(self.layout, state, numbers, self.recipe, self.rewards)
            look(self.layout, state, self.radius)
        return {agent: {"task": reward} for agent in self.possible_agents}

    def _spread(self, agent: str) -> None:
        """Delivers the message of an agent to its co-players."""
        message = self.state.cooks[self.possible_agents.index(agent)].said
        for other, cook in zip(self.possible_agents, self.state.cooks, strict=True):
            if message and other != agent:
                cook.heard.append(f"{agent} says: {message}")

    def _look(self, agent: str) -> TimeStep:
        state = self.state
        number = self.possible_agents.index(agent)
        scene = self._describe(number)
        left = max(0, self.horizon - state.steps)
        ready = sum(min(state.chops[name], CHOPS) / CHOPS for name in self.needed)
        inside = max(sum(f in foods for f in self.needed) for foods in state.inside.values())
        return TimeStep(
            text=f"Steps left: {left}. {scene}",
            success=state.served,
            progress=(ready + inside + state.served) / (2 * len(self.needed) + 1),
            admissible=self.actions,
            state_key=f"{scene}{self._memory(state.cooks[number])}\nPaid: {state.paid}.",
        )

    def _describe(self, number: int) -> str:
        """Returns the observation of a cook without the remaining steps."""
        me = self.state.cooks[number]
        lines = [f"The order is: {self.recipe}."]
        for agent, cook in zip(self.possible_agents, self.state.cooks, strict=True):
            if cook is me:
                lines.append(f"You are at {at(me.at)} and hold {self._named(me.holding)}.")
                if me.errand:
                    lines.append(f"You are busy: {me.errand}.")
            elif in_view(me, cook.at, self.radius):
                lines.append(f"{agent} is at {at(cook.at)} and holds {self._named(cook.holding)}.")
            else:
                lines.append(f"{agent} is out of sight.")
        lines += [line for name in ITEMS if (line := self._place(me, name))]
        return "\n".join([*lines, *me.heard])

    def _frame(self, agent: str | None) -> Scene:
        layout, state = self.layout, self.state
        away = {cook.holding for cook in state.cooks}.union(*state.inside.values())
        items = {name: square for name, square in state.where.items() if name not in away}
        seen = None
        if agent is not None:
            me = state.cooks[self.possible_agents.index(agent)]
            squares = product(range(layout.size), range(layout.size))
            seen = {square for square in squares if in_view(me, square, self.radius)}
        cooks = [(cook.at, cook.holding) for cook in state.cooks]
        parts = layout.floor, layout.boards, layout.delivery
        caption = f"{self.recipe}, step {state.steps} of {self.horizon}"
        return picture(*parts, items, state.chops, cooks, caption, seen)

    def privileged_text(self, agent: str) -> str:
        """Returns the errands, squares and hands of all cooks, all items, and the steps left."""
        state = self.state
        cooks = ", ".join(
            f"{name} at {at(cook.at)} with {self._named(cook.holding)}: {cook.errand or 'free'}"
            for name, cook in zip(self.possible_agents, state.cooks, strict=True)
        )
        items = ", ".join(f"{self._named(name)} {at(state.where[name])}" for name in ITEMS)
        left = max(0, self.horizon - state.steps)
        return f"You are {agent}. Steps left: {left}. Cooks: {cooks}. Items: {items}."

    def _memory(self, me: Cook) -> str:
        """Returns the beliefs of a cook, which guide its errands. Empty with full visibility."""
        if not self.radius:
            return ""
        believed = (f"{name} {at(me.seen[name])}" for name in sorted(me.seen))
        chops = (f"{name} {me.chopped[name]}" for name in sorted(me.chopped))
        return f"\nBelieved: {', '.join((*believed, *chops))}."

    def _place(self, me: Cook, name: str) -> str:
        """Returns the position of an item, or "" if it is held or in a bowl."""
        state, square = self.state, self.state.where[name]
        if not in_view(me, square, self.radius):
            return f"{name}: out of sight."
        held = any(name == cook.holding for cook in state.cooks)
        if held or any(name in foods for foods in state.inside.values()):
            return ""
        boards = self.layout.boards
        place = f"board {boards.index(square) + 1}" if square in boards else "the counter"
        return f"{self._named(name)}: on {place} at {at(square)}."

    def _named(self, name: str) -> str:
        """Returns an item with its condition."""
        if not name:
            return "nothing"
        if name in self.state.inside:
            inside = " and ".join(f"chopped {food}" for food in self.state.inside[name])
            return f"{name} with {inside or 'nothing in it'}"
        chops = self.state.chops[name]
        return (
            f"chopped {name}"
            if is_chopped(self.state, name)
            else (f"raw {name}" + f" ({chops} of {CHOPS} chops)" * bool(chops))
        )

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        number = self.possible_agents.index(agent)
        if level == "clumsy" and rng.random() < 1 / 3:
            return self._random(agent, rng)
        known = (self.layout, self.state, number, self.recipe, self.radius)
        idle = level == "lazy"
        errand = aside(View(*known)) if idle else plan(*known, alone=level != "planner")
        words = announce(errand, self.state, number) if self.talk and level == "planner" else ""
        # Random moves break deadlocks between cooks and let idle cooks explore. They depend on the
        # step count because an expert may be queried repeatedly with the same generator state.
        whim, steps = int(rng.integers(4)), self.state.steps
        if errand in PRIMITIVES and whim == steps % 4:
            looks = BOARDS if self.radius and not self.state.cooks[number].holding else ()
            choices = (*PRIMITIVES, *looks)
            errand = choices[(int(rng.integers(len(choices))) + steps // 4) % len(choices)]
        return f"{errand} | {words}" if words else errand


def at(square: Square) -> str:
    """Returns a square as text."""
    return f"({square[0]},{square[1]})"


env, raw_env, parallel_env = make_pettingzoo(Cooks)
