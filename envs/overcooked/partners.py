"""Scripted cooks, which decide on the basis of their beliefs.

They share the work by a rule that each of them can compute: in the order of the recipe, every open
job goes to the nearest free cook. They announce their jobs and respect announcements of co-players:
"I take the tomato" reserves the tomato for the sender, "you take the tomato" is a request.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from agentgym.envs.overcooked.brigade import ITEMS, Layout, State, in_view
from agentgym.envs.overcooked.errands import BOARDS, MOVES
from agentgym.envs.overcooked.kitchen import CHOPS, FOODS, STEPS, Square

CLAIM = re.compile(
    r"\b(i|you) (?:take|chop|use|serve) (?:the )?(tomato|lettuce|onion|bowl [12]|board [12])\b"
)
WAITS = "i wait"


@dataclass(frozen=True)
class Job:
    """An open job: its first errand, its item and the square of the item."""

    errand: str
    item: str
    square: Square


class View:
    """The kitchen according to the beliefs of one cook."""

    def __init__(self, layout: Layout, state: State, number: int, order: str, radius: int):
        cook = state.cooks[number]
        # Items that are visibly not at their remembered squares.
        lost = {
            name
            for name in ITEMS
            if state.where[name] != cook.seen[name] and in_view(cook, cook.seen[name], radius)
        }
        self.layout, self.number, self.seen = layout, number, cook.seen
        self.at, self.held = cook.at, cook.holding
        self.blind = not in_view(cook, layout.boards[0], radius)  # the boards are out of sight
        self.cooks = [cook.seen[str(other)] for other in range(len(state.cooks))]
        self._listen(state)
        self.chopped = [name for name in FOODS if cook.chopped[name] >= CHOPS]
        self.foods = [name for name in FOODS if name in order]
        self.inside = {
            bowl: [food for food in self.chopped if cook.seen[food] == cook.seen[bowl]]
            for bowl in ("bowl 1", "bowl 2")
        }
        bowls = self.inside.items()
        clean = [b for b, foods in bowls if set(foods) <= set(self.foods) and b not in lost]
        clean.sort(key=lambda b: (-len(self.inside[b]), self.holder(b) is None, self._far(b)))
        self.bowl = clean[0] if clean else ""
        self.missing = [food for food in self.foods if food not in self.inside.get(self.bowl, ())]
        self.raw = [food for food in self.missing if food not in self.chopped]
        self.lying = {
            name: self.seen[name]
            for name in ITEMS
            if self.holder(name) is None and name not in lost
        }
        self.on_board = [self._on(square) for square in layout.boards]

    def _listen(self, state: State) -> None:
        """Extracts announcements, requests and idle co-players from the latest messages."""
        self.claims: dict[str, set[str]] = {"i": set(), "you": set()}
        self.helpers: list[int] = []  # co-players that are assumed to share the work
        for i, other in enumerate(state.cooks):
            said = other.said.casefold()
            if i != self.number:
                for who, item in CLAIM.findall(said):
                    self.claims[who].add(item)
                if said.startswith(WAITS) or not state.steps:
                    self.helpers.append(i)

    def _far(self, name: str) -> tuple[bool, int]:
        """Returns whether an item is out of reach of the boards, and its distance to them."""
        square = self.seen[name]
        return square not in reach(self.layout.floor, (1, 1)), distance(square, (1, 1))

    def _on(self, square: Square) -> str:
        found = [name for name, there in self.lying.items() if there == square]
        return found[-1] if found else ""  # a bowl comes after its contents

    def holder(self, name: str) -> int | None:
        """Returns the number of the cook that holds an item, or None."""
        square = self.seen[name]
        return self.cooks.index(square) if square in self.cooks else None

    def reaches(self, square: Square, cook: int | None = None) -> bool:
        """Whether a cook (None: this one) can reach a square if no cook blocks it."""
        return square in reach(self.layout.floor, self.cooks[self.number if cook is None else cook])

    def works(self, cook: int | None = None) -> bool:
        """Whether a cook can reach the boards."""
        return self.reaches(self.layout.boards[0], cook)

    def board(self) -> str:
        """Returns the errand to the nearest free board, or "" if there is none."""
        taken = [go.removeprefix("go to ") in self.claims["i"] for go in BOARDS]
        places = zip(BOARDS, self.on_board, taken, strict=True)
        free = [go for go, item, claimed in places if not item and not claimed]
        free.sort(key=lambda go: distance(self.at, self.layout.boards[BOARDS.index(go)]))
        return free[0] if free else ""


@cache
def reach(floor: frozenset[Square], start: Square) -> frozenset[Square]:
    """Returns all squares that can be entered or touched from a square."""
    found, queue = {start}, [start]
    while queue:
        row, column = queue.pop()
        for down, right in STEPS[:4]:
            to = row + down, column + right
            if to not in found:
                found.add(to)
                if to in floor:
                    queue.append(to)
    return frozenset(found)


def distance(a: Square, b: Square) -> int:
    """Returns the Manhattan distance."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def plan(
    layout: Layout, state: State, number: int, order: str, radius: int, alone: bool = False
) -> str:
    """Returns the next errand of a cook.

    Args:
        layout: the kitchen.
        state: the state, of which only beliefs and messages of the cook are used.
        number: index of the cook.
        order: the salad to make.
        radius: visibility radius, 0 for full visibility.
        alone: whether the cook ignores co-players and takes the most urgent job.
    """
    view = View(layout, state, number, order, radius)
    if view.held in view.inside:
        return _with_bowl(view)
    if view.held:
        return _with_food(view)
    jobs = _jobs(view)
    job = next(iter(jobs), None) if alone else _mine(view, jobs)
    return job.errand if job else aside(view)


def announce(errand: str, state: State, number: int) -> str:
    """Returns the message of a cook that starts an errand."""
    cook = state.cooks[number]
    held = cook.holding
    if errand == "chop":
        food = next(f for f in FOODS if f != held and distance(cook.at, cook.seen[f]) == 1)
        return f"I chop the {food}."
    if errand in BOARDS and held:
        return f"I use {errand.removeprefix('go to ')}."
    if errand.startswith("get "):
        return f"I take the {errand.removeprefix('get ')}."
    if errand == "deliver" and held:
        return f"I serve the {held}."
    return "I wait." if errand in (*MOVES, "stay") else ""


def _with_bowl(view: View) -> str:
    """Returns the errand of a cook that holds a bowl."""
    held, bowl = view.held, view.bowl
    stray = any(food in view.inside[held] for food in view.foods) and held != bowl
    if not view.works():
        return "go to counter"
    if held != bowl or stray:
        return "deliver"  # a wrongly served item returns home
    if not view.missing:
        return "deliver"
    ready = [food for food in view.missing if food in view.chopped and food in view.lying]
    ready = [food for food in ready if view.reaches(view.lying[food])]
    if ready:
        return f"get {min(ready, key=lambda food: distance(view.at, view.lying[food]))}"
    waiting = [food for food in view.raw if food not in view.on_board]
    if view.on_board.count("") > len(waiting) and view.board():
        return view.board()
    return BOARDS[1] if view.blind else aside(view)


def _with_food(view: View) -> str:
    """Returns the errand of a cook that holds a food."""
    held = view.held
    if not view.works():
        return "go to counter"
    if held not in view.missing:
        return "deliver"
    if held in view.raw:
        stuck = all(name in view.chopped for name in view.on_board)
        alone = view.bowl in view.lying
        return view.board() or ("deliver" if stuck and alone else aside(view))
    if view.bowl in view.lying and view.reaches(view.lying[view.bowl]):
        return f"get {view.bowl}"
    return view.board() or aside(view)


def _jobs(view: View) -> list[Job]:
    """Returns the open jobs of a cook with empty hands, the most urgent first."""
    boards = view.layout.boards
    beside = [boards[i] for i in range(2) if distance(view.at, boards[i]) == 1]
    jobs = []
    for i, name in enumerate(view.on_board):
        blocked = name in FOODS and name not in view.foods and "" not in view.on_board
        if name in view.raw or (blocked and name not in view.chopped):
            errand = "chop" if boards[i] in beside else BOARDS[i]
            jobs.append(Job(errand, name, boards[i]))
        elif blocked:
            jobs.append(Job(f"get {name}", name, boards[i]))
    free = view.on_board.count("") - sum(view.holder(name) is not None for name in view.raw)
    fetched = [food for food in view.raw if food in view.lying and food not in view.on_board]
    if view.works():
        fetched = fetched[: max(0, free)]
    else:
        fetched = [food for food in fetched if view.lying[food] not in view.layout.wall]
    jobs += [Job(f"get {food}", food, view.lying[food]) for food in fetched]
    stray = [b for b, foods in view.inside.items() if foods and b != view.bowl and b in view.lying]
    jobs += [Job(f"get {bowl}", bowl, view.lying[bowl]) for bowl in stray]
    jobs += _assembly(view)
    return [job for job in jobs if view.reaches(job.square)]


def _assembly(view: View) -> list[Job]:
    """Returns the jobs that bring the bowl and the chopped foods together."""
    bowl, lying = view.bowl, view.lying
    ready = [food for food in view.missing if food in view.chopped and food in lying]
    if bowl not in lying:
        return []
    get_bowl = Job(f"get {bowl}", bowl, lying[bowl])
    if not view.works():
        return [get_bowl] if lying[bowl] not in view.layout.wall else []
    parked = lying[bowl] in view.layout.boards
    if ready and (len(view.missing) == 1 or parked):
        return [Job(f"get {food}", food, lying[food]) for food in ready[:1]]
    return [] if parked and view.missing else [get_bowl]


def _mine(view: View, jobs: list[Job]) -> Job | None:
    """Returns the job of this cook when all free cooks share the jobs, or None."""
    for job in jobs:
        if job.item in view.claims["you"]:
            return job
    free = [view.number, *view.helpers]
    for job in jobs:
        able = [i for i in free if view.reaches(job.square, i) and view.works(i) == view.works()]
        if job.item in view.claims["i"] or not able:
            continue
        nearest = min(able, key=lambda i: (distance(view.cooks[i], job.square), i))
        if nearest == view.number:
            return job
        free.remove(nearest)
    return None


def aside(view: View) -> str:
    """Returns the step that keeps an idle cook out of the way of its co-players."""
    others = [square for i, square in enumerate(view.cooks) if i != view.number]
    layout = view.layout
    work = (*layout.boards, layout.delivery, *view.lying.values())
    busy = {(row + down, column + right) for row, column in work for down, right in STEPS[:4]}
    if layout.wall:
        busy.add((layout.size - 2, layout.size // 2))  # the gap
    best, errand = None, "stay"
    around = {(view.at[0] + down, view.at[1] + right) for down, right in STEPS[:4]}
    if not view.held and not (around & layout.floor) - set(others):
        # Boxed in: walk towards a blocking cook, so that the two can swap places.
        return BOARDS[0] if distance(view.at, layout.delivery) == 1 else "deliver"
    for step, name in (*zip(STEPS[:4], MOVES, strict=True), ((0, 0), "stay")):
        to = view.at[0] + step[0], view.at[1] + step[1]
        if to in layout.floor and to not in others:
            worth = (to not in busy, min(distance(to, other) for other in others), name == "stay")
            if best is None or worth > best:
                best, errand = worth, name
    return errand
