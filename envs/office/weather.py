"""Weather: questions about the weather of generated towns."""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.envs.office.assignment import Assignment, AssignmentEnv
from agentgym.tasks import task_rng
from agentgym.tools import Call, ToolError, tool

TOWNS = (
    *("Alder", "Birch", "Cove", "Dell", "Ember", "Fenwick", "Grove", "Haven"),
    *("Inlet", "Juniper", "Knoll", "Larch"),
)
FIRST = date(2025, 1, 1)
DAYS = 120
Record = dict[str, float]


@lru_cache(maxsize=256)
def weather_of(country: str, town: str) -> list[Record]:
    """Returns the weather of each day in a town.

    Args:
        country: name of the generated country.
        town: one of `TOWNS`.
    """
    rng = task_rng(f"{country}/{town}", "weather")
    mean = float(rng.uniform(-5, 20)) + 6 * np.sin(np.arange(DAYS) / 40) + rng.normal(0, 3, DAYS)
    spread, rain = rng.uniform(2, 6, DAYS), np.maximum(0, rng.normal(-1, 4, DAYS))
    return [
        {
            "lowest": round(float(m - s), 1),
            "highest": round(float(m + s), 1),
            "rain": round(float(r), 1),
        }
        for m, s, r in zip(mean, spread, rain, strict=True)
    ]


@lru_cache(maxsize=4096)
def draw_assignment(task: str) -> Assignment:
    """Returns the question of a task."""
    rng = task_rng(task, "weather")
    country = f"{task.partition('/')[0]}/{int(rng.integers(16))}"
    here, there = (TOWNS[i] for i in rng.permutation(len(TOWNS))[:2].tolist())
    today = int(rng.integers(10, DAYS))
    world = {"country": country, "town": here, "date": str(FIRST + timedelta(days=today))}
    kind, back = int(rng.integers(5)), int(rng.integers(2, 9))
    mine, other = weather_of(country, here), weather_of(country, there)
    day = today - back
    lows = [record["lowest"] for record in other[day : today + 1]]
    same = lows[-1] == mine[today]["lowest"] if kind == 2 else lows.count(min(lows)) > 1
    if kind in (2, 4) and same:  # two answers
        kind = 0
    if kind == 0:
        request = f"What was the highest temperature here {back} days ago?"
        towns, days, answer = [here], [day], mine[day]["highest"]
    elif kind == 1:
        request = f"How much rain fell in {there} in the {back} days before today in all?"
        towns, days = [there], list(range(today - back, today))
        answer = round(sum(other[d]["rain"] for d in days), 1)
    elif kind == 2:
        request = f"Was the lowest temperature today lower here or in {there}? Answer the town."
        towns, days = [here, there], [today]
        answer = here if mine[today]["lowest"] < other[today]["lowest"] else there
    elif kind == 3:
        request = f"How many degrees warmer was the highest temperature today than {back} days ago?"
        towns, days = [here], [today, day]
        answer = round(mine[today]["highest"] - mine[day]["highest"], 1)
    else:
        request = f"On which of the {back + 1} days until today was it coldest in {there}?"
        towns, days = [there], list(range(day, today + 1))
        answer = str(FIRST + timedelta(days=day + lows.index(min(lows))))
    calls = [Call("today", {}), *([Call("location", {})] if here in towns else [])]
    dates = [FIRST + timedelta(days=d) for d in days]
    for town in towns:
        for first, last in _spans(dates):
            arguments = {"town": town, "first": str(first), "last": str(last)}
            calls.append(Call("get_weather", arguments))
    return Assignment(request, world, tuple(calls), str(answer))


def _spans(dates: list[date]) -> list[tuple[date, date]]:
    """Returns the first and last day of each call: one for days in a row, or one per day."""
    if len(dates) == (dates[-1] - dates[0]).days + 1:
        return [(dates[0], dates[-1])]
    return [(day, day) for day in dates]


class Weather(AssignmentEnv):
    """Answer questions about the weather.

    ## Description
    A question is about temperatures or rain of one or two towns on days relative to today. The
    agent finds out date and location, looks up the weather and computes the answer.

    ## Action Space
    Text: a tool call, such as `{"name": "get_weather", "arguments": {"town": "Cove", "first":
    "2025-02-01", "last": "2025-02-03"}}`, in any of the formats of `agentgym.tools.CallFormat`.
    `finish` ends the episode.

    ## Observation Space
    Text: first the question, then the result of the last call.

    ## Rewards
    1 (term `task`) at `finish` if the answer is right (numbers: within 0.01), else 0. An invalid
    action costs `invalid_penalty`.

    ## Starting State
    Question, date and location are sampled from the task name. 16 generated countries with 12 towns
    and 120 days belong to the training tasks, and 16 others to the test tasks.

    ## Episode End
    Termination: `finish`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the fraction of the solution's calls that were made. `admissible`
    is empty. `state_key` identifies the state, and the calls and results whatever their order.

    ## Arguments
    - `call_format` (str, default "json"): format of calls in the instructions and in the expert's
      actions: "json", "tool_call" (Qwen, Hermes), "llama_call" or "python".
    - `max_turns` (int or None, default 20): turn limit.

    ## References
    The weather tasks of the AgentGym framework of Xi et al. (arXiv 2406.04151), which come from
    AgentBoard (arXiv 2401.13178) and use a web service. Towns, weather and questions are generated.

    ## Version History
    v0: first version.
    """

    rules = (
        "Answer a question about the weather. Look it up with the tools, then call finish with the "
        "answer: a number, a date like 2025-02-01, or a name. The reward is 1 if it is right, "
        "else 0."
    )

    def assignment(self, task: str) -> Assignment:
        """Returns a task."""
        return draw_assignment(task)

    @tool
    def today(self) -> str:
        """Shows the date of today."""
        return self.state.world["date"]

    @tool
    def location(self) -> str:
        """Shows the town of the user, called "here" in questions."""
        return self.state.world["town"]

    @tool
    def list_towns(self) -> list[str]:
        """Lists the towns."""
        return list(TOWNS)

    @tool
    def get_weather(self, town: str, first: str, last: str) -> dict[str, Any]:
        """Shows lowest and highest temperature (degrees Celsius) and rain (mm) of each day.

        Args:
            town: name of the town.
            first: first day, such as "2025-02-01".
            last: last day, at most 13 days later.
        """
        if town not in TOWNS:
            raise ToolError(f"There is no town {town[:40]!r}.")
        try:
            start, stop = ((date.fromisoformat(day) - FIRST).days for day in (first, last))
        except ValueError:
            raise ToolError("A date is written like 2025-02-01.") from None
        now = (date.fromisoformat(self.state.world["date"]) - FIRST).days
        if not (0 <= start <= stop < min(start + 14, now + 1)):
            raise ToolError(f"Expected at most 14 days between {FIRST} and today.")
        days = weather_of(self.state.world["country"], town)
        return {str(FIRST + timedelta(days=d)): dict(days[d]) for d in range(start, stop + 1)}
