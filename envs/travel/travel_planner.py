"""TravelPlanner: search for travel information and plan a trip under constraints."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from agentgym.core import TextEnv
from agentgym.envs.travel.checks import (
    COMMONSENSE,
    SLOTS,
    Day,
    Request,
    check,
    read_ride,
)
from agentgym.envs.travel.lines import iso_date, plain_line
from agentgym.envs.travel.solver import LENGTHS, LEVELS, draw_request, solve
from agentgym.envs.travel.world import CUISINES, DATES, RULES, STATES, World, world
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command

LONGEST = 10_000
LINES = 60
LINE = 500
ENTRY = re.compile(rf"day (\d{{1,2}}) ({'|'.join(SLOTS)}):(.*)", re.ASCII | re.IGNORECASE)
SEARCH = re.compile(
    r"search (?:(?P<what>cities|hotels|restaurants|attractions) in (?P<where>.+)"
    r"|flights from (?P<start>.+) to (?P<end>.+) on (?P<date>.+)"
    r"|roads from (?P<road_start>.+) to (?P<road_end>.+))",
    re.ASCII | re.IGNORECASE,
)


@dataclass
class State:
    """The request, the plan and the searches.

    Attributes:
        request: the request.
        plan: the plan of each day.
        searched: distinct searches so far, in normalised form.
        submitted: whether the plan has been submitted.
    """

    request: Request
    plan: list[Day]
    searched: list[str] = field(default_factory=list)
    submitted: bool = False


@lru_cache(maxsize=1024)
def solution(seed: int, request: Request) -> list[Day]:
    """Returns the solver's plan, which exists for every sampled request."""
    plan = solve(world(seed), request)
    assert plan is not None
    return plan


def asked(request: Request) -> str:
    """Returns the text of a request."""
    people = "1 person" if request.people == 1 else f"{request.people} people"
    where = request.target
    if request.days > 3:
        where = f"{request.cities} cities in {request.target}"
    wishes = [
        f"a budget of ${request.budget:,} in all",
        f"accommodation that allows {request.rule}" if request.rule else "",
        f"accommodation of the type: {request.room}" if request.room else "",
        f"meals of these cuisines: {', '.join(request.cuisines)}" if request.cuisines else "",
        request.transport,
    ]
    return (
        f"Plan a trip of {request.days} days for {people} from {request.origin} to {where} and "
        f"back, from {request.date(0)} to {request.date(request.nights())}, with "
        f"{'; '.join(filter(None, wishes))}."
    )


def needed_entries(request: Request) -> int:
    """Returns the minimum number of entries of a complete plan."""
    rides = request.cities + 1
    asked_for = rides + request.nights() + 4 * (request.days - rides)
    return max(asked_for, len(SLOTS) * request.days // 2)


class TravelPlanner(TextEnv):
    """Plan a trip that meets a budget, preferences and common-sense constraints.

    ## Description
    The task of the TravelPlanner benchmark in a fictional country: 60 cities in 12 states, 2,700
    hotels, restaurants and attractions, and some 230,000 flights in a month. A request specifies
    days, people, a budget and up to three preferences. The agent searches, writes the plan in one
    or more actions, and submits it. The plan is then checked against the eight common-sense and up
    to five hard constraints of the benchmark. Every request has a plan that meets all constraints.

    ## Action Space
    Text, one or more lines:

    - `search cities in STATE`
    - `search hotels in CITY` (or `restaurants`, `attractions`)
    - `search flights from CITY to CITY on DATE`
    - `search roads from CITY to CITY`
    - `day N transport: flight NUMBER from CITY to CITY`
    - `day N transport: self-driving from CITY to CITY` (or `taxi`)
    - `day N breakfast: NAME, CITY` (or `lunch`, `dinner`, `hotel`)
    - `day N attractions: NAME, CITY; NAME, CITY`
    - `day N lunch: -` removes an entry.
    - `submit`, as the last line.

    An action has at most one search.

    ## Observation Space
    Text: the result of the search, the request, the searches so far and the plan.

    ## Rewards
    For the submitted plan:

    - Terms `commonsense` and `hard`: 0.5 times the number of met constraints of the type, divided
      by the number of all constraints. Their sum is half of the benchmark's micro score.
    - Term `final`: 0.5 if all constraints are met.

    As in the benchmark, hard constraints are met only by a plan that is complete and has only
    existing places and rides. A plan without any entry for some day meets no constraint. An invalid
    action costs `invalid_penalty`.

    ## Starting State
    An empty plan. The request is sampled from the task name. All tasks share the same country.

    ## Episode End
    Termination: the plan is submitted. Truncation: after `max_turns` turns, without reward.

    ## Information
    The common keys. `success` means that all constraints are met. `progress` is the fraction of met
    constraints (the micro score) after the submission, and half the fraction of needed entries
    before it. `admissible` is empty, because entries are free text.

    ## Arguments
    - `days` (int or None, default None): 3, 5 or 7, with one, two or three cities. None samples it.
    - `level` (str or None, default None): "easy" (one person, no preferences), "medium" (groups,
      one preference) or "hard" (groups, three preferences, a tight budget). None samples it.
    - `world` (int, default 0): seed of the country.
    - `max_turns` (int or None, default 30): turn limit, as in the benchmark.

    ## References
    TravelPlanner (arXiv 2402.01622). Tools, constraints, levels and lengths are those of the
    benchmark. Differences:

    - The country is fictional.
    - The city of a day follows from the journeys.
    - Flights must match the date of the day.
    - The target of a three-day trip is checked.
    - The budget is 10 to 60 percent above the cost of the solver's plan, and so always feasible.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Plan a trip. Search for travel information, write the plan and submit it.\n"
        "An action has one or more lines of these forms:\n"
        "- search cities in STATE\n"
        "- search hotels in CITY (or restaurants, attractions)\n"
        "- search flights from CITY to CITY on DATE (such as 2024-03-09)\n"
        "- search roads from CITY to CITY\n"
        "- day N transport: flight NUMBER from CITY to CITY\n"
        "- day N transport: self-driving from CITY to CITY (or taxi)\n"
        "- day N breakfast: NAME, CITY (or lunch, dinner, hotel)\n"
        "- day N attractions: NAME, CITY; NAME, CITY\n"
        "- day N lunch: - (removes the entry)\n"
        "- submit (only as the last line)\n"
        "An action has at most one search. Example of an action:\n"
        "day 1 transport: self-driving from Dalwick to Norport\n"
        "day 1 hotel: Red Inn, Norport\n"
        "The plan must meet these constraints:\n"
        "- All places and flights exist. Use names and flight numbers that you found by searching, "
        "and flights on their date.\n"
        "- Day 1 starts with a journey from the first city. Each journey starts in the city where "
        "the last one ended. The last day ends with the journey back. There is at most one journey "
        "per day.\n"
        "- Visit the requested number of cities, each of them once, all in the requested place.\n"
        "- Every night has a hotel in the city where the day ends.\n"
        "- A day without a journey has three meals and an attraction. At least half of the six "
        "entries per day are filled on average.\n"
        "- Meals and attractions are in a city of that day.\n"
        "- No restaurant and no attraction is visited twice.\n"
        "- Self-driving is not combined with flights or taxis.\n"
        "- A hotel is booked for at least its minimum number of nights in a row.\n"
        "- The budget, house rules, room type and transport are as requested. Each requested "
        "cuisine is eaten at least once away from home.\n"
        "Costs: flights and meals are paid per person, self-driving per car of 5 people, taxis per "
        "car of 4 people, hotels per night and unit (for the listed number of people). Attractions "
        "are free.\n"
        "Rewards: half for the fraction of constraints that are met, half if all are met. The "
        "episode ends when you submit. Without a submission there is no reward.\n"
        f"States: {', '.join(STATES)}.\n"
        f"House rules: {', '.join(RULES)}.\n"
        "Room types: entire home, private room, shared room.\n"
        f"Cuisines: {', '.join(CUISINES)}."
    )
    State = State
    state: State
    reward_names = ("commonsense", "hard", "final")

    def __init__(
        self,
        *,
        days: int | None = None,
        level: str | None = None,
        world: int = 0,
        max_turns: int | None = 30,
        **kwargs,
    ):
        if days is not None and days not in LENGTHS:
            raise ValueError(f"days must be None or one of {LENGTHS}, got {days}.")
        if level is not None and level not in LEVELS:
            hint = did_you_mean(str(level), LEVELS)
            raise ValueError(f"level must be None or one of {LEVELS}, got {level!r}.{hint}")
        super().__init__(max_turns=max_turns, **kwargs)
        self.days, self.level, self.world = days, level, world
        self.tasks = Tasks.generated()

    @property
    def country(self) -> World:
        """The country, which copies and pickles do not contain."""
        return world(self.world)

    def _start(self, task: str) -> TimeStep:
        rng = task_rng(task, "travel_planner")
        days, level = LENGTHS[int(rng.integers(3))], LEVELS[int(rng.integers(3))]
        request = draw_request(rng, self.country, self.days or days, self.level or level)
        self.state = State(request, [Day() for _ in range(request.days)])
        return self._look("")

    def _advance(self, action: str) -> TimeStep:
        if len(action) > LONGEST:
            return self._invalid(f"An action must have at most {LONGEST:,} characters.")
        lines = [plain_line(line) for line in command(action).splitlines() if line.strip()]
        if not 1 <= len(lines) <= LINES:
            return self._invalid(f"An action must have 1 to {LINES} lines, got {len(lines)}.")
        if max(map(len, lines)) > LINE:
            return self._invalid(f"A line must have at most {LINE} characters.")
        plan, found, query = copy.deepcopy(self.state.plan), "", ""
        submitted = lines[-1].lower() == "submit"
        for line in lines[: len(lines) - submitted]:
            if entry := ENTRY.fullmatch(line):
                problem = self._write(plan, int(entry[1]), entry[2].lower(), entry[3].strip())
            elif search := SEARCH.fullmatch(line):
                problem = "An action must have at most one search." if query else ""
                query, found, wrong = self._search(search.groupdict())
                problem = problem or wrong
            else:
                problem = "Lines start with search or day N. The last line can be submit."
            if problem:
                return self._invalid(
                    f"Nothing was done because of the line {line[:80]!r}. {problem}"
                )
        self.state.plan, self.state.submitted = plan, submitted
        if query and query not in self.state.searched:
            self.state.searched.append(query)
        return self._look(found)

    def _write(self, plan: list[Day], day: int, slot: str, value: str) -> str:
        """Writes an entry into a plan. Returns an error message, or ""."""
        if not 1 <= day <= len(plan):
            return f"The trip has days 1 to {len(plan)}."
        if value == "-":
            value = ""
        elif slot == "transport" and read_ride(value) is None:
            return (
                "Expected: flight NUMBER from CITY to CITY, self-driving from CITY to CITY, or "
                "taxi from CITY to CITY."
            )
        elif slot != "transport" and not all("," in part for part in value.rstrip(";").split(";")):
            return "Expected: NAME, CITY. Attractions are separated by semicolons."
        setattr(plan[day - 1], slot, value)
        return ""

    def _search(self, asked: dict[str, str | None]) -> tuple[str, str, str]:
        """Runs a search. Returns its normalised form, its result, and an error message or ""."""
        country = self.country
        what = (asked["what"] or "").lower()
        if what == "cities":
            state = country.states.get((asked["where"] or "").casefold())
            if state is None:
                return "", "", f"There is no state {asked['where']!r:.40}."
            return f"cities in {state}", f"{state}: {', '.join(country.in_state(state))}.", ""
        names = [asked["where"], asked["start"], asked["end"], asked["road_start"]]
        names = [name for name in [*names, asked["road_end"]] if name]
        for name in names:
            if name.casefold() not in country.by_name:
                hint = did_you_mean(name[:40].title(), [city.name for city in country.cities])
                return "", "", f"There is no city {name[:40]!r}.{hint}"
        cities = [country.by_name[name.casefold()].name for name in names]
        if what:
            places = getattr(country, what)[cities[0]]
            listed = "\n".join(map(str, places))
            return f"{what} in {cities[0]}", f"{what.capitalize()} in {cities[0]}:\n{listed}", ""
        way = f"from {cities[0]} to {cities[1]}"
        if asked["date"]:
            date = iso_date(asked["date"])
            if date not in DATES:
                return "", "", f"Dates are {DATES[0]} to {DATES[-1]}."
            flights = "\n".join(map(str, country.flights(cities[0], cities[1], date)))
            return f"flights {way} on {date}", f"Flights on {date}:\n{flights or 'none'}", ""
        return f"roads {way}", self._road(*cities), ""

    def _road(self, origin: str, target: str) -> str:
        own, taxi = (self.country.road(origin, target, by) for by in ("self-driving", "taxi"))
        if own is None:
            return f"No road leads from {origin} to {target} that can be driven in a day."
        return (
            f"{target} is {self.country.kilometres(origin, target)} km from {origin}: self-driving "
            f"${own} per car for up to 5 people, taxi ${taxi} per car for up to 4 people."
        )

    def _look(self, found: str) -> TimeStep:
        state, request = self.state, self.state.request
        lines = ["Plan:"]
        for i, day in enumerate(state.plan):
            entries = day.entries().items()
            lines += [f"day {i + 1} {slot}: {text}" for slot, text in entries] or [f"day {i + 1} -"]
        filled = sum(len(day.entries()) for day in state.plan)

        def page(searched: list[str]) -> str:
            looked_up = f"Looked up: {'; '.join(searched) or 'nothing'}."
            return "\n".join([asked(request), looked_up, *lines])

        step = TimeStep(
            text=page(state.searched),
            state_key=page(sorted(state.searched)),  # independent of the order of searches
            feedback=found,
            progress=0.5 * min(1.0, filled / needed_entries(request)),
        )
        return self._judged(step) if state.submitted else step

    def _judged(self, step: TimeStep) -> TimeStep:
        """Returns the final step of an episode, which evaluates the submitted plan."""
        faults = check(self.country, self.state.request, self.state.plan)
        met = [name for name, fault in faults.items() if not fault]
        sensible = sum(name in COMMONSENSE for name in met)
        success = len(met) == len(faults)
        verdict = [f"Submitted. {len(met)} of {len(faults)} constraints are met."]
        verdict += [f"Not met: {name} ({fault})." for name, fault in faults.items() if fault]
        return replace(
            step,
            feedback="\n".join(filter(None, [step.feedback, *verdict])),
            rewards={
                "commonsense": 0.5 * sensible / len(faults),
                "hard": 0.5 * (len(met) - sensible) / len(faults),
                "final": 0.5 * success,
            },
            terminated=True,
            success=success,
            progress=len(met) / len(faults),
        )

    def expert(self) -> str | None:
        """Returns the next action towards the solver's plan: searches, entries, then `submit`.

        The expert knows the plan in advance, so it runs only the searches that the plan uses.
        """
        state, request = self.state, self.state.request
        if state.submitted:
            return None
        plan = solution(self.world, request)
        for query in _queries(request, plan):
            if query not in state.searched:
                return f"search {query}"
        for i, (day, right) in enumerate(zip(state.plan, plan, strict=True)):
            lines = [
                f"day {i + 1} {slot}: {getattr(right, slot) or '-'}"
                for slot in SLOTS
                if getattr(day, slot) != getattr(right, slot)
            ]
            if lines:
                return "\n".join(lines)
        return "submit"


def _queries(request: Request, plan: list[Day]) -> list[str]:
    """Returns the searches that find all rides and places of a plan."""
    queries = [] if request.days == 3 else [f"cities in {request.target}"]
    rides = [(i, ride) for i, day in enumerate(plan) if (ride := read_ride(day.transport))]
    for i, ride in rides:
        way = f"from {ride.origin} to {ride.target}"
        flies = ride.by == "flight"
        queries.append(f"flights {way} on {request.date(i)}" if flies else f"roads {way}")
    for (_, ride), _ in pairwise(rides):
        for what in ("hotels", "restaurants", "attractions"):
            queries.append(f"{what} in {ride.target}")
    return queries
