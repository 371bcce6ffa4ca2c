"""ContextualBandit: recommend films to a stream of users."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.core import TextEnv, TurnLimit
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import match_action

ARMS = {"easy": 10, "hard": 30}
"""Number of films (the two sizes of EVOLvE)."""
LENGTH = 5
"""Length of taste vectors (the rank of EVOLvE)."""
OCCUPATIONS = ("baker", "nurse", "teacher", "farmer", "engineer", "painter")
GENRES = ("adventure", "comedy", "drama", "mystery", "science fiction")
FIRST = ("Silent", "Golden", "Broken", "Distant", "Hidden", "Burning")
SECOND = ("Harbour", "Orchard", "Compass", "Letter", "Winter")
RIDGE, WIDTH = 0.3, 0.055
EXAMPLE_USERS = 20
"""Length of an example game in the instructions."""
TITLES = tuple(f"{first} {second}" for second in SECOND for first in FIRST)


@dataclass
class User:
    """A user: age, occupation and taste vector."""

    age: int
    occupation: str
    taste: tuple[float, ...]


@dataclass
class State:
    """The current user and the history.

    Attributes:
        user: current user.
        users: earlier users.
        shown: index of the film recommended to each of them.
        paid: their ratings.
        told: the history as text.
        regret: cumulative expected regret, without noise.
        chance: cumulative expected regret of random recommendations.
    """

    user: User
    users: list[User] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    paid: list[float] = field(default_factory=list)
    told: str = ""
    regret: float = 0.0
    chance: float = 0.0


@dataclass(frozen=True)
class World:
    """The films and preferences of a task.

    Attributes:
        genres: the genre of each film.
        films: film features, shape (arms, 5), rows of unit length.
        leanings: mean taste of each occupation, shape (6, 5), rows of unit length.
        ageing: direction in which taste changes with age, shape (5,).
    """

    genres: tuple[str, ...]
    films: np.ndarray
    leanings: np.ndarray
    ageing: np.ndarray


def unit(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors (last axis) scaled to length 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@lru_cache(maxsize=1024)
def make_world(task: str, arms: int) -> World:
    """Returns the world of a task."""
    rng = task_rng(task, "contextual bandit")
    kinds = unit(rng.standard_normal((len(GENRES), LENGTH)))
    genres = rng.integers(len(GENRES), size=arms)
    films = unit(kinds[genres] + 0.7 * unit(rng.standard_normal((arms, LENGTH))))
    leanings = unit(rng.standard_normal((len(OCCUPATIONS), LENGTH)))
    ageing = unit(rng.standard_normal(LENGTH))
    return World(tuple(GENRES[i] for i in genres), films, leanings, ageing)


def draw_user(world: World, rng: np.random.Generator) -> User:
    """Samples a user, whose taste depends in part on occupation and age."""
    occupation, age = int(rng.integers(len(OCCUPATIONS))), int(rng.integers(16, 80))
    leaning = world.leanings[occupation] + world.ageing * (age - 48) / 32
    # Adding 0.0 turns -0.0, formatted as "-0.00", into 0.0.
    taste = unit(leaning + 0.8 * unit(rng.standard_normal(LENGTH)))
    return User(age, OCCUPATIONS[occupation], tuple(round(float(x), 2) + 0.0 for x in taste))


def ratings(world: World, user: User) -> np.ndarray:
    """Returns a user's ratings of all films without noise, in [0, 1], shape (arms,)."""
    return np.clip(0.5 + 0.5 * (world.films @ np.array(user.taste)), 0.0, 1.0)


def lin_ucb(
    contexts: np.ndarray, shown: list[int], paid: list[float], arms: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns LinUCB's estimates and exploration bonuses for the last context, each (arms,).

    Their sum is the upper confidence bound of the rating minus 0.5. Algorithm 1 of Li et al. (arXiv
    1003.0146): one linear model per arm, here of the rating minus 0.5. `RIDGE` and `WIDTH` are
    chosen for short episodes (1 and 0.5 in the paper and in EVOLvE).

    Args:
        contexts: contexts of the played rounds, then the current one, shape (rounds + 1, d).
        shown: the played arms.
        paid: their ratings.
        arms: number of arms.
    """
    past, now = contexts[:-1], contexts[-1]
    size = len(now)
    played = (np.arange(arms)[:, None] == np.array(shown, dtype=int)).astype(float)
    squares = (past[:, :, None] * past[:, None, :]).reshape(-1, size * size)
    gram = RIDGE * np.eye(size) + (played @ squares).reshape(arms, size, size)
    target = played @ (past * (np.array(paid) - 0.5)[:, None])
    weights = np.linalg.solve(gram, np.broadcast_to(now[:, None], (arms, size, 1)))[..., 0]
    return (weights * target).sum(axis=1), WIDTH * np.sqrt(weights @ now)


def contexts_of(users: list[User], taste: bool) -> np.ndarray:
    """Returns user features, shape (users, d): taste, or age and one-hot occupation."""
    if taste:
        return np.array([user.taste for user in users])
    rows = [[(u.age - 48) / 32, *(float(u.occupation == o) for o in OCCUPATIONS)] for u in users]
    return np.array(rows)


class ContextualBandit(TextEnv):
    """A contextual bandit: recommend films to a stream of users and learn their preferences.

    ## Description
    A contextual bandit in the form of EVOLvE's MovieLens task, with generated films and users. A
    rating depends on the product of the user's taste and the film's hidden features, both vectors
    of 5 numbers. Films of one genre are similar, and so are people of the same occupation and age.

    ## Action Space
    Text: the title of a film.

    ## Observation Space
    Text: the films and their genres, all earlier recommendations with their ratings (or only the
    last one, see `history`), and the current user: occupation, age and, with `taste`, the taste
    vector.

    ## Rewards
    Term `task`: the user's rating of the film, from 0 to 1, divided by `rounds`.

    ## Starting State
    Films and preferences are determined by the task. Users and noise are sampled with the seed of
    the episode.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns`.

    ## Information
    The common keys.

    - `success`: at the end, the regret is below half of the expected regret of random
      recommendations. Regret is the noise-free rating that the best films would have added.
    - `progress`: 1 minus the ratio of the regret to that of random recommendations.
    - `regret`: the regret so far.

    ## Arguments
    - `difficulty` ("easy" or "hard", default "easy"): 10 or 30 films.
    - `rounds` (int, default 100): number of users.
    - `noise` (float, default 0): standard deviation of the rating noise.
    - `taste` (bool, default True): show the taste vector. Otherwise only the profile is shown.
    - `history` (bool, default True): show all earlier ratings, or only the last one.
    - `support` (bool, default False): show the estimated rating and the exploration bonus of each
      film under LinUCB, and their sum (EVOLvE: algorithm-guided support).
    - `demonstrations` (int, default 0): number of example games of the expert with 20 users in the
      instructions, with the preferences of other tasks (EVOLvE: few-shot demonstrations), 0 to 10.
    - `max_turns` (int, default twice the rounds): turns before truncation.

    ## References
    EVOLvE (arXiv 2410.06238): 10 or 30 films, a profile and 5 numbers per user, ratings without
    noise, algorithm-guided support and demonstrations. It derives films and users from MovieLens.
    The expert is LinUCB (Li et al., arXiv 1003.0146).

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(
        self,
        *,
        difficulty: str = "easy",
        rounds: int = 100,
        noise: float = 0.0,
        taste: bool = True,
        history: bool = True,
        support: bool = False,
        demonstrations: int = 0,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if difficulty not in ARMS:
            hint = did_you_mean(difficulty, ARMS)
            raise ValueError(f"difficulty must be easy or hard, got {difficulty!r}.{hint}")
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}.")
        if not 0 <= noise <= 1:
            raise ValueError(f"noise must be in [0, 1], got {noise}.")
        if not 0 <= demonstrations <= 10:
            raise ValueError(f"demonstrations must be in [0, 10], got {demonstrations}.")
        super().__init__(max_turns=2 * rounds if max_turns == "auto" else max_turns, **kwargs)
        self.titles = TITLES[: ARMS[difficulty]]
        self._numbers = {title: i for i, title in enumerate(self.titles)}
        self.rounds, self.noise, self.taste, self.history = rounds, noise, taste, history
        self.support = support
        self.tasks = Tasks.generated()
        profile = "occupation, age and taste (5 numbers)" if taste else "occupation and age"
        self.instructions = (
            f"You recommend films to {rounds} users, one after the other. Learn from their ratings "
            "which films to recommend, and make the total rating as high as you can.\n"
            "\n"
            "Rules:\n"
            "- Each user rates the film that you recommend, from 0 to 1.\n"
            "- The rating depends on the user's taste and on the film"
            + (", plus some noise.\n" if noise else ".\n")
            + "- Films of the same genre are similar. Users of the same occupation and age have "
            "similar tastes.\n"
            f"- You see the {profile} of each user.\n"
            + ("" if history else "- You see only the last rating. Remember the earlier ones.\n")
            + f"\nAction: only the title of a film, for example {self.titles[0]}. The films are: "
            f"{', '.join(self.titles)}.\n"
            "\n"
            "Score: the mean rating over all users."
        )
        if support:
            self.instructions += f"\n\n{_SUPPORT}"
        for number in range(demonstrations):
            game = self._example(f"example/{number}")
            self.instructions += f"\n\nExample of a good player, with other preferences:{game}"

    def _start(self, task: str) -> TimeStep:
        world = make_world(task, len(self.titles))
        self.state = State(draw_user(world, self.np_random))
        return self._look(0.0)

    def _example(self, task: str) -> str:
        """Returns the recommendations and ratings of the expert in a game of its own."""
        world, rng = make_world(task, len(self.titles)), task_rng(task, "bandit users")
        state = State(draw_user(world, rng))
        for _ in range(EXAMPLE_USERS):
            self._rate(state, world, self._best(state), rng)
        return state.told

    def _parse(self, action: str) -> str:
        """Returns the title of an action, which may have the genre behind it as it is shown."""
        genres = make_world(self.task, len(self.titles)).genres
        shown = [f"{title} ({genre})" for title, genre in zip(self.titles, genres, strict=True)]
        known = (*self.titles, *shown)  # as one list: another genre is no note behind a title
        found = None if action in self._numbers else match_action(action, known)
        return self.titles[known.index(found) % len(shown)] if found else action

    def _advance(self, action: str) -> TimeStep:
        film = self._numbers.get(action)
        if film is None:
            return self._invalid(
                f"Answer with the title of one film, for example: {self.titles[0]}"
            )
        world = make_world(self.task, len(self.titles))
        if not self.history:
            self.state.told = ""
        return self._look(self._rate(self.state, world, film, self.np_random))

    def _rate(self, state: State, world: World, film: int, rng: np.random.Generator) -> float:
        """Recommends a film to the current user, and draws the next one. Returns the rating."""
        liked = ratings(world, state.user)
        state.regret += float(liked.max() - liked[film])
        state.chance += float(liked.max() - liked.mean())
        noisy = float(liked[film]) + self.noise * float(rng.standard_normal())
        paid = round(min(max(noisy, 0.0), 1.0), 2)
        state.told += f"\n{self._person(state.user)}: {self.titles[film]}, rating {paid:.2f}"
        state.users.append(state.user)
        state.shown.append(film)
        state.paid.append(paid)
        state.user = draw_user(world, rng)
        return paid

    def _person(self, user: User) -> str:
        taste = ", " + " ".join(f"{x:.2f}" for x in user.taste) if self.taste else ""
        return f"{user.occupation}, {user.age}{taste}"

    def _look(self, paid: float) -> TimeStep:
        state, played = self.state, len(self.state.shown)
        genres = make_world(self.task, len(self.titles)).genres
        films = ", ".join(f"{t} ({genre})" for t, genre in zip(self.titles, genres, strict=True))
        over = played >= self.rounds
        asks = f"Round {played + 1} of {self.rounds}. Now: {self._person(state.user)}"
        asks += self._scores() * (self.support and not over)
        before = f"{'So far' if self.history else 'Last'}:{state.told or ' nothing'}"
        return TimeStep(
            text=f"Films: {films}\n{before}\n{'All users have been served.' if over else asks}",
            rewards={"task": paid / self.rounds},
            terminated=over,
            success=over and state.regret < state.chance / 2,
            progress=max(0.0, 1 - state.regret / state.chance) if state.chance else 0.0,
            admissible=() if over else self.titles,
        )

    def _info(self, step: TimeStep) -> dict[str, Any]:
        return {**super()._info(step), "regret": self.state.regret}

    def privileged_text(self) -> str:
        """Returns the rounds left, the regret, and how the current user rates all films."""
        state = self.state
        liked = ratings(make_world(self.task, len(self.titles)), state.user)
        films = ", ".join(f"{t} {x:.2f}" for t, x in zip(self.titles, liked, strict=True))
        left = self.rounds - len(state.shown)
        return f"Rounds left: {left}. Regret: {state.regret:.2f}. Ratings: {films}."

    def _bounds(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Returns LinUCB's estimates and bonuses for the current user."""
        contexts = contexts_of([*state.users, state.user], self.taste)
        return lin_ucb(contexts, state.shown, state.paid, len(self.titles))

    def _scores(self) -> str:
        """Returns the estimates, bonuses and scores of all films as text."""
        estimates, bonuses = self._bounds(self.state)
        return "".join(
            f"\n{title}: estimate {0.5 + estimate:.4f}, bonus {bonus:.4f}, "
            f"score {0.5 + estimate + bonus:.4f}"
            for title, estimate, bonus in zip(self.titles, estimates, bonuses, strict=True)
        )

    def _best(self, state: State) -> int:
        estimates, bonuses = self._bounds(state)
        return int((estimates + bonuses).round(9).argmax())

    def expert(self) -> str | None:
        """Returns the film with LinUCB's highest upper confidence bound."""
        return self.titles[self._best(self.state)]


_SUPPORT = (
    "For each film you see an estimate of the current user's rating, an exploration bonus, which "
    "is high if the film was seldom recommended to similar users, and their sum as its score. A "
    "good player recommends the film with the highest score."
)
