"""Overcooked for two or three cooks who make one salad together and can talk."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np

from agentgym.core import TimeStep
from agentgym.envs.overcooked.brigade import (
    ITEMS,
    STARTS,
    Cook,
    Layout,
    State,
    fresh,
    in_view,
    is_chopped,
    layout_of,
    look,
    primitive,
)
from agentgym.envs.overcooked.errands import BOARDS, MOVES, errands_of, tick
from agentgym.envs.overcooked.kitchen import CHOPS, ORDER, Square
from agentgym.envs.overcooked.partners import View, announce, aside, plan, reach
from agentgym.envs.overcooked.salad import REWARDS
from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.messages import clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks

RECIPES = (
    "tomato salad",
    "lettuce salad",
    "onion salad",
    "lettuce-tomato salad",
    "onion-tomato salad",
    "lettuce-onion salad",
    "lettuce-onion-tomato salad",
)
MAX_MESSAGE = 200
PRIMITIVES = (*MOVES, "stay")


@cache
def tasks_of(kitchen: str, size: int, cooks: int) -> Tasks:
    """Returns the starts, the reference's first; with a wall somebody is on either side of it."""
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
    """Make a salad together: two or three cooks, one kitchen, a word with every action.

    ## Description
    The kitchen of Overcooked in the macro-action domain: foods are fetched, chopped on one of two
    boards, put into a bowl, served. Cooks act asynchronously: an errand ("get tomato") takes as
    long as its way, whoever has finished chooses the next. In kitchen "B" a wall divides the
    kitchen and what lies on the right has to be passed over it. Each action may carry a message.

    ## Action Space
    Text: an errand, optionally " | " and a message of up to 200 characters that the others read
    when they act next. Errands: stay, get (tomato, lettuce, onion, bowl 1, bowl 2), go to board 1,
    go to board 2, deliver, chop, go to counter (with a wall), right, down, left, up. With
    `action_mode="discrete"`: the index of the errand, without a message.

    ## Observation Space
    Text: the steps left, the order, where all cooks in sight are and what they hold, where the
    items in sight are, and what was said since one last acted.

    ## Rewards
    Term `task`, the same for all cooks: the sum over the primitive steps of a turn of -0.001, 0.2
    when a food of the order has been chopped, 1 for the right dish, -0.1 for anything else that is
    served (it returns to its place, unchopped). `rewards="original"`: -0.1, 10, 200, -5.

    ## Starting State
    Everything in its place; the task names the squares of the cooks (`start/1,2;1,4`, the first
    training task, is the reference's only start). With the wall of "B" there is somebody on either
    side.

    ## Episode End
    Termination: the right dish is served, or the steps are used up. Truncation: after `max_turns`
    turns. After `max_invalid` invalid actions in a row the cook stays where it is.

    ## Information
    The common keys. `admissible` lists the errands; the message, which the expert uses, is free
    text. `state_key` leaves the steps left out and has, with a `radius`, what the cook remembers.
    `progress`: chops made, foods in the fuller bowl, and serving, weighed alike; it is that of all,
    also where a cook does not see it.

    ## Arguments
    `recipe`: "lettuce-tomato salad" or any other salad of tomato, lettuce, onion. `kitchen`: "A"
    (open), "B" (a wall), "C" (a wall with a gap); default "B". `num_players`: 2 or 3. `size`: 7 or
    9 squares. `radius`: how far cooks see; 0, the default: everything. `rewards`: "twosome" or
    "original". `errands`: false: everybody makes one primitive step at a time, and scripted cooks
    are "random" only. `talk`: whether messages are heard. `horizon`: primitive steps; default 200.
    As a single seat: `seat` and `opponents`: "random", "lazy" (only keeps out of the way), "clumsy"
    ("greedy", but one errand in three is random), "greedy" (takes the most urgent job), "planner"
    (the default: shares the jobs, announces its own, leaves "I take the tomato" to who says it and
    follows "you take the bowl 1").

    ## Example Transcript
    ```
    Steps left: 198. The order is: lettuce-tomato salad.
    You are at (1,5) and hold raw tomato.
    player_1 is at (5,2) and holds nothing.
    raw lettuce: on the counter at (1,6).
    ...
    player_1 says: I wait.
    > go to counter | You take the tomato.
    ```

    ## Baselines
    Mean return (share of successes) of a single seat of `Overcooked-Cooks-v0`, 100 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | -0.32 (0.00) | 0.01 (0.19) |
    | lazy | -0.20 (0.00) | -0.20 (0.00) |
    | clumsy | 0.05 (0.24) | 1.31 (0.97) |
    | greedy | -0.04 (0.13) | 1.36 (1.00) |
    | planner | -0.04 (0.13) | 1.36 (1.00) |

    The expert is a "planner". In `Overcooked-Cooks-Three-v0`, among planners: random 0.74 (0.46),
    expert 1.55 (1.00). Planners among themselves finish every salad in every kitchen
    that is seen whole, with two cooks in 20 to 72 steps. Greedy cooks are as fast with two of them
    (mean steps of planners and greedy ones, 60 games: kitchen A 35, 34; B 39, 39; C 44, 43), but
    get in each other's way where three share the open kitchen (23, 27).

    With three cooks some 5,000 steps/s: in a step of a seat the two others plan several errands.

    ## Registered Configurations
    `Overcooked-Cooks-v0`: two cooks, a wall. `Overcooked-Cooks-Three-v0`: three cooks, a wall,
    three foods, 100 steps.

    ## References
    Xiao, Tan, Amato, Asynchronous Actor-Critic for Multi-Agent Reinforcement Learning (arXiv
    2209.10113): the domain; Wang et al., Too Many Cooks (arXiv 2003.11778): its origin. Rewards,
    ends, transitions and durations are those of the authors' gym-macro-overcooked on all 2,160
    recorded joint steps, primitive and macro. Messages, texts and the limit of steps are ours, and
    on the 9 x 9 grid there are two cooks where the reference, asked for two, has one.

    ## Version History
    v0: first version.
    """

    players = range(2, 4)
    State = State
    state: State
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
            self.expert_level = None  # type: ignore[misc]  # scripted cooks think in errands
        self.layout = layout_of(kitchen, size)
        self.actions = errands_of(self.layout) if errands else PRIMITIVES
        self.needed = [name for name in ORDER if name in recipe]
        self.tasks = tasks_of(kitchen, size, len(self.possible_agents))
        self.instructions = instructions(self)

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

    def _read(self, agent: str, said: str) -> str:
        action, _, message = said.partition("|")
        errand = super()._read(agent, action.strip())
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
        """Lets the others hear what an agent says."""
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
            state_key=scene + self._memory(state.cooks[number]),
        )

    def _describe(self, number: int) -> str:
        """Returns what a cook sees and has heard."""
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

    def _memory(self, me: Cook) -> str:
        """Returns what a cook believes beyond what it sees: its errands go by that."""
        if not self.radius:
            return ""
        believed = (f"{name} {at(me.seen[name])}" for name in sorted(me.seen))
        chops = (f"{name} {me.chopped[name]}" for name in sorted(me.chopped))
        return f"\nBelieved: {', '.join((*believed, *chops))}."

    def _place(self, me: Cook, name: str) -> str:
        """Returns where an item is, as far as the cook sees; nothing if it is told with another."""
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
        """Returns an item and its condition in words."""
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
        # Now and then, lest two dance around each other, or somebody waits where nothing is to be
        # seen. The steps count too: asked for its advice, an expert may find the dice as they were.
        whim, steps = int(rng.integers(4)), self.state.steps
        if errand in PRIMITIVES and whim == steps % 4:
            looks = BOARDS if self.radius and not self.state.cooks[number].holding else ()
            choices = (*PRIMITIVES, *looks)
            errand = choices[(int(rng.integers(len(choices))) + steps // 4) % len(choices)]
        return f"{errand} | {words}" if words else errand


def at(square: Square) -> str:
    """Returns a square as cooks read it."""
    return f"({square[0]},{square[1]})"


def plan_of(layout: Layout) -> str:
    """Returns the kitchen as a drawing: # counter, . floor, 1 and 2 boards, D delivery."""
    rows = [
        ["." if (row, column) in layout.floor else "#" for column in range(layout.size)]
        for row in range(layout.size)
    ]
    for symbol, (row, column) in zip("12D", (*layout.boards, layout.delivery), strict=True):
        rows[row][column] = symbol
    return "\n".join("".join(row) for row in rows)


def instructions(game: Cooks) -> str:
    """Returns the rules and the action format."""
    reward, wall = game.rewards, game.layout.wall
    walks = (
        "Errands walk by themselves and take several steps; while you are on one, others act. "
        "'get X' walks to X and takes it; with a bowl in your hands a chopped food goes into it, "
        "with a chopped food in your hands 'get bowl' puts it in and takes the bowl. 'go to board' "
        "puts down what you hold on that board or, with empty hands, stops beside it. 'chop' chops "
        f"the food on the board beside you, {CHOPS} times. 'deliver' serves what you hold. "
        + "'go to counter' puts what you hold on the wall, where those on the other side can take "
        "it. " * bool(wall) + "right, down, left and up are one step. "
        if game.errands
        else "Everybody makes one step at the same time. Walking into a counter takes what lies "
        "there or puts down what you hold; into a board, with empty hands, chops the food on it or "
        "takes what is chopped; into the delivery, serves. A chopped food goes into a bowl when "
        "one of them is in your hands and you walk into the other. "
    )
    return (
        f"You are one of {len(game.possible_agents)} cooks who fill one order together: every "
        f"food it names has to be chopped on a cutting board ({CHOPS} chops), put into one bowl, "
        "and the bowl, with nothing else in it, served at the delivery. All get the same reward: "
        f"{reward.served:g} for the right dish, {reward.chopped:g} for each food of the order when "
        f"it is chopped, {reward.wrong:g} for anything else that is served (it returns to its "
        f"place, unchopped), {reward.step:g} a step. There are {game.horizon} steps. {walks}"
        + f"You see {game.radius} squares around you. "
        * bool(game.radius)
        + "Cooks cannot pass through each other, except that two who walk towards each other "
        f"change places.\nThe kitchen (# counter, . floor, 1 and 2 cutting boards, D delivery); "
        f"squares are (row,column), both from 0:\n{plan_of(game.layout)}\n"
        f"Say one of: {', '.join(game.actions)}."
        + f" You can add a message to the others, {MAX_MESSAGE} characters at most, after a bar: "
        "get tomato | I take the tomato. They read it when they act next." * game.talk
    )


env, raw_env, parallel_env = make_pettingzoo(Cooks)
