"""AsyncKitchen: cook several dishes in time, where food cooks by itself."""

from __future__ import annotations

import functools
import math

from agentgym.core import TextEnv
from agentgym.envs.kitchen.planner import Planner, plan
from agentgym.envs.kitchen.rules import (
    BOARD,
    DISHES,
    FRYER,
    SINK,
    STOVES,
    TABLE,
    Kitchen,
    raw,
)
from agentgym.errors import ConfigError
from agentgym.tasks import Tasks, draw_level, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import match_action


@functools.lru_cache(maxsize=4096)
def level(task: str, orders: int, late: bool) -> tuple[Kitchen, int]:
    """Returns the kitchen of a task and the number of turns that the expert needs."""
    rng = task_rng(task, "AsyncKitchen")

    def draw() -> Kitchen:
        names = [*DISHES]
        dishes = [names[i] for i in rng.permutation(len(names))[:orders].tolist()]
        things: dict[str, list[str]] = {}
        for dish in dishes:
            for thing in DISHES[dish]:
                for found in raw(thing):
                    things[f"counter {len(things) + 1}"] = [found]
        stations = [*things, f"counter {len(things) + 1}", BOARD, FRYER, SINK, *STOVES]
        stations += [f"{TABLE} {number + 1}" for number in range(orders)]
        contents = [*things.values()]
        shuffled = [contents[i] for i in rng.permutation(len(contents)).tolist()]
        return Kitchen(
            at=stations[int(rng.integers(len(stations)))],
            hand="",
            things={name: [] for name in stations} | dict(zip(things, shuffled, strict=True)),
            orders=dishes[: 1 if late else orders],
            later={dish: int(rng.integers(4, 13)) for dish in dishes[1 if late else orders :]},
        )

    kitchen = draw_level(task, draw)
    actions = plan(kitchen)
    assert actions is not None, f"the expert does not finish {task}"
    return kitchen, len(actions)


class AsyncKitchen(TextEnv):
    """Cook dishes in a kitchen in which food cooks by itself.

    ## Description
    Bread, vegetables and meat lie on counters. Vegetables are cut, which takes several actions of
    the agent. Meat, fries and water are started with one action and then change by themselves while
    turns pass, so that other work can be done meanwhile. Dishes are stacked on tables in the order
    of the recipe. The time is short: with two dishes, an expert that
    waits while anything cooks serves all of them in half of the kitchens only.

    ## Action Space
    Text, one of the actions that are possible now. Each takes one turn.
    - `move to stove 1`: go to a station.
    - `pick up patty`: take the highest thing at the station, with empty hands.
    - `place patty`: put down the thing in the hand, on an empty station or on a table.
    - `cut lettuce`: work at the board. A thing is cut after three such actions.
    - `cook patty`, `cook egg`, `fry chicken`, `fry cut potato`, `fill pot`, `boil pot of water`:
      start a process at the stove, the fryer or the sink, which then runs by itself.
    - `add cut tomato`: put a cut tomato or onion into a pot of boiling water on a stove, which
      becomes soup.
    - `fill bowl`: fill a bowl with finished soup.
    - `wait`

    ## Observation Space
    Text: the turn and the time limit, the open orders with their stacks, the station and the hand
    of the agent, all stations with their things, and the turns that running processes still take.

    ## Rewards
    Term `task`: 1 divided by the number of dishes, for each dish that is served. A dish is served
    as soon as the stack on a table is that of an open order.

    ## Starting State
    The dishes, the places of the ingredients and that of the agent are sampled from the task name.

    ## Episode End
    - Termination: all dishes are served, or the time of the kitchen is over: `slack` times the
      number of turns that the expert needs.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `success`: all dishes are served. `progress`: share of dishes served.

    ## Arguments
    - `orders` (int, default 2): number of dishes, 1 to 4.
    - `late` (bool, default False): whether all orders but the first come while the agent works.
    - `slack` (float, default 1.2): time limit as a multiple of the expert's turns, at least 1.
    - `max_turns` (int or None, default 300): turn limit. Invalid actions take a turn, but no
      time of the kitchen.

    ## Notes
    - The rules are our own, after those of the paper. Its kitchen has more dishes and a larger map.
    - The expert starts the longest remaining work first. It is not always the fastest.

    ## References
    Robotouille: An Asynchronous Planning Benchmark for LLM Agents, arXiv 2502.05227: actions with
    delays and a limit of 1.5 times the steps of a plan.

    ## Version History
    v0: first version.
    """

    State = Kitchen
    state: Kitchen

    def __init__(
        self,
        *,
        orders: int = 2,
        late: bool = False,
        slack: float = 1.2,
        max_turns: int | None = 300,
        **kwargs,
    ):
        super().__init__(max_turns=max_turns, **kwargs)
        if not 1 <= orders <= 4:
            raise ConfigError(f"orders must be from 1 to 4, got {orders}.")
        if not 1 <= slack <= 100:
            raise ConfigError(f"slack must be from 1 to 100, got {slack}.")
        self.orders, self.late, self.slack = orders, late, float(slack)
        self.tasks = Tasks.generated()
        self.instructions = (
            f"You cook in a kitchen. Serve {'all orders' if orders > 1 else 'the order'} before "
            "the time is over.\n"
            "Each turn, reply with one action:\n"
            "- move to stove 1: go to a station\n"
            "- pick up patty: take the highest thing at your station, with empty hands\n"
            "- place patty: put down the thing in your hand, on an empty station or on a table\n"
            "- cut lettuce: work at the board. Lettuce, tomato, onion and potato are cut after "
            "three such actions.\n"
            "- cook patty or cook egg (on a stove), fry chicken or fry cut potato (in the fryer), "
            "fill pot (in the sink), boil pot of water (on a stove)\n"
            "- add cut tomato: put it into a pot of boiling water on a stove, which becomes soup\n"
            "- fill bowl: fill the bowl in your hand from a pot of finished soup\n"
            "- wait\n"
            "Rules:\n"
            "- Cooking, frying, filling and boiling go on by themselves while you do other "
            "things. A thing cannot be taken while it changes.\n"
            "- An order is served as soon as exactly its things are stacked on a table, from the "
            "lowest to the highest.\n"
            "- Counters, the board, the fryer, the sink and stoves hold one thing each.\n"
            f"Each order is worth {1 / orders:.2g}."
        )

    def _start(self, task: str) -> TimeStep:
        kitchen, needed = level(task, self.orders, self.late)
        self.state = kitchen.copy()
        self._needed = needed
        return self._look()

    def _restored(self) -> None:
        self._needed = level(self.task, self.orders, self.late)[1]

    def _advance(self, action: str) -> TimeStep:
        options = self.state.actions()
        if action not in options:
            listed = ", ".join(name for name in options if not name.startswith("move to"))
            return self._invalid(
                f"Not possible now: {action[:40]!r}. Possible: {listed}, or move to a station."
            )
        served = self.state.act(action, options[action])
        return self._look(served / self.orders)

    def _parse(self, action: str) -> str:
        return match_action(action, tuple(self.state.actions())) or action

    @property
    def limit(self) -> int:
        """The time limit of the task in turns."""
        return math.ceil(self.slack * self._needed)

    def _look(self, reward: float = 0.0) -> TimeStep:
        state = self.state
        done = state.served == self.orders
        over = done or state.turn >= self.limit
        lines = [f"Turn {state.turn} of {self.limit}."]
        lines += [f"Order: {dish} ({', '.join(DISHES[dish])})" for dish in state.orders]
        lines.append(f"You are at {state.at}, with {state.hand or 'empty hands'}.")
        empty = []
        for station, stack in state.things.items():
            if stack:
                lines.append(f"{station}: {', '.join(stack)}{self._told(station)}")
            else:
                empty.append(station)
        lines.append(f"Empty: {', '.join(empty) or 'nothing'}")
        return TimeStep(
            text="\n".join(lines),
            rewards={"task": reward},
            terminated=over,
            success=done,
            progress=state.served / self.orders,
            admissible=() if over else tuple(state.actions()),
        )

    def _told(self, station: str) -> str:
        left, process = self.state.left.get(station), self.state.process(station)
        if left is None or process is None:
            return ""
        unit = "cuts" if process.attended else "turns"
        return f" ({left} {unit if left > 1 else unit[:-1]} left)"

    def privileged_text(self) -> str:
        """Returns the number of open and of later orders, and the time left."""
        state = self.state
        later = f", later {len(state.later)}" if self.late else ""
        return f"Open: {len(state.orders)}{later}. Turns left: {self.limit - state.turn}."

    def expert(self) -> str | None:
        """Returns the planner's next action: the longest remaining work first."""
        return None if self._over else Planner(self.state).action()
