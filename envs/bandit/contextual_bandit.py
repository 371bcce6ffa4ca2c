"""ContextualBandit: recommend films to a stream of users and learn who likes what."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.core import TextEnv, TimeStep, TurnLimit
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks, task_rng

ARMS = {"easy": 10, "hard": 30}
"""How many films there are to choose from (EVOLvE's two sizes)."""
LENGTH = 5
"""Numbers that say a user's taste (EVOLvE's rank)."""
OCCUPATIONS = ("baker", "nurse", "teacher", "farmer", "engineer", "painter")
GENRES = ("adventure", "comedy", "drama", "mystery", "science fiction")
FIRST = ("Silent", "Golden", "Broken", "Distant", "Hidden", "Burning")
SECOND = ("Harbour", "Orchard", "Compass", "Letter", "Winter")
RIDGE, WIDTH = 0.3, 0.055
TITLES = tuple(f"{first} {second}" for second in SECOND for first in FIRST)


@dataclass
class User:
    """Who asks for a film: what is said of them, and their taste."""

    age: int
    occupation: str
    taste: tuple[float, ...]


@dataclass
class State:
    """What has happened.

    Attributes:
        user: who asks now.
        users: who asked before.
        shown: the film each of them was recommended, by number.
        paid: how each of them liked it.
        told: the same as text.
        regret: what the best films would have been liked more, noise aside.
        chance: that regret for films picked at random.
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
    """The films of a task and what people like.

    Attributes:
        genres: the genre of each film.
        films: what the films are like, shape (arms, 5), rows of length 1.
        leanings: the tastes of occupations, shape (6, 5), rows of length 1.
        ageing: how taste changes with age, shape (5,).
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
    """Returns a user, whose taste follows in part from occupation and age."""
    occupation, age = int(rng.integers(len(OCCUPATIONS))), int(rng.integers(16, 80))
    leaning = world.leanings[occupation] + world.ageing * (age - 48) / 32
    # Adding 0.0 turns -0.0, which would be shown as "-0.00", into 0.0.
    taste = unit(leaning + 0.8 * unit(rng.standard_normal(LENGTH)))
    return User(age, OCCUPATIONS[occupation], tuple(round(float(x), 2) + 0.0 for x in taste))


def ratings(world: World, user: User) -> np.ndarray:
    """Returns how a user likes each film, noise aside: in [0, 1], shape (arms,)."""
    return np.clip(0.5 + 0.5 * (world.films @ np.array(user.taste)), 0.0, 1.0)


def lin_ucb(contexts: np.ndarray, shown: list[int], paid: list[float], arms: int) -> np.ndarray:
    """Returns LinUCB's upper confidence bound of each arm for the last context; shape (arms,).

    Li et al. (arXiv 1003.0146), algorithm 1: a linear model for each arm, here of what is paid
    above 0.5; `RIDGE` and `WIDTH` suit games of this length (1 and 0.5 there and in EVOLvE).

    Args:
        contexts: those of the rounds played, then the one to act in; shape (rounds + 1, d).
        shown: the arms played.
        paid: what they paid.
        arms: how many there are.
    """
    past, now = contexts[:-1], contexts[-1]
    size = len(now)
    played = (np.arange(arms)[:, None] == np.array(shown, dtype=int)).astype(float)
    squares = (past[:, :, None] * past[:, None, :]).reshape(-1, size * size)
    gram = RIDGE * np.eye(size) + (played @ squares).reshape(arms, size, size)
    target = played @ (past * (np.array(paid) - 0.5)[:, None])
    weights = np.linalg.solve(gram, np.broadcast_to(now[:, None], (arms, size, 1)))[..., 0]
    return (weights * target).sum(axis=1) + WIDTH * np.sqrt(weights @ now)


def contexts_of(users: list[User], taste: bool) -> np.ndarray:
    """Returns what is shown of users as numbers, shape (users, d): taste, or age and occupation."""
    if taste:
        return np.array([user.taste for user in users])
    rows = [[(u.age - 48) / 32, *(float(u.occupation == o) for o in OCCUPATIONS)] for u in users]
    return np.array(rows)


class ContextualBandit(TextEnv):
    """Recommend a film to each of many users and find out which films please whom.

    ## Description
    A contextual bandit in the form of EVOLvE's MovieLens task, in worlds of our own: how a user
    likes a film is the product of the user's taste, 5 numbers, and what the film is like, 5 numbers
    nobody tells. Films of one genre are alike, and so are people of one occupation and age.

    ## Action Space
    Text: the title of a film.

    ## Observation Space
    Text: the films and their genres; all recommendations so far and how they were liked, or just
    the last one (`history`); and the user who asks now: occupation, age and, with `taste`, the 5
    numbers.

    ## Rewards
    Term `task`: how the user likes the film, from 0 to 1, divided by `rounds`.

    ## Starting State
    Films and what people like are drawn by the task's name; users, and noise, by the episode's
    seed.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns`.

    ## Information
    The common keys. `success`: at the end the regret - what the best film for each user would have
    been liked more, noise aside - is below half of that of picking films at random. `progress`: 1
    minus the regret as a share of that of picking at random. `regret`: itself, so far.

    ## Arguments
    `difficulty`: "easy" (10 films) or "hard" (30). `rounds`: default 100. `noise`: standard
    deviation of how a film is liked; default 0. `taste`: whether the 5 numbers are shown; without
    them only the profile tells. `history`: default True. `max_turns`: default twice the rounds.

    ## Example Transcript
    ```
    Films: Silent Harbour (drama), Golden Harbour (comedy), ...
    So far: nothing
    Round 1 of 100. Now: nurse, 34, 0.12 -0.40 0.83 0.05 -0.37
    > Silent Harbour
    Films: Silent Harbour (drama), Golden Harbour (comedy), ...
    So far:
    nurse, 34, 0.12 -0.40 0.83 0.05 -0.37: Silent Harbour, liked 0.62
    Round 2 of 100. Now: baker, 61, 0.55 0.11 -0.20 0.80 0.02
    ```

    ## Baselines
    200 test tasks, mean return and success: `ContextualBandit-v0` random 0.50, 0 %; expert 0.71,
    99.5 % (at best 0.80). `ContextualBandit-Hard-v0` random 0.50, 0 %; expert 0.73, 98 % (at best
    0.87). `ContextualBandit-Profile-v0` random 0.50, 0 %; expert 0.66, 74 % (at best 0.80).

    ## Registered Configurations
    `ContextualBandit-v0`: 10 films. `ContextualBandit-Hard-v0`: 30 films, 200 rounds, noise 0.1,
    without history. `ContextualBandit-Profile-v0`: 10 films, 200 rounds, the profile alone.

    ## References
    EVOLvE (arXiv 2410.06238): 10 or 30 films, 5 numbers a user besides the profile, ratings without
    noise; it takes them from MovieLens. The expert is LinUCB (Li et al., arXiv 1003.0146).

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
        super().__init__(max_turns=2 * rounds if max_turns == "auto" else max_turns, **kwargs)
        self.titles = TITLES[: ARMS[difficulty]]
        self._numbers = {title: i for i, title in enumerate(self.titles)}
        self.rounds, self.noise, self.taste, self.history = rounds, noise, taste, history
        self.tasks = Tasks.generated()
        self.instructions = (
            f"{rounds} users ask you for a film, one after the other. Each says how much they like "
            "the one you recommend, from 0 to 1; that depends on their taste and on the film"
            + (", and a little on chance. " if noise else ". ")
            + "Please them as much as you can in all: find out which films please whom. Films of "
            "one genre are alike, and so are people of one occupation and age. Of each user you "
            "learn "
            + ("occupation, age and taste in 5 numbers." if taste else "occupation and age.")
            + ("" if history else " Only the last answer is shown to you: remember the others.")
            + f" Each turn, say one of the titles: {', '.join(self.titles)}."
        )

    def _start(self, task: str) -> TimeStep:
        world = make_world(task, len(self.titles))
        self.state = State(draw_user(world, self.np_random))
        return self._look(0.0)

    def _advance(self, action: str) -> TimeStep:
        film = self._numbers.get(action)
        if film is None:
            return self._invalid("Say the title of one of the films.")
        state, world = self.state, make_world(self.task, len(self.titles))
        liked = ratings(world, state.user)
        state.regret += float(liked.max() - liked[film])
        state.chance += float(liked.max() - liked.mean())
        noisy = float(liked[film]) + self.noise * float(self.np_random.standard_normal())
        paid = round(min(max(noisy, 0.0), 1.0), 2)
        told = f"\n{self._person(state.user)}: {self.titles[film]}, liked {paid:.2f}"
        state.told = state.told + told if self.history else told
        state.users.append(state.user)
        state.shown.append(film)
        state.paid.append(paid)
        state.user = draw_user(world, self.np_random)
        return self._look(paid)

    def _person(self, user: User) -> str:
        taste = ", " + " ".join(f"{x:.2f}" for x in user.taste) if self.taste else ""
        return f"{user.occupation}, {user.age}{taste}"

    def _look(self, paid: float) -> TimeStep:
        state, played = self.state, len(self.state.shown)
        genres = make_world(self.task, len(self.titles)).genres
        films = ", ".join(f"{t} ({genre})" for t, genre in zip(self.titles, genres, strict=True))
        over = played >= self.rounds
        asks = f"Round {played + 1} of {self.rounds}. Now: {self._person(state.user)}"
        before = f"{'So far' if self.history else 'Last'}:{state.told or ' nothing'}"
        return TimeStep(
            text=f"Films: {films}\n{before}\n{'All have asked.' if over else asks}",
            rewards={"task": paid / self.rounds},
            terminated=over,
            success=over and state.regret < state.chance / 2,
            progress=max(0.0, 1 - state.regret / state.chance) if state.chance else 0.0,
            admissible=() if over else self.titles,
        )

    def _info(self, step: TimeStep) -> dict[str, Any]:
        return {**super()._info(step), "regret": self.state.regret}

    def expert(self) -> str | None:
        """Returns the film with LinUCB's highest upper confidence bound."""
        state = self.state
        contexts = contexts_of([*state.users, state.user], self.taste)
        bounds = lin_ucb(contexts, state.shown, state.paid, len(self.titles))
        return self.titles[int(bounds.round(9).argmax())]
