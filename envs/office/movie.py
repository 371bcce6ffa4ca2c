"""Movie: questions about generated films and their people."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any

from agentgym.envs.office.assignment import Assignment, AssignmentEnv
from agentgym.tasks import task_rng
from agentgym.tools import Call, ToolError, tool

ADJECTIVES = ("Silent", "Golden", "Broken", "Hidden", "Distant", "Burning", "Frozen", "Last")
NOUNS = ("Harbour", "Mountain", "Letter", "Garden", "Signal", "Voyage", "Mirror", "Orchard")
FIRST = ("Ada", "Boris", "Clara", "Dario", "Edda", "Felix", "Greta", "Hugo", "Ines", "Jonas")
LAST = ("Arlen", "Brandt", "Corvin", "Delmar", "Engel", "Farrow", "Gallo", "Hartig")
PLACES = ("Lisbon", "Oslo", "Kyoto", "Lima", "Cairo", "Dublin", "Accra", "Hanoi", "Quito")
GENRES = ("drama", "comedy", "thriller", "western", "mystery", "romance")
CHARACTERS = ("a captain", "a doctor", "a thief", "a teacher", "a spy", "a farmer")
MOVIES = 48


@lru_cache(maxsize=32)
def library(name: str) -> dict[str, dict[str, Any]]:
    """Returns the tables "movies" and "people" of a generated library.

    Args:
        name: name of the library.
    """
    rng = task_rng(name, "movie_library")
    titles = [f"The {a} {n}" for a, n in product(ADJECTIVES, NOUNS)]
    people = {
        f"{first} {last}": {
            "born": f"{int(rng.integers(1940, 1999))}-{int(rng.integers(1, 13)):02}-15",
            "birthplace": PLACES[int(rng.integers(len(PLACES)))],
            "movies": [],
        }
        for first, last in product(FIRST, LAST)
    }
    names = list(people)
    years = (1970 + rng.permutation(55)).tolist()
    movies = {}
    for i in rng.permutation(len(titles))[:MOVIES].tolist():
        director, *cast = (names[j] for j in rng.permutation(len(names))[:5].tolist())
        roles = rng.permutation(len(CHARACTERS)).tolist()
        movies[titles[i]] = {
            "year": years.pop(),
            "genres": sorted({GENRES[int(j)] for j in rng.integers(len(GENRES), size=3)}),
            "rating": round(float(rng.uniform(3, 9.5)), 2),
            "budget": int(rng.integers(1, 200)) * 1_000_000,
            "revenue": int(rng.integers(1, 400)) * 1_000_000,
            "director": director,
            "cast": {actor: CHARACTERS[roles.pop()] for actor in cast},
        }
        for person in (director, *cast):
            people[person]["movies"].append(titles[i])
    return {"movies": movies, "people": people}


@lru_cache(maxsize=4096)
def draw_assignment(task: str) -> Assignment:
    """Returns the question of a task."""
    rng = task_rng(task, "movie")
    name = f"{task.partition('/')[0]}/{int(rng.integers(8))}"
    tables = library(name)
    movies, people = tables["movies"], tables["people"]
    one, two = (list(movies)[i] for i in rng.permutation(len(movies))[:2].tolist())
    first, second = movies[one], movies[two]
    pair = (_details(one), _details(two))
    kind = int(rng.integers(6))
    if kind == 1 and first["rating"] == second["rating"]:  # two answers
        kind = 0
    calls: tuple[Call, ...]
    if kind == 0:
        request = f"Where was the director of {one} born?"
        calls = (_credits(one), _person(first["director"]))
        answer = people[first["director"]]["birthplace"]
    elif kind == 1:
        request = f"Which film has the higher rating, {one} or {two}?"
        calls, answer = pair, one if first["rating"] > second["rating"] else two
    elif kind == 2:
        request = f"By how many dollars did the revenue of {one} exceed its budget? It may be less."
        calls, answer = (_details(one),), str(first["revenue"] - first["budget"])
    elif kind == 3:
        actor = list(first["cast"])[int(rng.integers(len(first["cast"])))]
        request = f"Who does {actor} play in {one}?"
        calls, answer = (_credits(one),), first["cast"][actor]
    elif kind == 4:
        request = f"Which genres do {one} and {two} share? Answer with a list, or with none."
        shared = sorted({*first["genres"]} & {*second["genres"]})
        calls, answer = pair, "; ".join(shared) or "none"
    else:
        actor = list(first["cast"])[int(rng.integers(len(first["cast"])))]
        played = people[actor]["movies"]
        request = f"Which film that {actor} worked on is the oldest?"
        calls = (_person(actor), *map(_details, played))
        answer = min(played, key=lambda title: movies[title]["year"])
    return Assignment(request, {"library": name}, calls, answer)


def _details(title: str) -> Call:
    return Call("get_movie_details", {"title": title})


def _credits(title: str) -> Call:
    return Call("get_movie_credits", {"title": title})


def _person(name: str) -> Call:
    return Call("get_person", {"name": name})


class Movie(AssignmentEnv):
    """Answer questions about films.

    ## Description
    A question is about one or two films: the birthplace of the director, the higher rating, the
    profit, a role, common genres, or the oldest film of an actor.

    ## Action Space
    Text: a tool call, such as `{"name": "get_person", "arguments": {"name": "Ada Arlen"}}`, in any
    of the formats of `agentgym.tools.CallFormat`. `finish` ends the episode.

    ## Observation Space
    Text: first the question, then the result of the last call.

    ## Rewards
    1 (term `task`) at `finish` if the answer is right, else 0. Entries of a list may have any
    order. An invalid action costs `invalid_penalty`.

    ## Starting State
    The question is sampled from the task name. 8 generated libraries with 48 films and 80 people
    belong to the training tasks, and 8 others to the test tasks.

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
    The movie tasks of the AgentGym framework of Xi et al. (arXiv 2406.04151), which come from
    AgentBoard (arXiv 2401.13178) and use a web service. Films, people and questions are generated.

    ## Version History
    v0: first version.
    """

    rules = (
        "Answer a question about films. Look it up with the tools, then call finish with the "
        "answer: a number, a name, or a list separated by ';'. The reward is 1 if it is right, "
        "else 0."
    )

    def assignment(self, task: str) -> Assignment:
        """Returns a task."""
        return draw_assignment(task)

    def _entry(self, table: str, key: str) -> dict[str, Any]:
        entry = library(self.state.world["library"])[table].get(key)
        if entry is None:
            raise ToolError(f"There is no {key[:60]!r} among the {table}.")
        return entry

    @tool
    def search_movies(self, text: str) -> list[str]:
        """Lists the films whose titles contain a text.

        Args:
            text: part of the title. "" lists all films.
        """
        titles = library(self.state.world["library"])["movies"]
        return [title for title in titles if text.casefold() in title.casefold()]

    @tool
    def get_movie_details(self, title: str) -> dict[str, Any]:
        """Shows year, genres, rating, budget and revenue (dollars) of a film.

        Args:
            title: the whole title.
        """
        entry = self._entry("movies", title)
        return {key: entry[key] for key in ("year", "genres", "rating", "budget", "revenue")}

    @tool
    def get_movie_credits(self, title: str) -> dict[str, Any]:
        """Shows the director, and the actors with their roles.

        Args:
            title: the whole title.
        """
        entry = self._entry("movies", title)
        return {"director": entry["director"], "cast": entry["cast"]}

    @tool
    def get_person(self, name: str) -> dict[str, Any]:
        """Shows date and place of birth and the films of a person.

        Args:
            name: the whole name.
        """
        return self._entry("people", name)
